"""Two clicks, a reload and "back" on forms that spend: one charge."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.page_list import AFTERWARDS, TOP
from tests.helpers.screens import Seated
from tests.helpers.servers import wait_until
from tests.helpers.staged import Stage, engine_waits

pytestmark = pytest.mark.slow

SQL = "Your question in SQL"


def charges(stage: Stage) -> int:
    """Of her own account."""
    return [row.account for row in stage.served.session.charges("anna").rows].count("analyst:anna")


def test_two_clicks_without_script(stage: Stage, seated: Seated) -> None:
    """Both are sent, with the key of one form."""
    with seated(stage, "anna", java_script_enabled=False) as screen:
        screen.open("/ask?way=sql")
        screen.page.get_by_label(SQL).fill(TOP)
        with engine_waits(stage) as go:
            screen.button("Ask").dblclick(no_wait_after=True)
            wait_until(lambda: bool(stage.served.reserved()))
            go.set()
            screen.sees("Answer")
    assert charges(stage) == 1
    assert not stage.served.reserved()


def test_two_clicks_a_reload_and_back(stage: Stage, seated: Seated) -> None:
    with seated(stage, "anna") as screen:
        screen.open("/ask?way=sql")
        screen.page.get_by_label(SQL).fill(TOP)
        screen.button("Ask").dblclick()
        screen.sees("Answer")
        spent = stage.served.spent()
        screen.page.reload()
        screen.sees("Answer")
        screen.page.go_back()
        screen.sees("Ask")
        screen.page.get_by_label(SQL).fill(TOP)
        screen.button("Ask").click()
        screen.sees("Answer")
        more = screen.page.get_by_role("button", name="10 more")
        more.dblclick()
        expect(screen.page.locator("tbody tr")).to_have_count(15)
        extended = stage.served.spent()
        assert extended.information > spent.information
        screen.page.go_back()
        more.click()
        expect(screen.page.locator("tbody tr")).to_have_count(15)
        assert stage.served.spent() == extended
        assert charges(stage) == 2


def test_a_page_that_is_sent_again(stage: Stage, seated: Seated) -> None:
    """What SQL has computed has no address: a reload sends the form a second time."""
    with seated(stage, "anna") as screen:
        screen.ask(AFTERWARDS)
        screen.sees("Answer")
        spent = stage.served.spent()
        sent = [request for request in screen.requests if request.url == f"{stage.url}/answers"]
        screen.page.reload()
        screen.sees("Answer")
        again = [request for request in screen.requests if request.url == f"{stage.url}/answers"]
        assert len(again) == len(sent) + 1
        assert again[-1].post_data == sent[-1].post_data
        assert stage.served.spent() == spent
        assert charges(stage) == 1
