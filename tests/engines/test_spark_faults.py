"""A cluster whose executors die: the same bytes, and no person above L."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.spark import SparkEngine, bounding, sessions
from tests.contracts.contributions import SELECT, by_key, opened
from tests.contracts.engine import TABLE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
]

MASTER = "local-cluster[2,1,1024]"
MOST = 5
ROWS = "SELECT (i * 7919) % 5000 AS person, (hash(i) % 400)::BIGINT AS key FROM range(400000) AS t(i)"
CONFIGURED = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.task.maxFailures": "8",
    "spark.sql.files.maxPartitionBytes": "65536",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[SparkEngine]:
    folder = tmp_path_factory.mktemp("cluster")
    path = str(folder / "t.parquet")
    duckdb.sql(ROWS).write_parquet(path)
    with pytest.MonkeyPatch.context() as patch:
        options = " ".join(f"--conf {name}={value}" for name, value in CONFIGURED.items())
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{options} pyspark-shell")
        patch.setenv("SPARK_WORKER_DIR", str(folder / "work"))
        patch.setattr(sessions.tempfile, "tempdir", str(folder))
        with SparkEngine(MASTER, {TABLE: path}) as found:
            yield found


@pytest.fixture(scope="module")
def expected(cluster, tmp_path_factory) -> dict:
    path = next(Path(tmp_path_factory.getbasetemp()).glob("cluster*/t.parquet"))
    query = ContributionQuery(TABLE, "person", ("key",))
    with DuckDBEngine({TABLE: str(path)}) as file, opened(file, query) as contributions:
        return by_key(contributions, contributions.count_people(SELECT, max_keys=MOST))


def executors() -> list[int]:
    """The processes of executors of this run: they know the port of this driver."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and is_ours(int(entry.name)):
                found.append(int(entry.name))
    return sorted(found)


def is_ours(process: int) -> bool:
    while process > 1:
        if process == os.getpid():
            return True
        status = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        process = int(status[1])
    return False


def strike(cluster: SparkEngine, stage: int, done: threading.Event, struck: list[int]) -> None:
    """Kill one executor while a stage runs: its rows, and the shuffle files that it has written, are gone."""
    tracker = cluster._session.sparkContext.statusTracker()
    first = None
    while not done.wait(0.005):
        for number in sorted(tracker.getActiveStageIds()):
            info = tracker.getStageInfo(number)
            first = number if first is None else first
            if info is not None and number == first + stage and info.numCompletedTasks > 0 and not struck:
                struck.append(executors()[0])
                os.kill(struck[0], signal.SIGKILL)


@pytest.mark.parametrize("stage", [0, 1], ids=["the first stage", "the second stage"])
def test_an_executor_that_dies_changes_no_byte(cluster, expected, stage):
    query = ContributionQuery(TABLE, "person", ("key",))
    done, struck = threading.Event(), []
    with opened(cluster, query) as contributions:
        killer = threading.Thread(target=strike, args=(cluster, stage, done, struck))
        killer.start()
        try:
            counts = contributions.count_people(SELECT, max_keys=MOST)
        finally:
            done.set()
            killer.join()
        assert struck
        assert by_key(contributions, counts) == expected
        rows = contributions._rows
        sets = bounding.sets_of(rows.frame, rows.identity, rows.person_bits)
        kept = bounding.as_sets(sets, rows.identity, SELECT, MOST)
        [(most,)] = kept.groupBy("person").count().selectExpr("max(count)").collect()
        assert most == MOST


def test_an_order_that_is_not_keyed_would_be_caught(cluster, expected, monkeypatch):
    monkeypatch.setattr(bounding, "rank", lambda order, person, key: "CAST(rand() * 1048576 AS BIGINT)")
    with opened(cluster, ContributionQuery(TABLE, "person", ("key",))) as contributions:
        assert by_key(contributions, contributions.count_people(SELECT, max_keys=MOST)) != expected
