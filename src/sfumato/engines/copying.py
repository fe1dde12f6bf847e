"""Releases of an engine whose rows are elsewhere: the columns that are needed are copied into DuckDB, and read there.

The rows of one snapshot come as an Arrow stream. They stand in a temporary, encrypted table of a DuckDB in memory,
which ends with the release. So the released table is the one that a Parquet file of the same rows gives, byte by byte.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlglot import exp

from sfumato.engines.base import Engine
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.duckdb.contributions import DuckDBContributions


class CopyingEngine(Engine):
    """An engine with releases of this kind. The DuckDB that holds the rows has `_memory_limit`."""

    _memory_limit: str

    @abstractmethod
    def _copied(self, query: ContributionQuery, *, empty: bool = False) -> AbstractContextManager[object]:
        """The rows that a release needs, as an Arrow stream that can be read once; with `empty`, none of them."""

    def check_contributions(self, query: ContributionQuery) -> None:
        with self._copied(query, empty=True) as rows, DuckDBEngine({}, frames={query.table: rows}) as copy:
            copy.check_contributions(query)

    def contributions(
        self, query: ContributionQuery, progress: Callable[[float], None] | None = None
    ) -> DuckDBContributions:
        with self._copied(query) as rows:
            copy = DuckDBEngine({}, frames={query.table: rows}, memory_limit=self._memory_limit)
            try:
                return copy.contributions(query, progress, last=True)
            except BaseException:
                copy.close()
                raise


def copied_columns(query: ContributionQuery) -> list[str]:
    """The columns that a release looks at."""
    filtered = [] if query.where is None else [column.name for column in query.where.find_all(exp.Column)]
    return list(dict.fromkeys((query.unit, *query.key, *query.values, *filtered)))


def copied_rows(cells: list[exp.Expr], table: exp.Table, *, empty: bool) -> exp.Select:
    """SELECT these columns of a table; with `empty`, without a row."""
    rows = exp.select(*cells).from_(table.copy())
    return rows.where(exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))) if empty else rows
