"""Where the rows of a release come from, and which of them are read.

What can be known without a row is refused here, before anything is charged: a file that is not there, columns that are
missing or of the wrong type, a filter that cannot be read. What depends on rows is never refused, because one person's
row would show; rows that cannot be used are left out, by the rules that `RULES` tells. Files are taken to be whole: a
CSV file whose quotes do not close, whose lines have other numbers of cells, other ends or over 8 MB, text that is not
UTF-8, or a Parquet file of times beyond what DuckDB can hold, fails, whoever's row it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from sqlglot import exp

from sfumato.engines.base import ColumnType, Engine, Workspace
from sfumato.engines.duckdb import EXTENSIONS, DuckDBEngine
from sfumato.errors import EngineFailed, InvalidArgument, NotSupported, nearest
from sfumato.query.counting import condition, usable
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.predicate import prune
from sfumato.query.sql import read_filter
from sfumato.release.bounding import check_columns
from sfumato.types import MAX_DIGITS, MAX_TEXT, Type

ROWS, PUBLIC = "rows", "public_keys"

RULES = (
    "Rows without a person or a key, and rows with NaN where a key or a value is needed, are left out.",
    "Infinite values are clamped to the bounds as all others are; a NULL value adds nothing.",
    "A cell of a CSV file that is not of its column's type is NULL.",
    f"Keys that are longer than {MAX_TEXT} characters, infinite, or beyond the year 9999 are left out with their rows.",
)

LOOSE = tuple(ending for ending in EXTENSIONS if ending != ".parquet")

_BIG = frozenset(("HUGEINT", "UBIGINT"))


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
        return {**self.engine.schema(self.table), **(self.types or {})}

    def relation(self) -> exp.Table | exp.Subquery:
        """What rows are read from: the table, with the types that were written."""
        table = exp.table_(self.table, quoted=True)
        if not self.types:
            return table
        columns = [self._typed(name) for name in self.engine.schema(self.table)]
        return exp.select(*columns).from_(table).subquery("typed")

    def _typed(self, name: str) -> exp.Expr:
        kind = (self.types or {}).get(name, "text")
        return _column(name) if kind == "text" else exp.alias_(_tried(name, _SQL[kind]), name, quoted=True)

    def native(self, workspace: Workspace) -> dict[str, str]:
        """The engine's own types."""
        return workspace.kinds(exp.select("*").from_(self.relation()))


@contextmanager
def opened(
    source: str | Path,
    *,
    database: Path | None = None,
    keys: str | Path | None = None,
    types: Mapping[str, str] | None = None,
    memory: str = "2GB",
) -> Iterator[Source]:
    """A file, a glob of files or, with `database`, a table; and beside it a file of public keys."""
    tables = {ROWS: _text("source", source)}
    if keys is not None:
        tables[PUBLIC] = _text("keys", keys)
        if not tables[PUBLIC].lower().endswith(EXTENSIONS):
            raise InvalidArgument("keys", f"must be a file that ends in {', '.join(EXTENSIONS)}")
    # No type of a CSV file is guessed: a guess follows from the rows.
    written: Mapping[str, Mapping[str, str]] = {ROWS: {}, PUBLIC: {}}
    with _engine(tables, database=database, types=written, memory_limit=memory) as engine:
        loose = tables[ROWS].lower().endswith(LOOSE)
        public = PUBLIC if keys is not None else None
        yield Source(engine, ROWS, public, _checked_types(types or {}, engine.schema(ROWS), loose=loose))


def _engine(tables: Mapping[str, str], **options: Any) -> DuckDBEngine:
    """What is wrong with the set-up is the caller's mistake, and told by what they wrote."""
    try:
        return DuckDBEngine(tables, **options)
    except EngineFailed as failed:
        words = str(failed)
    for start, argument in _BLAMED.items():
        if words.startswith(start):
            raise InvalidArgument(argument, words.removeprefix(f"table {ROWS!r}: ").removeprefix(f"table {PUBLIC!r}: "))
    raise EngineFailed(words)


_BLAMED = {
    f"table {ROWS!r}": "source",
    f"table {PUBLIC!r}": "keys",
    "database": "database",
    "memory_limit": "memory",
}


def _checked_types(types: Mapping[str, str], schema: Mapping[str, str], *, loose: bool) -> dict[str, Type] | None:
    if not loose:
        if types:
            raise InvalidArgument("type", "is for CSV files; the types of this source are known")
        return None
    _present("type", tuple(types), schema)
    for name, kind in types.items():
        if kind not in get_args(Type):
            raise InvalidArgument("type", f"{name} must be one of {', '.join(get_args(Type))}")
    return {name: cast(Type, kind) for name, kind in types.items()}


@dataclass(frozen=True, slots=True)
class Reading:
    """Which columns of which rows are needed."""

    unit: str
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    filter: str | None = None

    def kinds(self, schema: Mapping[str, str], *, loose: bool = False) -> dict[str, Type]:
        """The types of the key columns in the table that is released; refuses what does not fit the schema."""
        _present("unit", (self.unit,), schema)
        _present("key", self.key, schema)
        _present("column", self.values, schema)
        if self.unit in self.key:
            raise InvalidArgument("key", f"{self.unit} is the unit: people are counted, not named")
        for name in self.key:
            if schema[name] not in get_args(Type):
                raise InvalidArgument("key", f"{name} has a type that cannot be a key; cast it in a view")
        numeric = ("integer", "number", "text") if loose else ("integer", "number")
        for name in self.values:
            # A column that is also a key is read as it is.
            if schema[name] not in numeric or (schema[name] == "text" and name in (self.unit, *self.key)):
                raise InvalidArgument("column", f"{name} holds {schema[name]} values, of which there are no statistics")
        self._condition(schema, loose=loose)
        return {name: cast(Type, schema[name]) for name in self.key}

    def check(self, source: Source, workspace: Workspace) -> None:
        """Refuse columns that cannot be read, by the engine's own types."""
        self.kinds(source.schema(), loose=source.loose)
        native = source.native(workspace)
        fine = [name for name in self.key if native[name].startswith("DECIMAL") and _digits(native[name]) > MAX_DIGITS]
        if fine:
            raise InvalidArgument("key", f"{fine[0]} has more digits than a number can have; cast it in a view")
        kinds = workspace.kinds(self.query(source, native))
        check_columns(kinds, self.unit, self.key, self.values)

    def query(self, source: Source, native: Mapping[str, str]) -> exp.Select:
        """The rows: person, keys and values, where the filter holds and the keys can be used."""
        schema = source.schema()
        columns: list[exp.Expr] = [_column(self.unit), *map(_column, self.key)]
        columns += [_number(name, schema[name]) for name in self.values if name not in (self.unit, *self.key)]
        conditions = [usable(name, cast(Type, schema[name])) for name in self.key]
        conditions += [_fits(name) for name in self.key if native[name] in _BIG]
        conditions.append(self._condition(schema, loose=source.loose))
        return exp.select(*columns).from_(source.relation()).where(*filter(None, conditions))

    def _condition(self, schema: Mapping[str, str], *, loose: bool) -> exp.Expr | None:
        if self.filter is None:
            return None
        columns = {
            name: Column(name, cast(Type, kind))
            for name, kind in schema.items()
            if name.casefold() != self.unit.casefold() and kind in get_args(Type)
        }
        try:
            return condition(prune(read_filter(self.filter, TablePolicy(ROWS, self.unit, columns, {}))))
        except (NotSupported, InvalidArgument) as refusal:
            hint = "; a CSV file has no types: give one, such as --type amount=number" if loose else ""
            raise InvalidArgument("filter", f"{refusal}{hint}") from None


def public_keys(source: Source, workspace: Workspace, kinds: Mapping[str, Type]) -> exp.Select:
    """The public keys as the table's own types. They are public: what is wrong with them may be told."""
    assert source.public is not None  # noqa: S101
    schema = source.engine.schema(source.public)
    named = [*kinds] if len(kinds) > 1 or len(schema) > 1 else [*schema]
    _present("keys", tuple(named), schema)
    native = source.native(workspace)
    read, failed, given = [], [], []
    for old, (name, kind) in zip(named, kinds.items(), strict=True):
        # Numbers compare with those of their own width only.
        cell = _tried(old, native[name] if kind == "number" else _SQL[kind])
        read.append(exp.alias_(cell, name, quoted=True))
        given.append(exp.Not(this=_is_null(_column(old))))
        failed.append(exp.and_(given[-1].copy(), _is_null(cell.copy())))
    counts = exp.select(exp.Count(this=exp.Star())).from_(exp.table_(source.public, quoted=True))
    [(bad,)], [(good,)] = workspace.rows(counts.where(exp.or_(*failed))), workspace.rows(counts.where(*given))
    if bad:
        raise InvalidArgument("keys", f"holds keys that are not {', '.join(kinds.values())} as those of the table are")
    if not good:
        raise InvalidArgument("keys", "holds no key")
    there = exp.select(*read).from_(exp.table_(source.public, quoted=True)).where(*given).subquery("public")
    within = filter(None, (usable(name, kind) for name, kind in kinds.items()))
    return exp.select(*map(_column, kinds)).distinct().from_(there).where(*within)


_SQL: Mapping[Type, str] = {
    "text": "VARCHAR",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


def _present(argument: str, names: Sequence[str], schema: Mapping[str, str]) -> None:
    for name in names:
        if name not in schema:
            known = ", ".join(list(schema)[:20])
            raise InvalidArgument(argument, f"there is no column {name!r}{nearest(name, schema)} (there are {known})")


def _number(name: str, kind: str) -> exp.Expr:
    """A number; text (of a CSV file) that is none is NULL, and no reason to fail."""
    if kind != "text":
        return _column(name)
    return exp.alias_(_tried(name, "DOUBLE"), name, quoted=True)


def _tried(name: str, kind: str) -> exp.Expr:
    """The column as another type, NULL where it is none.

    Trimmed: a cast of the bare column DuckDB hands down to its CSV reader, which then fails on the first cell that does
    not fit, TRY or no TRY.
    """
    text = exp.cast(_column(name), "VARCHAR")
    if kind == "VARCHAR":
        return text
    cell = exp.TryCast(this=exp.Trim(this=text), to=exp.DataType.build(kind, dialect="duckdb"))
    if kind != "BIGINT":
        return cell
    # 1.5 is no whole number, though it can be cast to one.
    return exp.Case().when(exp.EQ(this=_tried(name, "DOUBLE"), expression=cell), cell.copy())


def _digits(kind: str) -> int:
    """18 of DECIMAL(18,3)."""
    return int(kind.partition("(")[2].partition(",")[0])


def _fits(name: str) -> exp.Expr:
    """Whole numbers of more than 64 bits are no keys: nobody could write them to a file."""
    low, high = exp.Neg(this=exp.Literal.number(2**63)), exp.Literal.number(2**63 - 1)
    return exp.Between(this=_column(name), low=low, high=high)


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node, expression=exp.Null())


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _text(argument: str, path: str | Path) -> str:
    text = str(path) if isinstance(path, Path) else path
    if not isinstance(text, str) or not text:
        raise InvalidArgument(argument, "must be a file, a glob of files, or the name of a table")
    return text
