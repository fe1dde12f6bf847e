"""What Spark must keep however it is reached: by a driver in the process, by a cluster of it, or by Spark Connect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sfumato as sf
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.spark import SparkEngine
from sfumato.errors import InvalidArgument
from sfumato.release import counts_job
from sfumato.release.source import Source
from tests.contracts.asking import COLUMNS, AskContract
from tests.contracts.decimals import DecimalsContract
from tests.contracts.engine import TABLE
from tests.helpers.aggregating import request_of, run
from tests.helpers.duckdb_tables import write
from tests.helpers.repeats import repeats


class Files:
    """A Parquet file for each table, and an engine at `url` that reads it."""

    url: ClassVar[str]
    patience_s: ClassVar[float] = repeats(10, 20)
    folder: ClassVar[Path]
    numbers: ClassVar[Iterator[int]]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _folder(cls, tmp_path_factory):
        cls.folder, cls.numbers = tmp_path_factory.mktemp("tables"), itertools.count()

    def file(self, rows, columns) -> str:
        return str(write(self.folder / f"t{next(self.numbers)}.parquet", rows, columns))

    def make(self, rows, columns, table=TABLE, **options):
        return SparkEngine(self.url, {table: self.file(rows, columns)}, **options)

    def lose(self, engine):
        Path(engine._tables[TABLE].name).unlink()
        return True


class SparkAsked(Files, AskContract):
    dead = 'type = "spark"\nurl = "sc://127.0.0.1:1"'
    extra, modules = "spark", ("pyspark",)

    def settle(self, rows):
        return f'type = "spark"\nurl = "{self.url}"', self.file(rows, COLUMNS)

    def unsettle(self, source):
        Path(source).unlink()


class SparkDecimals(Files, DecimalsContract):
    def retype(self, engine):
        path = engine._tables[TABLE].name
        with SparkEngine(self.url, {}) as other:
            doubles = other._session.read.parquet(path)
            target = f"{path}.decimals"
            doubles.selectExpr("* EXCEPT (x)", "CAST(x AS DECIMAL(20, 2)) AS x").write.parquet(target)
        return SparkEngine(self.url, {TABLE: target})


EVERYDAY = {"every statistic", "read again", "bounds on keys by a census", "two columns", "weights"}
"""The releases of every run. The others are in an exhaustive one."""


class SparkReleases:
    """The table is the one that DuckDB gives for the same rows."""

    url: ClassVar[str]
    columns: ClassVar = {"person": "integer", "key": "text", "x": "number", "day": "date", "flag": "boolean"}
    rows: ClassVar = [
        (
            i * 7919 % 400 or None,
            ["it's", "two", "é", "😀", "", "É"][i * 31 % 6] + str(i * 17 % 23),
            {0: None, 5: math.nan, 7: math.inf}.get(i % 11, i * 2654435761 % 3000 / 100),
            date(2024, 1, 1 + i % 28),
            i % 3 == 0,
        )
        for i in range(6000)
    ]
    every: ClassVar = [
        *(sf.Units(), sf.Count(3), sf.Sum("x", 0, 30), sf.Mean("x", 0, 30, values=2), sf.Variance("x", 0, 30)),
        sf.Quantile("x", 0, 4, quantiles=(0.5,), values=2),
    ]
    cases: ClassVar[dict[str, dict[str, Any]]] = {
        "every statistic": {"aggregates": every},
        "more keys than a person has": {"aggregates": every, "max_keys": 40, "filter": "day >= '2024-01-03' AND x > 1"},
        "bounded once": {"aggregates": every, "pipeline": "fast"},
        "read again": {"aggregates": every, "pipeline": "naive"},
        "bounds on keys by a census": {"aggregates": every, "max_keys": "auto"},
        "bounds on values": {"aggregates": [sf.Sum("x"), sf.Mean("x")], "auto_bounds": True},
        "two columns": {"aggregates": every, "key": ["day", "flag"]},
        "people by text": {"aggregates": [sf.Units()], "unit": "key", "key": "day"},
        "weights": {"aggregates": [sf.Count(2)], "selection": "weighted_twice", "selection_max_keys": 5},
    }

    @pytest.fixture(scope="class")
    @classmethod
    def tables(cls, tmp_path_factory):
        path = str(write(tmp_path_factory.mktemp("releases") / "t.parquet", cls.rows, cls.columns))
        with SparkEngine(cls.url, {TABLE: path}) as found, DuckDBEngine({TABLE: path}) as file:
            yield Source(found, TABLE), Source(file, TABLE)

    @pytest.mark.parametrize(
        "case",
        [pytest.param(name, marks=() if name in EVERYDAY else pytest.mark.exhaustive) for name in cases],
    )
    def test_it_has_the_same_bytes(self, tables, case):
        request = request_of(**{"epsilon": 50, "delta": 1e-6, "max_keys": 4, **self.cases[case]})
        ours, theirs = (run(request, table) for table in tables)
        assert ours.rows == theirs.rows
        assert ours.statement == theirs.statement
        assert len(ours.rows) > 20

    @pytest.mark.parametrize("method", ["pcr", "gaussian"])
    def test_counts_have_the_same_bytes(self, tables, method):
        request = counts_job("t.parquet", unit="person", key="key", rho=5, delta=1e-6, method=method).request
        ours, theirs = (run(request, table) for table in tables)
        assert (ours.rows, ours.statement) == (theirs.rows, theirs.statement)
        assert len(ours.rows) > 20

    @pytest.mark.parametrize("unit", ["x", "person"])
    def test_what_other_engines_order_by_other_bits_is_refused_with_a_way_out(self, tables, unit):
        request = request_of(unit=unit, key="person" if unit == "x" else "x", epsilon=1, delta=1e-6, max_keys=2)
        argument = "unit" if unit == "x" else "key"
        with pytest.raises(
            InvalidArgument, match=rf"^{argument}: x is double, .*cast it to bigint or string in .* view$"
        ):
            request.check(tables[0])
