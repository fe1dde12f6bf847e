"""WHERE: from its tree to a filter, typed by the policy."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.filters import compare
from sfumato.query.predicate import EVERYTHING, NOTHING, Predicate, all_of, any_of, negate
from sfumato.query.sql.refusals import DATE, LITERALS
from sfumato.query.sql.scope import Scope

_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    # the operator, and the one it becomes when the literal stands first
    exp.EQ: ("eq", "eq"),
    exp.NEQ: ("ne", "ne"),
    exp.LT: ("lt", "gt"),
    exp.LTE: ("le", "ge"),
    exp.GT: ("gt", "lt"),
    exp.GTE: ("ge", "le"),
}


def read_where(node: exp.Expr, scope: Scope) -> Predicate:
    """A condition as a filter; not pruned yet."""
    if isinstance(node, exp.Paren):
        return read_where(node.this, scope)
    if isinstance(node, exp.And | exp.Or):
        join = all_of if isinstance(node, exp.And) else any_of
        return join([read_where(part, scope) for part in node.flatten()])
    if isinstance(node, exp.Not):
        return negate(read_where(node.this, scope))
    if isinstance(node, exp.Boolean):
        return EVERYTHING if node.this else NOTHING
    if isinstance(node, exp.Column):
        column = scope.column(node)
        if column.type != "boolean":
            raise NotSupported(f"{column.name} is not a condition; compare it with something")
        return compare(column, "eq", True)
    return _comparison(node, scope)


def _comparison(node: exp.Expr, scope: Scope) -> Predicate:
    if type(node) in _COMPARISONS:
        forwards, backwards = _COMPARISONS[type(node)]
        if isinstance(node.this, exp.Column):
            return compare(scope.column(node.this), forwards, _literal(node.expression))
        return compare(scope.column(node.expression), backwards, _literal(node.this))
    if isinstance(node, exp.In) and not any(
        value for clause, value in node.args.items() if clause not in ("this", "expressions")
    ):
        return compare(scope.column(node.this), "in", [_literal(value) for value in node.expressions])
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        bounds = [_literal(node.args["low"]), _literal(node.args["high"])]
        return compare(scope.column(node.this), "between", bounds)
    raise NotSupported(LITERALS)


def _literal(node: exp.Expr) -> Any:
    """The raw value of a literal; its column decides what it means."""
    if isinstance(node, exp.Paren):
        return _literal(node.this)
    if isinstance(node, exp.Cast):
        return _moment(node)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number(f"-{node.this.this}")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else _number(node.this)
    words = "a filter compares a column with literal values: text in 'quotes', numbers, TRUE, FALSE, dates"
    now = isinstance(node, exp.Anonymous) and node.name.casefold() in ("now", "today", "getdate")
    raise NotSupported(f"{words}; {DATE}" if now else words)


def _moment(node: exp.Cast) -> date:
    """DATE '...' and TIMESTAMP '...', in any spelling of the cast; no other cast has a meaning here."""
    kind, text = node.to.this, node.this
    readers = {exp.DataType.Type.DATE: date.fromisoformat, exp.DataType.Type.TIMESTAMP: datetime.fromisoformat}
    if kind in readers and isinstance(text, exp.Literal) and text.is_string:
        with suppress(ValueError):
            return readers[kind](text.this)
    raise NotSupported(
        "only DATE '2026-11-15' and TIMESTAMP '2026-11-15 08:30:00' can be cast; write other literals plainly"
    )


def _number(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise NotSupported(f"{digits[:40]} is too large to be compared with, or not a number") from None
