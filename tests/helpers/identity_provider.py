"""An identity provider for tests: its keys, and tokens signed with them."""

from __future__ import annotations

import base64
import functools
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sfumato.config import Oidc
from sfumato.service.oidc import KeySet, TokenVerifier

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
MOMENT = int(NOW.timestamp())
OIDC = Oidc("https://login.example/", "https://sfumato.example", "https://login.example/keys", "sub", leeway_s=60)
MISSING = object()

CURVES = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1(), "secp256k1": ec.SECP256K1()}
FITTING = {
    **dict.fromkeys(["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"], "RSA"),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
}
PUBLISHED = ("RSA", "RSA two", "P-256", "P-384", "P-521", "Ed25519")
FOREIGN = {"RS256": "RSA foreign", "PS256": "RSA foreign", "ES256": "P-256 foreign", "EdDSA": "Ed25519 foreign"}


# -- the provider --


@functools.cache
def private_key(name: str) -> Any:
    """The private key of this name, which is one of its kind."""
    kind = name.split()[0]
    if kind == "RSA":
        return rsa.generate_private_key(65537, 1024 if "weak" in name else 2048)
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    return ed448.Ed448PrivateKey.generate() if kind == "Ed448" else ec.generate_private_key(CURVES[kind])


def jwk(name: str, **changes: Any) -> dict[str, Any]:
    """A public key as the provider publishes it; a change to MISSING leaves a part out."""
    kind = name.split()[0]
    algorithm = {"RSA": "RS256", "secp256k1": "ES256K"}.get(kind, "EdDSA" if kind.startswith("Ed") else "ES256")
    told = jwt.get_algorithm_by_name(algorithm).to_jwk(private_key(name).public_key(), as_dict=True)
    told = {key: value for key, value in told.items() if key != "key_ops"}
    return without_missing({**told, "kid": name, "use": "sig", **changes})


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@functools.cache
def published_keys() -> bytes:
    return jwks(*map(jwk, PUBLISHED), jwk("RSA", kid="RS256 only", alg="RS256"))


@functools.cache
def default_keys() -> KeySet:
    return KeySet(OIDC.jwks_url, lambda _: published_keys())


def without_missing(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not MISSING}


# -- its tokens --


def encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def public_pem(name: str) -> bytes:
    return private_key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signature(text: str, key: str | bytes, algorithm: str) -> bytes:
    if algorithm == "none":
        return b""
    if isinstance(key, bytes):
        return hmac.digest(key, text.encode(), f"sha{algorithm[2:]}")
    return jwt.get_algorithm_by_name(algorithm).sign(text.encode(), private_key(key))


def token(
    algorithm: str = "RS256",
    key: str | bytes | None = None,
    *,
    signed: str | None = None,
    header: Any = None,
    claims: Any = None,
    then: Callable[[str], str] = lambda text: text,
) -> str:
    """A good token, but for what is changed: who signs it (a name, or a shared secret), how it is really `signed`, its
    header, its claims (parts of them, or all of the bytes), and what is done to it afterwards."""
    key = FITTING[algorithm] if key is None else key
    names = {"alg": algorithm, "kid": key if isinstance(key, str) else "RSA", "typ": "JWT"}
    said = {"iss": OIDC.issuer, "aud": OIDC.audience, "sub": "anna", "exp": MOMENT + 300, "iat": MOMENT, "nbf": MOMENT}
    parts = [content if isinstance(content, bytes) else merge(base, content) for base, content in
             ((names, header), (said, claims))]  # fmt: skip
    text = ".".join(map(encode, parts))
    return then(f"{text}.{encode(signature(text, key, signed or algorithm))}")


def merge(base: dict[str, Any], changes: dict[str, Any] | None) -> bytes:
    return json.dumps(without_missing({**base, **(changes or {})})).encode()


def analyst_of(text: str, oidc: Oidc = OIDC, keys: KeySet | None = None, now: datetime = NOW) -> str | None:
    return TokenVerifier(oidc, keys or default_keys()).analyst(text, now)
