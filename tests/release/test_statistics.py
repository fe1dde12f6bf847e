"""What one person adds to a key is bounded whatever is in her rows; and without noise, estimates are what they say."""

from __future__ import annotations

import math
import statistics as plain
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.contributions import MAX_VALUE_STEPS, Affine, CodedRows, PairCodes
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.mechanisms.quantile_tree import QuantileTree
from sfumato.mechanisms.quantiles import Grid
from sfumato.release import Count, Mean, Quantile, Statistic, Sum, Units, Variance
from sfumato.release.bounding import KeyOrder, Pairs
from sfumato.release.request import describe
from sfumato.release.statistics.base import SummedStatistic, Sums
from sfumato.release.statistics.numeric import MAX_STEPS, STEPS, Numeric
from sfumato.release.statistics.quantile import FINE_STEPS

INF, NAN = math.inf, math.nan
ORDER = KeyOrder.of(b"a secret of these tests", "aggregate")

extremes = st.sampled_from([INF, -INF, NAN, 0.0, -0.0, 1e308, -1e308, 5e-324, 2.0**63, -(2.0**63), 1e-30])
numbers = extremes | st.floats(-1000, 1000) | st.floats()
columns = st.lists(numbers, min_size=1, max_size=12)
ends = st.fractions(-1000, 1000, max_denominator=97) | st.floats(-(2.0**99), 2.0**99).filter(
    lambda x: x == 0 or abs(x) > 2**-60
)


@st.composite
def bounds(draw: st.DrawFn) -> dict[str, Any]:
    """Bounds of any size and sign, and steps that need not divide what lies between them."""
    low, high = sorted((Fraction(draw(ends)), Fraction(draw(ends))))
    if not 2**-90 < high - low < 2**99:
        high = low + Fraction(1, 3) + abs(low) / 2**20
    steps = draw(st.none() | st.fractions(1, 2**12, max_denominator=9) | st.sampled_from([1, 2, 3, 2**30]))
    return {"low": low, "high": high, "step": None if steps is None else (high - low) / Fraction(steps)}


def pairs_of(values: Sequence[float], keys: Sequence[int] | None = None, people: Sequence[int] | None = None) -> Pairs:
    """Rows of one person and one key, unless told otherwise; NaN is no value."""
    size = len(values)
    words = np.array(people or [0] * size, np.uint64) << np.uint64(4)
    words |= np.array(keys or [0] * size, np.uint64)
    codes = PairCodes(4, Affine(0), Affine(0))
    return Pairs(CodedRows(words, codes, {"x": np.array(values, np.float64)}), order=ORDER, max_keys=16)


def made(kind: type[Statistic], **options: Any) -> Any:
    """The statistic; where its bounds are too far from zero for its step, as a sum of coarser steps."""
    wide, far = options["high"] - options["low"], max(abs(options["low"]), abs(options["high"]))
    if kind is Sum and far / (options["step"] or wide / STEPS) > MAX_VALUE_STEPS - 1:
        return Sum("x", **{**options, "step": wide}) if far / wide < MAX_VALUE_STEPS - 1 else None
    return kind("x", **options)  # type: ignore[call-arg]


@settings(max_examples=100)
@given(columns, bounds(), st.sampled_from([Sum, Mean, Variance]), st.integers(1, 5))
def test_what_one_pair_adds_to_each_sum_lies_within_its_most(
    values: list[float], given: dict[str, Any], kind: type[Statistic], most: int
) -> None:
    statistic = made(kind, **given, **({} if kind is Sum else {"values": most}))
    if statistic is None:
        return
    exact = statistic.parts(pairs_of(values), np.zeros(1, np.int64), 1)
    for array, bound in zip(exact.arrays, statistic.most.values(), strict=True):
        assert array.dtype == np.int64
        assert abs(int(array[0])) <= bound


@settings(max_examples=60)
@given(columns, bounds(), st.integers(1, 5))
def test_a_pair_adds_at_most_so_many_values_to_a_histogram(
    values: list[float], given: dict[str, Any], most: int
) -> None:
    statistic = Quantile("x", **given, values=most)
    exact = statistic.parts(pairs_of(values), np.zeros(1, np.int64), 1)
    assert exact.counts.sum() == min(most, sum(not math.isnan(value) for value in values))
    assert not len(exact.codes) or 0 <= exact.codes[0] <= exact.codes[-1] < statistic.grid.points
    points = statistic.scale.at(np.array([0, statistic.grid.points - 1]))
    assert float(statistic.scale.low) <= points[0] <= points[1] <= float(statistic.scale.high)


@given(st.integers(1, 40), st.integers(1, 50))
def test_people_and_rows_are_capped(rows: int, cap: int) -> None:
    pairs, place = pairs_of([0.0] * rows), np.zeros(1, np.int64)
    assert Units().parts(pairs, place, 1).arrays[0].tolist() == [1]
    assert Count(cap).parts(pairs, place, 1).arrays[0].tolist() == [min(rows, cap)]
    assert (Units().most, Count(cap).most) == ({"people": 1}, {"rows": cap})


@given(st.fractions(Fraction(1, 1000), 1250, max_denominator=10**6), st.integers(1, 2**20), st.integers(1, 2**20))
def test_noise_is_exactly_as_large_as_the_share_asks(rho: Fraction, max_keys: int, most: int) -> None:
    for sums in (1, 2, 3):
        law = Share(rho, max_keys).noise(most, sums)
        assert type(law.sigma_squared) is Fraction
        assert law.sigma_squared == sums * max_keys * Fraction(most) ** 2 / (2 * rho)


def test_every_sum_gets_the_noise_of_its_own_sensitivity() -> None:
    share = Share(Fraction(1, 2), 3)
    for statistic in (Units(), Count(7), Sum("x", -5, 3), Mean("x", 0, 1, values=2), Variance("x", 0, 9, values=3)):
        assert isinstance(statistic, SummedStatistic)
        laws = statistic._laws(share)
        assert {name: law.sigma_squared for name, law in laws.items()} == {
            name: len(laws) * 3 * Fraction(most) ** 2 for name, most in statistic.most.items()
        }


def test_quantiles_spend_their_share_and_no_more() -> None:
    share = Share(Fraction(1, 3), 5)
    tree = Quantile("x", 0, 1, step=0.01, values=4, quantiles=[0.1, 0.9], intervals=True)._tree(share)
    assert tree == QuantileTree(rho=Fraction(1, 3), max_keys=5, max_values=4, points=101)
    assert tree.noise.sigma_squared == tree.levels * 5 * 4**2 / (2 * Fraction(1, 3))
    for wanted in ([0.5], [0.1, 0.9], [0.25, 0.5, 0.75]):
        choices = Quantile("x", 0, 1, values=4, quantiles=wanted)._choices(share)
        assert [choice.quantile for choice in choices] == [Fraction(str(part)) for part in wanted]
        assert share.rho - Fraction(1, 2**50) < sum(choice.rho for choice in choices) <= share.rho
        assert {(choice.max_keys, choice.max_values) for choice in choices} == {(5, 4)}


@pytest.mark.parametrize("value", [INF, *(pytest.param(x, marks=pytest.mark.slow) for x in (1e300, 1e5, -1e300))])
def test_one_whale_with_a_million_rows_moves_no_sum_beyond_its_bound(value: float) -> None:
    """A row counts for at most 2^36 steps, so that a million of them cannot come round to the other side."""
    pairs, place = pairs_of([value] * 10**6), np.zeros(1, np.int64)
    total = Sum("x", -10, 10, step=Fraction(1, 2**20))
    assert total.parts(pairs, place, 1).arrays[0].tolist() == [math.copysign(10 * 2**20, value)]
    assert Count(50).parts(pairs, place, 1).arrays[0].tolist() == [50]
    people, distances = (array[0] for array in Mean("x", -10, 10, values=3).parts(pairs, place, 1).arrays)
    assert (people, abs(distances)) == (3, 3 * 2**19)


def estimated(statistic: Any, values: Sequence[float], keys: Sequence[int] | None = None) -> dict[str, Any]:
    """Its columns without noise, every row being a person of its own."""
    pairs = pairs_of(values, keys, list(range(len(values))))
    exact = statistic.parts(pairs, pairs.keys, max(keys or [0]) + 1)
    return statistic.estimate(exact.arrays, [DiscreteGaussian(Fraction(1, 2**60))] * len(exact.arrays))


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_without_noise_a_sum_a_mean_and_a_variance_are_those_of_clamped_values(values: list[float]) -> None:
    inside = [min(max(value, -20), 30) for value in values]
    assert estimated(Sum("x", -20, 30), values)["x_sum"][0] == pytest.approx(sum(inside), abs=1e-3)
    assert estimated(Mean("x", -20, 30), values)["x_mean"][0] == pytest.approx(plain.fmean(inside), abs=1e-4)
    found = estimated(Variance("x", -20, 30), values)["x_variance"][0]
    assert found == pytest.approx(plain.pvariance(inside), abs=5e-3)


@pytest.mark.parametrize("high", [1, 2, 3, 4, 5, 101])
def test_whole_numbers_in_whole_steps_are_exact(high: int) -> None:
    """Also where an odd number of steps has its middle between two of them: half a step up or down would be a guess."""
    values = [float(value) for value in (0, 0, 0, 1, high, high)]
    assert estimated(Mean("x", 0, high, step=1), values)["x_mean"][0] == pytest.approx(plain.fmean(values), abs=1e-12)
    found = estimated(Variance("x", 0, high, step=1), values)["x_variance"][0]
    assert found == pytest.approx(plain.pvariance(values), abs=1e-9)


def test_nobody_at_all_gives_numbers_within_bounds() -> None:
    nothing = [np.zeros(1, np.int64)] * 3
    assert Mean("x", 2, 4).estimate(nothing[:2], [DiscreteGaussian(1)] * 2)["x_mean"].tolist() == [3.0]
    minus = [np.array([-5]), np.array([10**7]), np.array([-(10**7)])]
    found = Variance("x", 2, 4).estimate(minus, [DiscreteGaussian(square) for square in (1, 10**12, 10**12)])
    assert 0 <= found["x_variance_low"][0] <= found["x_variance"][0] <= found["x_variance_high"][0] <= 1


@pytest.mark.parametrize("size", [0, 1, 5])
def test_every_row_of_the_table_gets_every_column(size: int, rng: Rng) -> None:
    share = Share(Fraction(1), 1)
    for statistic in (
        Units(),
        Count(3),
        Sum("x", 0, 1),
        Mean("x", 0, 1),
        Variance("x", 0, 1),
        Quantile("x", 0, 1),
        Quantile("x", 0, 1, quantiles=(0.1, 0.5)),
        Quantile("x", 0, 1, quantiles=(0.1, 0.5), intervals=True),
        Quantile("x", 0, 1, step=1, quantiles=(0.1, 0.5)),
    ):
        found = statistic.release(statistic.nothing(size), size, share, rng)
        parts = [name + ending for name in statistic.names for ending in ("", "_low", "_high", "_deviation")]
        assert [*found] == parts
        assert {len(column) for column in found.values()} == {size}


def test_parts_of_disjoint_sets_of_people_add_up() -> None:
    values, keys, people = [1.0, 2.0, NAN, 4.0, 5.0], [0, 1, 1, 2, 2], [0, 1, 2, 3, 4]
    whole = pairs_of(values, keys, people)
    halves = [pairs_of(values[part], keys[part], people[part]) for part in (slice(2), slice(2, 5))]
    for statistic in (Units(), Sum("x", 0, 9), Variance("x", 0, 9), Quantile("x", 0, 9)):
        together = statistic.parts(whole, whole.keys, 3)
        first, second = (statistic.parts(half, half.keys, 3) for half in halves)
        added = statistic.nothing(3) + first + second
        for left, right in zip(_arrays(together), _arrays(added), strict=True):
            assert left.tolist() == right.tolist()


def _arrays(exact: Any) -> tuple[Any, ...]:
    return exact.arrays if hasattr(exact, "arrays") else (exact.codes, exact.counts)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sum("x", 5, 5), "sum: the bounds of x are 5 to 5; the lower comes first"),
        (lambda: Mean("x", 9, 1), "mean: the bounds of x are 9 to 1"),
        (lambda: Sum("x", 0), "sum: x needs both bounds or neither"),
        (lambda: Sum("", 0, 1), "sum: needs the name of a column"),
        (lambda: Sum("x", 0, INF), "sum x, high: must be finite"),
        (lambda: Sum("x", "0", 1), "sum x, low: must be a number"),
        (lambda: Sum("x", 0, 1, step=0), "sum: the step of x"),
        (lambda: Sum("x", 0, 1, step=-1), "sum: the step of x"),
        (lambda: Sum("x", 0, 1, step=2), "sum: the step of x must be between"),
        (lambda: Mean("x", 0, 1, step=Fraction(1, MAX_STEPS + 1)), "mean: the step of x must be between"),
        (lambda: Mean("x", step=1), "mean: the step of x needs bounds"),
        (lambda: Sum("x", 2**60, 2**60 + 1), "sum: the bounds of x are too far from 0"),
        (lambda: Mean("x", 0, 2**110), "mean: the bounds of x are too large"),
        (lambda: Mean("x", 0, 2.0**-110), "mean: the bounds of x are too large, or too small"),
        (lambda: Count(0), "count: must be at least 1"),
        (lambda: Count(2.5), "count: must be a whole number"),
        (lambda: Mean("x", 0, 1, values=0), "values: must be at least 1"),
        (lambda: Mean("x", 0, 1, values=1001), "values: must be at most 1000"),
        (lambda: Quantile("x", 0, 1, quantiles=0), "quantile: must lie strictly between 0 and 1; ask for 0.01 or 0.99"),
        (lambda: Quantile("x", 0, 1, quantiles=1), "quantile: must lie strictly between 0 and 1; ask for 0.01 or 0.99"),
        (lambda: Quantile("x", 0, 1, step=2), "quantile: the step of x must be between"),
        (lambda: Quantile("x", step=1), "quantile: the step of x needs bounds"),
        (lambda: Quantile("x", 0, 1, quantiles=[0.5, 1.5]), "quantile: must lie strictly between 0 and 1"),
        (lambda: Quantile("x", 0, 1, quantiles=[]), "quantile: x needs 1 to 20 quantiles"),
        (lambda: Quantile("x", 0, 1, quantiles=[i / 30 for i in range(1, 30)]), "quantile: x needs 1 to 20"),
        (lambda: Quantile("x", 0, 1, quantiles=INF), "quantile: must be finite"),
        (lambda: Quantile("x", 0, 1, intervals="yes"), "intervals: must be True or False"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        make()


def test_names_and_words() -> None:
    assert Quantile("x", 0, 1, quantiles=(0.999, 0.5)).names == ("x_q50", "x_q99_9")
    assert Quantile("x", 0, 1, quantiles=0.9).quantiles == (Fraction(9, 10),)
    assert not Numeric.bounded.fget(Sum("x"))  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match="needs bounds, such as x:0:100"):
        Sum("x").scale  # noqa: B018
    for statistic in (Count(3), Sum("x", 0, 1), Quantile("x", 0, 1, values=2), Variance("x", 0, 1)):
        assert "a person" in statistic.describes


def test_noise_that_cannot_be_drawn_is_blamed_on_the_statistic() -> None:
    with pytest.raises(InvalidArgument, match="x_sum: asks for noise that cannot be drawn"):
        Sum("x", 0, 2**29, step=1).laws(Share(Fraction(1, 10**12), 2**20))
    assert "discrete Gaussian" in Sum("x", 0, 1).laws(Share(Fraction(1), 1))["total"]
    assert DiscreteGaussian(Fraction(1)).deviation == 1


@pytest.mark.parametrize(("people", "where"), [(5, 0.0), (20, 0.02), (60, 0.98), (400, 0.5)])
def test_intervals_of_a_mean_hold_for_few_people_and_means_at_a_bound(people: int, where: float) -> None:
    """False alarm: 4,000 keys whose intervals hold with 95 % miss more than 7 % of the time less than once in 10^6."""
    mean, keys = Mean("x", 0, 1), 4000
    reach = mean.scale.reach
    share = Share(Fraction(2, 25), 4)
    exact = Sums((np.full(keys, people), np.full(keys, round((2 * where - 1) * reach) * people)))
    columns = mean.release(exact, keys, share, Rng.keyed(b"k" * 32, context(test="mean", people=people)))
    low, high = (np.asarray(columns[f"x_mean_{end}"]) for end in ("low", "high"))
    assert np.mean((low <= where + 1e-6) & (where - 1e-6 <= high)) > 0.93
    assert np.all((low <= columns["x_mean"]) & (columns["x_mean"] <= high))


# --- The grid of quantiles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "step", "grid"),
    [
        ({"low": 0, "high": 5, "step": 0.5}, Fraction(1, 2), Grid(11)),
        ({"low": 1, "high": 10, "step": 2}, Fraction(2), Grid(5)),
        ({"low": -3, "high": 3.5, "step": 1}, Fraction(1), Grid(7)),
        ({"low": 0, "high": 100}, Fraction(1, 1000), Grid(100_001, 0, 4)),
        ({"low": 0, "high": 99}, Fraction(1, 10_000), Grid(990_001, 0, 4)),
        ({"low": -20, "high": 10}, Fraction(1, 10_000), Grid(300_001, -200_000, 4)),
        ({"low": 0, "high": 10**9}, Fraction(10_000), Grid(100_001, 0, 4)),
        ({"low": Fraction(1, 3), "high": 1}, Fraction(1, 10**6), Grid(666_667)),
    ],
)
def test_quantiles_lie_on_the_grid_of_the_step(given: dict[str, Any], step: Fraction, grid: Grid) -> None:
    """A step that is not given is a power of ten; then round numbers weigh more, where 0 is on the grid."""
    statistic = Quantile("x", **given)
    assert (statistic.scale.step, statistic.grid) == (step, grid)


@given(bounds())
def test_a_usual_step_is_a_power_of_ten_with_steps_enough(given: dict[str, Any]) -> None:
    low, high = given["low"], given["high"]
    scale = Quantile("x", low, high).scale
    assert FINE_STEPS <= (high - low) / scale.step < 10 * FINE_STEPS
    assert {*str(max(scale.step, 1 / scale.step))} <= {"1", "0"}


def test_values_are_those_that_were_written() -> None:
    scale = Quantile("x", 0, 1, step=0.01).scale
    assert scale.at(np.arange(101)).tolist() == [place / 100 for place in range(101)]
    assert scale.places(scale.at(np.arange(101))).tolist() == [*range(101)]
    fine = Quantile("x", 0, 1, step=Fraction(1, 3) + Fraction(1, 10**90)).scale
    assert fine.at(np.arange(3)).tolist() == pytest.approx([0, 1 / 3, 2 / 3])


@pytest.mark.parametrize(
    ("given", "wanted", "by_tree"),
    [
        ({"step": 0.5}, [0.5], False),
        ({"step": 0.5}, [0.25, 0.75], True),
        ({"step": 0.05}, [0.25, 0.5, 0.75], False),
        ({"step": 0.05}, [0.2, 0.4, 0.6, 0.8], True),
        ({}, [0.1, 0.3, 0.5, 0.7, 0.9], False),
        ({}, [i / 10 for i in range(1, 10)], True),
        ({"intervals": True}, [0.5], True),
    ],
)
def test_a_few_quantiles_are_chosen_and_many_come_from_a_tree(
    given: dict[str, Any], wanted: list[float], by_tree: bool, rng: Rng
) -> None:
    """By parameters only; which it is, is in the digest; those that are chosen have no interval, and say so."""
    statistic = Quantile("x", 0, 5, quantiles=wanted, **given)
    assert statistic.by_tree == by_tree
    [described] = describe([statistic])
    assert described["mechanism"] == ("quantile_tree/2" if by_tree else "quantile_choice/2")
    found = statistic.release(statistic.nothing(3), 3, Share(Fraction(1), 1), rng)
    ends = [found[f"{name}_{end}"] for name in statistic.names for end in ("low", "high", "deviation")]
    assert all((column == [None] * 3) is not by_tree for column in map(list, ends))
    assert ("no interval" in statistic.ends("it")[0]) is ("no interval" in statistic.spread) is not by_tree
    values = np.array([found[name] for name in statistic.names])
    assert (np.diff(values, axis=0) >= 0).all()


def test_a_quantile_of_bounds_that_are_still_to_be_found_has_its_mechanism() -> None:
    """The same as with any bounds: the digest is known before the bounds are."""
    for wanted in ([0.5], [i / 20 for i in range(1, 20)]):
        lacking = Quantile("x", quantiles=wanted)
        assert {lacking.mechanism} == {
            lacking.with_bounds(Fraction(low), Fraction(high)).mechanism for low, high in ((0, 1), (-8, 64), (0, 2**30))
        }


def test_a_quantile_of_too_many_parts_is_refused_by_a_choice_only() -> None:
    third = 0.3333333333333333
    with pytest.raises(
        InvalidArgument, match=r"^quantile: quantiles of x must be fractions of at most 1,000,000 parts"
    ):
        Quantile("x", 0, 1, quantiles=third).laws(Share(Fraction(1), 1))
    assert Quantile("x", 0, 1, quantiles=third, intervals=True).laws(Share(Fraction(1), 1))


def test_the_law_of_a_choice_says_how_far_off_it_may_be() -> None:
    law = Quantile("x", 0, 5, step=0.5).laws(Share(Fraction(1, 8), 1))["choice of a point"]
    assert law == "exponential mechanism, epsilon 1 per key, 19 times in 20 at most 6 values off"


@pytest.mark.parametrize("q", [0.01, 0.5, 0.99])
def test_equal_values_are_found(q: float, rng: Rng) -> None:
    """Ratings of one kind, zeros, and a number below zero: at this rho the median of 100 equal values is no other."""
    for value, low, high in ((3.5, 0, 5), (0.0, 0, 30), (-7.0, -10, 10)):
        for step in (0.5, None):
            statistic = Quantile("x", low, high, step=step, quantiles=q)
            pairs = pairs_of([value] * 100, people=list(range(100)))
            found = statistic.release(statistic.parts(pairs, pairs.keys, 1), 1, Share(Fraction(100), 1), rng)
            assert found[statistic.names[0]].tolist() == [value]
