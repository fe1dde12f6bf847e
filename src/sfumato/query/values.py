"""Values of a column's type: how a filter reads them, and how they are written.

One value has one spelling inside: 1, 1.0 and "1" in an integer column are the int 1; a date is a date in every
spelling. A value that does not fit its column is refused with the column's name and an example.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sfumato.errors import NotSupported
from sfumato.types import MAX_INTEGER, MAX_PLACES, TYPES, TooManyDigits, Type, Value

MAX_EXACT = 2**53  # a larger integer is text in JSON: many readers would round it

_DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}([-/.]|$)|\d{1,2}[-/.]\d{1,2}[-/.]\d{2})")


def read_value(column: str, kind: Type, raw: Any) -> Value:
    """`raw` as a value of the column's type; the refusal names the column and shows a literal that would do."""
    row = TYPES[kind]
    try:
        return row.read(raw)
    except TooManyDigits as error:
        raise NotSupported(f"{column} is compared with {error}; use a range") from None
    except (ValueError, TypeError, ArithmeticError):
        raise NotSupported(
            f"{column} is compared with something that is not {row.words}, such as {row.example}"
        ) from None


def successor(value: Value) -> Value | None:
    """The next value where a type has one (integers, days): `> 1` and `>= 2` are one question."""
    if isinstance(value, bool) or not isinstance(value, int | date) or isinstance(value, datetime):
        return None
    if isinstance(value, int):
        return value + 1 if value < MAX_INTEGER else None
    return value + timedelta(days=1) if value < date.max else None


def json_value(value: Value) -> str | int | bool:
    """The value as JSON has it, exactly: `read_value` reads it back."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if value.denominator > 1:
        return decimal(Fraction(value))
    return value.numerator if abs(value.numerator) <= MAX_EXACT else str(value.numerator)


def describe_bounds(low: str, high: str, step: str, max_per_unit: int) -> str:
    """The bounds of a column in words."""
    values = f", at most {max_per_unit:,} values per person and group" if max_per_unit > 1 else ""
    return f"{low} to {high} in steps of {step}{values}"


def decimal(value: Fraction) -> str:
    """A number in decimal digits, all of them."""
    whole, rest = divmod(abs(value) * 10**MAX_PLACES, 10**MAX_PLACES)
    digits = f"{whole}.{int(rest):0{MAX_PLACES}d}".rstrip("0").rstrip(".")
    return f"-{digits}" if value < 0 else digits


def spelling(value: Value) -> str:
    """One text per value, for digests: its type and an exact form."""
    if isinstance(value, datetime):
        return f"timestamp {value.isoformat(timespec='microseconds')}"
    return f"{type(value).__name__} {value}"


def check_no_date(column: str, bound: object) -> None:
    """Refuse to compare text by its order with something that looks like a date."""
    if looks_like_date(bound):
        raise NotSupported(
            f"{column} is text, and text is ordered by its characters, not by time; ask the owner for a view in which "
            f"it is a date, or compare CAST({column} AS DATE) where it is written as 2026-11-15"
        )


def looks_like_date(value: object) -> bool:
    """Whether text has the form of a day, at its beginning: 2026-11-15, 15.11.2026, 11/15/26."""
    return isinstance(value, str) and _DATE.match(value) is not None
