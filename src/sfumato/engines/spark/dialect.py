"""Spark's SQL, as sqlglot writes it but for what would give other rows than DuckDB."""

from __future__ import annotations

from sqlglot.dialects.spark import Spark


class SparkSql(Spark):
    pass
