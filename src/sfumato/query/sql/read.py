"""From a SELECT to a request: its list, its groups, its order and its limit."""

from __future__ import annotations

import re

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.query.sql.aggregates import read_measure
from sfumato.query.sql.parse import parse_select
from sfumato.query.sql.refusals import LITERALS, check_clauses, example, identifier
from sfumato.query.sql.scope import Scope, read_scope, resolve
from sfumato.query.sql.where import read_where

MAX_LIMIT = 10**9  # no list and no domain has as many rows

_CLAUSES = {"expressions", "from_", "where", "group", "order", "limit"}


def read_sql(text: str, policy: Policy) -> Request:
    """The request that `text` makes, its filter typed by the policy."""
    select = parse_select(text)
    check_clauses(select, _CLAUSES)
    scope = read_scope(select, policy)
    keys, counted = _select_list(select, scope)
    measure = counted or _measure_of_order(select, scope)
    where = read_where(select.args["where"].this, scope) if select.args.get("where") else EVERYTHING
    _check_group(select, keys, scope)
    _check_order(select, keys, measure, scope)
    limit, table, most = read_limit(select), scope.table.name, scope.table.max_k
    if limit == 0:
        raise NotSupported("LIMIT must be at least 1")
    if limit is not None and limit > most:
        raise NotSupported(f"LIMIT {limit} is too large; {table} gives lists of 1 to {most} rows")
    if not keys and limit is not None:
        raise NotSupported("a total is one row: leave LIMIT out, or GROUP BY a column")
    if not keys:
        return Total(table, measure.name, where)
    by = tuple(column.name for column in keys)
    if counted is None:
        return TopK(table, by, measure.name, where, limit, counts=False)
    if limit is None:
        return Histogram(table, by, measure.name, where)
    return TopK(table, by, measure.name, where, limit)


def read_filter(text: str, table: TablePolicy) -> Predicate:
    """The filter that `text` is: what could stand after WHERE in a question about the table."""
    select = parse_select(f"SELECT 1 FROM filtered WHERE {text}")  # noqa: S608 - it is parsed, never run
    if any(value for clause, value in select.args.items() if clause not in ("expressions", "from_", "where")):
        raise NotSupported(f"a filter is what stands after WHERE, and nothing else; {LITERALS}")
    return read_where(select.args["where"].this, Scope(table, table.name))


def _select_list(select: exp.Select, scope: Scope) -> tuple[list[Column], Measure | None]:
    """The columns and the measure of the SELECT list; None where it has no measure."""
    keys, measures = [], []
    for item in select.expressions:
        scope.check_alias(item)
        measure = read_measure(item.unalias(), scope)
        if measure is None:
            keys.append(scope.column(item.unalias()))
        else:
            measures.append(measure)
    if len(measures) > 1:
        names = " and for ".join(measure.name for measure in measures)
        raise NotSupported(f"one measure per question: ask for {names} separately")
    if len({key.name for key in keys}) < len(keys):
        raise NotSupported("a column is selected twice; name it once")
    return keys, measures[0] if measures else None


def _measure_of_order(select: exp.Select, scope: Scope) -> Measure:
    """The measure of a list without counts, which only ORDER BY names."""
    order, items = select.args.get("order"), select.expressions
    if items and order and (measure := read_measure(resolve(order.expressions[0].this, select), scope)):
        return measure
    units = f"COUNT(DISTINCT {scope.table.privacy_unit})"
    if not items or select.args.get("group"):
        bare = f", or ORDER BY {units} DESC for the largest groups without their counts"
        raise NotSupported(f"rows cannot be listed, only counted: add {units}{bare}")
    # Columns and nothing to count: a tool shows a preview of the rows.
    keys = [scope.column(item.unalias()) for item in items]
    by = [key.name for key in keys][:3]
    public = len(keys) == 1 and keys[0].domain is not None
    values = f"; its values alone are free: SELECT DISTINCT {identifier(by[0])} ..." if public else ""
    raise NotSupported(
        f"rows cannot be listed, only counted, so there is no preview of them: add {units} and GROUP BY, "
        f"as in {example(scope.table, by)}{values}"
    )


def _check_group(select: exp.Select, keys: list[Column], scope: Scope) -> None:
    names, group = [key.name for key in keys], select.args.get("group")
    if group is None:
        if keys:
            raise NotSupported(f"a selected column is grouped by: add GROUP BY {', '.join(names)}")
        return
    if any(value for clause, value in group.args.items() if clause != "expressions"):
        raise NotSupported("ROLLUP, CUBE, GROUPING SETS and ALL have no private form; GROUP BY columns by name")
    if {scope.column(resolve(node, select)).name for node in group.expressions} != {*names}:
        raise NotSupported("GROUP BY and the SELECT list must name the same columns")


def _check_order(select: exp.Select, keys: list[Column], measure: Measure, scope: Scope) -> None:
    order = select.args.get("order")
    if order is None:
        return
    first, *rest = order.expressions
    if read_measure(resolve(first.this, select), scope) != measure or not first.args.get("desc"):
        raise NotSupported(f"a list is in the order of its counts, largest first: ORDER BY {measure.name} DESC")
    for ordered in rest:
        if ordered.args.get("desc") or scope.column(resolve(ordered.this, select)) not in keys:
            raise NotSupported("after the count only the grouped columns may follow in ORDER BY, ascending")


def read_limit(select: exp.Select) -> int | None:
    """The number of LIMIT, at most `MAX_LIMIT`; None where there is no LIMIT."""
    limit = select.args.get("limit")
    if limit is None:
        return None
    count = limit.args.get("expression")
    extras = [clause for clause, value in limit.args.items() if value and clause != "expression"]
    if extras or not isinstance(count, exp.Literal) or count.is_string or not re.fullmatch("[0-9]+", count.this):
        raise NotSupported("LIMIT takes a whole number, such as LIMIT 10")
    digits = count.this.lstrip("0")
    return int(digits or 0) if len(digits) <= 9 else MAX_LIMIT
