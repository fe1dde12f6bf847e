"""A released table in a DuckDB database, with its statement in a table beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from sfumato.errors import Failed, InvalidArgument
from sfumato.release.outputs.base import (
    APPEARED,
    EXISTS,
    IS_VIEW,
    STATEMENT,
    UNWRITTEN,
    StoredTable,
    Target,
    check_folder,
    fingerprint,
    load_sorted,
)
from sfumato.release.statement import only_statement, statement_text
from sfumato.release.table import Released
from sfumato.types import TYPES
from sfumato.wire.frames import relation

_TYPES_BY_NAME = {row.duckdb: name for name, row in TYPES.items()}


def fetch(rows: duckdb.DuckDBPyRelation, statement: Mapping[str, Any]) -> Released:
    """The table that a relation is."""
    columns = {
        name: _TYPES_BY_NAME.get(str(kind), str(kind)) for name, kind in zip(rows.columns, rows.types, strict=True)
    }
    return Released(columns, rows.fetchnumpy(), statement)


@dataclass(frozen=True)
class DuckDBTarget(Target):
    """A table in a DuckDB database, which is made where there is none."""

    path: Path
    table: str
    format = "duckdb"

    @classmethod
    def of(cls, path: str, table: str) -> DuckDBTarget:
        if not table or "." in table:
            raise InvalidArgument("out", "the name of the table, after #, must not be empty and must have no dot")
        return cls(Path(path), table)

    @property
    def place(self) -> str:
        return repr(f"{self.path}#{self.table}")

    @property
    def _tables(self) -> tuple[str, str]:
        return self.table, f"{self.table}{STATEMENT}"

    def check(self, *, overwrite: bool = False) -> None:
        check_folder(self.path)
        if not self.path.exists():
            return
        if not os.access(self.path, os.W_OK):
            raise InvalidArgument("out", f"{str(self.path)!r} cannot be written to")
        with self._reading("out") as connection:
            for name in self._tables:
                kind = _table_kind(connection, name)
                if kind not in (None, "BASE TABLE"):
                    raise InvalidArgument("out", f"{self.place} {IS_VIEW}")
                if kind and not overwrite:
                    raise InvalidArgument("out", f"{self.place} {EXISTS}")

    @contextmanager
    def _reading(self, argument: str) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            with duckdb.connect(self.path.absolute(), read_only=True) as connection:
                yield connection
        except duckdb.Error:
            problem = f"{str(self.path)!r} cannot be read as a DuckDB database, or another program has it open"
            raise InvalidArgument(argument, problem) from None

    def write(self, released: Released, *, overwrite: bool = False) -> None:
        new = not self.path.exists()
        try:
            with duckdb.connect(self.path.absolute()) as connection, self._undoing(connection, new):
                self._fill(connection, released, overwrite)
        except (duckdb.Error, OSError):
            raise Failed(f"{UNWRITTEN}: DuckDB has no space, or the database is not what it was") from None

    @contextmanager
    def _undoing(self, connection: duckdb.DuckDBPyConnection, new: bool) -> Iterator[None]:
        """Where filling fails, remove a database that was made for it. One that could not be opened is not ours."""
        try:
            yield
        except BaseException:
            connection.close()
            if new:
                self.path.unlink(missing_ok=True)
            raise

    def _fill(self, connection: duckdb.DuckDBPyConnection, released: Released, overwrite: bool) -> None:
        statement = statement_text(released, self.format, fingerprint(released))
        table, beside = (_table(name).sql("duckdb") for name in self._tables)
        connection.begin()
        for name, quoted in zip(self._tables, (table, beside), strict=True):
            if overwrite:
                connection.execute(f"DROP TABLE IF EXISTS {quoted}")
            elif _table_kind(connection, name):
                raise Failed(f"{self.place} {APPEARED}")
        relation(connection, released.columns, released.data).create(table)
        connection.execute(f"CREATE TABLE {beside} (statement VARCHAR)")
        connection.execute(f"INSERT INTO {beside} VALUES (?)", [statement])  # noqa: S608
        connection.commit()

    def load(self) -> StoredTable:
        if not self.path.exists():
            raise InvalidArgument("table", f"there is no file {str(self.path)!r}")
        with self._reading("table") as connection:
            table, beside = self._tables
            if not _table_kind(connection, table):
                raise InvalidArgument("table", f"there is no table {self.place}")
            if not _table_kind(connection, beside):
                raise InvalidArgument("table", f"{self.place} has no statement: the table {beside!r} is missing")
            rows = connection.execute(exp.select("*").from_(_table(beside)).sql("duckdb")).fetchall()
            statement = only_statement(rows, self.place)
            query = exp.select("*").from_(_table(table)).sql("duckdb")
            return load_sorted(statement, lambda: fetch(connection.sql(query), statement))


def _table(name: str) -> exp.Table:
    return exp.table_(name, quoted=True)


def _table_kind(connection: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """BASE TABLE, VIEW or None. DuckDB ignores the case of names, so it is ignored here."""
    found = connection.execute(
        "SELECT table_type FROM information_schema.tables WHERE table_catalog = current_database() "
        "AND table_schema = current_schema() AND lower(table_name) = lower(?)",
        [name],
    ).fetchone()
    return None if found is None else str(found[0])
