"""Units and calls as (epsilon, delta): the published numbers, an independent accountant, and the exact truth."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom

from sfumato.accounting import (
    approximate_zcdp_epsilon,
    bounded_range_to_zcdp,
    epsilon,
    pure_to_zcdp,
    units,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from sfumato.errors import InvalidArgument

STEP, STEPS = 0.15, 3000
RHO = STEPS * STEP**2 / 8

rhos = st.floats(1e-6, 50)
deltas = st.floats(1e-12, 0.1)


def gaussian_delta(rho: float, at: float) -> float:
    """The exact delta of a Gaussian mechanism of this rho (Balle and Wang 2018)."""
    mu = math.sqrt(2 * rho)
    return math.exp(log_ndtr(mu / 2 - at / mu)) - math.exp(at + log_ndtr(-mu / 2 - at / mu))


# ---- the durable table -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "theorem2", "tight"), [(1e-9, 34.884, 33.782), (4e-9, 33.984, 32.861)])
def test_conversions_of_the_table(delta, theorem2, tight):
    assert zcdp_epsilon(RHO, delta, "bun-steinke") == pytest.approx(theorem2, abs=5e-4)
    assert zcdp_epsilon(RHO, delta) == pytest.approx(tight, abs=5e-4)


def test_the_budget_of_the_published_system():
    budget = (STEPS, 30, STEP, 1e-10, 7e-9)
    assert epsilon(*budget, method="theorem2") == pytest.approx(34.884, abs=5e-4)
    assert epsilon(*budget) == pytest.approx(32.861, abs=5e-4)
    assert units(34.884, 30, STEP, 1e-10, 7e-9) == 3294
    assert units(34.8839, 30, STEP, 1e-10, 7e-9, method="theorem2") == 3000


@pytest.mark.parametrize(("delta", "expected"), [(1e-9, 32.461), (4e-9, 31.511)])
def test_if_every_unit_were_gaussian(delta, expected):
    exact = brentq(lambda at: gaussian_delta(RHO, at) - delta, 0, 100)
    assert exact == pytest.approx(expected, abs=5e-4)
    assert exact <= zcdp_epsilon(RHO, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "expected"), [(1e-9, 32.434), (4e-9, 31.487)])
def test_the_non_adaptive_optimum_of_bounded_range(delta, expected):
    """3000 equal steps whose loss is t or t - epsilon_per, at the worst t (Dong, Durfee, Rogers 2020)."""
    worst = max(
        brentq(lambda at, t=t: two_point_delta(t, at) - delta, 0, 200) for t in np.linspace(0.0784, 0.0787, 121)
    )
    assert worst == pytest.approx(expected, abs=2e-3)
    assert worst <= zcdp_epsilon(RHO, delta)


def two_point_delta(t: float, at: float) -> float:
    """Loss t with probability p under one law and q under the other, and t - STEP otherwise, STEPS times."""
    p = (math.exp(-(t - STEP)) - 1) / (math.exp(-(t - STEP)) - math.exp(-t))
    high = np.arange(STEPS + 1)
    loss = high * t + (STEPS - high) * (t - STEP)
    gain = np.maximum(0, -np.expm1(np.minimum(at - loss, 0)))
    return float(np.sum(binom.pmf(high, STEPS, p) * gain))


@pytest.mark.slow
def test_the_adaptive_optimum_of_bounded_range():
    """d_j(x) = sup_t p_t d_{j-1}(x - t) + (1 - p_t) d_{j-1}(x - t + step), on a grid of 40 values of t.

    A grid approaches the supremum from below, so this is a number to compare with and not a guarantee.
    """
    points = 40
    width = STEP / points
    x = np.arange(round(-25 / width), round(55 / width)) * width
    d = np.maximum(0, -np.expm1(np.minimum(x, 0)))
    shifts = np.arange(1, points)
    p = np.expm1(STEP - shifts * width) / (np.exp(STEP - shifts * width) - np.exp(-shifts * width))
    for _ in range(STEPS):
        d = bounded_range_step(d, shifts, p, points)
    found = [np.interp(math.log(delta), np.log(d[::-1] + 1e-300), x[::-1]) for delta in (1e-9, 4e-9)]
    assert found == pytest.approx([32.440, 31.490], abs=2e-3)
    assert found[1] <= epsilon(STEPS, 30, STEP, 1e-10, 7e-9)


def bounded_range_step(d: np.ndarray, shifts: np.ndarray, p: np.ndarray, points: int) -> np.ndarray:
    """One application of the supremum; d is nearly 1 below the grid and nearly 0 above it."""
    padded = np.concatenate([np.full(points, d[0]), d, np.zeros(points)])
    best = d
    for shift, share in zip(shifts, p, strict=True):
        lower = padded[points - shift : points - shift + len(d)]
        upper = padded[2 * points - shift : 2 * points - shift + len(d)]
        best = np.maximum(best, share * lower + (1 - share) * upper)
    return best


# ---- an independent accountant, and the truth ------------------------------------------------------------------


@given(rhos, deltas)
def test_the_conversion_is_that_of_dp_accounting(rho, delta):
    """Ours searches all orders, theirs a list: ours is never worse, and theirs agrees at its best order."""
    from dp_accounting import rdp

    orders = (1 + np.exp(np.linspace(-6, 12, 400))).tolist()
    theirs, _ = rdp.compute_epsilon(orders, [order * rho for order in orders], delta)
    ours = zcdp_epsilon(rho, delta)
    assert ours <= theirs * (1 + 1e-9)
    assert ours == pytest.approx(theirs, rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("count", [1, 30, 400])
def test_gaussian_composition_lies_above_the_exact_accountant(count):
    """A PLD accountant of `count` Gaussians of one unit each: tighter than zCDP, and never above it."""
    from dp_accounting import dp_event, pld

    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(2 / STEP), count))
    exact = accountant.get_epsilon(1e-6)
    assert exact <= epsilon(count, 0, STEP, 0, 1e-6) <= 1.25 * exact + 0.1


@given(rhos, deltas)
def test_a_gaussian_keeps_every_conversion(rho, delta):
    for conversion in ("optimal", "bun-steinke"):
        assert gaussian_delta(rho, zcdp_epsilon(rho, delta, conversion)) <= delta * (1 + 1e-9)


@given(rhos, st.floats(0, 60))
def test_delta_is_the_other_way_round(rho, at):
    delta = zcdp_delta(rho, at)
    assert gaussian_delta(rho, at) <= delta * (1 + 1e-9) + 1e-15
    if 1e-250 < delta < 0.5:
        assert zcdp_epsilon(rho, delta) == pytest.approx(at, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@given(st.floats(0.01, 50), deltas)
def test_rho_is_the_other_way_round(at, delta):
    rho = zcdp_rho(at, delta)
    assert zcdp_epsilon(rho, delta) <= at
    assert zcdp_epsilon(rho * (1 + 1e-9) + 1e-300, delta) == pytest.approx(at, rel=1e-6)


@given(st.integers(0, 5000), st.integers(0, 20), st.floats(0.01, 1))
def test_tight_is_never_worse_than_the_printed_bound(information, calls, step):
    at = (information, calls, step, 1e-10, 1e-8)
    assert epsilon(*at) <= epsilon(*at, method="theorem2")
    assert epsilon(*at, pure=True) <= epsilon(*at)
    assert epsilon(*at) <= epsilon(information + 1, calls, *at[2:])
    assert epsilon(*at) <= epsilon(information, calls + 1, *at[2:])


@given(st.floats(0.1, 40), st.integers(0, 20), st.sampled_from(["tight", "theorem2"]), st.booleans())
def test_units_is_the_largest_number_that_fits(target, calls, method, pure):
    at = (calls, STEP, 1e-10, 1e-8, method)
    most = units(target, *at, pure=pure)
    assert most == 0 or epsilon(most, *at, pure=pure) <= target
    assert epsilon(most + 1, *at, pure=pure) > target


def test_the_pure_branch_is_taken_only_when_it_is_said():
    assert epsilon(1, 0, STEP, 0, 1e-9, pure=True) == pytest.approx(0.15)
    assert epsilon(1, 0, STEP, 0, 1e-9) > 0.15
    # One Gaussian count at the pure epsilon: its delta is not negligible, so the statement would be false.
    assert gaussian_delta(STEP**2 / 8, STEP) == pytest.approx(6.9e-4, rel=0.02)


def test_an_approximation_is_part_of_delta():
    assert approximate_zcdp_epsilon(0.5, 1e-6, 3e-6) == zcdp_epsilon(0.5, Fraction(3e-6) - Fraction(1e-6))
    with pytest.raises(InvalidArgument, match=r"^delta: must be larger than the approximation"):
        approximate_zcdp_epsilon(0.5, 1e-6, 1e-6)


def test_steps_as_zcdp():
    assert bounded_range_to_zcdp(Fraction(1, 2)) == Fraction(1, 32) == pure_to_zcdp(Fraction(1, 4))


def test_nothing_spent_is_nothing_lost():
    assert epsilon(0, 0, STEP, 1e-10, 1e-9) == 0 == zcdp_delta(0, 1)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("information", -1),
        ("information", float("nan")),
        ("calls", -1),
        ("epsilon_per", 0),
        ("epsilon_per", "x"),
        ("delta_per", 0),
        ("delta_per", 2),
        ("delta", 0),
        ("delta", 1),
        ("delta", 3e-9),
        ("delta", 1e-9),
        ("method", "guess"),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    at = {"information": 3000, "calls": 30, "epsilon_per": STEP, "delta_per": 1e-10, "delta": 7e-9} | {argument: value}
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        epsilon(**at)


def test_a_budget_that_everything_fits_is_refused():
    with pytest.raises(InvalidArgument, match=r"^epsilon: is too large"):
        units(1e40, 0, 1e-9, 0, 1e-9)


@pytest.mark.parametrize("max_groups", [1, 3])
def test_discrete_laplace_is_what_dp_accounting_says(max_groups):
    """max_groups counts of scale 2 / STEP: pure at max_groups * STEP / 2, and within their units of zCDP."""
    from dp_accounting import pld

    one = pld.privacy_loss_distribution.from_discrete_laplace_mechanism(
        STEP / 2, value_discretization_interval=STEP / 2
    )
    together = one.self_compose(max_groups)
    assert together.get_delta_for_epsilon(max_groups * STEP / 2) <= 1e-12
    for at in (0.0, STEP / 4, STEP / 2, STEP):
        assert together.get_delta_for_epsilon(at) <= zcdp_delta(max_groups * bounded_range_to_zcdp(STEP), at) + 1e-12


@pytest.mark.parametrize("sigma", [1.0, 2 / STEP])
def test_discrete_gaussian_is_what_dp_accounting_says(sigma):
    """One count of variance sigma^2 is 1 / (2 sigma^2) zCDP: its exact delta lies below the conversion's."""
    from dp_accounting import pld

    exact = pld.privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    for at in (0.01, 0.05, 0.5, 1.0, 2.0):
        assert exact.get_delta_for_epsilon(at) <= zcdp_delta(1 / (2 * sigma**2), at) + 1e-9


def high_precision_optimum(bound) -> mpmath.mpf:
    """The least value of a bound over alpha > 1, by a search with 60 digits."""
    low, high = mpmath.mpf(-30), mpmath.mpf(60)
    for _ in range(300):
        left, right = low + (high - low) * mpmath.mpf("0.382"), low + (high - low) * mpmath.mpf("0.618")
        low, high = (low, right) if bound(1 + mpmath.exp(left)) < bound(1 + mpmath.exp(right)) else (left, high)
    return bound(1 + mpmath.exp((low + high) / 2))


@pytest.mark.parametrize(("rho", "delta"), [(0.01, 1e-9), (8.4375, 4e-9), (1e4, 1e-6), (0.5, 0.999), (1e-5, 1e-200)])
def test_epsilon_is_the_optimum_rounded_up(rho, delta):
    with mpmath.workdps(60):
        optimum = high_precision_optimum(
            lambda a: a * rho + (a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1) - mpmath.log(delta)) / (a - 1)
        )
        assert max(optimum, 0) <= zcdp_epsilon(rho, delta) <= max(optimum * (1 + mpmath.mpf(10) ** -12), 0)


@pytest.mark.parametrize(("rho", "at"), [(0.01, 1), (8.4375, 30), (1e4, 12_000), (1e20, 1e20 + 2e11), (1e30, 1e30)])
def test_delta_is_the_optimum_rounded_up(rho, at):
    with mpmath.workdps(60):
        r, e = mpmath.mpf(rho), mpmath.mpf(at)
        optimum = mpmath.exp(
            high_precision_optimum(lambda a: (a - 1) * (a * r - e) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1))
        )
        assert min(optimum, 1) <= zcdp_delta(rho, at) <= min(optimum * (1 + mpmath.mpf(10) ** -3), 1)


@pytest.mark.parametrize(("target", "delta"), [(1e-200, 0.1), (1e-200, 1e-250), (1e-12, 1e-6), (1e12, 1e-6)])
def test_the_search_for_rho_ends(target, delta):
    for conversion in ("optimal", "bun-steinke"):
        assert zcdp_epsilon(zcdp_rho(target, delta, conversion), delta, conversion) <= target


def test_an_unknown_conversion_is_refused_by_name():
    with pytest.raises(InvalidArgument, match=r"^conversion: must be one of"):
        zcdp_epsilon(1, 0.1, "magic")
