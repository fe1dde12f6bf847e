"""From what a report with Gaussian noise promises to the deviations of its cells, and back."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from sfumato.accounting.gaussian import gaussian_delta
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.query.reports.shares import best_shares
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

LEVELS = [("day",), ("day", "month"), ("12h", "day", "month"), ("day", "month", "quarter", "year")]
DELTA = Fraction(1, 10**6)


def promised(levels: tuple[str, ...], cells: int, epsilon: str, delta: Fraction = DELTA) -> GaussianCells:
    return GaussianCells.of_promise(levels, cells, Fraction(epsilon), delta)


@pytest.mark.parametrize("levels", LEVELS, ids="-".join)
@pytest.mark.parametrize("epsilon", ["1/100", "1", "20", "100", *repeats([], ["1/3", "5", "42"])])
def test_the_promise_is_kept(levels, epsilon):
    """Also after deviations are rounded, and where the noise is so small that few numbers are possible."""
    for cells, delta in itertools.product((1, 2, 7, 42), (Fraction(1, 10**3), DELTA, Fraction(1, 10**15))):
        found = promised(levels, cells, epsilon, delta)
        assert found.loss(cells).delta(found.epsilon) <= delta
        assert found.epsilon_of(found.loss(cells)) == Fraction(epsilon)


@pytest.mark.parametrize("levels", LEVELS, ids="-".join)
@pytest.mark.parametrize("epsilon", ["1/100", "1", "5", "20"])
def test_less_noise_would_not_keep_it(levels, epsilon):
    found = promised(levels, 7, epsilon)
    less = {level: deviation * Fraction(99, 100) for level, deviation in found.deviations.items()}
    assert replace(found, deviations=less).loss(7).delta(found.epsilon) > DELTA


@pytest.mark.parametrize("levels", LEVELS, ids="-".join)
def test_levels_have_their_shares_of_rho(levels):
    found = promised(levels, 14, "1")
    rho = found.loss(14).rho
    for level, share in zip(levels, best_shares(levels, exponent=1), strict=True):
        assert float(14 / (2 * found.variance(level)) / rho) == pytest.approx(float(share), rel=2e-3)


def test_shares_of_a_rho_favour_days_more_than_shares_of_an_epsilon():
    assert best_shares(("day", "month"), exponent=1) == (Fraction(7, 10), Fraction(3, 10))
    assert best_shares(("day", "month")) == (Fraction(13, 20), Fraction(7, 20))


def test_deviations_have_four_digits():
    for levels, cells, epsilon in itertools.product(LEVELS, (1, 7, 500), ("1/100", "1", "20")):
        for deviation in promised(levels, cells, epsilon).deviations.values():
            assert float(deviation) == float(f"{float(deviation):.4g}")


@pytest.mark.parametrize(("versions", "events"), [(2, 1), (5, 1), (1, 3), (2, 20)])
def test_versions_add_up_and_events_of_a_person_count_squared(versions, events):
    """Against the formula of continuous noise, from which discrete noise of this size differs by less than 1 %."""
    found = promised(("day", "month"), 14, "1")
    loss = found.loss(14 * versions, events)
    assert loss.rho == versions * events**2 * found.loss(14).rho
    epsilon = float(found.epsilon_of(loss))
    assert gaussian_delta(2 * loss.rho, epsilon) <= float(DELTA) < gaussian_delta(2 * loss.rho, 0.99 * epsilon)


def test_a_person_with_any_number_of_events_has_some_epsilon():
    found = promised(("day",), 1000, "100")
    told = found.epsilon_of(found.loss(1000 * 1000, 10**9))
    assert math.isfinite(told)
    assert told > found.loss(1000 * 1000, 10**9).rho
