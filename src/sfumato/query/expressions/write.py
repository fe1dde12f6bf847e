"""An expression of one row as a tree of SQL, which means the same in every engine that has its functions.

No row makes it fail. Columns are read within the ranges of `functions`, in a CASE, because an engine may compute what
stands in a CASE only for the rows that get there. Whole numbers are added and multiplied in 128 bits, and come back
into 64 where they fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from sfumato.query.expressions.functions import (
    DATE_TEXT,
    MAX_NUMBER,
    MAX_TEXT_READ,
    MAX_WHOLE,
    MIN_MOMENT,
    MIN_WHOLE,
    MOMENT_TEXT,
    NUMBER_TEXT,
    WHOLE_TEXT,
)
from sfumato.query.expressions.functions import MAX_MOMENT as LAST
from sfumato.query.expressions.tree import Applied, ColumnValue, Constant, Expression, LookedUp, spell
from sfumato.query.literals import column_of, literal, whole_literal
from sfumato.types import MAX_INTEGER, Type

Node: TypeAlias = exp.Expr

LOOKED_UP = "sfumato_lookup_"

WIDE_WHOLE = exp.DataType.build("INT128")

_TYPES: Mapping[Type, exp.DataType] = {
    "text": exp.DataType.build("TEXT"),
    "integer": exp.DataType.build("BIGINT"),
    "number": exp.DataType.build("DOUBLE"),
    "boolean": exp.DataType.build("BOOLEAN"),
    "date": exp.DataType.build("DATE"),
    "timestamp": exp.DataType.Type.TIMESTAMPNTZ.into_expr(),
}
_TEXTS: Mapping[Type, str] = {
    "integer": WHOLE_TEXT,
    "number": NUMBER_TEXT,
    "date": DATE_TEXT,
    "timestamp": MOMENT_TEXT,
}


def write_expression(tree: Expression) -> Node:
    """The tree as SQL."""
    if isinstance(tree, ColumnValue):
        return _read_column(tree)
    if isinstance(tree, Constant):
        return _constant(tree)
    if isinstance(tree, LookedUp):
        return _read_column(ColumnValue(lookup_name(tree), tree.type))
    if tree.function == "is null" and isinstance(tree.arguments[0], ColumnValue):
        return exp.Is(this=column_of(tree.arguments[0].name), expression=exp.Null())
    if tree.function == "cast":
        return _cast(tree.arguments[0].type, tree.type, write_expression(tree.arguments[0]))
    arguments = [write_expression(argument) for argument in tree.arguments]
    written = _WRITERS[tree.function](tree, [exp.paren(each) if _is_open(each) else each for each in arguments])
    if tree.function in _MAY_OVERFLOW:
        return _within(written, tree.type)
    return written


def lookup_name(tree: LookedUp) -> str:
    """What a query calls the column of a look-up: one name per look-up, which every engine takes."""
    return f"{LOOKED_UP}{hashlib.sha256(spell(tree).encode()).hexdigest()[:16]}"


def written_size(tree: Expression) -> int:
    """About how many nodes `write_expression` makes of a tree: what is looked at twice is written twice."""
    if not isinstance(tree, Applied):
        return 8
    return 6 + _TIMES.get(tree.function, 1) * sum(map(written_size, tree.arguments))


def _is_open(node: Node) -> bool:
    return isinstance(node, exp.Binary | exp.Unary | exp.Between | exp.In | exp.Escape) and not isinstance(
        node, exp.Paren | exp.Dot
    )


def _read_column(tree: ColumnValue) -> Node:
    column = column_of(tree.name)
    if tree.type == "boolean":
        return column
    if tree.type == "text":
        short = exp.LTE(this=exp.Length(this=column), expression=exp.Literal.number(MAX_TEXT_READ))
        return _when(short, column.copy())
    return _within(column, tree.type)


def _within(value: Node, kind: Type) -> Node:
    """The value, or NULL where it is out of the range of its type."""
    ends: tuple[Node, Node]
    if kind == "number":
        largest = exp.cast(exp.Literal.number(f"{MAX_NUMBER:.0e}".replace("+", "")), _TYPES["number"])
        ends = exp.Neg(this=largest), largest.copy()
    elif kind == "integer":
        ends = whole_literal(MIN_WHOLE), whole_literal(MAX_WHOLE)
    elif kind == "date":
        ends = literal(MIN_MOMENT.date()), literal(LAST.date())
    else:
        ends = literal(MIN_MOMENT), literal(LAST)
    operand = exp.paren(value) if _is_open(value) else value
    inside = exp.Between(this=operand, low=ends[0], high=ends[1])
    return _when(inside, exp.cast(value.copy(), _TYPES[kind]))


def _when(condition: Node, value: Node) -> Node:
    """The value where the condition holds, otherwise NULL."""
    return exp.Case(ifs=[exp.If(this=condition, true=value)])


def _constant(tree: Constant) -> Node:
    if tree.value is None:
        return exp.cast(exp.Null(), _TYPES[tree.type])
    return exp.cast(literal(tree.value), _TYPES["integer"]) if tree.type == "integer" else literal(tree.value)


def _cast(start: Type, to: Type, value: Node) -> Node:
    if start == "text":
        matched = exp.RegexpExtract(this=value, expression=exp.Literal.string(_TEXTS[to]))
        return exp.TryCast(this=matched, to=_TYPES[to])
    if (start, to) == ("number", "integer"):
        limit = exp.cast(whole_literal(MAX_INTEGER), _TYPES["number"])
        operand = exp.paren(value) if _is_open(value) else value
        above = exp.GTE(this=operand, expression=exp.Neg(this=limit))
        below = exp.LT(this=operand.copy(), expression=limit.copy())
        return _when(exp.and_(above, below), exp.cast(value.copy(), _TYPES[to]))
    if (start, to) == ("boolean", "integer"):
        value = exp.cast(value, "INT")  # PostgreSQL knows no other way
    return exp.cast(value, _TYPES[to])


def _case(tree: Applied, arguments: Sequence[Node]) -> Node:
    pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
    return exp.Case(ifs=[exp.If(this=condition, true=result) for condition, result in pairs], default=arguments[-1])


def _whole(tree: Applied, place: int) -> int:
    """An argument that is always a literal whole number."""
    argument = tree.arguments[place]
    return argument.value if isinstance(argument, Constant) and isinstance(argument.value, int) else 0


def _trim(position: str | None) -> Callable[[Applied, Sequence[Node]], Node]:
    return lambda tree, arguments: exp.Trim(this=arguments[0], expression=arguments[1], position=position)


def _like(tree: Applied, arguments: Sequence[Node]) -> Node:
    like = exp.Like(this=arguments[0], expression=arguments[1])
    return exp.Escape(this=like, expression=exp.Literal.string("\\")) if "\\" in arguments[1].name else like


def _chain(kind: type[exp.Binary]) -> Callable[[Applied, Sequence[Node]], Node]:
    def write(tree: Applied, arguments: Sequence[Node]) -> Node:
        first, *rest = arguments
        for argument in rest:
            first = kind(this=first, expression=argument)
        return first

    return write


def _arithmetic(kind: type[exp.Binary]) -> Callable[[Applied, Sequence[Node]], Node]:
    """In 128 bits for whole numbers."""

    def write(tree: Applied, arguments: Sequence[Node]) -> Node:
        if tree.arguments[0].type == "date":
            return exp.cast(kind(this=arguments[0], expression=arguments[1]), _TYPES["integer"])
        one, other = (exp.cast(each, WIDE_WHOLE) if tree.type == "integer" else each for each in arguments)
        return kind(this=one, expression=other)

    return write


def _remainder(tree: Applied, arguments: Sequence[Node]) -> Node:
    one, other = arguments
    zero = exp.Literal.number(0) if tree.type == "integer" else exp.cast(exp.Literal.number(0), _TYPES["number"])
    return _when(exp.NEQ(this=other, expression=zero), exp.Mod(this=one, expression=other.copy()))


def _round(tree: Applied, arguments: Sequence[Node]) -> Node:
    count = _whole(tree, 1)
    if not count:
        return exp.Round(this=arguments[0])
    scale = exp.cast(exp.Literal.number(f"1e{abs(count)}"), _TYPES["number"])
    grow, shrink = (exp.Mul, _quotient) if count > 0 else (_quotient, exp.Mul)
    scaled = exp.Round(this=grow(this=arguments[0], expression=scale))
    return shrink(this=scaled, expression=scale.copy())


def _quotient(this: Node, expression: Node) -> Node:
    return exp.Div(this=this, expression=expression, typed=False, safe=False)


def _width_bucket(tree: Applied, arguments: Sequence[Node]) -> Node:
    number, low, high, count = arguments
    place = _quotient(
        exp.Mul(
            this=exp.paren(exp.Sub(this=number, expression=low)),
            expression=exp.cast(count, _TYPES["number"]),
        ),
        exp.paren(exp.Sub(this=high.copy(), expression=low.copy())),
    )
    inside = exp.func(
        "LEAST",
        count.copy(),
        exp.Add(this=exp.cast(exp.Floor(this=exp.paren(place)), _TYPES["integer"]), expression=exp.Literal.number(1)),
    )
    return exp.Case(
        ifs=[
            exp.If(
                this=exp.LT(this=number.copy(), expression=low.copy()), true=exp.cast(exp.Literal.number(0), "BIGINT")
            ),
            exp.If(this=exp.LT(this=number.copy(), expression=high.copy()), true=inside),
            exp.If(
                this=exp.GTE(this=number.copy(), expression=high.copy()),
                true=exp.Add(this=count.copy(), expression=exp.Literal.number(1)),
            ),
        ]
    )


def _date_trunc(tree: Applied, arguments: Sequence[Node]) -> Node:
    at = exp.cast(arguments[1], _TYPES["timestamp"])
    return exp.cast(exp.TimestampTrunc(this=at, unit=exp.var(arguments[0].name)), _TYPES[tree.type])


def _extract(tree: Applied, arguments: Sequence[Node]) -> Node:
    part: Node = exp.Extract(this=exp.var(arguments[0].name), expression=arguments[1])
    return exp.cast(exp.Floor(this=part) if arguments[0].name == "second" else part, _TYPES["integer"])


def _add_interval(tree: Applied, arguments: Sequence[Node]) -> Node:
    interval = exp.Interval(this=exp.Literal.string(str(_whole(tree, 1))), unit=exp.var(arguments[2].name))
    moment = exp.cast(arguments[0], _TYPES["timestamp"])
    return exp.Add(this=moment, expression=interval)


_MAY_OVERFLOW = frozenset(("+", "-", "*", "/", "round", "abs", "+ interval"))

_TIMES = {**dict.fromkeys((*_MAY_OVERFLOW, "%", "nullif", "cast"), 2), "width_bucket": 5}
"""How often a function writes its arguments."""

_WRITERS: Mapping[str, Callable[[Applied, Sequence[Node]], Node]] = {
    "lower": lambda tree, arguments: exp.Lower(this=arguments[0]),
    "upper": lambda tree, arguments: exp.Upper(this=arguments[0]),
    "trim": _trim(None),
    "ltrim": _trim("LEADING"),
    "rtrim": _trim("TRAILING"),
    "substr": lambda tree, arguments: exp.Substring(
        this=arguments[0], start=whole_literal(_whole(tree, 1)), length=whole_literal(_whole(tree, 2))
    ),
    "length": lambda tree, arguments: exp.cast(exp.Length(this=arguments[0]), _TYPES["integer"]),
    "starts_with": lambda tree, arguments: exp.StartsWith(this=arguments[0], expression=arguments[1]),
    "like": _like,
    "||": _chain(exp.DPipe),
    "coalesce": lambda tree, arguments: exp.Coalesce(this=arguments[0], expressions=[*arguments[1:]]),
    "nullif": lambda tree, arguments: exp.Nullif(this=arguments[0], expression=arguments[1]),
    "case": _case,
    "is null": lambda tree, arguments: exp.Is(this=arguments[0], expression=exp.Null()),
    "not": lambda tree, arguments: exp.Not(this=arguments[0]),
    "and": _chain(exp.And),
    "or": _chain(exp.Or),
    "=": _chain(exp.EQ),
    "<": _chain(exp.LT),
    "<=": _chain(exp.LTE),
    "in": lambda tree, arguments: exp.In(this=arguments[0], expressions=[*arguments[1:]]),
    "+": _arithmetic(exp.Add),
    "-": _arithmetic(exp.Sub),
    "*": _arithmetic(exp.Mul),
    "/": lambda tree, arguments: _quotient(arguments[0], arguments[1]),
    "%": _remainder,
    "floor": lambda tree, arguments: exp.Floor(this=arguments[0]),
    "ceil": lambda tree, arguments: exp.Ceil(this=arguments[0]),
    "round": _round,
    "abs": lambda tree, arguments: exp.Abs(this=arguments[0]),
    "width_bucket": _width_bucket,
    "date_trunc": _date_trunc,
    "extract": _extract,
    "+ interval": _add_interval,
}
