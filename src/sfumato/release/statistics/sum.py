"""Sums of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.release.bounding import Pairs
from sfumato.release.bounding.pairs import MAX_VALUE_STEPS
from sfumato.release.statistics.base import MISSED, Column, Floats, SummedStatistic, interval_columns
from sfumato.release.statistics.numeric import Numeric


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
        fine, coarse = (pairs.totals(self.column, step) * step for step in (2.0**-16, 2.0**20))
        return np.arange(len(fine)), np.where(np.abs(coarse) >= 2.0**20, coarse, fine)

    @property
    def most(self) -> Mapping[str, int]:
        return {"total": max(map(abs, self.scale.ends))}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, Integers]]:
        return [(slice(None), np.clip(pairs.totals(self.column, self._units[0]), *self.scale.ends))]

    @property
    def _units(self) -> Sequence[float]:
        return [float(self.scale.step)]

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Column]:
        [step], [law] = self._units, laws
        totals, deviation = noisy[0] * step, law.deviation * step
        width = math.ceil(law.deviations(MISSED) * law.deviation) * step  # in whole steps, as the noise is
        return interval_columns(self.names[0], totals, totals - width, totals + width, np.full(len(totals), deviation))
