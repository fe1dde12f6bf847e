"""How an output depends on the noise of its row: as a number times the measure plus a number, or in another way."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

MAX_FACTOR, MAX_SHIFT = 10**6, 10**15  # a count times the one, plus the other, is far from any overflow
MAX_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Linear:
    """`factor` times the measure `of` of the row, plus `shift`.

    The factor is 0 where the measure is not in it, and None where it is in it in another way. The shift is None where
    it is no constant.
    """

    factor: Fraction | None = Fraction(0)
    shift: Fraction | None = None
    of: str = ""

    @property
    def is_noisy(self) -> bool:
        """Whether it depends on noise."""
        return self.factor != 0

    @property
    def may_be_negative(self) -> bool:
        """Whether it may be below zero where the measure without noise is not."""
        return self.factor is None or self.factor < 0 or self.shift is None or self.shift < 0

    def half_width(self, error: float) -> int | float | None:
        """The half-width of its 95 % interval, where that of the measure is `error`; None where none is known."""
        if not self.factor or abs(self.factor) > MAX_FACTOR or abs(self.shift or Fraction(0)) > MAX_SHIFT:
            return None
        width = abs(self.factor) * Fraction(error)
        return int(width) if width.denominator == 1 else float(width)


KNOWN = Linear()
UNCLEAR = Linear(None, None)

_KEEPING = (exp.DType.DOUBLE,)  # casts that change no count


def read_linear(node: exp.Expr, column: Callable[[exp.Column], Linear]) -> Linear:
    """What a node is in the noise of its row; `column` says it of a column."""
    if isinstance(node, exp.Column):
        return column(node)
    if isinstance(node, exp.Paren) or (isinstance(node, exp.Cast) and node.to.this in _KEEPING):
        return read_linear(node.this, column)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Linear(Fraction(0), _constant(node.this))
    if isinstance(node, exp.Neg):
        return _times(read_linear(node.this, column), Fraction(-1))
    if type(node) in (exp.Add, exp.Sub, exp.Mul, exp.Div):
        left, right = read_linear(node.this, column), read_linear(node.expression, column)
        return _combine(type(node), left, right)
    if isinstance(node, exp.AggFunc | exp.Window | exp.Query):
        return UNCLEAR
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
    of = {each.of for each in (left, right) if each.is_noisy}
    if left.factor is None or right.factor is None or len(of) > 1:
        return UNCLEAR
    if operator in (exp.Add, exp.Sub):
        sign = 1 if operator is exp.Add else -1
        known = left.shift is not None and right.shift is not None
        shift = Fraction((left.shift or 0) + sign * (right.shift or 0)) if known else None
        return Linear(left.factor + sign * right.factor, shift, "".join(of))
    if operator is exp.Mul and not left.factor and left.shift is not None:
        return _times(right, left.shift)
    if not right.factor and right.shift is not None and (operator is exp.Mul or right.shift):
        return _times(left, right.shift if operator is exp.Mul else 1 / right.shift)
    return UNCLEAR if left.is_noisy or right.is_noisy else KNOWN


def _times(linear: Linear, number: Fraction) -> Linear:
    if linear.factor is None:
        return UNCLEAR
    return Linear(linear.factor * number, None if linear.shift is None else linear.shift * number, linear.of)
