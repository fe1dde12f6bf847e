"""One total per source: every way to learn about the same rows is in it, once."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from sfumato.accounting import zcdp_epsilon
from sfumato.explain.losses import round_delta
from sfumato.explain.sources import source_totals
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.wire.guarantee import PersonBound
from tests.helpers.promises import (
    ANNA,
    ENGINE,
    EVERYONE,
    NO_RELEASES,
    PARTNER,
    TABLE,
    analysts,
    config,
    explain_text,
    guarantee,
    report,
    table,
    total,
)

CAPPED = ENGINE + table(more='cap = "everyone"\n')
BUDGETS = PARTNER + EVERYONE
NO_PAY = PARTNER + NO_RELEASES
ORGANISATION = '[organisations.acme]\nbudget = "everyone"\n'


def expected(units: int, calls: int, pure: int = 0) -> tuple[float, float]:
    spent = calls * Fraction(1, 10**10)
    delta = round_delta(spent)
    assert delta is not None
    rho = units * Fraction(15, 100) ** 2 / 8
    alike = zcdp_epsilon(rho + Fraction(pure) ** 2 / 2, delta - spent)
    found = min(alike, zcdp_epsilon(rho, delta - spent) + pure)
    return math.ceil(100 * found) / 100, float(delta)


def numbers(bound: PersonBound) -> tuple[float | None, float | None]:
    return bound.epsilon, bound.delta


class TestQuestions:
    def test_strangers_add_up(self) -> None:
        found = total(TABLE + PARTNER + analysts("a", "b", "c"))
        assert numbers(found.questions.period) == expected(9000, 90)
        assert numbers(found.questions.year) == expected(12 * 9000, 12 * 90)
        assert found.questions.names == ["analyst:a", "analyst:b", "analyst:c"]
        assert (found.window, found.uncapped) == ("month", ["t"])

    def test_an_organisation_bounds_its_own(self) -> None:
        text = TABLE + BUDGETS + ORGANISATION + analysts("a", "b", "c", organisation="acme")
        assert numbers(total(text).questions.period) == expected(4000, 40)
        assert numbers(total(text + analysts("d")).questions.period) == expected(7000, 70)
        assert total(text).questions.names == ["analyst:a", "organisation:acme", "analyst:b", "analyst:c"]

    def test_an_organisation_with_more_than_its_analysts_bounds_nothing(self) -> None:
        text = TABLE + BUDGETS + ORGANISATION + analysts("a", organisation="acme")
        assert numbers(total(text).questions.period) == expected(3000, 30)
        daily = text.replace("monthly", "daily", 1)  # the analyst's: thirty-one of those are more than a month's
        assert numbers(total(daily).questions.period) == expected(4000, 40)

    def test_a_cap_bounds_all_if_every_name_of_the_source_has_one(self) -> None:
        people = analysts("a", "b", "c")
        assert numbers(total(CAPPED + BUDGETS + people).questions.period) == expected(4000, 40)
        two = CAPPED + table("other", more='cap = "everyone"\n')
        assert numbers(total(two + BUDGETS + people).questions.period) == expected(8000, 80)
        open_name = CAPPED + table("other")
        assert numbers(total(open_name + BUDGETS + people).questions.period) == expected(9000, 90)
        limited = open_name + BUDGETS + analysts("a", "b") + analysts("c", more='tables = ["t"]\n')
        assert numbers(total(limited).questions.period) == expected(9000, 90)  # less than 4000 and twice 3000
        fewer = open_name + BUDGETS + analysts("a") + analysts("b", "c", more='tables = ["t"]\n')
        assert numbers(total(fewer).questions.period) == expected(4000 + 3000, 70)

    def test_those_who_may_not_ask_are_not_counted(self) -> None:
        people = analysts("a") + analysts("r", more='role = "reader"\n') + analysts("x", more='role = "auditor"\n')
        text = TABLE + PARTNER + people + analysts("b", more="tables = []\n")
        assert numbers(total(text).questions.period) == expected(3000, 30)

    def test_a_tracked_budget_bounds_nothing_but_an_organisation_or_a_cap_may(self) -> None:
        tracked = PARTNER + 'mode = "track"\n' + EVERYONE
        assert total(TABLE + tracked + ANNA).questions.period.epsilon is None
        shared = TABLE + tracked + ORGANISATION + analysts("a", "b", organisation="acme")
        assert numbers(total(shared).questions.period) == expected(4000, 40)
        assert numbers(total(CAPPED + tracked + ANNA).questions.period) == expected(4000, 40)
        both = tracked + 'mode = "track"\n'
        assert total(CAPPED + both + ANNA).questions.period.epsilon is None

    def test_periods_are_those_of_the_longest(self) -> None:
        text = TABLE + PARTNER.replace("monthly", "weekly") + NO_RELEASES + ANNA
        assert total(text.replace(NO_RELEASES, "")).window == "week"
        capped = CAPPED + PARTNER.replace("monthly", "weekly") + EVERYONE.replace("4000", "17000") + ANNA
        found = total(capped)
        assert found.window == "month"
        assert numbers(found.questions.period) == expected(17000, 40)  # six weeks of a month are more: 18000
        never = total(TABLE + PARTNER.replace("monthly", "never") + ANNA)
        assert never.window == "all"
        assert never.questions.period == never.questions.year


class TestReleases:
    def test_every_budget_that_pays_is_counted(self) -> None:
        found = total(TABLE + BUDGETS + ANNA)
        assert found.releases is not None
        assert found.releases.names == ["release:partner", "release:everyone"]
        assert numbers(found.releases.period) == expected(7000, 70)
        assert numbers(found.total.period) == expected(10000, 100)

    def test_a_budget_for_other_tables_is_not(self) -> None:
        found = total(TABLE + PARTNER + EVERYONE + NO_RELEASES + ANNA)
        assert found.releases is not None
        assert found.releases.names == ["release:partner"]

    def test_a_cap_bounds_questions_and_releases_together(self) -> None:
        found = total(CAPPED + BUDGETS + ANNA)
        assert numbers(found.total.period) == expected(4000, 40)
        assert numbers(found.total.year) == expected(48000, 480)

    def test_another_name_leads_to_the_cap_only_if_all_of_its_rows_do(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            duckdb.sql(f"COPY (SELECT 1 AS u) TO '{tmp_path / name}.parquet'")

        def period(capped: str, other: str) -> tuple[float | None, float | None]:
            tables = ENGINE + table("t", capped, more='cap = "everyone"\n') + table("other", other)
            settings = config(tables + PARTNER + EVERYONE + analysts("a", more='tables = ["t"]\n'), tmp_path)
            [found] = source_totals(settings, {})
            return numbers(found.total.period)

        assert period("a.parquet", "./a.parquet") == expected(4000, 40)
        assert period("a.parquet", "*.parquet") == expected(3000 + 7000, 100)  # b.parquet is released without the cap

    def test_an_analyst_is_told_about_no_releases(self) -> None:
        found = total(TABLE + BUDGETS + analysts("a", "b"), "a")
        assert found.releases is None
        assert numbers(found.total.period) == expected(3000, 30)


class TestReports:
    TEXT = CAPPED + BUDGETS + ANNA + report("one") + report("two")

    def test_capped_events_add_to_what_is_told_of_a_person(self) -> None:
        found = total(self.TEXT, one=guarantee(2), two=guarantee(3))
        assert found.reports.names == ["one", "two"]
        assert numbers(found.reports.period) == numbers(found.reports.year) == (5.0, 0.0)
        least = expected(4000, 40)[0]
        assert found.total.period.epsilon is not None
        assert least < found.total.period.epsilon <= least + 5
        assert found.unbounded == []
        assert found.event_epsilon == 0.5

    def test_gaussian_noise_adds_its_rho_and_its_delta(self) -> None:
        """The epsilons of one event add up, and so do their deltas. For a person the rho counts."""
        noise = GaussianCells(Fraction(2), Fraction(1, 10**6), {"day": Fraction(10)})
        one = replace(guarantee(2), gaussian=noise, events=3)
        assert one.rho == Fraction(9, 200)
        found = total(ENGINE + table() + NO_PAY + report("one"), one=one)
        assert numbers(found.reports.period) == (math.ceil(100 * zcdp_epsilon(one.rho, 1e-7)) / 100, 1e-7)
        assert (found.event_epsilon, found.event_delta) == (2.0, 1e-6)
        both = total(self.TEXT, one=one, two=guarantee(3))
        assert (both.event_epsilon, both.event_delta) == (2.3, 1e-6)
        assert both.reports.period.epsilon is not None
        assert found.reports.period.epsilon < both.reports.period.epsilon <= found.reports.period.epsilon + 3.01
        assert total(self.TEXT, one=guarantee(2), two=guarantee(3)).event_delta == 0

    def test_events_without_a_cap_have_no_bound_for_a_person(self) -> None:
        found = total(self.TEXT, one=guarantee(2), two=guarantee(3, "event"))
        assert found.reports.period.epsilon is None
        assert found.total.period.epsilon is found.total.year.epsilon is None
        assert found.unbounded == ["events"]
        assert found.event_epsilon == 3.2
        assert numbers(found.questions.period) == expected(3000, 30)  # these are bounded all the same

    def test_exact_totals_have_no_bound_at_all(self) -> None:
        found = total(self.TEXT, one=guarantee(2), two=guarantee(3, exact=True))
        assert (found.unbounded, found.event_epsilon) == (["exact-totals"], None)
        assert found.total.period.epsilon is None

    def test_a_report_that_is_not_known_has_no_bound(self) -> None:
        found = total(self.TEXT, one=guarantee(2))
        assert (found.unbounded, found.event_epsilon) == (["unknown"], None)

    def test_an_analyst_is_told_about_the_reports_that_she_may_read(self) -> None:
        text = self.TEXT + table("secret", "s.parquet") + report("three", "secret")
        text = text.replace(ANNA, analysts("anna", more='tables = ["t"]\n') + analysts("x", more='role = "auditor"\n'))
        promised = {name: guarantee(1) for name in ("one", "two", "three")}
        assert total(text, "anna", **promised).reports.names == ["one", "two"]
        assert explain_text(text, "anna", **promised).guarantee.reports.keys() == {"one", "two"}
        assert explain_text(text, "x", **promised).guarantee.sources == []


class TestOneSource:
    def test_two_names_are_one_source(self) -> None:
        text = ENGINE + table("a", "x.parquet") + table("b", "./x.parquet") + table("c", "y.parquet") + PARTNER + ANNA
        found = explain_text(text).guarantee.sources
        assert [each.tables for each in found] == [["a", "b"], ["c"]]
        assert numbers(found[0].questions.period) == expected(3000, 30)  # her account pays for both

    def test_other_units_do_not_add_up(self) -> None:
        found = total(ENGINE + table("a") + table("b", unit="household") + PARTNER + ANNA)
        assert (found.unit, found.unbounded, found.groups) == (None, ["units"], [])
        assert found.total.period.epsilon is None

    def test_views_are_named(self) -> None:
        text = config(TABLE + PARTNER + ANNA)
        [found] = source_totals(text, {}, ["t", "another"])
        assert found.views == ["t"]

    def test_an_analyst_sees_her_part_of_a_cap(self) -> None:
        parts = CAPPED.replace('cap = "everyone"\n', 'cap = "everyone"\nparts = { anna = 0.5 }\n')
        found = total(parts + BUDGETS + analysts("anna", "ben"), "anna")
        assert numbers(found.total.period) == expected(2000, 20)
        assert numbers(total(parts + BUDGETS + analysts("anna", "ben")).total.period) == expected(4000, 40)

    def test_a_role_narrows_what_she_is_counted_with(self) -> None:
        text = config(CAPPED + BUDGETS + ANNA + report("one"))
        for role, asks, reads in (("reader", False, True), ("auditor", False, False), ("analyst", True, True)):
            found = source_totals(text, {"one": guarantee(1)}, analyst="anna", role=role)  # type: ignore[arg-type]
            assert [bool(each.questions.names) for each in found] == ([asks] if asks or reads else [])
            assert [bool(each.reports.names) for each in found] == ([reads] if asks or reads else [])

    @pytest.mark.parametrize("analyst", [None, "anna"])
    def test_several_people_are_told_of_questions_and_reports(self, analyst: str | None) -> None:
        text = CAPPED + BUDGETS + ANNA
        asked, both = total(text, analyst), total(text + report("one"), analyst, one=guarantee(1))
        assert [group.people for group in asked.groups] == [2, 5, 10]
        for less, more in zip(asked.groups, both.groups, strict=True):
            assert less.epsilon is not None
            assert more.epsilon is not None
            assert less.epsilon < more.epsilon <= less.epsilon + less.people + 0.01
