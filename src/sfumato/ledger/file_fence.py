"""A fence in a file: on this machine, or in a folder that several machines mount."""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import operator
import os
import time
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sfumato.errors import ConfigError, LedgerBusy, LedgerFailed
from sfumato.ledger.fence import GONE, NO_MARK, STUCK, Fence, Mark
from sfumato.ledger.store import deadline, hold_lock, translate_errors

UNWRITABLE = "the ledger's fence {} cannot be read or written, so no answer may leave; see [ledger] fence"
NAME_IN_FOLDER = "ledger.fence"

_COMPACT_AT = 1 << 18
_PAUSE_S = 0.002
_CHECK_BYTES = 1 << 13  # more than a file system keeps beside a file's name: a full disk has no room for it
# With the time: a new file may get the inode of a replaced one, and compacted files have the same size.
_state = operator.attrgetter("st_size", "st_ino", "st_mtime_ns")


class FileFence(Fence):
    """One mark per line; all lines are joined. A lock on a file beside it gives processes their turn."""

    kind = "file"

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self.path = path
        self._read: tuple[tuple[int, ...], Mark | None] = ((0, 0, 0), None)
        self._doubtful = False  # a sync failed or was interrupted: the file may not be on disk

    def mark(self) -> Mark | None:
        """The join of all marks; None if there is no fence. The file is read again only if it has changed."""
        with hold_lock(self._mutex, deadline("fence"), STUCK), _translate_errors(self.path):
            try:
                # Opened, not only looked at: a network drive then asks its server for the latest state.
                with self.path.open("rb", buffering=0) as file:
                    state = _state(os.fstat(file.fileno()))
                    if self._read[0] != state:
                        self._read = (state, _join_lines(file.readall()))
            except FileNotFoundError:
                return None
            return self._read[1]

    def stamp(self) -> Hashable:
        """A value that every change of the file changes."""
        try:
            return _state(os.stat(self.path))  # noqa: PTH116
        except OSError:
            return ()

    def _add(self, mark: Mark, until: float) -> Mark:
        """Append one line, or replace the file; one sync.

        `advance` sees without the file lock that a mark is on disk. The file grows, or is replaced as a whole by one
        that is on disk. So what is in it now, and was synced by this process before, survives a power cut. To be in
        the file is not enough: another process may have written it and not synced it yet.
        """
        with self._lock_file(until):
            known = self._mark_to_follow(mark.ledger)
            if self._doubtful or self._read[0][0] > _COMPACT_AT:
                together = known | mark
                self._replace(together)
                return together
            return self._append(known, mark)

    def start(self, mark: Mark) -> None:
        """Write the first mark, unless there is a fence."""
        with self._hold():
            if self.mark() is None:
                self._replace(mark)

    def restart(self, mark: Mark) -> None:
        """Replace the whole fence by one mark."""
        with self._hold():
            self._replace(mark)

    def check(self) -> None:
        """Sync the file, and write another beside it that is removed again: the fence does not grow by it."""
        with self._hold():
            if self.mark() is None:
                raise LedgerFailed(GONE)
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
            try:
                if not self._doubtful:  # otherwise the next answer replaces the file
                    self._doubtful = True
                    os.fsync(descriptor)
                    self._doubtful = False
            finally:
                os.close(descriptor)
            beside = self.path.with_name(self.path.name + ".check")
            try:
                _write_file(beside, b"\n" * _CHECK_BYTES)
            finally:
                beside.unlink(missing_ok=True)

    def identity(self) -> str:
        """That of the lock file, which is never replaced. A copy of the fence has a lock file of its own."""
        with self._hold() as lock:
            status = os.fstat(lock)
            return f"file {status.st_ino} {status.st_mtime_ns}"

    def _append(self, known: Mark, mark: Mark) -> Mark:
        """Add a line, unless it is covered, and sync: the line that covers it may not be synced yet."""
        together = known if known.covers(mark) else known | mark
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            with hold_lock(self._mutex, deadline("fence"), STUCK):
                if together is not known:
                    # A newline on both sides: a line torn by a power cut spoils nothing but itself.
                    line = b"\n" + mark.to_line() + b"\n"
                    if os.write(descriptor, line) != len(line):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    self._read = (_state(os.fstat(descriptor)), together)
            # After a failed sync the next one may report success without writing: then the whole file is replaced.
            self._doubtful = True
            os.fsync(descriptor)
            self._doubtful, self._synced = False, together
            return together
        finally:
            os.close(descriptor)

    def _replace(self, mark: Mark) -> None:
        self._doubtful = True  # until the folder is synced too
        beside = self.path.with_name(self.path.name + ".new")
        _write_file(beside, mark.to_line() + b"\n")
        beside.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._doubtful, self._synced = False, mark

    @contextmanager
    def _hold(self) -> Iterator[int]:
        """The turn of this thread and of this process; yields the lock file."""
        until = deadline("fence")
        with hold_lock(self._writing, until, STUCK), self._lock_file(until) as lock:
            yield lock

    @contextmanager
    def _lock_file(self, until: float) -> Iterator[int]:
        """Lock the file beside the fence. Not for ever: a process that is frozen keeps its lock."""
        with _translate_errors(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
            try:
                while True:
                    try:
                        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > until:
                            raise LedgerBusy(STUCK) from None
                        time.sleep(_PAUSE_S)
                yield lock
            finally:
                os.close(lock)


def _write_file(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, and sync it."""
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        if os.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _join_lines(content: bytes) -> Mark | None:
    """The join of all whole lines. A torn line was not synced, so nothing has left because of it."""
    marks: list[Mark] = []
    for line in content.splitlines():
        with suppress(*NO_MARK):
            marks.append(Mark.from_line(line))
    return functools.reduce(operator.or_, marks) if marks else None


def default_path(place: str, identity: str) -> Path:
    """The fence of a ledger where `[ledger] fence` is not set: in the user's state folder, named by the ledger.

    A note per place holds the identity of the ledger that was there first. So a ledger can be moved; and if it is lost
    and a new one is created in the same place, the new one meets the old fence and is not served.
    """
    note = _note(place)
    with _translate_errors(note):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not note.exists():
            beside = note.with_name(f"{note.name}.{os.urandom(8).hex()}")
            beside.write_text(identity)
            try:
                with suppress(FileExistsError):
                    os.link(beside, note)  # whole or not at all: another process may read it now
            finally:
                beside.unlink()
        return note.parent / f"{note.read_text().strip()}.fence"


def state_folder() -> Path:
    """The user's state folder (XDG): the place of all fences that have no other. Raises `ConfigError` without one."""
    home = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(home) if home else Path.home() / ".local" / "state") / "sfumato"
    except RuntimeError:
        raise ConfigError("ledger.fence", "is needed here: this user has no home folder, where it would be") from None


def forget_place(place: str) -> None:
    """Forget which ledger was in a place. Its fence stays: the ledger may have been moved."""
    note = _note(place)
    with _translate_errors(note):
        note.unlink(missing_ok=True)


def _translate_errors(path: Path) -> AbstractContextManager[None]:
    return translate_errors(OSError, UNWRITABLE.format(repr(str(path))))


def _note(place: str) -> Path:
    return state_folder() / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.place"
