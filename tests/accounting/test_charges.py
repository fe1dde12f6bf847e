"""Charges are exact values with a stable serial form; filters never let one through that does not fit."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import NOTHING, Charge, Filter, total_charge
from sfumato.errors import BudgetExhausted, ConfigError, InvalidArgument, Refused

amounts = st.fractions(min_value=0, max_value=100, max_denominator=50)
charges = st.builds(Charge, amounts, amounts)


def test_ten_tenths_are_one():
    assert sum([Charge(Fraction(1, 10))] * 10, NOTHING) == Charge(1)


def test_a_multiple_is_exact():
    assert Charge(21, 1) * 3 == Charge(63, 3)
    assert Charge(1, 2) * Fraction(1, 3) * 3 == Charge(1, 2)


@given(charges, charges, charges)
def test_arithmetic(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + b - b == a
    assert a + NOTHING == a


@given(st.lists(charges | st.builds(Charge, st.integers(0, 9), st.integers(0, 9))))
def test_a_total_is_the_sum(some):
    assert total_charge(some) == sum(some, NOTHING)
    assert total_charge(iter(some)) == sum(some, NOTHING)


@given(charges, charges)
def test_the_order_is_that_of_both_parts(a, b):
    assert (a <= b) == (a.information <= b.information and a.calls <= b.calls) == (b >= a)
    assert (a < b) == (a <= b and a != b) == (b > a)
    assert a <= a + b


@given(charges)
def test_the_serial_form_is_exact_and_stable(charge):
    assert Charge.from_dict(json.loads(json.dumps(charge.to_dict()))) == charge
    assert hash(Charge.from_dict(charge.to_dict())) == hash(charge)


def test_the_serial_form_is_frozen():
    assert Charge(21, 1).to_dict() == {"information": "21", "calls": "1"}
    assert Charge(Fraction(3, 2)).to_dict() == {"information": "3/2", "calls": "0"}


@pytest.mark.parametrize(
    "serial",
    [
        {},
        {"information": "1"},
        {"information": "1", "calls": "0", "more": "1"},
        {"information": 1, "calls": "0"},
        {"information": "1.5", "calls": "0"},
        {"information": "2/4", "calls": "0"},
        {"information": "nan", "calls": "0"},
        {"information": "1/0", "calls": "0"},
        {"information": " 1", "calls": "0"},
    ],
)
def test_other_serial_forms_are_refused(serial):
    with pytest.raises(InvalidArgument):
        Charge.from_dict(serial)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True, 10**100])
def test_a_charge_is_a_number(value):
    with pytest.raises(InvalidArgument, match=r"^information: "):
        Charge(value)
    with pytest.raises(InvalidArgument, match=r"^calls: "):
        Charge(1, value)


@pytest.mark.parametrize("serial", [None, [], "x", {"information": "1e99999999", "calls": "0"}], ids=str)
def test_what_is_no_serial_form_is_refused_at_once(serial):
    with pytest.raises(InvalidArgument):
        Charge.from_dict(serial)


BEYOND = [Decimal("sNaN"), Decimal("NaN"), Decimal("1e-99999999"), Fraction(1, 10**5000)]


@pytest.mark.parametrize("value", BEYOND, ids=["sNaN", "NaN", "exponent", "denominator"])
def test_numbers_beyond_computing_are_refused_at_once(value):
    with pytest.raises(InvalidArgument, match=r"^information: "):
        Charge(value)


def test_numpy_numbers_become_exact():
    assert Charge(np.int64(3)).information.numerator.bit_length() == 2


def test_a_charge_is_compared_with_charges_only():
    for operation in (lambda: Charge(1) + 1, lambda: Charge(1) - 1, lambda: Charge(1) < 1):
        with pytest.raises(TypeError):
            operation()


ERRORS = [InvalidArgument("k", "bad"), ConfigError("a.b", "bad"), BudgetExhausted(Charge(2), Charge(1))]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_travel_between_processes(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), str(again)) == (type(error), str(error))


def test_charges_read_well():
    assert str(Charge(21, 1)) == "21 units and 1 call"
    assert str(Charge(1)) == "1 unit and 0 calls"
    assert repr(Charge(Fraction(3, 2), 1)) == "Charge(information=3/2, calls=1)"


@pytest.mark.slow
@given(charges, st.lists(charges, max_size=20))
def test_a_filter_never_exceeds_its_cap_and_never_refuses_what_fits(cap, asked):
    budget = Filter(cap)
    for charge in asked:
        fits = budget.spent + charge <= cap
        assert budget.fits(charge) == fits
        if fits:
            budget = budget.spend(charge)
        else:
            with pytest.raises(BudgetExhausted):
                budget.spend(charge)
    assert budget.spent <= cap
    assert budget.left == cap - budget.spent


def test_the_refusal_says_what_was_asked_and_what_is_left():
    with pytest.raises(Refused, match="needs 21 units and 1 call, and only 20 units and 5 calls are left") as refusal:
        Filter(Charge(20, 5)).spend(Charge(21, 1))
    assert (refusal.value.asked, refusal.value.left) == (Charge(21, 1), Charge(20, 5))


@pytest.mark.parametrize("charge", [Charge(-1), Charge(0, -1), Charge(5, -1)])
def test_nothing_gives_budget_back(charge):
    for step in (Filter(Charge(10, 10)).fits, Filter(Charge(10, 10)).spend):
        with pytest.raises(InvalidArgument, match=r"^charge: "):
            step(charge)
    with pytest.raises(InvalidArgument, match=r"^spent: "):
        Filter(Charge(1), charge)


@pytest.mark.parametrize("charge", [5, None, "3 units"])
def test_a_filter_takes_charges(charge):
    with pytest.raises(InvalidArgument, match=r"^charge: must be a Charge"):
        Filter(Charge(10)).fits(charge)
    with pytest.raises(InvalidArgument, match=r"^cap: must be a Charge"):
        Filter(charge)


def test_a_filter_states_the_guarantee_of_its_cap_however_much_is_spent():
    fresh = Filter(Charge(3000, 30))
    assert fresh.guarantee(0.15, 1e-10, 7e-9) == fresh.spend(Charge(1000, 10)).guarantee(0.15, 1e-10, 7e-9)
    assert fresh.guarantee(0.15, 1e-10, 7e-9) == pytest.approx(32.861, abs=1e-3)
