"""The words of refusals: what is often tried, and what to ask instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from sfumato.errors import NotSupported
from sfumato.query.policy import TablePolicy

FORM = "SELECT column, COUNT(DISTINCT unit) FROM table WHERE ... GROUP BY column ORDER BY 2 DESC LIMIT 10"
BARE = "GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC"

LITERALS = "a filter compares a column with literals: =, <>, <, <=, >, >=, IN, BETWEEN, AND, OR, NOT"
DATE = "write the date: DATE '2026-11-15'"
ONE_SELECT = f"ask one SELECT at a time; the form is {FORM}"
SUBQUERY = "a SELECT inside a SELECT has no private form: ask of one table by its name, compare with literal values"
_QUOTE = 'if it is the name of a column, write it in "double quotes"'

CLAUSES: dict[str, str] = {
    "joins": "JOIN has no private form here; ask the owner for a view that joins the tables",
    "laterals": "JOIN has no private form here; ask the owner for a view that joins the tables",
    "with_": "WITH has no private form here; ask one SELECT of one table",
    "having": "HAVING has no private form: it would look at exact counts; take LIMIT k and read the list",
    "distinct": "SELECT DISTINCT has no private form, but for one column of a public domain and nothing beside it; "
    f"for the largest groups without their counts, {BARE}",
    "offset": "OFFSET has no private form; a longer LIMIT continues a shorter list and costs only the new rows",
    "windows": "window functions have no private form",
    "qualify": "QUALIFY has no private form; take LIMIT k",
    "sample": "TABLESAMPLE has no private form; the noise is the sampling",
}

STATEMENTS = {
    "WITH": CLAUSES["with_"],
    "EXPLAIN": "EXPLAIN has no private form; to know what a question costs, ask for its price: sfumato estimate",
}

# Words of SQL that are no names of columns. Any other unknown word may be a column that needs its quotes.
_SYNTAX = {
    *("ALL", "ANY", "CASE", "CUBE", "ELSE", "END", "FETCH", "FILTER", "FOR", "INTERVAL", "INTO", "ON", "OVER", "PIVOT"),
    *("ROLLUP", "SOME", "THEN", "UNPIVOT", "USING", "VALUES", "WHEN", "WINDOW"),
}

_TOKENS = {
    TokenType.JOIN: CLAUSES["joins"],
    TokenType.WITH: CLAUSES["with_"],
    TokenType.HAVING: CLAUSES["having"],
    TokenType.OFFSET: CLAUSES["offset"],
    TokenType.QUALIFY: CLAUSES["qualify"],
    TokenType.OVER: CLAUSES["windows"],
    TokenType.TABLE_SAMPLE: CLAUSES["sample"],
    **dict.fromkeys(
        (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
        f"{{word}} has no private form; {ONE_SELECT}",
    ),
    **dict.fromkeys(
        (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.GLOB, TokenType.SIMILAR_TO, TokenType.EXISTS),
        f"{{word}} has no private form; {LITERALS}",
    ),
    TokenType.IS: f"IS has no private form, as rows without a value are left out; {LITERALS}",
    **dict.fromkeys(
        (TokenType.CURRENT_DATE, TokenType.CURRENT_DATETIME, TokenType.CURRENT_TIME, TokenType.CURRENT_TIMESTAMP),
        f"{{word}} would be another question every time; {DATE}",
    ),
    TokenType.NULL: "rows without a value are left out, and cannot be asked for; compare with literal values",
}


def unknown_token(token: Token) -> str:
    """The refusal of a token: what to ask instead, or how a word becomes the name of a column."""
    word = token.text[:40]
    hint = _TOKENS.get(token.token_type)
    if hint is not None:
        return hint.replace("{word}", word.upper())
    may_be_a_column = re.fullmatch(r"\w+", word) and word.upper() not in _SYNTAX
    return f"{word} is not understood here; {_QUOTE if may_be_a_column else f'the form is {FORM}'}"


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


def identifier(name: str) -> str:
    """A name as SQL has it: in quotes where it would be read as something else."""
    plain = re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and sqlglot.tokenize(name)[0].token_type is TokenType.VAR
    return name if plain else exp.to_identifier(name, quoted=True).sql()


def first_names(names: Collection[str], most: int = 8) -> str:
    """The first of names that may be many."""
    text = ", ".join([*names][:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text
