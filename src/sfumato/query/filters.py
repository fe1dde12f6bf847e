"""Filters under a policy: from the JSON form, or from a tree, to the one canonical form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.predicate import (
    ABOVE,
    BELOW,
    EVERYTHING,
    AllOf,
    AnyOf,
    Cut,
    In,
    Predicate,
    Values,
    all_of,
    any_of,
    depth,
    negate,
    prune,
    sets_of,
    size,
)
from sfumato.query.request import LISTS, MAX_DEPTH, MAX_PARTS, MAX_VALUES, NOT_A_FILTER, TOO_DEEP, Where, check_size
from sfumato.query.values import read_value

_OPERATORS: dict[str, Callable[[Any], Values]] = {
    "eq": lambda value: Values.of(value),
    "ne": lambda value: ~Values.of(value),
    "lt": lambda value: Values.between(BELOW, Cut(value, -1)),
    "le": lambda value: Values.between(BELOW, Cut(value, 1)),
    "gt": lambda value: Values.between(Cut(value, 1), ABOVE),
    "ge": lambda value: Values.between(Cut(value, -1), ABOVE),
}
_COMPARISONS = (*_OPERATORS, "in", "between")


def canonical_filter(where: Where | Predicate | None, table: TablePolicy) -> Predicate:
    """The one form of a filter over the table's policy columns, pruned; `filter_json` of it can be read back.

    The table's `row_filter` is a part of it. A filter that has this part already stays the same.
    """
    if isinstance(where, In | AllOf | AnyOf):
        found = prune(_with_types(where, table))
    else:
        check_size(where)
        found = prune(_read_filter({} if where is None else where, table))
    if table.row_filter != EVERYTHING:
        found = prune(all_of([found, table.row_filter]))
    if size(found) > MAX_PARTS:
        raise NotSupported(f"where has more than {MAX_PARTS} parts; ask for ranges instead of lists")
    if depth(found) > MAX_DEPTH:
        raise NotSupported(TOO_DEEP)
    for column, values in sets_of(found):
        bounds = () if values.points or (~values).points else (cut.value for each in values.intervals for cut in each)
        for problem in filter(None, (table.abilities.bound_problem(column, bound) for bound in bounds)):
            raise NotSupported(problem, field="where")
    return found


def compare(column: Column, operator: str, raw: Any) -> Predicate:
    """column OPERATOR value, for one of eq, ne, lt, le, gt, ge, in, between."""
    if operator in _OPERATORS:
        return In(column.name, _OPERATORS[operator](read_value(column.name, column.type, raw)))
    if operator not in _COMPARISONS:
        known = ", ".join(_COMPARISONS)
        problem = f"{column.name} has an unknown comparison {str(operator)[:60]!r}; use {known}"
        raise NotSupported(problem, field="where")
    if operator == "between" and not (isinstance(raw, list | tuple) and len(raw) == 2):
        raise NotSupported(f"{column.name} between takes two values, the lowest and the highest", field="where")
    if not isinstance(raw, LISTS):
        raise NotSupported(f"{column.name} in takes a list of values", field="where")
    if len(raw) > MAX_VALUES:
        raise NotSupported(f"{column.name} is compared with more than {MAX_VALUES} values; ask for a range", "where")
    values = [read_value(column.name, column.type, item) for item in raw]
    if operator == "in":
        return In(column.name, Values.of(*values))
    low, high = values
    return In(column.name, Values.between(Cut(low, -1), Cut(high, 1)))


def _with_types(where: Predicate, table: TablePolicy) -> Predicate:
    """A filter that is a tree already, its values read by the types of the policy's columns."""
    if not isinstance(where, In):
        join = all_of if isinstance(where, AllOf) else any_of
        return join([_with_types(part, table) for part in where.parts])
    column = table.column(where.column)

    def cut(at: Cut) -> Cut:
        return at if at.value is None else Cut(read_value(column.name, column.type, at.value), at.side)

    return In(column.name, Values.union((cut(low), cut(high)) for low, high in where.values.intervals))


def _read_filter(where: Where, table: TablePolicy) -> Predicate:
    """A filter from its JSON form; not pruned yet."""
    if not isinstance(where, Mapping) or not all(isinstance(name, str) for name in where):
        raise NotSupported(NOT_A_FILTER, field="where")
    return all_of([_clause(name, value, table) for name, value in where.items()])


def _clause(name: str, value: Any, table: TablePolicy) -> Predicate:
    if name in ("and", "or"):
        if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, Mapping) for v in value):
            example = f"{{{name!r}: [{{...}}, {{...}}]}}"
            raise NotSupported(f"{name!r} takes a list of filters, such as {example}", field="where")
        join = all_of if name == "and" else any_of
        return join([_read_filter(part, table) for part in value])
    if name == "not":
        if not isinstance(value, Mapping):
            raise NotSupported("'not' takes one filter, such as {'not': {...}}", field="where")
        return negate(_read_filter(value, table))
    column = table.column(name)
    if isinstance(value, Mapping):
        return all_of([compare(column, operator, raw) for operator, raw in value.items()])
    return compare(column, "in" if isinstance(value, LISTS) else "eq", value)
