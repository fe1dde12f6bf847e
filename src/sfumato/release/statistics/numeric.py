"""Statistics of a column: public bounds, the step in which values are counted, and who chooses the values."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

from sqlglot import exp

from sfumato.accounting.numbers import Number, rational, whole
from sfumato.engines.contributions import PairTotals, PairValues
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.estimates import Floats, Scale
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding import Pairs
from sfumato.release.guarantee import as_written
from sfumato.release.statistics import expressions as sql
from sfumato.release.statistics.base import Statistic

STEPS = 2**20
"""So many steps lie between the bounds, unless a step is given."""

MAX_STEPS = 2**30
MAX_VALUES = 1000


def center_in_sql(scale: Scale, value: exp.Expr) -> exp.Expr:
    """`Scale.center` in SQL."""
    inside = sql.clip(value, sql.double(float(scale.low)), sql.double(float(scale.high)))
    steps = sql.steps_from(inside, scale.middle, float(scale.step))
    return sql.clip(steps, sql.whole(-scale.reach), sql.whole(scale.reach))


def place_in_sql(scale: Scale, value: exp.Expr) -> exp.Expr:
    """`Scale.places` in SQL."""
    inside = sql.clip(value, sql.double(float(scale.low)), sql.double(float(scale.high)))
    steps = sql.steps_from(inside, float(scale.low), float(scale.step))
    return sql.clip(steps, sql.whole(0), sql.whole(scale.points - 1))


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
