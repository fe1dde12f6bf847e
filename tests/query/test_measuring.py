"""The exact numbers behind measures of values: what DuckDB computes is the definition, and one person moves little."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.mechanisms.estimates import Squares
from sfumato.mechanisms.group_measures import GroupMean, GroupVariance
from sfumato.query.counting import Counting, count_query
from sfumato.query.measuring import measure_query
from sfumato.query.policy import Bounds, Measure, ValueMeasure
from sfumato.query.predicate import EVERYTHING
from tests.helpers.duckdb_tables import write

Row = tuple[int | None, str | None, float | None]

BOUNDS = {
    "cents": Bounds(Fraction(0), Fraction(2), Fraction(1, 100), 2),
    "around zero": Bounds(Fraction(-3), Fraction(2), Fraction(1, 2), 1),
    "above zero": Bounds(Fraction(10), Fraction(11), Fraction(1, 4), 3),
    "wide": Bounds(Fraction(0), Fraction(10**6), Fraction(1, 1000), 1),
}
NUMBERS = (
    None,
    math.nan,
    math.inf,
    -math.inf,
    1e300,
    -1e300,
    0.005,
    0.015,
    -0.25,
    0.25,
    0.75,
    1.5,
    10.125,
    10.375,
    5e5,
)


def rows(seed: int, people: int = 30) -> list[Row]:
    draw = random.Random(seed)
    made: list[Row] = []
    for person in range(people):
        cells = [(draw.choice("abc"), draw.choice([*NUMBERS, draw.uniform(-4, 12)])) for _ in range(draw.randrange(9))]
        made += [(person, key, value) for key, value in cells]
    return [*made, (None, "a", 1.0), (1, None, 1.0)]


def steps(value: float | None, bounds: Bounds) -> int | None:
    """The whole number of steps that a value counts as."""
    if value is None or not math.isfinite(value) or abs(value) > 1e30:
        return None
    clamped = min(max(value, float(bounds.low)), float(bounds.high))
    return round(clamped / float(bounds.step))  # Python rounds half to even, too


def kept_groups(data: Sequence[Row], max_groups: int | None) -> dict[tuple[int, str], list[float | None]]:
    """The rows of each person and group, of the groups that count for the person."""
    pairs: dict[tuple[int, str], list[float | None]] = defaultdict(list)
    for person, key, value in data:
        if person is not None and key is not None:
            pairs[person, key].append(value)
    if max_groups is None:
        return pairs
    kept = {}
    for person in {person for person, _ in pairs}:
        own = sorted((pair for pair in pairs if pair[0] == person), key=lambda pair: (-len(pairs[pair]), pair[1]))
        kept |= {pair: pairs[pair] for pair in own[:max_groups]}
    return kept


def average(total: int, number: int, most: int) -> int:
    """A person's sum, as it is of `most` values where there are more; halves up."""
    return total if number <= most else math.floor(Fraction(total * most, number) + Fraction(1, 2))


def expected_sums(data: Sequence[Row], bounds: Bounds, max_groups: int | None) -> dict[str, tuple[int, ...]]:
    """From the definition: values, distances from the middle, and squares, by group."""
    (low, high), squares, most = bounds.scale.ends, Squares(bounds.scale.reach), bounds.max_per_unit
    middle, found = low + (high - low) // 2, dict[str, np.ndarray]()
    for (_, key), values in kept_groups(data, max_groups).items():
        places = [place for value in values if (place := steps(value, bounds)) is not None]
        used = min(len(places), most)
        above = average(sum(place - low for place in places), len(places), most)
        square = squares.of(np.array([place - middle for place in places], np.int64)) + squares.most
        own = [used, above - used * (middle - low), average(int(square.sum()), len(places), most) - used * squares.most]
        found[key] = found.get(key, np.zeros(3, np.int64)) + np.array(own)
    return {key: tuple(sums.tolist()) for key, sums in found.items()}


def expected_points(data: Sequence[Row], bounds: Bounds, max_groups: int | None) -> dict[tuple[str, int], int]:
    """From the definition: of n values those at the c even distances in their order."""
    found: Counter[tuple[str, int]] = Counter()
    for (_, key), values in kept_groups(data, max_groups).items():
        places = sorted(place for value in values if (place := steps(value, bounds)) is not None)
        number, most = len(places), bounds.max_per_unit
        for j, place in enumerate(places, 1):
            passed = [math.floor(Fraction(each * most, max(number, 1)) + Fraction(1, 2)) for each in (j, j - 1)]
            if number <= most or passed[0] > passed[1]:
                found[key, place - bounds.scale.ends[0]] += 1
    return dict(found)


def engine(tmp_path: Any, data: Iterable[Row]) -> DuckDBEngine:
    path = write(tmp_path / "rows.parquet", [*data], {"unit": "integer", "key": "text", "x": "number"})
    return DuckDBEngine({"events": str(path)})


def counting(max_groups: int | None, keys: tuple[str, ...] = ("key",)) -> Counting:
    return Counting(
        "events", "unit", keys, EVERYTHING, Measure("rows", "rows"), max_groups, None, (), ("text",) * len(keys)
    )


def measure(function: Any, bounds: Bounds) -> ValueMeasure:
    return ValueMeasure("a measure", function, "x", bounds, Fraction(1, 2))


@pytest.mark.parametrize("name", BOUNDS)
def test_sums_and_points_are_those_of_the_definition(name: str, tmp_path: Any) -> None:
    bounds, data = BOUNDS[name], rows(3)
    with engine(tmp_path, data) as duckdb:
        for max_groups in (None, 1, 2):
            of_keys = counting(max_groups)
            sums = {row[0]: row[1:] for row in duckdb.run(measure_query(of_keys, measure("variance", bounds)))}
            assert sums == expected_sums(data, bounds, max_groups)
            means = {row[0]: row[1:] for row in duckdb.run(measure_query(of_keys, measure("mean", bounds)))}
            assert means == {key: each[:2] for key, each in sums.items()}
            points = {row[:2]: row[2] for row in duckdb.run(measure_query(of_keys, measure("quantile", bounds)))}
            assert points == expected_points(data, bounds, max_groups)
        of_all = [(person, "all", value) for person, key, value in data if key is not None or person is not None]
        [total] = duckdb.run(measure_query(counting(None, ()), measure("variance", bounds)))
        assert total == expected_sums(of_all, bounds, None)["all"]


@pytest.mark.parametrize("name", BOUNDS)
def test_sums_of_a_column_are_clamped_per_person(name: str, tmp_path: Any) -> None:
    bounds, data = BOUNDS[name], rows(4)
    low, high = bounds.total
    summed = Measure("SUM(x)", "sum", "x", max(-low, high), bounds)
    expected: Counter[str] = Counter()
    for (_, key), values in kept_groups(data, None).items():
        expected[key] += min(max(sum(steps(value, bounds) or 0 for value in values), low), high)
    with engine(tmp_path, data) as duckdb:
        found = dict(duckdb.run(count_query(replace(counting(None), measure=summed))))
    assert found == dict(expected)


def test_rows_with_a_value_are_counted(tmp_path: Any) -> None:
    data: list[Row] = [(1, "a", 1.0), (1, "a", None), (1, "a", 2.0), (1, "a", 3.0), (2, "a", None), (2, "b", 1.0)]
    with engine(tmp_path, data) as duckdb:
        rows_of_x = replace(counting(None), measure=Measure("COUNT(x)", "rows", "x", 2))
        assert dict(duckdb.run(count_query(rows_of_x))) == {"a": 2, "b": 1}


def people_of_one(values: Sequence[float | None]) -> list[list[Row]]:
    """All rows that one more person may have: up to three, of two groups."""
    cells = [("a", value) for value in values] + [("b", values[0])]
    return [
        [(99, key, value) for key, value in chosen]
        for size in (1, 2, 3)
        for chosen in itertools.combinations_with_replacement(cells, size)
    ]


@pytest.mark.parametrize("name", ["around zero", "above zero", "cents"])
def test_one_person_moves_each_sum_by_no_more_than_the_noise_is_made_for(name: str, tmp_path: Any) -> None:
    """All rows that one more person may have, beside some others: within `most`, reached, and in few groups."""
    bounds, others = BOUNDS[name], rows(5, people=4)
    values = [float(bounds.low) - 9, float(bounds.high) + 9, float(bounds.low + bounds.step), None, math.nan]
    common: Mapping[str, Any] = {
        "epsilon": Fraction(1),
        "groups": 1,
        "scale": bounds.scale,
        "values": bounds.max_per_unit,
    }
    mechanisms = {"mean": GroupMean(**common), "variance": GroupVariance(**common)}
    most = {function: [*mechanism.most.values()] for function, mechanism in mechanisms.items()}
    cases = people_of_one(values)
    data = [
        (100 * case + person, f"{key} {case}", value)
        for case, one in enumerate(cases)
        for person, key, value in ([*others, *one])
        if person is not None and key is not None
    ]
    with engine(tmp_path, data) as duckdb:
        for function, limits in most.items():
            found = {row[0]: row[1:] for row in duckdb.run(measure_query(counting(1), measure(function, bounds)))}
            before = {key: sums[: len(limits)] for key, sums in expected_sums(others, bounds, 1).items()}
            reached = [0] * len(limits)
            for case in range(len(cases)):
                zero = (0,) * len(limits)
                moved = [np.subtract(found.get(f"{key} {case}", zero), before.get(key, zero)).tolist() for key in "abc"]
                assert sum(map(any, moved)) <= 1
                assert all(abs(each) <= limit for sums in moved for each, limit in zip(sums, limits, strict=True))
                reached = [max(old, *map(abs, new)) for old, new in zip(reached, zip(*moved, strict=True), strict=True)]
            assert reached[:2] == limits[:2]
