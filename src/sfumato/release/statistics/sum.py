"""Sums of a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import MAX_VALUE_STEPS, PairTotals, Terms
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.estimates import Floats, total_width
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.base import Series, SummedStatistic, interval_columns
from sfumato.release.statistics.expressions import DOUBLE, TOTAL, clip, column, double, whole
from sfumato.release.statistics.numeric import Numeric

_RAW_STEPS = (2.0**-16, 2.0**20)


@dataclass(frozen=True)
class Sum(Numeric, SummedStatistic):
    """The sum of a column: each person's total of the key is clamped to the bounds."""

    word: ClassVar[str] = "sum"

    def _check_scale(self) -> None:
        super()._check_scale()
        if max(map(abs, self.scale.ends)) > MAX_VALUE_STEPS:
            raise InvalidArgument(
                self.word, f"the bounds of {self.column} are too far from 0 for its step; use a larger"
            )

    def with_bounds(self, low: Fraction, high: Fraction) -> Self:
        """With 0 between them: small totals are not raised."""
        return super().with_bounds(min(low, Fraction(0)), max(high, Fraction(0)))

    @property
    def _clamped(self) -> str:
        return "a person's total of a key clamped"

    @property
    def grows(self) -> bool:
        return self.scale.low >= 0

    @property
    def samples(self) -> int:
        return 1

    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        # Fine steps for small totals, coarse ones for those that fine steps would have clamped.
        fine, coarse = (pairs.totals(self.column, step) * step for step in _RAW_STEPS)
        return np.arange(len(fine)), np.where(np.abs(coarse) >= _RAW_STEPS[1], coarse, fine)

    def raw_terms(self) -> tuple[PairTotals, exp.Expr]:
        fine, coarse = (
            exp.Mul(this=exp.cast(column(f"{TOTAL}{at}"), DOUBLE), expression=double(step))
            for at, step in enumerate(_RAW_STEPS)
        )
        large = exp.GTE(this=exp.Abs(this=coarse), expression=double(_RAW_STEPS[1]))
        return PairTotals(self.column, _RAW_STEPS), exp.Case().when(large, coarse.copy()).else_(fine)

    @property
    def most(self) -> Mapping[str, int]:
        return {"total": max(map(abs, self.scale.ends))}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, Integers]]:
        return [(slice(None), np.clip(pairs.totals(self.column, self._units[0]), *self.scale.ends))]

    def terms(self) -> Terms:
        inside = clip(column(f"{TOTAL}0"), *map(whole, self.scale.ends))
        return Terms((inside,), PairTotals(self.column, (self._units[0],)))

    @property
    def _units(self) -> Sequence[float]:
        return [float(self.scale.step)]

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Series]:
        [step], [law] = self._units, laws
        totals, deviation = noisy[0] * step, law.deviation * step
        width = total_width(law) * step  # in whole steps, as the noise is
        return interval_columns(self.names[0], totals, totals - width, totals + width, np.full(len(totals), deviation))
