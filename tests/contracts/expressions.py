"""Expressions of one row, over rows that are chosen to hurt: every engine must compute what Python computes.

An engine's test says how to make a table (`make`). Only the functions that the engine claims are asked of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sfumato.engines import Engine
from sfumato.query.abilities import Abilities
from sfumato.query.expressions.build import apply
from sfumato.query.expressions.functions import FUNCTIONS, LOOKUPS, abilities_of, evaluate
from sfumato.query.expressions.tree import Applied, ColumnValue, Constant, Expression, spell
from sfumato.query.expressions.write import write_expression, written_size
from sfumato.query.policy import Column, Measure, TablePolicy
from sfumato.types import Type
from tests.helpers.repeats import repeats

TABLE = "events"
COLUMNS: Mapping[str, Type] = {
    "id": "integer",
    **dict.fromkeys(("a", "b"), "text"),
    **dict.fromkeys(("n", "m"), "integer"),
    **dict.fromkeys(("x", "y"), "number"),
    **dict.fromkeys(("p", "q"), "boolean"),
    **dict.fromkeys(("d", "e"), "date"),
    **dict.fromkeys(("s", "t"), "timestamp"),
}

TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "abc",
        "ABC",
        "ÄÖß",
        "\u0130i\u017fK",
        "ΑΣΣ",
        "é",
        "e\u0301",
        "😀👩‍👩‍👧",
        "日本",
        "%",
        "_",
        "\\",
        "a\\",
        "a_c",
        "100%",
    ),
    *(".*", "[a", "a\nb", " a ", "\u00a0a\u00a0", "it's", "12", "-7", "+08", "1.5", "1e3", "1e400", "9" * 18, "9" * 19),
    *("2026-02-28", "2026-02-30", "0000-01-01", "0001-01-01", "9999-12-31", "2026-2-1", "2026-02-28 23:59:59.5"),
    *(
        "2026-02-28T24:00:00",
        "12\n",
        "\uff11\uff12",
        "inf",
        "nan",
        "true",
        "NULL",
        "a" * 1001,
        "ä" * 10_000,
        "b" * 10_001,
    ),
)
WHOLES = (0, 1, -1, 2, 7, -7, 10, 2**53 + 1, 2**62 - 1, 2**62, -(2**62), -(2**62) - 1, 2**63 - 1, -(2**63))
NUMBERS = (0.0, -0.0, 0.5, 1.5, -2.5, 0.1, 0.49999999999999994, 1e15, 1e-310, 1e300, -1e308, 4.7e18, math.inf, math.nan)
TRUTHS = (True, False)
DAYS = (date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(2024, 2, 29), date(2026, 1, 31), date(9999, 12, 31))
MOMENTS = (
    *(datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(2021, 1, 3, 12, 30, 15, 500_000)),
    *(datetime(2024, 2, 29, 23), datetime(9999, 12, 31, 23, 59, 59, 999_999)),
)
VALUES: Mapping[Type, Sequence[Any]] = {
    "text": TEXTS,
    "integer": WHOLES,
    "number": NUMBERS,
    "boolean": TRUTHS,
    "date": DAYS,
    "timestamp": MOMENTS,
}


@cache
def hostile_rows() -> list[tuple[Any, ...]]:
    """Every value beside every other of its type, and beside NULL."""
    pairs = {kind: [*itertools.product((*values, None), repeat=2)] for kind, values in VALUES.items()}
    # Long texts are beside few others: they would be most of the table.
    long = [pair for pair in pairs["text"] if any(len(each or "") > 1000 for each in pair)]
    pairs["text"] = [pair for pair in pairs["text"] if pair not in long or set(pair) <= {"a", "", None, *TEXTS[-3:]}]
    kinds: tuple[Type, ...] = ("text", "integer", "number", "boolean", "date", "timestamp")
    count = max(map(len, pairs.values()))
    return [(i, *itertools.chain(*(pairs[kind][i % len(pairs[kind])] for kind in kinds))) for i in range(count)]


POLICY = TablePolicy(
    TABLE,
    "unit",
    {name: Column(name, kind) for name, kind in COLUMNS.items()},
    {"people": Measure("people")},
    abilities=Abilities(functions=FUNCTIONS),
    version="daily 2026-11-19",
)

TEXT_FORMS = (
    *(
        "lower(a)",
        "upper(a)",
        "trim(a)",
        "ltrim(a)",
        "rtrim(a)",
        "trim(BOTH 'a\\' FROM a)",
        "trim(LEADING '.*' FROM a)",
    ),
    *("substr(a, 1, 2)", "substr(a, 2)", "substr(a, 3, 0)", "left(a, 1)", "a || b", "a || '%' || b", "concat(a, b)"),
    *("coalesce(a, b)", "coalesce(a, 'none')", "nullif(a, b)", "nullif(a, '')", "lower(a || upper(b))"),
    *("CASE WHEN a = b THEN 'same' WHEN a < b THEN a ELSE lower(b) END", "CASE a WHEN 'a' THEN b END"),
    *("CAST(n AS VARCHAR)", "CAST(p AS VARCHAR)", "CAST(d AS VARCHAR)", "IF(p, a, b)"),
)
WHOLE_FORMS = (
    *("length(a)", "n + m", "n - m", "n * m", "n % m", "-n", "abs(n)", "n + 1", "n - 1", "n * 2 + m", "n % 7", "n % 0"),
    *("coalesce(n, m)", "nullif(n, m)", "CASE WHEN n < m THEN n ELSE m END", "CASE WHEN p THEN 1 WHEN q THEN n END"),
    *("CAST(a AS BIGINT)", "CAST(x AS BIGINT)", "CAST(p AS BIGINT)", "d - e", "width_bucket(x, -1, 1.5, 7)"),
    *("width_bucket(n, 0, 10, 3)",),
    *(f"extract({part} FROM {at})" for part in ("year", "quarter", "month", "week", "day", "doy") for at in "ds"),
    *(f"extract({part} FROM {at})" for part in ("dow", "isodow") for at in "ds"),
    *(f"extract({part} FROM s)" for part in ("hour", "minute", "second")),
    *("year(d)", "month(s)", "dayofweek(d)", "dow(d)"),
)
NUMBER_FORMS = (
    *("x + y", "x - y", "x * y", "x / y", "x % y", "-x", "abs(x)", "floor(x)", "ceil(x)", "round(x)", "round(x, 2)"),
    *("round(x, -3)", "x / 0", "n / m", "n + x", "coalesce(x, y)", "coalesce(x, 0)", "nullif(x, y)", "x + y * x - 1.5"),
    *("CASE WHEN x < y THEN x ELSE n END", "CAST(n AS DOUBLE)", "CAST(a AS DOUBLE)", "round(n, -2)"),
)
TIME_FORMS = (
    *(f"date_trunc('{unit}', {at})" for unit in ("year", "quarter", "month", "week", "day") for at in "ds"),
    *(f"date_trunc('{unit}', s)" for unit in ("hour", "minute", "second")),
    *(
        f"{at} + INTERVAL '{count}' {unit}"
        for at in "ds"
        for count in (1, -13)
        for unit in ("DAY", "WEEK", "MONTH", "YEAR")
    ),
    *(f"s - INTERVAL 90 {unit}" for unit in ("HOUR", "MINUTE", "SECOND")),
    *("d + 7", "d - 400000", "d + INTERVAL '4000' YEAR", "d - INTERVAL '4000' YEAR", "s + INTERVAL '4000' YEAR"),
    *("CAST(a AS DATE)", "CAST(a AS TIMESTAMP)", "CAST(d AS TIMESTAMP)", "CAST(s AS DATE)", "date(s)"),
    *("coalesce(d, e)", "nullif(s, t)", "CASE WHEN d < e THEN d ELSE CURRENT_DATE END", "coalesce(d, s)"),
)
TRUTH_FORMS = (
    *(
        f"{one} {sign} {other}"
        for one, other in ("ab", "nm", "xy", "de", "st", "nx", "ds")
        for sign in ("=", "<", "<=", "<>")
    ),
    *("p = q", "p <> q", "p AND q", "p OR NOT q", "p IS TRUE", "p IS NOT FALSE", "coalesce(p, q)"),
    *(f"{name} IS NULL" for name in ("a", "n", "x", "p", "d", "s", "lower(a)", "n + m", "x / y")),
    *("starts_with(a, 'a')", "starts_with(a, b)", "a LIKE 'a%'", "a LIKE '%a%'", "a LIKE '_'", "a LIKE '%_b'"),
    *("a LIKE '%!%' ESCAPE '!'", "a LIKE '!_%' ESCAPE '!'", "a LIKE 'a\\'", "a LIKE '%\\%'", "a NOT LIKE '%.%'"),
    *(
        "a LIKE '%[a%'",
        "a LIKE '_%_'",
        "a LIKE '%a%b%'",
        "a LIKE '%a_b%'",
        "a ILIKE '%ä%'",
        "a ILIKE 'ΑΣσ'",
        "a ILIKE '%B'",
    ),
    *("n IN (0, 7, 9007199254740993)", "a IN ('a', '', '😀')", "lower(a) IN ('abc', 'b')", "n BETWEEN m AND 10"),
    *("x IN (0.5, 0)", "d BETWEEN '2024-02-29' AND e", "n % 2 = 0 AND length(a) > 3"),
)
FORMS = (*TEXT_FORMS, *WHOLE_FORMS, *NUMBER_FORMS, *TIME_FORMS, *TRUTH_FORMS)


def tree_of(text: str) -> Expression | None:
    """The tree of a text; None where it is a column of the policy."""
    return POLICY.column(f"({text})").expression


TREES = {text: tree for text in FORMS if (tree := tree_of(text)) is not None}  # all but the day of a day


def computed(engine: Engine, trees: Sequence[Expression]) -> list[tuple[Any, ...]]:
    """What an engine makes of trees, for each row in the order of `id`."""
    columns = [write_expression(tree).as_(f"c{place}", quoted=True) for place, tree in enumerate(trees)]
    key = exp.column("id", quoted=True)
    inner = exp.select(key, *columns).from_(exp.table_(TABLE, quoted=True)).subquery("computed")
    names = [exp.column(f"c{place}", quoted=True) for place in range(len(trees))]
    return engine.run(exp.select(*names).from_(inner).order_by(key))


class ExpressionContract:
    """`make` is what an engine's test has to write, as for `EngineContract`."""

    def make(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str], table: str = TABLE) -> Engine:
        raise NotImplementedError

    rows = staticmethod(hostile_rows)

    @pytest.fixture(scope="class")
    @classmethod
    def hostile(cls):
        with cls().make(cls.rows(), COLUMNS) as engine:
            yield engine

    @pytest.mark.parametrize("text", TREES)
    def test_an_expression_is_what_python_computes(self, hostile, text):
        tree = TREES[text]
        if not abilities_of(tree) <= hostile.abilities.functions:
            pytest.skip("the engine does not claim it")
        rows = self.rows()
        found = [value for (value,) in computed(hostile, [tree])]
        for row, value in zip(rows, found, strict=True):
            named = dict(zip(COLUMNS, row, strict=True))
            expected = evaluate(tree, named)
            assert (type(value), value) == (type(expected), expected), (
                text,
                {name: named[name] for name in "abnmxydest"},
            )

    def test_the_list_has_every_function_that_is_claimed(self, hostile):
        asked = set().union(*map(abilities_of, TREES.values()))
        assert hostile.abilities.functions - LOOKUPS <= asked, (
            "look-ups in public tables are in the contract of engines"
        )

    @settings(max_examples=repeats(25, 600))
    @given(st.data())
    def test_trees_of_any_form_are_what_python_computes(self, hostile, data):
        kinds: tuple[Type, ...] = ("text", "integer", "number", "boolean", "date", "timestamp")
        trees = [data.draw(a_tree(data.draw(st.sampled_from(kinds)), 3)) for _ in range(5)]
        trees = [
            each for each in trees if abilities_of(each) <= hostile.abilities.functions and written_size(each) < 2000
        ]
        rows = self.rows()
        for row, values in zip(rows[::11], computed(hostile, trees)[::11] if trees else [], strict=bool(trees)):
            named = dict(zip(COLUMNS, row, strict=True))
            assert [*values] == [evaluate(tree, named) for tree in trees], ([*map(spell, trees)], named)


@cache
def a_tree(kind: Type, depth: int) -> st.SearchStrategy[Expression]:
    """A tree of a type, as deep as `depth`, by the functions that have this type."""
    leaves = st.sampled_from([ColumnValue(name, each) for name, each in COLUMNS.items() if each == kind])
    if not depth:
        return leaves

    def calls(name: str, *kinds: Type) -> st.SearchStrategy[Expression]:
        return st.tuples(*(a_tree(each, depth - 1) for each in kinds)).map(lambda drawn: _applied(name, drawn, kind))

    text: tuple[Type, ...] = ("text", "text")
    known: dict[Type, list[st.SearchStrategy[Expression]]] = {
        "text": [
            calls("lower", "text"),
            calls("upper", "text"),
            calls("trim", "text"),
            calls("||", *text),
            calls("coalesce", *text),
        ],
        "integer": [calls(name, "integer", "integer") for name in "+-*%"]
        + [calls("length", "text"), calls("-", "date", "date")],
        "number": [calls(name, "number", "number") for name in "+-*/%"]
        + [calls("round", "number"), calls("abs", "number")],
        "boolean": [
            *(calls(sign, each, each) for sign in ("=", "<", "<=") for each in VALUES if each != "boolean"),
            *(calls(name, "boolean", "boolean") for name in ("and", "or")),
            *(calls(name, each) for name in ("is null",) for each in VALUES),
            calls("not", "boolean"),
        ],
        "date": [calls("nullif", "date", "date")],
        "timestamp": [calls("coalesce", "timestamp", "timestamp")],
    }
    return st.one_of(leaves, *known[kind], calls("case", "boolean", kind, kind))


def _applied(name: str, arguments: tuple[Expression, ...], kind: Type) -> Expression:
    made = apply(name, *arguments)
    return made if isinstance(made, Applied | ColumnValue) or made.value is not None else Constant(None, kind)
