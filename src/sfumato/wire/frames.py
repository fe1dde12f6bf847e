"""Rows as data frames and as Arrow: pandas, polars, and DuckDB, which writes Arrow streams without pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.types import TYPES

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    from duckdb import DuckDBPyConnection, DuckDBPyRelation


def pandas_frame(columns: Mapping[str, str], data: Mapping[str, Any]) -> pandas.DataFrame:
    """A pandas data frame of `data`, a list or an array for each column, typed as `columns` say."""
    try:
        import pandas
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("to_pandas needs: pip install 'sfumato[pandas]'") from missing
    missing_counts = {name for name, kind in columns.items() if kind == "integer" and None in list(data[name])}
    kinds = {name: "Int64" if name in missing_counts else TYPES[kind].pandas for name, kind in columns.items()}
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


def _array(values: Any) -> Any:
    """What DuckDB takes: lists as objects, which it reads one by one, and days as times, as it knows no other array."""
    import numpy

    if not isinstance(values, numpy.ndarray):
        objects = numpy.empty(len(values), dtype=object)
        objects[:] = values
        return objects
    return values.astype("datetime64[us]") if values.dtype == "datetime64[D]" else values
