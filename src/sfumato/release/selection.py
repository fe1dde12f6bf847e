"""Which keys are released: the rule that selects them, and the noisy counts that it publishes with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.intervals import selected_interval
from sfumato.mechanisms.key_selection import (
    GaussianRule,
    GeometricRule,
    KeyRule,
    KeySelection,
    LaplaceRule,
    ThresholdRule,
)
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.random import Rng
from sfumato.release.guarantee import root
from sfumato.release.statistics.base import Column

Selection: TypeAlias = Literal["auto", "laplace", "geometric", "gaussian"]

PEOPLE = 8 * 10**9
"""A threshold above the number of people on earth keeps nothing."""


@dataclass(frozen=True, slots=True)
class SelectionBudget:
    """What a rule may spend, where a person counts for `max_keys` keys."""

    rho: Fraction
    delta: Fraction
    max_keys: int

    def choose_rule(self, selection: Selection, *, publishes_counts: bool) -> KeyRule:
        """The rule that was asked for or, for "auto", the one that keeps the smallest keys."""
        makers: dict[str, Callable[[], KeyRule]] = {
            "gaussian": self._gaussian,
            "laplace": self._laplace,
            "geometric": self._geometric,
        }
        if selection != "auto":
            return makers[selection]()
        names = ["gaussian", "laplace"] if publishes_counts else list(makers)
        rules = [rule for name in names if (rule := _possible(makers[name])) is not None]
        return min(rules, key=halfway) if rules else self._gaussian()

    def _gaussian(self) -> KeyRule:
        return GaussianRule(total=self.rho, delta=self.delta, max_keys=self.max_keys)

    def _laplace(self) -> KeyRule:
        return LaplaceRule(epsilon=self._epsilon, delta=self.delta, max_keys=self.max_keys)

    def _geometric(self) -> KeyRule:
        return GeometricRule(epsilon=self._epsilon, delta=self.delta, max_keys=self.max_keys)

    @property
    def _epsilon(self) -> Fraction:
        """A rule of epsilon / L per key is epsilon^2 / (2 L) zCDP."""
        return root(2 * self.max_keys * self.rho)


def _possible(make: Callable[[], KeyRule]) -> KeyRule | None:
    """The rule, if its noise can be drawn and its threshold be computed."""
    try:
        rule = make()
        halfway(rule)
    except InvalidArgument:
        return None
    return rule


def select_keys(
    rule: KeyRule, counts: Integers, rng: Rng, *, publishes_counts: bool
) -> tuple[Integers, dict[str, Column]]:
    """The codes of the keys that are kept, of counts by code; and their noisy counts, where these are published."""
    # Keys without people are never kept. Noise is independent from key to key: it does not matter which gets which.
    present = np.flatnonzero(counts)
    selection = rule.select(counts[present], rng)
    return present[selection.kept], selection_columns(rule, selection) if publishes_counts else {}


def selection_columns(rule: KeyRule, selection: KeySelection) -> dict[str, Column]:
    """The noisy counts that selected the keys, with intervals that allow for it."""
    assert isinstance(rule, ThresholdRule)  # noqa: S101
    assert selection.counts is not None  # noqa: S101
    noisy, deviation = selection.counts, rule.noise.deviation
    if isinstance(rule, GaussianRule):
        low, high = selected_interval(noisy, rule.threshold, deviation)
        high = np.maximum(high, noisy)  # close to the threshold it could end below what was released
    else:
        # Beyond the threshold Laplace noise forgets how far it came: up to there, any smaller count explains it.
        scale, width = float(rule.noise.parameter), rule.noise.half_width()
        low = np.where(noisy - rule.threshold < scale * math.log(40), 1, np.maximum(noisy - width, 1))
        high = noisy + width
    ends = {"units_low": low, "units_high": high, "units_deviation": np.full(len(noisy), deviation)}
    return {"units": noisy, **ends}


def halfway(rule: KeyRule) -> int:
    """The number of people with which a key is kept about half of the time."""
    if isinstance(rule, ThresholdRule):
        return rule.threshold
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
    if isinstance(rule, ThresholdRule):
        return (
            f"discrete {rule.noise.family.title()}, deviation {rule.noise.deviation:,.4g}, threshold {rule.threshold:,}"
        )
    return f"truncated geometric, a key of {halfway(rule):,} people is kept half of the time"
