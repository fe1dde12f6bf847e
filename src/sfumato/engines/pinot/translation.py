"""A query tree of the port as a query that Pinot answers with the same rows.

Pinot has no relation to put in place of a table, so what the port promises of columns is written where they are used:

- A comparison holds only where its column is not NULL. Pinot stores a default in place of NULL, and it would pass `<>`,
  `NOT IN` and ranges. NOT is pushed down to the comparisons first.
- Days as text are days only where they are days of the calendar; other text is NULL.
- Moments are compared as milliseconds in UTC. Pinot has no literal for microseconds.
- Numbers are compared as sums with 0. In the dictionary of a column, NaN is found where another number is looked for,
  and the two zeros are two values. NaN is above all numbers: what is above one is what is not below it, nor equal.
- The length of a key is looked at in the reply where the schema bounds it: in WHERE it costs more than all the rest.
- In a result, the default of a column of text or whole numbers is NULL, unless NULL was left out. In a sum it is 0.
  `IS NULL` is for WHERE only: as a value (`CASE WHEN x IS NULL`) it fails, or is wrong beyond 10,000 rows (0.11).
- Very many groups are ordered here and not by the broker: `PinotQuery.among`.
- Pinot orders text by UTF-16. Replies are put in the order of code points here: `PinotQuery.misplaces`.
- Sums are exact (`SUMPRECISION`); `SUM` adds up doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import takewhile
from operator import itemgetter
from typing import Any, TypeAlias

from sqlglot import exp

from sfumato.engines.pinot.columns import DAY_MS, PinotColumn, milliseconds
from sfumato.query.counting import MAX_SUM
from sfumato.query.literals import whole_literal

Columns: TypeAlias = Mapping[str, PinotColumn]

MAX_ROWS = 10_000_000
"""LIMIT of a query that has none. Pinot would take 10."""

LAST_SHORT = "\uffff"
"""The last character with one unit of UTF-16."""

MANY_GROUPS = 1_000_000
"""Pinot's default of `pinot.broker.groupby.trim.threshold`."""

REAL_DAY = (
    "^(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
    r"\z"
)
"""A day of the years 1 to 9999, as ISO 8601 writes it."""

_FLIPPED: Mapping[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GTE, exp.LTE: exp.GT, exp.GT: exp.LTE, exp.GTE: exp.LT}
_LENGTHS_MS = {"SECOND": 1000, "DAY": DAY_MS}


class Untranslatable(Exception):
    """A tree that this module does not know. Questions and reports do not make any."""


@dataclass(frozen=True, slots=True)
class PinotQuery:
    """`tree` is for `PinotSql`. `cells` make a row of the port, each from a row of the reply.

    `first` is how many rows are wanted; None for all. `order` are places in a row of the reply, and whether the largest
    come first. `keys` are the columns that an ordered query groups by. `is_total`: it has one row, also of an empty
    table. `is_one_group`: it has one row, whose last cell says how many rows of the table are in it; with none, there
    is no group. `is_ordered`: the reply is. `lengths` are places in a row of the reply, and how long the text there may
    be in a row of the port.
    """

    tree: exp.Select
    cells: Sequence[Callable[[Sequence[Any]], Any]]
    first: int | None
    order: Sequence[tuple[int, bool]]
    keys: Sequence[str]
    is_total: bool
    is_one_group: bool
    lengths: Sequence[tuple[int, int]] = ()
    is_ordered: bool = True

    def loses(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Whether rows with long text may have taken the places of others in a reply."""
        return len(rows) == self.first and not all(map(self._is_short, rows))

    def _is_short(self, row: Sequence[Any]) -> bool:
        return all(len(row[at]) <= longest for at, longest in self.lengths)

    def misplaces(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Whether the last rows of a reply may be others by code point. Then `of_all_groups` has to be asked.

        The two orders differ where one key has a character beyond U+FFFF. By UTF-16, that one may come too early.
        """
        texts = [at for at, _ in self.order if rows and isinstance(rows[-1][at], str)]
        if not texts or not self.is_ordered or len(rows) != self.first:
            return False
        before = list(takewhile(lambda at: at not in texts, (at for at, _ in self.order)))
        ties = (row for row in rows if all(row[at] == rows[-1][at] for at in before))
        return any(max(row[at], default="") > LAST_SHORT for row in ties for at in texts)

    def read(self, rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """The rows of a reply as the port promises them."""
        rows = [row for row in rows if self._is_short(row)] if self.lengths else rows
        if self.is_one_group:
            rows = [row for row in rows if row[-1]]
        elif self.is_total and not rows:
            rows = [[0] * len(self.cells)]
        rows = list(rows)
        for at, largest_first in reversed(self.order):
            rows.sort(key=itemgetter(at), reverse=largest_first)
        return [tuple(cell(row) for cell in self.cells) for row in rows[: self.first]]

    def among(self, groups: int) -> PinotQuery:
        """The query for a table with at most so many groups.

        A broker that merges `MANY_GROUPS` in an order keeps 5,000 of them and goes on, without a flag. So where there
        may be as many, all of them are asked for, in no order.
        """
        return self.of_all_groups() if self.keys and groups >= MANY_GROUPS else self

    def of_all_groups(self) -> PinotQuery:
        """The query for all groups, which `read` puts in order."""
        tree = self.tree.limit(MAX_ROWS + 1)
        tree.set("order", None)
        return replace(self, tree=tree, is_ordered=False)

    @property
    def most(self) -> int | None:
        """With more rows than this, a reply lacks some."""
        return MAX_ROWS if self.first is None or not self.is_ordered else None


def translate(query: exp.Query, source: str, columns: Columns, *, measures: bool = False) -> PinotQuery:
    """What Pinot is asked for the rows of `query`, which reads one table: `source`.

    With `measures` it is asked for the lengths of keys too, and its reply never `loses` rows.
    """
    known = {"expressions", "from_", "where", "group", "order", "limit", "distinct", "kind"}
    if not isinstance(query, exp.Select) or any(value and name not in known for name, value in query.args.items()):
        raise Untranslatable
    if not isinstance(query.args["from_"].this, exp.Table):
        raise Untranslatable
    conditions, lengths = _filters(query, columns, measures)
    present = {part.this.this.name for part in conditions if _is_presence(part)}
    output = _Output(columns, present, is_grouped=bool(query.args.get("group") or query.args.get("distinct")))
    for expression in query.expressions:
        output.add(expression)
    made = exp.select(*output.written).from_(exp.Table(this=exp.to_identifier(source, quoted=True)), copy=False)
    if conditions:
        made.where(exp.and_(*conditions, copy=False), copy=False)
    if query.args.get("distinct"):
        made = made.distinct(copy=False)
    is_one_group = bool(query.args.get("group")) and not output.groups
    if is_one_group:  # without GROUP BY; it has a row where no row passed
        made = made.select(exp.Count(this=exp.Star()), copy=False)
    elif query.args.get("group"):
        made = made.group_by(*(group.copy() for group in output.groups), copy=False)
    ordered = [output.order(each) for each in query.args["order"].expressions] if query.args.get("order") else []
    if ordered:
        made = made.order_by(*ordered, copy=False)
    limit = query.args.get("limit")
    first = int(limit.expression.name) if limit else None
    made = made.limit(MAX_ROWS + 1 if first is None else first, copy=False)
    places = [(output.written.index(each.this), bool(each.args.get("desc"))) for each in ordered]
    keys = output.keys if ordered and query.args.get("group") else []
    is_total = not query.args.get("group") and output.has_totals
    measured = [(output.written.index(key), longest) for key, longest in lengths]
    return PinotQuery(made, output.cells, first, places, keys, is_total, is_one_group, measured)


def _filters(query: exp.Select, columns: Columns, measures: bool) -> tuple[list[exp.Expr], list[tuple[exp.Expr, int]]]:
    """The conditions that Pinot checks, and the keys whose length is left to the reply, with the longest of each."""
    where, is_grouped = query.args.get("where"), bool(query.args.get("group"))
    keys = {each.name for each in query.expressions if isinstance(each, exp.Column) and is_grouped and not measures}
    conditions, lengths = dict[exp.Expr, None](), list[tuple[exp.Expr, int]]()
    for part in _conjunction(where.this) if where else ():
        if _is_length(part) and part.this.this.name in keys:
            column, longest = _column(part.this.this, columns), int(part.expression.name)
            if column.max_length is not None and column.max_length <= longest:
                conditions[_present(column)] = None
                lengths.append((_bare(column), longest))
                continue
        conditions |= dict.fromkeys(_conjunction(_condition(part, columns)))
    return list(conditions), lengths


def _is_length(node: exp.Expr) -> bool:
    return isinstance(node, exp.LTE) and isinstance(node.this, exp.Length)


@dataclass(slots=True)
class _Output:
    """The columns of a result: how they are written, which of them are groups, and how their cells are read."""

    columns: Columns
    present: set[str]
    is_grouped: bool
    written: list[exp.Expr] = field(default_factory=list)
    groups: list[exp.Expr] = field(default_factory=list)
    cells: list[Callable[[Sequence[Any]], Any]] = field(default_factory=list)
    named: dict[str, exp.Expr] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    has_totals: bool = False

    def add(self, expression: exp.Expr) -> None:
        """One more. Pinot would take an alias for the column of the same name, so none is written."""
        name, expression = expression.alias_or_name, expression.unalias()
        if isinstance(expression, exp.Column):
            self._add_column(_column(expression, self.columns))
            self.named[name] = self.groups[-1]
            return
        if (literal := _whole(expression)) is not None and self.is_grouped:
            self.cells.append(lambda row: literal)  # a number in GROUP BY would be the number of a column
            return
        at, total = len(self.written), expression.find(exp.Sum)
        read: Callable[[Any], Any] = int
        if isinstance(expression, exp.Count):
            made = _count(expression, self.columns)
        elif total is not None:
            made, read = exp.func("SUMPRECISION", _added(total.this, self.columns)), _clipped_sum
        else:
            made = _number(expression, self.columns)
            self.groups.append(made)
        self.has_totals |= isinstance(expression, exp.Count) or total is not None
        self.named[name] = made
        self.written.append(made.copy())
        self.cells.append(lambda row: read(row[at]))

    def _add_column(self, column: PinotColumn) -> None:
        self.keys.append(column.name)
        at, read = len(self.written), column.read if column.name in self.present else column.read_optional
        self.groups.append(_grouped(column))
        self.written.append(_grouped(column))
        self.cells.append(lambda row: read(row[at]))

    def order(self, ordered: exp.Ordered) -> exp.Ordered:
        name = ordered.this.name
        by = self.named[name] if name in self.named else _grouped(_column(ordered.this, self.columns))
        return exp.Ordered(this=by.copy(), desc=bool(ordered.args.get("desc")), nulls_first=False)


def _column(node: exp.Expr, columns: Columns) -> PinotColumn:
    if not isinstance(node, exp.Column) or node.name not in columns:
        raise Untranslatable
    return columns[node.name]


def _bare(column: PinotColumn) -> exp.Column:
    return exp.column(column.name, quoted=True)


def _grouped(column: PinotColumn) -> exp.Expr:
    """A column as it is grouped and shown."""
    if not column.in_milliseconds:
        return _bare(column)
    # Pinot shows moments in the zone of the broker.
    whole = exp.cast(_bare(column), exp.DataType.Type.BIGINT) if column.stored == "TIMESTAMP" else _bare(column)
    if column.kind == "timestamp":
        return whole
    return exp.func("DATETRUNC", exp.Literal.string("DAY"), whole, exp.Literal.string("MILLISECONDS"))


def _count(count: exp.Count, columns: Columns) -> exp.Expr:
    """All rows, or distinct values of a column."""
    if isinstance(count.this, exp.Star):
        return count.copy()
    if not isinstance(count.this, exp.Distinct) or len(count.this.expressions) != 1:
        raise Untranslatable
    return exp.Count(this=exp.Distinct(expressions=[_bare(_column(count.this.expressions[0], columns))]))


def _clipped_sum(cell: Any) -> int:
    return max(-MAX_SUM, min(int(Decimal(str(cell))), MAX_SUM))


# Numbers


def _whole(node: exp.Expr) -> int | None:
    """The whole number that is written there, if it is one."""
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() else None


def _added(node: exp.Expr, columns: Columns) -> exp.Expr:
    """What a row adds to a sum; a column that is NULL adds nothing."""
    while isinstance(node, exp.Cast):
        node = node.this
    is_column = isinstance(node, exp.Column)
    return _number(exp.Coalesce(this=node, expressions=[whole_literal(0)]) if is_column else node, columns)


def _number(node: exp.Expr, columns: Columns) -> exp.Expr:
    """A number of a row: a column, or the number of its segment of time."""
    part = partial(_number, columns=columns)
    if isinstance(node, exp.Column):
        return _milliseconds(column) if (column := _column(node, columns)).kind == "date" else _bare(column)
    if isinstance(node, exp.Literal | exp.Neg):
        return node.copy()
    if isinstance(node, exp.Paren):
        return exp.Paren(this=part(node.this))
    if isinstance(node, exp.Cast):  # to a wider type: numbers are doubles or whole numbers of 64 bits here
        return part(node.this)
    if isinstance(node, exp.Coalesce):
        column = _column(node.this, columns)
        if not isinstance(column.default, int):
            return _bare(column)
        null = exp.EQ(this=_bare(column), expression=whole_literal(column.default))
        return exp.Case(ifs=[exp.If(this=null, true=part(node.expressions[0]))], default=_bare(column))
    if isinstance(node, exp.Least | exp.Greatest):
        return type(node)(this=part(node.this), expressions=[part(each) for each in node.expressions])
    if isinstance(node, exp.Add):
        return exp.Add(this=part(node.this), expression=part(node.expression))
    if isinstance(node, exp.IntDiv):  # of a number that is not negative
        return exp.func("FLOOR", exp.Div(this=part(node.this), expression=part(node.expression)))
    if isinstance(node, exp.DateDiff):
        start = whole_literal(_start(node.expression))
        passed = exp.Paren(this=exp.Sub(this=_milliseconds(_column(node.this, columns)), expression=start))
        return exp.func("FLOOR", exp.Div(this=passed, expression=whole_literal(_LENGTHS_MS[node.text("unit").upper()])))
    if isinstance(node, exp.Case) and node.this is None:
        ifs = [exp.If(this=_before(each.this, columns), true=part(each.args["true"])) for each in node.args["ifs"]]
        return exp.Case(ifs=ifs, default=part(node.args["default"]))
    raise Untranslatable


def _before(node: exp.Expr, columns: Columns) -> exp.Expr:
    """Whether a row is before an edge of time."""
    if not isinstance(node, exp.LT):
        raise Untranslatable
    return exp.LT(this=_milliseconds(_column(node.this, columns)), expression=whole_literal(_start(node.expression)))


def _start(node: exp.Expr) -> int:
    whole, rest = milliseconds(_value(node, "timestamp"))
    if rest:
        raise Untranslatable
    return whole


def _milliseconds(column: PinotColumn) -> exp.Expr:
    """A day or a moment in milliseconds. Of days as text only where they are days."""
    if column.in_text:
        return exp.func("FROMDATETIME", _bare(column), exp.Literal.string("yyyy-MM-dd"))
    if not column.in_milliseconds:
        raise Untranslatable
    return exp.cast(_bare(column), exp.DataType.Type.BIGINT) if column.stored == "TIMESTAMP" else _bare(column)


# Conditions


def _condition(node: exp.Expr, columns: Columns, *, holds: bool = True) -> exp.Expr:
    """Where a condition is true, or where it is false; neither where it is NULL."""
    if isinstance(node, exp.Paren):
        return _condition(node.this, columns, holds=holds)
    if isinstance(node, exp.Not):
        return _condition(node.this, columns, holds=not holds)
    if isinstance(node, exp.And | exp.Or):
        parts = [_condition(each, columns, holds=holds) for each in node.flatten()]
        return (exp.and_ if isinstance(node, exp.And) is holds else exp.or_)(*parts, copy=False)
    if isinstance(node, exp.Is):
        column = _column(node.this, columns)
        return _absent(column) if holds else _present(column)
    if isinstance(node, exp.EQ) and isinstance(node.this, exp.Literal) and isinstance(node.expression, exp.Literal):
        anything = next(iter(columns.values()))
        parts = [_absent(anything), _present(anything)]
        return (exp.or_ if (node.this == node.expression) is holds else exp.and_)(*parts, copy=False)
    column = _column(node.this.this if _is_length(node) else node.this, columns)
    found = _short(column, node.expression) if _is_length(node) else _comparison(node, column)
    return exp.and_(_present(column), found if holds else exp.Not(this=exp.Paren(this=found)), copy=False)


def _conjunction(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts that all hold."""
    node = node.unnest()
    if not isinstance(node, exp.And):
        yield node
        return
    for part in node.flatten():
        yield from _conjunction(part)


def _absent(column: PinotColumn) -> exp.Expr:
    null = exp.Is(this=_bare(column), expression=exp.Null())
    return exp.or_(null, exp.Not(this=_matches(column, REAL_DAY))) if column.in_text else null


def _present(column: PinotColumn) -> exp.Expr:
    there = exp.Not(this=exp.Is(this=_bare(column), expression=exp.Null()))
    return exp.and_(there, _matches(column, REAL_DAY)) if column.in_text else there


def _is_presence(node: exp.Expr) -> bool:
    return isinstance(node, exp.Not) and isinstance(node.this, exp.Is) and isinstance(node.this.this, exp.Column)


def _matches(column: PinotColumn, pattern: str) -> exp.Expr:
    return exp.Anonymous(this="REGEXP_LIKE", expressions=[_bare(column), exp.Literal.string(pattern)])


def _short(column: PinotColumn, longest: exp.Expr) -> exp.Expr:
    """Text of at most so many characters. LENGTH counts those beyond U+FFFF twice."""
    return _matches(column, rf"(?s)^.{{0,{int(longest.name)}}}\z")


def _comparison(node: exp.Expr, column: PinotColumn) -> exp.Expr:
    """A comparison of a column that is there."""
    if isinstance(node, exp.NEQ):
        equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
        return exp.Not(this=exp.Paren(this=_comparison(equal, column)))
    if isinstance(node, exp.Between):
        bounds = (exp.GTE, node.args["low"]), (exp.LTE, node.args["high"])
        return exp.and_(*(_bound(kind, column, _value(value, column.kind)) for kind, value in bounds), copy=False)
    if isinstance(node, exp.In):
        return _among(column, [_value(each, column.kind) for each in node.expressions])
    if isinstance(node, exp.EQ):
        return _among(column, [_value(node.expression, column.kind)])
    return _bound(type(node), column, _value(node.expression, column.kind))


def _among(column: PinotColumn, values: Sequence[Any]) -> exp.Expr:
    """The column has one of some values."""
    if column.kind == "date" and column.in_milliseconds:
        return exp.or_(*(exp.and_(_bound(exp.GTE, column, day), _bound(exp.LTE, column, day)) for day in values))
    if column.kind == "timestamp":
        values = [whole for whole, rest in map(milliseconds, values) if not rest]
    listed = [_literal(value, column) for value in values]
    if not listed:
        return exp.and_(_absent(column), _present(column))
    if len(listed) == 1:
        return exp.EQ(this=_compared(column), expression=listed[0])
    return exp.In(this=_compared(column), expressions=listed)


def _compared(column: PinotColumn) -> exp.Expr:
    """A column as it is compared. A sum is not looked up in the column's dictionary."""
    plain = _bare(column)
    return exp.Add(this=plain, expression=whole_literal(0)) if column.kind == "number" else plain


def _bound(kind: type[exp.Expr], column: PinotColumn, value: Any) -> exp.Expr:
    """The column is below or above a value."""
    if kind not in _FLIPPED:
        raise Untranslatable
    if column.in_milliseconds:
        whole, rest = milliseconds(value)
        if column.kind == "date" and kind in (exp.LTE, exp.GT):  # the end of the day
            kind, whole = (exp.LT if kind is exp.LTE else exp.GTE), whole + DAY_MS
        elif rest:  # between two milliseconds: on no value
            kind = exp.LTE if kind in (exp.LT, exp.LTE) else exp.GT
        return kind(this=_bare(column), expression=whole_literal(whole))
    if column.kind == "number" and kind in (exp.GT, exp.GTE):  # all that is not below, and NaN is not
        return exp.Not(this=exp.Paren(this=_bound(_FLIPPED[kind], column, value)))
    return kind(this=_compared(column), expression=_literal(value, column))


def _literal(value: Any, column: PinotColumn) -> exp.Expr:
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if column.kind == "number":
        return exp.Literal.string(repr(float(value)))
    if isinstance(value, int):
        return whole_literal(value)
    return exp.Literal.string(value.isoformat() if isinstance(value, date) else str(value))


def _value(node: exp.Expr, kind: str) -> Any:
    """The value that a literal stands for, in a comparison with a column of this kind."""
    sign = 1
    while isinstance(node, exp.Cast | exp.Paren | exp.Neg | exp.TimeStrToTime | exp.DateStrToDate):
        sign, node = (-sign if isinstance(node, exp.Neg) else sign), node.this
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        raise Untranslatable
    try:
        if kind == "date":
            return date.fromisoformat(node.name)
        if kind == "timestamp":
            return datetime.fromisoformat(node.name)
        if kind in ("integer", "number"):
            number = sign * Fraction(node.name)
            return int(number) if number.denominator == 1 else number
    except ValueError:
        raise Untranslatable from None
    return node.name
