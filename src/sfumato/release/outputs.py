"""Where a released table goes, and how it is found again.

    FILE.parquet, FILE.csv             the statement is FILE.parquet.statement.json
    FILE.duckdb#table                  the statement is in table_statement
    postgresql://...#[schema.]table    the statement is in [schema.]table_statement

A table appears whole or not at all, and never before its statement. Files are written beside their place and renamed,
the table last: a process that is killed leaves at most a statement without a table, which the next one replaces, and
hidden files that nobody reads. Databases do it in one transaction. Where a file is replaced, a kill between the two
renames leaves the new statement beside the old table: `verify` tells, and writing once more mends it.

The statement holds a SHA-256 of the table. For a file it is that of its bytes. A database keeps neither bytes nor an
order of rows, so there it is that of the values (`fingerprint`): columns in their order, rows sorted, the same
whatever database or version holds them.

In Parquet, in CSV and in databases a number that is missing is NULL; in CSV that is an empty field, and as only
numbers may be missing, an empty field of text is empty text.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import glob
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import numpy as np
from sqlglot import exp

from sfumato.errors import Failed, InvalidArgument
from sfumato.release.table import Released
from sfumato.wire.frames import relation

FORMAT = "sfumato-release/1"
FORMS = "FILE.parquet, FILE.csv, FILE.duckdb#table, postgresql://...#table or postgresql://...#schema.table"
STATEMENT = "_statement"
ROW_GROUP = 122_880

Columns: TypeAlias = Mapping[str, str]


@dataclass(frozen=True)
class StoredTable:
    """What stands at a target: a statement, the SHA-256 of the table and the table, or the `problem` it has."""

    statement: dict[str, Any]
    sha256: str
    released: Released | None
    problem: str = ""


class Target(ABC):
    """A place for a table."""

    @property
    @abstractmethod
    def format(self) -> str:
        """What the statement calls it: parquet, csv, duckdb or postgres."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Its name in messages, without a password."""

    @abstractmethod
    def check(self, *, overwrite: bool = False) -> None:
        """Refuse what can be known to fail, before anything is charged."""

    @abstractmethod
    def write(self, released: Released, *, overwrite: bool = False) -> None:
        """Write the table and its statement, whole or not at all."""

    @abstractmethod
    def stored(self) -> StoredTable:
        """What stands there."""


def target(out: str) -> Target:
    """Where `out` points to."""
    if "\x00" in out:
        raise InvalidArgument("out", "must be text without the character NUL")
    if out.startswith(("postgresql://", "postgres://")):
        from sfumato.release.postgres import PostgresTarget, postgres_name

        url, mark, name = out.rpartition("#")
        return PostgresTarget(url, *postgres_name(name if mark else ""))
    path, mark, table = out.partition(".duckdb#")
    if mark:
        return DuckDBTarget(Path(f"{path}.duckdb"), _table_name(table))
    if Path(out).suffix in _FILES:
        return FileTarget(Path(out))
    raise InvalidArgument("out", f"must be one of {FORMS}")


def write(place: Target, released: Released, *, overwrite: bool = False) -> None:
    """Write a table and its statement to where `place.check` found that it can go."""
    place.write(released, overwrite=overwrite)


def read(place: Target) -> Released:
    """The table that stands there, with its statement. From a database, rows come in the order of their keys."""
    stored = place.stored()
    if stored.released is None:
        raise InvalidArgument("table", f"{place.place} {stored.problem}")
    if stored.released.columns != stated_columns(stored.statement):
        raise InvalidArgument("table", f"{place.place} does not have the columns of its statement")
    return stored.released


# Statements


def stated(released: Released, file_format: str, sha256: str) -> str:
    """The statement as it is written: with the number of rows, and what tells whether the table is still the same."""
    whole = {**released.statement, "rows": len(released), "table": {"format": file_format, "sha256": sha256}}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parsed(text: str | bytes, place: str) -> dict[str, Any]:
    """A statement, if it is one: what every reader relies on is there."""
    try:
        statement = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidArgument("table", f"the statement of {place} is not JSON; was it edited?") from None
    if not isinstance(statement, dict) or statement.get("format") != FORMAT:
        raise InvalidArgument("table", f"the statement of {place} is not of the format {FORMAT!r}")
    missing = next((name for name, kind in _SHAPE.items() if not isinstance(statement.get(name), kind)), None)
    if missing is None and not all(map(_describes, statement["columns"])):
        missing = "columns"
    if missing is None and not _promises(statement["guarantee"]):
        missing = "guarantee"
    if missing is not None:
        raise InvalidArgument("table", f"the statement of {place} lacks {missing!r}, or it is not what it should be")
    return statement


_SHAPE: Mapping[str, type] = {
    "unit": str,
    "neighbours": str,
    "guarantee": dict,
    "parameters": dict,
    "steps": list,
    "columns": list,
}


def _describes(column: object) -> bool:
    if not isinstance(column, dict) or not isinstance(column.get("statistic"), str | None):
        return False
    return all(isinstance(column.get(name), str) for name in ("name", "type", "role"))


def _promises(guarantee: Mapping[str, Any]) -> bool:
    epsilon = guarantee.get("epsilon")
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
        return False
    return all(isinstance(guarantee.get(name), str) for name in ("rho", "delta", "epsilon_delta"))


def stated_columns(statement: Mapping[str, Any]) -> dict[str, str]:
    return {column["name"]: column["type"] for column in statement["columns"]}


# Parquet and CSV


def payload(released: Released) -> bytes:
    """The table as Parquet. The same table gives the same bytes, as long as DuckDB is the same."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, duckdb.connect() as connection:
        connection.execute("SET threads = 1")  # or the order in which parts are done could be seen
        file = Path(folder) / "table.parquet"
        rows = relation(connection, released.columns, released.data)
        rows.write_parquet(str(file), compression="zstd", row_group_size=ROW_GROUP)
        return file.read_bytes()


def from_payload(content: bytes, statement: Mapping[str, Any]) -> Released:
    """The table that `payload` made into bytes."""
    try:
        with tempfile.TemporaryDirectory(prefix="sfumato-") as folder, duckdb.connect() as connection:
            file = Path(folder) / "table.parquet"
            file.write_bytes(content)
            return _fetched(connection.read_parquet(str(file)), statement)
    except duckdb.Error:
        raise InvalidArgument("table", "is not a Parquet file, or it is damaged") from None


def _fetched(rows: duckdb.DuckDBPyRelation, statement: Mapping[str, Any]) -> Released:
    columns = {name: _KINDS.get(str(kind), str(kind)) for name, kind in zip(rows.columns, rows.types, strict=True)}
    return Released(columns, rows.fetchnumpy(), statement)


_KINDS: Mapping[str, str] = {
    "VARCHAR": "text",
    "BIGINT": "integer",
    "DOUBLE": "number",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}


def _to_csv(released: Released) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180; with "\n" alone, Python 3.11 leaves "\r" unquoted
    writer.writerow(released.columns)
    cells = (map(_WRITTEN.get(kind, _same), released.values(name)) for name, kind in released.columns.items())
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue().encode()


def _from_csv(content: bytes, statement: Mapping[str, Any]) -> Released:
    """The table, with the kinds that the statement gives, as a CSV file has none."""
    kinds = stated_columns(statement)
    try:
        with _long_cells():
            header, *rows = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
        columns = {name: kinds.get(name, "text") for name in header}
        cells = zip(*rows, strict=True) if rows else [()] * len(header)
        data = {name: [*map(_READ[columns[name]], cell)] for name, cell in zip(header, cells, strict=True)}
    except (ValueError, KeyError, csv.Error):
        raise InvalidArgument("table", "is not a CSV file with the columns that are stated, or it is damaged") from None
    return Released(columns, data, statement)


@contextmanager
def _long_cells() -> Iterator[None]:
    """Cells of any length. The limit is the process's, so it is put back."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _same(value: Any) -> Any:
    return value


# Exact and the same everywhere; Python writes the shortest digits that read back as the same number.
_WRITTEN: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda value: "true" if value else "false",
    "timestamp": lambda value: str(value.isoformat(sep=" ")),
}
_READ: Mapping[str, Callable[[str], Any]] = {
    "text": _same,
    "integer": int,
    "number": lambda cell: float(cell) if cell else None,
    "boolean": {"true": True, "false": False}.__getitem__,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
}


@dataclass(frozen=True)
class _Form:
    format: str
    encode: Callable[[Released], bytes]
    decode: Callable[[bytes, Mapping[str, Any]], Released]


_FILES = {".parquet": _Form("parquet", payload, from_payload), ".csv": _Form("csv", _to_csv, _from_csv)}


@dataclass(frozen=True)
class FileTarget(Target):
    """A Parquet or a CSV file, and beside it the statement."""

    path: Path

    @property
    def format(self) -> str:
        return self._form.format

    @property
    def place(self) -> str:
        return repr(str(self.path))

    @property
    def _form(self) -> _Form:
        return _FILES[self.path.suffix]

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.statement.json")

    def check(self, *, overwrite: bool = False) -> None:
        _check_folder(self.path)
        for path in (self.path, self._beside):
            if path.is_dir():
                raise InvalidArgument("out", f"{str(path)!r} is a folder")
        if os.path.lexists(self.path) and not overwrite:
            raise InvalidArgument("out", f"{self.place} exists; choose another name, or say --overwrite")

    def write(self, released: Released, *, overwrite: bool = False) -> None:
        with _told_files():
            content = self._form.encode(released)
            statement = stated(released, self.format, hashlib.sha256(content).hexdigest())
            with (
                _hidden(self._beside, statement.encode()) as first,
                _hidden(self.path, content) as last,
                _one_at_a_time(self.path.absolute().parent),
            ):
                if os.path.lexists(self.path) and not overwrite:
                    raise Failed(f"{self.place} has appeared meanwhile, and is left as it is")
                os.replace(first, self._beside)  # noqa: PTH105
                os.replace(last, self.path)  # noqa: PTH105
            _sync_folder(self.path.absolute().parent)

    def stored(self) -> StoredTable:
        try:
            content = self.path.read_bytes()
        except OSError:
            raise InvalidArgument("table", f"there is no file {self.place}, or it cannot be read") from None
        try:
            text = self._beside.read_bytes()
        except OSError:
            raise InvalidArgument("table", f"{self.place} has no statement: {str(self._beside)!r} is missing") from None
        statement, sha256 = parsed(text, self.place), hashlib.sha256(content).hexdigest()
        try:
            return StoredTable(statement, sha256, self._form.decode(content, statement))
        except InvalidArgument as refused:
            return StoredTable(statement, sha256, None, _problem(refused))


def _problem(refused: InvalidArgument) -> str:
    return f"cannot be read: {refused.problem}" if refused.argument != "table" else refused.problem


def _check_folder(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InvalidArgument("out", f"there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidArgument("out", f"the folder {str(folder)!r} cannot be written to")


@contextmanager
def _hidden(path: Path, content: bytes) -> Iterator[Path]:
    """`content`, on disk, in a file beside `path` that is gone afterwards unless it was renamed.

    Until then nobody else can read it, and it is locked: where a killed run has left one, the next takes it away. It
    holds a draw of its own, and two draws are more than a statement states.
    """
    _take_away(path)
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
            yield hidden
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)


def _take_away(path: Path) -> None:
    """What was left beside `path` by runs that are no more."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if not re.fullmatch(r"\.[0-9a-f]{16}\.tmp", left.name[-21:]):
            continue
        with suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """A table and its statement go to their places together: no other writer of this folder comes between them."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """A rename is on disk when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_REASONS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "there is no space left"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its folder is gone"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "it may not be written"),
}
UNWRITTEN = "the table could not be written"


@contextmanager
def _told_files() -> Iterator[None]:
    """What the system says, in words of ours."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{UNWRITTEN}: {_REASONS.get(error.errno or 0, 'the disk failed')}") from None
    except duckdb.Error:
        raise Failed(f"{UNWRITTEN}: the temporary folder has no space left, or cannot be written to") from None


# What databases share


def fingerprint(released: Released) -> str:
    """The SHA-256 of the values: columns with their names and kinds, rows sorted by all columns from left to right."""
    return _digest(_sorted(released))


def _digest(released: Released) -> str:
    digest = hashlib.sha256(json.dumps([len(released), *released.columns.items()]).encode())
    for name, kind in released.columns.items():
        values = released.data[name]
        if kind == "text":
            encoded = [text.encode() for text in values]
            digest.update(np.fromiter(map(len, encoded), dtype="<i8", count=len(encoded)).tobytes())
            digest.update(b"".join(encoded))
        else:
            digest.update(_plain(values).tobytes())
    return digest.hexdigest()


def _plain(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Values as 8 bytes each, the lowest first. All that is missing is one NaN, and zero has no sign."""
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8")
    return values.astype("<i8")


def _order(released: Released) -> np.ndarray[Any, Any]:
    """The rows' places in sorted order, which is DuckDB's: text by its bytes, what is missing last."""
    count = len(released.columns)
    columns = {**{f"c{place}": kind for place, kind in enumerate(released.columns.values())}, "place": "integer"}
    data = {**dict(zip(columns, released.data.values(), strict=False)), "place": np.arange(len(released))}
    by = [exp.Ordered(this=exp.column(f"c{place}"), nulls_first=False) for place in range(count)]
    with duckdb.connect() as connection:
        rows = relation(connection, columns, data).order(", ".join(column.sql("duckdb") for column in by))
        order: np.ndarray[Any, Any] = rows.project("place").fetchnumpy()["place"]
    return order


def _sorted(released: Released) -> Released:
    order = _order(released)
    return Released(released.columns, {name: array[order] for name, array in released.data.items()}, released.statement)


def found(statement: dict[str, Any], load: Callable[[], Released]) -> StoredTable:
    try:
        released = _sorted(load())
    except InvalidArgument as refused:
        return StoredTable(statement, "", None, _problem(refused))
    return StoredTable(statement, _digest(released), released)


def one_statement(rows: Sequence[Sequence[Any]], place: str) -> dict[str, Any]:
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise InvalidArgument("table", f"{place} has no statement, or more than one")
    return parsed(rows[0][0], place)


def _table_name(name: str) -> str:
    if not name or "." in name:
        raise InvalidArgument("out", "the name of the table, after #, must not be empty and must have no dot")
    return name


EXISTS = "exists; choose another name, or say --overwrite"
IS_VIEW = "is there, and is not a table; choose another name"


# DuckDB


@dataclass(frozen=True)
class DuckDBTarget(Target):
    """A table in a DuckDB database, which is made where there is none."""

    path: Path
    table: str
    format = "duckdb"

    @property
    def place(self) -> str:
        return repr(f"{self.path}#{self.table}")

    @property
    def _tables(self) -> tuple[str, str]:
        return self.table, f"{self.table}{STATEMENT}"

    def check(self, *, overwrite: bool = False) -> None:
        _check_folder(self.path)
        if not self.path.exists():
            return
        if not os.access(self.path, os.W_OK):
            raise InvalidArgument("out", f"{str(self.path)!r} cannot be written to")
        with self._reading("out") as connection:
            for name in self._tables:
                kind = _duckdb_kind(connection, name)
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
        fresh = not self.path.exists()
        try:
            with duckdb.connect(self.path.absolute()) as connection, self._undone(connection, fresh):
                self._fill(connection, released, overwrite)
        except (duckdb.Error, OSError):
            raise Failed(f"{UNWRITTEN}: DuckDB has no space, or the database is not what it was") from None

    @contextmanager
    def _undone(self, connection: duckdb.DuckDBPyConnection, fresh: bool) -> Iterator[None]:
        """Where filling fails, a database that was made for it goes. One that could not be opened is not ours."""
        try:
            yield
        except BaseException:
            connection.close()
            if fresh:
                self.path.unlink(missing_ok=True)
            raise

    def _fill(self, connection: duckdb.DuckDBPyConnection, released: Released, overwrite: bool) -> None:
        statement = stated(released, self.format, fingerprint(released))
        connection.begin()
        for name in self._tables:
            if overwrite:
                connection.execute(f"DROP TABLE IF EXISTS {_named(name).sql('duckdb')}")
            elif _duckdb_kind(connection, name):
                raise Failed(f"{self.place} has appeared meanwhile, and is left as it is")
        table, beside = (_named(name).sql("duckdb") for name in self._tables)
        relation(connection, released.columns, released.data).create(table)
        connection.execute(f"CREATE TABLE {beside} (statement VARCHAR)")
        connection.execute(f"INSERT INTO {beside} VALUES (?)", [statement])  # noqa: S608
        connection.commit()

    def stored(self) -> StoredTable:
        if not self.path.exists():
            raise InvalidArgument("table", f"there is no file {str(self.path)!r}")
        with self._reading("table") as connection:
            table, beside = self._tables
            if not _duckdb_kind(connection, table):
                raise InvalidArgument("table", f"there is no table {self.place}")
            if not _duckdb_kind(connection, beside):
                raise InvalidArgument("table", f"{self.place} has no statement: the table {beside!r} is missing")
            rows = connection.execute(exp.select("*").from_(_named(beside)).sql("duckdb")).fetchall()
            statement = one_statement(rows, self.place)
            query = exp.select("*").from_(_named(table)).sql("duckdb")
            return found(statement, lambda: _fetched(connection.sql(query), statement))


def _named(name: str) -> exp.Table:
    return exp.table_(name, quoted=True)


def _duckdb_kind(connection: duckdb.DuckDBPyConnection, name: str) -> str | None:
    """What bears a name, whatever its case, as DuckDB does not tell case apart: a BASE TABLE, a VIEW or nothing."""
    found = connection.execute(
        "SELECT table_type FROM information_schema.tables WHERE table_catalog = current_database() "
        "AND table_schema = current_schema() AND lower(table_name) = lower(?)",
        [name],
    ).fetchone()
    return None if found is None else str(found[0])
