"""What an epsilon buys: the budget that promises it, and how much can be asked with this budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.accounting import Charge, units
from sfumato.accounting import epsilon as epsilon_of_cap
from sfumato.accounting.numbers import Number, positive
from sfumato.config import Budget
from sfumato.config.settings import Resets
from sfumato.errors import InvalidArgument
from sfumato.explain.calls import TYPICAL, mechanism, pure_epsilon
from sfumato.explain.losses import SHOWN_AT, Loss, periods
from sfumato.query.policy import Prices
from sfumato.wire.guarantee import Asked, PersonBound

PRICES = Prices(Fraction(15, 100), Fraction(1, 10**10))
"""The prices of budgets that `sfumato init` writes: counts are within 26 of the truth, 19 times in 20."""

EPSILON = Fraction(8)
"""What all questions and releases of one month promise with the budget that `sfumato init` writes, unless it is given.

The largest whole number below 10, which is often called the end of what protects a person, that leaves something to
ask: 15 lists of ten, or 320 histograms or totals. A year of it is 34.35, and is shown too.
"""

MAX_EPSILON = 100


@dataclass(frozen=True, slots=True)
class Affordable:
    """How often one kind of question can be asked if nothing else is: its price, its noise, and what one promises."""

    asked: Asked
    charge: Charge
    times: int
    error95: int | None
    one: PersonBound


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """A budget that promises at most `epsilon` in a period, and what can be asked with it."""

    epsilon: Fraction
    budget: Budget

    @property
    def period(self) -> PersonBound:
        return self._bound(self.budget.cap)

    @property
    def year(self) -> PersonBound | None:
        """What a year of it promises; None if it never resets."""
        times = periods(self.budget.resets, "year")
        year = Loss.of_charge(self.budget.cap * times, self.budget.prices, None)
        return None if self.budget.resets == "never" else year.person()

    def buys(self) -> Iterator[Affordable]:
        for asked in TYPICAL:
            answering = mechanism(asked, self.budget.prices)
            charge, cap = answering.reserve, self.budget.cap
            pairs = (cap.information, charge.information), (cap.calls, charge.calls)
            times = min(int(whole // each) for whole, each in pairs if each)
            one = self._bound(charge, pure_epsilon(answering))
            yield Affordable(asked, charge, times, answering.error95, one)

    def _bound(self, charge: Charge, pure: Fraction | None = None) -> PersonBound:
        return Loss.of_charge(charge, self.budget.prices, None).person(at=SHOWN_AT, pure=pure)

    def to_toml(self) -> str:
        """The lines of the budget's section, without its name."""
        prices, cap = self.budget.prices, self.budget.cap
        lines = {
            "epsilon_per": _decimal(prices.epsilon_per),
            "delta_per": _decimal(prices.delta_per),
            "information": cap.information,
            "calls": cap.calls,
            "resets": f'"{self.budget.resets}"',
        }
        return "".join(f"{name} = {value}\n" for name, value in lines.items())

    def to_dict(self) -> dict[str, Any]:
        year = self.year
        return {
            "epsilon": float(self.epsilon),
            "budget": {
                "epsilon_per": str(self.budget.prices.epsilon_per),
                "delta_per": str(self.budget.prices.delta_per),
                **self.budget.cap.to_dict(),
                "resets": self.budget.resets,
            },
            "period": self.period.to_dict(),
            "year": None if year is None else year.to_dict(),
            "buys": [
                {
                    "what": each.asked,
                    "charge": each.charge.to_dict(),
                    "times": each.times,
                    "error95": each.error95,
                    "one": each.one.to_dict(),
                }
                for each in self.buys()
            ],
        }


def plan_budget(epsilon: Number = EPSILON, prices: Prices = PRICES, resets: Resets = "monthly") -> BudgetPlan:
    """The largest budget that promises (`epsilon`, SHOWN_AT) in a period.

    Every call goes with a unit at least, so it has as many calls as units: calls are cheap. It has fewer where their
    deltas would take more than half of SHOWN_AT.
    """
    target = positive("epsilon", epsilon, at_most=MAX_EPSILON)
    most = int(SHOWN_AT / 2 // prices.delta_per)
    if most < 1:
        raise InvalidArgument("delta_per", f"must be at most {float(SHOWN_AT / 2):.0e}, or one call takes all of delta")
    given = prices.epsilon_per, prices.delta_per, SHOWN_AT
    without_calls = units(target, 0, *given)
    information = units(target, min(without_calls, most), *given)
    while epsilon_of_cap(information + 1, min(information + 1, most), *given) <= target:
        information += 1  # a few times at most: calls are cheap
    if not information:
        problem = f"buys nothing at epsilon_per {_decimal(prices.epsilon_per)}; give more, or a smaller epsilon_per"
        raise InvalidArgument("epsilon", problem)
    return BudgetPlan(target, Budget(prices, Charge(information, min(information, most)), resets))


def _decimal(number: Fraction) -> str:
    """A number as a decimal, as TOML takes it: 0.15, 1e-10."""
    return f"{(Decimal(number.numerator) / Decimal(number.denominator)).normalize():g}"
