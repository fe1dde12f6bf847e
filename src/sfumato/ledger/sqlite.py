"""Books in one SQLite file: write-ahead log, full synchronisation, one writer at a time, commits shared by threads."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from sfumato.errors import LedgerFailed
from sfumato.ledger.group_commit import LOST, Batch
from sfumato.ledger.store import CLOSED, FORKED, Run, Store, told

_BUSY_S = 60
_MAX_PARTS = 64  # in one commit: other processes wait for its end
_PATIENCE_S = 1.0
_READER_S = 0.05
_READERS = 2  # more would not be faster, and would take the interpreter from the one who writes

REPLACED = "another file is in the place of the ledger that was opened; open it again"


class _Parts(Batch):
    """One SQLite transaction: how many blocks have ended well in it, and whether no other has begun."""

    def __init__(self, changes: int) -> None:
        super().__init__()
        self.parts, self.whole = 0, True
        self.changes = changes  # those of the connection, before it


class SQLiteStore(Store):
    """One connection writes, handed from thread to thread; processes wait for one another in SQLite.

    `writing` blocks run one after the other, and those that come while another is at work share its commit: none
    returns before the disk has it. If the commit fails, all of them fail. `reading` has connections of its own, which
    see what is committed and wait for nobody. See docs/adr/0006-shared-commits.md.

    The file is made with mode 0600. It must be on a local disk: SQLite's locks are not safe on network drives.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self._process = os.getpid()
        self._mutex = threading.Lock()  # whoever holds it is alone with the connection and with the open batch
        self._door: set[int] = set()  # threads that wait for it
        self._batch: _Parts | None = None
        self._readers: SimpleQueue[sqlite3.Connection | None] = SimpleQueue()
        for _ in range(_READERS):
            self._readers.put(None)
        self._watching = threading.Lock()
        self._watcher: sqlite3.Connection | None = None
        if not path.parent.is_dir():
            raise LedgerFailed(f"the ledger's folder {str(path.parent)!r} does not exist")
        with told(sqlite3.Error), told(OSError):
            _make(path)
            self._file, mode = _identity(path), stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                raise LedgerFailed(
                    f"others can read the ledger, which holds what is not paid for; run: chmod 600 {path}"
                )
            self._connection: sqlite3.Connection | None = _connect(path)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            # What a part may have to take back stays in memory, not in a file of the system's temporary folder.
            self._connection.execute("PRAGMA temp_store = MEMORY")

    # -- writing --

    @contextmanager
    def writing(self) -> Iterator[Run]:
        with told(sqlite3.Error):
            with self._inside() as connection, self._part(connection) as batch:
                yield lambda sql, *values: _rows(connection, sql, values)
            try:
                batch.wait(_PATIENCE_S)
            finally:
                if not batch.done:  # interrupted, here or at the door: no transaction may stay open
                    with self._mutex:
                        self._end(connection, batch)
            batch.check()

    @contextmanager
    def _inside(self) -> Iterator[sqlite3.Connection]:
        """Alone with the connection. Whoever leaves and sees nobody at the door commits, for all who have been inside.

        So a thread that is alone commits at once. Those at the door are counted, because whoever lets a lock go is
        likely to be the next who gets it: taking turns with it, everybody would commit alone.
        """
        self._check_process()  # before any lock: a forked child has them as they were, held by nobody
        me = threading.get_ident()
        try:
            self._door.add(me)
            with self._mutex:
                self._door.discard(me)
                try:
                    yield self._check_file()
                finally:
                    self._leave()
        finally:
            self._door.discard(me)

    def _leave(self) -> None:
        connection, batch = self._connection, self._batch
        if connection is None or batch is None:
            return
        unchanged = connection.total_changes == batch.changes  # committing that costs no sync
        if unchanged or not self._door or batch.parts >= _MAX_PARTS:
            self._end(connection, batch)

    @contextmanager
    def _part(self, connection: sqlite3.Connection) -> Iterator[_Parts]:
        """One block in the open batch, or in a new one. If it raises, it is taken back alone."""
        batch = self._joined(connection)
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

    def _joined(self, connection: sqlite3.Connection) -> _Parts:
        # Twice interrupted, somebody may have left a part half taken back, or a transaction without a batch.
        if self._batch is not None and not self._batch.whole:
            self._end(connection, self._batch)
        if self._batch is None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            self._batch = _Parts(connection.total_changes)
        return self._batch

    def _take_back(self, connection: sqlite3.Connection, batch: _Parts) -> None:
        # A full or failing disk makes SQLite take the whole transaction back by itself: then all parts are lost.
        if batch.parts and connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK TO part")
                connection.execute("RELEASE part")
                batch.whole = True
                return
        self._end(connection, batch)

    def _end(self, connection: sqlite3.Connection, batch: _Parts) -> None:
        """Commit, once; whoever has the mutex may. All of the batch is on disk then, or nothing and all are told."""
        if batch.done:
            return
        self._batch, failure = None, LOST
        try:
            if batch.whole:
                with told(sqlite3.Error):
                    connection.execute("COMMIT")
                failure = ""
        except LedgerFailed as failed:
            failure = str(failed)
        finally:
            _roll_back(connection)
            batch.end(failure)

    # -- reading --

    @contextmanager
    def reading(self) -> Iterator[Run]:
        self._check_process()
        with told(sqlite3.Error):
            self._check_file()
            reader = self._waited()
            try:
                reader = connection = reader or self._new_reader()
                connection.execute("BEGIN")
                yield lambda sql, *values: _rows(connection, sql, values)
            finally:
                self._give_back(reader)

    def _waited(self) -> sqlite3.Connection | None:
        """A reader's turn, and its connection if it has one; not for ever, as somebody may read for long."""
        try:
            return self._readers.get(timeout=_READER_S)
        except Empty:
            return None

    def _new_reader(self) -> sqlite3.Connection:
        fresh = _connect(self.path)
        try:
            self._check_file()  # again: it must be the file that was opened first
            fresh.execute("PRAGMA query_only = ON")
        except BaseException:
            fresh.close()
            raise
        return fresh

    def _give_back(self, reader: sqlite3.Connection | None) -> None:
        if reader is not None:
            _roll_back(reader)  # there is nothing to commit
        if self._readers.qsize() < _READERS:
            self._readers.put(reader)
        elif reader is not None:
            reader.close()  # one too many, of somebody who could not wait
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
        """SQLite's own number of commits by others, as a connection sees it that makes none."""
        self._check_process()
        with told(sqlite3.Error), self._watching:
            self._check_file()
            if self._watcher is None:
                self._watcher = self._new_reader()
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    # -- both --

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise LedgerFailed(FORKED)

    def _check_file(self) -> sqlite3.Connection:
        """The connection that writes, if it is open, and to the file that stands there now."""
        if self._connection is None:
            raise LedgerFailed(CLOSED)
        with told(OSError):
            found = _identity(self.path)
        if found != self._file:
            raise LedgerFailed(REPLACED)
        return self._connection

    def has_books(self, run: Run) -> bool:
        return bool(run("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'ledger'"))

    def close(self) -> None:
        """The open batch is committed, and whoever reads may read on; whoever comes later is refused."""
        if os.getpid() != self._process:
            return  # the connections are the parent's, perhaps in the middle of a transaction
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


def _make(path: Path) -> None:
    # Only if it is new: closing a file gives up all locks that this process has on it, another store's as well.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _connect(path: Path) -> sqlite3.Connection:
    place = path.absolute().as_uri() + "?mode=rw"  # never a new file, which others could read
    return sqlite3.connect(place, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116
    return found.st_dev, found.st_ino


def _roll_back(connection: sqlite3.Connection) -> None:
    """Whatever is open. Where even that fails, whoever begins next tries again."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _rows(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return connection.execute(sql, values).fetchall()
