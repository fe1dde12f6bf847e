"""Exact accounting of Gaussian noise that also names keys: no key of a person costs both noise and delta.

A key that others have too moves by what she adds: noise hides it, and no delta is needed for it. A key that only she
has is kept with some delta, and there is no noise that she moves. So the more of her keys are new, the less she moves:
with a share f of new keys a rule of (mu^2, delta) is a step of (1 - f) mu^2 and at most f delta, and what it costs is
the larger of the two ends, not their sum. What was released before the rule may decide which keys are hers there, so
the larger one is taken for every outcome of the steps before. Proof: proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from sfumato.accounting.gaussian import (
    KAPPA,
    MAX_EXPONENT,
    UP,
    GaussianLoss,
    GaussianStep,
    continuous_delta,
    summed_squares,
)
from sfumato.accounting.numbers import Number, rational

BLOCKS, FIRST, LAST = 400, -8.0, 9.0
"""The loss of the steps before is taken in so many blocks between so many deviations; the last part counts whole."""


@dataclass(frozen=True, slots=True)
class NamingPart:
    """Steps of a plan. With `delta` above 0 they are those of a rule that names keys, which takes `delta`."""

    steps: tuple[GaussianStep, ...]
    delta: Fraction = Fraction(0)


@dataclass(frozen=True)
class NamingLoss:
    """What the parts of a plan, one after the other, tell about one person; or those of one of several plans.

    `before`, `naming` and `total` are sums of |u|^2 / (variance - 1): over the parts before the last rule that names
    keys, over that rule, and over all. `named` is the delta of that rule, and `earlier` that of all rules before it.
    """

    whole: GaussianLoss
    before: Fraction
    naming: Fraction
    total: Fraction
    moved: int
    named: Fraction
    earlier: Fraction

    @classmethod
    def of_any(cls, plans: Sequence[Sequence[NamingPart]]) -> NamingLoss:
        """The loss of any one of some plans, where released numbers decide between them before keys are named."""
        steps = [[step for part in plan for step in part.steps] for plan in plans]
        bounded = all(step.variance > 1 for plan in steps for step in plan)
        squares = [_squares(plan) if bounded else _NO_BOUND for plan in plans]
        before, naming, total = zip(*squares, strict=True)
        named, earlier = zip(*map(_deltas, plans), strict=True)
        return cls(
            GaussianLoss(tuple(steps[0])) if len(plans) == 1 else GaussianLoss.of_any(steps),
            *(max(before), min(naming), max(total)),
            max(sum(step.coordinates for step in plan) for plan in steps),
            *(max(named), max(earlier)),
        )

    def delta(self, epsilon: Number) -> float:
        """The delta at which the plan is (`epsilon`, delta)-DP, rounded up: what naming keys takes is part of it."""
        at = float(rational("epsilon", epsilon))
        both = self.whole.delta(epsilon) + float(self.named + self.earlier) * UP
        return min(both, self._larger(at)) if self.named else both

    def _larger(self, epsilon: float) -> float:
        """The mean, over the losses of the parts before, of the larger of both ends; and the delta of earlier rules."""
        slack = KAPPA * self.moved * UP
        if self.total <= 0 or slack > MAX_EXPONENT:
            return 1.0
        deviation, at = math.sqrt(self.before), epsilon - 2 * slack
        middle = float(self.before) / 2 * UP
        parts = (mass * self._at(at - middle - deviation * z) for z, mass in _normal_blocks())
        mean = self._at(at) if not deviation else math.fsum(parts) + _upper_tail(LAST)
        return math.exp(slack) * (mean + float(self.earlier)) * UP

    def _at(self, epsilon: float) -> float:
        """With so much of epsilon left: no key is new, or all are; where neither is known to be worst, their sum."""
        left = float(self.total - self.before) * UP
        named = -math.log1p(-float(self.named)) * UP
        none_new = continuous_delta(math.sqrt(left), epsilon)
        if epsilon <= 0 or 4 * epsilon**2 < (left**2 + 4 * left) * UP:
            return min(none_new + named, 1.0)
        all_new = named + continuous_delta(math.sqrt(max(left - float(self.naming) / UP, 0.0)), epsilon)
        return min(max(none_new, all_new), 1.0)


_NO_BOUND = (Fraction(0), Fraction(0), Fraction(0))


def _squares(plan: Sequence[NamingPart]) -> tuple[Fraction, Fraction, Fraction]:
    """Of the parts before the last that names keys, of that one, and of all."""
    last = max((place for place, part in enumerate(plan) if part.delta), default=0)
    parts = [summed_squares(part.steps) for part in plan]
    return sum(parts[:last], Fraction(0)), parts[last], sum(parts, Fraction(0))


def _deltas(plan: Sequence[NamingPart]) -> tuple[Fraction, Fraction]:
    """Of the last part that names keys, and of those before it."""
    *earlier, last = [Fraction(0), *(part.delta for part in plan if part.delta)]
    return last, sum(earlier, Fraction(0))


@lru_cache(maxsize=1)
def _normal_blocks() -> tuple[tuple[float, float], ...]:
    """The upper ends of blocks, and the mass of a normal law in them; the first has all that is below it."""
    ends = [FIRST + (LAST - FIRST) * place / BLOCKS for place in range(1, BLOCKS + 1)]
    masses = [_upper_tail(-ends[0]), *(_between(low, high) for low, high in pairwise(ends))]
    return tuple((end + 2.0**-30, mass * UP) for end, mass in zip(ends, masses, strict=True))


def _between(low: float, high: float) -> float:
    """Of the smaller tails: they have the smaller error."""
    low, high = (low, high) if low + high > 0 else (-high, -low)
    return _upper_tail(low) - _upper_tail(high)


def _upper_tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2
