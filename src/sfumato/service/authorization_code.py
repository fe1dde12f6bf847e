"""Signing in with an identity provider: the authorization code flow of OpenID Connect, with PKCE (RFC 7636).

    find_location -> the provider's page -> a code comes back -> find_analyst: code and verifier -> ID token -> analyst

The addresses of the provider are in its discovery document. Its ID tokens are judged as all tokens are (`oidc`), for
the audience `client_id` and for one nonce.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from sfumato.config import Oidc
from sfumato.errors import ConfigError, Failed
from sfumato.service.oidc import CachedDocument, Fetch, KeySet, TokenVerifier, check_url, fetch, is_trusted, post

Post: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, str]], bytes]

AWAY = "the identity provider cannot be reached"
PLACE = "/.well-known/openid-configuration"
REFUSED = (400, 401, 403)
"""What a provider answers to a code that it does not take. Everything else is a failure of its own."""

SCOPES = {"sub": "openid", "email": "openid email"}
SECRET = "service.oidc.client_secret_file"  # noqa: S105 (the name of a setting)
MAX_SECRET_BYTES = 4096

_LOG = logging.getLogger("sfumato.service")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where people sign in, where a code becomes a token, and whether a secret goes there in a header."""

    authorization: str
    token: str
    takes_header: bool

    @classmethod
    def read(cls, issuer: str, document: bytes) -> Endpoints:
        """Those of a discovery document. Raises ValueError if it is none of this issuer."""
        said = json.loads(document)
        if not isinstance(said, dict) or said.get("issuer") != issuer:
            raise ValueError("not of this issuer")
        authorization, token = said.get("authorization_endpoint"), said.get("token_endpoint")
        for place in (authorization, token):
            if not isinstance(place, str) or not is_trusted(place) or "#" in place:
                raise ValueError("without addresses that can be trusted")
        methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        takes_header = not isinstance(methods, list) or "client_secret_basic" in methods or not methods
        return cls(str(authorization), str(token), takes_header)


class Discovery(CachedDocument[Endpoints]):
    """The provider's addresses, read from the place that its issuer gives."""

    _failure = "the addresses of the identity provider could not be fetched"

    def __init__(self, issuer: str, fetch: Fetch) -> None:
        check_url("service.oidc.issuer", issuer)
        super().__init__(issuer.removesuffix("/") + PLACE, partial(Endpoints.read, issuer), fetch)


class CodeFlow:
    """Signs people in with the provider. Thread-safe. The methods block, so they belong in worker threads.

    `redirect_uri` is the one address that the provider sends people back to.
    """

    def __init__(self, oidc: Oidc, redirect_uri: str, *, fetch: Fetch = fetch, post: Post = post) -> None:
        self._issuer, self._client, self._redirect_uri = oidc.issuer, oidc.client_id or "", redirect_uri
        self._scope = SCOPES.get(oidc.claim, "openid profile")
        self._secret = None if oidc.client_secret_file is None else read_secret(oidc.client_secret_file)
        self._discovery, self._post = Discovery(oidc.issuer, fetch), post
        self._tokens = TokenVerifier(replace(oidc, audience=self._client), KeySet(oidc.jwks_url, fetch))

    def find_location(self, state: str, nonce: str, challenge: str) -> str:
        """Where at the provider this sign-in goes on. Raises `Failed` if the provider cannot be reached."""
        place = urlsplit(self._find_endpoints().authorization)
        sent = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": self._redirect_uri,
            "scope": self._scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        kept = [pair for pair in parse_qsl(place.query, keep_blank_values=True) if pair[0] not in sent]
        return place._replace(query=urlencode([*kept, *sent.items()])).geturl()

    def is_issuer(self, text: str | None) -> bool:
        """Whether what came back says to be of this provider (RFC 9207), or says nothing about it."""
        return text is None or text == self._issuer

    def find_analyst(self, code: str, verifier: str, nonce: str, now: datetime) -> str | None:
        """The name in the token for a code; None if the code or the token is not valid, for any reason.

        Raises `Failed` if the provider cannot be reached.
        """
        token = self._redeem(code, verifier)
        return None if token is None else self._tokens.analyst(token, now, nonce)

    def _find_endpoints(self) -> Endpoints:
        endpoints = self._discovery.content
        if endpoints is None:
            raise Failed(AWAY)
        return endpoints

    def _redeem(self, code: str, verifier: str) -> str | None:
        endpoints = self._find_endpoints()
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        proof, headers = self._prove(endpoints)
        try:
            reply: Any = json.loads(self._post(endpoints.token, fields | proof, headers))
        except HTTPError as error:
            if error.code not in REFUSED:
                raise Failed(AWAY) from None
            _LOG.warning("the identity provider refused a code", extra={"fields": {"status": error.code}})
            return None
        except (OSError, HTTPException, ValueError, RecursionError):
            raise Failed(AWAY) from None
        token = reply.get("id_token") if isinstance(reply, dict) else None
        return token if isinstance(token, str) else None

    def _prove(self, endpoints: Endpoints) -> tuple[dict[str, str], dict[str, str]]:
        """Who asks for the token: fields of the form, and headers."""
        if self._secret is None:
            return {"client_id": self._client}, {}
        if not endpoints.takes_header:
            return {"client_id": self._client, "client_secret": self._secret}, {}
        pair = f"{quote_plus(self._client)}:{quote_plus(self._secret)}"
        return {}, {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def read_secret(path: Path) -> str:
    """The secret that the provider gave. Raises `ConfigError` where there is none, or where others can read it."""
    try:
        with path.open("rb") as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(MAX_SECRET_BYTES + 1)
        secret = content.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ConfigError(SECRET, f"{str(path)!r} cannot be read as text") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(SECRET, f"{str(path)!r} can be read by others; run: chmod 600 {str(path)!r}")
    if not secret or len(content) > MAX_SECRET_BYTES:
        raise ConfigError(SECRET, f"{str(path)!r} must hold the secret, and nothing else")
    return secret
