"""Tokens of an identity provider: good ones name their analyst; none that differs from a good one in one thing does."""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import HTTPError

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from sfumato.config import Oidc
from sfumato.errors import ConfigError
from sfumato.service import oidc
from sfumato.service.oidc import EVERY_S, KEPT_S, REFRESH_S, KeySet, TokenVerifier, public_keys

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
def private(name: str) -> Any:
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
    told = jwt.get_algorithm_by_name(algorithm).to_jwk(private(name).public_key(), as_dict=True)
    told = {key: value for key, value in told.items() if key != "key_ops"}
    return without_missing({**told, "kid": name, "use": "sig", **changes})


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


@functools.cache
def published() -> bytes:
    return jwks(*map(jwk, PUBLISHED), jwk("RSA", kid="RS256 only", alg="RS256"))


@functools.cache
def provider() -> KeySet:
    return KeySet(OIDC.jwks_url, lambda _: published())


def without_missing(parts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not MISSING}


# -- its tokens --


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def public_pem(name: str) -> bytes:
    return private(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signature(text: str, key: str | bytes, algorithm: str) -> bytes:
    if algorithm == "none":
        return b""
    if isinstance(key, bytes):
        return hmac.digest(key, text.encode(), f"sha{algorithm[2:]}")
    return jwt.get_algorithm_by_name(algorithm).sign(text.encode(), private(key))


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
    parts = [content if isinstance(content, bytes) else merged(base, content) for base, content in
             ((names, header), (said, claims))]  # fmt: skip
    text = ".".join(map(encoded, parts))
    return then(f"{text}.{encoded(signature(text, key, signed or algorithm))}")


def merged(base: dict[str, Any], changes: dict[str, Any] | None) -> bytes:
    return json.dumps(without_missing({**base, **(changes or {})})).encode()


def named(text: str, oidc: Oidc = OIDC, keys: KeySet | None = None, now: datetime = NOW) -> str | None:
    return TokenVerifier(oidc, keys or provider()).analyst(text, now)


def parts(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    return lambda text: ".".join(change(text.split(".")))


def flipped(text: str) -> str:
    """With one bit of its first six changed."""
    return ("A" if text[0] != "A" else "B") + text[1:]


def noncanonical(text: str) -> str:
    """Other text for the same bytes: the last character carries bits that are not used."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(text) % 4 in (2, 3)
    return text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1]


def resigned(content: str, change: dict[str, Any]) -> str:
    """A part of a token with something in it changed, and not signed for."""
    return encoded(json.dumps({**json.loads(base64.urlsafe_b64decode(content + "==")), **change}).encode())


GOOD: dict[str, dict[str, Any]] = {
    **{algorithm: {"algorithm": algorithm} for algorithm in FITTING},
    "another key": {"key": "RSA two"},
    "a key for one algorithm": {"header": {"kid": "RS256 only"}},
    "no type": {"header": {"typ": MISSING}},
    "type jwt": {"header": {"typ": "jwt"}},
    "type at+jwt": {"header": {"typ": "at+jwt"}},
    "type application/at+jwt": {"header": {"typ": "application/at+jwt"}},
    "a certificate's thumbprint": {"header": {"x5t": "abc"}},
    "one audience of several": {"claims": {"aud": ["account", OIDC.audience]}},
    "no iat": {"claims": {"iat": MISSING}},
    "no nbf": {"claims": {"nbf": MISSING}},
    "a fraction of a second": {"claims": {"exp": MOMENT + 0.5, "iat": MOMENT - 0.5}},
    "expired within the leeway": {"claims": {"exp": MOMENT - 59}},
    "issued at the end of the leeway": {"claims": {"iat": MOMENT + 60}},
    "not before the end of the leeway": {"claims": {"nbf": MOMENT + 60}},
    "claims that nobody asked for": {"claims": {"role": "owner", "groups": [{"a": None}]}},
}

BAD: dict[str, dict[str, Any]] = {
    # algorithms
    "alg none": {"header": {"alg": "none"}, "signed": "none"},
    "alg None": {"header": {"alg": "None"}, "signed": "none"},
    "alg NONE": {"header": {"alg": "NONE"}, "signed": "none"},
    "alg nOnE with a signature": {"header": {"alg": "nOnE"}},
    "alg empty": {"header": {"alg": ""}, "signed": "none"},
    "alg missing": {"header": {"alg": MISSING}},
    "alg null": {"header": {"alg": None}},
    "alg a list": {"header": {"alg": ["RS256"]}},
    "alg true": {"header": {"alg": True}},
    "alg in small letters": {"header": {"alg": "rs256"}},
    "alg with a space": {"header": {"alg": "RS256 "}},
    "alg unknown": {"header": {"alg": "RS1024"}},
    **{
        f"{algorithm} with the public key of {name}": {
            "key": public_pem(name),
            "signed": algorithm,
            "header": {"alg": algorithm, "kid": name},
        }
        for algorithm, name in [("HS256", "RSA"), ("HS384", "RSA"), ("HS512", "RSA"), ("HS256", "P-256")]
    },
    "HS256 with the raw public key": {
        "key": private("Ed25519").public_key().public_bytes(Encoding.Raw, PublicFormat.Raw),
        "signed": "HS256",
        "header": {"alg": "HS256", "kid": "Ed25519"},
    },
    "HS256 with the published set": {"key": published(), "signed": "HS256", "header": {"alg": "HS256"}},
    "HS256 with nothing": {"key": b" ", "signed": "HS256", "header": {"alg": "HS256"}},
    "HS256 said to be RS256": {"key": public_pem("RSA"), "signed": "HS256", "header": {"alg": "RS256"}},
    "RS256 said to be PS256": {"header": {"alg": "PS256"}},
    "PS256 said to be RS256": {"algorithm": "PS256", "header": {"alg": "RS256"}},
    "RS256 said to be RS512": {"header": {"alg": "RS512"}},
    "RS256 said to be ES256": {"header": {"alg": "ES256", "kid": "P-256"}},
    "another algorithm than the key is for": {"algorithm": "RS512", "header": {"kid": "RS256 only"}},
    "PS256 with a key for RS256": {"algorithm": "PS256", "header": {"kid": "RS256 only"}},
    "ES256 on another curve": {"algorithm": "ES384", "header": {"alg": "ES256"}},
    "ES256K": {"algorithm": "ES256K", "key": "secp256k1", "header": {"kid": "P-256"}},
    "EdDSA on another curve": {"algorithm": "EdDSA", "key": "Ed448", "header": {"kid": "Ed25519"}},
    # keys
    **{
        f"{algorithm} by a stranger": {"algorithm": algorithm, "key": key, "header": {"kid": FITTING[algorithm]}}
        for algorithm, key in FOREIGN.items()
    },
    "a stranger's own name": {"key": "RSA foreign"},
    "another key of the provider": {"key": "RSA two", "header": {"kid": "RSA"}},
    "a key of another kind": {"header": {"kid": "P-256"}},
    "kid missing": {"header": {"kid": MISSING}},
    "kid null": {"header": {"kid": None}},
    "kid empty": {"header": {"kid": ""}},
    "kid a number": {"header": {"kid": 0}},
    "kid a list": {"header": {"kid": ["RSA"]}},
    "kid an object": {"header": {"kid": {"RSA": "RSA"}}},
    "kid in small letters": {"header": {"kid": "rsa"}},
    "kid with a space": {"header": {"kid": "RSA "}},
    "kid a path": {"key": b"", "signed": "HS256", "header": {"alg": "HS256", "kid": "../../../../dev/null"}},
    "kid an injection": {"header": {"kid": "x' UNION SELECT 'RSA' --"}},
    "an embedded key": {"key": "RSA foreign", "header": {"kid": "RSA", "jwk": jwk("RSA foreign", kid="RSA")}},
    "an embedded key of the provider": {"header": {"jwk": jwk("RSA")}},
    "an embedded key and no kid": {"key": "RSA foreign", "header": {"kid": MISSING, "jwk": jwk("RSA foreign")}},
    "an address of keys": {"header": {"jku": "https://attacker.example/keys"}},
    "the provider's address of keys": {"header": {"jku": OIDC.jwks_url}},
    "an address of certificates": {"header": {"x5u": "https://attacker.example/cert"}},
    "a certificate": {"header": {"x5c": ["MIIB"]}},
    # the rest of the header
    "crit": {"header": {"crit": ["exp"], "exp": 1}},
    "crit empty": {"header": {"crit": []}},
    "crit with what PyJWT knows": {"header": {"crit": ["b64"], "b64": True}},
    "b64 false": {"header": {"b64": False, "crit": ["b64"]}},
    "b64 true": {"header": {"b64": True}},
    "compressed": {"header": {"zip": "DEF"}},
    "encrypted": {"header": {"enc": "A256GCM"}},
    "typ of something else": {"header": {"typ": "dpop+jwt"}},
    "typ of a logout": {"header": {"typ": "logout+jwt"}},
    "typ JWE": {"header": {"typ": "JWE"}},
    "typ null": {"header": {"typ": None}},
    "typ a list": {"header": {"typ": ["JWT"]}},
    "header a list": {"header": b'["RS256"]'},
    "header not JSON": {"header": b"{alg: RS256}"},
    "header not UTF-8": {"header": b'{"alg": "RS256", "kid": "\xff"}'},
    "header deep": {"header": b'{"alg":' + 2000 * b"[" + 2000 * b"]" + b"}"},
    # when
    "expired": {"claims": {"exp": MOMENT - 3600}},
    "expired at the end of the leeway": {"claims": {"exp": MOMENT - 60}},
    "expired in milliseconds": {"claims": {"exp": -MOMENT * 1000}},
    "exp missing": {"claims": {"exp": MISSING}},
    "exp null": {"claims": {"exp": None}},
    "exp text": {"claims": {"exp": str(MOMENT + 300)}},
    "exp true": {"claims": {"exp": True}},
    "exp a list": {"claims": {"exp": [MOMENT + 300]}},
    "exp NaN": {"claims": {"exp": float("nan")}},
    "exp infinite": {"claims": {"exp": float("inf")}},
    "exp beyond floats": {"claims": {"exp": 10**400}},
    "exp zero": {"claims": {"exp": 0}},
    "nbf later": {"claims": {"nbf": MOMENT + 61}},
    "nbf text": {"claims": {"nbf": str(MOMENT)}},
    "nbf null": {"claims": {"nbf": None}},
    "nbf false": {"claims": {"nbf": False}},
    "iat later": {"claims": {"iat": MOMENT + 61}},
    "iat text": {"claims": {"iat": str(MOMENT)}},
    "iat null": {"claims": {"iat": None}},
    # whence and for whom
    "iss missing": {"claims": {"iss": MISSING}},
    "iss null": {"claims": {"iss": None}},
    "iss of another": {"claims": {"iss": "https://attacker.example/"}},
    "iss without its slash": {"claims": {"iss": OIDC.issuer.rstrip("/")}},
    "iss longer": {"claims": {"iss": OIDC.issuer + "x"}},
    "iss in capitals": {"claims": {"iss": OIDC.issuer.upper()}},
    "iss a list": {"claims": {"iss": [OIDC.issuer]}},
    "aud missing": {"claims": {"aud": MISSING}},
    "aud null": {"claims": {"aud": None}},
    "aud empty": {"claims": {"aud": ""}},
    "aud an empty list": {"claims": {"aud": []}},
    "aud of another": {"claims": {"aud": "https://other.example"}},
    "aud of others": {"claims": {"aud": ["https://other.example", "account"]}},
    "aud longer": {"claims": {"aud": OIDC.audience + "/"}},
    "aud in capitals": {"claims": {"aud": OIDC.audience.upper()}},
    "aud an object": {"claims": {"aud": {OIDC.audience: True}}},
    "aud a list with more than text": {"claims": {"aud": [OIDC.audience, 7]}},
    "aud nested": {"claims": {"aud": [[OIDC.audience]]}},
    # who
    "sub missing": {"claims": {"sub": MISSING}},
    "sub null": {"claims": {"sub": None}},
    "sub a list": {"claims": {"sub": ["anna"]}},
    "sub an object": {"claims": {"sub": {"anna": "anna"}}},
    "sub a number": {"claims": {"sub": 7}},
    "sub true": {"claims": {"sub": True}},
    "claims a list": {"claims": b'["anna"]'},
    "claims text": {"claims": b'"anna"'},
    "claims not JSON": {"claims": b"sub=anna"},
    "claims not UTF-8": {"claims": b'{"sub": "\xff"}'},
    "claims deep": {"claims": 2500 * b"[" + 2500 * b"]"},
    # what is done to a good one
    "no signature": {"then": parts(lambda p: [*p[:2], ""])},
    "no signature and no dot": {"then": parts(lambda p: p[:2])},
    "half a signature": {"then": parts(lambda p: [*p[:2], p[2][: len(p[2]) // 2]])},
    "a bit of the signature": {"then": parts(lambda p: [*p[:2], flipped(p[2])])},
    "another spelling of the signature": {"then": parts(lambda p: [*p[:2], noncanonical(p[2])])},
    "a signature of zeros": {"then": parts(lambda p: [*p[:2], encoded(bytes(256))])},
    "zeros for ES256": {"algorithm": "ES256", "then": parts(lambda p: [*p[:2], encoded(bytes(64))])},
    "ES256 in DER": {"algorithm": "ES256", "then": parts(lambda p: [*p[:2], encoded(b"0\6\2\1\1\2\1\1")])},
    "another sub": {"then": parts(lambda p: [p[0], resigned(p[1], {"sub": "ben"}), p[2]])},
    "a later exp": {"then": parts(lambda p: [p[0], resigned(p[1], {"exp": MOMENT + 301}), p[2]])},
    "another header": {"then": parts(lambda p: [resigned(p[0], {"typ": "at+jwt"}), *p[1:]])},
    "no claims": {"then": parts(lambda p: [p[0], "", p[2]])},
    "no header": {"then": parts(lambda p: ["", *p[1:]])},
    "four parts": {"then": parts(lambda p: [*p, p[2]])},
    "five parts": {"then": parts(lambda p: [*p, p[1], p[2]])},
    "padded": {"then": lambda text: text + "=="},
    "a line break": {"then": lambda text: text + "\n"},
    "a space": {"then": lambda text: text.replace(".", " .", 1)},
    "two at once": {"then": lambda text: f"{text},{text}"},
    "the alphabet of plain base64": {"then": lambda text: text.replace("-", "+").replace("_", "/") + "+/"},
    "not ASCII": {"then": lambda text: text[:-1] + "é"},
    "a lone surrogate": {"then": lambda text: text[:-1] + "\ud800"},
    "a null byte": {"then": lambda text: text + "\0"},
    "longer than tokens are": {"claims": {"padding": 8000 * "x"}},
    "as a JSON object": {
        "then": lambda text: json.dumps(dict(zip(("protected", "payload", "signature"), text.split("."), strict=True)))
    },
    "dots alone": {"then": lambda _: ".."},
    "nothing": {"then": lambda _: ""},
}  # fmt: skip


class TestTokens:
    @pytest.mark.parametrize("changes", GOOD.values(), ids=GOOD)
    def test_good_ones_name_their_analyst(self, changes: dict[str, Any]) -> None:
        assert named(token(**changes)) == "anna"

    @pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
    def test_none_that_differs_from_a_good_one_in_one_thing_does(self, changes: dict[str, Any]) -> None:
        algorithm = {name: value for name, value in changes.items() if name == "algorithm" and value in FITTING}
        assert named(token(**algorithm)) == "anna"
        bad = token(**changes)
        assert bad != token(**algorithm)
        assert named(bad) is None

    def test_there_are_many(self) -> None:
        assert len(BAD) >= 60

    @pytest.mark.parametrize(("length", "found"), [(8192, "anna"), (8193, None)])
    def test_the_longest(self, length: int, found: str | None) -> None:
        sizes = itertools.product(range(3), range(5700, 5900))
        made = (token("ES256", header={"p": head * "x"}, claims={"p": body * "x"}) for head, body in sizes)
        assert named(next(text for text in made if len(text) == length)) == found

    def test_a_token_is_judged_by_the_clock_it_is_given(self) -> None:
        later = datetime.fromtimestamp(MOMENT + 360, UTC)
        assert named(token(), now=datetime.fromtimestamp(MOMENT + 359, UTC)) == "anna"
        assert named(token(), now=later) is None
        assert named(token(), now=datetime.fromtimestamp(MOMENT - 60, UTC)) == "anna"
        assert named(token(), now=datetime.fromtimestamp(MOMENT - 61, UTC)) is None

    @pytest.mark.parametrize("leeway", [0, 600])
    def test_the_leeway_is_the_configured_one(self, leeway: int) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, leeway_s=leeway)
        for claims, found in (
            ({"exp": MOMENT - leeway + 1}, "anna"),
            ({"exp": MOMENT - leeway}, None),
            ({"nbf": MOMENT + leeway}, "anna"),
            ({"nbf": MOMENT + leeway + 1}, None),
        ):
            assert named(token(claims=claims), oidc) == found

    def test_the_claim_is_the_configured_one(self) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, claim="preferred_username")
        assert named(token(claims={"preferred_username": "ben"}), oidc) == "ben"
        assert named(token(), oidc) is None
        for name in (None, 7, True, ["ben"], {"ben": 1}):
            assert named(token(claims={"preferred_username": name}), oidc) is None

    @pytest.mark.parametrize(
        ("verified", "found"), [(True, "a@b.example"), (MISSING, None), (False, None), ("true", None)]
    )
    def test_an_address_that_is_not_verified_names_nobody(self, verified: Any, found: str | None) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, claim="email")
        assert named(token(claims={"email": "a@b.example", "email_verified": verified}), oidc) == found

    @given(st.text() | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}", fullmatch=True))
    def test_nonsense_is_nobody(self, text: str) -> None:
        assert named(text) is None

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )

    @given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "x5c", "p2c"]), json_values))
    def test_headers_of_nonsense_are_nobodys(self, header: dict[str, Any]) -> None:
        assert named(token("ES256", header={"alg": "HS256", **header}, signed="ES256")) is None

    @given(st.dictionaries(st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "jti"]), json_values, min_size=1))
    def test_claims_of_nonsense_fail_quietly(self, claims: dict[str, Any]) -> None:
        assert named(token("EdDSA", claims={"aud": "another", **claims})) is None


class Provider:
    """A provider whose keys, and whose health, the test sets; and a clock that it moves."""

    def __init__(self, *names: str) -> None:
        self.document: bytes | Exception = jwks(*map(jwk, names))
        self.fetches = 0
        self.moment = 1000.0
        self.keys = KeySet(OIDC.jwks_url, self.fetch, lambda: self.moment)

    def fetch(self, url: str) -> bytes:
        assert url == OIDC.jwks_url
        self.fetches += 1
        if isinstance(self.document, Exception):
            raise self.document
        return self.document

    def named(self, key: str = "P-256", **changes: Any) -> str | None:
        return named(token("ES256", key, **changes), keys=self.keys)


class TestKeySet:
    def test_keys_are_fetched_when_the_first_token_comes_and_then_kept(self) -> None:
        provider = Provider("P-256")
        assert provider.fetches == 0
        assert [provider.named() for _ in range(5)] == 5 * ["anna"]
        assert provider.fetches == 1

    def test_what_cannot_be_a_token_of_the_provider_costs_no_fetch(self) -> None:
        provider = Provider("P-256")
        for text in ("nonsense", "a.b.c", token("ES256", header={"alg": "HS256"}), token("ES256", header={"jku": ""})):
            assert named(text, keys=provider.keys) is None
        assert provider.fetches == 0

    def test_a_new_key_is_found_when_its_first_token_comes(self) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.document = jwks(jwk("P-256"), jwk("P-256 new"))
        provider.moment += EVERY_S
        assert provider.named("P-256 new") == "anna"
        assert provider.named() == "anna"
        assert provider.fetches == 2

    def test_a_withdrawn_key_is_trusted_for_no_longer_than_its_set_is_fresh(self) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.document = jwks(jwk("P-256 new"))
        provider.moment += REFRESH_S
        assert provider.named() == "anna"
        provider.moment += 1
        assert provider.named() is None
        assert provider.named("P-256 new") == "anna"

    def test_a_provider_that_withdraws_all_keys_is_believed(self) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.document = jwks()
        provider.moment += REFRESH_S + 1
        assert provider.named() is None

    def test_a_storm_of_unknown_keys_is_one_fetch_in_thirty_seconds(self) -> None:
        provider = Provider("P-256")
        provider.named()
        for second in range(3 * EVERY_S):
            provider.moment += 1
            for number in range(3):
                assert provider.named(header={"kid": f"{second} {number}"}) is None
        assert provider.fetches <= 1 + 3
        assert provider.named() == "anna"

    def test_a_storm_before_any_key_came_is_no_more(self) -> None:
        provider = Provider()
        provider.document = TimeoutError()
        assert [provider.named() for _ in range(50)] == 50 * [None]
        assert provider.fetches == 1

    def test_threads_wait_for_one_fetch(self) -> None:
        provider = Provider("P-256")
        begun, go = threading.Event(), threading.Event()
        fetch = provider.fetch

        def slow(url: str) -> bytes:
            begun.set()
            assert go.wait(10)
            return fetch(url)

        keys = KeySet(OIDC.jwks_url, slow)
        text = token("ES256")
        with ThreadPoolExecutor(8) as pool:
            found = [pool.submit(named, text, OIDC, keys) for _ in range(8)]
            assert begun.wait(10)
            go.set()
            assert [each.result() for each in found] == 8 * ["anna"]
        assert provider.fetches == 1

    def test_while_one_thread_fetches_others_go_on_with_the_keys_there_are(self) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.moment += REFRESH_S + 1
        with ThreadPoolExecutor(1) as pool, provider.keys._lock:  # as if they were being fetched
            assert pool.submit(provider.named).result(timeout=10) == "anna"
        assert provider.fetches == 1
        assert provider.named() == "anna"
        assert provider.fetches == 2

    def test_keys_are_kept_for_a_day_while_the_provider_is_away(self, caplog: pytest.LogCaptureFixture) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.document = OSError("no route to login.example")
        with caplog.at_level(logging.DEBUG):
            provider.moment += KEPT_S
            assert provider.named() == "anna"
            provider.moment += 1
            assert provider.named() is None
        assert "could not be fetched" in caplog.text
        assert caplog.records[-1].fields == {"problem": "OSError"}
        assert "login.example" not in caplog.text
        provider.document = jwks(jwk("P-256"))
        provider.moment += EVERY_S
        assert provider.named() == "anna"

    @pytest.mark.parametrize(
        "document",
        [
            *(b"", b"<html>", b"null", b"[]", b"{}", b'{"keys": {}}', b'{"keys": "P-256"}', b"\xff", b'{"keys": ['),
            b'{"keys":' + 100_000 * b"[",
            OSError(),
            TimeoutError(),
            ValueError(),
        ],
        ids=repr,
    )
    def test_what_is_no_set_of_keys_does_not_replace_one(self, document: bytes | Exception) -> None:
        provider = Provider("P-256")
        provider.named()
        provider.document = document
        provider.moment += REFRESH_S + 1
        assert provider.named() == "anna"
        assert provider.fetches == 2

    @pytest.mark.parametrize(
        "spoilt",
        [
            *(None, 7, "P-256", [], {}, {"kty": "EC"}, {"kty": ["EC"]}, {"kty": "EC", "crv": ["P-256"]}),
            jwk("P-256", kid=7),
            jwk("P-256", kid=["P-256"]),
            jwk("P-256", kty="RSA"),
            jwk("P-256", kty="ec"),
            jwk("P-256", crv="P-384"),
            jwk("P-256", crv="secp256k1"),
            jwk("P-256", x=MISSING),
            jwk("P-256", x=7),
            jwk("P-256", x=None),
            jwk("P-256", x="AA"),
            jwk("P-256", x="!"),
            jwk("P-256", x=encoded(bytes(32))),  # no point of the curve
            jwk("P-256", use="enc"),
            jwk("P-256", use=None),
            jwk("P-256", key_ops=["sign"]),
            jwk("P-256", key_ops="verify"),
            jwk("P-256", alg="ES384"),
            jwk("P-256", alg="HS256"),
            jwk("P-256", alg="none"),
            jwk("P-256", alg=None),
            jwk("P-256", alg=["ES256"]),
            jwk("P-256", d=encoded(bytes(31) + b"\1")),
            jwk("P-256", k="c2VjcmV0"),
        ],
        ids=itertools.count(),  # the keys are new in every process
    )
    def test_a_key_that_is_not_for_this_is_left_out_and_the_others_stay(self, spoilt: Any) -> None:
        provider = Provider()
        provider.document = json.dumps({"keys": [spoilt, jwk("P-256 two")]}).encode()
        assert provider.named() is None
        assert provider.named("P-256 two") == "anna"
        good = Provider("P-256", "P-256 two")
        assert good.named() == "anna"

    def test_shared_private_and_weak_keys_are_left_out(self) -> None:
        shared = {"kty": "oct", "k": encoded(32 * b"s"), "kid": "shared"}
        told = jwt.get_algorithm_by_name("ES256").to_jwk(private("P-256"), as_dict=True)
        secret, weak, other = jwk("P-256", d=told["d"]), jwk("RSA weak"), jwk("secp256k1")
        kept = public_keys(jwks(shared, {**shared, "alg": "HS256"}, secret, weak, other, jwk("Ed448"), jwk("RSA")))
        assert [key.kid for key in kept] == ["RSA"]
        provider = Provider()
        provider.document = jwks({**shared, "use": "sig"})
        for algorithm in ("HS256", "RS256"):
            text = token(key=32 * b"s", signed="HS256", header={"alg": algorithm, "kid": "shared"})
            assert named(text, keys=provider.keys) is None

    def test_two_keys_of_one_name_are_told_apart_by_their_kind_or_not_at_all(self) -> None:
        provider = Provider()
        provider.document = jwks(jwk("P-256", kid="a"), jwk("Ed25519", kid="a"))
        assert provider.named(header={"kid": "a"}) == "anna"
        assert named(token("EdDSA", header={"kid": "a"}), keys=provider.keys) == "anna"
        twins = Provider()
        twins.document = jwks(jwk("P-256", kid="a"), jwk("P-256 two", kid="a"))
        assert twins.named(header={"kid": "a"}) is None

    @pytest.mark.parametrize(
        ("keys", "kid", "found"),
        [
            ([jwk("P-256", kid=MISSING)], MISSING, "anna"),
            ([jwk("P-256", kid=MISSING)], "P-256", None),
            ([jwk("P-256", kid=MISSING)], "", None),
            ([jwk("P-256")], MISSING, None),
            ([jwk("P-256", kid=MISSING), jwk("Ed25519")], MISSING, None),
            ([jwk("P-256", kid=MISSING), jwk("P-256 two", kid=MISSING)], MISSING, None),
        ],
    )
    def test_a_token_without_a_kid_needs_a_set_of_one_nameless_key(
        self, keys: list[dict[str, Any]], kid: Any, found: str | None
    ) -> None:
        provider = Provider()
        provider.document = jwks(*keys)
        assert provider.named(header={"kid": kid}) == found

    @pytest.mark.parametrize(
        "url",
        [
            *("http://login.example/keys", "http://localhost.attacker.example/", "http://127.0.0.1.attacker.example/"),
            *("http://localhost@attacker.example/", "https://anna:secret@login.example/", "https://", "file:///keys"),
            *("ftp://login.example/", "//login.example/keys", "", "https://[", "http://localhost:x@attacker.example/"),
        ],
    )
    def test_places_that_are_not_safe(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"service\.oidc\.jwks_url") as told:
            KeySet(url, lambda _: b"")
        assert "secret" not in str(told.value)

    @pytest.mark.parametrize("url", ["https://login.example/keys", "http://localhost:8081/keys", "http://[::1]:8081/k"])
    def test_places_that_are(self, url: str) -> None:
        KeySet(url, lambda _: b"")


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        status = {"/moved": 302, "/broken": 500, "/gone": 404}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/keys")
        self.end_headers()
        try:
            for _ in range({"/large": 40, "/slow": 20}.get(self.path, 1)):
                self.wfile.write(10_000 * b" " if self.path == "/large" else b" ")
                time.sleep(0.05 if self.path == "/slow" else 0)
            self.wfile.write(jwks(jwk("P-256")))
        except OSError:
            pass  # the reader had enough

    def log_message(self, *_: Any) -> None:
        pass


class TestFetch:
    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[HTTPServer]:
        with HTTPServer(("127.0.0.1", 0), Answers) as server:
            server.asked = []  # type: ignore[attr-defined]
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            yield server
            server.shutdown()
            thread.join()

    @pytest.fixture
    def place(self, server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setenv("no_proxy", "*")
        server.asked.clear()  # type: ignore[attr-defined]
        return f"http://127.0.0.1:{server.server_port}"

    def test_keys_come_over_http(self, place: str) -> None:
        assert named(token("ES256"), keys=KeySet(f"{place}/keys", oidc.fetch)) == "anna"

    @pytest.mark.parametrize(("path", "status"), [("/moved", 302), ("/broken", 500), ("/gone", 404)])
    def test_other_statuses_and_redirects_are_failures(
        self, place: str, server: HTTPServer, path: str, status: int
    ) -> None:
        with pytest.raises(HTTPError) as told:
            oidc.fetch(place + path)
        assert told.value.code == status
        assert server.asked == [path]  # type: ignore[attr-defined]

    def test_what_is_too_large_is_a_failure(self, place: str) -> None:
        with pytest.raises(ValueError, match="too large"):
            oidc.fetch(f"{place}/large")

    def test_what_drips_is_a_failure(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oidc, "FETCH_S", 0.2)
        with pytest.raises(ValueError, match="too slow"):
            oidc.fetch(f"{place}/slow")

    def test_nobody_there_is_a_failure_that_names_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "*")
        with HTTPServer(("127.0.0.1", 0), Answers) as gone:
            place = f"http://127.0.0.1:{gone.server_port}/keys"
        assert named(token("ES256"), keys=KeySet(place, oidc.fetch)) is None


def test_secrets_are_in_no_representation() -> None:
    text = token()
    made = repr([TokenVerifier(OIDC, provider()), provider(), public_keys(published())])
    assert text not in made
    assert hashlib.sha256(text.encode()).hexdigest() not in made
