"""Sources of tables: Parquet and CSV files, and how a view reads them.

CSV files are comma-separated (`.tsv`: tab-separated) with a header row, quoted by `"`. An empty field is NULL, quoted
or not. Dates are ISO (2026-11-15) or text. There are no comments. A line has at most 8 MB. One thread reads them all.

Types are those that the owner wrote, and text for every other column. Moments are ISO 8601 (2026-11-15 08:30:00,
2026-11-15T08:30:00.5+02:00, 20261115T083000Z): in UTC where they carry no offset, and brought to UTC where they do. A
cell that is none is NULL. A cell that does not fit any other type makes each question that reads it fail. Where the
owner wrote nothing about a table, types are guessed from a sample. That is only for a first look at a file, because a
guess depends on the rows. All files of a table have one header row.

Parquet has none of these problems. Its files are joined by the names of their columns.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import duckdb
from sqlglot import exp

from sfumato.engines.duckdb.execution import attempt
from sfumato.engines.duckdb.types import FLOATS, bare
from sfumato.errors import EngineFailed
from sfumato.types import TYPES

Columns: TypeAlias = Mapping[str, str]
Reader: TypeAlias = Callable[[Sequence[str], Columns], exp.Expr]

MAX_LINE = 2**23  # DuckDB takes sixteen times as much memory for a compressed file

_CSV = {
    "quote": '"',
    "escape": '"',
    "comment": "",
    "dateformat": "%Y-%m-%d",
    "timestampformat": "%Y-%m-%d %H:%M:%S",
}
_MOMENTS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where a table's rows are. `relation`, given the types of the columns once they are known, is what a view reads.

    `header` is that of a CSV file, whose types are not in it.
    """

    relation: Callable[[Columns], exp.Expr]
    files: tuple[str, ...] = ()
    header: tuple[str, ...] | None = None


def read_parquet(patterns: Sequence[str], columns: Columns) -> exp.Expr:
    return _call("read_parquet", strings(patterns), union_by_name=exp.true(), hive_types_autocast=exp.false())


def csv_reader(delimiter: str) -> Reader:
    def read_csv(patterns: Sequence[str], columns: Columns) -> exp.Expr:
        """With `columns`, nothing is guessed. If anything were, one person's row could change it for all."""
        options: dict[str, exp.Expr] = {"header": exp.true(), "skip": exp.Literal.number(0)}
        options |= {option: exp.Literal.string(text) for option, text in ({"delim": delimiter} | _CSV).items()}
        if columns:
            options |= {"auto_detect": exp.false(), "strict_mode": exp.true()}
            # In parallel, DuckDB fails where a quoted line break lies across two pieces, and where a line is long.
            options |= {"parallel": exp.false(), "max_line_size": exp.Literal.number(MAX_LINE)}
            options["columns"] = exp.Struct(
                expressions=[
                    exp.PropertyEQ(this=exp.Literal.string(name), expression=exp.Literal.string(kind))
                    for name, kind in columns.items()
                ]
            )
        return _call("read_csv", strings(patterns), **options)

    return read_csv


READERS: Mapping[str, Reader] = {
    ".parquet": read_parquet,
    ".csv": csv_reader(","),
    ".csv.gz": csv_reader(","),
    ".tsv": csv_reader("\t"),
}
ENDINGS = tuple(READERS)
UNTYPED = tuple(ending for ending, reader in READERS.items() if reader is not read_parquet)


def _call(function: str, *arguments: exp.Expr, **options: exp.Expr) -> exp.Expr:
    named = [exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in options.items()]
    return exp.Anonymous(this=function, expressions=[*arguments, *named])


def strings(texts: Sequence[str]) -> exp.Expr:
    """A list of texts."""
    return exp.array(*map(exp.Literal.string, texts), copy=False)


def locate(source: str, folder: Path) -> str:
    """A file's path from `folder`, which is no pattern. Names of tables stay as they are."""
    if not source.lower().endswith(ENDINGS):
        return source
    exact = folder / source
    return str(exact) if exact.is_file() or Path(source).is_absolute() else str(Path(glob.escape(str(folder))) / source)


def file_places(pattern: str) -> Iterator[str]:
    """The pattern, and every file that it matches now."""
    yield os.path.realpath(pattern)
    yield from map(file_place, _matching_files(pattern))


def file_place(path: str) -> str:
    """A file by its number on its disk, which all links to it share; by its path where there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return os.path.realpath(path)
    return f"{status.st_dev}:{status.st_ino}"


def _matching_files(pattern: str) -> list[str]:
    # Not by pathlib, which globs no absolute pattern; not resolved, because DuckDB compares names as they are given.
    found = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)  # noqa: PTH207
    return [path for path in found if Path(path).is_file()]


def find_source(name: str, source: str, tables: Mapping[str, exp.Table]) -> TableSource:
    """Files, by the ending of `source`; else one of the `tables` and views of the database."""
    for ending, reader in READERS.items():
        if source.lower().endswith(ending):
            return _find_files(name, source, reader)
    if table := tables.get(source):
        return TableSource(lambda _: table.copy())
    raise EngineFailed(
        f"{source!r} is neither a table nor a view of the database, nor does it end in {', '.join(READERS)}", table=name
    )


def _find_files(name: str, source: str, reader: Reader) -> TableSource:
    """The files of now, sorted: the first, whose columns come first, does not depend on the file system."""
    paths = sorted(os.path.abspath(path) for path in _matching_files(source))  # noqa: PTH100
    if not paths:
        raise EngineFailed(f"no file matches {source!r}", table=name)
    header = None
    if reader is not read_parquet:
        first = attempt(lambda: _first_line(paths), "its files have different header rows", table=name)
        delimiter = "\t" if source.lower().endswith(".tsv") else ","
        header = attempt(lambda: _column_names(first, delimiter), "its header row cannot be read", table=name)
    # DuckDB would take brackets and stars in a file's name for a pattern, and checks the pattern's own text too.
    patterns = [glob.escape(path) for path in paths]
    return TableSource(lambda columns: reader(patterns, columns), tuple(dict.fromkeys(paths + patterns)), header)


def _first_line(paths: Sequence[str]) -> bytes:
    """CSV columns are read by their place, so all files of a table must have the same header row."""
    headers = set()
    for path in paths:
        with gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb") as file:
            headers.add(file.readline().strip())
    [header] = headers
    return header


def _column_names(header: bytes, delimiter: str) -> tuple[str, ...]:
    [names] = csv.reader([header.decode("utf-8-sig")], delimiter=delimiter)
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError("two columns of one name")
    return tuple(names)


def make_view(
    connection: duckdb.DuckDBPyConnection, name: str, source: TableSource, written: Mapping[str, str] | None
) -> None:
    """Make the view `name` of a source; `written` are the types that the owner wrote, None where types are guessed."""
    if source.header is None or written is None:
        columns = describe(connection, source.relation({}))
    else:
        columns = {column: TYPES[written.get(column, "text")].duckdb for column in source.header}
    cells = [_plain(column, kind) for column, kind in columns.items()]
    if source.header is not None:
        cells = [_moment(name) if kind in _MOMENTS else _plain(name, kind) for name, kind in columns.items()]
        columns = {name: "VARCHAR" if kind in _MOMENTS else kind for name, kind in columns.items()}
    select = exp.select(*cells).from_(source.relation(columns))
    view = exp.Create(this=exp.table_(name, quoted=True), kind="VIEW", expression=select)
    connection.execute(view.sql(dialect="duckdb"))


def describe(connection: duckdb.DuckDBPyConnection, relation: exp.Expr) -> dict[str, str]:
    """Columns and DuckDB's types, without running anything."""
    statement = exp.Describe(this=exp.select("*").from_(relation))
    return {row[0]: row[1] for row in connection.execute(statement.sql(dialect="duckdb")).fetchall()}


def _plain(name: str, kind: str) -> exp.Expr:
    """The column as Python sees it: it groups, compares and sorts in DuckDB as in Python."""
    column: exp.Expr = exp.column(name, quoted=True)
    if kind == "VARCHAR":
        # A table can carry a collation of its own, under which 'a' and 'A' would be one group.
        column = exp.Collate(this=column, expression=exp.var("C"))
    elif bare(kind) == "ENUM":
        column = exp.cast(column, exp.DataType.Type.VARCHAR)  # or it sorts by the order of its declaration
    elif kind in FLOATS:
        # The smallest and largest value of a block, as most programs write them into Parquet, leave NaN out. DuckDB
        # would believe them, and then other people's rows decide whether a NaN passes a filter.
        nan = exp.cast(exp.Literal.string("nan"), kind, dialect="duckdb")
        column = exp.Case(ifs=[exp.If(this=exp.func("isnan", column), true=nan)], default=column.copy())
    elif kind == "TIMESTAMP WITH TIME ZONE":
        column = exp.cast(column, exp.DataType.Type.TIMESTAMP)  # in UTC, the engine's time zone
    elif kind in ("TIMESTAMP_S", "TIMESTAMP_MS"):
        column = exp.TryCast(this=column, to=exp.DataType.build("TIMESTAMP"))  # NULL beyond the range of microseconds
    return exp.alias_(column, name, quoted=True)


def _moment(name: str) -> exp.Expr:
    """A column of text as moments in UTC, NULL where it holds none. DuckDB's own reader knows one form, and fails.

    With a time zone, because without one DuckDB drops an offset. The second form is tried where the first is NULL.
    Trimmed, or DuckDB passes the cast to its reader, which fails.
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
