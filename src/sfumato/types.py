"""The six types that a column can have, one row each.

`TYPES` is the only table of them. It has their names in every system that Sfumato reads from or writes to, and the
function that reads a value of the type. A new type is a name in `Type` and a row in `TYPES`.

This module imports the standard library only, because the client needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, TypeAlias

Type: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "timestamp"]
Value: TypeAlias = str | int | Fraction | bool | date | datetime
"""A value inside: numbers are exact, timestamps are in UTC and carry no zone."""

MAX_TEXT = 1000
MAX_DIGITS = 15  # before the point
MAX_PLACES = 25  # after it: a double such as 0.0033333333333333335 needs them to be asked for again as a key
MAX_NUMBER_LENGTH = 45  # characters of a number
MAX_INTEGER = 2**62

_NUMBER_LIMITS = f"a number of too many digits, at most {MAX_DIGITS} before the point and {MAX_PLACES} after it"
_INTEGER_LIMITS = "an integer that is too large, at most 18 digits"
_NUMBER_CHARACTERS = frozenset("0123456789+-.eE")


class TooManyDigits(ValueError):
    """A number with more digits than are compared. The message says how many there may be."""


def read_text(raw: Any) -> str:
    """Text of at most `MAX_TEXT` characters."""
    if not isinstance(raw, str) or len(raw) > MAX_TEXT or "\x00" in raw:
        raise ValueError
    raw.encode("utf-8")  # a lone surrogate is not text
    return str.__str__(raw)  # an enum of text counts by its value


def read_integer(raw: Any) -> int:
    """A whole number of at most 18 digits, also where it is written as 1.0 or "1"."""
    number = _exact(raw, _INTEGER_LIMITS)
    if number.denominator > 1:
        raise ValueError
    if abs(number) > MAX_INTEGER:
        raise TooManyDigits(_INTEGER_LIMITS)
    return int(number)


def read_number(raw: Any) -> Fraction:
    """A number by its decimal digits: 0.1 is a tenth, also where it was a double."""
    number = _exact(raw, _NUMBER_LIMITS)
    if abs(number) >= 10**MAX_DIGITS or 10**MAX_PLACES % number.denominator:
        raise TooManyDigits(_NUMBER_LIMITS)
    return number


def read_boolean(raw: Any) -> bool:
    """True or False, also as the text "true" or "FALSE"."""
    if isinstance(raw, str):
        raw = {"true": True, "false": False}.get(raw.lower())
    if not isinstance(raw, bool):
        raise TypeError
    return raw


def read_date(raw: Any) -> date:
    """A day. A timestamp is not one: its time of day would be lost."""
    if isinstance(raw, datetime):
        raise TypeError
    return date(raw.year, raw.month, raw.day) if isinstance(raw, date) else date.fromisoformat(read_text(raw))


def read_timestamp(raw: Any) -> datetime:
    """A moment in UTC without a zone. What carries a zone is moved to UTC first."""
    if isinstance(raw, date) and not isinstance(raw, datetime):
        raw = datetime(raw.year, raw.month, raw.day)
    moment = raw if isinstance(raw, datetime) else datetime.fromisoformat(read_text(raw))
    utc = moment if moment.tzinfo is None else moment.astimezone(UTC)
    return datetime(*utc.timetuple()[:6], utc.microsecond)


def _exact(raw: Any, limits: str) -> Fraction:
    """A number of any Python type, of a size that can be computed with."""
    if isinstance(raw, bool) or not isinstance(raw, Integral | float | str | Decimal | Fraction):
        raise TypeError
    if isinstance(raw, Integral | Fraction):
        return Fraction(int(raw) if isinstance(raw, Integral) else raw)
    if isinstance(raw, str) and len(raw) > MAX_NUMBER_LENGTH:
        raise TooManyDigits(limits) if _NUMBER_CHARACTERS.issuperset(raw) else ValueError
    number = Decimal(repr(float(raw)) if isinstance(raw, float) else raw)
    if not number.is_finite():
        raise ValueError
    if abs(number.adjusted()) > MAX_NUMBER_LENGTH or len(number.as_tuple().digits) > MAX_NUMBER_LENGTH:
        raise TooManyDigits(limits)
    return Fraction(number)


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One type under all its names.

    `words` and `example` (a SQL literal) are for messages. `read` takes a value in any spelling, and raises
    ValueError, TypeError or ArithmeticError where it is none. `python` is the type of a cell in an answer;
    `from_json` reads such a cell back from JSON, and `from_csv` from text, where "" is a number that is missing.
    `dbapi` is the type object of PEP 249; `sqlalchemy` is a class in `sqlalchemy.types`; `postgres_oid` is the number
    by which PostgreSQL's protocol names the type.
    """

    name: Type
    words: str
    example: str
    read: Callable[[Any], Value]
    python: type
    json_schema: Mapping[str, Any]
    from_json: Callable[[Any], Any]
    from_csv: Callable[[str], Any]
    to_csv: Callable[[Any], Any]
    duckdb: str
    postgres: str
    postgres_oid: int
    spark: str
    pandas: str
    sqlalchemy: str
    dbapi: Literal["STRING", "NUMBER", "DATETIME"]


def _same(value: Any) -> Any:
    return value


TYPES: Mapping[str, TypeRow] = {
    row.name: row
    for row in (
        TypeRow(
            name="text",
            words="text",
            example="'emea'",
            read=read_text,
            python=str,
            json_schema={"type": "string"},
            from_json=_same,
            from_csv=_same,
            to_csv=_same,
            duckdb="VARCHAR",
            postgres="text",
            postgres_oid=25,
            spark="string",
            pandas="str",
            sqlalchemy="String",
            dbapi="STRING",
        ),
        TypeRow(
            name="integer",
            words="a whole number",
            example="42",
            read=read_integer,
            python=int,
            json_schema={"type": "integer"},
            from_json=_same,
            from_csv=int,
            to_csv=_same,
            duckdb="BIGINT",
            postgres="bigint",
            postgres_oid=20,
            spark="bigint",
            pandas="int64",
            sqlalchemy="BigInteger",
            dbapi="NUMBER",
        ),
        TypeRow(
            name="number",
            words="a number",
            example="0.5",
            read=read_number,
            python=float,
            json_schema={"type": "number"},
            from_json=_same,
            from_csv=lambda cell: float(cell) if cell else None,
            to_csv=_same,  # Python writes the shortest digits that read back as the same number
            duckdb="DOUBLE",
            postgres="double precision",
            postgres_oid=701,
            spark="double",
            pandas="float64",
            sqlalchemy="Double",
            dbapi="NUMBER",
        ),
        TypeRow(
            name="boolean",
            words="true or false",
            example="TRUE",
            read=read_boolean,
            python=bool,
            json_schema={"type": "boolean"},
            from_json=_same,
            from_csv={"true": True, "false": False}.__getitem__,
            to_csv=lambda cell: "true" if cell else "false",
            duckdb="BOOLEAN",
            postgres="boolean",
            postgres_oid=16,
            spark="boolean",
            pandas="bool",
            sqlalchemy="Boolean",
            dbapi="NUMBER",
        ),
        TypeRow(
            name="date",
            words="a date",
            example="'2026-11-15'",
            read=read_date,
            python=date,
            json_schema={"type": "string", "format": "date"},
            from_json=date.fromisoformat,
            from_csv=date.fromisoformat,
            to_csv=_same,
            duckdb="DATE",
            postgres="date",
            postgres_oid=1082,
            spark="date",
            pandas="datetime64[s]",  # pandas has no type for days: they are its timestamps at midnight
            sqlalchemy="Date",
            dbapi="DATETIME",
        ),
        TypeRow(
            name="timestamp",
            words="a timestamp",
            example="'2026-11-15 08:30:00'",
            read=read_timestamp,
            python=datetime,
            json_schema={"type": "string"},  # without a zone it is no "date-time" of RFC 3339
            from_json=datetime.fromisoformat,
            from_csv=datetime.fromisoformat,
            to_csv=lambda cell: cell.isoformat(sep=" "),
            duckdb="TIMESTAMP",
            postgres="timestamp",
            postgres_oid=1114,
            spark="timestamp_ntz",  # NTZ: no time zone
            pandas="datetime64[us]",
            sqlalchemy="DateTime",
            dbapi="DATETIME",
        ),
    )
}
