"""The whole ways of the analyst, the reader and the owner by keyboard alone; the analyst's by mouse, without script."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.page_list import MISSPELT, TOP
from tests.helpers.screens import Screen, Seated
from tests.helpers.staged import Stage

pytestmark = pytest.mark.slow

MAX_STEPS = 80  # of Tab, from one thing on a page to another


class Keyboard:
    """A person without a mouse. What has the focus must show it."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._keys = screen, screen.page.keyboard

    def press(self, *keys: str) -> None:
        for key in keys:
            self._keys.press(key)

    def write(self, text: str) -> None:
        self._keys.type(text)

    def go_to(self, target: Locator) -> None:
        """Tab until it has the focus."""
        expect(target).to_be_visible()
        for _ in range(MAX_STEPS):
            if target.evaluate("node => node === document.activeElement"):
                outline = target.evaluate("node => getComputedStyle(node).outlineStyle")
                assert outline != "none", "what has the focus does not show it"
                return
            self.press("Tab")
        raise AssertionError(f"the keyboard does not reach {target}")

    def use(self, target: Locator) -> None:
        self.go_to(target)
        self.press("Enter")


def test_by_keyboard_alone(stage: Stage, seated: Seated) -> None:
    with seated(stage) as screen:
        keyboard, page = Keyboard(screen), screen.page
        screen.open("/tables")
        keyboard.write(stage.served.key())  # the field has the focus
        keyboard.press("Enter")
        screen.sees("What may be asked")

        keyboard.use(page.get_by_role("link", name="Skip to the content"))
        keyboard.use(page.get_by_role("link", name="Ask about this"))
        screen.sees("Ask")
        estimate = page.locator("[data-estimate]")
        expect(estimate).to_contain_text("at most 21 units and 1 call")
        keyboard.go_to(page.get_by_label("How many, of the largest"))
        keyboard.press("Control+A")
        keyboard.write("5")
        expect(estimate).to_contain_text("at most 11 units and 1 call")
        keyboard.go_to(page.get_by_label("Column of condition 1", exact=True))
        keyboard.write("region")
        keyboard.go_to(page.get_by_label("Value of condition 1", exact=True))
        keyboard.write("emea, apac")
        expect(page.locator("[data-sql]")).to_contain_text("region IN ('apac', 'emea')")

        page.keyboard.press("Shift+Tab")
        keyboard.use(page.get_by_role("button", name="In SQL"))
        editor = page.get_by_label("Your question in SQL")
        expect(editor).to_have_value(
            "SELECT article, members FROM engagements WHERE region IN ('apac', 'emea') "
            "GROUP BY article ORDER BY members DESC LIMIT 5"
        )
        keyboard.go_to(editor)
        keyboard.press("Control+A")
        keyboard.write(MISSPELT)
        expect(page.locator("[data-estimate-hint]")).to_contain_text("membrs")
        keyboard.press("Control+Enter")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("Nothing was read and nothing was charged")
        assert stage.served.spent().information == 0

        keyboard.use(alert.get_by_role("button").first)
        screen.sees("Answer")
        expect(screen.heading("Answer")).to_be_focused()
        expect(page.locator("tbody tr")).to_have_count(5)
        keyboard.use(page.get_by_role("button", name="10 more"))
        expect(page.locator("tbody tr")).to_have_count(15)
        paid = stage.served.spent()

        keyboard.use(page.get_by_role("button", name="article", exact=True))
        expect(page.locator("th[aria-sort=ascending]")).to_have_text("article")
        keyboard.use(page.get_by_text("As Python"))
        expect(page.get_by_text("client = sfumato.Client")).to_be_visible()
        keyboard.use(page.get_by_role("link", name="History"))
        screen.sees("History")
        keyboard.use(page.get_by_role("link", name="the 15 largest groups of members by article, in engagements"))
        screen.sees("Answer")
        keyboard.use(page.get_by_role("link", name="Budget"))
        screen.sees("Budget")
        assert stage.served.spent() == paid
        keyboard.use(screen.button("Sign out"))
        screen.sees("Sign in")


def test_to_the_end_of_a_budget_by_keyboard(stage: Stage, seated: Seated) -> None:
    with seated(stage, "paul") as screen:
        keyboard, page = Keyboard(screen), screen.page
        screen.open("/ask?way=sql")
        keyboard.go_to(page.get_by_label("Your question in SQL"))
        keyboard.press("Control+A")
        keyboard.write(TOP.replace("LIMIT 5", "LIMIT 15"))
        expect(page.locator("[data-estimate]")).to_contain_text("this is more than is left")
        keyboard.use(screen.button("Ask: more than is left"))
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("Not enough is left")
        expect(alert).to_contain_text("All is full again on")
        keyboard.use(alert.get_by_role("button").first)
        screen.sees("Answer")
        assert 0 < stage.served.spent("paul").information <= 12


def test_a_reader_by_keyboard_alone(shared: Stage, seated: Seated) -> None:
    """The tree, a range off the grid, a breakdown, cells that are too small to show, and the file of numbers."""
    with seated(shared) as screen:
        keyboard, page = Keyboard(screen), screen.page
        screen.open("/reports")
        keyboard.write(shared.served.key("rita"))
        keyboard.press("Enter")
        screen.sees("Reports")
        keyboard.use(page.get_by_role("link", name="ads", exact=True))
        screen.sees("ads")

        walk_the_tree(keyboard, screen)
        leave_the_grid(keyboard, screen)

        keyboard.go_to(page.get_by_label("By", exact=True))
        keyboard.write("job")
        step = page.get_by_label("Step")
        keyboard.go_to(step)
        keyboard.press("ArrowDown", "ArrowDown")
        expect(step).to_have_value("day")
        keyboard.use(screen.button("Show"))
        cells = page.get_by_role("region", name="The numbers").locator("td.small")
        expect(cells.first).to_have_text("too small to show")
        legend = page.get_by_role("list", name="Numbers that are not shown")
        expect(legend).to_contain_text("too small to show it is below 3")
        keyboard.use(page.get_by_text("Why do these not add up?"))
        expect(page.get_by_text("Numbers that are too small to show are missing among the parts")).to_be_visible()

        with page.expect_download() as saved:
            keyboard.use(page.get_by_role("link", name="CSV"))
        rows = [*csv.DictReader(saved.value.path().read_text("utf-8").splitlines())]
        assert len(rows) == 6 * 6 * 3  # days, titles and statistics
        assert [row["why"] for row in rows].count("too small to show") == cells.count() > 0
        keyboard.use(screen.button("Sign out"))
        screen.sees("Sign in")


def walk_the_tree(keyboard: Keyboard, screen: Screen) -> None:
    """By arrow keys to a campaign, by the beginning of its name to a creative, and back by the path."""
    page = screen.page
    tree = page.get_by_role("navigation", name="account, campaign, creative")
    path = page.get_by_role("navigation", name="Path")
    account, campaign = (tree.get_by_role("link", name=name) for name in ("account acme", "campaign spring"))
    keyboard.go_to(account)
    keyboard.press("ArrowRight")
    expect(campaign).to_be_visible()
    expect(account).to_be_focused()
    keyboard.press("ArrowRight", "ArrowDown")
    expect(campaign).to_be_focused()
    keyboard.press("Enter")
    expect(path).to_contain_text("campaign spring")
    expect(screen.heading("ads")).to_be_focused()
    keyboard.go_to(page.get_by_label("Find by the beginning of a name"))
    keyboard.write("s2")
    found = page.locator("[data-found]").get_by_role("link")
    expect(found).to_have_text("creative s2")
    keyboard.press("ArrowDown")
    expect(found).to_be_focused()
    keyboard.press("Enter")
    expect(path).to_contain_text("creative s2")
    keyboard.use(path.get_by_role("link", name="spring"))
    expect(path.locator("strong")).to_have_text("spring")


def leave_the_grid(keyboard: Keyboard, screen: Screen) -> None:
    """Write a range that does not fit the report, and take the nearest that does."""
    page = screen.page
    first, last = (page.get_by_label(name, exact=True) for name in ("From", "To before"))
    for field, day, clock, moment in (
        (first, "1028", "0100A", "2026-10-28T01:00"),
        (last, "1103", "1200A", "2026-11-03T00:00"),
    ):
        keyboard.go_to(field)
        keyboard.write(f"{day}2026")
        keyboard.press("ArrowRight")
        keyboard.write(clock)
        expect(field).to_have_value(moment)
    keyboard.use(screen.button("Show"))
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("This cannot be shown")
    expect(alert).to_contain_text("Nothing was read.")
    expect(alert.get_by_role("link")).to_have_count(2)
    keyboard.use(alert.get_by_role("link").first)
    expect(screen.heading("ads")).to_be_focused()
    expect(first).to_have_value("2026-10-28T00:00")


def test_an_owner_by_keyboard_alone(staging: Callable[..., Stage], seated: Seated) -> None:
    """A budget that runs dry; a key that is made, kept, used and revoked, which ends its session at once."""
    stage = staging(govern=True)
    served = stage.served
    served.ask(served.key("paul"))
    with seated(stage, permissions=["clipboard-read", "clipboard-write"]) as screen, seated(stage) as other:
        keyboard, page = Keyboard(screen), screen.page
        screen.open("/overview")
        keyboard.write(served.key("omar"))
        keyboard.press("Enter")
        screen.sees("Overview")
        account = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="analyst:paul", exact=True))
        expect(account.locator("time strong")).to_have_text("2026-11-17")

        keyboard.use(page.get_by_role("link", name="Who would run dry"))
        screen.sees("Who would run dry")
        keyboard.go_to(page.get_by_label("Budget 1", exact=True))
        keyboard.press("Control+A")
        keyboard.write("5,30")
        keyboard.press("Enter")
        expect(page.get_by_text("With 5 units and 30 calls, 0% never notice.")).to_be_visible()

        key = make_a_key(keyboard, screen, "paul")
        keeper = Keyboard(other)
        other.open("/ask")
        keeper.write(key)
        keeper.press("Enter")
        other.sees("Ask")
        [made] = [each for each in served.keys.list("paul") if key.startswith(each.prefix)]

        keyboard.use(page.get_by_role("link", name=f"Revoke the key {made.prefix} of paul"))
        screen.sees("Revoke a key")
        expect(page.get_by_text("every sign-in that was begun with it")).to_be_visible()
        keyboard.use(screen.button("Revoke it"))
        screen.sees("Keys")
        expect(page.get_by_role("row").filter(has_text=made.prefix)).to_contain_text("by omar")
        keeper.use(other.page.get_by_role("link", name="Budget"))
        other.sees("Sign in")


def make_a_key(keyboard: Keyboard, screen: Screen, analyst: str) -> str:
    """The key, which is shown once: until a box is ticked, and nowhere afterwards."""
    page = screen.page
    keyboard.use(page.get_by_role("link", name="Keys", exact=True))
    screen.sees("Keys")
    whose = page.get_by_label("Analyst", exact=True)
    keyboard.go_to(whose)
    keyboard.write(analyst)
    expect(whose).to_have_value(analyst)
    keyboard.use(screen.button("Make the key"))
    screen.sees("A new key")
    key = page.locator(".secret code").inner_text()
    keyboard.use(screen.button("Copy"))
    expect(screen.button("Copied")).to_be_visible()
    assert screen.run("navigator.clipboard.readText()") == key
    keyboard.use(screen.button("Done"))
    box = page.get_by_label("I have kept this key")
    expect(box).to_be_focused()  # the page stays
    keyboard.press("Space")
    keyboard.use(screen.button("Done"))
    screen.sees("Keys")
    expect(page.get_by_text(key)).to_have_count(0)
    return key


def test_sql_is_completed(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna") as screen:
        keyboard, page = Keyboard(screen), screen.page
        screen.open("/ask?way=sql&table=engagements")
        editor, offers = page.get_by_label("Your question in SQL"), page.get_by_role("listbox")
        keyboard.go_to(editor)
        keyboard.press("Control+A")
        keyboard.write("SELECT job")
        keyboard.press("Control+Space")
        expect(offers.get_by_role("option")).to_have_text("job_titletext")
        expect(page.get_by_role("status")).to_have_text("job_title, 1 of 1")
        keyboard.press("Tab")
        expect(editor).to_have_value("SELECT job_title")
        keyboard.write(", members FROM eng")
        keyboard.press("Enter")
        expect(editor).to_have_value("SELECT job_title, members FROM engagements")
        keyboard.write(" WHERE region = 'e")
        expect(offers).to_be_visible()
        keyboard.press("Escape")
        expect(offers).to_be_hidden()
        keyboard.press("Control+Space", "Enter")
        expect(editor).to_have_value("SELECT job_title, members FROM engagements WHERE region = 'emea'")
        keyboard.write(" AND market = ")
        keyboard.press("Control+Space", "ArrowDown", "ArrowDown", "ArrowUp")
        expect(offers.get_by_role("option")).to_have_count(3)
        expect(offers.get_by_role("option", selected=True)).to_have_count(1)
        second = offers.get_by_role("option").nth(1)
        expect(second).to_have_attribute("aria-selected", "true")
        second.click()
        expect(editor).to_have_value(re.compile("market = 'a[a-z]+'$"))


def test_the_place_of_a_mistake_is_marked(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna") as screen:
        screen.ask("SELECT article,\n members FRUM engagements")
        expect(screen.page.get_by_role("alert")).to_contain_text("line 2")
        editor = screen.page.get_by_label("Your question in SQL")
        expect(editor).to_be_focused()
        assert editor.evaluate("node => node.value.slice(node.selectionStart, node.selectionEnd)") == "engagements"


def test_a_link_for_a_colleague_spends_nothing(stage: Stage, seated: Seated) -> None:
    with seated(stage, "anna", permissions=["clipboard-read", "clipboard-write"]) as screen:
        screen.ask(TOP)
        screen.sees("Answer")
        screen.button("Link for a colleague").click()
        expect(screen.page.get_by_role("button", name="Copied")).to_be_visible()
        link = screen.run("navigator.clipboard.readText()")
    spent = stage.served.spent("olga")
    with seated(stage) as screen:
        screen.page.goto(link)
        screen.page.get_by_label("Your key").fill(stage.served.key("olga"))
        screen.button("Sign in").click()
        screen.sees("Ask")
        expect(screen.page.get_by_label("Your question in SQL")).to_have_value(TOP)
        expect(screen.page.locator("[data-estimate]")).to_contain_text("at most 11 units")
        assert all("article" not in request.url.partition("#")[0] for request in screen.requests)
    assert stage.served.spent("olga") == spent


def test_files_are_saved(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna") as screen:
        screen.ask(TOP)
        screen.sees("Answer")
        for name, start in (("CSV", b"article,members"), ("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("JSON", b"{")):
            with screen.page.expect_download() as saved:
                screen.page.get_by_role("link", name=name).or_(screen.button(name)).click()
            assert saved.value.path().read_bytes().startswith(start), name


def test_without_script(stage: Stage, seated: Seated) -> None:
    with seated(stage, java_script_enabled=False) as screen:
        page = screen.page
        screen.sign_in(stage.served.key())
        page.get_by_role("link", name="Ask about this").click()
        page.get_by_label("How many, of the largest").fill("5")
        page.get_by_label("Column of condition 1", exact=True).select_option("region")
        page.get_by_label("Value of condition 1", exact=True).fill("emea")
        screen.button("What does it cost?").click()
        expect(page.locator("[data-estimate]")).to_contain_text("at most 11 units and 1 call")
        screen.button("In SQL").click()
        expect(page.get_by_label("Your question in SQL")).to_have_value(
            "SELECT article, members FROM engagements WHERE region = 'emea' "
            "GROUP BY article ORDER BY members DESC LIMIT 5"
        )
        screen.button("By choosing").click()
        expect(page.get_by_label("Value of condition 1", exact=True)).to_have_value("emea")
        screen.button("Ask").click()
        screen.sees("Answer")
        expect(page.locator("tbody tr")).to_have_count(5)
        page.get_by_role("button", name="10 more").click()
        expect(page.locator("tbody tr")).to_have_count(15)
        page.get_by_role("link", name="History").click()
        page.get_by_label("Text").fill("15 largest")
        screen.button("Search").click()
        expect(page.locator("ol.history li")).to_have_count(1)
        page.get_by_role("button", name="Ask again or change").click()
        expect(page.get_by_label("How many, of the largest")).to_have_value("15")
        screen.button("Sign out").click()
        screen.sees("Sign in")
