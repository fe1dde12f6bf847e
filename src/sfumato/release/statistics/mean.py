"""Means of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sfumato.engines.contributions import Terms
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import MISSED, Column, SummedStatistic, interval_columns
from sfumato.release.statistics.expressions import whole
from sfumato.release.statistics.numeric import ValueStatistic, estimate_mean, ratio_interval


@dataclass(frozen=True)
class Mean(ValueStatistic, SummedStatistic):
    """The mean of a column: the noisy sum of distances from the middle, over a noisy count of values."""

    word: ClassVar[str] = "mean"

    @property
    def most(self) -> Mapping[str, int]:
        return {"values": self.values, "distances from the middle": self.values * self.scale.reach}

    @property
    def _units(self) -> Sequence[float]:
        return [1.0, float(self.scale.step)]

    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers, Integers | int]]:
        which, values = pairs.values(self.column, self.values)
        return [(which, 1), (which, self.scale.center(values))]

    def terms(self) -> Terms:
        reads, value = self.raw_terms()
        return Terms((whole(1), self.scale.center_in_sql(value)), reads)

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Column]:
        deviations = [law.deviation for law in laws]
        _, mean, deviation = estimate_mean(noisy, deviations)
        count, total = (sums.astype(np.float64) for sums in noisy)
        middle, half = ratio_interval(total, count, deviations[1], deviations[0], laws[0].deviations(MISSED))
        step, wide = float(self.scale.step), float(self.scale.high - self.scale.low)
        places = mean, middle - half, middle + half
        values, low, high = (self.scale.inside(self.scale.middle + step * place) for place in places)
        ends = np.minimum(low, values), np.maximum(high, values)
        return interval_columns(self.names[0], values, *ends, np.minimum(step * deviation, wide))
