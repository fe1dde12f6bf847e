"""The engine: sessions with every setting that an answer depends on, and the tables that they may read."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import uuid4

from sqlglot import exp

from sfumato.config import EngineSettings
from sfumato.config.settings import TIMEOUT_S
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, ColumnType
from sfumato.engines.clickhouse.dialect import ClickHouseSql
from sfumato.engines.clickhouse.sessions import (
    ArrowTable,
    ClickHouseSession,
    Folder,
    Https,
    Server,
    driver,
    host_and_database,
)
from sfumato.engines.clickhouse.types import COLUMN_TYPES, bare, plain
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.copying import CopyingEngine, copied_columns, copied_rows
from sfumato.engines.passwords import read_password
from sfumato.errors import EngineFailed, InvalidArgument, find_nearest
from sfumato.query.abilities import Abilities

T = TypeVar("T")

MAX_SESSIONS, PULSE_S = 8, 0.05
_NO_ANSWER = "the server does not answer, or refuses this role or its password"
_NOT_OPENED = "the folder cannot be opened: another process has it open, or this process has another one open"

# What another value of would give other rows, fewer rows or approximate counts, or would let a query write.
_SETTINGS: Mapping[str, str] = {
    "count_distinct_implementation": "uniqExact",
    "count_distinct_optimization": "0",
    **dict.fromkeys(("max_rows_to_group_by", "max_result_rows", "limit", "offset", "final"), "0"),
    **dict.fromkeys(
        (f"{name}_overflow_mode" for name in ("group_by", "sort", "distinct", "result", "read", "timeout")), "throw"
    ),
    **dict.fromkeys(("skip_unavailable_shards", "use_query_cache", "optimize_aggregation_in_order"), "0"),
    "session_timezone": "UTC",
    **dict.fromkeys(("join_use_nulls", "decimal_check_overflow", "enable_analyzer"), "1"),
    **dict.fromkeys(("transform_null_in", "aggregate_functions_null_for_empty", "data_type_default_nullable"), "0"),
    **dict.fromkeys(("prefer_column_name_to_alias", "least_greatest_legacy_null_behavior"), "0"),
    **dict.fromkeys(("output_format_arrow_string_as_string", "cancel_http_readonly_queries_on_client_close"), "1"),
    "output_format_arrow_compression_method": "none",
    "readonly": "1",  # the last one: after it, no other can be set
}

_CALENDAR = "SELECT toString(toDate32('9998-12-31')), toString(toDateTime64('0001-01-01 00:00:00.000001', 6, 'UTC'))"
_CALENDAR_ENDS = ("9998-12-31", "0001-01-01 00:00:00.000001")

_TABLES = """
SELECT database, name, engine LIKE '%View' FROM system.tables
WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') AND NOT is_temporary
"""
_COLUMNS = """
SELECT name, type FROM system.columns WHERE database = {} AND table = {} AND default_kind <> 'EPHEMERAL'
ORDER BY position
"""
_CHANGES = ("INSERT", "ALTER UPDATE", "ALTER DELETE", "TRUNCATE", "DROP TABLE")


class ClickHouseEngine(CopyingEngine):
    """Tables and views by name: those of the address's database, or database.name.

    `url` is https://role@host:8443/database, whose role must not be able to change these tables, or chdb:FOLDER. One
    process has one folder open at a time, and no other process can open it then. Releases copy the columns that they
    need into a DuckDB of their own, which has `memory_limit` and spills encrypted.
    """

    dialect = ClickHouseSql
    abilities = Abilities(every_group=True, name="ClickHouse", releases="rows are copied to DuckDB")

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
        driver("pyarrow")
        self._timeout_s, self._memory_limit = timeout_s, memory_limit
        self._room, self._lock = threading.Semaphore(MAX_SESSIONS), threading.Condition()
        self._idle: list[ClickHouseSession] = []
        self._live: set[ClickHouseSession] = set()
        self._closed = False
        self._mark = f"sfumato {uuid4().hex}"
        self._tables: dict[str, exp.Table] = {}
        self._views: set[str] = set()
        self._kinds: dict[str, dict[str, str]] = {}
        self._server: Server = (
            Folder(Path(url.removeprefix("chdb:"))) if url.startswith("chdb:") else Https(url, password, timeout_s)
        )
        try:
            self._use(lambda session: self._find_tables(session, tables), self._unopened())
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
        url = settings.url or ""
        if url.startswith("chdb:"):
            url = f"chdb:{(folder or Path()) / url.removeprefix('chdb:')}"
        return cls(url, sources, password=read_password(options.pop("password_file", None)), **options)

    @classmethod
    def origin(cls, settings: EngineSettings, source: str, folder: Path) -> str:
        return f"{settings.type} {_address(settings.url or '', folder, os.path.relpath)} {source}"

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        url = settings.url or ""
        return frozenset({f"{_address(url, folder, lambda path, _: os.path.realpath(path))} {source}"})

    def _unopened(self) -> str:
        return _NOT_OPENED if self._server.only_ours else _NO_ANSWER

    def _find_tables(self, session: ClickHouseSession, tables: Mapping[str, str]) -> None:
        if _rows(session.read(_CALENDAR)) != [_CALENDAR_ENDS]:
            raise EngineFailed("the days of this server end before the year 9999; use ClickHouse 26 or newer")
        home = self._server.database
        found = {
            name if database == home else f"{database}.{name}": (database, name, bool(is_view))
            for database, name, is_view in _rows(session.read(_TABLES))
        }
        for name, source in tables.items():
            known = source.removeprefix(f"{home}.")
            if known not in found:
                problem, near = f"{source!r} is neither a table nor a view of this database", find_nearest(known, found)
                raise EngineFailed(problem, table=name, nearest=near)
            database, relation, is_view = found[known]
            self._tables[name] = exp.table_(relation, database, quoted=True)
            columns = _COLUMNS.format(_quoted(database), _quoted(relation))
            self._kinds[name] = dict(_rows(session.read(columns)))
            if not self._kinds[name]:
                raise EngineFailed(f"this role may not read {source!r}: GRANT SELECT ON it", table=name)
            if is_view:
                self._views.add(name)
        if not self._server.only_ours:
            self._refuse_writers(self._server.connect({}), tables)

    def _refuse_writers(self, session: ClickHouseSession, tables: Mapping[str, str]) -> None:
        """Refuse a role that may change a table. `session` has the role's own settings: with ours, it never may."""
        for name, table in self._tables.items():
            place = table.sql(ClickHouseSql)
            for change in _CHANGES:
                if _rows(session.read(f"CHECK GRANT {change} ON {place}")) != [(0,)]:
                    problem = f"this role may change {tables[name]!r}; use a role that may only SELECT"
                    raise EngineFailed(problem, table=name)

    def tables(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def is_view(self, table: str) -> bool:
        return table in self._views

    def schema(self, table: str) -> dict[str, ColumnType]:
        return {name: COLUMN_TYPES.get(bare(kind), "other") for name, kind in self._look_up(table).items()}

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
        return self._use(lambda session: _rows(session.read(text)))

    @contextmanager
    def _copied(self, query: ContributionQuery, *, empty: bool = False) -> Iterator[object]:
        """In a session of its own, which has no deadline."""
        kinds = self._look_up(query.table)
        cells = [plain(name, kinds[name], copied=True) for name in copied_columns(query)]
        text = copied_rows(cells, self._tables[query.table], empty=empty).sql(dialect=ClickHouseSql, identify=True)
        session = self._attempt(lambda: self._open(timeout_s=0))
        try:
            stream = session.stream(text)
            rows = self._attempt(stream.__enter__)
            try:
                yield rows
            finally:
                with suppress(Exception):
                    stream.__exit__(None, None, None)
        finally:
            self._give_back(session, keep=False)

    def _use(self, work: Callable[[ClickHouseSession], T], problem: str = COULD_NOT_ANSWER) -> T:
        """`work` with a session. One in which something failed is not used again: see `FolderSession`."""

        def with_session() -> T:
            session = self._take()
            done = False
            try:
                result = work(session)
                done = True
                return result
            finally:
                self._give_back(session, keep=done)

        with self._room:
            return self._attempt(with_session, problem)

    def _attempt(self, work: Callable[[], T], problem: str = COULD_NOT_ANSWER) -> T:
        """What `work` returns. Every failure is `EngineFailed` with this problem, without ClickHouse's own text."""
        try:
            return work()
        except EngineFailed:
            raise
        except Exception:  # noqa: S110
            pass
        # Raised here and not above: even `from None` would leave the server's text in __context__.
        raise EngineFailed(CLOSED if self._closed else problem)

    def _take(self) -> ClickHouseSession:
        with self._lock:
            if self._closed:
                raise EngineFailed(CLOSED)
            if self._idle:
                session = self._idle.pop()
                self._live.add(session)
                return session
        return self._open(self._timeout_s)

    def _open(self, timeout_s: float) -> ClickHouseSession:
        """A new session, with its settings read back."""
        settings = {"max_execution_time": str(timeout_s), "log_comment": self._mark, **_SETTINGS}
        session = self._server.connect(settings)
        with self._lock:
            self._live.add(session)
        try:
            found = self._read_back(session)
            refused = [name for name, value in _SETTINGS.items() if found.get(name) != value]
            if refused:
                raise EngineFailed(f"the server does not let a session set {refused[0]}")
        except BaseException:
            self._give_back(session, keep=False)
            raise
        return session

    def _read_back(self, session: ClickHouseSession) -> Mapping[str, str]:
        among = exp.In(this=exp.column("name"), expressions=[exp.Literal.string(name) for name in _SETTINGS])
        shown = exp.select("name", "value").from_(exp.table_("settings", "system")).where(among)
        return dict(_rows(session.read(shown.sql(ClickHouseSql))))

    def _give_back(self, session: ClickHouseSession, *, keep: bool = True) -> None:
        with self._lock:
            kept = keep and not self._closed
            if kept:
                self._idle.append(session)
            self._live.discard(session)
            self._lock.notify_all()
        if not kept:
            session.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            while self._live:  # to close a session in which a query runs would wait for its end
                with suppress(Exception):
                    self._end_queries()
                self._lock.wait(PULSE_S)
        for session in idle:
            session.close()
        self._server.close()

    def _end_queries(self) -> None:
        session = self._server.connect({})
        try:
            session.read(f"KILL QUERY WHERE Settings['log_comment'] = {_quoted(self._mark)} ASYNC")
        finally:
            session.close()


def _rows(table: ArrowTable) -> list[tuple[Any, ...]]:
    """Rows of Python's own values. Moments are in UTC, and lose their zone."""
    pyarrow = driver("pyarrow")
    columns = (
        column.cast(pyarrow.timestamp("us")) if pyarrow.types.is_timestamp(column.type) else column
        for column in table.columns
    )
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql(ClickHouseSql)


def _address(url: str, folder: Path, resolve: Callable[[Path, Path], str]) -> str:
    """The folder; or host, port and database: no role and no password."""
    if url.startswith("chdb:"):
        return resolve(folder / url.removeprefix("chdb:"), folder)
    return "/".join(host_and_database(url))
