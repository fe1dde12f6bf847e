"""DuckDB computes expressions of one row as Python does."""

from __future__ import annotations

from datetime import date, datetime

import duckdb
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.query.expressions.functions import evaluate
from tests.contracts.expressions import COLUMNS, TABLE, TREES, ExpressionContract, computed
from tests.helpers.duckdb_tables import write


class TestExpressions(ExpressionContract):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _folder(cls, tmp_path_factory):
        cls.folder = tmp_path_factory.mktemp("expressions")

    def make(self, rows, columns, table=TABLE):
        return DuckDBEngine({table: str(write(self.folder / "rows.parquet", rows, columns, "(FORMAT parquet)"))})


BEYOND = """
CREATE TABLE events AS SELECT
    i AS id, CAST('a' AS VARCHAR) AS a, CAST(NULL AS VARCHAR) AS b,
    CASE i % 3 WHEN 0 THEN 170141183460469231731687303715884105727::HUGEINT
        WHEN 1 THEN -170141183460469231731687303715884105727::HUGEINT END AS n,
    18446744073709551615::UBIGINT AS m,
    CASE i % 3 WHEN 0 THEN 'infinity'::FLOAT WHEN 1 THEN 'nan'::FLOAT ELSE '-infinity'::FLOAT END AS x,
    CAST(NULL AS DECIMAL(38, 10)) AS y, true AS p, CAST(NULL AS BOOLEAN) AS q,
    CASE i % 4 WHEN 0 THEN DATE 'infinity' WHEN 1 THEN DATE '-infinity'
        WHEN 2 THEN DATE '10000-01-01' ELSE DATE '0044-03-15 (BC)' END AS d,
    DATE '5881580-07-10' AS e,
    CASE i % 4 WHEN 0 THEN TIMESTAMP 'infinity' WHEN 1 THEN TIMESTAMP '-infinity'
        WHEN 2 THEN TIMESTAMP '10000-01-01' ELSE TIMESTAMP '0044-03-15 (BC) 10:00:00' END AS s,
    TIMESTAMP '294247-01-10 04:00:54' AS t
FROM range(12) AS r(i)
"""


def test_what_python_does_not_know_is_read_as_null(tmp_path):
    """Values of types that are wider than those of the policy, and days beyond the year 9999."""
    with duckdb.connect(str(tmp_path / "beyond.duckdb")) as connection:
        connection.execute(BEYOND)
    nulls = {"id": 0, "a": "a", "p": True} | dict.fromkeys("bnmxyqdest")
    trees = {text: tree for text, tree in TREES.items() if not text.endswith(" IS NULL")}
    with DuckDBEngine({TABLE: TABLE}, database=tmp_path / "beyond.duckdb") as engine:
        found = computed(engine, [*trees.values()])
    assert len(found) == 12
    for row in found:
        assert dict(zip(trees, row, strict=True)) == {text: evaluate(tree, nulls) for text, tree in trees.items()}


def test_types_that_are_narrower_or_exact_are_read_by_their_value(tmp_path):
    with duckdb.connect(str(tmp_path / "narrow.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE events AS SELECT 1::BIGINT AS id, 'a'::VARCHAR AS a, 'b'::VARCHAR AS b, (-128)::TINYINT n, "
            "255::UTINYINT AS m, 12345678901234567.5::DECIMAL(38, 10) AS x, 0.5::FLOAT AS y, true AS p, false q, "
            "DATE '2024-02-29' AS d, DATE '2024-03-01' AS e, TIMESTAMP_S '2024-02-29 10:00:00' AS s, "
            "TIMESTAMPTZ '2024-02-29 10:00:00+02' AS t"
        )
    values = (1, "a", "b", -128, 255, 12345678901234567.5, 0.5, True, False, date(2024, 2, 29), date(2024, 3, 1))
    row = dict(zip(COLUMNS, (*values, datetime(2024, 2, 29, 10), datetime(2024, 2, 29, 8)), strict=True))
    with DuckDBEngine({TABLE: TABLE}, database=tmp_path / "narrow.duckdb") as engine:
        [found] = computed(engine, [*TREES.values()])
    assert dict(zip(TREES, found, strict=True)) == {text: evaluate(tree, row) for text, tree in TREES.items()}
