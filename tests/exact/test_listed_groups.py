"""Groups that a filter lists: what the query and the engine make of small neighbours, and the law of what is shown.

The tables are all small ones, and the newcomer has any rows: in the list, outside of it, in several groups, in none.
Counts are those that the mechanism gets on the real path; the law of its output follows from them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from sfumato.answer import _compute
from sfumato.mechanisms import KnownGumbel, Rng
from sfumato.query.plan import Plan, plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.request import TopK
from tests.helpers.claims import assert_ledger, assert_zcdp
from tests.helpers.laws import NoiseLaw, Pair, exact_delta, paired, peeling, renyi, shift_pair, with_counts

pytestmark = pytest.mark.slow

EPSILON = 1.0
LISTED = ("a", "b", "c")
NEWCOMER = 99

Rows = tuple[tuple[int, str | None], ...]
Counts = dict[tuple[str], int]

ENGINE = duckdb.connect(config={"threads": 1})


@dataclass(frozen=True)
class Spy:
    """A mechanism that shows the exact counts which it was given."""

    full: Any
    given: list[Counts]

    def release(self, exact: Counts, rng: Rng) -> Any:
        self.given.append(dict(exact))
        return self.full.release(exact, rng)


def run(query: Any) -> list[tuple[Any, ...]]:
    return ENGINE.execute(query.sql("duckdb")).fetchall()


def question(max_groups: int | None, measure: str, k: int | None = None) -> Plan:
    measures = {"people": Measure("people"), "rows": Measure("rows", "rows", max_per_unit=2)}
    table = TablePolicy("t", "unit", {"word": Column("word", max_groups=max_groups)}, measures)
    prices = Prices(Fraction(EPSILON), Fraction(1, 100))
    return plan(TopK("t", "word", measure, {"word": LISTED}, k), Policy({"t": table}), prices)


@cache
def counted(asked: Plan, rows: Rows) -> Counts:
    """The exact counts that reach the mechanism."""
    cells = [cell for row in (*rows, (None, "a"), (None, None)) for cell in row]
    places = ", ".join(["(?::INTEGER, ?::VARCHAR)"] * (len(cells) // 2))
    ENGINE.execute(f"CREATE OR REPLACE TABLE t AS SELECT * FROM (VALUES {places}) AS rows (unit, word)", cells)
    spy = Spy(asked.full, [])
    runtime: Any = SimpleNamespace(engines={"t": SimpleNamespace(run=run)}, key=bytes(32))
    _compute(replace(asked, full=spy), runtime, bytes(16))
    return spy.given[0]


def tables() -> Iterator[tuple[Rows, Rows]]:
    """Two people, and the same with one more. "z" is not in the list; the first person may have two rows of a value."""
    owns: list[tuple[str | None, ...]] = [(), ("a",), ("z",), (None,), ("a", "b"), ("b", "z")]
    newcomers: list[tuple[str | None, ...]] = [("a",), ("a",) * 3, ("z",), (None,), ("a", "b"), ("a", "z")]
    newcomers += [(*LISTED, *LISTED, "z", None)]
    for first, other in itertools.product(owns, (("a", "a"), ())):
        base = (*((1, word) for word in first), *((2, word) for word in other))
        for newcomer in newcomers:
            yield base, (*base, *((NEWCOMER, word) for word in newcomer))


SHAPES = pytest.mark.parametrize("measure", ["people", "rows"])


@SHAPES
@pytest.mark.parametrize("max_groups", [None, 1, 2, 3])
def test_a_histogram_is_worth_its_units(max_groups: int | None, measure: str) -> None:
    asked = question(max_groups, measure)
    noise, units = NoiseLaw.of(asked.mechanism.noise), asked.reserve.information
    assert (asked.mechanism.name, units) == ("known_gaussian", min(max_groups or 3, 3))
    moves = set()
    for before, after in tables():
        counts, more = counted(asked, before), counted(asked, after)
        assert counts.keys() == more.keys() == {(word,) for word in LISTED}  # whatever the rows are
        moves.add(tuple(more[key] - counts[key] for key in counts))
    assert (0, 0, 0) in moves  # a person outside of the list
    assert max(map(sum, moves)) == units * asked.mechanism.tau  # the bounds are reached, and nothing is beyond
    assert all(0 <= step <= asked.mechanism.tau for move in moves for step in move)
    pairs = [shift_pair(noise, tuple(sorted(move))) for move in moves if any(move)]
    assert_zcdp(pairs, float(units) * EPSILON**2 / 8)
    assert_ledger(pairs, units, EPSILON)


def ranking(counts: Counts, mechanism: KnownGumbel) -> dict[Any, float]:
    rate = float(mechanism.epsilon / mechanism.tau)
    return peeling({i: math.exp(rate * n) for i, n in enumerate(counts.values())}, 0.0, mechanism.k)


@SHAPES
def test_picks_are_worth_their_units(measure: str) -> None:
    asked = question(None, measure, k=1)
    assert isinstance(asked.mechanism, KnownGumbel)
    noise, units, pairs = NoiseLaw.of(asked.mechanism.noise), asked.reserve.information, list[Pair]()
    for before, after in {(tuple(counted(asked, b).items()), tuple(counted(asked, a).items())) for b, a in tables()}:
        counts, more = dict(before), dict(after)
        moved = tuple(more[key] - counts[key] for key in counts)
        pairs.append(with_counts(ranking(counts, asked.mechanism), ranking(more, asked.mechanism), moved, noise))
    assert units == 2
    assert_zcdp(pairs, float(units) * EPSILON**2 / 8)
    assert_ledger(pairs, units, EPSILON)


def test_groups_without_a_row_must_be_shown() -> None:
    """Left out, they tell who is there: with the newcomer a group appears that was not there without."""
    asked = question(None, "people")
    before: Rows = ((1, "b"),)
    laws = [
        {frozenset(key for key, n in counted(asked, rows).items() if n): 1.0} for rows in (before, (*before, (2, "a")))
    ]
    assert exact_delta(paired(*laws), 20.0) == 1.0


def test_a_bound_that_the_query_did_not_enforce_would_not_do() -> None:
    """One title per person is stated, and she has three: three counts would move for the price of one."""
    asked = question(1, "people")
    unbounded = replace(asked, counting=replace(asked.counting, max_groups=None))
    many = tuple((NEWCOMER, word) for word in LISTED)
    moved = [sum(counted(each, many).values()) for each in (asked, unbounded)]
    assert moved == [1, 3]
    noise = NoiseLaw.of(asked.mechanism.noise)
    assert renyi(shift_pair(noise, (1, 1, 1)), 2) > 2 * float(asked.reserve.information) * EPSILON**2 / 8
