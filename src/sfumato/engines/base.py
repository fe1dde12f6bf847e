"""The port of every engine: a SELECT tree in, exact rows out; one sentence for every failure.

There are two doors: `Engine.run` for a question, which has a deadline, and `Workspace` for a job that takes its time.

What an asker learns from an engine must not depend on the rows. So everything that goes wrong once rows may have
been read is told in the same words, `COULD_NOT_ANSWER`, without the engine's own text, which can quote a cell. Only
what is true of the set-up alone (a file that is not there, a table the database does not have) is told by name, when
the engine is opened.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from numpy.typing import NDArray
from sqlglot import ErrorLevel, exp

ColumnType: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "timestamp", "other"]

COULD_NOT_ANSWER = (
    "the engine could not answer; what was reserved for this question stays reserved, and asking it again costs no more"
)
COULD_NOT_READ = "the engine could not answer; nothing of this report was shown, and asking for it again is free"
CLOSED = "the engine is closed"

# What sqlglot writes out as it stands: numbers, and the names of functions and units.
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCES = (exp.Table, exp.Subquery, exp.Values, exp.Unnest)


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
        return self._run(_written(query, self.abilities.dialect))

    @abstractmethod
    def _run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT, in the engine's own dialect."""

    def check(self) -> None:
        """Raise `EngineFailed` unless every table can be reached. No row is read."""
        for table in self.tables():
            self.run(exp.select(exp.Literal.number(1)).from_(exp.table_(table, quoted=True)).limit(0))

    @abstractmethod
    def workspace(self) -> Workspace:
        """A place for one long job over the same tables. It ends when it is closed, or the engine is."""

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


class Workspace(ABC):
    """One long job's own door to an engine's rows: no deadline, whole columns, and tables in between.

    Guarantees what `Engine.run` does: the same checks of every query, and for everything that goes wrong the same
    words. Use it from one thread, and as a context manager.
    """

    def __init__(self, dialect: str, tables: Collection[str]) -> None:
        self._dialect, self._tables = dialect, tuple(tables)
        self._kept: list[str] = []
        self._numbers = itertools.count()

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """The rows of a SELECT tree, as `Engine.run` gives them."""
        return self._rows(self._text(query))

    def arrays(self, query: exp.Query) -> dict[str, NDArray[Any]]:
        """The columns of a SELECT tree by name. One with a NULL is a masked array."""
        return self._arrays(self._text(query))

    def kinds(self, query: exp.Query) -> dict[str, str]:
        """The columns of a SELECT tree and the engine's own names of their types. Nothing is run."""
        return self._kinds(self._text(query))

    def keep(self, query: exp.Query) -> str:
        """Write the rows of a SELECT tree to a table that this workspace alone can read; its name."""
        text = self._text(query)
        taken = {table.casefold() for table in self._tables}
        name = next(name for number in self._numbers if (name := f"sfumato_kept_{number}") not in taken)
        self._keep(name, text)
        self._kept.append(name)
        return name

    def drop(self, name: str) -> None:
        """Let go of a table of `keep` before the end. One that is gone already is fine."""
        if name in self._kept:
            self._kept.remove(name)
            self._drop(name)

    def _text(self, query: exp.Query) -> str:
        _check(query, (*self._tables, *self._kept))
        return _written(query, self._dialect)

    @abstractmethod
    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT, in the engine's own dialect."""

    @abstractmethod
    def _arrays(self, text: str) -> dict[str, NDArray[Any]]:
        """Its columns."""

    @abstractmethod
    def _kinds(self, text: str) -> dict[str, str]:
        """Its columns' types, from metadata."""

    @abstractmethod
    def _keep(self, name: str, text: str) -> None:
        """Make a temporary table of it."""

    @abstractmethod
    def _drop(self, name: str) -> None:
        """Drop a table of `_keep`."""

    @abstractmethod
    def close(self) -> None:
        """Drop what was kept. A closed workspace refuses; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _written(query: exp.Query, dialect: str) -> str:
    """Every identifier is quoted: a name is the name as written, be it a keyword or an attack."""
    return query.sql(dialect=dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE)


def _check(query: exp.Query, tables: Collection[str]) -> None:
    """Let only a query tree through that names known tables, and holds no text that would be written out as SQL."""
    if not isinstance(query, exp.Query):
        raise TypeError(f"an engine runs a sqlglot query tree, not {type(query).__name__}")
    nodes = list(query.walk())  # once: a list of a thousand values is a thousand nodes
    known = {*tables, *(node.alias for node in nodes if isinstance(node, exp.CTE))}
    for node in nodes:
        if isinstance(node, exp.Literal | exp.Var | exp.Anonymous):
            _check_raw(node)
        elif isinstance(node, exp.Table):
            if not isinstance(node.this, exp.Identifier) or node.db or node.catalog or node.name not in known:
                raise ValueError(f"a query reads from {', '.join(sorted(tables))}; not from {node.sql()}")
        elif isinstance(node, exp.From | exp.Join) and not isinstance(node.this, _SOURCES):
            raise ValueError(f"a query reads from tables, not from {type(node.this).__name__}")


def _check_raw(node: exp.Expr) -> None:
    if isinstance(node, exp.Literal):
        if not node.is_string and not _NUMBER.fullmatch(node.name):
            raise ValueError("a number in the query is not written as a number")
    elif not _NAME.fullmatch(node.name):
        raise ValueError("a function or a unit in the query is not a plain name")
