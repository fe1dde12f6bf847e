"""Variances of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import Terms
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import MISSED, Column, Floats, SummedStatistic, interval_columns
from sfumato.release.statistics.expressions import clip, shifted, whole
from sfumato.release.statistics.numeric import ValueStatistic, estimate_mean, ratio_interval

MEAN_MISSED = 0.005
"""How often the interval of the mean, on which that of the variance is built, misses. The squares have the rest."""


@dataclass(frozen=True)
class Variance(ValueStatistic, SummedStatistic):
    """The variance of a column: from noisy sums of distances from the middle and of their squares."""

    word: ClassVar[str] = "variance"

    @property
    def spread(self) -> str:
        return "standard deviation of the noise, to first order"

    @property
    def _shift(self) -> int:
        """Squares are counted in units that leave at most 2^20 of them, so that many people's fit into 64 bits."""
        return max((self.scale.reach**2).bit_length() - 21, 0)

    @property
    def _square(self) -> int:
        """2 x^2 - reach^2 lies within plus and minus reach^2: so many units at most."""
        return (self.scale.reach**2 >> self._shift) + 1

    @property
    def most(self) -> Mapping[str, int]:
        reach, square = self.values * self.scale.reach, self.values * self._square
        return {"values": self.values, "distances from the middle": reach, "their squares": square}

    @property
    def _units(self) -> Sequence[float]:
        step = float(self.scale.step)
        return [1.0, step, 2.0 ** (self._shift - 1) * step**2]

    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers, Integers | int]]:
        which, values = pairs.values(self.column, self.values)
        steps = self.scale.center(values)
        squares = np.clip((2 * steps**2 - self.scale.reach**2) >> self._shift, -self._square, self._square)
        return [(which, 1), (which, steps), (which, squares)]

    def terms(self) -> Terms:
        reads, value = self.raw_terms()
        steps = self.scale.center_in_sql(value)
        twice = exp.Mul(this=exp.Mul(this=whole(2), expression=steps), expression=steps.copy())
        square = shifted(exp.Sub(this=twice, expression=whole(self.scale.reach**2)), self._shift)
        return Terms((whole(1), steps.copy(), clip(square, whole(-self._square), whole(self._square))), reads)

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Column]:
        deviations = [law.deviation for law in laws]
        people, mean, _ = estimate_mean(noisy[:2], deviations[:2])
        unit, reach = 2.0 ** (self._shift - 1), float(self.scale.reach)
        # Rounded down when it was shifted: half a unit is missing on average.
        half = noisy[2] / people + (0.5 if self._shift else 0.0)
        squares = unit * half + reach**2 / 2
        # To first order; the count is in both parts, with opposite signs.
        parts = unit * deviations[2], 2 * mean * deviations[1], (2 * mean**2 - unit * half) * deviations[0]
        deviation = np.sqrt(sum(np.square(part) for part in parts)) / people
        step = float(self.scale.step)
        most = (step * reach) ** 2
        values = np.clip(step**2 * (squares - mean**2), 0, most)
        deviation = np.minimum(step**2 * deviation, most)
        low, high = (step**2 * end for end in self._ends(noisy, laws))
        ends = np.minimum(np.clip(low, 0.0, most), values), np.maximum(np.clip(high, 0.0, most), values)
        return interval_columns(self.names[0], values, *ends, deviation)

    def _ends(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> tuple[Floats, Floats]:
        """The ends of the 95 % interval, in squared steps: for the mean c, the sum of (x - c)^2 - variance is 0.

        That sum is linear in the three noisy sums, so for each c it gives a Fieller interval. The mean lies between two
        ends but for MEAN_MISSED; the sum is within its deviations but for the rest. Proof: proofs/release.md.
        """
        count, total, squares = (sums.astype(np.float64) for sums in noisy)
        deviations = [law.deviation for law in laws]
        mean_z, sum_z = (laws[0].deviations(missed) for missed in (MEAN_MISSED, MISSED - MEAN_MISSED))
        unit, reach = 2.0 ** (self._shift - 1), float(self.scale.reach)
        middle, half = ratio_interval(total, count, deviations[1], deviations[0], mean_z)
        means = [np.clip(end, -reach, reach) for end in (middle - half, middle + half)]

        def at_mean(mean: Floats) -> tuple[Floats, Floats]:
            of_sum = np.hypot(unit * deviations[2], 2 * mean * deviations[1])
            return ratio_interval(unit * squares - 2 * mean * total, count, of_sum, deviations[0], sum_z)

        # What a mean gives is convex in it: it is largest at an end. Least is a parabola less the largest half width.
        lowest = np.clip(ratio_interval(total, count, deviations[1], deviations[0], sum_z)[0], *means)
        halves = np.maximum(*(at_mean(mean)[1] for mean in means))
        low = lowest**2 + at_mean(lowest)[0] - halves
        high = np.maximum(*(mean**2 + sum(at_mean(mean)) for mean in means))
        rounded = unit if self._shift else 0.0  # by at most so much each square was rounded down
        return low + reach**2 / 2, high + reach**2 / 2 + rounded
