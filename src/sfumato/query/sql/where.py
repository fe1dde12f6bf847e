"""WHERE: from its tree to a filter, typed by the policy."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.expressions.build import value_of
from sfumato.query.expressions.tree import Applied, Constant, Expression, spell
from sfumato.query.filters import compare
from sfumato.query.predicate import (
    ABOVE,
    BELOW,
    EVERYTHING,
    NOTHING,
    Cut,
    In,
    Predicate,
    Values,
    all_of,
    any_of,
    negate,
)
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
    return _compare_with_literals(node, scope) or _condition(scope.expression(node), scope)


def _compare_with_literals(node: exp.Expr, scope: Scope) -> Predicate | None:
    """A column of the policy beside literals, which are read by its type; None for any other condition."""
    if type(node) in _COMPARISONS:
        forwards, backwards = _COMPARISONS[type(node)]
        for column, operator, value in (
            (node.this, forwards, node.expression),
            (node.expression, backwards, node.this),
        ):
            if isinstance(column, exp.Column) and _is_literal(value):
                return compare(scope.column(column), operator, _literal(value))
        return None
    if not isinstance(node, exp.In | exp.Between) or not isinstance(node.this, exp.Column):
        return None
    known = {"this", "expressions", "low", "high"}
    values = node.expressions if isinstance(node, exp.In) else [node.args["low"], node.args["high"]]
    if any(value for clause, value in node.args.items() if clause not in known) or not all(map(_is_literal, values)):
        return None
    return compare(scope.column(node.this), "in" if isinstance(node, exp.In) else "between", [*map(_literal, values)])


def _condition(tree: Expression, scope: Scope) -> Predicate:
    """A tree that is true or false as a filter: sets of values where it compares with constants."""
    if isinstance(tree, Constant):
        if tree.value is None:
            raise NotSupported(
                "a comparison with NULL is true of no row; write `column IS NULL`, or compare with literal values"
            )
        if tree.type == "boolean":
            return EVERYTHING if tree.value else NOTHING
    if tree.type != "boolean":
        raise NotSupported(f"{spell(tree)[:60]} is not a condition; compare it with something")
    if isinstance(tree, Applied):
        if tree.function in ("and", "or"):
            parts = [_condition(argument, scope) for argument in tree.arguments]
            return all_of(parts) if tree.function == "and" else any_of(parts)
        if tree.function == "not":
            return negate(_condition(tree.arguments[0], scope))
        if (found := _set_of(tree)) is not None:
            compared, values = found
            return In(scope.derived(compared).name, values)
    return In(scope.derived(tree).name, Values.of(True))


def _set_of(tree: Applied) -> tuple[Expression, Values] | None:
    """What a comparison with constants compares, and the values for which it is true."""
    if tree.function in ("=", "in"):
        values = [value for each in tree.arguments[1:] if (value := value_of(each)) is not None]
        return (tree.arguments[0], Values.of(*values)) if len(values) == len(tree.arguments) - 1 else None
    if tree.function not in ("<", "<="):
        return None
    is_open, (one, other) = tree.function == "<", tree.arguments
    low, high = value_of(one), value_of(other)
    if high is not None:
        return one, Values.between(BELOW, Cut(high, -1 if is_open else 1))
    return None if low is None else (other, Values.between(Cut(low, 1 if is_open else -1), ABOVE))


def _is_literal(node: exp.Expr) -> bool:
    """Whether `_literal` reads a node, or says what is wrong with it."""
    if isinstance(node, exp.Paren):
        return _is_literal(node.this)
    if isinstance(node, exp.Cast | exp.Neg):
        return isinstance(node.this, exp.Literal) and not isinstance(node, exp.TryCast)
    return isinstance(node, exp.Literal | exp.Boolean)


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
    raise NotSupported("a filter compares a column with literal values: text in 'quotes', numbers, TRUE, FALSE, dates")


def _moment(node: exp.Cast) -> date:
    """DATE '...' and TIMESTAMP '...', in any spelling of the cast; no other cast has a meaning here."""
    kind, text = node.to.this, node.this
    readers = {
        exp.DType.DATE: date.fromisoformat,
        **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ), datetime.fromisoformat),
    }
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
