"""The analyst's whole way through the pages: by keyboard alone, by mouse, and without script."""

from __future__ import annotations

import re

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
