"""Quantiles of many keys at once, on a fixed public grid, by a noisy choice. A tree of counts is in `quantile_tree`.

The data is a sparse histogram. `codes` are the ascending distinct numbers key * points + point, `counts` say how many
values lie there. A person is in at most `max_keys` keys with at most `max_values` values each, which bounding enforces
before these mechanisms see the histogram. Proofs: proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import NamedTuple, Self

import numpy as np

from sfumato.accounting.composition import bounded_range_to_zcdp
from sfumato.accounting.numbers import Number, positive, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.mechanism import MAX_EPSILON, MAX_GROUPS
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.selection import Scores, winners
from sfumato.mechanisms.stream import Stream

MAX_POINTS = 2**40
MAX_CODES = 2**62
MAX_VALUES = 2**40
"""So many values in all. With denominators of at most MAX_PARTS, scores stay below 2^60."""
MAX_PARTS = 10**6
MAX_OFFSET = 2**60
MAX_DECADES = 12
BLOCK_KEYS = 1024


class ValueCodes(NamedTuple):
    """The values of all keys: how many of them lie at each code, codes ascending."""

    keys: int
    codes: Integers
    counts: Integers

    @classmethod
    def of(cls, keys: int, points: int, codes: Integers, counts: Integers) -> Self:
        keys = whole("keys", keys, at_most=MAX_CODES // points)
        exact = exact_counts("counts", counts)
        if not isinstance(codes, np.ndarray) or codes.ndim != 1 or codes.dtype != np.int64:
            raise InvalidArgument("codes", "must be an int64 array of one dimension")
        if len(codes) != len(exact):
            raise InvalidArgument("counts", "must be as many as there are codes")
        if len(codes) and (codes[0] < 0 or codes[-1] >= keys * points or (np.diff(codes) <= 0).any()):
            raise InvalidArgument("codes", "must ascend, each once, within 0 and keys * points - 1")
        if exact.sum(dtype=np.float64) > MAX_VALUES:
            raise InvalidArgument("counts", f"must be at most {MAX_VALUES} values in all")
        return cls(keys, codes, exact)

    def blocks(self, points: int, size: int) -> Iterator[tuple[slice, Self]]:
        """The values of up to `size` keys at a time, and which keys these are."""
        for first in range(0, self.keys, size):
            last = min(first + size, self.keys)
            start, stop = np.searchsorted(self.codes, [first * points, last * points])
            codes = self.codes[start:stop] - first * points
            yield slice(first, last), self._replace(keys=last - first, codes=codes, counts=self.counts[start:stop])


def checked_quantile(quantile: Number) -> Fraction:
    """A share strictly between 0 and 1. At 0 and 1 the score is flat beyond the values: any point would do."""
    exact = rational("quantile", quantile)
    if not 0 < exact < 1 or float(exact) in (0.0, 1.0):
        raise InvalidArgument(
            "quantile", "must lie strictly between 0 and 1; ask for 0.01 or 0.99 instead of the smallest or the largest"
        )
    return exact


@dataclass(frozen=True, slots=True)
class Grid:
    """Public points 0, ..., points - 1, and the weight that each has before a value is seen.

    Point i stands for `offset` + i steps. What people write down is often round: with `decades` = 2, half of the weight
    is shared by all points, a quarter by whole tens of steps and a quarter by whole hundreds. So a point weighs 2, and
    10 and 100 more as far as they divide its number of steps. Without decades all weigh the same.
    """

    points: int
    offset: int = 0
    decades: int = 0

    def __post_init__(self) -> None:
        whole("points", self.points, at_least=1, at_most=MAX_POINTS)
        whole("offset", self.offset, at_least=-MAX_OFFSET, at_most=MAX_OFFSET)
        whole("decades", self.decades, at_most=MAX_DECADES)

    def weights(self, first: Integers, widths: Integers) -> Integers:
        """The weight of `widths` points from `first` on."""
        parts = [number * heavy for _, heavy, _, number in self._multiples(first, widths)]
        weights: Integers = np.sum(parts, axis=0, dtype=np.int64)
        return weights

    def at_weight(self, first: Integers, widths: Integers, passed: Integers) -> Integers:
        """The point of each run at which its cumulated weight passes `passed`, in an order of its own."""
        points, left = first.copy(), passed.copy()
        for size, heavy, start, number in self._multiples(first, widths):
            here = (left >= 0) & (left < number * heavy)
            points[here] = (start + left // heavy)[here] * size - self.offset
            left = np.where(left < 0, left, left - number * heavy)
        return points

    def _multiples(self, first: Integers, widths: Integers) -> Iterator[tuple[int, int, Integers, Integers]]:
        """For steps, tens, hundreds, ...: their size, the weight of each, and the first and the number of each run."""
        for decade in range(self.decades + 1):
            size = 10**decade
            start, stop = (-((-self.offset - end) // size) for end in (first, first + widths))
            yield size, size if decade else max(self.decades, 1), start, stop - start


@dataclass(frozen=True, kw_only=True)
class QuantileChoice:
    """A point of the grid for each key, with probability proportional to weight * exp(epsilon * score / range).

    score(x) = -max(0, #{values < x} - q n, q n - #{values <= x}), for n values: by how many values x misses the
    quantile. range = 2 max(q, 1 - q) max_values is by how much one person can move the difference of two scores.

    Guarantee: epsilon-bounded range for one key, so epsilon^2 / 8 zCDP, and max_keys times that in all.
    Assumes:   a person is in at most `max_keys` keys with at most `max_values` values each; the grid is public.
    Error:     x misses by more than `miss(beta)` values with probability beta at most. There is no interval of values:
               how far apart they are must not be seen.
    Source:    McSherry, Talwar (2007); Smith (2011). Proof: proofs/quantiles.md.
    """

    epsilon: Fraction
    quantile: Fraction
    max_keys: int
    max_values: int
    grid: Grid

    def __post_init__(self) -> None:
        checked = {
            "epsilon": positive("epsilon", self.epsilon, at_most=MAX_EPSILON),
            "quantile": checked_quantile(self.quantile),
            "max_keys": whole("max_keys", self.max_keys, at_least=1, at_most=MAX_GROUPS),
            "max_values": whole("max_values", self.max_values, at_least=1, at_most=MAX_VALUES),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.quantile.denominator > MAX_PARTS:
            raise InvalidArgument("quantile", f"must be a fraction of at most {MAX_PARTS} parts, like Fraction(9, 10)")

    @classmethod
    def of_rho(cls, rho: Number, *, quantile: Fraction, max_keys: int, max_values: int, grid: Grid) -> Self:
        """The largest epsilon, to 64 binary digits, whose cost is at most rho."""
        keys = whole("max_keys", max_keys, at_least=1, at_most=MAX_GROUPS)
        exact = positive("rho", rho, at_most=keys * bounded_range_to_zcdp(MAX_EPSILON))
        epsilon = Fraction(math.isqrt(math.floor(8 * exact / keys * 4**64)), 2**64)
        if not epsilon:
            raise InvalidArgument("rho", "is too small to compute with")
        return cls(epsilon=epsilon, quantile=quantile, max_keys=keys, max_values=max_values, grid=grid)

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter of all keys together."""
        return self.max_keys * bounded_range_to_zcdp(self.epsilon)

    @property
    def rate(self) -> Fraction:
        """Of a whole score, which is the score times the denominator of q: epsilon / (range * denominator)."""
        below, parts = self.quantile.numerator, self.quantile.denominator
        return self.epsilon / (2 * max(below, parts - below) * self.max_values)

    def miss(self, beta: float = 0.05) -> float:
        """The number of values by which a choice misses the quantile, but for a probability of beta."""
        every = self.grid.weights(np.array([0]), np.array([self.grid.points]))
        return math.log(int(every[0]) / beta) / float(self.rate * self.quantile.denominator)

    def release(self, keys: int, codes: Integers, counts: Integers, rng: Rng) -> Integers:
        """A point for each of the keys 0, 1, ..., those without a value included."""
        histogram = ValueCodes.of(keys, self.grid.points, codes, counts)
        source, chosen = self._source(rng), np.empty(keys, np.int64)
        for number, (here, block) in enumerate(histogram.blocks(self.grid.points, BLOCK_KEYS)):
            chosen[here] = self._choose(block, source.child(block=number))
        return chosen

    def runs(self, histogram: ValueCodes) -> Runs:
        """Points next to one another that have one score, for each key in order: a value's point, or a gap."""
        of_key, point = np.divmod(histogram.codes, self.grid.points)
        key_ends = np.searchsorted(of_key, np.arange(histogram.keys), side="right")
        key_starts = np.concatenate([[0], key_ends[:-1]])
        before = np.concatenate([[0], np.cumsum(histogram.counts)])
        # Key k has the gap before each value, the value, and the gap behind the last: 2 m + 1 places from 2 i + k on.
        gaps = 2 * np.arange(len(point)) + of_key
        last = 2 * key_ends + np.arange(histogram.keys)
        size = 2 * len(point) + histogram.keys
        first, less, equal = np.zeros((3, size), np.int64)
        first[gaps + 1], first[gaps + 2] = point, point + 1
        stop = np.full(size, self.grid.points)
        stop[gaps], stop[gaps + 1] = point, point + 1
        less[gaps], less[gaps + 1] = before[:-1], before[:-1]
        less[last] = before[key_ends]
        equal[gaps + 1] = histogram.counts
        places = np.diff(last, prepend=-1)
        less -= np.repeat(before[key_starts], places)
        total = np.repeat(before[key_ends] - before[key_starts], places)
        kept = stop > first
        starts = np.concatenate([[0], np.cumsum(np.add.reduceat(kept, last - places + 1, dtype=np.int64))[:-1]])
        return Runs(starts, first[kept], (stop - first)[kept], self._scores(less, equal, total)[kept])

    def _scores(self, less: Integers, equal: Integers, total: Integers) -> Integers:
        """Whole scores: times the denominator of q."""
        below, parts = self.quantile.numerator, self.quantile.denominator
        too_high, too_low = parts * less - below * total, below * total - parts * (less + equal)
        scores: Integers = -np.maximum(np.maximum(too_high, too_low), 0)
        return scores

    def _choose(self, histogram: ValueCodes, source: Rng) -> Integers:
        runs = self.runs(histogram)
        weights = self.grid.weights(runs.first, runs.widths)
        # Scores matter by their differences within a key only; its best is its zero point, where floats are finest.
        best = np.maximum.reduceat(runs.scores, runs.starts)
        relative = runs.scores - np.repeat(best, np.diff(runs.starts, append=len(runs.scores)))
        won = winners(Scores(self.rate, relative, weights=weights), runs.starts, source.stream(purpose="gumbel"))
        passed = uniform_below(weights[won], source.stream(purpose="place"))
        return self.grid.at_weight(runs.first[won], runs.widths[won], passed)

    def _source(self, rng: Rng) -> Rng:
        return check_source(rng).child(
            mechanism="quantile_choice",
            version=2,
            epsilon=self.epsilon,
            quantile=self.quantile,
            max_keys=self.max_keys,
            max_values=self.max_values,
            points=self.grid.points,
            offset=self.grid.offset,
            decades=self.grid.decades,
        )


class Runs(NamedTuple):
    """Runs of points of one score: `widths` points from `first` on. Those of key k begin at `starts[k]`."""

    starts: Integers
    first: Integers
    widths: Integers
    scores: Integers


def uniform_below(bounds: Integers, stream: Stream) -> Integers:
    """A uniform number in 0, ..., bound - 1 for each bound: word i of the first lane whose word i is accepted.

    Exact: words from the last multiple of the bound on are rejected, so every rest is equally likely.
    """
    wide = bounds.astype(np.uint64)
    spare = (np.uint64(2**64 - 1) % wide + np.uint64(1)) % wide  # 2^64 mod bound
    drawn = np.empty(len(bounds), np.int64)
    open_ = np.ones(len(bounds), np.bool_)
    for lane in count():
        words = stream.words(lane, 0, len(bounds))
        accepted = open_ & (words <= np.uint64(2**64 - 1) - spare)
        drawn[accepted] = (words[accepted] % wide[accepted]).astype(np.int64)
        open_ &= ~accepted
        if not open_.any():
            break
    return drawn
