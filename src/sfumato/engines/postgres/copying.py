"""The rows of a release, copied from one snapshot of a table into DuckDB: by COPY in binary, as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from sqlglot import exp

from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.postgres.dialect import PostgresSql
from sfumato.engines.postgres.types import plain
from sfumato.errors import EngineFailed, InvalidArgument

NO_DRIVER = "a release from PostgreSQL needs: pip install 'sfumato[postgres]'"


def copied_rows(query: ContributionQuery, kinds: Mapping[str, str], table: exp.Table, *, empty: bool) -> exp.Select:
    """The columns of a table that a release needs, in types that Arrow has; with `empty`, without a row."""
    filtered = [] if query.where is None else [column.name for column in query.where.find_all(exp.Column)]
    names = dict.fromkeys((query.unit, *query.key, *query.values, *filtered))
    for argument, identifying in (("unit", (query.unit,)), ("key", query.key)):
        for name in identifying:
            if kinds[name] == "numeric":
                problem = f"{name} is numeric, which cannot be copied exactly; cast it to bigint or text in a view"
                raise InvalidArgument(argument, problem)
    rows = exp.select(*(_in_arrow(name, kinds[name]) for name in names)).from_(table.copy())
    return rows.where(exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))) if empty else rows


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
