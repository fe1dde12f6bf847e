"""The values of one column, as tools ask for them to fill a filter box:

    SELECT DISTINCT column FROM table [ORDER BY column [ASC | DESC]] [LIMIT n]
    SELECT column FROM table GROUP BY column [ORDER BY column [ASC | DESC]] [LIMIT n]

These are the values of the domain that the owner has made public, also those that no row has. No row is read, so a
listing is free and does not depend on the data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, Policy
from sfumato.query.request import RequestLike
from sfumato.query.sql.aggregates import read_measure
from sfumato.query.sql.core import read_limit
from sfumato.query.sql.inline import inline_rows
from sfumato.query.sql.parse import MAX_LENGTH, parse_select
from sfumato.query.sql.refusals import check_clauses, example
from sfumato.query.sql.scope import Scope, read_scope, resolve
from sfumato.types import Value

_CLAUSES = {"expressions", "from_", "joins", "distinct", "order", "limit"}

# Looked for in the text, because then any other question is parsed only once. A DISTINCT that is hidden from this, such
# as behind a comment inside a comment, is refused where questions are read.
_SPACE = r"(?:\s++|--[^\n]*+|/\*.*?\*/)"
_DISTINCT = re.compile(rf"{_SPACE}*+SELECT{_SPACE}++DISTINCT\b", re.IGNORECASE | re.DOTALL)
_GROUPED = re.compile(
    rf"{_SPACE}*+SELECT{_SPACE}++[^,()]+\bFROM\b[^()]*\bGROUP{_SPACE}++BY\b", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Listing:
    """The public values of a column, in the order that was asked for. The answer calls the column by `name`."""

    table: str
    column: str
    values: tuple[Value, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.column)


def read_listing(request: RequestLike, policy: Policy) -> Listing | None:
    """The listing that a request in SQL asks for; None where it is another question."""
    text = request.get("sql") if isinstance(request, Mapping) and len(request) == 1 else request
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return None
    if not _DISTINCT.match(text):
        return _read_groups(text, policy) if _GROUPED.match(text) else None
    select = inline_rows(parse_select(text))
    if not isinstance(select, exp.Select) or not select.args.get("distinct") or _is_of_public(select, policy):
        return None
    scope = read_scope(select, policy)
    column = _only_column(select, scope)
    if column.domain is None:
        raise NotSupported(
            f"{column.name} has no public domain: its values exist only in the data, so a list of them is not free; "
            f"ask for the most frequent: {example(scope.table, [column.name])}",
            instead=[{"sql": example(scope.table, [column.name])}],
        )
    values = column.domain[::-1] if _descends(select, scope, column) else column.domain
    shown = values[: read_limit(select)]  # 0 too, because the values are free
    item = select.expressions[0]
    return Listing(scope.table.name, column.name, shown, item.alias or scope.label(item))


def _is_of_public(select: exp.Select, policy: Policy) -> bool:
    """Whether a SELECT is one of a public table: then its rows are read."""
    source = select.args.get("from_")
    return source is not None and not select.args.get("joins") and policy.public_table(source.this.name) is not None


def _read_groups(text: str, policy: Policy) -> Listing | None:
    """The listing of a column that is grouped by, with nothing counted; None where it is another question."""
    with suppress(NotSupported):
        select = parse_select(text)
        clauses = {clause for clause, value in select.args.items() if value}
        scope = read_scope(select, policy)
        if len(select.expressions) != 1 or len(select.args["group"].expressions) != 1:
            return None
        [item], [key] = select.expressions, select.args["group"].expressions
        if clauses <= {"expressions", "from_", "group", "order", "limit"} and not read_measure(item.unalias(), scope):
            column = scope.column(item.unalias())
            if column.domain is not None and scope.column(resolve(key, select)) == column:
                values = column.domain[::-1] if _descends(select, scope, column) else column.domain
                return Listing(scope.table.name, column.name, values[: read_limit(select)], item.alias)
    return None


def _only_column(select: exp.Select, scope: Scope) -> Column:
    """The one column of the SELECT list, with nothing beside it that would look at rows."""
    items = [item.unalias() for item in select.expressions]
    if any(read_measure(item, scope) is not None for item in items):
        raise NotSupported("groups are distinct already: leave DISTINCT out, and GROUP BY the columns")
    if select.args.get("where"):
        columns = [scope.column(item).name for item in items]
        raise NotSupported(
            "SELECT DISTINCT lists the public values of a column, whichever the rows have: leave WHERE out; to see "
            f"which there are among some rows, count them: {example(scope.table, columns[:1], 'WHERE ...')}"
        )
    if select.args.get("group"):
        raise NotSupported(
            "SELECT DISTINCT lists the public values of a column: leave GROUP BY out, or DISTINCT out and count"
        )
    check_clauses(select, _CLAUSES)
    if select.args["distinct"].args.get("on"):
        raise NotSupported("DISTINCT ON is not supported yet; SELECT DISTINCT lists the public values of one column")
    if len(items) != 1:
        raise NotSupported("SELECT DISTINCT of several columns is not supported yet; ask for one column at a time")
    return scope.column(items[0])


def _descends(select: exp.Select, scope: Scope, column: Column) -> bool:
    order = select.args.get("order")
    if order is None:
        return False
    [first, *rest] = order.expressions
    item = resolve(first.this, select)
    if rest or not isinstance(item, exp.Column) or read_measure(item, scope) or scope.column(item) != column:
        raise NotSupported(f"a list of values has no counts to be ordered by: ORDER BY {column.name}, ASC or DESC")
    return bool(first.args.get("desc"))
