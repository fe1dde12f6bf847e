"""The exact sums and values of released groups behind means, variances and quantiles, as one SELECT.

Of each person and group at most `max_per_unit` values count, c in short, and what is kept depends on that person's own
rows only. A person with more values counts c times with the average of them, for means and variances; for quantiles,
with the c values at even distances in their order (for one value: the lower median). Values are whole steps, and all
sums are of whole numbers: see `counting`, whose conventions hold here too.

A squared distance is counted as `Squares.of` has it. Averages of a person's values and of their squares are rounded to
whole numbers, halves up.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.mechanisms.estimates import Squares
from sfumato.query.counting import (
    ROWS,
    Counting,
    bound_keys,
    clip,
    from_source,
    whole_steps,
    whole_sum,
    with_short_names,
)
from sfumato.query.literals import column_of, whole_literal
from sfumato.query.policy import Bounds, ValueMeasure

VALUE, VALUES = "sfumato_value", "sfumato_values"
SUMS = ("sfumato_sum_1", "sfumato_sum_2")
NUMBER = "sfumato_number"

_WIDE = exp.DataType.build("INT128")


def measure_query(counting: Counting, measure: ValueMeasure) -> exp.Select:
    """SELECT keys and the exact sums of a group; of a quantile, SELECT keys, the point of a value, and how often."""
    if counting.expressions:
        counting = with_short_names(counting)
    if measure.function == "quantile":
        return _points(counting, measure)
    sums = SUMS[: 1 if measure.function == "mean" else 2]
    people = _people(counting, measure, sums)
    keys = [column_of(key) for key in counting.keys]
    totals = [whole_sum(column_of(name)).as_(name, quoted=True) for name in (VALUES, *sums)]
    query = exp.select(*keys, *totals).from_(people.subquery("sfumato_people", copy=False), copy=False)
    return query.group_by(*(key.copy() for key in keys), copy=False) if keys else query


def _values(counting: Counting, measure: ValueMeasure) -> exp.Select:
    """A row per row of the source: whose it is, its keys, and its value in whole steps or NULL."""
    names = (counting.unit, *counting.keys)
    value = whole_steps(measure.column, measure.bounds).as_(VALUE, quoted=True)
    return from_source(exp.select(*map(column_of, names), value), counting, names)


def _people(counting: Counting, measure: ValueMeasure, sums: Sequence[str]) -> exp.Select:
    """A row per person and group: how many of the values count, and what they add, as distances from the middle."""
    names, bounds = [column_of(name) for name in (counting.unit, *counting.keys)], measure.bounds
    added = [whole_sum(each).as_(name, quoted=True) for name, each in zip(sums, _amounts(bounds), strict=False)]
    counted = exp.Count(this=column_of(VALUE)).as_(VALUES, quoted=True)
    rows = exp.Count(this=exp.Star()).as_(ROWS, quoted=True)
    people = exp.select(*names, rows, counted, *added).from_(_values(counting, measure).subquery("sfumato_rows"))
    people = people.group_by(*(name.copy() for name in names))
    if counting.max_groups is not None and counting.keys:
        people = bound_keys(people, counting, (VALUES, *sums))
    most, of = bounds.max_per_unit, column_of(VALUES)
    used = exp.func("LEAST", of, whole_literal(most))
    kept = [
        exp.Sub(
            this=_average(column_of(name), most), expression=exp.Mul(this=whole_literal(shift), expression=used.copy())
        )
        for name, shift in zip(sums, _shifts(bounds), strict=False)
    ]
    limits = (most * bounds.scale.reach, most * Squares(bounds.scale.reach).most)
    inside = [
        clip(each, -limit, limit).as_(name, quoted=True) for name, each, limit in zip(sums, kept, limits, strict=False)
    ]
    keys = [column_of(key) for key in counting.keys]
    return exp.select(*keys, used.as_(VALUES, quoted=True), *inside).from_(people.subquery("sfumato_averages"))


def _amounts(bounds: Bounds) -> tuple[exp.Expr, exp.Expr]:
    """What a value adds: whole steps above the lower bound, and its squared distance from the middle; none below 0."""
    (low, high), squares = bounds.scale.ends, Squares(bounds.scale.reach)
    above = exp.Sub(this=column_of(VALUE), expression=whole_literal(low))
    distance = exp.paren(exp.Sub(this=column_of(VALUE), expression=whole_literal(low + (high - low) // 2)))
    twice = exp.Mul(this=exp.Mul(this=whole_literal(2), expression=distance), expression=distance.copy())
    shift = squares.most * 2**squares.shift - squares.reach**2  # by so much all of them are raised: none is below 0
    raised = exp.paren(exp.Add(this=twice, expression=whole_literal(shift)))
    return above, exp.IntDiv(this=raised, expression=whole_literal(2**squares.shift))


def _shifts(bounds: Bounds) -> tuple[int, int]:
    """By how much `_amounts` are above the distance from the middle, and above `Squares.of`."""
    low, high = bounds.scale.ends
    return (high - low) // 2, Squares(bounds.scale.reach).most


def _average(total: exp.Expr, most: int) -> exp.Expr:
    """A person's sum, as it is of `most` values where there are more: so many times their average."""
    number = exp.cast(column_of(VALUES), _WIDE)
    most_often = exp.Mul(this=exp.cast(total, _WIDE), expression=whole_literal(2 * most))
    twice = exp.paren(exp.Add(this=most_often, expression=number))
    parts = exp.paren(exp.Mul(this=number.copy(), expression=whole_literal(2)))
    # Without its rest, what is divided is a multiple: engines differ in how they divide 128 bits with a rest.
    even = exp.paren(exp.Sub(this=twice, expression=exp.Mod(this=twice.copy(), expression=parts)))
    rounded = exp.cast(exp.IntDiv(this=even, expression=parts.copy()), exp.DataType.Type.BIGINT)
    more = exp.GT(this=column_of(VALUES), expression=whole_literal(most))
    return exp.Case().when(more, rounded).else_(total.copy())


def _points(counting: Counting, measure: ValueMeasure) -> exp.Select:
    """Keys, the point of a value, and how many values lie there."""
    bounds, names = measure.bounds, (counting.unit, *counting.keys)
    person = [column_of(name) for name in names]
    rows = _values(counting, measure)
    if counting.max_groups is not None and counting.keys:
        rows = _of_bounded_keys(rows, counting)
    there = exp.Not(this=exp.Is(this=column_of(VALUE), expression=exp.Null()))
    order = exp.Order(expressions=[exp.Ordered(this=column_of(VALUE), desc=False, nulls_first=False)])
    number = exp.Window(this=exp.RowNumber(), partition_by=[each.copy() for each in person], order=order)
    total = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[each.copy() for each in person])
    columns = [column_of(name) for name in (*counting.keys, VALUE)]
    numbered = exp.select(*columns, number.as_(NUMBER, quoted=True), total.as_(VALUES, quoted=True))
    numbered = numbered.from_(rows.subquery("sfumato_rows")).where(there)
    # The number j of n is kept where floor(j c / n + 1/2) is one more than that of j - 1: c of them, at even distances.
    most, of = bounds.max_per_unit, column_of(VALUES)
    passed = exp.Add(this=exp.Mul(this=column_of(NUMBER), expression=whole_literal(2 * most)), expression=of)
    rest = exp.Mod(this=exp.paren(passed), expression=exp.paren(exp.Mul(this=of.copy(), expression=whole_literal(2))))
    kept = exp.or_(
        exp.LTE(this=of.copy(), expression=whole_literal(most)), exp.LT(this=rest, expression=whole_literal(2 * most))
    )
    point = exp.Sub(this=column_of(VALUE), expression=whole_literal(bounds.scale.ends[0])).as_(VALUE, quoted=True)
    keys = [column_of(key) for key in counting.keys]
    values = exp.select(*keys, point).from_(numbered.subquery("sfumato_numbered")).where(kept)
    groups = [column_of(name) for name in (*counting.keys, VALUE)]
    counted = exp.Count(this=exp.Star()).as_(VALUES, quoted=True)
    return exp.select(*groups, counted).from_(values.subquery("sfumato_points")).group_by(*groups)


def _of_bounded_keys(rows: exp.Select, counting: Counting) -> exp.Select:
    """The rows of the keys that `bound_keys` keeps of each person."""
    names = [column_of(name) for name in (counting.unit, *counting.keys)]
    number = exp.Window(this=exp.Count(this=exp.Star()), partition_by=[name.copy() for name in names])
    columns = [*names, column_of(VALUE)]
    sized = exp.select(*columns, number.as_(ROWS, quoted=True)).from_(rows.subquery("sfumato_values"))
    order = exp.Order(
        expressions=[
            exp.Ordered(this=column_of(ROWS), desc=True, nulls_first=False),
            *(exp.Ordered(this=column_of(key), desc=False, nulls_first=False) for key in counting.keys),
        ]
    )
    place = exp.Window(this=exp.DenseRank(), partition_by=[column_of(counting.unit)], order=order)
    ranked = exp.select(*(each.copy() for each in columns), place.as_(NUMBER, quoted=True))
    ranked = ranked.from_(sized.subquery("sfumato_sized"))
    within = exp.LTE(this=column_of(NUMBER), expression=whole_literal(counting.max_groups or 0))
    return exp.select(*(each.copy() for each in columns)).from_(ranked.subquery("sfumato_ranked")).where(within)
