"""What accounts promise: from one question to a year, and to several people together."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from sfumato.accounting import Charge, epsilon
from sfumato.explain.calls import MAX_SHAPES, call_deltas, shapes
from sfumato.explain.losses import GROUPS
from sfumato.mechanisms import UnknownGaussian, UnknownGumbel, UnknownLaplace
from sfumato.query.policy import Prices
from sfumato.wire.guarantee import AccountBound, Asked
from tests.helpers.promises import ANNA, ENGINE, PARTNER, TABLE, analysts, config, explain_text, promise, table

PRICES = Prices(Fraction(15, 100), Fraction(1, 10**10))


WITH_TITLES = ENGINE + table(more="columns.title = { max_groups = 1 }\n")
"""A table with a column of which a person has one value."""


def bounds(text: str) -> dict[Asked, AccountBound]:
    return {bound.what: bound for bound in promise(text).bounds}


class TestBounds:
    def test_the_whole_budget(self) -> None:
        whole = bounds(PARTNER + ANNA)["period"]
        assert (whole.charge, whole.delta) == (Charge(3000, 30), 1e-7)
        exact = epsilon(3000, 30, Fraction(15, 100), Fraction(1, 10**10), Fraction(1, 10**7))
        assert whole.epsilon == 30.61 == math.ceil(100 * exact) / 100
        assert whole.wins == 1.0

    def test_one_question_and_a_tenth_of_the_budget(self) -> None:
        found = bounds(WITH_TITLES + PARTNER + ANNA)
        assert {what: bound.charge for what, bound in found.items()} == {
            "total": Charge(1),
            "histogram": Charge(1, 1),
            "top_ten": Charge(21, 1),
            "tenth": Charge(300, 3),
            "period": Charge(3000, 30),
            "year": Charge(36000, 360),
        }
        epsilons = [bound.epsilon for bound in found.values()]
        assert epsilons == sorted(epsilons, key=lambda each: each or 0)
        assert found["total"].epsilon == found["histogram"].epsilon == 0.36
        assert found["top_ten"].epsilon == 1.78

    def test_laplace_noise_is_pure_and_gaussian_noise_is_not(self) -> None:
        small = PARTNER.replace("0.15", "0.01")
        gaussian = bounds(WITH_TITLES + small + ANNA)["histogram"].epsilon
        laplace = bounds(WITH_TITLES + small.replace("calls", 'count_noise = "laplace"\ncalls') + ANNA)[
            "histogram"
        ].epsilon
        assert (laplace, gaussian) == (0.01, 0.03)  # 0.005 and 0.021, rounded up

    def test_a_shared_account_does_not_know_which_noise_is_asked_for(self) -> None:
        text = WITH_TITLES + PARTNER.replace("calls", 'count_noise = "laplace"\ncalls')
        text += ANNA + 'organisation = "acme"\n[organisations.acme]\nbudget = "partner"'
        own, shared = explain_text(text).guarantee.accounts
        assert own.bounds[1].epsilon == 0.08
        assert shared.bounds[1].epsilon == 0.36

    def test_a_question_that_does_not_fit_is_not_listed(self) -> None:
        poor = PARTNER.replace("3000", "20") + ANNA
        assert [*bounds(WITH_TITLES + poor)] == ["total", "histogram", "tenth", "period", "year"]

    def test_a_histogram_is_listed_where_a_column_has_one_value_per_person(self) -> None:
        assert "histogram" in bounds(WITH_TITLES + PARTNER + ANNA)
        assert "histogram" not in bounds(TABLE + PARTNER + ANNA)
        assert "histogram" not in bounds(WITH_TITLES.replace("max_groups = 1", "max_groups = 2") + PARTNER + ANNA)
        other = WITH_TITLES.replace(ENGINE, "").replace("tables.t", "tables.other").replace("t.parquet", "o.parquet")
        assert "histogram" not in bounds(TABLE + other + PARTNER + ANNA + 'tables = ["t"]')

    def test_what_never_resets_has_no_year(self) -> None:
        assert "year" not in bounds(PARTNER.replace("monthly", "never") + ANNA)

    def test_so_many_calls_that_nothing_is_bounded(self) -> None:
        found = promise(PARTNER.replace("calls = 30", "calls = 1e10") + ANNA)
        assert found.bounds[-2].epsilon is None
        json.dumps(found.to_dict())

    def test_a_budget_of_nothing_tells_nothing(self) -> None:
        found = promise(PARTNER.replace("3000", "0").replace("calls = 30", "calls = 0") + ANNA).bound("period")
        assert found is not None
        assert (found.epsilon, found.wins) == (0.0, 0.5)

    def test_a_tracked_budget_bounds_one_question_at_a_time(self) -> None:
        found = promise(WITH_TITLES + PARTNER + 'mode = "track"\n' + ANNA)
        assert [bound.what for bound in found.bounds] == ["total", "histogram", "top_ten"]
        assert found.groups == []
        text = PARTNER.replace("calls = 30", "calls = 0").replace("1e-10", "1e-6") + 'mode = "track"\n'
        assert [bound.delta for bound in promise(WITH_TITLES + text + ANNA).bounds] == [1e-5] * 3


class TestGroups:
    """A call may be a list or a histogram: the one that shows more of several people counts."""

    def deltas(self, columns: str = "", budget: str = PARTNER) -> list[float]:
        text = TABLE.replace("measures", f"{columns}measures")
        return [group.shown for group in promise(text + budget + ANNA).groups]

    def test_without_bounded_columns_a_call_is_a_list(self) -> None:
        gumbel = UnknownGumbel.of(k=1, epsilon=PRICES.epsilon_per, delta=PRICES.delta_per)
        assert self.deltas() == [float(30 * Fraction(gumbel.group_delta(people))) for people in GROUPS]

    def test_a_histogram_shows_more(self) -> None:
        one = UnknownGaussian.of(epsilon=PRICES.epsilon_per, delta=PRICES.delta_per, max_groups=1)
        found = self.deltas("columns.title = { max_groups = 1 }\n")
        assert found == [float(30 * Fraction(one.group_delta(people))) for people in GROUPS]
        assert found[-1] > 40 * self.deltas()[-1]

    def test_of_several_columns_and_measures_the_worst_counts(self) -> None:
        columns = "columns.a = { max_groups = 1 }\ncolumns.b = { max_groups = 4 }\n"
        columns += 'columns.c = { max_groups = 3, domain = ["x", "y"] }\ncolumns.d = {}\n'
        columns += 'measures.visits = { count = "rows", max_per_unit = 5 }\n'
        asked = shapes(config(TABLE.replace("measures", f"{columns}measures") + PARTNER + ANNA).tables.values())
        assert asked == {(groups, tau) for groups in (1, 3, 4, 12) for tau in (1, 5)}
        worst = call_deltas(PRICES, frozenset({"gaussian"}), asked)
        kinds = [
            UnknownGaussian.of(epsilon=PRICES.epsilon_per, delta=PRICES.delta_per, max_groups=groups, tau=tau)
            for groups, tau in asked or ()
        ]
        assert worst == tuple(max(Fraction(kind.group_delta(people)) for kind in kinds) for people in GROUPS)

    def test_laplace_noise_shows_less(self) -> None:
        laplace = PARTNER.replace("calls", 'count_noise = "laplace"\ncalls')
        kind = UnknownLaplace.of(epsilon=PRICES.epsilon_per, delta=PRICES.delta_per, max_groups=1)
        found = self.deltas("columns.title = { max_groups = 1 }\n", laplace)
        assert found == [float(30 * Fraction(kind.group_delta(people))) for people in GROUPS]

    def test_too_many_shapes_are_not_told(self) -> None:
        columns = "".join(
            f"columns.c{prime} = {{ max_groups = {prime} }}\n" for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23)
        )
        assert MAX_SHAPES < 2**9
        assert self.deltas(columns) == []

    def test_an_account_that_cannot_ask_has_none(self) -> None:
        reader = TABLE + PARTNER + analysts("rita", more='role = "reader"\n')
        assert promise(reader).groups == []

    def test_what_an_analyst_is_told_does_not_depend_on_tables_that_she_may_not_use(self) -> None:
        secret = table("secret", "s.parquet", more="columns.title = { max_groups = 1 }\n")
        people = analysts("anna", organisation="acme", more='tables = ["t"]\n') + analysts("ben", organisation="acme")
        shared = people + '[organisations.acme]\nbudget = "partner"\n' + PARTNER
        with_it, without = (explain_text(text + shared, "anna").guarantee for text in (TABLE + secret, TABLE))
        assert with_it == without


@pytest.mark.parametrize("people", GROUPS)
def test_a_call_shows_of_several_people_what_its_mechanism_says(people: int) -> None:
    place = GROUPS.index(people)
    found = call_deltas(PRICES, frozenset({"gaussian", "laplace"}), frozenset({(1, 1)}))
    gaussian = UnknownGaussian.of(epsilon=PRICES.epsilon_per, delta=PRICES.delta_per, max_groups=1)
    assert found is not None
    assert found[place] == Fraction(gaussian.group_delta(people))
