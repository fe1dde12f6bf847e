"""Signing in with an identity provider: the whole way, and every way to get in without one's own sign-in."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from anyio.from_thread import BlockingPortal

from sfumato.config import read_config
from sfumato.errors import ConfigError
from sfumato.ledger.sign_ins import SignIns
from sfumato.service.authorization_code import CodeFlow
from sfumato.web.provider_sign_in import INVALID, MAX_CODE, MAX_THEN, STRAY, Attempt
from tests.helpers.browsing import ORIGIN, Browser
from tests.helpers.identity_provider import MISSING, MOMENT, token
from tests.helpers.provider_server import CLIENT, ProviderServer, serve_provider
from tests.helpers.served import Reply, Served, new_served

HTTPS = "https://numbers.example"
COOKIE = "sfumato-provider"
SETTINGS = {"rate_per_minute": 0, "origin": json.dumps(ORIGIN)}


@pytest.fixture(scope="module")
def standing() -> Iterator[ProviderServer]:
    with serve_provider() as provider:
        yield provider


@pytest.fixture
def provider(standing: ProviderServer) -> ProviderServer:
    """The provider, as it was at first."""
    standing.analyst, standing.secret, standing.status = "anna", None, 200
    for changed in (standing.claims, standing.discovery, standing.codes, standing.asked):
        changed.clear()
    return standing


@pytest.fixture(scope="module")
def shared(
    portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory, standing: ProviderServer
) -> Iterator[Served]:
    """One service for what changes nothing that another test sees."""
    folder = tmp_path_factory.mktemp("pages") / "world"
    served = new_served(folder, portal, console=True, service=SETTINGS, more=standing.config())
    with served.session:
        yield served


@pytest.fixture
def start(serving: Callable[..., Served], provider: ProviderServer) -> Callable[..., Served]:
    def started(origin: str = ORIGIN, *, govern: bool = False, **oidc: str) -> Served:
        settings = SETTINGS | {"origin": json.dumps(origin)}
        return serving(service=settings, more=provider.config(**oidc), govern=govern)

    return started


@pytest.fixture
def served(shared: Served, provider: ProviderServer) -> Served:
    return shared


@pytest.fixture
def browser(served: Served) -> Browser:
    return Browser(served)


def begin(browser: Browser, then: str = "/budget") -> str:
    """Where the browser is sent at the provider."""
    reply = browser.get(f"/sign-in/provider?next={quote(then, safe='')}")
    assert reply.status == 303, reply.body
    return reply.headers["location"]


def come_back(browser: Browser, location: str) -> Reply:
    """The provider sends the browser back: a request from another site."""
    parts = urlsplit(location)
    return browser.get(f"{parts.path}?{parts.query}", **{"sec-fetch-site": "cross-site"})


def change(location: str, **parts: str | None) -> str:
    """The address with other parameters; None leaves one out."""
    head, _, query = location.partition("?")
    kept = {**dict(parse_qsl(query)), **parts}
    return f"{head}?{urlencode({name: value for name, value in kept.items() if value is not None})}"


def check_refused(reply: Reply, browser: Browser, status: int = 401) -> None:
    assert reply.status == status
    assert "sfumato" not in browser.cookies
    assert browser.get("/tables").status == 303


class TestTheWholeWay:
    def test_one_is_signed_in_and_taken_to_where_one_was(self, browser: Browser, provider: ProviderServer) -> None:
        page = browser.open("/budget")
        (link,) = [each for each in page.find("a") if each.text == "Sign in with your organisation"]
        reply = come_back(browser, provider.sign_in(browser.get(link["href"]).headers["location"]))
        assert (reply.status, dict(reply.pairs)["location"]) == (303, "/budget")
        assert "Signed in as anna" in browser.open("/budget").text

    def test_what_is_sent_is_what_the_flow_needs_and_no_secret(
        self, browser: Browser, provider: ProviderServer
    ) -> None:
        location = begin(browser)
        sent = dict(parse_qsl(urlsplit(location).query))
        assert sent["redirect_uri"] == f"{ORIGIN}/sign-in/return"
        assert sent["scope"] == "openid"
        assert len({sent["state"], sent["nonce"], sent["code_challenge"]}) == 3
        cookie = browser.cookies[COOKIE]
        come_back(browser, provider.sign_in(location))
        (form,) = provider.asked
        assert form.keys() == {"grant_type", "code", "redirect_uri", "client_id", "code_verifier"}
        for secret in (form["code_verifier"], cookie.partition(".")[0]):
            assert secret not in location

    def test_two_attempts_have_nothing_in_common(self, served: Served) -> None:
        first, second = (dict(parse_qsl(urlsplit(begin(Browser(served))).query)) for _ in range(2))
        for name in ("state", "nonce", "code_challenge"):
            assert first[name] != second[name]

    def test_the_cookies_are_ours_alone(self, start: Callable[..., Served], provider: ProviderServer) -> None:
        browser = Browser(start(HTTPS), "numbers.example")
        reply = browser.get("/sign-in/provider")
        assert dict(parse_qsl(urlsplit(reply.headers["location"]).query))["redirect_uri"] == f"{HTTPS}/sign-in/return"
        name, _, rest = reply.headers["set-cookie"].partition("=")
        assert name == "__Host-sfumato-provider"
        assert rest.partition(";")[2] == " Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=600"
        reply = come_back(browser, provider.sign_in(reply.headers["location"]))
        kept = [value for header, value in reply.pairs if header == "set-cookie"]
        assert kept[0] == "__Host-sfumato-provider=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=0"
        assert kept[1].startswith("__Host-sfumato=")
        assert kept[1].endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")

    @pytest.mark.parametrize("methods", [MISSING, ["client_secret_basic"], ["client_secret_post"]], ids=count())
    def test_with_a_secret(
        self, start: Callable[..., Served], provider: ProviderServer, tmp_path: Path, methods: Any
    ) -> None:
        provider.secret = "s3cret"  # noqa: S105
        provider.discovery["token_endpoint_auth_methods_supported"] = methods
        file = tmp_path / "client.secret"
        file.write_text("s3cret\n")
        file.chmod(0o600)
        browser = Browser(start(client_secret_file=str(file)))
        assert come_back(browser, provider.sign_in(begin(browser))).status == 303
        assert browser.get("/tables").status == 200
        (form,) = provider.asked
        assert ("client_secret" in form) is (methods == ["client_secret_post"])

    def test_a_claim_of_the_configuration_names_the_analyst(
        self, start: Callable[..., Served], provider: ProviderServer
    ) -> None:
        provider.claims |= {"sub": "8f7c", "preferred_username": "rita"}
        browser = Browser(start(claim="preferred_username"))
        location = begin(browser, "/")
        assert dict(parse_qsl(urlsplit(location).query))["scope"] == "openid profile"
        come_back(browser, provider.sign_in(location))
        assert "Signed in as rita" in browser.open("/").text

    def test_pages_and_policy_allow_it(self, browser: Browser) -> None:
        """It is a link: `form-action` would stop a form that is redirected to the provider."""
        reply = browser.get("/sign-in")
        assert "form-action 'self'" in reply.headers["content-security-policy"]
        page = browser.open("/sign-in?next=%2Fbudget%3Fa%3Db")
        assert page.find("a", href="/sign-in/provider?next=%2Fbudget%3Fa%3Db")
        assert all(form["action"].startswith("/") for form in page.find("form"))

    def test_what_was_typed_is_still_there(self, browser: Browser, provider: ProviderServer) -> None:
        page = browser.post("/answers", {"way": "sql", "sql": "SELECT 'typed'", "once": "a"})
        (link,) = [each for each in page.find("a") if each.text == "Sign in with your organisation"]
        assert (link["target"], link["rel"]) == ("_blank", "noopener")
        come_back(browser, provider.sign_in(browser.get(link["href"]).headers["location"]))
        again = browser.post("/ask", page.form("/ask"))
        assert again.find("textarea")[0].text == "SELECT 'typed'"

    def test_without_a_client_there_is_no_button_and_no_path(self, serving: Callable[..., Served]) -> None:
        browser = Browser(serving())
        assert "organisation" not in browser.open("/sign-in").text
        for path in ("/sign-in/provider", "/sign-in/return?code=a&state=b"):
            assert browser.get(path, accept="text/html").status == 404

    def test_a_page_that_is_not_encrypted_has_no_button(self, start: Callable[..., Served]) -> None:
        browser = Browser(start("http://numbers.example"), "numbers.example")
        for path in ("/sign-in", "/sign-in/provider"):
            page = browser.open(path)
            assert "This page is not encrypted" in page.text
            assert not page.find("a", **{"class": "button"})
        assert not browser.cookies


class TestEnding:
    @pytest.fixture
    def served(self, start: Callable[..., Served]) -> Served:
        return start()

    @pytest.fixture
    def signed_in(self, browser: Browser, provider: ProviderServer) -> Browser:
        come_back(browser, provider.sign_in(begin(browser)))
        assert browser.get("/tables").status == 200
        return browser

    def test_it_ends_at_its_fixed_end(self, signed_in: Browser, served: Served) -> None:
        served.clock.advance(hours=7, minutes=59)
        assert signed_in.get("/tables").status == 200
        served.clock.advance(minutes=1)
        assert signed_in.get("/tables").status == 303

    def test_signing_out_ends_it(self, signed_in: Browser, served: Served) -> None:
        kept = dict(signed_in.cookies)
        signed_in.send("POST", "/sign-out")
        assert SignIns(served.session.ledger).find(kept["sfumato"], served.clock.now) is None
        signed_in.cookies = kept
        assert signed_in.get("/tables").status == 303

    def test_it_ends_with_its_analyst(self, signed_in: Browser) -> None:
        with restarted(signed_in, lambda text: text.replace("[analysts.anna]", "[analysts.other]")):
            assert signed_in.get("/tables").status == 303

    def test_it_has_no_more_rights_than_the_file_gives(self, signed_in: Browser) -> None:
        assert signed_in.get("/ask").status == 200
        with restarted(signed_in, lambda text: text.replace("[analysts.anna]", '[analysts.anna]\nrole = "reader"')):
            assert (signed_in.get("/tables").status, signed_in.get("/ask").status) == (200, 404)

    def test_it_lasts_when_the_service_starts_again(self, signed_in: Browser) -> None:
        with restarted(signed_in, lambda text: text + "\n"):
            assert signed_in.get("/tables").status == 200

    def test_it_ends_when_the_configuration_has_no_provider_any_more(self, signed_in: Browser) -> None:
        with restarted(signed_in, lambda text: text.replace(f'client_id = "{CLIENT}"', "")):
            assert signed_in.get("/tables").status == 303

    def test_it_makes_no_keys_and_no_grants(self, start: Callable[..., Served], provider: ProviderServer) -> None:
        """The provider may sign in again without asking."""
        served = start(govern=True)
        browser, provider.analyst = Browser(served), "omar"
        come_back(browser, provider.sign_in(begin(browser)))
        assert browser.get("/overview").status == 200
        assert "needs a sign-in of the last ten minutes, with a key" in browser.open("/keys").text
        before = served.world.tables()
        for path, fields in (("/keys", {"analyst": "anna"}), ("/grants", {"account": "anna", "information": "5"})):
            page = browser.post(path, fields | {"once": "a", "reason": "x"}, 403)
            assert "Not done" in page.find("div", role="alert")[0].text
        assert served.world.tables() == before

    def test_the_ledger_can_be_verified(self, signed_in: Browser, served: Served) -> None:
        assert served.session.ledger.verify() == []
        with served.session.ledger.writing() as books:
            books.run("UPDATE sign_ins SET analyst = 'ben'")
        assert "sign-in" in served.session.ledger.verify()[0]


@contextmanager
def restarted(browser: Browser, change: Callable[[str], str]) -> Iterator[None]:
    """The service starts again, with another file."""
    before, path = browser.served, browser.served.world.path
    text = change(path.read_text())
    assert text != path.read_text()
    before.session.close()
    path.write_text(text)
    browser.served = Served(before.world, before._portal, before.clock, console=True)
    try:
        yield
    finally:
        browser.served.session.close()


def test_another_process_can_finish_it(start: Callable[..., Served], provider: ProviderServer) -> None:
    """One worker sends people to the provider, and they come back to any other."""
    browser = Browser(start())
    location = provider.sign_in(begin(browser))
    with restarted(browser, lambda text: text + "\n"):
        assert come_back(browser, location).status == 303
        assert browser.get("/tables").status == 200


class TestAttacks:
    """Each is refused with the same page, and leaves one who was signed out signed out."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"state": None},
            {"state": ""},
            {"state": "A" * 43},
            {"state": "é"},
            {"code": None},
            {"code": ""},
            {"code": "another"},
            {"code": "A" * (MAX_CODE + 1)},
            {"iss": "https://other.example"},
            {"error": "access_denied"},
            {"code": None, "error": "access_denied", "error_description": "<b>no</b>"},
        ],
        ids=str,
    )
    def test_what_comes_back_changed(
        self, browser: Browser, provider: ProviderServer, changes: Mapping[str, str | None]
    ) -> None:
        reply = come_back(browser, change(provider.sign_in(begin(browser)), **changes))
        check_refused(reply, browser)
        assert b"Your organisation did not sign you in here" in reply.body
        assert b"<b>no" not in reply.body

    @pytest.mark.parametrize("name", ["state", "code"])
    def test_a_parameter_twice(self, browser: Browser, provider: ProviderServer, name: str) -> None:
        location = provider.sign_in(begin(browser))
        value = dict(parse_qsl(urlsplit(location).query))[name]
        check_refused(come_back(browser, f"{location}&{urlencode({name: value})}"), browser)

    @pytest.mark.parametrize(
        "claims",
        [
            {"nonce": "A" * 43},
            {"nonce": MISSING},
            {"nonce": None},
            {"nonce": ["A"]},
            {"aud": "sfumato"},  # a token for the API
            {"aud": "another"},
            {"aud": MISSING},
            {"azp": "another"},
            {"aud": [CLIENT, "another"], "azp": "another"},
            {"iss": "https://other.example"},
            {"exp": 1},
            {"exp": MISSING},
            {"sub": "unknown"},
            {"sub": MISSING},
            {"sub": ["anna"]},
        ],
        ids=count(),
    )
    def test_tokens(self, browser: Browser, provider: ProviderServer, claims: dict[str, Any]) -> None:
        provider.claims |= claims
        check_refused(come_back(browser, provider.sign_in(begin(browser))), browser)

    def test_all_refusals_are_the_same_page(self, served: Served, provider: ProviderServer) -> None:
        bodies = set()
        for claims, changes in (({}, {"state": "other"}), ({}, {"code": "other"}), ({"sub": "other"}, {})):
            browser = Browser(served)
            provider.claims |= claims
            bodies.add(come_back(browser, change(provider.sign_in(begin(browser, "/")), **changes)).body)
        assert len(bodies) == 1

    def test_no_attempt_of_this_browser(self, served: Served, provider: ProviderServer) -> None:
        """Login CSRF: another site makes the browser come back with the sign-in of another person."""
        attacker, victim = Browser(served), Browser(served)
        location = provider.sign_in(begin(attacker))
        check_refused(come_back(victim, location), victim)
        begin(victim)
        check_refused(come_back(victim, location), victim)
        assert come_back(attacker, location).status == 303

    def test_another_site_cannot_begin_one(self, browser: Browser) -> None:
        for site in ("cross-site", "same-site", "nonsense"):
            reply = browser.get("/sign-in/provider?next=%2Fbudget", **{"sec-fetch-site": site})
            assert (reply.status, reply.headers["location"]) == (303, "/sign-in?next=%2Fbudget")
            assert not browser.cookies

    def test_coming_back_twice(self, served: Served, provider: ProviderServer) -> None:
        browser = Browser(served)
        location = provider.sign_in(begin(browser))
        cookies = dict(browser.cookies)
        assert come_back(browser, location).status == 303
        assert browser.cookies[COOKIE] == ""
        thief = Browser(served)
        check_refused(come_back(thief, location), thief)
        thief.cookies = cookies  # even with the cookie of before: the provider takes a code once
        reply = come_back(thief, location)
        assert reply.status == 401
        assert browser.get("/tables").status == 200

    def test_an_attempt_is_used_once_also_with_another_code(self, served: Served, provider: ProviderServer) -> None:
        browser = Browser(served)
        place = begin(browser)
        cookies = dict(browser.cookies)
        assert come_back(browser, provider.sign_in(place)).status == 303
        thief = Browser(served)
        thief.cookies = cookies
        check_refused(come_back(thief, provider.sign_in(place)), thief)

    @pytest.mark.parametrize(("seconds", "status"), [(599, 303), (600, 401)])
    def test_an_attempt_ends_after_ten_minutes(
        self, start: Callable[..., Served], provider: ProviderServer, seconds: int, status: int
    ) -> None:
        browser = Browser(start())
        provider.claims["exp"] = MOMENT + 3600
        location = provider.sign_in(begin(browser))
        browser.served.clock.advance(seconds=seconds)
        assert come_back(browser, location).status == status

    def test_a_code_needs_the_verifier_of_its_browser(self, served: Served, provider: ProviderServer) -> None:
        """A code that was stolen from the address of another browser is worth nothing."""
        victim, thief = Browser(served), Browser(served)
        code = dict(parse_qsl(urlsplit(provider.sign_in(begin(victim))).query))["code"]
        check_refused(come_back(thief, change(provider.sign_in(begin(thief)), code=code)), thief)

    def test_a_token_of_the_way_back_is_no_token_for_the_api(self, served: Served, provider: ProviderServer) -> None:
        browser = Browser(served)
        begun = provider.sign_in(begin(browser))
        code = dict(parse_qsl(urlsplit(begun).query))["code"]
        sent = provider.codes[code]
        claims = {"iss": provider.issuer, "aud": CLIENT, "nonce": sent["nonce"]}
        assert served.get("/v1/me", token(claims=claims)).status == 401
        assert served.get("/v1/me", token(claims=claims | {"aud": "sfumato"})).status == 200

    @pytest.mark.parametrize(
        "cookie", ["", "nonsense", "A" * 43, f"{'A' * 43}.99999999999.%2F", f"{'A' * 43}.1.%2F", f"{'A' * 43}.x.%2F"]
    )
    def test_cookies_that_are_no_attempt(self, browser: Browser, provider: ProviderServer, cookie: str) -> None:
        location = provider.sign_in(begin(browser))
        browser.cookies[COOKIE] = cookie
        check_refused(come_back(browser, location), browser)

    @pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "é", "/a\nb"])
    def test_it_leads_to_no_other_site(self, browser: Browser, provider: ProviderServer, place: str) -> None:
        reply = come_back(browser, provider.sign_in(begin(browser, place)))
        assert (reply.status, dict(reply.pairs)["location"]) == (303, "/")
        forged = Attempt.begin("/", browser.served.clock.now)
        head = forged.cookie.rpartition(".")[0]
        read = Attempt.read(f"{head}.{quote(place, safe='')}", browser.served.clock.now)
        assert read is None or read.then == "/"

    def test_an_address_that_is_too_long_for_a_cookie_leads_to_the_first_page(
        self, browser: Browser, provider: ProviderServer
    ) -> None:
        for length, then in ((MAX_THEN, "/" + "%" * (MAX_THEN - 1)), (MAX_THEN + 1, "/")):
            reply = come_back(browser, provider.sign_in(begin(browser, "/" + "%" * (length - 1))))
            assert dict(reply.pairs)["location"] == then

    def test_nothing_is_written_for_those_who_begin(self, browser: Browser, served: Served) -> None:
        with served.session.ledger.reading() as books:
            before = books.head
        for _ in range(3):
            begin(browser)
        come_back(browser, f"{ORIGIN}/sign-in/return?code=a&state=b")
        with served.session.ledger.reading() as books:
            assert books.head == before


def test_no_log_and_no_table_has_what_travels(
    served: Served, provider: ProviderServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    never = set[str]()
    for changes in ({}, {"code": "stolen-code"}, {"state": "wrong-state"}):
        browser = Browser(served)
        location = change(provider.sign_in(begin(browser)), **changes)
        sent = dict(parse_qsl(urlsplit(location).query))
        never |= {browser.cookies[COOKIE], sent["state"], sent["code"], *provider.codes}
        come_back(browser, location)
        never |= {browser.cookies.get("sfumato", "none")}
    never |= {form["code_verifier"] for form in provider.asked}
    assert len(never) > 8
    said = capfd.readouterr().err + caplog.text
    stored = str(served.world.tables())
    assert "/sign-in/return" in said
    assert (STRAY in said, INVALID in said, "refused a code" in said) == (True, True, True)
    assert [secret for secret in never if secret in said or secret in stored] == []


class TestAProviderThatIsAway:
    @pytest.fixture
    def served(self, start: Callable[..., Served]) -> Served:
        return start()

    def check(self, reply: Reply) -> None:
        assert (reply.status, dict(reply.pairs)["retry-after"]) == (503, "30")
        assert b"The sign-in of your organisation cannot be reached" in reply.body
        assert b'name="key"' in reply.body

    def test_where_nothing_listens(self, serving: Callable[..., Served], provider: ProviderServer) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            away = ProviderServer(f"http://127.0.0.1:{bound.getsockname()[1]}")
            served = serving(service={"rate_per_minute": 0, "origin": json.dumps(ORIGIN)}, more=away.config())
            self.check(Browser(served).get("/sign-in/provider"))

    @pytest.mark.parametrize(
        "changes",
        [
            {"issuer": "https://other.example"},
            {"issuer": MISSING},
            {"authorization_endpoint": MISSING},
            {"authorization_endpoint": "http://other.example/authorize"},
            {"authorization_endpoint": "javascript:alert(1)"},
            {"authorization_endpoint": ["https://login.example"]},
            {"authorization_endpoint": "https://login.example/#a"},
            {"token_endpoint": "http://other.example/token"},
            {"token_endpoint": None},
        ],
        ids=count(),
    )
    def test_where_its_addresses_cannot_be_trusted(
        self, browser: Browser, provider: ProviderServer, changes: dict[str, Any]
    ) -> None:
        provider.discovery |= changes
        self.check(browser.get("/sign-in/provider"))
        assert not browser.cookies

    @pytest.mark.parametrize("status", [302, 404, 429, 500, 503])
    def test_where_it_gives_no_tokens(self, browser: Browser, provider: ProviderServer, status: int) -> None:
        location = provider.sign_in(begin(browser))
        provider.status = status
        reply = come_back(browser, location)
        self.check(reply)
        check_refused(reply, browser, 503)

    def test_a_key_still_works(self, browser: Browser, served: Served, provider: ProviderServer) -> None:
        provider.discovery |= {"issuer": "https://other.example"}
        begun = browser.get("/sign-in/provider")
        assert begun.status == 503
        assert browser.sign_in(served.key()).find("h1")[0].text == "What may be asked"


class TestConfiguration:
    OIDC = (
        '[service]\norigin = "https://numbers.example"\n[service.oidc]\nissuer = "https://login.example"\n'
        'audience = "sfumato"\njwks_url = "https://login.example/keys"\n'
    )

    def read(self, text: str, folder: Path = Path("/etc")) -> Any:
        return read_config(text, folder, {}).service

    def test_both_settings_are_optional(self) -> None:
        assert not self.read(self.OIDC).has_provider
        service = self.read(f'{self.OIDC}client_id = "a"\nclient_secret_file = "b"\n')
        assert service.has_provider
        assert service.oidc.client_secret_file == Path("/etc/b")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (OIDC + 'client_ID = "a"', "client_id"),
            (OIDC + 'client_secret = "a"', "client_secret_file"),
            (OIDC + 'client_secret_file = "a"', "client_secret_file: .* needs client_id"),
            (OIDC.replace("origin", "#") + 'client_id = "a"', "origin: must be set"),
            (OIDC.replace('https://login.example"', 'http://login.example"') + 'client_id = "a"', "issuer: must begin"),
            (OIDC + "client_id = 7", "client_id"),
        ],
    )
    def test_what_is_refused(self, text: str, words: str) -> None:
        with pytest.raises(ConfigError, match=words):
            self.read(text)

    @pytest.mark.parametrize(
        ("content", "mode", "words"),
        [
            (None, 0, "cannot be read as text"),
            (b"\xff", 0o600, "cannot be read as text"),
            (b"secret", 0o640, "can be read by others; run: chmod 600"),
            (b" \n", 0o600, "must hold the secret"),
            (b"a" * 5000, 0o600, "must hold the secret"),
        ],
        ids=str,
    )
    def test_the_secret_is_read_when_the_service_starts(
        self, tmp_path: Path, content: bytes | None, mode: int, words: str
    ) -> None:
        if content is not None:
            (tmp_path / "b").write_bytes(content)
            (tmp_path / "b").chmod(mode)
        service = self.read(f'{self.OIDC}client_id = "a"\nclient_secret_file = "b"\n', tmp_path)
        with pytest.raises(ConfigError, match=words) as refused:
            CodeFlow(service.oidc, "https://numbers.example/sign-in/return")
        assert 'secret"' not in str(refused.value)
