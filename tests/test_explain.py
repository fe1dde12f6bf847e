"""`sfumato policy explain`: numbers that hold, rounded up, and words that do not say more than the numbers."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.accounting import Charge, epsilon, zcdp_epsilon
from sfumato.config import Config, read_config
from sfumato.explain import Bound, PolicyExplanation, Promise, describe_promise, exclusions, explain

BUDGET = "epsilon_per = 0.15\ndelta_per = 1e-10\n"
DEFAULT = f'[budgets.partner]\n{BUDGET}information = 3000\ncalls = 30\nresets = "monthly"\n'
TABLE = (
    '[engines.e]\ntype = "duckdb"\n[tables.t]\nengine = "e"\nsource = "t.parquet"\nprivacy_unit = "u"\n'
    'measures.people = { count = "units" }\n'
)
ANNA = '[analysts.anna]\nbudget = "partner"\n'


def config(text: str) -> Config:
    return read_config(text, Path("/"), {})


def explain_text(text: str, analyst: str | None = None) -> PolicyExplanation:
    return explain(config(text), analyst)


def promise(text: str) -> Promise:
    return explain_text(text).promises[0]


def bounds(text: str) -> dict[str, Bound]:
    return {bound.words: bound for bound in promise(text).bounds}


class TestTheNumbers:
    def test_the_default_budget(self) -> None:
        whole = promise(DEFAULT + ANNA).whole
        assert (whole.charge, whole.delta) == (Charge(3000, 30), Fraction(1, 10**7))
        exact = epsilon(3000, 30, Fraction(15, 100), Fraction(1, 10**10), Fraction(1, 10**7))
        assert whole.epsilon == 30.61 == math.ceil(100 * exact) / 100
        assert whole.wins == 1.0

    def test_one_question_and_a_tenth_of_the_budget(self) -> None:
        found = bounds(DEFAULT + ANNA)
        charges = {name: bound.charge for name, bound in found.items()}
        assert charges == {
            "one total": Charge(1),
            "one histogram": Charge(1, 1),
            "one list of ten": Charge(21, 1),
            "a tenth of the budget": Charge(300, 3),
            "all of it": Charge(3000, 30),
            "a year of it": Charge(36000, 360),
        }
        epsilons = [bound.epsilon for bound in found.values()]
        assert epsilons == sorted(epsilons)
        assert found["one total"].epsilon == 0.08  # 0.075 exactly, for it is Laplace noise
        assert found["one list of ten"].epsilon == 1.78

    def test_laplace_noise_is_pure_and_gaussian_noise_is_not(self) -> None:
        small = DEFAULT.replace("0.15", "0.01")
        gaussian = bounds(small + ANNA)["one histogram"].epsilon
        laplace = bounds(small.replace("calls", 'count_noise = "laplace"\ncalls') + ANNA)["one histogram"].epsilon
        assert (laplace, gaussian) == (0.01, 0.03)  # 0.005 and 0.024, rounded up

    def test_a_shared_account_does_not_know_which_noise_is_asked_for(self) -> None:
        text = DEFAULT.replace("calls", 'count_noise = "laplace"\ncalls')
        own, shared = explain_text(
            text + ANNA + 'organisation = "acme"\n[organisations.acme]\nbudget = "partner"'
        ).promises
        assert own.bounds[1].epsilon == 0.08
        assert shared.bounds[1].epsilon == 0.36

    def test_a_question_that_does_not_fit_is_not_listed(self) -> None:
        found = bounds(DEFAULT.replace("3000", "20") + ANNA)
        assert list(found) == ["one total", "one histogram", "a tenth of the budget", "all of it", "a year of it"]

    def test_what_never_resets_has_no_year(self) -> None:
        assert "a year of it" not in bounds(DEFAULT.replace("monthly", "never") + ANNA)

    @pytest.mark.parametrize(
        ("calls", "delta_per", "delta"),
        [
            ("30", "1e-10", "1e-7"),
            ("10", "1e-10", "1e-8"),
            ("11", "1e-10", "1e-7"),
            ("0", "1e-10", "1e-9"),
            ("1", "1e-30", "1e-9"),
            ("1", "1e-3", "1e-2"),
        ],
    )
    def test_delta_is_a_power_of_ten_that_the_calls_leave_room_in(self, calls: str, delta_per: str, delta: str) -> None:
        text = DEFAULT.replace("calls = 30", f"calls = {calls}").replace("1e-10", delta_per)
        assert promise(text + ANNA).whole.delta == Fraction(Decimal(delta))

    def test_so_many_calls_that_nothing_is_bounded(self) -> None:
        found = promise(DEFAULT.replace("calls = 30", "calls = 1e9") + ANNA)
        assert found.whole.epsilon is None
        assert "no bound at all" in describe_promise(found)
        json.dumps(found.to_dict())

    def test_a_budget_of_nothing_tells_nothing(self) -> None:
        found = promise(DEFAULT.replace("3000", "0").replace("calls = 30", "calls = 0") + ANNA)
        assert (found.whole.epsilon, found.whole.wins) == (0.0, 0.5001)

    @pytest.mark.parametrize("value", [0.0, 0.01, 1.0, 5.0, 30.61, 1e6])
    def test_a_bet_is_won_as_often_as_the_best_test_wins_at_most(self, value: float) -> None:
        """(e^epsilon + delta) / (1 + e^epsilon): the corner of the trade-off curve (Kairouz, Oh, Viswanath 2015)."""
        wins = Bound("", None, value, Fraction(1, 10**7)).wins
        exact = (1 + 1e-7 * math.exp(-value)) / (1 + math.exp(-value))
        assert min(exact, 1) <= wins <= min(exact + 0.0001, 1)


REPORTED = (
    '[tables.events]\nengine = "e"\nsource = "events"\n'
    '[reports.ads]\ntable = "events"\ntime = "at"\nepsilon = 1\nstatistics.clicks = { count = "rows" }\n'
)


class TestReportsAlone:
    """Who may ask no questions is not told about an epsilon of zero."""

    NOTHING = DEFAULT.replace("3000", "0").replace("calls = 30", "calls = 0")

    def test_a_budget_of_nothing_is_told_as_such(self) -> None:
        told = describe_promise(promise(self.NOTHING + ANNA))
        assert told == "anna may spend nothing: no question is answered, and only reports tell anything."
        found = explain_text(self.NOTHING + ANNA + '[analysts.ben]\nbudget = "partner"\n')
        words = " ".join(exclusions(found))
        assert "epsilon 0.00" not in words
        assert "Periods" not in words
        tracked = promise(self.NOTHING + 'mode = "track"\n' + ANNA)
        assert not tracked.nothing

    def test_a_table_that_nobody_can_ask_needs_no_cap(self) -> None:
        text = TABLE + REPORTED + DEFAULT + ANNA + '[analysts.ben]\nbudget = "partner"\n'
        assert explain_text(text).uncapped == ("t",)
        capped = text.replace('source = "t.parquet"', 'source = "t.parquet"\ncap = "partner"')
        assert explain_text(capped).uncapped == ()
        assert "Tables without a cap" not in " ".join(exclusions(explain_text(capped)))
        alone = explain_text(capped).together
        assert alone is not None
        assert alone.epsilon == promise(DEFAULT + ANNA).whole.epsilon


class TestTogether:
    ORGANISATION = '[organisations.acme]\nbudget = "shared"\n'
    SHARED = f'[budgets.shared]\n{BUDGET}information = 4000\ncalls = 40\nresets = "monthly"\n'

    def analysts(self, *names: str, organisation: str = "") -> str:
        line = f'organisation = "{organisation}"\n' if organisation else ""
        return "".join(f'[analysts.{name}]\nbudget = "partner"\n{line}' for name in names)

    def bound(self, text: str) -> tuple[float | None, Fraction | None] | None:
        found = explain_text(text).together
        return None if found is None else (found.epsilon, found.delta)

    def expected(self, units: int, calls: int) -> tuple[float, Fraction]:
        delta = Fraction(1, 10**7) if calls <= 100 else Fraction(1, 10**6)
        found = zcdp_epsilon(units * Fraction(15, 100) ** 2 / 8, delta - calls * Fraction(1, 10**10))
        return math.ceil(100 * found) / 100, delta

    def test_strangers_add_up(self) -> None:
        assert self.bound(DEFAULT + self.analysts("a", "b", "c")) == self.expected(9000, 90)

    def test_an_organisation_bounds_its_own(self) -> None:
        text = DEFAULT + self.SHARED + self.ORGANISATION + self.analysts("a", "b", "c", organisation="acme")
        assert self.bound(text) == self.expected(4000, 40)
        assert self.bound(text + self.analysts("d")) == self.expected(7000, 70)

    def test_an_organisation_with_more_than_its_analysts_bounds_nothing(self) -> None:
        text = DEFAULT + self.SHARED + self.ORGANISATION + self.analysts("a", organisation="acme")
        assert self.bound(text) == self.expected(3000, 30)
        daily = text.replace("monthly", "daily", 1)  # the analyst's: thirty of those fit into the month of the other
        assert self.bound(daily) == self.expected(4000, 40)

    def test_a_cap_bounds_everybody_if_every_table_has_one(self) -> None:
        capped = TABLE + 'cap = "shared"\n'
        text = DEFAULT + self.SHARED + self.analysts("a", "b", "c")
        assert self.bound(capped + text) == self.expected(4000, 40)
        other = TABLE.partition("[tables.t]")[2].strip()
        assert self.bound(f"{capped}[tables.other]\n{other}\n" + text) == self.expected(9000, 90)

    def test_a_tracked_budget_bounds_nothing_but_an_organisation_may(self) -> None:
        tracked = DEFAULT + 'mode = "track"\n'
        assert self.bound(tracked + self.analysts("a", "b")) is None
        text = tracked + self.SHARED + self.ORGANISATION + self.analysts("a", "b", organisation="acme")
        assert self.bound(text) == self.expected(4000, 40)

    def test_it_is_told_with_the_tables_that_have_no_cap(self) -> None:
        text = TABLE + DEFAULT + self.analysts("a", "b")
        told = " ".join(exclusions(explain_text(text)))
        assert f"All 2 together: epsilon {self.expected(6000, 60)[0]} at delta 1e-07" in told
        assert "Tables without a cap: t." in told
        assert "together" not in " ".join(exclusions(explain_text(TABLE + DEFAULT + ANNA)))


class TestTheWords:
    def test_the_default_budget_is_told_honestly(self) -> None:
        told = describe_promise(promise(DEFAULT + ANNA))
        assert told.startswith("anna may spend 3000 units and 30 calls per month.")
        assert "epsilon 30.61 and delta 1e-07" in told
        assert "promises little by itself" in told

    def test_a_small_budget_is_told_by_its_bet(self) -> None:
        told = describe_promise(promise(DEFAULT.replace("3000", "5") + ANNA))
        assert "epsilon 0.83" in told
        assert "won with at most 69.64 %" in told  # 1 / (1 + exp(-0.83))
        assert "promises little" not in told

    def test_tracking_is_called_what_it_is(self) -> None:
        found = promise(DEFAULT + 'mode = "track"\n' + ANNA)
        assert "no bound at all" in describe_promise(found)
        assert "epsilon" not in describe_promise(found)
        assert found.to_dict()["guarantee"] is None
        assert [bound.words for bound in found.bounds] == ["one total", "one histogram", "one list of ten"]

    def test_a_tracked_budget_of_nothing_still_has_questions(self) -> None:
        text = DEFAULT.replace("calls = 30", "calls = 0").replace("1e-10", "1e-6") + 'mode = "track"\n'
        assert [bound.delta for bound in promise(text + ANNA).bounds] == [Fraction(1, 10**5)] * 3

    def test_what_is_exclusions(self) -> None:
        told = " ".join(exclusions(explain_text(DEFAULT + ANNA)))
        for word in ("Periods add up", "Grants", "public", "household"):
            assert word in told
        assert "Periods" not in " ".join(exclusions(explain_text(DEFAULT.replace("monthly", "never") + ANNA)))

    def test_a_bound_that_is_taken_at_its_word_is_named(self) -> None:
        columns = "[tables.t.columns]\na = { max_groups = 1, guaranteed = true }\nb = { max_groups = 1 }\n"
        told = " ".join(exclusions(explain_text(TABLE + columns + DEFAULT + ANNA)))
        assert "not enforced: t.a." in told
        assert "not enforced" not in " ".join(exclusions(explain_text(TABLE + DEFAULT + ANNA)))

    def test_without_analysts_there_is_nothing_to_promise(self) -> None:
        found = explain_text(DEFAULT)
        assert found.promises == ()
        json.dumps(found.to_dict())
