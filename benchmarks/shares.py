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
from urllib.parse import urlsplit

import duckdb

from benchmarks.answers import CONFIG, QUESTION
from benchmarks.service import SERVE, Line, new_key_for, post, process
from benchmarks.timing import milliseconds, table
from sfumato.config.noise_key import new_key
from sfumato.demo import sample

MEMBERS = 5_000
CONNECTIONS, ROUNDS, QUESTIONS, TARGET = 200, 3, 40, 2.0
DRAINED_S = 0.5  # calls that the other left behind are answered too; a wait is shorter when there are none
ANALYSTS = '[analysts.ben]\nbudget = "ample"\n[service]\nrate_per_minute = 0\npad_ms = {}\n'
READS = ("/v1/budget", "/v1/budget/charges?rows=1000", "/v1/guarantee")
KINDS = {"new questions": "new", "repeats": "again", "estimates": "estimate", "calls of all kinds": "all"}


def report() -> str:
    with tempfile.TemporaryDirectory() as place:
        config = prepare(Path(place) / "shop")
        keys = new_key_for(config, "anna"), new_key_for(config, "ben")
        with process([*SERVE, "--config", str(config)]) as (service, _):
            _waits(service, keys[0], 20)
            rows = [(name, *_compare(service, *keys, kind)) for name, kind in KINDS.items()]
    header = ["the other asks", "quiet", "beside it", "times", "target", "verdict"]
    return (
        "## Fair shares\n\n"
        f"One analyst asks new questions on one connection: the median of its waits, alone and while another analyst "
        f"keeps {CONNECTIONS} connections busy. {ROUNDS} turns of {QUESTIONS} questions each, quiet and busy ones in "
        "turn. The process that keeps them busy has the lowest priority, as it would run on another machine.\n\n"
        + table(header, rows)
    )


def _compare(service: str, key: str, other: str, kind: str) -> tuple[str, ...]:
    """The cells of a row: quiet, busy, how many times as long, the target and the verdict."""
    quiet, busy = list[float](), list[float]()
    for _ in range(ROUNDS):
        while max(_waits(service, other, 3)) > DRAINED_S:
            pass
        quiet += _waits(service, key, QUESTIONS)
        busy += _waits_beside(service, key, other, kind)
    alone, beside = statistics.median(quiet), statistics.median(busy)
    verdict = "met" if beside < TARGET * alone else "missed"
    return milliseconds(alone), milliseconds(beside), f"{beside / alone:.2f}", f"< {TARGET:g}", verdict


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
        return _waits(service, key, QUESTIONS)
    finally:
        stopped.set()
        crowd.join()


def _keep_busy(service: str, key: str, kind: str, running: Event, stopped: Event) -> None:
    os.nice(19)  # the other's own machine does this work: it must not take the processor from the service
    lines = {line.socket.fileno(): line for line in (Line(service) for _ in range(CONNECTIONS))}
    requests = dict(zip(lines, itertools.cycle(_requests(service, key, kind)), strict=False))
    poller = select.epoll()
    for descriptor, line in lines.items():
        poller.register(descriptor, select.EPOLLIN)
        line.socket.sendall(next(requests[descriptor]))
    done = 0
    while not stopped.is_set():
        for descriptor, _ in poller.poll(1):
            if lines[descriptor].whole():
                done += 1
                lines[descriptor].socket.sendall(next(requests[descriptor]))
        if done >= CONNECTIONS // 2:
            running.set()


def _requests(service: str, key: str, kind: str) -> list[Iterator[bytes]]:
    """What the connections of the other ask, one after the other."""
    asked, estimated = _new_questions(service, key), _new_questions(service, key, "/v1/estimates")
    if kind == "again":
        repeated = next(asked)
        Line(service).ask(repeated)
        return [itertools.repeat(repeated)]
    reads = [itertools.repeat(_get(service, path, key)) for path in READS]
    return {"new": [asked], "estimate": [estimated], "all": [asked, estimated, *reads]}[kind]


def _get(service: str, path: str, key: str) -> bytes:
    lines = f"GET {path} HTTP/1.1", f"Host: {urlsplit(service).netloc}", f"Authorization: Bearer {key}", "", ""
    return "\r\n".join(lines).encode()


if __name__ == "__main__":
    print(report())
