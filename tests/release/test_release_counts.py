"""Counts of as many keys as a budget buys, refined and with statistics of the same keys."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.mechanisms.pcr import COARSEST, PrivateCountRelease, Walk
from sfumato.release import Count, Mean, Released, Sum, Units, counts_job
from sfumato.release import counts as counts_module
from sfumato.release.counts import FINEST, Counts, largest, refinements
from sfumato.release.one_release import OneRelease, choose_bound
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
    reference,
    run,
    silent,
    source_of,
)

pytestmark = pytest.mark.slow

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
        assert 1 <= row["units_low"] <= row["units"] <= row["units_high"]
        assert 3 < (row["units_high"] - row["units_low"]) / row["units_deviation"] < 6
    assert (table.statement["method"], table.statement["parameters"]["counted_by"]) == ("pcr", "pcr")
    assert sum(Fraction(step["rho"]) for step in table.statement["steps"]) == 1


counts_and_deviations = st.lists(
    st.tuples(st.integers(1, 10**7), st.floats(0.1, 1000)),
    min_size=1,
    max_size=30,
)


@settings(max_examples=20)
@given(counts_and_deviations, st.fractions(Fraction(1, 10**6), 2500, max_denominator=10**6))
def test_refining_never_spends_more_than_its_share_and_lifts_the_worst(
    rows: list[tuple[int, float]], total: Fraction
) -> None:
    counts, deviations = np.array([n for n, _ in rows]), np.array([deviation for _, deviation in rows])
    further = refinements(counts, deviations, total)
    assert all(type(amount) is Fraction and amount >= 0 and amount % FINEST == 0 for amount in further)
    assert sum(further) <= total
    assert sum(further) > total * Fraction(999, 1000) - len(rows) * FINEST
    for amount in filter(None, further):
        DiscreteGaussian(1 / amount)
    sizes = np.maximum(counts, deviations)
    before = deviations / sizes
    after = 1 / (sizes * np.sqrt(deviations**-2 + np.array([float(amount) for amount in further])))
    assert after.max() < before.max()
    # What got anything is at the level of the worst; nothing else is worse than that.
    lifted = [error for error, more in zip(after, further, strict=True) if more > 10**6 * FINEST]
    assert lifted == pytest.approx([after.max()] * len(lifted), rel=1e-3)


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
    gained: list[Fraction] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts_module, "refinements", lambda *given: gained.extend(refinements(*given)) or gained)
        run(request, source_of(ROWS_))
    assert len(gained) > 4
    assert sum(gained) / 2 == pytest.approx(5)
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
        for name in ("count", "x_sum", "x_mean", "x_variance"):
            assert row[name] == pytest.approx(expected[row["key"]][name], rel=1e-4, abs=2e-3)
        assert row["units_low"] <= expected[row["key"]]["units"] <= row["units_high"]


def test_without_a_bound_on_keys_noise_is_for_all_that_were_found() -> None:
    source, given = source_of(ROWS_), {"rho": 4, "aggregates": [Count(1)]}
    bounded, free = run(request_of(**given, max_keys=1), source), run(request_of(**given), source)
    ratio = free.rows[0]["count_deviation"] / bounded.rows[0]["count_deviation"]
    counted = 39 / 40  # what the census of what bounding drops leaves
    assert ratio == pytest.approx(math.sqrt(counted * len(free)))


@settings(max_examples=40)
@given(
    st.sampled_from(["pcr", "auto", "gaussian"]),
    st.sampled_from([None, Fraction(1, 10), 0.3]),
    st.sampled_from([None, Fraction(1, 7), 0.6]),
    st.lists(
        st.sampled_from([Count(3), Sum("x", 0, 5), Sum("y"), Mean("z"), *EVERYTHING[3:]]), max_size=4, unique=True
    ),
    st.sampled_from([None, 1, 50]),
    st.integers(1, 10**4),
)
def test_what_is_spent_adds_up_to_the_guarantee_exactly(
    method: Any, refine: Any, share: Any, aggregates: list[Any], max_keys: int | None, found: int
) -> None:
    given = {"aggregates": aggregates, "aggregates_share": share, "max_keys": max_keys} if aggregates else {}
    request = request_of(method=method, rho=Fraction(22, 7), refine=refine, auto_bounds=True, **given)
    once = OneRelease(request.counting, request.guarantee.delta, 100, request.relative_error)
    laws = request._one_release_laws(once) if method == "gaussian" else request._pcr_laws()
    for spent in (request.spendings(), request._with_statistics(laws, found)):
        assert sum(each.rho for each in spent) == Fraction(22, 7)
        assert sum(each.delta for each in spent) == request.guarantee.delta
    used = request.census + request.counting
    used += sum(share.rho for share in request._shares(found).values())
    used += sum(finder.rho for finder in request._finders(found).values())
    census = request._released_census(found)
    used += census.rho if census else 0
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
        table = run(request_of(rho=100), source_of(rows))
    assert len(table) == 40
    assert all(abs(row["units"] - 300) <= 3 * row["units_deviation"] for row in table.rows)


@pytest.mark.parametrize("rows", EMPTIES.values(), ids=EMPTIES)
def test_nothing_refuses_whatever_the_rows_are(rows: list[Row]) -> None:
    source = source_of(rows)
    request = request_of(rho=30, aggregates=LACKING[1:], auto_bounds=True, refine=0.2)
    assert len(run(request, source)) <= 1


def test_one_more_person_adds_one_to_each_of_her_counts() -> None:
    whale = [(99_999, f"k{number}", INF) for number in range(40)] * 3
    plain, seen = Walk.__init__, []

    def begin(self: Walk[int], mechanism: PrivateCountRelease, rows: list[tuple[int, int]], rng: Any) -> None:
        seen.append(sorted((n for _, n in rows), reverse=True))
        plain(self, mechanism, rows, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Walk, "__init__", begin)
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
        ({"method": "pcrr"}, "method: must be one of auto, pcr, gaussian; did you mean pcr"),
        ({"rho": 1e-12}, "rho: cannot buy a single count; give more, or a larger relative_error"),
        ({"relative_error": 1e-6}, "rho: cannot buy a single count; give more, or a larger relative_error"),
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


# --- Which method -----------------------------------------------------------------------------------------------

# 4,000 people with one key each, and 800 people with some 150 keys each.
ONE_EACH = [(person, f"k{int(400 * (person / 4000) ** 2)}", 1.0) for person in range(4000)]
MANY_EACH = [
    (person, f"k{number}", 1.0)
    for number in range(1, 2001)
    for person in np.random.default_rng(number).permutation(800)[: 30_000 // (number + 40)].tolist()
]


def counted(method: str, rows: list[Row], secret: bytes = b"s" * 32, **options: Any) -> Released:
    return run(request_of(method=method, **options), source_of(rows), secret)


def test_auto_changes_where_people_have_few_keys_and_goes_on_where_they_have_many() -> None:
    few, many = counted("auto", ONE_EACH, rho=0.3), counted("auto", MANY_EACH, rho=0.3)
    assert few.statement["parameters"]["counted_by"] == "gaussian"
    assert few.statement["parameters"]["selection_max_keys"] == 1
    assert many.statement["parameters"]["counted_by"] == "pcr"
    assert len(few) > 1.5 * len(counted("pcr", ONE_EACH, rho=0.3))
    assert len(many) > 1.5 * len(counted("gaussian", MANY_EACH, rho=0.3))


@pytest.mark.parametrize("rows", [ONE_EACH, MANY_EACH], ids=["one each", "many each"])
@pytest.mark.parametrize("method", ["auto", "gaussian", "pcr"])
def test_the_steps_of_a_statement_come_to_its_guarantee(method: str, rows: list[Row]) -> None:
    table = counted(method, rows, rho=0.3, refine=0.1, aggregates=[Count(2)], aggregates_share=0.2)
    steps = table.statement["steps"]
    assert sum(Fraction(step["rho"]) for step in steps) == Fraction(3, 10)
    assert sum(Fraction(step["delta"]) for step in steps) == Fraction(1, 10**6)
    assert table.statement["method"] == method


def test_what_the_first_passes_found_stays_released() -> None:
    """Also where the one release would not keep it."""
    rows = ONE_EACH + [(10**6 + person, "k0", 1.0) for person in range(4000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OneRelease, "release", lambda self, rows: (np.zeros(0, np.int64), _no_columns(), 99))
        table = counted("auto", rows, rho=1)
    assert table.statement["parameters"]["counted_by"] == "gaussian"
    assert "k0" in {row["key"] for row in table.rows}


def _no_columns() -> dict[str, Any]:
    kinds = {"": np.int64, "_low": np.int64, "_high": np.int64, "_deviation": np.float64}
    return {f"units{ending}": np.zeros(0, kind) for ending, kind in kinds.items()}


def test_ties_are_no_reason_to_go_on() -> None:
    """In one walk of seven, a pass finds nearly all of them at once. It used to spend more than half of the budget."""
    request = request_of(method="auto", rho=1)
    for number in range(40):
        walk = Walk(request.mechanism, [(code, 200) for code in range(300)], Rng.keyed(b"ties", bytes([number])))
        once = request._better(walk, 1)
        assert once is not None
        assert once.rho > Fraction(3, 4)


def test_a_walk_goes_on_where_one_release_would_find_nothing() -> None:
    """All keys stand out in one pass, and people have so many of them that the noise of one release is too much."""
    rows = [(person, f"k{number}", 1.0) for person in range(60) for number in range(200)]
    table = counted("auto", rows, rho=0.4, limit=200, relative_error=1)
    assert table.statement["parameters"]["counted_by"] == "pcr"


@given(st.lists(st.integers(0, 10**4), max_size=60), st.integers(1, 50), st.fractions(Fraction(1, 100), 1))
def test_a_level_is_the_lowest_with_few_counts_just_below_it(
    noisy: list[int], max_keys: int, relative_error: Fraction
) -> None:
    once = OneRelease(Fraction(1, 2), Fraction(1, 10**6), max_keys, relative_error)
    deviation = once.rule.noise.deviation
    level = once.level(np.array([n for n in noisy if n >= once.rule.threshold], np.int64))
    assert level >= max(once.rule.threshold + 2 * deviation, 1.644 * deviation / relative_error)
    candidate = 0
    for step in itertools.count():
        candidate = math.ceil(once.lowest * 2 ** (step / 8))
        below = sum(candidate - 2 * deviation <= n < candidate for n in noisy)
        if 0.15 * below <= 0.03 * sum(n >= candidate for n in noisy) + 1:
            break
    assert level == candidate


@pytest.mark.parametrize("relative_error", [Fraction(1, 100), Fraction(1, 10), Fraction(1, 5), Fraction(1, 4), 1])
@pytest.mark.parametrize("delta", [Fraction(1, 1000), Fraction(1, 10**6), Fraction(1, 10**12)])
def test_what_has_risen_above_a_level_shows_below_it(relative_error: Any, delta: Fraction) -> None:
    """For every true count: at most 7 of 100 that are shown are off, and 15 for each 100 that lie just below."""
    once = OneRelease(Fraction(1, 2000), delta, 1, Fraction(relative_error))
    deviation = once.rule.noise.deviation

    def beyond(x: float) -> float:
        return 0.5 * math.erfc(x / deviation / math.sqrt(2))

    for level in (once.lowest, 1.3 * once.lowest, 3 * once.lowest):
        for part in range(1, 400):
            count = level * part / 200
            rise, error = level - count, float(relative_error) * count
            off = beyond(max(rise, error)) + (max(beyond(rise) - beyond(-error), 0) if rise < -error else 0)
            below = beyond(rise - 2 * deviation) - beyond(rise)
            assert off <= 0.15 * below + 0.07 * beyond(rise) + 1e-9


def test_a_large_relative_error_takes_no_more_noise_than_intervals_bear() -> None:
    coarse, coarser = (request_of(relative_error=error) for error in (COARSEST, 1))
    assert coarse.mechanism == coarser.mechanism
    assert coarser.parameters["relative_error"] == "1"
    algorithms = [each.parameters["algorithm"] for each in (coarse, coarser)]
    assert algorithms == ["sfumato-counts/3", "sfumato-counts/4"]


def test_a_level_is_stated_and_what_is_released_has_reached_it() -> None:
    table = counted("gaussian", ONE_EACH, rho=0.3)
    level = table.statement["parameters"]["level"]
    assert level > table.statement["parameters"]["threshold"]
    assert min(row["units"] for row in table.rows) >= level
    # At the level itself any smaller count explains it.
    assert all(row["units_low"] == 1 for row in table.rows if row["units"] == level)


def test_what_bounding_drops_from_statistics_is_measured() -> None:
    rows = [(person, f"k{number}", 1.0) for person in range(600) for number in range(10)]
    asked: dict[str, Any] = {"rho": 10, "aggregates": [Sum("x", 0, 5)], "max_keys": 5}
    for method in ("pcr", "gaussian"):
        table = counted(method, rows, **asked)
        assert len(table) == 10
        estimand = table.estimand("x_sum")
        assert estimand.dropped is not None
        assert estimand.dropped.share == pytest.approx(0.5, abs=0.1)
        assert "too low by about" in str(estimand) or "without about" in str(estimand)
        [census] = [step for step in table.statement["steps"] if step["purpose"] == "census of released keys"]
        assert Fraction(census["rho"]) == Fraction(10) / 2 / 40
        assert sum(Fraction(step["rho"]) for step in table.statement["steps"]) == 10


def test_where_bounding_drops_nothing_from_statistics_nothing_is_spent_on_it() -> None:
    table = counted("pcr", ROWS_, rho=10, aggregates=[Sum("x", 0, 5)], max_keys=50)
    assert table.statement["bounding"] == []
    assert not [step for step in table.statement["steps"] if step["purpose"].startswith("census")]


def test_a_bound_that_drops_too_much_is_none() -> None:
    from sfumato.mechanisms.census import KeysPerPerson, bins

    many = [0] * (len(bins()) - 1) + [10**6]
    assert choose_bound(KeysPerPerson(tuple(many), DiscreteGaussian(Fraction(1))), Fraction(1, 10)) in (None, 4096)
    one = [10**6] + [0] * (len(bins()) - 1)
    assert choose_bound(KeysPerPerson(tuple(one), DiscreteGaussian(Fraction(1))), Fraction(1, 10)) == 1
