"""What engines are sent: the text of every query, in the dialects that differ from sqlglot's, without a server."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from sfumato.engines.base import query_text
from sfumato.engines.clickhouse import types as clickhouse
from sfumato.engines.clickhouse.dialect import ClickHouseSql
from sfumato.engines.clickhouse.engine import _SETTINGS, ClickHouseEngine
from sfumato.engines.postgres import types as postgres
from sfumato.engines.postgres.dialect import PostgresSql
from sfumato.errors import EngineFailed
from sfumato.query.abilities import USUAL
from tests.contracts.trees import TABLE, question_trees, report_trees

TREES = [tree for _, tree in (*question_trees(USUAL), *report_trees(USUAL))]


def texts(dialect) -> list[str]:
    return [query_text(tree, [TABLE], dialect) for tree in TREES]


def test_postgresql_counts_whole_seconds():
    written = texts(PostgresSql)
    assert any("FLOOR(EXTRACT(EPOCH" in text for text in written)
    assert not any("AGE(" in text or "DIV(" in text for text in written)


def test_postgresql_compares_text_by_code_point():
    for kind, type_ in postgres.COLUMN_TYPES.items():
        assert ('COLLATE "C"' in postgres.plain("x", kind).sql(PostgresSql)) is (type_ == "text")


def test_clickhouse_has_moments_with_microseconds_and_days_of_all_years():
    written = texts(ClickHouseSql)
    moments = [text for text in written if re.search(r"'\d{4}-\d\d-\d\d \d\d:", text)]
    assert len(moments) > 10
    for text in moments:
        assert not re.sub(r"toDateTime64\('[^']+', 6, 'UTC'\)", "", text).count(":")
    for text in written:
        assert not re.search(r"CAST\('\d{4}-", text)
        assert not re.search(r"(?i)date_diff|char_length| / ", text)


def test_clickhouse_divides_downwards():
    passed = exp.DateDiff(this=exp.column("a"), expression=exp.column("b"), unit=exp.Var(this="SECOND"))
    assert passed.sql(ClickHouseSql) == "intDiv(toUnixTimestamp64Micro(a) - toUnixTimestamp64Micro(b), 1000000)"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("LowCardinality(Nullable(FixedString(3)))", "FixedString"),
        ("Nullable(DateTime64(6, 'Asia/Tokyo'))", "DateTime64"),
        ("DateTime64(9, 'UTC')", "DateTime64(9, 'UTC')"),
        ("Decimal(38, 2)", "Decimal"),
        ("Decimal(76, 2)", "Decimal(76, 2)"),
        ("Array(Nullable(String))", "Array"),
    ],
)
def test_clickhouse_types_are_known_by_their_bare_name(kind, name):
    assert clickhouse.bare(kind) == name


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("Enum8('a' = 1)", "CASE WHEN isValidUTF8(CAST(x AS Nullable(String))) THEN CAST(x AS Nullable(String)) END"),
        (
            "Float32",
            "CASE WHEN isNaN(x) THEN CAST('inf' AS Nullable(Float64)) "
            "ELSE CAST(x AS Nullable(Float64)) + CAST(0 AS Nullable(Float64)) END",
        ),
        ("Int256", "accurateCastOrNull(x, 'Int64')"),
        ("DateTime('Asia/Tokyo')", "CAST(x AS Nullable(DateTime64(6, 'UTC')))"),
        ("Date", "CAST(x AS Nullable(Date32))"),
        ("Nullable(Int64)", "x"),
    ],
)
def test_clickhouse_brings_columns_into_one_form(kind, written):
    assert clickhouse.plain("x", kind).this.sql(ClickHouseSql).replace('"', "") == written


def test_clickhouse_sessions_count_exactly_and_leave_no_row_out():
    promised = {
        "readonly": "1",
        "count_distinct_implementation": "uniqExact",
        "group_by_overflow_mode": "throw",
        "max_rows_to_group_by": "0",
        "session_timezone": "UTC",
    }
    assert promised.items() <= _SETTINGS.items()


@pytest.mark.slow
def test_an_address_of_clickhouse_that_does_not_answer():
    pytest.importorskip("httpx2")
    with pytest.raises(EngineFailed, match=r"^the server does not answer") as refused:
        ClickHouseEngine("https://reader@127.0.0.1:1/none", {})
    assert refused.value.__context__ is None
