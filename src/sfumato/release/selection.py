"""Which keys are released: the rule that selects them, and the noisy counts that it publishes with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from sfumato.mechanisms.intervals import selected_interval
from sfumato.mechanisms.key_selection import (
    GaussianRule,
    GeometricRule,
    KeyRule,
    KeySelection,
    LaplaceRule,
    ThresholdRule,
    TruncatedLaplaceRule,
)
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.random import Rng
from sfumato.mechanisms.weighted_selection import WeightedRule
from sfumato.release.guarantee import root
from sfumato.release.request import Rows
from sfumato.release.statistics.base import Series, describe_law

Selection: TypeAlias = Literal[
    "auto", "laplace", "truncated_laplace", "geometric", "gaussian", "weighted", "weighted_twice"
]

PEOPLE = 8 * 10**9
"""A threshold above the number of people on earth keeps nothing."""

WEIGHTED_KEYS = 2**10
"""The most keys that a person counts for in weighted selection, unless it is given: more cost little there."""

FIRST_ROUND = Fraction(1, 20)
"""What the first of two rounds takes: it finds the keys that nearly everyone has."""


WEIGHTED: frozenset[Selection] = frozenset(("weighted", "weighted_twice"))
BY_EPSILON: Mapping[Selection, type[LaplaceRule | GeometricRule]] = {
    "laplace": LaplaceRule,
    "truncated_laplace": TruncatedLaplaceRule,
    "geometric": GeometricRule,
}


@dataclass(frozen=True, slots=True)
class SelectionBudget:
    """What selection may spend, where a person counts for `max_keys` keys. With `epsilon`, it spends that alone."""

    rho: Fraction
    delta: Fraction
    max_keys: int
    epsilon: Fraction | None = None

    def rules(self, selection: Selection) -> tuple[KeyRule, ...]:
        """The rules that `selection` names, one for each round."""
        if selection == "weighted_twice":
            first = FIRST_ROUND * self.rho, FIRST_ROUND * self.delta
            return self._weighted(*first), self._weighted(self.rho - first[0], self.delta - first[1])
        if selection == "weighted":
            return (self._weighted(self.rho, self.delta),)
        if selection == "gaussian":
            return (GaussianRule(total=self.rho, delta=self.delta, max_keys=self.max_keys),)
        # A rule of epsilon / L per key is epsilon^2 / (2 L) zCDP.
        epsilon = root(2 * self.max_keys * self.rho) if self.epsilon is None else self.epsilon
        return (BY_EPSILON[selection](epsilon=epsilon, delta=self.delta, max_keys=self.max_keys),)

    def _weighted(self, rho: Fraction, delta: Fraction) -> KeyRule:
        return WeightedRule(total=rho, delta=delta, max_keys=self.max_keys)


def select_by_weights(rules: Sequence[WeightedRule], rows: Rows) -> Integers:
    """The codes of the keys that are kept, ascending, by one round per rule: each without what is kept already."""
    found = np.zeros(0, np.int64)
    for number, rule in enumerate(rules):
        sums = rows.contributions.sum_weights(rows.order("select"), rule.weights, without=found)
        kept, _ = select_keys(rule, sums, rows.rng.child(purpose="select", round=number), publishes_counts=False)
        found = np.union1d(found, kept)
    return found


def select_keys(
    rule: KeyRule, counts: Integers, rng: Rng, *, publishes_counts: bool
) -> tuple[Integers, dict[str, Series]]:
    """The codes of the keys that are kept, of counts by code; and their noisy counts, where these are published."""
    # Keys without people are never kept. Noise is independent from key to key: it does not matter which gets which.
    present = np.flatnonzero(counts)
    selection = rule.select(counts[present], rng)
    return present[selection.kept], selection_columns(rule, selection) if publishes_counts else {}


def selection_columns(rule: KeyRule, selection: KeySelection) -> dict[str, Series]:
    """The noisy counts that selected the keys, with intervals that allow for it."""
    assert isinstance(rule, ThresholdRule)  # noqa: S101
    assert selection.counts is not None  # noqa: S101
    noisy, deviation = selection.counts, rule.noise.deviation
    if isinstance(rule, GaussianRule):
        return gaussian_columns(noisy, rule.threshold, deviation)
    # Beyond the threshold Laplace noise forgets how far it came: up to there, any smaller count explains it.
    scale, width = float(rule.noise.parameter), rule.noise.half_width()
    low = np.where(noisy - rule.threshold < scale * math.log(40), 1, np.maximum(noisy - width, 1))
    return _columns(noisy, low, noisy + width, deviation)


def gaussian_columns(noisy: Integers, level: int, deviation: float) -> dict[str, Series]:
    """Counts with Gaussian noise that are shown because they have reached a level, with intervals that allow for it."""
    low, high = selected_interval(noisy, level, deviation)
    return _columns(noisy, low, np.maximum(high, noisy), deviation)  # close to the level it could end below the count


def _columns(noisy: Integers, low: Integers, high: Integers, deviation: float) -> dict[str, Series]:
    ends = {"units_low": low, "units_high": high, "units_deviation": np.full(len(noisy), deviation)}
    return {"units": noisy, **ends}


def halfway(rule: KeyRule, keys: int = 1) -> int:
    """The number of people, with so many keys each, with which a key is kept about half of the time."""
    if isinstance(rule, ThresholdRule):
        return rule.threshold
    if isinstance(rule, WeightedRule):
        return math.ceil(rule.threshold / int(rule.weights[min(keys, rule.max_keys)]))
    assert isinstance(rule, GeometricRule)  # noqa: S101
    low, high = 0, 1
    while float(rule.probabilities(np.array([high]))[0]) < 0.5 and high <= PEOPLE:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rule.probabilities(np.array([middle]))[0] >= 0.5 else (middle, high)
    return high


def describe_rule(rule: KeyRule) -> str:
    """The noise of a rule and its threshold, in words."""
    if isinstance(rule, WeightedRule):
        return f"discrete Gaussian on weights, a key of {halfway(rule):,} people with no other is kept half of the time"
    if isinstance(rule, ThresholdRule):
        return f"{describe_law(rule.noise)}, deviation {rule.noise.deviation:,.4g}, threshold {rule.threshold:,}"
    return f"truncated geometric, a key of {halfway(rule):,} people is kept half of the time"
