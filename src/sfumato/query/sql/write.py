"""The inverse of `read_sql`: a request as one SELECT, in one spelling per meaning.

    SELECT column, measure FROM table WHERE ... GROUP BY column ORDER BY measure DESC LIMIT k

`read_sql(write_sql(request, policy), policy)` is `request` again, in its canonical form. A list of more than a few
hundred ranges is written whole, although it is longer than what `read_sql` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from sfumato.query.filters import canonical_filter
from sfumato.query.measures import order_measures
from sfumato.query.policy import Measure, Policy, TablePolicy
from sfumato.query.predicate import ALL_VALUES, EVERYTHING, AnyOf, In, Interval, Predicate, Values
from sfumato.query.request import MAX_VALUES, Request, TopK, Total
from sfumato.query.sql.refusals import identifier
from sfumato.query.values import decimal
from sfumato.types import TYPES, Type, Value


def write_sql(request: Request, policy: Policy) -> str:
    """A request as SQL. A key that is no column of the policy is an expression, and is written as it is."""
    table = policy.table(request.table)
    names = order_measures(table.measure(name) for name in (request.measure, *request.measures))
    where = canonical_filter(request.where, table)
    if isinstance(request, Total):
        return write_select(table, (), names, where)
    keys = (request.by,) if isinstance(request.by, str) else request.by
    if isinstance(request, TopK):
        return write_select(table, keys, names, where, request.k, counts=request.counts)
    return write_select(table, keys, names, where)


def write_select(
    table: TablePolicy,
    by: Sequence[str],
    measures: Sequence[str],
    where: Predicate,
    k: int | None = None,
    *,
    counts: bool = True,
) -> str:
    """A request whose names and filter are in their canonical form, as SQL. The first measure orders the rows."""
    first, *others = (_name(name) if name in table.measures else exp.Var(this=name) for name in measures)
    source, keys = exp.Table(this=_name(table.name).this), [_key(name, table) for name in by]
    ranking = table.measure(measures[0])
    ranks = isinstance(ranking, Measure) and (ranking.bounds is None or ranking.selects)
    shown = [first] * (counts or not ranks) + others
    select = exp.select(*keys, *shown, copy=False).from_(source, copy=False)
    if where != EVERYTHING:
        select.set("where", exp.Where(this=_condition(where, table)))
    if keys:
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        if ranks:
            select.set("order", exp.Order(expressions=[exp.Ordered(this=first.copy(), desc=True)]))
    if k is not None:
        select.set("limit", exp.Limit(expression=exp.Literal.number(k)))
    return select.sql()


def _name(name: str) -> exp.Column:
    """A name, in quotes where SQL would read it as something else."""
    return exp.Column(this=exp.to_identifier(name, quoted=identifier(name) != name))


def _key(name: str, table: TablePolicy) -> exp.Expr:
    """A column of the policy, or the canonical text of an expression."""
    return _name(name) if name in table.columns else exp.Var(this=name)


def _condition(where: Predicate, table: TablePolicy) -> exp.Expr:
    """A canonical filter as a condition. OR inside AND stands in parentheses, and the other way round."""
    if isinstance(where, In):
        return _leaf(where, table)
    parts = [_condition(part, table) for part in where.parts]
    if not parts:
        return exp.Boolean(this=where == EVERYTHING)
    return _join(exp.Or if isinstance(where, AnyOf) else exp.And, parts)


def _join(kind: type[exp.And | exp.Or], parts: Sequence[exp.Expr]) -> exp.Expr:
    other = exp.And if kind is exp.Or else exp.Or
    operands = [exp.Paren(this=part) if isinstance(part, other) else part for part in parts]
    joined = operands[0]
    for operand in operands[1:]:
        joined = kind(this=joined, expression=operand)
    return joined


def _leaf(leaf: In, table: TablePolicy) -> exp.Expr:
    """A column in a set: one list of the values that are in or out where there is one, otherwise lists and ranges."""
    column, values = _key(leaf.column, table), leaf.values
    if leaf.column not in table.columns:
        column = exp.Paren(this=column)
    if values == ALL_VALUES:
        return _not_null(column, table.column(leaf.column).type)
    if values.points is None and (out := (~values).points) is not None:
        return _join(exp.And, [*_lists(column, out, exp.NEQ)])
    points = [point for interval in values.intervals for point in Values((interval,)).points or ()]
    ranges = [_range(column, interval) for interval in values.intervals if not Values((interval,)).points]
    return _join(exp.Or, [*_lists(column, points, exp.EQ), *ranges])


def _not_null(column: exp.Expr, kind: Type) -> exp.Expr:
    """The set of all values: one of them, or all others. Unlike IS NOT NULL it is NULL of NULL, also when negated."""
    one = exp.Var(this=TYPES[kind].example)
    return exp.Or(this=exp.EQ(this=column, expression=one), expression=exp.NEQ(this=column.copy(), expression=one))


def _lists(column: exp.Expr, points: Sequence[Value], kind: type[exp.EQ | exp.NEQ]) -> Iterator[exp.Expr]:
    """The column is one of the values, or none of them; in lists of at most `MAX_VALUES`."""
    if len(points) == 1:
        yield kind(this=column.copy(), expression=_literal(points[0]))
        return
    for at in range(0, len(points), MAX_VALUES):
        values = exp.In(this=column.copy(), expressions=list(map(_literal, points[at : at + MAX_VALUES])))
        yield values if kind is exp.EQ else exp.Not(this=values)


def _range(column: exp.Expr, interval: Interval) -> exp.Expr:
    low, high = interval
    kinds = (exp.GTE if low.side < 0 else exp.GT, low.value), (exp.LT if high.side < 0 else exp.LTE, high.value)
    ends = [kind(this=column.copy(), expression=_literal(value)) for kind, value in kinds if value is not None]
    return _join(exp.And, ends)


def _literal(value: Value) -> exp.Expr:
    """A value as a literal that its column reads back: days and moments are text."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, datetime):
        return exp.Literal.string(value.isoformat(" "))
    if isinstance(value, date):
        return exp.Literal.string(value.isoformat())
    # Not Literal.number(-x): it would round a negative number to 28 digits.
    digits = exp.Literal(this=decimal(abs(Fraction(value))), is_string=False)
    return exp.Neg(this=digits) if value < 0 else digits
