"""ClickHouse's names of types, and how a column of each becomes what the port promises."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from sfumato.engines.base import ColumnType

_TEXT = ("String", "FixedString", "Enum8", "Enum16")
_WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_WIDE = ("Int128", "UInt128", "Int256", "UInt256")
_FLOATS = ("Float32", "Float64", "BFloat16")
_NAMED = ("UUID", "IPv4", "IPv6")  # they name people, and become text where they leave ClickHouse
_WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)")

COLUMN_TYPES: Mapping[str, ColumnType] = {
    **dict.fromkeys(_TEXT, "text"),
    **dict.fromkeys((*_WHOLE, *_WIDE), "integer"),
    **dict.fromkeys((*_FLOATS, "Decimal"), "number"),
    "Bool": "boolean",
    "Date": "date",
    "Date32": "date",
    "DateTime": "timestamp",
    "DateTime64": "timestamp",
}
"""By the name without arguments, as `bare` gives it."""


def bare(kind: str) -> str:
    """LowCardinality(Nullable(FixedString(3))) is a FixedString.

    Moments and decimals of more digits than Python or DuckDB can have keep theirs, and are in no table of types.
    """
    while wrapped := _WRAPPED.fullmatch(kind):
        kind = wrapped[1]
    name, _, arguments = kind.partition("(")
    digits = int(number[0]) if (number := re.match(r"\d+", arguments)) else 0
    return kind if (name == "DateTime64" and digits > 6) or (name == "Decimal" and digits > 38) else name


def plain(name: str, kind: str, *, copied: bool = False) -> exp.Expr:
    """A column as Python sees it: it groups, compares and sorts in ClickHouse as in Python.

    Text that is no UTF-8, and whole numbers of more than 64 bits, are NULL: they are in no other place. NaN is
    infinity. With `copied`, NaN stays NaN, and the column is of a type that Arrow has.
    """
    column: exp.Expr = exp.column(name, quoted=True)
    kind = bare(kind)
    if kind in _TEXT:
        text = exp.cast(column, exp.DataType.Type.TEXT)
        valid = exp.Anonymous(this="isValidUTF8", expressions=[text])
        column = exp.Case(ifs=[exp.If(this=valid, true=text.copy())])
    elif kind in _WIDE:
        narrow = [column, exp.Literal.string("Int64")]
        column = exp.Anonymous(this="accurateCastOrNull", expressions=narrow)
    elif kind in _FLOATS:
        zero = exp.cast(exp.Literal.number(0), exp.DataType.Type.DOUBLE)
        column = exp.Add(this=exp.cast(column, exp.DataType.Type.DOUBLE), expression=zero)  # no negative zero
        if not copied:  # elsewhere NaN is above all numbers; here it is in no order
            nan = exp.Anonymous(this="isNaN", expressions=[exp.column(name, quoted=True)])
            infinity = exp.cast(exp.Literal.string("inf"), exp.DataType.Type.DOUBLE)
            column = exp.Case(ifs=[exp.If(this=nan, true=infinity)], default=column)
    elif kind == "Date":
        column = exp.cast(column, exp.DataType.Type.DATE32)
    elif kind in ("DateTime", "DateTime64"):
        column = exp.cast(column, exp.DataType.build("Nullable(DateTime64(6, 'UTC'))", dialect="clickhouse"))
    elif kind in _NAMED and copied:
        column = exp.cast(column, exp.DataType.Type.TEXT)
    return exp.alias_(column, name, quoted=True)
