"""Execute one SELECT of DuckDB: with a deadline, interruptibly, and with one text for every failure."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import duckdb

from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.errors import EngineFailed

T = TypeVar("T")

PULSE_S = 0.05
"""How often an interrupt is repeated until it is noticed."""


def attempt(
    work: Callable[[], T], problem: str = COULD_NOT_ANSWER, *, table: str | None = None, setting: str | None = None
) -> T:
    """What `work` returns. Every failure is `EngineFailed` with this problem, without DuckDB's own text."""
    try:
        return work()
    except Exception:  # noqa: S110
        # Raised below and not here: even `from None` would leave DuckDB's text in __context__.
        pass
    raise EngineFailed(problem, table=table, setting=setting)


def one_select(cursor: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    """The statement of a text, which must be a single SELECT."""
    statements = attempt(lambda: cursor.extract_statements(text))
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise ValueError("an engine runs one SELECT at a time")
    return statements[0]


def run_interruptibly(cursor: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """`work` in its own thread. So Ctrl-C stops it: DuckDB would notice late, and raise an error of its own."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        try:
            return running.result()
        finally:
            while not running.done():
                cursor.interrupt()
                wait([running], PULSE_S)


@contextmanager
def deadline(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the cursor when its time is over, and repeat that until it stops.

    An interrupt that arrives before the query has begun is forgotten, so it is repeated. The watcher has ended before
    the block is left: it cannot interrupt what the cursor does next.
    """
    done = threading.Event()

    def watch() -> None:
        pause = min(seconds, threading.TIMEOUT_MAX)
        while not done.wait(pause):
            cursor.interrupt()
            pause = PULSE_S

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
