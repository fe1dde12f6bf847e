"""The fence: the ledger's high-water mark, kept outside the ledger's folder and database.

If an old copy of a ledger is restored, spent budget comes back, and the ledger itself cannot notice. So before an
answer leaves, its mark is added to the fence: the journal's length and head, and what the accounts of this answer have
spent. A ledger that is shorter than its fence, or does not continue it, is refused.

`Fence` is the port. Its sides are a file (`file_fence`) and a row in a second database (`postgres_fence`). A fence
belongs to one ledger. All machines that serve a ledger must use one fence: a machine with a fence of its own does not
notice an old copy of what the others have answered.
"""

from __future__ import annotations

import functools
import json
import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument, LedgerFailed
from sfumato.ledger.group_commit import Batch
from sfumato.ledger.store import deadline, hold_lock

GONE = (
    "the ledger's fence is gone or belongs to another ledger. Put it back, or take over the fence of another machine: "
    "sfumato budget join. Only if there is none, run: sfumato budget recover"
)
STUCK = (
    "the ledger's fence was in use for too long, so no answer may leave; nothing is charged twice. Ask again. If this "
    "stays, a process that uses the fence is stuck: end it"
)

NO_MARK = (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidArgument)
"""What `Mark.from_line` raises for a line that is not a whole mark."""


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

    A report charges no account. Its total has the latest journal row and the highest version of its cells that have
    left, as a number of units and of calls. The total of the API keys has how many were revoked, as a number of calls.
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
    """Marks that go to disk together. The thread that has the `turn` writes them."""

    marks: list[Mark] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)


class Fence(ABC):
    """One ledger's mark. Threads, processes and machines may share it; the threads of a process share writes.

    Guarantees: when `advance` returns, the mark is on disk. No mark is lost, except by `restart`. No call waits for
    another process for more than a few seconds; it raises `LedgerFailed` then, as it does where the fence is away.

    `check_followed` is called with what others have written, before a mark is added to it. It raises if the ledger does
    not continue that: of two copies of a ledger, the second to advance the fence does not answer.
    """

    kind: ClassVar[Literal["file", "database"]]

    def __init__(self, place: str) -> None:
        self.place = place  # for messages: without any secret
        self._mutex = threading.Lock()  # guards what was read and `_batch`; not held during a write
        self._batch = _Marks()
        self._writing = threading.Lock()  # one writer of this process at a time
        self._synced: Mark | None = None  # what this process knows to be on disk
        self._followed: Mark | None = None  # the latest mark that the ledger is known to continue
        self.check_followed: Callable[[Mark], None] = lambda _: None

    @abstractmethod
    def mark(self) -> Mark | None:
        """The join of all marks; None if there is no fence."""

    @abstractmethod
    def start(self, mark: Mark) -> None:
        """Write the first mark, unless there is a fence."""

    @abstractmethod
    def restart(self, mark: Mark) -> None:
        """Replace the whole fence by one mark."""

    @abstractmethod
    def check(self) -> None:
        """Write to disk as `advance` does, and change no mark. Raises `LedgerFailed` if an answer could not leave."""

    @abstractmethod
    def identity(self) -> str:
        """The same for all that use this fence, and another for a copy of it."""

    @abstractmethod
    def _add(self, mark: Mark, until: float) -> Mark:
        """Write and return the join of `mark` and `_mark_to_follow`. On disk when it returns."""

    def stamp(self) -> Hashable | None:
        """A value that every change of the fence changes; None if that would be costly to know."""
        return None

    def close(self) -> None:  # noqa: B027  a file has nothing to close
        """Close all connections."""

    def advance(self, mark: Mark) -> None:
        """Add a mark, unless all of it is on disk already. On disk when it returns."""
        known = self._mark_to_follow(mark.ledger)
        if self._synced is not None and self._synced.covers(mark) and known.covers(mark):
            return
        until = deadline("fence")
        with hold_lock(self._mutex, until, STUCK):
            batch = self._batch
            batch.marks.append(mark)
        with hold_lock(batch.turn, until, STUCK):
            if not batch.done:  # this thread writes all marks of the batch at once
                with hold_lock(self._writing, until, STUCK):
                    with hold_lock(self._mutex, until, STUCK):
                        if self._batch is batch:  # later marks go into the next batch
                            self._batch = _Marks()
                    try:
                        self._followed = self._add(functools.reduce(operator.or_, batch.marks), until)
                    except LedgerFailed as failed:
                        batch.end(failed)
                    else:
                        batch.end()
        batch.check()

    def _mark_to_follow(self, ledger: str) -> Mark:
        """What is in the fence now. Raises if it is not of this ledger, or if the ledger does not continue it."""
        known = self.mark()
        if known is None or known.ledger != ledger:
            raise LedgerFailed(GONE)
        if known is not self._followed:
            self.check_followed(known)
            self._followed = known
        return known
