"""What pages show while something takes long, fails or ends: loading, signed out in the middle, limited, killed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sfumato.service import calls
from sfumato.service.limits import Rates
from tests.browser.page_list import TOP
from tests.helpers.screens import Screen, Seated, path_of
from tests.helpers.servers import IDLE, SLEEPY, new_key, start, wait_until
from tests.helpers.staged import Stage, engine_fails, engine_waits, sign_in
from tests.helpers.worlds import new_world

pytestmark = pytest.mark.slow

SQL = "Your question in SQL"


LOADING = """
const setTimer = setTimeout;
setTimeout = (act, delay) => setTimer(act, delay === 5000 ? 0 : delay);
addEventListener("submit", () => setTimer(() => {
  const places = ["[data-ask]", "[role=status]", "[data-slow]"];
  const [button, status, leave] = places.map((each) => document.querySelector(each));
  const disabled = button.getAttribute("aria-disabled"), seen = leave.getClientRects().length ? leave.textContent : "";
  console.log(["loading", button.textContent, disabled, seen, status.textContent].join("|"));
  button.click();
}), { once: true });
"""


def test_loading(stage: Stage, seated: Seated) -> None:
    """The button says so and cannot be pressed twice; after a while, which is short here, that one may leave.

    The page itself writes what it shows: while it is being left, no debugger gets an answer from it.
    """
    with seated(stage, "anna") as screen, engine_waits(stage) as go:
        screen.page.add_init_script(LOADING)
        screen.open("/ask?way=sql")
        screen.page.get_by_label(SQL).fill(TOP)
        with screen.page.expect_console_message(lambda message: message.text.startswith("loading")) as written:
            screen.button("Ask").click(no_wait_after=True)
        leave = "You may leave this page: the answer will be in History."
        assert written.value.text.split("|") == ["loading", "Asking …", "true", leave, leave]
        go.set()
        screen.sees("Answer")
        posted = [request.url for request in screen.requests if request.method == "POST"]
        assert posted.count(f"{stage.url}/answers") == 1


def test_who_leaves_finds_the_answer_in_the_history(stage: Stage, seated: Seated) -> None:
    with seated(stage, "anna") as screen:
        with engine_waits(stage) as go:
            screen.open("/ask?way=sql")
            screen.page.get_by_label(SQL).fill(TOP)
            screen.button("Ask").click(no_wait_after=True)
            wait_until(lambda: bool(stage.served.reserved()))
            screen.open("/history")
            expect(screen.page.get_by_text("The price is reserved")).to_be_visible()
            go.set()
            wait_until(lambda: not stage.served.reserved())
        screen.page.reload()
        screen.page.get_by_role("link", name="the 5 largest groups").click()
        screen.sees("Answer")


def test_a_failure_is_charged_once_and_asking_again_is_free(stage: Stage, seated: Seated) -> None:
    with seated(stage, "anna") as screen:
        with engine_fails(stage):
            screen.ask(TOP)
            expect(screen.page.get_by_role("alert")).to_contain_text(re.compile("Request [0-9a-f]{32}"))
        expect(screen.page.get_by_label(SQL)).to_have_value(TOP)
        reserved = stage.served.reserved()
        assert reserved.information > 0
        screen.button("Ask").click()
        screen.sees("Answer")
        assert stage.served.spent() <= reserved
        assert not stage.served.reserved()


def test_signed_out_in_the_middle(stage: Stage, seated: Seated) -> None:
    """What was typed is still there after signing in, by someone who presses Ask and by someone who looks at a page."""
    with seated(stage, "anna") as screen:
        screen.allowed = {401}
        screen.open("/ask?way=sql")
        screen.page.get_by_label(SQL).fill(TOP)
        expect(screen.page.locator("[data-estimate]")).to_contain_text("11 units")
        end_sign_in(screen, stage)
        screen.page.get_by_label(SQL).press_sequentially(" ")
        expect(screen.page.locator("[data-estimate-hint]")).to_contain_text("You are signed out")
        screen.button("Ask").click()
        screen.sees("Sign in")
        expect(screen.page.get_by_text("What you typed is kept.")).to_be_visible()
        screen.page.get_by_label("Your key").fill("sfumato_wrong")
        screen.button("Sign in").click()
        expect(screen.page.get_by_role("alert")).to_contain_text("no key that is valid")
        screen.page.get_by_label("Your key").fill(stage.served.key())
        screen.button("Sign in").click()
        screen.sees("Ask")
        expect(screen.page.get_by_label(SQL)).to_have_value(f"{TOP} ")
        assert not stage.served.spent()
        screen.button("Ask").click()
        screen.sees("Answer")
        address = path_of(screen.page)

        end_sign_in(screen, stage)
        screen.page.reload()
        screen.page.get_by_label("Your key").fill(stage.served.key())
        screen.button("Sign in").click()
        screen.sees("Answer")
        assert path_of(screen.page) == address


def end_sign_in(screen: Screen, stage: Stage) -> None:
    """In another tab."""
    other = screen.page.context.new_page()
    other.goto(f"{stage.url}/tables")
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    other.close()


def test_the_page_of_a_form_that_is_chosen_comes_back_too(stage: Stage, seated: Seated) -> None:
    with seated(stage, "anna") as screen:
        screen.allowed = {401}
        screen.open("/ask?table=engagements")
        screen.page.get_by_label("How many, of the largest").fill("7")
        screen.page.get_by_label("Column of condition 1", exact=True).select_option("region")
        screen.page.get_by_label("Value of condition 1", exact=True).fill("emea")
        end_sign_in(screen, stage)
        screen.button("Ask").click()
        screen.page.get_by_label("Your key").fill(stage.served.key())
        screen.button("Sign in").click()
        expect(screen.page.get_by_label("How many, of the largest")).to_have_value("7")
        expect(screen.page.get_by_label("Value of condition 1", exact=True)).to_have_value("emea")


def test_a_revoked_key_ends_its_session_at_once(stage: Stage, seated: Seated) -> None:
    key = stage.served.key()
    with seated(stage) as screen:
        screen.sign_in(key)
        screen.sees("What may be asked")
        [made] = stage.served.keys.list("anna")
        stage.served.keys.revoke(made.id, stage.served.clock.now)
        screen.page.reload()
        screen.sees("Sign in")


def test_a_limit_of_the_rate_counts_down_and_goes_on(
    staging: Callable[..., Stage], seated: Seated, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(calls, "Rates", lambda per_minute: Rates(per_minute, lambda: now[0]))
    stage = staging(service={"rate_per_minute": 2})
    with seated(stage, "anna") as screen:
        screen.allowed = {429}
        screen.page.clock.install()
        screen.open("/ask?way=sql")
        expect(screen.page.locator("[data-estimate]")).to_contain_text("units")
        screen.page.get_by_label(SQL).fill(TOP)
        screen.button("Ask").click()
        screen.sees("Rate limited")
        expect(screen.page.get_by_text("Nothing was charged")).to_be_visible()
        seconds = screen.page.locator("[data-countdown]")
        expect(seconds).to_have_text("30")
        screen.page.clock.run_for(1000)
        expect(seconds).to_have_text("29")
        now[0] = 60
        screen.page.clock.run_for(29_000)
        screen.sees("Answer")


def test_not_yours_is_as_if_it_were_not_there(shared: Stage, seated: Seated) -> None:
    with seated(shared, "anna") as screen:
        screen.ask(TOP)
        screen.sees("Answer")
        address = path_of(screen.page)
    with seated(shared, "olga") as screen:
        screen.open(address, 404)
        other = screen.page.content()
        screen.open(f"/answers/{'0' * 64}", 404)
        assert screen.page.content() == other
    with seated(shared, "rita") as screen:
        screen.open("/ask", 404)
        assert screen.page.content() == other


def test_a_service_that_is_killed_while_it_answers(tmp_path: Path, seated: Seated) -> None:
    """The answer is in the history when it is up again."""
    world = new_world(tmp_path / "world")
    key, question = new_key(world), TOP.replace("GROUP", f"WHERE n <> {IDLE} GROUP")
    first = start(world, first=SLEEPY)
    try:
        with seated(first) as screen:
            screen.page.context.add_cookies(
                [{"name": name, "value": value, "url": first.url} for name, value in sign_in(first.url, key).items()]
            )
            screen.open("/ask?way=sql")
            screen.page.get_by_label(SQL).fill(question)
            screen.button("Ask").click(no_wait_after=True)
            wait_until(lambda: len(world.tables()["holds"]) > 0)
            first.kill()
            second = start(world, port=first.port)
            try:
                wait_until(lambda: not world.tables()["holds"])
                screen.problems.clear()  # the connection was lost
                screen.open("/history")
                screen.page.get_by_role("link", name="the 5 largest groups").click()
                screen.sees("Answer")
                expect(screen.page.locator("tbody tr")).to_have_count(5)
            finally:
                second.kill()
    finally:
        first.kill()
