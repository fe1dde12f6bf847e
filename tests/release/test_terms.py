"""What a statistic adds up in SQL is what it adds up in numpy."""

from __future__ import annotations

import duckdb
import pytest

from sfumato.engines.duckdb.dialect import DuckDBSql
from tests.helpers.terms import VALUES, WHOLE, of_pairs, of_values


@pytest.fixture(scope="module")
def numbers():
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO rint(x) AS round_even(x, 0)")
        connection.execute("CREATE TABLE one AS SELECT unnest(?::DOUBLE[]) AS value", [VALUES.tolist()])
        whole = "CREATE TABLE two AS SELECT n AS rows, n AS total0, n AS total1 FROM (SELECT unnest(?::BIGINT[]) AS n)"
        connection.execute(whole, [WHOLE.tolist()])
        yield connection


@pytest.mark.parametrize(("table", "cases"), [("one", of_values), ("two", of_pairs)], ids=["values", "pairs"])
def test_sql_has_the_numbers_of_numpy(numbers, table, cases):
    for name, expression, expected in cases():
        text = f"SELECT {expression.sql(dialect=DuckDBSql, identify=True)} FROM {table} ORDER BY rowid"
        found = [number for (number,) in numbers.execute(text).fetchall()]
        assert found == expected.tolist(), name
