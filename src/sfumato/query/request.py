"""What can be asked: `TopK`, `Histogram`, `Total`, in Python or as JSON.

A filter (`where`) is written as in the HTTP interface:

    {"region": "emea"}                       one value
    {"region": ["emea", "apac"]}             any of these
    {"day": {"ge": "2026-11-01", "lt": "2026-12-01"}}
    {"or": [{"region": "emea"}, {"not": {"title": "nurse"}}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.predicate import ABOVE, BELOW, AllOf, AnyOf, In, Predicate, Values, all_of, any_of, columns, negated
from sfumato.query.predicate import Cut as At
from sfumato.query.values import typed

Where: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 20
MAX_VALUES = 1000
MAX_NODES = 2000


@dataclass(frozen=True, slots=True)
class TopK:
    """The `k` largest groups; the longest list the policy allows where `k` is None."""

    table: str
    by: str | Sequence[str]
    measure: str
    where: Where | Predicate | None = None
    k: int | None = None


@dataclass(frozen=True, slots=True)
class Histogram:
    """All groups that can be shown."""

    table: str
    by: str | Sequence[str]
    measure: str
    where: Where | Predicate | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """One number for all rows that pass the filter."""

    table: str
    measure: str
    where: Where | Predicate | None = None


Request: TypeAlias = TopK | Histogram | Total

_OPERATORS: dict[str, Callable[[Any], Values]] = {
    "eq": lambda value: Values.of(value),
    "ne": lambda value: ~Values.of(value),
    "lt": lambda value: Values.between(BELOW, At(value, -1)),
    "le": lambda value: Values.between(BELOW, At(value, 1)),
    "gt": lambda value: Values.between(At(value, 1), ABOVE),
    "ge": lambda value: Values.between(At(value, -1), ABOVE),
}


def compared(column: Column, operator: str, raw: Any) -> Predicate:
    """column OPERATOR value, for one of eq, ne, lt, le, gt, ge, in, between."""
    if operator in _OPERATORS:
        return In(column.name, _OPERATORS[operator](typed(column.name, column.type, raw)))
    values = [typed(column.name, column.type, item) for item in _listed(column, operator, raw)]
    if operator == "in":
        return In(column.name, Values.of(*values))
    low, high = values
    return In(column.name, Values.between(At(low, -1), At(high, 1)))


def filtered(where: Where | Predicate | None, table: TablePolicy, depth: int = 0) -> Predicate:
    """A filter over the table's policy columns, from its JSON form; not pruned yet."""
    if where is None:
        return all_of([])
    if isinstance(where, In | AllOf | AnyOf):
        return _of_policy(where, table)
    if not isinstance(where, Mapping) or not all(isinstance(name, str) for name in where):
        raise NotSupported("where: a filter maps columns to what they are compared with, such as {'region': 'emea'}")
    if depth == 0:
        _check_size(where)
    return all_of([_clause(name, value, table, depth) for name, value in where.items()])


def _of_policy(where: Predicate, table: TablePolicy) -> Predicate:
    """A filter that is a tree already, if it looks at policy columns only."""
    for name in columns(where) - table.columns.keys():
        raise NotSupported(f"where: {table.name} has no column {name[:60]!r}")
    return where


def _check_size(where: Where) -> None:
    """Depth and size of the whole filter, before anything recurses over it."""
    level: list[Any] = [where]
    seen = 0
    for _ in range(2 * MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        seen += len(level)
        if seen > MAX_NODES:
            raise NotSupported(f"where has more than {MAX_NODES} parts; ask for ranges instead of lists")
        if not level:
            return
    raise NotSupported(f"where is nested more than {MAX_DEPTH} deep; flatten it")


def _inside(node: Any) -> Sequence[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    return node if isinstance(node, list | tuple) else ()


def _clause(name: str, value: Any, table: TablePolicy, depth: int) -> Predicate:
    if name in ("and", "or"):
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, Mapping) for v in value):
            raise NotSupported(f"where: {name!r} takes a list of filters, such as {{{name!r}: [{{...}}, {{...}}]}}")
        join = all_of if name == "and" else any_of
        return join([filtered(part, table, depth + 1) for part in value])
    if name == "not":
        if not isinstance(value, Mapping):
            raise NotSupported("where: 'not' takes one filter, such as {'not': {...}}")
        return negated(filtered(value, table, depth + 1))
    column = table.column(name)
    if isinstance(value, Mapping):
        return all_of([compared(column, _operator(column, operator), raw) for operator, raw in value.items()])
    return compared(column, "in" if isinstance(value, list | tuple) else "eq", value)


def _operator(column: Column, name: str) -> str:
    known = [*_OPERATORS, "in", "between"]
    if name not in known:
        raise NotSupported(f"where: {column.name} has an unknown comparison {str(name)[:60]!r}; use {', '.join(known)}")
    return name


def _listed(column: Column, operator: str, raw: Any) -> Sequence[Any]:
    if not isinstance(raw, list | tuple) or (operator == "between" and len(raw) != 2):
        wanted = "two values, the lowest and the highest" if operator == "between" else "a list of values"
        raise NotSupported(f"where: {column.name} {operator} takes {wanted}")
    if len(raw) > MAX_VALUES:
        raise NotSupported(f"where: {column.name} is compared with more than {MAX_VALUES} values; ask for a range")
    return raw
