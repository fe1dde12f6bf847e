"""Rows in tables of DuckDB, and in files that it writes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from sfumato.types import TYPES

MANY = 50_000
PAIRS = {"unit": "integer", "key": "text"}


def quoted(text: object) -> str:
    return exp.Literal.string(str(text)).sql("duckdb")


def fill(connection, table: str, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str]) -> str:
    """Make a table and return its quoted name."""
    name = exp.to_identifier(table, quoted=True).sql("duckdb")
    typed = [f"{exp.to_identifier(c, quoted=True).sql('duckdb')} {TYPES[kind].duckdb}" for c, kind in columns.items()]
    connection.execute(f"CREATE TABLE {name} ({', '.join(typed)})")
    if len(rows) > MANY:
        lists = ", ".join(f"unnest(CAST(? AS {TYPES[kind].duckdb}[]))" for kind in columns.values())
        connection.execute(f"INSERT INTO {name} SELECT {lists}", [list(values) for values in zip(*rows, strict=True)])
        return name
    for start in range(0, len(rows), 500):
        block = rows[start : start + 500]
        places = ", ".join(["(" + ", ".join("?" * len(columns)) + ")"] * len(block))
        connection.execute(f"INSERT INTO {name} VALUES {places}", list(itertools.chain(*block)))
    return name


def write(path: Path, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str] = PAIRS, options: str = "") -> Path:
    with duckdb.connect() as connection:
        name = fill(connection, "t", rows, columns)
        connection.execute(f"COPY {name} TO {quoted(path)} {options}")
    return path
