"""A ledger in one SQLite file: write-ahead log, full synchronisation, one writer at a time, group commit."""

from __future__ import annotations

import fcntl
import itertools
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from sfumato.errors import DAMAGED, ConfigError, LedgerBusy, LedgerFailed
from sfumato.ledger.group_commit import LOST, Batch
from sfumato.ledger.store import (
    CLOSED,
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

REPLACED = "another file has replaced the ledger file since it was opened; open the ledger again"

_MAX_PARTS = 64  # blocks per commit: other processes wait until it ends
_PATIENCE_S = 1.0
_READER_S = 0.05
_READERS = 2  # more are not faster, and take the interpreter lock from the writer
_PAUSES_S = (0.001, 0.002, 0.005, 0.01, 0.02)  # between tries to lock the file; the last one again and again
_TYPES = {str, int, type(None)}
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


@dataclass(eq=False)
class _Parts(Batch):
    """One SQLite transaction: how many blocks have ended well in it, and whether none is half done."""

    changes: int  # the connection's count of changes before this transaction
    parts: int = 0
    whole: bool = True


class SQLiteStore(Store):
    """One connection writes, for one thread at a time. Processes wait for one another in SQLite.

    `writing` blocks run one after the other. Blocks of threads that queue meanwhile share one commit, and none returns
    before it is on disk; if the commit fails, all of them fail. `reading` has its own connections: they see committed
    states and wait for no writer. See docs/adr/0006-shared-commits.md.

    The file gets mode 0600. It must be on a local disk: SQLite's locks are not safe on network drives.
    """

    name = "SQLite"
    shared = False

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path.parent
        self._process = os.getpid()
        self._mutex = threading.Lock()  # held by the thread that uses the writing connection and the open batch
        self._queue: set[int] = set()  # threads that wait for the mutex
        self._batch: _Parts | None = None
        self._readers: SimpleQueue[sqlite3.Connection | None] = SimpleQueue()
        for _ in range(_READERS):
            self._readers.put(None)
        self._watching = threading.Lock()
        self._watcher: sqlite3.Connection | None = None
        self._connection: sqlite3.Connection | None = None
        self._serving: int | None = None

    @classmethod
    def at(cls, url: str, folder: Path) -> Self:
        return cls((folder / url.removeprefix("sqlite:")).resolve())

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def open(self) -> None:
        path = self.path
        if not path.parent.is_dir():
            raise LedgerFailed(f"the ledger's folder {str(path.parent)!r} does not exist")
        # The words of an error of SQLite quote names of a damaged schema, which need not be UTF-8.
        with translate_errors(sqlite3.Error), translate_errors(OSError), translate_errors(UnicodeDecodeError):
            # Only a new file: closing a file would end all locks that this process has on it, also of another store.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            status = path.stat()
            self._file = status.st_dev, status.st_ino
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise LedgerFailed(
                    f"other users can read the ledger, which holds answers that are not paid for; run: chmod 600 {path}"
                )
            self._connection = connection = _connect(path, wait_s=0)
            _execute_when_free(connection, "PRAGMA journal_mode = WAL", deadline("question"))
            connection.execute("PRAGMA synchronous = FULL")
            # Savepoints stay in memory, not in a file in the system's temporary folder.
            connection.execute("PRAGMA temp_store = MEMORY")

    # -- writing --

    @contextmanager
    def writing(self, work: Work = "question") -> Iterator[Run]:
        with translate_errors(sqlite3.Error), translate_damage():
            end = deadline(work)
            with self._take_connection(end) as connection, self._part(connection, end) as batch:
                yield lambda sql, *values: _rows(connection, sql, values)
            try:
                if not batch.done:
                    batch.wait(_PATIENCE_S)
            finally:
                if not batch.done:  # interrupted, here or in the queue: no transaction may stay open
                    # A new deadline: the block itself may have taken long. Without the lock it counts as failed.
                    with suppress(LedgerBusy), hold_lock(self._mutex, deadline(work)):
                        self._end(connection, batch)
            batch.check()

    @contextmanager
    def _take_connection(self, end: float) -> Iterator[sqlite3.Connection]:
        """Group commit: on exit, commit unless another thread is queued; the last of the queue commits for all.

        A thread without others commits at once. The queue is counted because the thread that releases a lock is likely
        to take it again: without the count, each thread would commit alone.
        """
        self._check_open()  # before the lock: in a forked child it may be held by a thread that is not there
        me = threading.get_ident()
        try:
            self._queue.add(me)
            with hold_lock(self._mutex, end):
                self._queue.discard(me)
                try:
                    yield self._check_open()
                finally:
                    connection, batch = self._connection, self._batch
                    if connection is not None and batch is not None:
                        unchanged = connection.total_changes == batch.changes  # such a commit costs no sync
                        if unchanged or not self._queue or batch.parts >= _MAX_PARTS:
                            self._end(connection, batch)
        finally:
            self._queue.discard(me)

    @contextmanager
    def _part(self, connection: sqlite3.Connection, end: float) -> Iterator[_Parts]:
        """One block in the open batch, or in a new one. If it raises, it alone is taken back."""
        # A thread that was interrupted twice may leave a part half taken back, or a transaction without a batch.
        if self._batch is not None and not self._batch.whole:
            self._end(connection, self._batch)
        if self._batch is None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            _execute_when_free(connection, "BEGIN IMMEDIATE", end)
            self._batch = _Parts(connection.total_changes)
        batch = self._batch
        try:
            batch.whole = False
            if batch.parts:
                connection.execute("SAVEPOINT part")
            yield batch
            if not connection.in_transaction:
                raise LedgerFailed(LOST)
            if batch.parts:
                connection.execute("RELEASE part")
            batch.parts, batch.whole = batch.parts + 1, True
        except BaseException:
            self._take_back(connection, batch)
            raise

    def _take_back(self, connection: sqlite3.Connection, batch: _Parts) -> None:
        # On a full or failing disk SQLite takes the whole transaction back by itself: then all parts are lost.
        if batch.parts and connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK TO part")
                connection.execute("RELEASE part")
                batch.whole = True
                return
        self._end(connection, batch)

    def _end(self, connection: sqlite3.Connection, batch: _Parts) -> None:
        """Commit once, with the mutex held. Then all of the batch is on disk, or nothing of it and all parts fail."""
        if batch.done:
            return
        self._batch = None
        failure = None if batch.whole else LedgerFailed(LOST)
        try:
            if batch.whole:
                with translate_errors(sqlite3.Error):
                    connection.execute("COMMIT")
        except LedgerFailed as failed:
            failure = failed
        except BaseException:
            failure = LedgerFailed(LOST)
            raise
        finally:
            with suppress(sqlite3.Error):  # if even this fails, the next `writing` tries again
                connection.rollback()
            batch.end(failure)

    # -- reading --

    @contextmanager
    def reading(self, work: Work = "question") -> Iterator[Run]:
        self._check_open()
        with translate_errors(sqlite3.Error), translate_damage():
            reader: sqlite3.Connection | None = None
            with suppress(Empty):  # not for ever: another thread may read for long
                reader = self._readers.get(timeout=_READER_S)
            try:
                reader = connection = reader or self._new_reader()
                connection.execute("BEGIN")
                yield lambda sql, *values: _rows(connection, sql, values)
            finally:
                self._give_back(reader)

    def _new_reader(self) -> sqlite3.Connection:
        fresh = _connect(self.path, LIMITS["question"].wait_s)
        try:
            self._check_open()  # again: it must be the file that was opened first
            fresh.execute("PRAGMA query_only = ON")
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _give_back(self, reader: sqlite3.Connection | None) -> None:
        if reader is not None:
            with suppress(sqlite3.Error):
                reader.rollback()  # there is nothing to commit
        if self._readers.qsize() < _READERS:
            self._readers.put(reader)
        elif reader is not None:
            reader.close()  # one too many: it was opened because all others were in use
        if self._connection is None:
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(Empty):
            while True:
                reader = self._readers.get_nowait()
                if reader is not None:
                    reader.close()

    # -- watching --

    def stamp(self) -> Hashable | None:
        """SQLite's count of commits by other connections, read by a connection that makes none."""
        self._check_open()  # before the lock, as in `_take_connection`
        with translate_errors(sqlite3.Error), hold_lock(self._watching, deadline("question")):
            self._check_open()
            if self._watcher is None:
                self._watcher = self._new_reader()
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def lock_service(self, fence: Callable[[], str]) -> None:
        """A lock on a file beside the ledger. It ends with the process."""
        try:
            lock = os.open(self.path.with_name(self.path.name + ".serving"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            folder = str(self.path.parent)
            raise LedgerFailed(f"the ledger's folder {folder!r} does not exist, or cannot be written") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(
                "ledger.url", "another `sfumato serve` uses this ledger, and SQLite serves one process; stop it first"
            ) from None
        self._serving = lock

    # -- both --

    def _check_open(self) -> sqlite3.Connection:
        """The writing connection, if this process has opened it and its file is still in place."""
        if os.getpid() != self._process:
            raise LedgerFailed(FORKED)
        connection = self._connection
        if connection is None:
            raise LedgerFailed(CLOSED)
        with translate_errors(OSError):
            status = os.stat(self.path)  # noqa: PTH116
        if (status.st_dev, status.st_ino) != self._file:
            raise LedgerFailed(REPLACED)
        return connection

    def has_books(self, run: Run) -> bool:
        return bool(run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger'"))

    def close(self) -> None:
        """Commit the open batch and close. Readers that have begun may finish; later calls are refused."""
        if os.getpid() != self._process:
            return  # the connections are the parent's, perhaps inside a transaction
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            if self._batch is not None:
                self._end(connection, self._batch)
            self._close_readers()
            with self._watching:
                if self._watcher is not None:
                    self._watcher.close()
            connection.close()
            if self._serving is not None:
                os.close(self._serving)


def _connect(path: Path, wait_s: float) -> sqlite3.Connection:
    """A connection whose statements wait at most `wait_s` seconds for other processes."""
    place = path.absolute().as_uri() + "?mode=rw"  # never a new file: others could read it
    return sqlite3.connect(place, uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)


def _rows(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The rows of a statement. SQLite does not keep columns to their types, so a damaged file may hold any."""
    rows: list[tuple[Any, ...]] | None = None
    try:
        rows = connection.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if hasattr(error, "sqlite_errorcode"):
            raise
        # It is not SQLite's own: a text is not UTF-8.
    if rows is None or not {type(value) for row in rows for value in row} <= _TYPES:
        raise LedgerFailed(DAMAGED)
    return rows


def _execute_when_free(connection: sqlite3.Connection, sql: str, end: float) -> None:
    """Run a statement that locks the file, at once or until the moment `end`.

    SQLite's own timeout would begin again with each statement, and it does not wait at all to change the journal mode.
    """
    for pause_s in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
        try:
            connection.execute(sql)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BUSY or time.monotonic() >= end:
                raise
        else:
            return
        time.sleep(pause_s)
