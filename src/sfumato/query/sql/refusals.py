"""The words of refusals: what is often tried, and what to ask instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported
from sfumato.query.policy import TablePolicy

FORM = "SELECT column, COUNT(DISTINCT unit) FROM table WHERE ... GROUP BY column ORDER BY 2 DESC LIMIT 10"
BARE = "GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC"

LITERALS = "a filter compares: =, <>, <, <=, >, >=, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT"
DATE = "write CURRENT_DATE, which is the day of the data version, or the date: DATE '2026-11-15'"
ONE_SELECT = f"ask one SELECT at a time; the form is {FORM}"
SUBQUERY = "a SELECT inside a SELECT of rows is not supported yet: ask it first, and compare with literal values"
_QUOTE = 'if it is the name of a column, write it in "double quotes"'

_JOINS = (
    "JOIN has no private form here; ask the owner for a view that joins the tables. Released rows can be joined: "
    "SELECTs in parentheses, and names of WITH"
)

CLAUSES: dict[str, str] = {
    **dict.fromkeys(("joins", "laterals"), _JOINS),
    "with_": "WITH belongs to questions with a count; leave it out",
    "having": "HAVING filters released counts, and here are none; leave it out",
    "distinct": "SELECT DISTINCT is not supported yet, but for one column of a public domain and nothing beside it; "
    f"for the largest groups without their counts, {BARE}",
    "offset": "OFFSET is not supported yet here; take LIMIT",
    "windows": "window functions over exact rows have no private form; over a count they have: RANK() OVER (ORDER BY "
    "COUNT(DISTINCT unit))",
    "qualify": "QUALIFY is not supported yet; filter in a SELECT around this one",
    "sample": "TABLESAMPLE has no private form; the noise is the sampling",
}

STATEMENTS = {
    "EXPLAIN": "EXPLAIN stands alone before one SELECT and gives its price; nothing is run, so there is no ANALYZE",
}

# Words of SQL that are no names of columns. Any other unknown word may be a column that needs its quotes.
_SYNTAX = {
    *("ANY", "INTO", "PIVOT", "SOME", "UNPIVOT", "VALUES", "WINDOW"),
}

_TOKENS = {
    TokenType.QUALIFY: CLAUSES["qualify"],
    TokenType.TABLE_SAMPLE: CLAUSES["sample"],
    **dict.fromkeys(
        (TokenType.EXCEPT, TokenType.INTERSECT), "{word} is not supported yet; UNION ALL joins released rows"
    ),
    **dict.fromkeys(
        (TokenType.RLIKE, TokenType.GLOB, TokenType.SIMILAR_TO, TokenType.EXISTS),
        f"{{word}} is not supported yet; {LITERALS}",
    ),
    **dict.fromkeys(
        (TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS),
        "{word} is not supported yet; GROUP BY columns by name, and add the released rows up",
    ),
    TokenType.UNNEST: "{word} is not supported yet; the days between two dates of a filter have their rows",
    TokenType.RECURSIVE: "WITH RECURSIVE is not supported yet; WITH without it is",
    **dict.fromkeys(
        (TokenType.CURRENT_DATETIME, TokenType.CURRENT_TIME, TokenType.CURRENT_TIMESTAMP),
        f"{{word}} would be another question every time; {DATE}",
    ),
    TokenType.PLACEHOLDER: "a value is missing: give one for each ? in params",
    TokenType.COLON: "a value is missing: give one for each :name in params",
}


def unknown_token(token: Token) -> str:
    """The refusal of a token: what to ask instead, or how a word becomes the name of a column."""
    word = token.text[:40]
    hint = _TOKENS.get(token.token_type)
    if hint is not None:
        return hint.replace("{word}", word.upper())
    may_be_a_column = re.fullmatch(r"\w+", word) and word.upper() not in _SYNTAX
    return f"{word} is not understood here; {_QUOTE if may_be_a_column else f'the form is {FORM}'}"


def unreadable(error: Exception, lines_before: int) -> NotSupported:
    """The refusal of a text that is no SQL: where it stops being that, and the word or sign there."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    line, end, word = found.get("line"), found.get("col"), found.get("highlight") or ""
    if not isinstance(line, int) or not isinstance(end, int) or "\n" in word:
        why = ": a text or a name is not closed" if isinstance(error, TokenError) else ""
        return NotSupported(f"this could not be read as SQL{why}; the form is {FORM}")
    at = max(line - lines_before, 1), max(end - len(word) + 1, 1)  # a token is found by its last character
    near = f", near {word[:40]}" if word else ""
    return NotSupported(
        f"this could not be read as SQL at line {at[0]}, column {at[1]}{near}; the form is {FORM}", at=at
    )


def check_clauses(select: exp.Select, known: Container[str]) -> None:
    """Refuse a clause that is not one of these, with what to try instead."""
    for clause, value in select.args.items():
        if value and clause not in known:
            other = f"{clause.strip('_').upper()} has no private form; the form is {FORM}"
            raise NotSupported(CLAUSES.get(clause, other))


def example(table: TablePolicy, by: Sequence[str] = (), where: str = "") -> str:
    """A question that can be asked of the table: its largest groups by these columns, or by its first."""
    of_units = [measure for measure in table.measures.values() if measure.counts == "units"]
    units, count = f"COUNT(DISTINCT {identifier(table.privacy_unit)})", next(map(identifier, table.measures), "")
    counted, by = units if len(of_units) == 1 else count, by or [*table.columns][:1]
    if not by or not counted:
        return FORM
    keys, last = ", ".join(map(identifier, by)), f"ORDER BY {len(by) + 1} DESC LIMIT {min(10, table.max_k)}"
    clauses = f"SELECT {keys}, {counted}", f"FROM {identifier(table.name)}", where, f"GROUP BY {keys}", last
    return " ".join(filter(None, clauses))


@lru_cache
def identifier(name: str) -> str:
    """A name as SQL has it: in quotes where it would be read as something else."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and sqlglot.tokenize(name)[0].token_type is TokenType.VAR
    return name if plain else exp.to_identifier(name, quoted=True).sql()


def first_names(names: Collection[str], most: int = 8) -> str:
    """The first of names that may be many."""
    text = ", ".join([*names][:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
