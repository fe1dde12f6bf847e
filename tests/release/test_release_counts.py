"""Counts of as many keys as a budget buys, refined and with statistics of the same keys."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.mechanisms.pcr import PrivateCount, PrivateCountRelease
from sfumato.mechanisms.random import Rng
from sfumato.release import Count, Mean, Released, Sum, Units, counts_job
from sfumato.release.counts import FINEST, Counts, largest, refinements
from tests.release.test_aggregates import (
    EMPTIES,
    EVERYTHING,
    HUGE,
    INF,
    LACKING,
    PIPELINES,
    SECRETS,
    SMALL,
    SPOILT,
    Row,
    by_key,
    reference,
    run,
    silent,
    source_of,
)

ROWS_ = [(person, f"k{number}", float(number)) for number in range(12) for person in range(3000 >> number)]


def request_of(**options: Any) -> Counts:
    request = counts_job("rows.parquet", **{"unit": "person", "key": "key", "rho": 1, "delta": 1e-6, **options}).request
    assert isinstance(request, Counts)
    return request


def test_the_table_has_counts_with_intervals_largest_first() -> None:
    table = run(request_of(), source_of(ROWS_))
    assert [*table.columns] == ["key", "units", "units_low", "units_high", "units_deviation"]
    units = [row["units"] for row in table.rows]
    assert units == sorted(units, reverse=True)
    assert [row["key"] for row in table.rows][:2] == ["k0", "k1"]
    for row in table.rows:
        exact = 3000 >> int(row["key"][1:])
        assert abs(row["units"] - exact) <= 6 * row["units_deviation"]
        width = math.ceil(1.959964 * row["units_deviation"])
        assert (row["units_low"], row["units_high"]) == (row["units"] - width, row["units"] + width)
    assert table.statement["method"] == "pcr"
    assert sum(Fraction(step["rho"]) for step in table.statement["steps"]) == 1


counts_and_variances = st.lists(
    st.tuples(st.integers(-50, 10**7), st.fractions(Fraction(1, 100), 10**6, max_denominator=1000)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=20)
@given(counts_and_variances, st.fractions(Fraction(1, 10**6), 2500, max_denominator=10**6))
def test_refining_never_spends_more_than_its_share_and_lifts_the_worst(
    rows: list[tuple[int, Fraction]], total: Fraction
) -> None:
    noisy, precisions = [Fraction(n) for n, _ in rows], [1 / variance for _, variance in rows]
    further = refinements(noisy, precisions, total)
    assert all(type(amount) is Fraction and amount >= 0 and amount % FINEST == 0 for amount in further)
    assert sum(further) <= total
    assert sum(further) > total * Fraction(999, 1000) - len(rows) * FINEST
    for amount in filter(None, further):
        DiscreteGaussian(1 / amount)

    def relative(n: Fraction, known: Fraction, more: Fraction) -> float:
        return 1 / (max(float(n), 1 / math.sqrt(known)) * math.sqrt(known + more))

    before = [relative(n, known, Fraction(0)) for n, known in zip(noisy, precisions, strict=True)]
    after = [relative(n, known, more) for n, known, more in zip(noisy, precisions, further, strict=True)]
    assert max(after) < max(before)
    # Whoever got anything is at the level of the worst; nobody else is worse than that.
    lifted = [error for error, more in zip(after, further, strict=True) if more > 10**6 * FINEST]
    assert all(error == pytest.approx(max(after), rel=1e-3) for error in lifted)


def test_refining_lowers_the_worst_relative_deviation() -> None:
    def worst(table: Released, first: int) -> float:
        wanted = {f"k{number}" for number in range(first)}
        return max(row["units_deviation"] / row["units"] for row in table.rows if row["key"] in wanted)

    source = source_of(ROWS_)
    request = request_of(rho=10, refine=0.5)
    plain, refined = run(request_of(rho=5), source), run(request, source)
    assert worst(refined, 6) < worst(plain, 6)
    assert sum(each.rho for each in request.spendings()) == 10
    assert request.mechanism.rho == 5
    for row in refined.rows:
        assert abs(row["units"] - (3000 >> int(row["key"][1:]))) <= 6 * row["units_deviation"] + 1


def test_refined_counts_have_the_precision_that_their_share_buys() -> None:
    """A person is in all of the counts, and moves each by one: precision p more costs p / 2 of rho."""
    request = request_of(rho=10, refine=0.5)
    found = [PrivateCount(place, 1000 >> place, Fraction(100), 0) for place in range(4)]
    columns = request._units(found, np.array([row.count for row in found]), Rng.keyed(b"k" * 32, b"refined"))
    gained = sum(1 / deviation**2 - 1 / 100 for deviation in columns["units_deviation"])
    assert gained / 2 == pytest.approx(5)
    assert request.mechanism.rho + Fraction(5) == request.guarantee.rho


def test_statistics_of_the_keys_that_were_found() -> None:
    """Nobody over a bound: what a loop over people finds, for these keys."""
    rows = [(person + 1000 * copy, key, x) for copy in range(20) for person, key, x in SMALL] + SPOILT
    request = request_of(rho=600, aggregates=EVERYTHING[1:], aggregates_share=0.5, max_keys=4)
    with silent():
        table = run(request, source_of(rows))
    expected = reference(rows)
    assert {row["key"] for row in table.rows} == {*expected}
    for row in table.rows:
        for name in ("units", "count", "x_sum", "x_mean", "x_variance"):
            assert row[name] == pytest.approx(expected[row["key"]][name], rel=1e-4, abs=2e-3)


def test_without_a_bound_on_keys_noise_is_for_all_that_were_found() -> None:
    source, given = source_of(ROWS_), {"rho": 4, "aggregates": [Count(1)]}
    bounded, free = run(request_of(**given, max_keys=1), source), run(request_of(**given), source)
    ratio = free.rows[0]["count_deviation"] / bounded.rows[0]["count_deviation"]
    assert ratio == pytest.approx(math.sqrt(len(free)))


@settings(max_examples=40)
@given(
    st.sampled_from([None, Fraction(1, 10), 0.3]),
    st.sampled_from([None, Fraction(1, 7), 0.6]),
    st.lists(
        st.sampled_from([Count(3), Sum("x", 0, 5), Sum("y"), Mean("z"), *EVERYTHING[3:]]), max_size=4, unique=True
    ),
    st.sampled_from([None, 1, 50]),
    st.integers(1, 10**4),
)
def test_what_is_spent_adds_up_to_the_guarantee_exactly(
    refine: Any, share: Any, aggregates: list[Any], max_keys: int | None, found: int
) -> None:
    given = {"aggregates": aggregates, "aggregates_share": share, "max_keys": max_keys} if aggregates else {}
    request = request_of(rho=Fraction(22, 7), refine=refine, auto_bounds=True, **given)
    for spent in (request.spendings(), request._spendings(found)):
        assert sum(each.rho for each in spent) == Fraction(22, 7)
        assert sum(each.delta for each in spent) == request.guarantee.delta
    used = request.mechanism.rho + request.refining
    used += sum(share.rho for share in request._shares(found).values())
    used += sum(finder.rho for finder in request._finders(found).values())
    assert used <= Fraction(22, 7)


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_no_more_keys_than_the_limit(limit: int) -> None:
    for secret in SECRETS[:1]:
        table = run(request_of(limit=limit, **HUGE), source_of(ROWS_), secret)
        assert len(table) <= limit
        assert {row["key"] for row in table.rows} <= {f"k{number}" for number in range(limit)}


@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 20))
def test_the_largest_counts_with_ties_by_code(counts: list[int], limit: int) -> None:
    found = largest(np.array(counts, np.int64), limit)
    expected = sorted(((code, n) for code, n in enumerate(counts) if n), key=lambda row: (-row[1], row[0]))
    assert found == expected[: limit + 1]


def test_ties_at_the_end_of_sight_are_never_released() -> None:
    rows = [(person, key, 1.0) for key in ("a", "b", "c", "d") for person in range(500)]
    assert len(run(request_of(limit=3, rho=100), source_of(rows))) == 0
    assert len(run(request_of(limit=4, rho=100), source_of(rows))) == 4


def test_nobodys_keys_are_bounded_and_people_count_once() -> None:
    rows = [(person, f"k{number}", 1.0) for person in range(300) for number in range(40)] * 2
    with silent():
        assert Counter(by_key(run(request_of(rho=100), source_of(rows)), "units").values()) == {300: 40}


@pytest.mark.parametrize("rows", EMPTIES.values(), ids=EMPTIES)
def test_nothing_refuses_whatever_the_rows_are(rows: list[Row]) -> None:
    source = source_of(rows)
    request = request_of(rho=30, aggregates=LACKING[1:], auto_bounds=True, refine=0.2)
    assert len(run(request, source)) <= 1


def test_one_more_person_adds_one_to_each_of_her_counts() -> None:
    whale = [(99_999, f"k{number}", INF) for number in range(40)] * 3
    plain, seen = PrivateCountRelease.release, []

    def release(self: PrivateCountRelease, rows: list[tuple[int, int]], rng: Any) -> Any:
        seen.append(sorted((n for _, n in rows), reverse=True))
        return plain(self, rows, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PrivateCountRelease, "release", release)
        for rows in (ROWS_, ROWS_ + whale):
            run(request_of(), source_of(rows))
    padded = [*seen[0], *[0] * (len(seen[1]) - len(seen[0]))]
    assert [after - before for before, after in zip(padded, seen[1], strict=True)] == [1] * 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit: must be at least 1"),
        ({"limit": 1.5}, "limit: must be a whole number"),
        ({"relative_error": 0}, "relative_error: must be greater than zero"),
        ({"relative_error": 2}, "relative_error: must be at most 1"),
        ({"refine": 1}, "refine: is a share of the budget"),
        ({"refine": 0.6, "aggregates": [Count(1)]}, "refine: and the share of the aggregates leave nothing"),
        ({"aggregates_share": 0.5}, "aggregates_share: is for aggregates"),
        ({"max_keys": 5}, "max_keys: is for aggregates"),
        ({"aggregates": [Units()]}, "aggregates: units are what this method counts"),
        ({"aggregates": [Sum("x")]}, "sum: x needs bounds"),
        ({"aggregates": ["x"]}, "aggregates: must be one of Units"),
        ({"method": "pcrr"}, "method: must be one of pcr"),
        ({"rho": 1e-12}, "rho: cannot buy a single count"),
        ({"delta": None}, "delta: is needed"),
        ({"key": ["key", "key"]}, "key: is a column, or several different ones"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        request_of(**options).check_affordable()


def test_pipelines_are_no_methods() -> None:
    for method in itertools.chain(PIPELINES, ("",)):
        with pytest.raises(InvalidArgument, match="method"):
            request_of(method=method)
