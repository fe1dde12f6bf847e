"""What an epsilon buys: the largest budget that keeps to it, and what can be asked with that."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from sfumato.accounting import Charge, epsilon
from sfumato.errors import InvalidArgument
from sfumato.explain.buying import EPSILON, PRICES, plan_budget
from sfumato.explain.losses import SHOWN_AT
from sfumato.query.policy import Prices
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
    assert plan.epsilon == EPSILON == 8
    assert (plan.period.epsilon, plan.period.delta) == (8.0, 1e-7)
    assert plan.year is not None
    assert (plan.year.epsilon, plan.year.delta) == (34.36, 1e-6)
    assert {each.asked: (each.times, each.error95) for each in plan.buys()} == {
        "total": (320, 26),
        "histogram": (320, 26),
        "top_ten": (15, 26),
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
