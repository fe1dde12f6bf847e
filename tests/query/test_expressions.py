"""Expressions of one row: their one form, their bounds, their public values, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.duckdb.dialect import DuckDBSql
from sfumato.errors import NotSupported
from sfumato.query.abilities import Abilities
from sfumato.query.expressions.functions import FUNCTIONS, evaluate, lower, upper
from sfumato.query.expressions.tree import ColumnValue, columns_in, spell
from sfumato.query.listing import read_listing
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.request import Histogram, TopK, Total
from sfumato.query.serial import read_request
from sfumato.query.sql import read_filter, read_sql, write_sql
from tests.contracts.expressions import POLICY, TREES, a_tree
from tests.helpers.repeats import repeats

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
TABLE = TablePolicy(
    "visits",
    "person",
    {
        column.name: column
        for column in (
            Column("region", domain=("emea", "EMEA", "apac", "ämter"), max_groups=1, guaranteed=True),
            Column("tier", domain=("gold", "none"), max_groups=2),
            Column("item", max_groups=3),
            Column("n", "integer"),
            Column("x", "number"),
            Column("paid", "boolean", max_groups=1, guaranteed=True),
            Column("day", "date", max_groups=4),
            Column("at", "timestamp"),
            Column("lower(tier)", "text"),
        )
    },
    {"people": Measure("people"), "visits": Measure("visits", "rows", max_per_unit=2)},
    version="daily 2026-11-19",
    abilities=Abilities(every_group=True, functions=FUNCTIONS),
)
ALL = Policy({"visits": TABLE})


def column(text: str) -> Column:
    return TABLE.column(text)


def planned(sql: str, policy: Policy = ALL):
    return plan(read_sql(sql, policy), policy, PRICES)


def domain(sql: str):
    found = planned(sql).domain
    return None if found is None else [key for (key,) in found]


# -- one form --


@pytest.mark.parametrize("text", TREES)
def test_the_canonical_text_is_read_back(text):
    tree = TREES[text]
    found = POLICY.column(spell(tree))
    assert (found.name, found.expression) == (spell(tree), None if isinstance(tree, ColumnValue) else tree)


@settings(max_examples=repeats(60, 1000))
@given(st.data())
def test_the_canonical_text_of_any_tree_is_read_back(data):
    tree = data.draw(
        a_tree(data.draw(st.sampled_from(["text", "integer", "number", "boolean", "date", "timestamp"])), 3)
    )
    if columns_in(tree) and not isinstance(tree, ColumnValue):
        assert POLICY.column(f"({spell(tree)})").expression == tree


SPELLINGS = [
    ("lower(item) = 'a'", "(LOWER(item)) IN ('a')", "'a' = lower(item)", "NOT lower(item) <> 'a'"),
    ("item LIKE 'ab%'", "starts_with(item, 'ab')", "item LIKE 'ab%%'", "item LIKE 'ab%' ESCAPE '!'"),
    ("item LIKE 'ab'", "item = 'ab'", "item IN ('ab')"),
    ("item ILIKE '%Ab%'", "lower(item) LIKE '%ab%'"),
    ("item LIKE '%!%%' ESCAPE '!'", "item LIKE '%$%%' ESCAPE '$'", r"item LIKE '%\%%' ESCAPE '\'"),
    ("n < x", "x > n", "CAST(n AS DOUBLE) < x"),
    ("n + 1 > 3", "1 + n > 3", "n + (2 - 1) >= 4", "n - -1 > 1 + 2"),
    (
        "day >= CURRENT_DATE - INTERVAL '7' DAY",
        "day >= DATE '2026-11-12'",
        "day > '2026-11-11'",
        "day > current_date - 8",
    ),
    ("day + INTERVAL '1' YEAR = '2026-01-01'", "day + INTERVAL '12' MONTH = DATE '2026-01-01'"),
    ("coalesce(item, tier, 'x') = 'x'", "ifnull(item, coalesce(tier, 'x', item)) = 'x'"),
    ("item IS NOT NULL", "NOT item IS NULL", "(item IS NULL) = FALSE"),
    ("extract(month FROM day) = 2", "month(day) = 2", "date_part('month', day) = 2", "EXTRACT('MONTH' FROM day) = 2"),
    ("CASE n WHEN 1 THEN 'a' ELSE 'b' END = 'a'", "CASE WHEN n = 1 THEN 'a' WHEN FALSE THEN 'c' ELSE 'b' END = 'a'"),
    ("substr(item, 1, 2) = 'ab'", "left(item, 2) = 'ab'", "substring(item FROM 1 FOR 2) = 'ab'"),
    ("n % 2 = 0", "mod(n, 2) = 0", "(n % 2) IN (0)"),
    ("item || tier = 'ab'", "(item || tier) IN ('ab')"),
    ("date(at) = '2026-01-01'", "CAST(at AS DATE) = '2026-01-01'", "at::date = DATE '2026-01-01'"),
]


@pytest.mark.parametrize("spellings", SPELLINGS, ids=lambda each: each[0])
def test_spellings_of_one_meaning_have_one_digest(spellings):
    digests = {planned(f"SELECT people FROM visits WHERE {each}").digest for each in spellings}
    assert len(digests) == 1


def test_conditions_that_differ_for_some_row_have_different_digests():
    rows = [
        {"item": item, "n": n, "x": float(n or 0), "day": date(2026, 1, 1)}
        for item in ("", "a", "ab", "Ab", "a%", None)
        for n in (0, 1, -1, 4, None)
    ]
    texts = [
        *(
            "item LIKE 'a%'",
            "item ILIKE 'a%'",
            "item LIKE '%a%'",
            "item LIKE 'a!%' ESCAPE '!'",
            "item IS NULL",
            "item LIKE '_'",
        ),
        *(
            "n IS NULL",
            "length(item) = 1",
            "length(item) = 2",
            "n % 2 = 0",
            "n % 2 = 1",
            "n / 2 = 0.5",
            "n < x",
            "n <= x",
        ),
        *("coalesce(n, 0) = 0", "coalesce(n, 1) = 1", "nullif(n, 0) IS NULL", "trim(item) = 'a'", "upper(item) = 'AB'"),
        *("substr(item, 2) = 'b'", "substr(item, 1, 1) = 'a'", "n * n = 1", "n + n = 2", "n - 1 = 0", "abs(n) = 1"),
    ]
    truths = defaultdict(set)
    for text in texts:
        tree = TABLE.column(f"({text})").expression
        truths[planned(f"SELECT people FROM visits WHERE {text}").digest].add(
            tuple(evaluate(tree, row) for row in rows)
        )
    assert all(len(meanings) == 1 for meanings in truths.values())
    assert len(truths) == len(texts)


def test_an_expression_and_a_column_never_share_a_name():
    with pytest.raises(NotSupported, match=r"lower\(tier\) is the name of a column"):
        planned("SELECT lower(tier), people FROM visits GROUP BY 1")
    with pytest.raises(NotSupported, match="is the name of a column"):
        planned("SELECT people FROM visits WHERE LOWER(tier) = 'gold'")
    as_column = planned('SELECT "lower(tier)", people FROM visits GROUP BY 1')
    assert as_column.counting.expressions == ()
    bare = Policy(
        {"visits": replace(TABLE, columns={name: each for name, each in TABLE.columns.items() if "(" not in name})}
    )
    assert planned("SELECT lower(tier), people FROM visits GROUP BY 1", bare).atom != as_column.atom


def test_the_type_of_what_an_expression_reads_is_in_the_digest():
    sql = "SELECT people FROM visits WHERE n IS NULL"
    other = replace(TABLE, columns={**TABLE.columns, "n": Column("n", "number")})
    assert planned(sql).atom != planned(sql, Policy({"visits": other})).atom


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT date_trunc('month', day), people FROM visits WHERE item LIKE 'a%' GROUP BY 1",
        "SELECT upper(region), CASE WHEN n > 1 THEN 'many' ELSE 'few' END, visits FROM visits GROUP BY 1, 2 LIMIT 3",
        "SELECT people FROM visits WHERE NOT (item IS NULL OR n < x OR lower(item) <> 'a') AND n % 7 BETWEEN 1 AND 3",
        "SELECT people FROM visits WHERE lower(item) = 'a' OR lower(item) <> 'a'",
        "SELECT people FROM visits WHERE round(x / 3) = 0.33 AND day + 1 > '2026-01-01' AND at - INTERVAL 1 DAY < at",
        "SELECT people FROM visits WHERE \"lower(tier)\" = 'it''s' AND trim(BOTH 'x' FROM item) || '%' = 'a'",
    ],
)
def test_a_request_with_expressions_is_read_back_from_json_and_from_sql(sql):
    found = planned(sql)
    assert plan(read_request(found.request, ALL), ALL, PRICES) == found
    assert planned(write_sql(read_request(found.request, ALL), ALL)).atom == found.atom


def test_a_column_whose_name_looks_like_an_expression_is_found_in_any_case():
    assert TABLE.column("LOWER(Tier)").name == "lower(tier)"
    assert TABLE.column("LOWER(Tier)").expression is None


def test_json_names_expressions_as_sql_does():
    where = {"lower(region)": "emea", "item LIKE 'a%'": True, "day + 1": {"ge": "2026-01-01"}}
    found = plan(Histogram("visits", ["date_trunc('month', day)"], "people", where), ALL, PRICES)
    sql = (
        "SELECT date_trunc('month', day), people FROM visits WHERE lower(region) = 'emea' AND item LIKE 'a%' "
        "AND day + INTERVAL 1 DAY >= '2026-01-01' GROUP BY 1"
    )
    assert found == planned(sql)


# -- bounds --


@pytest.mark.parametrize(
    ("text", "max_groups", "guaranteed"),
    [
        ("lower(region)", 1, True),
        ("lower(item)", 3, False),
        ("coalesce(item, 'none')", 4, False),
        ("item IS NULL", 4, False),
        ("region || item", 3, False),
        ("coalesce(region, item)", 8, False),
        ("CASE WHEN paid THEN region END", 4, True),
        ("n + 1", None, False),
        ("n = 1 AND paid", None, False),
        ("date_trunc('month', day)", 4, False),
    ],
)
def test_a_person_has_as_many_values_as_of_the_columns_and_one_more_for_null(text, max_groups, guaranteed):
    found = column(f"({text})")
    assert (found.max_groups, found.guaranteed) == (max_groups, guaranteed)


def test_few_results_bound_a_persons_groups():
    assert str(planned("SELECT n > 5, people FROM visits GROUP BY 1").reserve) == "2 units and 0 calls"
    buckets = "CASE WHEN n < 10 THEN 'low' WHEN n < 20 THEN 'mid' ELSE 'high' END"
    assert str(planned(f"SELECT {buckets}, people FROM visits GROUP BY 1").reserve) == "3 units and 0 calls"
    assert str(planned("SELECT paid AND TRUE, people FROM visits GROUP BY 1").reserve) == "1 unit and 1 call"


ENGINE = duckdb.connect(config={"threads": 1})
own_rows = st.lists(
    st.tuples(st.sampled_from(["a", "A", "b", "B", "", None]), st.none() | st.integers(-3, 3)), min_size=1, max_size=12
)


@settings(max_examples=repeats(30, 300))
@given(
    others=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["a", "A", "c", None]), st.none() | st.integers(-3, 3)),
        max_size=15,
    ),
    own=own_rows,
    by=st.sampled_from(
        ["lower(word)", "coalesce(word, 'none')", "word || CAST(n AS VARCHAR)", "n % 2", "n / n", "word IS NULL"]
    ),
    measure=st.sampled_from(["people", "rows"]),
    where=st.sampled_from([None, {"n + 1": {"gt": 0}}, {"word LIKE 'a%'": True}, {"not": {"n IS NULL": True}}]),
)
def test_one_person_moves_no_count_down_none_beyond_tau_and_few_at_all(others, own, by, measure, where):
    columns = {"word": Column("word", max_groups=1), "n": Column("n", "integer", max_groups=2)}
    measures = {"people": Measure("people"), "rows": Measure("rows", "rows", max_per_unit=2)}
    policy = Policy({"t": TablePolicy("t", "unit", columns, measures, abilities=Abilities(functions=FUNCTIONS))})
    found = plan(Histogram("t", by, measure, where), policy, PRICES)

    def counts(rows):
        ENGINE.execute("CREATE OR REPLACE TABLE t (unit INTEGER, word VARCHAR, n BIGINT)")
        if rows:
            ENGINE.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        return {row[:-1]: row[-1] for row in ENGINE.execute(found.query.sql(DuckDBSql)).fetchall()}

    before, after = counts(others), counts(others + [(99, *row) for row in own])
    moved = {key: after.get(key, 0) - before.get(key, 0) for key in before.keys() | after.keys()}
    assert all(0 <= change <= measures[measure].max_per_unit for change in moved.values())
    most = policy.table("t").column(by).max_groups
    assert sum(change > 0 for change in moved.values()) <= min(most, len(found.domain or range(most)))


# -- public values --


def test_a_function_of_a_public_domain_has_its_image():
    assert domain("SELECT lower(region), people FROM visits GROUP BY 1") == ["apac", "emea", "ämter"]
    assert domain("SELECT length(region), people FROM visits GROUP BY 1") == [4, 5]
    assert domain("SELECT lower(region), people FROM visits WHERE region IN ('EMEA', 'apac') GROUP BY 1") == [
        "apac",
        "emea",
    ]
    assert domain("SELECT lower(region), people FROM visits WHERE lower(region) = 'emea' GROUP BY 1") == ["emea"]
    assert domain("SELECT region || '-' || tier, people FROM visits WHERE region = 'apac' GROUP BY 1") == [
        "apac-gold",
        "apac-none",
    ]
    assert domain("SELECT coalesce(tier, 'missing'), people FROM visits GROUP BY 1") == ["gold", "missing", "none"]
    assert domain("SELECT lower(item), people FROM visits GROUP BY 1") is None
    assert domain("SELECT region || item, people FROM visits GROUP BY 1") is None


def test_literals_of_the_filter_that_force_a_key_are_its_values():
    assert domain("SELECT upper(item), people FROM visits WHERE item IN ('a', 'b') GROUP BY 1") == ["A", "B"]
    assert domain("SELECT upper(item), people FROM visits WHERE upper(item) IN ('A', 'B') AND n > 1 GROUP BY 1") == [
        "A",
        "B",
    ]
    assert domain("SELECT upper(item), people FROM visits WHERE item IN ('a', 'b') OR n = 1 GROUP BY 1") is None
    assert domain("SELECT n % 10, people FROM visits WHERE n BETWEEN 5 AND 12 GROUP BY 1") == [0, 1, 2, 5, 6, 7, 8, 9]
    assert domain("SELECT n % 10, people FROM visits WHERE n >= 5 GROUP BY 1") is None


def test_pieces_of_a_bounded_time_are_public_with_their_zeros():
    in_2026 = "WHERE day BETWEEN '2026-01-05' AND '2026-04-01'"
    months = [date(2026, month, 1) for month in (1, 2, 3, 4)]
    found = planned(f"SELECT date_trunc('month', day), people FROM visits {in_2026} GROUP BY 1")
    assert [key for (key,) in found.domain] == months
    assert (found.mechanism.name, str(found.reserve)) == ("known_gaussian", "4 units and 0 calls")
    assert domain(f"SELECT extract(month FROM day), people FROM visits {in_2026} GROUP BY 1") == [1, 2, 3, 4]
    assert domain(f"SELECT year(day), people FROM visits {in_2026} GROUP BY 1") == [2026]
    at = "WHERE at >= '2026-01-05' AND at < '2026-04-01'"
    assert domain(f"SELECT date_trunc('month', at), people FROM visits {at} GROUP BY 1") == [
        datetime(2026, month, 1) for month in (1, 2, 3)
    ]
    hours = domain(
        "SELECT date_trunc('hour', at), people FROM visits WHERE at BETWEEN '2026-01-05' AND '2026-01-06' GROUP BY 1"
    )
    assert (len(hours), hours[0], hours[-1]) == (25, datetime(2026, 1, 5), datetime(2026, 1, 6))
    assert domain(f"SELECT date_trunc('week', CAST(at AS DATE)), people FROM visits {at} GROUP BY 1")[-1] == date(
        2026, 3, 30
    )
    assert domain("SELECT date_trunc('month', day), people FROM visits WHERE day > '2026-01-01' GROUP BY 1") is None
    assert domain(f"SELECT date_trunc('second', at), people FROM visits {at} GROUP BY 1") is None  # too many


def test_what_has_few_values_whatever_the_rows_are_is_public():
    assert domain("SELECT extract(dow FROM day), people FROM visits GROUP BY 1") == [*range(7)]
    assert domain("SELECT width_bucket(x, 0, 10, 3), people FROM visits GROUP BY 1") == [*range(5)]
    assert domain("SELECT item LIKE 'a%', people FROM visits GROUP BY 1") == [False, True]
    assert domain("SELECT CASE WHEN n > 1 THEN 'b' WHEN n > 0 THEN 'a' END, people FROM visits GROUP BY 1") == [
        "a",
        "b",
    ]
    assert domain("SELECT CASE WHEN n > 1 THEN item ELSE 'a' END, people FROM visits GROUP BY 1") is None


def test_the_values_of_an_expression_of_a_public_domain_can_be_listed():
    assert read_listing("SELECT DISTINCT lower(region) FROM visits", ALL).values == ("apac", "emea", "ämter")


# -- total functions --


def test_letters_change_their_case_as_in_duckdb():
    signs = [chr(place) for place in range(1, 0x110000) if not 0xD800 <= place < 0xE000]
    text = "".join(signs)
    [(small, capital)] = duckdb.execute("SELECT lower(?), upper(?)", [text, text]).fetchall()
    assert (lower(text), upper(text)) == (small, capital)


def test_a_pattern_takes_no_longer_than_its_length_times_that_of_the_text():
    """By backtracking it would take hours, in Python and in DuckDB."""
    condition = "(item LIKE '%a_%a_%a_%a_%a_%a_%b' OR item LIKE '%a%a%a%a%a%a%a%b')"
    tree = column(condition).expression
    assert evaluate(tree, {"item": "a" * 5000}) is False
    from sfumato.query.expressions.write import write_expression

    query = f"SELECT {write_expression(tree).sql(DuckDBSql)} FROM (SELECT repeat('a', 5000) AS item)"
    assert duckdb.execute(query).fetchall() == [(False,)]


# -- refusals --

REFUSED = {
    "lower(person) = 'a'": "people are counted, not named",
    "lower(itm) = 'a'": "did you mean item",
    "lower(n) = 'a'": "lower takes text here, not integer",
    "replace2(item, 'a', 'b') = 'a'": "is not a function of one row",
    "loweer(item) = 'a'": "did you mean lower",
    "item LIKE tier": "must be a literal text",
    "item LIKE 'a!' ESCAPE '!'": "must not end with its escape",
    "item LIKE 'a!b' ESCAPE '!'": "must stand before",
    "item LIKE 'a' ESCAPE 'ab'": "one character",
    "substr(item, 0, 1) = 'a'": "from 1 to",
    "substr(item, n) = 'a'": "literal whole number",
    "date_trunc('hour', day) = '2026-01-01'": "takes one of year, quarter, month, week, day",
    "date_trunc('decade', at) = '2026-01-01'": "takes one of",
    "extract(hour FROM day) = 1": "takes one of",
    "extract(epoch FROM at) = 1": "takes one of",
    "day + INTERVAL '1' HOUR = '2026-01-01'": "cannot be added to a date",
    "day + INTERVAL '5000' YEAR = '2026-01-01'": "at most 4,000 years",
    "day + n = '2026-01-01'": "+ takes",
    "CAST(item AS DECIMAL(10, 2)) = 1": "without a length",
    "CAST(item AS VARCHAR(3)) = 'a'": "without a length",
    "CAST(x AS VARCHAR) = 'a'": "cannot be cast to text",
    "CAST('x' AS BIGINT) = n": "can be cast",
    "CAST('x' || 'y' AS BIGINT) = n": "always NULL",
    "coalesce(item, n) = 'a'": "values of one type",
    "item = n": "values of one type",
    "paid < (n = 1)": "have no order",
    "CASE WHEN n THEN 1 END = 1": "takes a condition",
    "n IN (1, NULL)": "without NULL",
    "n IN (x, 1)": "list of literals",
    "(n, m) IN ((1, 2))": "in an expression of one row",
    "width_bucket(x, 10, 0, 3) = 1": "the lower one first",
    "round(x, 20) = 1": "from -15 to 15",
    "NULL = n": "a comparison with NULL is true of no row",
    "count(n) = 1": "counts rows",
    "lower(item)": "is not a condition",
    " + ".join(["x"] * 14) + " = 1": "too long",
    " + ".join(["x"] * 2000) + " = 1": "nested too deep",
    "CASE WHEN " + " OR ".join(["paid"] * 2000) + " THEN 1 END = 1": "nested too deep",
    " || ".join(["item"] * 11) + " = 'a'": "could make text of more",
    "item > '2026-01-01'": "text is ordered by its characters",
    "item BETWEEN '01.02.2026' AND 'z'": "text is ordered by its characters",
    "lower(item) < '31/12/2025'": "text is ordered by its characters",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_says_why(text):
    with pytest.raises(NotSupported) as refusal:
        planned(f"SELECT people FROM visits WHERE {text}")
    assert REFUSED[text] in str(refusal.value)
    assert 20 < len(str(refusal.value)) < 450


def test_text_that_looks_like_dates_is_refused_in_json_too_and_may_be_compared_for_equality():
    with pytest.raises(NotSupported, match="ordered by its characters"):
        plan(Total("visits", "people", {"item": {"lt": "2026-11-15"}}), ALL, PRICES)
    assert plan(Total("visits", "people", {"item": ["2026-11-15"]}), ALL, PRICES)
    assert plan(Total("visits", "people", {"item": {"gt": "m"}}), ALL, PRICES)


def test_the_engine_must_have_the_function():
    few = Policy({"visits": replace(TABLE, abilities=Abilities(functions=frozenset(("lower",)), name="Duck"))})
    assert planned("SELECT lower(item), people FROM visits GROUP BY 1", few)
    for sql in (
        "SELECT upper(item), people FROM visits GROUP BY 1",
        "SELECT people FROM visits WHERE upper(item) = 'A'",
        "SELECT COUNT(*) FILTER (WHERE upper(item) = 'A') FROM visits",
    ):
        with pytest.raises(NotSupported, match="Duck is not known to compute upper as other engines do"):
            planned(sql, few)
    own = Policy({"visits": replace(few.table("visits"), row_filter=read_filter("upper(item) = 'A'", TABLE))})
    with pytest.raises(NotSupported, match="is not known to compute upper"):
        planned("SELECT people FROM visits", own)


@pytest.mark.parametrize(
    ("version", "day"),
    [
        ("daily 2026-11-19", "2026-11-19"),
        ("hourly 2026-11-19T08", "2026-11-19"),
        ("value 2026-11-15", "2026-11-15"),
        *((version, None) for version in ("weekly 2026-11-16", "monthly 2026-11", "value july", "")),
    ],
)
def test_the_current_date_is_the_day_of_the_data_version(version, day):
    at = Policy({"visits": replace(TABLE, version=version)})
    asked = "SELECT people FROM visits WHERE day >= CURRENT_DATE"
    if day is None:
        with pytest.raises(NotSupported, match="this version has none; write the date"):
            planned(asked, at)
    else:
        assert planned(asked, at).digest == planned(f"SELECT people FROM visits WHERE day >= '{day}'", at).digest


def test_a_list_can_be_asked_by_an_expression():
    found = plan(TopK("visits", "lower(item)", "people", k=5), ALL, PRICES)
    assert (found.columns, found.types, found.mechanism.name) == (("lower(item)",), ("text",), "threshold_gaussian")
