"""Public tables: dimensions whose rows everyone may know, such as the category of each item.

A JOIN with one is a look-up: at most one row there has the key of a row of people, so it is a function of that row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sfumato.errors import ConfigError, NotSupported
from sfumato.query.values import read_value
from sfumato.types import Type, Value

MAX_PUBLIC_ROWS = 100_000
KEY_TYPES: tuple[Type, ...] = ("text", "integer", "date", "timestamp")
"""What can be a key: two numbers with a point can be equal for one engine and not for another."""


@dataclass(frozen=True, eq=False)
class PublicTable:
    """A public table at one version. `rows` are by their key, and have a cell for each of `columns`.

    Two of them are one only if they are the same object. `source` is where the rows come from.
    """

    name: str
    key: str
    columns: Mapping[str, Type]
    rows: Mapping[Value, Sequence[Value | None]] = field(repr=False)
    version: str = ""
    source: str = ""

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.columns)}

    def column(self, name: str) -> str | None:
        """The column that a name means, in any case."""
        alike = [column for column in self.columns if column.casefold() == name.casefold()]
        return name if name in self.columns else alike[0] if len(alike) == 1 else None

    def find(self, key: Value, column: str) -> Value | None:
        """The value of a column in the row with this key; None where there is no such row."""
        row = self.rows.get(key)
        return None if row is None else row[self._places[column]]


def read_public_rows(name: str, key: str, columns: Mapping[str, Type], rows: Iterable[Sequence[Any]]) -> PublicTable:
    """A public table from its rows in the engine. Raises `ConfigError` where its key does not name one row.

    Cells that no policy could name, such as text of many characters, are NULL. Rows without a key are left out.
    """
    place, found = list(columns).index(key), dict[Value, Sequence[Value | None]]()
    for row in rows:
        cells = [_cell(column, kind, cell) for (column, kind), cell in zip(columns.items(), row, strict=True)]
        value = cells[place]
        if value is None:
            continue
        if value in found:
            raise ConfigError(f"tables.{name}.key", f"{key} is not unique: two rows have {str(value)[:60]!r}")
        found[value] = cells
        if len(found) > MAX_PUBLIC_ROWS:
            raise ConfigError(f"tables.{name}", f"has more than {MAX_PUBLIC_ROWS} rows; take a view with fewer")
    return PublicTable(name, key, columns, found)


def _cell(column: str, kind: Type, cell: Any) -> Value | None:
    if cell is not None:
        with suppress(NotSupported):
            return read_value(column, kind, cell)
    return None
