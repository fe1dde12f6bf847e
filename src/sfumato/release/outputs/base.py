"""The port of every output, and what databases have in common: the fingerprint of a table's values."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from sqlglot import exp

from sfumato.errors import InvalidArgument
from sfumato.release.table import Released
from sfumato.wire.frames import relation

STATEMENT = "_statement"
UNWRITTEN = "the table could not be written"
EXISTS = "exists; choose another name, or say --overwrite"
IS_VIEW = "is there, and is not a table; choose another name"
APPEARED = "has appeared meanwhile, and is left as it is"


@dataclass(frozen=True)
class StoredTable:
    """The table at a target: its statement, its SHA-256, and the table itself or the `problem` with it."""

    statement: dict[str, Any]
    sha256: str
    released: Released | None
    problem: str = ""


class Target(ABC):
    """A place for a table."""

    @property
    @abstractmethod
    def format(self) -> str:
        """What the statement calls it: parquet, csv, duckdb or postgres."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Its name in messages, without a password."""

    @abstractmethod
    def check(self, *, overwrite: bool = False) -> None:
        """Refuse a place that is known to fail, before anything is charged."""

    @abstractmethod
    def write(self, released: Released, *, overwrite: bool = False) -> None:
        """Write the table and its statement, whole or not at all."""

    @abstractmethod
    def load(self) -> StoredTable:
        """The table that is there."""


def check_folder(path: Path) -> None:
    """Refuse a file whose folder cannot be written to."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InvalidArgument("out", f"there is no folder {str(folder)!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidArgument("out", f"the folder {str(folder)!r} cannot be written to")


def reading_problem(refusal: InvalidArgument) -> str:
    """What is wrong with a stored table that was refused."""
    return f"cannot be read: {refusal.problem}" if refusal.argument != "table" else refusal.problem


def load_sorted(statement: dict[str, Any], load: Callable[[], Released]) -> StoredTable:
    """A table of a database, its rows in order."""
    try:
        released = _sort(load())
    except InvalidArgument as refusal:
        return StoredTable(statement, "", None, reading_problem(refusal))
    return StoredTable(statement, _digest(released), released)


def fingerprint(released: Released) -> str:
    """The SHA-256 of the values: columns with their names and kinds, rows sorted by all columns from left to right."""
    return _digest(_sort(released))


def _digest(released: Released) -> str:
    digest = hashlib.sha256(json.dumps([len(released), *released.columns.items()]).encode())
    for name, kind in released.columns.items():
        values = released.data[name]
        if kind == "text":
            encoded = [text.encode() for text in values]
            digest.update(np.fromiter(map(len, encoded), dtype="<i8", count=len(encoded)).tobytes())
            digest.update(b"".join(encoded))
        elif values.dtype.kind == "f":
            # 8 bytes each, the lowest first. All that is missing is one NaN, and zero has no sign.
            digest.update(np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes())
        else:
            digest.update(values.astype("<i8").tobytes())
    return digest.hexdigest()


def _sort(released: Released) -> Released:
    """Rows in DuckDB's order: text by its bytes, what is missing last."""
    columns = {**{f"c{place}": kind for place, kind in enumerate(released.columns.values())}, "place": "integer"}
    data = {**dict(zip(columns, released.data.values(), strict=False)), "place": np.arange(len(released))}
    by = [exp.Ordered(this=exp.column(f"c{place}"), nulls_first=False) for place in range(len(released.columns))]
    with duckdb.connect() as connection:
        rows = relation(connection, columns, data).order(", ".join(column.sql("duckdb") for column in by))
        order: np.ndarray[Any, Any] = rows.project("place").fetchnumpy()["place"]
    return Released(released.columns, {name: array[order] for name, array in released.data.items()}, released.statement)
