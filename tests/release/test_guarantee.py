"""What is promised follows from what was asked, and what a ledger is told covers it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.accounting import Charge
from sfumato.accounting.composition import approximate_zcdp_epsilon, zcdp_epsilon
from sfumato.errors import InvalidArgument
from sfumato.query.policy import Prices
from sfumato.release.guarantee import MAX_RHO, TOLD_AT, ReleaseGuarantee, Spending, root

epsilons = st.floats(1e-3, 100)
deltas = st.floats(1e-12, 0.4)


@settings(max_examples=15)
@given(epsilons, deltas)
def test_an_epsilon_buys_a_rho_that_converts_back_to_no_more(epsilon: float, delta: float) -> None:
    promised = ReleaseGuarantee.of(None, epsilon, delta, names_keys=True)
    assert promised.delta == Fraction(str(delta)) / 2
    assert promised.epsilon_delta == Fraction(str(delta))
    assert zcdp_epsilon(promised.rho, Fraction(str(delta)) / 2) <= epsilon
    assert promised.epsilon <= epsilon
    assert promised.epsilon == approximate_zcdp_epsilon(promised.rho, promised.delta, Fraction(str(delta)))
    assert promised.epsilon == pytest.approx(epsilon, rel=1e-6)


def test_half_of_delta_names_keys_and_the_other_half_converts() -> None:
    promised = ReleaseGuarantee.of(None, 1, 1e-6, names_keys=True)
    assert promised.delta == Fraction("5e-7")
    assert promised.epsilon_delta == Fraction("1e-6")
    assert 0.999 < zcdp_epsilon(promised.rho, Fraction("5e-7")) <= 1


@settings(max_examples=5)
@given(epsilons, deltas)
def test_where_no_key_is_named_the_conversion_has_all_of_delta(epsilon: float, delta: float) -> None:
    public = ReleaseGuarantee.of(None, epsilon, delta, names_keys=False)
    assert public.delta == 0
    assert zcdp_epsilon(public.rho, delta) <= epsilon
    assert public.rho > ReleaseGuarantee.of(None, epsilon, delta, names_keys=True).rho


@settings(max_examples=40)
@given(st.floats(1e-6, MAX_RHO), deltas)
def test_a_rho_is_taken_as_it_is(rho: float, delta: float) -> None:
    promised = ReleaseGuarantee.of(rho, None, delta, names_keys=True)
    assert (promised.rho, promised.delta, promised.epsilon_delta) == (
        Fraction(str(rho)),
        Fraction(str(delta)),
        2 * Fraction(str(delta)),
    )
    assert promised.epsilon == zcdp_epsilon(Fraction(str(rho)), Fraction(str(delta)))
    public = ReleaseGuarantee.of(rho, None, None, names_keys=False)
    assert (public.rho, public.delta, public.epsilon_delta) == (Fraction(str(rho)), 0, TOLD_AT)
    assert public.epsilon == zcdp_epsilon(Fraction(str(rho)), TOLD_AT)


@pytest.mark.parametrize(
    ("given", "names_keys", "message"),
    [
        ((None, None, 1e-6), True, "rho: give a budget"),
        ((1, 1, 1e-6), True, "rho: give a budget.*only one"),
        ((1, None, None), True, "delta: is needed"),
        ((None, 1, None), False, "delta: is needed"),
        ((0, None, 1e-6), True, "rho: must be greater than zero"),
        ((-1, None, 1e-6), True, "rho: must be greater than zero"),
        ((None, 0, 1e-6), True, "epsilon: must be greater than zero"),
        ((None, 101, 1e-6), True, "epsilon: must be at most 100"),
        ((1251, None, 1e-6), True, "rho: must be at most 1250"),
        ((1, None, 0.5), True, "delta: must be below 1/2"),
        ((1, None, 0), True, "delta: must lie strictly between 0 and 1"),
        ((1, None, 1), False, "delta: must lie strictly between 0 and 1"),
        ((math.nan, None, 1e-6), True, "rho: must be finite"),
        ((None, "1", 1e-6), True, "epsilon: must be a number"),
        ((None, True, 1e-6), True, "epsilon: must be a number"),
    ],
)
def test_what_is_no_budget_is_refused_by_name(given: tuple, names_keys: bool, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        ReleaseGuarantee.of(*given, names_keys=names_keys)


@settings(max_examples=30)
@given(
    st.fractions(Fraction(1, 10**9), 1250, max_denominator=10**9),
    st.fractions(Fraction(1, 10**12), Fraction(2, 5), max_denominator=10**12),
    st.fractions(Fraction(1, 1000), 10, max_denominator=1000),
    st.fractions(Fraction(1, 10**12), Fraction(1, 100), max_denominator=10**12),
)
def test_a_ledger_is_charged_for_all_of_it_and_less_than_one_unit_more(
    rho: Fraction, delta: Fraction, epsilon_per: Fraction, delta_per: Fraction
) -> None:
    promised = ReleaseGuarantee(rho, delta, 1.0, 2 * delta)
    charge = promised.charge(Prices(epsilon_per, delta_per))
    assert charge == Charge(math.ceil(8 * rho / epsilon_per**2), math.ceil(delta / delta_per))
    unit = epsilon_per**2 / 8
    assert 0 <= charge.information * unit - rho < unit
    assert 0 <= charge.calls * delta_per - delta < delta_per


def test_public_keys_take_no_call() -> None:
    promised = ReleaseGuarantee.of(Fraction(1, 8), None, None, names_keys=False)
    assert promised.charge(Prices(Fraction(1), Fraction(1, 10**6))) == Charge(1, 0)


@settings(max_examples=30)
@given(st.fractions(0, 10**6, max_denominator=10**12))
def test_a_root_is_never_too_large(square: Fraction) -> None:
    found = root(square)
    assert found**2 <= square < (found + Fraction(1, 2**64)) ** 2


def test_words() -> None:
    promised = ReleaseGuarantee.of(None, 1, 1e-6, names_keys=True)
    assert "epsilon 1 at delta 1e-06" in str(promised)
    assert "but for delta 5e-07" in str(promised)
    assert Fraction(promised.to_dict()["rho"]) == promised.rho
    spent = Spending("units", "noise", Fraction(1, 3), Fraction(1, 10**6))
    assert spent.to_dict() == {"purpose": "units", "law": "noise", "rho": "1/3", "delta": "1/1000000"}


class TestSeveralPeople:
    """k people: k^2 rho, and the delta of naming keys by the law of each step."""

    PROMISED = ReleaseGuarantee.of(Fraction(1, 50), None, Fraction(1, 10**6), names_keys=True)

    def steps(self, *deltas: float | None) -> list[Spending]:
        """A step that names no key, and steps that do."""
        naming = [
            Spending("keys", "", Fraction(0), Fraction(1), None if each is None else lambda k, each=each: k * each)  # type: ignore[misc]
            for each in deltas
        ]
        return [Spending("sum", "", Fraction(1, 50)), *naming]

    def test_rho_grows_by_the_square_and_deltas_add_up(self) -> None:
        found = self.PROMISED.to_groups(self.steps(1e-6, 3e-6))
        assert [group["people"] for group in found] == [2, 5, 10]
        for group in found:
            people = group["people"]
            assert group["shown"] == pytest.approx(people * 4e-6)
            assert group["epsilon"] == zcdp_epsilon(people**2 * self.PROMISED.rho, self.PROMISED.delta)
            assert group["delta"] == pytest.approx(group["shown"] + 1e-6)
            assert group["epsilon"] > people * self.PROMISED.epsilon

    def test_where_keys_are_public_there_is_only_the_conversion(self) -> None:
        public = ReleaseGuarantee.of(Fraction(1, 50), None, None, names_keys=False)
        assert {group["shown"] for group in public.to_groups(self.steps())} == {0.0}

    def test_where_all_is_shown_there_is_no_bound(self) -> None:
        found = self.PROMISED.to_groups(self.steps(0.2))
        assert [(group["epsilon"], group["delta"], group["shown"]) for group in found[1:]] == [(None, None, 1.0)] * 2

    def test_pure_noise_without_a_conversion_is_k_times_epsilon(self) -> None:
        delta = Fraction(1, 10**6)
        pure = ReleaseGuarantee(Fraction(1, 2), delta, 1.0, delta)
        found = pure.to_groups(self.steps(1e-6))
        assert [(group["people"], group["epsilon"]) for group in found] == [(2, 2.0), (5, 5.0), (10, 10.0)]
        assert all(group["delta"] == group["shown"] for group in found)

    def test_a_step_that_does_not_say_leaves_it_open(self) -> None:
        assert self.PROMISED.to_groups(self.steps(1e-6, None)) == []
