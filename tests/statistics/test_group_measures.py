"""Noise of measures of released groups against its exact law, and how often their intervals hold.

A correct mechanism fails a test here once in a million runs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.estimates import Scale, Squares
from sfumato.mechanisms.group_measures import GroupCount, GroupMean, GroupSums, GroupVariance
from sfumato.mechanisms.noise import Noise
from tests.helpers.false_alarms import cdf_distance, cdf_slack, least_mean

pytestmark = pytest.mark.slow

GROUPS = 100_000
CENTS = Scale(Fraction(0), Fraction(10), Fraction(1, 100))
EPSILON: dict[str, Any] = {"epsilon": Fraction(1, 2), "groups": None}
MEASURES: dict[str, GroupSums] = {
    "count": GroupCount(tau=3, **EPSILON),
    "mean": GroupMean(scale=CENTS, values=2, **EPSILON),
    "variance": GroupVariance(scale=CENTS, values=1, **EPSILON),
    "mean with Laplace noise": GroupMean(scale=CENTS, values=1, count_noise="laplace", **EPSILON),
}


def off(draws: np.ndarray, law: Noise) -> bool:
    """Whether draws are not from this law (Massart)."""
    return cdf_distance(draws, np.vectorize(lambda n: 1 - law.tail(int(n) + 1))) > cdf_slack(len(draws))


@pytest.mark.parametrize("name", MEASURES)
def test_each_sum_has_its_law_and_no_other(name: str) -> None:
    measure = MEASURES[name]
    zeros = [[0] * len(measure.most)] * GROUPS
    noisy = np.array(measure.release(zeros, Rng.system()))
    for column, law in zip(noisy.T, measure.laws.values(), strict=True):
        assert not off(column, law)
        assert off(column, type(law)(law.parameter * Fraction(9, 10)))


@pytest.mark.parametrize("name", ["mean", "mean with Laplace noise"])
def test_groups_and_sums_have_noise_of_their_own(name: str) -> None:
    """The products of two independent noises are 0 on average; Hoeffding, within ten deviations of each.

    Laplace noise takes one word per draw, so two sums with the same words would differ by their scales only. Gaussian
    noise takes more words where it rejects, and draws from the same words soon part.
    """
    measure = MEASURES[name]
    noisy = np.array(measure.release([[0, 0]] * GROUPS, Rng.keyed(b"k" * 32, b"c")), float)
    first, second = (column / law.deviation for column, law in zip(noisy.T, measure.laws.values(), strict=True))
    for one, other in ((first, second), (first[:-1], first[1:]), (second[:-1], second[1:])):
        products = np.clip(one, -10, 10) * np.clip(other, -10, 10)
        assert abs(products.mean()) < 200 * np.sqrt(np.log(2e6) / (2 * len(products)))
        assert abs(products.mean()) < 0.05


@pytest.mark.parametrize("people", [20, 200, 5000])
@pytest.mark.parametrize("shape", ["low", "even", "two points"])
def test_intervals_of_means_and_variances_hold(shape: str, people: int) -> None:
    """At least 93 % of the intervals hold what was counted; half as wide, too few do."""
    draw, groups = np.random.default_rng(people), 4000
    values = {
        "low": draw.integers(0, 50, people),
        "even": draw.integers(0, 1001, people),
        "two points": draw.choice([100, 900], people),
    }[shape] - 500
    sums = [people, int(values.sum()), int(Squares(CENTS.reach).of(values).sum())]
    for measure, exact in (
        (GroupMean(scale=CENTS, values=1, **EPSILON), values.mean() / 100 + 5),
        (GroupVariance(scale=CENTS, values=1, **EPSILON), values.var() / 10_000),
    ):
        noisy = measure.release([sums[: len(measure.most)]] * groups, Rng.system())
        found = measure.estimate(noisy)
        held = (found.low <= exact) & (exact <= found.high)
        assert held.mean() > least_mean(0.93, groups)
        near = np.abs(found.values - exact) <= (found.high - found.low) / 8
        if people == 5000 and isinstance(measure, GroupMean):
            assert near.mean() < 0.93
