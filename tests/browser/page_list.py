"""Every page in every state: how it is reached, and by whom. A new page is a new row."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import expect

from tests.helpers.screens import Screen
from tests.helpers.staged import Stage, engine_fails

TOP = "SELECT article, members FROM engagements GROUP BY article ORDER BY members DESC LIMIT 5"
NAMES = "SELECT article FROM engagements GROUP BY article ORDER BY members DESC LIMIT 5"
NOTHING = "SELECT article, members FROM engagements WHERE day = '2030-01-01' GROUP BY article LIMIT 5"
AFTERWARDS = f"SELECT article, 2 * members AS twice FROM ({TOP}) AS t"
MISSPELT = TOP.replace("members", "membrs")
UNREADABLE = "SELECT article,\n members FRUM engagements"
LONG = TOP.replace("LIMIT 5", "LIMIT 15")

REPORT = "/reports/{name}"
RANGE = "start=2026-10-28&end=2026-11-03"
OVER_TIME = f"/reports/ads?entity=acme&statistic=impressions&statistic=clicks&{RANGE}&step=day&option="
BY_TITLE = f"/reports/ads?entity=acme&entity=spring&statistic=impressions&{RANGE}&step=all&by=job_title&option="
SMALL_STEPS = OVER_TIME.replace("step=day", "step=3h")
OFF_THE_GRID = OVER_TIME.replace("2026-10-28", "2026-10-28T01:00")

NUMBERS = itertools.count(100)

Reach = Callable[[Screen, Stage], None]


@dataclass(frozen=True)
class PageRow:
    """A page in one of its states. `reach` brings the screen there; without it, the path is opened.

    A page `is_long` if it grows with what it lists.
    """

    name: str
    route: str
    heading: str
    analyst: str | None = "anna"
    path: str = ""
    status: int = 200
    reach: Reach | None = None
    is_long: bool = False

    def show(self, screen: Screen, stage: Stage) -> None:
        if self.reach is None:
            screen.open(self.path or self.route, self.status)
        else:
            self.reach(screen, stage)
        screen.sees(self.heading)


def asked(sql: str) -> Reach:
    return lambda screen, stage: screen.ask(sql)


def priced(screen: Screen, stage: Stage) -> None:
    screen.open("/ask?table=engagements")
    expect(screen.page.locator("[data-estimate]")).to_contain_text("units")


def completing(screen: Screen, stage: Stage) -> None:
    screen.open("/ask?way=sql")
    editor = screen.page.get_by_label("Your question in SQL")
    editor.fill("SELECT ")
    editor.press("Control+Space")
    expect(screen.page.get_by_role("option").first).to_be_visible()


def failed(screen: Screen, stage: Stage) -> None:
    """A question that was not asked before: an answer that is stored needs no engine."""
    with engine_fails(stage):
        screen.ask(TOP.replace("GROUP", f"WHERE n <> {next(NUMBERS)} GROUP"))
        screen.sees("Ask")
    expect(screen.page.get_by_role("alert")).to_contain_text("asking the same again is free")


def refused(sql: str, words: str) -> Reach:
    def reach(screen: Screen, stage: Stage) -> None:
        screen.ask(sql)
        expect(screen.page.get_by_role("alert")).to_contain_text(words)

    return reach


def unfolded(screen: Screen, stage: Stage) -> None:
    """With all that opens opened."""
    screen.ask(TOP)
    screen.sees("Answer")
    for summary in screen.page.locator("summary").all():
        summary.click()


def searched(screen: Screen, stage: Stage) -> None:
    screen.open("/history")
    screen.page.get_by_label("Text").fill("nowhere")
    screen.button("Search").click()
    expect(screen.page.get_by_text("None of your latest questions has this")).to_be_visible()


def wrong_key(screen: Screen, stage: Stage) -> None:
    screen.sign_in("sfumato_wrong")
    expect(screen.page.get_by_role("alert")).to_contain_text("no key that is valid")


def revoking(screen: Screen, stage: Stage) -> None:
    screen.open("/keys")
    screen.page.get_by_role("link", name="Revoke").first.click()


def published(screen: Screen, stage: Stage) -> None:
    screen.open("/releases")
    screen.page.get_by_role("link", name="items").click()


def asked_and_open(path: str) -> Reach:
    def reach(screen: Screen, stage: Stage) -> None:
        screen.ask(TOP)
        screen.sees("Answer")
        screen.open(path)

    return reach


PAGES = (
    PageRow("sign-in", "/sign-in", "Sign in", analyst=None),
    PageRow("sign-in, wrong key", "/sign-in", "Sign in", analyst=None, reach=wrong_key),
    PageRow("start", "/", "What may be asked"),
    PageRow("tables", "/tables", "What may be asked"),
    PageRow("tables, none", "/tables", "What may be asked", analyst="nina"),
    PageRow("tables, reader", "/tables", "What may be asked", analyst="rita"),
    PageRow("ask, by choosing", "/ask", "Ask", reach=priced),
    PageRow("ask, in SQL", "/ask", "Ask", path="/ask?way=sql"),
    PageRow("ask, completing", "/ask", "Ask", reach=completing),
    PageRow("ask, nothing to ask about", "/ask", "Ask", analyst="nina"),
    PageRow("ask, prices only", "/ask", "Ask", analyst="axel"),
    PageRow("ask, refused", "/ask", "Ask", reach=refused(MISSPELT, "You can ask instead")),
    PageRow("ask, not SQL", "/ask", "Ask", reach=refused(UNREADABLE, "line 2")),
    PageRow("ask, exhausted", "/ask", "Ask", analyst="paul", reach=refused(LONG, "Not enough is left")),
    PageRow("ask, failed", "/ask", "Ask", reach=failed),
    PageRow("answer", "/answers/{digest}", "Answer", reach=unfolded),
    PageRow("answer, names", "/answers/{digest}", "Answer", reach=asked(NAMES)),
    PageRow("answer, nothing", "/answers/{digest}", "Answer", reach=asked(NOTHING)),
    PageRow("answer, computed", "/answers/{digest}", "Answer", reach=asked(AFTERWARDS)),
    PageRow("answer, not yours", "/answers/{digest}", "Not found", path=f"/answers/{'0' * 64}", status=404),
    PageRow("history", "/history", "History", reach=asked_and_open("/history")),
    PageRow("history, empty", "/history", "History", analyst="olga"),
    PageRow("history, nothing found", "/history", "History", reach=searched),
    PageRow("budget", "/budget", "Budget", reach=asked_and_open("/budget")),
    PageRow("budget, nothing spent", "/budget", "Budget", analyst="olga"),
    PageRow("budget, counted", "/budget", "Budget", analyst="tess"),
    PageRow("budget, reader", "/budget", "Budget", analyst="rita"),
    PageRow("reports", "/reports", "Reports", analyst="rita"),
    PageRow("reports, a tenant", "/reports", "Reports", analyst="tina"),
    PageRow("report, at first", REPORT, "ads", analyst="rita", path="/reports/ads"),
    PageRow("report, over time", REPORT, "ads", analyst="tina", path=OVER_TIME),
    PageRow("report, by title", REPORT, "ads", analyst="tina", path=BY_TITLE),
    PageRow("report, small steps", REPORT, "ads", analyst="tina", path=SMALL_STEPS, is_long=True),
    PageRow("report, off the grid", REPORT, "ads", analyst="tina", path=OFF_THE_GRID, status=422),
    PageRow("report, not yours", REPORT, "Not found", analyst="tina", path="/reports/ads?entity=globex", status=404),
    PageRow("report, no tree", REPORT, "clicks", analyst="rita", path="/reports/clicks"),
    PageRow("overview", "/overview", "Overview", analyst="omar"),
    PageRow("overview, an auditor", "/overview", "Overview", analyst="axel"),
    PageRow("dry", "/dry", "Who would run dry", analyst="omar"),
    PageRow("questions", "/questions", "Questions of all", analyst="axel"),
    PageRow("keys", "/keys", "Keys", analyst="omar"),
    PageRow("keys, an auditor", "/keys", "Keys", analyst="axel"),
    PageRow("revoke", "/keys/{id}/revoke", "Revoke a key", analyst="omar", reach=revoking),
    PageRow("grants", "/grants", "Grant", analyst="omar"),
    PageRow("policy", "/policy", "Policy", analyst="omar", is_long=True),
    PageRow("guarantee", "/guarantee", "Guarantee", analyst="omar"),
    PageRow("ledger", "/ledger", "Ledger", analyst="omar"),
    PageRow("releases", "/releases", "Releases", analyst="omar"),
    PageRow("release", "/releases/{digest}", "Release", analyst="axel", reach=published),
    PageRow("overview, not yours", "/overview", "Not found", status=404),
    PageRow("nowhere", "/nowhere", "Not found", status=404),
)

NO_PAGES = (
    *("/ask/words", "/history.csv", "/answers/{digest}/{file}"),
    *("/reports/{name}/entities", "/reports/{name}/{file}"),
    *("/ledger/progress", "/releases/{digest}/statement.json"),
)
"""Routes that deliver data and files."""
