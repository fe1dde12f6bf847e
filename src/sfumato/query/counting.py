"""The exact counts behind a question, as one SELECT.

One person's rows change each count by 0 to `max_per_unit`, and at most `max_groups` counts, in any data. The query
enforces both bounds, and what it keeps of a person depends on that person's own rows only. Rows without a person or
without a key are left out. Counts are integers and are summed as integers.

The trees are made to mean the same in every engine's dialect. They compare with literals of a stated type, they say of
every column that must be there that it is not NULL, they have no constant TRUE, and sums cannot overflow: `whole_sum`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

from sqlglot import exp

from sfumato.query.expressions.tree import ColumnValue, Expression, LookedUp, lookups_in
from sfumato.query.expressions.write import lookup_name, write_expression
from sfumato.query.literals import column_of, double_literal, literal, whole_literal
from sfumato.query.policy import Bounds, Measure
from sfumato.query.predicate import AllOf, Cut, In, Predicate, Values, columns_of
from sfumato.query.public import PublicTable
from sfumato.types import MAX_TEXT, Type, Value

COUNT = "sfumato_count"
ROWS = "sfumato_rows"
EXPRESSION = "sfumato_expression_"
PLACE = "sfumato_place"
KEY = "sfumato_key_"
PUBLIC = "sfumato_public_"
MAX_ROW_VALUE = 2**53
MAX_SUM = 2**62
MAX_VALUE = 1e30
"""Larger numbers do not count as values. No bound is as large."""

WIDE = exp.DataType.build("DECIMAL(38, 0)")
"""The type in which whole numbers are added up. An overflow of a smaller type would fail, or wrap, for one person."""


@dataclass(frozen=True, slots=True)
class Counting:
    """What to count: see the module. `types` are those of the keys.

    Rows pass the filter `where`, and the keys in `public` have one of the values beside them. Without `max_groups` a
    person's keys are not bounded; without `limit` all rows are returned. `expressions` are the columns, by name, that
    the table does not have: they are computed for each row.
    """

    table: str
    unit: str
    keys: tuple[str, ...]
    where: Predicate
    measure: Measure
    max_groups: int | None
    limit: int | None
    public: tuple[tuple[str, tuple[Value, ...]], ...]
    types: tuple[Type, ...] = ()
    expressions: tuple[tuple[str, Expression], ...] = ()


def count_query(counting: Counting) -> exp.Select:
    """SELECT keys, count, the largest first, ties by key."""
    if counting.expressions:
        counting = with_short_names(counting)
    keys = [*map(column_of, counting.keys)]
    if counting.measure.counts == "units" and (counting.max_groups is None or not keys):
        # COUNT(DISTINCT unit) is enough. It leaves out rows without a person by itself, but not in every engine.
        units = exp.Count(this=exp.Distinct(expressions=[column_of(counting.unit)]))
        present = (counting.unit, *counting.keys)
        query = from_source(exp.select(*keys, units.as_(COUNT, quoted=True)), counting, present)
    else:
        query = exp.select(*keys, whole_sum(column_of(COUNT)).as_(COUNT, quoted=True))
        query = query.from_(_contributions(counting).subquery("sfumato_people", copy=False), copy=False)
    if counting.keys:
        query.group_by(*map(column_of, counting.keys), copy=False)
    ties = [_ascending(this=column_of(key)) for key in counting.keys]
    query.order_by(exp.Ordered(this=column_of(COUNT), desc=True, nulls_first=False), *ties, copy=False)
    return query if counting.limit is None else query.limit(counting.limit, copy=False)


def from_source(query: exp.Select, counting: Counting, names: tuple[str, ...]) -> exp.Select:
    """FROM the table WHERE the columns `names` are not NULL, keys are usable and public, and the filter holds."""
    present = [exp.Not(this=exp.Is(this=column_of(name), expression=exp.Null())) for name in names]
    readable = [usable(name, kind) for name, kind in zip(counting.keys, counting.types, strict=False)]
    named = exp.Table(this=exp.to_identifier(counting.table, quoted=True))
    table = _computed(counting, named) if counting.expressions else named
    public = [condition_in(key, Values.of(*values)) for key, values in counting.public]
    conditions = [*present, *readable, condition(counting.where), *public]
    return query.from_(table, copy=False).where(*filter(None, conditions), copy=False)


def with_short_names(counting: Counting) -> Counting:
    """The same with names for the expressions that every engine takes: some cut long names off."""
    short = {name: f"{EXPRESSION}{place}" for place, (name, _) in enumerate(counting.expressions)}

    def renamed(where: Predicate) -> Predicate:
        if isinstance(where, In):
            return In(short.get(where.column, where.column), where.values)
        return type(where)(tuple(map(renamed, where.parts)))

    return replace(
        counting,
        keys=tuple(short.get(key, key) for key in counting.keys),
        where=renamed(counting.where),
        public=tuple((short.get(key, key), values) for key, values in counting.public),
        expressions=tuple((short[name], tree) for name, tree in counting.expressions),
    )


def _computed(counting: Counting, table: exp.Table) -> exp.Subquery:
    """The rows with the columns that are needed, and with what the expressions make of them."""
    names = {counting.unit, *counting.keys, *columns_of(counting.where), counting.measure.column or counting.unit}
    plain = sorted(names - {name for name, _ in counting.expressions})
    made = [write_expression(tree).as_(name, quoted=True) for name, tree in counting.expressions]
    rows = exp.select(*map(column_of, plain), *made).from_(table, copy=False)
    for place, (key, public, columns) in enumerate(_rows_to_look_up(counting)):
        rows.join(_public_rows(place, public, columns), on=_has_key(place, key), join_type="LEFT", copy=False)
    return rows.subquery(counting.table, copy=False)


def _rows_to_look_up(counting: Counting) -> list[tuple[Expression, PublicTable, list[LookedUp]]]:
    """The public rows that the expressions need: by which key, of which table, and which look-ups they are for.

    What a key needs comes before what it is the key of.
    """
    found: dict[tuple[Expression, PublicTable], list[LookedUp]] = {}
    for node in lookups_in(*(tree for _, tree in counting.expressions)):
        found.setdefault((node.arguments[0], node.public), []).append(node)
    return [(key, public, nodes) for (key, public), nodes in found.items()]


def _public_rows(place: int, public: PublicTable, nodes: Sequence[LookedUp]) -> exp.Subquery:
    """The key of a public table and the columns that are looked up there, under names that no other table has."""
    columns = [column_of(node.column).as_(lookup_name(node), quoted=True) for node in nodes]
    rows = exp.select(column_of(public.key).as_(f"{KEY}{place}", quoted=True), *columns)
    return rows.from_(exp.Table(this=exp.to_identifier(public.name, quoted=True))).subquery(f"{PUBLIC}{place}")


def _has_key(place: int, key: Expression) -> exp.Expr:
    """The condition of a look-up. Its key is a column, or a look-up itself."""
    name = lookup_name(key) if isinstance(key, LookedUp) else key.name if isinstance(key, ColumnValue) else ""
    return exp.EQ(this=column_of(name), expression=column_of(f"{KEY}{place}"))


def usable(key: str, kind: Type) -> exp.Expr | None:
    """The condition that a key can be shown, or None where it always can.

    NaN, infinities and dates beyond the year 9999 are not the same outside the engine. Text longer than a filter can
    name is left out, because one person's megabytes must not make a question fail.
    """
    if kind in ("date", "timestamp"):
        return condition_in(key, Values.between(Cut(date.min, -1), Cut(date.max, -1)))
    if kind == "number":
        largest = exp.cast(exp.Literal.number("1e300"), exp.DataType.Type.DOUBLE)
        return exp.Between(this=column_of(key), low=exp.Neg(this=largest), high=largest.copy())
    if kind == "text":
        return exp.LTE(this=exp.Length(this=column_of(key)), expression=exp.Literal.number(MAX_TEXT))
    return None


def _contributions(counting: Counting) -> exp.Select:
    """One row per person and key: what the person adds to its count, within the bounds."""
    names = [column_of(name) for name in (counting.unit, *counting.keys)]
    contribution = _contribution(counting.measure).as_(COUNT, quoted=True)
    rows = exp.Count(this=exp.Star()).as_(ROWS, quoted=True)
    people = exp.select(*names, contribution, rows)
    people = from_source(people, counting, (counting.unit, *counting.keys)).group_by(*names)
    return people if counting.max_groups is None or not counting.keys else bound_keys(people, counting, (COUNT,))


def _contribution(measure: Measure) -> exp.Expr:
    """What a person adds to a count: 1, the number of rows, or their sum, within `max_per_unit`."""
    if measure.counts == "units":
        return exp.Literal.number(1)
    counted: exp.Expr = exp.Count(this=exp.Star() if measure.column is None else column_of(measure.column))
    low, high = 0, measure.max_per_unit
    if measure.bounds is not None:
        counted, (low, high) = whole_sum(whole_steps(measure.column or "", measure.bounds)), measure.bounds.total
    elif measure.counts == "sum":
        # Each row is clipped first: one person's huge number must not make the sum overflow, which would show.
        # NULL counts as 0: GREATEST would take it for the lowest number there is.
        value = exp.func("COALESCE", column_of(measure.column or ""), exp.Literal.number(0))
        counted = whole_sum(clip(value, -MAX_ROW_VALUE, MAX_ROW_VALUE))
    return exp.cast(clip(counted, low, high), exp.DataType.Type.BIGINT)


def whole_steps(column: str, bounds: Bounds) -> exp.Expr:
    """A value in whole steps from zero, within its bounds; NULL where there is none, and for NaN and infinities.

    What lies between two steps goes to the nearest, and to the even one from the middle between them.
    """
    value = exp.ToDouble(this=column_of(column))
    inside = exp.Between(this=value, low=double_literal(-MAX_VALUE), high=double_literal(MAX_VALUE))
    low, high = (double_literal(float(end)) for end in (bounds.low, bounds.high))
    clamped = exp.func("LEAST", exp.func("GREATEST", value.copy(), low), high)
    steps = exp.paren(exp.Div(this=clamped, expression=double_literal(float(bounds.step)), typed=True))
    below = exp.cast(exp.Floor(this=steps), exp.DataType.Type.BIGINT)
    rest = exp.paren(exp.Sub(this=steps.copy(), expression=exp.Floor(this=steps.copy())))
    half, odd = (
        double_literal(0.5),
        exp.NEQ(this=exp.Mod(this=below.copy(), expression=whole_literal(2)), expression=whole_literal(0)),
    )
    up = exp.or_(exp.GT(this=rest, expression=half), exp.and_(exp.EQ(this=rest.copy(), expression=half.copy()), odd))
    rounded = exp.Add(this=below, expression=exp.Case().when(up, whole_literal(1)).else_(whole_literal(0)))
    return exp.Case().when(inside, clip(rounded, *bounds.scale.ends))


def whole_sum(value: exp.Expr, over: Callable[[exp.Expr], exp.Expr] = lambda total: total) -> exp.Expr:
    """The sum of whole numbers, 0 for none. It cannot overflow: it ends at `MAX_SUM`. `over` makes it a window."""
    total = over(exp.Sum(this=exp.cast(value, WIDE)))
    present = exp.func("COALESCE", total, exp.Literal.number(0))
    return exp.cast(clip(present, -MAX_SUM, MAX_SUM), exp.DataType.Type.BIGINT)


def clip(value: exp.Expr, low: int, high: int) -> exp.Expr:
    return exp.func("LEAST", exp.func("GREATEST", value, whole_literal(low)), whole_literal(high))


def bound_keys(people: exp.Select, counting: Counting, columns: tuple[str, ...]) -> exp.Select:
    """The first `max_groups` keys of each person: those with most of the person's own rows, ties by key.

    `people` has a row for each person and key, with the number of rows in `ROWS` and with `columns`, which are kept.
    """
    kept = [column_of(name) for name in (*counting.keys, *columns)]
    order = exp.Order(
        expressions=[
            exp.Ordered(this=column_of(ROWS), desc=True, nulls_first=False),
            *(_ascending(this=column_of(key)) for key in counting.keys),
        ]
    )
    place = exp.Window(this=exp.RowNumber(), partition_by=[column_of(counting.unit)], order=order)
    numbered = exp.select(*kept, place.as_(PLACE, quoted=True)).from_(people.subquery("sfumato_keys"))
    within = exp.LTE(this=column_of(PLACE), expression=exp.Literal.number(counting.max_groups or 0))
    return exp.select(*(each.copy() for each in kept)).from_(numbered.subquery("sfumato_places")).where(within)


def condition(predicate: Predicate) -> exp.Expr | None:
    """A pruned filter as a SQL condition; None for the one that every row passes."""
    if isinstance(predicate, In):
        return condition_in(predicate.column, predicate.values)
    if not predicate.parts:
        never = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))
        return None if isinstance(predicate, AllOf) else never
    join = exp.and_ if isinstance(predicate, AllOf) else exp.or_
    return join(*map(condition, predicate.parts))


def condition_in(column: str, values: Values) -> exp.Expr:
    if (points := values.points) is not None:
        return exp.In(this=column_of(column), expressions=[literal(point) for point in points])
    if points := (~values).points:
        if len(points) == 1:  # engines apply <> while they scan, and NOT IN afterwards
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


_ascending = partial(exp.Ordered, desc=False, nulls_first=False)
