"""A connection for one long job: no deadline, whole columns, and temporary tables."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import duckdb
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.engines.base import CLOSED, query_text
from sfumato.engines.duckdb.dialect import DuckDBSql
from sfumato.engines.duckdb.execution import PULSE_S, attempt, one_select, run_interruptibly
from sfumato.errors import EngineFailed

T = TypeVar("T")

Lease: TypeAlias = Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[duckdb.DuckDBPyConnection]]
"""Use a connection; the engine waits for the end before it closes."""


class Workspace:
    """The tables of an engine, for one job. Use it from one thread, and as a context manager.

    It guarantees what `Engine.run` does: the same checks of every query, and the same text for every failure.
    """

    def __init__(self, tables: Collection[str], connection: duckdb.DuckDBPyConnection, lease: Lease) -> None:
        self._tables, self._connection, self._lease = tuple(tables), connection, lease
        self._kept: list[str] = []
        self._numbers = itertools.count()
        self._closed = False

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """The rows of a SELECT tree, as `Engine.run` returns them."""
        return self._run(query, lambda select: self._connection.execute(select).fetchall())

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """The columns of a SELECT tree by name. One with a NULL is a masked array."""
        return self._run(query, lambda select: self._connection.execute(select).fetchnumpy())

    def kinds(self, query: exp.Query) -> dict[str, str]:
        """The columns of a SELECT tree, with DuckDB's names of their types. No row is read."""
        columns = self._run(query, lambda select: self._connection.execute(f"DESCRIBE {select.query}").fetchall())
        return {name: kind for name, kind, *_ in columns}

    def keep(self, query: exp.Query) -> str:
        """Write the rows of a SELECT tree to a table that this workspace alone can read. Returns its name."""
        taken = {table.casefold() for table in self._tables}
        name = next(name for number in self._numbers if (name := f"sfumato_kept_{number}") not in taken)
        create = f'CREATE TEMPORARY TABLE "{name}" AS '
        self._run(query, lambda select: self._connection.execute(create + select.query))
        self._kept.append(name)
        return name

    def drop(self, name: str) -> None:
        """Drop a table of `keep`. One that is gone already is fine."""
        if name not in self._kept:
            return
        self._kept.remove(name)
        with suppress(EngineFailed), self._lease(self._connection) as cursor:  # closed: it is gone already
            attempt(lambda: cursor.execute(f'DROP TABLE temp."{name}"'))

    def _run(self, query: exp.Query, work: Callable[[duckdb.Statement], T]) -> T:
        text = query_text(query, (*self._tables, *self._kept), DuckDBSql)
        if self._closed:
            raise EngineFailed(CLOSED)
        with self._lease(self._connection) as cursor:
            select = one_select(cursor, text)
            return run_interruptibly(cursor, lambda: attempt(lambda: work(select)))

    def close(self) -> None:
        """Drop the temporary tables. A closed workspace refuses; closing twice is fine."""
        self._closed = True
        while True:
            try:
                return self._connection.close()
            except duckdb.ResourceInUseException:  # what was interrupted has not noticed it yet
                self._connection.interrupt()
                time.sleep(PULSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
