"""Fair shares: how long one analyst waits while another keeps 200 connections busy."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import select
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import duckdb

from benchmarks.answers import CONFIG, QUESTION
from benchmarks.service import SERVE, Line, new_key_for, post, process
from benchmarks.timing import milliseconds, table
from sfumato.config.noise_key import new_key
from sfumato.demo import sample

MEMBERS = 5_000
CONNECTIONS, QUIET, BUSY, TARGET = 200, 60, 60, 2.0
ANALYSTS = '[analysts.ben]\nbudget = "ample"\n[service]\nrate_per_minute = 0\npad_ms = {}\n'


def report() -> str:
    with tempfile.TemporaryDirectory() as place:
        config = prepare(Path(place) / "shop")
        anna, ben = new_key_for(config, "anna"), new_key_for(config, "ben")
        rows = []
        with process([*SERVE, "--config", str(config)]) as (service, _):
            _waits(service, anna, 20)
            quiet = statistics.median(_waits(service, anna, QUIET))
            for name, kind in (("new questions", "new"), ("repeats", "again"), ("estimates", "estimate")):
                busy = statistics.median(_waits_beside(service, anna, ben, kind))
                verdict = "met" if busy < TARGET * quiet else "missed"
                numbers = milliseconds(quiet), milliseconds(busy), f"{busy / quiet:.1f}"
                rows.append((name, *numbers, f"< {TARGET:g}", verdict))
    header = ["the other asks", "quiet", "beside it", "times", "target", "verdict"]
    return (
        "## Fair shares\n\n"
        f"One analyst asks new questions on one connection, {QUIET} in a row: the median of its waits, alone and while "
        f"another analyst keeps {CONNECTIONS} connections busy.\n\n" + table(header, rows)
    )


def prepare(folder: Path, pad_ms: int = 0) -> Path:
    """Make the folder of a configuration. Its fence is beside it."""
    folder.mkdir()
    with duckdb.connect(folder / "data.duckdb") as connection:
        sample.generate(connection, MEMBERS)
        connection.execute("CREATE OR REPLACE TABLE engagements AS SELECT *, 0 AS n FROM engagements")
    new_key(folder / "noise.key")
    (folder / "books").mkdir()
    config = folder / "sfumato.toml"
    config.write_text(CONFIG.format(source="engagements") + ANALYSTS.format(pad_ms))
    return config


def new_question(service: str, key: str, number: int, path: str = "/v1/answers") -> bytes:
    """The request for a question that every number makes another one."""
    return post(service, path, {"sql": QUESTION.format("engagements", number)}, key)


def _new_questions(service: str, key: str, path: str = "/v1/answers") -> Iterator[bytes]:
    """Requests that were never made before, in any process."""
    for number in itertools.count(int.from_bytes(os.urandom(5))):
        yield new_question(service, key, number, path)


def _waits(service: str, key: str, times: int) -> list[float]:
    line, waits = Line(service), []
    for request in itertools.islice(_new_questions(service, key), times):
        started = time.perf_counter()
        line.ask(request)
        waits.append(time.perf_counter() - started)
    return waits


def _waits_beside(service: str, key: str, other: str, kind: str) -> list[float]:
    """The waits of one while the other, in a process of its own, keeps all its connections busy."""
    context = multiprocessing.get_context("spawn")
    running, stopped = context.Event(), context.Event()
    crowd = context.Process(target=_keep_busy, args=(service, other, kind, running, stopped))
    crowd.start()
    try:
        if not running.wait(60):
            raise TimeoutError("the other analyst got no answers")
        return _waits(service, key, BUSY)
    finally:
        stopped.set()
        crowd.join()


def _keep_busy(service: str, key: str, kind: str, running: Event, stopped: Event) -> None:
    questions = _new_questions(service, key, "/v1/estimates" if kind == "estimate" else "/v1/answers")
    if kind == "again":
        questions = itertools.repeat(next(questions))
        Line(service).ask(next(questions))
    lines = {line.socket.fileno(): line for line in (Line(service) for _ in range(CONNECTIONS))}
    poller = select.epoll()
    for descriptor, line in lines.items():
        poller.register(descriptor, select.EPOLLIN)
        line.socket.sendall(next(questions))
    done = 0
    while not stopped.is_set():
        for descriptor, _ in poller.poll(1):
            if lines[descriptor].whole():
                done += 1
                lines[descriptor].socket.sendall(next(questions))
        if done >= CONNECTIONS:
            running.set()


if __name__ == "__main__":
    print(report())
