"""A witness of the ledger, kept somewhere else: how far it had come when the last answer left.

Whoever restores an old copy of a ledger gives everybody their spent budget back, and the ledger itself cannot know. So
before an answer leaves, one line goes to a file outside the ledger's folder: the journal's length and head, and what
the accounts of this answer have spent. A ledger that is shorter than its fence, or does not continue it, is refused.

An older fence of the same ledger is a weaker witness, never a wrong one: several machines on one PostgreSQL ledger may
each keep their own, begun from a copy of another's.
"""

from __future__ import annotations

import fcntl
import functools
import json
import operator
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument, LedgerFailed
from sfumato.ledger.group_commit import Batch
from sfumato.ledger.store import raise_bare

GONE = "the ledger's fence is gone or belongs to another ledger; run: sfumato budget recover"
UNWRITABLE = "the ledger's fence cannot be read or written, so no answer may leave; see [ledger] fence"

_COMPACT_AT = 1 << 18


@dataclass(frozen=True, slots=True)
class SpentTotal:
    """What an account has spent in a period. A later period is later, whatever was spent before it."""

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
    """How far a ledger had come. `totals` holds the latest period of every account that an answer has charged.

    A report debits nobody; its total is the highest version of any of its cells that have left, as a number of calls.
    """

    ledger: str
    sequence: int
    head: str
    totals: Mapping[str, SpentTotal] = field(default_factory=dict)

    def __or__(self, other: Mark) -> Mark:
        """What two marks say together, in whichever order they were written."""
        later = max(self, other, key=lambda mark: mark.sequence)
        shared = {name: self.totals[name] | other.totals[name] for name in self.totals.keys() & other.totals.keys()}
        return Mark(later.ledger, later.sequence, later.head, {**self.totals, **other.totals, **shared})

    def covers(self, other: Mark) -> bool:
        """Whether another mark adds nothing to this one."""
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


class _Marks(Batch):
    """Marks that go to disk as one line."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[Mark] = []


class Fence:
    """The file: one mark a line, which count together. Threads and processes may share it; threads share a sync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()  # guards what is below; nobody waits for the disk with it
        self._read: tuple[tuple[int, ...], Mark | None] = ((0, 0, 0), None)
        self._batch = _Marks()
        self._writing = threading.Lock()  # with the file lock: one writer at a time
        self._synced: Mark | None = None  # what this process knows to be on disk, not just in the file
        self._doubtful = False  # whether a sync failed or was interrupted

    def mark(self) -> Mark | None:
        """All marks together; None where there is no fence."""
        with self._mutex, _told():
            return self._current()

    def stamp(self) -> tuple[int, ...] | None:
        """What every change of the file changes; None where there is none."""
        try:
            return _state(os.stat(self.path))  # noqa: PTH116
        except OSError:
            return None

    def advance(self, mark: Mark) -> None:
        """Write a mark down, unless all of it is known. On disk when it returns."""
        with self._mutex, _told():
            if self._stands(mark):
                return
            batch = self._batch
            batch.marks.append(mark)
        batch.once(lambda: self._write(batch))
        batch.check()

    def _stands(self, mark: Mark) -> bool:
        """Whether all of a mark is on disk already; not where another ledger's fence is, or none.

        No file lock is needed to see that. The file grows, or is replaced as a whole by one that is on disk. So what
        is in it now, and had been synced by this process before, is in whichever file a power cut leaves behind. Being
        in it is not enough: another process may have written it a moment ago, and wait for its sync.
        """
        known = self._current()
        if known is None or known.ledger != mark.ledger:
            raise LedgerFailed(GONE)
        return self._synced is not None and self._synced.covers(mark) and known.covers(mark)

    def _write(self, batch: _Marks) -> None:
        """One line and one sync for all marks of a batch."""
        with self._writing:
            with self._mutex:
                if self._batch is batch:  # whoever comes from now on is in the next one
                    self._batch = _Marks()
            try:
                with _told(), self._locked():
                    self._add(batch.marks)
            except LedgerFailed as failed:
                batch.end(str(failed))
            else:
                batch.end()

    def _add(self, marks: list[Mark]) -> None:
        with self._mutex:
            known = self._current()
        if known is None or any(mark.ledger != known.ledger for mark in marks):
            raise LedgerFailed(GONE)
        mark = functools.reduce(operator.or_, marks)
        if self._doubtful or self._read[0][0] > _COMPACT_AT:
            self._replace(known | mark)
        else:
            self._append(known, mark)

    def start(self, mark: Mark) -> None:
        """Put the first fence up, unless one stands there by now."""
        with self._writing, _told(), self._locked():
            with self._mutex:
                known = self._current()
            if known is None:
                self._replace(mark)

    def begin(self, mark: Mark) -> None:
        """Put a new fence up in place of whatever stands there."""
        with self._writing, _told(), self._locked():
            self._replace(mark)

    def _current(self) -> Mark | None:
        """The file folded into one mark; read again only if it changed."""
        try:
            found = os.stat(self.path)  # noqa: PTH116
        except FileNotFoundError:
            return None
        state = _state(found)
        if self._read[0] != state:
            self._read = (state, _folded(self.path.read_bytes()))
        return self._read[1]

    def _append(self, known: Mark, mark: Mark) -> None:
        """Add a line, if there is anything new in it, and sync: an unsynced line of somebody killed counts too."""
        together = known if known.covers(mark) else known | mark
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            with self._mutex:
                if together is not known:
                    # A newline on both sides: a line torn by a power cut spoils nothing but itself.
                    _write_all(descriptor, b"\n" + mark.to_line() + b"\n")
                    self._read = (_state(os.fstat(descriptor)), together)
            # A system that failed to sync may say yes the next time, without having done it: then write all anew.
            self._doubtful = True
            os.fsync(descriptor)
            self._doubtful, self._synced = False, together
        finally:
            os.close(descriptor)

    def _replace(self, mark: Mark) -> None:
        self._doubtful = True  # until the folder knows the new file
        beside = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            _write_all(descriptor, mark.to_line() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.replace(self.path)
        _sync_folder(self.path.parent)
        self._doubtful, self._synced = False, mark

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _folded(content: bytes) -> Mark | None:
    """All whole lines together. What is no mark was torn, and nothing had left because of it."""
    marks: list[Mark] = []
    for line in content.splitlines():
        with suppress(ValueError, TypeError, KeyError, AttributeError, InvalidArgument):
            marks.append(Mark.from_line(line))
    return functools.reduce(operator.or_, marks) if marks else None


def _write_all(descriptor: int, content: bytes) -> None:
    if os.write(descriptor, content) != len(content):
        raise OSError("the disk is full")


def _state(found: os.stat_result) -> tuple[int, ...]:
    # With its time: the inode of a replaced file is given to the next one, and compacted ones are of one size.
    return found.st_size, found.st_ino, found.st_mtime_ns


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told() -> Iterator[None]:
    failed = False
    try:
        yield
    except OSError:
        failed = True
    if failed:
        raise_bare(LedgerFailed(UNWRITABLE))
