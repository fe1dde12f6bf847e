"""Spark's names of types, and how a column of each becomes what the port promises."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.engines.base import ColumnType

INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint"))
FLOATS = frozenset(("float", "double"))
NUMBERS = INTEGERS | FLOATS | {"decimal"}
IDENTIFYING = INTEGERS | frozenset(("string", "date", "boolean"))
"""Types of people and keys in a release: those whose 64 bits are the same here and in DuckDB."""

COLUMN_TYPES: Mapping[str, ColumnType] = {
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(FLOATS | {"decimal"}, "number"),
    "string": "text",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
}

LIST_TYPES: Mapping[str, ColumnType] = {
    "array<string>": "text",
    **dict.fromkeys((f"array<{name}>" for name in INTEGERS), "integer"),
}


def bare(kind: str) -> str:
    """decimal(18,3) is a decimal; char(3), varchar(9) and string collate UNICODE are strings."""
    name = kind.partition("(")[0].partition(" ")[0]
    return "string" if name in ("char", "varchar") else name


def plain(name: str, kind: str) -> exp.Expr:
    """A column as Python sees it: it groups, compares and sorts in Spark as in Python."""
    column: exp.Expr = exp.column(name, quoted=True)
    if bare(kind) == "string" and kind != "string":
        # A collation can take two texts for one, or order other ones first. A plain string compares by its bytes.
        column = exp.Collate(this=exp.cast(column, exp.DataType.Type.TEXT), expression=exp.var("UTF8_BINARY"))
    elif kind in FLOATS:
        zero = exp.cast(exp.Literal.number(0), exp.DataType.Type.DOUBLE)
        column = exp.Add(this=exp.cast(column, exp.DataType.Type.DOUBLE), expression=zero)  # no negative zero
    elif kind == "timestamp":
        column = exp.cast(column, exp.DataType.Type.TIMESTAMPNTZ)  # in the session's zone, which is UTC
    return exp.alias_(column, name, quoted=True)
