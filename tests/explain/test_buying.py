"""What an epsilon buys: the largest budget that keeps to it, and what can be asked with that."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest

from sfumato.accounting import Charge, epsilon
from sfumato.errors import InvalidArgument
from sfumato.explain.buying import EPSILON, FINEST, PRICES, compare_settings, find_setting, plan_budget
from sfumato.explain.losses import SHOWN_AT
from sfumato.query.policy import Prices
from sfumato.wire.guarantee import Asked
from tests.helpers.promises import ANNA, TABLE, config, promise


@pytest.mark.parametrize("value", ["0.4", "1", "3", "8", "30", "100"])
def test_the_budget_keeps_to_epsilon_and_one_unit_more_would_not(value: str) -> None:
    plan = plan_budget(Fraction(value))
    cap = plan.budget.cap
    given = PRICES.epsilon_per, PRICES.delta_per, SHOWN_AT
    assert epsilon(cap.information, cap.calls, *given) <= float(value)
    more = cap.information + 1
    assert epsilon(more, min(more, 500), *given) > float(value)
    assert plan.period.epsilon is not None
    assert plan.period.epsilon <= float(value) + 0.005


def test_calls_are_as_many_as_units_while_their_delta_is_small() -> None:
    """A call goes with a unit at least, so more would never be used."""
    assert plan_budget(8).budget.cap == Charge(320, 320)
    assert plan_budget(30).budget.cap == Charge(2838, 500)
    fewer_calls = epsilon(320, 15, PRICES.epsilon_per, PRICES.delta_per, SHOWN_AT)
    assert fewer_calls > 7.9  # what 305 calls cost is nearly nothing


def test_the_default_is_what_the_docs_say() -> None:
    plan = plan_budget()
    assert plan.epsilon == EPSILON == 3
    assert (plan.period.epsilon, plan.period.delta) == (2.98, 1e-7)
    assert plan.year is not None
    assert (plan.year.epsilon, plan.year.delta) == (11.21, 1e-6)
    assert plan.period.wins < 0.955
    larger = plan_budget(4).period
    assert larger.wins > 0.975
    assert {each.asked: (each.times, each.error95) for each in plan.buys()} == {
        "total": (55, 26),
        "histogram": (55, 26),
        "top_ten": (2, 26),
    }


def test_what_it_buys_can_be_bought() -> None:
    for value in (1, 3, 8, 30):
        plan = plan_budget(value)
        for each in plan.buys():
            assert each.charge * each.times <= plan.budget.cap
            assert not each.charge * (each.times + 1) <= plan.budget.cap


def test_more_epsilon_buys_more() -> None:
    plans = [plan_budget(Fraction(step, 2)) for step in range(1, 20)]
    assert all(a.budget.cap < b.budget.cap for a, b in pairwise(plans))


def test_its_lines_are_read_back_and_promise_the_same() -> None:
    plan = plan_budget(3, Prices(Fraction(1, 10), Fraction(1, 10**9)), "weekly")
    text = f"{TABLE}[budgets.partner]\n{plan.to_toml()}{ANNA}"
    assert config(text).budgets["partner"] == plan.budget
    whole = promise(text).bound("period")
    assert whole is not None
    assert (whole.epsilon, whole.delta) == (plan.period.epsilon, plan.period.delta)


def test_other_settings_promise_the_same() -> None:
    plan = plan_budget(3)
    plans = compare_settings(plan)
    assert [float(each.budget.prices.epsilon_per) for each in plans] == [0.05, 0.1, 0.15, 0.2, 0.3]
    for each in plans:
        assert each.period.epsilon is not None
        assert each.period.epsilon <= 3.005
    totals = [next(each.buys()) for each in plans]
    assert all(a.times > b.times for a, b in pairwise(totals))
    assert all((a.error95 or 0) > (b.error95 or 0) for a, b in pairwise(totals))
    assert plan in plans
    assert len(compare_settings(plan_budget(3, Prices(Fraction(7, 100), Fraction(1, 10**10))))) == 6


@pytest.mark.parametrize("asked", ["total", "histogram", "top_ten"])
@pytest.mark.parametrize("questions", [1, 17, 400])
def test_the_least_noise_that_buys_enough(asked: Asked, questions: int) -> None:
    found = find_setting(plan_budget(3), asked, questions)
    assert found is not None
    prices = found.budget.prices
    assert {each.asked: each.times for each in found.buys()}[asked] >= questions
    more = replace(prices, epsilon_per=prices.epsilon_per + Fraction(1, FINEST))
    with suppress(InvalidArgument):
        assert {each.asked: each.times for each in plan_budget(3, more).buys()}[asked] < questions


def test_more_calls_than_delta_allows_cannot_be_bought() -> None:
    assert find_setting(plan_budget(3), "histogram", 501) is None
    assert find_setting(plan_budget(3), "total", 501) is not None


@pytest.mark.parametrize("resets", ["daily", "weekly", "monthly", "never"])
def test_the_odds_are_those_of_policy_explain(resets: str) -> None:
    plan = plan_budget(3, resets=resets)
    text = f"{TABLE}[budgets.partner]\n{plan.to_toml()}{ANNA}"
    explained = {bound.what: (bound.epsilon, bound.delta, bound.wins) for bound in promise(text).bounds}
    odds = {what: (bound.epsilon, bound.delta, bound.wins) for what, bound in plan.odds()}
    month = odds.pop("month", None)
    assert odds.keys() - explained.keys() == {"histogram"}  # the table has no column of which a person has one value
    assert odds | explained == odds
    assert (month is not None) == (resets in ("daily", "weekly"))
    if month is not None:
        assert odds["period"][0] < month[0] < odds["year"][0]


def test_what_never_resets_has_no_year() -> None:
    assert plan_budget(3, resets="never").year is None
    assert plan_budget(3, resets="never").to_dict()["year"] is None


@pytest.mark.parametrize(
    ("epsilon", "prices", "problem"),
    [
        (0, PRICES, "epsilon: must be greater than zero"),
        (101, PRICES, "epsilon: must be at most 100"),
        (Fraction(1, 20), PRICES, "epsilon: buys nothing at epsilon_per 0.15; give more, or a smaller epsilon_per"),
        (8, Prices(Fraction(1, 10), Fraction(1, 10**6)), "delta_per: must be at most 5e-08"),
    ],
)
def test_refusals(epsilon: Fraction, prices: Prices, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        plan_budget(epsilon, prices)
