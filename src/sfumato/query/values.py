"""Typed values: what a literal means in a column of a given type.

One value has one spelling inside: 1, 1.0 and "1" in an integer column are the int 1; a date is a date however it was
written. What does not fit its column is refused with the column's name and an example.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.errors import NotSupported

Type: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "timestamp"]
Value: TypeAlias = str | int | Fraction | bool | date | datetime

MAX_TEXT = 1000
MAX_DIGITS = 15
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
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        raise NotSupported(
            f"{column} is compared with something that is not {_a(kind)}, such as {EXAMPLES[kind]}"
        ) from None


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
    whole, rest = divmod(abs(value) * 10**MAX_DIGITS, 10**MAX_DIGITS)
    digits = f"{whole}.{int(rest):0{MAX_DIGITS}d}".rstrip("0").rstrip(".")
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
    """At most 15 digits before and after the point, so that a double tells any two of them apart in practice."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str | Decimal | Fraction):
        raise TypeError
    if isinstance(raw, str) and len(raw) > 3 * MAX_DIGITS:
        raise ValueError
    number = (
        raw if isinstance(raw, Fraction) else _fraction(Decimal(raw if isinstance(raw, str | Decimal) else repr(raw)))
    )
    if abs(number) >= 10**MAX_DIGITS or 10**MAX_DIGITS % number.denominator:
        raise ValueError
    return number


def _fraction(number: Decimal) -> Fraction:
    if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS or len(number.as_tuple().digits) > 3 * MAX_DIGITS:
        raise ValueError
    return Fraction(number)


def _integer(raw: Any) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str | Decimal | Fraction):
        raise TypeError
    number = Decimal(int(raw)) if isinstance(raw, int) else raw if isinstance(raw, Decimal) else Decimal(str(raw)[:40])
    if not number.is_finite() or abs(number.adjusted()) > 20 or abs(number) > MAX_INTEGER or number % 1:
        raise ValueError
    return int(number)


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
