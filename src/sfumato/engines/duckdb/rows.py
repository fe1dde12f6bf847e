"""The query behind a `ContributionQuery`: columns as DuckDB's own types, and the rows that can be used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from sqlglot import exp

from sfumato.engines.base import ColumnType
from sfumato.engines.contributions import ContributionQuery, check_present
from sfumato.engines.duckdb.codes import identifying_columns, value_columns
from sfumato.engines.duckdb.contributions import DuckDBContributions
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.errors import InvalidArgument
from sfumato.query.counting import usable
from sfumato.types import MAX_DIGITS, TYPES, Type

_BIG = frozenset(("HUGEINT", "UBIGINT"))


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of a query; `schema` is that of a table of the engine."""

    workspace: Workspace
    query: ContributionQuery
    schema: Callable[[str], Mapping[str, ColumnType]]

    def check(self) -> None:
        """Refuse columns that cannot be read, by DuckDB's own types, and public keys that do not fit the table."""
        query = self.query
        decimals = {name: self._native[name] for name in query.key if self._native[name].startswith("DECIMAL")}
        for name, kind in decimals.items():
            if int(kind.partition("(")[2].partition(",")[0]) > MAX_DIGITS:  # 18 of DECIMAL(18,3)
                problem = f"{name} has more digits than a number can have; cast it in the frame or in a view"
                raise InvalidArgument("key", problem)
        kinds = self.workspace.kinds(self._rows)
        identifying_columns("unit", (query.unit,), kinds)
        identifying_columns("key", query.key, kinds)
        value_columns(query.values, kinds)
        if query.public is not None:
            self._public_keys(query.public)

    def read(
        self, progress: Callable[[float], None] | None, *, once: bool, then: Callable[[], None]
    ) -> DuckDBContributions:
        """The rows; `then` is called when they are closed. With `once`, they are read into a table first."""
        query = self.query
        return DuckDBContributions(
            self.workspace,
            exp.select("*").from_(self.workspace.keep(self._rows)) if once else self._rows,
            unit=query.unit,
            key=query.key,
            values=query.values,
            domain=None if query.public is None else self._public_keys(query.public),
            progress=progress,
            then=then,
        )

    @cached_property
    def _types(self) -> dict[str, ColumnType]:
        return {**self.schema(self.query.table), **(self.query.types or {})}

    @cached_property
    def _native(self) -> dict[str, str]:
        """DuckDB's own types."""
        return self.workspace.kinds(exp.select("*").from_(self._relation()))

    def _relation(self) -> exp.Table | exp.Subquery:
        """What rows are read from: the table, with the types that were written."""
        table = exp.table_(self.query.table, quoted=True)
        written = self.query.types
        if not written:
            return table
        columns = [
            _column(name)
            if written.get(name, "text") == "text"
            else exp.alias_(_try_cast(name, TYPES[written[name]].duckdb), name, quoted=True)
            for name in self.schema(self.query.table)
        ]
        return exp.select(*columns).from_(table).subquery("typed")

    @cached_property
    def _rows(self) -> exp.Select:
        """Person, keys and values, where the condition holds and the keys can be used."""
        query, types = self.query, self._types
        columns: list[exp.Expr] = [_column(query.unit), *map(_column, query.key)]
        for name in query.values:
            if name not in (query.unit, *query.key):
                # Text (of a CSV file) that is no number is NULL, and no reason to fail.
                cell = _try_cast(name, "DOUBLE")
                columns.append(exp.alias_(cell, name, quoted=True) if types[name] == "text" else _column(name))
        # Whole numbers of more than 64 bits are no keys: no file could hold them.
        ends = exp.Neg(this=exp.Literal.number(2**63)), exp.Literal.number(2**63 - 1)
        big = [name for name in query.key if self._native[name] in _BIG]
        conditions = [usable(name, cast(Type, types[name])) for name in query.key]
        conditions += [exp.Between(this=_column(name), low=ends[0].copy(), high=ends[1].copy()) for name in big]
        conditions.append(query.where)
        return exp.select(*columns).from_(self._relation()).where(*filter(None, conditions))

    def _public_keys(self, public: str) -> exp.Select:
        """The public keys as the table's own types. They are public, so an error may describe them."""
        kinds = {name: cast(Type, self._types[name]) for name in self.query.key}
        schema = self.schema(public)
        names = [*kinds] if len(kinds) > 1 or len(schema) > 1 else [*schema]
        check_present("keys", names, schema)
        read, failed, given = [], [], []
        for old, (name, kind) in zip(names, kinds.items(), strict=True):
            # Numbers compare with those of their own width only.
            cell = _try_cast(old, self._native[name] if kind == "number" else TYPES[kind].duckdb)
            read.append(exp.alias_(cell, name, quoted=True))
            given.append(exp.Not(this=_is_null(_column(old))))
            failed.append(exp.and_(given[-1].copy(), _is_null(cell.copy())))
        table = exp.table_(public, quoted=True)
        counts = exp.select(exp.Count(this=exp.Star())).from_(table.copy())
        [(bad,)] = self.workspace.rows(counts.where(exp.or_(*failed)))
        [(good,)] = self.workspace.rows(counts.where(*given))
        if bad:
            problem = f"holds keys that are not {', '.join(kinds.values())} as those of the table are"
            raise InvalidArgument("keys", problem)
        if not good:
            raise InvalidArgument("keys", "holds no key")
        there = exp.select(*read).from_(table).where(*given).subquery("public")
        within = filter(None, (usable(name, kind) for name, kind in kinds.items()))
        return exp.select(*map(_column, kinds)).distinct().from_(there).where(*within)


def _try_cast(name: str, kind: str) -> exp.Expr:
    """The column as another type, NULL where it is none.

    Trimmed: DuckDB passes a cast of the bare column to its CSV reader, which then fails on the first cell that does
    not fit, TRY or no TRY.
    """
    text = exp.cast(_column(name), "VARCHAR")
    if kind == "VARCHAR":
        return text
    cell = exp.TryCast(this=exp.Trim(this=text), to=exp.DataType.build(kind, dialect="duckdb"))
    if kind != "BIGINT":
        return cell
    # 1.5 is no whole number, though it can be cast to one.
    return exp.Case().when(exp.EQ(this=_try_cast(name, "DOUBLE"), expression=cell), cell.copy())


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.Is(this=node, expression=exp.Null())


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)
