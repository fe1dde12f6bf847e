"""From losses to (epsilon, delta): it holds, it is rounded up, and parts add up."""

from __future__ import annotations

import math
from calendar import monthrange
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from sfumato.accounting import Charge, epsilon, zcdp_epsilon
from sfumato.accounting.groups import gumbel_group_delta
from sfumato.explain.losses import (
    GROUPS,
    NO_BOUND,
    SHOWN_AT,
    Loss,
    add,
    bound,
    longest_window,
    periods,
    round_delta,
    smallest,
)
from sfumato.query.policy import Prices

PRICES = Prices(Fraction(15, 100), Fraction(1, 10**10))
CALLS = tuple(Fraction(gumbel_group_delta(PRICES.epsilon_per, PRICES.delta_per, people)) for people in GROUPS)


def loss(information: int, calls: int = 0) -> Loss:
    return Loss.of_charge(Charge(information, calls), PRICES, CALLS)


@pytest.mark.parametrize(
    ("calls", "delta"), [(0, "1e-7"), (30, "1e-7"), (500, "1e-7"), (501, "1e-6"), (5000, "1e-6"), (5001, "1e-5")]
)
def test_delta_is_one_of_which_calls_take_half_at_most(calls: int, delta: str) -> None:
    assert round_delta(calls * PRICES.delta_per) == Fraction(Decimal(delta))


def test_so_many_calls_that_there_is_no_delta() -> None:
    assert round_delta(Fraction(1, 2)) is None
    assert loss(1, 10**10).person() == NO_BOUND


@pytest.mark.parametrize(("information", "calls"), [(1, 0), (21, 1), (320, 320), (3000, 30), (3000, 300)])
def test_a_budget_is_what_accounting_says_rounded_up(information: int, calls: int) -> None:
    exact = epsilon(information, calls, PRICES.epsilon_per, PRICES.delta_per, SHOWN_AT)
    found = loss(information, calls).person()
    assert found.epsilon is not None
    assert exact <= found.epsilon < exact + 0.01
    assert found.delta == 1e-7


def test_nothing_is_told_where_nothing_is_spent() -> None:
    assert (Loss().person().epsilon, Loss().person().delta, Loss().person().wins) == (0.0, 0.0, 0.5)


def test_reports_add_their_epsilon_or_their_square_whichever_is_less() -> None:
    """Small ones add little to zCDP; large ones add themselves."""
    asked = loss(320, 320)
    alone = asked.person().epsilon or 0
    small, large = (asked + Loss.of_report(Fraction(each)) for each in ("0.1", "20"))
    spare = SHOWN_AT - 320 * PRICES.delta_per
    assert small.person().epsilon == math.ceil(100 * zcdp_epsilon(asked.rho + Fraction(1, 200), spare)) / 100
    assert small.person().epsilon < alone + 0.1
    assert large.person().epsilon == pytest.approx(alone + 20, abs=0.011)
    two = Loss.of_report(Fraction(1, 2)) + Loss.of_report(Fraction(1, 4))
    assert (two.person().epsilon, two.person().delta) == (0.75, 0.0)


@pytest.mark.parametrize("text", ["0", "0.01", "1", "5", "30.61", "1e6"])
def test_a_bet_is_won_as_often_as_the_best_test_wins_at_most(text: str) -> None:
    """(e^epsilon + delta) / (1 + e^epsilon): the corner of the trade-off curve (Kairouz, Oh, Viswanath 2015)."""
    wins, value = bound(Fraction(text), SHOWN_AT).wins, float(text)
    exact = (1 + 1e-7 * math.exp(-value)) / (1 + math.exp(-value))
    assert min(exact, 1) <= wins <= min(exact + 0.0001, 1)


def test_sums_and_choices() -> None:
    one, two = loss(10, 1), loss(20, 2)
    assert add([one, two]) == loss(30, 3)
    assert add([]) == Loss()
    assert add([one, None]) is None
    assert smallest([two, None, one]) == one
    assert smallest([None]) is None


class TestGroups:
    def test_zcdp_grows_by_the_square_and_calls_by_their_own_law(self) -> None:
        told = loss(320, 320)
        for people, shown, found in zip(GROUPS, CALLS, told.groups(), strict=True):
            assert (found.people, found.shown) == (people, float(320 * shown))
            assert found.epsilon is not None
            delta = round_delta(320 * shown)
            assert delta is not None
            assert found.delta == float(delta)
            exact = zcdp_epsilon(people**2 * told.rho, delta - 320 * shown)
            assert exact <= found.epsilon < exact + 0.01

    def test_it_is_not_k_times_epsilon(self) -> None:
        told = loss(320, 320)
        one = told.person().epsilon or 0
        assert all((found.epsilon or 0) > found.people * one for found in told.groups())

    def test_at_the_delta_of_one_person_there_may_be_none(self) -> None:
        *_, ten = loss(320, 320).groups()
        assert ten.shown > 1e-7
        assert (ten.delta, ten.same_delta) == (1e-6, None)
        assert all(found.same_delta is not None for found in loss(320, 30).groups())

    def test_pure_reports_are_k_times_epsilon(self) -> None:
        found = Loss.of_report(Fraction(1, 2)).groups()
        assert [(each.epsilon, each.delta, each.same_delta) for each in found] == [
            (1.0, 0.0, 1.0),
            (2.5, 0.0, 2.5),
            (5.0, 0.0, 5.0),
        ]

    def test_what_is_not_known_is_not_told(self) -> None:
        unknown = Loss.of_charge(Charge(1, 1), PRICES, None)
        assert unknown.groups() == []
        assert (loss(1, 1) + unknown).groups() == []


class TestPeriods:
    """By the calendar, over four hundred years, after which it repeats."""

    def test_a_month_and_a_year_touch_no_more_weeks_than_are_counted(self) -> None:
        months: dict[tuple[int, int], set[date]] = {}
        years: dict[int, set[date]] = {}
        for number in range(146_097):
            day = date(2000, 1, 1) + timedelta(days=number)
            monday = day - timedelta(days=day.weekday())
            months.setdefault((day.year, day.month), set()).add(monday)
            years.setdefault(day.year, set()).add(monday)
        assert max(map(len, months.values())) == periods("weekly", "month") == 6
        assert max(map(len, years.values())) == periods("weekly", "year") == 54

    def test_days_and_months(self) -> None:
        assert periods("daily", "week") == 7
        assert periods("daily", "month") == max(monthrange(2024, month)[1] for month in range(1, 13))
        assert periods("daily", "year") == 366
        assert periods("monthly", "year") == 12

    @pytest.mark.parametrize("window", ["day", "week", "month", "all", "year"])
    def test_what_never_resets_is_one_period(self, window: str) -> None:
        assert periods("never", window) == 1  # type: ignore[arg-type]

    def test_the_window_is_that_of_the_longest_period(self) -> None:
        assert longest_window(["daily", "monthly", "never", "weekly"]) == "month"
        assert longest_window(["never", "daily"]) == "day"
        assert longest_window(["never"]) == longest_window([]) == "all"
