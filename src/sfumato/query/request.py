"""What can be asked: `TopK`, `Histogram`, `Total`, in Python or as JSON.

A filter (`where`) is written as in the HTTP interface:

    {"region": "emea"}                       one value
    {"region": ["emea", "apac"]}             any of these; in Python also a set
    {"day": {"ge": "2026-11-01", "lt": "2026-12-01"}}
    {"or": [{"region": "emea"}, {"not": {"title": "nurse"}}]}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.predicate import (
    ABOVE,
    BELOW,
    AllOf,
    AnyOf,
    In,
    Interval,
    Predicate,
    Values,
    all_of,
    any_of,
    depth,
    negated,
    pruned,
    size,
)
from sfumato.query.predicate import Cut as At
from sfumato.query.values import json_value, read_value
from sfumato.types import Value

Where: TypeAlias = Mapping[str, Any]

MAX_DEPTH = 20
MAX_VALUES = 1000
MAX_PARTS = 2000
MAX_NODES = 5 * MAX_PARTS  # a part of a canonical filter is written as five nodes at most, so it can be read back
MAX_LEVELS = 3 * MAX_DEPTH


@dataclass(frozen=True, slots=True)
class TopK:
    """The `k` largest groups; the longest list the policy allows where `k` is None.

    Without `counts` it is the groups alone, in the same order: where each is picked on its own, for half the price.
    """

    table: str
    by: str | Sequence[str]
    measure: str
    where: Where | Predicate | None = None
    k: int | None = None
    counts: bool = True


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

_LISTS = (list, tuple, set, frozenset)
_TOO_DEEP = f"where is nested more than {MAX_DEPTH} deep; flatten it"

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
        return In(column.name, _OPERATORS[operator](read_value(column.name, column.type, raw)))
    values = [read_value(column.name, column.type, item) for item in _listed(column, operator, raw)]
    if operator == "in":
        return In(column.name, Values.of(*values))
    low, high = values
    return In(column.name, Values.between(At(low, -1), At(high, 1)))


def canonical(where: Where | Predicate | None, table: TablePolicy) -> Predicate:
    """The one form of a filter over the table's policy columns, pruned; `written`, it can be read back."""
    if isinstance(where, In | AllOf | AnyOf):
        found = pruned(_of_policy(where, table))
    else:
        _check_size(where)
        found = pruned(_filtered({} if where is None else where, table))
    if size(found) > MAX_PARTS:
        raise NotSupported(f"where has more than {MAX_PARTS} parts; ask for ranges instead of lists")
    if depth(found) > MAX_DEPTH:
        raise NotSupported(_TOO_DEEP)
    return found


def written(where: Predicate) -> dict[str, Any]:
    """A canonical filter in its JSON form; `canonical` reads it back."""
    if isinstance(where, In):
        return _leaf(where.column, where.values)
    parts = [written(part) for part in where.parts]
    if isinstance(where, AnyOf):
        return {"or": parts}
    together = {name: clause for part in parts for name, clause in part.items()}
    return together if len(together) == sum(map(len, parts)) else {"and": parts}


def _leaf(column: str, values: Values) -> dict[str, Any]:
    """One list where there is one, of values that are in or that are out; otherwise values and ranges.

    All values are those that are not out of an empty list: the column is not NULL, and that is all.
    """
    if values.points is None and (out := (~values).points) is not None:
        return {"not": _either(_lists(column, out))}
    points = [point for interval in values.intervals for point in Values((interval,)).points or ()]
    ranges = [{column: _range(interval)} for interval in values.intervals if not Values((interval,)).points]
    return _either((_lists(column, points) if points else []) + ranges)


def _lists(column: str, points: Sequence[Value]) -> list[dict[str, Any]]:
    """The values in lists of the length that can be read, one at least."""
    listed = [json_value(point) for point in points]
    return [{column: listed[at : at + MAX_VALUES]} for at in range(0, max(len(listed), 1), MAX_VALUES)]


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"or": parts}


def _range(interval: Interval) -> dict[str, Any]:
    low, high = interval
    bounds = ("ge" if low.side < 0 else "gt", low.value), ("lt" if high.side < 0 else "le", high.value)
    return {operator: json_value(value) for operator, value in bounds if value is not None}


def _of_policy(where: Predicate, table: TablePolicy) -> Predicate:
    """A filter that is a tree already, if it compares policy columns with values of their types."""
    if not isinstance(where, In):
        join = all_of if isinstance(where, AllOf) else any_of
        return join([_of_policy(part, table) for part in where.parts])
    column = table.column(where.column)

    def cut(at: At) -> At:
        return at if at.value is None else At(read_value(column.name, column.type, at.value), at.side)

    return In(column.name, Values.union((cut(low), cut(high)) for low, high in where.values.intervals))


def _filtered(where: Where, table: TablePolicy) -> Predicate:
    """A filter from its JSON form; not pruned yet."""
    if not isinstance(where, Mapping) or not all(isinstance(name, str) for name in where):
        raise NotSupported("where: a filter maps columns to what they are compared with, such as {'region': 'emea'}")
    return all_of([_clause(name, value, table) for name, value in where.items()])


def _check_size(where: Where | None) -> None:
    """Depth and size of the whole filter, before anything recurses over it."""
    level: list[Any] = [where]
    seen = 0
    for _ in range(MAX_LEVELS):
        level = [inner for outer in level for inner in _inside(outer)]
        seen += len(level)
        if seen > MAX_NODES:
            raise NotSupported(f"where has more than {MAX_NODES} parts; ask for ranges instead of lists")
        if not level:
            return
    raise NotSupported(_TOO_DEEP)


def _inside(node: Any) -> Sequence[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    return list(node) if isinstance(node, _LISTS) else ()


def _clause(name: str, value: Any, table: TablePolicy) -> Predicate:
    if name in ("and", "or"):
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, Mapping) for v in value):
            raise NotSupported(f"where: {name!r} takes a list of filters, such as {{{name!r}: [{{...}}, {{...}}]}}")
        join = all_of if name == "and" else any_of
        return join([_filtered(part, table) for part in value])
    if name == "not":
        if not isinstance(value, Mapping):
            raise NotSupported("where: 'not' takes one filter, such as {'not': {...}}")
        return negated(_filtered(value, table))
    column = table.column(name)
    if isinstance(value, Mapping):
        return all_of([compared(column, _operator(column, operator), raw) for operator, raw in value.items()])
    return compared(column, "in" if isinstance(value, _LISTS) else "eq", value)


def _operator(column: Column, name: str) -> str:
    known = [*_OPERATORS, "in", "between"]
    if name not in known:
        raise NotSupported(f"where: {column.name} has an unknown comparison {str(name)[:60]!r}; use {', '.join(known)}")
    return name


def _listed(column: Column, operator: str, raw: Any) -> Sequence[Any]:
    fits = isinstance(raw, _LISTS) if operator == "in" else isinstance(raw, list | tuple) and len(raw) == 2
    if not fits:
        wanted = "two values, the lowest and the highest" if operator == "between" else "a list of values"
        raise NotSupported(f"where: {column.name} {operator} takes {wanted}")
    if len(raw) > MAX_VALUES:
        raise NotSupported(f"where: {column.name} is compared with more than {MAX_VALUES} values; ask for a range")
    return list(raw)
