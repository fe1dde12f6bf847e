"""DuckDB's SQL, as sqlglot writes it but for sums."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from sfumato.query.counting import WIDE


class DuckDBSql(DuckDB):
    """Sums of whole numbers are exact here without a cast: DuckDB adds them up in 128 bits, which is faster."""

    class Generator(DuckDBGenerator):
        def sum_sql(self, expression: exp.Sum) -> str:
            cast = expression.this
            summed = cast.this if isinstance(cast, exp.Cast) and cast.to == WIDE else cast
            return self.func("SUM", summed)
