"""DuckDB's SQL, as sqlglot writes it but for sums and patterns."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from sfumato.query.counting import WIDE
from sfumato.query.expressions.functions import regular_expression


class DuckDBWriter(DuckDBGenerator):
    """Sums of whole numbers are exact here without a cast: DuckDB adds them up in 128 bits, which is faster.

    Patterns are text literals, and their escape is the backslash, as the trees of expressions have them.
    """

    def sum_sql(self, expression: exp.Sum) -> str:
        cast = expression.this
        return self.func("SUM", cast.this if isinstance(cast, exp.Cast) and cast.to == WIDE else cast)

    def todouble_sql(self, expression: exp.ToDouble) -> str:
        """A number as a double. Here that never fails."""
        return self.sql(exp.cast(expression.this.copy(), exp.DataType.Type.DOUBLE))

    def like_sql(self, expression: exp.Like) -> str:
        """A pattern with _ or an escape as a regular expression: DuckDB's own search could take hours for one text."""
        pattern = expression.expression.name
        if "_" not in pattern and "\\" not in pattern:
            return str(self.binary(expression, "LIKE"))
        form = exp.Literal.string(f"(?s){regular_expression(pattern)}")
        return self.func("regexp_full_match", expression.this, form)

    def escape_sql(self, expression: exp.Escape) -> str:
        return self.sql(expression.this)


class DuckDBSql(DuckDB):
    Generator = DuckDBWriter
