"""PostgreSQL's names of types, and how a column of each becomes what the port promises."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sfumato.engines.base import ColumnType

COLUMN_TYPES: Mapping[str, ColumnType] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "citext", "name", "enum"), "text"),
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8", "numeric"), "number"),
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
}
"""By the type's internal name; that of an enumeration is here "enum"."""

LIST_TYPES: Mapping[str, ColumnType] = {
    **dict.fromkeys(("_text", "_varchar", "_bpchar"), "text"),
    **dict.fromkeys(("_int2", "_int4", "_int8"), "integer"),
}

_BY_CODE_POINT = exp.to_identifier("C", quoted=True)


def plain(name: str, kind: str) -> exp.Expr:
    """A column as Python sees it: it groups, compares and sorts in PostgreSQL as in Python."""
    column: exp.Expr = exp.column(name, quoted=True)
    if COLUMN_TYPES.get(kind) == "text":
        # A database, or a column, can have a collation that orders other keys first, or takes two keys for one.
        column = exp.Collate(this=exp.cast(column, exp.DataType.Type.TEXT), expression=_BY_CODE_POINT.copy())
    elif LIST_TYPES.get(kind) == "text":
        column = exp.Collate(this=exp.cast(column, "TEXT[]"), expression=_BY_CODE_POINT.copy())
    elif kind in ("float4", "float8"):
        zero = exp.cast(exp.Literal.number(0), exp.DataType.Type.DOUBLE)
        column = exp.Add(this=exp.cast(column, exp.DataType.Type.DOUBLE), expression=zero)  # no negative zero
    elif kind == "timestamptz":
        column = exp.AtTimeZone(this=column, zone=exp.Literal.string("UTC"))
    return exp.alias_(column, name, quoted=True)
