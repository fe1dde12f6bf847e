"""What is promised to several people together: one person is the promise itself, more are never fewer."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from sfumato.accounting import zcdp_epsilon
from sfumato.accounting.groups import (
    difference_group_delta,
    group_delta,
    group_promise,
    group_pure,
    group_rho,
    gumbel_group_delta,
    passes_group_delta,
    threshold_group_delta,
)
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import (
    GaussianRule,
    GeometricRule,
    LaplaceRule,
    TruncatedLaplaceRule,
    UnknownGaussian,
    WeightedRule,
)

DELTA = Fraction(1, 10**6)
RULES = [
    GaussianRule(total=Fraction(1, 50), delta=DELTA, max_keys=8),
    LaplaceRule(epsilon=Fraction(1), delta=DELTA, max_keys=8),
    TruncatedLaplaceRule(epsilon=Fraction(1), delta=DELTA, max_keys=2),
    GeometricRule(epsilon=Fraction(1), delta=DELTA, max_keys=2),
    WeightedRule(total=Fraction(1, 50), delta=DELTA, max_keys=64),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_one_person_is_a_group_of_one(rule) -> None:
    one = rule.group_delta(1)
    assert one <= DELTA * (1 + 1e-9)
    assert one > 0.2 * float(DELTA)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_larger_groups_are_promised_less(rule) -> None:
    deltas = [rule.group_delta(people) for people in (1, 2, 3, 5, 10)]
    assert all(a < b for a, b in itertools.pairwise(deltas) if b < 1)
    assert rule.group_delta(10_000) == 1


def test_known_numbers() -> None:
    assert group_rho(0.5, 3) == Fraction(9, 2)
    assert group_pure(Fraction(1, 10), 4) == Fraction(2, 5)
    assert gumbel_group_delta(0.15, 1e-10, 1) == pytest.approx(1e-10)
    assert gumbel_group_delta(0.15, 1e-10, 11) == pytest.approx(1e-10 * math.exp(1.5))
    assert group_delta(1, 1e-6, 3) == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    assert group_delta(1, 1e-6, 1000) == 1
    passes = [(0.1 * 2 ** (level / 8), 1e-8) for level in range(10)]
    assert passes_group_delta(passes, 4) == pytest.approx(sum(1e-8 * math.exp(3 * step) for step, _ in passes))


def test_a_threshold_is_shared_by_j_people_in_fewer_keys() -> None:
    """Few people and a light tail: all in one key is the worst; far from the threshold: each in keys of their own."""

    def geometric(n: int) -> float:
        return min(1.0, 0.5**n)

    assert threshold_group_delta(geometric, 20, 1, 3) == pytest.approx(0.5**17, rel=1e-4)

    def flat(n: int) -> float:
        return 1e-6 * (1 + 1e-3 * (20 - n))

    assert threshold_group_delta(flat, 20, 5, 3) == pytest.approx(15e-6, rel=0.01)


def test_a_histogram_above_a_noisy_threshold() -> None:
    mechanism = UnknownGaussian.of(epsilon=0.15, delta=1e-10, tau=1, max_groups=5, limit=1000)
    deltas = [
        difference_group_delta(mechanism.noise.difference_tail, mechanism.gap, 5, 1, people)
        for people in (1, 2, 10, 400)
    ]
    assert 0.5e-10 < deltas[0] <= 1e-10 * (1 + 1e-9)
    assert deltas[0] < deltas[1] < deltas[2] < 1e-7
    assert deltas[3] == 1


def test_a_promise_converts_what_k_people_move() -> None:
    promised = group_promise(0.02, 3e-7, 5, delta=1e-6)
    assert promised.epsilon == zcdp_epsilon(Fraction(0.02) * 25, 1e-6)
    assert promised.delta == pytest.approx(1.3e-6)
    assert promised.shown == 3e-7
    nothing = group_promise(0.02, 1.0, 500, delta=1e-6)
    assert (nothing.epsilon, nothing.delta, nothing.shown) == (math.inf, 1, 1)


def test_k_times_epsilon_at_the_same_delta_would_be_false() -> None:
    """Gaussian noise on one count, epsilon 1 at delta 1e-6 for one person: two people have more than 2 at 1e-6."""
    from sfumato.accounting.gaussian import GaussianLoss, GaussianStep, smallest_variance

    loss = GaussianLoss((GaussianStep.counts(smallest_variance(1, 1e-6, 1), 1),))
    assert loss.of_group(2).epsilon(1e-6) > 2.0
    assert loss.of_group(10).epsilon(1e-6) > 11


@pytest.mark.parametrize("people", [0, -1, 1.5, True, 10**9])
def test_a_group_is_a_whole_number_of_people(people) -> None:
    with pytest.raises(InvalidArgument, match=r"^people: "):
        group_rho(1, people)
