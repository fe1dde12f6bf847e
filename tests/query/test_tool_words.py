"""How tools count and call things: each is a question that has a plain spelling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sfumato.query.abilities import USUAL
from sfumato.query.expressions.functions import FUNCTIONS
from sfumato.query.plan import plan
from sfumato.query.policy import Policy
from sfumato.query.predicate import In, Values, all_of
from sfumato.query.request import Histogram, Total
from sfumato.query.sql import read_statement
from tests.helpers.engagements import ENGAGEMENTS

POLICY = Policy({"engagements": replace(ENGAGEMENTS, abilities=replace(USUAL, functions=FUNCTIONS))})

PLAIN = [
    ("SELECT COUNT_IF(n > 1) FROM engagements", Total("engagements", "shares", {"n": {"gt": 1}})),
    (
        "SELECT shares FROM engagements WHERE n IS DISTINCT FROM NULL FETCH NEXT 5 ROWS ONLY",
        Total("engagements", "shares", In("n IS NULL", Values.of(False))),
    ),
    ("SELECT COUNT(n) FROM engagements", Total("engagements", "shares", In("n IS NULL", Values.of(False)))),
    ("SELECT COUNT(member_id) + SUM(1) + COUNT('x') FROM engagements LIMIT 1", Total("engagements", "shares")),
    ("SELECT APPROX_COUNT_DISTINCT(member_id) FROM engagements", Total("engagements", "members")),
    ("SELECT SUM(CAST(n AS BIGINT)) FROM engagements", Total("engagements", "visits")),
    (
        "SELECT COUNT(n) FILTER (WHERE paid) FROM engagements",
        Total("engagements", "shares", all_of([In("n IS NULL", Values.of(False)), In("paid", Values.of(True))])),
    ),
    (
        "SELECT COUNT(DISTINCT (CASE WHEN (n > 1) THEN e.member_id ELSE NULL END)) FROM engagements e",
        Total("engagements", "members", {"n": {"gt": 1}}),
    ),
    (
        "SELECT SUM(CASE WHEN n > 1 THEN 1.0 ELSE 0.0 END) FROM engagements",
        Total("engagements", "shares", {"n": {"gt": 1}}),
    ),
    (
        "SELECT members FROM engagements WHERE at >= timestamp with time zone '2026-03-01 00:00:00+01:00'",
        Total("engagements", "members", {"at": {"ge": "2026-02-28 23:00:00"}}),
    ),
    (
        "SELECT DATE_TRUNC('month', day) AS day, COUNT(*) AS n FROM engagements "
        "WHERE day BETWEEN '2026-01-01' AND '2026-03-31' GROUP BY DATE_TRUNC('month', day) ORDER BY day, n",
        Histogram(
            "engagements", "date_trunc('month', day)", "shares", {"day": {"between": ["2026-01-01", "2026-03-31"]}}
        ),
    ),
]


@pytest.mark.parametrize(("sql", "request_"), PLAIN)
def test_it_is_the_question_in_plain_words(sql, request_, prices):
    assert plan(read_statement(sql, POLICY).core, POLICY, prices) == plan(request_, POLICY, prices)


def test_order_by_means_the_alias_and_where_the_column():
    sql = (
        "SELECT upper(topic) AS region, COUNT(*) AS n FROM engagements WHERE region = 'emea' GROUP BY 1 ORDER BY region"
    )
    statement = read_statement(sql, POLICY)
    assert statement.core == Histogram("engagements", ("upper(topic)",), "shares", In("region", Values.of("emea")))
    assert statement.rest.order == (("upper(topic)", False),)
