"""The hosts that requests may be for, and the origin that is the service's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sfumato.config import Config, ServiceSettings, read_config
from sfumato.errors import ConfigError
from sfumato.service.origin import ALL_ADDRESSES, Origin
from tests.config.test_config import FOLDER
from tests.helpers.served import TOP, Served

OURS = "https://numbers.example"


def read(text: str) -> Config:
    return read_config(text, FOLDER, {})


class TestSetting:
    @pytest.mark.parametrize(
        ("written", "kept"),
        [
            ("https://numbers.example", "https://numbers.example"),
            ("HTTPS://Numbers.Example/", "https://numbers.example"),
            ("https://numbers.example:443", "https://numbers.example"),
            ("https://numbers.example:8443", "https://numbers.example:8443"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:80/", "http://[::1]"),
        ],
    )
    def test_it_is_read_as_browsers_write_it(self, written: str, kept: str) -> None:
        assert read(f'[service]\norigin = "{written}"').service.origin == kept

    @pytest.mark.parametrize(
        "written",
        [
            *("", "null", "*", "numbers.example", "ftp://numbers.example", "https://", "https://a b", "https://a/path"),
            *("https://u:p@a", "https://a?x", "https://a#x", "https://a:0", "https://a:99999", "https://é.example"),
            *("https://a, https://b", "https://[::1"),
        ],
    )
    def test_nonsense_is_refused(self, written: str) -> None:
        with pytest.raises(ConfigError, match=r"^service\.origin: must be https://"):
            read(f'[service]\norigin = "{written}"')

    def test_it_is_optional(self) -> None:
        assert read("").service.origin is None


class TestHosts:
    @pytest.mark.parametrize(
        ("settings", "hosts", "taken"),
        [
            ({"origin": OURS}, ["numbers.example"], True),
            ({"origin": OURS}, ["Numbers.Example:443"], True),
            ({"origin": OURS}, ["numbers.example", "numbers.example"], True),
            ({"origin": OURS}, ["numbers.example", "evil.example"], False),
            ({"origin": OURS}, ["numbers.example.evil.example"], False),
            ({"origin": OURS}, ["evil.example#numbers.example"], False),
            ({"origin": OURS}, ["numbers.example@evil.example"], False),
            ({"origin": OURS}, ["numbers.example/"], False),
            ({"origin": OURS}, ["127.0.0.1:8080"], False),
            ({"origin": OURS}, [""], False),
            ({}, ["127.0.0.1:8080"], True),
            ({}, ["localhost:9000"], True),
            ({}, ["[::1]:8080"], True),
            ({}, ["127.0.0.1.evil.example"], False),
            ({}, ["evil.example:8080"], False),
            ({}, ["["], False),
            ({"host": "::1"}, ["[::1]:8080"], True),
            ({"host": "10.0.0.5"}, ["10.0.0.5:8080"], True),
            ({"host": "10.0.0.5"}, ["127.0.0.1:8080"], False),
            ({"host": "Answers.Internal"}, ["answers.internal"], True),
            ({"host": ALL_ADDRESSES[0]}, ["whatever.example"], True),
            ({"host": ALL_ADDRESSES[1], "origin": OURS}, ["whatever.example"], False),
        ],
    )
    def test_which_are_taken(self, settings: dict[str, Any], hosts: list[str], taken: bool) -> None:
        assert Origin(ServiceSettings(**settings)).is_ours(hosts) == taken

    @pytest.mark.parametrize("path", ["/v1/budget", "/", "/docs", "/openapi.json", "/problems/failed", "/nope"])
    def test_another_host_gets_421_everywhere(self, shared: Served, path: str) -> None:
        key = shared.key()
        reply = shared.get(path, key, host="evil.example")
        assert (reply.status, reply.kind, reply.json["argument"]) == (421, "misdirected", "Host")
        assert "evil" not in reply.body.decode()
        assert shared.get(path, key, host="localhost:8080").status != 421

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
    def test_probes_answer_to_every_name(self, shared: Served, path: str) -> None:
        assert shared.get(path, host="10.1.2.3:8080").status == 200

    def test_nothing_is_charged_and_no_cached_answer_is_given(self, served: Served) -> None:
        key = served.key()
        for _ in range(2):
            assert served.ask(key).status == 200
        before = served.spent()
        assert served.ask(key, TOP, headers={"host": "evil.example"}).status == 421
        assert served.ask(key, {**TOP, "k": 4}, headers={"host": "evil.example"}).status == 421
        assert served.spent() == before

    def test_forwarded_headers_are_not_believed(self, serving: Callable[..., Served]) -> None:
        served = serving(service={"rate_per_minute": 0, "origin": f'"{OURS}"'})
        key = served.key()
        assert served.get("/v1/budget", key, host="numbers.example").status == 200
        forwarded = {"x_forwarded_host": "numbers.example", "forwarded": "host=numbers.example"}
        assert served.get("/v1/budget", key, host="127.0.0.1", **forwarded).status == 421


class TestOrigins:
    def test_with_the_setting(self) -> None:
        origin = Origin(ServiceSettings(origin=OURS))
        assert origin.is_encrypted()
        assert origin.url("anything") == OURS
        assert origin.is_same(OURS, "numbers.example")
        for other in (
            None,
            "null",
            "",
            "http://numbers.example",
            "https://numbers.example:8443",
            "https://evil.example",
        ):
            assert not origin.is_same(other, "numbers.example")

    def test_without_it_the_origin_is_that_of_the_request(self) -> None:
        origin = Origin(ServiceSettings())
        assert not origin.is_encrypted()
        assert origin.url("LocalHost:8080") == "http://localhost:8080"
        assert origin.is_same("http://localhost:8080", "localhost:8080")
        for other in (None, "null", "http://localhost:9000", "http://127.0.0.1:8080", "https://localhost:8080"):
            assert not origin.is_same(other, "localhost:8080")
