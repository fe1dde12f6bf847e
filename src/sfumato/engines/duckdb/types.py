"""DuckDB's names of types, and what they are here."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.engines.base import ColumnType

INTEGERS = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"))
WIDE_INTEGERS = frozenset(("HUGEINT", "UHUGEINT"))
FLOATS = frozenset(("FLOAT", "DOUBLE"))
NUMBERS = INTEGERS | WIDE_INTEGERS | FLOATS | {"DECIMAL"}
IDENTIFYING = NUMBERS | frozenset(
    (
        *("VARCHAR", "ENUM", "BOOLEAN", "UUID", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"),
        *("TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
    )
)
"""Types whose values tell people or keys apart."""

COLUMN_TYPES: Mapping[str, ColumnType] = {
    "VARCHAR": "text",
    "ENUM": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "FLOAT": "number",
    "DOUBLE": "number",
    "DECIMAL": "number",
    # Not UHUGEINT: DuckDB sums it in floating point. Not TIMESTAMP_NS: Python has no nanoseconds, so keys would merge.
    **dict.fromkeys((*INTEGERS, "HUGEINT"), "integer"),
}

LIST_TYPES: Mapping[str, ColumnType] = {
    "VARCHAR[]": "text",
    **dict.fromkeys((f"{name}[]" for name in INTEGERS - {"UBIGINT"}), "integer"),
}
"""Lists, by the type of their elements. Not UBIGINT: its values may not fit into 64 bits with a sign."""


def bare(kind: str) -> str:
    """DECIMAL(18,3) is a DECIMAL, ENUM('a', 'b') an ENUM; DECIMAL(18,3)[] is neither."""
    return kind.partition("(")[0] if kind.endswith(")") else kind
