"""ClickHouse's SQL, as sqlglot writes it but for what would give other rows than DuckDB."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.generator import Generator
from sqlglot.generators.clickhouse import ClickHouseGenerator


def _cast(self: Generator, expression: exp.Cast) -> str:
    """A literal day or moment has the wide type, with microseconds and in UTC: sqlglot's loses both."""
    text = expression.this
    if isinstance(text, exp.Literal) and expression.is_type(exp.DataType.Type.DATE):
        return self.func("toDate32", text)
    if isinstance(text, exp.Literal) and expression.is_type(exp.DataType.Type.TIMESTAMPNTZ):
        return self.func("toDateTime64", text, exp.Literal.number(6), exp.Literal.string("UTC"))
    return self.cast_sql(expression)


def _passed(self: Generator, expression: exp.DateDiff) -> str:
    """Whole seconds or days. The later moment comes first, so cutting off the fraction rounds down."""
    later, earlier = expression.this, expression.expression
    if expression.text("unit").upper() == "DAY":
        return self.func("dateDiff", exp.Literal.string("day"), earlier, later)
    micros = (exp.Anonymous(this="toUnixTimestamp64Micro", expressions=[moment]) for moment in (later, earlier))
    passed = exp.Sub(this=next(micros), expression=next(micros))
    return self.func("intDiv", passed, exp.Literal.number(10**6))


class ClickHouseWriter(ClickHouseGenerator):
    """Text is measured in characters, and whole numbers are divided as such."""

    TRANSFORMS = {  # noqa: RUF012
        **ClickHouseGenerator.TRANSFORMS,
        exp.Cast: _cast,
        exp.DateDiff: _passed,
        exp.IntDiv: lambda self, expression: self.func("intDiv", expression.this, expression.expression),
        exp.Length: lambda self, expression: self.func("lengthUTF8", expression.this),
    }


class ClickHouseSql(ClickHouse):
    Generator = ClickHouseWriter
