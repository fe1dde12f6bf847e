"""Bounds of values: one bin for every float, exact thresholds, and an answer whatever the rows are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng
from sfumato.mechanisms.bounds import BINS, LOOSEST, STRICTEST, ZERO, NumericBounds, bins, edges, probabilities


def counted(values: list[float]) -> np.ndarray:
    return np.bincount(bins(np.array(values, np.float64)), minlength=BINS)


def belongs(value: Fraction, number: int) -> bool:
    """Open towards zero, closed away from it; the last bins take what is beyond."""
    low, high = edges(number)
    if number == ZERO:
        return low <= value <= high
    if number > ZERO:
        return low < value and (value <= high or number == BINS - 1)
    return value < high and (low <= value or number == 0)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-70, 70).map(lambda k: 2.0**k))
def test_every_float_has_one_bin(value):
    for x in (value, -value, math.nextafter(value, math.inf), math.nextafter(value, -math.inf)):
        if math.isfinite(x):
            (number,) = bins(np.array([x])).tolist()
            assert belongs(Fraction(x), number)
            assert not any(belongs(Fraction(x), other) for other in range(BINS) if other != number)


def test_floats_that_are_no_numbers_have_a_bin_too():
    assert bins(np.array([math.inf, -math.inf, math.nan, 0.0, -0.0])).tolist() == [BINS - 1, 0, ZERO, ZERO, ZERO]
    assert bins(np.empty(0)).tolist() == []


def test_bins_are_next_to_one_another():
    assert BINS == 187
    assert all(edges(i)[1] == edges(i + 1)[0] for i in range(BINS - 1))
    assert (edges(0)[0], edges(BINS - 1)[1]) == (-(2**63), 2**63)
    assert edges(ZERO) == (-Fraction(1, 2**30), Fraction(1, 2**30))


FOUND = [
    ([3.0], (2, 4)),
    ([-3.0, 0.3], (-4, Fraction(1, 2))),
    ([1.0, 2.0], (Fraction(1, 2), 2)),
    ([-1.0], (-1, Fraction(-1, 2))),
    ([0.0], (-Fraction(1, 2**30), Fraction(1, 2**30))),
    ([math.inf, -math.inf], (-(2**63), 2**63)),
    ([-5.0, 1e300], (-8, 2**63)),
]


@pytest.mark.parametrize(("values", "expected"), FOUND)
def test_with_a_large_epsilon_the_bounds_are_the_right_ones(values, expected):
    found = NumericBounds(epsilon=100, contributions=1).release(counted(values * 50), Rng.system())
    assert (found.low, found.high, found.probability, found.fell_back) == (*expected, STRICTEST, False)


@pytest.mark.parametrize("values", [[], [3.0]])
def test_no_values_or_one_fall_back(values):
    """Once in a million, an empty bin reaches the last threshold instead; a bin of one value seldom does."""
    found = NumericBounds(epsilon=Fraction(1, 10), contributions=1).release(counted(values), Rng.keyed(b"k", b"c"))
    assert (found.low, found.high, found.probability, found.fell_back) == (0, 1, LOOSEST, True)


def test_thresholds_are_the_smallest_that_hold():
    mechanism = NumericBounds(epsilon=Fraction(1, 2), contributions=3)
    for probability in probabilities():
        t = mechanism.threshold(probability)
        any_of_them = [-math.expm1(BINS * math.log1p(-mechanism.noise.tail(n))) for n in (t, t - 1)]
        assert any_of_them[0] <= probability < any_of_them[1]


def test_probabilities_are_relaxed_in_factors_of_two():
    assert [float(p) for p in probabilities()] == pytest.approx([*(2**i * 1e-9 for i in range(10)), 1e-6])


def test_relaxing_looks_at_the_same_noise_again():
    """A bin of 24 values at epsilon 1: which thresholds it reaches depends on its noise; the strictest is told."""
    mechanism = NumericBounds(epsilon=1, contributions=1)
    thresholds = {p: mechanism.threshold(p) for p in probabilities()}
    seen = []
    for run in range(60):
        rng = Rng.keyed(b"k", run.to_bytes(2, "big"))
        found = mechanism.release(counted([3.0] * 24), rng)
        more = mechanism.release(counted([3.0] * 25), rng)  # the same noise, one value more
        assert more.fell_back <= found.fell_back
        if not found.fell_back:
            assert (found.low, found.high) == (2, 4)
            assert more.probability <= found.probability
        seen.append(found.probability)
    assert STRICTEST in seen
    assert 4 <= len(set(seen)) <= len(thresholds)
    assert sorted(thresholds.values(), reverse=True) == list(thresholds.values())


def test_what_bounds_cost():
    mechanism = NumericBounds(epsilon=Fraction(1, 2), contributions=6)
    assert (mechanism.rho, mechanism.noise.scale) == (Fraction(1, 8), 12)


def test_parameters_change_the_noise_and_a_keyed_source_repeats():
    found = [
        [
            NumericBounds(epsilon=1, contributions=c).release(counted([3.0] * 24), Rng.keyed(b"k", bytes([run])))
            for run in range(20)
        ]
        for c in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("epsilon", 0), ("epsilon", 101), ("epsilon", float("nan")), ("contributions", 0), ("contributions", 2.0)],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        NumericBounds(**{"epsilon": 1, "contributions": 1} | {argument: value})


def test_noise_that_cannot_be_drawn_is_refused():
    with pytest.raises(InvalidArgument, match=r"^epsilon: asks for noise"):
        NumericBounds(epsilon=1, contributions=2**41)


@pytest.mark.parametrize("counts", [[], [1] * (BINS - 1), [-1] * BINS, [0.5] * BINS])
def test_bad_counts_are_refused(counts):
    with pytest.raises(InvalidArgument, match=r"^counts: "):
        NumericBounds(epsilon=1, contributions=1).release(counts, Rng.system())
