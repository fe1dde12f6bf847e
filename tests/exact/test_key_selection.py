"""Key selection: what a rule claims holds between all small neighbours, with the noisy counts that it releases.

Keys are independent of one another and a key whose count did not change has the same law on both sides, so neighbours
are the changed keys: at most max_keys of them, each with n people here and n + 1 there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from sfumato.accounting import zcdp_delta
from sfumato.mechanisms import GaussianRule, GeometricRule, LaplaceRule, TruncatedLaplaceRule
from tests.helpers.claims import assert_private, assert_zcdp
from tests.helpers.laws import TOLERANCE, NoiseLaw, Pair, exact_delta, key_pair, product, renyi, worst_delta
from tests.helpers.repeats import repeats

KEYS = (1, 2, 3)
BUDGETS = ((1.0, 1e-3), (2.0, 1e-2), (0.5, 0.1))


def changed_keys(max_keys: int, counts: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """All multisets of at most max_keys counts that grow by one."""
    values = sorted(set(counts))
    for size in range(1, max_keys + 1):
        yield from itertools.combinations_with_replacement(values, size)


def thresholded(rule: LaplaceRule | GaussianRule, *, lower: int = 0) -> list[Pair]:
    """Keys with their noisy counts: of 0 to 3 people, and about the threshold (lowered for the sake of the test)."""
    threshold, noise = rule.threshold - lower, NoiseLaw.of(rule.noise)
    counts = {0, 1, 2, 3, *range(max(threshold - 1, 0), threshold + 2)}
    grown = changed_keys(rule.max_keys, counts)
    return [product(key_pair(n, n + 1, threshold, noise) for n in change) for change in grown]


def assert_approximate_zcdp(pairs: Iterable[Pair], rho: Fraction, delta: float) -> None:
    """delta-approximate rho-zCDP, as it converts."""
    claims = {at: delta + zcdp_delta(rho, at) for at in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}
    for pair in pairs:
        for at, claimed in claims.items():
            assert exact_delta(pair, at) <= claimed + TOLERANCE


@pytest.mark.parametrize("max_keys", KEYS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
class TestLaplaceRule:
    def rule(self, max_keys: int, epsilon: float, delta: float) -> LaplaceRule:
        return LaplaceRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)

    def test_is_private(self, max_keys: int, epsilon: float, delta: float) -> None:
        assert_private(thresholded(self.rule(max_keys, epsilon, delta)), epsilon, delta)

    def test_costs_its_rho(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert_approximate_zcdp(thresholded(rule), rule.rho, delta)

    def test_a_lower_threshold_would_not_do(self, max_keys: int, epsilon: float, delta: float) -> None:
        assert worst_delta(thresholded(self.rule(max_keys, epsilon, delta), lower=1), epsilon) > delta


@pytest.mark.parametrize(("max_keys", "share"), [(1, 0.667), (2, 0.688), (3, 0.818)])
def test_whole_thresholds_leave_some_delta_unused(max_keys: int, share: float) -> None:
    """At epsilon 1 and delta 1e-3 a threshold that must be whole uses 0.67 to 0.82 of delta."""
    rule = LaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 1000), max_keys=max_keys)
    assert worst_delta(thresholded(rule), 1.0) / 1e-3 == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("max_keys", KEYS)
@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-3), (2.0, 1e-2), (repeats(0.2, 0.05), 0.1)])
class TestGaussianRule:
    def rule(self, max_keys: int, rho: float, delta: float) -> GaussianRule:
        return GaussianRule(total=Fraction(rho), delta=Fraction(delta), max_keys=max_keys)

    @pytest.mark.slow
    def test_is_approximately_zcdp(self, max_keys: int, rho: float, delta: float) -> None:
        rule = self.rule(max_keys, rho, delta)
        assert_approximate_zcdp(thresholded(rule), rule.rho, delta)

    def test_old_keys_cost_rho(self, max_keys: int, rho: float, delta: float) -> None:
        """Keys that both neighbours have: no delta, and rho is reached where keys are surely kept."""
        rule = self.rule(max_keys, rho, delta)
        noise, far = NoiseLaw.of(rule.noise), rule.threshold + NoiseLaw.of(rule.noise).reach
        for n in (1, 2, 3, rule.threshold - 1, rule.threshold, far):
            pair = key_pair(n, n + 1, rule.threshold, noise)
            assert_zcdp([pair], rho / max_keys)
        assert renyi(pair, 2) == pytest.approx(2 * rho / max_keys, rel=1e-9)

    def test_new_keys_show_with_delta_at_most(self, max_keys: int, rho: float, delta: float) -> None:
        """Keys that only one neighbour has: any of them shown gives the person away. One lower would be too low."""
        rule = self.rule(max_keys, rho, delta)
        assert shown(rule.threshold, rule) <= delta
        assert shown(rule.threshold - 1, rule) > delta


def shown(threshold: int, rule: GaussianRule) -> float:
    return exact_delta(product([key_pair(0, 1, threshold, NoiseLaw.of(rule.noise))] * rule.max_keys), 30.0)


def test_a_continuous_threshold_is_too_low_for_discrete_noise() -> None:
    """1 + sigma Phi^-1(1 - delta): at sigma 0.647 the first whole count above it shows five times too often."""
    rule = GaussianRule(total=1 / (2 * Fraction(0.647) ** 2), delta=Fraction(1, 1000), max_keys=1)
    continuous = math.ceil(1 + math.sqrt(rule.noise.parameter) * NormalDist().inv_cdf(0.999))
    assert continuous == rule.threshold - 1
    assert shown(continuous, rule) == pytest.approx(5.2e-3, rel=0.01)


def decisions(rule: GeometricRule, probabilities: np.ndarray, counts: Iterable[int]) -> list[Pair]:
    """Keys kept or not, no counts."""
    keeps = [np.array([pi, 1 - pi]) for pi in probabilities]
    return [product((keeps[n], keeps[n + 1]) for n in change) for change in changed_keys(rule.max_keys, counts)]


@pytest.mark.parametrize("max_keys", KEYS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
class TestGeometricRule:
    def rule(self, max_keys: int, epsilon: float, delta: float) -> GeometricRule:
        return GeometricRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)

    def pairs(self, rule: GeometricRule) -> list[Pair]:
        turn = 1 + int(np.argmax(rule.probabilities(np.arange(1000)) >= 0.5))
        counts = {0, 1, 2, 3, *range(max(turn - 4, 0), turn + 4), 2 * turn - 2, 2 * turn - 1}
        return decisions(rule, rule.probabilities(np.arange(1000)), counts)

    def test_is_private(self, max_keys: int, epsilon: float, delta: float) -> None:
        assert_private(self.pairs(self.rule(max_keys, epsilon, delta)), epsilon, delta)

    def test_uses_all_of_delta(self, max_keys: int, epsilon: float, delta: float) -> None:
        assert worst_delta(self.pairs(self.rule(max_keys, epsilon, delta)), epsilon) >= delta * (1 - 1e-6)

    def test_costs_its_rho(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert_approximate_zcdp(self.pairs(rule), rule.rho, delta)

    def test_follows_its_recursion(self, max_keys: int, epsilon: float, delta: float) -> None:
        """The closed form against the definition, from the first count to certainty."""
        rule = self.rule(max_keys, epsilon, delta)
        found = rule.probabilities(np.arange(400))
        assert found == pytest.approx(recursion(epsilon / max_keys, 1 - (1 - delta) ** (1 / max_keys), 400), rel=1e-9)
        assert (found[0], found[-1]) == (0, 1)


def recursion(e: float, d: float, size: int) -> list[float]:
    """The largest probability that (e, d)-indistinguishability from one person fewer allows, either way round."""
    keep = [0.0]
    while len(keep) < size:
        keep.append(min(math.exp(e) * keep[-1] + d, 1 - math.exp(-e) * (1 - keep[-1] - d), 1.0))
    return keep


def test_keeping_one_person_more_often_would_show() -> None:
    """The same check fails for probabilities that are shifted by one person."""
    rule = GeometricRule(epsilon=Fraction(1), delta=Fraction(1, 1000), max_keys=1)
    too_early = rule.probabilities(np.arange(1, 1001))
    too_early[0] = 0
    assert worst_delta(decisions(rule, too_early, range(20)), 1.0) > 3e-3


# --- Noise that ends ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndedLaw:
    """Noise that makes noisy counts of at least `threshold` as likely as the recursion says; nothing of it is lost."""

    threshold: int
    chances: tuple[float, ...]

    @property
    def lost(self) -> float:
        return 0.0

    @property
    def reach(self) -> int:
        return max(self.threshold - 1, len(self.chances) - 1 - self.threshold)

    def at_most(self, x: np.ndarray) -> np.ndarray:
        return 1 - np.array(self.chances)[np.clip(self.threshold - 1 - x, 0, len(self.chances) - 1)]

    def mass(self, x: np.ndarray) -> np.ndarray:
        return self.at_most(x) - self.at_most(x - 1)


def ended(rule: TruncatedLaplaceRule, missed: float = 1) -> EndedLaw:
    """The noise of a rule, or of one whose ends have so many times as much."""
    e, d = float(rule.epsilon / rule.max_keys), missed * float(rule.per_key)
    return EndedLaw(rule.threshold, tuple(recursion(e, d, 400)))


def ended_keys(rule: TruncatedLaplaceRule, law: EndedLaw, threshold: int) -> list[Pair]:
    """Keys with their noisy counts: the noise can end on either side of the threshold."""
    turn, low = law.threshold, 2 * law.threshold
    counts = {0, 1, 2, turn - 1, turn, turn + 1, low - 1, low, low + 1, 3 * turn}
    grown = changed_keys(rule.max_keys, counts)
    return [product(key_pair(n, n + 1, threshold, law) for n in change) for change in grown]


@pytest.mark.parametrize("max_keys", KEYS)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
class TestTruncatedLaplaceRule:
    def rule(self, max_keys: int, epsilon: float, delta: float) -> TruncatedLaplaceRule:
        return TruncatedLaplaceRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)

    def test_is_private(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert_private(ended_keys(rule, ended(rule), rule.threshold), epsilon, delta)

    def test_costs_its_rho(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert_approximate_zcdp(ended_keys(rule, ended(rule), rule.threshold), rule.rho, delta)

    def test_uses_all_of_delta(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert worst_delta(ended_keys(rule, ended(rule), rule.threshold), epsilon) >= delta * (1 - 1e-6)

    def test_noise_that_ends_earlier_would_not_do(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        assert worst_delta(ended_keys(rule, ended(rule, 1.1), rule.threshold), epsilon) > 1.05 * delta

    def test_a_lower_threshold_would_not_do(self, max_keys: int, epsilon: float, delta: float) -> None:
        """Between 0 people and 1 alone: one that is lower shows a key of nobody."""
        rule = self.rule(max_keys, epsilon, delta)
        assert worst_delta(ended_keys(rule, ended(rule), rule.threshold - 1), epsilon) > delta

    def test_its_draws_have_this_law(self, max_keys: int, epsilon: float, delta: float) -> None:
        rule = self.rule(max_keys, epsilon, delta)
        law = ended(rule)
        for x in range(-law.reach, law.reach + 2):
            assert rule.noise.tail(x) == pytest.approx(1 - float(law.at_most(np.array([x - 1]))[0]), rel=1e-9)

    def test_its_threshold_is_never_above_that_of_endless_noise(
        self, max_keys: int, epsilon: float, delta: float
    ) -> None:
        endless = LaplaceRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)
        assert self.rule(max_keys, epsilon, delta).threshold <= endless.threshold


def test_a_count_beside_the_optimal_decision_pays_for_itself() -> None:
    """The optimal decision and a Laplace count of the kept keys, both at one epsilon: at that epsilon delta is .29."""
    rule = GeometricRule(epsilon=Fraction(1), delta=Fraction(1, 1000), max_keys=1)
    pi, noise = rule.probabilities(np.arange(40)), NoiseLaw(1, 1.0)
    worst = 0.0
    for n in range(1, 30):
        v = np.arange(n - noise.reach, n + 2 + noise.reach)
        pair = tuple(np.append(pi[m] * noise.mass(v - m), 1 - pi[m]) for m in (n, n + 1))
        worst = max(worst, exact_delta(pair, 1.0))
    assert worst == pytest.approx(0.29, abs=0.01)
