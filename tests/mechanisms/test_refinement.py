"""Refining a count costs what the accuracy costs, and no more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import DiscreteGaussian, RefinedCount, Rng, context, measure_count, refine
from tests.helpers.false_alarms import cdf_distance, cdf_slack

shares = st.fractions(min_value=Fraction(1, 100), max_value=20)


@given(st.lists(shares, min_size=1, max_size=5), st.integers(0, 1000))
def test_measurements_add_up_to_one_of_their_total_price(units, count):
    at = {"epsilon": Fraction(1, 2), "tau": 3}
    parts = [
        measure_count(count, units=share, refinement=i, rng=Rng.keyed(b"k", b"c"), **at)
        for i, share in enumerate(units)
    ]
    together, at_once = refine(*parts), measure_count(count, units=sum(units), rng=Rng.keyed(b"k", b"c"), **at)
    assert together.charge == at_once.charge == Charge(sum(units))
    assert together.precision == at_once.precision


def test_the_average_is_weighted_by_precision():
    coarse, fine = (
        RefinedCount(Fraction(100), Fraction(1), Charge(1)),
        RefinedCount(Fraction(110), Fraction(9), Charge(9)),
    )
    assert (coarse & fine) == RefinedCount(Fraction(109), Fraction(10), Charge(10))


def test_one_unit_is_the_noise_of_one_unit():
    estimate = measure_count(50, epsilon=0.15, rng=Rng.system())
    assert 1 / estimate.precision == (2 / Fraction(0.15)) ** 2
    assert estimate.deviation == pytest.approx(13.333, abs=1e-3)
    assert estimate.error95 == 27


def test_the_noise_grows_with_what_one_person_can_add():
    one, seven = (measure_count(50, epsilon=0.15, tau=tau, rng=Rng.system()) for tau in (1, 7))
    assert one.precision == 49 * seven.precision


@pytest.mark.slow
def test_a_measurement_has_the_law_it_states():
    """20,000 measurements of deviation 4; false alarm once in a million (Massart)."""
    rng, law = Rng.keyed(b"k" * 32, b"law"), DiscreteGaussian(Fraction(16))
    draws = np.array([int(measure_count(1000, epsilon=0.5, rng=rng.child(i=i)).value) - 1000 for i in range(20_000)])
    assert cdf_distance(draws, lambda x: np.array([1 - law.tail(int(v) + 1) for v in x])) <= cdf_slack(20_000)


def test_refinements_of_one_source_do_not_share_noise():
    rng = Rng.keyed(b"k", context(count="a"))
    values = {measure_count(0, epsilon=0.001, refinement=i, rng=rng).value for i in range(20)}
    assert len(values) == 20


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0),
        ("units", -1),
        ("units", float("nan")),
        ("units", 1e-50),
        ("tau", 0),
        ("refinement", -1),
        ("count", -1),
        ("count", 0.5),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    arguments = {"count": 3, "epsilon": 1} | {argument: value}
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        measure_count(**arguments, rng=Rng.system())


def test_nothing_cannot_be_refined():
    with pytest.raises(InvalidArgument, match=r"^estimates: "):
        refine()
