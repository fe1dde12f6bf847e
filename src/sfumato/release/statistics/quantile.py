"""Quantiles of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.accounting.numbers import Number, probability
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers, blamed_on
from sfumato.mechanisms.quantiles import QuantileChoice, QuantileTree
from sfumato.mechanisms.random import Rng
from sfumato.release.bounding import Pairs
from sfumato.release.guarantee import as_written
from sfumato.release.statistics.base import NORMAL95, Column, Floats, Share, interval_columns, sum_by_place
from sfumato.release.statistics.numeric import POINTS, ValueStatistic

MAX_QUANTILES = 20


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How many values lie at each place: ascending codes row * POINTS + place, and their counts."""

    codes: Integers
    counts: Integers

    @classmethod
    def of(cls, codes: Integers, counts: Integers) -> ValueCounts:
        found, inverse = np.unique(codes, return_inverse=True)
        return cls(found, sum_by_place(inverse, counts, len(found)))

    def __add__(self, other: Any) -> ValueCounts:
        pairs = (self.codes, other.codes), (self.counts, other.counts)
        return ValueCounts.of(*(np.concatenate(pair) for pair in pairs))

    def first(self, size: int) -> ValueCounts:
        end = np.searchsorted(self.codes, size * POINTS)
        return ValueCounts(self.codes[:end], self.counts[:end])


@dataclass(frozen=True)
class Quantile(ValueStatistic):
    """Quantiles of a column: one by the exponential mechanism, several from one noisy tree of counts.

    A single one comes without an interval: its accuracy depends on the values, which must not be seen.
    """

    quantiles: Number | Sequence[Number] = Fraction(1, 2)
    word: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.quantiles if isinstance(self.quantiles, Sequence) else (self.quantiles,)
        parts = tuple(sorted({probability("quantile", as_written(part)) for part in given}))
        if not 1 <= len(parts) <= MAX_QUANTILES:
            raise InvalidArgument(self.word, f"{self.column} needs 1 to {MAX_QUANTILES} quantiles, such as 0.5,0.9")
        object.__setattr__(self, "quantiles", parts)

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return self.quantiles  # type: ignore[return-value]

    @property
    def names(self) -> tuple[str, ...]:
        # 50 for a half, 99_9 for 0.999.
        percents = (f"{float(part * 100):.10g}".replace(".", "_") for part in self._parts)
        return tuple(f"{self.column}_q{percent}" for percent in percents)

    @property
    def describes(self) -> str:
        bounds = f"[{float(self.scale.low):g}, {float(self.scale.high):g}]"
        listed = ", ".join(f"{float(part):g}" for part in self._parts)
        return f"quantiles {listed} of {self.column}, {self._clamped} to {bounds}, at one of {POINTS:,} places"

    @property
    def spread(self) -> str:
        return "the width of the interval over 3.92" if len(self._parts) > 1 else "not told, nor is an interval"

    def nothing(self, size: int) -> ValueCounts:
        return ValueCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def parts(self, pairs: Pairs, places: Integers, size: int) -> ValueCounts:
        which, values = pairs.values(self.column, self.values)
        codes = places[which] * POINTS + self.scale.places(values)
        return ValueCounts.of(codes, np.ones(len(codes), np.int64))

    def release(self, exact: ValueCounts, size: int, share: Share, rng: Rng) -> dict[str, Column]:
        if len(self._parts) > 1:
            found = self._tree(share).release(size, exact.codes, exact.counts, self._parts, rng)
            arrays = [self.scale.at(ends) for ends in (found.values, found.low, found.high)]
            columns: dict[str, Column] = {}
            for name, at, low, high in zip(self.names, *arrays, strict=True):
                columns |= interval_columns(name, at, low, high, self._deviation(low, high))
            return columns
        places = self._choice(share).release(size, exact.codes, exact.counts, rng)
        unknown: list[None] = [None] * size
        return interval_columns(self.names[0], self.scale.at(places + 0.5), unknown, unknown, unknown)

    def _deviation(self, low: Floats, high: Floats) -> Floats:
        """From the width of an interval, and no less than the grid allows."""
        finest = float(self.scale.high - self.scale.low) / POINTS / math.sqrt(12)
        return np.maximum((high - low) / (2 * NORMAL95), finest)

    def laws(self, share: Share) -> Mapping[str, str]:
        with blamed_on(self.names[0]):
            if len(self._parts) == 1:
                epsilon = float(self._choice(share).epsilon)
                return {"choice of a place": f"exponential mechanism, epsilon {epsilon:.4g} a key"}
            deviation = self._tree(share).noise.deviation
        return {"counts of a tree": f"discrete Gaussian, deviation {deviation:,.4g}"}

    def _tree(self, share: Share) -> QuantileTree:
        return QuantileTree(rho=share.rho, max_keys=share.max_keys, max_values=self.values)

    def _choice(self, share: Share) -> QuantileChoice:
        [quantile] = self._parts
        return QuantileChoice.of_rho(
            share.rho, quantile=quantile, max_keys=share.max_keys, max_values=self.values, points=POINTS
        )
