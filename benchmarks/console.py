"""Pages beside the same calls of the API: what rendering costs, and what a browser loads the first time."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from benchmarks.answers import NUMBERS, QUESTION
from benchmarks.service import SERVE, Line, configured, new_key_for, post, process
from benchmarks.timing import milliseconds, side_by_side, table

MORE_TARGET_S = 0.010
BYTES_TARGET, REQUESTS_TARGET = 40_000, 6
REPEATS, CALLS = 30, 20

PATHS = ("/sign-in", "/tables", "/ask", "/history", "/budget")


def report(repeats: int = REPEATS) -> str:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        config, _ = configured(Path(place) / "shop")
        key = new_key_for(config)
        service, _ = stack.enter_context(process([*SERVE, "--config", str(config)]))
        page, call = _ask(service, key)
        return _stored(service, page, call, repeats) + "\n" + _first_loads(service, page)


def _ask(service: str, key: str) -> tuple[bytes, bytes]:
    """A question that is answered, and how its answer is got again: as a page, and by the API."""
    line = Exchange(service)
    line.ask(post(service, "/v1/answers", {"sql": QUESTION.format("engagements", next(NUMBERS))}, key))
    digest = str(re.search(rb'"digest":"([^"]+)"', line.body)[1], "ascii")  # type: ignore[index]
    form = urlencode({"key": key, "next": "/"})
    line.ask(request(service, "POST", "/sign-in", body=form, headers={"Origin": service}))
    cookie = str(re.search(rb"set-cookie: ([^;]+)", line.head, re.IGNORECASE)[1], "ascii")  # type: ignore[index]
    found = re.search(rb'href="(/answers/[^"/]+)"', line.get(request(service, "GET", "/history", cookie=cookie)))
    path = str(found[1], "ascii")  # type: ignore[index]
    headers = {"Authorization": f"Bearer {key}"}
    return request(service, "GET", path, cookie=cookie), request(
        service, "GET", f"/v1/answers/{digest}", headers=headers
    )


def _stored(service: str, page: bytes, call: bytes, repeats: int) -> str:
    lines = {name: (Line(service), sent) for name, sent in (("page", page), ("API", call))}

    def get(name: str) -> Callable[[], Any]:
        line, sent = lines[name]
        return lambda: line.ask(sent)

    best = side_by_side({name: get(name) for name in lines}, repeats=repeats, calls=CALLS)
    more = best["page"] - best["API"]
    verdict = "met" if more <= MORE_TARGET_S else "missed"
    row = milliseconds(best["API"]), milliseconds(best["page"]), milliseconds(more), "≤ 10 ms", verdict
    return (
        "## A page beside the same call\n\n"
        "A stored answer of ten rows, over one connection each: `GET /v1/answers/{digest}`, and the page of the answer "
        f"with its picture and its frame. The best of {repeats} turns of {CALLS} calls.\n\n"
        + table(["API", "page", "more", "target", "verdict"], [row])
    )


def _first_loads(service: str, page: bytes) -> str:
    cookie = str(re.search(rb"Cookie: ([^\r]+)", page)[1], "ascii")  # type: ignore[index]
    places = {path: request(service, "GET", path, cookie="" if path == "/sign-in" else cookie) for path in PATHS}
    rows = []
    for name, sent in (places | {"an answer": page}).items():
        sizes = first_load(service, sent)
        met = len(sizes) <= REQUESTS_TARGET and sum(sizes) <= BYTES_TARGET
        verdict = "met" if met else "missed"
        rows.append((name, str(len(sizes)), f"{sum(sizes):,}", f"≤ {REQUESTS_TARGET}, ≤ {BYTES_TARGET:,}", verdict))
    return (
        "## What a browser loads the first time\n\n"
        "Requests and bytes over the wire, with heads, of a page and all that it loads; the browser takes gzip.\n\n"
        + table(["page", "requests", "bytes", "target", "verdict"], rows)
    )


def first_load(service: str, page: bytes) -> list[int]:
    """The sizes of a page and of all that it loads."""
    line = Exchange(service)
    text = line.get(page).decode()
    sizes = [line.size]
    for path in sorted({*re.findall(r'(?:href|src)="(/assets/[^"]+)"', text)}):
        line.get(request(service, "GET", path, headers={"Accept-Encoding": "gzip"}))
        sizes.append(line.size)
    return sizes


def request(
    url: str, method: str, path: str, *, body: str = "", cookie: str = "", headers: dict[str, str] | None = None
) -> bytes:
    """A request, as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if cookie:
        lines.append(f"Cookie: {cookie}")
    if body:
        lines.append("Content-Type: application/x-www-form-urlencoded")
    return "\r\n".join([*lines, "", body]).encode()


class Exchange(Line):
    """A connection that keeps the last response: its head, its body and its size."""

    head = body = b""

    def get(self, sent: bytes) -> bytes:
        self.ask(sent)
        return self.body

    @property
    def size(self) -> int:
        return len(self.head) + 4 + len(self.body)

    def whole(self) -> bool:
        self.received += self.socket.recv(1 << 16)
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end:
            return False
        length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        if len(body) < (int(length[1]) if length else 0):
            return False
        if not re.match(rb"HTTP/1.1 (200|303) ", head):
            raise AssertionError(self.received[:500])
        self.head, self.body, self.received = head, body, b""
        return True
