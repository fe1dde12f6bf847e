"""The engine: sessions with every setting that an answer depends on, and the tables that they may read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

from sqlglot import exp

from sfumato.config import EngineSettings
from sfumato.config.settings import TIMEOUT_S
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, ColumnType
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.copying import CopyingEngine, copied_rows
from sfumato.engines.passwords import read_password
from sfumato.engines.postgres.copying import arrow_cells, arrow_stream
from sfumato.engines.postgres.dialect import ROW_FUNCTIONS, PostgresSql
from sfumato.engines.postgres.types import COLUMN_TYPES, LIST_TYPES, plain
from sfumato.errors import EngineFailed, InvalidArgument, find_nearest
from sfumato.postgres import MARGIN_S, connection_type
from sfumato.query.abilities import Abilities
from sfumato.query.expressions.functions import LOOKUPS

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

T = TypeVar("T")

MAX_CONNECTIONS, CONNECT_S = 8, 5
_NO_DRIVER = "a PostgreSQL engine needs: pip install 'sfumato[postgres]'"
_NO_ANSWER = "the server does not answer, or refuses this role or its password"

# Text is compared by code point, a backslash is a backslash, and moments have no zone but UTC.
_SETTINGS: Mapping[str, str] = {
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "repeatable read",
    "search_path": "",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "client_encoding": "UTF8",
}

# A machine that has vanished is noticed. The server ignores these where the connection is no TCP.
_KEEPALIVES: Mapping[str, str] = {
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
}

_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind IN ('v', 'm'), c.oid::bigint,
    pg_catalog.has_table_privilege(c.oid, 'SELECT') OR pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
    pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""

_COLUMNS = """
SELECT a.attname, CASE WHEN b.typtype = 'e' THEN 'enum' ELSE b.typname END
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
JOIN pg_catalog.pg_type AS b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
    AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
ORDER BY a.attnum
"""


class PostgresEngine(CopyingEngine):
    """Tables and views of one database, by name: those of the schema `public`, or schema.name.

    The role must not be able to change these tables. `password` is used where `url` has none. Releases copy the columns
    that they need into a DuckDB of their own, which has `memory_limit` and spills encrypted.
    """

    dialect = PostgresSql
    abilities = Abilities(
        every_group=True,
        functions=ROW_FUNCTIONS | LOOKUPS,
        values=True,
        name="PostgreSQL",
        releases="rows are copied to DuckDB",
    )

    def __init__(
        self,
        url: str,
        tables: Mapping[str, str],
        *,
        password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        memory_limit: str = "2GB",
    ) -> None:
        if not timeout_s > 0:
            raise InvalidArgument("timeout_s", "must be above 0")
        try:
            import psycopg
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(_NO_DRIVER) from missing
        self._psycopg, self._url, self._password = psycopg, url, password
        self._timeout_s, self._memory_limit = timeout_s, memory_limit
        self._room, self._lock = threading.Semaphore(MAX_CONNECTIONS), threading.Lock()
        self._idle: list[Connection] = []
        self._live: set[Connection] = set()
        self._closed = False
        self._tables: dict[str, exp.Table] = {}
        self._views: set[str] = set()
        self._kinds: dict[str, dict[str, str]] = {}
        try:
            self._use(lambda connection: self._find_tables(connection, tables), _NO_ANSWER)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls,
        settings: EngineSettings,
        sources: Mapping[str, str],
        *,
        folder: Path | None,
        types: Mapping[str, Mapping[str, str]],
    ) -> Self:
        options = dict(settings.options)
        password = read_password(options.pop("password_file", None))
        return cls(settings.url or "", sources, password=password, **options)

    @classmethod
    def origin(cls, settings: EngineSettings, source: str, folder: Path) -> str:
        return f"{settings.type} {_address(settings.url or '')} {source}"

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        return frozenset({cls.origin(settings, source.removeprefix("public."), folder)})

    def _find_tables(self, connection: Connection, tables: Mapping[str, str]) -> None:
        found = {
            relation if schema == "public" else f"{schema}.{relation}": (schema, relation, *rest)
            for schema, relation, *rest in connection.execute(_RELATIONS).fetchall()
        }
        for name, source in tables.items():
            known = source.removeprefix("public.")
            if known not in found:
                problem, near = f"{source!r} is neither a table nor a view of this database", find_nearest(known, found)
                raise EngineFailed(problem, table=name, nearest=near)
            schema, relation, is_view, oid, may_read, may_write = found[known]
            if not may_read:
                raise EngineFailed(f"this role may not read {source!r}: GRANT SELECT ON it", table=name)
            if may_write:
                problem = f"this role may change {source!r}; use a role that may only SELECT"
                raise EngineFailed(problem, table=name)
            self._tables[name] = exp.table_(relation, schema, quoted=True)
            self._kinds[name] = dict(connection.execute(_COLUMNS, [oid]).fetchall())
            if is_view:
                self._views.add(name)

    def tables(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def is_view(self, table: str) -> bool:
        return table in self._views

    def schema(self, table: str) -> dict[str, ColumnType]:
        return {name: COLUMN_TYPES.get(kind, "other") for name, kind in self._look_up(table).items()}

    def lists(self, table: str) -> dict[str, ColumnType]:
        return {name: LIST_TYPES[kind] for name, kind in self._look_up(table).items() if kind in LIST_TYPES}

    def _look_up(self, table: str) -> dict[str, str]:
        if self._closed:
            raise EngineFailed(CLOSED)
        if table not in self._kinds:
            raise InvalidArgument("table", f"must be one of {', '.join(self._kinds)}")
        return self._kinds[table]

    def relation(self, table: str) -> exp.Subquery:
        columns = [plain(name, kind) for name, kind in self._kinds[table].items()]
        return exp.select(*columns).from_(self._tables[table].copy()).subquery()

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        # In binary: by a protocol that takes one statement at a time.
        return self._use(lambda connection: connection.execute(text.encode(), binary=True).fetchall())

    @contextmanager
    def _copied(self, query: ContributionQuery, *, empty: bool = False) -> Iterator[object]:
        settings = {**_SETTINGS, "client_encoding": "UTF8"}
        options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items())
        given = {} if self._password is None else {"password": self._password}
        conninfo = self._psycopg.conninfo.make_conninfo(self._url, options=options, **given)
        cells = arrow_cells(query, self._look_up(query.table))
        rows = copied_rows(cells, self._tables[query.table], empty=empty)
        with arrow_stream(conninfo, rows) as frame:
            yield frame

    def _use(self, work: Callable[[Connection], T], problem: str = COULD_NOT_ANSWER) -> T:
        """`work` with a session. Every failure is `EngineFailed` with this problem, without the server's own text."""
        with self._room:
            try:
                connection = self._take()
                try:
                    return work(connection)
                finally:
                    self._give_back(connection)
            except (self._psycopg.Error, ValueError, OverflowError):  # of text and numbers that the driver cannot take
                pass
        # Raised here and not above: even `from None` would leave the server's text in __context__.
        raise EngineFailed(CLOSED if self._closed else problem)

    def _take(self) -> Connection:
        """An open session: an idle one that still answers, or a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise EngineFailed(CLOSED)
                kept = self._idle.pop() if self._idle else None
                if kept is not None:
                    self._live.add(kept)
            connection = self._connect() if kept is None else kept
            if kept is None:
                return connection
            with suppress(self._psycopg.Error):
                connection.execute("SELECT 1")
                return connection
            self._give_back(connection)

    def _connect(self) -> Connection:
        limits: dict[str, Any] = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 8000}
        given = limits if self._password is None else {**limits, "password": self._password}
        connection = connection_type().connect(self._url, autocommit=True, **given)
        with self._lock:
            self._live.add(connection)
        try:
            connection.patience_s = self._timeout_s + MARGIN_S  # type: ignore[attr-defined]
            settings = {**_SETTINGS, "statement_timeout": str(int(self._timeout_s * 1000)), **_KEEPALIVES}
            found = dict(zip(settings, self._set(connection, settings), strict=True))
            refused = [name for name, value in _SETTINGS.items() if found[name] != value]
            if refused:
                raise EngineFailed(f"the server does not let a session set {refused[0]}")
        except BaseException:
            self._give_back(connection, keep=False)
            raise
        return connection

    def _set(self, connection: Connection, settings: Mapping[str, str]) -> tuple[Any, ...]:
        """Set what a session needs, and read it back."""
        for name, value in settings.items():
            connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])
        shown = ", ".join(["pg_catalog.current_setting(%s)"] * len(settings))
        return connection.execute(f"SELECT {shown}".encode(), [*settings]).fetchone() or ()

    def _give_back(self, connection: Connection, *, keep: bool = True) -> None:
        with self._lock:
            self._live.discard(connection)
            if keep and not self._closed and not connection.closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle, live = self._idle, [], list(self._live)
        for connection in idle:
            connection.close()
        for connection in live:
            with suppress(self._psycopg.Error):
                connection.cancel_safe(timeout=CONNECT_S)


def _address(url: str) -> str:
    """Host, port and database of a URL: no role and no password."""
    parts = urlsplit(url)
    asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = asked.get("host") or parts.hostname or ""
    return f"{host}:{asked.get('port') or parts.port or 5432}/{asked.get('dbname') or parts.path.lstrip('/')}"
