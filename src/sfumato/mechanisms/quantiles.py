"""Quantiles of many keys at once, on a fixed public grid: several from one noisy tree, or one by a noisy choice.

The data is a sparse histogram. `codes` are the ascending distinct numbers key * points + point, `counts` say how many
values lie there. A person is in at most `max_keys` keys with at most `max_values` values each, which bounding enforces
before these mechanisms see the histogram. Proofs: proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.composition import bounded_range_to_zcdp
from sfumato.accounting.numbers import Number, positive, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.mechanism import MAX_EPSILON, MAX_GROUPS
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.random import Rng, checked_source
from sfumato.mechanisms.selection import Scores, winners
from sfumato.mechanisms.stream import Stream

Floats: TypeAlias = NDArray[np.float64]

MAX_POINTS = 2**40
MAX_CODES = 2**62
MAX_VALUES = 2**40
"""So many values in all. With denominators of at most MAX_PARTS, scores stay below 2^60."""
MAX_PARTS = 10**6
BLOCK_KEYS = 1024

# A share of a node that is so close to a child's end is at that end: only rounding moved it.
SAME_SHARE = 1e-9
NORMAL_95 = 1.959963984540054
# The mean of max(Z, 0) for a standard normal Z: what an empty node seems to hold once negative counts are zero.
STANDS_OUT = 1.5
"""So many deviations make a node count for the value of a quantile."""

EMPTY_SEEMS = 1 / math.sqrt(2 * math.pi)


class ValueCodes(NamedTuple):
    """The values of all keys: how many of them lie at each code, codes ascending."""

    keys: int
    codes: Integers
    counts: Integers

    @classmethod
    def checked(cls, keys: int, points: int, codes: Integers, counts: Integers) -> Self:
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


def _quantile(quantile: Number) -> Fraction:
    exact = rational("quantile", quantile)
    if not 0 < exact < 1:
        raise InvalidArgument("quantile", "must lie strictly between 0 and 1")
    return exact


# --- Several quantiles: a tree of noisy counts -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeQuantiles:
    """Positions between 0 and `points`, an array of one row a quantile and one column a key.

    Between `low` and `high` the exact quantile lies with about 95 %: the deviation of its rank is an estimate.
    """

    values: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class QuantileTree:
    """Noisy counts of the nodes of a tree over the grid; every quantile is read off the same tree.

    Guarantee: rho-zCDP for all keys, all quantiles and their intervals together.
    Assumes:   a person is in at most `max_keys` keys with at most `max_values` values each; the grid is public.
    Error:     the deviation of a rank is about that of a node times sqrt(height * branching) / 2; see the intervals.
    Source:    Hay et al. (2010); Google's library (BoundedQuantiles); discrete noise. Proof: proofs/quantiles.md.

    There are `branching ** height` points. A node without a child above zero gives its middle.
    """

    rho: Fraction
    max_keys: int
    max_values: int
    height: int = 4
    branching: int = 16

    def __post_init__(self) -> None:
        checked = {
            "rho": positive("rho", self.rho),
            "max_keys": whole("max_keys", self.max_keys, at_least=1, at_most=MAX_GROUPS),
            "max_values": whole("max_values", self.max_values, at_least=1, at_most=MAX_VALUES),
            "height": whole("height", self.height, at_least=1, at_most=40),
            "branching": whole("branching", self.branching, at_least=2, at_most=1024),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.points > MAX_POINTS:
            raise InvalidArgument("height", f"must give at most {MAX_POINTS} points, branching ** height")
        with blamed_on("rho"):
            self.noise  # noqa: B018

    @property
    def points(self) -> int:
        return int(self.branching**self.height)

    @property
    def noise(self) -> DiscreteGaussian:
        """Of a node: one person moves all counts by max_values * sqrt(height * max_keys) at most, in L2."""
        return DiscreteGaussian(self.height * self.max_keys * self.max_values**2 / (2 * self.rho))

    def release(
        self, keys: int, codes: Integers, counts: Integers, quantiles: Sequence[Fraction], rng: Rng
    ) -> TreeQuantiles:
        """The quantiles of each of the keys 0, 1, ..., those without a value included."""
        tree = _Nodes(self, ValueCodes.checked(keys, self.points, codes, counts), self._source(rng))
        wanted = np.array([float(_quantile(quantile)) for quantile in quantiles])
        of_key = np.tile(np.arange(keys), len(wanted))
        shares = np.repeat(wanted, keys)
        walk = tree.walk(of_key, shares, sure=True)
        totals = tree.totals(of_key)
        low = self._end(tree, of_key, shares - walk.over / totals)
        high = self._end(tree, of_key, shares + walk.under / totals)
        ends = np.minimum(low, walk.positions), walk.positions, np.maximum(high, walk.positions)
        below, values, above = (_monotone(end.reshape(len(wanted), keys), wanted) for end in ends)
        return TreeQuantiles(values, below, above)

    def _end(self, tree: _Nodes, of_key: Integers, shares: Floats) -> Floats:
        """Where these ranks lie. A rank beyond the last value may be anywhere up to the end of the grid."""
        positions = np.where(shares <= 0, 0.0, float(self.points))
        inside = (shares > 0) & (shares < 1)
        positions[inside] = tree.walk(of_key[inside], shares[inside]).positions
        return positions

    def _source(self, rng: Rng) -> Rng:
        return checked_source(rng).child(
            mechanism="quantile_tree",
            version=1,
            rho=self.rho,
            max_keys=self.max_keys,
            max_values=self.max_values,
            height=self.height,
            branching=self.branching,
        )


def _monotone(positions: Floats, wanted: Floats) -> Floats:
    """Larger quantiles are not smaller: each key's positions, put in the order of the quantiles."""
    order = np.argsort(wanted, kind="stable")
    ordered = np.empty_like(positions)
    ordered[order] = np.sort(positions, axis=0)
    return ordered


class _TreeWalk(NamedTuple):
    """Where walks ended, and by how many values the rank there may be too high and too low, with 95 %."""

    positions: Floats
    over: Floats
    under: Floats


@dataclass(slots=True)
class _Nodes:
    """The noisy counts of nodes, drawn when they are first looked at and kept from then on."""

    tree: QuantileTree
    histogram: ValueCodes
    source: Rng
    before: Integers = field(init=False)
    looks: int = 0
    seen: list[Integers] = field(init=False)
    noisy: list[Integers] = field(init=False)

    def __post_init__(self) -> None:
        self.before = np.concatenate([[0], np.cumsum(self.histogram.counts)])
        self.seen = [np.empty(0, np.int64) for _ in range(self.tree.height)]
        self.noisy = [np.empty((0, self.tree.branching), np.int64) for _ in range(self.tree.height)]

    def totals(self, of_key: Integers) -> Floats:
        """The noisy number of values of each key, 1 at least."""
        root = np.maximum(self.noisy[0], 0).sum(axis=1)[np.searchsorted(self.seen[0], of_key)]
        totals: Floats = np.maximum(root, 1).astype(np.float64)
        return totals

    def walk(self, of_key: Integers, shares: Floats, *, sure: bool = False) -> _TreeWalk:
        """From each key's root down to the leaf in which its count passes `share` of the whole.

        A `sure` walk counts only children that stand out of the noise, where one does: the noise of many empty ones,
        cut off at zero, would weigh more than a few values, and draw every quantile towards the middle of the grid.
        """
        places, left = of_key.copy(), shares.copy()
        positions, going = np.zeros(len(places)), np.arange(len(places))
        variance, over, under = np.zeros((3, len(places)))
        for level in range(self.tree.height):
            width = self.tree.branching ** (self.tree.height - level)
            step = self._step(level, places, left, sure=sure)
            variance[going] += step.variance
            over[going] += left * step.seeming
            under[going] += (1 - left) * step.seeming
            stuck = step.child < 0
            # Whole numbers first: codes may be too large for a float.
            positions[going[stuck]] = places[stuck] * width - of_key[going[stuck]] * self.tree.points + width / 2
            going, left = going[~stuck], step.left[~stuck]
            places = places[~stuck] * self.tree.branching + step.child[~stuck]
        positions[going] = (places - of_key[going] * self.tree.points) + left
        random, deviation = NORMAL_95 * np.sqrt(variance), self.tree.noise.deviation
        return _TreeWalk(positions, deviation * np.hypot(random, over), deviation * np.hypot(random, under))

    def _step(self, level: int, places: Integers, shares: Floats, *, sure: bool) -> _Step:
        """One level down from the nodes `places`, of which `shares` lie to the left of what is looked for."""
        noisy = self._children(level, places)
        held = np.maximum(noisy, 0)
        if sure:
            certain = np.where(noisy < STANDS_OUT * self.tree.noise.deviation, 0, held)
            held = np.where(certain.any(axis=1, keepdims=True), certain, held)
        ends = np.cumsum(held, axis=1)
        whole_node = ends[:, -1]
        target = shares * whole_node
        reached = (ends >= (target - SAME_SHARE * whole_node)[:, None]) & (held > 0)
        child, rows = reached.argmax(axis=1), np.arange(len(places))
        inside = np.maximum(held[rows, child], 1)
        left = np.clip((target - (ends[rows, child] - held[rows, child])) / inside, 0.0, 1.0)
        # The rank is off by (1 - share) * noise to the left - share * noise to the right.
        variance = (1 - shares) ** 2 * child + shares**2 * (self.tree.branching - child)
        seeming = EMPTY_SEEMS * np.count_nonzero(noisy <= self.tree.noise.deviation, axis=1)
        return _Step(np.where(whole_node > 0, child, -1), left, variance, seeming)

    def _children(self, level: int, places: Integers) -> Integers:
        """The noisy counts of the children of these nodes; each is drawn once, at its first look."""
        fresh = np.setdiff1d(places, self.seen[level])
        if len(fresh):
            exact = self._exact(level, fresh)
            self.looks += 1
            stream = self.source.stream(purpose="nodes", look=self.looks)
            noisy = exact + self.tree.noise.sample(stream, exact.size).reshape(exact.shape)
            seen = np.concatenate([self.seen[level], fresh])
            order = np.argsort(seen)
            self.seen[level] = seen[order]
            self.noisy[level] = np.concatenate([self.noisy[level], noisy])[order]
        children: Integers = self.noisy[level][np.searchsorted(self.seen[level], places)]
        return children

    def _exact(self, level: int, nodes: Integers) -> Integers:
        """The counts of their children."""
        width = self.tree.branching ** (self.tree.height - level - 1)
        edges = (nodes[:, None] * self.tree.branching + np.arange(self.tree.branching + 1)) * width
        counts: Integers = np.diff(self.before[np.searchsorted(self.histogram.codes, edges)], axis=1)
        return counts


class _Step(NamedTuple):
    """The child to go on in (-1: none holds anything) and the share of it; and, in deviations of the noise, the
    variance of the rank and what children that look empty seem to hold.
    """

    child: Integers
    left: Floats
    variance: Floats
    seeming: Floats


# --- One quantile: the exponential mechanism --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class QuantileChoice:
    """A point of the grid for each key, with probability proportional to exp(epsilon * score / range).

    score(x) = -|(1 - q) #{values < x} - q #{values > x}|, and range = 2 max(q, 1 - q) max_values is by how much one
    person can move the difference of two scores.

    Guarantee: epsilon-bounded range for one key, so epsilon^2 / 8 zCDP, and max_keys times that in all.
    Assumes:   a person is in at most `max_keys` keys with at most `max_values` values each; the grid is public.
    Source:    McSherry, Talwar (2007); Smith (2011). Proof: proofs/quantiles.md.
    """

    epsilon: Fraction
    quantile: Fraction
    max_keys: int
    max_values: int
    points: int

    def __post_init__(self) -> None:
        checked = {
            "epsilon": positive("epsilon", self.epsilon, at_most=MAX_EPSILON),
            "quantile": _quantile(self.quantile),
            "max_keys": whole("max_keys", self.max_keys, at_least=1, at_most=MAX_GROUPS),
            "max_values": whole("max_values", self.max_values, at_least=1, at_most=MAX_VALUES),
            "points": whole("points", self.points, at_least=1, at_most=MAX_POINTS),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.quantile.denominator > MAX_PARTS:
            raise InvalidArgument("quantile", f"must be a fraction of at most {MAX_PARTS} parts, like Fraction(9, 10)")

    @classmethod
    def of_rho(cls, rho: Number, *, quantile: Fraction, max_keys: int, max_values: int, points: int) -> Self:
        """The largest epsilon, to 64 binary digits, whose cost is at most rho."""
        keys = whole("max_keys", max_keys, at_least=1, at_most=MAX_GROUPS)
        exact = positive("rho", rho, at_most=keys * bounded_range_to_zcdp(MAX_EPSILON))
        epsilon = Fraction(math.isqrt(math.floor(8 * exact / keys * 4**64)), 2**64)
        if not epsilon:
            raise InvalidArgument("rho", "is too small to compute with")
        return cls(epsilon=epsilon, quantile=quantile, max_keys=keys, max_values=max_values, points=points)

    @property
    def rho(self) -> Fraction:
        """The zCDP parameter of all keys together."""
        return self.max_keys * bounded_range_to_zcdp(self.epsilon)

    @property
    def rate(self) -> Fraction:
        """Of a whole score, which is the score times the denominator of q: epsilon / (range * denominator)."""
        below, parts = self.quantile.numerator, self.quantile.denominator
        return self.epsilon / (2 * max(below, parts - below) * self.max_values)

    def release(self, keys: int, codes: Integers, counts: Integers, rng: Rng) -> Integers:
        """A point for each of the keys 0, 1, ..., those without a value included."""
        histogram = ValueCodes.checked(keys, self.points, codes, counts)
        source = self._source(rng)
        chosen = np.empty(keys, np.int64)
        for first in range(0, keys, BLOCK_KEYS):
            last = min(first + BLOCK_KEYS, keys)
            start, stop = np.searchsorted(histogram.codes, [first * self.points, last * self.points])
            block = ValueCodes(
                last - first, histogram.codes[start:stop] - first * self.points, histogram.counts[start:stop]
            )
            chosen[first:last] = self._choose(block, source.child(block=first // BLOCK_KEYS))
        return chosen

    def runs(self, histogram: ValueCodes) -> Runs:
        """Points next to one another that have one score, for each key in order: a value's point, or a gap."""
        of_key, point = np.divmod(histogram.codes, self.points)
        key_ends = np.searchsorted(of_key, np.arange(histogram.keys), side="right")
        key_starts = np.concatenate([[0], key_ends[:-1]])
        before = np.concatenate([[0], np.cumsum(histogram.counts)])
        # Key k has the gap before each value, the value, and the gap behind the last: 2 m + 1 places from 2 i + k on.
        gaps = 2 * np.arange(len(point)) + of_key
        last = 2 * key_ends + np.arange(histogram.keys)
        size = 2 * len(point) + histogram.keys
        first, less, equal = np.zeros((3, size), np.int64)
        first[gaps + 1], first[gaps + 2] = point, point + 1
        stop = np.full(size, self.points)
        stop[gaps], stop[gaps + 1] = point, point + 1
        less[gaps], less[gaps + 1] = before[:-1], before[:-1]
        less[last] = before[key_ends]
        equal[gaps + 1] = histogram.counts
        places = np.diff(last, prepend=-1)
        less -= np.repeat(before[key_starts], places)
        more = np.repeat(before[key_ends] - before[key_starts], places) - less - equal
        below, parts = self.quantile.numerator, self.quantile.denominator
        scores = -np.abs((parts - below) * less - below * more)
        kept = stop > first
        starts = np.concatenate([[0], np.cumsum(np.add.reduceat(kept, last - places + 1, dtype=np.int64))[:-1]])
        return Runs(starts, first[kept], (stop - first)[kept], scores[kept])

    def _choose(self, histogram: ValueCodes, source: Rng) -> Integers:
        runs = self.runs(histogram)
        # Scores matter by their differences within a key only; its best is its zero point, where floats are finest.
        best = np.maximum.reduceat(runs.scores, runs.starts)
        relative = runs.scores - np.repeat(best, np.diff(runs.starts, append=len(runs.scores)))
        scores = Scores(self.rate, relative, weights=runs.widths)
        won = winners(scores, runs.starts, source.stream(purpose="gumbel"))
        return runs.first[won] + uniform_below(runs.widths[won], source.stream(purpose="place"))

    def _source(self, rng: Rng) -> Rng:
        return checked_source(rng).child(
            mechanism="quantile_choice",
            version=1,
            epsilon=self.epsilon,
            quantile=self.quantile,
            max_keys=self.max_keys,
            max_values=self.max_values,
            points=self.points,
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
