"""Keys are kept as often as the law of the rule says. Each test alarms once in a million runs (Chernoff)."""

from __future__ import annotations

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


def test_truncated_laplace_counts() -> None:
    """The noise of keys that are surely kept has the stated law, and one with an end that is one lower is rejected."""
    rule = TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10), max_keys=2)
    draws = rule.select(np.full(10 * KEYS, 1000), Rng.system()).counts - 1000
    assert np.abs(draws).max() == rule.reach

    def cdf(unit: float, reach: int):
        masses = np.exp(-unit * np.abs(np.arange(-reach, reach + 1)))
        sums = np.concatenate([[0.0], np.cumsum(masses) / masses.sum()])
        return lambda points: sums[np.clip(points + reach + 1, 0, 2 * reach + 1)]

    assert cdf_distance(draws, cdf(0.5, rule.reach)) <= cdf_slack(len(draws))
    for unit, reach in ((0.5, rule.reach - 1), (0.525, rule.reach), (0.476, rule.reach)):
        assert cdf_distance(draws, cdf(unit, reach)) > cdf_slack(len(draws))


def test_truncated_laplace_selection() -> None:
    rule = TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 100), max_keys=2)
    ladder = [1, 2, 4, 6, 8, 10, 14]
    kept = rule.select(np.repeat(ladder, KEYS), Rng.system()).kept
    outcomes = [None] * (len(ladder) * KEYS - len(kept)) + [ladder[at] for at in (kept // KEYS).tolist()]
    masses = np.exp(-0.5 * np.abs(np.arange(-rule.reach, rule.reach + 1)))
    masses /= masses.sum()
    law = {n: float(masses[2 * rule.reach + 1 - n :].sum()) / len(ladder) for n in ladder}
    law |= {None: 1 - sum(law.values())}
    assert not unlikely(outcomes, law)
    assert unlikely(outcomes, dict(zip(law, [*(1.05 * p for p in list(law.values())[:-1]), 0.0], strict=True)))
