"""The keys of an identity provider: when they are fetched, how long they are trusted, which are left out."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.error import HTTPError

import jwt
import pytest

from sfumato.errors import ConfigError
from sfumato.service import oidc
from sfumato.service.oidc import MAX_AGE_S, MIN_INTERVAL_S, REFRESH_S, KeySet, public_keys
from tests.helpers.identity_provider import MISSING, OIDC, analyst_of, encode, jwk, jwks, private_key, token


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

    def analyst(self, key: str = "P-256", **changes: Any) -> str | None:
        return analyst_of(token("ES256", key, **changes), keys=self.keys)


class TestKeySet:
    def test_keys_are_fetched_when_the_first_token_comes_and_then_kept(self) -> None:
        provider = Provider("P-256")
        assert provider.fetches == 0
        assert [provider.analyst() for _ in range(5)] == 5 * ["anna"]
        assert provider.fetches == 1

    def test_what_cannot_be_a_token_of_the_provider_costs_no_fetch(self) -> None:
        provider = Provider("P-256")
        for text in ("nonsense", "a.b.c", token("ES256", header={"alg": "HS256"}), token("ES256", header={"jku": ""})):
            assert analyst_of(text, keys=provider.keys) is None
        assert provider.fetches == 0

    def test_a_new_key_is_found_when_its_first_token_comes(self) -> None:
        provider = Provider("P-256")
        provider.analyst()
        provider.document = jwks(jwk("P-256"), jwk("P-256 new"))
        provider.moment += MIN_INTERVAL_S
        assert provider.analyst("P-256 new") == "anna"
        assert provider.analyst() == "anna"
        assert provider.fetches == 2

    def test_a_withdrawn_key_is_trusted_for_no_longer_than_its_set_is_fresh(self) -> None:
        provider = Provider("P-256")
        provider.analyst()
        provider.document = jwks(jwk("P-256 new"))
        provider.moment += REFRESH_S
        assert provider.analyst() == "anna"
        provider.moment += 1
        assert provider.analyst() is None
        assert provider.analyst("P-256 new") == "anna"

    def test_a_provider_that_withdraws_all_keys_is_believed(self) -> None:
        provider = Provider("P-256")
        provider.analyst()
        provider.document = jwks()
        provider.moment += REFRESH_S + 1
        assert provider.analyst() is None

    def test_a_storm_of_unknown_keys_is_one_fetch_in_thirty_seconds(self) -> None:
        provider = Provider("P-256")
        provider.analyst()
        for second in range(3 * MIN_INTERVAL_S):
            provider.moment += 1
            for number in range(3):
                assert provider.analyst(header={"kid": f"{second} {number}"}) is None
        assert provider.fetches <= 1 + 3
        assert provider.analyst() == "anna"

    def test_a_storm_before_any_key_came_is_no_more(self) -> None:
        provider = Provider()
        provider.document = TimeoutError()
        assert [provider.analyst() for _ in range(50)] == 50 * [None]
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
            found = [pool.submit(analyst_of, text, OIDC, keys) for _ in range(8)]
            assert begun.wait(10)
            go.set()
            assert [each.result() for each in found] == 8 * ["anna"]
        assert provider.fetches == 1

    def test_while_one_thread_fetches_others_go_on_with_the_keys_there_are(self) -> None:
        provider = Provider("P-256")
        provider.analyst()
        provider.moment += REFRESH_S + 1
        with ThreadPoolExecutor(1) as pool, provider.keys._lock:  # as if they were being fetched
            assert pool.submit(provider.analyst).result(timeout=10) == "anna"
        assert provider.fetches == 1
        assert provider.analyst() == "anna"
        assert provider.fetches == 2

    def test_keys_are_kept_for_a_day_while_the_provider_is_away(self, caplog: pytest.LogCaptureFixture) -> None:
        provider = Provider("P-256")
        provider.analyst()
        provider.document = OSError("no route to login.example")
        with caplog.at_level(logging.DEBUG):
            provider.moment += MAX_AGE_S
            assert provider.analyst() == "anna"
            provider.moment += 1
            assert provider.analyst() is None
        assert "could not be fetched" in caplog.text
        assert caplog.records[-1].fields == {"problem": "OSError"}
        assert "login.example" not in caplog.text
        provider.document = jwks(jwk("P-256"))
        provider.moment += MIN_INTERVAL_S
        assert provider.analyst() == "anna"

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
        provider.analyst()
        provider.document = document
        provider.moment += REFRESH_S + 1
        assert provider.analyst() == "anna"
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
            jwk("P-256", x=encode(bytes(32))),  # no point of the curve
            jwk("P-256", use="enc"),
            jwk("P-256", use=None),
            jwk("P-256", key_ops=["sign"]),
            jwk("P-256", key_ops="verify"),
            jwk("P-256", alg="ES384"),
            jwk("P-256", alg="HS256"),
            jwk("P-256", alg="none"),
            jwk("P-256", alg=None),
            jwk("P-256", alg=["ES256"]),
            jwk("P-256", d=encode(bytes(31) + b"\1")),
            jwk("P-256", k="c2VjcmV0"),
        ],
        ids=itertools.count(),  # the keys are new in every process
    )
    def test_a_key_that_is_not_for_this_is_left_out_and_the_others_stay(self, spoilt: Any) -> None:
        provider = Provider()
        provider.document = json.dumps({"keys": [spoilt, jwk("P-256 two")]}).encode()
        assert provider.analyst() is None
        assert provider.analyst("P-256 two") == "anna"
        good = Provider("P-256", "P-256 two")
        assert good.analyst() == "anna"

    def test_shared_private_and_weak_keys_are_left_out(self) -> None:
        shared = {"kty": "oct", "k": encode(32 * b"s"), "kid": "shared"}
        raised = jwt.get_algorithm_by_name("ES256").to_jwk(private_key("P-256"), as_dict=True)
        secret, weak, other = jwk("P-256", d=raised["d"]), jwk("RSA weak"), jwk("secp256k1")
        kept = public_keys(jwks(shared, {**shared, "alg": "HS256"}, secret, weak, other, jwk("Ed448"), jwk("RSA")))
        assert [key.kid for key in kept] == ["RSA"]
        provider = Provider()
        provider.document = jwks({**shared, "use": "sig"})
        for algorithm in ("HS256", "RS256"):
            text = token(key=32 * b"s", signed="HS256", header={"alg": algorithm, "kid": "shared"})
            assert analyst_of(text, keys=provider.keys) is None

    def test_two_keys_of_one_name_are_told_apart_by_their_kind_or_not_at_all(self) -> None:
        provider = Provider()
        provider.document = jwks(jwk("P-256", kid="a"), jwk("Ed25519", kid="a"))
        assert provider.analyst(header={"kid": "a"}) == "anna"
        assert analyst_of(token("EdDSA", header={"kid": "a"}), keys=provider.keys) == "anna"
        twins = Provider()
        twins.document = jwks(jwk("P-256", kid="a"), jwk("P-256 two", kid="a"))
        assert twins.analyst(header={"kid": "a"}) is None

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
        assert provider.analyst(header={"kid": kid}) == found

    @pytest.mark.parametrize(
        "url",
        [
            *("http://login.example/keys", "http://localhost.attacker.example/", "http://127.0.0.1.attacker.example/"),
            *("http://localhost@attacker.example/", "https://anna:secret@login.example/", "https://", "file:///keys"),
            *("ftp://login.example/", "//login.example/keys", "", "https://[", "http://localhost:x@attacker.example/"),
        ],
    )
    def test_places_that_are_not_safe(self, url: str) -> None:
        with pytest.raises(ConfigError, match=r"service\.oidc\.jwks_url") as raised:
            KeySet(url, lambda _: b"")
        assert "secret" not in str(raised.value)

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
        assert analyst_of(token("ES256"), keys=KeySet(f"{place}/keys", oidc.fetch)) == "anna"

    @pytest.mark.parametrize(("path", "status"), [("/moved", 302), ("/broken", 500), ("/gone", 404)])
    def test_other_statuses_and_redirects_are_failures(
        self, place: str, server: HTTPServer, path: str, status: int
    ) -> None:
        with pytest.raises(HTTPError) as raised:
            oidc.fetch(place + path)
        assert raised.value.code == status
        assert server.asked == [path]  # type: ignore[attr-defined]

    def test_what_is_too_large_is_a_failure(self, place: str) -> None:
        with pytest.raises(ValueError, match="too large"):
            oidc.fetch(f"{place}/large")

    def test_what_drips_is_a_failure(self, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oidc, "MAX_FETCH_S", 0.2)
        with pytest.raises(ValueError, match="too slow"):
            oidc.fetch(f"{place}/slow")

    def test_a_provider_that_is_down_is_a_refused_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "*")
        with HTTPServer(("127.0.0.1", 0), Answers) as gone:
            place = f"http://127.0.0.1:{gone.server_port}/keys"
        assert analyst_of(token("ES256"), keys=KeySet(place, oidc.fetch)) is None
