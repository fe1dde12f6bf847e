"""Intervals of kept counts hold as often as they say, given that the count was kept."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import DiscreteGaussian, GaussianRule, Rng
from sfumato.mechanisms.intervals import _SLACK, NORMAL_95, _table, selected_interval
from tests.helpers.false_alarms import cdf_slack

# Deviation and threshold, the latter about where a delta of 1e-5 puts it.
SETTINGS = [(0.5, 4), (1.0, 6), (2.0, 10), (3.0, 14), (10.0, 45), (100.0, 440), (1000.0, 4400)]


def counts_about(threshold: int, deviation: float) -> list[int]:
    steps = np.array([-4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8])
    return sorted({1, 2, *np.maximum(threshold + steps * deviation, 1).astype(int).tolist()})


def coverage(count: int, threshold: int, deviation: float) -> float:
    """Exactly: the share of what is kept, for discrete Gaussian noise, whose interval holds the count."""
    noisy = np.arange(threshold, threshold + max(count - threshold, 0) + int(14 * deviation) + 2)
    exponents = -(((noisy - count) / deviation) ** 2) / 2
    masses = np.exp(exponents - exponents.max())
    low, high = selected_interval(noisy, threshold, deviation)
    return float(masses[(low <= count) & (count <= high)].sum() / masses.sum())


@pytest.mark.parametrize(("deviation", "threshold"), SETTINGS)
def test_coverage_given_that_the_count_was_kept(deviation, threshold):
    """95 % at least; and, where counts are fine enough for it, no more than is due to n >= 1 (97.5 %)."""
    for count in counts_about(threshold, deviation):
        assert coverage(count, threshold, deviation) >= 0.95
        if deviation >= 100:
            assert coverage(count, threshold, deviation) <= 0.977


def test_the_usual_interval_would_not_do():
    """Two deviations below the threshold a count is kept if its noise is high: the usual interval misses it."""
    noisy = 25 + np.rint(10 * np.linspace(2, 6, 4001)).astype(np.int64)
    usual = noisy - 25 <= NORMAL_95 * 10
    weights = np.exp(-(((noisy - 25) / 10) ** 2) / 2)
    assert (weights * usual).sum() / weights.sum() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "max_keys"), [(Fraction(1, 2), 8), (Fraction(1, 10), 64)])
def test_coverage_of_what_a_rule_keeps(rho, max_keys):
    """Fresh noise on many keys for each of ten counts: on more of them where few are kept.

    Hoeffding, one-sided: where coverage is 95 % or more, each count alarms with 2.4e-8, and all of them with 2.4e-7.
    """
    rule, rng = GaussianRule(total=rho, delta=Fraction(1, 10**4), max_keys=max_keys), Rng.system()
    deviation = rule.noise.deviation
    for steps in (-2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 2, 4):
        count = max(int(rule.threshold + steps * deviation), 1)
        selection = rule.select(np.full(1_500_000 if steps <= -2 else 300_000, count), rng)
        low, high = selected_interval(selection.counts, rule.threshold, deviation)
        covered = np.mean((low <= count) & (count <= high))
        assert covered >= 0.95 - cdf_slack(len(selection.kept)) * 1.1


def test_far_above_the_threshold_it_is_the_usual_interval():
    noisy = np.array([45 + 61, 45 + 100, 10_000])
    low, high = selected_interval(noisy, 45, 10.0)
    assert (noisy - low).tolist() == (high - noisy).tolist() == [20, 20, 20]  # 19.6, and half a count to either side
    low, high = selected_interval(noisy * 10**9, 45 * 10**9, 1e10)
    assert (noisy * 10**9 - low) / 1e10 == pytest.approx([NORMAL_95] * 3, abs=2e-4)
    assert (high - noisy * 10**9) / 1e10 == pytest.approx([NORMAL_95] * 3, abs=2e-4)


def test_ends_rise_with_the_noisy_count_and_never_fall_below_one():
    for deviation, threshold in SETTINGS:
        noisy = np.arange(threshold, threshold + int(12 * deviation) + 3)
        low, high = selected_interval(noisy, threshold, deviation)
        assert low.min() == 1
        assert (np.diff(low) >= 0).all()
        assert (np.diff(high) >= 0).all()
        assert (low <= high).all()
        assert (low <= noisy).all()


def test_it_depends_on_the_distance_from_the_threshold_only():
    above = np.arange(30, 200)
    for shift in (1000, 10**6):
        moved = selected_interval(above + shift, shift, 20.0)
        more = selected_interval(above + 2 * shift, 2 * shift, 20.0)
        assert [(end + shift).tolist() for end in moved] == [end.tolist() for end in more]


@pytest.mark.parametrize("tail", [0.025, 0.975])
def test_the_table_solves_its_equation_and_rises(tail):
    means, places = _table(tail)
    assert (np.diff(places) > 0).all()
    for i in range(0, len(means), 100):
        assert kept_share(places[i], means[i]) == pytest.approx(tail, rel=1e-9)
    # Between two entries the line between them is off by less than the slack.
    middles = (places[:-1] + places[1:]) / 2
    for i in range(0, len(middles), 100):
        mean, width = (means[i] + means[i + 1]) / 2, _SLACK / 2
        assert kept_share(middles[i], mean - width) < tail < kept_share(middles[i], mean + width)


def kept_share(place: float, mean: float) -> float:
    """P[Y >= place | Y >= 0], for Y of this mean and deviation 1, in long numbers."""
    with mpmath.workdps(40):
        return float(mpmath.ncdf(mean - mpmath.mpf(place)) / mpmath.ncdf(mpmath.mpf(mean)))


def test_no_counts():
    low, high = selected_interval(np.empty(0, np.int64), 5, DiscreteGaussian(Fraction(4)).deviation)
    assert (len(low), len(high), low.dtype, high.dtype) == (0, 0, np.int64, np.int64)


@pytest.mark.parametrize(
    ("noisy", "threshold", "deviation", "argument"),
    [
        (np.array([4]), 5, 1.0, "noisy"),
        (np.array([4.0]), 1, 1.0, "noisy"),
        ([4], 1, 1.0, "noisy"),
        (np.array([4]), 1, 0.0, "deviation"),
        (np.array([4]), 1, float("nan"), "deviation"),
        (np.array([4]), 1.5, 1.0, "threshold"),
    ],
)
def test_bad_arguments_are_refused_by_name(noisy, threshold, deviation, argument):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        selected_interval(noisy, threshold, deviation)
