"""Private Count Release: as many accurate counts as a budget can buy, without a bound on what a person contributes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Generic

import numpy as np

from sfumato.accounting.composition import bounded_range_to_zcdp
from sfumato.accounting.numbers import Number, positive, probability, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import ranked_rows
from sfumato.mechanisms.intervals import Floats
from sfumato.mechanisms.mechanism import MAX_EPSILON, MAX_ROWS
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.pooling import Estimates, Passes
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.release import K
from sfumato.mechanisms.selection import Scores, runners_ahead
from sfumato.mechanisms.stream import Stream
from sfumato.mechanisms.unknown_domain import bottom_gap

MAX_RHO = bounded_range_to_zcdp(MAX_EPSILON)
"""What a single pick at the largest epsilon costs. No pass can have a larger epsilon."""

DOUBLING = 8
"""From pass to pass epsilon grows by 2^(1 / DOUBLING). More passes tell more about each count; each costs a pick."""

WITHIN = Fraction(329, 200)
"""A relative error is kept by 90 % of counts: it is 1.645 deviations, of the count and its pass together."""

COUNT_ALONE = Fraction(11, 10)
"""Of the count without its pass it is so many deviations at least: what the pass tells depends on a model."""

COARSEST = Fraction(3, 10)
"""With more noise than this relative error needs, what tells a count is mostly the model of the passes."""

SMALLEST = Fraction(9, 10)
"""Most counts that stand out are at least this part of the distance to the bottom element."""

PASS_DEVIATION = 2
"""A pass at epsilon tells a count to PASS_DEVIATION / epsilon, or better."""

FEW, STEEPEST = 5, 4.0
"""Fewer rows tell nothing of a power law, and its exponent is at most this."""

# Rounding does no harm: thresholds, noise and charges all come from the epsilon that it gives.
_FACTORS = [Fraction(math.isqrt(math.isqrt(math.isqrt(2**eighth << 256))), 2**32) for eighth in range(DOUBLING)]


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
        ahead = runners_ahead(scores, stream, first)
        return [runner - 1 for runner in ahead], len(ahead) < first


@dataclass(frozen=True, slots=True)
class PrivateCount(Generic[K]):
    """A released count with its 95 % interval and its deviation.

    It is pooled from `noisy`, the count with its noise, and from `level`, the pass that found it.
    """

    key: K
    count: int
    low: int
    high: int
    deviation: float
    noisy: int
    level: int


@dataclass(frozen=True, slots=True)
class PrivateCounts(Generic[K]):
    """Everything that was released, in the order in which it was found, and what `levels` passes took of the budget.

    `cut`: the budget ended the last pass, and not the bottom element.
    """

    rows: tuple[PrivateCount[K], ...]
    rho: Fraction
    delta: Fraction
    levels: int
    cut: bool


@dataclass(frozen=True, kw_only=True)
class PrivateCountRelease:
    """Counts in passes: each picks what stands out at its epsilon, and measures it to a relative error.

    Guarantee: the zCDP ledger of (rho, delta): (eps, delta + delta')-DP for every delta' > 0 with
               eps = `zcdp_epsilon(rho, delta')`, however many groups a person is in.
    Assumes:   counts of distinct people: adding a person changes each count by 0 or 1.
    Error:     at least 90 % of counts are within `relative_error` of the truth, and 95 % in their intervals, up to a
               `relative_error` of `COARSEST`. Beyond it intervals rest on the model of the passes: at 1 they hold
               85 to 92 %. Counts are whole: where a `relative_error` is a few people, 82 to 90 % are within it.
    Source:    Rogers (2024), Algorithm 2, with its loop condition, its delta, its cutoff and its noise corrected, each
               pass as one race, finer passes, and counts pooled with them. Proof: proofs/pcr.md.

    A pass at epsilon puts a bottom element 1 + ln(limit / delta_level) / epsilon above the first count that is out
    of sight and picks by Gumbel noise until it is reached; what was picked is counted and removed, epsilon grows by
    2^(1/8), and so on, until the next row could cost more than is left. `limit` rows may be looked at. In which pass a
    row stood out is a second measurement of its count, and the released count is pooled from both.
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
        first = next(self._make_levels(), None)
        with blamed_on("first_epsilon"):
            affordable = first is not None and first.noise and first.row <= self.rho
        if not affordable:
            way_out = "give more, a larger relative_error, or a smaller first_epsilon"
            raise InvalidArgument("rho", f"cannot buy a single count; {way_out}")

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The passes that rho can pay for if none of them finds anything: there are never more."""
        return tuple(self._make_levels())

    @property
    def delta_level(self) -> Fraction:
        """What a pass takes of delta, whatever it finds."""
        return self.delta / len(self._epsilons)

    def release(self, rows: Sequence[tuple[K, int]], rng: Rng) -> PrivateCounts[K]:
        """Run it on the `limit + 1` largest counts, ties by key."""
        walk = Walk(self, rows, rng)
        walk.go()
        found = walk.pool()
        numbers = (found.counts, found.low, found.high, found.deviations, walk.noisy, walk.level)
        pooled = (PrivateCount(*row) for row in zip(walk.keys, *(each.tolist() for each in numbers), strict=True))
        return PrivateCounts(tuple(pooled), walk.spent, walk.passes * self.delta_level, walk.passes, walk.cut)

    @cached_property
    def _epsilons(self) -> tuple[Fraction, ...]:
        """Each 2^(1/8) times the one before it, as long as rho can pay for a pick at every one of them."""
        epsilons: list[Fraction] = []
        left = self.rho
        while True:
            doublings, eighths = divmod(len(epsilons), DOUBLING)
            epsilon = self.first_epsilon * 2**doublings * _FACTORS[eighths]
            left -= bounded_range_to_zcdp(epsilon)
            if left < 0:
                return tuple(epsilons)
            epsilons.append(epsilon)

    def _make_levels(self) -> Iterator[Level]:
        for number, epsilon in enumerate(self._epsilons):
            gap = bottom_gap(epsilon, self.delta_level, 1, self.limit)
            error = self.relative_error * SMALLEST * gap
            known = (epsilon / PASS_DEVIATION) ** 2 if number else 0  # in the first pass a count may be anywhere above
            precision = max((WITHIN / error) ** 2 - known, (COUNT_ALONE / error) ** 2)
            yield Level(number, epsilon, gap, 1 / precision)


class Walk(Generic[K]):
    """A release of the `limit + 1` largest counts on its way, as far as `go` has brought it.

    What can be read off it is a function of what was released; `keys` are in the order in which they were found.
    """

    def __init__(self, mechanism: PrivateCountRelease, rows: Sequence[tuple[K, int]], rng: Rng) -> None:
        self.mechanism = mechanism
        self.spent, self.passes, self.cut = Fraction(0), 0, False
        self._most, self._before = mechanism.rho, Fraction(0)
        self.keys: list[K] = []
        self.level, self.noisy = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._keys, self._exact = ranked_rows(rows, mechanism.limit)
        self._source = _source(mechanism, rng)
        self._outside = int(self._exact[mechanism.limit])  # read once: it stays although rows are removed
        self._unseen = np.flatnonzero(self._exact > self._outside)

    def go(self, until: Fraction | None = None, at_most: Fraction | None = None) -> None:
        """Go on until so much of rho is spent, or to the end. Where nothing is left to find, passes go on all the same.

        A pass that the budget cuts is the last. If it was cut at an `at_most` below rho, it can be taken up again: the
        race and the noise are the same, so it finds what it has found, and more.
        """
        goal, most = (self.mechanism.rho if given is None else given for given in (until, at_most))
        if self.cut and most > self._most:
            self._take_back()
        self._most = most
        for level in self.mechanism.levels[self.passes :]:
            affordable = (most - self.spent) // level.row
            if self.cut or not affordable or self.spent >= goal:
                return
            self._pass(level, affordable)

    def _take_back(self) -> None:
        """Undo the last pass."""
        kept = self.level < self.passes - 1
        places = {key: place for place, key in enumerate(self._keys)}
        taken = [places[key] for key, stays in zip(self.keys, kept, strict=True) if not stays]
        self._unseen = np.union1d(self._unseen, np.array(taken, np.int64))
        self.keys = [key for key, stays in zip(self.keys, kept, strict=True) if stays]
        self.level, self.noisy = self.level[kept], self.noisy[kept]
        self.spent, self.passes, self.cut = self._before, self.passes - 1, False

    def _pass(self, level: Level, affordable: int) -> None:
        self._before = self.spent
        stream = self._source.stream(purpose="gumbel", level=level.number)
        places, stopped = level.race(self._exact[self._unseen], self._outside, affordable, stream)
        picked, self._unseen = self._unseen[places], np.delete(self._unseen, places)
        noise = level.noise.sample(self._source.stream(purpose="count", level=level.number), len(picked))
        self.keys += [self._keys[place] for place in picked]
        self.level = np.concatenate([self.level, np.full(len(picked), level.number)])
        self.noisy = np.concatenate([self.noisy, self._exact[picked] + noise])
        self.spent += level.cost(len(picked), stopped=stopped)
        self.passes, self.cut = level.number + 1, not stopped

    @property
    def deviations(self) -> Floats:
        """Of the noise on the counts of the rows."""
        return self._passes.deviations[self.level]

    def pool(self, noisy: Floats | None = None, deviations: Floats | None = None) -> Estimates:
        """The counts of the rows, from their noisy counts, or from better ones, and from the passes."""
        given = self.noisy.astype(np.float64) if noisy is None else noisy
        return self._passes.pool(given, self.deviations if deviations is None else deviations)

    def expected_reach(self) -> float:
        """About the smallest count that is found if the walk goes on to the end.

        By a power law through what was found: of keys with at least c people there are proportionally c^-a. A row costs
        proportionally c^-2, so what is spent when the walk has come down to c is proportionally c^-(a + 2).
        """
        counts = self.pool().counts
        if len(counts) < FEW:
            smallest, exponent = float(self.mechanism.levels[self.passes - 1].gap), 1.0
        else:
            smallest = float(counts.min())
            exponent = len(counts) / max(float(np.log(counts / smallest).sum()), len(counts) / STEEPEST)
        return float(smallest * float(self.spent / self.mechanism.rho) ** (1 / (exponent + 2)))

    @property
    def _passes(self) -> Passes:
        levels = self.mechanism.levels[: self.passes]
        return Passes(
            epsilons=np.array([float(level.epsilon) for level in levels]),
            gaps=np.array([float(level.gap) for level in levels]),
            deviations=np.array([level.noise.deviation for level in levels]),
            cut=self.cut,
            level=self.level,
            noisy=self.noisy.astype(np.float64),
        )


def _source(mechanism: PrivateCountRelease, rng: Rng) -> Rng:
    return check_source(rng).child(
        mechanism="private_count_release",
        version=2,  # 1 had coarser passes, and counts that were not pooled
        rho=mechanism.rho,
        delta=mechanism.delta,
        limit=mechanism.limit,
        relative_error=mechanism.relative_error,
        first_epsilon=mechanism.first_epsilon,
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
