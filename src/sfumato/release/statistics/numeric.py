"""Statistics of a column: public bounds, the step in which values are counted, and who chooses the values."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from sqlglot import exp

from sfumato.accounting.numbers import Number, rational, whole
from sfumato.engines.contributions import PairTotals, PairValues
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding import Pairs
from sfumato.release.guarantee import as_written
from sfumato.release.statistics import expressions as sql
from sfumato.release.statistics.base import Floats, Statistic

STEPS = 2**20
"""So many steps lie between the bounds, unless a step is given."""

MAX_STEPS = 2**30
MAX_VALUES = 1000


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

    def center_in_sql(self, value: exp.Expr) -> exp.Expr:
        inside = sql.clip(value, sql.double(float(self.low)), sql.double(float(self.high)))
        steps = sql.steps_from(inside, self.middle, float(self.step))
        return sql.clip(steps, sql.whole(-self.reach), sql.whole(self.reach))

    @property
    def points(self) -> int:
        """How many points there are from the lower bound up, a step apart, within the bounds."""
        return math.floor((self.high - self.low) / self.step) + 1

    def places(self, values: Floats) -> Integers:
        """The number of the point that is nearest to each value."""
        inside = self.inside(values) - float(self.low)
        places: Integers = np.rint(inside / float(self.step)).astype(np.int64)
        return np.clip(places, 0, self.points - 1)

    def place_in_sql(self, value: exp.Expr) -> exp.Expr:
        inside = sql.clip(value, sql.double(float(self.low)), sql.double(float(self.high)))
        steps = sql.steps_from(inside, float(self.low), float(self.step))
        return sql.clip(steps, sql.whole(0), sql.whole(self.points - 1))

    def at(self, places: Integers) -> Floats:
        """The values of points. Over a whole denominator: 35 steps of 0.01 are 0.35, and not 0.35000000000000003."""
        step = self.step if self.step.denominator < 2**53 else Fraction(float(self.step))
        above = float(self.low * step.denominator) + places * float(step.numerator)
        return self.inside(above / step.denominator)

    def inside(self, values: Floats) -> Floats:
        return np.clip(values, float(self.low), float(self.high))


@dataclass(frozen=True)
class Numeric(Statistic):
    """A statistic of the values of a column between public bounds. Without bounds, the release finds and pays them."""

    column: str
    low: Number | None = None
    high: Number | None = None
    step: Number | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgument(self.word, "needs the name of a column")
        for name in ("low", "high", "step"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, rational(f"{self.word} {self.column}, {name}", as_written(given)))
        if (self.low is None) != (self.high is None):
            raise InvalidArgument(self.word, f"{self.column} needs both bounds or neither, such as {self.column}:0:100")
        if self.bounded:
            self._check_scale()
        elif self.step is not None:
            # Whether it fits bounds that are found would follow from the rows, and then it is too late to refuse.
            raise InvalidArgument(self.word, f"the step of {self.column} needs bounds; leave it out to have them found")

    def _check_scale(self) -> None:
        scale = self.scale
        wide = scale.high - scale.low
        if wide <= 0:
            raise InvalidArgument(
                self.word,
                f"the bounds of {self.column} are {float(scale.low):g} to {float(scale.high):g}; the lower comes first",
            )
        if not 0 < scale.step <= wide or wide > MAX_STEPS * scale.step:
            raise InvalidArgument(self.word, f"the step of {self.column} must be between its range and range / 2^30")
        if not all(2**-100 < abs(float(number)) < 2**100 for number in (scale.low, scale.high, wide) if number):
            raise InvalidArgument(
                self.word, f"the bounds of {self.column} are too large, or too small, to compute with"
            )

    @property
    def bounded(self) -> bool:
        return self.low is not None

    @cached_property
    def scale(self) -> Scale:
        if self.low is None or self.high is None:
            raise InvalidArgument(
                self.word, f"{self.column} needs bounds, such as {self.column}:0:100; or let --auto-bounds find them"
            )
        low, high = Fraction(self.low), Fraction(self.high)
        return Scale(low, high, self._usual_step(high - low) if self.step is None else Fraction(self.step))

    def _usual_step(self, wide: Fraction) -> Fraction:
        """The step of values in a range, unless it is given."""
        return wide / STEPS

    def with_bounds(self, low: Fraction, high: Fraction) -> Self:
        """The statistic with bounds that were found."""
        return replace(self, low=low, high=high)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.column}_{self.word}",)

    @property
    def describes(self) -> str:
        bounds = f"[{float(self.scale.low):g}, {float(self.scale.high):g}]"
        return f"{self.word} of {self.column}, {self._clamped} to {bounds}, in steps of {float(self.scale.step):.4g}"

    @property
    @abstractmethod
    def _clamped(self) -> str: ...

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many numbers of a person and key unknown bounds are found from."""

    @abstractmethod
    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        """Those numbers, and the places of their pairs."""

    @abstractmethod
    def raw_terms(self) -> tuple[PairTotals | PairValues, exp.Expr]:
        """The same in SQL: what they are read from, and the number."""


@dataclass(frozen=True)
class ValueStatistic(Numeric):
    """A statistic of single values, at most `values` of a person and key, chosen by a keyed order."""

    values: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", whole("values", self.values, at_least=1, at_most=MAX_VALUES))

    @property
    def _clamped(self) -> str:
        return f"at most {self.values} value{'s' if self.values > 1 else ''} a person and key, clamped"

    @property
    def samples(self) -> int:
        return self.values

    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        return pairs.values(self.column, self.values)

    def raw_terms(self) -> tuple[PairValues, exp.Expr]:
        return PairValues(self.column, self.values), sql.column(sql.VALUE)


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
