"""The service beside what it is made of: a bare DuckDB under the same concurrency, and an empty FastAPI route."""

from __future__ import annotations

import itertools
import json
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from benchmarks.answers import CONFIG, NUMBERS, QUESTION, prepare
from benchmarks.timing import milliseconds, table
from sfumato.cli.output import now
from sfumato.config import load_config
from sfumato.ledger import open_ledger
from sfumato.ledger.api_keys import ApiKeys

NEW_TARGET, AGAIN_TARGET = 0.85, 0.5
CLIENTS = 4  # at a time, on both sides
NEW, ROUNDS = 40, 3  # questions of each client and round
CONNECTIONS, SECONDS, TURNS = 8, 1.5, 5

EMPTY = """
import socket, sys, uvicorn
from fastapi import FastAPI
from sfumato.service.server import uvicorn_config
app = FastAPI()
@app.post("/")
async def empty(): return {}
bound = socket.create_server(("127.0.0.1", 0))
print('{"url": "http://127.0.0.1:%d"}' % bound.getsockname()[1], flush=True)
uvicorn.Server(uvicorn_config(app)).run([bound])
"""


def report() -> str:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place) / "shop"
        config, events = configured(folder)
        key = new_key_for(config)
        service, _ = stack.enter_context(process([*SERVE, "--config", str(config)]))
        empty, _ = stack.enter_context(process([sys.executable, "-c", EMPTY]))
        plain = stack.enter_context(duckdb.connect(folder / "data.duckdb", read_only=True))
        return _new(plain, service, key, events) + "\n" + _again(service, empty, key)


SERVE = [str(Path(sys.executable).with_name("sfumato")), "serve", "--port", "0", "--json", "--log-level", "warning"]


def configured(folder: Path) -> tuple[Path, int]:
    """A million rows, a budget without end, no rate limit. Makes the folder; the fence is beside it."""
    folder.mkdir()
    events = prepare(folder)
    (folder / "books").mkdir(exist_ok=True)
    config = folder / "sfumato.toml"
    config.write_text(CONFIG.format(source="engagements") + "[service]\nrate_per_minute = 0\n")
    return config, events


def new_key_for(config: Path, analyst: str = "anna") -> str:
    read = load_config(config)
    with open_ledger(read.ledger, read.folder) as ledger:
        return ApiKeys(ledger).create(analyst, "analyst", None, now())[0]


@contextmanager
def process(command: list[str]) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: where it is, and its number."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:  # noqa: S603
        try:
            url = json.loads(running.stdout.readline() if running.stdout else "")["url"]
            _wait_for(url)
            yield url, running.pid
        finally:
            running.terminate()


def _wait_for(url: str) -> None:
    parts = urlsplit(url)
    for _ in range(200):
        try:
            socket.create_connection((parts.hostname, parts.port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(url)


# -- new questions --


def _new(plain: duckdb.DuckDBPyConnection, service: str, key: str, events: int) -> str:
    local = threading.local()

    def bare() -> None:
        if not hasattr(local, "cursor"):
            local.cursor = plain.cursor()
        local.cursor.execute(QUESTION.format("engagements", -next(NUMBERS))).fetchall()

    def asked() -> None:
        if not hasattr(local, "line"):
            local.line = Line(service)
        local.line.ask(post(service, "/v1/answers", {"sql": QUESTION.format("engagements", next(NUMBERS))}, key))

    means = _throughput({"bare": bare, "asked": asked})
    ratio = means["bare"] / means["asked"]
    numbers = milliseconds(means["bare"]), milliseconds(means["asked"]), f"{ratio:.2f}"
    verdict = "met" if ratio >= NEW_TARGET else "missed"
    header = ["clients", "bare DuckDB", "over HTTP", "throughput of the bare query", "target", "verdict"]
    return (
        "## New questions over HTTP\n\n"
        f"Top 10 of 3,000 articles by distinct members over {events:,} rows, each question new. {CLIENTS} clients at "
        "a time on either side: threads with a cursor each on one DuckDB, and keep-alive connections to one "
        f"`sfumato serve` on a SQLite ledger. Means of {CLIENTS * NEW * ROUNDS} questions a side: all of them by the "
        "clock.\n\n" + table(header, [(str(CLIENTS), *numbers, f"≥ {NEW_TARGET}", verdict)])
    )


def _throughput(contestants: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds a question with all clients at work, in turns."""
    spent = dict.fromkeys(contestants, 0.0)
    with ThreadPoolExecutor(CLIENTS) as pool:
        for round_, (name, run) in itertools.product(range(ROUNDS + 1), contestants.items()):
            started = time.perf_counter()
            list(pool.map(lambda _, run=run: run(), range(CLIENTS * (NEW if round_ else 3))))  # type: ignore[misc]
            spent[name] += (time.perf_counter() - started) * bool(round_)  # the first is to warm up
    return {name: seconds / (ROUNDS * CLIENTS * NEW) for name, seconds in spent.items()}


# -- questions that were asked before --


def _again(service: str, empty: str, key: str) -> str:
    question = {"sql": QUESTION.format("engagements", 0)}
    Line(service).ask(post(service, "/v1/answers", question, key))
    calls = {
        "an empty FastAPI route": (empty, post(empty, "/", {})),
        "a repeat": (service, post(service, "/v1/answers", question, key)),
        "a repeat while others spend": (service, post(service, "/v1/answers", question, key)),
    }
    rates = dict.fromkeys(calls, 0.0)
    for _, (name, (url, request)) in itertools.product(range(TURNS), calls.items()):
        with _spending(service, key) if "others" in name else ExitStack():
            rates[name] = max(rates[name], hammered(url, request))
    base = rates["an empty FastAPI route"]
    rows = [(name, f"{rate:,.0f}", f"{rate / base:.2f}", *_judged(name, rate / base)) for name, rate in rates.items()]
    return (
        "## Repeats over HTTP\n\n"
        f"Calls per second, {CONNECTIONS} connections, one process each, the best of {TURNS} turns of {SECONDS} s. A "
        "repeat is remembered by the service while the ledger stays as it is. The last row is measured while another "
        "client asks new questions, one after the other: each commit makes the service look repeats up again, and the "
        "engine has its share of the two cores.\n\n"
        + table(["what", "per second", "of the empty route", "target", "verdict"], rows)
    )


def _judged(name: str, ratio: float) -> tuple[str, str]:
    if name != "a repeat":
        return "", ""
    return f"≥ {AGAIN_TARGET}", "met" if ratio >= AGAIN_TARGET else "missed"


@contextmanager
def _spending(service: str, key: str) -> Iterator[None]:
    """Another client asks new questions meanwhile."""
    stopped = threading.Event()

    def ask() -> None:
        line = Line(service)
        while not stopped.is_set():
            line.ask(post(service, "/v1/answers", {"sql": QUESTION.format("engagements", next(NUMBERS))}, key))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


# -- a client that costs next to nothing --


def post(url: str, path: str, body: dict[str, str], key: str = "") -> bytes:
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Host: {urlsplit(url).netloc}", f"Content-Length: {len(content)}"]
    lines += ["Content-Type: application/json", *([f"Authorization: Bearer {key}"] if key else [])]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Line:
    """A connection that stays, and asks one thing at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def ask(self, request: bytes) -> None:
        self.socket.sendall(request)
        while not self.whole():
            pass

    def whole(self) -> bool:
        """Read on; whether a response, a good one, has come to its end."""
        self.received += self.socket.recv(1 << 16)
        head, _, body = self.received.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(self.received[:500])
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(body) < length:
            return False
        self.received = b""
        return True


def hammered(url: str, request: bytes) -> float:
    """Calls per second, each connection sending its next one when it has an answer."""
    lines = {line.socket.fileno(): line for line in (Line(url) for _ in range(CONNECTIONS))}
    poller = select.epoll()
    for descriptor, line in lines.items():
        poller.register(descriptor, select.EPOLLIN)
        line.socket.sendall(request)
    done, end = 0, time.perf_counter() + SECONDS
    while (at := time.perf_counter()) < end:
        for descriptor, _ in poller.poll(1):
            if lines[descriptor].whole():
                done += 1
                lines[descriptor].socket.sendall(request)
    for line in lines.values():
        line.socket.close()
    return done / (SECONDS + at - end)
