"""What an epsilon buys: the budget that promises it, and how much can be asked with this budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.accounting import Charge, units
from sfumato.accounting import epsilon as epsilon_of_cap
from sfumato.accounting.numbers import Number, positive
from sfumato.config import Budget
from sfumato.config.settings import Resets
from sfumato.errors import InvalidArgument
from sfumato.explain.accounts import account_bounds
from sfumato.explain.calls import TYPICAL, mechanism, pure_epsilon
from sfumato.explain.losses import SHOWN_AT, Loss, periods
from sfumato.ledger import Account
from sfumato.mechanisms.mechanism import ShownSizes
from sfumato.query.policy import Prices
from sfumato.wire.guarantee import Asked, PersonBound

PRICES = Prices(Fraction(15, 100), Fraction(1, 10**10))
"""The prices of budgets that `sfumato init` writes: counts are within 26 of the truth, 19 times in 20."""

EPSILON = Fraction(3)
"""What all questions and releases of one month promise with the budget that `sfumato init` writes, unless it is given.

The largest whole number with which a bet at 50:50 on one person's presence is still lost 1 time in 20. It leaves
something to ask: 2 lists of ten, 5 lists of five, or 55 totals. A year of it is 11.21, and is shown too.
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
    visible: ShownSizes | None = None


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """A budget that promises at most `epsilon` in a period, and what can be asked with it.

    `histograms`: whether there is a column of which a person has one value, of which a histogram costs one unit.
    """

    epsilon: Fraction
    budget: Budget
    histograms: bool = True

    @property
    def period(self) -> PersonBound:
        return self._bound(self.budget.cap)

    @property
    def year(self) -> PersonBound | None:
        """What a year of it promises; None if it never resets."""
        times = periods(self.budget.resets, "year")
        year = Loss.of_charge(self.budget.cap * times, self.budget.prices, None)
        return None if self.budget.resets == "never" else year.person()

    @property
    def month(self) -> PersonBound | None:
        """What a month of it promises; None where the period is a month, or never ends."""
        if self.budget.resets in ("monthly", "never"):
            return None
        return Loss.of_charge(self.budget.cap * periods(self.budget.resets, "month"), self.budget.prices, None).person()

    def odds(self) -> list[tuple[str, PersonBound]]:
        """What is promised to one person if so much is asked, as `policy explain` says it of an account."""
        own = Account("analyst:", self.budget)
        bounds = [(bound.what, bound) for bound in account_bounds(own, histograms=self.histograms)]
        month = [] if self.month is None else [("month", self.month)]
        return [each for each in bounds if each[0] != "year"] + month + [each for each in bounds if each[0] == "year"]

    def buys(self) -> Iterator[Affordable]:
        for asked in TYPICAL if self.histograms else ("total", "top_ten"):
            answering = mechanism(asked, self.budget.prices)
            charge, cap = answering.reserve, self.budget.cap
            pairs = (cap.information, charge.information), (cap.calls, charge.calls)
            times = min(int(whole // each) for whole, each in pairs if each)
            one = self._bound(charge, pure_epsilon(answering))
            yield Affordable(asked, charge, times, answering.error95, one, answering.visible)

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
                    "visible": None if each.visible is None else each.visible._asdict(),
                    "one": each.one.to_dict(),
                }
                for each in self.buys()
            ],
        }


SETTINGS = tuple(Fraction(each, 100) for each in (5, 10, 15, 20, 30))
"""Values of epsilon_per that are compared."""

FINEST, HIGHEST = 1000, 5
"""Values of epsilon_per that are found are multiples of one in so many, and at most so high."""


def compare_settings(plan: BudgetPlan, settings: Iterable[Fraction] = SETTINGS) -> list[BudgetPlan]:
    """The same epsilon bought with several values of epsilon_per, the plan's own among them: noise against number."""
    plans = []
    for epsilon_per in sorted({*settings, plan.budget.prices.epsilon_per}):
        with suppress(InvalidArgument):  # it buys nothing
            prices = replace(plan.budget.prices, epsilon_per=epsilon_per)
            plans.append(plan_budget(plan.epsilon, prices, plan.budget.resets))
    return plans


def find_setting(plan: BudgetPlan, asked: Asked, questions: int) -> BudgetPlan | None:
    """The plan with the least noise that still buys so many questions of a kind; None if none does."""
    found, lowest, highest = None, 1, HIGHEST * FINEST
    while lowest <= highest:
        middle = (lowest + highest) // 2
        plans = compare_settings(replace(plan, budget=_at(plan.budget, Fraction(middle, FINEST))), ())
        if plans and any(each.asked == asked and each.times >= questions for each in plans[0].buys()):
            found, lowest = plans[0], middle + 1
        else:
            highest = middle - 1
    return found


def _at(budget: Budget, epsilon_per: Fraction) -> Budget:
    return replace(budget, prices=replace(budget.prices, epsilon_per=epsilon_per))


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
