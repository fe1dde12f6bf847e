"""Signing in and out: the cookie, the address, where forms come from, and what ends a sign-in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.sign_ins import SignIns
from tests.helpers.browsing import HOST, ORIGIN, Browser, Page
from tests.helpers.served import TOP, Served

PATHS = ("/", "/tables", "/ask", "/ask?way=sql", "/history", "/budget", "/history.csv", "/answers/" + "0" * 64)


def secret_of(browser: Browser) -> str:
    (value,) = browser.cookies.values()
    return value


class TestCookies:
    def test_on_loopback_it_is_http_only_and_of_this_site(self, shared: Served) -> None:
        browser = Browser(shared)
        reply = browser.send("POST", "/sign-in", {"key": shared.key(), "next": "/budget"})
        assert (reply.status, reply.headers["location"]) == (303, "/budget")
        name, _, rest = reply.headers["set-cookie"].partition("=")
        assert (name, rest[43:]) == ("sfumato", "; Path=/; HttpOnly; SameSite=Lax")

    def test_behind_tls_it_is_secure_and_of_this_host(self, serving: Callable[..., Served]) -> None:
        served = serving(service={"rate_per_minute": 0, "origin": '"https://numbers.example"'})
        browser = Browser(served, "numbers.example")
        reply = browser.send("POST", "/sign-in", {"key": served.key(), "next": "/"})
        name, _, rest = reply.headers["set-cookie"].partition("=")
        assert (name, rest[43:]) == ("__Host-sfumato", "; Path=/; HttpOnly; SameSite=Lax; Secure")
        assert browser.open("/tables")
        browser.cookies = {"sfumato": secret_of(browser)}
        assert browser.get("/tables").status == 303

    def test_without_tls_and_not_on_loopback_there_is_no_form(self, serving: Callable[..., Served]) -> None:
        served = serving(service={"rate_per_minute": 0, "origin": '"http://numbers.example"'})
        browser = Browser(served, "numbers.example")
        page = browser.open("/sign-in")
        assert "This page is not encrypted" in page.text
        assert not page.find("form")
        assert browser.send("POST", "/sign-in", {"key": served.key()}).headers.get("set-cookie") is None

    @pytest.mark.parametrize(
        "cookie",
        [
            None,
            "sfumato=",
            "sfumato=nonsense",
            "sfumato=" + "A" * 43,
            "__Host-sfumato={secret}",
            "Sfumato={secret}",
            "sfumato={secret}A",
            "sfumato={secret}; sfumato=" + "B" * 43,
            "sfumato={secret}; sfumato={secret}",
            'sfumato="{secret}"',
            "sfumato={key}",
        ],
    )
    def test_what_is_no_sign_in(self, shared: Served, cookie: str | None) -> None:
        signed, key = Browser(shared), shared.key()
        signed.sign_in(key)
        stranger = Browser(shared)
        sent = None if cookie is None else cookie.format(secret=secret_of(signed), key=key)
        for path in PATHS:
            reply = stranger.send("GET", path, headers={"cookie": sent})
            assert reply.status == 303, path
            assert reply.headers["location"].startswith("/sign-in?next=%2F")

    def test_the_api_takes_no_cookie_and_pages_take_no_key(self, shared: Served) -> None:
        browser, key = Browser(shared), shared.key()
        browser.sign_in(key)
        assert browser.get("/v1/me").status == 401
        assert Browser(shared).send("GET", "/tables", headers={"authorization": f"Bearer {key}"}).status == 303
        body = Browser(shared).send("POST", "/answers", {"way": "sql"}, {"authorization": f"Bearer {key}"})
        assert "Sign in" in body.body.decode()


class TestEnding:
    def test_sign_out_ends_it_for_every_worker(self, shared: Served) -> None:
        browser = Browser(shared)
        browser.sign_in(shared.key())
        kept = dict(browser.cookies)
        reply = browser.send("POST", "/sign-out")
        assert reply.headers["clear-site-data"] == '"cache", "storage"'
        assert "Max-Age=0" in reply.headers["set-cookie"]
        assert SignIns(shared.session.ledger).find(kept["sfumato"], shared.clock.now) is None
        browser.cookies = kept
        assert browser.get("/tables").status == 303

    def test_it_ends_after_the_hours_of_the_configuration(self, serving: Callable[..., Served]) -> None:
        served = serving(more="[console]\nsession_hours = 2\n")
        browser = Browser(served)
        browser.sign_in(served.key())
        served.clock.advance(hours=1, minutes=59)
        assert browser.get("/tables").status == 200
        served.clock.advance(minutes=1)
        assert browser.get("/tables").status == 303

    def test_it_ends_with_its_key(self, served: Served) -> None:
        keys = ApiKeys(served.session.ledger)
        text, key = keys.create("anna", "analyst", None, served.clock.now)
        expiring = served.key(expires=served.clock.now + timedelta(hours=1))
        first, second = Browser(served), Browser(served)
        first.sign_in(text)
        second.sign_in(expiring)
        keys.revoke(key.id, served.clock.now)
        assert first.get("/tables").status == 303
        assert second.get("/tables").status == 200
        served.clock.advance(hours=1)
        assert second.get("/tables").status == 303

    def test_it_ends_with_its_analyst(self, served: Served) -> None:
        text, _ = ApiKeys(served.session.ledger).create("gone", "analyst", None, served.clock.now)
        assert "no key that is valid" in Browser(served).post("/sign-in", {"key": text}, 401).text

    @pytest.mark.parametrize("key", ["", "sfumato_" + "A" * 43, "nonsense", "é", "{expired}", "{revoked}"])
    def test_whatever_is_wrong_the_words_are_the_same(self, shared: Served, key: str) -> None:
        now = shared.clock.now
        keys = ApiKeys(shared.session.ledger)
        expired = keys.create("anna", "analyst", now - timedelta(days=1), now - timedelta(days=2))[0]
        text, revoked = keys.create("anna", "analyst", None, now)
        keys.revoke(revoked.id, now)
        replies = [
            Browser(shared).send("POST", "/sign-in", {"key": each.format(expired=expired, revoked=text), "next": "/"})
            for each in (key, "other")
        ]
        assert replies[0].status == 401
        assert replies[0].body == replies[1].body
        assert replies[0].headers.get("set-cookie") is None


class TestComingBack:
    def test_one_is_taken_to_where_one_was(self, shared: Served) -> None:
        browser = Browser(shared)
        page = browser.open("/budget")
        assert page.find("h1")[0].text == "Sign in"
        fields = dict(page.form("/sign-in")) | {"key": shared.key()}
        assert browser.post("/sign-in", fields).find("h1")[0].text == "Budget"

    @pytest.mark.parametrize(
        "place", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\nb", "é"]
    )
    def test_never_to_another_site(self, shared: Served, place: str) -> None:
        reply = Browser(shared).send("POST", "/sign-in", {"key": shared.key(), "next": place})
        assert (reply.status, reply.headers["location"]) == (303, "/")

    def test_what_was_typed_is_still_there(self, shared: Served) -> None:
        sql = "SELECT members FROM engagements WHERE region = '\"<emea>'"
        browser = Browser(shared)
        page = browser.post("/answers", {"way": "sql", "sql": sql, "once": "a"})
        fields = dict(page.form("/sign-in")) | {"key": shared.key()}
        again = browser.post("/sign-in", fields)
        assert again.find("textarea")[0].text == sql
        assert browser.get("/budget").status == 200

    def test_a_price_for_one_who_is_signed_out_is_a_401(self, shared: Served) -> None:
        assert Browser(shared).send("POST", "/ask/price", {"way": "sql"}).status == 401


class TestOtherSites:
    """Nothing is changed for a form that is not ours, nor for a host that is not ours."""

    @pytest.mark.parametrize("path", ["/answers", "/ask", "/ask/price", "/history", "/sign-in", "/sign-out"])
    @pytest.mark.parametrize(
        ("site", "origin", "is_ours"),
        [
            ("same-origin", None, True),
            ("same-origin", "https://evil.example", True),  # browsers let no page set the first
            (None, ORIGIN, True),
            ("same-site", ORIGIN, False),
            ("cross-site", ORIGIN, False),
            ("none", None, False),
            ("", ORIGIN, False),
            (None, None, False),
            (None, "null", False),
            (None, "https://evil.example", False),
            (None, f"{ORIGIN}.evil.example", False),
            (None, "https://127.0.0.1:8080", False),
            (None, "http://127.0.0.1:8081", False),
        ],
    )
    def test_forms(self, reading: Browser, path: str, site: str | None, origin: str | None, is_ours: bool) -> None:
        headers = {"sec-fetch-site": site, "origin": origin}
        reply = reading.send("POST", path, {"way": "sql", "sql": "SELECT"}, headers)
        assert (reply.status == 403) is not is_ours
        if not is_ours:
            assert "set-cookie" not in dict(reply.pairs)
            assert reading.get("/tables").status == 200

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
    @pytest.mark.parametrize("path", ["/tables", "/budget", "/", "/assets/nothing.js"])
    def test_other_methods_do_nothing(self, reading: Browser, method: str, path: str) -> None:
        reply = reading.send(method, path, headers={"sec-fetch-site": "same-origin", "content-length": "0"})
        assert reply.status in (404, 405)

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            (HOST, 200),
            ("localhost:8080", 200),
            ("evil.example", 421),
            ("127.0.0.1:8081", 200),
            ("127.0.0.1:8080.evil.example", 421),
            ("", 421),
        ],
    )
    def test_hosts(self, shared: Served, host: str | None, status: int) -> None:
        reply = Browser(shared).send("GET", "/sign-in", headers={"host": host})
        assert reply.status == status

    @pytest.mark.parametrize(
        ("host", "status"),
        [("numbers.example", 200), ("NUMBERS.example:443", 200), ("evil.example", 421), (HOST, 421)],
    )
    def test_hosts_behind_a_proxy(self, serving: Callable[..., Served], host: str, status: int) -> None:
        served = serving(service={"rate_per_minute": 0, "origin": '"https://numbers.example"'})
        forwarded = {"host": host, "x-forwarded-host": "numbers.example", "x-forwarded-proto": "https"}
        assert Browser(served).send("GET", "/sign-in", headers=forwarded).status == status


def test_without_the_console_there_are_no_pages(serving: Callable[..., Served]) -> None:
    served = serving(more="[console]\nenabled = false\n")
    browser = Browser(served)
    assert browser.get("/tables").status == 404
    assert browser.send("POST", "/sign-in", {"key": served.key()}).status == 404
    assert b"API documentation" in browser.get("/").body
    assert served.ask(served.key(), TOP).status == 200


def test_the_sign_in_page_has_one_field_and_the_interface(shared: Served) -> None:
    page: Page = Browser(shared).open("/sign-in")
    (field,) = [node for node in page.find("input") if node.get("type") != "hidden"]
    assert (field["type"], field["autocomplete"]) == ("password", "current-password")
    assert page.find("a", href="/docs")
