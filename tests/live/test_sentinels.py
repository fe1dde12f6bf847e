"""Marked values are put where secrets are: in the rows, the keys and what callers write. Nothing that leaves has them.

All that a service gives off is kept: bodies and headers of responses, both streams at DEBUG, traces, metrics, temporary
files and their names, pages. A caller may read its own text in its own refusal; other callers and operators may not.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import threading
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import httpx2
import pytest

from tests.helpers.servers import ENDLESS, PATIENCE_S, SLEEPY, Server, new_key, wait_until
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.slow

TRACES = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "200"}

PEOPLE = 418_273
RARE = 'zanzibar§quetzal "9f3a"'
TITLE = "lighthouse-keeper-of-eddystone"
EVENTS, OTHERS_EVENTS = 517_349, 286_413
OTHERS_CAMPAIGN = "campaign-of-a-rival-é-0b7e"
CELL = "cell-that-is-no-number-5d1c"
MEMBER = 8_417_263_549_017

LITERAL = "filtered-for-somebody-é-77b0"
NUMBER = 660_213_987_451
ONCE = "idempotent-5f0c6a7e-once"
PATH = "path-of-somebody-41aa"
AGENT = "agent-of-somebody-90cc"
HISTORIES = b"/v1/questions", b"/v1/budget/charges", b"/v1/admin/questions"
"""What was asked: an analyst's own questions; for owners and auditors, those of all."""

_ROWS = f"""
CREATE TABLE raw AS SELECT
    person AS member_id, 'article-' || person % 40 AS article, 'teacher' AS job_title,
    ['amer', 'apac', 'emea'][1 + person % 3] AS region, ['amer', 'apac', 'emea'][1 + person // 3 % 3] AS market,
    DATE '2026-11-01' + (person % 14)::INTEGER AS day, (person % 9)::VARCHAR AS n
FROM range({PEOPLE - 1}) AS people (person);
INSERT INTO raw VALUES ({MEMBER}, $${RARE}$$, '{TITLE}', 'emea', 'emea', DATE '2026-11-01', '{CELL}');
CREATE TABLE events AS
SELECT event AS member_id, 'acme' AS account, 'spring' AS campaign, DATE '2026-11-02' AS day, 1 AS n
FROM range({EVENTS}) AS events (event)
UNION ALL SELECT event, 'globex', '{OTHERS_CAMPAIGN}', DATE '2026-11-02', 1
FROM range({OTHERS_EVENTS}) AS events (event)
UNION ALL SELECT {MEMBER}, '{RARE.replace("'", "''")}', 'x', DATE '2026-11-02', 1;
CREATE TABLE campaigns AS SELECT DISTINCT account, campaign FROM events;
CREATE VIEW engagements AS SELECT * REPLACE (CAST(n AS INTEGER) AS n) FROM raw
"""

# With so much noise a shown number is the true one less than once in 100,000 runs.
REPORTS = """
[tables.events]
engine = "local"
source = "events"
privacy_unit = "member_id"
[reports.ads]
table = "events"
time = "day"
levels = ["day", "month"]
entities = { levels = ["account", "campaign"], table = "campaigns" }
epsilon = 0.000001
[reports.ads.attributes]
n = { domain = [1, 2] }
[reports.ads.statistics]
events = { count = "rows" }
[reports.broken]
table = "engagements"
time = "day"
levels = ["day", "month"]
epsilon = 1
[reports.broken.statistics]
events = { count = "rows", where = { n = { ge = 0 } } }
[analysts.tina]
budget = "partner"
entities = { account = ["acme"] }
"""

# An unexpected error, and libraries that log, with a person's values in their messages.
BROKEN = f"""
import logging
from sfumato.session import Session
def tables(self):
    logging.getLogger("some.library").debug("read %s", {RARE!r})
    logging.getLogger("some.library").error({RARE!r}, extra={{"fields": {{"member": {MEMBER}}}}})
    logging.getLogger("sfumato.engines").debug("read %s", {RARE!r})
    raise RuntimeError({RARE!r}, {MEMBER})
Session.tables = tables
"""


# -- the scanner --


@dataclass(frozen=True)
class Sentinel:
    """A marked value in all its spellings."""

    name: str
    forms: dict[str, bytes]
    apart: frozenset[str] = frozenset()  # forms that are too short to be searched for inside of others

    def found(self, haystack: bytes) -> list[str]:
        return [f"{self.name} as {form}" for form, needle in self.forms.items() if self._has(haystack, form, needle)]

    def _has(self, haystack: bytes, form: str, needle: bytes) -> bool:
        if needle not in haystack or form not in self.apart:
            return needle in haystack
        return re.search(rb"(?<![0-9a-fA-F.])" + re.escape(needle) + rb"(?![0-9a-fA-F])", haystack) is not None


def text(name: str, value: str) -> Sentinel:
    raw = value.encode()
    escaped = json.dumps(value)[1:-1]
    return Sentinel(
        name,
        {
            "text": raw,
            "JSON": escaped.encode(),
            "JSON, kept": json.dumps(value, ensure_ascii=False)[1:-1].encode(),
            "JSON in JSON": json.dumps(escaped)[1:-1].encode(),
            "percent": quote(value, safe="").encode(),
            "percent, all": "".join(f"%{byte:02X}" for byte in raw).encode(),
            "percent, all, small": "".join(f"%{byte:02x}" for byte in raw).encode(),
            "units": "".join(f"\\u{ord(char):04x}" for char in value).encode(),
            "latin-1": value.encode("latin-1", "replace"),
            "UTF-16": value.encode("utf-16-le"),
            **encoded(raw),
        },
    )


def number(name: str, value: int) -> Sentinel:
    decimal = str(value)
    forms = {"decimal": decimal.encode(), "grouped": f"{value:,}".encode(), "hex": f"{value:x}".encode()}
    forms |= {f"decimal, {form}": needle for form, needle in encoded(decimal.encode()).items()}
    for order in "<>":
        packed = struct.pack(f"{order}q", value)
        forms |= {
            f"{order} {form}": needle for form, needle in encoded(packed).items() if form in ("hex", "base64 at 0")
        }
    return Sentinel(name, forms, frozenset(("decimal", "hex")))


def secret(name: str, value: bytes) -> Sentinel:
    return Sentinel(name, {"raw": value, "repr": repr(value)[2:-1].encode(), **encoded(value)})


def encoded(raw: bytes) -> dict[str, bytes]:
    """Hex, and base64 wherever in a longer text it stands."""
    forms = {"hex": raw.hex().encode(), "HEX": raw.hex().upper().encode()}
    for start in range(3):
        padded = bytes(start) + raw
        first, end = -(-start * 8 // 6), len(padded) * 8 // 6
        forms[f"base64 at {start}"] = b64encode(padded)[first:end]
        forms[f"base64url at {start}"] = urlsafe_b64encode(padded)[first:end]
    return forms


@pytest.mark.parametrize(
    "sentinel",
    [
        text("text", RARE),
        text("plain", PATH),
        number("count", PEOPLE),
        number("id", MEMBER),
        secret("key", os.urandom(32)),
    ],
    ids=lambda sentinel: sentinel.name,
)
def test_the_scanner_finds_every_form(sentinel):
    for form, needle in sentinel.forms.items():
        assert len(needle) >= 4
        assert f"{sentinel.name} as {form}" in sentinel.found(b"before " + needle + b" after")
    assert sentinel.found(b"nothing of it: 418272 zanzibar quetzal, ab418273 04:05:06.418273") == []


@pytest.mark.parametrize("start", range(9))
def test_the_scanner_finds_a_text_inside_an_encoded_one(start):
    inside = b"x" * start + RARE.encode() + b"and so on"
    for whole in (
        b64encode(inside),
        urlsafe_b64encode(inside),
        inside.hex().encode(),
        json.dumps(inside.decode()).encode(),
    ):
        assert text("text", RARE).found(whole)


# -- everything that leaves --


@dataclass
class Given:
    """What a service gave off: what one caller got, with what she had sent; and what anybody or an operator sees."""

    replies: list[tuple[bytes, int, bytes, bytes]] = field(default_factory=list)
    seen: dict[str, bytes] = field(default_factory=dict)

    def leaks(self, never: list[Sentinel], own: list[Sentinel]) -> list[str]:
        found = []
        for sent, status, head, body in self.replies:
            for sentinel in never:
                found += [f"{each} in a response {status}" for each in sentinel.found(head + body)]
            for sentinel in own:
                found += [f"{each} in the head of a response {status}" for each in sentinel.found(head)]
                # Back to the one who wrote it: in a refusal, as the group that a filter named, or in what was asked.
                is_answer = status == 200 and b'"receipt"' in body and (sentinel.found(sent) or b"/answers/" in sent)
                is_history = status == 200 and sent.startswith(HISTORIES)
                if not (is_answer or is_history or (sentinel.found(sent) and status >= 400)):
                    found += [f"{each} in a response {status}" for each in sentinel.found(body)]
        for place, content in self.seen.items():
            found += [f"{each} in {place}" for sentinel in (*never, *own) for each in sentinel.found(content)]
        return found


class Traffic:
    """One caller after the other, and all that comes back."""

    def __init__(self, server: Server, keys: dict[str, str], given: Given) -> None:
        self.server, self.keys, self.given = server, keys, given
        self.http = httpx2.Client(base_url=server.url, timeout=PATIENCE_S)

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def call(self, method: str, path: str, who: str = "anna", content: bytes | None = None, **headers: str) -> int:
        sent = {"Authorization": f"Bearer {self.keys.get(who, who)}", "User-Agent": AGENT, "X-Request-Id": ONCE}
        request = self.http.build_request(method, path, content=content, headers={**sent, **headers})
        try:
            reply = self.http.send(request)
        except httpx2.RequestError:
            return 0
        head = b"\n".join(name + b": " + value for name, value in reply.headers.raw)
        asked = b"\n".join([path.encode(), content or b"", *(value.encode() for value in headers.values())])
        self.given.replies.append((asked, reply.status_code, head, reply.content))
        return reply.status_code

    def ask(self, question: Any, who: str = "anna", **headers: str) -> int:
        body = json.dumps({"sql": question} if isinstance(question, str) else question).encode()
        self.call("POST", "/v1/estimates", who, body)
        return self.call("POST", "/v1/answers", who, body, **headers)

    def raw(self, data: bytes) -> None:
        """Bytes that need not be HTTP."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE_S) as line, suppress(OSError):
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            reply = b""
            while chunk := line.recv(65536):
                reply += chunk
            head, _, body = reply.partition(b"\r\n\r\n")
            self.given.replies.append((data, 400, head, body))


TOP = "SELECT article, members FROM engagements{where} GROUP BY article ORDER BY 2 DESC LIMIT {k}"


def questions() -> Iterator[tuple[Any, dict[str, str]]]:
    """What is answered, what is refused, and what the engine fails at."""
    once = {"Idempotency-Key": ONCE}
    yield TOP.format(where="", k=20), once
    yield TOP.format(where="", k=20), once
    yield TOP.format(where="", k=5), once  # the key again, with another body
    yield TOP.format(where=f" WHERE article <> '{LITERAL}'", k=20), {}
    yield TOP.format(where=f" WHERE article = '{LITERAL}'", k=3), {}
    yield "SELECT job_title, members FROM engagements WHERE region = 'emea' GROUP BY job_title LIMIT 20", {}
    yield f"SELECT region, members FROM engagements WHERE job_title <> '{LITERAL}' GROUP BY region", {}
    yield "SELECT DISTINCT region FROM engagements", {}
    # Refused, with the caller's words inside.
    yield f"SELECT {PATH} FROM engagements", {}
    yield f"SELECT members FROM engagements WHERE region = '{LITERAL}' AND day = '{LITERAL}'", {}
    yield f"SELECT members FROM engagements WHERE n = '{LITERAL}'", {}
    yield f"SELECT members FROM engagements WHERE article = '{LITERAL}", {}
    yield {"type": "top_k", "table": LITERAL, "by": "article", "measure": "members", "k": 3}, {}
    yield {"type": "total", "table": "engagements", "measure": "members", "where": {LITERAL: NUMBER}}, {}
    yield {LITERAL: {LITERAL: [NUMBER]}}, {"Idempotency-Key": f"{ONCE} with a space"}
    # The engine reads a cell that is no number, and says so to us.
    yield "SELECT members FROM engagements WHERE n >= 0", {"Idempotency-Key": f"{ONCE}-fails"}
    yield "SELECT members FROM engagements WHERE n >= 0", {"Idempotency-Key": f"{ONCE}-fails"}
    yield "SELECT visits FROM engagements", {}
    yield f"SELECT article, members FROM engagements WHERE n <> {NUMBER} GROUP BY article LIMIT 20", {}
    yield {"type": "histogram", "table": "engagements", "by": "region", "measure": "visits"}, {}


def reports() -> Iterator[dict[str, Any]]:
    """Answers, things of others, unknown things, refusals, and failures of the engine."""
    range_ = {"report": "ads", "statistics": "events", "start": "2026-11-01", "end": "2026-11-08"}
    for more in ({}, {"granularity": "day"}, {"attribute": "n", "top": 2}, {"options": ["tree", "totals", "monotone"]}):
        yield {**range_, "entity": {"account": "acme"}, **more}
    for entity in ({"account": "globex"}, {"account": LITERAL}, {"campaign": LITERAL}, {"campaign": NUMBER}):
        yield {**range_, "entity": entity}
    for change in ({"statistics": LITERAL}, {"attribute": LITERAL}, {"start": LITERAL}, {"options": [LITERAL]}):
        yield {**range_, "entity": {"account": "acme"}, **change}
    yield {**range_, "entity": {LITERAL: "acme"}}
    yield {**range_, LITERAL: NUMBER}
    yield {**range_, "report": "broken"}
    yield {**range_, "report": "broken"}


def drive_reports(traffic: Traffic) -> None:
    for question in reports():
        for who in ("tina", "anna", "auditor"):
            body = json.dumps(question).encode()
            traffic.call("POST", "/v1/reports", who, body, **{"Idempotency-Key": ONCE})


def drive(traffic: Traffic) -> None:
    drive_reports(traffic)
    for question, headers in questions():
        traffic.ask(question, **headers)
    traffic.ask(TOP.format(where="", k=20), "olga")
    traffic.ask(TOP.format(where=f" WHERE article = '{LITERAL}'", k=3), "auditor")
    for who in ("anna", "auditor", "owner", f"{traffic.keys['anna']}x", PATH):
        for path in ("budget", "budget/charges", f"budget/charges?cursor={PATH}", f"budget/charges?rows={PATH}"):
            traffic.call("GET", f"/v1/{path}", who)
        for path in ("questions", f"questions?cursor={PATH}", f"questions?{PATH}=1", f"admin/questions?analyst={PATH}"):
            traffic.call("GET", f"/v1/{path}", who)
        for path in ("tables", "admin/usage", f"admin/usage?since={PATH}&budget={PATH}", "admin/usage?budget=10,3"):
            traffic.call("GET", f"/v1/{path}", who)
        for path in ("me", "guarantee", f"reports/{PATH}", "reports/broken", f"reports/broken/entities?find={PATH}"):
            traffic.call("GET", f"/v1/{path}", who)
        for path in ("accounts", "policy", "ledger", "keys", f"keys?analyst={PATH}", "releases", f"releases/{PATH}"):
            traffic.call("GET", f"/v1/admin/{path}", who)
        for path in ("keys", f"keys/{PATH}/revoke", "grants", "ledger/verify"):
            traffic.call("POST", f"/v1/admin/{path}", who, json.dumps({PATH: LITERAL}).encode())
        for digest in digests(traffic.given):
            traffic.call("GET", f"/v1/answers/{digest}", who)
            traffic.call("GET", f"/v1/answers/{digest}", who, **{"If-None-Match": f'"{digest}"'})
        traffic.call("GET", f"/v1/answers/{PATH}", who)
    malformed(traffic)


def malformed(traffic: Traffic) -> None:
    long = json.dumps({"sql": LITERAL * 20_000}).encode()
    for body in (
        b"",
        LITERAL.encode(),
        b"[" * 5000,
        LITERAL.encode("latin-1"),
        b'{"sql": "\\ud800"}',
        long,
        b"\0" * 50,
    ):
        traffic.call("POST", "/v1/answers", content=body)
        traffic.call("POST", "/v1/reports", content=body)
        traffic.call("POST", "/v1/estimates", content=body, who="nobody")
    for path in (f"/{PATH}", f"/v1/{PATH}", f"/problems/{PATH}", f"/docs/{PATH}", f"/v1/answers/{PATH}/{PATH}"):
        traffic.call("GET", path)
        traffic.call(AGENT.upper().replace("-", ""), path)
    for method in ("PUT", "DELETE", "OPTIONS", "HEAD"):
        traffic.call(method, "/v1/answers", content=LITERAL.encode())
    key = traffic.keys["anna"].encode()
    traffic.raw(b"GET /v1/budget HTTP/9.9\r\nAuthorization: Bearer " + key + b"\r\n\r\n")
    traffic.raw(LITERAL.encode() + key)
    traffic.raw(b"POST /v1/answers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n" + LITERAL.encode())
    traffic.raw(b"POST /v1/answers HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + PATH.encode() + b"\r\n\r\n")
    traffic.raw(
        b"POST /v1/answers HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n" + LITERAL.encode()
    )


def digests(given: Given) -> list[str]:
    bodies = [json.loads(body) for _, status, _, body in given.replies if status == 200 and b'"receipt"' in body]
    return sorted({body["receipt"]["digest"] for body in bodies})


def pages(traffic: Traffic, given: Given, moment: str) -> None:
    """What is served without a key."""
    for path in ("metrics", "docs", "openapi.json", "healthz", "readyz", "problems/engine-failed", "problems"):
        given.seen[f"/{path} {moment}"] = httpx2.get(f"{traffic.server.url}/{path}", timeout=PATIENCE_S).content


def temporary(world: World, given: Given, moment: str) -> None:
    folder = world.folder / "tmp"
    for path in sorted(folder.rglob("*")):
        given.seen[f"a name in TMPDIR {moment} ({path.name})"] = str(path.relative_to(folder)).encode()
        if path.is_file():
            given.seen[f"a file in TMPDIR {moment} ({path.name})"] = path.read_bytes()


def make_world(folder: Path, ledger: str) -> World:
    world = new_world(folder, ledger, information=100_000, calls=1000, shared=(10**6, 10**5), owner="ben")
    world.database.unlink()
    with duckdb.connect(str(world.database)) as connection:
        connection.execute(_ROWS)
    world.path.write_text(world.path.read_text() + REPORTS)
    key = world.folder / "noise.key"
    key.write_bytes(os.urandom(32))
    return world


def left_hanging(traffic: Traffic) -> threading.Thread:
    """A question that is being answered when its worker dies."""
    sql = f"SELECT region, members FROM engagements WHERE article <> '{LITERAL}{ENDLESS}' GROUP BY region"
    body = json.dumps({"sql": sql}).encode()

    def hang() -> None:
        with Traffic(traffic.server, traffic.keys, traffic.given) as other:
            other.call("POST", "/v1/answers", content=body, **{"Idempotency-Key": f"{ONCE}-hangs"})

    thread = threading.Thread(target=hang)
    thread.start()
    return thread


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.exhaustive)])
def test_nothing_that_is_secret_leaves(tmp_path, request, serve, store):
    several = store == "postgresql"
    world = make_world(tmp_path / "world", request.getfixturevalue("postgres_url") if several else "sqlite:ledger.db")
    keys = {"anna": new_key(world), "olga": new_key(world, "olga"), "tina": new_key(world, "tina")}
    keys |= {role: new_key(world, "ben", role) for role in ("auditor", "owner")}
    given, start = Given(), partial(serve, world, "--log-level", "debug", env=TRACES)
    servers = several_workers(start, world, keys, given) if several else one_process(start, world, keys, given)
    temporary(world, given, "at the end")
    for server in servers:
        given.seen[f"the output of {server.out.stem}"] = server.out.read_bytes()
        given.seen[f"the log of {server.out.stem}"] = server.err.read_bytes()
    reached(servers, given, several=several)
    noise = (world.folder / "noise.key").read_bytes()
    never = [
        text("a rare article", RARE),
        text("a rare title", TITLE),
        text("a cell", CELL),
        number("a member", MEMBER),
    ]
    never += [number("the events of an account", EVENTS), number("those of another", OTHERS_EVENTS)]
    never += [text("another's campaign", OTHERS_CAMPAIGN), number("a true count", PEOPLE)]
    never += [secret("the noise key", noise), text("an idempotency key", ONCE)]
    never += [text(f"the key of {who}", key) for who, key in keys.items()]
    never += [secret(f"the bits of the key of {who}", bits(key)) for who, key in keys.items()]
    own = [text("a literal", LITERAL), number("a number", NUMBER), text("a path", PATH), text("an agent", AGENT)]
    assert given.leaks(never, own) == []


def one_process(start: Callable[..., Server], world: World, keys: dict[str, str], given: Given) -> list[Server]:
    """Killed in the middle of a question, and started again with a fault in it."""
    first = start(first=SLEEPY)
    with Traffic(first, keys, given) as traffic:
        drive(traffic)
        pages(traffic, given, "at first")
        held = len(world.tables()["holds"])
        hanging = left_hanging(traffic)
        temporary(world, given, "at first")
        wait_until(lambda: len(world.tables()["holds"]) > held)  # it is at the engine
        first.kill()
        hanging.join()
    second = start(first=BROKEN)
    with Traffic(second, keys, given) as traffic:
        drive(traffic)
        pages(traffic, given, "after a kill")
    second.stop()
    return [first, second]


def several_workers(start: Callable[..., Server], world: World, keys: dict[str, str], given: Given) -> list[Server]:
    """One of them is killed."""
    server = start("--workers", "2")
    with Traffic(server, keys, given) as traffic:
        drive(traffic)
        pages(traffic, given, "at first")
        temporary(world, given, "at first")
        os.kill(server.workers()[0], signal.SIGKILL)
        for question, headers in questions():
            traffic.ask(question, **headers)
    server.stop()
    return [server]


def bits(key: str) -> bytes:
    return urlsafe_b64decode(key.removeprefix("sfumato_") + "=")


def reached(servers: list[Server], given: Given, *, several: bool) -> None:
    """That the scan has seen something of everything: else it would pass for a service that does nothing."""
    statuses = {status for _, status, _, _ in given.replies}
    assert {200, 304, 400, 401, 404, 405, 413, 422, 503} <= statuses, statuses
    bodies = b"".join(body for _, _, _, body in given.replies)
    for name in (b"engine-failed", b"key-reused", b"not-supported", b"invalid-argument", b"article-"):
        assert name in bodies
    assert any(
        LITERAL.encode() in body or json.dumps(LITERAL)[1:-1].encode() in body for _, _, _, body in given.replies
    )
    shown = [json.loads(body) for _, status, _, body in given.replies if status == 200 and b'"guarantee"' in body]
    assert any(row["events"] > 0 for each in shown for row in each["rows"])
    for server in servers:
        lines = server.lines()
        assert {"/v1/answers", "/v1/reports"} <= {line.get("route") for line in lines}
        assert b'"http.route": "/v1/answers"' in server.out.read_bytes()
    last = servers[-1].lines()
    assert several or any("RuntimeError at" in line.get("error", "") for line in last)
    assert several or {"info", "error"} <= {line["level"] for line in last}
    assert b'sfumato_problems_total{kind="engine-failed"}' in given.seen["/metrics at first"]
