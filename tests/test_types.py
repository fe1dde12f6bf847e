"""The table of the six column types: complete, and its names are those of the systems that they name."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import get_args

import duckdb
import pandas
import pytest
import sqlalchemy
from sqlglot import exp

from sfumato.client import dbapi
from sfumato.types import TYPES, Type

CELLS = {
    "text": "emea",
    "integer": 2**53 + 1,
    "number": 0.1,
    "boolean": False,
    "date": date(2026, 11, 15),
    "timestamp": datetime(2026, 11, 15, 8, 30, 0, 5),
}
ROWS = pytest.mark.parametrize("row", TYPES.values(), ids=TYPES)


def test_every_type_has_a_row():
    assert (*TYPES,) == get_args(Type) == (*CELLS,)


@ROWS
def test_a_cell_is_read_back_from_json_and_csv(row):
    cell = CELLS[row.name]
    assert type(cell) is row.python
    assert row.from_json(json.loads(json.dumps(cell, default=lambda day: day.isoformat()))) == cell
    assert row.from_csv(str(row.to_csv(cell))) == cell


@ROWS
def test_the_example_is_a_literal_of_the_type(row):
    literal = exp.maybe_parse(row.example)
    assert row.read(literal.this if isinstance(literal, exp.Literal) else row.example) is not None


@ROWS
def test_the_names_are_those_of_each_system(row):
    assert str(duckdb.sql(f"SELECT NULL::{row.duckdb}").types[0]) == row.duckdb
    for dialect, name in (("postgres", row.postgres), ("spark", row.spark)):
        assert not exp.DataType.build(name, dialect=dialect).is_type("unknown", "userdefined")
    assert pandas.Series([CELLS[row.name]], dtype=row.pandas).dtype == row.pandas
    assert issubclass(getattr(sqlalchemy.types, row.sqlalchemy), sqlalchemy.types.TypeEngine)
    assert getattr(dbapi, row.dbapi) == row.name
