"""What an engine cannot do is refused from the policy or from the words of a question, never from a row."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from sqlglot import exp

from sfumato.config.settings import ColumnSettings, TableSettings
from sfumato.errors import NotSupported
from sfumato.query.abilities import Abilities
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.request import Histogram, TopK, Total

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
FLAT = Abilities(nested=False, keys=frozenset(("text", "integer")))

COLUMNS = {
    "article": Column("article"),
    "title": Column("title", max_groups=1),
    "country": Column("country", max_groups=1, guaranteed=True),
    "region": Column("region", domain=("a", "b"), max_groups=2),
    "score": Column("score", type="number"),
}
MEASURES = {"people": Measure("people"), "rows": Measure("rows", "rows", max_per_unit=3)}


def policy(abilities: Abilities) -> Policy:
    return Policy({"t": replace(TablePolicy("t", "unit", COLUMNS, MEASURES), abilities=abilities)})


@pytest.mark.parametrize(
    "request_",
    [
        Total("t", "people"),
        TopK("t", "article", "people", k=3),
        TopK("t", ["article", "title"], "people", k=3),  # an unbounded column makes any number of groups
        Histogram("t", "country", "people"),
        Histogram("t", "region", "people"),
        Total("t", "people", where={"score": {"gt": 1}}),
        Total("t", "people", where={"title": "a"}),
    ],
    ids=repr,
)
def test_what_needs_no_nested_query_is_planned_without_one(request_):
    query = plan(request_, policy(FLAT), PRICES).query
    assert not list(query.find_all(exp.Subquery, exp.Window))
    assert plan(request_, policy(Abilities()), PRICES).query == query


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Total("t", "rows"), r"^measure: rows cannot be asked: .*use \{ count = \"units\" \}"),
        (Histogram("t", "title", "people"), r"^by: its engine has no nested queries.*guaranteed = true"),
        (Histogram("t", ["title", "country"], "people"), r"^by: its engine has no nested queries"),
        (Histogram("t", "score", "people"), r"^by: score holds a number, and its engine groups by text, integer only"),
    ],
    ids=repr,
)
def test_what_the_engine_cannot_count_is_refused_with_a_way_out(request_, said):
    assert plan(request_, policy(Abilities()), PRICES)
    with pytest.raises(NotSupported, match=said):
        plan(request_, policy(FLAT), PRICES)


def test_a_policy_that_the_engine_cannot_keep_is_refused_by_column_and_measure():
    columns = {
        name: ColumnSettings(column.type, column.domain, column.max_groups, column.guaranteed)
        for name, column in COLUMNS.items()
    }
    columns["half"] = ColumnSettings("text", ("a", "b", "c"), 2)
    columns["grade"] = ColumnSettings("number", (1, 2))
    schema = {name: column.type or "text" for name, column in columns.items()} | {"unit": "integer"}
    table = TableSettings("t", "local", "t", "unit", columns, MEASURES)
    assert list(table.problems(schema, {})) == []
    found = {problem.setting: problem.problem for problem in table.problems(schema, {}, FLAT)}
    assert found.keys() == {
        "tables.t.measures.rows",
        "tables.t.columns.title.max_groups",
        "tables.t.columns.half.max_groups",
        "tables.t.columns.grade",
    }
    assert "guaranteed = true" in found["tables.t.columns.half.max_groups"]
    assert 'count = "units"' in found["tables.t.measures.rows"]
