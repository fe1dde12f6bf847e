"""What a driver must know of a SELECT: where its parameters go, and what its list calls its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato.errors import NotSupported
from sfumato.query.values import decimal, read_value
from sfumato.types import Type


def bound(sql: str, parameters: Sequence[Any]) -> str:
    """The statement with a literal for each `?`, in their order.

    The tokeniser tells a placeholder from a question mark in a text, a name or a comment. A literal stands between
    spaces, so that it cannot join what is beside it: `-?` and -5 are not the beginning of a comment.
    """
    try:
        places = [token for token in sqlglot.tokenize(sql) if token.token_type is TokenType.PLACEHOLDER]
    except SqlglotError:
        raise NotSupported("this could not be read as SQL: a text or a name is not closed") from None
    if len(places) != len(parameters):
        raise NotSupported(
            f"the statement has {len(places)} places for parameters (?), and {len(parameters)} are given"
        )
    pieces, at = [], 0
    for place, value in zip(places, parameters, strict=True):
        pieces += [sql[at : place.start], f" {literal(value)} "]
        at = place.end + 1
    return "".join([*pieces, sql[at:]])


def literal(value: Any) -> str:
    """A value as SQL, in the spelling that the service reads."""
    if isinstance(value, bool):
        return exp.Boolean(this=value).sql()
    if isinstance(value, str):
        return exp.Literal.string(str.__str__(value)).sql()
    if isinstance(value, date):
        kind: Type = "timestamp" if isinstance(value, datetime) else "date"
        return f"{kind.upper()} {exp.Literal.string(str(read_value('a parameter', kind, value))).sql()}"
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, float | Decimal | Fraction):
        number = read_value("a parameter", "number", value)
        assert isinstance(number, Fraction)  # noqa: S101 - for the type checker
        return decimal(number)
    if value is None:
        raise NotSupported("a parameter is None; rows without a value are left out, and cannot be asked for")
    raise NotSupported("a parameter is text, a number, True, False, a date or a datetime")


def shown(sql: str, columns: Mapping[str, str], measure: str | None) -> list[tuple[str, str]]:
    """The SELECT list of an answered statement: for each item its name, an alias if it has one, and its column.

    What is not a column of the answer by its name is the measure, such as COUNT(*).
    """
    selected = _select_list(sql)
    known = {name.casefold(): name for name in columns}
    found = [(item.alias, known.get(_column_name(item.unalias()), measure)) for item in selected]
    named = [(alias or column, column) for alias, column in found if column is not None]
    whole = {column for _, column in named} == set(columns) and len(named) == len(selected)
    return named if whole else [(name, name) for name in columns]


def _select_list(sql: str) -> list[exp.Expr]:
    try:
        tree = sqlglot.parse_one(sql)
    except SqlglotError:
        return []
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


def _column_name(node: exp.Expr) -> str:
    return node.name.casefold() if isinstance(node, exp.Column) else ""
