"""What a driver must know of a SELECT: where its parameters go, and what its list calls its columns.

The only module of the client that needs sqlglot. `dbapi` imports it when the first statement is executed.
"""

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
from sfumato.query.values import json_value, read_value
from sfumato.types import Type


def bind(sql: str, parameters: Sequence[Any]) -> str:
    """The statement with a literal for each `?`, in their order.

    The tokeniser tells a placeholder from a question mark in a text, a name or a comment. A literal stands between
    spaces and cannot join what is beside it: `-?` and -5 are not the beginning of a comment.
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
        return str(json_value(read_value("a parameter", "number", value)))
    if value is None:
        raise NotSupported("a parameter is None; rows without a value are left out, and cannot be asked for")
    raise NotSupported("a parameter is text, a number, True, False, a date or a datetime")


def select_list(sql: str, columns: Mapping[str, str], measure: str | None) -> list[tuple[str, str]]:
    """The SELECT list of a statement that was answered: for each item its alias or name, and its column.

    An item that is not a column of the answer by its name is the measure, such as COUNT(*).
    """
    try:
        tree: exp.Expr | None = sqlglot.parse_one(sql)
    except SqlglotError:
        tree = None
    known = {name.casefold(): name for name in columns}
    names: list[tuple[str, str]] = []
    for item in tree.expressions if isinstance(tree, exp.Select) else ():
        node = item.unalias()
        column = known.get(node.name.casefold() if isinstance(node, exp.Column) else "", measure)
        if column is None:
            break
        names.append((item.alias or column, column))
    whole = tree is not None and len(names) == len(tree.expressions) and {column for _, column in names} == {*columns}
    return names if whole else [(name, name) for name in columns]
