"""Bounding against a loop over people: the same keys are kept, and nobody's choice shows in anybody else's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from datetime import date, datetime
from decimal import Decimal
from itertools import combinations
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sfumato.engines import sorting
from sfumato.engines.contributions import Affine, DistinctPairs, Listed, PairCodes
from sfumato.engines.duckdb import DuckDBEngine, codes
from sfumato.engines.duckdb.contributions import DuckDBContributions
from sfumato.errors import InvalidArgument
from sfumato.release import Count, Mean, Sum, Units
from sfumato.release.bounding import KeyOrder, count_people, first_keys, fold_pairs, keys_per_person, sum_weights
from sfumato.release.bounding import xxhash as hashes
from tests.contracts.contributions import SECRET, SELECT, Row, bits, counted, reference, text_bits, xxhash64
from tests.helpers.aggregating import request_of, run, source_of
from tests.helpers.false_alarms import unlikely
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

ROWS = exp.select("*").from_("t")
READING = "sfumato.engines.duckdb.contributions"

ENGINE = DuckDBEngine({}, threads=2)
ENGINE._schemas["t"] = {}  # filled behind the engine's back: no file is written for every example
WORKSPACE = ENGINE.workspace()


def fill(rows: Iterable[tuple[Any, ...]], *types: str) -> None:
    """Make `t` anew, with columns c0, c1, ..."""
    names = ", ".join(f"c{at} {kind}" for at, kind in enumerate(types))
    ENGINE._connection.execute(f"CREATE OR REPLACE TABLE t ({names})")
    if rows := list(rows):
        places = ", ".join([f"({', '.join('?' * len(types))})"] * len(rows))
        ENGINE._connection.execute(f"INSERT INTO t VALUES {places}", [value for row in rows for value in row])


def bounded(
    rows: Iterable[tuple[Any, ...]],
    types: tuple[str, ...],
    max_keys: int,
    order: KeyOrder = SELECT,
    within: set[Any] | None = None,
    **options: int,
) -> Counter[Any]:
    """Counts by key value, and by tuple where a key has several columns."""
    columns = [f"c{at}" for at in range(1, len(types))]
    fill(rows, *types)
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=columns, **options) as contributions:
        everything = contributions.keys(range(contributions.size))
        names = [key[0] if len(key) == 1 else key for key in everything]
        chosen = None if within is None else [code for code, name in enumerate(names) if name in within]
        counts = count_people(contributions, order, max_keys=max_keys, within=chosen)
        return Counter({names[code]: int(counts[code]) for code in np.flatnonzero(counts)})


people, few = st.integers(-3, 8), st.integers(1, 6)
integer_rows = st.lists(st.tuples(people | st.none(), st.integers(-5, 30) | st.none()), max_size=60)
wide = st.integers(-(2**63), 2**63 - 1)
examples = settings(max_examples=repeats(20, 300), deadline=None)


@examples
@given(integer_rows, few, st.sets(st.integers(-5, 30), max_size=4))
def test_weights_are_added_like_one_person_at_a_time(rows: list[Row], max_keys: int, without: set[int]) -> None:
    weights = np.array([0, *(1000 // keys for keys in range(1, max_keys + 1))])
    expected: Counter[Any] = Counter()
    for keys in reference([row for row in rows if row[1] not in without], max_keys).values():
        expected.update({key: int(weights[len(keys)]) for key in keys})
    fill(rows, "INTEGER", "SMALLINT")
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"]) as contributions:
        named = [key for (key,) in contributions.keys(range(contributions.size))]
        codes = [code for code, key in enumerate(named) if key in without]
        sums = sum_weights(contributions, SELECT, weights, without=codes)
        assert {named[code]: int(sums[code]) for code in np.flatnonzero(sums)} == dict(expected)


@examples
@given(integer_rows, few)
def test_integers_are_bounded_like_one_person_at_a_time(rows: list[Row], max_keys: int) -> None:
    kept = reference(rows, max_keys)
    assert bounded(rows, ("INTEGER", "SMALLINT"), max_keys) == counted(kept)


@examples
@given(st.lists(st.tuples(wide, st.sampled_from([-(2**63), -1, 0, 7, 2**40, 2**63 - 1])), max_size=30), few)
def test_integers_of_any_size(rows: list[Row], max_keys: int) -> None:
    assert bounded(rows, ("BIGINT", "BIGINT"), max_keys) == counted(reference(rows, max_keys))


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)


@pytest.mark.slow
@examples
@given(st.lists(st.tuples(words | st.none(), words | st.none()), max_size=40), few)
def test_text(rows: list[Row], max_keys: int) -> None:
    assert bounded(rows, ("VARCHAR", "VARCHAR"), max_keys) == counted(reference(rows, max_keys))


@pytest.mark.slow
@examples
@given(st.lists(st.tuples(people, st.dates(date(1, 1, 1)) | st.none()), max_size=30), few)
def test_dates(rows: list[Row], max_keys: int) -> None:
    assert bounded(rows, ("TINYINT", "DATE"), max_keys) == counted(reference(rows, max_keys))


@pytest.mark.slow
@examples
@given(st.lists(st.tuples(people, words | st.none(), st.integers(0, 2) | st.none()), max_size=40), few)
def test_keys_of_several_columns(rows: list[tuple[Any, ...]], max_keys: int) -> None:
    def composite(value: Any) -> int:
        return text_bits(*map(str, value)) if isinstance(value, tuple) else bits(value)

    pairs = [(person, key if None not in key else None) for person, *rest in rows for key in [tuple(rest)]]
    kept = reference(pairs, max_keys, bits=composite)
    assert bounded(rows, ("INTEGER", "VARCHAR", "INTEGER"), max_keys) == counted(kept)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("UBIGINT", [2**64 - 1, 2**63, 0]),
        ("HUGEINT", [2**100, -(2**100), 0]),
        ("DECIMAL(18,2)", [Decimal("0.10"), Decimal("-7.00")]),
        ("TIMESTAMP", [datetime(2026, 11, 15, 8, 30), datetime(1900, 1, 1)]),
        ("BOOLEAN", [True, False]),
        ("ENUM('b', 'a')", ["a", "b"]),
        ("DOUBLE", [0.5, -1e300, float("inf")]),
    ],
)
def test_other_types_of_keys_and_people(kind: str, values: list[Any]) -> None:
    rows = [(person, value) for person in values for value in values]
    assert bounded(rows, (kind, kind), len(values)) == dict.fromkeys(values, len(values))
    assert bounded(rows, (kind, kind), 1).total() == len(values)


def test_nan_is_dropped_and_zero_has_no_sign() -> None:
    rows = [(0.0, 0.0), (-0.0, -0.0), (1.0, -0.0), (float("nan"), 1.0), (1.0, float("nan")), (None, 1.0), (1.0, None)]
    assert bounded(rows, ("DOUBLE", "DOUBLE"), 1) == {0.0: 2}


def test_a_type_that_does_not_tell_keys_apart_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="c1"):
        bounded([], ("INTEGER", "INTEGER[]"), 1)
    fill([], "INTEGER")
    with pytest.raises(InvalidArgument, match="unit: there is no column 'nobody'"):
        DuckDBContributions(WORKSPACE, ROWS, unit="nobody", key=["c0"])


def test_what_makes_no_sense_is_refused_by_name_before_a_row_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fill([], "INTEGER", "INTEGER", "VARCHAR", "BOOLEAN")
    for door in ("rows", "arrays", "keep"):
        monkeypatch.setattr(WORKSPACE, door, None)
    good: dict[str, Any] = {"unit": "c0", "key": ["c1"]}
    public = exp.select("c1").from_("t")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"unit": "C0"}, "unit: there is no column 'C0'; did you mean c0\\?"),
        ({"key": ["c1", "c22"]}, "key: there is no column 'c22'; did you mean c2\\?"),
        ({"key": []}, "key: must be different columns, at least one"),
        ({"values": ["c33"]}, "values: there is no column 'c33'; did you mean c3\\?"),
        ({"values": ["c1", "c2"]}, "values: column 'c2' is VARCHAR, which is not a number"),
        ({"values": ["c3"]}, "values: column 'c3' is BOOLEAN"),
        ({"values": ["c1", "c1"]}, "values: must be different"),
        ({"domain": public, "key": ["c2"]}, "domain: there is no column 'c2'; there are c1"),
        ({"domain": exp.select("c1 AS c2").from_("t"), "key": ["c2"]}, "domain: column 'c2' is INTEGER, and VARCHAR"),
        ({"max_rows": 0}, "max_rows: "),
    ]
    for change, message in wrong:
        with pytest.raises(InvalidArgument, match=f"^{message}"):
            DuckDBContributions(WORKSPACE, ROWS, **(good | change))


@pytest.mark.slow
@pytest.mark.parametrize("types", [("INTEGER", "INTEGER"), ("VARCHAR", "VARCHAR")])
@examples
@given(rows=integer_rows, max_keys=few, data=st.data())
def test_order_duplicates_sets_and_threads_are_not_seen(
    types: tuple[str, str], rows: list[Row], max_keys: int, data: st.DataObject
) -> None:
    plain = bounded(rows, types, max_keys)
    again = data.draw(st.permutations(rows + rows[: len(rows) // 2]))
    max_rows, threads = data.draw(st.integers(1, 100)), data.draw(st.integers(1, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{READING}.MIN_DIVIDED", data.draw(st.sampled_from([0, 10**6])))
        assert bounded(again, types, max_keys, max_rows=max_rows, threads=threads) == plain


def test_a_set_is_divided_among_threads_and_no_person_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{READING}.MIN_DIVIDED", 100)
    rows = [(person, key) for person in range(40) for key in range(person)]
    fill(rows, "INTEGER", "INTEGER")
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"], values=["c1"], threads=3) as made:
        sets = list(made.map_rows(lambda part: part))
        assert sum(part.columns["c1"].sum() for part in sets) == sum(key for _, key in rows)
        for parts in (sets, list(made.map_pairs(lambda part: part))):
            people = [set((part.words >> np.uint64(made.key_bits)).tolist()) for part in parts]
            assert len(people) == 3
            assert sum(map(len, people)) == len(set.union(*people)) == 39
            assert all(200 < len(part.words) < 320 for part in parts)


def test_distinct_pairs_are_held_for_the_next_pass_unless_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(person, key) for person in range(20) for key in range(9)]
    fill(rows + rows[::-1], "INTEGER", "INTEGER")
    read = WORKSPACE.arrays
    seen: list[exp.Query] = []
    monkeypatch.setattr(WORKSPACE, "arrays", lambda query: seen.append(query) or read(query))
    for most, passes in ((len(rows), 1), (len(rows) - 1, 3)):
        monkeypatch.setattr(f"{READING}.MAX_HELD", most)
        seen.clear()
        with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"]) as made:
            [part] = made.map_pairs(lambda part: part)
            assert part.words.tolist() == sorted(set(part.words.tolist()))
            with pytest.raises(ValueError, match="read-only"):
                part.words[0] = 0
            assert count_people(made, SELECT, max_keys=9).tolist() == [20] * 9
            assert count_people(made, SELECT, max_keys=9, within=[1, 2]).tolist() == [0, 20, 20] + [0] * 6
            assert len(seen) == passes
        assert made._held == []


def test_a_release_is_the_same_table_whichever_sort_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(person, f"k{key * key % 31}", float(key)) for person in range(300) for key in range(person % 9)]
    requests = [
        request_of(rho=1, delta=1e-3, max_keys=bound, **options)
        for bound in (2, 8)
        for options in ({}, {"aggregates": [Units(), Count(3), Sum("x", 0, 9), Mean("x", 0, 9, values=2)]})
    ]
    for name, value in {"MIN_LONG": 2, "BLOCK": 64, "SHORT": 8, "BUCKET": 4}.items():
        monkeypatch.setattr(sorting, name, value)
    tables = []
    for sort in (sorting.sort_by_numpy, sorting.sort_by_buckets):
        monkeypatch.setattr(sorting, "faster_sort", lambda sort=sort: sort)
        made = [run(request, source_of(rows)) for request in requests]
        tables.append([(table.statement, table.rows) for table in made])
    assert tables[0] == tables[1]
    assert all(rows for _, rows in tables[0])


NEWCOMERS = [  # the types of people and keys, and the number of their keys: each of both at least once
    *(("INTEGER", 4), ("VARCHAR", 0), ("INTEGER", 1), ("VARCHAR", 40)),
    *repeats([], [("VARCHAR", 4), ("INTEGER", 0), ("VARCHAR", 1), ("INTEGER", 40)]),
]


@pytest.mark.parametrize(("kind", "keys"), NEWCOMERS)
@examples
@given(rows=integer_rows, data=st.data())
def test_one_more_person_moves_at_most_max_keys_counts_up_by_one(
    kind: str, keys: int, rows: list[Row], data: st.DataObject
) -> None:
    """The new person, and her keys, may lie before, between and after all others: codes shift, choices do not."""
    max_keys, name = 4, int if kind == "INTEGER" else str
    rows += [(person, key) for person in range(4) for key in range(12)]  # four of twelve keys are kept
    rows = [(name(person), name(key)) for person, key in rows if person is not None and key is not None]
    theirs = data.draw(st.sets(st.integers(-300, 300), min_size=keys, max_size=keys))
    before = bounded(rows, (kind, kind), max_keys)
    newcomer = name(data.draw(st.sampled_from([-99, 99])))
    after = bounded([*rows, *((newcomer, name(key)) for key in theirs)], (kind, kind), max_keys)
    moved = {key: after[key] - before[key] for key in after.keys() | before.keys() if after[key] != before[key]}
    assert set(moved.values()) <= {1}
    assert len(moved) == min(max_keys, keys)


@examples
@given(st.sets(words, max_size=20))
def test_codes_of_keys_ascend_by_bits_and_value_because_they_decide_between_equal_ranks(keys: set[str]) -> None:
    fill([("somebody", key) for key in keys], "VARCHAR", "VARCHAR")
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"]) as contributions:
        listed = [key for (key,) in contributions.keys(range(contributions.size))]
    assert listed == sorted(keys, key=lambda key: (bits(key), key))


def test_whoever_comes_changes_nobody_elses_keys_even_where_ranks_are_equal() -> None:
    """So many keys that some have the same rank for the same person: then the code decides, and the code shifts."""
    keys = np.arange(5000, 9000, dtype=np.uint64)
    ranks = SELECT.ranks(Affine(0), np.zeros_like(keys), Affine(0), keys)
    assert len(np.unique(ranks)) < len(ranks)
    for max_keys in (1, 100, 3999):
        kept, shifted, listed = (
            first_keys(DistinctPairs(keys - first, PairCodes(13, Affine(0), values)), max_keys, SELECT).keys
            for first, values in ((5000, Affine(5000)), (4000, Affine(4000)), (5000, Listed(keys)))
        )
        assert len(kept) == max_keys
        assert kept.tolist() == listed.tolist() == (shifted - 1000).tolist()


@examples
@given(integer_rows, few, st.sets(st.integers(-5, 30)))
def test_within_restricts_before_it_bounds(rows: list[Row], max_keys: int, chosen: set[int]) -> None:
    order = KeyOrder.of(SECRET, "aggregate")
    kept = reference([row for row in rows if row[1] in chosen], max_keys, "aggregate")
    assert bounded(rows, ("INTEGER", "INTEGER"), max_keys, order, within=chosen) == counted(kept)


def test_the_hash_is_that_of_spark() -> None:
    """Recorded from PySpark 4.3, whose `xxhash64` over BIGINTs another engine orders keys by."""
    recorded = {
        (1,): -7001672635703045582,
        (1, 0): -2220782197575308967,
        (1, 0x3FF8000000000000): 5705534175103899719,  # 1.5 as a DOUBLE
        (-(2**63), 0, -1): -2090453724350303501,
    }
    for columns, expected in recorded.items():
        words = (np.array([column % 2**64] * 3, np.uint64) for column in columns)
        assert hashes.xxhash64(*words).view(np.int64).tolist() == [expected] * 3
        assert xxhash64(*columns) == expected % 2**64


def test_labels_and_secrets_choose_differently() -> None:
    rows = [(person, key) for person in range(20) for key in range(50)]
    orders = [SELECT, KeyOrder.of(SECRET, "aggregate"), KeyOrder.of(b"another secret", "select")]
    seen = [frozenset(bounded(rows, ("INTEGER", "INTEGER"), 2, order).items()) for order in orders]
    assert len(set(seen)) == 3
    assert SECRET.hex() not in repr(SELECT)
    with pytest.raises(InvalidArgument, match="secret"):
        KeyOrder.of(b"", "select")


@pytest.mark.parametrize("max_keys", [0, -1, 2**33])
def test_a_bound_is_a_positive_number(max_keys: int) -> None:
    with pytest.raises(InvalidArgument, match="max_keys"):
        bounded([(1, 1)], ("INTEGER", "INTEGER"), max_keys)


def test_no_rows_no_counts_and_nothing_is_left_behind() -> None:
    for rows in ([], [(None, None)], [(None, "a")], [("a", None)]):
        assert bounded(rows, ("VARCHAR", "VARCHAR"), 1) == {}
    assert bounded([(None, 1), (1, None)], ("INTEGER", "INTEGER"), 1) == {}
    fill([("a", "b")], "VARCHAR", "VARCHAR")
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"]) as contributions:
        assert contributions.keys([0, 0]) == [("b",), ("b",)]
    assert WORKSPACE._kept == []


def test_people_and_keys_whose_hashes_collide_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"p{person}", f"k{key % 9}") for person in range(30) for key in range(person)]
    by_hash = bounded(rows, ("VARCHAR", "VARCHAR"), 3)
    monkeypatch.setattr(codes, "all_different", lambda hashes: False)
    assert bounded(rows, ("VARCHAR", "VARCHAR"), 3) == by_hash


@examples
@given(integer_rows, few)
def test_keys_per_person(rows: list[Row], most: int) -> None:
    fill(rows, "INTEGER", "INTEGER")
    sizes = Counter(min(most, len(keys)) for keys in reference(rows, 10**6).values())
    for max_rows in (2**26, 4):
        with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"], max_rows=max_rows) as contributions:
            assert keys_per_person(contributions, most).tolist() == [sizes[n] for n in range(most + 1)]
            with pytest.raises(InvalidArgument, match="most"):
                keys_per_person(contributions, 0)


@examples
@given(integer_rows, few, few, st.sets(st.integers(-5, 30)))
def test_keys_per_person_among_chosen_keys(rows: list[Row], max_keys: int, most: int, chosen: set[int]) -> None:
    fill(rows, "INTEGER", "INTEGER")
    among = Counter(
        min(most, len(keys)) for keys in reference([row for row in rows if row[1] in chosen], 10**6).values()
    )
    for max_rows in (2**26, 4):
        with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"], max_rows=max_rows) as contributions:
            named = contributions.keys(range(contributions.size))
            codes = np.array([code for code, (key,) in enumerate(named) if key in chosen], np.int64)
            wanted = [among[n] for n in range(most + 1)]
            assert keys_per_person(contributions, most, within=codes).tolist() == wanted
            folded = fold_pairs(
                contributions, lambda pairs: pairs.people_by_keys(most), SELECT, max_keys=max_keys, within=codes
            )
            assert sum(folded, np.zeros(most + 1, np.int64)).tolist() == wanted


def public(keys: list[Any], kind: str) -> exp.Query:
    rows = exp.values([(str(key),) for key in keys], alias="public", columns=["key"])
    return exp.select(exp.alias_(exp.cast(exp.column("key"), kind), "c1")).from_(rows)


@pytest.mark.parametrize(
    ("kind", "written", "keys"),
    [
        ("INTEGER", "BIGINT", [-7, 3, 2**40, 5]),
        ("UBIGINT", "INTEGER", [-7, 3, 5, 1]),
        ("VARCHAR", "VARCHAR", ["b", "a", "", "it's"]),
        ("DATE", "DATE", [date(2026, 11, 15), date(1, 1, 1)]),
        ("UUID", "UUID", [UUID(int=7), UUID(int=2**127)]),
    ],
)
def test_public_keys_have_codes_whatever_the_rows(kind: str, written: str, keys: list[Any]) -> None:
    other = {"INTEGER": 4, "UBIGINT": 9, "VARCHAR": "c", "DATE": date(2, 2, 2), "UUID": UUID(int=8)}[kind]
    for rows in ([], [(1, other)], [(1, keys[1]), (1, other), (2, keys[1]), (2, None), (3, other)]):
        fill(rows, "INTEGER", kind)
        domain = public([*keys, keys[0]], written)
        with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"], domain=domain) as contributions:
            assert contributions.size == len(keys)
            listed = [key for (key,) in contributions.keys(range(len(keys)))]
            assert set(listed) == set(keys)
            counts = count_people(contributions, SELECT, max_keys=1).tolist()
            seen = Counter({key: count for key, count in zip(listed, counts, strict=True) if count})
            assert seen == counted(reference([row for row in rows if row[1] in keys], 1))


def test_progress_is_the_share_that_is_done() -> None:
    fill([(person, 1) for person in range(40)], "INTEGER", "INTEGER")
    heard: list[float] = []
    options: dict[str, Any] = {"max_rows": 30, "progress": heard.append}
    with DuckDBContributions(WORKSPACE, ROWS, unit="c0", key=["c1"], **options) as contributions:
        assert count_people(contributions, SELECT, max_keys=1).tolist() == [40]
    assert heard == [0.25, 0.5, 0.75, 1.0]


def chosen_first(people: int, keys: int, order: KeyOrder, max_keys: int = 1) -> list[tuple[int, ...]]:
    """The codes that each of `people` people keeps of the same `keys` keys."""
    pairs = np.arange(people * keys, dtype=np.uint64)
    words = (pairs // np.uint64(keys)) << np.uint64(8) | pairs % np.uint64(keys)
    kept = first_keys(DistinctPairs(words, PairCodes(8, Affine(10**6), Affine(-3))), max_keys, order)
    return [tuple(row) for row in kept.keys.reshape(people, max_keys).tolist()]


def test_every_pair_of_keys_is_kept_equally_often() -> None:
    """Chernoff: a random order fails here once in a million secrets; this secret is fixed."""
    law: dict[Hashable, float] = dict.fromkeys(combinations(range(7), 2), 1 / 21)
    assert not unlikely(chosen_first(100_000, 7, SELECT, max_keys=2), law)


def test_neighbouring_people_choose_independently() -> None:
    first = [key for (key,) in chosen_first(200_000, 5, SELECT)]
    law: dict[Hashable, float] = {(one, other): 1 / 25 for one in range(5) for other in range(5)}
    assert not unlikely(zip(first[::2], first[1::2], strict=True), law)


def test_two_labels_choose_independently() -> None:
    one, other = (chosen_first(100_000, 5, KeyOrder.of(SECRET, label)) for label in ("select", "aggregate"))
    law: dict[Hashable, float] = {(a, b): 1 / 25 for a in range(5) for b in range(5)}
    assert not unlikely(((a, b) for (a,), (b,) in zip(one, other, strict=True)), law)
