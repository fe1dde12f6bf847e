"""What is counted: from COUNT(DISTINCT unit), COUNT(*), SUM(column) or a name to a measure of the policy."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.policy import Measure, TablePolicy
from sfumato.query.sql.scope import Scope


def read_measure(node: exp.Expr, scope: Scope) -> Measure | None:
    """The measure that an item of the SELECT list means, or None for a plain column."""
    if isinstance(node, exp.Count):
        return _count(node, scope)
    if isinstance(node, exp.Sum):
        column = scope.name(node.this).casefold()
        words = f"SUM({scope.name(node.this)[:60]})"
        return _only(scope.table, "sum", words, lambda measure: (measure.column or "").casefold() == column)
    if isinstance(node, exp.AggFunc):
        raise NotSupported(f"{node.sql_name()} has no private form here; there is {_measures(scope.table)}")
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    known = {name.casefold(): measure for name, measure in scope.table.measures.items()}
    return known.get(scope.name(node).casefold())  # never a column's name: `TablePolicy` refuses that


def _count(node: exp.Count, scope: Scope) -> Measure:
    counted = node.this
    every = isinstance(counted, exp.Star) or (isinstance(counted, exp.Literal) and not counted.is_string)
    if every and not node.expressions:  # COUNT(1) counts rows as COUNT(*) does
        return _only(scope.table, "rows", "COUNT(*)", lambda _: True)
    if isinstance(counted, exp.Distinct) and len(counted.expressions) == 1 and not counted.args.get("on"):
        name = scope.name(counted.expressions[0].unnest())  # some tools write COUNT(DISTINCT(x))
        if name.casefold() == scope.table.privacy_unit.casefold():
            return _only(scope.table, "units", f"COUNT(DISTINCT {name[:60]})", lambda _: True)
    raise NotSupported(f"only people and rows can be counted here: there is {_measures(scope.table)}")


def _only(table: TablePolicy, kind: str, words: str, fits: Callable[[Measure], bool]) -> Measure:
    """The one measure of its kind that fits."""
    candidates = [measure for measure in table.measures.values() if measure.counts == kind and fits(measure)]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        names = " or ".join(measure.name for measure in candidates)
        raise NotSupported(f"{words} could mean {names}: ask for one by its name")
    raise NotSupported(f"{words} is not allowed for {table.name}; there is {_measures(table)}")


def _measures(table: TablePolicy) -> str:
    return ", ".join(table.measures) or "no measure at all"
