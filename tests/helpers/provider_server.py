"""An identity provider over HTTP, on this machine: discovery, sign-in, tokens for codes, keys."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.helpers.identity_provider import merge, published_keys, token

CLIENT = "sfumato-pages"


@dataclass
class ProviderServer:
    """A provider that keeps to the rules. What a test changes is `claims`, of tokens, and `discovery`."""

    issuer: str
    analyst: str = "anna"
    secret: str | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    discovery: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    """Of what its token endpoint answers."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    """The forms that came to the token endpoint."""

    def config(self, **more: str) -> str:
        given = {"issuer": self.issuer, "audience": "sfumato", "jwks_url": f"{self.issuer}/keys", "client_id": CLIENT}
        return "[service.oidc]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in (given | more).items())

    def sign_in(self, location: str) -> str:
        """What the person does at the provider: signs in, and is sent back. Returns where to."""
        parts = urlsplit(location)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        sent = dict(parse_qsl(parts.query, strict_parsing=True))
        assert (sent["response_type"], sent["client_id"], sent["code_challenge_method"]) == ("code", CLIENT, "S256")
        assert "openid" in sent["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = sent
        return f"{sent['redirect_uri']}?{urlencode({'code': code, 'state': sent['state'], 'iss': self.issuer})}"

    def describe(self) -> bytes:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return merge(usual, self.discovery)

    def redeem(self, form: Mapping[str, str], authorization: str | None) -> tuple[int, dict[str, str]]:
        """A token for a code that was not used, if the verifier fits and the client proves itself."""
        self.asked.append(dict(form))
        if self.status != 200:
            return self.status, {"error": "temporarily_unavailable"}
        client, secret = form.get("client_id"), form.get("client_secret")
        if authorization is not None:
            client, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if client != CLIENT or secret != self.secret:
            return 401, {"error": "invalid_client"}
        sent = self.codes.pop(form.get("code", ""), None)
        if sent is None or form.get("redirect_uri") != sent["redirect_uri"] or not fits(form, sent):
            return 400, {"error": "invalid_grant"}
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": self.analyst, "nonce": sent["nonce"], **self.claims}
        return 200, {"id_token": token(claims=claims), "access_token": "opaque", "token_type": "Bearer"}


def fits(form: Mapping[str, str], sent: Mapping[str, str]) -> bool:
    """Whether the verifier of a form is that of the challenge that was sent."""
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == sent["code_challenge"]


@contextmanager
def serve_provider() -> Iterator[ProviderServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/authorize?"):  # a person in a browser, who is signed in there
                self.reply(302, b"", location=provider.sign_in(provider.issuer + self.path))
                return
            found = {"/.well-known/openid-configuration": provider.describe, "/keys": published_keys}.get(self.path)
            self.reply(404, b"") if found is None else self.reply(200, found())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            assert self.path == "/token"
            status, content = provider.redeem(dict(parse_qsl(body)), self.headers["authorization"])
            self.reply(status, json.dumps(content).encode())

        def reply(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = ProviderServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, name="provider")
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
