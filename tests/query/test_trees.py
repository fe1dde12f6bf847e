"""The trees of questions and reports have only what means the same in every engine's SQL."""

from __future__ import annotations

from sqlglot import exp

from sfumato.query.abilities import USUAL
from tests.contracts.trees import question_trees, report_trees

TREES = [*question_trees(USUAL), *report_trees(USUAL)]
COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In)


def test_no_truth_value_stands_alone():
    """Not every engine takes WHERE TRUE."""
    for name, tree in TREES:
        assert all(isinstance(node.parent, COMPARISONS) for node in tree.find_all(exp.Boolean)), name


def test_rows_without_a_person_are_left_out_in_words_wherever_people_are_told_apart():
    looked_at = 0
    for name, tree in TREES:
        for select in tree.find_all(exp.Select):
            own = [node for node in select.find_all(exp.Column) if node.parent_select is select and node.name == "unit"]
            if own and isinstance(select.args["from_"].this, exp.Table):
                looked_at += 1
                where = select.args.get("where")
                assert where is not None, name
                assert 'NOT "unit" IS NULL' in where.sql(), name
    assert looked_at > 50


def test_whole_numbers_are_added_up_in_38_digits():
    for name, tree in TREES:
        for total in tree.find_all(exp.Sum):
            assert isinstance(total.this, exp.Cast), name
            assert total.this.to.sql() == "DECIMAL(38, 0)", name
            assert total.find_ancestor(exp.Cast).to.sql() == "BIGINT", name  # they come back in 64 bits


def test_days_and_moments_are_literals_of_a_type():
    """Text beside a day would be read by the rules, and in the zone, of the session."""
    for name, tree in TREES:
        for comparison in tree.find_all(*COMPARISONS):
            if isinstance(comparison.this, exp.Column) and comparison.this.name in ("day", "at"):
                values = comparison.expressions or [comparison.expression]
                assert all(isinstance(value, exp.Cast) for value in values), name
                assert {value.to.sql() for value in values} <= {"DATE", "TIMESTAMPNTZ"}, name
