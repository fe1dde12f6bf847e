"""A toy store: books in the memory of this process. They are gone when it is closed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sfumato.errors import LedgerFailed
from sfumato.ledger.store import CLOSED, Run, Store, Work


class ToyStore(Store):
    name, shared = "memory", False
    place = "memory"
    exists = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @classmethod
    def at(cls, url: str, folder: Path):
        return cls()

    def open(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    @contextmanager
    def writing(self, work: Work = "question") -> Iterator[Run]:
        with self._lock:
            connection = self._connection
            if connection is None:
                raise LedgerFailed(CLOSED)
            connection.execute("BEGIN")
            try:
                yield lambda sql, *values: connection.execute(sql, values).fetchall()
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    reading = writing

    def has_books(self, run: Run) -> bool:
        return bool(run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger'"))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
