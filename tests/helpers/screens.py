"""A person at a real browser: what is wrong on a page is collected while she walks through it.

A check of a page runs in the page, put there by the debugger: the page's own policy refuses every other way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, Request, Response, expect

from tests.helpers import chromium
from tests.helpers.contrast import contrast
from tests.helpers.servers import PATIENCE_S

PATIENCE_MS = 1000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)
WIDE, HALF, NARROW = (1200, 900), (640, 900), (320, 640)

# The policy's own report: not every violation is written to the console.
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`));
"""

AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice")
AXE_RUN = """
axe.run(document, {
  runOnly: { type: "tag", values: TAGS }, resultTypes: ["violations"], preload: false, elementRef: false,
}).then((found) => found.violations.flatMap((each) =>
  each.nodes.map((node) => `${each.id}: ${node.target.join(" ")}: ${node.failureSummary}`)))
"""

# Whatever is drawn or written in pictures: its colour, and that of the paper below it.
DRAWN = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const hex = (colour, below) => {
    canvas.fillStyle = below; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    return "#" + parts.map((part) => part.toString(16).padStart(2, "0")).join("");
  };
  const paper = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/^rgba.*, 0\\)$|^transparent$/.test(colour)) return hex(colour, "#ffffff");
    }
    return "#ffffff";
  };
  const found = [];
  for (const picture of document.querySelectorAll("svg.picture")) {
    if (!picture.getClientRects().length) continue;
    const below = paper(picture);
    for (const node of picture.querySelectorAll("rect, line, path, polyline, circle, text")) {
      const style = getComputedStyle(node);
      const place = `${node.tagName} in ${node.closest("[class]").getAttribute("class")}`;
      const colour = style.stroke === "none" ? style.fill : style.stroke;
      found.push([place, node.tagName === "text", hex(colour, below), below]);
    }
  }
  return found;
})()
"""

# Text that does not fit into its box, where nothing scrolls.
CLIPPED = """
[...document.querySelectorAll("body *")]
  .filter((node) => node.clientWidth && !node.closest(".unseen, .live, .skip, svg, select, input, .offers"))
  .filter((node) => ["hidden", "clip"].includes(getComputedStyle(node).overflowX)
    && node.scrollWidth > node.clientWidth + 1)
  .map((node) => node.outerHTML.slice(0, 100))
"""
SIDEWAYS = "Math.max(document.documentElement.scrollWidth - document.documentElement.clientWidth, 0)"


@dataclass
class Screen:
    """One tab of one person, and all that went wrong in it."""

    page: Page
    origin: str
    problems: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    allowed: set[int] = field(default_factory=set)
    """Statuses that a script may meet."""

    def __post_init__(self) -> None:
        page = self.page
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._dismiss)
        page.on("request", self._see)
        page.on("response", self._look)
        self.debugger = page.context.new_cdp_session(page)

    def _hear(self, message: ConsoleMessage) -> None:
        # What the network says is judged by `_look`.
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
            self.problems.append(f"console: {message.text}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Request) -> None:
        self.requests.append(request)
        is_ours = request.url.startswith((f"{self.origin}/", "data:", "blob:")) or request.url == self.origin
        if not is_ours:
            self.problems.append(f"request: {request.url}")

    def _look(self, response: Response) -> None:
        is_page = response.request.is_navigation_request()
        if response.status >= 400 and not is_page and response.status not in self.allowed:
            self.problems.append(f"status: {response.status} of {response.url}")

    def open(self, path: str, status: int = 200) -> None:
        reply = self.page.goto(self.origin + path)
        assert reply is not None
        assert reply.status == status, (path, reply.status)

    def run(self, script: str) -> Any:
        """The value of an expression in the page, computed by the debugger."""
        options = {"expression": script, "awaitPromise": True, "returnByValue": True}
        found = self.debugger.send("Runtime.evaluate", options)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    @property
    def text(self) -> str:
        """What is seen of the page."""
        return " ".join(self.page.locator("body").inner_text().split())

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, level=1, exact=True)

    def sees(self, name: str) -> None:
        """The page with this heading has come."""
        expect(self.heading(name)).to_be_visible()

    def sign_in(self, key: str) -> None:
        self.open("/sign-in")
        self.page.get_by_label("Your key").fill(key)
        self.button("Sign in").click()

    def ask(self, sql: str) -> None:
        """Write a question in SQL, see its price or why there is none, and ask."""
        self.open("/ask?way=sql")
        self.page.get_by_label("Your question in SQL").fill(sql)
        self.button("Ask").or_(self.button("Ask: more than is left")).click()

    # -- checks --

    def accessibility(self) -> list[str]:
        """What axe-core finds: WCAG 2.0 to 2.2, A and AA, and its best practices."""
        source = chromium.axe()
        assert source is not None
        if not self.run("typeof axe === 'object'"):
            self.run(f"{source};0")
        return list(self.run(AXE_RUN.replace("TAGS", json.dumps(AXE_TAGS))))

    def drawn(self) -> list[str]:
        """What is drawn with too little contrast: less than 3 : 1, and 4.5 : 1 for text."""
        return [
            f"{place}: {colour} on {paper}"
            for place, is_text, colour, paper in self.run(DRAWN)
            if contrast(colour, paper) < (4.5 if is_text else 3)
        ]

    def sideways(self) -> list[str]:
        pixels = self.run(SIDEWAYS)
        return [f"the page is {pixels} pixels too wide"] if pixels else []

    def clipped(self) -> list[str]:
        return [f"cut off: {each}" for each in self.run(CLIPPED)]

    def resize(self, size: tuple[int, int]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})


@contextmanager
def screen(browser: Browser, origin: str, cookie: Mapping[str, str] | None = None, **options: Any) -> Iterator[Screen]:
    """A new person at the browser, signed in by a `cookie`. At the end, nothing may have gone wrong."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, **options)
    try:
        if options.get("java_script_enabled", True):
            context.add_init_script(REPORT_VIOLATIONS)
        if cookie:
            context.add_cookies([{"name": name, "value": value, "url": origin} for name, value in cookie.items()])
        context.set_default_timeout(PATIENCE_MS)
        found = Screen(context.new_page(), origin)
        yield found
        assert found.problems == []
    finally:
        context.close()


Seated = Callable[..., AbstractContextManager[Screen]]
"""`with seated(stage, "anna") as screen:` is anna at the browser, signed in."""


def path_of(page: Page) -> str:
    return urlsplit(page.url).path
