"""The engine: its connection, its views, and the end of both."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import duckdb
from sqlglot import exp

from sfumato.config import EngineSettings
from sfumato.config.settings import TIMEOUT_S
from sfumato.engines.base import CLOSED, ColumnType, Engine
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb.contributions import DuckDBContributions
from sfumato.engines.duckdb.dialect import DuckDBSql
from sfumato.engines.duckdb.execution import PULSE_S, attempt, deadline, one_select
from sfumato.engines.duckdb.files import (
    ENDINGS,
    UNTYPED,
    TableSource,
    describe,
    file_place,
    file_places,
    find_source,
    locate,
    make_view,
    strings,
)
from sfumato.engines.duckdb.rows import RowReader
from sfumato.engines.duckdb.types import COLUMN_TYPES, LIST_TYPES, bare
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.query.abilities import Abilities
from sfumato.query.expressions.functions import FUNCTIONS, LOOKUPS

_CATALOG = "source"
_FRAME = "sfumato_frame_"
_NO_FRAME = (
    "the data frame has no columns, or one of a type that cannot be read (such as a period, a half float or a decimal "
    "of 256 bits); convert it, or leave it out"
)


class DuckDBEngine(Engine):
    """Tables by name, each a file, a glob of files (`.parquet`, `.csv`, `.csv.gz`, `.tsv`) or a table of `database`.

    `spill` is the folder in which a private folder (0700) for spilled rows is made; by default it is the system's. The
    private folder is removed on closing. Spilled rows are encrypted with a key that is never written, but DuckDB draws
    that key from a source that is not cryptographic: it stops a stray look at the disk, not an expert one. `types` are
    those of the columns of CSV files, by table.

    `frames` are more tables by name, each an Arrow stream (a capsule) or a pandas data frame. They are for releases:
    `contributions` reads a frame once and keeps what it needs of it, and `run` cannot read it.
    """

    dialect = DuckDBSql
    abilities = Abilities(
        every_group=True, functions=FUNCTIONS | LOOKUPS, values=True, name="DuckDB", releases="in the engine"
    )
    endings = ENDINGS
    untyped = UNTYPED

    def __init__(
        self,
        tables: Mapping[str, str],
        *,
        database: Path | None = None,
        memory_limit: str = "2GB",
        threads: int | None = None,
        timeout_s: float = TIMEOUT_S,
        spill: Path | None = None,
        types: Mapping[str, Mapping[str, str]] | None = None,
        frames: Mapping[str, object] | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise InvalidArgument("timeout_s", "must be above 0")
        folded: dict[str, str] = {}
        for name in (*tables, *(frames or {})):
            # DuckDB takes two names that differ by case for one: a question would read the wrong table.
            if (other := folded.setdefault(name.casefold(), name)) != name:
                raise InvalidArgument("tables", f"{other!r} and {name!r} differ by case only; rename one")
        if spill is not None and not spill.is_dir():
            raise EngineFailed(f"spill: {str(spill)!r} is not a folder", setting="spill")
        self._timeout_s = timeout_s
        self._frames = dict(frames or {})
        self._schemas: dict[str, dict[str, ColumnType]] = {}
        self._lists: dict[str, dict[str, ColumnType]] = {}
        self._live: set[duckdb.DuckDBPyConnection] = set()
        self._workspaces: weakref.WeakSet[Workspace] = weakref.WeakSet()
        self._idle = threading.Condition()
        self._closed = False
        folder = tempfile.mkdtemp(prefix="sfumato-spill-", dir=spill)  # made with mode 0700
        self._remove_spill = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            self._connection = _connect(folder, memory_limit, threads)
            self._open(tables, database, types or {})
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
        tables = sources if folder is None else {name: locate(source, folder) for name, source in sources.items()}
        return cls(tables, types=types, **settings.options)

    @classmethod
    def locate(cls, source: str, folder: Path) -> str:
        return locate(source, folder)

    @classmethod
    def origin(cls, settings: EngineSettings, source: str, folder: Path) -> str:
        database = settings.options.get("database")
        return f"{settings.type} {'' if database is None else os.path.relpath(database, folder)} {source}"

    @classmethod
    def places(cls, settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
        if source.lower().endswith(ENDINGS):
            return frozenset(file_places(locate(source, folder)))
        database = settings.options.get("database")
        return frozenset({f"{'' if database is None else file_place(str(database))} {source}"})

    def _open(self, tables: Mapping[str, str], database: Path | None, types: Mapping[str, Mapping[str, str]]) -> None:
        """Make the views, give up all other access, and read the schemas through what is left."""
        inside: dict[str, exp.Table] = {}
        views: set[str] = set()
        if database is not None:
            inside, views = _attach(self._connection, database)
        sources = {name: find_source(name, source, inside) for name, source in tables.items()}
        for name in self._frames:
            attempt(partial(self._register, self._connection, name), _NO_FRAME, table=name)
            sources[name] = _frame_source(name)
        self._views = {name for name, source in tables.items() if not sources[name].files and source in views}
        for name, source in sources.items():
            make = partial(make_view, self._connection, name, source, types.get(name))
            attempt(make, "its source cannot be read", table=name)
        # No way back: DuckDB refuses to widen `allowed_paths` or to re-open external access on a running database.
        files = strings([path for source in sources.values() for path in source.files])
        allowed = exp.EQ(this=exp.column("allowed_paths"), expression=files)
        self._connection.execute(exp.Set(expressions=[exp.SetItem(this=allowed)]).sql(dialect="duckdb"))
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        for name in sources:
            self._read_schema(name)

    def _register(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        connection.register(_FRAME + name, self._frames[name])

    def _read_schema(self, name: str) -> None:
        view = exp.to_identifier(name, quoted=True)
        problem = "its view reads from outside the database"
        kinds = attempt(lambda: describe(self._connection, view), problem, table=name)
        self._schemas[name] = {column: COLUMN_TYPES.get(bare(kind), "other") for column, kind in kinds.items()}
        self._lists[name] = {column: LIST_TYPES[kind] for column, kind in kinds.items() if kind in LIST_TYPES}

    def tables(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def is_view(self, table: str) -> bool:
        return table in self._views

    def schema(self, table: str) -> dict[str, ColumnType]:
        return self._look_up(table, self._schemas)

    def lists(self, table: str) -> dict[str, ColumnType]:
        return self._look_up(table, self._lists)

    def _look_up(self, table: str, known: Mapping[str, dict[str, ColumnType]]) -> dict[str, ColumnType]:
        if self._closed:
            raise EngineFailed(CLOSED)
        if table not in known:
            raise InvalidArgument("table", f"must be one of {', '.join(known)}")
        return dict(known[table])

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor, deadline(cursor, self._timeout_s):
            select = one_select(cursor, text)
            return attempt(lambda: cursor.execute(select).fetchall())

    def workspace(self) -> Workspace:
        """A connection for one long job over the same tables. It ends when it is closed, or the engine is."""
        with self._idle:
            if self._closed:
                raise EngineFailed(CLOSED)
            connection = self._connection.cursor()
            for name in self._frames:  # each connection knows only what was registered with it
                attempt(partial(self._register, connection, name))
            workspace = Workspace(self.tables(), connection, self._cursor)
            self._workspaces.add(workspace)
        return workspace

    def check_contributions(self, query: ContributionQuery) -> None:
        with self.workspace() as workspace:
            RowReader(workspace, query, self.schema).check()

    def contributions(
        self, query: ContributionQuery, progress: Callable[[float], None] | None = None, *, last: bool = False
    ) -> DuckDBContributions:
        """The rows of a release. With `last`, this engine is closed with them."""
        workspace = self.workspace()
        try:
            reader = RowReader(workspace, query, self.schema)
            then = self.close if last else workspace.close
            return reader.read(progress, once=query.table in self._frames, then=then)
        except BaseException:
            workspace.close()
            raise

    @contextmanager
    def _cursor(self, lasting: duckdb.DuckDBPyConnection | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A workspace's connection, or a new one for one query. `close` waits while it is in use."""
        with self._idle:
            if self._closed:
                raise EngineFailed(CLOSED)
            cursor = self._connection.cursor() if lasting is None else lasting
            self._live.add(cursor)
        try:
            yield cursor
        finally:
            with self._idle:
                if lasting is None:
                    cursor.close()
                self._live.remove(cursor)
                self._idle.notify_all()

    def close(self) -> None:
        with self._idle:
            self._closed = True
            while self._live:
                for cursor in self._live:
                    cursor.interrupt()
                self._idle.wait(PULSE_S)
            for workspace in list(self._workspaces):
                workspace.close()
            if hasattr(self, "_connection"):
                self._connection.close()
        self._remove_spill()


def _frame_source(name: str) -> TableSource:
    table = exp.table_(_FRAME + name, quoted=True)
    return TableSource(lambda _: table.copy())


def _connect(spill: str, memory_limit: str, threads: int | None) -> duckdb.DuckDBPyConnection:
    """An empty database in memory, with every setting that an answer or a secret could depend on."""
    config: dict[str, Any] = {
        "memory_limit": memory_limit,
        "temp_directory": spill,
        # Without the second, DuckDB refuses to encrypt unless its network extension is installed.
        "temp_file_encryption": True,
        "force_mbedtls_unsafe": True,
        "preserve_insertion_order": True,
        "default_collation": "",
        "default_null_order": "nulls_last",
        "default_order": "asc",
        # A name that is no table must not become a Python variable of some caller, or a download.
        "python_enable_replacements": False,
        # A column of Python objects is text: a type that is guessed from a sample depends on the rows.
        "pandas_analyze_sample": 0,
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
    }
    if threads is not None:
        config["threads"] = threads
    problem = "memory_limit must be such as '2GB', and threads a whole number from 1"
    connection = attempt(lambda: duckdb.connect(":memory:", config=config), problem, setting="memory_limit")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # a setting of the time zone extension, unknown to `config`
    return connection


def _attach(connection: duckdb.DuckDBPyConnection, database: Path) -> tuple[dict[str, exp.Table], set[str]]:
    """Open the database read-only. Returns its tables and views by name, and the names of the views.

    The names of those outside `main` are schema.name.
    """
    if not database.is_file():
        raise EngineFailed(f"database {str(database)!r} does not exist", setting="database")
    target = exp.alias_(exp.Literal.string(str(database)), _CATALOG)
    statement = exp.Attach(this=target, expressions=[exp.AttachOption(this=exp.var("READ_ONLY"))])
    problem = f"database {str(database)!r} cannot be opened read-only: not DuckDB's format, or being written to"
    attempt(lambda: connection.execute(statement.sql(dialect="duckdb")), problem, setting="database")
    found = connection.execute(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_catalog = ?", [_CATALOG]
    )
    tables, views = {}, set()
    for schema, name, kind in found.fetchall():
        called = name if schema == "main" else f"{schema}.{name}"
        tables[called] = exp.table_(name, schema, _CATALOG, quoted=True)
        if kind == "VIEW":
            views.add(called)
    return tables, views
