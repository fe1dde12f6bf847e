"""Tokens of an identity provider (OIDC): JWTs, checked against the public keys that the provider publishes (JWKS).

A token is accepted if all of this holds: the provider's key with the token's `kid` signed it; the algorithm is
asymmetric and fits the key; issuer and audience are the configured ones; the time claims fit the present moment; the
configured claim is text. A token cannot choose how it is checked: one that brings its own key, or the URL of one, is
refused. Why this is not `jwt.PyJWKClient`: docs/adr/0007-provider-keys.md.
"""

from __future__ import annotations

import hmac
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
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from sfumato.config import Oidc
from sfumato.errors import ConfigError

T = TypeVar("T")
Fetch: TypeAlias = Callable[[str], bytes]

MAX_TOKEN_CHARACTERS = 8192
TOKEN_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

REFRESH_S = 600
"""Keys older than this are fetched again. A withdrawn key is trusted at most this long."""
MIN_INTERVAL_S = 30
"""Minimum time between two fetches, whatever tokens arrive."""
MAX_AGE_S = 24 * 3600
"""Keys are trusted at most this long while the provider cannot be reached."""
MAX_FETCH_S = 5
MAX_BYTES = 1 << 18

_ALGORITHMS_BY_KEY: Mapping[tuple[str, str | None], frozenset[str]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}
ALGORITHMS = frozenset[str]().union(*_ALGORITHMS_BY_KEY.values())

# Keys and URLs of keys inside the token, extensions that a verifier must understand, and encryption.
_REFUSED_HEADERS = frozenset({"jwk", "jku", "x5u", "x5c", "crit", "b64", "enc", "zip"})
_RSA_BITS = range(2048, 8192 + 1)
_MAX_TIMESTAMP = 2**53

_LOG = logging.getLogger(__name__)


class TokenVerifier:
    """Finds the analyst that a token of one provider names. Thread-safe."""

    def __init__(self, oidc: Oidc, keys: KeySet) -> None:
        self._oidc, self._keys = oidc, keys

    def analyst(self, token: str, now: datetime, nonce: str | None = None) -> str | None:
        """The analyst's name, or None if the token is not valid for any reason. May block on a fetch of keys.

        With a `nonce`, the token must have been issued to the audience itself, for the sign-in with this nonce.
        """
        if len(token) > MAX_TOKEN_CHARACTERS or not TOKEN_SHAPE.fullmatch(token):
            return None
        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.find(header.get("kid"), header["alg"]) if _is_plain(header) else None
            claims = None if key is None else self._claims(token, key)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        if claims is None or not self._is_current(claims, now):
            return None
        return self._name(claims) if nonce is None or self._is_for(claims, nonce) else None

    def _claims(self, token: str, key: PublicKey) -> dict[str, Any]:
        # The time claims are checked by `_is_current`: PyJWT uses its own clock, and reads text and true as numbers.
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

    def _is_current(self, claims: Mapping[str, Any], now: datetime) -> bool:
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        # NaN is not below the maximum either.
        if not all(type(value) in (int, float) and abs(value) < _MAX_TIMESTAMP for value in times.values()):
            return False
        present, leeway = now.timestamp(), self._oidc.leeway_s
        expires = times.pop("exp")
        return bool(expires > present - leeway and all(begins <= present + leeway for begins in times.values()))

    def _is_for(self, claims: Mapping[str, Any], nonce: str) -> bool:
        said, party = claims.get("nonce"), claims.get("azp", self._oidc.audience)
        is_ours = party == self._oidc.audience
        return is_ours and isinstance(said, str) and hmac.compare_digest(said.encode(), nonce.encode())

    def _name(self, claims: Mapping[str, Any]) -> str | None:
        # Some providers let users enter any e-mail address; only a verified one is proof of identity.
        if self._oidc.claim == "email" and claims.get("email_verified") is not True:
            return None
        name = claims.get(self._oidc.claim)
        return name if isinstance(name, str) else None


def _is_plain(header: Mapping[str, Any]) -> bool:
    """Whether a token header asks for a signature by one of the provider's keys, and for nothing else."""
    kind, algorithm = header.get("typ", "JWT"), header.get("alg")
    if not isinstance(kind, str) or not isinstance(algorithm, str):
        return False
    is_jwt = kind.lower().removeprefix("application/") in ("jwt", "at+jwt")
    return is_jwt and algorithm in ALGORITHMS and not header.keys() & _REFUSED_HEADERS


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key of the provider, and the algorithms that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any

    @classmethod
    def from_jwk(cls, jwk: Mapping[str, Any]) -> PublicKey | None:
        """The key in a JWK; None if it is secret, weak, malformed, or not for checking signatures."""
        kid, operations = jwk.get("kid"), jwk.get("key_ops", ["verify"])
        verifies = jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
        # "d" is in every private key, "k" in every shared one: any reader of the JWKS could sign with them.
        if not isinstance(kid, str | None) or jwk.keys() & {"d", "k"} or not verifies:
            return None
        try:
            algorithms = _ALGORITHMS_BY_KEY[jwk["kty"], None if jwk["kty"] == "RSA" else jwk["crv"]]
            if "alg" in jwk:
                algorithms &= {jwk["alg"]}
            key = jwt.PyJWK(dict(jwk), algorithm=min(algorithms)).key
        except (KeyError, TypeError, ValueError, AttributeError, jwt.PyJWTError, UnsupportedAlgorithm):
            return None
        if jwk["kty"] == "RSA" and key.key_size not in _RSA_BITS:
            return None
        return cls(kid, algorithms, key)


def public_keys(document: bytes) -> tuple[PublicKey, ...]:
    """The usable keys of a JWKS document. Raises ValueError if it is not one."""
    jwks = json.loads(document)
    if not isinstance(jwks, dict) or not isinstance(jwks.get("keys"), list):
        raise ValueError("not a set of keys")
    keys = [PublicKey.from_jwk(jwk) for jwk in jwks["keys"] if isinstance(jwk, dict)]
    return tuple(key for key in keys if key is not None)


class CachedDocument(Generic[T]):
    """A document of the provider: fetched on demand, at most once per `MIN_INTERVAL_S`, and cached. Thread-safe.

    One thread fetches at a time. Other threads use the cached document meanwhile, and wait only if there is none: they
    must not all be blocked while the provider is slow. `read` raises ValueError for what is not such a document.
    """

    _failure = "a document of the identity provider could not be fetched"

    def __init__(
        self, url: str, read: Callable[[bytes], T], fetch: Fetch, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._url, self._read, self._fetch, self._monotonic = url, read, fetch, monotonic
        self._lock = threading.Lock()
        self._content: T | None = None
        self._tried_at = self._fetched_at = -math.inf

    @property
    def content(self) -> T | None:
        """What was read last, unless it is older than `MAX_AGE_S`. One that is not fresh any more is fetched again."""
        if self._monotonic() - self._fetched_at > REFRESH_S:
            self.refresh(wait=self._content is None)
        return None if self._monotonic() - self._fetched_at > MAX_AGE_S else self._content

    def refresh(self, *, wait: bool) -> None:
        """Fetch it again, unless it was tried a moment ago; or, without `wait`, if another thread does."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._monotonic() - self._tried_at < MIN_INTERVAL_S:
                return
            self._tried_at = self._monotonic()
            self._content = self._read(self._fetch(self._url))
            self._fetched_at = self._monotonic()
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            _LOG.warning(self._failure, extra={"fields": {"problem": type(error).__name__}})
        finally:
            self._lock.release()


class KeySet(CachedDocument[tuple[PublicKey, ...]]):
    """The provider's public keys. An unknown key has them fetched again."""

    _failure = "the keys of the identity provider could not be fetched"

    def __init__(self, url: str, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        check_url("service.oidc.jwks_url", url)
        super().__init__(url, public_keys, fetch, monotonic)

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """The only key with this `kid` and algorithm. Without a `kid`, the only key of a set of one without a `kid`."""
        key = self._lookup(kid, algorithm)
        if key is None:
            self.refresh(wait=not self._content)
            key = self._lookup(kid, algorithm)
        return key

    def _lookup(self, kid: str | None, algorithm: str) -> PublicKey | None:
        keys = self.content or ()
        if kid is None and len(keys) != 1:
            return None
        matches = [key for key in keys if key.kid == kid and algorithm in key.algorithms]
        return matches[0] if len(matches) == 1 else None


def is_trusted(url: str) -> bool:
    """Whether a reply from this URL cannot be changed on the way: HTTPS, or HTTP on this machine."""
    try:
        parts = urlsplit(url)
        is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
        return (is_local or parts.scheme == "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def check_url(setting: str, url: str) -> None:
    """Raise `ConfigError` unless replies from this URL can be trusted."""
    if not is_trusted(url):
        raise ConfigError(setting, "must begin with https:// and name a host, without a password")


class _NoRedirects(HTTPRedirectHandler):
    """Only the configured URL is trusted, not one that it redirects to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch(url: str) -> bytes:
    """GET a URL, without redirects, within `MAX_FETCH_S` seconds and `MAX_BYTES`."""
    return _send(Request(url, headers={"Accept": "application/jwk-set+json, application/json"}))  # noqa: S310


def post(url: str, fields: Mapping[str, str], headers: Mapping[str, str]) -> bytes:
    """POST a form to a URL, with the same limits."""
    accept = {"Accept": "application/json"}
    return _send(Request(url, urlencode(fields).encode(), {**accept, **headers}))  # noqa: S310


def _send(request: Request) -> bytes:
    end = time.monotonic() + MAX_FETCH_S
    try:
        response = build_opener(_NoRedirects()).open(request, timeout=MAX_FETCH_S)
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
