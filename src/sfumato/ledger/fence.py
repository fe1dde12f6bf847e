"""The fence: the ledger's high-water mark, in a file outside the ledger's folder.

If an old copy of a ledger is restored, spent budget comes back, and the ledger itself cannot notice. So before an
answer leaves, one line is appended to the fence: the journal's length and head, and what the accounts of this answer
have spent. A ledger that is shorter than its fence, or does not continue it, is refused.

An older fence of the same ledger is weaker but never wrong. So several machines on one PostgreSQL ledger may each keep
their own fence, started from a copy of another one.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import operator
import os
import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument, LedgerFailed
from sfumato.ledger.group_commit import Batch
from sfumato.ledger.store import translate_errors

GONE = "the ledger's fence is gone or belongs to another ledger; run: sfumato budget recover"
UNWRITABLE = "the ledger's fence cannot be read or written, so no answer may leave; see [ledger] fence"
FULL = "the disk is full"

_COMPACT_AT = 1 << 18
# With the time: a new file may get the inode of a replaced one, and compacted files have the same size.
_state = operator.attrgetter("st_size", "st_ino", "st_mtime_ns")


@dataclass(frozen=True, slots=True)
class SpentTotal:
    """What an account has spent in a period. A later period replaces an earlier one, whatever was spent in it."""

    period: str
    spent: Charge

    def __or__(self, other: SpentTotal) -> SpentTotal:
        """The later of the two; of one period, the larger of each amount."""
        if self.period != other.period:
            return max(self, other, key=lambda total: total.period)
        mine, yours = self.spent, other.spent
        most = Charge(max(mine.information, yours.information), max(mine.calls, yours.calls))
        return SpentTotal(self.period, most)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the journal had come. `totals` holds the latest period of every account that an answer has charged.

    A report charges no account. Its total is the highest version of its cells that have left, as a number of calls.
    """

    ledger: str
    sequence: int
    head: str
    totals: Mapping[str, SpentTotal] = field(default_factory=dict)

    def __or__(self, other: Mark) -> Mark:
        """The join of two marks, in any order."""
        later = max(self, other, key=lambda mark: mark.sequence)
        shared = {name: self.totals[name] | other.totals[name] for name in self.totals.keys() & other.totals.keys()}
        return Mark(later.ledger, later.sequence, later.head, {**self.totals, **other.totals, **shared})

    def covers(self, other: Mark) -> bool:
        """Whether `other` adds nothing to this mark."""
        if other.ledger != self.ledger or other.sequence > self.sequence:
            return False
        mine = self.totals
        return all(name in mine and mine[name] | total == mine[name] for name, total in other.totals.items())

    def to_line(self) -> bytes:
        totals = {name: [total.period, total.spent.to_dict()] for name, total in self.totals.items()}
        serial = {"ledger": self.ledger, "sequence": self.sequence, "head": self.head, "totals": totals}
        return json.dumps(serial, separators=(",", ":")).encode()

    @classmethod
    def from_line(cls, line: bytes) -> Mark:
        serial = json.loads(line)
        totals = {
            name: SpentTotal(period, Charge.from_dict(spent)) for name, (period, spent) in serial["totals"].items()
        }
        return cls(serial["ledger"], serial["sequence"], serial["head"], totals)


@dataclass(eq=False)
class _Marks(Batch):
    """Marks that go to disk as one line. The thread that has the `turn` writes it."""

    marks: list[Mark] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)


class Fence:
    """The file: one mark per line; all lines are joined. Threads and processes may share it; threads share syncs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()  # guards `_read` and `_batch`; not held during a sync
        self._read: tuple[tuple[int, ...], Mark | None] = ((0, 0, 0), None)
        self._batch = _Marks()
        self._writing = threading.Lock()  # with the lock file: one writer at a time
        self._synced: Mark | None = None  # what this process has synced to disk
        self._doubtful = False  # a sync failed or was interrupted: the file may not be on disk

    def mark(self) -> Mark | None:
        """The join of all marks; None if there is no fence. The file is read again only if it has changed."""
        with self._mutex, translate_errors(OSError, otherwise=UNWRITABLE):
            try:
                state = _state(os.stat(self.path))  # noqa: PTH116
            except FileNotFoundError:
                return None
            if self._read[0] != state:
                self._read = (state, _join_lines(self.path.read_bytes()))
            return self._read[1]

    def stamp(self) -> Hashable | None:
        """A value that every change of the file changes; None if there is no file."""
        try:
            return _state(os.stat(self.path))  # noqa: PTH116
        except OSError:
            return None

    def advance(self, mark: Mark) -> None:
        """Write a mark, unless all of it is on disk already. On disk when it returns.

        To see that it is on disk needs no file lock. The file grows, or is replaced as a whole by one that is on disk.
        So what is in it now, and was synced by this process before, survives a power cut. To be in the file is not
        enough: another process may have written it and not synced it yet.
        """
        known = self.mark()
        if known is None or known.ledger != mark.ledger:
            raise LedgerFailed(GONE)
        if self._synced is not None and self._synced.covers(mark) and known.covers(mark):
            return
        with self._mutex:
            batch = self._batch
            batch.marks.append(mark)
        with batch.turn:
            if not batch.done:
                self._write(batch)
        batch.check()

    def _write(self, batch: _Marks) -> None:
        """One line and one sync for all marks of a batch."""
        with self._writing:
            with self._mutex:
                if self._batch is batch:  # later marks go into the next batch
                    self._batch = _Marks()
            try:
                with self._lock_file():
                    known, mark = self.mark(), functools.reduce(operator.or_, batch.marks)
                    if known is None or {each.ledger for each in batch.marks} != {known.ledger}:
                        raise LedgerFailed(GONE)
                    if self._doubtful or self._read[0][0] > _COMPACT_AT:
                        self._replace(known | mark)
                    else:
                        self._append(known, mark)
            except LedgerFailed as failed:
                batch.end(failed)
            else:
                batch.end()

    def start(self, mark: Mark) -> None:
        """Write the first mark, unless there is a fence."""
        with self._writing, self._lock_file():
            if self.mark() is None:
                self._replace(mark)

    def restart(self, mark: Mark) -> None:
        """Replace the whole fence by one mark."""
        with self._writing, self._lock_file():
            self._replace(mark)

    def check(self) -> None:
        """Raise `LedgerFailed` unless a mark could be written and synced now. The file stays as it is."""
        with self._writing, self._lock_file():
            known = self.mark()
            if known is None:
                raise LedgerFailed(GONE)
            probe = self.path.with_name(self.path.name + ".probe")  # not the file itself: its state is a stamp
            for path, flags, line in ((probe, os.O_CREAT | os.O_TRUNC, known.to_line()), (self.path, 0, b"")):
                descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
                try:
                    if os.write(descriptor, line) != len(line):
                        raise OSError(FULL)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                    probe.unlink(missing_ok=True)

    def _append(self, known: Mark, mark: Mark) -> None:
        """Add a line, unless it is covered, and sync: the line that covers it may not be synced yet."""
        together = known if known.covers(mark) else known | mark
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            with self._mutex:
                if together is not known:
                    # A newline on both sides: a line torn by a power cut spoils nothing but itself.
                    line = b"\n" + mark.to_line() + b"\n"
                    if os.write(descriptor, line) != len(line):
                        raise OSError(FULL)
                    self._read = (_state(os.fstat(descriptor)), together)
            # After a failed sync the next one may report success without writing: then the whole file is replaced.
            self._doubtful = True
            os.fsync(descriptor)
            self._doubtful, self._synced = False, together
        finally:
            os.close(descriptor)

    def _replace(self, mark: Mark) -> None:
        self._doubtful = True  # until the folder is synced too
        beside = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            line = mark.to_line() + b"\n"
            if os.write(descriptor, line) != len(line):
                raise OSError(FULL)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._doubtful, self._synced = False, mark

    @contextmanager
    def _lock_file(self) -> Iterator[None]:
        with translate_errors(OSError, otherwise=UNWRITABLE):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
            finally:
                os.close(lock)


def _join_lines(content: bytes) -> Mark | None:
    """The join of all whole lines. A torn line was not synced, so nothing has left because of it."""
    marks: list[Mark] = []
    for line in content.splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidArgument):
            marks.append(Mark.from_line(line))
    return functools.reduce(operator.or_, marks) if marks else None


def default_path(place: str, identity: str) -> Path:
    """The fence of a ledger where `[ledger] fence` is not set: in the user's state folder (XDG), named by the ledger.

    A note per place holds the identity of the ledger that was there first. So a ledger can be moved; and if it is lost
    and a new one is created in the same place, the new one meets the old fence and is not served.
    """
    home = os.environ.get("XDG_STATE_HOME")
    folder = (Path(home) if home else Path.home() / ".local" / "state") / "sfumato"
    note = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.place"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not note.exists():
            beside = note.with_name(f"{note.name}.{os.urandom(8).hex()}")
            beside.write_text(identity)
            try:
                with suppress(FileExistsError):
                    os.link(beside, note)  # whole or not at all: another process may read it now
            finally:
                beside.unlink()
        return folder / f"{note.read_text().strip()}.fence"
    except OSError:
        raise LedgerFailed(UNWRITABLE) from None
