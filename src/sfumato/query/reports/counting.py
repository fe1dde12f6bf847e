"""The exact counts behind cells of a report, as one SELECT.

Rows fall into segments of time, the pieces of the wanted ranges. A comparison tree of logarithmic depth finds the
segment. For any question, an event adds one to a count of one segment, one entity and one value (or one list of them).
Where the policy caps a person's events, the first ones count, in the order of time and of all columns that any question
to the report can look at. So the question does not decide which events count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import groupby, pairwise

from sqlglot import exp

from sfumato.query.counting import clip, condition, condition_in, whole_sum
from sfumato.query.literals import column_of, literal, whole_literal
from sfumato.query.predicate import EVERYTHING, Predicate, Values, any_of, columns_of
from sfumato.query.reports.policy import ReportPolicy, ReportStatistic
from sfumato.types import Value

SEGMENT, RUNNING = "sfumato_segment", "sfumato_upto"
MAX_ROW_VALUE = 2**31
MAX_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class ReportCounting:
    """What to count: segments between `edges`, of the events of some entities, by entity and by value.

    `within` says whose rows these are. `by` are the columns that tell entities apart; none where there is one entity.
    """

    policy: ReportPolicy
    statistics: tuple[ReportStatistic, ...]
    attribute: str | None
    edges: tuple[datetime, ...]
    within: Predicate = EVERYTHING
    by: tuple[str, ...] = ()


def segment_query(counting: ReportCounting) -> exp.Select:
    """SELECT segment, entity columns, value, a count for each statistic."""
    groups = [_segment(counting, list(_runs(counting))), *map(column_of, counting.by)]
    if counting.attribute is not None:
        groups.append(column_of(counting.attribute))
    counts = [_count(counting, statistic) for statistic in counting.statistics]
    names = [SEGMENT, *counting.by, *([] if counting.attribute is None else [counting.attribute])]
    columns = [group.as_(name, quoted=True) for group, name in zip(groups, names, strict=True)]
    query = exp.select(*columns, *(count.as_(f"sfumato_{at}", quoted=True) for at, count in enumerate(counts)))
    query = query.from_(_events(counting), copy=False).where(*filter(None, _conditions(counting)), copy=False)
    return query.group_by(*(exp.Literal.number(at) for at in range(1, len(groups) + 1)), copy=False)


def _runs(counting: ReportCounting) -> Iterator[tuple[int, int]]:
    """The segments in runs of equal length: the first of each, and how many there are."""
    lengths = [_length(counting.policy, *each) for each in pairwise(counting.edges)]
    first = 0
    for _, alike in groupby(lengths):
        yield first, (many := len(list(alike)))
        first += many


def _length(policy: ReportPolicy, start: datetime, end: datetime) -> int:
    """In the unit that the rows are counted in: seconds, or days."""
    if policy.days:
        return (policy.calendar.wall(end).date() - policy.calendar.wall(start).date()).days
    return int((end - start).total_seconds())


def _segment(counting: ReportCounting, runs: Sequence[tuple[int, int]]) -> exp.Expr:
    """The number of a row's segment.

    Edges are even but for months and clocks that change. Inside an even run the number is a division; a comparison
    tree, by halves, finds the run.
    """
    if len(runs) == 1:
        return _segment_in_run(counting, *runs[0])
    middle = len(runs) // 2
    edge = _moment(counting.policy, counting.edges[runs[middle][0]])
    before = exp.LT(this=column_of(counting.policy.time), expression=edge)
    below, above = _segment(counting, runs[:middle]), _segment(counting, runs[middle:])
    return exp.Case(ifs=[exp.If(this=before, true=below)], default=above)


def _segment_in_run(counting: ReportCounting, first: int, many: int) -> exp.Expr:
    """By a division. An engine writes the difference as the whole seconds or days since the edge, rounded down."""
    number: exp.Expr = exp.cast(exp.Literal.number(first), exp.DataType.Type.BIGINT)
    if many == 1:
        return number
    policy, start = counting.policy, counting.edges[first]
    unit = exp.Var(this="DAY" if policy.days else "SECOND")
    passed = exp.DateDiff(this=column_of(policy.time), expression=_moment(policy, start), unit=unit)
    length = whole_literal(_length(policy, start, counting.edges[first + 1]))
    return exp.Add(this=number, expression=exp.Paren(this=exp.IntDiv(this=passed, expression=length)))


def _moment(policy: ReportPolicy, moment: datetime) -> exp.Expr:
    """An edge as the rows have it: days are those of the report's zone, moments are in UTC."""
    if policy.days:
        return literal(policy.calendar.wall(moment).date())
    return literal(moment.astimezone(UTC).replace(tzinfo=None))


def _conditions(counting: ReportCounting) -> Iterator[exp.Expr | None]:
    policy, edges = counting.policy, counting.edges
    time = column_of(policy.time)
    yield exp.GTE(this=time, expression=_moment(policy, edges[0]))
    yield exp.LT(this=time.copy(), expression=_moment(policy, edges[-1]))
    yield condition(_any_filter(counting.statistics))
    yield condition(counting.within)
    if counting.attribute is None:
        return
    attribute = policy.attributes[counting.attribute]
    if attribute.several:
        yield exp.Not(this=exp.Is(this=column_of(attribute.name), expression=exp.Null()))
    elif len(attribute.domain) <= MAX_LISTED:  # a longer list costs more than the rows that it leaves out
        yield condition_in(attribute.name, Values.of(*attribute.domain))


def _any_filter(statistics: Iterable[ReportStatistic]) -> Predicate:
    return any_of([statistic.where for statistic in statistics])


def _count(counting: ReportCounting, statistic: ReportStatistic) -> exp.Expr:
    amount = exp.Literal.number(1) if statistic.column is None else _capped_amount(counting.policy, statistic.column)
    passes = condition(statistic.where) if len(counting.statistics) > 1 else None
    if passes is not None:
        amount = exp.Case(ifs=[exp.If(this=passes, true=amount)], default=exp.Literal.number(0))
    elif statistic.column is None:
        return exp.Count(this=exp.Star())
    return whole_sum(amount)


def _amount(column: str) -> exp.Expr:
    """A row's count. NULL is 0, and rows are clipped, because sums must not overflow."""
    value = exp.func("COALESCE", column_of(column), exp.Literal.number(0))
    return exp.cast(clip(value, 0, MAX_ROW_VALUE), exp.DataType.Type.BIGINT)


def _capped_amount(policy: ReportPolicy, column: str) -> exp.Expr:
    """What a row adds of a column of counts: all of it, or what the cap leaves after the person's earlier events."""
    if policy.cap is None:
        return _amount(column)
    before = _sums(policy)[: _sums(policy).index(column)]
    used: exp.Expr = column_of(RUNNING)
    for other in _sums(policy):
        used = exp.Sub(this=used, expression=_amount(other))
    for earlier in before:
        used = exp.Add(this=used, expression=_amount(earlier))
    left = exp.Sub(this=whole_literal(policy.cap), expression=exp.Paren(this=used))
    return exp.func("GREATEST", exp.func("LEAST", _amount(column), left), exp.Literal.number(0))


def _sums(policy: ReportPolicy) -> list[str]:
    return list(dict.fromkeys(each.column for each in policy.statistics.values() if each.column is not None))


def _events(counting: ReportCounting) -> exp.Expr:
    """The table; with a cap, without the events beyond it."""
    policy = counting.policy
    table = exp.Table(this=exp.to_identifier(policy.table, quoted=True))
    if policy.cap is None:
        return table
    columns = _columns(policy)
    numbered = exp.select(*map(column_of, columns), _running_count(policy, columns).as_(RUNNING, quoted=True)).from_(
        table
    )
    present = [exp.Not(this=exp.Is(this=column_of(name), expression=exp.Null())) for name in (policy.unit, policy.time)]
    last = exp.LT(this=column_of(policy.time), expression=_moment(policy, counting.edges[-1]))
    counted = condition(_any_filter(policy.statistics.values()))
    numbered = numbered.where(*filter(None, [*present, last, counted]), copy=False)
    inner = numbered.subquery("sfumato_numbered")
    if _sums(policy):
        return inner
    within = exp.LTE(this=column_of(RUNNING), expression=whole_literal(policy.cap))
    return exp.select(*map(column_of, columns)).from_(inner).where(within).subquery("sfumato_events")


def _running_count(policy: ReportPolicy, columns: Sequence[str]) -> exp.Expr:
    """The number of events per person up to and with this row."""
    first = [policy.time, *(name for name in columns if name != policy.time)]
    order = exp.Order(expressions=[exp.Ordered(this=column_of(name), desc=False, nulls_first=True) for name in first])
    over = partial(exp.Window, partition_by=[column_of(policy.unit)], order=order)
    if not _sums(policy):
        return over(this=exp.RowNumber())
    amounts = (_amount(column) for column in _sums(policy))
    amount = exp.paren(reduce(lambda total, each: exp.Add(this=total, expression=each), amounts))
    spec = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
    return whole_sum(amount, lambda total: over(this=total, spec=spec))


def cap_definition(policy: ReportPolicy) -> list[str]:
    """Everything that decides which events a cap keeps, as text. It is part of the definition of a cell."""
    return [policy.unit, str(policy.cap), str(_any_filter(policy.statistics.values())), *_columns(policy)]


def _columns(policy: ReportPolicy) -> list[str]:
    """Every column that a question to the report can look at, in one order."""
    entities = policy.levels if policy.reach == "columns" else policy.levels[-1:]
    filtered = sorted({name for each in policy.statistics.values() for name in columns_of(each.where)})
    return list(dict.fromkeys([policy.time, *entities, *policy.attributes, *_sums(policy), *filtered]))


def values_of(cell: object, separator: str, most: int) -> list[Value]:
    """The values of one event: the first `most` in their order, each once, whether or not they are shown."""
    several = cell.split(separator) if isinstance(cell, str) and separator else cell
    if not isinstance(several, list | tuple):
        return []
    present = {value.strip() if isinstance(value, str) else value for value in several if value is not None}
    return sorted(value for value in present if value != "")[:most]
