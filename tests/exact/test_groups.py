"""Groups: exact divergences of tables that differ by two and three people stay within what is promised to them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from sfumato.accounting import GaussianLoss, GaussianStep, zcdp_delta
from sfumato.accounting.groups import difference_group_delta, gumbel_group_delta, passes_group_delta
from sfumato.mechanisms import GaussianRule, LaplaceRule, UnknownGaussian, UnknownGumbel
from tests.exact.test_pcr import Passes, alone, most_epsilon, pair, release, run_levels
from tests.exact.test_weighted_selection import rule_of, shown, sums
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
    shift_pair,
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


@pytest.mark.slow
@pytest.mark.parametrize("people", [2, 3])
@pytest.mark.parametrize(("rho", "first", "limit"), [(Fraction(1, 7), 0.5, 2), (Fraction(5, 4), 2.0, 2)])
def test_passes_of_private_count_release(people: int, rho: Fraction, first: float, limit: int) -> None:
    """At k times what picks can spend, the sum over the passes is enough; the delta of one person is not."""
    mechanism = release(rho=rho, first_epsilon=first, limit=limit, delta=1e-3)
    rule = Passes.of(mechanism)
    levels = rule.levels[: run_levels(rule)]
    promised = passes_group_delta([(level.epsilon, mechanism.delta_level) for level in levels], people)
    together = (0,) * limit, (people,) * limit
    cases = {together}
    for counts in (range(2), (0, levels[0].gap - people, levels[-1].gap)):
        for h in histograms(limit + 1, counts):
            cases |= {(h, added(h, moves)) for moves in itertools.product((0, 1, people), repeat=limit + 1)}
    at = people * most_epsilon(rule, [*cases, alone(limit)])
    assert worst_delta((pair(h, other, rule) for h, other in cases), at) <= promised + TOLERANCE
    assert exact_delta(pair(*together, rule), at) > len(levels) * float(mechanism.delta_level)


@pytest.mark.parametrize("people", [2, 3])
@pytest.mark.parametrize(("variance", "keys"), [(Fraction(3), 1), (Fraction(20), 2), (Fraction(133, 100) ** 2, 2)])
def test_exact_accounting_of_counts(people: int, variance: Fraction, keys: int) -> None:
    """Every way in which k people share keys. What one person is promised, at k times epsilon, would be too little."""
    one = GaussianLoss((GaussianStep.counts(variance, keys),))
    noise, group = NoiseLaw(2, 1 / (2 * float(variance))), one.of_group(people)
    moves = [
        move
        for size in range(1, people * keys + 1)
        for move in itertools.combinations_with_replacement(range(1, people + 1), size)
        if sum(move) <= people * keys
    ]
    for at in EPSILONS:
        worst = max(exact_delta(shift_pair(noise, move), at) for move in moves)
        assert worst <= group.delta(at) * (1 + 1e-9) + 1e-16
    together = exact_delta(shift_pair(noise, (people,) * keys), people * 1.0)
    assert one.delta(1.0) < together <= group.delta(people * 1.0)


@pytest.mark.parametrize("people", [2, 3])
@pytest.mark.parametrize("max_keys", [1, 2, 3])
@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-3), (0.1, 1e-2)])
def test_keys_that_weights_select(people: int, max_keys: int, rho: float, delta: float) -> None:
    """The chance that a key is shown that k people alone have, however many keys each has and whichever they share."""
    rule = rule_of(rho, delta, max_keys)
    noise, promised = NoiseLaw.of(rule.noise), rule.group_delta(people)
    subsets = [
        frozenset(s) for size in range(1, max_keys + 1) for s in itertools.combinations(range(max_keys + 1), size)
    ]
    chances = [
        1 - math.prod(1 - shown(total, rule.threshold, noise) for total in sums(rule, group, max_keys + 1))
        for group in itertools.combinations_with_replacement(subsets, people)
    ]
    assert delta < max(chances) <= promised
