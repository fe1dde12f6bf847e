"""Where a released table goes, and how it is read again.

    FILE.parquet, FILE.csv             the statement is FILE.parquet.statement.json
    FILE.duckdb#table                  the statement is in table_statement
    postgresql://...#[schema.]table    the statement is in [schema.]table_statement

A table appears whole or not at all, and never before its statement. Files are written beside their place and renamed,
the table last: a process that is killed leaves at most a statement without a table, which the next one replaces, and
hidden files. Databases do it in one transaction. Where a file is replaced, a kill between the two renames leaves the
new statement beside the old table: `verify` reports it, and writing once more mends it.

The statement holds a SHA-256 of the table. For a file it is that of its bytes. A database keeps neither bytes nor an
order of rows, so there it is that of the values (`fingerprint`): columns in their order, rows sorted, the same
whatever database or version holds them.

In Parquet, in CSV and in databases a number that is missing is NULL; in CSV that is an empty field, and as only
numbers may be missing, an empty field of text is empty text.

A spreadsheet runs a cell of a CSV file that begins with = + - @ (also in full width), a tab or a line break. Text that
begins so, after any number of apostrophes, gets an apostrophe before it. So does what follows a semicolon, a tab or a
line break, where some spreadsheets begin a cell; text with one of these is quoted. The statement then says
`"formulas": "apostrophe/2"`, and the apostrophes are taken off when the table is read. In files of before it is
`"apostrophe"`: only the beginning of a cell had one.
"""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import InvalidArgument
from sfumato.release.outputs.base import StoredTable, Target, fingerprint
from sfumato.release.outputs.duckdb import DuckDBTarget
from sfumato.release.outputs.files import FORMS, FileTarget, from_payload, payload
from sfumato.release.statement import statement_types
from sfumato.release.table import Released

__all__ = [
    "DuckDBTarget",
    "FileTarget",
    "StoredTable",
    "Target",
    "fingerprint",
    "from_payload",
    "payload",
    "read",
    "target",
    "write",
]


def target(out: str) -> Target:
    """The place that `out` names."""
    if "\x00" in out:
        raise InvalidArgument("out", "must be text without the character NUL")
    if out.startswith(("postgresql://", "postgres://")):
        from sfumato.release.outputs.postgres import PostgresTarget

        url, mark, name = out.rpartition("#")
        return PostgresTarget.of(url, name if mark else "")
    path, mark, table = out.partition(".duckdb#")
    if mark:
        return DuckDBTarget.of(f"{path}.duckdb", table)
    if Path(out).suffix in FORMS:
        return FileTarget(Path(out))
    places = "FILE.parquet, FILE.csv, FILE.duckdb#table, postgresql://...#table or postgresql://...#schema.table"
    raise InvalidArgument("out", f"must be one of {places}")


def write(place: Target, released: Released, *, overwrite: bool = False) -> None:
    """Write a table and its statement to a place that `place.check` did not refuse."""
    place.write(released, overwrite=overwrite)


def read(place: Target) -> Released:
    """The table at a place, with its statement. From a database, rows come in the order of their keys."""
    stored = place.load()
    if stored.released is None:
        raise InvalidArgument("table", f"{place.place} {stored.problem}")
    if stored.released.columns != statement_types(stored.statement):
        raise InvalidArgument("table", f"{place.place} does not have the columns of its statement")
    return stored.released
