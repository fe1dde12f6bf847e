"""Weighted selection: whole weights, exact thresholds, and refusals by name."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import GaussianRule, Rng, WeightedRule, key_weights, select_weighted
from sfumato.mechanisms.weighted_selection import MAX_DEGREE, SCALE

DELTA = Fraction(1, 10**6)


def test_nobody_weighs_more_than_one_key_does() -> None:
    weights = key_weights(5000)
    keys = np.arange(5001)
    assert (keys * weights**2 <= SCALE**2).all()
    assert (keys[1:] * (weights[1:] + 1) ** 2 > SCALE**2).all()
    assert weights[:5].tolist() == [0, SCALE, math.isqrt(2**39), math.isqrt(2**40 // 3), SCALE // 2]


def test_the_threshold_is_the_largest_that_any_number_of_keys_needs() -> None:
    rule = WeightedRule(total=Fraction(1, 40), delta=DELTA, max_keys=100)
    needed = [
        int(rule.weights[keys]) + rule.noise.smallest_tail(-math.expm1(math.log1p(-1e-6) / keys))
        for keys in range(1, 101)
    ]
    assert 0 <= rule.threshold - max(needed) <= 2


def test_one_key_per_person_needs_what_the_plain_rule_needs() -> None:
    plain = GaussianRule(total=Fraction(1, 40), delta=DELTA, max_keys=1)
    weighted = WeightedRule(total=Fraction(1, 40), delta=DELTA, max_keys=1)
    assert weighted.threshold / SCALE == pytest.approx(plain.threshold, abs=1)
    assert weighted.noise.deviation / SCALE == pytest.approx(plain.noise.deviation)


def test_a_thousand_keys_per_person_are_no_trouble() -> None:
    small, large = (WeightedRule(total=Fraction(1, 40), delta=DELTA, max_keys=most) for most in (8, MAX_DEGREE))
    assert 1.05 < large.threshold / small.threshold < 1.5


def test_keys_without_people_are_never_kept_and_popular_ones_always() -> None:
    sums = np.array([0] * 5000 + [SCALE * 10_000] * 50)
    selection = select_weighted(sums, rho=0.02, delta=1e-6, max_keys=64, rng=Rng.system())
    assert selection.kept.tolist() == list(range(5000, 5050))
    assert selection.counts is None
    assert (selection.rho, selection.delta) == (Fraction(0.02), Fraction(1e-6))


def test_a_keyed_source_repeats_and_parameters_change_the_noise() -> None:
    sums = SCALE * (np.arange(200) % 60)
    kept = [
        select_weighted(sums, rho=0.02, delta=1e-6, max_keys=most, rng=Rng.keyed(b"k", b"c")).kept.tolist()
        for most in (4, 4, 5)
    ]
    assert kept[0] == kept[1] != kept[2]


@pytest.mark.parametrize(
    ("argument", "value"), [("delta", 0), ("delta", 1), ("max_keys", 0), ("max_keys", 2**17), ("rho", 0), ("rho", -1)]
)
def test_bad_arguments_are_refused_by_name(argument: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        select_weighted(np.array([3]), **{"rho": 0.1, "delta": 1e-3, "max_keys": 2, argument: value}, rng=Rng.system())


@pytest.mark.parametrize("sums", [[-1], [0.5], ["a"], [[1]], [2**60]], ids=str)
def test_bad_sums_are_refused(sums) -> None:
    with pytest.raises(InvalidArgument, match=r"^counts: "):
        select_weighted(sums, rho=0.1, delta=1e-3, max_keys=2, rng=Rng.system())
