"""Sums, means and variances of values between public bounds, from noisy sums over people: their noise and intervals.

Values are whole numbers of steps: what one person adds to a sum is a whole number with a bound. Releases and questions
add up in different ways, and share what follows. Estimators: proofs/release.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers, Noise

Floats: TypeAlias = NDArray[np.floating[Any]]

MISSED = 0.05
"""How often an interval may miss its number."""

MEAN_MISSED = 0.005
"""How often the interval of the mean, on which that of the variance is built, misses. The squares have the rest."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a statistic may spend: `rho` for all that one person adds to at most `max_keys` keys.

    With `epsilon`, noise is Laplace noise and all of it is epsilon-DP; `rho` is then at least its zCDP, epsilon^2 / 2.
    """

    rho: Fraction
    max_keys: int
    epsilon: Fraction | None = None

    def noise(self, sensitivity: int, sums: int = 1) -> DiscreteGaussian | DiscreteLaplace:
        """The law for one of several sums that share equally, where a person moves each by at most `sensitivity`."""
        if self.epsilon is not None:
            return DiscreteLaplace(sums * self.max_keys * sensitivity / self.epsilon)
        return DiscreteGaussian(sums * self.max_keys * sensitivity**2 / (2 * self.rho))


@dataclass(frozen=True, slots=True)
class Scale:
    """Public bounds, and the step in which values between them are counted."""

    low: Fraction
    high: Fraction
    step: Fraction

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds in whole steps from zero."""
        return math.floor(self.low / self.step), math.ceil(self.high / self.step)

    @property
    def reach(self) -> int:
        """How far a value can be from the middle, in whole steps."""
        return math.ceil((self.high - self.low) / (2 * self.step))

    @property
    def middle(self) -> float:
        """Halfway, in whole steps from the lower bound: of 0 and 1 in steps of 1, neither may be half a step away."""
        return float(self.low + math.ceil((self.high - self.low) / self.step) // 2 * self.step)

    def center(self, values: Floats) -> Integers:
        """Values as whole steps from the middle, clamped to the bounds."""
        inside = np.clip(values, float(self.low), float(self.high))
        steps: Integers = np.rint((inside - self.middle) / float(self.step)).astype(np.int64)
        return np.clip(steps, -self.reach, self.reach)

    @property
    def points(self) -> int:
        """How many points there are from the lower bound up, a step apart, within the bounds."""
        return math.floor((self.high - self.low) / self.step) + 1

    def places(self, values: Floats) -> Integers:
        """The number of the point that is nearest to each value."""
        inside = self.inside(values) - float(self.low)
        places: Integers = np.rint(inside / float(self.step)).astype(np.int64)
        return np.clip(places, 0, self.points - 1)

    def at(self, places: Integers) -> Floats:
        """The values of points. Over a whole denominator: 35 steps of 0.01 are 0.35, and not 0.35000000000000003."""
        step = self.step if self.step.denominator < 2**53 else Fraction(float(self.step))
        above = float(self.low * step.denominator) + places * float(step.numerator)
        return self.inside(above / step.denominator)

    def inside(self, values: Floats) -> Floats:
        return np.clip(values, float(self.low), float(self.high))


@dataclass(frozen=True, slots=True)
class Squares:
    """Squared distances from the middle, as whole numbers that are small enough to add up.

    They are counted in units that leave at most 2^20 of them: those of many people fit into 64 bits.
    """

    reach: int

    @property
    def shift(self) -> int:
        """A unit is 2^shift halves of a squared step."""
        return max((self.reach**2).bit_length() - 21, 0)

    @property
    def most(self) -> int:
        """2 x^2 - reach^2 lies within plus and minus reach^2: so many units at most."""
        return (self.reach**2 >> self.shift) + 1

    @property
    def unit(self) -> float:
        """What a unit is in squared steps."""
        return 2.0 ** (self.shift - 1)

    def of(self, steps: Integers) -> Integers:
        """2 x^2 - reach^2 in units, rounded down."""
        units: Integers = np.clip((2 * steps**2 - self.reach**2) >> self.shift, -self.most, self.most)
        return units


class Estimated(NamedTuple):
    """Numbers with the ends of their 95 % intervals, and the deviation of their noise."""

    values: Floats
    low: Floats
    high: Floats
    deviation: Floats


def estimate_mean(noisy: Sequence[Integers], deviations: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """The count that is divided by, the mean and its deviation (to first order in the noise)."""
    people = np.maximum(noisy[0], 1).astype(np.float64)
    mean = noisy[1] / people
    return people, mean, np.hypot(deviations[1], mean * deviations[0]) / people


def ratio_interval(
    total: Floats, count: Floats, of_total: Floats | float, of_count: float, z: float
) -> tuple[Floats, Floats]:
    """Fieller's interval: all r for which total - r * count is within z of its deviations from 0.

    Its middle, and half of its width, which is infinite where the count is not clear of 0.
    """
    square = count**2 - (z * of_count) ** 2
    certain = (square > 0) & (count > 0)
    square = np.where(certain, square, 1.0)
    half = z * np.sqrt(square * of_total**2 + (of_count * total) ** 2) / square
    return np.where(certain, total * count / square, 0.0), np.where(certain, half, np.inf)


def total_width(law: Noise) -> int:
    """The half-width of the 95 % interval of a noisy sum."""
    return math.ceil(law.deviations(MISSED) * law.deviation)


def find_means(noisy: Sequence[Integers], laws: Sequence[Noise], scale: Scale) -> Estimated:
    """Means, from noisy counts of values and noisy sums of their distances from the middle."""
    deviations = [law.deviation for law in laws]
    _, mean, deviation = estimate_mean(noisy, deviations)
    count, total = (sums.astype(np.float64) for sums in noisy)
    middle, half = ratio_interval(total, count, deviations[1], deviations[0], laws[0].deviations(MISSED))
    step, wide = float(scale.step), float(scale.high - scale.low)
    places = mean, middle - half, middle + half
    values, low, high = (scale.inside(scale.middle + step * place) for place in places)
    return Estimated(values, np.minimum(low, values), np.maximum(high, values), np.minimum(step * deviation, wide))


def find_variances(
    noisy: Sequence[Integers], laws: Sequence[Noise], scale: Scale, ends: tuple[Floats, Floats]
) -> Estimated:
    """Variances, from what `find_means` takes and the noisy sums of `Squares`. `ends` are those of `variance_ends`."""
    deviations, squares_of = [law.deviation for law in laws], Squares(scale.reach)
    people, mean, _ = estimate_mean(noisy[:2], deviations[:2])
    unit, reach = squares_of.unit, float(scale.reach)
    # Rounded down when it was shifted: half a unit is missing on average.
    half = noisy[2] / people + (0.5 if squares_of.shift else 0.0)
    squares = unit * half + reach**2 / 2
    # To first order; the count is in both parts, with opposite signs.
    parts = unit * deviations[2], 2 * mean * deviations[1], (2 * mean**2 - unit * half) * deviations[0]
    deviation = np.sqrt(sum(np.square(part) for part in parts)) / people
    step = float(scale.step)
    most = (step * reach) ** 2
    values = np.clip(step**2 * (squares - mean**2), 0, most)
    low, high = (np.clip(step**2 * end, 0.0, most) for end in ends)
    deviation = np.minimum(step**2 * deviation, most)
    return Estimated(values, np.minimum(low, values), np.maximum(high, values), deviation)


def variance_ends(noisy: Sequence[Integers], laws: Sequence[Noise], reach: int) -> tuple[Floats, Floats]:
    """The ends of the 95 % interval, in squared steps: for the mean c, the sum of (x - c)^2 - variance is 0.

    That sum is linear in the three noisy sums, so for each c it gives a Fieller interval. The mean lies between two
    ends but for MEAN_MISSED; the sum is within its deviations but for the rest. Proof: proofs/release.md.
    """
    count, total, squares = (sums.astype(np.float64) for sums in noisy)
    deviations, of_squares = [law.deviation for law in laws], Squares(reach)
    mean_z, sum_z = (laws[0].deviations(missed) for missed in (MEAN_MISSED, MISSED - MEAN_MISSED))
    unit, most = of_squares.unit, float(reach)
    middle, half = ratio_interval(total, count, deviations[1], deviations[0], mean_z)
    means = [np.clip(end, -most, most) for end in (middle - half, middle + half)]

    def at_mean(mean: Floats) -> tuple[Floats, Floats]:
        of_sum = np.hypot(unit * deviations[2], 2 * mean * deviations[1])
        return ratio_interval(unit * squares - 2 * mean * total, count, of_sum, deviations[0], sum_z)

    # What a mean gives is convex in it: it is largest at an end. Least is a parabola less the largest half width.
    lowest = np.clip(ratio_interval(total, count, deviations[1], deviations[0], sum_z)[0], *means)
    halves = np.maximum(*(at_mean(mean)[1] for mean in means))
    low = lowest**2 + at_mean(lowest)[0] - halves
    high = np.maximum(*(mean**2 + sum(at_mean(mean)) for mean in means))
    rounded = unit if of_squares.shift else 0.0  # by at most so much each square was rounded down
    return low + most**2 / 2, high + most**2 / 2 + rounded
