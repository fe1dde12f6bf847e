"""The closed list of functions of one row: what each takes, gives and computes.

Every function is total: no row makes it fail. Where another database would fail, it is NULL: division by zero, text
that is no number, results that are out of range. Whole numbers are from -2^62 up to 2^62, without the last. Numbers are
doubles up to 1e300, and neither NaN nor infinite. Days and moments are of the years 1 to 9999. Text is read up to
`MAX_TEXT_READ` characters; a column of it is at most `MAX_LONG_TEXT` after any function. A value of a column that is
out of these ranges is read as NULL.

`evaluate` computes a tree in Python. The engines compute what `write` makes of it, and must agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import MAXYEAR, MINYEAR, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from sfumato.query.expressions.tree import LOOKUP, Applied, ColumnValue, Constant, Expression, LookedUp, nodes_of
from sfumato.types import Type, Value

Cell: TypeAlias = Any
"""A value in a row, as it is computed with: numbers are floats here. None is NULL."""

MAX_WHOLE = 2**62 - 1
MIN_WHOLE = -(2**62)
MAX_NUMBER = 1e300
MAX_TEXT_READ = 10_000
MAX_LONG_TEXT = 100_000
MIN_MOMENT, MAX_MOMENT = datetime(MINYEAR, 1, 1), datetime(MAXYEAR, 12, 31, 23, 59, 59, 999_999)
MAX_INTERVAL = {"MONTH": 48_000, "DAY": 1_460_000, "SECOND": 126_000_000_000}
"""4,000 years."""

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
DAY_UNITS = UNITS[:5]

PARTS: Mapping[str, tuple[Callable[[Any], int], range | None]] = {
    "year": (lambda at: at.year, None),
    "quarter": (lambda at: (at.month + 2) // 3, range(1, 5)),
    "month": (lambda at: at.month, range(1, 13)),
    "week": (lambda at: at.isocalendar()[1], range(1, 54)),
    "day": (lambda at: at.day, range(1, 32)),
    "doy": (lambda at: at.timetuple().tm_yday, range(1, 367)),
    "dow": (lambda at: at.isoweekday() % 7, range(7)),
    "isodow": (lambda at: at.isoweekday(), range(1, 8)),
    "hour": (lambda at: at.hour, range(24)),
    "minute": (lambda at: at.minute, range(60)),
    "second": (lambda at: at.second, range(60)),
}
"""What `extract` takes from a day or a moment, and the values that it can have."""

TIME_PARTS = ("hour", "minute", "second")

WHOLE_TEXT = r"^[+-]?[0-9]{1,18}$"
NUMBER_TEXT = r"^[+-]?[0-9]{1,15}([.][0-9]{1,15})?([eE][+-]?[0-9]{1,2})?$"
_DAY = r"(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"
DATE_TEXT = rf"^{_DAY}$"
MOMENT_TEXT = rf"^{_DAY}[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{{1,6}})?)?$"
"""Text that a cast takes for a value. All other text is NULL."""

_SIGN = re.compile(r"\\.|.", re.DOTALL)  # of a pattern of LIKE
_SPECIAL = re.compile(r"[\\.^$*+?()\[\]{}|/#&~-]")

CASTS: frozenset[tuple[Type, Type]] = frozenset(
    (
        *(("text", "integer"), ("text", "number"), ("text", "date"), ("text", "timestamp")),
        *(("integer", "text"), ("integer", "number"), ("number", "integer")),
        *(("boolean", "text"), ("boolean", "integer")),
        *(("date", "text"), ("date", "timestamp"), ("timestamp", "date")),
    )
)
"""From which type to which a cast leads."""


def evaluate(tree: Expression, row: Mapping[str, Cell]) -> Cell:
    """The value of a tree in a row."""
    if isinstance(tree, ColumnValue):
        return _readable(tree.type, row[tree.name])
    if isinstance(tree, Constant):
        return float(tree.value) if isinstance(tree.value, Fraction) else tree.value
    if tree.function == "is null" and isinstance(tree.arguments[0], ColumnValue):
        return row[tree.arguments[0].name] is None
    if tree.function == "case":
        return _case(tree.arguments, row)
    cells = [evaluate(argument, row) for argument in tree.arguments]
    if tree.function not in NULL_TAKING and None in cells:
        return None
    if isinstance(tree, LookedUp):
        return _readable(tree.type, tree.public.find(cells[0], tree.column))
    return _in_range(_cast(cells[0], tree.type) if tree.function == "cast" else EVALUATE[tree.function](*cells))


def abilities_of(tree: Expression) -> set[str]:
    """The functions of a tree, as an engine names them: `lower`, `+`, `+ of numbers`, `cast text to date`."""
    return {_ability(node) for node in nodes_of(tree) if isinstance(node, Applied)}


def _ability(node: Applied) -> str:
    types = [argument.type for argument in node.arguments]
    if node.function == "cast":
        return f"cast {types[0]} to {node.type}"
    return f"{node.function} of numbers" if "number" in types and node.function != "is null" else node.function


def _readable(kind: Type, cell: Cell) -> Cell:
    if cell is None or kind == "boolean":
        return cell
    if kind == "text":
        return cell if len(cell) <= MAX_TEXT_READ else None
    return _in_range(float(cell) if kind == "number" else cell)


def _in_range(cell: Cell) -> Cell:
    """The cell, or NULL where it is out of range."""
    if isinstance(cell, float):
        return cell if -MAX_NUMBER <= cell <= MAX_NUMBER else None
    if isinstance(cell, int) and not isinstance(cell, bool):
        return cell if MIN_WHOLE <= cell <= MAX_WHOLE else None
    return cell


def _case(arguments: tuple[Expression, ...], row: Mapping[str, Cell]) -> Cell:
    for condition, result in zip(arguments[:-1:2], arguments[1:-1:2], strict=True):
        if evaluate(condition, row):
            return evaluate(result, row)
    return evaluate(arguments[-1], row)


def _and(*cells: Cell) -> Cell:
    return False if False in cells else None if None in cells else True


def _or(*cells: Cell) -> Cell:
    return True if True in cells else None if None in cells else False


def lower(text: str) -> str:
    """Each character by itself, which keeps the number of characters."""
    return text.lower() if text.isascii() else "".join("i" if sign == "\u0130" else sign.lower() for sign in text)


def upper(text: str) -> str:
    """Each character by itself, which keeps the number of characters: the capital of 'ß' is 'ẞ'."""
    return text.upper() if text.isascii() else "".join(_capital(sign) for sign in text)


def _capital(sign: str) -> str:
    if sign == "ß":
        return "ẞ"
    return next((form for form in (sign.upper(), sign.title()) if len(form) == 1), sign)


def _like(text: str, pattern: str) -> bool:
    """Whether all of the text is like the pattern, in time that grows with the product of their lengths only."""
    pieces = pattern_pieces(pattern)
    first, *others = [re.compile(regular_expression(piece), re.DOTALL) for piece in pieces]
    start = first.match(text)
    if not others or start is None:
        return start is not None and start.end() == len(text)
    place = start.end()
    for piece in others[:-1]:
        found = piece.search(text, place)
        if found is None:
            return False
        place = found.end()
    rest = len(text) - len(_SIGN.findall(pieces[-1]))
    return rest >= place and others[-1].fullmatch(text, rest) is not None


def pattern_pieces(pattern: str) -> list[str]:
    """What stands between the signs for any text."""
    pieces = [""]
    for sign in _SIGN.findall(pattern):
        if sign == "%":
            pieces.append("")
        else:
            pieces[-1] += sign
    return pieces


def regular_expression(pattern: str) -> str:
    """A pattern of LIKE, whose escape is the backslash, in the signs that Python and RE2 read alike."""
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(sign) or _SPECIAL.sub(r"\\\g<0>", sign[-1]) for sign in _SIGN.findall(pattern))


def _divide(one: float, other: float) -> Cell:
    return one / other if other else None


def _remainder(one: Cell, other: Cell) -> Cell:
    if not other:
        return None
    if isinstance(one, float):
        return math.fmod(one, other)
    left = abs(one) % abs(other)
    return -left if one < 0 else left


def _round(number: Cell, places: int) -> Cell:
    scale = 10.0 ** abs(places)
    scaled = number * scale if places >= 0 else number / scale
    if not math.isfinite(scaled):
        return None
    whole = math.floor(abs(scaled))
    rounded = math.copysign(float(whole + (abs(scaled) - whole >= 0.5)), scaled)
    return rounded / scale if places >= 0 else rounded * scale


def _width_bucket(number: float, low: float, high: float, count: int) -> int:
    if number < low:
        return 0
    return count + 1 if number >= high else min(count, math.floor((number - low) * count / (high - low)) + 1)


def _date_trunc(unit: str, at: Cell) -> Cell:
    if unit in TIME_PARTS:
        kept = {"hour": {"minute": 0, "second": 0}, "minute": {"second": 0}, "second": {}}[unit]
        return at.replace(microsecond=0, **kept)
    first = at.date() if isinstance(at, datetime) else at
    if unit == "week":
        first -= timedelta(days=first.weekday())
    elif unit != "day":
        month = {"year": 1, "quarter": (first.month - 1) // 3 * 3 + 1, "month": first.month}[unit]
        first = first.replace(month=month, day=1)
    return datetime(first.year, first.month, first.day) if isinstance(at, datetime) else first


def _add_interval(at: Cell, amount: int, unit: str) -> Cell:
    try:
        if unit != "MONTH":
            return at + timedelta(**{"days" if unit == "DAY" else "seconds": amount})
        months = at.year * 12 + at.month - 1 + amount
        first = at.replace(year=months // 12, month=months % 12 + 1, day=1)
        following = first.replace(day=28) + timedelta(days=4) if (first.year, first.month) != (MAXYEAR, 12) else None
        last = 31 if following is None else (following - timedelta(days=following.day)).day
        return first.replace(day=min(at.day, last))
    except (ValueError, OverflowError):
        return None


def _cast(cell: Cell, to: Type) -> Cell:
    if to == "text":
        return (
            str(cell).lower() if isinstance(cell, bool) else cell.isoformat() if isinstance(cell, date) else str(cell)
        )
    if isinstance(cell, str):
        return _read_text(cell, to)
    if to == "integer":
        return int(cell) if not isinstance(cell, float) else round(cell)  # halves go to the even number
    if to == "number":
        return float(cell)
    return cell.date() if to == "date" else datetime(cell.year, cell.month, cell.day)


def _read_text(text: str, to: Type) -> Cell:
    forms: dict[Type, tuple[str, Callable[[str], Cell]]] = {
        "integer": (WHOLE_TEXT, int),
        "number": (NUMBER_TEXT, float),
        "date": (DATE_TEXT, date.fromisoformat),
        "timestamp": (MOMENT_TEXT, datetime.fromisoformat),
    }
    pattern, read = forms[to]
    try:
        return read(text) if re.fullmatch(pattern[1:-1], text) else None
    except ValueError:
        return None


EVALUATE: Mapping[str, Callable[..., Cell]] = {
    "lower": lower,
    "upper": upper,
    "trim": lambda text, signs: text.strip(signs),
    "ltrim": lambda text, signs: text.lstrip(signs),
    "rtrim": lambda text, signs: text.rstrip(signs),
    "substr": lambda text, start, length: text[start - 1 : start - 1 + length],
    "length": len,
    "starts_with": lambda text, start: text.startswith(start),
    "like": _like,
    "||": lambda *texts: "".join(texts),
    "coalesce": lambda *cells: next((cell for cell in cells if cell is not None), None),
    "nullif": lambda one, other: None if one == other else one,
    "is null": lambda cell: cell is None,
    "not": lambda cell: not cell,
    "and": _and,
    "or": _or,
    "=": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    "in": lambda cell, *values: cell in values,
    "+": lambda one, other: one + other,
    "-": lambda one, other: (one - other).days if isinstance(one, date) else one - other,
    "*": lambda one, other: one * other,
    "/": _divide,
    "%": _remainder,
    "floor": lambda number: float(math.floor(number)),
    "ceil": lambda number: float(math.ceil(number)),
    "round": _round,
    "abs": abs,
    "width_bucket": _width_bucket,
    "date_trunc": _date_trunc,
    "extract": lambda part, at: PARTS[part][0](at),
    "+ interval": _add_interval,
}
"""Every function but `case` and `cast`: its value, from values that are not NULL where it is not in `NULL_TAKING`."""

NULL_TAKING = frozenset(("coalesce", "nullif", "is null", "and", "or"))
"""The functions that look at NULL, beside `case`. All others are NULL where an argument is."""

OF_NUMBERS = (
    *("+", "-", "*", "/", "%", "floor", "ceil", "round", "abs", "width_bucket"),
    *("coalesce", "nullif", "case", "=", "<", "<=", "in"),
)
FUNCTIONS: frozenset[str] = frozenset(
    (
        *(name for name in EVALUATE if name not in ("/", "floor", "ceil", "round", "width_bucket")),
        "case",
        *(f"{name} of numbers" for name in OF_NUMBERS),
        *(f"cast {one} to {other}" for one, other in CASTS),
    )
)
"""All that an engine can be asked to compute of a row alone, as `abilities_of` names it."""

LOOKUPS = frozenset((LOOKUP,))
"""The ability to look up rows of public tables, by a left join."""


def policy_value(cell: Cell) -> Value:
    """A cell as policies and filters have it: a number is exact."""
    return Fraction(Decimal(repr(cell))) if isinstance(cell, float) else cell
