"""Makes trees: the types of arguments are checked, constants are folded, and one meaning gets one form where it is
certain that it is one.

`a > b` is `b < a`, `a <> b` is `NOT (a = b)`, sums and products have their terms in one order, AND and OR are flat, and
a pattern without wildcards is an equality.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

from sfumato.errors import NotSupported
from sfumato.query.expressions.functions import (
    CASTS,
    DAY_UNITS,
    MAX_INTERVAL,
    MAX_WHOLE,
    NULL_TAKING,
    PARTS,
    TIME_PARTS,
    UNITS,
    evaluate,
    pattern_pieces,
    policy_value,
)
from sfumato.query.expressions.tree import Applied, Constant, Expression, spell
from sfumato.query.values import check_no_date, read_value
from sfumato.types import MAX_TEXT, TYPES, Type, Value

NULL = Constant(None, "text")
TRUE, FALSE = Constant(True, "boolean"), Constant(False, "boolean")

_SIGNATURES: Mapping[str, Sequence[tuple[tuple[Type, ...], Type]]] = {
    **dict.fromkeys(("lower", "upper"), ((("text",), "text"),)),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), ((("text", "text"), "text"),)),
    "substr": [(("text", "integer", "integer"), "text")],
    "length": [(("text",), "integer")],
    **dict.fromkeys(("starts_with", "like"), ((("text", "text"), "boolean"),)),
    "/": [(("number", "number"), "number")],
    **dict.fromkeys(("+", "*", "%"), ((("integer", "integer"), "integer"), (("number", "number"), "number"))),
    "-": [
        (("integer", "integer"), "integer"),
        (("number", "number"), "number"),
        (("date", "date"), "integer"),
    ],
    "abs": ((("integer",), "integer"), (("number",), "number")),
    **dict.fromkeys(("floor", "ceil"), ((("integer",), "integer"), (("number",), "number"))),
    "round": [(("number", "integer"), "number")],
    "width_bucket": [(("number", "number", "number", "integer"), "integer")],
    "not": [(("boolean",), "boolean")],
    **dict.fromkeys(("date_trunc", "extract"), ((("text", "date"), "date"), (("text", "timestamp"), "timestamp"))),
    "+ interval": [(("date", "integer", "text"), "date"), (("timestamp", "integer", "text"), "timestamp")],
}


def apply(name: str, *arguments: Expression) -> Expression:
    """The canonical tree of a function and its arguments."""
    made = _SPECIAL[name](*arguments) if name in _SPECIAL else _apply(name, *arguments)
    if not isinstance(made, Applied):
        return made
    if all(isinstance(argument, Constant) for argument in made.arguments):
        return _constant(evaluate(made, {}), made.type)
    if made.function not in {*NULL_TAKING, "case"} and any(map(is_null, made.arguments)):
        return Constant(None, made.type)
    return made


def is_null(tree: Expression) -> bool:
    return isinstance(tree, Constant) and tree.value is None


def convert(tree: Expression, to: Type) -> Expression:
    """The tree in another type."""
    if tree.type == to:
        return tree
    if is_null(tree):
        return Constant(None, to)
    if isinstance(tree, Constant) and tree.type == "text" and to in ("date", "timestamp"):
        return Constant(read_value("an expression", to, tree.value), to)
    return apply_cast(tree, to)


def apply_cast(tree: Expression, to: Type) -> Expression:
    """CAST: NULL where the text is no such value."""
    if tree.type == to:
        return tree
    if is_null(tree):
        return Constant(None, to)
    if (tree.type, to) not in CASTS:
        raise NotSupported(f"{TYPES[tree.type].words} cannot be cast to {to} here")
    made = Applied("cast", (tree,), to)
    return _constant(evaluate(made, {}), to) if isinstance(tree, Constant) else made


def unify(trees: Sequence[Expression], what: str) -> list[Expression]:
    """The trees in the one type that they have in common."""
    types = {tree.type for tree in trees if not is_null(tree)}
    written = {tree.type for tree in trees if not isinstance(tree, Constant)}
    if len(types) > 1 and "text" in types and "text" not in written and types - {"text"} <= {"date", "timestamp"}:
        types -= {"text"}  # the text is the literal of a day or a moment
    if not types:
        raise NotSupported(f"{what} has nothing but NULL")
    wider: dict[frozenset[Type], Type] = {
        frozenset(("integer", "number")): "number",
        frozenset(("date", "timestamp")): "timestamp",
    }
    common = next(iter(types)) if len(types) == 1 else wider.get(frozenset(types))
    if common is None:
        raise NotSupported(f"{what} takes values of one type, not {' and '.join(sorted(types))}; use CAST")
    return [convert(tree, common) for tree in trees]


def _constant(cell: object, kind: Type) -> Constant:
    if cell is None:
        return Constant(None, kind)
    value: Value = policy_value(cell)
    with suppress(NotSupported):
        return Constant(read_value("the result", kind, value), kind)
    raise NotSupported("a constant in an expression has more digits or characters than are compared")


def _apply(name: str, *arguments: Expression) -> Expression:
    """By the first signature that fits; whole numbers are numbers too, and days are moments."""
    for widen in (False, True):
        for takes, gives in _SIGNATURES[name]:
            if len(takes) == len(arguments) and all(
                argument.type == kind or is_null(argument) or (widen and (argument.type, kind) == ("integer", "number"))
                for argument, kind in zip(arguments, takes, strict=True)
            ):
                converted = tuple(convert(argument, kind) for argument, kind in zip(arguments, takes, strict=True))
                return Applied(name, converted, gives)
    takes = _SIGNATURES[name][-1][0]
    given = ", ".join(argument.type for argument in arguments)
    raise NotSupported(f"{name} takes {', '.join(takes)} here, not {given or 'nothing'}")


def _text_of(tree: Expression, what: str) -> str:
    """A literal text."""
    if isinstance(tree, Constant) and isinstance(tree.value, str):
        return tree.value
    raise NotSupported(f"{what} must be a literal text, not a column: then it is known before a row is read")


def whole_of(tree: Expression, what: str, least: int, most: int) -> int:
    """A literal whole number."""
    value = tree.value if isinstance(tree, Constant) and tree.type == "integer" else None
    if isinstance(value, int) and least <= value <= most:
        return value
    raise NotSupported(f"{what} must be a literal whole number from {least} to {most}")


def _equal(one: Expression, other: Expression) -> Expression:
    one, other = unify([one, other], "=")
    if isinstance(one, Constant):
        one, other = other, one
    if isinstance(other, Constant) and isinstance(other.value, bool) and not isinstance(one, Constant):
        return one if other.value else apply("not", one)
    if not isinstance(other, Constant):
        one, other = sorted((one, other), key=spell)
    return Applied("=", (one, other), "boolean")


def _ordered(name: str) -> Callable[..., Expression]:
    def compare(one: Expression, other: Expression) -> Expression:
        unified = unify([one, other], name)
        if unified[0].type == "boolean":
            raise NotSupported("true and false have no order; compare them with = or <>")
        for column, bound in (unified, unified[::-1]):
            if column.type == "text" and isinstance(bound, Constant):
                check_no_date(spell(column), bound.value)
        return Applied(name, tuple(unified), "boolean")

    return compare


def _not(tree: Expression) -> Expression:
    if isinstance(tree, Applied) and tree.function == "not":
        return tree.arguments[0]
    return _apply("not", tree)


def _junction(name: str) -> Callable[..., Expression]:
    """AND or OR: flat, each part once, in one order, without the constants that change nothing."""
    neutral, final = (TRUE, FALSE) if name == "and" else (FALSE, TRUE)

    def join(*parts: Expression) -> Expression:
        found: dict[str, Expression] = {}
        for part in parts:
            if part.type != "boolean" and not is_null(part):
                raise NotSupported(f"{name.upper()} joins conditions, and {spell(part)[:60]} is none")
            inner = part.arguments if isinstance(part, Applied) and part.function == name else (part,)
            found |= {spell(each): convert(each, "boolean") for each in inner if each != neutral}
        if final in found.values():
            return final
        if len(found) <= 1:
            return next(iter(found.values()), neutral)
        return Applied(name, tuple(found[text] for text in sorted(found)), "boolean")

    return join


def _is_null(tree: Expression) -> Expression:
    if isinstance(tree, Constant):
        return TRUE if tree.value is None else FALSE
    return FALSE if is_never_null(tree) else Applied("is null", (tree,), "boolean")


def is_never_null(tree: Expression) -> bool:
    return (isinstance(tree, Constant) and tree.value is not None) or (
        isinstance(tree, Applied) and tree.function == "is null"
    )


def _in(tree: Expression, *values: Expression) -> Expression:
    if any(map(is_null, values)) or not all(isinstance(value, Constant) for value in values):
        raise NotSupported("IN takes a list of literals, without NULL")
    tree, *values_of_type = unify([tree, *values], "IN")
    distinct = {spell(value): value for value in values_of_type}
    if len(distinct) == 1:
        return apply("=", tree, values_of_type[0])
    return Applied("in", (tree, *(distinct[text] for text in sorted(distinct))), "boolean")


def _like(tree: Expression, pattern: Expression, escape: Expression | None = None) -> Expression:
    """The pattern in one form: its escape is the backslash, and it stands only where it is needed."""
    sign = "" if escape is None else _text_of(escape, "ESCAPE")
    if escape is not None and len(sign) != 1:
        raise NotSupported("ESCAPE takes one character, such as ESCAPE '!'")
    signs, text, is_escaped = list[str](), _text_of(pattern, "the pattern of LIKE"), False
    for each in text:
        if not is_escaped and each == sign:
            is_escaped = True
            continue
        if is_escaped and each not in ("%", "_", sign):
            raise NotSupported(f"in a pattern {sign} must stand before %, _ or itself")
        is_wild = each in "%_" and not is_escaped
        if not (is_wild and each == "%" and signs[-1:] == ["%"]):  # %% is %
            signs.append(each if is_wild or each not in "%_\\" else f"\\{each}")
        is_escaped = False
    if is_escaped:
        raise NotSupported(f"a pattern must not end with its escape {sign}")
    canonical = "".join(signs)
    if len(canonical) > MAX_TEXT:
        raise NotSupported(f"a pattern has at most {MAX_TEXT} characters")
    pieces = pattern_pieces(canonical)
    if "_" not in signs:
        plain = "".join(each[-1] for each in signs if each != "%")
        if len(pieces) == 1:
            return apply("=", tree, Constant(plain, "text"))
        if len(pieces) == 2 and not pieces[1]:
            return apply("starts_with", tree, Constant(plain, "text"))
    return _apply("like", tree, Constant(canonical, "text"))


def _concatenate(*texts: Expression) -> Expression:
    flat: list[Expression] = []
    for text in texts:
        if text.type != "text" and not is_null(text):
            raise NotSupported(f"|| joins text; write CAST({spell(text)[:60]} AS VARCHAR)")
        flat += text.arguments if isinstance(text, Applied) and text.function == "||" else (convert(text, "text"),)
    return flat[0] if len(flat) == 1 else Applied("||", tuple(flat), "text")


def _coalesce(*trees: Expression) -> Expression:
    kept: list[Expression] = []
    for tree in unify(trees, "COALESCE"):
        inner = tree.arguments if isinstance(tree, Applied) and tree.function == "coalesce" else (tree,)
        kept += [each for each in inner if not is_null(each) and each not in kept]
    end = next((place for place, each in enumerate(kept, 1) if is_never_null(each)), len(kept))
    return kept[0] if end == 1 else Applied("coalesce", tuple(kept[:end]), kept[0].type)


def _nullif(one: Expression, other: Expression) -> Expression:
    unified = unify([one, other], "NULLIF")
    return Applied("nullif", tuple(unified), unified[0].type)


def _case(*arguments: Expression) -> Expression:
    """Conditions and results in turn, and the result where no condition holds."""
    conditions, results = arguments[:-1:2], unify([*arguments[1:-1:2], arguments[-1]], "CASE")
    pairs: list[Expression] = []
    default = results[-1]
    for condition, result in zip(conditions, results[:-1], strict=True):
        if condition.type != "boolean" and not is_null(condition):
            raise NotSupported(f"WHEN takes a condition, and {spell(condition)[:60]} is none")
        if condition == TRUE:
            default = result
            break
        if condition != FALSE and not is_null(condition):
            pairs += [condition, result]
    return Applied("case", (*pairs, default), default.type) if pairs else default


def _sum_or_product(name: str) -> Callable[..., Expression]:
    def write(one: Expression, other: Expression) -> Expression:
        for at, days in ((one, other), (other, one)):
            if name == "+" and at.type in ("date", "timestamp") and isinstance(days, Constant) and at.type == "date":
                return apply("+ interval", at, days, Constant("DAY", "text"))
        made = _apply(name, one, other)
        if isinstance(made, Applied):
            return Applied(name, tuple(sorted(made.arguments, key=_constants_last)), made.type)
        return made

    return write


def _constants_last(tree: Expression) -> tuple[bool, str]:
    return isinstance(tree, Constant), spell(tree)


def _minus(one: Expression, other: Expression) -> Expression:
    amount = other.value if isinstance(other, Constant) and other.type in ("integer", "number") else None
    if (
        isinstance(amount, int | Fraction)
        and abs(Fraction(amount)) <= MAX_WHOLE
        and one.type in ("integer", "number", "date")
    ):
        return apply("+", one, Constant(-amount, other.type))
    if one.type == "date":
        other = convert(other, "date") if isinstance(other, Constant) else other
    return _apply("-", one, other)


def _substr(text: Expression, start: Expression, length: Expression | None = None) -> Expression:
    whole_of(start, "the start of SUBSTR", 1, 10_000)
    length = Constant(10_000, "integer") if length is None else length
    whole_of(length, "the length of SUBSTR", 0, 10_000)
    return _apply("substr", text, start, length)


def _trim(name: str) -> Callable[..., Expression]:
    def write(text: Expression, signs: Expression = Constant(" ", "text")) -> Expression:  # noqa: B008
        _text_of(signs, name.upper())
        return _apply(name, text, signs)

    return write


def _rounding(name: str) -> Callable[..., Expression]:
    """Whole numbers are whole already."""
    return lambda number: number if number.type == "integer" else _apply(name, number)


def _round(number: Expression, places: Expression = Constant(0, "integer")) -> Expression:  # noqa: B008
    whole_of(places, "the places of ROUND", -15, 15)
    if number.type == "integer" and isinstance(places, Constant) and places.value == 0:
        return number
    return _apply("round", number, places)


def _width_bucket(number: Expression, low: Expression, high: Expression, count: Expression) -> Expression:
    whole_of(count, "the number of buckets", 1, 10_000)
    low, high = convert(low, "number"), convert(high, "number")
    values = [end.value for end in (low, high) if isinstance(end, Constant) and isinstance(end.value, Fraction)]
    if len(values) < 2 or values[0] >= values[1]:
        raise NotSupported("WIDTH_BUCKET takes two literal numbers, the lower one first")
    return _apply("width_bucket", number, low, high, count)


def _date_trunc(unit: Expression, at: Expression) -> Expression:
    word = _text_of(unit, "the unit of DATE_TRUNC").lower()
    if word not in (DAY_UNITS if at.type == "date" else UNITS):
        units = ", ".join(DAY_UNITS if at.type == "date" else UNITS)
        raise NotSupported(f"DATE_TRUNC of {TYPES[at.type].words} takes one of {units}")
    if (word, at.type) == ("day", "date"):
        return at
    return _apply("date_trunc", Constant(word, "text"), at)


def _extract(part: Expression, at: Expression) -> Expression:
    word = _text_of(part, "the part of EXTRACT").lower()
    word = {"dayofweek": "dow", "dayofyear": "doy", "dayofweekiso": "isodow", "weekofyear": "week"}.get(word, word)
    known = [name for name in PARTS if at.type == "timestamp" or name not in TIME_PARTS]
    if word not in known:
        raise NotSupported(f"EXTRACT from {TYPES[at.type].words} takes one of {', '.join(known)}")
    made = _apply("extract", Constant(word, "text"), at)
    return Applied("extract", made.arguments, "integer") if isinstance(made, Applied) else made


def _add_interval(at: Expression, amount: Expression, unit: Expression) -> Expression:
    word = _text_of(unit, "the unit of INTERVAL").upper()
    word = word.removesuffix("S")
    days = {
        "YEAR": (12, "MONTH"),
        "QUARTER": (3, "MONTH"),
        "MONTH": (1, "MONTH"),
        "WEEK": (7, "DAY"),
        "DAY": (1, "DAY"),
    }
    times = {"HOUR": (3600, "SECOND"), "MINUTE": (60, "SECOND"), "SECOND": (1, "SECOND")}
    known = days if at.type == "date" else days | times
    if word not in known or at.type not in ("date", "timestamp"):
        raise NotSupported(f"an interval of {word.lower()} cannot be added to {TYPES[at.type].words}")
    factor, base = known[word]
    if at.type == "timestamp" and base == "DAY":
        factor, base = factor * 86_400, "SECOND"
    count = factor * whole_of(amount, "an interval", -MAX_INTERVAL[base], MAX_INTERVAL[base])
    if abs(count) > MAX_INTERVAL[base]:
        raise NotSupported("an interval has at most 4,000 years")
    return _apply("+ interval", at, Constant(count, "integer"), Constant(base, "text")) if count else at


def value_of(tree: Expression) -> Value | None:
    """The value of a constant tree; None for NULL and for what is no constant."""
    return tree.value if isinstance(tree, Constant) else None


_SPECIAL: Mapping[str, Callable[..., Expression]] = {
    "=": _equal,
    "<": _ordered("<"),
    "<=": _ordered("<="),
    "not": _not,
    "and": _junction("and"),
    "or": _junction("or"),
    "is null": _is_null,
    "in": _in,
    "like": _like,
    "||": _concatenate,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "+": _sum_or_product("+"),
    "*": _sum_or_product("*"),
    "-": _minus,
    "substr": _substr,
    **{name: _trim(name) for name in ("trim", "ltrim", "rtrim")},
    **{name: _rounding(name) for name in ("floor", "ceil")},
    "round": _round,
    "width_bucket": _width_bucket,
    "date_trunc": _date_trunc,
    "extract": _extract,
    "+ interval": _add_interval,
}
