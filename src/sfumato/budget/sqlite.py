"""Books in one SQLite file: write-ahead log, full synchronisation, one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.budget.store import CLOSED, FORKED, Run, Store, told
from sfumato.errors import LedgerFailed

_BUSY_S = 60

REPLACED = "another file is in the place of the ledger that was opened; open it again"


class SQLiteStore(Store):
    """One connection a process, handed from thread to thread; processes wait for one another in SQLite.

    The file is made with mode 0600. It must be on a local disk: SQLite's locks are not safe on network drives.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self._lock = threading.Lock()
        self._process = os.getpid()
        if not path.parent.is_dir():
            raise LedgerFailed(f"the ledger's folder {str(path.parent)!r} does not exist")
        with told(sqlite3.Error), told(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._file, mode = _identity(path), stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                raise LedgerFailed(
                    f"others can read the ledger, which holds what is not paid for; run: chmod 600 {path}"
                )
            self._connection: sqlite3.Connection | None = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def writing(self) -> Iterator[Run]:
        with self._transaction("BEGIN IMMEDIATE") as run:
            yield run

    @contextmanager
    def reading(self) -> Iterator[Run]:
        with self._transaction("BEGIN") as run:
            yield run

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Run]:
        with self._lock, told(sqlite3.Error):
            connection = self._open()
            connection.execute(begin)
            try:
                yield lambda sql, *values: _rows(connection, sql, values)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LedgerFailed(CLOSED)
        if os.getpid() != self._process:
            raise LedgerFailed(FORKED)
        with told(OSError):
            found = _identity(self.path)
        if found != self._file:
            raise LedgerFailed(REPLACED)
        return self._connection

    def has_books(self, run: Run) -> bool:
        return bool(run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger'"))

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _rows(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return connection.execute(sql, values).fetchall()
