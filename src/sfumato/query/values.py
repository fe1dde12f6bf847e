"""Typed values: what a literal means in a column of a given type.

One value has one spelling inside: 1, 1.0 and "1" in an integer column are the int 1; a date is a date however it was
written. What does not fit its column is refused with the column's name and an example.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, TypeAlias

from sfumato.errors import NotSupported

Type: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "timestamp"]
Value: TypeAlias = str | int | Fraction | bool | date | datetime

MAX_TEXT = 1000
MAX_DIGITS = 15  # before the point
MAX_PLACES = 25  # after it: what a double such as 0.0033333333333333335 needs, so that a key can be asked for again
MAX_WRITTEN = 45  # characters of a number
MAX_INTEGER = 2**62
MAX_EXACT = 2**53  # a larger integer is text in JSON: many readers would round it

EXAMPLES: dict[Type, str] = {
    "text": "'emea'",
    "integer": "42",
    "number": "0.5",
    "boolean": "TRUE",
    "date": "'2026-11-15'",
    "timestamp": "'2026-11-15 08:30:00'",
}


def typed(column: str, kind: Type, raw: Any) -> Value:
    """`raw` as a value of the column's type, or a refusal that names the column and shows a literal that would do."""
    try:
        return _READERS[kind](raw)
    except _TooLong as error:
        raise NotSupported(f"{column} is compared with {error}; use a range") from None
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        raise NotSupported(
            f"{column} is compared with something that is not {_a(kind)}, such as {EXAMPLES[kind]}"
        ) from None


class _TooLong(ValueError):
    """A number with more digits than are compared; says how many there may be."""


_LONG_NUMBER = f"a number of too many digits, at most {MAX_DIGITS} before the point and {MAX_PLACES} after it"
_DIGITS = frozenset("0123456789+-.eE")
_LONG_INTEGER = "an integer that is too large, at most 18 digits"


def following(value: Value) -> Value | None:
    """The next value where a type has one (integers, days), so that `> 1` and `>= 2` are one question."""
    if isinstance(value, bool) or not isinstance(value, int | date) or isinstance(value, datetime):
        return None
    if isinstance(value, int):
        return value + 1 if value < MAX_INTEGER else None
    return value + timedelta(days=1) if value < date.max else None


def plain(value: Value) -> str | int | bool:
    """The value as JSON has it, exactly: `typed` reads it back."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if value.denominator > 1:
        return decimal(Fraction(value))
    return value.numerator if abs(value.numerator) <= MAX_EXACT else str(value.numerator)


def decimal(value: Fraction) -> str:
    """A number in decimal digits, all of them."""
    whole, rest = divmod(abs(value) * 10**MAX_PLACES, 10**MAX_PLACES)
    digits = f"{whole}.{int(rest):0{MAX_PLACES}d}".rstrip("0").rstrip(".")
    return f"-{digits}" if value < 0 else digits


def spelled(value: Value) -> str:
    """One text a value, for digests: its type and an exact form."""
    if isinstance(value, datetime):
        return f"timestamp {value.isoformat(timespec='microseconds')}"
    return f"{type(value).__name__} {value}"


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or len(raw) > MAX_TEXT or "\x00" in raw:
        raise ValueError
    raw.encode("utf-8")  # a lone surrogate is not text
    return str.__str__(raw)  # an enum of text counts by its value


def _number(raw: Any) -> Fraction:
    """In decimal digits, as it was written: 0.1 is a tenth, also where it was a double."""
    number = _exact(raw, _LONG_NUMBER)
    if abs(number) >= 10**MAX_DIGITS or 10**MAX_PLACES % number.denominator:
        raise _TooLong(_LONG_NUMBER)
    return number


def _integer(raw: Any) -> int:
    number = _exact(raw, _LONG_INTEGER)
    if number.denominator > 1:
        raise ValueError
    if abs(number) > MAX_INTEGER:
        raise _TooLong(_LONG_INTEGER)
    return int(number)


def _exact(raw: Any, too_long: str) -> Fraction:
    """A number of any kind, of a size that can be computed with."""
    if isinstance(raw, bool) or not isinstance(raw, Integral | float | str | Decimal | Fraction):
        raise TypeError
    if isinstance(raw, Integral | Fraction):
        return Fraction(int(raw) if isinstance(raw, Integral) else raw)
    if isinstance(raw, str) and len(raw) > MAX_WRITTEN:
        raise _TooLong(too_long) if _DIGITS.issuperset(raw) else ValueError
    number = Decimal(repr(float(raw)) if isinstance(raw, float) else raw)
    if not number.is_finite():
        raise ValueError
    if abs(number.adjusted()) > MAX_WRITTEN or len(number.as_tuple().digits) > MAX_WRITTEN:
        raise _TooLong(too_long)
    return Fraction(number)


def _boolean(raw: Any) -> bool:
    if isinstance(raw, str):
        raw = {"true": True, "false": False}.get(raw.lower())
    if not isinstance(raw, bool):
        raise TypeError
    return raw


def _date(raw: Any) -> date:
    if isinstance(raw, datetime):
        raise TypeError
    return date(raw.year, raw.month, raw.day) if isinstance(raw, date) else date.fromisoformat(_text(raw))


def _timestamp(raw: Any) -> datetime:
    """UTC without a zone: what carries a zone is moved to UTC first."""
    if isinstance(raw, date) and not isinstance(raw, datetime):
        raw = datetime(raw.year, raw.month, raw.day)
    moment = raw if isinstance(raw, datetime) else datetime.fromisoformat(_text(raw))
    plain = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return datetime(*plain.timetuple()[:6], plain.microsecond)


def _a(kind: Type) -> str:
    return f"an {kind}" if kind == "integer" else f"a {kind}"


_READERS: dict[Type, Callable[[Any], Value]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
}
