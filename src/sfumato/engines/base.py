"""The port of every engine: a SELECT tree in, exact rows out, one text for every failure.

Answers and reports need `run`, `schema`, `tables`, `check` and `close`. Releases read whole columns through a second
port, `Contributions` (`sfumato.engines.contributions`), which an engine may or may not have.

A failure must not tell an analyst what is in the rows. So every failure after rows may have been read has the same
text, `COULD_NOT_ANSWER`, without the engine's own text, which can quote a cell. Only failures of the set-up (a missing
file, a table that the database does not have) are described, when the engine is opened.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from sqlglot import Dialect, ErrorLevel, exp

from sfumato.config import EngineSettings
from sfumato.engines.contributions import CodedContributions, ContributionQuery, Contributions
from sfumato.errors import NotSupported
from sfumato.query.abilities import USUAL, Abilities
from sfumato.types import Type

ColumnType: TypeAlias = Type | Literal["other"]

COULD_NOT_ANSWER = (
    "the engine could not answer; what was reserved for this question stays reserved, and asking it again costs no more"
)
COULD_NOT_READ = "the engine could not answer; nothing of this report was shown, and asking for it again is free"
CLOSED = "the engine is closed"
NO_RELEASES = "a release cannot read from this engine; write the rows to a Parquet file, and release from that"

# sqlglot writes these out as they are: numbers, and the names of functions and units.
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCES = (exp.Table, exp.Subquery, exp.Values, exp.Unnest)


class Engine(ABC):
    """A place where tables live. Any number of threads may use it.

    Guarantees: `run` reads the tables of `tables()` and nothing else. Counts and integer sums are exact `int`s, or the
    query fails. Text is grouped, compared and ordered by code point, as Python does it. Failures are `EngineFailed`,
    in words that do not depend on the rows, with no other exception chained to them.
    """

    dialect: ClassVar[str | type[Dialect]]
    """The engine's SQL: a name in sqlglot, or a dialect of its own, where sqlglot's gives other rows than DuckDB."""

    abilities: ClassVar[Abilities] = USUAL
    """What it can do."""

    relation: Callable[[str], exp.Subquery] | None = None
    """What a query reads in place of a table of this name: its columns in the form that the port promises.

    Text compares and sorts by code point, zero has no sign, moments are in UTC and have no zone, enumerations are text.
    None for an engine whose tables have this form already.
    """

    endings: ClassVar[Sequence[str]] = ()
    """The endings of the files that it reads; () where it reads no files."""

    untyped: ClassVar[Sequence[str]] = ()
    """Those of files that do not say the types of their columns."""

    @classmethod
    @abstractmethod
    def open(
        cls,
        settings: EngineSettings,
        sources: Mapping[str, str],
        *,
        folder: Path | None,
        types: Mapping[str, Mapping[str, str]],
    ) -> Self:
        """An engine with the tables of `sources`, which maps names to what the owner wrote as the source.

        Relative files start at `folder`, or at the working directory. `types` has the column types that the owner
        wrote, by table; an engine needs them for sources that do not say their types. A source that cannot be opened
        is `EngineFailed` with its `table`.
        """

    @classmethod
    def locate(cls, source: str, folder: Path) -> str:
        """`source` as the engine reads it: a relative file starts at `folder`. Names of tables stay as they are."""
        return source

    @classmethod
    def origin(cls, settings: EngineSettings, source: str, folder: Path) -> str:
        """A name for the place of the rows. It is part of the digest of every answer, so it must never change.

        A folder that was moved as a whole is the same place. No secret belongs into it.
        """
        return f"{settings.type} {settings.url or ''} {source}"

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        """Names for where the rows are. Two sources with a name in common have rows in common.

        They are compared within one process and never stored. Copied rows are in another place.
        """
        return frozenset({f"{settings.type} {settings.url or ''} {source}"})

    def is_view(self, table: str) -> bool:
        """Whether the source of a table is a view: then its rows are those of other sources too."""
        return False

    def run(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """The rows of a SELECT tree, in its order: text as str, dates as date, timestamps as naive UTC datetime.

        A tree that is not a plain query over this engine's tables is the caller's mistake: TypeError or ValueError.
        """
        return self._run(query_text(query, self.tables(), self.dialect, self.relation))

    @abstractmethod
    def _run(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of one SELECT, in the engine's own dialect."""

    def check(self) -> None:
        """Raise `EngineFailed` unless every table can be reached. No row is read."""
        for table in self.tables():
            self.run(exp.select(exp.Literal.number(1)).from_(exp.table_(table, quoted=True)).limit(0))

    @abstractmethod
    def schema(self, table: str) -> dict[str, ColumnType]:
        """The columns of a table and their types, from metadata: no row is read."""

    def lists(self, table: str) -> dict[str, ColumnType]:
        """The columns of a table that hold lists, and the types of their elements. No row is read."""
        return {}

    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The names that a query may read from."""

    @abstractmethod
    def close(self) -> None:
        """Stop running queries and free everything. A closed engine refuses; closing twice is fine."""

    def check_contributions(self, query: ContributionQuery) -> None:
        """Refuse a query that `contributions` would refuse. Reads no row but those of public keys."""
        raise NotSupported(NO_RELEASES)

    def contributions(
        self, query: ContributionQuery, progress: Callable[[float], None] | None = None
    ) -> Contributions | CodedContributions:
        """The rows of a release, which this engine bounds and counts, or hands over.

        They have no deadline. `progress` gets the share of each pass that is done.
        """
        raise NotSupported(NO_RELEASES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def query_text(
    query: exp.Query,
    tables: Collection[str],
    dialect: str | type[Dialect],
    relation: Callable[[str], exp.Subquery] | None = None,
) -> str:
    """The text of a query tree over `tables`. Each is replaced by its `relation`, under the name that the query uses.

    Every identifier is quoted: a name is the name as written, be it a keyword or an attack.
    """
    written = query.copy() if isinstance(query, exp.Query) else query
    for node in tables_of(written, tables):
        if relation is None:
            continue
        place = relation(node.name)
        place.set("alias", exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True)))
        node.replace(place)
    return written.sql(dialect=dialect, identify=True, comments=False, unsupported_level=ErrorLevel.RAISE, copy=False)


def tables_of(query: exp.Query, tables: Collection[str]) -> list[exp.Table]:
    """Where a query tree reads from `tables`. Refuses other tables, and text that would be written out as SQL."""
    if not isinstance(query, exp.Query):
        raise TypeError(f"an engine runs a sqlglot query tree, not {type(query).__name__}")
    nodes = list(query.walk())  # once: a list of a thousand values is a thousand nodes
    named = {node.alias for node in nodes if isinstance(node, exp.CTE)}
    read = []
    for node in nodes:
        if isinstance(node, exp.Literal):
            if not node.is_string and not _NUMBER.fullmatch(node.name):
                raise ValueError("a number in the query is not written as a number")
        elif isinstance(node, exp.Var | exp.Anonymous):
            if not _NAME.fullmatch(node.name):
                raise ValueError("a function or a unit in the query is not a plain name")
        elif isinstance(node, exp.Table):
            if (
                not isinstance(node.this, exp.Identifier)
                or node.db
                or node.catalog
                or node.name not in {*tables, *named}
            ):
                raise ValueError(f"a query reads from {', '.join(sorted(tables))}; not from {node.sql()}")
            if node.name not in named:
                read.append(node)
        elif isinstance(node, exp.From | exp.Join) and not isinstance(node.this, _SOURCES):
            raise ValueError(f"a query reads from tables, not from {type(node.this).__name__}")
    return read
