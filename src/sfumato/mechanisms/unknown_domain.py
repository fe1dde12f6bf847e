"""Histograms and top-k over a domain that is itself part of the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from sfumato.accounting.charges import Charge
from sfumato.accounting.groups import difference_group_delta, gumbel_group_delta, weighted_group_delta
from sfumato.accounting.numbers import Number, probability, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import canonical, every_row, ranked_rows
from sfumato.mechanisms.mechanism import CALL, MAX_GROUPS, MAX_ROWS, UNIT, CountNoise, Mechanism, Ranking, ShownSizes
from sfumato.mechanisms.noise import ROUND_UP, DiscreteGaussian, DiscreteLaplace, Integers, Noise
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.release import K, Release, Step
from sfumato.mechanisms.selection import Scores, race
from sfumato.mechanisms.stream import digits

Cutoff: TypeAlias = Literal["select", "fixed"]

HIDDEN = Fraction(1, 20)
"""How often a group is withheld that is shown most of the time."""

_DIGITS = digits(40)


@dataclass(frozen=True, kw_only=True)
class PrivateHistogram(Mechanism):
    """Noisy counts of groups that are large enough; a person is in at most `max_groups` groups."""

    delta: Fraction
    max_groups: int
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__.update(
            delta=probability("delta", self.delta),
            max_groups=whole("max_groups", self.max_groups, at_least=1, at_most=MAX_GROUPS),
        )
        if self.k is not None:
            self.__dict__["k"] = whole("k", self.k, at_least=1)

    @property
    def worst(self) -> tuple[Step, ...]:
        return (Step("histogram", self.reserve),)

    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        return self.worst

    @property
    def reserve(self) -> Charge:
        return UNIT + CALL


@dataclass(frozen=True, kw_only=True)
class UnknownNoise(PrivateHistogram):
    """Noise on the top rows, shown where they exceed a noisy threshold."""

    noise_parameters = ("delta", "max_groups", "limit")

    limit: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__["limit"] = whole("limit", self.limit, at_least=self.k or 1, at_most=MAX_ROWS)

    @property
    def gap(self) -> int:
        """How far the threshold stands above the first count that is out of sight: T of the proof."""
        return _gap(self.noise, self.max_groups, self.delta) + self.tau - 1

    @property
    def visible(self) -> ShownSizes:
        """A group n above the first count out of sight is shown if n + X - Y > gap, for two draws of the noise."""
        return ShownSizes(self.gap + 1, self.gap + _gap(self.noise, 1, HIDDEN), "cutoff")

    def group_delta(self, people: int) -> float:
        return difference_group_delta(self.noise.difference_tail, self.gap, self.max_groups, self.tau, people)

    def release(self, rows: Sequence[tuple[K, int]], rng: Rng) -> Release[K]:
        keys, exact = ranked_rows(rows, self.limit)
        candidates = int(np.count_nonzero(exact[: self.limit]))
        # Draw 0 belongs to the threshold and draw i to row i, so neither depends on how many rows there are.
        source = check_source(rng).child(self.fingerprint())
        noise = self.noise.sample(source.stream(purpose="count"), candidates + 1)
        threshold = int(exact[self.limit]) + self.gap + int(noise[0])
        noisy = exact[:candidates] + noise[1:]
        # Ties by key: the order of the rows is that of the exact counts.
        places = canonical(keys)
        above = sorted(np.flatnonzero(noisy > threshold).tolist(), key=lambda i: (-noisy[i], places[i]))
        return Release(
            mechanism=self.name,
            rows=tuple((keys[i], int(noisy[i])) for i in above[: self.k]),
            steps=self.worst,
            reserve=self.reserve,
            stopped=self.k is None or len(above) < self.k,
            threshold=threshold,
            error95=self.error95,
        )


class UnknownLaplace(UnknownNoise):
    """Discrete Laplace noise of scale 2 tau sqrt(max_groups) / epsilon on the top rows and on their threshold.

    Guarantee: one unit and one call; with max_groups = 1, (epsilon / 2, delta)-DP.
    Assumes:   a person is in at most max_groups groups and moves each by 0 to tau; the rows are the `limit + 1`
               largest, ties by key, so at most max_groups rows come into sight or leave it with a person.
    Source:    Durfee and Rogers (2019); Rogers et al. (2021), Algorithm 3, with the exact discrete threshold.
               Proof: proofs/unknown_laplace.md.
    """

    name = "unknown_laplace"

    @property
    def noise(self) -> Noise:
        return DiscreteLaplace(_root_up(self.max_groups) * 2 * self.tau / self.epsilon)


class UnknownGaussian(UnknownNoise):
    """Discrete Gaussian noise, sigma = 2 tau sqrt(max_groups) / epsilon, on the top rows and on their threshold.

    Guarantee: one unit and one call. At epsilon 0.15 and delta 1e-10 the threshold stands 121 above what is out
               of sight, where Laplace noise needs 333. Not pure DP.
    Assumes:   as `UnknownLaplace`.
    Source:    proofs/unknown_gaussian.md.
    """

    name = "unknown_gaussian"

    @property
    def noise(self) -> Noise:
        return DiscreteGaussian(self.max_groups * (2 * self.tau / self.epsilon) ** 2)


class ThresholdNoise(PrivateHistogram):
    """Noise on every group, shown where it reaches a fixed threshold."""

    noise_parameters = ("delta", "max_groups")

    @property
    def threshold(self) -> int:
        """tau + t for the smallest t >= 0 with max_groups * P[noise >= t] <= delta."""
        return self.tau + _tail(self.noise, self.max_groups, self.delta)

    @property
    def visible(self) -> ShownSizes:
        """A group of n is shown if n + X >= threshold. The noise is symmetric, so the threshold itself is half."""
        return ShownSizes(self.threshold, self.threshold + _tail(self.noise, 1, HIDDEN) - 1, "zero")

    def group_delta(self, people: int) -> float:
        return weighted_group_delta(self.noise.tail, self.threshold, [(self.max_groups, self.tau)], people)

    def release(self, rows: Sequence[tuple[K, int]], rng: Rng) -> Release[K]:
        keys, exact = every_row(rows)
        source = check_source(rng).child(self.fingerprint())
        noisy = exact + self.noise.sample(source.stream(purpose="count"), len(keys))
        shown = np.flatnonzero(noisy >= self.threshold)  # `keys` have one order, so ties are by key
        order = shown[np.argsort(-noisy[shown], kind="stable")]
        return Release(
            mechanism=self.name,
            rows=tuple((keys[i], int(noisy[i])) for i in order[: self.k]),
            steps=self.worst,
            reserve=self.reserve,
            stopped=self.k is None or len(order) < self.k,
            threshold=self.threshold,
            error95=self.error95,
        )


class ThresholdLaplace(ThresholdNoise):
    """Discrete Laplace noise of scale 2 tau sqrt(max_groups) / epsilon on every group, and a fixed threshold.

    Guarantee: one unit and one call; with max_groups = 1, (epsilon / 2, delta)-DP.
    Assumes:   the rows are all groups with a count above zero; a person is in at most max_groups groups and moves
               each by 0 to tau.
    Source:    Korolova et al. (2009), with the exact discrete threshold. Proof: proofs/threshold_laplace.md.
    """

    name = "threshold_laplace"

    @property
    def noise(self) -> Noise:
        return DiscreteLaplace(_root_up(self.max_groups) * 2 * self.tau / self.epsilon)


class ThresholdGaussian(ThresholdNoise):
    """Discrete Gaussian noise, sigma = 2 tau sqrt(max_groups) / epsilon, on every group, and a fixed threshold.

    Guarantee: one unit and one call. At epsilon 0.15 and delta 1e-10 groups of 87 people are shown half of the time;
               with the noisy threshold of `UnknownGaussian`, 122 above what is out of sight. Not pure DP.
    Assumes:   as `ThresholdLaplace`.
    Source:    proofs/threshold_gaussian.md.
    """

    name = "threshold_gaussian"

    @property
    def noise(self) -> Noise:
        return DiscreteGaussian(self.max_groups * (2 * self.tau / self.epsilon) ** 2)


@dataclass(frozen=True, kw_only=True)
class UnknownGumbel(Ranking):
    """The k largest rows that come before a bottom element, by Gumbel noise, each with a fresh noisy count.

    Guarantee: one call, and one unit for the cutoff (if selected), for every pick, for every count and for the
               bottom element if it is reached: at most 2k + 1 units. With Laplace counts it is
               ((2k + 1) epsilon, delta)-DP.
    Assumes:   a person moves each count by 0 to tau, all in one direction, however many there are.
    Source:    Durfee and Rogers (2019); Rogers et al. (2021), Algorithm 4, with its threshold and its cutoff
               corrected. Proof: proofs/unknown_gumbel.md.

    `limit` rows may be looked at. The cutoff among {max_k..limit} is chosen privately ("select") or is `limit`
    itself ("fixed"); as it does not depend on k, a longer list continues a shorter one.
    """

    name = "unknown_gumbel"
    noise_parameters = ("delta", "max_k", "limit", "cutoff")

    delta: Fraction
    max_k: int
    limit: int
    cutoff: Cutoff = "select"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__.update(
            delta=probability("delta", self.delta),
            max_k=whole("max_k", self.max_k, at_least=self.k, at_most=MAX_ROWS),
            limit=whole("limit", self.limit, at_least=self.max_k, at_most=MAX_ROWS),
        )
        if self.cutoff not in get_args(Cutoff):
            raise InvalidArgument("cutoff", "must be 'select' or 'fixed'")

    @property
    def reserve(self) -> Charge:
        return Charge(self.k * (1 + self.with_counts) + (self.cutoff == "select"), 1)

    @property
    def least(self) -> Charge:
        """An empty list: the bottom element and the cutoff are paid for all the same."""
        return Charge(1 + (self.cutoff == "select"), 1)

    def group_delta(self, people: int) -> float:
        return gumbel_group_delta(self.epsilon, self.delta, people)

    @property
    def visible(self) -> ShownSizes:
        """A group n above the first count below the cutoff is shown if it comes before the bottom element.

        Whatever the other groups are, that has the probability 1 / (1 + exp(epsilon (gap - n) / tau)). The gap is that
        of the last cutoff. An earlier cutoff has a smaller one: if it is selected, such a group is shown more often.
        """
        gap, odds = self.gap(self.limit), (1 - HIDDEN) / HIDDEN
        rise = bottom_gap(self.epsilon, 1 / odds, self.tau, 1) - self.tau  # tau ln(odds) / epsilon, rounded up
        return ShownSizes(gap, gap + rise, "cutoff")

    def gap(self, cutoff: int) -> int:
        """How far the bottom element stands above the first count below the cutoff: T of the proof, rounded up."""
        return bottom_gap(self.epsilon, self.delta, self.tau, cutoff)

    def release(self, rows: Sequence[tuple[K, int]], rng: Rng) -> Release[K]:
        keys, exact = ranked_rows(rows, self.limit)
        source = check_source(rng).child(self.fingerprint())
        cutoff = self._choose_cutoff(exact, source)
        picked, stopped = self._pick(exact, cutoff, source)
        return Release(
            mechanism=self.name,
            rows=self._rows([keys[i] for i in picked], exact[picked].tolist(), source),
            steps=self.steps(len(picked), stopped=stopped),
            reserve=self.reserve,
            stopped=stopped,
            error95=self.error95,
        )

    def _choose_cutoff(self, exact: Integers, source: Rng) -> int:
        """The i in {max_k..limit} with the lowest bottom element, h_(i+1) + tau ln(i / delta) / epsilon, by one race.

        The candidates are fixed: there are as many of them on an empty table.
        """
        if self.cutoff == "fixed":
            return self.limit
        candidates = np.arange(self.max_k, self.limit + 1)
        scores = Scores(self.epsilon / self.tau, -exact[self.max_k :], divisors=candidates)
        return self.max_k + race(scores, source.stream(purpose="cutoff"), 1)[0]

    def _pick(self, exact: Integers, cutoff: int, source: Rng) -> tuple[list[int], bool]:
        """Rows in the order of the race, up to k or the bottom element, and whether that was met."""
        outside = int(exact[cutoff])
        eligible = int(np.count_nonzero(exact[:cutoff] > outside))  # strictly, so ties cannot matter
        bottom = outside + self.gap(cutoff)
        scores = Scores(self.epsilon / self.tau, np.concatenate([[bottom], exact[:eligible]]))
        order = race(scores, source.stream(purpose="gumbel"), self.k)
        stopped = 0 in order
        reached = order.index(0) if stopped else len(order)
        return [runner - 1 for runner in order[:reached]], stopped

    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        cutoff = (Step("cutoff", UNIT),) if self.cutoff == "select" else ()
        closing = (Step("stop", UNIT, rows + 1),) if stopped else ()
        return (Step("call", CALL), *cutoff, *super().steps(rows, stopped=stopped), *closing)


def unknown_laplace(
    rows: Sequence[tuple[K, int]],
    *,
    limit: int | None = None,
    k: int | None = None,
    epsilon: Number,
    delta: Number,
    max_groups: int,
    tau: int = 1,
    rng: Rng,
) -> Release[K]:
    """The rows above a noisy threshold, with discrete Laplace noise: see `UnknownLaplace` for its guarantee."""
    mechanism = UnknownLaplace.of(limit=limit, k=k, epsilon=epsilon, delta=delta, max_groups=max_groups, tau=tau)
    return mechanism.release(rows, rng)


def unknown_gaussian(
    rows: Sequence[tuple[K, int]],
    *,
    limit: int | None = None,
    k: int | None = None,
    epsilon: Number,
    delta: Number,
    max_groups: int,
    tau: int = 1,
    rng: Rng,
) -> Release[K]:
    """The rows above a noisy threshold, with discrete Gaussian noise: see `UnknownGaussian` for its guarantee."""
    mechanism = UnknownGaussian.of(limit=limit, k=k, epsilon=epsilon, delta=delta, max_groups=max_groups, tau=tau)
    return mechanism.release(rows, rng)


def threshold_laplace(
    rows: Sequence[tuple[K, int]],
    *,
    k: int | None = None,
    epsilon: Number,
    delta: Number,
    max_groups: int,
    tau: int = 1,
    rng: Rng,
) -> Release[K]:
    """The groups above a fixed threshold, with discrete Laplace noise: see `ThresholdLaplace` for its guarantee."""
    return ThresholdLaplace.of(k=k, epsilon=epsilon, delta=delta, max_groups=max_groups, tau=tau).release(rows, rng)


def threshold_gaussian(
    rows: Sequence[tuple[K, int]],
    *,
    k: int | None = None,
    epsilon: Number,
    delta: Number,
    max_groups: int,
    tau: int = 1,
    rng: Rng,
) -> Release[K]:
    """The groups above a fixed threshold, with discrete Gaussian noise: see `ThresholdGaussian` for its guarantee."""
    return ThresholdGaussian.of(k=k, epsilon=epsilon, delta=delta, max_groups=max_groups, tau=tau).release(rows, rng)


def unknown_gumbel(
    rows: Sequence[tuple[K, int]],
    *,
    k: int,
    max_k: int | None = None,
    limit: int | None = None,
    epsilon: Number,
    delta: Number,
    tau: int = 1,
    rng: Rng,
    cutoff: Cutoff = "select",
    with_counts: bool = True,
    count_noise: CountNoise = "laplace",
) -> Release[K]:
    """The top k of a domain that is part of the data: see `UnknownGumbel` for its guarantee."""
    mechanism = UnknownGumbel.of(
        k=k,
        max_k=max_k,
        limit=limit,
        epsilon=epsilon,
        delta=delta,
        tau=tau,
        cutoff=cutoff,
        with_counts=with_counts,
        count_noise=count_noise,
    )
    return mechanism.release(rows, rng)


@lru_cache(maxsize=1024)
def _gap(noise: Noise, max_groups: int, delta: Fraction) -> int:
    """The smallest n >= 0 with max_groups * P[X - Y >= n] <= delta."""
    return noise.smallest_difference_tail(float(delta / max_groups) / ROUND_UP)


@lru_cache(maxsize=1024)
def _tail(noise: Noise, max_groups: int, delta: Fraction) -> int:
    """The smallest n >= 0 with max_groups * P[X >= n] <= delta."""
    return noise.smallest_tail(float(delta / max_groups) / ROUND_UP)


@lru_cache(maxsize=4096)
def bottom_gap(epsilon: Fraction, delta: Fraction, tau: int, cutoff: int) -> int:
    """tau (1 + ln(cutoff / delta) / epsilon), rounded up, in decimal: every platform agrees."""
    context = _DIGITS
    ratio = cutoff / delta
    log = context.subtract(context.ln(ratio.numerator), context.ln(ratio.denominator))
    scaled = context.divide(context.multiply(log, epsilon.denominator * tau), Decimal(epsilon.numerator))
    return tau + math.ceil(context.multiply(scaled, Decimal("1." + 29 * "0" + "1")))


def _root_up(n: int) -> Fraction:
    """sqrt(n), exactly where it is whole and otherwise rounded up by less than 2^-64."""
    root = math.isqrt(n)
    return Fraction(root) if root * root == n else Fraction(math.isqrt(n << 128) + 1, 2**64)
