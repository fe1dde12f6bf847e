"""Spark keeps the contracts, by a driver in this process."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.config.settings import EngineSettings
from sfumato.engines import open_engine
from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.spark import SparkEngine, contributions, sessions
from sfumato.engines.spark.dialect import SparkSql
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.release import aggregates_job
from sfumato.release.source import Source
from tests.contracts.asking import COLUMNS, AskContract
from tests.contracts.contributions import CROWD, SELECT, ContributionsContract, by_key, opened
from tests.contracts.engine import TABLE, EngineContract, column, counting, source
from tests.helpers.aggregating import request_of, run
from tests.helpers.duckdb_tables import PAIRS, write
from tests.helpers.terms import VALUES, WHOLE, of_pairs, of_values

pytestmark = [
    pytest.mark.slow,  # a driver of Spark
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
    pytest.mark.xdist_group("spark"),
]

MASTER = "local[2]"


@pytest.fixture(autouse=True, scope="module")
def _driver(tmp_path_factory) -> Iterator[None]:
    """One driver for all tests: it ends with the last engine. Nothing is left behind in the working directory."""
    before = set(Path().iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.sql.shuffle.partitions=2 pyspark-shell")
        # Each query is new code for the JVM, which would spend most of the time on compiling it well.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        patch.setattr(sessions.tempfile, "tempdir", str(tmp_path_factory.mktemp("spark")))
        with SparkEngine(MASTER, {}):
            yield
        left = list(Path(sessions.tempfile.tempdir).iterdir())
    assert [path for path in left if path.name.startswith("sfumato-spark")] == []
    assert set(Path().iterdir()) == before


class Files:
    """A Parquet file for each table, and an engine that reads it."""

    numbers: Iterator[int]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _folder(cls, tmp_path_factory):
        cls.folder, cls.numbers = tmp_path_factory.mktemp("tables"), itertools.count()

    def file(self, rows, columns) -> str:
        return str(write(self.folder / f"t{next(self.numbers)}.parquet", rows, columns))

    def make(self, rows, columns, table=TABLE):
        return SparkEngine(MASTER, {table: self.file(rows, columns)})


class TestClassic(Files, EngineContract):
    pass


class TestContributions(Files, ContributionsContract):
    pass


class TestAsking(Files, AskContract):
    def settle(self, rows):
        return f'type = "spark"\nurl = "{MASTER}"', self.file(rows, COLUMNS)

    def unsettle(self, source):
        Path(source).unlink()


@pytest.fixture
def pairs(tmp_path):
    return str(write(tmp_path / "events.parquet", [(i, "ab"[i % 2]) for i in range(10)]))


class TestOpening:
    def refusal(self, url: str, tables: dict[str, str], **more: Any) -> EngineFailed:
        with pytest.raises(EngineFailed) as refused:
            SparkEngine(url, tables, **more)
        assert refused.value.__context__ is None
        return refused.value

    @pytest.mark.parametrize("missing", ["events", "shop.events", "/no/such/events.parquet"])
    def test_no_such_source(self, missing):
        words = "is neither a table that Spark knows nor a place of Parquet files that it can read"
        assert str(self.refusal(MASTER, {TABLE: missing})) == f"table 'events': {missing!r} {words}"

    def test_another_master_than_that_of_the_process(self):
        assert str(self.refusal("local[1]", {})) == (
            "this process runs Spark on local[2]; use this master, or another process"
        )

    def test_no_java(self, monkeypatch):
        monkeypatch.setattr(sessions.shutil, "which", lambda name: None)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(EngineFailed, match=r"^Spark needs Java 17 or 21: apt-get install"):
            sessions.Driver()._start(MASTER)

    def test_a_setting_that_cannot_be_set_is_a_refusal(self, monkeypatch):
        monkeypatch.setitem(sessions.SETTINGS, "spark.sql.ansi.enabled", "TRUE ")
        monkeypatch.setitem(sessions.SETTINGS, "spark.sql.warehouse.dir", "/elsewhere")
        assert str(self.refusal(MASTER, {})) == sessions.NO_ANSWER

    def test_files_are_found_from_the_folder_of_the_configuration(self, pairs, tmp_path):
        settings = EngineSettings("spark", MASTER)
        with open_engine(settings, {TABLE: "events.parquet"}, folder=tmp_path) as found:
            assert found.run(counting()) == [(10,)]
        assert SparkEngine.places(settings, "events.parquet", tmp_path) == SparkEngine.places(settings, pairs, tmp_path)


class TestSessions:
    def test_each_has_its_settings_whatever_the_driver_has(self, pairs):
        with SparkEngine(MASTER, {TABLE: pairs}) as found:
            for name, value in sessions.SETTINGS.items():
                assert found._session.conf.get(name) == value

    def test_a_dollar_is_a_dollar(self, tmp_path):
        path = write(tmp_path / "t.parquet", [(1, "${spark.app.name}"), (2, "sfumato")])
        with SparkEngine(MASTER, {TABLE: str(path)}) as found:
            assert found.run(counting(column("key").eq(exp.Literal.string("${spark.app.name}")))) == [(1,)]

    def test_moments_with_a_zone_are_in_utc(self, tmp_path):
        path = tmp_path / "t.parquet"
        duckdb.sql("SELECT TIMESTAMPTZ '2024-01-01 00:30:00+01' AS at, 1 AS unit").write_parquet(str(path))
        with SparkEngine(MASTER, {TABLE: str(path)}) as found:
            [(at,)] = found.run(exp.select(column("at")).from_(source()))
            assert at.isoformat() == "2023-12-31T23:30:00"

    def test_collations_are_taken_off(self):
        with SparkEngine(MASTER, {}) as found:
            found._session.sql("CREATE TEMPORARY VIEW named AS SELECT 1 AS unit, 'a' COLLATE UNICODE_CI AS key")
            found._open_table(TABLE, "named")
            assert found.schema(TABLE) == PAIRS
            assert found.run(counting(column("key").eq(exp.Literal.string("A")))) == [(0,)]

    def test_a_slow_query_ends_and_the_engine_goes_on(self, pairs):
        with SparkEngine(MASTER, {TABLE: pairs}, timeout_s=2) as found:
            with pytest.raises(EngineFailed) as failure:
                found._run(SLOW)
            assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
            found._timeout_s = 60
            assert found.run(counting()) == [(10,)]

    def test_closing_ends_what_is_running(self, pairs):
        found = SparkEngine(MASTER, {TABLE: pairs})
        closing = threading.Timer(1, found.close)
        closing.start()
        with pytest.raises(EngineFailed):
            found._run(SLOW)
        closing.join()


SLOW = "SELECT count(*) FROM range(1000000000000) WHERE pmod(xxhash64(id), 7) = 8"


class TestReleases:
    """The table is the one that DuckDB gives for the same rows."""

    columns: ClassVar = {"person": "integer", "key": "text", "x": "number", "day": "date", "flag": "boolean"}
    rows: ClassVar = [
        (
            i * 7919 % 400 or None,
            ["it's", "two", "é", "😀", "", "É"][i * 31 % 6] + str(i * 17 % 23),
            None if i % 11 == 0 else i * 2654435761 % 3000 / 100,
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
        "more keys than a person has": {"aggregates": every, "max_keys": 40, "filter": "day >= '2024-01-03'"},
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
        with SparkEngine(MASTER, {TABLE: path}) as found, DuckDBEngine({TABLE: path}) as file:
            yield Source(found, TABLE), Source(file, TABLE)

    @pytest.mark.parametrize("case", cases)
    def test_it_has_the_same_bytes(self, tables, case):
        request = request_of(**{"epsilon": 50, "delta": 1e-6, "max_keys": 4, **self.cases[case]})
        ours, theirs = (run(request, table) for table in tables)
        assert ours.rows == theirs.rows
        assert ours.statement == theirs.statement
        assert len(ours.rows) > 20

    @pytest.mark.parametrize("method", ["pcr", "gaussian"])
    def test_counts_have_the_same_bytes(self, tables, method):
        request = sf.release.counts_job("t.parquet", unit="person", key="key", rho=5, delta=1e-6, method=method).request
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


class TestFrames:
    """A data frame of Spark stays there."""

    @pytest.fixture
    def path(self, tmp_path):
        return str(write(tmp_path / "rows.parquet", TestReleases.rows, TestReleases.columns))

    @pytest.fixture
    def frame(self, path):
        with SparkEngine(MASTER, {}) as found:
            found._session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            yield found._session.read.parquet(path)

    @pytest.mark.parametrize("public", [False, True])
    def test_the_table_is_that_of_a_parquet_file(self, frame, path, tmp_path, public):
        asked: dict[str, Any] = {"unit": "person", "key": "key", "aggregates": TestReleases.every, "max_keys": 4}
        keys = None
        if public:
            keys = str(write(tmp_path / "keys.parquet", [("é3",), ("it's0",), ("nowhere",)], {"key": "text"}))
        tables = []
        for rows, name in ((frame, "rows"), (duckdb.read_parquet(path), "rows")):
            job = aggregates_job(rows, **asked, keys=keys, name=name, epsilon=50, delta=1e-6)
            with job._opened() as opened_source:
                tables.append(run(job.request, opened_source))
        assert tables[0].rows == tables[1].rows
        assert len(tables[0].rows) == (3 if public else 138)
        assert frame.sparkSession.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"

    def test_random_numbers_of_its_plan_are_drawn_once(self, frame):
        from pyspark.sql import functions

        random = frame.withColumn("key", (functions.rand() * 50).cast("int"))
        asked = request_of(aggregates=[sf.Units(), sf.Count(100)], epsilon=100, delta=1e-6, max_keys=50)
        with (
            SparkEngine("", {}, frames={TABLE: random}) as found,
            found.contributions(asked.reading.query(Source(found, TABLE))) as contributions,
        ):
            counts = [contributions.count_people(SELECT, max_keys=3).tolist() for _ in range(2)]
        assert counts[0] == counts[1]

    def test_a_release_of_the_caller(self, frame):
        released = sf.release_counts(frame, unit="person", key="key", rho=5, delta=1e-6)
        assert len(released) > 20


class TestForms:
    """Sets of keys, and windows where a person has more keys than a row can hold: the same pairs."""

    @pytest.fixture
    def engine(self, tmp_path):
        path = write(tmp_path / "t.parquet", CROWD, {"person": "integer", "key": "integer"})
        with SparkEngine(MASTER, {TABLE: str(path)}) as found:
            yield found

    def test_both_keep_the_same_pairs(self, engine, monkeypatch):
        weights = np.arange(5)
        query = ContributionQuery(TABLE, "person", ("key",))
        with opened(engine, query) as sets, opened(engine, query) as windows:
            expected = sets.sum_weights(SELECT, weights), sets.count_people(SELECT, max_keys=3)
            monkeypatch.setattr("sfumato.engines.spark.contributions.sets_of", self.fail)
            found = windows.sum_weights(SELECT, weights), windows.count_people(SELECT, max_keys=3)
            for one, other in zip(expected, found, strict=True):
                assert by_key(sets, one) == by_key(windows, other)

    def fail(self, *given: Any) -> None:
        raise MemoryError

    def test_more_keys_than_the_driver_takes_are_a_failure(self, engine):
        with opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions:
            contributions._max_collected = 13
            with pytest.raises(EngineFailed):
                contributions.count_people(SELECT, max_keys=100)
            contributions._max_collected = 14
            assert len(contributions.count_people(SELECT, max_keys=100)) == 14


@pytest.mark.parametrize("table", ["values", "pairs"])
def test_sql_has_the_numbers_of_numpy(table):
    import pyarrow

    with SparkEngine(MASTER, {}) as found:
        if table == "values":
            cases = list(of_values())
            rows = found._session.createDataFrame(pyarrow.table({"n": range(len(VALUES)), "value": VALUES}))
        else:
            cases = list(of_pairs())
            columns = {"n": range(len(WHOLE)), **dict.fromkeys(("rows", "total0", "total1"), WHOLE)}
            rows = found._session.createDataFrame(pyarrow.table(columns))
        texts = [expression.sql(dialect=SparkSql, identify=True) for _, expression, _ in cases]
        numbers = list(zip(*rows.orderBy("n").selectExpr(*texts).collect(), strict=True))
    for (name, _, expected), number in zip(cases, numbers, strict=True):
        assert list(number) == expected.tolist(), name


def test_sums_of_one_person_cannot_overflow(monkeypatch):
    """Few rows that are very far from zero, instead of 2^28 that are as far as a value can be."""
    monkeypatch.setattr(contributions, "MAX_VALUE_STEPS", 2**52)
    text = contributions._sum_of_steps("value0", 1.0)
    with SparkEngine(MASTER, {}) as found:
        [(total,)] = found._session.range(2**12).selectExpr("1e300D + id AS value0").selectExpr(text).collect()
    assert total == 2**64
