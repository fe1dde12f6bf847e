"""The groups that a question has before a row is read: values of the policy, and those that a filter lists."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import Charge
from sfumato.errors import NotSupported
from sfumato.query.plan import Plan, plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import AllOf, In, Values
from sfumato.query.request import MAX_VALUES, Histogram, TopK
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql
from tests.helpers.engagements import ENGAGEMENTS
from tests.query.test_predicate import COLUMNS, filters, truth

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))


def planned(by: Any, where: Any, *, table: TablePolicy = ENGAGEMENTS, **asked: Any) -> Plan:
    return plan(TopK(table.name, by, "members", where, **asked), Policy({table.name: table}), PRICES)


def of_sql(by: str, condition: str) -> Plan:
    policy = Policy({"engagements": ENGAGEMENTS})
    return plan(
        read_sql(f"SELECT {by}, members FROM engagements WHERE {condition} GROUP BY {by}", policy), policy, PRICES
    )


LISTS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "one value": ("article", "article = 'a'", ("a",)),
    "a list": ("article", "article IN ('b', 'a', 'b')", ("a", "b")),
    "beside other conditions": ("article", "n > 3 AND article IN ('a', 'b') AND region <> 'emea'", ("a", "b")),
    "beside an OR": ("article", "article IN ('a', 'b') AND (n > 3 OR region = 'emea')", ("a", "b")),
    "two lists": ("article", "article IN ('a', 'b') AND article IN ('b', 'c')", ("b",)),
    "an OR of one column, which is a list": ("article", "article = 'a' OR article = 'b'", ("a", "b")),
    "less than a list": ("article", "article IN ('a', 'b', 'c') AND article > 'a'", ("b", "c")),
    "spaces": ("article", "article IN ('a', 'a ')", ("a", "a ")),
    "numbers in several spellings": ("score", "score IN (0.5, .50, 5e-1, -0.0, 0)", (Fraction(0), Fraction(1, 2))),
    "whole numbers": ("n", "n IN (3, '7', 3.0)", (3, 7)),
    "whole numbers in a row": ("n", "n IN (3, 4, 5)", (3, 4, 5)),
    "a range of whole numbers": ("n", "n > 2 AND n <= 5", (3, 4, 5)),
    "days": ("day", "day IN ('2026-11-15', DATE '2026-11-01')", (date(2026, 11, 1), date(2026, 11, 15))),
    "a range of days": ("day", "day BETWEEN '2026-11-30' AND '2026-12-01'", (date(2026, 11, 30), date(2026, 12, 1))),
    "moments": ("at", "at = '2026-11-15 08:30:00+01:00'", (datetime(2026, 11, 15, 7, 30),)),
    "true": ("paid", "paid", (True,)),
    "not true": ("paid", "NOT paid", (False,)),
    "true or false": ("paid", "paid IN (TRUE, FALSE)", (False, True)),
    "a list of a public domain": ("region", "region IN ('emea', 'amer')", ("amer", "emea")),
    "a range of a public domain": ("region", "region > 'amer'", ("apac", "emea")),
    "all but one of a public domain": ("topic", "topic <> 'b'", ("a", "c")),
    "values that a public domain does not have": ("region", "region IN ('emea', 'mars')", ("emea",)),
    "no value of a public domain": ("region", "region = 'mars'", ("amer", "apac", "emea")),
    "a public domain that the filter is not about": ("region", "n = 3", ("amer", "apac", "emea")),
}  # fmt: skip


@pytest.mark.parametrize(("by", "condition", "values"), LISTS.values(), ids=LISTS)
def test_a_condition_that_every_row_meets_lists_the_groups(by: str, condition: str, values: tuple[Any, ...]):
    found = of_sql(by, condition)
    assert found.domain == tuple((value,) for value in values)
    assert found.mechanism.name.startswith("known")
    assert (found.reserve.calls, found.mechanism.visible) == (0, None)
    assert found.counting.limit is None


NO_LISTS = {
    "nothing": ("article", "n = 3"),
    "OR with another column": ("article", "article = 'a' OR n = 3"),
    "OR of lists that go with another column": ("article", "(article = 'a' AND n = 3) OR (article = 'b' AND n = 4)"),
    "a list only inside of an OR": ("article", "paid AND (article IN ('a', 'b') OR region = 'emea')"),
    "NOT": ("article", "NOT article = 'a'"),
    "NOT IN": ("article", "article NOT IN ('a', 'b')"),
    "NOT of an AND": ("article", "NOT (article <> 'a' AND n <> 3)"),
    "a range of text": ("article", "article BETWEEN 'a' AND 'b'"),
    "a value and a range": ("article", "article = 'z' OR article BETWEEN 'a' AND 'b'"),
    "a range of numbers": ("score", "score BETWEEN 0 AND 1"),
    "a range of moments": ("at", "at BETWEEN '2026-11-01' AND '2026-11-02'"),
    "whole numbers without an end": ("n", "n >= 3"),
    "whole numbers without a start": ("n", "n <= 3"),
    "a list and an open range": ("n", "n IN (1, 2) OR n > 7"),
    "too long a range": ("n", f"n BETWEEN 1 AND {MAX_VALUES + 1}"),
    "too long a range of days": ("day", "day BETWEEN '2020-01-01' AND '2026-01-01'"),
    "a contradiction": ("article", "article = 'a' AND article = 'b'"),
}


@pytest.mark.parametrize(("by", "condition"), NO_LISTS.values(), ids=NO_LISTS)
def test_nothing_else_does(by: str, condition: str):
    found = of_sql(by, condition)
    assert found.domain is None
    assert found.mechanism.name == "unknown_gumbel"


def test_a_list_is_as_long_as_one_in_a_filter_can_be():
    words = [f"{n:04d}" for n in range(MAX_VALUES)]
    assert planned("article", {"article": words}).domain == tuple((word,) for word in words)
    assert planned("n", {"n": {"ge": 1, "le": MAX_VALUES}}).domain is not None
    longer = {"or": [{"article": words}, {"article": "x"}]}
    assert planned("article", longer).domain is None


@pytest.mark.parametrize(
    ("by", "where", "domain"),
    [
        (["article", "n"], {"article": ["a", "b"], "n": [1, 2]}, (("a", 1), ("a", 2), ("b", 1), ("b", 2))),
        (["article", "country"], {"article": "a"}, (("a", "de"), ("a", "fr"))),
        (["article", "country"], {"article": "a", "country": "fr"}, (("a", "fr"),)),
        (["article", "country"], {"country": "fr"}, None),
        (["article", "n"], {"article": ["a", "b"]}, None),
        (["article", "job title"], {"article": "a", "job title": {"ne": "b"}}, None),
    ],
)
def test_every_grouped_column_must_have_its_list(by, where, domain):
    assert planned(by, where).domain == domain


def test_more_combinations_than_a_domain_may_have_are_private():
    where = {"n": {"between": [1, 400]}, "day": {"between": ["2026-01-01", "2026-12-31"]}}
    assert planned(["n", "day"], where).domain is None
    assert len(planned(["n", "day"], {**where, "n": {"between": [1, 200]}}).domain) == 200 * 365
    columns = {name: Column(name, domain=tuple(map(str, range(400))), max_groups=1) for name in ("a", "b")}
    table = TablePolicy("engagements", "member_id", columns, {"members": Measure("members")})
    with pytest.raises(NotSupported, match="more than 100000 combinations"):
        planned(["a", "b"], None, table=table)
    assert len(planned(["a", "b"], {"a": ["1", "2"]}, table=table).domain) == 800


BOUNDS = [
    # by, where, the price of all groups, and what the query must enforce
    ("article", {"article": ["a", "b", "c"]}, 3, None),  # any number of articles, but no more than three
    ("job title", {"job title": ["a"]}, 1, None),  # at most two titles, of one
    ("job title", {"job title": ["a", "b"]}, 2, None),
    ("job title", {"job title": ["a", "b", "c"]}, 2, 2),
    ("region", {"region": ["emea", "apac"]}, 1, 1),
    ("country", {"country": ["de", "fr"]}, 1, None),  # guaranteed
    (["article", "job title"], {"article": ["a", "b"], "job title": ["x", "y", "z"]}, 4, 4),
    (["article", "country"], {"article": ["a", "b", "c"]}, 3, None),
    (["article", "region"], {"article": ["a", "b", "c"]}, 3, 3),
    (["topic", "region"], None, 3, 3),
]


@pytest.mark.parametrize(("by", "where", "price", "enforced"), BOUNDS, ids=map(str, range(len(BOUNDS))))
def test_a_person_is_in_no_more_groups_than_are_listed(by, where, price, enforced):
    found = planned(by, where)
    assert (found.mechanism.name, found.reserve) == ("known_gaussian", Charge(price))
    assert (found.mechanism.max_groups, found.counting.max_groups) == (price, enforced)


def test_a_short_list_of_many_values_is_picked():
    found = planned("article", {"article": list("abcdef")}, k=2)
    assert (found.mechanism.name, found.reserve) == ("known_gumbel", Charge(4))
    assert planned("article", {"article": list("abcdef")}, k=50).k == 6


def test_the_filter_of_an_analyst_lists_groups_like_any_other():
    """It is added to her questions, and shown to her. Another analyst who writes it asks the same question."""
    own = replace(ENGAGEMENTS, row_filter=In("article", Values.of("a", "b")))
    found = planned("article", {"n": 3}, table=own)
    assert found.domain == (("a",), ("b",))
    assert found.atom == planned("article", {"n": 3, "article": ["b", "a"]}).atom
    assert planned("article", {"article": ["b", "c"]}, table=own).domain == (("b",),)


def test_one_meaning_is_one_question():
    spellings = ["n IN (3, 4, 5)", "n BETWEEN 3 AND 5", "NOT (n < 3 OR n > 5)", "n = 3 OR n = 4 OR n = '5'"]
    assert len({of_sql("n", spelling).atom for spelling in spellings}) == 1
    for spelling in spellings:
        found = of_sql("n", spelling)
        policy = Policy({"engagements": ENGAGEMENTS})
        assert plan(read_request(found.request, policy), policy, PRICES) == found


def test_a_value_that_the_filter_lists_is_not_listed_to_the_engine_twice():
    assert of_sql("article", "article IN ('a', 'b')").query.sql().count("'b'") == 1
    assert of_sql("day", "day BETWEEN '2026-11-01' AND '2026-11-30'").query.sql().count("2026-11") == 1


SHAPE = TablePolicy(
    "t",
    "unit",
    {"n": Column("n", "integer"), "flag": Column("flag", "boolean"), "word": Column("word")},
    {"members": Measure("members")},
)


@given(predicate=filters, by=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=2, unique=True))
def test_the_groups_are_all_that_a_row_can_have_and_no_impossible_one(predicate, by):
    """Against brute force: all rows of a small world, by SQL's truth table; the groups follow from the filter alone."""
    found = plan(Histogram("t", by, "members", predicate), Policy({"t": SHAPE}), PRICES)
    every = itertools.product(*([*values, None] for values in COLUMNS.values()))
    passing = [row for row in (dict(zip(COLUMNS, cells, strict=True)) for cells in every) if truth(predicate, row)]
    seen = {key for row in passing if None not in (key := tuple(row[name] for name in found.columns))}
    if found.domain is None:
        return
    assert seen <= {*found.domain}
    assert len({*found.domain}) == len(found.domain)
    for name, values in zip(found.columns, zip(*found.domain, strict=True), strict=True):
        parts = found.where.parts if isinstance(found.where, AllOf) else (found.where,)
        (own,) = [part.values for part in parts if isinstance(part, In) and part.column == name]
        assert all(value in own for value in values)
