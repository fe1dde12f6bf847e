"""The pages of the report reader: the reports there are, and one report whose whole view is its address."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, urlencode

import duckdb
import pytest
from anyio.from_thread import BlockingPortal
from msgspec.structs import replace
from starlette.datastructures import QueryParams

from sfumato.show import visible
from sfumato.web import report_pages, report_tree
from sfumato.web.rendering import HEADERS, SCRIPT, STYLE
from sfumato.web.report_numbers import list_totals
from sfumato.web.report_view import ReportView, complete_view, list_ranges, read_view
from sfumato.wire import ReportInfo
from tests.helpers.advertised import REPORTS, write_ads
from tests.helpers.browsing import Browser, Node, Page, form_fields
from tests.helpers.served import Served, break_engine, new_served
from tests.helpers.worlds import World
from tests.web.test_pages import SOME_HOSTILE, check_markup, walk

RANGE = "start=2026-10-28&end=2026-11-03"
BY_DAY = f"/reports/ads?entity=acme&statistic=impressions&statistic=clicks&{RANGE}&step=day&option="
BY_TITLE = f"/reports/ads?entity=acme&entity=spring&statistic=impressions&{RANGE}&step=all&by=job_title&option="


@pytest.fixture(scope="module")
def ads(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    served = new_served(tmp_path_factory.mktemp("reports") / "world", portal, ads=True, console=True)
    with served.session:
        yield served


def browser(served: Served, analyst: str) -> Browser:
    signed_in = Browser(served)
    signed_in.sign_in(served.key(analyst))
    return signed_in


@pytest.fixture
def rita(ads: Served) -> Browser:
    """A reader who may see all."""
    return browser(ads, "rita")


@pytest.fixture
def tina(ads: Served) -> Browser:
    """A tenant: of account acme alone."""
    return browser(ads, "tina")


def links(node: Page | Node) -> dict[str, str]:
    """The addresses of links by their words."""
    return {" ".join(link.text.split()): link["href"] for link in node.find("a")}


def tree(page: Page) -> Node:
    return next(node for node in page.find("nav") if "data-tree" in node.attributes)


def fields(address: str) -> list[tuple[str, str]]:
    return parse_qsl(address.partition("?")[2], keep_blank_values=True)


def numbers(page: Page) -> list[list[str]]:
    """The table under the picture, as text."""
    rows = page.find("table", **{"class": "numbers"})[0].find("tbody")[0].find("tr")
    return [[" ".join(cell.text.split()) for cell in row.children if isinstance(cell, Node)] for row in rows]


class TestReports:
    def test_what_there_is_in_words(self, rita: Browser) -> None:
        page = rita.open("/reports")
        check_markup(page)
        text = page.text
        assert "impressions, clicks (which follow from impressions), conversions (which follow from clicks)" in text
        assert "account, campaign, creative" in text
        assert "job title: 6 values" in text
        assert "every 3 hours, every day, every month, every quarter, every year" in text
        assert "complete until 15 November 2026, 06:00, in New York" in text
        assert "numbers below 3" in text
        assert "epsilon 45 for one event" in text
        assert links(page)["ads"] == "/reports/ads"

    def test_tables_lead_to_them(self, rita: Browser, ads: Served) -> None:
        assert "/reports/ads" in links(rita.open("/tables")).values()
        auditor = browser(ads, "axel").open("/tables")
        assert "Counts impressions" in auditor.text
        assert not [path for path in links(auditor).values() if path.startswith("/reports")]

    def test_they_are_the_first_page_of_a_reader(self, rita: Browser, tina: Browser) -> None:
        for signed_in, path in ((rita, "/reports"), (tina, "/tables")):
            signed_in.open("/")
            assert signed_in.at == path

    def test_of_nothing(self, serving: Callable[..., Served]) -> None:
        page = browser(serving(), "rita").open("/reports")
        assert "no report that you may ask about yet" in page.text
        check_markup(page)

    def test_one_about_all_rows_is_not_for_tenants(self, serving: Callable[..., Served]) -> None:
        whole = REPORTS.replace('entities = ["account", "campaign"]\n', "")
        served = serving(ads=True, reports=whole)
        tenant, reader = browser(served, "tina"), browser(served, "rita")
        page = tenant.open("/reports")
        assert "clicks" not in links(page)
        assert "about all rows" in page.text
        assert tenant.get("/reports/clicks").body == tenant.get("/reports/nope").body
        assert "± " in reader.open("/reports/clicks").text


class TestAddress:
    def test_an_open_address_leads_to_a_whole_one(self, tina: Browser) -> None:
        tina.open("/reports/ads")
        assert fields(tina.at) == [
            ("entity", "acme"),
            *(("statistic", name) for name in ("impressions", "clicks", "conversions")),
            *(("start", "2026-11-08"), ("end", "2026-11-15"), ("step", "all"), ("option", "")),
        ]

    def test_what_is_given_is_kept(self, tina: Browser) -> None:
        tina.open("/reports/ads?entity=acme&statistic=clicks&by=seniority&start=2026-10-01&end=2026-11-01")
        assert ("statistic", "clicks") in fields(tina.at)
        assert ("statistic", "impressions") not in fields(tina.at)
        assert ("by", "seniority") in fields(tina.at)
        assert ("start", "2026-10-01") in fields(tina.at)

    def test_the_form_sends_the_view_that_it_shows(self, tina: Browser) -> None:
        address = f"{BY_TITLE}&option=totals&top=3"
        page = tina.open(address)
        (shown,) = page.find("form", **{"class": "view"})
        again = tina.open(f"/reports/ads?{urlencode(form_fields(shown))}")
        assert numbers(again) == numbers(page)

    def test_the_same_link_shows_the_same_numbers(self, serving: Callable[..., Served], portal: BlockingPortal) -> None:
        served = serving(ads=True)
        reader = browser(served, "rita")
        first = reader.open(BY_DAY)
        assert "this link shows the same ones tomorrow" in first.text
        served.session.close()
        served.world.write_rows(seed=2)
        write_ads(served.world, seed=2)
        served.clock.advance(days=1)
        reader = browser(Served(served.world, portal, served.clock, console=True), "rita")
        assert numbers(reader.open(BY_DAY)) == numbers(first)
        other = BY_DAY.replace("2026-10-28", "2026-10-27")
        assert numbers(reader.open(other))[1:] == numbers(first)

    def test_it_says_what_another_day_adds(self, rita: Browser) -> None:
        page = rita.open("/reports/ads?entity=acme&statistic=clicks&start=2026-11-01&end=2026-12-01&step=day&option=")
        assert "those that are complete by then" in page.text
        complete = rita.open(links(page)["Only what is complete now"])
        assert ("end", "2026-11-15T06:00") in fields(links(complete)["CSV"])
        assert "this link shows the same ones tomorrow" in complete.text

    def test_weighed_ranges_say_that_they_change_once(self, rita: Browser) -> None:
        page = rita.open("/reports/ads?entity=acme&statistic=clicks&start=2026-11-01&end=2026-11-08&option=calendar")
        assert "shows other numbers once" in page.text

    def test_keys_of_the_data_are_in_no_address(self, rita: Browser) -> None:
        page = rita.open(BY_TITLE)
        assert "welder" in page.text
        assert not [path for path in links(page).values() if "welder" in path]


class TestWhoMaySeeWhat:
    @pytest.mark.parametrize(
        ("analyst", "path"),
        [
            ("axel", "/reports"),
            ("axel", BY_DAY),
            ("tina", BY_DAY.replace("acme", "globex")),
            ("tina", BY_DAY.replace("acme", "initech")),
            ("tina", BY_DAY.replace("2026-10-28", "2026-10-28T01:00").replace("acme", "globex")),
            ("tina", BY_DAY.replace("/ads?", "/ads/numbers.csv?").replace("acme", "globex")),
            ("tina", BY_DAY.replace("/ads?", "/ads/picture.svg?").replace("acme", "globex")),
            ("tina", BY_DAY.replace("/ads?", "/ads/other.txt?")),
            ("tina", "/reports/nope"),
            ("tina", "/reports/nope/entities?find=a"),
            ("carl", BY_DAY),
            ("carl", BY_DAY.replace("acme", "globex")),
            ("nora", BY_DAY),
            ("rita", BY_DAY.replace("entity=acme", "entity=acme&entity=launch")),
            ("rita", BY_DAY.replace("entity=acme", "entity=acme&entity=spring&entity=s1&entity=x")),
            ("rita", BY_DAY.replace("acme", "%00")),
        ],
    )
    def test_the_rest_is_as_if_it_were_not_there(self, ads: Served, analyst: str, path: str) -> None:
        signed_in = browser(ads, analyst)
        missing = signed_in.send("GET", "/nowhere", headers={"accept": "text/html"})
        reply = signed_in.get(path)
        assert (reply.status, reply.body) == (404, missing.body)

    def test_the_tree_is_her_own_opened_level_by_level(self, tina: Browser) -> None:
        page = tina.open(BY_DAY)
        assert {*links(tree(page))} == {"account acme", "campaign autumn", "campaign spring"}
        below = tina.open(links(tree(page))["campaign spring"])
        names = [*links(tree(below))]
        assert names == ["account acme", *(f"campaign {name}" for name in ("autumn", "spring"))] + [
            f"creative {name}" for name in ("s1", "s2", "s3")
        ]
        assert [link.text for link in tree(below).find("a", **{"aria-current": "page"})] == ["campaign spring"]
        assert [*fields(links(tree(below))["creative s1"])][:3] == [
            ("entity", "acme"),
            ("entity", "spring"),
            ("entity", "s1"),
        ]

    def test_of_thousands_some_are_listed_and_the_chosen_one_is(
        self, rita: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(report_tree, "MAX_LISTED", 1)
        names = [*links(tree(rita.open("/reports/ads")))]
        assert names == ["account acme"]
        page = rita.open("/reports/ads?entity=globex&entity=launch&entity=l2")
        assert [*links(tree(page))] == [
            *("account acme", "account globex", "campaign autumn"),
            *("campaign launch", "creative l1", "creative l2"),
        ]
        assert tree(page).text.count("and more: find them") == 3

    def test_the_path_leads_up_as_far_as_is_hers(self, tina: Browser, ads: Served) -> None:
        (path,) = tina.open(BY_TITLE).find("nav", **{"aria-label": "Path"})
        assert path.text.split() == ["account", "acme", "campaign", "spring"]
        assert [*links(path)] == ["acme"]
        carl = browser(ads, "carl")
        page = carl.open("/reports/ads")
        (path,) = page.find("nav", **{"aria-label": "Path"})
        assert path.text.split() == ["account", "globex", "campaign", "launch"]
        assert not links(path)
        below = carl.open(links(tree(page))["creative l1"])
        assert [*links(below.find("nav", **{"aria-label": "Path"})[0])] == ["launch"]

    def test_all_links_of_a_report_lead_somewhere(self, tina: Browser) -> None:
        for address in (BY_DAY, BY_TITLE):
            page = tina.open(address)
            check_markup(page)
            for link in page.find("a"):
                path = link["href"].partition("#")[0]
                assert not path or tina.get(path).status in (200, 303), path

    def test_names_are_found_by_their_beginning(self, tina: Browser) -> None:
        page = tina.open(f"{BY_DAY}&find=S")
        (found,) = tree(page).find("ul", **{"class": "found"})
        assert [*links(found)] == ["creative s1", "creative s2", "creative s3", "campaign spring"]
        offered = tina.get(BY_DAY.replace("/ads?", "/ads/entities?") + "&find=sp").json["rows"]
        assert [(row["level"], row["name"], row["above"]) for row in offered] == [("campaign", "spring", "acme")]
        assert tina.open(offered[0]["address"]).find("svg")
        assert tina.get(BY_DAY.replace("/ads?", "/ads/entities?") + "&find=l").json["rows"] == []
        assert "None of yours begins with this" in tina.open(f"{BY_DAY}&find=launch").text

    def test_without_a_right_to_an_entity(self, ads: Served) -> None:
        page = browser(ads, "nora").open("/reports/ads")
        assert "nothing here that you may see yet" in page.text
        assert not page.find("table")
        check_markup(page)

    def test_names_that_no_table_lists_are_typed(self, rita: Browser, ads: Served) -> None:
        typed = rita.open("/reports/clicks?entity=acme&entity=spring")
        assert "± " in typed.text
        assert "entity=acme&entity=spring" in rita.at
        alone = rita.open("/reports/clicks?entity=acme&entity=&start=2026-10-01&end=2026-11-01")
        assert [node["value"] for node in tree(alone).find("input", name="entity")] == ["acme", ""]
        own = browser(ads, "tina").open("/reports/clicks")
        assert [*links(tree(own))] == ["account acme"]

    def test_a_reader_has_no_gauge(self, rita: Browser, tina: Browser) -> None:
        assert not rita.open(BY_DAY).find("meter")
        assert tina.open(BY_DAY).find("meter")

    def test_headers(self, rita: Browser) -> None:
        for path in ("/reports", BY_DAY, BY_DAY.replace("/ads?", "/ads/numbers.csv?")):
            reply = rita.get(path)
            assert reply.status == 200
            for name, value in HEADERS.items():
                assert reply.headers[name] == value

    def test_after_signing_in_one_is_back_at_the_view(self, ads: Served) -> None:
        stranger = Browser(ads)
        page = stranger.open(BY_TITLE)
        fields = dict(page.form("/sign-in"))
        shown = stranger.post("/sign-in", fields | {"key": ads.key("tina")})
        assert stranger.at == BY_TITLE
        assert numbers(shown) == numbers(browser(ads, "tina").open(BY_TITLE))

    def test_looking_debits_nothing_and_counts_for_the_rate(self, serving: Callable[..., Served]) -> None:
        served = serving(ads=True, service={"rate_per_minute": 3})
        tenant = browser(served, "tina")
        assert tenant.open(BY_DAY)
        assert served.spent("tina").information == 0
        statuses = [tenant.get(BY_DAY).status for _ in range(4)]
        assert 429 in statuses


class TestRange:
    def test_off_the_grid_the_two_nearest_ranges_are_buttons(self, tina: Browser) -> None:
        page = tina.open(BY_DAY.replace("2026-10-28", "2026-10-28T01:00"), 422)
        check_markup(page)
        (notice,) = page.find("div", role="alert")
        assert "Nothing was read" in notice.text
        ways = links(notice)
        assert [*ways] == [
            "from 2026-10-28 to before 2026-11-03",
            "from 2026-10-28 03:00 to before 2026-11-03",
        ]
        assert numbers(tina.open(ways["from 2026-10-28 to before 2026-11-03"])) == numbers(tina.open(BY_DAY))
        assert tree(page)

    @pytest.mark.parametrize(
        ("wrong", "way"),
        [
            ("&statistic=clickz", "clicks"),
            ("&statistic=clicks&by=seniorty", "by seniority"),
            ("&statistic=clicks&step=dya", "every day"),
            ("&statistic=clicks&by=seniority&top=x", "all values"),
        ],
    )
    def test_what_was_probably_meant_is_a_button(self, tina: Browser, wrong: str, way: str) -> None:
        page = tina.open(f"/reports/ads?entity=acme&{RANGE}{wrong}&option=", 422)
        ways = links(page.find("div", role="alert")[0])
        assert [*ways] == [way]
        assert tina.open(ways[way]).find("table")

    def test_options_that_exclude_each_other(self, tina: Browser) -> None:
        page = tina.open(f"/reports/ads?entity=acme&statistic=clicks&{RANGE}&option=monotone&option=calendar", 422)
        assert "exclude each other" in page.text
        ways = links(page.find("div", role="alert")[0])
        assert tina.open(next(iter(ways.values()))).find("table")

    def test_what_has_no_way_out_is_refused_in_words(self, tina: Browser) -> None:
        for start in ("2027-01-01", "soon", "9" * 400):
            page = tina.open(f"/reports/ads?entity=acme&statistic=clicks&start={start}&end=2027-02-01&option=", 422)
            assert "This cannot be shown" in page.text
            check_markup(page)

    def test_usual_ranges_lie_on_the_grid(self, tina: Browser) -> None:
        page = tina.open(BY_DAY)
        (ranges,) = page.find("ul", **{"aria-label": "Usual ranges"})
        named = {name: dict(fields(address)) for name, address in links(ranges).items()}
        pairs = {name: (each["start"], each["end"]) for name, each in named.items()}
        assert pairs["last 7 complete days"] == ("2026-11-08", "2026-11-15")
        assert pairs["last complete month"] == ("2026-10-01", "2026-11-01")
        assert pairs["this quarter so far"] == ("2026-10-01", "2026-11-15T06:00")
        assert pairs["the latest complete numbers"] == ("2026-11-15T03:00", "2026-11-15T06:00")
        assert all(tina.get(address).status == 200 for address in links(ranges).values())

    @pytest.mark.parametrize(
        ("levels", "complete", "first"),
        [
            (["day"], "2026-11-15", ("last 7 complete days", "2026-11-08", "2026-11-15")),
            (["week"], "2026-11-09", ("last 7 complete days", "2026-11-02", "2026-11-09")),
            (["month", "year"], "2026-11-01", ("last complete month", "2026-10-01", "2026-11-01")),
            (["year"], "2026-01-01", ("last complete year", "2025-01-01", "2026-01-01")),
            (["12h"], "2026-03-08T12:00:00", ("last 7 complete days", "2026-03-01", "2026-03-08")),
        ],
    )
    def test_on_any_grid_there_is_one_to_begin_with(
        self, levels: list[str], complete: str, first: tuple[str, str, str]
    ) -> None:
        ranges = list_ranges(described(levels=levels, complete_until=complete))
        assert (ranges[0].name, ranges[0].start, ranges[0].end) == first
        assert len({(each.start, each.end) for each in ranges}) == len(ranges)

    def test_fields_of_a_grid_of_days_are_days(self, rita: Browser) -> None:
        days = rita.open("/reports/clicks?entity=acme&start=2026-10-01&end=2026-11-01")
        assert days.find("input", id="start")[0].attributes.items() >= {"type": "date", "value": "2026-10-01"}.items()
        hours = rita.open(BY_DAY)
        assert hours.find("input", id="start")[0]["value"] == "2026-10-28T00:00"


def described(**fields: object) -> ReportInfo:
    return ReportInfo.from_dict(
        {
            "report": "r",
            "statistics": ["clicks"],
            "attributes": {},
            "entities": [],
            "levels": ["day"],
            "zone": "America/New_York",
            "guarantee": {"epsilon": 1.0, "unit": "event"},
            "min_count": 3,
            "options": ["calendar"],
            "usual_options": ["calendar", "totals"],
            "complete_until": "2026-11-15",
            "follows": {},
        }
        | fields
    )


class TestView:
    def test_it_reads_what_it_writes(self) -> None:
        view = ReportView("a b/c", ("x&y", "="), ("clicks",), "2026-10-01", "2026-11-01", "day", "by", "3", ("tree",))
        assert view.path == "/reports/a%20b%2Fc"
        assert read_view("a b/c", QueryParams(view.query)) == view
        none = ReportView("r", (), ("clicks",), "2026-10-01", "2026-11-01", options=())
        assert read_view("r", QueryParams(none.query)) == none

    def test_usual_options_are_those_that_can_change_a_number(self) -> None:
        info = described()
        assert complete_view(ReportView("r"), info).options == ("calendar",)
        assert complete_view(ReportView("r", options=()), info).options == ()
        assert complete_view(ReportView("r"), info).is_whole


class TestNumbers:
    def test_totals_are_on_top_each_with_its_error(self, tina: Browser, ads: Served) -> None:
        page = tina.open(BY_DAY)
        (totals,) = page.find("ul", **{"class": "totals"})
        report = ads.session.report(
            "ads",
            analyst="tina",
            statistics=["impressions", "clicks"],
            entity={"account": "acme"},
            start="2026-10-28",
            end="2026-11-03",
        )
        words = [" ".join(item.text.split()) for item in totals.find("li")]
        for word, name in zip(words, report.statistics, strict=False):
            assert word == f"{name} {report.rows[0][name]:,} ± {report.errors[name]:,}"
        assert words[2].startswith("clicks per 100 impressions")
        assert words[2].endswith("with at least 90 %")

    def test_a_rate_has_an_interval_from_both(self, ads: Served) -> None:
        report = ads.session.report(
            "ads",
            analyst="rita",
            statistics=["impressions", "clicks"],
            entity={"account": "acme"},
            start="2026-01-01",
            end="2026-11-01",
        )
        (row,) = report.rows
        rate = [*list_totals(report, {"clicks": "impressions"})][-1]
        low, high = (float(text) for text in rate.within.split(",")[0].split(" to "))
        errors = report.errors
        ends = [
            100 * (row["clicks"] + sign * errors["clicks"]) / (row["impressions"] - sign * errors["impressions"])
            for sign in (-1, 1)
        ]
        assert low <= ends[0] < float(rate.text) < ends[1] <= high
        assert (low, high) == pytest.approx(tuple(ends), abs=0.0101)

    @pytest.mark.parametrize(
        ("impressions", "clicks", "words"),
        [
            (10, 9, ("90.00", "at least 0.00, with at least 90 %")),
            (10, 9_000, ("90,000.00", "at least {least:,.2f}, with at least 90 %")),
            (None, 9, ("too small to show", "")),
            (0, 9, ("too small to show", "")),
        ],
    )
    def test_a_rate_of_few(self, ads: Served, impressions: int | None, clicks: int, words: tuple[str, str]) -> None:
        """Where the lower number may be none, there is no upper end."""
        question = {"report": "ads", **BY_DAY_QUESTION, "granularity": "all"}
        report = ads.session.report(question, analyst="rita")
        row = {**report.rows[0], "impressions": impressions, "clicks": clicks}
        errors = {"impressions": 20, "clicks": 20}
        receipt = replace(report.receipt, error95=errors)
        rate = [*list_totals(replace(report, rows=[row], receipt=receipt), {"clicks": "impressions"})][-1]
        least = int(10_000 * (clicks - 20) / ((impressions or 0) + 20)) / 100
        assert (rate.text, rate.within) == (words[0], words[1].format(least=least))

    def test_the_table_has_what_the_api_says(self, tina: Browser, ads: Served) -> None:
        report = ads.report(ads.key("tina"), dict(report="ads", **BY_DAY_QUESTION)).json
        shown = numbers(tina.open(BY_DAY))
        error = report["receipt"]["error95"]["clicks"]
        for row, cells in zip(report["rows"], shown, strict=True):
            assert cells[0] == row["start"][:10]
            count = row["clicks"]
            wanted = f"{max(count - error, 0)} to {count + error}" if count is not None else None
            assert cells[3:] == (["too small to show"] if count is None else [str(count), wanted])

    def test_three_reasons_look_different_and_are_named(self, tina: Browser) -> None:
        page = tina.open(
            "/reports/ads?entity=acme&entity=spring&entity=s1&statistic=impressions&statistic=conversions"
            "&start=2026-10-20&end=2026-12-01&step=month&by=job_title&option="
        )
        check_markup(page)
        (table,) = page.find("table", **{"class": "numbers"})
        classes = {name for cell in table.find("td") for name in cell.get("class").split()}
        assert {"later", "part"} <= classes
        (legend,) = page.find("ul", **{"class": "legend"})
        assert "not complete yet the data goes up to 15 November 2026, 06:00" in " ".join(legend.text.split())
        assert "only part of a step less than the whole month is in it" in " ".join(legend.text.split())
        assert (
            numbers(page)[-1]
            == ["2026-11-15 06:00 to before 2026-12-01 00:00", "every value"] + ["not complete yet"] * 2
        )
        small = tina.open(
            "/reports/ads?entity=acme&entity=spring&entity=s1&statistic=conversions"
            "&start=2026-11-01&end=2026-11-08&step=day&by=job_title&option="
        )
        rows = numbers(small)
        assert len(rows) == 7 * 6
        assert ["too small to show"] in [row[2:] for row in rows]
        assert "it is below 3; a mark on the axis, where its line has a gap" in small.text
        assert all(all(row) for row in rows)

    def test_one_number_of_an_open_range_is_a_part(self, tina: Browser) -> None:
        page = tina.open("/reports/ads?entity=acme&statistic=clicks&start=2026-11-01&end=2026-12-01&option=")
        rows = numbers(page)
        assert rows[0][1].endswith("only part of a step")
        assert rows[1][1:] == ["not complete yet"]

    def test_a_ranked_breakdown_has_no_rows_for_the_rest(self, tina: Browser) -> None:
        assert len(numbers(tina.open(f"{BY_TITLE}&top=2"))) == 2
        assert len(numbers(tina.open(BY_TITLE))) == 6

    def test_why_parts_do_not_add_up(self, tina: Browser) -> None:
        assert "Why do these not add up?" in tina.open(BY_TITLE).text
        one = tina.open(f"/reports/ads?entity=acme&statistic=clicks&{RANGE}&step=all&option=")
        assert "Why do these not add up?" not in one.text

    def test_exact_totals_say_that_they_are(self, serving: Callable[..., Served]) -> None:
        exact = 'exact_totals = "known to the advertiser"\nlag'
        served = serving(ads=True, reports=REPORTS.replace("min_count = 3", f'{exact} = "1h"\nmin_count = 3'))
        reader = browser(served, "rita")
        page = reader.open(BY_TITLE)
        (totals,) = page.find("ul", **{"class": "totals"})
        assert totals.find("li")[0].text.split()[-1] == "exact"
        assert "The totals on top are exact" in page.text
        assert "the guarantee excludes them" in page.text
        whole = reader.open(BY_DAY)
        assert numbers(whole)[0][2] == "exact"
        assert "totals are exact and not covered" in reader.open("/reports").text

    def test_raised_numbers_have_no_interval(self, tina: Browser) -> None:
        page = tina.open(f"/reports/ads?entity=acme&statistic=clicks&statistic=impressions&{RANGE}&option=actions")
        assert numbers(page)[0][2] == "not known"
        assert page.find("ul", **{"class": "totals"})[0].text.count("no interval is known") == 3

    def test_a_failure_has_the_tree_and_says_what_to_do(
        self, serving: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        served = serving(ads=True)
        reader = browser(served, "rita")
        reader.open("/reports")
        reader.open("/reports/ads")
        with monkeypatch.context() as broken:
            break_engine(served, broken)
            page = reader.open(BY_DAY, 503)
        assert "It could not be shown" in page.text
        assert tree(page)
        check_markup(page)
        assert reader.open(BY_DAY).find("table")

    def test_long_tables_are_cut_and_the_file_is_not(self, rita: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(report_pages, "MAX_CELLS", 4 * 3)
        page = rita.open(BY_DAY)
        assert len(numbers(page)) == 4
        assert "The first 4 of 6 rows" in page.text
        assert len(rita.get(links(page)["CSV"]).body.decode().splitlines()) == 1 + 2 * 6

    def test_pages_are_small(self, rita: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
        loaded = [rita.get(each.path, **{"accept-encoding": "gzip"}).body for each in (STYLE, SCRIPT)]
        assert len(rita.get(BY_DAY).body) + sum(map(len, loaded)) < 40_000
        asked = "/reports/ads?entity=acme&statistic=impressions&statistic=clicks&statistic=conversions&option="
        days = rita.open(f"{asked}&start=2026-09-01&end=2026-11-01&step=day&by=job_title")
        assert days.find("svg")
        drawn = re.findall("<svg.*?</svg>", rita.open(BY_DAY).source)
        assert len(drawn) == 2
        monkeypatch.setattr(report_pages, "MAX_PICTURE", sum(map(len, drawn)) - 1)
        (figure,) = rita.open(BY_DAY).find("figure")
        assert [node["class"] for node in figure.find("svg")] == ["picture"]
        monkeypatch.setattr(report_pages, "MAX_PICTURE", 1_000)
        hours = rita.open(f"{asked}&start=2026-10-01&end=2026-11-01&step=3h")
        assert not hours.find("svg")
        assert "too many points for a page" in hours.text
        assert all(len(page.source.encode()) < 150_000 for page in (days, hours))


BY_DAY_QUESTION = {
    "statistics": ["impressions", "clicks"],
    "entity": {"account": "acme"},
    "start": "2026-10-28",
    "end": "2026-11-03",
    "granularity": "day",
}


class TestFiles:
    def test_csv_has_both_ends_and_the_reason(self, tina: Browser) -> None:
        asked = "/reports/ads?entity=acme&entity=spring&statistic=impressions&statistic=conversions&by=job_title"
        page = tina.open(f"{asked}&start=2026-10-20&end=2026-12-01&step=3h&top=6&option=")
        reply = tina.get(links(page)["CSV"])
        assert reply.headers["content-disposition"] == 'attachment; filename="report.csv"'
        rows = [*csv.DictReader(io.StringIO(reply.body.decode()))]
        assert [*rows[0]] == [
            *("account", "campaign", "start", "end", "job_title"),
            *("statistic", "number", "at least", "at most", "why"),
        ]
        assert {row["why"] for row in rows} == {"", "too small to show", "not complete yet"}
        for row in rows:
            if row["number"]:
                assert int(row["at least"]) <= int(row["number"]) <= int(row["at most"])
            else:
                assert (row["at least"], row["at most"]) == ("", "")
                assert row["why"]
        whole = tina.open(f"{asked}&start=2026-10-20&end=2026-12-01&step=month&option=")
        months = [*csv.DictReader(io.StringIO(tina.get(links(whole)["CSV"]).body.decode()))]
        assert {row["why"] for row in months} >= {"not complete yet", "only part of a step"}
        assert len(months) == 2 * len(numbers(whole))

    def test_svg(self, tina: Browser) -> None:
        reply = tina.get(links(tina.open(BY_TITLE))["SVG"])
        assert reply.body.startswith(b"<svg")
        assert reply.headers["content-type"].startswith("image/svg+xml")


NAMES = tuple(key for key in SOME_HOSTILE if key and "\0" not in key)


def write_hostile_names(world: World) -> None:
    """Hostile entities, which are public, and hostile values of an attribute."""
    with duckdb.connect(str(world.database)) as rows:
        for name in NAMES:
            rows.execute("INSERT INTO creatives VALUES (?, 'plain', ?)", [name, name])
        rows.execute("DELETE FROM titles")
        rows.executemany("INSERT INTO titles VALUES (?)", [[name] for name in NAMES])


def test_hostile_names_are_only_text(serving: Callable[..., Served]) -> None:
    """Names of entities and values of attributes: what is seen is the name, made visible, and every link works."""
    reader = browser(serving(ads=True, prepare=write_hostile_names), "rita")
    page = reader.open("/reports/ads")
    accounts = links(tree(page))
    assert {*accounts} >= {f"account {' '.join(visible(name).split())}" for name in NAMES}
    for name in NAMES:
        address = accounts[f"account {' '.join(visible(name).split())}"]
        shown = reader.open(f"{address}&by=job_title")
        check_markup(shown)
        (path,) = shown.find("nav", **{"aria-label": "Path"})
        assert path.find("strong")[0].text == visible(name)
        assert {row[1] for row in numbers(shown)} >= {" ".join(visible(each).split()) for each in NAMES}
        assert name not in shown.find("title")[0].text
        below = reader.open(links(tree(shown))["campaign plain"])
        assert f"creative {' '.join(visible(name).split())}" in links(tree(below))
    tags = {(node.tag, *sorted(node.attributes)) for node in walk(shown)}
    assert not [tag for tag in tags if tag[0] in ("img", "iframe", "object", "embed", "base")]
    assert "'=HYPERLINK(0)" in reader.get(links(shown)["CSV"]).body.decode()


def test_a_page_of_a_report_is_not_in_the_document_of_the_api(ads: Served) -> None:
    assert not {"/reports", "/reports/{name}"} & ads.get("/openapi.json").json["paths"].keys()
