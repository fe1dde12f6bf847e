"""Any number of quantiles of many keys, with intervals, off one tree of noisy counts. Proof: proofs/quantiles.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.numbers import positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.mechanism import MAX_GROUPS
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.quantiles import MAX_POINTS, MAX_VALUES, ValueCodes, checked_quantile
from sfumato.mechanisms.random import Rng, check_source

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

MAX_BRANCHING = 1024
BLOCK_KEYS = 2**14
MISSED = 0.025
"""How often an end of an interval may be on the wrong side of the quantile."""

HALF = 0.5
"""Noisy counts are whole numbers: what is compared with a normal law is off by half a value at most."""


@dataclass(frozen=True, slots=True)
class TreeQuantiles:
    """Points of the grid, an array of one row per quantile and one column per key.

    Each exact quantile lies between its `low` and its `high`, both included, with 95 %.
    """

    values: Integers
    low: Integers
    high: Integers


@dataclass(frozen=True, kw_only=True)
class QuantileTree:
    """Noisy counts of the nodes of a tree over the grid; every quantile is read off the same tree.

    Guarantee: rho-zCDP for all keys, all quantiles and their intervals together.
    Assumes:   a person is in at most `max_keys` keys with at most `max_values` values each; the grid is public.
    Error:     the deviation of a rank is about that of a node times sqrt(height * branching) / 2; see the intervals.
    Source:    Hay et al. (2010); Google's library (BoundedQuantiles); discrete noise. Proof: proofs/quantiles.md.

    `height` is the one with the least deviation, unless it is given.
    """

    rho: Fraction
    max_keys: int
    max_values: int
    points: int
    height: int | None = None

    def __post_init__(self) -> None:
        points = whole("points", self.points, at_least=1, at_most=MAX_POINTS)
        height = self.height
        checked = {
            "rho": positive("rho", self.rho),
            "max_keys": whole("max_keys", self.max_keys, at_least=1, at_most=MAX_GROUPS),
            "max_values": whole("max_values", self.max_values, at_least=1, at_most=MAX_VALUES),
            "points": points,
            "height": best_height(points) if height is None else whole("height", height, at_least=1, at_most=40),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.levels > _most_levels(points) or self.branching > MAX_BRANCHING:
            raise InvalidArgument("height", f"must give nodes 2 to {MAX_BRANCHING} children each; leave it out")
        with blamed_on("rho"):
            self.noise  # noqa: B018

    @property
    def levels(self) -> int:
        assert self.height is not None  # noqa: S101
        return self.height

    @cached_property
    def branching(self) -> int:
        """The children of a node. Those behind the last point are known to be empty, and are left out."""
        return _branching(self.points, self.levels)

    @property
    def noise(self) -> DiscreteGaussian:
        """Of a node: one person moves all counts by max_values * sqrt(height * max_keys) at most, in L2."""
        return DiscreteGaussian(self._norm_squared / (2 * self.rho))

    @property
    def step(self) -> GaussianStep:
        """For exact accounting: each of a person's values moves one node of every level."""
        moved = self.levels * self.max_keys * self.max_values
        return GaussianStep(self.noise.sigma_squared, Fraction(self._norm_squared), moved)

    @property
    def _norm_squared(self) -> int:
        """The square of what one person moves at most: all values of a key may be in one node of each level."""
        return self.levels * self.max_keys * self.max_values**2

    def width(self, level: int) -> int:
        """The points below a node of a level. The root, of level 0, has them all."""
        return int(self.branching ** (self.levels - level))

    def release(
        self, keys: int, codes: Integers, counts: Integers, quantiles: Sequence[Fraction], rng: Rng
    ) -> TreeQuantiles:
        """The quantiles of each of the keys 0, 1, ..., those without a value included."""
        histogram = ValueCodes.of(keys, self.points, codes, counts)
        wanted = np.array([float(checked_quantile(quantile)) for quantile in quantiles])
        source, found = self._source(rng), np.empty((3, len(wanted), keys), np.int64)
        for number, (here, block) in enumerate(histogram.blocks(self.points, BLOCK_KEYS)):
            nodes = _Nodes(self, block, source.child(block=number))
            of_key, shares = np.tile(np.arange(block.keys), len(wanted)), np.repeat(wanted, block.keys)
            points = [nodes.descend(of_key, shares, side) for side in (0, -1, 1)]
            found[:, :, here] = np.reshape(points, (3, len(wanted), block.keys))
        return TreeQuantiles(*_monotone(found[0], found[1], found[2], wanted))

    def _source(self, rng: Rng) -> Rng:
        return check_source(rng).child(
            mechanism="quantile_tree",
            version=2,
            rho=self.rho,
            max_keys=self.max_keys,
            max_values=self.max_values,
            points=self.points,
            height=self.levels,
        )


def _monotone(values: Integers, low: Integers, high: Integers, wanted: Floats) -> tuple[Integers, ...]:
    """Larger quantiles are not smaller: values are sorted, and intervals widened. Sorted ends would not cover."""
    order = np.argsort(wanted, kind="stable")
    values = np.sort(values, axis=0)
    low = np.minimum.accumulate(np.minimum(low[order], values)[::-1])[::-1]
    high = np.maximum.accumulate(np.maximum(high[order], values))
    back = np.argsort(order)
    return values[back], low[back], high[back]


def _branching(points: int, height: int) -> int:
    """The smallest number of children, 2 at least, with which a tree of this height has so many leaves."""
    children = max(math.floor(math.pow(points, 1 / height)), 2)
    while children**height < points:
        children += 1
    return children


def _most_levels(points: int) -> int:
    return max((points - 1).bit_length(), 1)


def best_height(points: int) -> int:
    """At most height * (branching - 1) nodes are to the left of a point, each with noise of a variance ~ height."""
    heights = [at for at in range(_most_levels(points), 0, -1) if _branching(points, at) <= MAX_BRANCHING]
    return min(heights, key=lambda height: height**2 * (_branching(points, height) - 1))


class _Edge(NamedTuple):
    """The left edges of nodes, by least squares over all counts that were looked at on the way down.

    `excess`: how many more values lie before the edge than a share of all of them. `own`: the count of the node itself.
    Their variances and `covariance` are in units of that of a noisy count. An array has a column per node of a row.
    """

    excess: Floats
    variance: Floats
    covariance: Floats
    own: Floats
    own_variance: Floats

    @classmethod
    def of_root(cls, noisy: Integers, real: Integers, share: Floats) -> Self:
        """Of the children of roots. Of a root itself nothing is known but the sum of its children."""
        before, edges = np.cumsum(noisy, axis=1) - noisy, np.arange(noisy.shape[1])
        variance = share**2 * real + (1 - 2 * share) * edges
        ones = np.ones(noisy.shape)
        return cls(before - share * noisy.sum(axis=1, keepdims=True), variance, -share * ones, noisy * ones, ones)

    def children(self, noisy: Integers, real: Integers) -> Self:
        """Of the children of these nodes. Each count is known twice: as such, and as the sum of its children."""
        before, edges = np.cumsum(noisy, axis=1) - noisy, np.arange(noisy.shape[1])
        both = real + self.own_variance
        apart = (noisy.sum(axis=1, keepdims=True) - self.own) / both
        weight = edges - self.covariance
        return type(self)(
            self.excess + before - weight * apart,
            self.variance + edges - weight**2 / both,
            -weight / both,
            noisy - apart,
            np.broadcast_to(1 - 1 / both, noisy.shape),
        )


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
        self.seen = [np.empty(0, np.int64) for _ in range(self.tree.levels)]
        self.noisy = [np.empty((0, self.tree.branching), np.int64) for _ in range(self.tree.levels)]

    def descend(self, of_key: Integers, shares: Floats, side: int) -> Integers:
        """From each key's root down to a point: an end of the interval (side -1 or 1), or the quantile itself (0).

        The excess of an edge between two children is how many more values than a share of them all lie before it. Too
        low is an edge of significantly negative excess, too high one of significantly positive excess. To the lower
        end, each step goes to the child before the first edge that is not too low; to the upper end, to the child
        behind the last edge that is not too high. For the quantile nothing but 0 is in between, and the child is the
        middle of the two.
        """
        tree, rows = self.tree, np.arange(len(of_key))
        significant = NormalDist().inv_cdf(1 - MISSED / tree.levels) * tree.noise.deviation
        places, at = np.zeros(len(of_key), np.int64), None
        for level in range(tree.levels):
            noisy, real = self.children(level, of_key, places), self.real(level, places)
            counted = noisy, real[:, None]
            below = _Edge.of_root(*counted, shares[:, None]) if at is None else at.children(*counted)
            slack = abs(side) * (significant * np.sqrt(np.maximum(below.variance, 0)) + HALF)
            last, first = _last_edge(below.excess <= slack, real), _first_edge(below.excess >= -slack, real) - 1
            child = last if side > 0 else first if side < 0 else (first + last) // 2
            at = _Edge(*(part[rows, child][:, None] for part in below))
            places = places * tree.branching + child
        return places

    def real(self, level: int, places: Integers) -> Integers:
        """How many children of each node have a point of the grid."""
        wide = self.tree.width(level + 1)
        left = self.tree.points - places * self.tree.width(level)
        return np.clip(-(-left // wide), 1, self.tree.branching)

    def children(self, level: int, of_key: Integers, places: Integers) -> Integers:
        """The noisy counts of the children of these nodes; each is drawn once, at its first look."""
        nodes = of_key * self.tree.branching**level + places
        fresh = np.setdiff1d(nodes, self.seen[level])
        if len(fresh):
            exact, known = self.exact(level, fresh)
            self.looks += 1
            stream = self.source.stream(purpose="nodes", look=self.looks)
            noisy = exact + np.where(known, 0, self.tree.noise.sample(stream, exact.size).reshape(exact.shape))
            seen = np.concatenate([self.seen[level], fresh])
            order = np.argsort(seen)
            self.seen[level] = seen[order]
            self.noisy[level] = np.concatenate([self.noisy[level], noisy])[order]
        found: Integers = self.noisy[level][np.searchsorted(self.seen[level], nodes)]
        return found

    def exact(self, level: int, nodes: Integers) -> tuple[Integers, Mask]:
        """The counts of their children, and whether a child is known to be empty: it is behind the last point."""
        of_key, places = np.divmod(nodes, self.tree.branching**level)
        edges = places[:, None] * self.tree.branching + np.arange(self.tree.branching + 1)
        edges = np.minimum(edges * self.tree.width(level + 1), self.tree.points)
        codes = edges + of_key[:, None] * self.tree.points
        counts: Integers = np.diff(self.before[np.searchsorted(self.histogram.codes, codes)], axis=1)
        return counts, edges[:, 1:] == edges[:, :-1]


def _last_edge(passes: Mask, real: Integers) -> Integers:
    """The last edge that passes of those before a child; the first one always does."""
    passes &= np.arange(passes.shape[1]) < real[:, None]
    passes[:, 0] = True
    last: Integers = passes.shape[1] - 1 - passes[:, ::-1].argmax(axis=1)
    return last


def _first_edge(passes: Mask, real: Integers) -> Integers:
    """The first edge that passes of those behind a child; the last one always does."""
    behind = np.pad(passes[:, 1:], ((0, 0), (0, 1)))
    first: Integers = 1 + (behind | (np.arange(1, passes.shape[1] + 1) >= real[:, None])).argmax(axis=1)
    return first
