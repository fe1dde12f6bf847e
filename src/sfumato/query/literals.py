"""Values and names as nodes of a query tree, which mean the same in every engine's dialect."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from sfumato.query.values import decimal
from sfumato.types import Value


def literal(value: Value) -> exp.Expr:
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DataType.Type.TIMESTAMPNTZ)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if not isinstance(value, Fraction):
        return whole_literal(value)
    # A double: beside a decimal the engine would cast the column to its scale, and fail where a row is too large.
    digits = exp.Literal.number(decimal(abs(value)))
    return exp.cast(exp.Neg(this=digits) if value < 0 else digits, exp.DataType.Type.DOUBLE)


def column_of(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def double_literal(value: float) -> exp.Expr:
    """The same 64 bits: a double has as many digits as it needs to be read back."""
    digits: exp.Expr = exp.Literal.number(repr(abs(value)))
    return exp.cast(exp.Neg(this=digits) if value < 0 else digits, exp.DataType.Type.DOUBLE)


def whole_literal(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal
