"""Every page in every state: accessible, readable at any size and in any colours, quiet, and small."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from sfumato.web import console
from tests.browser.page_list import NO_PAGES, PAGES, TOP, PageRow
from tests.helpers import chromium
from tests.helpers.repeats import EXHAUSTIVE
from tests.helpers.screens import HALF, NARROW, WIDE, Screen, Seated, path_of, screen
from tests.helpers.staged import Stage

pytestmark = pytest.mark.slow

LOOKS = tuple((size, scheme) for size in (WIDE, NARROW) for scheme in ("light", "dark"))
FIRST_STATES = {row.route: row.name for row in reversed(PAGES)}
MAX_REQUESTS, MAX_BYTES, MAX_LONG_BYTES = 6, 40_000, 150_000


def name(row: PageRow) -> str:
    return row.name


@pytest.fixture(scope="module")
def axe() -> None:
    if chromium.axe() is None:
        pytest.skip(chromium.NO_AXE)


def test_every_route_is_in_the_list() -> None:
    routes = {page.path for page in console.PAGES if page.method == "GET"} | {"/sign-in"}
    assert routes - {*NO_PAGES} == {row.route for row in PAGES} - {"/nowhere"}


@pytest.mark.parametrize("row", PAGES, ids=name)
def test_a_page_is_for_all_eyes(shared: Stage, seated: Seated, axe: None, row: PageRow) -> None:
    """Small at first; in both schemes and both widths, in forced colours, with large text, without motion.

    In every run axe-core looks at the first state of each page in both schemes and widths, and at the other states in
    the light scheme and the wide one. In an exhaustive run it looks at all of them in all four.
    """
    looks = LOOKS if EXHAUSTIVE or FIRST_STATES[row.route] == row.name else LOOKS[:1]
    with seated(shared, row.analyst, reduced_motion="reduce") as screen:
        row.show(screen, shared)
        if row.reach is None:
            check_first_load(screen, MAX_LONG_BYTES if row.is_long else MAX_BYTES)
        found = {"motion": screen.run(MOVING)}
        for size, scheme in LOOKS:
            screen.resize(size)
            screen.page.emulate_media(color_scheme=scheme)
            judged = screen.accessibility() if (size, scheme) in looks else []
            found[f"{size[0]} px, {scheme}"] = [*judged, *screen.drawn(), *screen.sideways()]
        screen.page.emulate_media(forced_colors="active")
        found["forced colours"] = screen.drawn()
        screen.page.emulate_media(forced_colors="none")
        assert screen.run(TWICE_AS_LARGE) == 32
        for size in (WIDE, HALF):
            screen.resize(size)
            found[f"large text, {size[0]} px"] = [*screen.sideways(), *screen.clipped()]
        assert not any(found.values()), describe(found)


def describe(found: dict[str, list[str]]) -> str:
    return "\n".join(f"{place}: {each}" for place, all_of_it in found.items() for each in all_of_it)


MOVING = """
[...document.querySelectorAll("*")].filter((node) => {
  const style = getComputedStyle(node);
  return parseFloat(style.transitionDuration) > 0 || parseFloat(style.animationDuration) > 0;
}).map((node) => node.className)
"""
TWICE_AS_LARGE = """
(document.documentElement.style.fontSize = "200%", parseFloat(getComputedStyle(document.body).fontSize))
"""


def test_motion_is_there_for_those_who_want_it(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna", reduced_motion="no-preference") as screen:
        screen.open("/tables")
        assert screen.run(MOVING) == ["skip"]


def test_what_is_focused_is_seen_in_forced_colours(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna", forced_colors="active") as screen:
        screen.open("/ask")
        for _ in range(20):
            screen.page.keyboard.press("Tab")
            assert screen.run(RING) not in ("none", "0px"), screen.run("document.activeElement.outerHTML")


RING = """
(({ outlineStyle, outlineWidth }) => outlineStyle === "none" ? "none" : outlineWidth)(
  getComputedStyle(document.activeElement))
"""


@pytest.fixture(scope="module")
def long_answer(shared: Stage, browser: Browser) -> str:
    with screen(browser, shared.url, shared.cookie("anna")) as asking:
        asking.ask(TOP.replace("LIMIT 5", "LIMIT 20"))
        asking.sees("Answer")
        return path_of(asking.page)


def test_the_first_load_of_an_answer_is_small(shared: Stage, seated: Seated, long_answer: str) -> None:
    with seated(shared, "anna") as screen:
        screen.open(long_answer)
        screen.sees("Answer")
        check_first_load(screen, MAX_BYTES)


def check_first_load(screen: Screen, most: int) -> None:
    """At most 6 requests and so many bytes over the wire, with nothing in the cache."""
    if screen.page.locator("[data-estimate]").count():
        expect(screen.page.locator("[data-estimate]")).to_contain_text("price")
    loaded = [request for request in screen.requests if not request.url.startswith("data:")]
    sizes = [request.sizes() for request in loaded]
    assert 3 <= len(loaded) <= MAX_REQUESTS
    assert 1_000 < sum(each["responseBodySize"] + each["responseHeadersSize"] for each in sizes) <= most
