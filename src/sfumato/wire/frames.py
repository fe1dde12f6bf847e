"""Rows as data frames and as Arrow: pandas, polars, and DuckDB, which writes Arrow streams without pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sfumato.types import TYPES, Type

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow  # type: ignore[import-untyped]
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


def with_intervals(
    columns: Mapping[str, Type],
    rows: Sequence[Mapping[str, Any]],
    errors: Mapping[str, int | float | None],
    signed: Collection[str] = (),
) -> tuple[dict[str, Type], dict[str, list[Any]]]:
    """Rows by column and, behind them, both ends of the 95 % interval of each count: `members_low`, `members_high`.

    `errors` has the half-width per column of counts; None where no interval is known, and then its ends are None. The
    intervals of `signed` columns may be below zero.
    """
    from sfumato.show import count_interval, distinct

    kinds, data = dict(columns), {name: [row[name] for row in rows] for name in columns}
    for name, error in errors.items():
        ends = [
            (None, None) if count is None or error is None else count_interval(count, error, signed=name in signed)
            for count in data[name]
        ]
        for place, ending in enumerate(("low", "high")):
            label = distinct([*kinds, f"{name}_{ending}"])[-1]
            kinds[label], data[label] = columns[name], [pair[place] for pair in ends]
    return kinds, data


def pandas_frame(columns: Mapping[str, str], data: Mapping[str, Any]) -> pandas.DataFrame:
    """A pandas data frame of `data`, a list or an array for each column, typed as `columns` say."""
    try:
        import pandas
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("to_pandas needs: pip install 'sfumato[pandas]'") from missing
    with_missing = {"integer": "Int64", "boolean": "boolean"}  # the usual types of these have no missing values
    kinds = {
        name: with_missing[kind] if kind in with_missing and None in list(data[name]) else TYPES[kind].pandas
        for name, kind in columns.items()
    }
    return pandas.DataFrame(
        {name: pandas.Series(data[name], dtype=kind) for name, kind in kinds.items()}, columns=[*columns]
    )


def polars_frame(streamed: Any) -> polars.DataFrame:
    """A polars data frame of what has an Arrow stream."""
    try:
        import polars
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("to_polars needs: pip install 'sfumato[polars]'") from missing
    return polars.DataFrame(streamed)


def arrow_table(streamed: Any) -> pyarrow.Table:
    """A table of pyarrow of what has an Arrow stream."""
    return _pyarrow().table(streamed)


def arrow_bytes(streamed: Any) -> bytes:
    """What has an Arrow stream, as a stream of Arrow's IPC format."""
    arrow = _pyarrow()
    table, sink = arrow.table(streamed), arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("Arrow needs: pip install 'sfumato[arrow]'") from missing
    return pyarrow


def arrow_stream(columns: Mapping[str, str], data: Mapping[str, Any], requested_schema: object | None) -> object:
    """The columns as an Arrow stream that DuckDB writes."""
    import duckdb

    connection = duckdb.connect(config={"enable_external_access": "false"})
    return relation(connection, columns, data).__arrow_c_stream__(requested_schema)


def relation(connection: DuckDBPyConnection, columns: Mapping[str, str], data: Mapping[str, Any]) -> DuckDBPyRelation:
    """The columns as a relation of DuckDB, typed as `columns` say; NaN and None are NULL.

    Arrays of numbers are read where they are. Columns go by their place on the way in: a name may be anything.
    """
    from sqlglot import exp

    places = {f"c{place}": name for place, name in enumerate(columns)}
    connection.register("data", {place: _array(data[name]) for place, name in places.items()})
    cells = (
        exp.alias_(exp.cast(exp.column(place), TYPES[columns[name]].duckdb, dialect="duckdb"), name, quoted=True)
        for place, name in places.items()
    )
    return connection.sql(exp.select(*cells).from_("data").sql("duckdb"))


def select_rows(
    columns: Mapping[str, Type], rows: Sequence[Sequence[Any]], name: str, sql: str
) -> tuple[dict[str, Type], list[dict[str, Any]]]:
    """What a SELECT of DuckDB gives over rows that it calls `name`: its columns with their types, and its rows.

    Raises ValueError where it cannot be computed. DuckDB has these rows and nothing else.
    """
    import duckdb

    from sfumato.show import distinct

    with duckdb.connect(config={"enable_external_access": "false", "threads": "1"}) as connection:
        try:
            if columns:
                data = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(columns, ())
                relation(connection, columns, data).create_view(name)
            found = connection.sql(sql)
            names, cells = distinct(found.columns), found.fetchall()
        except duckdb.Error as error:
            raise ValueError("not a relation") from error
        kinds = dict(zip(names, map(_type, found.types), strict=True))
    return kinds, [dict(zip(names, row, strict=True)) for row in cells]


def _type(duckdb_type: object) -> Type:
    """The type of a column of DuckDB; those of other types are text."""
    name = str(duckdb_type)
    if name.startswith("DECIMAL"):
        return "number"
    return next((row.name for row in TYPES.values() if row.duckdb == name), "integer" if "INT" in name else "text")


def _array(values: Any) -> Any:
    """What DuckDB takes: lists as objects, which it reads one by one, and days as times, as it knows no other array."""
    import numpy

    if not isinstance(values, numpy.ndarray):
        objects = numpy.empty(len(values), dtype=object)
        objects[:] = values
        return objects
    return values.astype("datetime64[us]") if values.dtype == "datetime64[D]" else values
