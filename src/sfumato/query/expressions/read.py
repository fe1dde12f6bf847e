"""From nodes of SQL to trees: every function of the closed list, in each of its spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import exp

from sfumato.errors import NotSupported, find_nearest
from sfumato.query.expressions.build import FALSE, NULL, TRUE, apply, apply_cast, value_of
from sfumato.query.expressions.tree import LOOKUP, ColumnValue, Constant, Expression, LookedUp, look_up, spell
from sfumato.query.public import PublicTable
from sfumato.query.values import read_value
from sfumato.types import MAX_INTEGER, TYPES, Type


@dataclass(frozen=True, slots=True)
class ExpressionReader:
    """Reads expressions of one table: `find` gives what a name means, `today` is what CURRENT_DATE is.

    `public` are the public tables that can be looked up.
    """

    find: Callable[[exp.Column], Expression]
    today: date | None
    public: Mapping[str, PublicTable] = field(default_factory=dict)

    def read(self, node: exp.Expr) -> Expression:
        """The tree of a node, or a refusal that says what is there."""
        if isinstance(node, exp.Paren):
            return self.read(node.this)
        if isinstance(node, exp.Column):
            return self.find(node)
        if isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.CurrentDate):
            return self._constant(node)
        if type(node) in _SIMPLE and not _extras(node, _SIMPLE[type(node)][1]):
            name, arguments = _SIMPLE[type(node)]
            return apply(name, *(self.read(node.args[each]) for each in arguments if node.args.get(each) is not None))
        reader = _READERS.get(type(node))
        if reader is None:
            raise _unknown(node)
        return reader(self, node)

    def _constant(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Null):
            return NULL
        if isinstance(node, exp.Boolean):
            return TRUE if node.this else FALSE
        if isinstance(node, exp.Literal):
            return Constant(read_value("an expression", "text", node.this), "text") if node.is_string else _number(node)
        if self.today is None:
            raise NotSupported(
                "CURRENT_DATE is the day of the table's data version, and this version has none; write the date: "
                "DATE '2026-11-15'"
            )
        return Constant(self.today, "date")


def day_of(version: str) -> date | None:
    """The day of a data version, None where it has no day: a week, a month, or a name that the owner chose."""
    kind, _, text = version.partition(" ")
    if kind in ("daily", "hourly", "value"):
        with suppress(ValueError):
            return date.fromisoformat(text[:10] if kind == "hourly" else text)
    return None


def _number(node: exp.Literal) -> Constant:
    """1 is a whole number, and 1.0 is none."""
    try:
        number = Decimal(node.this)
    except InvalidOperation:
        raise NotSupported(f"{node.this[:40]} is not a number that can be computed with") from None
    if node.this.isdigit() and number <= MAX_INTEGER:
        return Constant(int(number), "integer")
    return Constant(read_value("an expression", "number", number), "number")


def _extras(node: exp.Expr, known: tuple[str, ...]) -> bool:
    """Whether a node has a clause that would change what it means."""
    harmless = {*known, "safe", "typed", "negate", "big_int"}
    return any(value for clause, value in node.args.items() if clause not in harmless)


def _unknown(node: exp.Expr) -> NotSupported:
    if isinstance(node, exp.AggFunc):
        return NotSupported(f"{node.sql_name()} counts rows, and cannot stand in an expression of one row")
    if isinstance(node, exp.Anonymous | exp.Func):
        name = str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.casefold() in ("now", "today", "getdate", "current_timestamp"):
            way_out = "write CURRENT_DATE, the day of the data version, or a date"
            return NotSupported(f"{name[:40]} would be another question every time; {way_out}")
        there_is = f"{name[:40]} is not a function of one row here; there is {', '.join(WORDS)}"
        return NotSupported(there_is, nearest=find_nearest(name.casefold(), WORDS))
    return NotSupported(
        "this is not supported yet in an expression of one row: there are columns, literals, operators, CASE, and the "
        f"functions {', '.join(WORDS)}"
    )


def _swapped(name: str) -> Callable[[ExpressionReader, exp.Expr], Expression]:
    return lambda reader, node: apply(name, reader.read(node.expression), reader.read(node.this))


def _read_is(reader: ExpressionReader, node: exp.Expr) -> Expression:
    tree, other = reader.read(node.this), reader.read(node.expression)
    if other == NULL:
        return apply("is null", tree)
    if other in (TRUE, FALSE):  # never NULL
        return apply("coalesce", apply("=", tree, other), FALSE)
    raise NotSupported("IS takes NULL, NOT NULL, TRUE or FALSE")


def _read_is_same(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """IS [NOT] DISTINCT FROM, which is never NULL: NULL is the same as NULL."""
    one, other = reader.read(node.this), reader.read(node.expression)
    if NULL in (one, other):
        same = apply("is null", other if one == NULL else one)
    else:
        both = apply("and", apply("is null", one), apply("is null", other))
        same = apply("or", apply("coalesce", apply("=", one, other), FALSE), both)
    return same if isinstance(node, exp.NullSafeEQ) else apply("not", same)


def _read_like(reader: ExpressionReader, node: exp.Expr) -> Expression:
    like, escape = (node.this, [reader.read(node.expression)]) if isinstance(node, exp.Escape) else (node, [])
    if not isinstance(like, exp.Like | exp.ILike):
        raise _unknown(node)
    tree, pattern = reader.read(like.this), reader.read(like.expression)
    if isinstance(like, exp.ILike):
        tree, pattern = apply("lower", tree), apply("lower", pattern)
        escape = [apply("lower", each) for each in escape]
    made = apply("like", tree, pattern, *escape)
    return apply("not", made) if like.args.get("negate") else made


def _read_in(reader: ExpressionReader, node: exp.Expr) -> Expression:
    if _extras(node, ("this", "expressions")):
        raise NotSupported("IN takes a list of literals")
    return apply("in", reader.read(node.this), *map(reader.read, node.expressions))


def _read_between(reader: ExpressionReader, node: exp.Expr) -> Expression:
    if _extras(node, ("this", "low", "high")):
        raise NotSupported("BETWEEN takes two values, the lowest first")
    tree = reader.read(node.this)
    low, high = reader.read(node.args["low"]), reader.read(node.args["high"])
    return apply("and", apply("<=", low, tree), apply("<=", tree, high))


def _read_case(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """CASE with conditions, or with values that one expression is compared with; also IF."""
    branches = [node] if isinstance(node, exp.If) else node.args["ifs"]
    compared = node.this if isinstance(node, exp.Case) else None
    arguments: list[Expression] = []
    for branch in branches:
        condition = reader.read(branch.this)
        if compared is not None:
            condition = apply("=", reader.read(compared), condition)
        arguments += [condition, reader.read(branch.args["true"])]
    default = node.args.get("false" if isinstance(node, exp.If) else "default")
    return apply("case", *arguments, NULL if default is None else reader.read(default))


def _read_concat(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """CONCAT leaves NULL out, as databases do; || does not."""
    empty = Constant("", "text")
    return apply("||", *(apply("coalesce", reader.read(each), empty) for each in node.expressions))


def _read_trim(reader: ExpressionReader, node: exp.Expr) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "trim")
    signs = [] if node.expression is None or not node.args.get("expression") else [reader.read(node.expression)]
    return apply(name, reader.read(node.this), *signs)


def _read_left(reader: ExpressionReader, node: exp.Expr) -> Expression:
    return apply("substr", reader.read(node.this), Constant(1, "integer"), reader.read(node.expression))


def _read_coalesce(reader: ExpressionReader, node: exp.Expr) -> Expression:
    return apply("coalesce", *map(reader.read, [node.this, *node.expressions]))


def _read_sum(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """+ and -, also of an interval."""
    one, other = node.this, node.expression
    if isinstance(one, exp.Interval) and isinstance(node, exp.Add):
        one, other = other, one
    if isinstance(other, exp.Interval):
        return _add_interval(reader, one, other, -1 if isinstance(node, exp.Sub) else 1)
    return apply("+" if isinstance(node, exp.Add) else "-", reader.read(one), reader.read(other))


def _add_interval(reader: ExpressionReader, at: exp.Expr, interval: exp.Expr, sign: int) -> Expression:
    amount = reader.read(interval.this)
    if isinstance(amount, Constant) and amount.type == "text":
        amount = apply_cast(amount, "integer")
    count = value_of(amount)
    if not isinstance(count, int) or not interval.text("unit"):
        raise NotSupported("an interval is a literal whole number and a unit: INTERVAL '7' DAY")
    tree = reader.read(at)
    if isinstance(tree, Constant) and tree.type == "text":
        tree = Constant(read_value("an interval is added to something, and it", "date", tree.value), "date")
    return apply("+ interval", tree, Constant(sign * count, "integer"), Constant(interval.text("unit"), "text"))


def _read_negative(reader: ExpressionReader, node: exp.Expr) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        number = _number(node.this)
        return Constant(-number.value, number.type) if isinstance(number.value, int | Fraction) else number
    return apply("-", Constant(0, "integer"), reader.read(node.this))


def _read_date_trunc(reader: ExpressionReader, node: exp.Expr) -> Expression:
    at = reader.read(node.this)
    if isinstance(at, Constant) and at.type == "text":
        at = Constant(read_value("DATE_TRUNC", "timestamp", at.value), "timestamp")
    return apply("date_trunc", Constant(node.text("unit"), "text"), at)


def _read_extract(reader: ExpressionReader, node: exp.Expr) -> Expression:
    return apply("extract", Constant(node.this.name, "text"), reader.read(node.expression))


def _part(word: str) -> Callable[[ExpressionReader, exp.Expr], Expression]:
    return lambda reader, node: apply("extract", Constant(word, "text"), reader.read(node.this))


def _read_anonymous(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """Functions that the parser has no node of its own for."""
    name, arguments = str(node.this).casefold(), node.expressions
    if name in ("dow", "isodow", "doy") and len(arguments) == 1:
        return apply("extract", Constant(name, "text"), reader.read(arguments[0]))
    if name in ("date_part", "datepart") and len(arguments) == 2:
        return apply("extract", reader.read(arguments[0]), reader.read(arguments[1]))
    if name == LOOKUP:
        return _read_lookup(reader, arguments)
    raise _unknown(node)


def _read_lookup(reader: ExpressionReader, arguments: list[exp.Expr]) -> Expression:
    """`lookup(item, items.category)`, which is what a column of a public table is in a request."""
    column = arguments[-1] if len(arguments) == 2 else None
    if not isinstance(column, exp.Column) or not column.table or column.db:
        raise NotSupported(f"{LOOKUP} takes a column, and the column of a public table: {LOOKUP}(item, items.category)")
    return find_lookup(reader.read(arguments[0]), column.table, column.name, reader.public)


def find_lookup(key: Expression, table: str, column: str, public: Mapping[str, PublicTable]) -> LookedUp:
    """The look-up of a column of a public table by a key, if both are there and the key is of the right type."""
    found = next((each for each in public.values() if each.name.casefold() == table.casefold()), None)
    if found is None:
        near = find_nearest(table, public)
        there = "" if near else f"; there is {', '.join(public) or 'none'}"
        raise NotSupported(f"there is no public table {table[:60]!r} beside this one{there}", nearest=near)
    name = found.column(column)
    if name is None:
        near = find_nearest(column, found.columns)
        raise NotSupported(f"{found.name} has no column {column[:60]!r}", nearest=near, unknown=column)
    if not isinstance(key, ColumnValue | LookedUp):
        raise NotSupported(f"a public table is looked up by a column, and {spell(key)[:60]} is an expression")
    if key.type != found.columns[found.key]:
        kinds = f"{spell(key)[:60]} holds {TYPES[key.type].words}, and {found.name}.{found.key} holds"
        raise NotSupported(f"{kinds} {TYPES[found.columns[found.key]].words}; ask the owner for a view that casts one")
    return look_up(key, found, name)


_CAST_TYPES: Mapping[exp.DType, Type] = {
    **dict.fromkeys((exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR), "text"),
    **dict.fromkeys((exp.DataType.Type.INT, exp.DataType.Type.BIGINT), "integer"),
    exp.DataType.Type.DOUBLE: "number",
    exp.DataType.Type.DATE: "date",
    exp.DataType.Type.TIMESTAMP: "timestamp",
}


def _read_cast(reader: ExpressionReader, node: exp.Expr) -> Expression:
    """A cast is NULL where it does not fit. A literal that does not fit is refused."""
    kind = _CAST_TYPES.get(node.args["to"].this)
    if kind is None or node.args["to"].expressions or _extras(node, ("this", "to")):
        raise NotSupported("a cast leads to VARCHAR, INTEGER, BIGINT, DOUBLE, DATE or TIMESTAMP here, without a length")
    tree = reader.read(node.this)
    found = apply_cast(tree, kind)
    if isinstance(found, Constant) and found.value is None and tree != NULL:
        if kind in ("date", "timestamp") and isinstance(tree, Constant) and tree.type == "text":
            return Constant(read_value("an expression", kind, tree.value), kind)
        raise NotSupported(f"the literal does not fit into {kind}, so the cast is always NULL")
    return found


def _read_date(reader: ExpressionReader, node: exp.Expr) -> Expression:
    if _extras(node, ("this",)):
        raise _unknown(node)
    return apply_cast(reader.read(node.this), "date")


_SIMPLE: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substr", ("this", "start", "length")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.DPipe: ("||", ("this", "expression")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")),
    exp.Div: ("/", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Abs: ("abs", ("this",)),
    exp.WidthBucket: ("width_bucket", ("this", "min_value", "max_value", "num_buckets")),
    exp.EQ: ("=", ("this", "expression")),
    exp.LT: ("<", ("this", "expression")),
    exp.LTE: ("<=", ("this", "expression")),
    exp.And: ("and", ("this", "expression")),
    exp.Or: ("or", ("this", "expression")),
    exp.Not: ("not", ("this",)),
}

_READERS: Mapping[type[exp.Expr], Callable[[ExpressionReader, exp.Expr], Expression]] = {
    exp.GT: _swapped("<"),
    exp.GTE: _swapped("<="),
    exp.NEQ: lambda reader, node: apply("not", apply("=", reader.read(node.this), reader.read(node.expression))),
    exp.Is: _read_is,
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _read_is_same),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Escape), _read_like),
    exp.In: _read_in,
    exp.Between: _read_between,
    **dict.fromkeys((exp.Case, exp.If), _read_case),
    exp.Concat: _read_concat,
    exp.Trim: _read_trim,
    exp.Left: _read_left,
    exp.Coalesce: _read_coalesce,
    **dict.fromkeys((exp.Add, exp.Sub), _read_sum),
    exp.Neg: _read_negative,
    **dict.fromkeys((exp.DateTrunc, exp.TimestampTrunc), _read_date_trunc),
    exp.Extract: _read_extract,
    **{
        kind: _part(word)
        for kind, word in {
            exp.Year: "year",
            exp.Quarter: "quarter",
            exp.Month: "month",
            exp.Week: "week",
            exp.WeekOfYear: "week",
            exp.Day: "day",
            exp.DayOfMonth: "day",
            exp.DayOfYear: "doy",
            exp.DayOfWeek: "dow",
            exp.DayOfWeekIso: "isodow",
            exp.Hour: "hour",
            exp.Minute: "minute",
            exp.Second: "second",
        }.items()
    },
    **dict.fromkeys((exp.Cast, exp.TryCast), _read_cast),
    exp.Date: _read_date,
    exp.Anonymous: _read_anonymous,
}

WORDS = (
    *("abs", "case", "cast", "ceil", "coalesce", "concat", "current_date", "date_trunc", "extract", "floor", "ilike"),
    *("length", "like", "lower", "ltrim", "nullif", "round", "rtrim", "starts_with", "substr", "trim", "upper"),
    *("width_bucket", "year", "quarter", "month", "week", "day", "dow", "hour"),
)
