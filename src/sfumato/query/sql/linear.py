"""How an output depends on noise: as a sum of measures, each times a number, plus a number, or in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

MAX_FACTOR, MAX_SHIFT = 10**6, 10**15  # a count times the one, plus the other, is far from any overflow
MAX_DIGITS = 40
LINEAR = "sfumato_linear"
"""Where a SELECT inside of an expression has its `Linear`, if it is one number."""


class Noisy(NamedTuple):
    """A measure of a core, and through which relations of joins it is read: there it may be that of another row."""

    measure: str
    core: int = 0
    read: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Linear:
    """The sum of measures, each times its factor, plus `shift`.

    The factors are None where it depends on noise in another way. The shift is None where it is no constant. In a UNION
    it may be `either` of several.
    """

    factors: tuple[tuple[Noisy, Fraction], ...] | None = ()
    shift: Fraction | None = None
    either: tuple[Linear, ...] = ()

    @classmethod
    def of_measure(cls, measure: str, core: int = 0) -> Linear:
        return cls(((Noisy(measure, core), Fraction(1)),), Fraction(0))

    @property
    def is_noisy(self) -> bool:
        """Whether it depends on noise."""
        return self.factors != ()

    @property
    def of(self) -> str:
        """The measure of its own row that it follows from; empty where there are several, or none."""
        single = self.factors[0][0] if self.factors and len(self.factors) == 1 else None
        return "" if single is None or single.read else single.measure

    @property
    def numbers(self) -> list[Noisy]:
        """All measures that it follows from."""
        return [noisy for each in self.either or (self,) for noisy, _ in each.factors or ()]

    @property
    def may_be_negative(self) -> bool:
        """Whether it may be below zero where the measures without noise are not."""
        if self.either:
            return any(each.may_be_negative for each in self.either)
        below = self.factors is None or any(factor < 0 for _, factor in self.factors)
        return below or self.shift is None or self.shift < 0

    @property
    def is_within(self) -> bool:
        """Whether its factors and its shift are so small that no computation of it overflows."""
        small = all(abs(factor) <= MAX_FACTOR for _, factor in self.factors or ())
        return small and abs(self.shift or Fraction(0)) <= MAX_SHIFT

    def half_width(self, error: float) -> int | float | None:
        """The half-width of its 95 % interval, where that of its one measure is `error`; None where none is known."""
        if not self.of or not self.is_within:
            return None
        [(_, factor)] = self.factors or ()
        return as_width(abs(factor) * Fraction(error))

    def joined(self, name: str) -> Linear:
        """What it is in a join, where its relation is called `name`."""
        if self.factors is None:
            return UNCLEAR
        return Linear(tuple((noisy._replace(read=(name, *noisy.read)), by) for noisy, by in self.factors), self.shift)

    def of_cores(self, places: Mapping[int, int]) -> Linear:
        """The same under other numbers of cores. What is of another core depends on noise in another way."""
        if self.either:
            return either(each.of_cores(places) for each in self.either)
        if self.factors is None or any(noisy.core not in places for noisy, _ in self.factors):
            return UNCLEAR
        moved = ((noisy._replace(core=places[noisy.core]), by) for noisy, by in self.factors)
        return replace(self, factors=tuple(sorted(moved)))


KNOWN = Linear()
UNCLEAR = Linear(None, None)


def either(parts: Iterable[Linear]) -> Linear:
    """What is one of these, row by row."""
    found = tuple(dict.fromkeys(inner for part in parts for inner in part.either or (part,)))
    if any(each.factors is None for each in found):
        return UNCLEAR
    return Linear(None, None, found) if any(each.is_noisy for each in found) else KNOWN


def as_width(width: Fraction) -> int | float:
    return int(width) if width.denominator == 1 else float(width)


_KEEPING = (exp.DType.DOUBLE,)  # casts that change no count


def read_linear(node: exp.Expr, column: Callable[[exp.Column], Linear]) -> Linear:
    """What a node is in the noise of its row; `column` says it of a column."""
    if isinstance(node, exp.Column):
        return column(node)
    if isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this in _KEEPING):
        return read_linear(node.this, column)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Linear((), _constant(node.this))
    if isinstance(node, exp.Neg):
        return _times(read_linear(node.this, column), Fraction(-1))
    if type(node) in (exp.Add, exp.Sub, exp.Mul, exp.Div):
        left, right = read_linear(node.this, column), read_linear(node.expression, column)
        return _combine(type(node), left, right)
    if isinstance(node, exp.AggFunc | exp.Window | exp.Query):
        linear = node.meta.get(LINEAR)
        return linear if isinstance(linear, Linear) else UNCLEAR
    inner = [read_linear(part, column) for part in node.iter_expressions()]
    return UNCLEAR if any(each.is_noisy for each in inner) else KNOWN


def _constant(digits: str) -> Fraction | None:
    """A literal as an exact number; None where it has more digits than anything here needs."""
    with suppress(InvalidOperation):
        number = Decimal(digits)
        if number.is_finite() and abs(number.adjusted()) <= MAX_DIGITS and len(digits) <= MAX_DIGITS:
            return Fraction(number)
    return None


def _combine(operator: type[exp.Expr], left: Linear, right: Linear) -> Linear:
    if left.factors is None or right.factors is None:
        return UNCLEAR
    if operator in (exp.Add, exp.Sub):
        signed = right if operator is exp.Add else _times(right, Fraction(-1))
        factors = dict(left.factors)
        for noisy, factor in signed.factors or ():
            factors[noisy] = factors.get(noisy, Fraction(0)) + factor
        known = left.shift is not None and signed.shift is not None
        shift = (left.shift or Fraction(0)) + (signed.shift or Fraction(0)) if known else None
        return Linear(tuple(sorted(each for each in factors.items() if each[1])), shift)
    if operator is exp.Mul and not left.factors and left.shift is not None:
        return _times(right, left.shift)
    if not right.factors and right.shift is not None and (operator is exp.Mul or right.shift):
        return _times(left, right.shift if operator is exp.Mul else 1 / right.shift)
    return UNCLEAR if left.is_noisy or right.is_noisy else KNOWN


def _times(linear: Linear, number: Fraction) -> Linear:
    if linear.factors is None:
        return UNCLEAR
    factors = tuple((noisy, factor * number) for noisy, factor in linear.factors if number)
    return Linear(factors, None if linear.shift is None else linear.shift * number)
