"""The pages of owners and auditors: what they say, who may see them, and what they change."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest

import sfumato as sf
from sfumato.accounting import Charge
from sfumato.explain.losses import chance
from sfumato.ledger.types import OWN, Actor
from sfumato.ledger.verification import Verifications
from sfumato.show import visible
from sfumato.web.guarantee_page import describe_delta, out_of_100
from sfumato.web.policy_page import sort_settings
from sfumato.web.rendering import HEADERS, SCRIPT
from sfumato.web.spending_pages import add_up_spending
from sfumato.wire import CheckRow, SpentRow, UsageReport
from tests.helpers.browsing import Browser, Page
from tests.helpers.served import REGIONS, Served
from tests.web.test_pages import HOSTILE, OVERSEEING, check_markup, walk

Serving = Callable[..., Served]

READ = [*OVERSEEING, "/ledger/progress"]
PATHS = [
    *OVERSEEING,
    "/dry?budget=30,3",
    "/questions?analyst=anna",
    "/guarantee?epsilon=2&before=10",
    "/keys?analyst=anna",
]
GOVERNING = ["/keys", "/grants", "/ledger", "/keys/0123456789ab/revoke"]


def signed_in(served: Served, analyst: str = "omar") -> Browser:
    browser = Browser(served)
    browser.sign_in(served.key(analyst))
    return browser


@pytest.fixture
def omar(shared: Served) -> Browser:
    """The owner, in the shared service."""
    return signed_in(shared)


@pytest.fixture
def governed(serving: Serving) -> Served:
    return serving(govern=True)


class TestEveryPage:
    @pytest.mark.parametrize("path", PATHS)
    def test_markup_and_links(self, omar: Browser, path: str) -> None:
        page = omar.open(path)
        check_markup(page)
        assert page.find("nav")[0].find("a", **{"aria-current": "page"})
        for link in page.find("a"):
            address = link["href"].partition("#")[0]
            assert not address or omar.get(address).status in (200, 303), address

    @pytest.mark.parametrize("path", [*PATHS, "/grants", "/keys/0123456789ab/revoke"])
    def test_headers(self, omar: Browser, path: str) -> None:
        reply = omar.get(path)
        for name, value in HEADERS.items():
            assert reply.headers[name] == value

    def test_a_tracked_budget_is_named_on_top_of_each(self, serving: Serving) -> None:
        browser = signed_in(serving(mode="track"))
        for path in OVERSEEING:
            assert "Tracked: nothing is bounded." in browser.open(path).find("div", **{"class": "notice wrong"})[0].text

    @pytest.mark.parametrize("path", OVERSEEING)
    def test_where_all_are_enforced_nothing_is_said_of_it(self, omar: Browser, path: str) -> None:
        assert "Tracked" not in omar.open(path).text

    def test_pages_stay_small_with_many_analysts(self, serving: Serving) -> None:
        served = serving(others=" ".join(f"a{number}" for number in range(250)))
        browser = signed_in(served)
        for path in OVERSEEING:
            assert len(browser.get(path).body) < 150_000, path
        assert "more are in the HTTP interface" in browser.open("/overview").text
        assert browser.open("/keys").find("input", name="analyst")
        assert browser.open("/questions?analyst=a7").find("input", name="analyst")[0]["value"] == "a7"
        assert "The account analyst:a7" in browser.open("/guarantee?account=analyst:a7").text
        assert "not listed" in browser.open("/policy").text


class TestRoles:
    @pytest.mark.parametrize("analyst", ["anna", "omar", "axel", "rita"])
    def test_a_page_is_shown_or_is_as_if_it_were_not_there(self, shared: Served, analyst: str) -> None:
        browser = signed_in(shared, analyst)
        missing = browser.send("GET", "/nowhere", headers={"accept": "text/html"})
        sees, governs = analyst in ("omar", "axel"), analyst == "omar"
        for path in READ:
            reply = browser.get(path)
            assert (reply.status == 200) is sees, path
            assert sees or (reply.status, reply.body) == (404, missing.body)
        for path in ("/grants", "/releases/" + "0" * 64, "/releases/" + "0" * 64 + "/statement.json"):
            reply = browser.get(path)
            assert (reply.status == 200) is (governs and path == "/grants"), path
            assert reply.status == 200 or reply.body == missing.body
        for path in GOVERNING:
            if governs:
                continue
            reply = browser.send(
                "POST", path, {"analyst": "anna", "account": "anna", "information": "1", "reason": "x"}
            )
            assert (reply.status, reply.body) == (404, missing.body), path

    def test_an_auditor_changes_nothing_and_is_offered_nothing(self, governed: Served) -> None:
        browser = signed_in(governed, "axel")
        before, [own] = governed.world.tables(), governed.keys.list("axel")
        for path in OVERSEEING:
            assert not browser.open(path).find("form", method="post")[1:], path  # only that of signing out
        for path in [*GOVERNING, f"/keys/{own.id}/revoke"]:
            assert browser.send("POST", path, {"analyst": "anna", "account": "anna", "once": "a"}).status == 404
        assert browser.get(f"/keys/{own.id}/revoke").status == 404
        assert governed.world.tables() == before
        assert governed.session.ledger_state().verification is None

    def test_forms_of_others_change_nothing(self, governed: Served) -> None:
        browser = signed_in(governed)
        before, [own] = governed.world.tables(), governed.keys.list("omar")
        for path in [*GOVERNING, f"/keys/{own.id}/revoke"]:
            for headers in (
                {"sec-fetch-site": "cross-site"},
                {"sec-fetch-site": "same-site"},
                {"sec-fetch-site": None},
                {"sec-fetch-site": None, "origin": "https://elsewhere.example"},
            ):
                fields = {"analyst": "anna", "account": "anna", "information": "5", "reason": "x"}
                assert browser.send("POST", path, fields, headers).status == 403, path
        assert governed.world.tables() == before

    def test_signed_out_one_comes_back_to_the_page(self, shared: Served) -> None:
        browser = Browser(shared)
        for path in OVERSEEING:
            assert browser.get(path).headers["location"] == f"/sign-in?next=%2F{path[1:]}"
        page = Page(browser.send("POST", "/keys", {"analyst": "anna"}).body.decode())
        assert dict(page.form("/sign-in"))["next"] == "/keys"


class TestSpending:
    def test_every_account_is_listed_as_v1_has_it(self, served: Served) -> None:
        served.ask(served.key("anna"))
        browser = signed_in(served)
        page = browser.open("/overview")
        names = [row.find("th")[0].text for row in page.find("table")[0].find("tbody")[0].find("tr")]
        accounts = served.session.accounts().rows
        assert names == [each.account for each in accounts]
        own = next(each for each in accounts if each.account == "analyst:anna")
        row = next(row for row in page.find("tr") if "analyst:anna" in row.text)
        assert f"{own.spent.information} units and 1 call" in row.text
        assert "enforced" in row.text

    def test_spending_by_day_is_a_picture_and_a_table(self, served: Served) -> None:
        assert "Nothing was spent" in signed_in(served).open("/overview").text
        served.ask(served.key("anna"))
        served.ask(served.key("olga"), REGIONS)
        page = signed_in(served).open("/overview")
        check_markup(page)
        assert [svg["class"] for svg in page.find("svg")] == ["picture wide", "picture narrow"]
        said = [title.text for title in page.find("svg")[0].find("title")]
        assert any(text.startswith("anna, 15 November: ") for text in said)
        rows = [[cell.text for cell in row.find("td")] for row in page.find("table")[1].find("tbody")[0].find("tr")]
        names = [row.find("th")[0].text for row in page.find("table")[1].find("tbody")[0].find("tr")]
        assert names == ["anna", "olga"]
        spent = served.spent("anna")
        assert rows[0] == ["2026-11-15", str(spent.information), str(spent.calls)]

    def test_more_analysts_than_colours_are_drawn_together(self, serving: Serving) -> None:
        names = [f"a{number}" for number in range(14)]
        served = serving(others=" ".join(names))
        for name in names:
            served.ask(served.key(name), REGIONS)
        page = signed_in(served).open("/overview")
        assert "all others" in page.find("svg")[0].text
        assert len(page.find("table")[1].find("tbody")[0].find("tr")) == 14

    def test_a_release_is_spending_and_what_shared_accounts_pay_is_not_added(self) -> None:
        day, paid = date(2026, 11, 3), Charge(5, 1)
        rows = [
            SpentRow(day=day, analyst=who, account=account, period=None, charge=paid)
            for who, account in (("", "release:partner"), ("anna", "analyst:anna"), ("anna", "organisation:acme"))
        ]
        spending = add_up_spending(UsageReport(since=day, until=day, rows=rows, forecast=[], notes=[]))
        assert spending.rows == ((day, "anna", paid), (day, "releases", paid))
        assert "releases, 3 November: 5" in spending.pictures[0]

    def test_an_account_that_never_bounds_says_so(self, serving: Serving) -> None:
        page = signed_in(serving(mode="track")).open("/overview")
        assert "tracked: nothing is bounded" in page.find("table")[0].text

    def test_the_forecast_is_that_of_the_api(self, served: Served) -> None:
        for name in ("anna", "olga"):
            served.ask(served.key(name))
        browser = signed_in(served)
        page = browser.open("/dry?budget=5,30&budget=3000,1&budget=&budget=3000, 30")
        check_markup(page)
        assert [svg["class"] for svg in page.find("svg")] == ["picture wide", "picture narrow"]
        assert [node["value"] for node in page.find("input", name="budget")][:3] == ["5,30", "3000,1", "3000,30"]
        assert "With 5 units and 30 calls, 0% never notice." in page.text
        assert "With 3,000 units and 30 calls, 100% never notice." in page.text
        usage = served.session.usage(budgets=["5,30", "3000,1", "3000,30"])
        for note in usage.notes:
            assert note.text[1:] in page.text
        rows = page.find("table")[0].find("tbody")[0].find("tr")
        assert [row.find("th")[0].text for row in rows] == ["5 units", "3,000 units"]

    def test_without_budgets_it_is_those_that_analysts_have(self, omar: Browser) -> None:
        page = omar.open("/dry")
        assert page.find("input", name="budget")[0]["value"] == "3000,100"
        assert "No analyst has spent anything" in page.text or page.find("svg")

    @pytest.mark.parametrize("query", ["budget=x", "budget=" + "&budget=".join(["1,1"] * 11), "since=tomorrow"])
    def test_what_cannot_be_compared_is_said(self, omar: Browser, query: str) -> None:
        page = omar.open(f"/dry?{query}", 400)
        assert page.find("div", role="alert")
        check_markup(page)


class TestQuestions:
    def test_of_all_with_prices_by_analyst_and_day(self, served: Served) -> None:
        served.ask(served.key("anna"))
        served.clock.advance(days=1)
        served.ask(served.key("olga"), REGIONS)
        browser = signed_in(served)
        page = browser.open("/questions")
        check_markup(page)
        assert [row.find("th")[0].text for row in page.find("tbody")[0].find("tr")] == ["olga", "anna"]
        assert "units and 1 call" in page.find("tbody")[0].text
        for query, names in (
            ("analyst=anna", ["anna"]),
            ("until=2026-11-15", ["anna"]),
            ("since=2026-11-16&analyst=", ["olga"]),
        ):
            found = browser.open(f"/questions?{query}").find("tbody")[0].find("tr")
            assert [row.find("th")[0].text for row in found] == names
        assert "Nothing was asked" in browser.open("/questions?analyst=ben").text
        assert browser.open("/questions?since=then", 400).find("div", role="alert")
        answer = served.ask(served.key("olga"), REGIONS).json["rows"][0]["members"]
        assert f">{answer}<" not in page.source


def make_key(browser: Browser, status: int = 200, **fields: str) -> Page:
    form = dict(browser.open("/keys").form("/keys")) if browser.open("/keys").find("form", method="post")[1:] else {}
    return browser.post("/keys", form | {"once": "a"} | fields, status)


class TestKeys:
    def test_made_used_and_revoked(self, governed: Served) -> None:
        """From a form of the owner to a sign-in, and to its end."""
        owner = signed_in(governed)
        page = make_key(owner, analyst="anna", expires="2026-11-20")
        check_new_key(page)
        secret = page.find("code")[0].text
        assert re.fullmatch("sfumato_[A-Za-z0-9_-]{43}", secret)
        assert secret not in "".join(owner.open(path).source for path in OVERSEEING)
        assert secret not in repr(governed.world.tables())
        anna = Browser(governed)
        anna.sign_in(secret)
        assert "Signed in as anna" in anna.open("/budget").text

        [made] = governed.keys.list("anna")
        listed = owner.open("/keys?analyst=anna")
        assert "ends soon" in listed.text
        assert "Within 14 days 1 key ends: anna" in listed.text
        [link] = [each["href"] for each in listed.find("a") if each["href"].endswith("/revoke")]
        asked = owner.open(link)
        check_markup(asked)
        assert "every sign-in that was begun with it" in asked.text
        assert "your own sign-in" not in asked.text
        assert anna.get("/budget").status == 200  # asking changes nothing
        assert "revoked" in owner.post(link, {}).text
        assert anna.get("/budget").status == 303
        assert governed.get("/v1/me", secret).status == 401
        [state] = governed.session.keys("anna").rows
        assert state.id == made.id
        for actor in (state.created_by, state.revoked_by):
            assert actor is not None
            assert actor.analyst == "omar"

    def test_the_same_form_twice_makes_one_key(self, governed: Served) -> None:
        owner = signed_in(governed)
        first, again = (owner.post("/keys", {"analyst": "ben", "once": "one"}) for _ in range(2))
        assert first.find("code")[0].text.startswith("sfumato_")
        assert "was sent before" in again.text
        assert len(governed.keys.list("ben")) == 1
        owner.post("/keys", {"analyst": "ben", "once": "two"})
        owner.post("/keys", {"analyst": "ben", "role": "reader", "once": "two"})
        assert len(governed.keys.list("ben")) == 3

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"analyst": "anna", "role": "owner"}, "must be one of analyst, reader, auditor"),
            ({"analyst": "omar"}, "must be one of analyst, reader, auditor"),
            ({"analyst": "anna", "expires": "2027-03-01"}, "must be within 90 days"),
            ({"analyst": "anna", "expires": "2026-11-01"}, "is in the past"),
            ({"analyst": "nina"}, "there is no analyst"),
            ({"analyst": ""}, "must be text"),
        ],
    )
    def test_what_is_refused_is_still_in_the_form(self, governed: Served, fields: dict[str, str], words: str) -> None:
        owner = signed_in(governed)
        before = governed.world.tables()
        page = make_key(owner, 400, **fields)
        assert words in page.find("div", role="alert")[0].text
        check_markup(page)
        if "expires" in fields:
            assert dict(page.form("/keys"))["analyst"] == ""  # of the search; the other form has what was typed
            assert page.find("input", name="expires")[0]["value"] == fields["expires"]
        assert governed.world.tables() == before

    def test_it_needs_a_sign_in_of_the_last_ten_minutes(self, governed: Served) -> None:
        owner = signed_in(governed)
        governed.clock.advance(minutes=10)
        assert make_key(owner, analyst="anna").find("code")
        governed.clock.advance(seconds=1)
        page = owner.open("/keys")
        assert "needs a sign-in of the last ten minutes" in page.text
        for path, fields in (
            ("/keys", {"analyst": "anna", "once": "b"}),
            ("/grants", {"account": "anna", "information": "5", "reason": "x", "once": "b"}),
        ):
            before = governed.world.tables()
            refused = owner.post(path, fields, 403)
            assert "nothing was done" in refused.find("div", role="alert")[0].text
            assert f"/sign-in?next={path}" in [link["href"] for link in refused.find("a")]
            check_markup(refused)
            assert governed.world.tables() == before
        [made] = governed.keys.list("anna")
        assert owner.post(f"/keys/{made.id}/revoke", {}).find("table")  # revoking only takes away
        assert governed.keys.list("anna")[0].revoked is not None

    def test_making_is_off_by_default_and_revoking_works(self, served: Served) -> None:
        owner = signed_in(served)
        page = owner.open("/keys")
        assert "sfumato keys create" in page.text
        assert not [form for form in page.find("form", method="post") if form["action"] == "/keys"]
        assert owner.post("/keys", {"analyst": "anna", "once": "a"}, 403).find("div", role="alert")
        assert owner.post("/grants", {"account": "anna", "information": "5", "reason": "x"}, 403).find(
            "div", role="alert"
        )
        served.key("ben")
        [known] = served.keys.list("ben")
        owner.post(f"/keys/{known.id}/revoke", {})
        assert served.keys.list("ben")[0].revoked is not None

    def test_revoking_ones_own_key_signs_out(self, served: Served) -> None:
        owner = signed_in(served)
        [own] = served.keys.list("omar")
        assert "your own sign-in" in owner.open(f"/keys/{own.id}/revoke").text
        page = owner.post(f"/keys/{own.id}/revoke", {})
        assert page.find("input", name="key")
        assert owner.get("/keys").status == 303

    def test_an_unknown_key_is_not_there(self, omar: Browser) -> None:
        missing = omar.send("GET", "/nowhere", headers={"accept": "text/html"}).body
        assert omar.get("/keys/0123456789ab/revoke").body == missing
        assert omar.send("POST", "/keys/0123456789ab/revoke").body == missing


def check_new_key(page: Page) -> None:
    """No way on but by the box that must be ticked; and no field of it is ever sent."""
    check_markup(page)
    (form,) = page.find("form")
    assert (form["method"], form["action"]) == ("get", "/keys")
    (box,) = form.find("input")
    assert (box["type"], "required" in box.attributes, box.get("name")) == ("checkbox", True, "")
    assert [link["href"] for link in page.find("a")] == ["#content"]
    assert page.find("button", type="button")[0].text == "Copy"


class TestGrants:
    def test_a_grant_with_its_reason_is_made_once(self, governed: Served) -> None:
        owner = signed_in(governed)
        page = owner.open("/grants")
        check_markup(page)
        fields = dict(page.form("/grants")) | {"account": "analyst:anna", "information": "30", "reason": "the board"}
        for _ in range(2):
            assert "of which 30 units granted" in owner.post("/grants", fields).text
        assert owner.at == "/overview"
        assert governed.session.budget("anna").accounts[0].granted == Charge(30)
        with governed.session.ledger.reading() as books:
            [note] = [json.loads(row.note) for row in books.journal() if row.kind == "grant"]
        assert (note["reason"], note["by"]["analyst"]) == ("the board", "omar")

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"account": "analyst:nina", "information": "1", "reason": "x"}, "there is no account"),
            ({"account": "analyst:anna", "information": "-1", "reason": "x"}, "must not be negative"),
            ({"account": "analyst:anna", "information": "many", "reason": "x"}, "information"),
            ({"account": "analyst:anna", "information": "1", "reason": ""}, "reason"),
        ],
    )
    def test_what_is_refused_is_still_in_the_form(self, governed: Served, fields: dict[str, str], words: str) -> None:
        owner = signed_in(governed)
        page = owner.post("/grants", fields | {"once": "a"}, 400)
        assert words in page.find("div", role="alert")[0].text
        assert page.find("input", name="information")[0]["value"] == fields["information"]
        assert governed.session.budget("anna").accounts[0].granted == Charge()


class TestPolicy:
    def test_every_setting_stands_by_what_it_is_about(self, serving: Serving) -> None:
        served = serving(ads=True)
        page = signed_in(served).open("/policy")
        check_markup(page)
        policy = served.session.policy()
        for text in policy.settings.values():
            assert (
                visible(text) in page.source or visible(text).replace('"', "&#34;").replace("'", "&#39;") in page.source
            )
        assert policy.file in page.text
        [table] = [each for each in page.find("details") if each.find("summary")[0].text == "engagements · ok"]
        assert [node.text for node in table.find("h3")] == ["What can be counted", "Columns"]

    def test_a_check_is_beside_its_section(self) -> None:
        names = {"tables": ["a", "a.b"], "analysts": ["ann.x"]}
        settings = {
            "tables.a.max_k": "1",
            "tables.a.b.max_k": "2",
            "analysts.ann.x.role": "owner",
            "console.govern": "true",
        }
        checks = [
            CheckRow(setting="tables.a.b.cap", verdict="doubtful", text="t"),
            CheckRow(setting="analysts.ann.x", verdict="wrong", text="t"),
            CheckRow(setting="engines.local", verdict="wrong", text="t"),
        ]
        first, second, analyst, general = sort_settings(names, settings, checks)
        assert (first.settings, first.verdict) == ({"max_k": "1"}, "ok")
        assert (second.settings, second.verdict) == ({"max_k": "2"}, "doubtful")
        assert (analyst.settings, analyst.verdict) == ({"role": "owner"}, "wrong")
        assert (general.settings, general.checks) == ({"console.govern": "true"}, [checks[2]])

    def test_what_changed_last(self, served: Served) -> None:
        page = signed_in(served).open("/policy")
        assert "What changed last" in page.text
        assert "First seen on 2026-11-15 12:00" in page.text or "no change yet" in page.text


class TestGuarantee:
    def test_the_numbers_are_those_of_policy_explain(self, serving: Serving) -> None:
        served = serving(information=100, calls=10, epsilon_per="0.15", ads=True)
        page = signed_in(served).open("/guarantee?account=analyst:anna")
        check_markup(page)
        guarantee = served.session.guarantee()
        promise = next(each for each in guarantee.accounts if each.account == "analyst:anna")
        marks = page.find("table", **{"data-marks": ""})[0].find("tbody")[0].find("tr")
        for bound, row in zip(promise.bounds, marks, strict=False):
            epsilon, bets = (cell.text for cell in row.find("td", **{"class": "number"}))
            assert epsilon == f"{bound.epsilon:,.2f}"
            assert bets == str(math.ceil(round(100 * bound.wins, 4))) or bound.wins > 0.9999
            assert row.find("a")[0]["href"].startswith("/guarantee?account=analyst%3Aanna&epsilon=")
        words = [row.find("a")[0].text for row in marks]
        assert words[: len(promise.bounds)][0] == "one total"
        assert any(text.startswith("all together, about engagements") for text in words)
        assert any(text.startswith("the report ") for text in words) is any(guarantee.reports.values())
        for text in ("Grants add to a budget", "The policy itself is public"):
            assert text in page.text

    def test_a_bet_without_script(self, omar: Browser) -> None:
        page = omar.open("/guarantee?epsilon=0.3&delta=1e-7&before=50")
        even, belief = (page.find("p", **{name: ""})[0] for name in ("data-even", "data-belief"))
        assert "hidden" in belief.attributes
        assert "hidden" not in even.attributes
        assert even.text.endswith("at most 58.")
        assert "at most once in 10 million" in page.text
        (dots,) = page.find("svg")
        drawn = {group["class"]: len(group.find("circle")) for group in dots.find("g")}
        assert drawn == {"dot8": 50, "dot1": 8, "edge0": 42}
        assert "hidden" in page.find("div", **{"data-weak": "3"})[0].attributes

    def test_a_belief_without_script(self, omar: Browser) -> None:
        page = omar.open("/guarantee?epsilon=0.3&delta=0&before=10")
        belief = page.find("p", **{"data-belief": ""})[0]
        assert "hidden" not in belief.attributes
        assert "believed 10 of 100" in belief.text
        assert belief.text.endswith("believes at most 14 of 100.")
        assert "may not hold never" not in page.text

    def test_it_is_honest_at_large_epsilon(self, omar: Browser) -> None:
        page = omar.open("/guarantee?epsilon=32.9&delta=1e-7")
        weak = page.find("div", **{"data-weak": "3"})[0]
        assert "hidden" not in weak.attributes
        assert "promises little" in weak.text
        assert [item.text.partition(":")[0] for item in weak.find("li")] == [
            "one total",
            "histogram (max_groups = 1)",
            "one list of ten",
        ]
        assert page.find("p", **{"data-even": ""})[0].text.endswith("at most 100.")

    def test_nothing_is_bounded_where_all_is_tracked(self, serving: Serving) -> None:
        page = signed_in(serving(mode="track")).open("/guarantee?account=analyst:anna")
        assert "has no bound at all" in page.text
        check_markup(page)

    @pytest.mark.parametrize(
        "query", ["epsilon=much", "epsilon=-1", "epsilon=nan", "before=0", "before=100", "delta=1", "account=nina"]
    )
    def test_what_is_no_number_is_said(self, omar: Browser, query: str) -> None:
        page = omar.open(f"/guarantee?{query}", 400)
        assert query.partition("=")[0] in page.find("div", role="alert")[0].text

    def test_delta_in_words(self) -> None:
        assert describe_delta(1 / 140e6) == "at most once in 140 million"
        assert describe_delta(2e-6) == "at most once in 500,000"
        assert describe_delta(1 / 1_234_567) == "at most once in 1.23 million"

    @pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3, 1.0, 3.0, 7.77, 32.9, 142.61, 1e6])
    @pytest.mark.parametrize("delta", [0.0, 1e-7, 0.001, 0.999])
    def test_the_script_has_the_same_formula(self, epsilon: float, delta: float) -> None:
        """The two languages write it alike, so Python computes what the script has."""
        script = SCRIPT.content.decode()
        known = {"Math": SimpleNamespace(exp=math.exp, min=min, ceil=math.ceil, round=round)}
        bodies = {
            name: re.search(rf"^const {name} = \(([\w, ]+)\) => (.+);$", script, re.MULTILINE)
            for name in ("chance", "outOf100")
        }
        in_page = {
            name: eval(f"lambda {found[1]}: {found[2]}", known)  # noqa: S307
            for name, found in bodies.items()
            if found
        }
        for before in (0.01, 0.1, 0.5, 0.9, 0.99):
            assert in_page["chance"](epsilon, delta, before) == chance(epsilon, delta, before)
            share = chance(epsilon, delta, before)
            assert in_page["outOf100"](share) == out_of_100(share)
        assert 'place < Math.floor(before) ? "dot8" : place < after ? "dot1" : "edge0"' in script

    def test_a_belief_is_never_below_what_it_was(self) -> None:
        for before in range(1, 100):
            assert out_of_100(chance(0, 0, before / 100)) == before


class TestLedger:
    def test_its_state(self, served: Served) -> None:
        served.ask(served.key("anna"))
        page = signed_in(served).open("/ledger")
        state = served.session.ledger_state()
        assert state.id in page.text
        assert state.head in page.text
        assert f"{state.fence.rows:,} row" in page.text
        assert "It was not checked from here yet" in page.text
        assert str(served.world.folder) not in page.source

    def test_verified_from_the_page(self, served: Served) -> None:
        served.ask(served.key("anna"))
        owner = signed_in(served)
        owner.post("/ledger", {})
        for thread in threading.enumerate():
            if thread.name.startswith("verification"):
                thread.join(60)
        page = owner.open("/ledger")
        assert "The books are right." in page.text
        assert "begun by omar" in page.text
        assert owner.get("/ledger/progress").json["state"] == "ended"
        served.ask(served.key("anna"), REGIONS)
        assert re.search("Since then [0-9]+ rows? came", owner.open("/ledger").text)

    def test_running_lost_and_wrong(self, served: Served) -> None:
        owner = signed_in(served)
        assert owner.get("/ledger/progress").json is None
        jobs = Verifications(served.session.ledger, served.clock)
        job, _ = jobs.begin(Actor(user="<b>root</b>"))
        page = owner.open("/ledger")
        assert page.find("progress")
        assert "begun by <b>root</b>" in page.text
        assert not [form for form in page.find("form", method="post") if form["action"] == "/ledger"]
        check_markup(page)
        served.clock.advance(minutes=11)
        assert "has ended with its process" in owner.open("/ledger").text
        jobs.note(job.number, (3, 3), ["a <i>balance</i> is wrong"])
        wrong = owner.open("/ledger")
        assert "The books are wrong." in wrong.text
        assert "a <i>balance</i> is wrong" in wrong.text
        assert "sfumato budget recover" in wrong.text


class TestReleases:
    def test_with_their_statements(self, served: Served, tmp_path: Path) -> None:
        rows = tmp_path / "rows.csv"
        rows.write_text("person,<i>item</i>\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(400)))
        given = {"unit": "person", "key": "<i>item</i>", "method": "pcr", "rho": 1, "delta": 1e-6}
        auditor = signed_in(served, "axel")
        assert "There is no release yet" in auditor.open("/releases").text
        made = sf.release_counts(rows, **given, config=served.world.path, budget="partner", job="job-1")
        page = auditor.open("/releases")
        check_markup(page)
        link = page.find("tbody")[0].find("a")[0]
        assert link.text == "job-1"
        one = auditor.open(link["href"])
        check_markup(one)
        assert "<i>item</i>" in one.text
        assert "release:partner: 32 units and 1 call" in one.text
        assert "lower end of a 95 % interval" in one.text
        saved = auditor.get(f"{link['href']}/statement.json")
        assert json.loads(saved.body) == made.statement
        assert saved.headers["content-disposition"].startswith('attachment; filename="release-')


NAMES = [name for name in HOSTILE if name and name.isprintable()][:8]


def test_hostile_names_are_only_text(serving: Serving) -> None:
    """Of analysts, their accounts, and the reasons of grants: the text that is seen is the name."""
    people = "".join(f'[analysts.{json.dumps(name)}]\nbudget = "partner"\n' for name in NAMES)
    served = serving(govern=True, prepare=lambda world: world.path.write_text(people + world.path.read_text()))
    for name in NAMES:
        served.ask(served.key(name), REGIONS)
        served.session.grant(OWN + name, Charge(1), name)
    owner = signed_in(served)
    for path in OVERSEEING:
        page = owner.open(path)
        check_markup(page)
        assert not [node.tag for node in walk(page) if node.tag in ("img", "iframe", "b", "i")]
        assert not [name for name in NAMES if name in page.find("title")[0].text]
        if path in ("/overview", "/questions", "/policy", "/keys"):
            assert all(visible(name) in page.root.text for name in NAMES), path
    for name in NAMES:
        made = owner.post("/keys", {"analyst": name, "once": name})
        check_new_key(made)
        assert visible(name) in made.root.text
        links = owner.open("/keys").find("a")
        asked = owner.open(
            next(each["href"] for each in links if each["href"].endswith("/revoke") and name in each.text)
        )
        assert visible(name) in asked.root.text
