"""The port of every engine: a SELECT tree in, exact rows out; one sentence for every failure.

What an asker learns from an engine must not depend on the rows. So everything that goes wrong once rows may have
been read is told in the same words, `COULD_NOT_ANSWER`, without the engine's own text, which can quote a cell. Only
what is true of the set-up alone (a file that is not there, a table the database does not have) is told by name, when
the engine is opened.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from sqlglot import ErrorLevel, exp

ColumnType: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "timestamp", "other"]

COULD_NOT_ANSWER = (
    "the engine could not answer; what was reserved for this question stays reserved, and asking it again costs no more"
)
CLOSED = "the engine is closed"

# What sqlglot writes out as it stands: numbers, and the names of functions and units.
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Abilities:
    """How an engine differs from the others, for the plan and the answer path to look up."""

    dialect: str
    bounds_rows_per_user: bool = True  # can it cap a person's rows inside the query?
    default_limit: int | None = None  # rows it returns when no LIMIT is written
    partial_flag: str | None = None  # response field that says some groups were dropped


class Engine(ABC):
    """A place where tables live. Open it, ask it from any number of threads, close it.

    Guarantees: `run` reads the tables of `tables()` and nothing else; counts and integer sums are exact `int`s or the
    query fails; text is grouped, compared and ordered by code point, as Python does it. Failures are `EngineFailed`,
    in words that do not depend on the rows, with no other exception chained to them.
    """

    abilities: Abilities

    def run(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """The rows of a SELECT tree, in its order: text as str, dates as date, timestamps as naive UTC datetime.

        A tree that is not a plain query over this engine's tables is the caller's mistake: TypeError or ValueError.
        """
        _check(query, self.tables())
        # Every identifier is quoted: a name is the name as written, be it a keyword or an attack.
        text = query.sql(
            dialect=self.abilities.dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE
        )
        return self._run(text)

    @abstractmethod
    def _run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT, in the engine's own dialect."""

    @abstractmethod
    def schema(self, table: str) -> dict[str, ColumnType]:
        """The columns of a table and their types, from metadata: no row is read for it."""

    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The names that a query may read from."""

    @abstractmethod
    def close(self) -> None:
        """Stop what is running and let go of everything. A closed engine refuses; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _check(query: exp.Query, tables: Collection[str]) -> None:
    """Let only a query tree through that names known tables, and holds no text that would be written out as SQL."""
    if not isinstance(query, exp.Query):
        raise TypeError(f"an engine runs a sqlglot query tree, not {type(query).__name__}")
    known = {*tables, *(cte.alias for cte in query.find_all(exp.CTE))}
    for source in query.find_all(exp.From, exp.Join):
        if not isinstance(source.this, exp.Table | exp.Subquery | exp.Values | exp.Unnest):
            raise ValueError(f"a query reads from tables, not from {type(source.this).__name__}")
    for table in query.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.db or table.catalog or table.name not in known:
            raise ValueError(f"a query reads from {', '.join(sorted(tables))}; not from {table.sql()}")
    for node in query.find_all(exp.Literal, exp.Var, exp.Anonymous):
        _check_raw(node)


def _check_raw(node: exp.Expr) -> None:
    if isinstance(node, exp.Literal):
        if not node.is_string and not _NUMBER.fullmatch(node.name):
            raise ValueError("a number in the query is not written as a number")
    elif not _NAME.fullmatch(node.name):
        raise ValueError("a function or a unit in the query is not a plain name")
