"""The rows of a release, copied from one snapshot of a table into DuckDB: by COPY in binary, as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from sqlglot import exp

from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.copying import copied_columns
from sfumato.engines.postgres.dialect import PostgresSql
from sfumato.engines.postgres.types import plain
from sfumato.errors import EngineFailed, InvalidArgument

NO_DRIVER = "a release from PostgreSQL needs: pip install 'sfumato[postgres]'"


def arrow_cells(query: ContributionQuery, kinds: Mapping[str, str]) -> list[exp.Expr]:
    """The columns that a release needs, in types that Arrow has."""
    for argument, identifying in (("unit", (query.unit,)), ("key", query.key)):
        for name in identifying:
            if kinds[name] == "numeric":
                problem = f"{name} is numeric, which cannot be copied exactly; cast it to bigint or text in a view"
                raise InvalidArgument(argument, problem)
    return [_in_arrow(name, kinds[name]) for name in copied_columns(query)]


def _in_arrow(name: str, kind: str) -> exp.Expr:
    column = exp.column(name, quoted=True)
    if kind == "numeric":
        return exp.alias_(exp.cast(column, exp.DataType.Type.DOUBLE), name, quoted=True)
    if kind == "uuid":
        return exp.alias_(exp.cast(column, exp.DataType.Type.TEXT), name, quoted=True)
    return plain(name, kind)


@contextmanager
def arrow_stream(conninfo: str, rows: exp.Select) -> Iterator[object]:
    """The rows of a query over a whole connection, read-only and in UTC, as an Arrow stream that can be read once."""
    try:
        import adbc_driver_postgresql  # type: ignore[import-untyped]
        from adbc_driver_manager import AdbcConnection, AdbcStatement, Error
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(NO_DRIVER) from missing
    text = rows.sql(dialect=PostgresSql, identify=True, comments=False)
    with ExitStack() as opened:
        stream = None
        try:
            database = opened.enter_context(adbc_driver_postgresql.connect(conninfo))
            connection = opened.enter_context(AdbcConnection(database))
            statement = opened.enter_context(AdbcStatement(connection))
            statement.set_sql_query(text)
            stream, _ = statement.execute_query()
        except Error:
            pass
        if stream is None:  # raised here: even `from None` would leave the server's text in __context__
            raise EngineFailed(COULD_NOT_ANSWER)
        yield stream.__arrow_c_stream__()
