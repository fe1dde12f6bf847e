"""From the form to a request and back: what the form can say, it says again after a detour through SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.web.asking import COMPARISONS, Condition, Question, read_fields, to_form, to_sql, write_fields

TABLE = TablePolicy(
    "Odd Table",
    "person",
    {
        "name": Column("name", "text", None),
        "n": Column("n", "integer", None),
        "day": Column("day", "date", None),
        "flag": Column("flag", "boolean", (False, True)),
    },
    {"people": Measure("people", "units", None, 1)},
)
POLICY = Policy({TABLE.name: TABLE})

VALUES = {
    "name": st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8),
    "n": st.integers(-(10**6), 10**6).map(str),
    "day": st.dates().map(str),
}


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@st.composite
def conditions(draw: Any) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES)))
    comparison = draw(st.sampled_from(sorted(COMPARISONS)))
    many = comparison in ("in", "not in")
    values = draw(st.lists(VALUES[column], min_size=1, max_size=3 if many else 1))
    return Condition(column, comparison, ",".join(map(quoted, values)))


@settings(max_examples=150, deadline=None)
@given(st.lists(conditions(), max_size=3), st.sampled_from(["top_k", "histogram", "total"]), st.booleans())
def test_a_detour_through_sql_changes_nothing(lines: list[Condition], shape: str, counts: bool) -> None:
    """SQL of the form, read back into a form, is the same SQL; where no form can say it, there is none."""
    question = Question(
        table=TABLE.name, shape=shape, by=("name", "n"), measure="people", k="7", counts=counts, conditions=tuple(lines)
    )
    try:
        sql = to_sql(question, POLICY)
    except NotSupported:  # text that looks like a date has no order
        return
    again = to_form(sql, POLICY)
    assert again is None or to_sql(again, POLICY) == sql
    if len({each.column for each in lines}) == len(lines):
        assert again is not None


@given(st.lists(conditions(), max_size=3), st.booleans())
def test_fields_hold_all_of_a_question(lines: list[Condition], counts: bool) -> None:
    question = Question(table="t", by=("a", "b"), measure="m", k="3", counts=counts, conditions=tuple(lines), sql="x")
    fields: dict[str, list[str]] = {}
    for name, value in write_fields(question):
        fields.setdefault(name, []).append(value)
    assert read_fields(fields) == question


BASE = Question(table=TABLE.name, by=("name",), measure="people")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (replace(BASE, k="many"), "k: must be a whole number"),
        (replace(BASE, k="-1"), "k: must be a whole number"),
        (replace(BASE, conditions=(Condition("n", "ge", "1, 2"),)), "compared with one value"),
        (replace(BASE, conditions=(Condition("name", "in", '"open'),)), "quote without its partner"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(question: Question, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        question.request(POLICY)


@pytest.mark.parametrize(
    ("conditions", "where"),
    [
        ([Condition("flag", "in", "TRUE")], "WHERE flag"),
        ([Condition("n", "ge", "1"), Condition("n", "lt", "5")], "n >= 1 AND n < 5"),
        ([Condition("name", "in", 'a, "b, c"')], "WHERE name IN ('a', 'b, c')"),
        ([Condition("name", "not in", "a")], "WHERE name <> 'a'"),
        ([Condition("day", "le", "2026-11-15")], "WHERE day"),
    ],
)
def test_conditions_as_sql(conditions: list[Condition], where: str) -> None:
    assert where in to_sql(replace(BASE, conditions=tuple(conditions)), POLICY)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT people FROM \"Odd Table\" WHERE name = 'a' OR n = 1",
        'SELECT people FROM "Odd Table" WHERE n + 1 = 2',
        'SELECT lower(name), people FROM "Odd Table" GROUP BY lower(name)',
        'SELECT 2 * people FROM "Odd Table"',
        "SELECT people FROM \"Odd Table\" WHERE name = 'a\nb'",
        "nonsense",
    ],
)
def test_what_no_form_can_say(sql: str) -> None:
    assert to_form(sql, POLICY) is None
