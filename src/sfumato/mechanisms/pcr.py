"""Private Count Release: as many accurate counts as a budget can buy, without a bound on what a person contributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Generic

import numpy as np

from sfumato.accounting.composition import bounded_range_to_zcdp
from sfumato.accounting.numbers import Number, positive, probability, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import ranked_rows
from sfumato.mechanisms.mechanism import MAX_EPSILON, MAX_ROWS
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.random import Rng, checked_source
from sfumato.mechanisms.release import K
from sfumato.mechanisms.selection import Scores, race
from sfumato.mechanisms.stream import Stream
from sfumato.mechanisms.unknown_domain import bottom_gap

MAX_RHO = bounded_range_to_zcdp(MAX_EPSILON)
"""What a single pick at the largest epsilon costs. No pass can have a larger epsilon."""

HEAD = 128
"""Most passes end within so many places, and ordering a few of 10,000 runners takes half the time."""

# Rounding does no harm: thresholds, noise and charges all come from the epsilon that it gives.
_ROOT_TWO = Fraction(math.isqrt(2 << 64), 2**32)


@dataclass(frozen=True, slots=True)
class Level:
    """One pass over what is left, at one accuracy. Costs are in rho of zCDP."""

    number: int
    epsilon: Fraction
    gap: int
    variance: Fraction

    @property
    def pick(self) -> Fraction:
        """What a place in the race costs, the bottom element's included."""
        return bounded_range_to_zcdp(self.epsilon)

    @property
    def row(self) -> Fraction:
        """What a pick and its count cost."""
        return self.pick + 1 / (2 * self.variance)

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.variance)

    def cost(self, rows: int, *, stopped: bool) -> Fraction:
        """What so many rows cost, and the bottom element after them if it was met."""
        return rows * self.row + stopped * self.pick

    def race(self, counts: Integers, outside: int, first: int, stream: Stream) -> tuple[list[int], bool]:
        """Places in `counts` in the order of the race, `first` or up to the bottom element, and whether it was met."""
        scores = Scores(self.epsilon, np.concatenate([[outside + self.gap], counts]))
        order = race(scores, stream, min(first, HEAD))
        if 0 not in order:
            order = race(scores, stream, first)  # the same race: its head is what was seen
        stopped = 0 in order
        reached = order.index(0) if stopped else len(order)
        return [runner - 1 for runner in order[:reached]], stopped


@dataclass(frozen=True, slots=True)
class PrivateCount(Generic[K]):
    """A released count: `variance` is that of its noise, `level` the pass that found it."""

    key: K
    count: int
    variance: Fraction
    level: int

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

    @property
    def error95(self) -> int:
        """The half-width that holds with 95 %."""
        return DiscreteGaussian(self.variance).half_width()


@dataclass(frozen=True, slots=True)
class PrivateCounts(Generic[K]):
    """Everything that was released, in the order in which it was found, and what `levels` passes took of the budget."""

    rows: tuple[PrivateCount[K], ...]
    rho: Fraction
    delta: Fraction
    levels: int


@dataclass(frozen=True, kw_only=True)
class PrivateCountRelease:
    """Counts in passes: each picks what stands out at its epsilon, and measures it to a relative error.

    Guarantee: the zCDP ledger of (rho, delta): (eps, delta + delta')-DP for every delta' > 0 with
               eps = `zcdp_epsilon(rho, delta')`, however many groups a person is in.
    Assumes:   counts of distinct people: adding a person changes each count by 0 or 1.
    Source:    Rogers (2024), Algorithm 2, with its loop condition, its delta and its cutoff corrected, and each pass
               as one race. Proof: proofs/pcr.md.

    A pass at epsilon puts a bottom element 1 + ln(limit / delta_level) / epsilon above the first count that is out
    of sight and picks by Gumbel noise until it is reached; what was picked is removed, epsilon grows by sqrt(2), and
    so on, until the next row could cost more than is left. `limit` rows may be looked at. What stands out is about
    as large as that distance, and 1.5 deviations of its noise are `relative_error` of it; but a count never costs more
    than its pick, so that about 3 / ln(limit / delta_level) is the finest: 11 % with delta = 1e-6 and these defaults.
    """

    rho: Fraction
    delta: Fraction
    limit: int = 10_000
    relative_error: Fraction = Fraction(1, 10)
    first_epsilon: Fraction = Fraction(1, 2000)

    def __post_init__(self) -> None:
        checked = {
            "rho": positive("rho", self.rho, at_most=MAX_RHO),
            "delta": probability("delta", self.delta),
            "limit": whole("limit", self.limit, at_least=1, at_most=MAX_ROWS),
            "relative_error": positive("relative_error", self.relative_error, at_most=1),
            "first_epsilon": positive("first_epsilon", self.first_epsilon, at_most=MAX_EPSILON),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        with blamed_on("first_epsilon"):
            affordable = [level.noise for level in self.levels if level.row <= self.rho]
        if not affordable:
            raise InvalidArgument("rho", "cannot buy a single count; give more, or begin with a smaller first_epsilon")

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The passes that rho can pay for if none of them finds anything: there are never more."""
        epsilons = tuple(self._epsilons())
        return tuple(self._level(number, epsilon, len(epsilons)) for number, epsilon in enumerate(epsilons))

    @property
    def delta_level(self) -> Fraction:
        """What a pass takes of delta, whatever it finds."""
        return self.delta / len(self.levels)

    def release(self, rows: Sequence[tuple[K, int]], rng: Rng) -> PrivateCounts[K]:
        """Run it on the `limit + 1` largest counts, ties by key."""
        keys, exact = ranked_rows(rows, self.limit)
        source = self._source(rng)
        outside = int(exact[self.limit])  # read once: it stays where it is although rows are removed
        unseen = np.flatnonzero(exact > outside)
        found: list[PrivateCount[K]] = []
        left, passes = self.rho, 0
        # Rows get dearer from pass to pass. So what ends a pass, the bottom element or the budget, need not be told,
        # and a table with nothing left to find is walked to the end like any other.
        for level in self.levels:
            affordable = left // level.row
            if not affordable:
                break
            stream = source.stream(purpose="gumbel", level=level.number)
            places, stopped = level.race(exact[unseen], outside, affordable, stream)
            picked, unseen = unseen[places], np.delete(unseen, places)
            found += self._measured(level, [keys[row] for row in picked], exact[picked], source)
            left -= level.cost(len(picked), stopped=stopped)
            passes += 1
        return PrivateCounts(tuple(found), self.rho - left, passes * self.delta_level, passes)

    def _epsilons(self) -> Iterator[Fraction]:
        """Each sqrt(2) times the one before it, as long as rho can pay for a pick at every one of them."""
        left = self.rho
        for doublings in count():
            for factor in (Fraction(1), _ROOT_TWO):
                epsilon = self.first_epsilon * 2**doublings * factor
                left -= bounded_range_to_zcdp(epsilon)
                if left < 0:
                    return
                yield epsilon

    def _level(self, number: int, epsilon: Fraction, levels: int) -> Level:
        gap = bottom_gap(epsilon, self.delta / levels, 1, self.limit)
        # Never finer than 2 / epsilon: a count need not cost more than its pick.
        deviation = max(self.relative_error * gap / Fraction(3, 2), 2 / epsilon)
        return Level(number, epsilon, gap, deviation**2)

    @staticmethod
    def _measured(level: Level, keys: Sequence[K], exact: Integers, source: Rng) -> Iterator[PrivateCount[K]]:
        """The picked rows, with fresh noise on their counts, dealt out by place."""
        noisy = exact + level.noise.sample(source.stream(purpose="count", level=level.number), len(keys))
        for key, released in zip(keys, noisy.tolist(), strict=True):
            yield PrivateCount(key, released, level.variance, level.number)

    def _source(self, rng: Rng) -> Rng:
        return checked_source(rng).child(
            mechanism="private_count_release",
            version=1,
            rho=self.rho,
            delta=self.delta,
            limit=self.limit,
            relative_error=self.relative_error,
            first_epsilon=self.first_epsilon,
        )


def private_count_release(
    rows: Sequence[tuple[K, int]],
    *,
    rho: Number,
    delta: Number,
    limit: int = 10_000,
    relative_error: Number = Fraction(1, 10),
    first_epsilon: Number = Fraction(1, 2000),
    rng: Rng,
) -> PrivateCounts[K]:
    """As many accurate counts as rho and delta buy: see `PrivateCountRelease` for its guarantee."""
    mechanism = PrivateCountRelease(
        rho=rational("rho", rho),
        delta=rational("delta", delta),
        limit=limit,
        relative_error=rational("relative_error", relative_error),
        first_epsilon=rational("first_epsilon", first_epsilon),
    )
    return mechanism.release(rows, rng)
