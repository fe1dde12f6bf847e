"""The rows that a release reads, by the names that `sfumato.engines.spark.bounding` has for columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import ContributionQuery, check_present
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.spark.bounding import Frame
from sfumato.engines.spark.contributions import PushedRows
from sfumato.engines.spark.dialect import SparkSql
from sfumato.engines.spark.keys import KeyList
from sfumato.engines.spark.types import COLUMN_TYPES, FLOATS, IDENTIFYING, NUMBERS, bare
from sfumato.errors import InvalidArgument
from sfumato.query.counting import usable
from sfumato.types import Type


def check_query(query: ContributionQuery, kinds: Mapping[str, str]) -> None:
    """Refuse columns that Spark cannot bound or count by as DuckDB does; `kinds` are Spark's names of types."""
    cannot = "by which Spark cannot tell people or keys apart as all engines do; cast it to bigint or string"
    _check("unit", (query.unit,), kinds, IDENTIFYING, cannot)
    _check("key", query.key, kinds, IDENTIFYING, cannot)
    _check("column", query.values, kinds, NUMBERS, "which is not a number; cast it")


def _check(argument: str, names: Sequence[str], kinds: Mapping[str, str], known: frozenset[str], problem: str) -> None:
    if len(set(names)) < len(names):
        raise InvalidArgument(argument, "must be different columns")
    check_present(argument, names, kinds)
    for name in names:
        if bare(kinds[name]) not in known:
            raise InvalidArgument(argument, f"{name} is {kinds[name]}, {problem} in the frame or in a view")


def read_rows(table: Frame, query: ContributionQuery, kinds: Mapping[str, str]) -> PushedRows:
    """The rows of a query that can be used; `table` has all of its columns in their plain form."""
    conditions: list[exp.Expr | None] = [_present(query.unit), *map(_present, query.key)]
    conditions += [usable(name, cast(Type, COLUMN_TYPES[bare(kinds[name])])) for name in query.key]
    conditions += [_not_nan(name) for name in query.values if kinds[name] in FLOATS]
    conditions.append(query.where)
    columns = {"person": _column(query.unit)}
    columns |= {f"key{at}": _column(name) for at, name in enumerate(query.key)}
    columns |= {f"value{at}": exp.cast(_column(name), "DOUBLE") for at, name in enumerate(query.values)}
    chosen = table.where(_text(exp.and_(*filter(None, conditions))))
    frame = chosen.selectExpr(*(f"{_text(column)} AS {name}" for name, column in columns.items()))
    key_kinds = {f"key{at}": kinds[name] for at, name in enumerate(query.key)}
    return PushedRows(frame, kinds[query.unit], key_kinds, query.values)


def public_keys(path: str, query: ContributionQuery, kinds: Mapping[str, str]) -> KeyList:
    """The public keys of a file on this machine, as DuckDB reads and orders them."""
    import pyarrow  # type: ignore[import-untyped]

    empty = pyarrow.table({name: pyarrow.array([], _ARROW[bare(kinds[name])]) for name in (query.unit, *query.key)})
    named = replace(query, values=(), where=None)
    with (
        DuckDBEngine({named.public or "": path}, frames={query.table: empty}) as reader,
        reader.contributions(named) as found,
    ):
        keys = found.keys(range(found.size))
        bits = found.key_values.bits(np.arange(found.size, dtype=np.uint64)).view(np.int64)
    columns = zip(*keys, strict=True) if keys else [[] for _ in query.key]
    values = {
        f"key{at}": pyarrow.array(column, _ARROW[bare(kinds[name])])
        for at, (name, column) in enumerate(zip(query.key, columns, strict=True))
    }
    return KeyList(pyarrow.table(values), bits)


_ARROW = {
    **dict(zip(("tinyint", "smallint", "int", "bigint"), ("int8", "int16", "int32", "int64"), strict=True)),
    "string": "string",
    "date": "date32",
    "boolean": "bool",
}


def _text(expression: exp.Expr) -> str:
    return expression.sql(dialect=SparkSql, identify=True, comments=False)


def _column(name: str) -> exp.Expr:
    return exp.column(name, quoted=True)


def _present(name: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=_column(name), expression=exp.Null()))


def _not_nan(name: str) -> exp.Expr:
    is_nan = exp.Anonymous(this="ISNAN", expressions=[_column(name)])
    return exp.Not(this=exp.Coalesce(this=is_nan, expressions=[exp.false()]))
