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
from sfumato.budget.store import raise_bare
from sfumato.errors import InvalidArgument, LedgerFailed

GONE = "the ledger's fence is gone or belongs to another ledger; run: sfumato budget recover"
UNWRITABLE = "the ledger's fence cannot be read or written, so no answer may leave; see [ledger] fence"

_COMPACT_AT = 1 << 18


@dataclass(frozen=True, slots=True)
class Total:
    """What an account has spent in a period. A later period is later, whatever was spent before it."""

    period: str
    spent: Charge

    def __or__(self, other: Total) -> Total:
        """The later of the two; of one period, the larger of each amount."""
        if self.period != other.period:
            return max(self, other, key=lambda total: total.period)
        mine, yours = self.spent, other.spent
        most = Charge(max(mine.information, yours.information), max(mine.calls, yours.calls))
        return Total(self.period, most)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a ledger had come. `totals` holds the latest period of every account that an answer has charged."""

    ledger: str
    sequence: int
    head: str
    totals: Mapping[str, Total] = field(default_factory=dict)

    def __or__(self, other: Mark) -> Mark:
        """What two marks say together, in whichever order they were written."""
        later = max(self, other, key=lambda mark: mark.sequence)
        shared = {name: self.totals[name] | other.totals[name] for name in self.totals.keys() & other.totals.keys()}
        return Mark(later.ledger, later.sequence, later.head, {**self.totals, **other.totals, **shared})

    def to_line(self) -> bytes:
        totals = {name: [total.period, total.spent.to_dict()] for name, total in self.totals.items()}
        serial = {"ledger": self.ledger, "sequence": self.sequence, "head": self.head, "totals": totals}
        return json.dumps(serial, separators=(",", ":")).encode()

    @classmethod
    def from_line(cls, line: bytes) -> Mark:
        serial = json.loads(line)
        totals = {
            name: Total(period, Charge.from_dict(spent)) for name, (period, spent) in serial.pop("totals").items()
        }
        return cls(**serial, totals=totals)


class Fence:
    """The file: one mark a line, which count together. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mutex = threading.Lock()
        self._read: tuple[tuple[int, ...], Mark | None] = ((0, 0, 0), None)

    def mark(self) -> Mark | None:
        """All marks together; None where there is no fence."""
        with self._mutex, _told():
            return self._current()

    def advance(self, mark: Mark) -> None:
        """Write a mark down, unless all of it is known. On disk when it returns."""
        with self._mutex, _told(), self._locked():
            known = self._current()
            if known is None or known.ledger != mark.ledger:
                raise LedgerFailed(GONE)
            if known | mark == known:
                return
            if self._read[0][0] > _COMPACT_AT:
                self._replace(known | mark)
            else:
                self._append(known, mark)

    def start(self, mark: Mark) -> None:
        """Put the first fence up, unless one stands there by now."""
        with self._mutex, _told(), self._locked():
            if self._current() is None:
                self._replace(mark)

    def begin(self, mark: Mark) -> None:
        """Put a new fence up in place of whatever stands there."""
        with self._mutex, _told(), self._locked():
            self._replace(mark)

    def _current(self) -> Mark | None:
        """The file folded into one mark; read again only if it changed."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        state = _state(found)
        if self._read[0] != state:
            self._read = (state, _folded(self.path.read_bytes()))
        return self._read[1]

    def _append(self, known: Mark, mark: Mark) -> None:
        # A newline on both sides: a line torn by a power cut spoils nothing but itself.
        line = b"\n" + mark.to_line() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            _write_all(descriptor, line)
            self._read = (_state(os.fstat(descriptor)), known | mark)
        finally:
            os.close(descriptor)

    def _replace(self, mark: Mark) -> None:
        beside = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        try:
            _write_all(descriptor, mark.to_line() + b"\n")
        finally:
            os.close(descriptor)
        beside.replace(self.path)
        _sync_folder(self.path.parent)

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
    os.fsync(descriptor)


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
