"""Books in a PostgreSQL database, in a schema of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import LedgerFailed
from sfumato.ledger.store import CLOSED, FORKED, Run, Store, told

if TYPE_CHECKING:
    import psycopg

# One lock for all writers of a database: the journal is one chain, so they would wait for one another anyway.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('sfumato ledger'))"
_BEGIN_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_IDLE = 8
_MAX_CONNECTIONS = (
    16  # connections of a process: writers wait for one another anyway, and a server has room for some hundred
)


class PostgresStore(Store):
    """Connections are opened as threads need them, up to a number, and a few are kept; a stale one is replaced."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("a PostgreSQL ledger needs: pip install 'sfumato[postgres]'") from missing
        self._psycopg = psycopg
        self._url = url
        with told(psycopg.Error):
            known = psycopg.conninfo.conninfo_to_dict(url)
        self.place = " ".join(str(known.get(name, "")) for name in ("host", "hostaddr", "port", "dbname"))
        self._idle: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(_MAX_CONNECTIONS)
        self._closed = False
        self._process = os.getpid()
        with self._transaction(_LOCK) as run:
            # Asked first: IF NOT EXISTS would need the right to create even where there is nothing to create.
            if not run("SELECT 1 FROM pg_namespace WHERE nspname = 'sfumato'"):
                run("CREATE SCHEMA sfumato")

    @contextmanager
    def writing(self) -> Iterator[Run]:
        with self._transaction(_LOCK) as run:
            yield run

    @contextmanager
    def reading(self) -> Iterator[Run]:
        with self._transaction(_BEGIN_READING) as run:
            yield run

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Run]:
        with self._room, told(self._psycopg.Error):
            connection = self._begun(begin)
            try:
                yield lambda sql, *values: _rows(connection, sql, values)
                connection.commit()
            except BaseException:
                with suppress(self._psycopg.Error):
                    connection.rollback()
                raise
            finally:
                self._give_back(connection)

    def _begun(self, begin: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection inside a transaction. Nothing has happened in it yet, so a dead one is simply replaced."""
        with self._lock:
            if self._closed:
                raise LedgerFailed(CLOSED)
            if os.getpid() != self._process:
                raise LedgerFailed(FORKED)
            kept = self._idle.pop() if self._idle else None
        if kept is not None:
            try:
                kept.execute(begin)
            except self._psycopg.OperationalError:
                kept.close()
            else:
                return kept
        fresh = self._psycopg.connect(self._url, connect_timeout=10)
        # With any other isolation, what a transaction sees would be fixed before it waited for the lock.
        fresh.isolation_level = self._psycopg.IsolationLevel.READ_COMMITTED
        # Whatever the server's default is: a charge is on disk before its answer leaves.
        fresh.execute("SET synchronous_commit = on")
        fresh.execute("SET search_path = sfumato")
        fresh.commit()
        fresh.execute(begin)
        return fresh

    def _give_back(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        with self._lock:
            if not self._closed and not connection.closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def has_books(self, run: Run) -> bool:
        return bool(run("SELECT 1 WHERE to_regclass('sfumato.ledger') IS NOT NULL"))

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _rows(connection: psycopg.Connection[tuple[Any, ...]], sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.replace("?", "%s"), values or None)
    return cursor.fetchall() if cursor.description else []
