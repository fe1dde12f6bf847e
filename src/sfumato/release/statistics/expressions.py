"""The arithmetic of statistics as SQL, which gives the numbers of numpy in every engine: doubles, and whole numbers.

`rint` rounds half to even. An engine without such a function has to be given one.
"""

from __future__ import annotations

from sqlglot import exp

from sfumato.mechanisms.bounds import FINEST, ZERO

BIGINT, DOUBLE = exp.DataType.Type.BIGINT, exp.DataType.Type.DOUBLE

TOTAL, VALUE, ROWS = "total", "value", "rows"
"""The columns: of `PairTotals`, with a number behind it; of `PairValues`; and the number of a pair's rows."""


def column(name: str) -> exp.Expr:
    return exp.column(name, quoted=True)


def whole(number: int) -> exp.Expr:
    literal: exp.Expr = exp.Literal.number(abs(number))
    return exp.cast(exp.Neg(this=literal) if number < 0 else literal, BIGINT)


def double(number: float) -> exp.Expr:
    """The same 64 bits: a double has as many digits as it needs to be read back."""
    literal: exp.Expr = exp.Literal.number(repr(abs(float(number))))
    return exp.cast(exp.Neg(this=literal) if number < 0 else literal, DOUBLE)


def clip(number: exp.Expr, low: exp.Expr, high: exp.Expr) -> exp.Expr:
    # No NULL gets here; without the word, sqlglot would write each of them as a test for it.
    least = exp.Greatest(this=number, expressions=[low], ignore_nulls=True)
    return exp.Least(this=least, expressions=[high], ignore_nulls=True)


def nearest(number: exp.Expr) -> exp.Expr:
    """The nearest whole number, of two the even one; as an integer."""
    return exp.cast(exp.Anonymous(this="RINT", expressions=[number]), BIGINT)


def steps_from(value: exp.Expr, start: float, step: float) -> exp.Expr:
    """A double as whole steps from `start`."""
    distance = exp.paren(exp.Sub(this=value, expression=double(start)))
    return nearest(exp.Div(this=distance, expression=double(step), typed=True))


def shifted(number: exp.Expr, places: int) -> exp.Expr:
    """Rounded down to a multiple of a power of two, and divided by it."""
    return exp.BitwiseRightShift(this=exp.paren(number), expression=exp.Literal.number(places)) if places else number


def bin_of(number: exp.Expr) -> exp.Expr:
    """The bin of a double, as `sfumato.mechanisms.bounds.bins` has it.

    A logarithm may be off by a little. Powers of two are exact, so comparing with them puts that right.
    """
    size = clip(exp.Abs(this=number), double(2.0 ** (FINEST - 1)), double(2.0 ** (FINEST + ZERO)))
    guess = exp.cast(exp.Ceil(this=exp.Anonymous(this="LOG2", expressions=[size])), BIGINT)

    def power(shift: int) -> exp.Expr:
        exponent = exp.cast(exp.Add(this=guess.copy(), expression=whole(shift)), DOUBLE)
        return exp.Pow(this=double(2.0), expression=exponent)

    above, below = exp.GT(this=size.copy(), expression=power(0)), exp.LTE(this=size.copy(), expression=power(-1))
    shift = exp.Case().when(above, whole(1)).when(below, whole(-1)).else_(whole(0))
    steps = exp.Add(this=exp.Add(this=guess, expression=shift), expression=whole(-FINEST))
    inside = clip(steps, whole(0), whole(ZERO))
    negative = exp.LT(this=number.copy(), expression=double(0.0))
    signed = exp.Case().when(negative, exp.Neg(this=exp.paren(inside))).else_(inside.copy())
    return exp.Add(this=whole(ZERO), expression=exp.paren(signed))
