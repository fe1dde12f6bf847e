"""Keys are kept as often as the law of the rule says. Each test alarms once in a million runs (Chernoff)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng, TruncatedLaplaceRule, WeightedRule
from sfumato.mechanisms.weighted_selection import SCALE
from tests.helpers.false_alarms import cdf_distance, cdf_slack, unlikely

pytestmark = pytest.mark.slow

KEYS = 100_000


def test_weighted_selection() -> None:
    """Keys of n people with four keys each, for seven n about the threshold; a threshold off by 2 % is rejected."""
    rule = WeightedRule(total=Fraction(1, 2), delta=Fraction(1, 1000), max_keys=16)
    weight = int(rule.weights[4])
    ladder = [rule.threshold * step // (8 * weight) for step in (2, 4, 6, 8, 10, 12, 16)]
    kept = rule.select(np.repeat(ladder, KEYS) * weight, Rng.system()).kept
    outcomes = [None] * (len(ladder) * KEYS - len(kept)) + [ladder[at] for at in (kept // KEYS).tolist()]

    def law(threshold: int) -> dict[int | None, float]:
        chances = {people: rule.noise.tail(threshold - people * weight) / len(ladder) for people in ladder}
        return {**chances, None: 1 - sum(chances.values())}

    assert not unlikely(outcomes, law(rule.threshold))
    assert unlikely(outcomes, law(rule.threshold + SCALE // 20))
    assert unlikely(outcomes, law(rule.threshold - SCALE // 20))


def cumulated(e: float, d: float) -> np.ndarray:
    """How likely n people are enough, by n, from the definition of the law."""
    chances = [0.0]
    while chances[-1] < 1:
        chances.append(min(math.exp(e) * chances[-1] + d, 1 - math.exp(-e) * (1 - chances[-1] - d), 1.0))
    return np.array(chances)


def test_truncated_laplace_counts() -> None:
    """The noise of keys that are surely kept has the stated law; one with other ends or another slope is rejected."""
    rule = TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10), max_keys=2)
    draws = rule.select(np.full(10 * KEYS, 1000), Rng.system()).counts - 1000
    missed = float(rule.per_key)

    def cdf(unit: float, missed: float):
        chances = cumulated(unit, missed)
        return lambda points: 1 - chances[np.clip(rule.threshold - 1 - points, 0, len(chances) - 1)]

    assert cdf_distance(draws, cdf(0.5, missed)) <= cdf_slack(len(draws))
    for unit, end in ((0.5, 1.1 * missed), (0.525, missed), (0.476, missed)):
        assert cdf_distance(draws, cdf(unit, end)) > cdf_slack(len(draws))


def test_truncated_laplace_selection() -> None:
    rule = TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 100), max_keys=2)
    ladder = [1, 2, 4, 5, 6, 7, 8]
    kept = rule.select(np.repeat(ladder, KEYS), Rng.system()).kept
    outcomes = [None] * (len(ladder) * KEYS - len(kept)) + [ladder[at] for at in (kept // KEYS).tolist()]
    chances = cumulated(0.5, float(rule.per_key))
    law = {n: float(chances[n]) / len(ladder) for n in ladder}
    law |= {None: 1 - sum(law.values())}
    assert not unlikely(outcomes, law)
    assert unlikely(outcomes, dict(zip(law, [*(1.05 * p for p in list(law.values())[:-1]), 0.0], strict=True)))
