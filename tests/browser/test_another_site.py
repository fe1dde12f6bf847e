"""Another site in the same browser posts forms, sends fetches, frames pages, opens links: nothing comes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.page_list import TOP
from tests.helpers.staged import Stage

pytestmark = pytest.mark.slow

FORM = """<!doctype html><title>other</title><form method="post" action="{action}" target="{target}">{fields}</form>"""
FRAME = """<!doctype html><title>other</title><iframe src="{address}"></iframe>"""
EMPTY = "<!doctype html><title>other</title>"
FETCH = """
async ([address, options]) => {
  try {
    const reply = await fetch(address, options);
    return [reply.type, reply.status, await reply.text()];
  } catch (error) {
    return ["failed", 0, ""];
  }
}
"""
NAMES = ("localhost", "127.0.0.1")
"""Another site, and another port of the same one: its requests carry the cookie."""


@contextmanager
def site(host: str) -> Iterator[tuple[str, dict[str, str]]]:
    """A server of pages that a test writes: its origin, and the pages by their path."""
    pages: dict[str, str] = {"/": EMPTY}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages.get(self.path, EMPTY).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}", pages
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(params=NAMES)
def elsewhere(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, str]]]:
    with site(request.param) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, shared: Stage) -> Iterator[Page]:
    """A browser in which anna is signed in to the service."""
    context = browser.new_context()
    [(name, value)] = shared.cookie("anna").items()
    context.add_cookies(
        [{"name": name, "value": value, "domain": "127.0.0.1", "path": "/", "httpOnly": True, "sameSite": "Lax"}]
    )
    yield context.new_page()
    context.close()


@pytest.fixture
def unchanged(shared: Stage) -> Iterator[str]:
    """At the end of the test nothing is spent, and the same people are signed in. A key of olga, who is not."""
    shared.cookie("anna")
    key = shared.served.key("olga")
    before = state(shared)
    yield key
    assert state(shared) == before


def state(stage: Stage) -> dict[str, list[tuple[Any, ...]]]:
    world = stage.served.world
    return world.tables() | {"sign_ins": sorted(world.rows("sign_ins"))}


def form(action: str, fields: dict[str, str], target: str = "_self") -> str:
    inputs = "".join(f'<textarea name="{name}">{value}</textarea>' for name, value in fields.items())
    return FORM.format(action=action, fields=inputs, target=target)


@pytest.mark.parametrize("path", ["/answers", "/ask", "/ask/price", "/history", "/sign-out", "/sign-in"])
def test_a_form_is_refused(
    shared: Stage, tab: Page, elsewhere: tuple[str, dict[str, str]], unchanged: str, path: str
) -> None:
    """Also one that signs her in as another analyst, whose key the other site has."""
    origin, pages = elsewhere
    pages["/form"] = form(f"{shared.url}{path}", {"way": "sql", "sql": TOP, "key": unchanged, "next": "/", "once": "x"})
    tab.goto(f"{origin}/form")
    with tab.expect_response(f"{shared.url}{path}") as reply:
        tab.evaluate("document.forms[0].submit()")
    assert reply.value.status == 403
    expect(tab.get_by_role("heading", name="Not from here")).to_be_visible()


@pytest.mark.usefixtures("unchanged")
def test_nothing_is_read_by_fetches(shared: Stage, tab: Page, elsewhere: tuple[str, dict[str, str]]) -> None:
    origin, _ = elsewhere
    tab.goto(origin)
    body = "way=sql&once=x&sql=" + TOP.replace(" ", "+")
    form_type = {"content-type": "application/x-www-form-urlencoded"}
    sent: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/tables", {}),
        ("/history.csv", {}),
        ("/v1/me", {}),
        ("/answers", {"method": "POST", "body": body, "headers": form_type}),
        ("/answers", {"method": "POST", "body": body, "headers": form_type | {"x-other": "1"}}),
        ("/ask/price", {"method": "POST", "body": body, "headers": form_type}),
        (
            "/v1/answers",
            {"method": "POST", "body": json.dumps({"sql": TOP}), "headers": {"content-type": "text/plain"}},
        ),
        ("/sign-out", {"method": "POST"}),
    )
    for path, options in sent:
        for mode in ("cors", "no-cors"):
            got = tab.evaluate(FETCH, [shared.url + path, options | {"credentials": "include", "mode": mode}])
            assert got[1:] == [0, ""], (path, mode, got)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("path", ["/tables", "/ask", "/sign-in", "/history"])
def test_no_page_is_framed(shared: Stage, tab: Page, elsewhere: tuple[str, dict[str, str]], path: str) -> None:
    origin, pages = elsewhere
    pages["/frame"] = FRAME.format(address=f"{shared.url}{path}")
    with tab.expect_response(f"{shared.url}{path}" if path == "/sign-in" else lambda reply: shared.url in reply.url):
        tab.goto(f"{origin}/frame")
    framed = tab.frames[1]
    framed.wait_for_load_state()
    assert not framed.get_by_role("heading").count()
    assert "Sfumato" not in framed.content()


@pytest.mark.usefixtures("unchanged")
def test_a_window_that_it_opens_is_closed_to_it(
    shared: Stage, tab: Page, elsewhere: tuple[str, dict[str, str]]
) -> None:
    """And a link with a question is opened, priced, and asks nothing."""
    origin, _ = elsewhere
    tab.goto(origin)
    link = f"{shared.url}/ask?way=sql#q={TOP.replace(' ', '%20')}"
    with tab.context.expect_page() as opened:
        tab.evaluate("link => { window.other = window.open(link) }", link)
    page = opened.value
    expect(page.get_by_label("Your question in SQL")).to_have_value(TOP)
    expect(page.locator("[data-estimate]")).to_contain_text("11 units")
    expect(page.get_by_role("heading", name="Ask", level=1)).to_be_visible()
    assert tab.evaluate("other.closed || (() => { try { return other.document === null } catch { return true } })()")
    assert page.evaluate("window.opener === null")


def test_the_cookie_alone_opens_nothing_of_the_api(shared: Stage, tab: Page) -> None:
    tab.goto(f"{shared.url}/tables")
    expect(tab.get_by_role("heading", name="What may be asked")).to_be_visible()
    found = tab.evaluate(FETCH, [f"{shared.url}/v1/me", {"credentials": "include"}])
    assert found[1] == 401
