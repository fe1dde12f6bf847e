"""Tokens of an identity provider (OIDC): JWTs that it signed, checked against the public keys that it publishes.

A token is accepted if the provider's key that it names signed it, with an algorithm that fits the key and is
asymmetric; if it is from the configured issuer, for the configured audience, and of this moment; and if the configured
claim is text. Nothing in the token says how it is to be checked: keys and addresses that it brings along are refused.
"""

from __future__ import annotations

import json
import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from sfumato.config import Oidc
from sfumato.errors import ConfigError

Fetch: TypeAlias = Callable[[str], bytes]

MAX_CHARACTERS = 8192
SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

REFRESH_S = 600
"""Keys older than this are fetched again: one that the provider withdrew is not trusted for longer."""
EVERY_S = 30
"""At least this lies between two fetches, whatever tokens come in."""
KEPT_S = 24 * 3600
"""As long as this, keys that came are trusted while the provider cannot be reached."""
FETCH_S = 5
MAX_BYTES = 1 << 18

_FITTING: Mapping[tuple[str, str | None], frozenset[str]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
ALGORITHMS = frozenset[str]().union(*_FITTING.values())

# Keys and places of keys that a token brings along, parts that we would have to understand, and encryption.
_REFUSED = frozenset({"jwk", "jku", "x5u", "x5c", "crit", "b64", "enc", "zip"})
_RSA_BITS = range(2048, 8192 + 1)
_FAR = 2**53  # what is no number, or too large to be a moment, is not below it

_log = logging.getLogger(__name__)


class TokenVerifier:
    """Whom a token names, by the word of one provider. Thread-safe."""

    def __init__(self, oidc: Oidc, keys: KeySet) -> None:
        self._oidc, self._keys = oidc, keys

    def analyst(self, token: str, now: datetime) -> str | None:
        """The name in a token; None where anything at all is wrong with it. May wait for the provider's keys."""
        if len(token) > MAX_CHARACTERS or not SHAPE.fullmatch(token):
            return None
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(header.get("kid"), header["alg"]) if _is_plain(header) else None
            claims = None if key is None else self._claims(token, key)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        return self._name(claims) if claims is not None and self._is_timely(claims, now) else None

    def _claims(self, token: str, key: PublicKey) -> dict[str, Any]:
        # Moments are not left to PyJWT: it has a clock of its own, and reads text and true as numbers.
        return jwt.decode(
            token,
            key.key,
            algorithms=sorted(key.algorithms),
            audience=self._oidc.audience,
            issuer=self._oidc.issuer,
            options={
                "require": ["exp"],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )

    def _is_timely(self, claims: Mapping[str, Any], now: datetime) -> bool:
        moments = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        if not all(type(moment) in (int, float) and abs(moment) < _FAR for moment in moments.values()):
            return False
        moment, leeway = now.timestamp(), self._oidc.leeway_s
        expires = moments.pop("exp")
        return bool(expires > moment - leeway and all(begins <= moment + leeway for begins in moments.values()))

    def _name(self, claims: Mapping[str, Any]) -> str | None:
        # Providers let people write any address into their profile; only a verified one is theirs.
        if self._oidc.claim == "email" and claims.get("email_verified") is not True:
            return None
        name = claims.get(self._oidc.claim)
        return name if isinstance(name, str) else None


def _is_plain(header: Mapping[str, Any]) -> bool:
    """Whether a header asks for nothing but a signature by one of the provider's keys."""
    kind, algorithm = header.get("typ", "JWT"), header.get("alg")
    if not isinstance(kind, str) or not isinstance(algorithm, str):
        return False
    known = kind.lower().removeprefix("application/") in ("jwt", "at+jwt")
    return known and algorithm in ALGORITHMS and not header.keys() & _REFUSED


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key of the provider, and the algorithms that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


class KeySet:
    """The provider's public keys: fetched when they are needed, at most every `EVERY_S`, and kept.

    One thread fetches. Others go on with the keys that there are, and only wait for it where there are none: tokens
    that name unknown keys must not hold up everybody while the provider is slow.
    """

    def __init__(self, url: str, fetch: Fetch, ticks: Callable[[], float] = time.monotonic) -> None:
        _check_place(url)
        self._url, self._fetch, self._ticks = url, fetch, ticks
        self._lock = threading.Lock()
        self._keys: tuple[PublicKey, ...] = ()
        self._tried = self._came = -math.inf

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The one key of this name that fits the algorithm. A token without a name needs a set of one nameless key."""
        if self._ticks() - self._came > REFRESH_S:
            self._refresh(wait=False)
        found = self._known(kid, algorithm)
        if found is None:
            self._refresh(wait=not self._keys)
            found = self._known(kid, algorithm)
        return found

    def _known(self, kid: str | None, algorithm: str) -> PublicKey | None:
        keys = self._keys
        if self._ticks() - self._came > KEPT_S or (kid is None and len(keys) != 1):
            return None
        fitting = [key for key in keys if key.kid == kid and algorithm in key.algorithms]
        return fitting[0] if len(fitting) == 1 else None

    def _refresh(self, *, wait: bool) -> None:
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._ticks() - self._tried < EVERY_S:
                return
            self._tried = self._ticks()
            self._keys = public_keys(self._fetch(self._url))
            self._came = self._ticks()
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            told = {"problem": type(error).__name__}
            _log.warning("the keys of the identity provider could not be fetched", extra={"fields": told})
        finally:
            self._lock.release()


def public_keys(document: bytes) -> tuple[PublicKey, ...]:
    """The keys of a JWKS that signatures are checked with, without those that are secret, weak or for another use."""
    read = json.loads(document)
    if not isinstance(read, dict) or not isinstance(read.get("keys"), list):
        raise ValueError("not a set of keys")
    found = [_public_key(jwk) for jwk in read["keys"] if isinstance(jwk, dict)]
    return tuple(key for key in found if key is not None)


def _public_key(jwk: dict[str, Any]) -> PublicKey | None:
    kid = jwk.get("kid")
    # "d" is what every private key has, "k" what every shared one: whoever reads the set could sign with it.
    if not isinstance(kid, str | None) or jwk.keys() & {"d", "k"} or not _is_for_signatures(jwk):
        return None
    try:
        fitting = _FITTING[jwk["kty"], None if jwk["kty"] == "RSA" else jwk["crv"]]
        if "alg" in jwk:
            fitting &= {jwk["alg"]}
        key = jwt.PyJWK(jwk, algorithm=min(fitting)).key
    except (KeyError, TypeError, ValueError, AttributeError, jwt.PyJWTError, UnsupportedAlgorithm):
        return None
    if jwk["kty"] == "RSA" and key.key_size not in _RSA_BITS:
        return None
    return PublicKey(kid, fitting, key)


def _is_for_signatures(jwk: Mapping[str, Any]) -> bool:
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _check_place(url: str) -> None:
    """Whoever can change these keys on their way can be anybody."""
    try:
        place = urlsplit(url)
        here = place.scheme == "http" and place.hostname in ("127.0.0.1", "localhost", "::1")
        safe = (here or place.scheme == "https") and bool(place.hostname) and "@" not in place.netloc
    except ValueError:
        safe = False
    if not safe:
        raise ConfigError("service.oidc.jwks_url", "must begin with https:// and name a host, without a password")


class _NoRedirects(HTTPRedirectHandler):
    """The configured place is the one that is trusted, and no other that it points to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch(url: str) -> bytes:
    """What is at a place, within `FETCH_S` and `MAX_BYTES`."""
    end = time.monotonic() + FETCH_S
    request = Request(url, headers={"Accept": "application/jwk-set+json, application/json"})  # noqa: S310 (`KeySet` has checked it)
    try:
        response = build_opener(_NoRedirects()).open(request, timeout=FETCH_S)
    except HTTPError as error:
        error.close()
        raise
    document = b""
    with response:
        while chunk := response.read1(1 << 16):
            document += chunk
            if len(document) > MAX_BYTES or time.monotonic() > end:
                raise ValueError("too large or too slow")
    return document
