"""Parameters: a value stays a value, refusals have its name, and literals and parameters are one question."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy
import pandas
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.parameters import params_json, read_params
from sfumato.query.plan import plan
from sfumato.query.serial import read_request
from sfumato.query.sql import bind_request, read_sql
from sfumato.query.sql.binding import bind, literal
from sfumato.query.sql.parse import MAX_LENGTH

SAME = [
    (
        "SELECT article, members FROM engagements WHERE region = 'emea' AND day >= DATE '2026-11-01' "
        "AND at < TIMESTAMP '2026-11-01 07:00:00' AND n > -5 AND score <= 0.1 AND paid = TRUE GROUP BY 1 LIMIT 5",
        "SELECT article, members FROM engagements WHERE region = {} AND day >= {} AND at < {} AND n > {} "
        "AND score <= {} AND paid = {} GROUP BY 1 LIMIT {}",
        {
            "region": "emea",
            "since": date(2026, 11, 1),
            "at": datetime(2026, 11, 1, 7, tzinfo=UTC),
            "n": -5,
            "score": Decimal("0.10"),
            "paid": True,
            "limit": 5,
        },
    ),
    (
        "SELECT members FROM engagements WHERE article IN ('o''clock', '?', ':a', '--') AND score BETWEEN 0.25 AND 2",
        "SELECT members FROM engagements WHERE article IN ({}, {}, {}, {}) AND score BETWEEN {} AND {}",
        {"a": "o'clock", "b": "?", "c": ":a", "d": "--", "e": 0.25, "f": Fraction(2)},
    ),
]


@pytest.mark.parametrize(("literals", "form", "values"), SAME)
def test_parameters_and_literals_are_one_question(literals, form, values, policy, prices):
    expected = plan(read_sql(literals, policy), policy, prices)
    by_place, by_name = form.format(*["?"] * len(values)), form.format(*[f":{name}" for name in values])
    for sql, params in ((by_place, [*values.values()]), (by_name, values), (by_place, tuple(values.values()))):
        assert plan(read_sql(bind(sql, params), policy), policy, prices) == expected
        sent = json.loads(json.dumps({"sql": sql, "params": params_json(params)}))
        asked = plan(read_request(bind_request(sent), policy), policy, prices)
        assert asked.digest == expected.digest
        assert bind_request({"sql": sql}, params) == bind_request(sent)


def test_only_places_of_the_statement_are_bound():
    sql = "SELECT \"a?b\", '?', ':n', x::date FROM é /* ? :n */ WHERE région = :n AND \"n\" > -:n -- :n ?"
    assert sqlglot.tokenize(bind(sql, {"n": -1}))[-1].text == "1"
    assert bind(sql, {"n": "v"}) == sql.replace("= :n", "=  'v' ").replace("-:n", "- 'v' ")


def test_a_word_of_sql_is_a_name_too():
    assert bind("SELECT a FROM t WHERE a = :limit LIMIT :where", {"limit": "x", "where": 3}).split() == (
        ["SELECT", "a", "FROM", "t", "WHERE", "a", "=", "'x'", "LIMIT", "3"]
    )


HOSTILE = ["x' OR 'a' = 'a", "'; DROP TABLE x; --", "\\", "\\'", "a\nb", "?", ":a", '"', "/*", "*/", "--", "", "''"]
AROUND = ["x = ?", "x = -?", "x = 'a'?", "x = ?'b'", "x = ?--c", "x = ?/*c*/", "(?)", "a?b", "x =?AND?"]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("value", HOSTILE)
def test_a_text_stays_a_text(value, around):
    count = len([token for token in sqlglot.tokenize(around) if token.token_type.name == "PLACEHOLDER"])
    tokens = sqlglot.tokenize(bind(around, [value] * count))
    texts = [token.text for token in tokens if token.token_type.name == "STRING"]
    assert texts.count(value) == count
    assert len(tokens) == len(sqlglot.tokenize(around))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_one_token(value):
    [token] = sqlglot.tokenize(literal(value))
    assert (token.token_type.name, token.text) == ("STRING", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (-7, "-7"),
        (numpy.int64(7), "7"),
        (2**60, str(2**60)),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (numpy.float64(0.1), "0.1"),
        (Decimal("12.50"), "12.5"),
        (Decimal("-0.1234567890123456789"), "-0.1234567890123456789"),
        (Fraction(1, 8), "0.125"),
        (True, "TRUE"),
        (date(2026, 11, 1), "DATE '2026-11-01'"),
        (pandas.Timestamp("2026-11-01 08:30"), "TIMESTAMP '2026-11-01 08:30:00'"),
        ({"date": "2026-11-01"}, "DATE '2026-11-01'"),
        ({"timestamp": "2026-11-01T08:30:00+01:00"}, "TIMESTAMP '2026-11-01 07:30:00'"),
        ({"number": "0.10"}, "0.1"),
        ({"integer": "7"}, "7"),
        ({"boolean": "true"}, "TRUE"),
        ({"text": "7"}, "'7'"),
    ],
)
def test_values_have_one_spelling_also_as_json(value, text):
    [read] = read_params([value]).values()
    assert literal(read) == text
    assert read_params(json.loads(json.dumps(params_json([value])))) == {"?1": read}


OTHERS = [
    *(None, b"secret", object(), float("nan"), float("inf"), Fraction(1, 3), Decimal("1e999999"), 10**5000, 2**63),
    *(["secret"], {"secret": 1}, {"date": "secret"}, {"date": "2026-11-01", "text": "x"}, {}, "\x00secret", "\ud800"),
    {"text": 7},
]


@pytest.mark.parametrize("value", OTHERS, ids=range(len(OTHERS)))
def test_other_values_are_refused_by_name_and_not_shown(value):
    for sql, params, name in (("a = ?", [value], r"\?1"), ("a = :region", {"region": value}, ":region")):
        with pytest.raises(InvalidArgument, match=f"^params: {name} (is|must)") as refused:
            bind(sql, params)
        assert "secret" not in str(refused.value)
        with pytest.raises(InvalidArgument):
            params_json(params)


def test_null_has_a_way_out():
    with pytest.raises(InvalidArgument, match=r":day is NULL.*write `column IS NULL`"):
        bind("day = :day", {"day": None})


@pytest.mark.parametrize(
    ("sql", "params", "words"),
    [
        ("a = ? AND b = ?", [1], r"has 2 places \(\?\), and 1 values are given"),
        ("a = ?", [1, 2], r"has 1 places \(\?\), and 2 values"),
        ("a = 1", [1], r"has 0 places"),
        ("a = :region", {}, ":region has no value"),
        ("a = :region", {"regoin": 1}, ":region has no value; did you mean :regoin"),
        ("a = :region", {"region": 1, "regions": 1}, ":regions does not stand in the statement; did you mean :region"),
        ("a = 1", {"region": 1}, ":region does not stand"),
        ("a = ?", {"region": 1}, r"has \?: give its values as a list"),
        ("a = :region", [1], ":region: give its values by name"),
        ("a = :region AND b = ?", {"region": 1}, r"has \?: give its values as a list"),
        ("a = ?", "x", "must be a list"),
        ("a = ?", {1}, "must be a list"),
        ("a = ?", {1: 1}, "names that are text"),
        ("a = : region", {"region": 1}, "does not stand"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(sql, params, words):
    with pytest.raises(InvalidArgument, match=words):
        bind(sql, params)


def test_a_question_without_its_values_says_what_is_missing(policy):
    for sql, words in (("n = ?", "each [?] in params"), ("n = :n", "each :name in params")):
        with pytest.raises(NotSupported, match=words):
            read_sql(f"SELECT members FROM engagements WHERE {sql}", policy)


def test_statements_stay_short():
    value = "x" * 1000
    with pytest.raises(NotSupported, match="with the values"):
        bind("SELECT " + ":a, " * 25 + "1", {"a": value})
    for sql in ("x" * (MAX_LENGTH + 1), "'open"):
        with pytest.raises(NotSupported):
            bind(sql, [])


@pytest.mark.parametrize("sql", ["", " ", "-- nothing"])
def test_a_statement_without_words_has_no_parameters(sql):
    assert bind(sql, []) == sql
    with pytest.raises(InvalidArgument, match="0 places"):
        bind(sql, [1])


def test_what_is_bound():
    total = {"type": "total", "table": "t", "measure": "m"}
    assert bind_request(total) is total
    assert bind_request("SELECT ?") == "SELECT ?"
    assert bind_request({"sql": "SELECT ?", "params": None}) == {"sql": "SELECT ?"}
    assert bind_request({"sql": "SELECT ?", "params": [1], "k": 3}) == {"sql": "SELECT  1 ", "k": 3}
    for request, params in ((total, [1]), ({"sql": 1}, [1]), ({"sql": "SELECT ?", "params": [1]}, [1])):
        with pytest.raises(InvalidArgument, match=r"^params: (belong|stand)"):
            bind_request(request, params)
