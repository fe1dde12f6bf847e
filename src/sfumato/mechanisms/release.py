"""What a mechanism returns: rows that may leave, the steps that made them, and what they cost."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from sfumato.accounting.charges import Charge, total_charge
from sfumato.accounting.numbers import whole
from sfumato.errors import InvalidArgument

K = TypeVar("K", bound=Hashable)

StepKind: TypeAlias = Literal["call", "cutoff", "pick", "count", "stop", "histogram", "measure"]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was revealed, at one price: the unit of pay-what-you-get.

    `place` is the row it belongs to (1 is the first; 0 is the release as a whole) and `noise` the law of a
    count. Equal steps of one stored ranking are one revelation, and are paid for once.
    """

    kind: StepKind
    charge: Charge
    place: int = 0
    noise: str = ""


@dataclass(frozen=True, slots=True)
class Release(Generic[K]):
    """A private answer: everything in it may leave.

    `rows` are (item, noisy count) in noisy order; without counts the second part is None. `stopped` says that the
    bottom element (or a noisy threshold), and not k, ended the list; `complete` that it holds the whole of a public
    domain. `threshold` is that of the noisy counts, where one is released. `error95` is the half-width that holds with
    95 % for one count. Where the noisy counts chose the rows, those that were lucky are more often too high: close to a
    threshold, or among the first of a histogram (`Mechanism.list_error95`). `reserve` is the worst case, known before
    the first row was read; `steps` add up to the actual `charge`.
    """

    mechanism: str
    rows: tuple[tuple[K, int | None], ...]
    steps: tuple[Step, ...]
    reserve: Charge
    stopped: bool = False
    complete: bool = False
    threshold: int | None = None
    error95: int | None = None

    @property
    def charge(self) -> Charge:
        """What was revealed, added up."""
        return total_charge(step.charge for step in self.steps)

    def prefix(self, k: int) -> Release[K]:
        """The answer as if `k` rows had been asked for: the head of this one and the steps behind it."""
        k = whole("k", k, at_least=1)
        if k > len(self.rows) and not (self.stopped or self.complete):
            raise InvalidArgument("k", "is longer than this list, which was cut at its own k")
        if k >= len(self.rows) + self.stopped:
            return self
        steps = [step for step in self.steps if step.place <= k and step.kind != "stop"]
        return replace(
            self,
            rows=self.rows[:k],
            steps=tuple(steps),
            reserve=total_charge(step.charge for step in steps),  # a full list costs its worst case
            stopped=False,
            complete=self.complete and k == len(self.rows),
        )

    def without_counts(self) -> Release[K]:
        """The same ranking, its counts unrevealed and unpaid; those of a histogram order it and stay paid for."""
        return replace(
            self,
            rows=tuple((item, None) for item, _ in self.rows),
            steps=tuple(step for step in self.steps if step.kind != "count"),
            error95=None,
        )

    def newly(self, paid: Collection[Step]) -> Charge:
        """What this answer costs an analyst who has paid for the steps `paid` of the same ranking."""
        return total_charge(step.charge for step in self.steps if step not in paid)
