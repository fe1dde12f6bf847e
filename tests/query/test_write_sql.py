"""A request as SQL, read back: the same request, whatever the names, the values and the filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.query.abilities import Abilities
from sfumato.query.expressions.functions import FUNCTIONS, LOOKUPS
from sfumato.query.plan import plan
from sfumato.query.policy import Bounds, Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import ABOVE, ALL_VALUES, BELOW, Cut, In, Values, all_of, any_of
from sfumato.query.public import KEY_TYPES, PublicTable, read_public_rows
from sfumato.query.request import MAX_VALUES, Histogram, Request, TopK, Total
from sfumato.query.sql import read_sql, write_sql
from sfumato.types import MAX_INTEGER, MAX_PLACES, TYPES, Type, Value

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))

HOSTILE = st.sampled_from(
    [
        *("select", "Date", "a b", 'say "no"', "it's", "a.b", "--x", "/* x */", "1", "TRUE", "é", "ß", "名", "\u202ex"),
        *("%s", "$1", ":p", "?", "a\nb", "\t", "N", "n", "GROUP BY", "[x]", "`x`", "{x}", "@x", "#x", "_", "NULL"),
        *("limit", "x;y", "\\"),
    ]
)
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
NAMES = HOSTILE | st.text(CHARACTERS, min_size=1, max_size=8)
TYPE = st.sampled_from([*TYPES])

VALUES: dict[Type, st.SearchStrategy[Value]] = {
    "text": HOSTILE | st.text(CHARACTERS, max_size=12),
    "integer": st.integers(-5, 5) | st.integers(-MAX_INTEGER, MAX_INTEGER),
    "number": st.fractions(-3, 3, max_denominator=8)
    | st.integers(-(10**39), 10**39).map(lambda digits: Fraction(digits, 10**MAX_PLACES)),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
}


def is_decimal(value: Value) -> bool:
    return not isinstance(value, Fraction) or 10**MAX_PLACES % value.denominator == 0


@st.composite
def intervals(draw: st.DrawFn, kind: Type) -> Values:
    """A union of ranges with open and closed ends, of single values, and of all that is not in these."""
    value = VALUES[kind].filter(is_decimal)
    ends = st.builds(Cut, value, st.sampled_from([-1, 1]))
    lows, highs = ends | st.just(BELOW), ends | st.just(ABOVE)
    parts = [Values.between(*draw(st.tuples(lows, highs))) for _ in range(draw(st.integers(0, 3)))]
    values = Values.any_of([Values.of(*draw(st.lists(value, max_size=4))), *parts])
    return ~values if draw(st.booleans()) else values


@st.composite
def filters(draw: st.DrawFn, columns: Sequence[Column], depth: int = 3) -> Any:
    if not depth or draw(st.booleans()):
        column = draw(st.sampled_from(columns))
        return In(column.name, draw(st.just(ALL_VALUES) | intervals(column.type)))
    join = draw(st.sampled_from([all_of, any_of]))
    return join(draw(st.lists(filters(columns, depth - 1), max_size=4)))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """One table with names that no parser likes. Names of columns may differ in their case alone."""
    names = draw(st.lists(NAMES, unique=True, min_size=5, max_size=9))
    table, unit, *others = names
    own = {unit.casefold()}
    columns = {
        name: Column(name, draw(TYPE), max_groups=draw(st.sampled_from([None, 1, 3])))
        for name in others[: len(others) // 2 + 1]
        if name.casefold() not in {*own, "and", "or", "not"}
    }
    taken = {name.casefold() for name in columns}
    measures = {name: Measure(name) for name in others if name.casefold() not in taken | own} or {
        "members": Measure("members")
    }
    if not columns:
        columns = {"article": Column("article")}
    return Policy({table: TablePolicy(table, unit, columns, measures)})


@st.composite
def questions(draw: st.DrawFn) -> tuple[Policy, Request]:
    policy = draw(policies())
    [table] = policy.tables.values()
    where = draw(st.none() | filters([*table.columns.values()]))
    measure = draw(st.sampled_from([*table.measures]))
    by = draw(st.lists(st.sampled_from([*table.columns]), unique=True, min_size=1, max_size=3))
    k = draw(st.none() | st.integers(1, table.max_k))
    return policy, draw(
        st.sampled_from(
            [
                Total(table.name, measure, where),
                Histogram(table.name, by, measure, where),
                TopK(table.name, by, measure, where, k),
                TopK(table.name, by, measure, where, k, counts=False),
            ]
        )
    )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@st.composite
def wide_policies(draw: st.DrawFn) -> Policy:
    """A table with bounded columns and a measure of rows, and a public table that one of its columns is the key of."""
    [table] = draw(policies()).tables.values()
    bounds = st.sampled_from(
        [None, Bounds(Fraction(0), Fraction(9), Fraction(1, 4)), Bounds(*map(Fraction, (-3, 3, 1)))]
    )
    columns = {
        name: replace(each, bounds=draw(bounds)) if each.type in ("integer", "number") else each
        for name, each in table.columns.items()
    }
    taken = {name.casefold() for name in (table.name, table.privacy_unit, *columns, *table.measures)}
    if "amount" not in taken:
        columns["amount"] = Column("amount", "number", bounds=draw(bounds.filter(bool)))
    measures = {
        **table.measures,
        **({} if "visits" in taken else {"visits": Measure("visits", "rows", max_per_unit=3)}),
    }
    able = replace(table.abilities, functions=FUNCTIONS | LOOKUPS, values=True)
    keys = [each for each in columns.values() if each.type in KEY_TYPES]
    public: dict[str, PublicTable] = {}
    if keys:
        of = draw(st.sampled_from(keys))
        name = draw(NAMES.filter(lambda each: each.casefold() not in taken))
        label = draw(NAMES.filter(lambda each: each.casefold() != of.name.casefold()))
        kind = draw(TYPE)
        pairs = st.tuples(VALUES[of.type], st.none() | VALUES[kind].filter(is_decimal))
        rows = draw(st.lists(pairs, max_size=3, unique_by=lambda row: row[0]))
        public[name] = read_public_rows(name, of.name, {of.name: of.type, label: kind}, rows)
    return Policy(
        {table.name: replace(table, columns=columns, measures=measures, abilities=able, public=public)}, (), public
    )


@st.composite
def wide_questions(draw: st.DrawFn) -> tuple[Policy, Request]:
    """Measures of values, alone and beside others, and keys and filters that are looked up."""
    policy = draw(wide_policies())
    [table] = policy.tables.values()
    words = ["AVG({})", "sum( {} )", "VARIANCE({})", "STDDEV({})", "MEDIAN({})", "quantile_cont({}, 0.9)"]
    words += ["COUNT({})"] if "visits" in table.measures else []
    bounded = [quoted(each.name) for each in table.columns.values() if each.bounds is not None]
    asked = [word.format(name) for name in bounded for word in draw(st.lists(st.sampled_from(words), max_size=3))]
    found = [
        table.column(f"lookup({quoted(of)}, {quoted(name)}.{quoted(column)})")
        for name, public in table.public.items()
        for of, own in table.columns.items()
        if own.type == public.columns[public.key]
        for column in public.columns
    ]
    columns = [*table.columns.values(), *found]
    where = draw(st.none() | filters(columns, 1))
    first, *others = draw(st.lists(st.sampled_from([*table.measures, *asked]), unique=True, min_size=1, max_size=4))
    by = draw(
        st.lists(st.sampled_from([each.name for each in (*found, *columns)]), unique=True, min_size=1, max_size=2)
    )
    k = draw(st.none() | st.integers(1, table.max_k))
    return policy, draw(
        st.sampled_from(
            [
                Total(table.name, first, where, others),
                Histogram(table.name, by, first, where, others),
                TopK(table.name, by, first, where, k, measures=others),
            ]
        )
    )


@given(wide_questions())
def test_measures_of_values_and_joined_columns_are_read_back(question: tuple[Policy, Request]):
    policy, request = question
    try:
        canonical = plan(request, policy, PRICES)
    except NotSupported:  # a value measure of a list whose groups nothing selects
        assume(False)
    text = write_sql(request, policy)
    read = plan(read_sql(text, policy), policy, PRICES)
    assert (read.request, read.digest, read.where) == (canonical.request, canonical.digest, canonical.where)
    assert write_sql(read_sql(text, policy), policy) == text


@given(questions())
def test_what_is_written_is_read_back(question: tuple[Policy, Request]):
    policy, request = question
    canonical = plan(request, policy, PRICES)
    read = plan(read_sql(write_sql(request, policy), policy), policy, PRICES)
    assert (read.request, read.digest, read.where) == (canonical.request, canonical.digest, canonical.where)


@given(questions())
def test_one_meaning_has_one_text(question: tuple[Policy, Request]):
    """A request and what is read of it are written alike: writing it again changes nothing."""
    policy, request = question
    text = write_sql(request, policy)
    assert write_sql(read_sql(text, policy), policy) == text


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (Total("engagements", "members"), "SELECT members FROM engagements"),
        (
            TopK("engagements", "job title", "members", {"region": "emea"}, 5),
            "SELECT \"job title\", members FROM engagements WHERE region = 'emea' "
            'GROUP BY "job title" ORDER BY members DESC LIMIT 5',
        ),
        (
            TopK("engagements", ["article", "day"], "visits", k=5, counts=False),
            "SELECT article, day FROM engagements GROUP BY article, day ORDER BY visits DESC LIMIT 5",
        ),
        (
            Histogram(
                "engagements", "region", "shares", {"n": {"gt": 1}, "score": {"ge": "0.5", "lt": 2}, "paid": True}
            ),
            "SELECT region, shares FROM engagements WHERE n >= 2 AND paid = TRUE AND (score >= 0.5 AND score < 2) "
            "GROUP BY region ORDER BY shares DESC",
        ),
        (
            Total("engagements", "members", {"or": [{"article": ["it's", "b"]}, {"not": {"article": "c"}, "n": 1}]}),
            "SELECT members FROM engagements WHERE article IN ('b', 'it''s') OR (article <> 'c' AND n = 1)",
        ),
        (
            Total("engagements", "members", {"day": date(2026, 3, 1), "at": {"ge": datetime(2026, 3, 1, 12)}}),
            "SELECT members FROM engagements WHERE at >= '2026-03-01 12:00:00' AND day = '2026-03-01'",
        ),
        (Total("engagements", "members", {"region": []}), "SELECT members FROM engagements WHERE FALSE"),
        (
            Total("engagements", "members", {"not": {"region": []}}),
            "SELECT members FROM engagements WHERE region = 'emea' OR region <> 'emea'",
        ),
    ],
)
def test_the_text(request_: Request, text: str, policy: Policy):
    assert write_sql(request_, policy) == text
    assert write_sql(read_sql(text, policy), policy) == text


def test_a_filter_as_large_as_may_be_asked_is_read_back(policy: Policy):
    values = {"n": [*range(0, 2 * MAX_VALUES, 2)]}
    nested: Any = {"article": "x"}
    for level in range(18):
        nested = {("or" if level % 2 else "and"): [{"n": {"ge": level}}, {"not": {"score": level}}, nested]}
    for where in (values, {"not": values}, nested):
        request = Total("engagements", "members", where)
        assert (
            plan(read_sql(write_sql(request, policy), policy), policy, PRICES).digest
            == plan(request, policy, PRICES).digest
        )


def test_every_digit_of_a_number_is_written(policy: Policy):
    """28 digits, as many as Python's decimals have by default, and one more."""
    request = Total("engagements", "members", {"score": "-1000.0000000000000000000000001"})
    assert write_sql(request, policy).endswith(" WHERE score = -1000.0000000000000000000000001")


def test_names_that_differ_in_their_case_alone(policy: Policy):
    measures = {name: Measure(name) for name in ("people", "People")}
    table = replace(policy.table("engagements"), measures=measures)
    for name in measures:
        text = write_sql(Total("engagements", name), Policy({"engagements": table}))
        assert read_sql(text, Policy({"engagements": table})).measure == name
    with pytest.raises(NotSupported, match="no measure 'PEOPLE'"):
        read_sql("SELECT PEOPLE FROM engagements", Policy({"engagements": table}))


def test_a_key_that_is_no_column_is_an_expression(policy: Policy):
    """It is written as it is, and alone in parentheses where it is compared."""
    able = Policy({"engagements": replace(policy.table("engagements"), abilities=Abilities(functions=FUNCTIONS))})
    where = all_of([In("lower(article)", Values.of("a")), In("n + 1", ALL_VALUES)])
    text = write_sql(TopK("engagements", ["lower(article)"], "members", where, 3), able)
    assert text == (
        "SELECT lower(article), members FROM engagements WHERE (lower(article)) = 'a' AND "
        "((n + 1) = 42 OR (n + 1) <> 42) GROUP BY lower(article) ORDER BY members DESC LIMIT 3"
    )
    assert write_sql(read_sql(text, able), able) == text


def test_an_analysts_own_rows_are_in_the_text(policy: Policy):
    own = replace(policy.table("engagements"), row_filter=In("region", Values.of("emea")))
    text = write_sql(Total("engagements", "members", {"n": 1}), Policy({"engagements": own}))
    assert text == "SELECT members FROM engagements WHERE n = 1 AND region = 'emea'"
