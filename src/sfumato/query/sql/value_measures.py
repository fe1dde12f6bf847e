"""What is computed of the values of a column: SUM, COUNT, AVG, VARIANCE, STDDEV, MEDIAN and other quantiles.

Each has one name: STDDEV and STDDEV_SAMP are STDDEV_POP(amount), MEDIAN is QUANTILE_CONT(amount, 0.5), and MIN and MAX
are QUANTILE_CONT(amount, 0.01) and QUANTILE_CONT(amount, 0.99). The smallest and the largest value are those of one
person, so they have no private form.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.mechanisms.quantiles import MAX_PARTS
from sfumato.query.policy import Bounds, Function, Measure, TablePolicy, ValueMeasure
from sfumato.query.sql.refusals import identifier
from sfumato.query.sql.scope import Scope
from sfumato.query.values import decimal
from sfumato.types import TYPES

LOWEST, HIGHEST = Fraction(1, 100), Fraction(99, 100)
"""The quantiles that MIN and MAX are."""

_FUNCTIONS: Mapping[type[exp.Expr], tuple[Function, str]] = {
    exp.Avg: ("mean", "AVG"),
    **dict.fromkeys((exp.Variance, exp.VariancePop), ("variance", "VAR_POP")),
    **dict.fromkeys((exp.Stddev, exp.StddevPop, exp.StddevSamp), ("deviation", "STDDEV_POP")),
}
_FIXED: Mapping[type[exp.Expr], Fraction] = {exp.Median: Fraction(1, 2), exp.Min: LOWEST, exp.Max: HIGHEST}
_QUANTILES = (exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
_NAMES = frozenset(("quantile_cont", "quantile_disc"))


def is_value_measure(node: exp.Expr) -> bool:
    """Whether a node is a mean, a variance, a deviation or a quantile."""
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _NAMES
    if isinstance(node, exp.WithinGroup):
        return isinstance(node.this, _QUANTILES)
    return isinstance(node, (*_FUNCTIONS, *_FIXED, *_QUANTILES))


def read_value_measure(node: exp.Expr, scope: Scope) -> ValueMeasure:
    """The measure that such a node is, or a refusal that says which line the policy needs."""
    if type(node) in _FUNCTIONS:
        function, word = _FUNCTIONS[type(node)]
        name, bounds = _bounded(node.this, word, scope)
        return ValueMeasure(f"{word}({identifier(name)})", function, name, bounds)
    column, quantile = _quantile(node)
    name, bounds = _bounded(column, node.sql_name() if isinstance(node, exp.Func) else "a quantile", scope)
    text = f"QUANTILE_CONT({identifier(name)}, {decimal(quantile)})"
    return ValueMeasure(text, "quantile", name, bounds, quantile)


def bounded_sum(node: exp.Expr, scope: Scope) -> Measure | None:
    """The sum of a column that has bounds; None where it has none."""
    column = scope.table.columns.get(scope.table.named(scope.name(node)).name) if _is_column(node, scope) else None
    if column is None or column.bounds is None:
        return None
    most = max(map(abs, column.bounds.total))
    return Measure(f"SUM({identifier(column.name)})", "sum", column.name, most, column.bounds)


def counted_rows(node: exp.Expr, scope: Scope) -> Measure | None:
    """The number of rows where a column is not NULL; None where the table has no bound of rows per person."""
    name = scope.name(node)
    rows = [each for each in scope.table.measures.values() if each.counts == "rows"]
    if len(rows) != 1:
        return None
    if name.casefold() == scope.table.privacy_unit.casefold():
        return rows[0]  # rows without a person never count
    column = scope.table.named(name).name
    return Measure(f"COUNT({identifier(column)})", "rows", column, rows[0].max_per_unit)


def has_bounds(node: exp.Expr, scope: Scope) -> bool:
    """Whether a node is a column with bounds."""
    name = node.name.casefold() if isinstance(node, exp.Column) else ""
    return any(each.bounds is not None and key.casefold() == name for key, each in scope.table.columns.items())


def bounds_line(column: str) -> str:
    """How the owner bounds a column."""
    return f"{column} = {{ min = 0, max = 100, step = 0.01 }}"


def _is_column(node: exp.Expr, scope: Scope) -> bool:
    names = {name.casefold() for name in scope.table.columns}
    return scope.name(node).casefold() in names


def _bounded(node: exp.Expr, word: str, scope: Scope) -> tuple[str, Bounds]:
    """A column and its bounds."""
    if isinstance(node, exp.Distinct):
        raise NotSupported(f"DISTINCT in {word} is not supported yet; leave it out")
    value = node.unnest()
    if isinstance(value, exp.Cast) and value.to.this in (exp.DType.DOUBLE, exp.DType.FLOAT):
        value = value.this.unnest()  # as some tools write it
    if not isinstance(value, exp.Column) or isinstance(value.this, exp.Star):
        raise NotSupported(f"{word} of an expression is not supported yet; ask the owner for a view that has it")
    column = scope.table.named(scope.name(value))
    if column.type not in ("integer", "number"):
        raise NotSupported(f"{word} of {column.name} is not supported yet: it holds {TYPES[column.type].words}")
    if column.bounds is None:
        line = f"{bounds_line(column.name)} in [tables.{scope.table.name}.columns]"
        raise NotSupported(f"{word} of {column.name} needs bounds: ask the owner for public ones, such as {line}")
    if not scope.table.abilities.values:
        raise NotSupported(scope.table.abilities.values_problem(word))
    return column.name, column.bounds


def _quantile(node: exp.Expr) -> tuple[exp.Expr, Fraction]:
    """The column of a quantile, and which it is."""
    if type(node) in _FIXED:
        return node.this, _FIXED[type(node)]
    if isinstance(node, exp.WithinGroup):
        ordered = node.expression.expressions[0] if len(node.expression.expressions) == 1 else None
        if not isinstance(ordered, exp.Ordered) or ordered.args.get("desc"):
            raise NotSupported("a percentile is WITHIN GROUP (ORDER BY one column), ascending")
        return ordered.this, _share(node.this.this)
    if isinstance(node, exp.Anonymous):
        if len(node.expressions) != 2:
            raise NotSupported(f"{node.name} takes a column and a share, such as {node.name}(amount, 0.9)")
        return node.expressions[0], _share(node.expressions[1])
    return node.this, _share(node.args.get("quantile") or node.args.get("expression"))


def _share(node: exp.Expr | None) -> Fraction:
    is_number = isinstance(node, exp.Literal) and not node.is_string and len(node.this) <= 20
    share = Fraction(node.this) if is_number and node is not None and set(node.this) <= set("0123456789.") else None
    if share is None or not LOWEST / 10 <= share <= 1 - LOWEST / 10 or MAX_PARTS % share.denominator:
        raise NotSupported(
            "a quantile is a number from 0.001 to 0.999 with at most six places, such as 0.5; ask for 0.01 or 0.99 "
            "instead of the smallest or the largest"
        )
    return share


def missing_rows(table: TablePolicy, words: str) -> str:
    """Why rows cannot be counted, and how they could be."""
    return (
        f"{words} has no bound of rows per person: ask the owner for a measure such as visits = "
        f'{{ count = "rows", max_per_unit = 5 }} in [tables.{table.name}.measures]'
    )
