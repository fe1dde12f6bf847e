"""Text that strangers wrote is shown as Python shows it, everywhere, and is nothing but text."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import duckdb
import pytest
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Browser, expect

from sfumato.show import visible
from sfumato.show.text import heading, key_label
from tests.helpers.hostile import HOSTILE
from tests.helpers.repeats import EXHAUSTIVE, repeats
from tests.helpers.screens import NARROW, WIDE, Screen, Seated, path_of, screen
from tests.helpers.staged import Stage, staged
from tests.helpers.worlds import World

pytestmark = pytest.mark.slow

MEMBERS_PER_KEY, PAGES_OF_KEYS = 400, 5
NAME, COLUMN = "<img src=x onerror=alert(1)>", '" autofocus onfocus="alert(1)'
OTHER = "</title><script>alert(1)</script>\u202e{{ 7 * 7 }}"
LISTED = tuple(key for key in HOSTILE if 0 < len(key) <= 100)[:150]
"""Values of a public domain, which are in lists of values and completions."""
TOP = "SELECT article, members FROM engagements WHERE n = {} GROUP BY article ORDER BY members DESC LIMIT 50"
ELEMENTS = "[...new Set([...document.querySelectorAll('*')].map((node) => node.tagName))].sort()"
HANDLERS = """
[...document.querySelectorAll("*")].flatMap((node) => [...node.attributes])
  .filter(({ name }) => /^on|^style$|^srcdoc$|^formaction$/.test(name) && name !== "formaction").map(({ name }) => name)
"""


def toml(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def write_hostile_world(world: World) -> None:
    """A fifth of the keys for each value of n; a table, a column, a measure and an analyst with such names."""
    with duckdb.connect(str(world.database)) as rows:
        rows.execute("CREATE TABLE keys (place INTEGER, key VARCHAR, listed VARCHAR)")
        keys = [(place, key, LISTED[place % len(LISTED)]) for place, key in enumerate(HOSTILE)]
        rows.executemany("INSERT INTO keys VALUES (?, ?, ?)", keys)
        rows.execute("DROP TABLE engagements")
        rows.execute(
            f"""CREATE TABLE engagements AS SELECT members.range AS member_id, key AS article, 'nurse' AS job_title,
            'emea' AS region, 'emea' AS market, DATE '2026-11-02' AS day, (place % {PAGES_OF_KEYS})::INTEGER AS n,
            listed AS "{COLUMN.replace('"', '""')}" FROM range(?) AS members JOIN keys ON members.range % ? = place""",
            [MEMBERS_PER_KEY * len(HOSTILE), len(HOSTILE)],
        )
    text = world.path.read_text().replace("max_k = 20", "max_k = 60")
    domain = ", ".join(map(toml, LISTED))
    text += f"""
[tables.{toml(NAME)}]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
version = {{ value = "v1" }}
max_k = 200
[tables.{toml(NAME)}.columns]
{toml(COLUMN)} = {{ domain = [{domain}], max_groups = 1 }}
[tables.{toml(NAME)}.measures]
{toml(OTHER)} = {{ count = "units" }}
[analysts.{toml(OTHER)}]
budget = "partner"
"""
    world.path.write_text(text)


@pytest.fixture(scope="module")
def hostile(browser: Browser, portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hostile") / "world"
    with staged(folder, portal, prepare=write_hostile_world) as stage:
        yield stage


def check_is_text(screen: Screen, elements: set[str]) -> None:
    """No element that the pages do not have by themselves, and no attribute that acts."""
    assert {*screen.run(ELEMENTS)} <= elements
    assert screen.run(HANDLERS) == []


@pytest.fixture(scope="module")
def elements(hostile: Stage, browser: Browser) -> set[str]:
    """Those of the pages without such keys."""
    found: set[str] = set()
    with screen(browser, hostile.url, hostile.cookie("anna")) as plain:
        plain.ask("SELECT region, members FROM engagements GROUP BY region")
        plain.sees("Answer")
        for path in (path_of(plain.page), "/tables", "/ask", "/ask?way=sql", "/history", "/budget"):
            plain.open(path)
            found |= {*plain.run(ELEMENTS)}
    return found


@pytest.mark.parametrize("page", range(PAGES_OF_KEYS))
def test_keys_are_shown_as_they_are_displayed(hostile: Stage, seated: Seated, elements: set[str], page: int) -> None:
    """In the table, in the picture, and in the files that are saved."""
    keys = {key for place, key in enumerate(HOSTILE) if place % PAGES_OF_KEYS == page}
    with seated(hostile, "anna") as screen:
        screen.ask(TOP.format(page))
        screen.sees("Answer")
        check_is_text(screen, elements)
        cells = screen.page.locator("tbody tr td:first-child")
        assert {*cells.all_text_contents()} == {*map(key_label, keys)}
        seen = {" ".join(text.split()) for text in cells.all_inner_texts()}
        assert seen == {" ".join(key_label(key).split()) for key in keys}
        labels = screen.run(
            "[...document.querySelectorAll('svg.wide .label-end text')].map((node) => node.textContent)"
        )
        assert len(labels) > 30
        assert all(any(fits(label, key_label(key)) for key in keys) for label in labels)
        assert screen.sideways() == []
        assert screen.page.title() == "Answer · Sfumato"
        address = path_of(screen.page)
        saved = {}
        for name in ("CSV", "SVG", "JSON"):
            with screen.page.expect_download() as download:
                screen.page.get_by_role("link", name=name, exact=True).click()
            assert download.value.suggested_filename.startswith(f"answer-{address.removeprefix('/answers/')[:12]}.")
            saved[name] = download.value.path()
        check_column(saved["CSV"], "article", keys)
        check_svg(saved["SVG"])
        screen.page.set_viewport_size({"width": 320, "height": 640})
        assert screen.sideways() == []


def fits(label: str, whole: str) -> bool:
    """A label may be cropped."""
    return label == whole or (label.endswith("…") and whole.startswith(label.removesuffix("…")))


def check_column(path: Path, column: str, keys: set[str]) -> None:
    """Every key comes back from a CSV but for apostrophes, which stand before formulas."""
    [head, *rows] = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
    read = {row[head.index(column)] for row in rows}
    assert {text.replace("'", "") for text in read} == {key.replace("'", "") for key in keys}
    assert not [text for text in read if text[:1] in ("=", "+", "-", "@")]


def check_svg(path: Path) -> None:
    root = ET.fromstring(path.read_bytes())  # noqa: S314
    tags = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert tags <= {"svg", "g", "rect", "path", "text", "title", "circle", "line", "tspan"}
    assert not [name for node in root.iter() for name in node.attrib if name.startswith(("on", "href", "style"))]


def test_a_saved_picture_is_quiet(hostile: Stage, seated: Seated, browser: Browser) -> None:
    """Opened by itself, without the policy of the pages, it asks for nothing and runs nothing."""
    with seated(hostile, "anna") as screen:
        screen.ask(TOP.format(0))
        screen.sees("Answer")
        with screen.page.expect_download() as download:
            screen.page.get_by_role("link", name="SVG", exact=True).click()
        check_quiet(download.value.path().rename(hostile.served.world.folder / "picture.svg"), browser)


def check_quiet(picture: Path, browser: Browser) -> None:
    context = browser.new_context()
    page, seen = context.new_page(), []
    page.on("request", lambda request: seen.append(request.url))
    page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
    page.goto(picture.as_uri())
    expect(page.locator("text").first).to_be_visible()
    context.close()
    assert seen == [picture.as_uri()]


def test_names_of_the_policy_are_text(hostile: Stage, seated: Seated, elements: set[str]) -> None:
    """Of an analyst, a table, a column, a measure and public values, on every page."""
    sql = 'SELECT "{}", "{}" FROM "{}" GROUP BY 1'.format(*(name.replace('"', '""') for name in (COLUMN, OTHER, NAME)))
    with seated(hostile, OTHER) as screen:
        screen.open("/tables")
        check_is_text(screen, elements)
        expect(screen.page.get_by_text(f"Signed in as {visible(OTHER)}")).to_be_visible()
        assert screen.page.locator("h2").all_text_contents() == ["engagements", visible(NAME)]
        values = screen.page.locator("ul.values").last.locator("li").all_text_contents()
        assert {*values} == {*map(key_label, LISTED)}
        screen.page.get_by_role("link", name="Ask about this").last.click()
        screen.sees("Ask")
        check_is_text(screen, elements)
        expect(screen.page.get_by_label(heading(COLUMN), exact=True)).to_be_checked()
        expect(screen.page.locator("[data-estimate]")).to_contain_text("units")
        screen.ask(sql)
        screen.sees("Answer")
        check_is_text(screen, elements)
        assert {*screen.page.locator("tbody tr td:first-child").all_text_contents()} == {*map(key_label, LISTED)}
        for path, title in (("/history", "History"), ("/budget", "Budget")):
            screen.open(path)
            check_is_text(screen, elements)
            assert screen.page.title() == f"{title} · Sfumato"
            assert visible(NAME) in screen.page.content().replace("&lt;", "<").replace("&gt;", ">").replace(
                "&#34;", '"'
            )


@pytest.mark.parametrize(
    "key", [each for each in HOSTILE if "\x00" not in each and len(each) < 500][:: 5 if EXHAUSTIVE else 50]
)
def test_what_is_typed_is_text(hostile: Stage, seated: Seated, elements: set[str], key: str) -> None:
    """In SQL that is refused, in one that is answered, and in the history."""
    quoted = key.replace("'", "''")
    with seated(hostile, "anna") as screen:
        screen.ask(f"SELECT members FROM engagements WHERE article = '{quoted}' AND nowhere = 1")
        expect(screen.page.get_by_role("alert")).to_contain_text("nowhere")
        check_is_text(screen, elements)
        screen.ask(f"SELECT members FROM engagements WHERE article = '{quoted}'")
        screen.sees("Answer")
        check_is_text(screen, elements)
        screen.open("/history")
        check_is_text(screen, elements)
        words = screen.page.locator("ol.history li").first.locator("bdi").text_content() or ""
        assert visible(quoted) in words


def test_there_are_two_hundred_of_them() -> None:
    assert len({*HOSTILE}) >= 200
    assert len(NAMES) >= 200


# -- names of entities and values of attributes in a report --

NAMES = tuple(key for key in HOSTILE if key and "\0" not in key)
ACCOUNTS, CAMPAIGNS, CREATIVES = (NAMES[place::3] for place in range(3))
ROWS_PER_VALUE = 200
VIEW = "statistic=impressions&start=2026-10-28&end=2026-11-03&step=all&option="


def write_hostile_report(world: World) -> None:
    """A third of the names on each level of the tree; each of them is a value of an attribute, too."""
    names = [(name, "plain", f"below account {place}") for place, name in enumerate(ACCOUNTS)]
    names += [("many", name, f"below campaign {place}") for place, name in enumerate(CAMPAIGNS)]
    names += [("many", "few", name) for name in CREATIVES]
    with duckdb.connect(str(world.database)) as rows:
        rows.execute("CREATE TABLE names (account VARCHAR, campaign VARCHAR, creative VARCHAR)")
        rows.executemany("INSERT INTO names VALUES (?, ?, ?)", names)
        rows.execute("INSERT INTO creatives FROM names")
        rows.execute("DELETE FROM titles")
        rows.executemany("INSERT INTO titles VALUES (?)", [[name] for name in NAMES])
        rows.execute(
            """INSERT INTO ads SELECT member, TIMESTAMP '2026-10-30', 'impression', 's1', title, 'entry'
            FROM titles, range(?) AS members (member)""",
            [ROWS_PER_VALUE],
        )


@pytest.fixture(scope="module")
def hostile_report(
    browser: Browser, portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hostile_report") / "world"
    with staged(folder, portal, ads=True, prepare=write_hostile_report) as stage:
        yield stage


@pytest.fixture(scope="module")
def elements_of_reports(shared: Stage, browser: Browser) -> set[str]:
    """Those of a report without such names."""
    with screen(browser, shared.url, shared.cookie("tina")) as plain:
        found: set[str] = set()
        for more in ("", "&by=job_title"):
            plain.open(f"/reports/ads?entity=acme&entity=spring&{VIEW}{more}")
            found |= {*plain.run(ELEMENTS)}
        return found


def texts(screen: Screen, selector: str) -> list[str]:
    return screen.page.locator(selector).all_text_contents()


@pytest.mark.parametrize(
    ("path", "level", "names"),
    [
        ("entity=globex", "account ", ACCOUNTS),
        ("entity=many", "campaign ", CAMPAIGNS),
        ("entity=many&entity=few", "creative ", CREATIVES),
    ],
    ids=["accounts", "campaigns", "creatives"],
)
def test_names_in_the_tree_are_text(
    hostile_report: Stage, seated: Seated, elements_of_reports: set[str], path: str, level: str, names: tuple[str, ...]
) -> None:
    """In the tree, where they are found by their beginnings, and in the path, on the page that each leads to."""
    with seated(hostile_report, "rita") as screen:
        screen.open(f"/reports/ads?{path}&{VIEW}")
        check_is_text(screen, elements_of_reports)
        links = screen.page.locator(".tree li > a")
        shown = dict(zip(links.all_text_contents(), links.evaluate_all(ADDRESSES), strict=True))
        assert shown.keys() >= {f"{level}{key_label(name)}" for name in names}
        check_fits(screen)
        screen.page.get_by_label("Find by the beginning of a name").press_sequentially("<")
        expect(screen.page.locator("[data-found] bdi").first).to_be_visible()
        found = texts(screen, "[data-found] a")
        assert {*found} <= {f"{each} {key_label(name)}" for each in LEVELS for name in NAMES if name[0] == "<"}
        check_is_text(screen, elements_of_reports)
        for name in names[:: repeats(8, 1)]:
            screen.open(shown[f"{level}{key_label(name)}"])
            screen.sees("ads")
            check_is_text(screen, elements_of_reports)
            assert texts(screen, "nav.path strong") == [key_label(name)]
            assert screen.page.title() == "Report ads · Sfumato"


LEVELS = ("account", "campaign", "creative")
ADDRESSES = "nodes => nodes.map((node) => node.getAttribute('href'))"


def check_fits(screen: Screen) -> None:
    for size in (NARROW, WIDE):
        screen.resize(size)
        assert screen.sideways() == []


def test_values_of_an_attribute_are_text(
    hostile_report: Stage, seated: Seated, elements_of_reports: set[str], browser: Browser
) -> None:
    """In the table, in the picture, and in the files that are saved; with a name in every line of the CSV."""
    with seated(hostile_report, "rita") as screen:
        screen.open(f"/reports/ads?entity=acme&{VIEW}&by=job_title")
        screen.sees("ads")
        check_is_text(screen, elements_of_reports)
        assert {*texts(screen, "table.numbers tbody bdi")} == {*map(key_label, NAMES)}
        assert texts(screen, "table.numbers td.small") == []
        labels = texts(screen, "svg.wide .label-end text")
        assert len(labels) > 30
        assert all(any(fits(label, key_label(name)) for name in NAMES) for label in labels)
        check_fits(screen)
        saved = {}
        for name in ("CSV", "SVG"):
            with screen.page.expect_download() as download:
                screen.page.get_by_role("link", name=name, exact=True).click()
            saved[name] = download.value.path()
        check_column(saved["CSV"], "job_title", {*NAMES})
        check_svg(saved["SVG"])
        check_quiet(saved["SVG"].rename(hostile_report.served.world.folder / "picture.svg"), browser)


@pytest.mark.parametrize(
    "name", ['=HYPERLINK("//other.example")', "<img src=x onerror=alert(1)>", "a\u202eb", "1;=1+1"]
)
def test_an_entity_in_a_file_is_text(hostile_report: Stage, seated: Seated, name: str) -> None:
    with seated(hostile_report, "rita") as screen:
        place = [("entity", each) for each in path_to(name)]
        screen.open(f"/reports/ads?{urlencode(place)}&{VIEW}")
        with screen.page.expect_download() as download:
            screen.page.get_by_role("link", name="CSV", exact=True).click()
        check_column(download.value.path(), LEVELS[len(place) - 1], {name})


def path_to(name: str) -> tuple[str, ...]:
    above = {ACCOUNTS: (), CAMPAIGNS: ("many",), CREATIVES: ("many", "few")}
    return next((*path, name) for names, path in above.items() if name in names)
