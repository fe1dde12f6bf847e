"""Quantiles of a column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.numbers import Number
from sfumato.engines.contributions import Terms, Totals
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.noise import Integers, blamed_on
from sfumato.mechanisms.quantile_tree import QuantileTree, best_height
from sfumato.mechanisms.quantiles import MAX_OFFSET, MAX_PARTS, Grid, QuantileChoice, checked_quantile
from sfumato.mechanisms.random import Rng
from sfumato.release.bounding import Pairs
from sfumato.release.guarantee import as_written
from sfumato.release.statistics.base import Series, interval_columns, sum_by_place
from sfumato.release.statistics.expressions import whole
from sfumato.release.statistics.numeric import ValueStatistic, place_in_sql

MAX_QUANTILES = 20
FINE_STEPS = 10**5
"""So many steps at least lie between the bounds, unless a step is given: the step is a power of ten."""

NO_INTERVAL = "always empty: a quantile that is chosen has no interval"


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How many values lie at each point: ascending codes row * points + point, and their counts."""

    points: int
    codes: Integers
    counts: Integers

    @classmethod
    def of(cls, points: int, codes: Integers, counts: Integers) -> ValueCounts:
        found, inverse = np.unique(codes, return_inverse=True)
        return cls(points, found, sum_by_place(inverse, counts, len(found)))

    def __add__(self, other: Any) -> ValueCounts:
        pairs = (self.codes, other.codes), (self.counts, other.counts)
        return ValueCounts.of(self.points, *(np.concatenate(pair) for pair in pairs))

    def first(self, size: int) -> ValueCounts:
        end = np.searchsorted(self.codes, size * self.points)
        return ValueCounts(self.points, self.codes[:end], self.counts[:end])


@dataclass(frozen=True)
class Quantile(ValueStatistic):
    """Quantiles of a column, on the grid of its step: a few are chosen one by one, many are read off one noisy tree.

    Those that are chosen, by the exponential mechanism, have no interval: how far off they are depends on how far apart
    the values are, which must not be seen. Those of the tree have intervals. `intervals=True` takes the tree always.

    Give the `step` of whole numbers, ratings or cents: a grid of few points is more accurate. Without it the step is a
    power of ten, at least 10^5 steps lie between the bounds, and round numbers weigh more than others.
    """

    quantiles: Number | Sequence[Number] = Fraction(1, 2)
    intervals: bool = field(default=False, kw_only=True)
    word: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.quantiles if isinstance(self.quantiles, Sequence) else (self.quantiles,)
        parts = tuple(sorted({checked_quantile(as_written(part)) for part in given}))
        if not 1 <= len(parts) <= MAX_QUANTILES:
            raise InvalidArgument(self.word, f"{self.column} needs 1 to {MAX_QUANTILES} quantiles, such as 0.5,0.9")
        if not isinstance(self.intervals, bool):
            raise InvalidArgument("intervals", "must be True or False")
        object.__setattr__(self, "quantiles", parts)

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return self.quantiles  # type: ignore[return-value]

    def _usual_step(self, wide: Fraction) -> Fraction:
        """The largest power of ten with at least FINE_STEPS steps in the range."""
        finest = wide / FINE_STEPS
        exponent = len(str(finest.numerator)) - len(str(finest.denominator))
        return Fraction(10) ** (exponent if Fraction(10) ** exponent <= finest else exponent - 1)

    @cached_property
    def grid(self) -> Grid:
        """Its points. Round numbers weigh more than others where the step was not given."""
        points, offset = self.scale.points, self.scale.low / self.scale.step
        if self.step is not None or offset.denominator != 1 or abs(offset) > MAX_OFFSET:
            return Grid(points)
        return Grid(points, int(offset), len(str(points)) - 2)  # ten points or more are the roundest

    @property
    def names(self) -> tuple[str, ...]:
        # 50 for a half, 99_9 for 0.999.
        percents = (f"{float(part * 100):.10g}".replace(".", "_") for part in self._parts)
        return tuple(f"{self.column}_q{percent}" for percent in percents)

    @property
    def by_tree(self) -> bool:
        """Whether a tree is used: it divides the budget by its levels, and choices divide it by their number.

        That the smaller of the two is the better one was measured (benchmarks/RESULTS.md, "Quantiles"). Bounds that are
        still to be found do not matter: without a step, the number of points is about the same for all.
        """
        points = FINE_STEPS if self.step is None else self.grid.points
        return self.intervals or len(self._parts) > best_height(points)

    @property
    def mechanism(self) -> str:
        return "quantile_tree/2" if self.by_tree else "quantile_choice/2"

    @property
    def describes(self) -> str:
        listed = ", ".join(f"{float(part):g}" for part in self._parts)
        clamped = f"{self._clamped} to [{float(self.scale.low):g}, {float(self.scale.high):g}]"
        return f"quantiles {listed} of {self.column}, {clamped}, in steps of {float(self.scale.step):.4g}"

    def ends(self, number: str) -> tuple[str, str]:
        return super().ends(number) if self.by_tree else (NO_INTERVAL, NO_INTERVAL)

    @property
    def spread(self) -> str:
        return "the width of the interval over 3.92" if self.by_tree else NO_INTERVAL

    def nothing(self, size: int) -> ValueCounts:
        return ValueCounts(self.grid.points, np.zeros(0, np.int64), np.zeros(0, np.int64))

    def parts(self, pairs: Pairs, places: Integers, size: int) -> ValueCounts:
        which, values = pairs.values(self.column, self.values)
        codes = places[which] * self.grid.points + self.scale.places(values)
        return ValueCounts.of(self.grid.points, codes, np.ones(len(codes), np.int64))

    def terms(self) -> Terms:
        reads, value = self.raw_terms()
        return Terms((whole(1),), reads, place_in_sql(self.scale, value))

    def exact(self, totals: Totals, size: int) -> ValueCounts:
        codes = totals.places * self.grid.points + totals.points
        return ValueCounts.of(self.grid.points, codes, totals.amounts[0])

    def release(self, exact: ValueCounts, size: int, share: Share, rng: Rng) -> dict[str, Series]:
        histogram = size, exact.codes, exact.counts
        columns: dict[str, Series] = {}
        if self.by_tree:
            found = self._tree(share).release(*histogram, self._parts, rng)
            arrays = map(self.scale.at, (found.values, found.low, found.high))
            for name, values, low, high in zip(self.names, *arrays, strict=True):
                deviation = np.maximum(high - low, float(self.scale.step)) / 3.92
                columns |= interval_columns(name, values, low, high, deviation)
            return columns
        chosen = np.sort([choice.release(*histogram, rng) for choice in self._choices(share)], axis=0)
        unknown: list[None] = [None] * size
        for name, points in zip(self.names, chosen, strict=True):
            columns |= interval_columns(name, self.scale.at(points), unknown, unknown, unknown)
        return columns

    def laws(self, share: Share) -> Mapping[str, str]:
        if any(part.denominator > MAX_PARTS for part in self._parts) and not self.by_tree:
            problem = f"quantiles of {self.column} must be fractions of at most {MAX_PARTS:,} parts, like 0.999"
            raise InvalidArgument(self.word, problem)
        with blamed_on(self.names[0]):
            if self.by_tree:
                return {"counts of a tree": f"discrete Gaussian, deviation {self._tree(share).noise.deviation:,.4g}"}
            choices = self._choices(share)
        miss = max(math.ceil(choice.miss()) for choice in choices)
        law = f"exponential mechanism, epsilon {float(choices[0].epsilon):.4g} per key"
        return {"choice of a point": f"{law}, 19 times in 20 at most {miss:,} values off"}

    def steps(self, share: Share) -> tuple[GaussianStep, ...]:
        return (self._tree(share).step,) if self.by_tree else ()

    def _tree(self, share: Share) -> QuantileTree:
        return QuantileTree(rho=share.rho, max_keys=share.max_keys, max_values=self.values, points=self.grid.points)

    def _choices(self, share: Share) -> list[QuantileChoice]:
        """One for each quantile, for equal parts of rho."""
        each, common = share.rho / len(self._parts), {"max_keys": share.max_keys, "max_values": self.values}
        return [QuantileChoice.of_rho(each, quantile=part, grid=self.grid, **common) for part in self._parts]
