"""Groups: exact divergences of tables that differ by two and three people stay within what is promised to them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from sfumato.accounting import zcdp_delta
from sfumato.accounting.groups import difference_group_delta, gumbel_group_delta
from sfumato.mechanisms import GaussianRule, LaplaceRule, UnknownGaussian, UnknownGumbel
from tests.helpers.laws import (
    TOLERANCE,
    Change,
    NoiseLaw,
    TopK,
    added,
    exact_delta,
    histograms,
    key_pair,
    labelled_neighbours,
    product,
    threshold_pair,
    top_k_pair,
    worst_delta,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


@pytest.mark.parametrize("people", [2, 3])
@pytest.mark.parametrize(("k", "limit"), [(1, 2), (2, 2), (1, 3)])
def test_a_gumbel_call(people: int, k: int, limit: int) -> None:
    """At k times the epsilon of a list, delta e^((k - 1) epsilon) is enough; the delta of one person is not."""
    mechanism = UnknownGumbel.of(k=k, limit=limit, epsilon=1.0, delta=1e-3, with_counts=False, cutoff="fixed")
    top, rule = mechanism.gap(limit), TopK.of(mechanism)
    worst = 0.0
    for counts in (range(3), (0, 1, top - people, top)):
        for h in histograms(limit + 1, counts):
            for moves in itertools.product(range(people + 1), repeat=limit + 1):
                worst = max(worst, exact_delta(top_k_pair(h, added(h, moves), rule), people * k))
    promised = gumbel_group_delta(1, Fraction(1e-3), people)
    assert 1e-3 < worst <= promised + TOLERANCE
    assert worst > 0.3 * promised


def moved_keys(rule: GaussianRule | LaplaceRule, people: int, counts: set[int]):
    """Up to `people` people of `max_keys` keys each: keys that grow by 1 to `people`, people * max_keys in all."""
    for size in range(1, people * rule.max_keys + 1):
        for moves in itertools.combinations_with_replacement(range(1, people + 1), size):
            if sum(moves) <= people * rule.max_keys and size <= 3:
                for before in itertools.product(sorted(counts), repeat=size):
                    yield tuple((n, n + move) for n, move in zip(before, moves, strict=True))


@pytest.mark.parametrize("people", [2, 3])
def test_a_gaussian_threshold(people: int) -> None:
    rule = GaussianRule(total=Fraction(2), delta=Fraction(1, 100), max_keys=1)
    noise, promised = NoiseLaw.of(rule.noise), rule.group_delta(people)
    claims = {at: promised + zcdp_delta(people**2 * rule.rho, at) for at in EPSILONS}
    for change in moved_keys(rule, people, {0, rule.threshold}):
        pair = product(key_pair(n, m, rule.threshold, noise) for n, m in change)
        assert all(exact_delta(pair, at) <= claim + TOLERANCE for at, claim in claims.items())
    together = exact_delta(key_pair(0, people, rule.threshold, noise), 50.0)
    assert float(rule.delta) < together <= promised


@pytest.mark.parametrize("people", [2, 3])
def test_a_laplace_threshold_is_within_k_times_epsilon(people: int) -> None:
    rule = LaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 100), max_keys=1)
    noise, promised = NoiseLaw.of(rule.noise), rule.group_delta(people)
    pairs = [
        product(key_pair(n, m, rule.threshold, noise) for n, m in change)
        for change in moved_keys(rule, people, {0, 1, rule.threshold - 1, rule.threshold})
    ]
    assert float(rule.delta) < worst_delta(pairs, float(people)) <= promised + TOLERANCE


@pytest.mark.parametrize("people", [2, 3])
def test_a_histogram_above_a_noisy_threshold(people: int) -> None:
    mechanism = UnknownGaussian.of(limit=2, epsilon=4.0, delta=1e-2, tau=1, max_groups=1)
    noise = NoiseLaw.of(mechanism.noise)
    promised = difference_group_delta(mechanism.noise.difference_tail, mechanism.gap, 1, 1, people)
    cases = {
        Change.between(h, other, 2)
        for counts in (range(3), (0, 1, mechanism.gap))
        for h, other in labelled_neighbours(3, counts, people, people)
        if sum(other) - sum(h) <= people
    }
    rho = people**2 * Fraction(4) ** 2 / 8
    for change in cases:
        pair = threshold_pair(change, mechanism.gap, noise)
        # At 80, zCDP has no delta left: what is shown of these people alone is all of it.
        assert all(exact_delta(pair, at) <= promised + zcdp_delta(rho, at) + TOLERANCE for at in (2.0, 8.0, 16.0, 80.0))
