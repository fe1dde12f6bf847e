"""PostgreSQL's SQL, as sqlglot writes it but for what would give other rows than DuckDB."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generator import Generator
from sqlglot.generators.postgres import PostgresGenerator

from sfumato.query.expressions.functions import FUNCTIONS

ROW_FUNCTIONS = frozenset(
    each
    for each in FUNCTIONS
    if not each.endswith((" of numbers", "lower", "upper"))
    and (not each.startswith("cast") or "number" not in each)
    and each not in ("cast text to date", "cast text to timestamp")
)
"""What PostgreSQL computes as DuckDB does. Its letters follow other tables, its doubles fail where they overflow, and a
cast of text to a day fails where there is no such day."""


def _passed(self: Generator, expression: exp.DateDiff) -> str:
    """Whole seconds or days, rounded down. sqlglot's text rounds to the nearest second."""
    passed = exp.paren(exp.Sub(this=expression.this, expression=expression.expression))
    if expression.text("unit").upper() == "DAY":  # two dates: their difference is a number of days
        return self.sql(passed)
    seconds = exp.Extract(this=exp.var("EPOCH"), expression=passed)
    return self.sql(exp.cast(exp.Floor(this=seconds), exp.DataType.Type.BIGINT))


def _part_of_text(self: Generator, expression: exp.RegexpExtract) -> str:
    """The text that matches, or NULL."""
    return f"SUBSTRING({self.sql(expression, 'this')} FROM {self.sql(expression, 'expression')})"


_EXPONENT, _PLACES = 30, 40


def _double(self: Generator, expression: exp.ToDouble) -> str:
    """A number as a double, NULL for NaN, infinities and what is larger than values can be: such casts would fail."""
    number = exp.cast(expression.this, exp.DataType.Type.DECIMAL)
    largest = exp.Literal.number(10**_EXPONENT)
    inside = exp.Between(this=number, low=exp.Neg(this=largest), high=largest.copy())
    rounded = exp.Anonymous(this="ROUND", expressions=[number.copy(), exp.Literal.number(_PLACES)])
    return self.sql(exp.Case().when(inside, exp.cast(rounded, exp.DataType.Type.DOUBLE)))


class PostgresWriter(PostgresGenerator):
    """Whole numbers are divided as such, and none is negative here: DIV would turn them into decimals.

    128 bits are a decimal. A cast that must not fail is one of text that has been looked at, so it is a cast.
    """

    TYPE_MAPPING = {**PostgresGenerator.TYPE_MAPPING, exp.DType.INT128: "NUMERIC"}  # noqa: RUF012

    TRANSFORMS = {  # noqa: RUF012
        **PostgresGenerator.TRANSFORMS,
        exp.DateDiff: _passed,
        exp.RegexpExtract: _part_of_text,
        exp.ToDouble: _double,
        exp.IntDiv: lambda self, expression: self.binary(expression, "/"),
    }


class PostgresSql(Postgres):
    Generator = PostgresWriter
