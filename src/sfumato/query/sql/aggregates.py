"""What is asked of each group: from COUNT(DISTINCT unit), SUM(column), AVG(column) or a name to a measure."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import GroupNumber, Measure, TablePolicy
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.sql.parse import parse_select
from sfumato.query.sql.refusals import example
from sfumato.query.sql.scope import Scope
from sfumato.query.sql.value_measures import (
    bounded_sum,
    bounds_line,
    counted_rows,
    has_bounds,
    is_value_measure,
    missing_rows,
    read_value_measure,
)
from sfumato.query.sql.where import read_where

OF_SINGLE_ROWS = (
    *(exp.AnyValue, exp.ArgMax, exp.ArgMin, exp.ArrayAgg, exp.First, exp.Last, exp.GroupConcat),
    *(exp.JSONArrayAgg, exp.JSONObjectAgg, exp.ObjectAgg),
)
"""Aggregates that show values as single rows have them."""

WHOLE = (exp.DType.INT, exp.DType.BIGINT)


def read_measure(node: exp.Expr, scope: Scope) -> GroupNumber | None:
    """The measure that an item of the SELECT list means, or None for a column. Its own filter is `measure_filter`."""
    node, _ = _split(node, scope)
    if isinstance(node, exp.Count):
        return _count(node, scope)
    if isinstance(node, exp.Sum):
        return _sum(node, scope)
    if not isinstance(node, exp.Column) and is_value_measure(node):
        return read_value_measure(node, scope)
    if isinstance(node, exp.ApproxDistinct):  # an approximation may be exact
        return _count(exp.Count(this=exp.Distinct(expressions=[node.this])), scope)
    if isinstance(node, exp.AggFunc):
        problem = "has no private form" if isinstance(node, OF_SINGLE_ROWS) else "is not supported yet"
        raise NotSupported(f"{node.sql_name()} {problem}; there is {_measures(scope.table)}")
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    if scope.joins and scope.look_up(node) is not None:
        return None
    name, measures = scope.name(node), scope.table.measures
    alike = [
        each for each in measures if each.casefold() == name.casefold()
    ]  # never a column: `TablePolicy` refuses that
    if name in measures or not alike:
        return measures.get(name)
    return scope.table.measure(name)  # in another case; refused where that could be several


@lru_cache(maxsize=256)
def _parse_measure(text: str) -> exp.Expr | None:
    """The node of a text; not to be changed."""
    try:
        select = parse_select(f"SELECT {text}")
    except NotSupported:
        return None
    return (
        select.expressions[0]
        if len(select.expressions) == 1 and len([*filter(None, select.args.values())]) == 1
        else None
    )


def measure_of_text(text: str, table: TablePolicy) -> GroupNumber | None:
    """The measure that an aggregate in SQL is; None where the text is none."""
    node = _parse_measure(text)
    if node is None or isinstance(node, exp.Column):
        return None
    scope = Scope(table, table.name)
    if _split(node, scope)[1] is not None:
        raise NotSupported("a measure has no filter of its own here; write it into where", field="measure")
    return read_measure(node, scope)


def measure_filter(node: exp.Expr, scope: Scope) -> Predicate | None:
    """The filter that a measure carries, by FILTER or by CASE; None for one that is only named."""
    counted, condition = _split(node, scope)
    if condition is not None:
        return read_where(condition, scope)
    if isinstance(counted, exp.Column):
        return None
    return EVERYTHING if isinstance(counted, exp.AggFunc) or is_value_measure(counted) else None


def _split(node: exp.Expr, scope: Scope) -> tuple[exp.Expr, exp.Expr | None]:
    """A measure without its filter, and the condition of the filter."""
    if isinstance(node, exp.CountIf):
        return exp.Count(this=exp.Star()), node.this
    if isinstance(node, exp.Filter):
        counted, inner = _split(node.this, scope)
        own = node.expression.this
        return counted, own if inner is None else exp.And(this=inner, expression=exp.Paren(this=own))
    if not isinstance(node, exp.Count | exp.Sum) or any(node.args.get(each) for each in ("expressions", "order")):
        return node, None
    is_distinct = isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1
    case = (node.this.expressions[0] if is_distinct else node.this).unnest()
    rows = exp.Count(this=exp.Star())
    if isinstance(node, exp.Sum) and _is_number(case, 1):  # as some tools count rows
        return rows, None
    if isinstance(node, exp.Count) and not is_distinct and isinstance(case, exp.Column):
        return _count_of_column(case, scope, node)
    if not isinstance(case, exp.Case) or case.this is not None or len(case.args["ifs"]) != 1:
        return node, None
    [branch], default = case.args["ifs"], case.args.get("default")
    value = branch.args["true"].unnest()
    if isinstance(node, exp.Sum):
        if default is not None and not (isinstance(default, exp.Null) or _is_number(default, 0)):
            return node, None
        return (rows if _is_number(value, 1) else exp.Sum(this=value)), branch.this
    if default is not None and not isinstance(default, exp.Null):
        return node, None
    if is_distinct:
        return exp.Count(this=exp.Distinct(expressions=[value])), branch.this
    is_unit = isinstance(value, exp.Column) and value.name.casefold() == scope.table.privacy_unit.casefold()
    return (rows, branch.this) if is_unit or isinstance(value, exp.Literal) else (node, None)


def _count_of_column(column: exp.Column, scope: Scope, node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """COUNT(column) counts the rows where it is not NULL; those without a person are left out everywhere."""
    if isinstance(column.this, exp.Star) or has_bounds(column, scope):
        return node, None  # beside a mean of the column, it counts the values of that
    rows = exp.Count(this=exp.Star())
    if scope.name(column).casefold() == scope.table.privacy_unit.casefold():
        return rows, None
    return rows, exp.Not(this=exp.Is(this=column.copy(), expression=exp.Null()))


def _is_number(node: exp.Expr, number: int) -> bool:
    """Whether a node is this number, in any of its spellings: 0, 0.0."""
    return isinstance(node, exp.Literal) and not node.is_string and Decimal(node.this) == number


def _sum(node: exp.Sum, scope: Scope) -> Measure:
    """A sum that the policy has under a name, or that of a column with bounds."""
    summed = node.this.unnest()
    if isinstance(summed, exp.Cast) and summed.to.this in WHOLE and scope.column(summed.this).type == "integer":
        summed = summed.this
    if not isinstance(summed, exp.Column):
        raise NotSupported(f"SUM of an expression is not supported yet; there is {_measures(scope.table)}")
    column, words = scope.name(summed).casefold(), f"SUM({scope.name(summed)[:60]})"
    measures = scope.table.measures.values()
    if not any(each.counts == "sum" and (each.column or "").casefold() == column for each in measures):
        made = bounded_sum(summed, scope)
        if made is not None and not scope.table.abilities.values:
            raise NotSupported(scope.table.abilities.values_problem("SUM"))
        if made is not None:
            return made
    return _only(scope.table, "sum", words, lambda measure: (measure.column or "").casefold() == column)


def _count(node: exp.Count, scope: Scope) -> Measure:
    counted = node.this
    if isinstance(counted, exp.Star | exp.Literal) and not node.expressions:  # COUNT(1) counts rows as COUNT(*) does
        return _only(scope.table, "rows", "COUNT(*)", lambda _: True)
    if isinstance(counted, exp.Distinct) and len(counted.expressions) == 1 and not counted.args.get("on"):
        name = scope.name(counted.expressions[0].unnest())  # some tools write COUNT(DISTINCT(x))
        if name.casefold() == scope.table.privacy_unit.casefold():
            return _only(scope.table, "units", f"COUNT(DISTINCT {name[:60]})", lambda _: True)
    if isinstance(counted, exp.Column) and not node.expressions and not isinstance(counted.this, exp.Star):
        made = counted_rows(counted, scope)
        if made is None:
            raise NotSupported(missing_rows(scope.table, f"COUNT({scope.name(counted)[:60]})"))
        return made
    raise NotSupported(
        f"{node.sql()[:60]} is not supported yet: people are counted, and rows; there is {_measures(scope.table)}"
    )


def _only(table: TablePolicy, kind: str, words: str, fits: Callable[[Measure], bool]) -> Measure:
    """The one measure of its kind that fits."""
    candidates = [measure for measure in table.measures.values() if measure.counts == kind and fits(measure)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = " or ".join(measure.name for measure in candidates)
        raise NotSupported(f"{words} could mean {names}: ask for one by its name")
    not_allowed = f"{words} is not allowed for {table.name}; there is {_measures(table)}"
    if kind == "rows":
        not_allowed = f"{missing_rows(table, words)}; there is {_measures(table)}"
    elif kind == "sum":
        line = bounds_line(words[4:-1])
        not_allowed += f"; with {line} in [tables.{table.name}.columns] there would be this sum"
    raise NotSupported(not_allowed, instead=[{"sql": example(table)}])


def _measures(table: TablePolicy) -> str:
    return ", ".join(table.measures) or "no measure at all"
