"""Data frames as the source of a release: pandas, Polars, Arrow, relations of DuckDB, and those of Spark.

A frame hands its rows over once, as an Arrow stream, and the engine keeps a copy of the columns that it needs. So a
stream that can be read once is enough, and a frame that is changed later does not matter. Of pandas the engine reads
the columns themselves: a stream of pandas would need pyarrow, and have the index as a column. The rows of a Spark frame
stay where they are, and its engine reads them there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sfumato.config.engines import ENGINES
from sfumato.errors import InvalidArgument

FrameLike: TypeAlias = Any
"""What has `__arrow_c_stream__`, or a lazy frame of Polars."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows of a caller. `name` stands for them in the digest of a request, and their content never does.

    `table`: the table of the configuration whose rows these are, or are among.
    """

    rows: FrameLike = field(repr=False, compare=False)
    name: str = ""
    table: str = ""
    engine: str = ""
    """The engine that its rows are in, where it is not a copy that is read."""

    @classmethod
    def of(cls, rows: FrameLike, name: str = "", table: str = "") -> Frame:
        """The frame; refuses what is none."""
        modules = [str(kind.__module__) for kind in type(rows).__mro__]
        for engine, kind in ENGINES.items():
            if kind.frames and any(module.startswith(f"{kind.frames}.") for module in modules):
                return cls(rows, name, table, engine)
        if not _is_a(rows, "polars", "LazyFrame") and not hasattr(type(rows), "__arrow_c_stream__"):
            known = "must be a file, a glob of files, the name of a table, or a data frame of Spark or"
            raise InvalidArgument("source", f"{known} with __arrow_c_stream__ (pandas, Polars, Arrow, DuckDB)")
        return cls(rows, name, table)

    def open(self) -> object:
        """What an engine reads, once: an Arrow stream, or a frame of pandas as it is.

        Every failure has the same text: that of the frame's own library can quote a cell.
        """
        if self.engine:
            _check_names(_column_names(self.rows))
            return self.rows
        names: Sequence[Any] = ()
        opened = None
        # Refused below and not in a handler: even `from None` would leave the text of the library in __context__.
        with suppress(Exception):
            rows = self.rows.collect() if _is_a(self.rows, "polars", "LazyFrame") else self.rows
            names = _column_names(rows)
            opened = rows if _is_a(rows, "pandas", "DataFrame") else rows.__arrow_c_stream__()
        _check_names(names)
        if opened is None:
            problem = "the data frame fails to hand over its rows; make a frame of plain columns, and release from it"
            raise InvalidArgument("source", problem)
        return opened


def _is_a(rows: FrameLike, library: str, name: str) -> bool:
    """Whether it is of a class of a library. One that was never imported has no frames."""
    kind = getattr(sys.modules.get(library), name, None)
    return isinstance(kind, type) and isinstance(rows, kind)


def _column_names(rows: FrameLike) -> Sequence[Any]:
    """The names of the columns, as far as a frame tells them: each library has its own way."""
    if _is_a(rows, "pandas", "DataFrame"):
        return list(rows.columns)
    schema = getattr(rows, "schema", None)
    ways = getattr(rows, "columns", None), getattr(rows, "column_names", None), getattr(schema, "names", None)
    listed = (way for way in ways if isinstance(way, list | tuple))
    return next((names for names in listed if all(isinstance(name, str) for name in names)), ())


def _check_names(names: Sequence[Any]) -> None:
    """Refuse names that an engine would change. It takes two names that differ by case for one."""
    known: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidArgument("source", "a column of the data frame has a name that is no text; rename it")
        if name.casefold() in known:
            problem = f"two columns of the data frame have the name {name!r}, or differ by case only; rename one"
            raise InvalidArgument("source", problem)
        known.add(name.casefold())
