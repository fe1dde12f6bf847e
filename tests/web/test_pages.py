"""Every page: what it says, how it is marked up, who may see it, and what its headers allow."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from sfumato.accounting import Charge
from sfumato.show import visible
from sfumato.web.rendering import HEADERS, SCRIPT, STYLE
from tests.helpers.browsing import Browser, Page, ask
from tests.helpers.hostile import HOSTILE
from tests.helpers.served import TOTAL, UNKNOWN, Served, break_engine
from tests.helpers.worlds import World

TOP_SQL = "SELECT article, members FROM engagements GROUP BY article ORDER BY members DESC LIMIT 5"
REGIONS_SQL = "SELECT region, members FROM engagements GROUP BY region"
PAGES = ("/tables", "/ask", "/ask?way=sql", "/ask?table=engagements", "/history", "/budget", "/sign-in", "/reports")
OVERSEEING = ["/overview", "/dry", "/questions", "/keys", "/policy", "/guarantee", "/ledger", "/releases"]


def check_markup(page: Page) -> None:
    """What holds for every page: one heading, labels, names, no markup that a policy refuses."""
    assert len(page.find("h1")) == 1
    assert page.find("html", lang="en")
    assert page.find("title")[0].text.endswith(" · Sfumato")
    ids = [node["id"] for node in walk(page) if "id" in node.attributes]
    assert len(ids) == len({*ids})
    labelled = {node.get("for") for node in page.find("label")}
    for tag in ("input", "select", "textarea"):
        for node in page.find(tag):
            inside = node.parent is not None and node.parent.tag == "label"
            assert node.get("type") == "hidden" or node.get("id") in labelled or inside, node.attributes
    for node in page.find("button"):
        assert node.text.strip() or node.get("aria-hidden") == "true"
    assert not [name for node in walk(page) for name in node.attributes if name == "style" or name.startswith("on")]
    assert [node.get("src") for node in page.find("script")] == [SCRIPT.path]
    assert not page.find("style")
    assert page.find("a", href="#content")


class TestEveryPage:
    @pytest.mark.parametrize("path", PAGES)
    def test_markup_and_links(self, reading: Browser, path: str) -> None:
        page = reading.open(path)
        check_markup(page)
        for link in page.find("a"):
            address = link["href"].partition("#")[0]
            assert not address or reading.get(address).status in (200, 303), address

    @pytest.mark.parametrize("path", [*PAGES, "/answers/" + "0" * 64, "/nowhere"])
    def test_headers(self, reading: Browser, path: str) -> None:
        reply = reading.send("GET", path, headers={"accept": "text/html"})
        for name, value in HEADERS.items():
            assert reply.headers[name] == value
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        assert "content-encoding" not in reply.headers

    def test_the_policy(self) -> None:
        assert HEADERS["content-security-policy"].split("; ") == [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]

    def test_assets_are_named_by_their_digest_kept_and_compressed(self, shared: Served) -> None:
        browser = Browser(shared)
        for asset in (STYLE, SCRIPT):
            packed = browser.get(asset.path, **{"accept-encoding": "br, gzip"})
            assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert packed.headers["content-encoding"] == "gzip"
            plain = browser.get(asset.path)
            assert gzip.decompress(packed.body) == plain.body == asset.content
            assert re.search(r"-[0-9a-f]{16}\.", asset.path)

    def test_a_first_load_is_small(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL)
        loaded = [
            page.source.encode(),
            *(anna.get(each.path, **{"accept-encoding": "gzip"}).body for each in (STYLE, SCRIPT)),
        ]
        assert sum(map(len, loaded)) < 40_000
        assert not re.findall(r'(?:src|href)="https?://', page.source)

    def test_script_turns_no_text_into_markup(self) -> None:
        script = SCRIPT.content.decode()
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|DOMParser|https?://", script
        )
        assert len(script.splitlines()) < 400


class TestRoles:
    ROLES = ("anna", "omar", "axel", "rita")

    @pytest.mark.parametrize("analyst", ROLES)
    def test_a_page_is_shown_or_is_as_if_it_were_not_there(self, shared: Served, analyst: str) -> None:
        browser = Browser(shared)
        browser.sign_in(shared.key(analyst))
        missing = browser.send("GET", "/nowhere", headers={"accept": "text/html"})
        assert missing.status == 404
        hidden = {
            "anna": set(),
            "omar": set(),
            "axel": {("POST", "/answers"), ("GET", "/reports")},
            "rita": {
                ("GET", "/ask"),
                ("POST", "/ask"),
                ("POST", "/ask/price"),
                ("GET", "/ask/words"),
                ("POST", "/answers"),
            },
        }[analyst]
        nothing = {("GET", "/answers/" + "0" * 64), ("GET", "/answers/" + "0" * 64 + "/rows.csv")}
        for method, path in (
            *(
                ("GET", path)
                for path in ("/tables", "/ask", "/ask/words", "/history", "/history.csv", "/budget", "/reports")
            ),
            *(("POST", path) for path in ("/ask", "/ask/price", "/answers", "/history")),
            *nothing,
        ):
            reply = browser.send(method, path, {"way": "sql", "sql": "SELECT 1 + 'x' FROM"} if method == "POST" else ())
            if (method, path) in hidden | nothing:
                assert (reply.status, reply.body) == (404, missing.body), path
            else:
                assert reply.status in (200, 422), path

    @pytest.mark.parametrize("analyst", ROLES)
    def test_links_are_those_of_the_role(self, shared: Served, analyst: str) -> None:
        browser = Browser(shared)
        page = browser.sign_in(shared.key(analyst))
        links = [link["href"] for link in page.find("nav")[0].find("a")]
        overseeing = OVERSEEING if analyst in ("omar", "axel") else []
        asked = [] if analyst == "rita" else ["/ask", "/history"]
        assert links == ["/tables", *asked, "/budget", *(["/reports"] if analyst != "axel" else []), *overseeing]
        assert bool(page.find("meter")) is (analyst != "rita")
        assert all(browser.get(link).status == 200 for link in links)

    def test_another_analysts_answer_is_not_there(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL)
        assert page.find("table")
        other = Browser(anna.served)
        other.sign_in(anna.served.key("olga"))
        assert other.get(anna.at).body == other.get("/answers/" + UNKNOWN.removeprefix("sha256:")).body


class TestTables:
    def test_what_may_be_asked(self, reading: Browser) -> None:
        text = reading.open("/tables").text
        assert "Hidden is whether any one member id is in the rows" in text
        assert "not listed: small groups stay hidden" in text
        assert "3 values" in text
        assert "a sum, at most 20 per member id and group" in text

    def test_which_columns_can_be_averaged(self, serving: Callable[..., Served]) -> None:
        def add_bounds(world: World) -> None:
            bounded = 'n = { type = "integer", min = 0, max = 8 }'
            text = world.path.read_text().replace('visits = { sum = "n", max_per_unit = 20 }', "")
            world.path.write_text(text.replace('n = { type = "integer" }', bounded))

        served = serving(prepare=add_bounds)
        browser = Browser(served)
        browser.sign_in(served.key())
        page = browser.open("/tables")
        check_markup(page)
        assert "integer, averaged from 0 to 8 in steps of 1" in page.text

    def test_of_nothing(self, serving: Callable[..., Served]) -> None:
        served = serving(more='[analysts.nina]\nbudget = "partner"\ntables = []\n')
        browser = Browser(served)
        page = browser.sign_in(served.key("nina"))
        assert "nothing that you may ask about yet" in page.text
        check_markup(browser.open("/ask"))


class TestAsking:
    def test_by_choosing_without_script(self, anna: Browser) -> None:
        page = anna.open("/ask?table=engagements")
        fields = [pair for pair in page.form("/answers") if pair[0] not in ("column", "value", "k")]
        fields += [("k", "3"), ("column", "region"), ("value", "emea, apac"), ("action", "price")]
        priced = anna.post("/ask", fields)
        assert "units" in priced.find("dl")[0].text
        assert anna.served.spent().information == 0
        answer = anna.post("/answers", [pair for pair in fields if pair[0] != "action"])
        assert anna.at.startswith("/answers/")
        assert "where region IN ('apac', 'emea')" in answer.text
        assert len(answer.find("tbody")[0].find("tr")) == 3
        check_markup(answer)

    def test_another_way_without_loss(self, reading: Browser) -> None:
        where = "WHERE region = 'emea' AND day >= '2026-11-03' GROUP"
        sql = TOP_SQL.replace("GROUP", where)
        form = reading.post("/ask", {"way": "sql", "sql": sql, "action": "form"})
        values = [node["value"] for node in form.find("input", name="value")]
        assert values[:2] == ["2026-11-03", "emea"]
        back = reading.post("/ask", [*form.form("/answers"), ("action", "sql")])
        again = back.find("textarea")[0].text
        assert (
            reading.post("/ask", {"way": "sql", "sql": again, "action": "form"}).form("/answers")[2:]
            == form.form("/answers")[2:]
        )

    def test_what_the_form_cannot_say_stays_in_sql(self, reading: Browser) -> None:
        sql = "SELECT members FROM engagements WHERE region = 'emea' OR n = 3"
        page = reading.post("/ask", {"way": "sql", "sql": sql, "action": "form"})
        assert "The form cannot say this question" in page.text
        assert page.find("textarea")[0].text == sql

    def test_two_clicks_a_reload_and_back_are_charged_once(self, anna: Browser) -> None:
        fields = {"way": "sql", "sql": TOP_SQL, "once": "abc"}
        first = anna.send("POST", "/answers", fields)
        spent = anna.served.spent()
        anna.served.world.write_rows(seed=2)  # the same question to other rows would be another answer
        again = anna.send("POST", "/answers", fields)
        assert (first.status, again.status) == (303, 303)
        assert first.headers["location"] == again.headers["location"]
        assert anna.served.spent() == spent

    def test_the_same_form_with_another_question_is_another_call(self, anna: Browser) -> None:
        first, second = (
            anna.send("POST", "/answers", {"way": "sql", "sql": sql, "once": "abc"}) for sql in (TOP_SQL, REGIONS_SQL)
        )
        assert first.status == second.status == 303
        assert first.headers["location"] != second.headers["location"]

    def test_a_refusal_says_what_can_be_asked_instead(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL.replace("members", "membrs"), 422)
        (notice,) = page.find("div", role="alert")
        assert "Nothing was read and nothing was charged" in notice.text
        form = notice.find("form")[0]
        fields = {node["name"]: node["value"] for node in form.find("input")}
        assert "units" in form.text
        assert anna.post("/answers", fields).find("table")
        check_markup(page)

    def test_where_sql_cannot_be_read_the_place_is_named(self, anna: Browser) -> None:
        page = ask(anna, "SELECT article,\n members FRUM engagements", 422)
        assert "line 2" in page.text
        assert page.find("textarea")[0].get("data-at").startswith("2,")

    def test_where_too_little_is_left(self, serving: Callable[..., Served]) -> None:
        served = serving(information=12, calls=5)
        browser = Browser(served)
        browser.sign_in(served.key())
        page = ask(browser, TOP_SQL.replace("LIMIT 5", "LIMIT 15"), 403)
        (notice,) = page.find("div", role="alert")
        assert "Not enough is left" in notice.text
        assert "It needs" in notice.text
        ways = notice.find("form")
        assert ways
        assert all(form.find("span")[0].text for form in ways)
        assert browser.served.spent().information == 0
        priced = browser.post("/ask", {"way": "sql", "sql": TOP_SQL.replace("LIMIT 5", "LIMIT 15"), "action": "price"})
        assert "more than is left" in priced.text

    def test_a_failure_says_that_asking_again_is_free(self, anna: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as broken:
            break_engine(anna.served, broken)
            page = ask(anna, TOP_SQL, 503)
        assert "asking the same again is free" in page.text
        assert re.search("[0-9a-f]{32}", page.text)
        reserved = anna.served.reserved()
        assert "not answered yet" in anna.open("/history").text
        ask(anna, TOP_SQL)
        assert anna.served.spent() <= reserved

    def test_the_price_as_it_is_typed(self, reading: Browser) -> None:
        before = reading.served.spent()
        found = reading.send("POST", "/ask/price", {"way": "sql", "sql": TOP_SQL}).json
        assert found["fits"]
        assert "units" in found["lines"]["price"]
        assert "19 times in 20" in found["lines"]["accuracy"]
        refused = reading.send("POST", "/ask/price", {"way": "sql", "sql": "SELECT \x1b[31m"}).json
        assert "\x1b" not in refused["refused"]
        free = reading.send("POST", "/ask/price", {"way": "sql", "sql": "SELECT DISTINCT region FROM engagements"}).json
        assert free["lines"]["price"].startswith("free: the policy lists these")
        assert reading.served.spent() == before

    def test_words_for_completion_are_those_of_the_policy(self, reading: Browser) -> None:
        (table,) = reading.get("/ask/words").json["tables"]
        values = {column["name"]: column["values"] for column in table["columns"]}
        assert values["article"] == []
        assert {*values["region"]} == {"emea", "apac", "amer"}
        assert "members" in table["measures"]

    @pytest.mark.parametrize("body", [b"%", b"way=%FF", b"{}", b"way=sql&sql=%00", b"a=b" + b"&a=b" * 4000])
    def test_bodies_that_are_no_form(self, reading: Browser, body: bytes) -> None:
        headers = [("host", reading.host), ("cookie", f"sfumato={reading.cookies['sfumato']}")]
        headers += [("sec-fetch-site", "same-origin"), ("content-length", str(len(body)))]
        for media in ("application/x-www-form-urlencoded", "application/json", "text/plain", ""):
            reply = reading.served.send("POST", "/answers", [*headers, ("content-type", media)], [body])
            assert reply.status in (400, 422)

    def test_the_rate_holds_for_pages_and_keeps_what_was_typed(self, serving: Callable[..., Served]) -> None:
        served = serving(service={"rate_per_minute": 3})
        browser = Browser(served)
        browser.sign_in(served.key())  # and the page after it
        replies = [browser.send("POST", "/answers", {"way": "sql", "sql": TOP_SQL, "once": "a"}) for _ in range(4)]
        assert replies[-1].status == 429
        page = Page(replies[-1].body.decode())
        assert dict(page.form("/answers")) == {"way": "sql", "sql": TOP_SQL, "once": "a"}
        assert int(replies[-1].headers["retry-after"]) > 0
        limited = browser.get("/budget")
        assert (limited.status, b'http-equiv="refresh"' in limited.body) == (429, True)


class TestAnswers:
    def test_the_page_can_be_opened_again_for_nothing(self, anna: Browser) -> None:
        first = ask(anna, TOP_SQL)
        spent = anna.served.spent()
        again = anna.open(anna.at)
        assert [cell.text for cell in first.find("td")] == [cell.text for cell in again.find("td")]
        assert anna.served.spent() == spent
        assert "the 5 largest groups of members by article" in again.text

    def test_intervals_have_both_ends(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL)
        for row in page.find("tbody")[0].find("tr"):
            count, low, high = (int(cell["data-value"]) for cell in row.find("td", **{"class": "number"}))
            assert 0 <= low <= count <= high

    def test_pictures_are_wide_and_narrow_and_have_their_looks_as_classes(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL)
        assert [svg["class"] for svg in page.find("svg")] == ["picture wide", "picture narrow"]
        for svg in page.find("svg"):
            assert svg["aria-label"]
            assert len(svg.find("rect")) == 5

    def test_questions_that_follow_have_their_price(self, anna: Browser) -> None:
        page = ask(anna, TOP_SQL)
        offers = {
            form.find("button")[0].text.split("\u00b7")[0].split("  ")[0]
            for form in page.find("form", action="/answers")
        }
        assert any("10 more" in offer for offer in offers)
        assert any("the names without counts" in offer for offer in offers)

    def test_files(self, anna: Browser) -> None:
        ask(anna, TOP_SQL)
        csv, json, svg = (anna.get(f"{anna.at}/{name}") for name in ("rows.csv", "answer.json", "picture.svg"))
        assert csv.body.startswith(b"article,members")
        assert len(json.json["rows"]) == 5
        assert svg.body.startswith(b"<svg")
        for reply in (csv, json, svg):
            assert reply.headers["content-disposition"].startswith('attachment; filename="answer-')
        assert anna.get(f"{anna.at}/other.txt").status == 404

    def test_a_longer_list_has_an_address_and_the_order_that_its_sql_says(self, anna: Browser) -> None:
        """Its last rows were drawn after the first ones, in the order of the draw."""
        ask(anna, TOP_SQL)
        page = ask(anna, TOP_SQL.replace("LIMIT 5", "LIMIT 20"))
        assert anna.at.startswith("/answers/")
        counts = [int(row.find("td")[1]["data-value"]) for row in page.find("tbody")[0].find("tr")]
        drawn = [row["members"] for row in anna.get(f"{anna.at}/answer.json").json["rows"]]
        assert counts == drawn == sorted(counts, reverse=True)
        digest = f"sha256:{anna.at.removeprefix('/answers/')}"
        stored = anna.served.session.recall(digest, analyst="anna").rows
        assert [row["members"] for row in stored] != counts
        form = {"table": "engagements", "by": "article", "measure": "members", "k": "20"}
        anna.post("/answers", form)
        assert anna.at.endswith(digest.removeprefix("sha256:"))

    def test_what_sql_computes_from_an_answer_is_shown_at_once(self, anna: Browser) -> None:
        page = ask(anna, f"SELECT article, 2 * members AS twice FROM ({TOP_SQL}) AS t")
        assert "no address of its own" in page.text
        assert "twice" in page.text
        check_markup(page)

    def test_another_version_of_the_data_can_be_asked_again(self, serving: Callable[..., Served]) -> None:
        served = serving(version='"daily"')
        browser = Browser(served)
        browser.sign_in(served.key())
        first = ask(browser, TOP_SQL)
        assert "newer version" not in first.text
        served.clock.advance(days=1)
        browser.sign_in(served.key())
        page = browser.open(browser.at) if browser.at.startswith("/answers") else None
        listed = browser.open("/history")
        link = listed.find("ol")[0].find("a")[0]["href"]
        page = browser.open(link)
        assert "There is a newer version of the data" in page.text
        assert "units" in page.find("div", **{"class": "notice"})[0].text

    def test_lists_without_counts_and_of_nothing(self, anna: Browser) -> None:
        names = ask(anna, "SELECT article FROM engagements GROUP BY article ORDER BY members DESC LIMIT 3")
        assert not names.find("svg")
        nothing = ask(anna, TOP_SQL.replace("GROUP", "WHERE day = '2030-01-01' GROUP"))
        assert "none is shown" in nothing.text
        check_markup(nothing)


class TestHistoryAndBudget:
    def test_history_has_what_was_asked_and_can_be_searched(self, anna: Browser) -> None:
        assert "You have asked nothing yet" in anna.open("/history").text
        ask(anna, TOP_SQL)
        ask(anna, REGIONS_SQL)
        page = anna.open("/history")
        assert len(page.find("ol")[0].find("li")) == 2
        found = anna.post("/history", {"find": "REGION", "table": "engagements"})
        assert len(found.find("ol")[0].find("li")) == 1
        assert "None of your latest questions" in anna.post("/history", {"find": "nowhere"}).text
        assert anna.get("/history.csv").body.count(b"\r\n") == 3

    def test_a_question_of_the_history_opens_on_the_form(self, anna: Browser) -> None:
        ask(anna, TOP_SQL)
        spent = anna.served.spent()
        page = anna.open("/history")
        again = anna.post("/ask", [*page.form("/ask"), ("action", "form")])
        assert dict(again.form("/answers"))["k"] == "5"
        assert anna.served.spent() == spent

    def test_the_budget_has_its_accounts_and_charges(self, anna: Browser) -> None:
        ask(anna, TOP_SQL)
        page = anna.open("/budget")
        assert [node.text for node in page.find("h3")] == ["analyst:anna", "organisation:acme"]
        assert "At this pace" in page.text
        assert len(page.find("svg")) == 2
        assert "SELECT article, members" in page.text
        check_markup(page)

    def test_grants_have_their_reasons(self, anna: Browser) -> None:
        anna.served.session.grant("analyst:anna", Charge(10), "a <b>workshop</b> in May")
        page = anna.open("/budget")
        assert "a <b>workshop</b> in May" in page.text
        assert "granted on top" in page.text

    def test_the_gauge(self, serving: Callable[..., Served]) -> None:
        served = serving(information=40, calls=5)
        browser = Browser(served)
        page = browser.sign_in(served.key())
        assert "40 of 40 units left" in page.text
        assert "full again on 1 December (16 days)" in page.text
        for place, k in enumerate((3, 4, 5, 5)):
            ask(browser, TOP_SQL.replace("LIMIT 5", f"LIMIT {k}").replace("GROUP", f"WHERE n <> {place} GROUP"))
        page = browser.open("/tables")
        assert re.search(r"about \d questions? like your last one", page.text)
        assert page.find("section", **{"class": "gauge scarce"})

    def test_a_tracked_budget_is_counted_and_not_limited(self, serving: Callable[..., Served]) -> None:
        served = serving(mode="track")
        browser = Browser(served)
        assert "counted, not limited" in browser.sign_in(served.key("olga")).text
        assert "Counted, not limited" in browser.open("/budget").text
        found = browser.send("POST", "/ask/price", {"way": "sql", "sql": TOP_SQL}).json
        assert found["lines"]["afterwards"] == "counted, not limited"


SOME_HOSTILE = (*HOSTILE[::20], "=HYPERLINK(0)")


def write_hostile_keys(world: World) -> None:
    with duckdb.connect(str(world.database)) as rows:
        rows.execute("UPDATE engagements SET article = 'plain'")
        several = len(SOME_HOSTILE) + 1
        for place, key in enumerate(SOME_HOSTILE):
            rows.execute("UPDATE engagements SET article = ? WHERE member_id % ? = ?", [key, several, place])


def test_keys_of_the_data_are_only_text(serving: Callable[..., Served]) -> None:
    """In the answer, its picture and its files: the text that is seen is that of the key, made visible."""
    served = serving(prepare=write_hostile_keys)
    browser = Browser(served)
    browser.sign_in(served.key())
    page = ask(browser, TOP_SQL.replace("LIMIT 5", "LIMIT 20"))
    seen = [row.find("td")[0].text for row in page.find("tbody")[0].find("tr")]
    assert {*seen} >= {visible(key) or "(empty)" for key in SOME_HOSTILE}
    plain = ask(browser, TOP_SQL.replace("article", "job_title"))
    kinds = [{(node.tag, *sorted(node.attributes)) for node in walk(each)} for each in (page, plain)]
    assert kinds[0] - {("title",)} <= kinds[1] | {("p", "class")}
    assert all(key not in page.find("title")[0].text for key in SOME_HOSTILE if key)
    assert b"'=HYPERLINK(0)" in browser.get(f"{find_address(browser)}/rows.csv").body


def find_address(browser: Browser) -> str:
    """The address of the first answer in the history that is about articles."""
    links = browser.open("/history").find("ol")[0].find("a")
    return next(link["href"] for link in links if "article" in link.text)


def walk(page: Page) -> list:
    nodes, todo = [], [page.root]
    while todo:
        node = todo.pop()
        below = [child for child in node.children if not isinstance(child, str)]
        nodes += below
        todo += below
    return nodes


@pytest.mark.parametrize("key", SOME_HOSTILE[:8])
def test_what_was_typed_comes_back_as_it_was(reading: Browser, key: str) -> None:
    sql = f"SELECT members FROM engagements WHERE article = '{key.replace(chr(39), chr(39) * 2)}' AND nowhere = 1"
    page = ask(reading, sql, 422)
    assert page.find("textarea")[0].text == sql
    check_markup(page)


def test_pages_are_not_in_the_document_of_the_api(shared: Served) -> None:
    assert not {"/tables", "/ask", "/sign-in"} & shared.get("/openapi.json").json["paths"].keys()


def test_a_stored_total_of_the_api_is_a_page(anna: Browser) -> None:
    """One path to an answer: what was asked over /v1 is the same answer here, and the other way round."""
    digest = anna.served.ask(anna.served.key(), TOTAL).json["receipt"]["digest"]
    spent = anna.served.spent()
    assert "the total of members" in anna.open(f"/answers/{digest.removeprefix('sha256:')}").text
    ask(anna, "SELECT members FROM engagements")
    assert anna.served.spent() == spent


def test_the_package_has_every_template_and_file() -> None:
    folder = Path(__file__).parents[2] / "src" / "sfumato" / "web"
    assert {each.name for each in (folder / "static").iterdir()} == {"console.css", "console.js"}
    texts = [each.read_text("utf-8") for each in (*folder.glob("*.py"), *(folder / "templates").iterdir())]
    named = {name for text in texts for name in re.findall(r'"(\w+\.html)"', text)}
    assert {each.name for each in (folder / "templates").glob("*.html")} == named
