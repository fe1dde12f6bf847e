"""Output laws of the mechanisms, from first principles, and the divergences between two of them.

Nothing here draws a random number and nothing calls the code under test: a law is a sum of products of the
probabilities in the mechanism's definition. The tests hand in the parameters that the implementation computed
(thresholds, scales, probabilities), so a wrong one makes a guarantee fail here.

A histogram is a tuple of counts, the key being the position. A `Pair` holds the probabilities of the same
outcomes under two neighbours; outcomes of equal likelihood ratio may be one entry, which no divergence notices.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Noise, UnknownGumbel

Histogram: TypeAlias = tuple[int, ...]
Law: TypeAlias = dict[Any, float]
Floats: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Floats, Floats]

# What float64 may add to a sum of a few thousand products.
TOLERANCE = 1e-12
# What truncated noise may leave out.
NEGLIGIBLE = 1e-18


# --- Divergences ------------------------------------------------------------------------------------------------


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """The largest P(S) - exp(epsilon) Q(S) over sets S: the exact delta at epsilon, in one direction."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def exact_delta(pair: Pair, epsilon: float) -> float:
    """The smallest delta for which two neighbours are (epsilon, delta)-indistinguishable."""
    return max(hockey_stick(*pair, epsilon), hockey_stick(*pair[::-1], epsilon))


def worst_delta(pairs: Iterable[Pair], epsilon: float) -> float:
    """The exact delta over many neighbours."""
    return max(exact_delta(pair, epsilon) for pair in pairs)


def renyi(pair: Pair, alpha: float) -> float:
    """The Rényi divergence of order alpha > 1, the larger of both directions; infinite where supports differ.

    Truncated noise leaves less than NEGLIGIBLE outside the common support, which is passed over.
    """
    return max(_renyi(*pair, alpha), _renyi(*pair[::-1], alpha))


def _renyi(p: Floats, q: Floats, alpha: float) -> float:
    if p[q == 0].sum() > NEGLIGIBLE:
        return math.inf
    support = (p > 0) & (q > 0)
    logs = alpha * np.log(p[support]) + (1 - alpha) * np.log(q[support])
    return float(np.logaddexp.reduce(logs)) / (alpha - 1)


def bounded_range(p: Floats, q: Floats) -> float:
    """The largest difference between two log likelihood ratios."""
    ratios = np.log(p / q)
    return float(ratios.max() - ratios.min())


def paired(p: Mapping[Hashable, float], q: Mapping[Hashable, float]) -> Pair:
    """Two laws side by side."""
    outcomes = p.keys() | q.keys()
    return np.array([p.get(o, 0.0) for o in outcomes]), np.array([q.get(o, 0.0) for o in outcomes])


def product(pairs: Iterable[Pair]) -> Pair:
    """Independent releases together."""
    p, q = np.ones(1), np.ones(1)
    for left, right in pairs:
        p, q = np.outer(p, left).ravel(), np.outer(q, right).ravel()
    return p, q


# --- Neighbours -------------------------------------------------------------------------------------------------


def histograms(keys: int, counts: Sequence[int]) -> Iterator[Histogram]:
    """All histograms up to a renaming of the keys, largest count first."""
    return itertools.combinations_with_replacement(sorted(set(counts), reverse=True), keys)


def additions(h: Histogram, tau: int, most: int | None = None) -> Iterator[Histogram]:
    """What one more person may add: 0 to `tau` to every count, to `most` counts at most.

    Keys of equal count are interchangeable, so among them only the falling arrangement is listed.
    """
    for u in itertools.product(range(tau + 1), repeat=len(h)):
        changed = sum(x > 0 for x in u)
        tied_falls = all(u[i] >= u[i + 1] for i in range(len(h) - 1) if h[i] == h[i + 1])
        if 0 < changed <= (most or len(h)) and tied_falls:
            yield u


def neighbours(keys: int, counts: Sequence[int], tau: int, most: int | None = None) -> Iterator[tuple[Histogram, ...]]:
    """All small neighbours (h, h + u), up to a renaming of the keys."""
    for h in histograms(keys, counts):
        for u in additions(h, tau, most):
            yield h, added(h, u)


def labelled_neighbours(
    keys: int, counts: Sequence[int], tau: int, most: int | None = None
) -> Iterator[tuple[Histogram, ...]]:
    """All small neighbours, every naming of the keys: for mechanisms that break ties by key."""
    for h in itertools.product(sorted(set(counts)), repeat=keys):
        for u in itertools.product(range(tau + 1), repeat=keys):
            if 0 < sum(x > 0 for x in u) <= (most or keys):
                yield h, added(h, u)


def added(h: Histogram, u: Histogram) -> Histogram:
    return tuple(a + b for a, b in zip(h, u, strict=True))


# --- Integer noise ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseLaw:
    """P[X = x] proportional to exp(-unit |x|^power): discrete Laplace (power 1) or discrete Gaussian (power 2).

    Cut where the density has fallen by exp(-45) (Laplace) or exp(-128), which is 16 deviations (Gaussian). What is
    cut away is `lost`, far below the tolerance, and is counted against privacy all the same.
    """

    power: int
    unit: float

    @classmethod
    def of(cls, noise: Noise) -> NoiseLaw:
        if noise.family == "laplace":
            return cls(1, 1 / float(noise.parameter))
        assert noise.family == "gaussian"
        return cls(2, 1 / (2 * float(noise.parameter)))

    @cached_property
    def reach(self) -> int:
        return math.ceil((45 / self.unit) if self.power == 1 else math.sqrt(128 / self.unit))

    @cached_property
    def lost(self) -> float:
        """A bound on the mass outside [-reach, reach]: the tail ratio only falls from there on."""
        first, second = (math.exp(-self.unit * (self.reach + i) ** self.power) for i in (1, 2))
        return 2 * first / (1 - second / first) / self._total

    @cached_property
    def _total(self) -> float:
        return float(np.exp(-self.unit * np.abs(np.arange(-self.reach, self.reach + 1)) ** self.power).sum())

    def mass(self, x: NDArray[np.int64]) -> Floats:
        """P[X = x]."""
        return np.exp(-self.unit * np.abs(x).astype(float) ** self.power) / self._total

    def at_most(self, x: NDArray[np.int64]) -> Floats:
        """P[X <= x]."""
        sums = np.cumsum(self.mass(np.arange(-self.reach, self.reach + 1)))
        place = np.clip(x + self.reach, -1, 2 * self.reach)
        return np.where(place < 0, 0.0, np.minimum(sums[place], 1.0))

    def difference_tail(self, n: int) -> float:
        """P[X - Y >= n] for two independent draws."""
        return float(self._difference_tails[max(n + 2 * self.reach, 0)])

    @cached_property
    def _difference_tails(self) -> Floats:
        one = self.mass(np.arange(-self.reach, self.reach + 1))
        both = np.convolve(one, one)  # X - Y has the law of X + Y
        return np.cumsum(both[::-1])[::-1]


@lru_cache(maxsize=4096)
def shift_pair(noise: NoiseLaw, shifts: Histogram) -> Pair:
    """Counts with fresh noise, where count i differs by shifts[i] between the neighbours.

    The log likelihood ratio of one count is a whole multiple of `unit`, and so is that of several: convolving over
    the multiples is exact.
    """
    p, q = np.ones(1), np.ones(1)
    for shift in filter(None, shifts):
        left, right = _one_shift(noise, shift)
        p, q = np.convolve(p, left), np.convolve(q, right)
    seen = (p > 0) | (q > 0)
    return _with_lost((p[seen], q[seen]), noise.lost * len(shifts))


def _with_lost(pair: Pair, lost: float) -> Pair:
    """Truncated mass, as an outcome that tells everything, once on either side."""
    return np.append(pair[0], [lost, 0.0]), np.append(pair[1], [0.0, lost])


def _one_shift(noise: NoiseLaw, shift: int) -> Pair:
    """Masses by log likelihood ratio, |z - shift|^power - |z|^power units, from the smallest on."""
    z = np.arange(-noise.reach, noise.reach + shift + 1)
    loss = np.abs(z - shift) ** noise.power - np.abs(z) ** noise.power
    place = loss - loss.min()
    return np.bincount(place, noise.mass(z)), np.bincount(place, noise.mass(z - shift))


# --- Rankings: Gumbel races -------------------------------------------------------------------------------------


def peeling(weights: Mapping[int, float], bottom: float, k: int) -> Law:
    """The ordered list of a race: drawn one by one in proportion to weight, until k or the bottom element.

    A list shorter than k says that the bottom element came next.
    """
    law: Law = defaultdict(float)

    def draw(ahead: tuple[int, ...], left: Mapping[int, float], chance: float) -> None:
        total = bottom + sum(left.values())
        if len(ahead) == k or total == 0:
            law[ahead] += chance
            return
        if bottom:
            law[ahead] += chance * bottom / total
        for key, weight in left.items():
            draw((*ahead, key), {i: w for i, w in left.items() if i != key}, chance * weight / total)

    draw((), weights, 1.0)
    return law


def exponential_cutoff(costs: Mapping[int, float]) -> Law:
    """The choice of i with probability proportional to exp(-cost_i): one step of bounded range."""
    least = min(costs.values())
    weights = {i: math.exp(least - cost) for i, cost in costs.items()}
    return {i: w / sum(weights.values()) for i, w in weights.items()}


CutoffLaw: TypeAlias = Callable[[Mapping[int, float]], Law]


@dataclass(frozen=True)
class TopK:
    """Top-k with a bottom element over a domain that is part of the data.

    `cutoffs` are the candidates (one: fixed); `gap(cutoff)` is how far the bottom element stands above the first
    count below the cutoff. The other fields turn on printed variants: rows tied with that count are eligible
    (`strict` off, ties by key), rows of count zero are eligible (`zeros`), the cutoff is published (`revealed`),
    or chosen by another law.
    """

    k: int
    rate: float
    cutoffs: tuple[int, ...]
    gap: Callable[[int], float]
    strict: bool = True
    zeros: bool = False
    revealed: bool = False
    choose: CutoffLaw = exponential_cutoff

    @classmethod
    def of(cls, mechanism: UnknownGumbel) -> TopK:
        """The law of an implemented mechanism, at the thresholds that it computes."""
        first = mechanism.limit if mechanism.cutoff == "fixed" else mechanism.max_k
        rate = float(mechanism.epsilon / mechanism.tau)
        return cls(mechanism.k, rate, tuple(range(first, mechanism.limit + 1)), mechanism.gap)

    def cutoff_law(self, h: Histogram) -> Law:
        """cost_i = h_(i+1) + ln(i / delta) / rate, times the rate; delta is common to all and drops out."""
        return self.choose({i: self.rate * outside(h, i) + math.log(i) for i in self.cutoffs})

    def eligible(self, h: Histogram, cutoff: int) -> list[int]:
        if self.strict:
            return [i for i, n in enumerate(h) if n > outside(h, cutoff)]
        return [i for i in by_count(h)[:cutoff] if h[i] > 0 or self.zeros]

    def ranking(self, h: Histogram, cutoff: int) -> Law:
        reference = outside(h, cutoff)
        weights = {i: math.exp(self.rate * (h[i] - reference)) for i in self.eligible(h, cutoff)}
        return peeling(weights, math.exp(self.rate * self.gap(cutoff)), self.k)


@lru_cache(maxsize=100_000)
def top_k_law(h: Histogram, rule: TopK) -> Law:
    """Lists of keys; the cutoff is summed over unless it is published."""
    law: Law = defaultdict(float)
    for cutoff, chance in rule.cutoff_law(h).items():
        for ranking, mass in rule.ranking(h, cutoff).items():
            law[(cutoff, ranking) if rule.revealed else ranking] += chance * mass
    return law


def top_k_pair(h: Histogram, other: Histogram, rule: TopK) -> Pair:
    """Lists without counts, under two neighbours."""
    return paired(top_k_law(h, rule), top_k_law(other, rule))


def with_counts(p: Law, q: Law, u: Histogram, noise: NoiseLaw) -> Pair:
    """Lists with a freshly noised count for every key in them."""
    groups: dict[Histogram, list[tuple[float, float]]] = defaultdict(list)
    for outcome in p.keys() | q.keys():
        shifts = tuple(sorted(u[key] for key in outcome))
        groups[shifts].append((p.get(outcome, 0.0), q.get(outcome, 0.0)))
    lists = [product([tuple(np.array(masses).T), shift_pair(noise, shifts)]) for shifts, masses in groups.items()]
    return np.concatenate([left for left, _ in lists]), np.concatenate([right for _, right in lists])


def by_count(h: Histogram) -> list[int]:
    """Keys by falling count, ties by key."""
    return sorted(range(len(h)), key=lambda i: (-h[i], i))


def outside(h: Histogram, cutoff: int) -> int:
    """The first count below the cutoff; zero where there are no such rows."""
    return sorted(h, reverse=True)[cutoff] if cutoff < len(h) else 0


# --- Histograms above a released noisy threshold ----------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What distinguishes two neighbours to a thresholded histogram, counted from the first count out of sight.

    `rise` is how far that count moves. `common` are the counts before and after of changed rows in sight on both
    sides; `gone` and `new` are the counts of rows in sight on one side only. Rows that did not change have the same
    factor on both sides given the threshold, and cannot matter.
    """

    rise: int
    common: tuple[tuple[int, int], ...]
    gone: Histogram
    new: Histogram

    @classmethod
    def between(cls, h: Histogram, other: Histogram, limit: int) -> Change:
        """Ties by key; rows without a person are never in sight."""
        return cls.of_sights(h, other, limit, in_sight(h, limit), in_sight(other, limit))

    @classmethod
    def of_sights(cls, h: Histogram, other: Histogram, limit: int, before: set[int], after: set[int]) -> Change:
        """For any rule of who is in sight."""
        c = outside(h, limit)
        return cls(
            rise=outside(other, limit) - c,
            common=tuple(sorted((h[i] - c, other[i] - c) for i in before & after if h[i] != other[i])),
            gone=tuple(sorted(h[i] - c for i in before - after)),
            new=tuple(sorted(other[i] - c for i in after - before)),
        )


def in_sight(h: Histogram, limit: int) -> set[int]:
    return {i for i in by_count(h)[:limit] if h[i] > 0}


@lru_cache(maxsize=4096)
def threshold_pair(change: Change, gap: int, noise: NoiseLaw) -> Pair:
    """The noisy threshold y = gap + X, and for each changed row its noisy count if above y, or its absence.

    One line per value of y. A row that one neighbour does not have is either absent, or seen: its value no longer
    matters.
    """
    y = np.arange(gap - noise.reach, gap + noise.reach + change.rise + 1)
    p, q = noise.mass(y - gap)[:, None], noise.mass(y - gap - change.rise)[:, None]
    nothing = np.stack([np.zeros(len(y)), np.ones(len(y))], axis=1)
    for row in change.common:
        p, q = _each(p, _shown(noise, row, y, row[0])), _each(q, _shown(noise, row, y, row[1]))
    for count in change.gone:
        p, q = _each(p, _seen(noise, y, count)), _each(q, nothing)
    for count in change.new:
        p, q = _each(p, nothing), _each(q, _seen(noise, y, count))
    draws = 1 + len(change.common) + len(change.gone) + len(change.new)
    return _with_lost((p.ravel(), q.ravel()), draws * noise.lost)


def _shown(noise: NoiseLaw, change: tuple[int, int], y: NDArray[np.int64], count: int) -> Floats:
    """By line y: the probability of every noisy count above y, and at last of none.

    With Laplace noise, counts up to `before` have one likelihood ratio, and so have counts from `after` on.
    """
    before, after = change
    v = np.arange(before - noise.reach, after + noise.reach + 1)
    values = np.where(v[None, :] > y[:, None], noise.mass(v - count)[None, :], 0.0)
    if noise.power == 1:
        values = np.add.reduceat(values, [0, *range(noise.reach + 1, noise.reach + 1 + after - before)], axis=1)
    return np.concatenate([values, noise.at_most(y - count)[:, None]], axis=1)


def _seen(noise: NoiseLaw, y: NDArray[np.int64], count: int) -> Floats:
    """By line y: the probability that the row is seen at all, and that it is not. X > x is -X <= -x - 1."""
    return np.stack([noise.at_most(count - y - 1), noise.at_most(y - count)], axis=1)


def _each(lines: Floats, row: Floats) -> Floats:
    """One more independent row, line by line."""
    return (lines[:, :, None] * row[:, None, :]).reshape(len(lines), -1)


# --- Key selection ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def key_pair(n: int, other: int, threshold: int, noise: NoiseLaw) -> Pair:
    """One key with n people here and `other` there: its noisy count from the threshold on, or its absence."""
    v = np.arange(threshold, max(n, other, threshold) + noise.reach + 1)
    return _with_lost(merged((_kept(v, n, noise), _kept(v, other, noise))), noise.lost)


def _kept(v: NDArray[np.int64], n: int, noise: NoiseLaw) -> Floats:
    """The probability of every released value, and at last of absence; a key without people is always absent."""
    if n == 0:
        return np.append(np.zeros(len(v)), 1.0)
    return np.append(noise.mass(v - n), noise.at_most(np.array([v[0] - n - 1])))


def merged(pair: Pair) -> Pair:
    """Outcomes of one likelihood ratio as one outcome; ratios count as one when only rounding tells them apart."""
    p, q = pair
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.round(np.log(p) - np.log(q), 11)
    _, place = np.unique(ratios[(p > 0) | (q > 0)], return_inverse=True)
    seen = (p > 0) | (q > 0)
    return np.bincount(place, p[seen]), np.bincount(place, q[seen])
