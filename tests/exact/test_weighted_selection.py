"""Weighted selection: what a rule claims holds between all small tables that differ by one person.

The rule runs at a coarser scale, so that its sums are small enough for a law of all outputs. A table is a list of
people, a person a set of keys. Keys whose sum did not change have one law on both sides, so what distinguishes two
tables are the sums of the new person's keys, before and after.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from sfumato.accounting.gaussian import GaussianLoss
from sfumato.mechanisms import WeightedRule
from tests.exact.test_key_selection import assert_approximate_zcdp
from tests.helpers.laws import TOLERANCE, NoiseLaw, Pair, exact_delta, key_pair, product, renyi

pytestmark = pytest.mark.slow  # long sums

SCALE = 8
BUDGETS = ((0.5, 1e-3), (2.0, 1e-2), (8.0, 1e-3))

Person = frozenset[int]


def rule_of(rho: float, delta: float, max_keys: int) -> WeightedRule:
    return WeightedRule(total=Fraction(rho), delta=Fraction(delta), max_keys=max_keys, scale=SCALE)


def sums_before(rule: WeightedRule, others: int) -> list[int]:
    """Sums that a key can have without the person: of up to `others` people of any number of keys, none included."""
    weights = rule.weights[1:].tolist()
    found = {0}
    for people in range(1, others + 1):
        found |= {sum(chosen) for chosen in itertools.combinations_with_replacement(weights, people)}
    return sorted(found)


def changes(rule: WeightedRule, others: int = 2) -> Iterator[tuple[tuple[int, int], ...]]:
    """For a new person with d keys: the sums of these keys before and after."""
    far = rule.threshold + 4 * SCALE
    for keys in range(1, rule.max_keys + 1):
        weight = int(rule.weights[keys])
        for before in itertools.combinations_with_replacement([*sums_before(rule, others), rule.threshold, far], keys):
            yield tuple((total, total + weight) for total in before)


def pairs(rule: WeightedRule, *, threshold: int | None = None, others: int = 2) -> Iterator[Pair]:
    """With the noisy sums of the kept keys: more than the rule releases."""
    noise, bar = NoiseLaw.of(rule.noise), rule.threshold if threshold is None else threshold
    for change in changes(rule, others):
        if len(change) <= 2:  # three keys at once only where none is old: their product would be long
            yield product(key_pair(n, m, bar, noise) for n, m in change)
        elif all(n == 0 for n, _ in change):
            yield product(decided(n, m, bar, noise) for n, m in change)


@cache
def decided(n: int, m: int, threshold: int, noise: NoiseLaw) -> Pair:
    """Kept or not, without the sum."""
    return tuple(np.array([1 - p, p]) for p in (shown(n, threshold, noise), shown(m, threshold, noise)))


def shown(total: int, threshold: int, noise: NoiseLaw) -> float:
    return 0.0 if total == 0 else float(1 - noise.at_most(np.array([threshold - total - 1]))[0])


@pytest.mark.parametrize("max_keys", [1, 2, 4])
@pytest.mark.parametrize(("rho", "delta"), BUDGETS)
class TestWeightedRule:
    def test_is_approximately_zcdp(self, max_keys: int, rho: float, delta: float) -> None:
        rule = rule_of(rho, delta, max_keys)
        assert_approximate_zcdp(pairs(rule), rule.rho, delta)

    def test_exact_accounting_covers_it(self, max_keys: int, rho: float, delta: float) -> None:
        rule = rule_of(rho, delta, max_keys)
        claims = {at: GaussianLoss((rule.step,)).delta(at) + delta for at in (0.0, 0.5, 1.0, 2.0, 4.0)}
        for pair in pairs(rule, others=1):
            assert all(exact_delta(pair, at) <= claim + TOLERANCE for at, claim in claims.items())

    def test_new_keys_show_with_delta_at_most(self, max_keys: int, rho: float, delta: float) -> None:
        """For every number of keys; and one lower would be too low for some."""
        rule, noise = rule_of(rho, delta, max_keys), NoiseLaw.of(rule_of(rho, delta, max_keys).noise)

        def worst(threshold: int) -> float:
            return max(
                1 - (1 - shown(int(rule.weights[keys]), threshold, noise)) ** keys for keys in range(1, max_keys + 1)
            )

        assert worst(rule.threshold) <= delta * (1 + 1e-9)
        assert worst(rule.threshold - 1) > delta


def test_old_keys_cost_rho_for_people_with_any_number_of_keys() -> None:
    """Of keys that are surely kept. At a scale of 8, weights are rounded down: 5 for two keys, not 5.66."""
    rule = rule_of(0.5, 1e-3, 3)
    noise, far = NoiseLaw.of(rule.noise), rule.threshold + NoiseLaw.of(rule.noise).reach
    for keys in (1, 2, 3):
        weight = int(rule.weights[keys])
        spent = keys * renyi(key_pair(far, far + weight, rule.threshold, noise), 2)
        assert spent <= 2 * rule.rho * (1 + 1e-9)
    assert renyi(key_pair(far, far + SCALE, rule.threshold, noise), 2) == pytest.approx(1.0)


def test_weights_that_are_rounded_up_would_cost_more() -> None:
    """Two keys of 6 each instead of 5: 72 is more than 64."""
    rule = rule_of(0.5, 1e-3, 2)
    noise, far = NoiseLaw.of(rule.noise), rule.threshold + NoiseLaw.of(rule.noise).reach
    assert 2 * renyi(key_pair(far, far + 6, rule.threshold, noise), 2) > 2 * rule.rho * 1.1


@pytest.mark.parametrize(("rho", "worst"), [(0.1, 256), (50.0, 1)])
def test_a_threshold_for_people_with_one_key_or_for_those_with_most_would_be_too_low(rho: float, worst: int) -> None:
    """With much noise those with most keys are the ones to hide, with little noise those with one key."""
    rule = WeightedRule(total=Fraction(rho), delta=Fraction(1, 1000), max_keys=256, scale=2**10)
    thresholds = [
        int(rule.weights[keys]) + rule.noise.smallest_tail(1 - (1 - 0.001) ** (1 / keys)) for keys in range(1, 257)
    ]
    assert rule.threshold == max(thresholds) == thresholds[worst - 1]
    assert min(thresholds[0], thresholds[-1]) < max(thresholds) - 10


# --- Two rounds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """Two rules, the second on what the first did not find; `remove` off is a wrong variant."""

    first: WeightedRule
    second: WeightedRule
    remove: bool = True

    def law(self, people: Sequence[Person], keys: int) -> dict[tuple[frozenset[int], frozenset[int]], float]:
        """The keys of both rounds."""
        law = {}
        for found, chance in kept_sets(self.first, sums(self.first, people, keys)):
            left = [person - found for person in people] if self.remove else people
            for more, then in kept_sets(self.second, sums(self.second, left, keys)):
                law[found, more] = law.get((found, more), 0.0) + chance * then
        return law


def sums(rule: WeightedRule, people: Sequence[Person], keys: int) -> list[int]:
    totals = [0] * keys
    for person in people:
        for key in person:
            totals[key] += int(rule.weights[len(person)])
    return totals


def kept_sets(rule: WeightedRule, totals: Sequence[int]) -> Iterator[tuple[frozenset[int], float]]:
    noise = NoiseLaw.of(rule.noise)
    chances = [shown(total, rule.threshold, noise) for total in totals]
    for kept in itertools.product([False, True], repeat=len(totals)):
        chance = float(np.prod([p if k else 1 - p for p, k in zip(chances, kept, strict=True)]))
        if chance:
            yield frozenset(np.flatnonzero(kept).tolist()), chance


def tables(keys: int, people: int) -> Iterator[tuple[Person, ...]]:
    subsets = [frozenset(s) for size in range(1, keys + 1) for s in itertools.combinations(range(keys), size)]
    for number in range(people + 1):
        yield from itertools.combinations_with_replacement(subsets, number)


@pytest.mark.parametrize(("rho", "delta"), [((0.5, 2.0), (1e-2, 1e-2)), ((4.0, 1.0), (0.05, 1e-3))])
def test_two_rounds_add_up(rho: tuple[float, float], delta: tuple[float, float]) -> None:
    """All tables of up to three people and three keys, and one more person."""
    rounds = Rounds(*(rule_of(r, d, 3) for r, d in zip(rho, delta, strict=True)))
    subsets = [frozenset(s) for size in (1, 2, 3) for s in itertools.combinations(range(3), size)]
    law = cache(lambda people: rounds.law(people, 3))
    for table in tables(3, 3):
        p = law(table)
        found = []
        for person in subsets:
            q = law(tuple(sorted((*table, person), key=subsets.index)))
            outcomes = p.keys() | q.keys()
            found.append(tuple(np.array([law.get(o, 0.0) for o in outcomes]) for law in (p, q)))
        assert_approximate_zcdp(found, Fraction(sum(rho)), sum(delta))


def test_a_second_threshold_for_a_single_key_would_not_do() -> None:
    """The bound on keys holds in the second round too: a rule for one key per person shows too much of three."""
    rounds = Rounds(rule_of(0.5, 1e-3, 3), rule_of(0.5, 1e-3, 3))
    wrong = replace(rounds, second=CarelessRule(total=Fraction(1, 2), delta=Fraction(1, 1000), max_keys=3, scale=SCALE))
    for each, fine in ((rounds, True), (wrong, False)):
        q = each.law([frozenset({0, 1, 2})], 3)
        nothing = q[frozenset(), frozenset()]
        assert (1 - nothing <= 2e-3) is fine


class CarelessRule(WeightedRule):
    """Every person has the weight and the threshold of one with a single key."""

    @property
    def weights(self) -> np.ndarray:
        return np.array([0] + [SCALE] * self.max_keys)

    @property
    def threshold(self) -> int:
        return rule_of(float(self.total), float(self.delta), 1).threshold
