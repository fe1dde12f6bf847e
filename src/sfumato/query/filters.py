"""Filters under a policy: from the JSON form, or from a tree, to the one canonical form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, time
from typing import Any

from sfumato.errors import NotSupported
from sfumato.query.expressions.functions import abilities_of
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
    extent,
    negate,
    prune,
    sets_of,
)
from sfumato.query.request import LISTS, MAX_DEPTH, MAX_PARTS, MAX_VALUES, NOT_A_FILTER, TOO_DEEP, Where, check_size
from sfumato.query.values import check_no_date, read_value

_OPERATORS: dict[str, Callable[[Any], Values]] = {
    "eq": lambda value: Values.of(value),
    "ne": lambda value: ~Values.of(value),
    "lt": lambda value: Values.between(BELOW, Cut(value, -1)),
    "le": lambda value: Values.between(BELOW, Cut(value, 1)),
    "gt": lambda value: Values.between(Cut(value, 1), ABOVE),
    "ge": lambda value: Values.between(Cut(value, -1), ABOVE),
}
_COMPARISONS = (*_OPERATORS, "in", "between")
_LATER = {"lt": "le", "ge": "gt"}  # days before noon of a day are days up to it


def canonical_filter(where: Where | Predicate | None, table: TablePolicy) -> Predicate:
    """The one form of a filter over the table's policy columns, pruned; `filter_json` of it can be read back.

    The table's `row_filter` is a part of it. A filter that has this part already stays the same.
    """
    if where is None or where == EVERYTHING:
        found: Predicate = EVERYTHING
    elif isinstance(where, In | AllOf | AnyOf):
        found = prune(_with_types(where, table))
    else:
        check_size(where)
        found = prune(_read_filter(where, table))
    if table.row_filter != EVERYTHING:
        found = prune(all_of([found, table.row_filter]))
    size, depth = extent(found)
    if size > MAX_PARTS:
        raise NotSupported(f"where has more than {MAX_PARTS} parts; ask for ranges instead of lists")
    if depth > MAX_DEPTH:
        raise NotSupported(TOO_DEEP)
    check_functions((table.column(name) for name, _ in sets_of(found)), table, "where")
    for column, values in sets_of(found):
        bounds = () if values.points or (~values).points else (cut.value for each in values.intervals for cut in each)
        for problem in filter(None, (table.abilities.bound_problem(column, bound) for bound in bounds)):
            raise NotSupported(problem, field="where")
    return found


def check_functions(columns: Iterable[Column], table: TablePolicy, field: str) -> None:
    """Refuse a column whose expression the engine of the table cannot compute."""
    for column in columns:
        if column.expression is None:
            continue
        if problem := table.abilities.function_problem(column.name, abilities_of(column.expression)):
            raise NotSupported(problem, field=field)


def compare(column: Column, operator: str, raw: Any) -> Predicate:
    """column OPERATOR value, for one of eq, ne, lt, le, gt, ge, in, between."""
    if column.type == "date":
        if operator == "between" and isinstance(raw, list | tuple) and len(raw) == 2:
            return all_of([compare(column, "ge", raw[0]), compare(column, "le", raw[1])])
        operator, raw = _by_days(column, operator, raw)
    if column.type == "text" and operator in ("lt", "le", "gt", "ge", "between"):
        for bound in raw if isinstance(raw, list | tuple) else [raw]:
            check_no_date(column.name, bound)
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


def _by_days(column: Column, operator: str, raw: Any) -> tuple[str, Any]:
    """A comparison of days with moments, as one with days. Each day is its midnight, in UTC."""
    values = list(raw) if isinstance(raw, LISTS) else [raw]
    moments = [(value, _moment(value)) for value in values]
    # The day of each, and whether it is later than the start of that day.
    days = [(raw, False) if at is None else (at.date(), at.time() != time()) for raw, at in moments]
    if operator in ("lt", "le", "gt", "ge") and len(days) == 1:
        [(day, is_later)] = days
        return _LATER.get(operator, operator) if is_later else operator, day
    if any(is_later for _, is_later in days):
        way_out = "compare it with a day, such as '2026-11-15', or by <, <=, >, >="
        raise NotSupported(f"{column.name} has days and no times of day: {way_out}")
    return operator, [day for day, _ in days] if isinstance(raw, LISTS) else days[0][0]


def _moment(raw: Any) -> datetime | None:
    """A moment without a zone, or in UTC; None for all else."""
    if isinstance(raw, str) and 10 < len(raw) < 40:
        with suppress(ValueError):
            raw = datetime.fromisoformat(raw)
    return raw if isinstance(raw, datetime) and not raw.utcoffset() else None


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
