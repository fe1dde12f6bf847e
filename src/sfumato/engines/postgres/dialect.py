"""PostgreSQL's SQL, as sqlglot writes it but for what would give other rows than DuckDB."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.generators.postgres import PostgresGenerator


class PostgresSql(Postgres):
    class Generator(PostgresGenerator):
        def datediff_sql(self, expression: exp.DateDiff) -> str:
            """Whole seconds or days, rounded down. sqlglot's text rounds to the nearest second."""
            passed = exp.Sub(this=expression.this, expression=expression.expression)
            if expression.text("unit").upper() == "DAY":  # two dates: their difference is a number of days
                return self.sql(exp.paren(passed))
            seconds = exp.Extract(this=exp.var("EPOCH"), expression=exp.paren(passed))
            return self.sql(exp.cast(exp.Floor(this=seconds), exp.DataType.Type.BIGINT))

        def intdiv_sql(self, expression: exp.IntDiv) -> str:
            """Of whole numbers, which are not negative here. DIV would turn them into decimals."""
            return self.binary(expression, "/")


# sqlglot looks for entries of this table before it looks for methods.
for replaced in (exp.DateDiff, exp.IntDiv):
    PostgresSql.Generator.TRANSFORMS = {k: v for k, v in PostgresSql.Generator.TRANSFORMS.items() if k is not replaced}
