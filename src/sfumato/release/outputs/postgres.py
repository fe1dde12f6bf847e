"""A released table in a PostgreSQL database, with its statement in a table beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from sfumato.errors import Failed, InvalidArgument
from sfumato.release.outputs.base import (
    APPEARED,
    EXISTS,
    IS_VIEW,
    STATEMENT,
    UNWRITTEN,
    StoredTable,
    Target,
    fingerprint,
    load_sorted,
)
from sfumato.release.statement import only_statement, statement_text
from sfumato.release.table import Released
from sfumato.types import TYPES

if TYPE_CHECKING:
    import psycopg

MAX_NAME = 63
"""The bytes that PostgreSQL keeps of a name."""

PostgresCursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]]"


@dataclass(frozen=True, repr=False)
class PostgresTarget(Target):
    """A table in a PostgreSQL database. The URL may hold a password, so it is never shown."""

    url: str
    schema: str | None
    table: str
    format = "postgres"

    @classmethod
    def of(cls, url: str, name: str) -> PostgresTarget:
        """The table `name` or schema.name."""
        schema, dot, table = name.rpartition(".")
        if not table or (dot and not schema) or "." in schema:
            raise InvalidArgument("out", "must end in #table or #schema.table")
        if max(len(f"{table}{STATEMENT}".encode()), len(schema.encode())) > MAX_NAME:
            problem = f"the table's name must be shorter: PostgreSQL keeps {MAX_NAME} bytes of a name"
            raise InvalidArgument("out", problem)
        return cls(url, schema or None, table)

    def __repr__(self) -> str:
        return f"PostgresTarget({self.place})"

    @property
    def place(self) -> str:
        return repr(".".join(filter(None, (self.schema, self.table))))

    @property
    def _tables(self) -> tuple[str, str]:
        return self.table, f"{self.table}{STATEMENT}"

    def check(self, *, overwrite: bool = False) -> None:
        with self._cursor("out") as cursor:
            schema = self._schema_name(cursor, "out")
            may = cursor.execute("SELECT has_schema_privilege(%s, 'CREATE')", [schema]).fetchone()
            if may != (True,):
                raise InvalidArgument("out", f"this account may make no table in the schema {schema!r}")
            for name in self._tables:
                kind = _table_kind(cursor, schema, name)
                if kind not in (None, "r", "p"):
                    raise InvalidArgument("out", f"{self.place} {IS_VIEW}")
                if kind and not overwrite:
                    raise InvalidArgument("out", f"{self.place} {EXISTS}")

    def _schema_name(self, cursor: PostgresCursor, argument: str) -> str:
        """The schema: the one that was named, or the first of the account's search path."""
        [(schema,)] = cursor.execute(
            "SELECT (SELECT nspname::text FROM pg_namespace WHERE nspname = coalesce(%s, current_schema()))",
            [self.schema],
        )
        if schema is None:
            raise InvalidArgument(argument, f"there is no schema for {self.place} in this database")
        return str(schema)

    @contextmanager
    def _cursor(self, argument: str) -> Iterator[PostgresCursor]:
        """A transaction. The driver's own text is never shown: it may hold an address or a password."""
        try:
            import psycopg
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("a table in PostgreSQL needs: pip install 'sfumato[postgres]'") from missing
        try:
            connection = psycopg.connect(self.url, connect_timeout=10, client_encoding="UTF8")
        except psycopg.Error:
            problem = "cannot connect to PostgreSQL; is the URL right, and does the server answer?"
            raise InvalidArgument(argument, problem) from None
        try:
            with closing(connection), connection.transaction():
                yield connection.cursor()
        except psycopg.DataError:
            problem = "PostgreSQL cannot hold one of its values; text must be without the character NUL: write a file"
        except psycopg.errors.DependentObjectsStillExist:
            problem = "other objects of the database are made from the one to replace"
        except psycopg.errors.InsufficientPrivilege:
            problem = "this account may not do it"
        except psycopg.Error:
            problem = "PostgreSQL ended the connection, or refused"
        else:
            return
        raise InvalidArgument(argument, problem) from None

    def write(self, released: Released, *, overwrite: bool = False) -> None:
        statement = statement_text(released, self.format, fingerprint(released))
        try:
            with self._cursor("write") as cursor:
                schema = self._schema_name(cursor, "write")
                cursor.execute("SET LOCAL synchronous_commit = on")
                self._make_room(cursor, schema, overwrite)
                self._fill(cursor, schema, released, statement)
        except InvalidArgument as refused:
            raise Failed(f"{UNWRITTEN}: {refused.problem}") from None

    def _make_room(self, cursor: PostgresCursor, schema: str, overwrite: bool) -> None:
        from psycopg import sql

        for name in self._tables:
            if overwrite:
                cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(schema, name)))
            elif _table_kind(cursor, schema, name):
                raise Failed(f"{self.place} {APPEARED}")

    def _fill(self, cursor: PostgresCursor, schema: str, released: Released, statement: str) -> None:
        from psycopg import sql

        table, beside = (sql.Identifier(schema, name) for name in self._tables)
        names = [*map(sql.Identifier, released.columns)]
        kinds: list[Any] = [TYPES[kind].postgres for kind in released.columns.values()]
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(name, sql.SQL(kind)) for name, kind in zip(names, kinds, strict=True)
        )
        cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(table, columns))
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(table, sql.SQL(", ").join(names))) as copy:
            for row in zip(*map(released.values, released.columns), strict=True):
                copy.write_row(row)
        cursor.execute(sql.SQL("CREATE TABLE {} (statement text)").format(beside))
        # Not as a parameter: with one, psycopg would take a % in the table's name for another.
        cursor.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(beside, sql.Literal(statement)))

    def load(self) -> StoredTable:
        with self._cursor("table") as cursor:
            from psycopg import sql

            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            schema = self._schema_name(cursor, "table")
            table, beside = self._tables
            if not _table_kind(cursor, schema, table):
                raise InvalidArgument("table", f"there is no table {self.place}")
            if not _table_kind(cursor, schema, beside):
                raise InvalidArgument("table", f"{self.place} has no statement: the table {beside!r} is missing")
            query = sql.SQL("SELECT * FROM {}")
            rows = cursor.execute(query.format(sql.Identifier(schema, beside))).fetchall()
            statement = only_statement(rows, self.place)
            cursor.execute(query.format(sql.Identifier(schema, table)))
            return load_sorted(statement, lambda: _fetch(cursor, statement))


_TYPES_BY_OID = {row.postgres_oid: name for name, row in TYPES.items()}


def _fetch(cursor: PostgresCursor, statement: Mapping[str, Any]) -> Released:
    columns = {at.name: _TYPES_BY_OID.get(at.type_code, str(at.type_code)) for at in cursor.description or ()}
    cells = [*zip(*cursor.fetchall(), strict=True)] or [()] * len(columns)
    return Released(columns, dict(zip(columns, cells, strict=True)), statement)


def _table_kind(cursor: PostgresCursor, schema: str, name: str) -> str | None:
    """The kind of a relation: r and p are tables. None where there is none."""
    found = cursor.execute(
        "SELECT relkind::text FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = %s AND relname = %s",
        [schema, name],
    ).fetchone()
    return None if found is None else str(found[0])
