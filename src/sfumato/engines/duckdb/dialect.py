"""DuckDB's SQL, as sqlglot writes it but for sums."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from sfumato.query.counting import WIDE


class DuckDBWriter(DuckDBGenerator):
    """Sums of whole numbers are exact here without a cast: DuckDB adds them up in 128 bits, which is faster."""

    def sum_sql(self, expression: exp.Sum) -> str:
        cast = expression.this
        return self.func("SUM", cast.this if isinstance(cast, exp.Cast) and cast.to == WIDE else cast)


class DuckDBSql(DuckDB):
    Generator = DuckDBWriter
