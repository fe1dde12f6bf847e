"""Where the rows of a release come from, and which of them are read.

Everything that can be known without a row is refused here, before anything is charged: a missing file, columns that
are missing or of the wrong type, a filter that cannot be read. What depends on rows is never refused, because one
person's row would show. Rows that cannot be used are left out, by the rules of `RULES`. Files are taken to be whole: a
CSV file whose quotes do not close, whose lines have other numbers of cells, other ends or over 8 MB, text that is not
UTF-8, or a Parquet file of times beyond what the engine can hold, fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sqlglot import exp

from sfumato.catalog import Catalog, written_types
from sfumato.config import Config, EngineSettings
from sfumato.engines import ColumnType, Engine, engine_class, open_engine
from sfumato.engines.contributions import ContributionQuery, check_present
from sfumato.engines.places import source_places, table_places, tables_at
from sfumato.errors import EngineFailed, InvalidArgument, NotFound, NotSupported, find_nearest
from sfumato.query.abilities import Abilities
from sfumato.query.counting import condition
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.sql import read_filter
from sfumato.release.frames import Frame
from sfumato.types import MAX_TEXT, TYPES, Type

ROWS, PUBLIC = "rows", "public_keys"

RULES = (
    "Rows without a person or a key, and rows with NaN where a key or a value is needed, are left out.",
    "Infinite values are clamped to the bounds as all others are; a NULL value adds nothing.",
    "A cell of a CSV file that is not of its column's type is NULL.",
    f"Keys that are longer than {MAX_TEXT} characters, infinite, or beyond the year 9999 are left out with their rows.",
)


@dataclass(frozen=True, slots=True)
class Source:
    """An open engine and the table in it; `public` is the table of public keys, if there is one.

    A CSV file has no types: all of its columns are text. There, `types` are those that were written for some of them,
    and a cell that does not fit is NULL: it is no reason to fail.
    """

    engine: Engine
    table: str
    public: str | None = None
    types: Mapping[str, Type] | None = None

    @property
    def loose(self) -> bool:
        """Whether text can hold numbers."""
        return self.types is not None

    def schema(self) -> dict[str, ColumnType]:
        """The columns and their types, with those that were written."""
        return {**self.engine.schema(self.table), **(self.types or {})}


@contextmanager
def open_source(
    source: str | Path | Frame,
    *,
    database: Path | None = None,
    keys: str | Path | None = None,
    types: Mapping[str, str] | None = None,
    memory: str = "2GB",
) -> Iterator[Source]:
    """A file, a glob of files, a frame or, with `database`, a table; and beside it a file of public keys."""
    options: dict[str, Any] = {"memory_limit": memory} | ({} if database is None else {"database": database})
    tables, settings = {}, EngineSettings(options=options)
    if isinstance(source, Frame):
        options["frames"] = {ROWS: source.open()}
        if source.engine:
            settings = EngineSettings(source.engine, options={"frames": options["frames"]})
    else:
        tables[ROWS] = _path_text("source", source)
    endings, untyped = engine_class(settings.type).endings, engine_class(settings.type).untyped
    if keys is not None:
        tables[PUBLIC] = _path_text("keys", keys)
        if not tables[PUBLIC].lower().endswith(tuple(endings)):
            raise InvalidArgument("keys", f"must be a file that ends in {', '.join(endings)}")
    loose = tables.get(ROWS, "").lower().endswith(tuple(untyped))
    with _open(settings, tables) as engine:
        public = PUBLIC if keys is not None else None
        yield Source(engine, ROWS, public, _check_types(types or {}, engine.schema(ROWS), loose=loose))


@contextmanager
def open_table(config: Config, table: str, *, memory: str = "2GB") -> Iterator[Source]:
    """A table of a configuration."""
    settings = config.tables[table]
    if settings.source.lower().endswith(tuple(engine_class(config.engines[settings.engine].type).untyped)):
        # As text: a cell that is not of its column's type is NULL in a release, and no reason to fail.
        with open_source(locate_table(config, table), types=written_types(settings), memory=memory) as source:
            yield source
        return
    catalog = Catalog(config)
    try:
        yield Source(catalog.engine(table), table)
    finally:
        catalog.close()


def tables_of_source(config: Config, source: str | Path | Frame, database: Path | None) -> tuple[str, ...]:
    """The tables of a configuration whose rows these are: files, or with `database` a table, by whatever path.

    Where the rows of a frame come from is not known, unless the caller names their table.
    """
    if isinstance(source, Frame):
        if source.table and source.table not in config.tables:
            near = find_nearest(source.table, config.tables)
            raise NotFound(f"there is no table {source.table[:60]!r} in the configuration", nearest=near)
        return tables_at(config, table_places(config, source.table)) if source.table else ()
    settings = EngineSettings(options={} if database is None else {"database": database})
    return tables_at(config, source_places(settings, _path_text("source", source), Path()))


def locate_table(config: Config, table: str) -> str:
    """Where the rows of a table of a configuration are: a path, a glob, or a name in a database."""
    settings = config.tables[table]
    return engine_class(config.engines[settings.engine].type).locate(settings.source, config.folder)


def _open(settings: EngineSettings, tables: Mapping[str, str]) -> Engine:
    """What is wrong with the set-up is the caller's mistake, and the error names the argument."""
    try:
        # No type of a CSV file is guessed: a guess depends on the rows.
        return open_engine(settings, tables, types={ROWS: {}, PUBLIC: {}})
    except EngineFailed as failed:
        problem, blamed = failed.problem, (failed.table or failed.setting or "")
    arguments = {ROWS: "source", PUBLIC: "keys", "database": "database", "memory_limit": "memory"}
    if blamed in arguments:
        raise InvalidArgument(arguments[blamed], problem)
    raise EngineFailed(problem)


def _check_types(types: Mapping[str, str], schema: Mapping[str, str], *, loose: bool) -> dict[str, Type] | None:
    if not loose:
        if types:
            raise InvalidArgument("type", "is for CSV files; the types of this source are known")
        return None
    check_present("type", tuple(types), schema)
    for name, kind in types.items():
        if kind not in TYPES:
            raise InvalidArgument("type", f"{name} must be one of {', '.join(TYPES)}")
    return {name: cast(Type, kind) for name, kind in types.items()}


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns of which rows are needed."""

    unit: str
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    filter: str | None = None

    def key_types(self, source: Source) -> dict[str, Type]:
        """The types of the key columns in the table that is released; refuses what does not fit the schema."""
        schema = source.schema()
        check_present("unit", (self.unit,), schema)
        check_present("key", self.key, schema)
        check_present("column", self.values, schema)
        if self.unit in self.key:
            raise InvalidArgument("key", f"{self.unit} is the unit: people are counted, not named")
        for name in self.key:
            if schema[name] not in TYPES:
                problem = f"{name} has a type that cannot be a key; cast it in the frame or in a view"
                raise InvalidArgument("key", problem)
        numeric = ("integer", "number", "text") if source.loose else ("integer", "number")
        for name in self.values:
            # A column that is also a key is read as it is.
            if schema[name] not in numeric or (schema[name] == "text" and name in (self.unit, *self.key)):
                hint = "; if these are numbers, cast them in the frame or in a view" if schema[name] == "text" else ""
                problem = f"{name} holds {schema[name]} values, of which there are no statistics{hint}"
                raise InvalidArgument("column", problem)
        self._condition(source)
        return {name: cast(Type, schema[name]) for name in self.key}

    def query(self, source: Source) -> ContributionQuery:
        """The rows that an engine is to read."""
        return ContributionQuery(
            source.table, self.unit, self.key, self.values, self._condition(source), source.types, source.public
        )

    def _condition(self, source: Source) -> exp.Expr | None:
        if self.filter is None:
            return None
        columns = {
            name: Column(name, cast(Type, kind))
            for name, kind in source.schema().items()
            if name.casefold() != self.unit.casefold() and kind in TYPES
        }
        try:
            table = TablePolicy(ROWS, self.unit, columns, {}, abilities=Abilities(name="a release"))
            return condition(canonical_filter(read_filter(self.filter, table), table))
        except (NotSupported, InvalidArgument) as refusal:
            hint = "; a CSV file has no types: give one, such as --type amount=number" if source.loose else ""
            raise InvalidArgument("filter", f"{refusal}{hint}") from None


def _path_text(argument: str, path: str | Path) -> str:
    text = str(path) if isinstance(path, Path) else path
    if not isinstance(text, str) or not text:
        raise InvalidArgument(argument, "must be a file, a glob of files, or the name of a table")
    return text
