"""A ledger in a PostgreSQL database, in its own schema."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.errors import ConfigError, LedgerFailed
from sfumato.ledger.service_lock import OTHER_FENCE, ServiceLock
from sfumato.ledger.store import CLOSED, FORKED, Run, Store, translate_errors

if TYPE_CHECKING:
    import psycopg

# One lock for all writers of a database: the journal is one chain, so they would wait for one another anyway.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('sfumato ledger'))"
_BEGIN_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_HAS_BOOKS = "SELECT 1 WHERE to_regclass('sfumato.ledger') IS NOT NULL"
_CONNECT_S = 10
_MAX_IDLE = 8
_MAX_CONNECTIONS = 16  # per process: writers wait for one another anyway, and a server has room for some hundred


class PostgresStore(Store):
    """Connections are opened when threads need them, up to a limit. Some stay open; a dead one is replaced."""

    name = "PostgreSQL"
    shared = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._lock = threading.Lock()
        self._room = threading.Semaphore(_MAX_CONNECTIONS)
        self._closed = True
        self._process = os.getpid()
        self._service: ServiceLock | None = None

    @classmethod
    def at(cls, url: str, folder: Path) -> Self:
        return cls(url)

    def _import_driver(self) -> None:
        try:
            import psycopg
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("a PostgreSQL ledger needs: pip install 'sfumato[postgres]'") from missing
        self._psycopg = psycopg

    @property
    def place(self) -> str:
        self._import_driver()
        with translate_errors(self._psycopg.Error):
            known = self._psycopg.conninfo.conninfo_to_dict(self._url)
        return " ".join(str(known.get(name, "")) for name in ("host", "hostaddr", "port", "dbname"))

    @property
    def exists(self) -> bool:
        self._import_driver()
        with (
            translate_errors(self._psycopg.Error),
            self._psycopg.connect(self._url, connect_timeout=_CONNECT_S) as found,
        ):
            return bool(found.execute(_HAS_BOOKS).fetchall())

    def open(self) -> None:
        self._import_driver()
        self._closed = False
        with self._transaction(_LOCK) as run:
            # IF NOT EXISTS would need the right to create a schema even if it exists.
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
        if self._closed:
            raise LedgerFailed(CLOSED)
        with self._room, translate_errors(self._psycopg.Error):
            connection = self._begin(begin)
            try:
                yield lambda sql, *values: _rows(connection, sql, values)
                connection.commit()
            except BaseException:
                with suppress(self._psycopg.Error):
                    connection.rollback()
                raise
            finally:
                self._give_back(connection)

    def _begin(self, begin: str) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection inside a transaction. Nothing has happened in it yet, so a dead one can be replaced."""
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
        fresh = self._psycopg.connect(self._url, connect_timeout=_CONNECT_S)
        # At any other level, what a transaction sees would be fixed before it waited for the lock.
        fresh.isolation_level = self._psycopg.IsolationLevel.READ_COMMITTED
        # Whatever the server's default is: a charge is on disk before its answer leaves.
        fresh.execute("SET synchronous_commit = on")
        fresh.execute("SET search_path = sfumato")
        fresh.commit()
        fresh.execute(begin)
        return fresh

    def _give_back(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        with self._lock:
            if not self._closed and not connection.closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def has_books(self, run: Run) -> bool:
        return bool(run(_HAS_BOOKS))

    def lock_service(self, fence: Callable[[], str]) -> None:
        """A lock in the database, shared by the services that use one fence (`sfumato.ledger.service_lock`)."""
        lock = ServiceLock(self._url, fence())
        if not lock.take():
            raise ConfigError("ledger.fence", OTHER_FENCE)
        self._service = lock

    def keep_service_lock(self) -> None:
        if self._service is not None:
            self._service.keep()

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _rows(connection: psycopg.Connection[tuple[Any, ...]], sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.replace("?", "%s"), values or None)
    return cursor.fetchall() if cursor.description else []
