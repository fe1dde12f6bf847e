"""The query counts what it should, and no person can move it further than her bounds, whatever the rows are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from enum import StrEnum
from fractions import Fraction

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.abilities import Abilities
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.request import Histogram, TopK, Total
from tests.helpers.repeats import repeats

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))

rows = st.tuples(
    st.none() | st.integers(1, 4),
    st.none() | st.sampled_from(["a", "b", "é", "A", "it's"]),
    st.none() | st.sampled_from(["x", "y", "z"]),
    st.none() | st.integers(-3, 9),
)
tables = st.lists(rows, max_size=25)


def policy(max_groups: int | None, domain=None, guaranteed=False) -> Policy:
    columns = (
        Column("word", max_groups=max_groups, domain=domain, guaranteed=guaranteed),
        Column("letter", max_groups=max_groups),
        Column("n", type="integer"),
    )
    measures = (Measure("people"), Measure("rows", "rows", max_per_unit=2), Measure("sum", "sum", "n", max_per_unit=5))
    named = {column.name: column for column in columns}
    return Policy({"t": TablePolicy("t", "unit", named, {measure.name: measure for measure in measures})})


ENGINE = duckdb.connect(config={"threads": 1})  # one for all examples: opening it takes longer than they do


def counted(data, request, at: Policy) -> dict:
    """The exact counts by key, as the engine returns them."""
    ENGINE.execute("CREATE OR REPLACE TABLE t (unit INTEGER, word VARCHAR, letter VARCHAR, n BIGINT)")
    if data:
        places = ", ".join(["(?, ?, ?, ?)"] * len(data))
        ENGINE.execute(f"INSERT INTO t VALUES {places}", [value for row in data for value in row])
    found = ENGINE.execute(plan(request, at, PRICES).query.sql("duckdb")).fetchall()
    assert found == sorted(found, key=lambda row: (-row[-1], row[:-1]))
    return {row[:-1]: int(row[-1]) for row in found}


def expected(data, keys: tuple[int, ...], measure: str, most: int | None, passes) -> Counter:
    """The same by definition: a person's part of each key, her `most` fullest keys, added up."""
    people: dict = {}
    for row in data:
        key = tuple(row[i] for i in keys)
        if row[0] is not None and None not in key and passes(row):
            people.setdefault(row[0], {}).setdefault(key, []).append(row)
    total: Counter = Counter()
    for groups in people.values():
        kept = sorted(groups, key=lambda key: (-len(groups[key]), key))[: most if keys else None]
        for key in kept:
            total[key] += part(groups[key], measure)
    return total


def part(own, measure: str) -> int:
    if measure == "people":
        return 1
    if measure == "rows":
        return min(len(own), 2)
    return min(max(sum(row[3] or 0 for row in own), 0), 5)


SHAPES = [("word",), ("word", "letter"), ()]
PLACES = {"word": 1, "letter": 2}


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["people", "rows", "sum"])
@pytest.mark.parametrize("by", SHAPES, ids=str)
@pytest.mark.parametrize("max_groups", [None, 1, 2])
@settings(max_examples=repeats(6, 100))
@given(data=tables, filtered=st.booleans())
def test_counts_are_exact(data, filtered, measure, by, max_groups):
    where = {"n": {"ge": 0}} if filtered else None
    request = Histogram("t", by, measure, where) if by else Total("t", measure, where)
    found = counted(data, request, policy(max_groups))
    most = None if max_groups is None else max_groups ** len(by)
    keys = tuple(PLACES[name] for name in sorted(by))
    passes = (lambda row: row[3] is not None and row[3] >= 0) if filtered else (lambda row: True)
    reference = expected(data, keys, measure, most, passes)
    assert {key: count for key, count in found.items() if count} == {key: n for key, n in reference.items() if n}


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["people", "rows", "sum"])
@pytest.mark.parametrize("max_groups", [None, 1, 2])
@settings(max_examples=12)
@given(data=tables, words=st.sets(st.sampled_from(["a", "b", "é", "A", "zzz"]), min_size=1), letter=st.booleans())
def test_counts_of_listed_values_are_exact(data, words, letter, measure, max_groups):
    """A person's rows outside of the lists do not push her rows inside of them out."""
    lists = {"word": sorted(words)} | ({"letter": ["x", "y"]} if letter else {})
    request = Histogram("t", [*lists], measure, lists)
    asked = plan(request, policy(max_groups), PRICES)
    assert {key[-1] for key in asked.domain} == words
    found = counted(data, request, policy(max_groups))
    assert found.keys() <= {*asked.domain}
    keys = (2, 1) if letter else (1,)
    reference = expected(
        data, keys, measure, asked.mechanism.max_groups, lambda row: row[1] in words and (not letter or row[2] in "xy")
    )
    assert {key: count for key, count in found.items() if count} == {key: n for key, n in reference.items() if n}


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["people", "rows", "sum"])
@pytest.mark.parametrize("max_groups", [1, 2])
@settings(max_examples=repeats(15, 200))
@given(data=tables, own=st.lists(rows, max_size=12))
def test_one_person_moves_no_count_down_none_beyond_tau_and_few_at_all(data, own, measure, max_groups):
    newcomer = [(99, *row[1:]) for row in own]
    before, after = (counted(d, Histogram("t", "word", measure), policy(max_groups)) for d in (data, data + newcomer))
    moved = {key: after.get(key, 0) - before.get(key, 0) for key in before.keys() | after.keys()}
    tau = {"people": 1, "rows": 2, "sum": 5}[measure]
    assert all(0 <= change <= tau for change in moved.values())
    assert sum(change > 0 for change in moved.values()) <= max_groups


@pytest.mark.parametrize(("measure", "tau"), [("people", 1), ("rows", 2), ("sum", 5)])
def test_a_newcomer_beyond_all_bounds_adds_just_the_bounds_and_changes_nothing_else(measure, tau):
    data = [(1, "a", "x", 4), (1, "b", "x", 4), (1, "b", "x", 1), (2, "a", "x", 3), (3, "c", "x", 2)]
    many = [(99, word, "x", 9) for word in "aaabbc"]
    before, after = (counted(rows, Histogram("t", "word", measure), policy(2)) for rows in (data, data + many))
    assert {key: after[key] - before[key] for key in after} == {("a",): tau, ("b",): tau, ("c",): 0}


def test_a_newcomer_with_numbers_below_zero_lowers_no_count():
    data = [(1, "a", "x", 4), (2, "a", "x", 3)]
    request = Histogram("t", "word", "sum")
    assert counted([*data, (99, "a", "x", -9)], request, policy(2)) == counted(data, request, policy(2)) == {("a",): 7}


def test_a_missing_number_adds_nothing():
    data = [(1, "a", "x", 4), (1, "a", "x", None), (2, "a", "x", None)]
    assert counted(data, Histogram("t", "word", "sum"), policy(1)) == {("a",): 4}


def test_a_guaranteed_bound_is_not_enforced():
    data = [(1, "a", "x", 1), (1, "b", "x", 1)]
    assert len(counted(data, Histogram("t", "word", "people"), policy(1))) == 1
    assert len(counted(data, Histogram("t", "word", "people"), policy(1, guaranteed=True))) == 2


def test_a_bound_is_enforced_where_one_of_two_columns_is_guaranteed():
    data = [(1, "a", letter, 1) for letter in "xyz"]
    assert len(counted(data, Histogram("t", ["word", "letter"], "people"), policy(1, guaranteed=True))) == 1


@pytest.mark.parametrize("max_groups", [None, 1])
def test_the_first_row_out_of_sight_is_read_and_no_more(max_groups):
    """Thresholds and cutoffs stand above its count."""
    table = replace(policy(max_groups).table("t"), max_k=3, limit=3)
    data = [(person, word, "x", 1) for person, word in enumerate("abcdef")]
    assert [*counted(data, Histogram("t", "word", "people"), Policy({"t": table}))] == [(word,) for word in "abcd"]


def test_values_outside_a_public_domain_are_left_out():
    data = [(1, "a", "x", 1), (2, "b", "x", 1), (3, "zzz", "x", 1)]
    found = plan(Histogram("t", "word", "people"), policy(1, domain=("a", "b", "c")), PRICES)
    assert found.domain == (("a",), ("b",), ("c",))
    assert counted(data, Histogram("t", "word", "people"), policy(1, domain=("a", "b", "c"))) == {("a",): 1, ("b",): 1}


def test_literals_stay_literals():
    hostile = "x' OR 1=1; DROP TABLE t; --"
    data = [(1, hostile, "x", 1), (2, "a", "x", 1)]
    assert counted(data, Histogram("t", "word", "people", {"word": hostile}), policy(None)) == {(hostile,): 1}
    assert counted(data, Histogram("t", "word", "people", {"word": "x\\' --"}), policy(None)) == {}


@pytest.mark.parametrize(
    ("by", "max_groups", "domain", "name", "reserve"),
    [
        ("word", None, None, "unknown_gumbel", "201 units and 1 call"),
        ("word", 1, None, "unknown_gaussian", "1 unit and 1 call"),
        ("word", None, ("a", "b"), "known_gaussian", "2 units and 0 calls"),
        ("word", 1, ("a", "b"), "known_gaussian", "1 unit and 0 calls"),
        ("word", 7, ("a", "b"), "known_gaussian", "2 units and 0 calls"),
        (["word", "letter"], 2, ("a", "b"), "unknown_gaussian", "1 unit and 1 call"),
        (["word", "letter"], None, ("a", "b"), "unknown_gumbel", "201 units and 1 call"),
    ],
)
def test_the_mechanism_is_a_look_up(by, max_groups, domain, name, reserve):
    found = plan(Histogram("t", by, "people"), policy(max_groups, domain=domain), PRICES)
    assert found.mechanism.name == name
    assert str(found.reserve) == reserve


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_where_the_engine_returns_every_group_the_threshold_is_fixed(noise):
    table = replace(policy(2).table("t"), abilities=Abilities(every_group=True))
    found = plan(Histogram("t", "word", "people"), Policy({"t": table}), replace(PRICES, count_noise=noise))
    assert found.mechanism.name == f"threshold_{noise}"
    assert str(found.reserve) == "1 unit and 1 call"
    assert found.counting.limit is None
    assert "LIMIT" not in found.query.sql()


@pytest.mark.parametrize(
    ("k", "counts", "max_groups", "name", "price"),
    [
        (5, True, None, "known_gaussian", 10),
        (4, True, None, "known_gumbel", 8),
        (5, False, None, "known_gumbel", 5),
        (10, False, None, "known_gaussian", 10),
        (4, True, 8, "known_gaussian", 8),
        (4, True, 9, "known_gumbel", 8),
        (1, False, 1, "known_gaussian", 1),
    ],
)
def test_a_list_of_a_known_domain_is_the_cheaper_of_picks_and_histogram(k, counts, max_groups, name, price):
    domain = tuple("abcdefghij")
    found = plan(TopK("t", "word", "people", k=k, counts=counts), policy(max_groups, domain=domain), PRICES)
    assert (found.mechanism.name, found.reserve) == (name, Charge(price))
    # Picks need no bound on groups; a bound that the domain keeps by itself is not enforced.
    bounded = name == "known_gaussian" and max_groups is not None
    assert found.counting.max_groups == (max_groups if bounded else None)
    whole = plan(
        TopK("t", "word", "people", k=k, counts=counts), policy(max_groups, domain=domain), PRICES, whole_domain=True
    )
    assert (whole.mechanism.name, whole.reserve) == ("known_gaussian", Charge(min(max_groups or 10, 10)))


def test_several_columns_multiply_their_bounds():
    found = plan(Histogram("t", ["letter", "word"], "rows"), policy(3), PRICES)
    assert found.mechanism.max_groups == 9
    assert found.mechanism.tau == 2
    assert found.columns == ("letter", "word")


def test_a_total_is_one_unit():
    found = plan(Total("t", "sum"), policy(None), PRICES)
    assert found.mechanism.name == "known_gaussian"
    assert str(found.reserve) == "1 unit and 0 calls"
    assert found.domain == ((),)
    assert counted([], Total("t", "sum"), policy(None)) == {(): 0}
    assert counted([], Total("t", "people"), policy(None)) == {(): 0}


def table(**changes):
    common = {"columns": {"word": Column("word")}, "measures": {"people": Measure("people")}}
    return TablePolicy("t", "unit", **(common | changes))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: table(columns={"Unit": Column("Unit")}), r"^t\.columns: must not hold the privacy unit"),
        (lambda: table(columns={"Or": Column("Or")}), r"^t\.columns: must not hold Or: filters use that word"),
        (lambda: table(measures={"Word": Measure("Word")}), r"^t\.measures: must not be called like a column"),
        (lambda: table(max_k=0), r"^t\.max_k: must be at least 1"),
        (lambda: table(max_k=50, limit=40), r"^t\.limit: must be at least 50"),
        (lambda: Column("c", domain=()), r"^c\.domain: must be at least 1"),
        (lambda: Column("c", max_groups=0), r"^c\.max_groups: must be at least 1"),
        (lambda: Measure("m", max_per_unit=0), r"^m\.max_per_unit: must be at least 1"),
        (lambda: Prices(Fraction(0), Fraction(1, 2)), r"^epsilon_per: must be greater than zero"),
        (lambda: Prices(Fraction(1), Fraction(2)), r"^delta_per: must lie strictly between"),
    ],
)
def test_policies_that_make_no_sense_are_refused(make, words):
    with pytest.raises(InvalidArgument, match=words):
        make()


def test_a_domain_of_the_wrong_type_is_refused():
    with pytest.raises(NotSupported, match="n is compared with something that is not a whole number"):
        Column("n", type="integer", domain=(1, "many"))


NUMERIC = ["DECIMAL(18,2)", "DECIMAL(38,2)", "DECIMAL(38,30)", "BIGINT", "HUGEINT", "INTEGER", "DOUBLE", "FLOAT"]
LITERALS = ["0.000000000000001", "999999999999999", "0.5", "-0.5", "1", "123456789.123456"]


@pytest.mark.parametrize("kind", NUMERIC)
def test_no_literal_makes_a_row_fail(kind):
    """A cast that fails where one person's number does not fit would be an answer about her, without noise."""
    most = {"FLOAT": "3e38", "DOUBLE": "1e308"}.get(kind) or str(
        {"INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1, "HUGEINT": 2**127 - 1}.get(kind)
        or (10 ** (38 - 30) - 1 if "30" in kind else 10 ** (int(kind[8:10]) - 2) - 1)
    )
    at = TablePolicy("t", "unit", {"x": Column("x", type="number")}, {"people": Measure("people")})
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (unit INTEGER, x {kind})")
        engine.execute(f"INSERT INTO t VALUES (1, {most}), (2, -{most}), (3, 0), (4, NULL)")
        for literal in LITERALS:
            for where in ({"x": {op: literal}} for op in ("eq", "ne", "lt", "le", "gt", "ge")):
                query = plan(Total("t", "people", where), Policy({"t": at}), PRICES).query
                assert engine.execute(query.sql("duckdb")).fetchone()[0] <= 3
            inside = {"x": {"in": [literal, "7.25"]}}
            assert engine.execute(
                plan(Total("t", "people", inside), Policy({"t": at}), PRICES).query.sql("duckdb")
            ).fetchone()


@pytest.mark.parametrize("kind", ["BIGINT", "HUGEINT"])
def test_no_sum_overflows(kind):
    most = {"BIGINT": 2**63 - 1, "HUGEINT": 2**127 - 1}[kind]
    query = plan(Histogram("t", "word", "sum"), policy(None), PRICES).query.sql("duckdb")
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (unit INTEGER, word VARCHAR, letter VARCHAR, n {kind})")
        engine.execute(f"INSERT INTO t SELECT 1, 'a', 'x', {most} FROM range(50)")
        engine.execute(f"INSERT INTO t SELECT 2, 'a', 'x', -{most} FROM range(50)")
        assert engine.execute(query).fetchall() == [("a", 5)]


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_dates_that_python_does_not_know_are_no_keys(kind):
    at = TablePolicy("t", "unit", {"d": Column("d", type=kind)}, {"people": Measure("people")})
    query = plan(Histogram("t", "d", "people"), Policy({"t": at}), PRICES).query.sql("duckdb")
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE t (unit INTEGER, d {kind})")
        engine.execute(
            "INSERT INTO t VALUES (1, 'infinity'), (2, '-infinity'), (3, '0044-03-15 (BC)'), (4, '99999-01-01'), "
            "(5, '2026-01-01')"
        )
        found = engine.execute(query).fetchall()
    assert [(str(key)[:10], count) for key, count in found] == [("2026-01-01", 1)]


def test_enums_of_text_count_by_their_value():
    class Region(StrEnum):
        EMEA = "emea"

    named, plain = (
        plan(Histogram("t", "word", "people", {"word": value}), policy(None), PRICES) for value in (Region.EMEA, "emea")
    )
    assert named == plain


def test_reserved_names_are_refused():
    with pytest.raises(InvalidArgument, match="must not begin with sfumato_"):
        table(columns={"sfumato_rows": Column("sfumato_rows")})


def test_numbers_that_are_no_numbers_are_no_keys():
    """NaN and infinities have no order outside the engine; as keys they would make the question fail."""
    table = TablePolicy("t", "unit", {"x": Column("x", type="number")}, {"people": Measure("people")})
    query = plan(Histogram("t", "x", "people"), Policy({"t": table}), PRICES).query.sql("duckdb")
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE t AS SELECT 1 AS unit, unnest(['nan', 'inf', '-inf', '1.5']::DOUBLE[]) AS x")
        assert engine.execute(query).fetchall() == [(1.5, 1)]
        engine.execute("CREATE OR REPLACE TABLE t AS SELECT 1 AS unit, 99999999999999999999999999999999999.9 AS x")
        assert len(engine.execute(query).fetchall()) == 1


def test_text_that_no_filter_could_name_is_no_key():
    data = [(1, "a" * 1000, "x", 1), (2, "a" * 1001, "x", 1)]
    assert counted(data, Histogram("t", "word", "people"), policy(None)) == {("a" * 1000,): 1}


def test_another_longest_list_is_another_ranking():
    """What is stored is as long as the policy allows; a policy that allows more needs a longer one."""
    shapes = (Column("topic", domain=tuple("abcdef")), Column("region", max_groups=1), Column("word"))
    for column in shapes:
        atoms = set()
        for max_k in (3, 4):
            table = TablePolicy("t", "unit", {column.name: column}, {"people": Measure("people")}, max_k=max_k)
            atoms.add(plan(Histogram("t", column.name, "people"), Policy({"t": table}), PRICES).atom)
        assert len(atoms) == 2
