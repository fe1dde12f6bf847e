"""DuckDB: Parquet and CSV files, and the tables and views of a DuckDB database, closed in.

The engine lists its files when it is opened, then gives up every other access, in the order that DuckDB asks for:
views over the listed files, `allowed_paths`, `enable_external_access = false`, `lock_configuration`. After that a
query can reach the listed files and the attached database, which is read-only, and nothing else. `allowed_paths`
allows writing as much as reading, so the last wall is here: one SELECT, or nothing, is ever executed.

Files that appear under a glob later are seen by the next engine that is opened, not by this one.

CSV files are comma-separated (`.tsv`: tab-separated) with a header row, quoted by `"`. An empty field is NULL, quoted
or not; dates are ISO (2026-11-15) or text; there are no comments; a line has at most 8 MB; one thread reads them all.
Types are those that `types` gives, and text for every other column. Moments are ISO 8601 (2026-11-15 08:30:00,
2026-11-15T08:30:00.5+02:00, 20261115T083000Z), in UTC where they carry no offset and brought to UTC where they do; a
cell that is none is NULL. A cell that does not fit any other type makes each question that reads it fail. Where `types`
says nothing of a table, they are guessed from a sample: that is for looking at a file for the first time, as a guess
follows from the rows. All files of a table have one header row. Parquet has none of these problems, and its files are
joined by the names of their columns.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import duckdb
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, Abilities, ColumnType, Engine, Workspace
from sfumato.errors import EngineFailed, InvalidArgument

DUCKDB = Abilities("duckdb")

T = TypeVar("T")
Columns: TypeAlias = Mapping[str, str]
Reader: TypeAlias = Callable[[Sequence[str], Columns], exp.Expr]

_CATALOG = "source"
_PULSE_S = 0.05

_TYPES: Mapping[str, ColumnType] = {
    "VARCHAR": "text",
    "ENUM": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "FLOAT": "number",
    "DOUBLE": "number",
    "DECIMAL": "number",
    # Not UHUGEINT: DuckDB sums it in floating point. Not TIMESTAMP_NS: Python has no nanoseconds, so keys would merge.
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
}


# What a policy calls a type, for files that do not say.
_WRITTEN = {
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a table's rows are: `relation` given the columns' types, once they are known, is what a view reads."""

    relation: Callable[[Columns], exp.Expr]
    files: tuple[str, ...] = ()
    header: tuple[str, ...] | None = None  # of a CSV file, whose types are not in it


class DuckDBEngine(Engine):
    """Tables by name, each a file, a glob of files (`.parquet`, `.csv`, `.csv.gz`, `.tsv`) or a table of `database`.

    `spill` is the folder in which a private folder (0700) for spilled rows is made, the system's own by default; it
    is removed on closing. Spilled rows are encrypted with a key that is never written, but DuckDB draws that key
    from a source that is not cryptographic: it stops a stray look at the disk, not an expert one. `types` are those of
    the columns of CSV files, by table.
    """

    abilities = DUCKDB

    def __init__(
        self,
        tables: Mapping[str, str],
        *,
        database: Path | None = None,
        memory_limit: str = "2GB",
        threads: int | None = None,
        timeout_s: float = 60,
        spill: Path | None = None,
        types: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        if not timeout_s > 0:
            raise InvalidArgument("timeout_s", "must be above 0")
        _distinct_names(tables)
        self._timeout_s = timeout_s
        self._live: set[duckdb.DuckDBPyConnection] = set()
        self._workspaces: weakref.WeakSet[_DuckDBWorkspace] = weakref.WeakSet()
        self._idle = threading.Condition()
        self._closed = False
        folder = _private_folder(spill)
        self._remove_spill = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            self._connection = _connect(folder, memory_limit, threads)
            self._schemas = self._open(tables, database, types or {})
        except BaseException:
            self.close()
            raise

    def _open(
        self, tables: Mapping[str, str], database: Path | None, types: Mapping[str, Mapping[str, str]]
    ) -> dict[str, dict[str, ColumnType]]:
        """Make the views, close everything else, and read the schemas through what is left."""
        inside = {} if database is None else _attach(self._connection, database)
        sources = {name: _source(name, source, inside) for name, source in tables.items()}
        for name, source in sources.items():
            made = partial(_make_view, self._connection, name, source, types.get(name))
            _told_as(f"table {name!r}: its source cannot be read", made)
        _close_in(self._connection, [path for source in sources.values() for path in source.files])
        return {name: self._typed(name) for name in tables}

    def _typed(self, name: str) -> dict[str, ColumnType]:
        view = partial(_describe, self._connection, exp.to_identifier(name, quoted=True))
        columns = _told_as(f"table {name!r}: its view reads from outside the database", view)
        return {column: _TYPES.get(_bare(kind), "other") for column, kind in columns.items()}

    def tables(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def schema(self, table: str) -> dict[str, ColumnType]:
        if self._closed:
            raise EngineFailed(CLOSED)
        if table not in self._schemas:
            raise InvalidArgument("table", f"must be one of {', '.join(self._schemas)}")
        return dict(self._schemas[table])

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor, _deadline(cursor, self._timeout_s):
            select = _one_select(cursor, text)
            return _told_as(COULD_NOT_ANSWER, lambda: cursor.execute(select).fetchall())

    def workspace(self) -> Workspace:
        with self._idle:
            if self._closed:
                raise EngineFailed(CLOSED)
            workspace = _DuckDBWorkspace(self, self._connection.cursor())
            self._workspaces.add(workspace)
        return workspace

    @contextmanager
    def _cursor(self, lasting: duckdb.DuckDBPyConnection | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """A workspace's connection, or one of this query's own; while it is in use, `close` waits for it."""
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
                self._idle.wait(_PULSE_S)
            for workspace in list(self._workspaces):
                workspace.close()
            if hasattr(self, "_connection"):
                self._connection.close()
        self._remove_spill()


class _DuckDBWorkspace(Workspace):
    """A connection that lasts: temporary tables are its own, and go when it is closed."""

    def __init__(self, engine: DuckDBEngine, cursor: duckdb.DuckDBPyConnection) -> None:
        super().__init__(engine.abilities.dialect, engine.tables())
        self._engine, self._connection, self._closed = engine, cursor, False

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        return self._ask(text, lambda select: self._connection.execute(select).fetchall())

    def _arrays(self, text: str) -> dict[str, NDArray[Any]]:
        return self._ask(text, lambda select: self._connection.execute(select).fetchnumpy())

    def _kinds(self, text: str) -> dict[str, str]:
        columns = self._ask(text, lambda select: self._connection.execute(f"DESCRIBE {select.query}").fetchall())
        return {name: kind for name, kind, *_ in columns}

    def _keep(self, name: str, text: str) -> None:
        create = f'CREATE TEMPORARY TABLE "{name}" AS '
        self._ask(text, lambda select: self._connection.execute(create + select.query))

    def _drop(self, name: str) -> None:
        with suppress(EngineFailed), self._engine._cursor(self._connection) as cursor:  # closed: it is gone already
            _told_as(COULD_NOT_ANSWER, lambda: cursor.execute(f'DROP TABLE temp."{name}"'))

    def _ask(self, text: str, work: Callable[[duckdb.Statement], T]) -> T:
        if self._closed:
            raise EngineFailed(CLOSED)
        with self._engine._cursor(self._connection) as cursor:
            select = _one_select(cursor, text)
            return _interruptible(cursor, lambda: _told_as(COULD_NOT_ANSWER, lambda: work(select)))

    def close(self) -> None:
        self._closed = True
        self._connection.close()


def _one_select(cursor: duckdb.DuckDBPyConnection, text: str) -> duckdb.Statement:
    statements = _told_as(COULD_NOT_ANSWER, lambda: cursor.extract_statements(text))
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise ValueError("an engine runs one SELECT at a time")
    return statements[0]


def _interruptible(cursor: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """`work` in a thread of its own, so that Ctrl-C stops it: DuckDB would notice late, and tell it as an error."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(work)
        try:
            return asked.result()
        finally:
            while not asked.done():
                cursor.interrupt()
                wait([asked], _PULSE_S)


def _told_as(words: str, work: Callable[[], T]) -> T:
    """What `work` returns; whatever goes wrong is `EngineFailed` with these words and nothing of the engine's own."""
    try:
        return work()
    except Exception:  # noqa: S110
        # Raised below and not here: even `from None` would leave the engine's text in __context__.
        pass
    raise EngineFailed(words)


@contextmanager
def _deadline(cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt the cursor when its time is over, and again until it stops.

    Again, because an interrupt that arrives before the query has begun is forgotten. The watch has ended before the
    block is left: nothing can interrupt what the cursor does next.
    """
    done = threading.Event()

    def watch() -> None:
        pause = min(seconds, threading.TIMEOUT_MAX)
        while not done.wait(pause):
            cursor.interrupt()
            pause = _PULSE_S

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _private_folder(parent: Path | None) -> str:
    if parent is not None and not parent.is_dir():
        raise EngineFailed(f"spill: {str(parent)!r} is not a folder")
    return tempfile.mkdtemp(prefix="sfumato-spill-", dir=parent)  # made with mode 0700


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
        "autoload_known_extensions": False,
        "autoinstall_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
    }
    if threads is not None:
        config["threads"] = threads
    words = "memory_limit must be such as '2GB', and threads a whole number from 1"
    connection = _told_as(words, lambda: duckdb.connect(":memory:", config=config))
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # a setting of the time zone extension, unknown to `config`
    return connection


def _distinct_names(tables: Mapping[str, str]) -> None:
    """DuckDB takes two names that differ by case for one; then a question would read the wrong table."""
    folded: dict[str, str] = {}
    for name in tables:
        if (other := folded.setdefault(name.casefold(), name)) != name:
            raise InvalidArgument("tables", f"{other!r} and {name!r} differ by case only; rename one")


def _attach(connection: duckdb.DuckDBPyConnection, database: Path) -> dict[str, exp.Table]:
    """Open the database read-only; its tables and views by name, those outside `main` as schema.name."""
    if not database.is_file():
        raise EngineFailed(f"database {str(database)!r} does not exist")
    target = exp.alias_(exp.Literal.string(str(database)), _CATALOG)
    statement = exp.Attach(this=target, expressions=[exp.AttachOption(this=exp.var("READ_ONLY"))])
    words = f"database {str(database)!r} cannot be opened read-only: not DuckDB's format, or being written to"
    _told_as(words, lambda: connection.execute(statement.sql(dialect="duckdb")))
    found = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = ?", [_CATALOG]
    )
    return {
        name if schema == "main" else f"{schema}.{name}": exp.table_(name, schema, _CATALOG, quoted=True)
        for schema, name in found.fetchall()
    }


def _source(name: str, source: str, inside: Mapping[str, exp.Table]) -> _Source:
    """What a policy calls `source`: files by their extension, or else a table or view of the database."""
    for extension, reader in _READERS.items():
        if source.lower().endswith(extension):
            return _files(name, source, reader)
    if table := inside.get(source):
        return _Source(lambda _: table.copy())
    raise EngineFailed(
        f"table {name!r}: {source!r} is neither a table nor a view of the database, "
        f"nor does it end in {', '.join(_READERS)}"
    )


def _files(name: str, source: str, reader: Reader) -> _Source:
    """The files of now. Sorted, so that the first, whose columns come first, does not depend on the file system."""
    # Not by pathlib, which globs no absolute pattern; not resolved, because DuckDB compares names as they are given.
    found = [source] if Path(source).is_file() else glob.glob(source, recursive=True)  # noqa: PTH207
    paths = sorted(os.path.abspath(path) for path in found if Path(path).is_file())  # noqa: PTH100
    if not paths:
        raise EngineFailed(f"table {name!r}: no file matches {source!r}")
    header = None
    if reader is not _read_parquet:
        first = _told_as(f"table {name!r}: its files have different header rows", partial(_header, paths))
        header = _told_as(f"table {name!r}: its header row cannot be read", partial(_names, first, source))
    # DuckDB would take brackets and stars in a file's name for a pattern, and checks the pattern's own text too.
    patterns = [glob.escape(path) for path in paths]
    return _Source(lambda columns: reader(patterns, columns), tuple(dict.fromkeys(paths + patterns)), header)


MAX_LINE = 2**23  # DuckDB takes sixteen times as much memory for a compressed file

_CSV = {
    "quote": '"',
    "escape": '"',
    "comment": "",
    "dateformat": "%Y-%m-%d",
    "timestampformat": "%Y-%m-%d %H:%M:%S",
}


def _header(paths: Sequence[str]) -> bytes:
    """CSV columns are read by their place, so all files of a table must have the same header row."""
    headers = set()
    for path in paths:
        with gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb") as file:
            headers.add(file.readline().strip())
    [header] = headers
    return header


def _names(header: bytes, source: str) -> tuple[str, ...]:
    delimiter = "\t" if source.lower().endswith(".tsv") else ","
    [names] = csv.reader([header.decode("utf-8-sig")], delimiter=delimiter)
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError("two columns of one name")
    return tuple(names)


def _read_parquet(patterns: Sequence[str], columns: Columns) -> exp.Expr:
    return _call("read_parquet", _strings(patterns), union_by_name=exp.true(), hive_types_autocast=exp.false())


def _separated_by(delimiter: str) -> Reader:
    def read_csv(patterns: Sequence[str], columns: Columns) -> exp.Expr:
        """With `columns`, nothing is guessed any more. What is left to guess, one person's row could change for all."""
        options: dict[str, exp.Expr] = {"header": exp.true(), "skip": exp.Literal.number(0)}
        options |= {option: exp.Literal.string(text) for option, text in ({"delim": delimiter} | _CSV).items()}
        if columns:
            options |= {"auto_detect": exp.false(), "strict_mode": exp.true()}
            # In pieces, DuckDB fails where a quoted line break lies across their border; and where a line is long.
            options |= {"parallel": exp.false(), "max_line_size": exp.Literal.number(MAX_LINE)}
            options["columns"] = exp.Struct(
                expressions=[
                    exp.PropertyEQ(this=exp.Literal.string(name), expression=exp.Literal.string(kind))
                    for name, kind in columns.items()
                ]
            )
        return _call("read_csv", _strings(patterns), **options)

    return read_csv


_READERS: Mapping[str, Reader] = {
    ".parquet": _read_parquet,
    ".csv": _separated_by(","),
    ".csv.gz": _separated_by(","),
    ".tsv": _separated_by("\t"),
}


EXTENSIONS = tuple(_READERS)


def _call(function: str, *arguments: exp.Expr, **options: exp.Expr) -> exp.Expr:
    named = [exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in options.items()]
    return exp.Anonymous(this=function, expressions=[*arguments, *named])


def _strings(texts: Sequence[str]) -> exp.Expr:
    return exp.array(*map(exp.Literal.string, texts), copy=False)


def _make_view(
    connection: duckdb.DuckDBPyConnection, name: str, source: _Source, written: Mapping[str, str] | None
) -> None:
    if source.header is None or written is None:
        columns = _describe(connection, source.relation({}))
    else:
        columns = {column: _WRITTEN.get(written.get(column, "text"), "VARCHAR") for column in source.header}
    cells = [_plain(column, kind) for column, kind in columns.items()]
    if source.header is not None:
        cells = [_moment(name) if kind in _MOMENTS else _plain(name, kind) for name, kind in columns.items()]
        columns = {name: "VARCHAR" if kind in _MOMENTS else kind for name, kind in columns.items()}
    select = exp.select(*cells).from_(source.relation(columns))
    view = exp.Create(this=exp.table_(name, quoted=True), kind="VIEW", expression=select)
    connection.execute(view.sql(dialect="duckdb"))


def _plain(name: str, kind: str) -> exp.Expr:
    """The column as Python sees it, so that it groups, compares and sorts here as there."""
    column: exp.Expr = exp.column(name, quoted=True)
    if kind == "VARCHAR":
        # A table can carry a collation of its own, under which 'a' and 'A' would be one group.
        column = exp.Collate(this=column, expression=exp.var("C"))
    elif _bare(kind) == "ENUM":
        column = exp.cast(column, exp.DataType.Type.VARCHAR)  # or it sorts by the order of its declaration
    elif kind == "TIMESTAMP WITH TIME ZONE":
        column = exp.cast(column, exp.DataType.Type.TIMESTAMP)  # in UTC, the engine's time zone
    elif kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        column = exp.TryCast(this=column, to=exp.DataType.build("TIMESTAMP"))  # NULL beyond the range of microseconds
    return exp.alias_(column, name, quoted=True)


_MOMENTS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def _moment(name: str) -> exp.Expr:
    """A column of text as moments in UTC, NULL where it holds none: the reader itself knows one form, and fails.

    With a time zone, because without one DuckDB drops an offset. The second form is looked at where the first is NULL.
    Trimmed, or DuckDB hands the cast down to its reader, which fails.
    """
    text = exp.Trim(this=exp.column(name, quoted=True))
    dotted = exp.func("REPLACE", exp.Upper(this=text.copy()), exp.Literal.string(","), exp.Literal.string("."))
    pattern = r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)"
    rare = exp.Anonymous(
        this="regexp_replace",
        expressions=[dotted, exp.Literal.string(pattern), exp.Literal.string(r"\1-\2-\3 \4:\5:\6")],
    )
    read = [exp.TryCast(this=form, to=exp.DataType.build("TIMESTAMPTZ")) for form in (text, rare)]
    moment = exp.TryCast(this=exp.func("COALESCE", *read), to=exp.DataType.build("TIMESTAMP"))  # UTC, the engine's zone
    return exp.alias_(moment, name, quoted=True)


def _bare(kind: str) -> str:
    """DECIMAL(18,3) is a DECIMAL, ENUM('a', 'b') an ENUM; DECIMAL(18,3)[] is neither."""
    return kind.partition("(")[0] if kind.endswith(")") else kind


def _describe(connection: duckdb.DuckDBPyConnection, relation: exp.Expr) -> dict[str, str]:
    """Columns and DuckDB's types, without running anything."""
    statement = exp.Describe(this=exp.select("*").from_(relation))
    return {row[0]: row[1] for row in connection.execute(statement.sql(dialect="duckdb")).fetchall()}


def _close_in(connection: duckdb.DuckDBPyConnection, files: Sequence[str]) -> None:
    """No way back: DuckDB refuses to widen `allowed_paths` or to re-open external access on a running database."""
    allowed = exp.EQ(this=exp.column("allowed_paths"), expression=_strings(files))
    connection.execute(exp.Set(expressions=[exp.SetItem(this=allowed)]).sql(dialect="duckdb"))
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
