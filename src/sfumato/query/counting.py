"""The exact counts behind a question, as one SELECT.

Whatever the data holds, one person's rows change each count by 0 to `max_per_unit`, and at most `max_groups` of them:
both bounds are enforced inside the query, by what depends on that person's own rows only. Rows without a person or
without a key are left out. Counts are integers and are summed as integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction

from sqlglot import exp

from sfumato.query.policy import Measure
from sfumato.query.predicate import AllOf, Cut, In, Predicate, Values
from sfumato.query.values import decimal
from sfumato.types import MAX_TEXT, Type, Value

COUNT = "sfumato_count"
ROWS = "sfumato_rows"
PLACE = "sfumato_place"
MAX_ROW_VALUE = 2**53


@dataclass(frozen=True, slots=True)
class Counting:
    """What to count: see the module. `max_groups` None leaves a person's keys alone; `limit` None returns all rows;
    `types` are those of the keys.
    """

    table: str
    unit: str
    keys: tuple[str, ...]
    where: Predicate
    measure: Measure
    max_groups: int | None
    domain: tuple[tuple[Value, ...], ...] | None
    limit: int | None
    types: tuple[Type, ...] = ()


def count_query(counting: Counting) -> exp.Select:
    """SELECT keys, count, the largest first, ties by key."""
    query = _distinct(counting) if _plain(counting) else _summed(counting)
    if counting.keys:
        query.group_by(*map(column_of, counting.keys), copy=False)
    ties = [_ascending(column_of(key)) for key in counting.keys]
    query.order_by(exp.Ordered(this=column_of(COUNT), desc=True, nulls_first=False), *ties, copy=False)
    return query if counting.limit is None else query.limit(counting.limit, copy=False)


def _plain(counting: Counting) -> bool:
    """People are counted, and nobody's keys need bounding: the query anybody would write."""
    return counting.measure.counts == "units" and (counting.max_groups is None or not counting.keys)


def _distinct(counting: Counting) -> exp.Select:
    people = exp.Count(this=exp.Distinct(expressions=[column_of(counting.unit)]))
    return _source(exp.select(*map(column_of, counting.keys), people.as_(COUNT, quoted=True)), counting)


def _summed(counting: Counting) -> exp.Select:
    people = _people(counting)
    if counting.max_groups is not None and counting.keys:
        people = _bounded(people, counting)
    total = exp.func("COALESCE", exp.Sum(this=column_of(COUNT)), exp.Literal.number(0))
    query = exp.select(*map(column_of, counting.keys), total.as_(COUNT, quoted=True))
    return query.from_(people.subquery("sfumato_people", copy=False), copy=False)


def _source(query: exp.Select, counting: Counting) -> exp.Select:
    """FROM the table WHERE there is a person and a key, and the filter holds."""
    # COUNT(DISTINCT unit) leaves out rows without a person by itself.
    names = counting.keys if _plain(counting) else (counting.unit, *counting.keys)
    present = [exp.Not(this=exp.Is(this=column_of(name), expression=exp.Null())) for name in names]
    readable = [usable(name, kind) for name, kind in zip(counting.keys, counting.types, strict=False)]
    table = exp.Table(this=exp.to_identifier(counting.table, quoted=True))
    conditions = [*present, *filter(None, readable), condition(counting.where), *_in_domain(counting)]
    return query.from_(table, copy=False).where(*conditions, copy=False)


def usable(key: str, kind: Type) -> exp.Expr | None:
    """Keys that cannot be told apart outside the engine are no keys: NaN, infinities, dates beyond the year 9999.

    Nor is text longer than a filter could name: one person's megabytes must not make a question fail.
    """
    if kind in ("date", "timestamp"):
        return condition_in(key, Values.between(Cut(date.min, -1), Cut(date.max, -1)))
    if kind == "number":
        largest = exp.cast(exp.Literal.number("1e300"), exp.DataType.Type.DOUBLE)
        return exp.Between(this=column_of(key), low=exp.Neg(this=largest), high=largest.copy())
    if kind == "text":
        return exp.LTE(this=exp.Length(this=column_of(key)), expression=whole_literal(MAX_TEXT))
    return None


def _people(counting: Counting) -> exp.Select:
    """One row a person and key: what she adds to its count, within her bound; and how many rows she has there."""
    names = [column_of(name) for name in (counting.unit, *counting.keys)]
    contribution = _contribution(counting.measure).as_(COUNT, quoted=True)
    rows = exp.Count(this=exp.Star()).as_(ROWS, quoted=True)
    return _source(exp.select(*names, contribution, rows), counting).group_by(*names)


def _contribution(measure: Measure) -> exp.Expr:
    if measure.counts == "units":
        return exp.Literal.number(1)
    counted: exp.Expr = exp.Count(this=exp.Star())
    if measure.counts == "sum":
        # Each row is clipped first: one person's huge number must not make the sum overflow, which would show.
        # NULL is nothing: GREATEST would take it for the lowest number there is.
        value = exp.func("COALESCE", column_of(measure.column or ""), exp.Literal.number(0))
        kept = clipped(value, -MAX_ROW_VALUE, MAX_ROW_VALUE)
        counted = exp.func("COALESCE", exp.Sum(this=kept), exp.Literal.number(0))
    return exp.cast(clipped(counted, 0, measure.max_per_unit), exp.DataType.Type.BIGINT)


def clipped(value: exp.Expr, low: int, high: int) -> exp.Expr:
    return exp.func("LEAST", exp.func("GREATEST", value, whole_literal(low)), whole_literal(high))


def whole_literal(value: int) -> exp.Expr:
    literal = exp.Literal.number(abs(value))
    return exp.Neg(this=literal) if value < 0 else literal


def _bounded(people: exp.Select, counting: Counting) -> exp.Select:
    """Each person's first `max_groups` keys: those with most of her own rows, ties by key."""
    order = exp.Order(
        expressions=[
            exp.Ordered(this=column_of(ROWS), desc=True, nulls_first=False),
            *(_ascending(column_of(key)) for key in counting.keys),
        ]
    )
    place = exp.Window(this=exp.RowNumber(), partition_by=[column_of(counting.unit)], order=order)
    numbered = exp.select(*map(column_of, counting.keys), column_of(COUNT), place.as_(PLACE, quoted=True)).from_(
        people.subquery("sfumato_keys")
    )
    within = exp.LTE(this=column_of(PLACE), expression=exp.Literal.number(counting.max_groups or 0))
    return (
        exp.select(*map(column_of, counting.keys), column_of(COUNT))
        .from_(numbered.subquery("sfumato_places"))
        .where(within)
    )


def _in_domain(counting: Counting) -> list[exp.Expr]:
    """Values outside a public domain are left out, column by column."""
    if counting.domain is None or not counting.keys:
        return []
    allowed = zip(*counting.domain, strict=True)
    return [condition_in(key, Values.of(*set(values))) for key, values in zip(counting.keys, allowed, strict=True)]


def condition(predicate: Predicate) -> exp.Expr:
    """A pruned filter as a SQL condition."""
    if isinstance(predicate, In):
        return condition_in(predicate.column, predicate.values)
    empty = exp.true() if isinstance(predicate, AllOf) else exp.false()
    if not predicate.parts:
        return empty
    join = exp.and_ if isinstance(predicate, AllOf) else exp.or_
    return join(*map(condition, predicate.parts))


def condition_in(column: str, values: Values) -> exp.Expr:
    if (points := values.points) is not None:
        return exp.In(this=column_of(column), expressions=[literal(point) for point in points])
    if points := (~values).points:
        if len(points) == 1:  # engines look at this while they scan, and at NOT IN afterwards
            return exp.NEQ(this=column_of(column), expression=literal(points[0]))
        return exp.Not(this=exp.In(this=column_of(column), expressions=[literal(point) for point in points]))
    return exp.or_(*(_range(column, low, high) for low, high in values.intervals))


def _range(column: str, low: Cut, high: Cut) -> exp.Expr:
    bounds: list[exp.Expr] = []
    if low.value is not None:
        kind = exp.GTE if low.side < 0 else exp.GT
        bounds.append(kind(this=column_of(column), expression=literal(low.value)))
    if high.value is not None:
        kind_below = exp.LT if high.side < 0 else exp.LTE
        bounds.append(kind_below(this=column_of(column), expression=literal(high.value)))
    if not bounds:
        return exp.Not(this=exp.Is(this=column_of(column), expression=exp.Null()))
    return exp.and_(*bounds)


def literal(value: Value) -> exp.Expr:
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), exp.DataType.Type.TIMESTAMP)
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), exp.DataType.Type.DATE)
    if isinstance(value, str):
        return exp.Literal.string(value)
    return _number(value) if isinstance(value, Fraction) else whole_literal(value)


def _number(value: Fraction) -> exp.Expr:
    """A double: beside a decimal the engine would cast the column to its scale, and fail where a row is too large."""
    literal = exp.Literal.number(decimal(abs(value)))
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, exp.DataType.Type.DOUBLE)


def column_of(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _ascending(column: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=column, desc=False, nulls_first=False)
