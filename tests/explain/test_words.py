"""The sentences of `sfumato policy explain` and the warnings of `policy check` say what the numbers say."""

from __future__ import annotations

import json

from sfumato.explain.checks import source_warnings
from sfumato.explain.words import (
    describe_groups,
    describe_promise,
    describe_reports,
    describe_rights,
    describe_source,
    describe_source_parts,
    exclusions,
)
from sfumato.wire.guarantee import SourceTotal
from tests.helpers.promises import (
    ANNA,
    ENGINE,
    EVERYONE,
    PARTNER,
    TABLE,
    analysts,
    config,
    explain_text,
    guarantee,
    promise,
    report,
    table,
    total,
)

CAPPED = ENGINE + table(more='cap = "everyone"\n')
NOTHING = PARTNER.replace("3000", "0").replace("calls = 30", "calls = 0")


class TestAccounts:
    def test_a_large_budget_is_told_honestly(self) -> None:
        told = describe_promise(promise(PARTNER + ANNA))
        assert told.startswith("anna may spend 3000 units and 30 calls per month.")
        assert "epsilon 30.61 and delta 1e-07" in told
        assert "promises little by itself" in told

    def test_a_small_budget_is_told_by_its_bet(self) -> None:
        told = describe_promise(promise(PARTNER.replace("3000", "5") + ANNA))
        assert "epsilon 0.83" in told
        assert "won with at most 69.64 %" in told  # 1 / (1 + exp(-0.83))
        assert "promises little" not in told

    def test_tracking_is_called_what_it_is(self) -> None:
        told = describe_promise(promise(PARTNER + 'mode = "track"\n' + ANNA))
        assert "no bound at all" in told
        assert "epsilon" not in told

    def test_too_many_calls(self) -> None:
        assert "no bound at all" in describe_promise(promise(PARTNER.replace("calls = 30", "calls = 1e10") + ANNA))

    def test_a_budget_of_nothing_is_told_as_such(self) -> None:
        told = describe_promise(promise(NOTHING + ANNA))
        assert told == "anna may spend nothing: no question is answered, and only reports tell anything."
        assert "Periods" not in " ".join(exclusions(explain_text(NOTHING + ANNA)))

    def test_a_cap_is_for_questions_and_releases(self) -> None:
        own, cap = explain_text(CAPPED + PARTNER + EVERYONE + ANNA).guarantee.accounts
        assert own.account == "analyst:anna"
        assert describe_promise(cap).startswith("The table t: all who ask about it, and all releases of it, together,")

    def test_several_people(self) -> None:
        two, *_, ten = promise(CAPPED + PARTNER.replace("calls = 30", "calls = 300") + EVERYONE + ANNA).groups
        told = describe_groups([two, ten])
        assert f"2 people have epsilon {two.epsilon:,.2f} at delta 1e-07; 10 people have" in told
        assert told.endswith("at delta 1e-06, and at the delta of one person there is none.")
        assert describe_groups([]) == ""


class TestSources:
    def test_a_total(self) -> None:
        told = describe_source(total(CAPPED + PARTNER + EVERYONE + ANNA))
        assert told.startswith("All results about the rows of t, of questions, releases and reports together: eps")
        assert told.endswith(" in a year, for one u.")
        assert " per month, and epsilon " in told
        hers = describe_source(total(CAPPED + PARTNER + EVERYONE + ANNA, "anna"))
        assert "of questions and reports together" in hers

    def test_no_bound_for_one_person_says_why(self) -> None:
        told = describe_source(total(CAPPED + PARTNER + EVERYONE + ANNA + report("r"), r=guarantee(2, "event")))
        assert told == (
            "There is no bound for one person on all results about the rows of t: a report has no cap on the events of "
            "a person (max_events_per_unit)."
        )

    def test_two_names(self) -> None:
        told = describe_source(total(ENGINE + table("a") + table("b") + PARTNER + ANNA))
        assert told.startswith("a and b are 2 names for one source. All results about the rows of a and b, ")

    def test_what_is_left_open(self) -> None:
        found = total(TABLE + PARTNER + ANNA + report("r"), r=guarantee(2))
        told = [*describe_source_parts(found)]
        assert told[0] == "For one event, its reports promise epsilon 0.2, over all that is ever asked."
        assert told[1].startswith("Several people together, by questions and reports, over one period: 2 people have")
        assert told[2] == "No cap bounds what is asked about t by all together."
        seen = SourceTotal.from_dict(found.to_dict() | {"views": ["t"]})
        assert "t is a view: results about the tables beneath" in " ".join(describe_source_parts(seen))


class TestTheRest:
    def test_what_is_not_covered(self) -> None:
        told = " ".join(exclusions(explain_text(PARTNER + ANNA)))
        for word in ("Periods add up", "Grants", "public", "released without a budget", "a data frame"):
            assert word in told
        assert "times the epsilon" not in told
        assert "Periods" not in " ".join(exclusions(explain_text(PARTNER.replace("monthly", "never") + ANNA)))
        assert "the owner sees the total" in " ".join(exclusions(explain_text(PARTNER + ANNA, "anna")))
        two = TABLE + table("other", "o.parquet") + PARTNER + ANNA
        assert "Sources add up" in " ".join(exclusions(explain_text(two)))

    def test_a_bound_that_is_taken_at_its_word_is_named(self) -> None:
        columns = "[tables.t.columns]\na = { max_groups = 1, guaranteed = true }\nb = { max_groups = 1 }\n"
        assert "not enforced: t.a." in " ".join(exclusions(explain_text(TABLE + columns + PARTNER + ANNA)))
        assert "not enforced" not in " ".join(exclusions(explain_text(TABLE + PARTNER + ANNA)))

    def test_reports_and_rights(self) -> None:
        found = explain_text(TABLE + PARTNER + ANNA + report("r"), r=guarantee(2, "event"))
        assert "The report r has its own guarantee" in next(describe_reports(found))
        assert "epsilon 2 for one event" in next(describe_reports(found))
        assert [*describe_rights(found)] == ["anna (analyst): questions about t; the reports r."]

    def test_without_analysts_there_is_nothing_to_promise(self) -> None:
        found = explain_text(PARTNER)
        assert found.guarantee.accounts == []
        json.dumps(found.to_dict())


class TestWarnings:
    def warnings(self, text: str) -> dict[str, str]:
        settings = config(text)
        totals = explain_text(text, r=guarantee(2, "event")).guarantee.sources
        return {each.setting: each.problem for each in source_warnings(settings, totals)}

    def test_two_names_for_one_source(self) -> None:
        tables = ENGINE + table("a") + table("b", "./t.parquet") + table("c", "c.parquet")
        found = self.warnings(tables + PARTNER + ANNA)
        assert found.keys() == {"tables.b.source"}
        assert "has rows of tables.a too: results under both names add up, and so do" in found["tables.b.source"]

    def test_two_units_for_one_source(self) -> None:
        found = self.warnings(ENGINE + table("a") + table("b", unit="household") + PARTNER + ANNA)
        assert found.keys() == {"tables.b.source", "tables.a.privacy_unit"}
        assert "u and household are hidden by tables with the same rows" in found["tables.a.privacy_unit"]

    def test_a_report_beside_questions_without_a_cap(self) -> None:
        found = self.warnings(TABLE + PARTNER + ANNA + report("r"))
        assert found.keys() == {"reports.r.table"}
        assert found["reports.r.table"].endswith("adds to what this report tells; write tables.t.cap")
        assert self.warnings(CAPPED + PARTNER + EVERYONE + ANNA + report("r")) == {}
        readers = analysts("rita", more='role = "reader"\n')
        assert self.warnings(TABLE + PARTNER + readers + report("r")) == {}
