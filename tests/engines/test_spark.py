"""Spark keeps the contracts, by a driver in this process."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from pyspark.errors import PySparkException
from sqlglot import exp

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.config.settings import EngineSettings
from sfumato.demo import demo
from sfumato.engines import open_engine
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.spark import SparkEngine, contributions, sessions
from sfumato.engines.spark.bounding import Identity, sets_of
from sfumato.engines.spark.dialect import SparkSql
from sfumato.errors import ConfigError, EngineFailed
from sfumato.release import aggregates_job
from sfumato.release.source import Source
from tests.contracts.contributions import CROWD, SELECT, ContributionsContract, by_key, opened
from tests.contracts.engine import TABLE, EngineContract, column, counting, source
from tests.contracts.spark import Files, SparkAsked, SparkDecimals, SparkReleases
from tests.helpers.aggregating import request_of, run
from tests.helpers.children import environment
from tests.helpers.duckdb_tables import PAIRS, write
from tests.helpers.spark_drivers import driver
from tests.helpers.terms import VALUES, WHOLE, of_pairs, of_values
from tests.release.test_jobs import ITEMS, PRICE, new_world

pytestmark = [
    pytest.mark.slow,  # a driver of Spark
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
]

MASTER = "local[2]"


@pytest.fixture(autouse=True, scope="module")
def _driver(tmp_path_factory) -> Iterator[None]:
    """One driver for all tests: it ends with the last engine. Nothing is left behind in the working directory."""
    folder = tmp_path_factory.mktemp("spark")
    with driver(MASTER, {"spark.sql.shuffle.partitions": "2"}, folder):
        yield
    assert [path for path in folder.iterdir() if path.name.startswith("sfumato-spark")] == []
    assert [name for name in ("spark-warehouse", "metastore_db", "derby.log", "artifacts") if Path(name).exists()] == []


class Classic:
    url = MASTER


class TestClassic(Classic, Files, EngineContract):
    pass


class TestContributions(Classic, Files, ContributionsContract):
    pass


class TestAsking(Classic, SparkAsked):
    pass


class TestDemo:
    """The first minute, on the real engine."""

    def test_it_runs_on_spark(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SFUMATO_ENGINES__LOCAL__URL", MASTER)
        with demo.start_demo(20_000, tmp_path / "first", "spark") as finished:
            answers = list(finished.answers.values())
            assert finished.table is not None
        assert [row["region"] for row in answers[2].rows] == ["emea", "amer", "apac"]
        assert 0 < len(finished.numbers.rows) <= 21  # numbers below 3 are not shown


class TestDecimals(Classic, SparkDecimals):
    pass


class TestReleases(Classic, SparkReleases):
    pass


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

    @pytest.mark.parametrize(("version", "number"), [("1.8.0_442", 8), ("11.0.28", 11), ("25", 25)])
    def test_a_java_that_spark_does_not_start_with(self, tmp_path, version, number):
        """In a process of its own: this one has a JVM."""
        (tmp_path / "bin").mkdir()
        java = tmp_path / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-07-15' >&2\nexit 1\n")
        java.chmod(0o755)
        program = "from sfumato.engines.spark import SparkEngine\nSparkEngine('local[1]', {})"
        more = {"JAVA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment(**more), capture_output=True, text=True, check=False
        )
        last = done.stderr.splitlines()[-1]
        assert last == f"sfumato.errors.EngineFailed: {sessions.NO_JAVA}; this is Java {number}"
        assert "During handling of" not in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["bin"]

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

    def test_closing_ends_where_the_driver_is_dead(self, pairs):
        found = SparkEngine(MASTER, {TABLE: pairs})
        gone = dict.fromkeys(("add", "remove", "stop"), lambda tag: 1 / 0)
        found._tags = sessions.Tags(**gone)
        with pytest.raises(EngineFailed):
            found.run(counting())
        closing = threading.Thread(target=found.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()

    def test_collations_are_taken_off(self):
        with SparkEngine(MASTER, {}) as found:
            found._session.sql("CREATE TEMPORARY VIEW named AS SELECT 1 AS unit, 'a' COLLATE UNICODE_CI AS key")
            found._open_table(TABLE, "named")
            assert found.schema(TABLE) == PAIRS
            assert found.run(counting(column("key").eq(exp.Literal.string("A")))) == [(0,)]


class TestFrames:
    """A data frame of Spark stays there."""

    @pytest.fixture
    def path(self, tmp_path):
        return str(write(tmp_path / "rows.parquet", SparkReleases.rows, SparkReleases.columns))

    @pytest.fixture
    def frame(self, path):
        with SparkEngine(MASTER, {}) as found:
            found._session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
            yield found._session.read.parquet(path)

    @pytest.mark.parametrize("public", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
    def test_the_table_is_that_of_a_parquet_file(self, frame, path, tmp_path, public):
        asked: dict[str, Any] = {"unit": "person", "key": "key", "aggregates": SparkReleases.every, "max_keys": 4}
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

    def test_a_person_has_a_key_once_where_rows_are_in_parts_by_person(self, engine):
        """As in a table with buckets: Spark adds these up in one step, and each part has many people."""
        rows = engine._session.range(40_000).selectExpr("id * 7919 % 1000 AS person", "id DIV 1000 % 20 AS key0")
        parted = rows.repartition(2, "person").sortWithinPartitions("key0")
        sets = sets_of(parted, Identity(("key0",), {"key0": "bigint"}), "person")
        sizes = sets.selectExpr("size(keys) AS n", "size(array_distinct(transform(keys, x -> x.key0))) AS once")
        assert {tuple(row) for row in sizes.collect()} == {(20, 20)}

    def test_more_keys_than_the_driver_takes_are_a_failure(self, engine):
        with opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions:
            contributions._max_collected = 13
            with pytest.raises(EngineFailed):
                contributions.count_people(SELECT, max_keys=100)
            contributions._max_collected = 14
            assert len(contributions.count_people(SELECT, max_keys=100)) == 14


class TestLedger:
    """A release that is paid for, and fails."""

    @pytest.fixture
    def world(self, tmp_path):
        world = new_world(tmp_path / "world")
        spark = f'type = "spark"\nurl = "{MASTER}"\nmax_collected = 1'
        world.config.write_text(world.config.read_text().replace('type = "duckdb"', spark))
        return world

    def release(self, world, max_collected: int):
        written = re.sub("max_collected = .*", f"max_collected = {max_collected}", world.config.read_text())
        world.config.write_text(written)
        return world.aggregates(source="sales", aggregates=[sf.Units()], out=world.out()).run()

    def test_too_many_keys_keep_the_charge_and_the_job_can_be_run_again_for_it(self, world):
        for _ in range(2):
            with pytest.raises(EngineFailed, match=r"^the rows could not be read, and nothing was released") as failure:
                self.release(world, len(ITEMS) - 1)
            assert failure.value.__context__ is None
            assert world.spent() == (NOTHING, PRICE)
            assert not Path(world.out()).exists()
        assert len(self.release(world, len(ITEMS))) == len(ITEMS)
        assert world.spent() == (PRICE, NOTHING)
        assert world.wrong() == []

    def test_a_limit_that_makes_no_sense_is_refused_before_anything_is_charged(self, world):
        with pytest.raises(ConfigError, match="max_collected"):
            self.release(world, 0)
        self.release(world, len(ITEMS))


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
        rows = found._session.range(2**12).selectExpr("1e300D + id AS value0").selectExpr(text)
        try:
            [(total,)] = rows.collect()
        except PySparkException as overflow:
            pytest.fail(f"the sum failed: {overflow.getCondition()}")
    assert total == 2**64
