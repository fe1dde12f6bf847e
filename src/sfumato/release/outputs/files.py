"""A released table in a Parquet or a CSV file, with its statement in a file beside it."""

from __future__ import annotations

import csv
import errno
import fcntl
import glob
import hashlib
import io
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from sfumato.errors import Failed, InvalidArgument
from sfumato.release.outputs.base import (
    APPEARED,
    EXISTS,
    UNWRITTEN,
    StoredTable,
    Target,
    check_folder,
    reading_problem,
)
from sfumato.release.outputs.duckdb import fetch
from sfumato.release.statement import parse_statement, statement_text, statement_types
from sfumato.release.table import Released
from sfumato.types import TYPES
from sfumato.wire.csv_text import is_formula, unescape, unescape_earlier, write_csv
from sfumato.wire.frames import relation

ROW_GROUP = 122_880
MAX_WAIT_S = 8.0  # for another process that writes into the same folder
_PAUSE_S = 0.005
FOLDER_IN_USE = "another process has locked its folder for too long; if this stays, that process is stuck: end it"

FORMULAS = {"formulas": "apostrophe/2"}
"""What the statement says of a CSV file in which text that a spreadsheet would run has an apostrophe before it."""

_UNESCAPES = {"apostrophe": unescape_earlier, "apostrophe/2": unescape}

_REASONS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "there is no space left"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "its folder is gone"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "it may not be written"),
}


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
            return fetch(connection.read_parquet(str(file)), statement)
    except duckdb.Error:
        raise InvalidArgument("table", "is not a Parquet file, or it is damaged") from None


def to_csv(released: Released) -> bytes:
    """The table as CSV. Text that a spreadsheet would run gets an apostrophe, which spreadsheets take for text."""
    return write_csv(released.columns, {name: released.values(name) for name in released.columns})


def csv_facts(released: Released) -> Mapping[str, str]:
    """What the statement says of the CSV file of a table, beside its format and its SHA-256."""
    texts = [released.columns, *(released.values(name) for name, kind in released.columns.items() if kind == "text")]
    return FORMULAS if any(is_formula(text) for column in texts for text in column) else {}


def from_csv(content: bytes, statement: Mapping[str, Any]) -> Released:
    """The table that `to_csv` made into bytes, with the types of the statement, as a CSV file has none."""
    kinds, about = statement_types(statement), statement.get("table")
    mark = about.get("formulas") if isinstance(about, Mapping) else None
    before = csv.field_size_limit(2**31 - 1)  # cells of any length; the limit is the process's, so it is put back
    try:
        rows: Iterable[Sequence[str]] = csv.reader(io.StringIO(content.decode(), newline=""), strict=True)
        header, *rows = ([*map(_UNESCAPES[mark], row)] for row in rows) if mark else rows
        columns = {name: kinds.get(name, "text") for name in header}
        cells = zip(*rows, strict=True) if rows else [()] * len(header)
        data = {name: [*map(TYPES[columns[name]].from_csv, cell)] for name, cell in zip(header, cells, strict=True)}
    except (ValueError, KeyError, TypeError, csv.Error):
        raise InvalidArgument("table", "is not a CSV file with the columns that are stated, or it is damaged") from None
    finally:
        csv.field_size_limit(before)
    return Released(columns, data, statement)


@dataclass(frozen=True)
class FileForm:
    """A format of files."""

    format: str
    encode: Callable[[Released], bytes]
    decode: Callable[[bytes, Mapping[str, Any]], Released]
    facts: Callable[[Released], Mapping[str, str]] = lambda _: {}


FORMS = {".parquet": FileForm("parquet", payload, from_payload), ".csv": FileForm("csv", to_csv, from_csv, csv_facts)}


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
    def _form(self) -> FileForm:
        return FORMS[self.path.suffix]

    @property
    def _beside(self) -> Path:
        return self.path.with_name(f"{self.path.name}.statement.json")

    def check(self, *, overwrite: bool = False) -> None:
        check_folder(self.path)
        for path in (self.path, self._beside):
            if path.is_dir():
                raise InvalidArgument("out", f"{str(path)!r} is a folder")
        if os.path.lexists(self.path) and not overwrite:
            raise InvalidArgument("out", f"{self.place} {EXISTS}")

    def write(self, released: Released, *, overwrite: bool = False) -> None:
        try:
            self._write(released, overwrite=overwrite)
        except OSError as error:
            raise Failed(f"{UNWRITTEN}: {_REASONS.get(error.errno or 0, 'the disk failed')}") from None
        except duckdb.Error:
            raise Failed(f"{UNWRITTEN}: the temporary folder has no space left, or cannot be written to") from None

    def _write(self, released: Released, *, overwrite: bool) -> None:
        content = self._form.encode(released)
        facts = self._form.facts(released)
        statement = statement_text(released, self.format, hashlib.sha256(content).hexdigest(), facts)
        with (
            _hidden(self._beside, statement.encode()) as first,
            _hidden(self.path, content) as last,
            _open_folder(self.path) as folder,
        ):
            # A table and its statement go to their places together: no other writer of this folder comes between.
            _lock(folder)
            if os.path.lexists(self.path) and not overwrite:
                raise Failed(f"{self.place} {APPEARED}")
            os.replace(first, self._beside)  # noqa: PTH105
            os.replace(last, self.path)  # noqa: PTH105
        with _open_folder(self.path) as folder:
            os.fsync(folder)  # a rename is on disk when its folder is

    def load(self) -> StoredTable:
        try:
            content = self.path.read_bytes()
        except OSError:
            raise InvalidArgument("table", f"there is no file {self.place}, or it cannot be read") from None
        try:
            text = self._beside.read_bytes()
        except OSError:
            raise InvalidArgument("table", f"{self.place} has no statement: {str(self._beside)!r} is missing") from None
        statement, sha256 = parse_statement(text, self.place), hashlib.sha256(content).hexdigest()
        try:
            return StoredTable(statement, sha256, self._form.decode(content, statement))
        except InvalidArgument as refusal:
            return StoredTable(statement, sha256, None, reading_problem(refusal))


@contextmanager
def _hidden(path: Path, content: bytes) -> Iterator[Path]:
    """`content`, on disk, in a file beside `path` that is gone afterwards unless it was renamed.

    Until then only this user can read it, and it is locked: the next run removes what a killed one has left. It holds
    a draw of its own, and two draws are more than a statement states.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        if re.fullmatch(r"\.[0-9a-f]{16}\.tmp", left.name[-21:]):
            with suppress(OSError), left.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.unlink()
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


def _lock(folder: int) -> None:
    """Lock a folder. Not for ever: a process that is frozen keeps its lock, and others hold it for two renames only."""
    until = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            return fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise Failed(f"{UNWRITTEN}: {FOLDER_IN_USE}") from None
        time.sleep(_PAUSE_S)


@contextmanager
def _open_folder(path: Path) -> Iterator[int]:
    """The descriptor of the folder of `path`. Closing it gives up a lock on it."""
    descriptor = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
