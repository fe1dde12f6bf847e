"""Exact Gaussian accounting: its delta is that of the noise, for every small move, and never below it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from sfumato.accounting.gaussian import GaussianLoss, GaussianStep, gaussian_delta
from tests.helpers.laws import NoiseLaw, exact_delta, product, shift_pair

VARIANCES = (Fraction(1, 4), Fraction(9, 10), Fraction(1), Fraction(133, 100) ** 2, Fraction(5), Fraction(20))
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)


def law(variance: Fraction) -> NoiseLaw:
    return NoiseLaw(2, 1 / (2 * float(variance)))


def counts(variance: Fraction, keys: int) -> GaussianLoss:
    return GaussianLoss((GaussianStep.counts(variance, keys),))


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("keys", [1, 2, 3, 8])
def test_counts_of_people_have_the_delta_of_their_noise(variance: Fraction, keys: int) -> None:
    """The sum over all outputs, both ways. Not below it, and above it by a thousandth at most."""
    pair = shift_pair(law(variance), (1,) * keys)
    for epsilon in EPSILONS:
        exact, stated = exact_delta(pair, epsilon), counts(variance, keys).delta(epsilon)
        assert exact <= stated * (1 + 1e-9) + 1e-16
        assert stated <= exact * 1.001 + 1e-14


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_people_with_fewer_keys_are_covered(variance: Fraction) -> None:
    for epsilon in EPSILONS:
        stated = counts(variance, 4).delta(epsilon)
        assert all(exact_delta(shift_pair(law(variance), (1,) * keys), epsilon) <= stated for keys in (1, 2, 3))


@pytest.mark.parametrize(("first", "second", "keys"), [(Fraction(9), Fraction(5), 2), (Fraction(30), Fraction(3), 1)])
def test_two_steps_have_the_delta_of_both(first: Fraction, second: Fraction, keys: int) -> None:
    """A census, of which one person moves one number, and counts of people."""
    pair = product([shift_pair(law(first), (1,)), shift_pair(law(second), (1,) * keys)])
    loss = GaussianLoss((GaussianStep.counts(first, 1), GaussianStep.counts(second, keys)))
    for epsilon in EPSILONS:
        exact, stated = exact_delta(pair, epsilon), loss.delta(epsilon)
        assert exact <= stated * (1 + 1e-9) + 1e-16
        assert stated <= exact * 1.02 + 1e-14


def moves(norm_squared: int, coordinates: int) -> Iterator[tuple[int, ...]]:
    """All whole moves of at most this length, up to order and sign, that cannot be made longer."""
    most = math.isqrt(norm_squared)
    for move in itertools.combinations_with_replacement(range(most, -1, -1), coordinates):
        if 0 < sum(x * x for x in move) <= norm_squared:
            yield tuple(x for x in move if x)


@pytest.mark.parametrize("variance", [Fraction(133, 100) ** 2, Fraction(3), Fraction(10)], ids=str)
@pytest.mark.parametrize("norm_squared", [4, 9])
def test_the_bound_covers_every_whole_move(variance: Fraction, norm_squared: int) -> None:
    loss = GaussianLoss((GaussianStep(variance, Fraction(norm_squared), 4),))
    for move in moves(norm_squared, 4):
        pair = shift_pair(law(variance), move)
        for epsilon in EPSILONS:
            assert exact_delta(pair, epsilon) <= loss.delta(epsilon) * (1 + 1e-9) + 1e-16


def test_the_continuous_formula_is_below_the_truth() -> None:
    """At sigma 1.33 and some epsilon, discrete noise has a third more delta than continuous noise of this sigma."""
    variance = Fraction(133, 100) ** 2
    pair = shift_pair(law(variance), (1,))
    ratios = [
        exact_delta(pair, epsilon) / gaussian_delta(1 / variance, epsilon) for epsilon in np.linspace(1.5, 3.5, 81)
    ]
    assert max(ratios) > 1.3


def test_half_a_person_less_in_the_loss_would_be_too_low() -> None:
    """The loss is (2X + L) / 2v, not 2X / 2v: without the L delta is too small."""
    pair = shift_pair(law(Fraction(5)), (1, 1))
    z = np.arange(-60, 61)
    one = law(Fraction(5)).mass(z)
    both, total = np.convolve(one, one), np.arange(-120, 121)
    wrong = float(np.sum(both * np.maximum(-np.expm1(1.0 - total / 5.0), 0)))
    assert wrong < 0.7 * exact_delta(pair, 1.0)


def test_a_gaussian_step_may_not_choose_the_kind_of_plan() -> None:
    """A Gaussian census, then a Gaussian plan or one with a threshold, by what it showed.

    Each is within delta beside the census. The Gaussian plan spends its delta where the census was telling, the other
    everywhere: chosen by the census they have nearly twice as much.
    """
    epsilon, delta = 1.0, 1e-6
    loss, mass = gaussian_losses(0.12)

    def gaussian(mu: float) -> np.ndarray:
        return np.array([gaussian_delta(mu**2, at) for at in epsilon - loss])

    def telling(chance: float) -> np.ndarray:
        """A key that only this person has is shown with this chance."""
        return np.full(len(loss), chance)

    plans = [largest_plan(plan, mass, delta) for plan in (gaussian, telling)]
    assert all(np.sum(mass * plan) <= delta * (1 + 1e-6) for plan in plans)
    assert np.sum(mass * np.maximum(*plans)) > 1.6 * delta


def gaussian_losses(mu: float) -> tuple[np.ndarray, np.ndarray]:
    """The loss of a Gaussian step, and its law."""
    z = np.linspace(-9, 9, 3601)
    mass = np.exp(-(z**2) / 2)
    return mu * z + mu**2 / 2, mass / mass.sum()


def largest_plan(plan, mass: np.ndarray, delta: float) -> np.ndarray:
    low, high = 0.0, 4.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if np.sum(mass * plan(middle)) <= delta else (low, middle)
    return plan(low)


def test_thresholds_add_their_delta() -> None:
    """One old and one new key: with counts and a threshold, within the delta of the noise and that of the threshold."""
    from sfumato.mechanisms import GaussianRule
    from tests.helpers.laws import key_pair

    rule = GaussianRule(total=Fraction(1, 2), delta=Fraction(1, 1000), max_keys=2)
    noise = NoiseLaw.of(rule.noise)
    claim = GaussianLoss((rule.step,))
    for old in (1, 3, rule.threshold, rule.threshold + 6):
        pairs = [
            product([key_pair(old, old + 1, rule.threshold, noise), key_pair(n, n + 1, rule.threshold, noise)])
            for n in (0, old)
        ]
        for pair in pairs:
            for epsilon in EPSILONS:
                assert exact_delta(pair, epsilon) <= claim.delta(epsilon) + 1e-3
