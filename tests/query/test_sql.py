"""What SQL is understood, and how the rest is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from sfumato.errors import NotSupported, TableNotFound
from sfumato.query.plan import plan
from sfumato.query.predicate import AllOf, In, Values
from sfumato.query.request import Histogram, TopK, Total
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql, read_statement

UNDERSTOOD = [
    (
        "SELECT article, COUNT(DISTINCT member_id) FROM engagements WHERE region = 'emea' GROUP BY article LIMIT 10",
        TopK("engagements", "article", "members", {"region": "emea"}, 10),
    ),
    ("SELECT article, members FROM engagements GROUP BY article", Histogram("engagements", "article", "members")),
    (
        "SELECT region, COUNT(*) FROM engagements GROUP BY 1 ORDER BY 2 DESC",
        Histogram("engagements", "region", "shares"),
    ),
    ("SELECT region, COUNT(1) FROM engagements GROUP BY 1", Histogram("engagements", "region", "shares")),
    ("SELECT SUM(n) FROM engagements", Total("engagements", "visits")),
    ("SELECT count(distinct member_id) FROM engagements WHERE paid", Total("engagements", "members", {"paid": True})),
    (
        'SELECT e."job title" t, region, members m FROM engagements e GROUP BY t, e.region ORDER BY m DESC, t LIMIT 5',
        TopK("engagements", ["region", "job title"], "members", k=5),
    ),
    (
        "SELECT article, members FROM engagements WHERE NOT (n <= 3 OR day < DATE '2026-01-01') AND 'x' <> article "
        "GROUP BY 1",
        Histogram(
            "engagements", "article", "members", {"n": {"gt": 3}, "day": {"ge": "2026-01-01"}, "article": {"ne": "x"}}
        ),
    ),
    (
        "SELECT topic, members FROM engagements WHERE at BETWEEN '2026-01-01' AND TIMESTAMP '2026-01-02 12:00:00' "
        "AND score IN (0.5, -1, 2e1) GROUP BY topic",
        Histogram(
            "engagements",
            "topic",
            "members",
            {"at": {"between": ["2026-01-01", "2026-01-02T12:00:00"]}, "score": [0.5, -1, 20]},
        ),
    ),
    ("SELECT members FROM engagements WHERE TRUE", Total("engagements", "members")),
    ("SELECT members FROM `public`.`engagements` WHERE 1=1", Total("engagements", "members")),
    (
        "SELECT `e`.`job title`, `members` FROM sfumato.main.engagements AS `e` "
        "WHERE `article` <> '`x`' AND 1 = 1 GROUP BY 1",
        Histogram("engagements", "job title", "members", {"article": {"ne": "`x`"}}),
    ),
    (
        'SELECT "main"."engagements"."region", COUNT(*) FROM "main"."engagements" '
        "WHERE (1=1) AND (region = 'emea') GROUP BY 1",
        Histogram("engagements", "region", "shares", {"region": "emea"}),
    ),
    ("SELECT members FROM engagements WHERE 1 = 1 AND NOT 2 < 1", Total("engagements", "members")),
    ("SELECT COUNT(*) FILTER (WHERE n > 1) FROM engagements", Total("engagements", "shares", {"n": {"gt": 1}})),
    (
        "SELECT region, SUM(CASE WHEN n > 1 THEN 1 ELSE 0 END) FROM engagements WHERE paid GROUP BY 1 ORDER BY 2 DESC",
        Histogram("engagements", "region", "shares", {"n": {"gt": 1}, "paid": True}),
    ),
    (
        "SELECT COUNT(DISTINCT CASE WHEN n > 1 THEN member_id END) FROM engagements",
        Total("engagements", "members", {"n": {"gt": 1}}),
    ),
    (
        "SELECT COUNT(CASE WHEN n > 1 THEN member_id END) FROM engagements",
        Total("engagements", "shares", {"n": {"gt": 1}}),
    ),
    (
        "SELECT SUM(CASE WHEN paid THEN n END) FROM engagements WHERE day > DATE '2026-01-01' + 7 - INTERVAL '1' MONTH",
        Total("engagements", "visits", {"paid": True, "day": {"gt": "2025-12-08"}}),
    ),
    (
        "SELECT (region), members FROM engagements GROUP BY coalesce(region)",
        Histogram("engagements", "region", "members"),
    ),
    (
        "SELECT article FROM engagements GROUP BY article ORDER BY COUNT(DISTINCT member_id) DESC LIMIT 10",
        TopK("engagements", "article", "members", k=10, counts=False),
    ),
    (
        "SELECT region r, article FROM engagements WHERE paid GROUP BY 1, 2 ORDER BY visits DESC, r",
        TopK("engagements", ["article", "region"], "visits", {"paid": True}, counts=False),
    ),
    (
        "SELECT topic FROM engagements e GROUP BY 1 ORDER BY SUM(e.n) DESC LIMIT 2",
        TopK("engagements", "topic", "visits", k=2, counts=False),
    ),
]


@pytest.mark.parametrize(("sql", "request_"), UNDERSTOOD)
def test_sql_and_structured_requests_meet_in_one_plan(sql, request_, policy, prices):
    assert plan(read_sql(sql, policy), policy, prices) == plan(request_, policy, prices)


REFUSED = {
    "SELECT * FROM engagements": "would list people",
    "SELECT * FROM engagements LIMIT 100": "no preview of engagements; count them, by article, job title, region",
    "SELECT * FROM engagements WHERE region = 'emea' LIMIT 100": "and 2 more: SELECT article, COUNT(DISTINCT",
    "SELECT e.* FROM engagements e LIMIT 100": "would list people",
    "SELECT article, n FROM engagements LIMIT 10": "no preview of them: add COUNT(DISTINCT member_id) and GROUP BY",
    'SELECT e.article AS "article", e.n FROM engagements e LIMIT 10': "GROUP BY article, n ORDER BY 3 DESC LIMIT 10",
    "SELECT region FROM engagements LIMIT 10": "its values alone are free: SELECT DISTINCT region",
    "SELECT 1": "nothing is asked without FROM; there is engagements",
    "SELECT *": "nothing is asked without FROM",
    "SELECT DISTINCT region FROM engagements": "but for one column of a public domain",
    "SELECT article FROM engagements": "add COUNT(DISTINCT member_id)",
    "SELECT article FROM engagements GROUP BY article": "ORDER BY COUNT(DISTINCT member_id) DESC for",
    "SELECT article FROM engagements GROUP BY article LIMIT 10": "ORDER BY COUNT(DISTINCT member_id) DESC for",
    "SELECT article FROM engagements GROUP BY article ORDER BY 1 DESC": "ORDER BY COUNT(DISTINCT member_id) DESC for",
    "SELECT article FROM engagements GROUP BY article ORDER BY region": "GROUP BY",
    "SELECT article AS members FROM engagements GROUP BY 1 ORDER BY members DESC": "ORDER BY COUNT(DISTINCT",
    "SELECT article FROM engagements ORDER BY members DESC": "GROUP BY",
    "SELECT article FROM engagements GROUP BY article ORDER BY AVG(n) DESC": "AVG of n needs bounds",
    "SELECT article, article FROM engagements GROUP BY article ORDER BY members DESC": "two columns are called",
    "SELECT * FROM engagements GROUP BY article ORDER BY members DESC": "would list people",
    "SELECT FROM engagements ORDER BY members DESC": "",
    "SELECT article, n FROM engagements": "add COUNT(DISTINCT member_id)",
    "SELECT member_id, COUNT(*) FROM engagements GROUP BY member_id": "people are counted, not named",
    "SELECT article, COUNT(*) FROM engagements": "GROUP BY",
    "SELECT artcle, members FROM engagements GROUP BY 1": "did you mean article",
    "SELECT article, memers FROM engagements GROUP BY 1": "no column 'memers'",
    "SELECT article, members FROM engagement GROUP BY 1": "did you mean engagements",
    "SELECT article, members FROM other GROUP BY 1": "there is engagements",
    "SELECT article, members FROM other.engagements GROUP BY 1": "no schema 'other', only main, which public",
    "SELECT article, members FROM other.main.engagements GROUP BY 1": "no database 'other', only sfumato",
    "SELECT other.engagements.article, members FROM engagements GROUP BY 1": "no schema 'other'",
    "SELECT article, members FROM engagements, engagements b GROUP BY 1": "JOIN has no private form",
    "SELECT article, members FROM engagements JOIN x USING (y) GROUP BY 1": "JOIN has no private form",
    "SELECT article, members FROM (SELECT * FROM engagements LIMIT 5) GROUP BY 1": "would list people",
    "WITH q AS (SELECT 1) SELECT article, members FROM engagements GROUP BY 1": "nothing is asked without FROM",
    "SELECT article, AVG(n) FROM engagements GROUP BY 1": "such as n = { min = 0,",
    "SELECT article, MAX(n) FROM engagements GROUP BY 1": "MAX of n needs bounds",
    "SELECT article, MEDIAN(n) FROM engagements GROUP BY 1": "[tables.engagements.columns]",
    "SELECT article, APPROX_COUNT_DISTINCT(n) FROM engagements GROUP BY 1": "not supported yet",
    "SELECT article, ARRAY_AGG(member_id) FROM engagements GROUP BY 1": "no private form",
    "SELECT article, STRING_AGG(member_id, ',') FROM engagements GROUP BY 1": "no private form",
    "SELECT article, COUNT(DISTINCT n) FROM engagements GROUP BY 1": "COUNT(DISTINCT n) is not supported yet",
    "SELECT article, COUNT(DISTINCT member_id, n) FROM engagements GROUP BY 1": "people are counted, and rows",
    "SELECT article, COUNT(DISTINCT lower(member_id)) FROM engagements GROUP BY 1": "plain columns",
    "SELECT article, SUM(score) FROM engagements GROUP BY 1": "SUM(score) is not allowed",
    "SELECT article, SUM(n + 1) FROM engagements GROUP BY 1": "SUM of an expression is not supported yet",
    "SELECT my_udf(article), COUNT(*) FROM engagements GROUP BY 1": "not a function of one row",
    "SELECT 1, COUNT(*) FROM engagements GROUP BY 1": "the same for every row",
    "SELECT region, COUNT(*) FILTER (WHERE n > 1) FROM engagements GROUP BY 1 ORDER BY COUNT(*) DESC": "two filters",
    "SELECT region, SUM(CASE WHEN n > 1 THEN 2 END) FROM engagements GROUP BY 1": "SUM of an expression",
    "SELECT article, COUNT(*) OVER () FROM engagements GROUP BY 1": "window functions",
    "SELECT article, article, COUNT(*) FROM engagements GROUP BY 1": "two columns are called",
    "SELECT DISTINCT article FROM engagements": "SELECT DISTINCT is not supported yet",
    "SELECT article, members FROM engagements GROUP BY 1 LIMIT 0": "at least 1",
    "SELECT members FROM engagements WHERE n > 999999999999999999999": "too large, at most 18 digits; use a range",
    "SELECT members FROM engagements WHERE score > 1e15": "at most 15 before the point and 25 after it; use a range",
    "SELECT article, members FROM engagements WHERE day > CURRENT_DATE GROUP BY 1": "this version has none; write",
    "SELECT members FROM engagements WHERE at > current_timestamp": "CURRENT_TIMESTAMP would be another",
    "SELECT members FROM engagements WHERE at > CURRENT_TIMESTAMP()": "or the date: DATE '2026-11-15'",
    "SELECT article, members FROM engagements WHERE n = ? GROUP BY 1": "give one for each ? in params",
    "SELECT members FROM engagements WHERE index = 1": "index is not understood here; if it",
    "SELECT members FROM engagements WHERE n NOT IN (SELECT n FROM engagements)": "a SELECT inside",
    "SELECT (SELECT 1), members FROM engagements GROUP BY 1": "in an expression of one row",
    "SELECT article, members FROM engagements GROUP BY GROUPING SETS (article)": "GROUPING SETS is not supported yet",
    "WITH q AS (SELECT 2) SELECT members FROM q": "nothing is asked without FROM",
    "EXPLAIN SELECT members FROM engagements": "gives its price",
    "explain analyze SELECT members FROM engagements": "gives its price",
    "DELETE FROM engagements": "DELETE cannot be asked; ask one SELECT",
    "SELECT members FROM engagements EXCEPT SELECT members FROM engagements": "not supported yet",
    "SELECT COUNT(DISTINCT 1) FROM engagements": "plain columns",
    "SELECT article, members FROM engagements GROUP BY 1 LIMIT 5.5": "whole number",
    "SELECT article, members FROM engagements GROUP BY 1 LIMIT '5'": "whole number",
    "SELECT article, members FROM engagements GROUP BY 1 LIMIT 1 + 1": "whole number",
    "SELECT article, members FROM engagements GROUP BY 1 LIMIT ALL": "",
    "SELECT article AS region, members FROM engagements GROUP BY region": "choose another alias",
    "SELECT article, members FROM engagements GROUP BY 1 ORDER BY 3 DESC": "no column number 3",
    "SELECT article, members FROM engagements GROUP BY 1 ORDER BY 2 DESC, region": "GROUP BY",
    "SELECT article, members FROM engagements GROUP BY region": "GROUP BY",
    "SELECT article, members FROM engagements GROUP BY ROLLUP(article)": "ROLLUP",
    "SELECT article, members FROM engagements GROUP BY ALL": "not supported yet",
    "SELECT article, members FROM engagements GROUP BY CUBE(article)": "CUBE",
    "SELECT article, members FROM engagements GROUP BY 7": "no column number 7",
    "SELECT article, members FROM engagements TABLESAMPLE (10 PERCENT) GROUP BY 1": "TABLESAMPLE",
    "SELECT article, members FROM engagements QUALIFY ROW_NUMBER() OVER () = 1 GROUP BY 1": "",
    "SELECT article, members FROM engagements WHERE article = NULL GROUP BY 1": "literal values",
    "SELECT article, members FROM engagements WHERE n = (SELECT MAX(n) FROM engagements) GROUP BY 1": "literal values",
    "SELECT article, members FROM engagements WHERE n IN (SELECT n FROM engagements) GROUP BY 1": "",
    "SELECT article, members FROM engagements WHERE EXISTS (SELECT 1) GROUP BY 1": "EXISTS is not supported yet",
    "SELECT article, members FROM engagements WHERE member_id = 5 GROUP BY 1": "people are counted, not named",
    "SELECT article, members FROM engagements WHERE n = 'many' GROUP BY 1": "n is compared with",
    "SELECT article, members FROM engagements WHERE n = 1.5 GROUP BY 1": "such as 42",
    "SELECT article, members FROM engagements WHERE article = 5 GROUP BY 1": "article is compared with",
    "SELECT article, members FROM engagements WHERE day = 'yesterday' GROUP BY 1": "'2026-11-15'",
    "SELECT article, members FROM engagements WHERE day = '2026-02-30' GROUP BY 1": "day is compared with",
    "SELECT article, members FROM engagements WHERE day > now() GROUP BY 1": "write CURRENT_DATE",
    "SELECT members FROM engagements WHERE day > today()": "write CURRENT_DATE",
    "SELECT members FROM engagements WHERE article SIMILAR TO 'x'": "SIMILAR TO is not supported yet",
    "SELECT article, members FROM engagements WHERE paid = 2 GROUP BY 1": "such as TRUE",
    "SELECT article, members FROM engagements WHERE n GROUP BY 1": "not a condition",
    "SELECT article, members FROM engagements WHERE score > 1e999 GROUP BY 1": "score is compared with",
    "SELECT members FROM engagements WHERE score > CAST(0.7 AS INTEGER)": "can be cast",
    "SELECT members FROM engagements WHERE score = 0.55::DECIMAL(10,1)": "can be cast",
    "SELECT members FROM engagements WHERE at >= CAST('2026-11-15 08:30:00' AS DATE)": "can be cast",
    "SELECT members FROM engagements WHERE day = TIMESTAMP '2026-11-15 08:30:00'": "day has days and no times of day",
    "SELECT members FROM engagements WHERE day <> '2026-11-15 00:00:01'": "compare it with a day, such as '2026-11-15'",
    "SELECT members FROM engagements WHERE day IN ('2026-11-15 00:00:00', '2026-11-16 08:00')": "no times of day",
    "SELECT members FROM engagements WHERE day < '2026-11-15 00:00:00+02:00'": "something that is not a date",
    "SELECT members FROM engagements WHERE 1 = '1'": "takes values of one type",
    "SELECT members FROM engagements WHERE 1 = 1 OR day": "day is not a condition",
    "SELECT members FROM engagements WHERE article = `emea`": "no column 'emea'",
    "SELECT members FROM engagements WHERE score = CAST('0.7' AS DATE)": "can be cast",
    "SELECT article, members FROM engagements WHERE x.article = 'a' GROUP BY 1": "no table 'x'",
    "SELECT article, members FROM engagements WHERE article = 'a' COLLATE NOCASE GROUP BY 1": "",
    "SELECT article, members FROM read_parquet('/etc/passwd') GROUP BY 1": "one table by its name",
    "SELECT article, members FROM 'secret.parquet' GROUP BY 1": "",
    "SELECT article, members INTO x FROM engagements GROUP BY 1": "",
    "SELECT article, members FROM engagements GROUP BY 1 FOR UPDATE": "",
    "SELECT article, members FROM engagements GROUP BY 1; DROP TABLE engagements": "one SELECT",
    "SELECT article, members FROM engagements WHERE article = 'a' OR 1=1 --' GROUP BY 1": "",
    "DROP TABLE engagements": "one SELECT",
    "INSERT INTO engagements VALUES (1)": "one SELECT",
    "COPY engagements TO 'x.csv'": "",
    "ATTACH 'x.db'": "",
    "PRAGMA table_info('engagements')": "",
    "SELECT": "",
    "": "one SELECT",
    "hello": "",
    "SELECT 'unfinished": "could not be read",
    "SELECT \x00": "",
}

UNABLE = [
    "SELECT lower(article), COUNT(*) FROM engagements GROUP BY 1",
    "SELECT article || 'x', COUNT(*) FROM engagements GROUP BY 1",
    "SELECT CASE WHEN n > 1 THEN 'a' END, COUNT(*) FROM engagements GROUP BY 1",
    "SELECT article, members FROM engagements WHERE article ILIKE 'a%' GROUP BY 1",
    "SELECT members FROM engagements WHERE article like 'a%'",
    "SELECT members FROM engagements WHERE article IS NOT NULL",
    "SELECT members FROM engagements WHERE n / 2 = 1",
    "SELECT members FROM engagements WHERE n % 2 = 1",
    "SELECT CASE n WHEN 1 THEN 2 END, members FROM engagements GROUP BY 1",
    "SELECT article, members FROM engagements WHERE article LIKE 'a%' GROUP BY 1",
    "SELECT article, members FROM engagements WHERE article IS NULL GROUP BY 1",
    "SELECT article, members FROM engagements WHERE n + 1 = 2 GROUP BY 1",
    "SELECT article, members FROM engagements WHERE n = score GROUP BY 1",
    "SELECT article, members FROM engagements WHERE n BETWEEN 1 AND score GROUP BY 1",
]
"""What the engine of these tests does not claim to compute."""


def test_there_are_a_hundred_of_them():
    assert len(REFUSED) >= 100


@pytest.mark.parametrize(("sql", "words"), REFUSED.items(), ids=list(REFUSED))
def test_refusals_name_the_way_out(sql, words, policy, prices):
    with pytest.raises((NotSupported, TableNotFound)) as refusal:
        plan(read_statement(sql, policy).core, policy, prices)
    message = str(refusal.value)
    assert words in message
    assert 20 < len(message) < 400
    assert "\x1b" not in message
    assert "sqlglot" not in message


@pytest.mark.parametrize("sql", UNABLE)
def test_what_the_engine_does_not_compute_is_refused(sql, policy, prices):
    with pytest.raises(NotSupported, match="is not known to compute"):
        plan(read_sql(sql, policy), policy, prices)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT article, members FROM engagements WHERE " + "NOT " * 3000 + "paid GROUP BY 1",
        "SELECT article, members FROM engagements WHERE " + "(" * 3000 + "paid" + ")" * 3000 + " GROUP BY 1",
        "SELECT article, members FROM engagements WHERE n = " + "-" * 3000 + "1 GROUP BY 1",
        "SELECT article, members FROM engagements WHERE n = " + "- " * 3000 + "1 GROUP BY 1",
        "SELECT " + "[" * 3000,
        "SELECT article, members FROM engagements WHERE " + "t JOIN t " * 40,
        "SELECT article, members FROM engagements " + "JOIN n " * 200,
        "SELECT " + "( STRUCT " * 19,
        "SELECT " + "UNION ( " * 19,
        "SELECT " + "IN BETWEEN STRUCT ARRAY " * 40,
        "SELECT " + "a, " * 4000 + "members FROM engagements",
        "SELECT article, members FROM engagements WHERE n IN (" + "1, " * 4000 + "1) GROUP BY 1",
        "SELECT article, members FROM engagements WHERE article = '" + "x" * 30_000 + "' GROUP BY 1",
        "SELECT article, members FROM engagements WHERE article = '" + "x" * 2_000 + "' GROUP BY 1",
        "SELECT article, members FROM engagements WHERE n = " + "9" * 5_000 + " GROUP BY 1",
    ],
    ids=lambda sql: sql[:70],
)
def test_huge_questions_are_refused_before_anything_recurses(sql, policy):
    with pytest.raises(NotSupported):
        read_sql(sql, policy)


def test_long_chains_without_nesting_are_fine(policy, prices):
    chain = " OR ".join(f"n = {i}" for i in range(800))
    found = plan(read_sql(f"SELECT article, members FROM engagements WHERE {chain} GROUP BY 1", policy), policy, prices)
    between = plan(Histogram("engagements", "article", "members", {"n": {"between": [0, 799]}}), policy, prices)
    assert found == between


BAD_WHERE = [
    ({"regon": "emea"}, "did you mean region"),
    ({"region": {"like": "e%"}}, "unknown comparison 'like'"),
    ({"region": {"in": "emea"}}, "takes a list"),
    ({"n": {"between": [1]}}, "two values"),
    ({"n": {"between": [1, 2, 3]}}, "two values"),
    ({"n": list(range(1500))}, "more than 1000 values"),
    ({"or": [{"n": i} for i in range(5000)]}, "more than 10000 parts"),
    ({"or": [{"n": list(range(i, 4000, 4))} for i in (0, 2)]}, "more than 2000 parts"),
    ({"n": 2**63}, "n is compared with"),
    ({"score": "1." + "0" * 5000 + "1"}, "score is compared with"),
    ({"score": Decimal("1." + "0" * 50 + "1")}, "score is compared with"),
    ({"score": Fraction(1, 3)}, "score is compared with"),
    ({5: 1}, "maps columns"),
    ([], "maps columns"),
    ("region", "maps columns"),
    (In("member_id", Values.of("bob")), "people are counted, not named"),
    (In("n", Values.of("bob")), "n is compared with"),
    (In("score", Values.of(Fraction(1, 3))), "score is compared with"),
    ({"or": {"region": "emea"}}, "takes a list of filters"),
    ({"and": ["region"]}, "takes a list of filters"),
    ({"not": ["region"]}, "takes one filter"),
    ({"n": None}, "n is compared with"),
    ({"n": True}, "n is compared with"),
    ({"n": {"eq": {"a": 1}}}, "n is compared with"),
    ({"article": 5}, "article is compared with"),
    ({"article": "a\x00b"}, "article is compared with"),
    ({"article": "\ud800"}, "article is compared with"),
    ({"score": float("nan")}, "score is compared with"),
    ({"day": "2026-13-01"}, "day is compared with"),
]


@pytest.mark.parametrize(("where", "words"), BAD_WHERE, ids=[words for _, words in BAD_WHERE])
def test_bad_filters_are_refused_by_name(where, words, policy, prices):
    with pytest.raises(NotSupported, match=words.replace("(", r"\(")):
        plan(Histogram("engagements", "article", "members", where), policy, prices)


def test_a_filter_may_not_be_nested_without_end(policy, prices):
    where = {"paid": True}
    for _ in range(500):
        where = {"not": where}
    with pytest.raises(NotSupported, match="nested more than 20 deep"):
        plan(Histogram("engagements", "article", "members", where), policy, prices)


@pytest.mark.parametrize(("levels", "fits"), [(10, True), (11, False)])
def test_however_a_filter_is_written_it_may_not_be_deeper_than_twenty(levels, fits, policy, prices):
    where = "paid"
    for level in range(levels):
        where = f"topic = '{level}' OR n <> {level} AND ({where})"
    sql = f"SELECT members FROM engagements WHERE {where}"
    if fits:
        found = plan(read_sql(sql, policy), policy, prices)
        assert plan(read_request(found.request, policy), policy, prices) == found
    else:
        with pytest.raises(NotSupported, match="nested more than 20 deep"):
            plan(read_sql(sql, policy), policy, prices)


def test_a_tree_made_by_hand_is_typed_too(policy, prices):
    by_hand = Total("engagements", "members", AllOf((In("SCORE", Values.of(1)), In("score", Values.of("1.0", "2")))))
    assert plan(by_hand, policy, prices) == plan(Total("engagements", "members", {"score": 1}), policy, prices)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (TopK("engagements", "article", "members", k=0), "1 to 100 rows"),
        (TopK("engagements", "article", "members", k=101), "1 to 100 rows"),
        (TopK("engagements", "article", "members", k=2.0), "whole number"),
        (TopK("engagements", "article", "members", counts=1), "^counts: must be true"),
        (TopK("engagements", "article", "members", counts=None), "^counts: must be true"),
        (TopK("engagements", [], "members"), "name a column"),
        (TopK("engagements", ["article", "article"], "members"), "named twice"),
        (TopK("engagements", ["article", 3], "members"), "name a column"),
        (TopK("engagements", "article", "clicks"), "no measure 'clicks'"),
        (TopK("engagements", None, "members"), "name a column"),
        (TopK("engagements", 5, "members"), "name a column"),
        (TopK("engagements", "article", None), "not text"),
        (TopK(5, "article", "members"), "not text"),
        (Total("clicks", "members"), "no table 'clicks'"),
    ],
)
def test_bad_requests_are_refused_by_name(request_, words, policy, prices):
    with pytest.raises((NotSupported, TableNotFound), match=words):
        plan(request_, policy, prices)
