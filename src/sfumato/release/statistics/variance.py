"""Variances of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from sfumato.engines.contributions import Terms
from sfumato.mechanisms.estimates import Floats, Squares, find_variances, variance_ends
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import Series, SummedStatistic, interval_columns
from sfumato.release.statistics.expressions import clip, shifted, whole
from sfumato.release.statistics.numeric import ValueStatistic, center_in_sql


@dataclass(frozen=True)
class Variance(ValueStatistic, SummedStatistic):
    """The variance of a column: from noisy sums of distances from the middle and of their squares."""

    word: ClassVar[str] = "variance"

    @property
    def spread(self) -> str:
        return "standard deviation of the noise, to first order"

    @property
    def _squares(self) -> Squares:
        return Squares(self.scale.reach)

    @property
    def most(self) -> Mapping[str, int]:
        reach, square = self.values * self.scale.reach, self.values * self._squares.most
        return {"values": self.values, "distances from the middle": reach, "their squares": square}

    @property
    def _units(self) -> Sequence[float]:
        step = float(self.scale.step)
        return [1.0, step, self._squares.unit * step**2]

    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers, Integers | int]]:
        which, values = pairs.values(self.column, self.values)
        steps = self.scale.center(values)
        return [(which, 1), (which, steps), (which, self._squares.of(steps))]

    def terms(self) -> Terms:
        reads, value = self.raw_terms()
        steps, squares = center_in_sql(self.scale, value), self._squares
        twice = exp.Mul(this=exp.Mul(this=whole(2), expression=steps), expression=steps.copy())
        square = shifted(exp.Sub(this=twice, expression=whole(self.scale.reach**2)), squares.shift)
        return Terms((whole(1), steps.copy(), clip(square, whole(-squares.most), whole(squares.most))), reads)

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Series]:
        ends = self._ends(noisy, laws)
        return interval_columns(self.names[0], *find_variances(noisy, laws, self.scale, ends))

    def _ends(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> tuple[Floats, Floats]:
        return variance_ends(noisy, laws, self.scale.reach)
