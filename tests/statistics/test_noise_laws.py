"""Fresh draws against the exact laws. A correct sampler fails a test here once in a million runs (Massart's bound)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Rng
from tests.helpers.false_alarms import FALSE_ALARM, cdf_distance, cdf_slack

pytestmark = pytest.mark.slow

DRAWS = 1_000_000
WRONG = Fraction(21, 20), Fraction(20, 21)
SCALES = [Fraction(1, 2), Fraction(2), Fraction(40, 3), Fraction(1000), Fraction(2**30)]


def cdf(law):
    def at(points):
        return np.array([1 - law.tail(int(point) + 1) for point in points])

    return at


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_discrete_laplace(scale):
    """And a scale that is wrong by 5 % either way is rejected."""
    draws = coarsened(Rng.system().discrete_laplace(scale, DRAWS))
    assert cdf_distance(draws, cdf(DiscreteLaplace(scale))) <= cdf_slack(DRAWS)
    for wrong in WRONG:
        assert cdf_distance(draws, cdf(DiscreteLaplace(scale * wrong))) > cdf_slack(DRAWS)


@pytest.mark.parametrize("sigma", SCALES, ids=str)
def test_discrete_gaussian(sigma):
    """And a sigma that is wrong by 5 % either way is rejected."""
    draws = coarsened(Rng.system().discrete_gaussian(sigma**2, DRAWS))
    assert cdf_distance(draws, cdf(DiscreteGaussian(sigma**2))) <= cdf_slack(DRAWS)
    for wrong in WRONG:
        assert cdf_distance(draws, cdf(DiscreteGaussian((sigma * wrong) ** 2))) > cdf_slack(DRAWS)


def coarsened(draws: np.ndarray) -> np.ndarray:
    """The law at 20,000 of its points is as good a test as at a million, and the exact tails take less time.

    Rounding down to a coarser grid keeps P[X <= x] at the last x of every cell, which is where it is compared.
    """
    width = max(1, int(np.ptp(draws)) // 20_000)
    return (draws // width) * width + width - 1


@pytest.mark.parametrize("draw", ["discrete_laplace", "discrete_gaussian"])
def test_low_bits_are_as_random_as_the_rest(draw):
    """At a huge scale every residue is equally likely; a float in the path would leave holes or steps."""
    draws = getattr(Rng.system(), draw)(2**34, DRAWS)
    slack = math.sqrt(math.log(2 * 3 / FALSE_ALARM) / (2 * DRAWS))  # three comparisons share the alarm
    for bits in (1, 4, 8):
        residues = draws & (2**bits - 1)
        uniform = (np.arange(2**bits) + 1) / 2**bits
        seen = np.cumsum(np.bincount(residues, minlength=2**bits)) / DRAWS
        assert np.abs(seen - uniform).max() <= slack


def test_neighbouring_draws_are_independent():
    """Signs of consecutive draws agree half the time (Hoeffding; false alarm once in a million)."""
    draws = Rng.system().discrete_laplace(2**20, DRAWS)
    agree = np.mean((draws[1::2] > 0) == (draws[::2] > 0))
    assert abs(agree - 0.5) <= cdf_slack(DRAWS // 2) + 1e-5
