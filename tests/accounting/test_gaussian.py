"""Exact Gaussian accounting beside an independent accountant, beside zCDP, and the other way round."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import zcdp_delta, zcdp_epsilon, zcdp_rho
from sfumato.accounting.gaussian import GaussianLoss, GaussianStep, gaussian_delta, largest_rho, smallest_variance
from sfumato.errors import InvalidArgument


def counts(variance: Fraction | float, keys: int) -> GaussianLoss:
    return GaussianLoss((GaussianStep.counts(variance, keys),))


@pytest.mark.parametrize(("sigma", "keys"), [(0.6, 1), (1.0, 1), (4.4, 1), (2.0, 3), (12.5, 8)])
def test_an_independent_accountant_agrees(sigma: float, keys: int) -> None:
    """dp-accounting composes `keys` discrete Gaussians, rounding losses up on a fine grid."""
    from dp_accounting import pld

    one = pld.privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    theirs, ours = one.self_compose(keys), counts(Fraction(sigma) ** 2, keys)
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        delta = theirs.get_delta_for_epsilon(epsilon)
        assert ours.delta(epsilon) == pytest.approx(delta, rel=0.02, abs=1e-11)
        assert ours.delta(epsilon) <= delta * (1 + 1e-3) + 1e-11


@pytest.mark.parametrize(("mu", "epsilon"), [(0.01, 0.02), (0.2, 1), (1, 3), (5, 20), (0.2, 0), (30, 600)])
def test_continuous_noise_is_the_formula_rounded_up(mu: float, epsilon: float) -> None:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert exact <= gaussian_delta(Fraction(mu) ** 2, epsilon) <= exact * (1 + mpmath.mpf(10) ** -6) + 1e-27


@settings(max_examples=30, deadline=None)
@given(st.floats(0.05, 400), st.integers(1, 40), st.floats(0, 6))
def test_never_worse_than_zcdp(variance: float, keys: int, epsilon: float) -> None:
    loss = counts(variance, keys)
    assert loss.rho == keys / (2 * Fraction(variance))
    assert loss.delta(epsilon) <= zcdp_delta(loss.rho, epsilon)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.3, 300), st.integers(1, 64), st.floats(1e-12, 0.1))
def test_epsilon_is_the_other_way_round(variance: float, keys: int, delta: float) -> None:
    loss = counts(variance, keys)
    epsilon = loss.epsilon(delta)
    assert loss.delta(epsilon) <= delta
    assert epsilon == 0 or loss.delta(epsilon * (1 - 1e-6)) > delta
    assert epsilon <= zcdp_epsilon(loss.rho, delta) * (1 + 1e-12)


@pytest.mark.parametrize("keys", [1, 8, 64, 4096])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 5e-7), (0.1, 1e-9), (8, 1e-6)])
def test_the_smallest_variance(keys: int, epsilon: float, delta: float) -> None:
    """Enough, and a thousandth less would not do; less than zCDP asks for."""
    variance = smallest_variance(epsilon, delta, keys)
    assert counts(variance, keys).delta(epsilon) <= delta < counts(variance * Fraction(999, 1000), keys).delta(epsilon)
    assert variance < keys / (2 * Fraction(zcdp_rho(epsilon, delta)))


def test_seven_percent_less_noise_at_epsilon_one() -> None:
    for keys in (1, 8, 64):
        saved = math.sqrt(smallest_variance(1, 5e-7, keys) * 2 * Fraction(zcdp_rho(1, 5e-7)) / keys)
        assert 0.92 < saved < 0.95


def test_exact_and_bound_meet_where_the_exact_sum_ends() -> None:
    """A sum of draws of variance 2^20: the exact delta, and the bound that takes over from there."""
    below, above = counts(Fraction(2**20, 64), 64), counts(Fraction(2**20, 64) + 1, 64)
    for epsilon in (0.1, 0.3, 0.6):
        assert above.delta(epsilon) == pytest.approx(below.delta(epsilon), rel=2e-3)


def test_moves_of_any_size_add_up_in_their_squares() -> None:
    one = GaussianStep(Fraction(2**41), Fraction(2**40), 64)
    four = GaussianLoss((one,) * 4)
    alone = GaussianLoss((GaussianStep(Fraction(2**41), Fraction(2**42), 256),))
    assert four.delta(2) == pytest.approx(alone.delta(2), rel=1e-9)
    assert four.rho == 4 * one.rho == 1
    assert four.delta(2) == pytest.approx(gaussian_delta(2, 2), rel=1e-4)


def test_groups_move_every_number_k_times_as_far() -> None:
    loss = counts(400, 4)
    assert loss.of_group(3).rho == 9 * loss.rho
    assert loss.of_group(1) == loss
    assert loss.of_group(3).delta(1) == pytest.approx(gaussian_delta(Fraction(9 * 4, 399), 1), rel=1e-4)
    assert loss.of_group(3).delta(1) > 100 * loss.delta(1)


def test_the_largest_rho_of_a_plan_with_a_census() -> None:
    """A twentieth for the census, the rest for counts: exact over both steps."""

    def plan(rho: Fraction) -> GaussianLoss:
        return GaussianLoss(
            (GaussianStep.counts(10 / rho, 1), GaussianStep.counts(8 / (2 * rho * Fraction(19, 20)), 8))
        )

    rho = largest_rho(plan, 1, 5e-7)
    assert plan(rho).rho == rho
    assert plan(rho).delta(1) <= 5e-7 < plan(rho * Fraction(1001, 1000)).delta(1)
    assert rho > 1.1 * Fraction(zcdp_rho(1, 5e-7))


def test_what_makes_no_sense_is_refused_by_name() -> None:
    for field, arguments in {
        "variance": (Fraction(0), Fraction(1), 1),
        "norm_squared": (Fraction(1), Fraction(0), 1),
        "coordinates": (Fraction(1), Fraction(1), 0),
    }.items():
        with pytest.raises(InvalidArgument, match=f"^{field}: "):
            GaussianStep(*arguments)
    with pytest.raises(InvalidArgument, match=r"^norm_squared: must be the number of coordinates"):
        GaussianStep(Fraction(1), Fraction(4), 1, of_people=True)
    with pytest.raises(InvalidArgument, match=r"^epsilon: must not be negative"):
        counts(1, 1).delta(-1)


def test_a_plan_that_is_chosen_on_the_way_tells_no_more_than_stated() -> None:
    """Two lists of steps: what covers both is at least each of them, and close to the larger."""
    few = [GaussianStep(Fraction(30), Fraction(1), 1), GaussianStep(Fraction(40), Fraction(1), 1)]
    many = [GaussianStep(Fraction(1920), Fraction(64), 64), GaussianStep(Fraction(40), Fraction(1), 1)]
    both = GaussianLoss.of_any([few, many])
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        each = [GaussianLoss(tuple(steps)).delta(epsilon) for steps in (few, many)]
        assert both.delta(epsilon) >= max(each) * (1 - 1e-9)
        assert both.delta(epsilon) <= gaussian_delta(Fraction(1, 29) + Fraction(1, 39), epsilon) * 1.001


def test_where_there_is_hardly_noise_no_plan_is_covered() -> None:
    assert GaussianLoss.of_any([[GaussianStep(Fraction(1), Fraction(1), 1)]]).delta(1) > 0.99


def test_a_step_is_read_as_it_was_written() -> None:
    step = GaussianStep(Fraction(7, 3), Fraction(64), 64, of_people=True)
    assert GaussianStep.from_dict(step.to_dict()) == step
    for wrong in ({"variance": "0"}, {"variance": "x"}, {"coordinates": 0}, {"norm_squared": "3"}):
        with pytest.raises((InvalidArgument, ValueError)):
            GaussianStep.from_dict({**step.to_dict(), **wrong})
