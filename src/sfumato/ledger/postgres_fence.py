"""A fence in a PostgreSQL database that is not the ledger's, for machines that share a ledger."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import ConfigError, LedgerBusy, LedgerFailed
from sfumato.ledger.fence import GONE, NO_MARK, STUCK, Fence, Mark
from sfumato.ledger.postgres import PostgresStore
from sfumato.ledger.postgres_connection import connect
from sfumato.ledger.store import CLOSED, FORKED, LIMITS, raise_bare

if TYPE_CHECKING:
    import psycopg

AWAY = (
    "the ledger's fence, a PostgreSQL database, cannot be reached or used, so no answer may leave; nothing is charged "
    "twice. Bring it back, and see [ledger] fence"
)
DAMAGED = "the mark in the ledger's fence cannot be read; put the fence back, or run: sfumato budget join"
HOLDS_A_LEDGER = (
    "must be another database than the ledger's, on another server if you can: both would be restored together"
)

_MAX_CONNECTIONS = 8  # per process: a read is short, and threads share writes

_EXISTS = "SELECT 1 WHERE to_regclass('sfumato_fence.mark') IS NOT NULL"
_BESIDE_A_LEDGER = "SELECT 1 WHERE to_regclass('sfumato.ledger') IS NOT NULL"
# One command, so one transaction. IF NOT EXISTS alone is not safe where two create it at the same time.
_CREATE = """
SELECT pg_advisory_xact_lock(hashtext('sfumato fence'));
CREATE SCHEMA IF NOT EXISTS sfumato_fence;
CREATE TABLE IF NOT EXISTS sfumato_fence.mark (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    identity text NOT NULL,
    state text NOT NULL,
    mark text NOT NULL,
    checked timestamptz
);
"""
_READ = "SELECT state, CASE WHEN state = %s THEN NULL ELSE mark END FROM sfumato_fence.mark"
_ADD = "UPDATE sfumato_fence.mark SET state = %s, mark = %s WHERE state = %s RETURNING state"
_START = "INSERT INTO sfumato_fence.mark (identity, state, mark) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_RESTART = """
INSERT INTO sfumato_fence.mark (identity, state, mark) VALUES (%s, %s, %s)
ON CONFLICT (single) DO UPDATE SET state = excluded.state, mark = excluded.mark
"""
_CHECK = "UPDATE sfumato_fence.mark SET checked = now() RETURNING single"
_IDENTITY = "SELECT identity FROM sfumato_fence.mark"


class PostgresFence(Fence):
    """One row. A writer replaces the state that it has read, or reads again: no transaction waits for a client.

    `state` is random, and new with every write. So a state that is known need not be sent again.
    """

    kind = "database"

    def __init__(self, url: str) -> None:
        super().__init__(f"PostgreSQL {PostgresStore(url).place}")  # raises where psycopg is not installed
        import psycopg

        self._psycopg, self._url = psycopg, url
        self._read: tuple[str, Mark] | None = None
        self._idle: list[psycopg.Connection[tuple[Any, ...]]] = []
        self._room = threading.Semaphore(_MAX_CONNECTIONS)
        self._closed, self._process = False, os.getpid()

    def mark(self) -> Mark | None:
        """The mark in the row. What can be read is on disk: PostgreSQL shows a commit after its sync."""
        before = self._read
        rows = self._run(_READ, "" if before is None else before[0])
        if not rows:
            return None
        [(state, line)] = rows
        if line is None and before is not None:
            return before[1]
        try:
            mark = Mark.from_line(line.encode())
        except NO_MARK:
            raise LedgerFailed(DAMAGED) from None
        self._read, self._synced = (state, mark), mark
        return mark

    def _add(self, mark: Mark, until: float) -> Mark:
        while True:
            known = self._mark_to_follow(mark.ledger)
            if known.covers(mark):
                return known
            together, new = known | mark, secrets.token_hex(8)
            read = self._read
            if read is not None and read[1] is known and self._run(_ADD, new, together.to_line().decode(), read[0]):
                self._read, self._synced = (new, together), together
                return together
            if time.monotonic() > until:
                raise LedgerBusy(STUCK)

    def start(self, mark: Mark) -> None:
        """Write the first mark, unless there is a fence."""
        self._create()
        self._run(_START, secrets.token_hex(16), secrets.token_hex(8), mark.to_line().decode())

    def restart(self, mark: Mark) -> None:
        """Replace the whole fence by one mark."""
        self._create()
        self._run(_RESTART, secrets.token_hex(16), secrets.token_hex(8), mark.to_line().decode())

    def check(self) -> None:
        """Commit a change of the row beside the mark."""
        if not self._run(_CHECK):
            raise LedgerFailed(GONE)

    def identity(self) -> str:
        """A random name that the fence got when it was made."""
        rows = self._run(_IDENTITY)
        if not rows:
            raise LedgerFailed(GONE)
        return f"database {rows[0][0]}"

    def _create(self) -> None:
        if not self._run(_EXISTS):
            if self._run(_BESIDE_A_LEDGER):
                raise ConfigError("ledger.fence", HOLDS_A_LEDGER)
            self._run(_CREATE)

    def _run(self, sql: str, *values: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, which is a transaction of its own; none if there is no fence."""
        if self._closed:
            raise LedgerFailed(CLOSED)
        if os.getpid() != self._process:
            raise LedgerFailed(FORKED)
        if not self._room.acquire(timeout=LIMITS["fence"].wait_s):
            raise LedgerBusy(STUCK)
        try:
            return self._run_on_any(sql, values)
        except self._psycopg.Error as error:
            stands_still = isinstance(error, self._psycopg.errors.ConnectionTimeout)
            kind = LedgerBusy if stands_still else LedgerFailed
            failure = kind(f"{AWAY} ({error.sqlstate or type(error).__name__})")
        finally:
            self._room.release()
        raise failure

    def _run_on_any(self, sql: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """Run a statement on a connection that was kept, if one is alive, or on a new one.

        Every statement here may be run twice: one that was lost on the way is repeated.
        """
        errors = self._psycopg.errors
        while True:
            kept = True
            try:
                connection = self._idle.pop()
            except IndexError:
                kept, connection = False, connect(self._url)
            try:
                cursor = connection.execute(sql, values or None)
                rows = cursor.fetchall() if cursor.description else []
            except errors.UndefinedTable:
                rows = []
            except (errors.LockNotAvailable, errors.QueryCanceled):
                connection.close()
                raise_bare(LedgerBusy(STUCK))
            except errors.ConnectionTimeout:
                self._close_idle()  # the server stands still, and they would be waited for as well
                raise
            except self._psycopg.OperationalError:
                connection.close()
                if kept:
                    continue
                raise
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                self.close()
            return rows

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
