"""Tokens of an identity provider: good ones name their analyst; a change in any one part makes a token invalid."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from sfumato.config import Oidc
from sfumato.service.oidc import TokenVerifier, public_keys
from tests.helpers.identity_provider import (
    FITTING,
    FOREIGN,
    MISSING,
    MOMENT,
    OIDC,
    analyst_of,
    default_keys,
    encode,
    jwk,
    private_key,
    public_pem,
    published_keys,
    token,
)


def parts(change: Callable[[list[str]], list[str]]) -> Callable[[str], str]:
    return lambda text: ".".join(change(text.split(".")))


def flip_bit(text: str) -> str:
    """With one bit of its first six changed."""
    return ("A" if text[0] != "A" else "B") + text[1:]


def respell(text: str) -> str:
    """Other text for the same bytes: the last character carries bits that are not used."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(text) % 4 in (2, 3)
    return text[:-1] + alphabet[alphabet.index(text[-1]) ^ 1]


def rewrite(content: str, change: dict[str, Any]) -> str:
    """A part of a token with something in it changed, and not signed for."""
    return encode(json.dumps({**json.loads(base64.urlsafe_b64decode(content + "==")), **change}).encode())


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
    "further claims": {"claims": {"role": "owner", "groups": [{"a": None}]}},
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
        "key": private_key("Ed25519").public_key().public_bytes(Encoding.Raw, PublicFormat.Raw),
        "signed": "HS256",
        "header": {"alg": "HS256", "kid": "Ed25519"},
    },
    "HS256 with the published set": {"key": published_keys(), "signed": "HS256", "header": {"alg": "HS256"}},
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
    "a bit of the signature": {"then": parts(lambda p: [*p[:2], flip_bit(p[2])])},
    "another spelling of the signature": {"then": parts(lambda p: [*p[:2], respell(p[2])])},
    "a signature of zeros": {"then": parts(lambda p: [*p[:2], encode(bytes(256))])},
    "zeros for ES256": {"algorithm": "ES256", "then": parts(lambda p: [*p[:2], encode(bytes(64))])},
    "ES256 in DER": {"algorithm": "ES256", "then": parts(lambda p: [*p[:2], encode(b"0\6\2\1\1\2\1\1")])},
    "another sub": {"then": parts(lambda p: [p[0], rewrite(p[1], {"sub": "ben"}), p[2]])},
    "a later exp": {"then": parts(lambda p: [p[0], rewrite(p[1], {"exp": MOMENT + 301}), p[2]])},
    "another header": {"then": parts(lambda p: [rewrite(p[0], {"typ": "at+jwt"}), *p[1:]])},
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
        assert analyst_of(token(**changes)) == "anna"

    @pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
    def test_none_that_differs_from_a_good_one_in_one_thing_does(self, changes: dict[str, Any]) -> None:
        algorithm = {name: value for name, value in changes.items() if name == "algorithm" and value in FITTING}
        assert analyst_of(token(**algorithm)) == "anna"
        bad = token(**changes)
        assert bad != token(**algorithm)
        assert analyst_of(bad) is None

    def test_there_are_many(self) -> None:
        assert len(BAD) >= 60

    @pytest.mark.parametrize(("length", "found"), [(8192, "anna"), (8193, None)])
    def test_the_longest(self, length: int, found: str | None) -> None:
        sizes = itertools.product(range(3), range(5700, 5900))
        made = (token("ES256", header={"p": head * "x"}, claims={"p": body * "x"}) for head, body in sizes)
        assert analyst_of(next(text for text in made if len(text) == length)) == found

    def test_a_token_is_judged_by_the_clock_it_is_given(self) -> None:
        later = datetime.fromtimestamp(MOMENT + 360, UTC)
        assert analyst_of(token(), now=datetime.fromtimestamp(MOMENT + 359, UTC)) == "anna"
        assert analyst_of(token(), now=later) is None
        assert analyst_of(token(), now=datetime.fromtimestamp(MOMENT - 60, UTC)) == "anna"
        assert analyst_of(token(), now=datetime.fromtimestamp(MOMENT - 61, UTC)) is None

    @pytest.mark.parametrize("leeway", [0, 600])
    def test_the_leeway_is_the_configured_one(self, leeway: int) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, leeway_s=leeway)
        for claims, found in (
            ({"exp": MOMENT - leeway + 1}, "anna"),
            ({"exp": MOMENT - leeway}, None),
            ({"nbf": MOMENT + leeway}, "anna"),
            ({"nbf": MOMENT + leeway + 1}, None),
        ):
            assert analyst_of(token(claims=claims), oidc) == found

    def test_the_claim_is_the_configured_one(self) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, claim="preferred_username")
        assert analyst_of(token(claims={"preferred_username": "ben"}), oidc) == "ben"
        assert analyst_of(token(), oidc) is None
        for name in (None, 7, True, ["ben"], {"ben": 1}):
            assert analyst_of(token(claims={"preferred_username": name}), oidc) is None

    @pytest.mark.parametrize(
        ("verified", "found"), [(True, "a@b.example"), (MISSING, None), (False, None), ("true", None)]
    )
    def test_an_unverified_address_is_refused(self, verified: Any, found: str | None) -> None:
        oidc = Oidc(OIDC.issuer, OIDC.audience, OIDC.jwks_url, claim="email")
        assert analyst_of(token(claims={"email": "a@b.example", "email_verified": verified}), oidc) == found

    @given(st.text() | st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}", fullmatch=True))
    def test_nonsense_is_refused(self, text: str) -> None:
        assert analyst_of(text) is None

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )

    @given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "x5c", "p2c"]), json_values))
    def test_headers_of_nonsense_are_refused(self, header: dict[str, Any]) -> None:
        assert analyst_of(token("ES256", header={"alg": "HS256", **header}, signed="ES256")) is None

    @given(st.dictionaries(st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "jti"]), json_values, min_size=1))
    def test_claims_of_nonsense_fail_quietly(self, claims: dict[str, Any]) -> None:
        assert analyst_of(token("EdDSA", claims={"aud": "another", **claims})) is None


def test_secrets_are_in_no_representation() -> None:
    text = token()
    made = repr([TokenVerifier(OIDC, default_keys()), default_keys(), public_keys(published_keys())])
    assert text not in made
    assert hashlib.sha256(text.encode()).hexdigest() not in made
