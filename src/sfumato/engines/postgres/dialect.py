"""PostgreSQL's SQL, as sqlglot writes it but for what would give other rows than DuckDB."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generator import Generator
from sqlglot.generators.postgres import PostgresGenerator


def _passed(self: Generator, expression: exp.DateDiff) -> str:
    """Whole seconds or days, rounded down. sqlglot's text rounds to the nearest second."""
    passed = exp.paren(exp.Sub(this=expression.this, expression=expression.expression))
    if expression.text("unit").upper() == "DAY":  # two dates: their difference is a number of days
        return self.sql(passed)
    seconds = exp.Extract(this=exp.var("EPOCH"), expression=passed)
    return self.sql(exp.cast(exp.Floor(this=seconds), exp.DataType.Type.BIGINT))


class PostgresWriter(PostgresGenerator):
    """Whole numbers are divided as such, and none is negative here: DIV would turn them into decimals."""

    TRANSFORMS = {  # noqa: RUF012
        **PostgresGenerator.TRANSFORMS,
        exp.DateDiff: _passed,
        exp.IntDiv: lambda self, expression: self.binary(expression, "/"),
    }


class PostgresSql(Postgres):
    Generator = PostgresWriter
