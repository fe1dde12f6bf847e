"""What tools ask to fill a filter box: the values of one column, from the policy.

    SELECT DISTINCT column FROM table [ORDER BY column [ASC | DESC]] [LIMIT n]

These are the values of the domain that the owner has made public, whether or not a row has them. No row is read, so
that a listing is free and the same whatever the data is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, Policy
from sfumato.query.sql import MAX_LENGTH, Reader, check_clauses, example, limit_digits, parsed, referenced, table_of
from sfumato.types import Value

_CLAUSES = {"expressions", "from_", "distinct", "order", "limit"}

# Seen on the text, so that any other question is parsed once and not twice. What hides its DISTINCT from this, such as
# a comment inside a comment, is refused where questions are read.
_SPACE = r"(?:\s++|--[^\n]*+|/\*.*?\*/)"
_DISTINCT = re.compile(rf"{_SPACE}*+SELECT{_SPACE}++DISTINCT\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Listing:
    """The public values of a column, by its name in the policy, in the order that was asked for."""

    table: str
    column: str
    values: tuple[Value, ...]


def read_listing(text: str, policy: Policy) -> Listing | None:
    """The listing that `text` asks for; None where it is another question."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH or not _DISTINCT.match(text):
        return None
    select = parsed(text)
    if not select.args.get("distinct"):
        return None
    table, alias = table_of(select, policy)
    reader = Reader(table, alias)
    column = _listed(reader, select)
    if column.domain is None:
        raise NotSupported(
            f"{column.name} has no public domain: its values exist only in the data, so that a list of them is not "
            f"free; ask for the most frequent: {example(table, [column.name])}"
        )
    values = column.domain[::-1] if _descending(reader, select, column) else column.domain
    return Listing(table.name, column.name, values[: _most(select)])


def _listed(reader: Reader, select: exp.Select) -> Column:
    """The one column of the SELECT list, with nothing beside it that would look at rows."""
    for item in select.expressions:
        if reader.measure(item.unalias()) is not None:
            raise NotSupported("groups are distinct already: leave DISTINCT out, and GROUP BY the columns")
    for clause in ("where", "group"):
        if select.args.get(clause):
            raise NotSupported(_whole_domain(reader, select, clause))
    check_clauses(select, _CLAUSES)
    if len(select.expressions) != 1:
        raise NotSupported("SELECT DISTINCT lists the public values of one column; ask for one column at a time")
    [item] = select.expressions
    reader.check_alias(item)
    return reader.column(item.unalias())


def _whole_domain(reader: Reader, select: exp.Select, clause: str) -> str:
    columns = [reader.column(item.unalias()).name for item in select.expressions]
    if clause == "group":
        return "SELECT DISTINCT lists the public values of a column: leave GROUP BY out, or DISTINCT out and count"
    return (
        "SELECT DISTINCT lists the public values of a column, whichever the rows have: leave WHERE out; to see which "
        f"there are among some rows, count them: {example(reader.table, columns[:1], 'WHERE ...')}"
    )


def _descending(reader: Reader, select: exp.Select, column: Column) -> bool:
    order = select.args.get("order")
    if order is None:
        return False
    [first, *rest] = order.expressions
    item = referenced(first.this, select)
    if rest or not isinstance(item, exp.Column) or reader.measure(item) or reader.column(item) != column:
        raise NotSupported(f"a list of values has no counts to be ordered by: ORDER BY {column.name}, ASC or DESC")
    return bool(first.args.get("desc"))


def _most(select: exp.Select) -> int | None:
    """How many values LIMIT leaves. Nothing is charged for them, so that it may be any number, also 0."""
    digits = limit_digits(select)
    if digits is None or len(digits) > 9:  # no domain is that long
        return None
    return int(digits or 0)
