"""Privacy losses: numbers that add up, and the (epsilon, delta) that they promise.

Guarantee: losses compose adaptively. A budget is zCDP but for the delta of its calls. A report with Laplace noise is
pure: it adds its epsilon to what all else promises, or epsilon^2 / 2 to rho, and the smaller of the two holds
(proofs/composition.md). A report with Gaussian noise adds the rho of that noise.
Several people together: proofs/groups.md. Epsilons are rounded up, so what is shown holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from sfumato.accounting import Charge
from sfumato.accounting.composition import zcdp_epsilon
from sfumato.config.settings import Resets
from sfumato.query.policy import Prices
from sfumato.wire.guarantee import GroupBound, PersonBound, Window

GROUPS = (2, 5, 10)
"""The numbers of people whose bound is shown."""

SHOWN_AT = Fraction(1, 10**7)
"""The delta at which an epsilon is shown. It is the same wherever it can be, because such epsilons can be compared."""

NO_BOUND = PersonBound(epsilon=None, delta=None, wins=1.0)

WINDOWS: Mapping[Resets, Window] = {"never": "all", "daily": "day", "weekly": "week", "monthly": "month"}

# How many periods a window can touch: a month of 31 days that begins on a Sunday touches six weeks, a leap year 54.
_PERIODS: Mapping[str, Mapping[Resets, int]] = {
    "day": {"daily": 1},
    "week": {"daily": 7, "weekly": 1},
    "month": {"daily": 31, "weekly": 6, "monthly": 1},
    "year": {"daily": 366, "weekly": 54, "monthly": 12},
}


def periods(resets: Resets, window: Window | Literal["year"]) -> int:
    """How many periods of a budget a window can touch. What never resets is one period."""
    return _PERIODS.get(window, {}).get(resets, 1)


def longest_window(resets: Iterable[Resets]) -> Window:
    """The window of the longest period that ends; "all" if none does."""
    order: list[Window] = ["all", "day", "week", "month"]
    return max((WINDOWS[each] for each in resets), key=order.index, default="all")


@dataclass(frozen=True, slots=True)
class Loss:
    """`delta`-approximate `rho`-zCDP, beside pure reports of `pure` epsilon in all, which are `pure_rho`-zCDP.

    `shown` is the delta for each of GROUPS; None if it depends on what will be released.
    """

    rho: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    pure_rho: Fraction = Fraction(0)
    shown: tuple[Fraction, ...] | None = (Fraction(0),) * len(GROUPS)

    @classmethod
    def of_charge(cls, charge: Charge, prices: Prices, call_deltas: tuple[Fraction, ...] | None) -> Loss:
        """What a charge buys. `call_deltas` are what one call takes of delta for each of GROUPS."""
        shown = None if call_deltas is None else tuple(charge.calls * each for each in call_deltas)
        return cls(charge.information * prices.epsilon_per**2 / 8, charge.calls * prices.delta_per, shown=shown)

    @classmethod
    def of_report(cls, epsilon: Fraction) -> Loss:
        """What a report with Laplace noise tells. With Gaussian noise it is the rho of that noise."""
        return cls(pure=epsilon, pure_rho=epsilon**2 / 2)

    def __add__(self, other: Loss) -> Loss:
        shown = None
        if self.shown is not None and other.shown is not None:
            shown = tuple(mine + theirs for mine, theirs in zip(self.shown, other.shown, strict=True))
        pure, pure_rho = self.pure + other.pure, self.pure_rho + other.pure_rho
        return Loss(self.rho + other.rho, self.delta + other.delta, pure, pure_rho, shown)

    def person(self, *, at: Fraction | None = None, pure: Fraction | None = None) -> PersonBound:
        """What is promised to one person: at a delta, or at the one that is shown.

        `pure` is an epsilon that holds but for the delta of calls.
        """
        if not self.rho and not self.delta:
            return bound(self.pure, Fraction(0))
        delta = round_delta(self.delta) if at is None else at
        if delta is None:
            return NO_BOUND
        epsilon = self._epsilon(1, delta - self.delta)
        return bound(epsilon if pure is None else min(epsilon, pure), delta)

    def groups(self) -> list[GroupBound]:
        """What is promised to several people together."""
        return [self._group(people, shown) for people, shown in zip(GROUPS, self.shown or (), strict=False)]

    def _group(self, people: int, shown: Fraction) -> GroupBound:
        if not self.rho and not self.delta:
            epsilon = round_up(people * self.pure, 100)
            return GroupBound(people=people, epsilon=epsilon, delta=0.0, shown=0.0, same_delta=epsilon)
        delta, same = round_delta(shown), round_delta(self.delta)
        at_delta, at_same = (
            None if each is None or each <= shown else round_up(self._epsilon(people, each - shown), 100)
            for each in (delta, same)
        )
        return GroupBound(
            people=people,
            epsilon=at_delta,
            delta=None if delta is None else float(delta),
            shown=float(shown),
            same_delta=at_same,
        )

    def _epsilon(self, people: int, spare: Fraction) -> Fraction:
        square = people**2
        apart = _convert(square * self.rho, spare) + people * self.pure
        return min(apart, _convert(square * (self.rho + self.pure_rho), spare)) if self.pure else apart


@lru_cache(maxsize=4096)
def _convert(rho: Fraction, spare: Fraction) -> Fraction:
    """Many accounts have one budget, and a conversion takes a millisecond."""
    return Fraction(zcdp_epsilon(rho, spare))


def add(losses: Iterable[Loss | None]) -> Loss | None:
    """The sum; None, which is no bound, if one of them has none."""
    total = Loss()
    for each in losses:
        if each is None:
            return None
        total += each
    return total


def smallest(losses: Iterable[Loss | None]) -> Loss | None:
    """The one that promises most, of several that all hold; None if none of them is a bound."""

    def epsilon(loss: Loss) -> float:
        value = loss.person().epsilon
        return math.inf if value is None else value

    return min((each for each in losses if each is not None), key=epsilon, default=None)


def person_bound(loss: Loss | None) -> PersonBound:
    return NO_BOUND if loss is None else loss.person()


def bound(epsilon: Fraction, delta: Fraction) -> PersonBound:
    """The record of (epsilon, delta). A bet at 50:50 is won with (e^epsilon + delta) / (1 + e^epsilon) at most."""
    rounded = round_up(epsilon, 100)
    wins = chance(rounded, float(delta))
    return PersonBound(epsilon=rounded, delta=float(delta), wins=min(round_up(wins, 10_000), 1.0))


def chance(epsilon: float, delta: float, before: float = 0.5) -> float:
    """The most that is believed of one person's presence with all answers, if it was `before` without them.

    At 1/2 it is the chance to win a bet. (epsilon, delta) is no more than this game: with the chance delta it says
    whether she is in, otherwise it multiplies the odds that she is by e^epsilon at most (Kairouz, Oh, Viswanath 2015).
    """
    return 1 - (1 - delta) / (1 + before / (1 - before) * math.exp(min(epsilon, 700)))


def round_delta(spent: Fraction) -> Fraction | None:
    """The smallest power of ten, from SHOWN_AT on, of which calls take at most half; None if it is 1 or more."""
    delta = SHOWN_AT
    while delta < 2 * spent:
        delta *= 10
    return delta if delta < 1 else None


def round_up(value: float | Fraction, steps: int) -> float:
    """Rounded up to a multiple of 1 / `steps`, exactly."""
    return math.ceil(Fraction(value) * steps) / steps
