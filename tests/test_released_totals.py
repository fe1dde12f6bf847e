"""What is computed from released rows never fails on any of them: what has no value is NULL."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.postprocess import find_shape
from sfumato.query.sql import read_statement
from tests.helpers.repeats import repeats
from tests.test_postprocess import POLICY, stored

COUNTS = (0, 1, -1, 7, 2**31, -(2**31), 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63))
TEXTS = (
    "",
    " ",
    "a",
    "ß",
    "\u0130",
    "e\u0301",
    "日本",
    "😀",
    "%_\\",
    "1",
    "-0",
    "1e400",
    "2026-02-30",
    "NaN",
    "x" * 5000,
)
DAYS = ("0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31")
SCORES = (0.0, -0.0, 1e-300, 1e300, -1e300, 0.1)

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "article": st.sampled_from(TEXTS),
            "day": st.sampled_from(DAYS),
            "score": st.sampled_from(SCORES),
            "people": st.sampled_from(COUNTS),
        }
    ),
    min_size=1,
    max_size=5,
)
NUMBERS = st.sampled_from(("c", "score", "0", "-1", "0.5", "1e300", "9223372036854775807", "NULL", "length(article)"))
WORDS = st.sampled_from(("article", "''", "'a'", "CAST(c AS VARCHAR)", "CAST(day AS VARCHAR)", "NULL"))


def numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions over numbers, some of them of all rows."""
    templates = (
        *("({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} % {1})", "-({0})", "abs({0})"),
        *("round({0}, 2)", "floor({0})", "ceil({0})", "sign({0})", "nullif({0}, {1})", "coalesce({0}, {1})"),
        *("greatest({0}, {1})", "least({0}, {1})", "CASE WHEN {0} > {1} THEN {0} ELSE {1} END"),
        *("CAST({0} AS INTEGER)", "CAST({0} AS DOUBLE)", "CAST({0} AS DECIMAL(9, 2))", "CAST(article AS BIGINT)"),
    )
    return st.builds(lambda template, one, other: template.format(one, other), st.sampled_from(templates), inner, inner)


DEEP = st.recursive(NUMBERS, numbers, max_leaves=5)
OUTPUTS = st.one_of(
    DEEP,
    st.builds("{}({})".format, st.sampled_from(("sqrt", "ln", "exp")), DEEP),
    st.builds("power({}, {})".format, NUMBERS, NUMBERS),
    st.builds(
        "{}({}) OVER ()".format, st.sampled_from(("SUM", "AVG", "MIN", "MAX", "STDDEV", "MEDIAN", "COUNT")), NUMBERS
    ),
    st.builds("rank() OVER (ORDER BY {})".format, DEEP),
    st.builds("substr({}, {}, {})".format, WORDS, st.integers(-3, 3), st.integers(0, 9)),
    st.builds("left({} || {}, {})".format, WORDS, WORDS, st.integers(-3, 3)),
    st.builds("upper(trim({}))".format, WORDS),
    st.builds("CAST({} AS {})".format, WORDS, st.sampled_from(("DATE", "TIMESTAMP", "DOUBLE", "BIGINT", "BOOLEAN"))),
    st.builds("date_trunc('{}', day)".format, st.sampled_from(("year", "month", "week", "day"))),
    st.builds("extract({} FROM day)".format, st.sampled_from(("year", "quarter", "week", "dow", "doy"))),
    st.builds("{} LIKE {}".format, WORDS, WORDS),
    st.builds("{} IS DISTINCT FROM {}".format, NUMBERS, NUMBERS),
)


@settings(max_examples=repeats(150, 3000))
@given(rows=ROWS, outputs=st.lists(OUTPUTS, min_size=1, max_size=3), condition=DEEP)
def test_no_released_row_makes_it_fail(rows: list[dict[str, Any]], outputs: list[str], condition: str) -> None:
    items = ", ".join(f"{output} AS o{place}" for place, output in enumerate(outputs))
    core = "SELECT article, day, score, COUNT(DISTINCT member) AS c FROM clicks GROUP BY 1, 2, 3"
    sql = f"WITH t AS ({core}) SELECT {items} FROM t WHERE {condition} IS NULL OR TRUE ORDER BY {condition}, o0"
    try:
        statement = read_statement(sql, POLICY)
        shape = find_shape(statement)
    except NotSupported:
        event("refused before any row")
        return
    assert shape is not None
    answer = shape.apply(stored(statement, rows), lambda shown, released: 26)
    assert len(answer.rows) == len(rows)
