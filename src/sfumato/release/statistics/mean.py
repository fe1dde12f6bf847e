"""Means of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sfumato.engines.contributions import Terms
from sfumato.mechanisms.estimates import find_means
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import Series, SummedStatistic, interval_columns
from sfumato.release.statistics.expressions import whole
from sfumato.release.statistics.numeric import ValueStatistic, center_in_sql


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
        return Terms((whole(1), center_in_sql(self.scale, value)), reads)

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Series]:
        return interval_columns(self.names[0], *find_means(noisy, laws, self.scale))
