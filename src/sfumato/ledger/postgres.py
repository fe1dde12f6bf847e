"""A ledger in a PostgreSQL database, in its own schema."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from sfumato.errors import ConfigError, LedgerFailed
from sfumato.ledger.service_lock import OTHER_FENCE, ServiceLock
from sfumato.ledger.store import (
    CLOSED,
    FAILED,
    FORKED,
    LIMITS,
    Run,
    Store,
    Work,
    deadline,
    hold_lock,
    translate_damage,
    translate_errors,
)
from sfumato.postgres import MARGIN_S, connection_type

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

# One lock for all writers of a database: the journal is one chain, so they would wait for one another anyway.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('sfumato ledger'))"
_BEGIN_READING = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
# Not `to_regclass`: a connection may remember that there was no table, and that is not looked up again after a wait.
_HAS_BOOKS = "SELECT 1 FROM pg_tables WHERE schemaname = 'sfumato' AND tablename = 'ledger'"
# Both sides notice within 10 s that the other machine has vanished. The first two are seconds.
_KEEPALIVES: dict[str, Any] = {"keepalives_idle": 4, "keepalives_interval": 2, "keepalives_count": 3}
_UNANSWERED_MS = 8000  # a connection ends if what was sent is not acknowledged for so long
_MAX_IDLE = 8
_MAX_CONNECTIONS = 16  # per process: writers wait for one another anyway, and a server has room for some hundred


class PostgresStore(Store):
    """Connections are opened when threads need them, up to a limit. Some stay open; a dead one is replaced."""

    name = "PostgreSQL"
    shared = True

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []
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
        with translate_errors(self._psycopg.Error), self._connect(deadline("question")) as connection:
            return bool(connection.execute(_HAS_BOOKS).fetchall())

    def open(self) -> None:
        self._import_driver()
        self._closed = False
        try:
            with self.writing() as run:
                # IF NOT EXISTS would need the right to create a schema even if it exists.
                if not run("SELECT 1 FROM pg_namespace WHERE nspname = 'sfumato'"):
                    run("CREATE SCHEMA sfumato")
        except BaseException:
            self.close()
            raise

    @contextmanager
    def writing(self, work: Work = "question") -> Iterator[Run]:
        if self._service is not None:
            self._service.keep()
        with self._transaction(_LOCK, work, LIMITS[work].pause_s) as run:
            yield run

    @contextmanager
    def reading(self, work: Work = "question") -> Iterator[Run]:
        with self._transaction(_BEGIN_READING, work, LIMITS[work].run_s) as run:  # no other process waits for it
            yield run

    @contextmanager
    def _transaction(self, begin: str, work: Work, pause_s: float) -> Iterator[Run]:
        """One transaction. The server ends a statement that runs for too long, and a process that stands still."""
        if self._closed:
            raise LedgerFailed(CLOSED)
        end = deadline(work)
        with hold_lock(self._room, end), translate_errors(self._psycopg.Error), translate_damage():
            limits = {"statement_timeout": LIMITS[work].run_s, "idle_in_transaction_session_timeout": pause_s}
            settings = [f"SET LOCAL {name} = {_ms(seconds)}" for name, seconds in limits.items()]
            settings.append(f"SET LOCAL lock_timeout = {_ms(end - time.monotonic())}")
            statements = "; ".join([*settings, begin])
            kept = self._take_idle()
            connection = (kept and self._begin(kept, statements, end)) or self._begin(
                self._connect(end), statements, end
            )
            if connection is None:
                raise LedgerFailed(FAILED)
            _be_patient(connection, LIMITS[work].run_s)
            try:
                yield lambda sql, *values: _rows(connection, sql, values)
                connection.commit()
            finally:
                self._give_back(connection)

    def _take_idle(self) -> Connection | None:
        with self._lock:
            if self._closed:
                raise LedgerFailed(CLOSED)
            if os.getpid() != self._process:
                raise LedgerFailed(FORKED)
            return self._idle.pop() if self._idle else None

    def _begin(self, connection: Connection, statements: str, end: float) -> Connection | None:
        """Begin a transaction. None if the connection is dead: nothing has happened in it, so it can be replaced."""
        _be_patient(connection, end - time.monotonic())
        try:
            connection.execute(statements, prepare=False)  # several in one message cannot be prepared
        except self._psycopg.errors.ConnectionTimeout:
            self._close_idle()  # the server stands still, and they would be waited for as well
            raise
        except self._psycopg.OperationalError:
            is_dead = connection.closed
            self._give_back(connection)
            if not is_dead:
                raise
            return None
        return connection

    def _connect(self, end: float) -> Connection:
        connect_s = max(2, int(end - time.monotonic()))  # less than 2 s is not possible
        fresh = connection_type().connect(
            self._url, connect_timeout=connect_s, keepalives=1, tcp_user_timeout=_UNANSWERED_MS, **_KEEPALIVES
        )
        # At any other level, what a transaction sees would be fixed before it waited for the lock.
        fresh.isolation_level = self._psycopg.IsolationLevel.READ_COMMITTED
        # Whatever the server's default is: a charge is on disk before its answer leaves.
        settings = {"synchronous_commit": "on", "search_path": "sfumato", "tcp_user_timeout": _UNANSWERED_MS}
        settings |= {f"tcp_{name}": value for name, value in _KEEPALIVES.items()}
        fresh.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
        fresh.commit()
        return fresh

    def _give_back(self, connection: Connection) -> None:
        """Keep a connection for the next transaction. What is not committed is taken back."""
        with suppress(self._psycopg.Error):
            connection.rollback()
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

    def close(self) -> None:
        if self._service is not None:
            self._service.close()
        with self._lock:
            self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _be_patient(connection: Connection, seconds: float) -> None:
    """Wait at most this long for each reply, and a moment more."""
    connection.patience_s = max(seconds, 0) + MARGIN_S  # type: ignore[attr-defined]


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)  # 0 would be no limit


def _rows(connection: Connection, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(sql.replace("?", "%s"), values or None)
    return cursor.fetchall() if cursor.description else []
