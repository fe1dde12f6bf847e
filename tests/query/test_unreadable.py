"""SQL that cannot be read: the refusal says where, and quotes nothing but what stands there."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, Measure, TablePolicy
from sfumato.query.sql import read_filter
from sfumato.query.sql.parse import parse_select

NEAR = re.compile(r"at line (\d+), column (\d+)(?:, near (.*?))?; the form is", re.DOTALL)


@pytest.mark.parametrize(
    ("text", "at", "near"),
    [
        ("SELECT a b c FROM t", (1, 12), "c"),
        ("SELECT a FROM t WHERE", (1, 17), "WHERE"),
        ("SELECT a FROM t LIMIT", (1, 17), "LIMIT"),
        ("SELECT (a\n  FROM t", (2, 3), "FROM"),
        ("SELECT a\nFROM t\nWHERE a = = 2", (3, 11), "="),
        ("SELECT 'é', ünï b c FROM t", (1, 19), "c"),
    ],
)
def test_it_says_where(text: str, at: tuple[int, int], near: str) -> None:
    with pytest.raises(NotSupported) as refused:
        parse_select(text)
    assert refused.value.at == at
    assert f"at line {at[0]}, column {at[1]}, near {near}; the form is" in str(refused.value)


def test_in_the_filter_of_a_policy_lines_begin_with_the_filter() -> None:
    table = TablePolicy("t", "unit", {"a": Column("a")}, {"n": Measure("n")})
    assert str(read_filter("a = 'x'", table)) == str(read_filter(" a\n= 'x' ", table))
    for text, at in (("a = = 'x'", (1, 5)), ("a = 'x'\nAND OR", (2, 5))):
        with pytest.raises(NotSupported) as refused:
            read_filter(text, table)
        assert refused.value.at == at


@pytest.mark.parametrize("text", ["SELECT 'a FROM t", 'SELECT "a FROM t', "SELECT a FROM t WHERE b = 'it''s"])
def test_what_is_not_closed_has_no_place(text: str) -> None:
    with pytest.raises(NotSupported, match="a text or a name is not closed") as refused:
        parse_select(text)
    assert refused.value.at is None


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "a",
    "t",
    "'x y'",
    '"q"',
    "=",
    "(",
    ")",
    ",",
    "\n",
    "1",
    "AND",
    "COUNT",
    "*",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(lambda words: " ".join(["SELECT", *words])))
def test_the_place_is_in_the_text_and_the_word_stands_there(text: str) -> None:
    with contextlib.suppress(NotSupported):
        parse_select(text)
        return
    with pytest.raises(NotSupported) as refused:
        parse_select(text)
    found, at = NEAR.search(str(refused.value)), refused.value.at
    if at is None or found is None or not found[3]:
        return
    assert (int(found[1]), int(found[2])) == at
    assert text.split("\n")[at[0] - 1][at[1] - 1 :].startswith(found[3])
