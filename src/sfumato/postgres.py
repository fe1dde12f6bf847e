"""Connections to PostgreSQL on which no wait is endless."""

from __future__ import annotations

import functools
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen

T = TypeVar("T")

MARGIN_S = 0.5  # this side waits so much longer than the server allows: it replies if it can


@functools.cache
def connection_type() -> type[psycopg.Connection[tuple[Any, ...]]]:
    """psycopg's connection, which is closed if the server does not reply. psycopg is imported when it is needed."""
    import psycopg

    class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
        """It waits for a reply for at most `patience_s`. Then it closes itself and raises `ConnectionTimeout`.

        The limits that a server keeps, and keepalives, do not help where the server's process or its disk stands still.
        """

        patience_s = 5 + MARGIN_S

        def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
            patience_s = self.patience_s if timeout is None else min(timeout, self.patience_s)
            try:
                return super().wait(_until(gen, time.monotonic() + patience_s), interval)
            except TimeoutError:
                self.close()
            raise psycopg.errors.ConnectionTimeout("no reply")

    return BoundedConnection


def _until(gen: PQGen[T], end: float) -> Generator[Any, Any, T]:
    """The same steps; a `TimeoutError` if they go on after the moment `end`."""
    try:
        step = next(gen)
        while True:
            ready = yield step
            if not ready and time.monotonic() > end:
                raise TimeoutError
            step = gen.send(ready)
    except StopIteration as done:
        result: T = done.value
        return result
