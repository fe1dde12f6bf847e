"""A cluster that loses executors, files and its driver: the same bytes, one charge, and no person above L."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.spark import SparkEngine, bounding, contributions, sessions
from sfumato.release import Released
from sfumato.release.aggregates import Aggregates
from sfumato.release.job import Job
from sfumato.release.outputs import read, target
from sfumato.release.source import Source
from tests.contracts.engine import TABLE
from tests.helpers.aggregating import request_of, run
from tests.helpers.children import Child, start
from tests.helpers.spark_drivers import CLUSTER, CLUSTER_SETTINGS, below, driver, executors, kill, wait_until
from tests.release.test_jobs import PRICE, World, new_world, values

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
]

MOST = 5
ROWS = """
SELECT (i * 7919) % 5000 AS person, (hash(i) % 400)::BIGINT AS key, (hash(i + 1) % 3000) / 100 AS x
FROM range(400000) AS t(i)
"""
ASKED = request_of(
    aggregates=[sf.Units(), sf.Count(3), sf.Sum("x", 0, 30)], max_keys=MOST, epsilon=5, delta=1e-6, pipeline="fast"
)
REDUCERS = int(CLUSTER_SETTINGS["spark.sql.shuffle.partitions"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    found: Path = tmp_path_factory.mktemp("cluster")
    duckdb.sql(ROWS).write_parquet(str(found / "t.parquet"))
    return found


@pytest.fixture(scope="module")
def cluster(folder) -> Iterator[SparkEngine]:
    with driver(CLUSTER, CLUSTER_SETTINGS, folder), SparkEngine(CLUSTER, {TABLE: str(folder / "t.parquet")}) as found:
        yield found


@pytest.fixture(scope="module")
def expected(folder) -> Released:
    with DuckDBEngine({TABLE: str(folder / "t.parquet")}) as file:
        return run(ASKED, Source(file, TABLE))


@dataclass
class Struck:
    """A release in whose bounding of pairs number `part` something happens, while stage 1 or 2 of it runs.

    The pairs that a person keeps are written to files by the job that is struck. The release goes on with these, and
    they can be looked at afterwards.
    """

    cluster: SparkEngine
    happens: Callable[[SparkEngine], object]
    stage: int
    part: int
    folder: Path
    kept: list[Path] = field(default_factory=list)
    writes: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    strikes: int = 0

    def run(self, patch: pytest.MonkeyPatch) -> Released:
        for name in ("as_sets", "as_windows"):
            patch.setattr(contributions, name, self.recorded(getattr(bounding, name)))
        watching = threading.Thread(target=self.watch)
        watching.start()
        try:
            return run(ASKED, Source(self.cluster, TABLE))
        finally:
            self.ended.set()
            watching.join()

    def recorded(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **named: Any) -> Any:
            found = real(*arguments, **named)
            self.kept.append(path := self.folder / str(len(self.kept)))
            if len(self.kept) == self.part:
                self.writes.set()
            found.write.parquet(str(path))
            self.writes.clear()
            return found.sparkSession.read.parquet(str(path))

        return record

    def watch(self) -> None:
        tracker = self.cluster._session.sparkContext.statusTracker()
        while not self.ended.wait(0.005) and not self.strikes:
            infos = map(tracker.getStageInfo, tracker.getActiveStageIds() if self.writes.is_set() else ())
            if any(info is not None and self.is_hit(info) for info in infos):
                self.happens(self.cluster)
                self.strikes += 1

    def is_hit(self, info: Any) -> bool:
        """Whether it is the stage, and in the middle of its tasks. The first one reads the files, in more tasks."""
        in_the_middle: bool = 0 < info.numCompletedTasks < info.numTasks
        return in_the_middle and (info.numTasks > REDUCERS if self.stage == 1 else info.numTasks == REDUCERS)

    def check(self, released: Released, expected: Released) -> None:
        assert self.strikes == 1
        assert released.rows == expected.rows
        assert released.statement == expected.statement
        assert len(released.rows) > 20
        for path in self.kept:
            pairs = duckdb.read_parquet(f"{path}/*.parquet")
            key = ", ".join(name for name in pairs.columns if name.startswith("key") and name != "key_bits") or "code"
            people = f"SELECT person, count(DISTINCT ({key})) AS n FROM pairs GROUP BY person"
            [(most, people_kept)] = duckdb.sql(f"SELECT max(n), count(*) FROM ({people})").fetchall()
            assert (most, people_kept) == (MOST, 5000)


def lose_an_executor(cluster: SparkEngine) -> None:
    """Its tasks, and the shuffle files that it has written, are gone."""
    kill(executors()[0])


def remove_shuffle_files(cluster: SparkEngine) -> None:
    """Of all stages that have ended, on all executors."""
    found = list(Path(sessions.tempfile.tempdir).rglob("shuffle_*"))
    assert found
    for path in found:
        path.unlink(missing_ok=True)


STRIKES: dict[str, tuple[Callable[[SparkEngine], object], int, int]] = {
    "an executor in the first stage of selection": (lose_an_executor, 1, 1),
    "an executor in the second stage of selection": (lose_an_executor, 2, 1),
    "an executor in the first stage of statistics": (lose_an_executor, 1, 2),
    "an executor in the second stage of statistics": (lose_an_executor, 2, 2),
    "shuffle files in the second stage of selection": (remove_shuffle_files, 2, 1),
    "shuffle files in the second stage of statistics": (remove_shuffle_files, 2, 2),
}


@pytest.mark.parametrize("lost", STRIKES)
def test_what_is_lost_changes_no_byte(cluster, expected, tmp_path, monkeypatch, lost):
    struck = Struck(cluster, *STRIKES[lost], tmp_path)
    struck.check(struck.run(monkeypatch), expected)


def test_with_an_order_that_is_not_keyed_the_same_test_fails(cluster, expected, tmp_path, monkeypatch):
    """Random choices of L keys are as many for everybody. They are others whenever they are made."""
    shuffled = "transform(shuffle(keys), x -> struct(0 AS h, 0L AS bits, x AS key))"
    monkeypatch.setattr(bounding.Identity, "ranked", lambda *given: shuffled)
    tables = []
    for turn in ("one", "two"):
        (tmp_path / turn).mkdir()
        struck = Struck(cluster, lose_an_executor, 2, 1, tmp_path / turn)
        tables.append(struck.run(monkeypatch))
        with pytest.raises(AssertionError):
            struck.check(tables[-1], expected)
        assert struck.strikes == 1
    assert tables[0].rows != tables[1].rows


def released_by_spark(folder: str, pause: bool) -> list[Any]:
    """What a process does: a release that is paid for. With `pause`, it says when its rows are read, and waits."""
    world, real = World(Path(folder)), Job._compute

    def compute(self: Job, source: Source, secret: bytes) -> Released:
        with (world.folder / "secrets").open("ab") as secrets:
            secrets.write(secret)
        return real(self, source, secret)

    def slow_sets(*arguments: Any) -> Any:
        found = bounding.as_sets(*arguments)
        (world.folder / "reading").touch()
        return found.where("java_method('java.lang.Thread', 'sleep', 600000L) IS NULL") if pause else found

    Job._compute, contributions.as_sets = compute, slow_sets  # type: ignore[method-assign, assignment]
    with driver(CLUSTER, CLUSTER_SETTINGS, world.folder / "spark"):
        return values(asked_of(world).run())


def asked_of(world: World) -> Job:
    return world.aggregates(source="sales", aggregates=[sf.Units()], out=world.out(), pipeline="fast")


@pytest.mark.parametrize("victim", ["the process", "its JVM"])
def test_a_driver_that_is_killed_leaves_a_job_that_can_be_run_again_at_no_charge(tmp_path, victim):
    world = new_world(tmp_path / "world")
    (world.folder / "spark").mkdir()
    text = world.config.read_text().replace('type = "duckdb"', f'type = "spark"\nurl = "{CLUSTER}"')
    world.config.write_text(text)
    first = start(released_by_spark, str(world.folder), True)
    wait_until(lambda: (world.folder / "reading").exists() and len(executors(first.process.pid)) == 2)
    started = below(first.process.pid)
    kill(first.process.pid if victim == "the process" else jvm_of(first))
    first.process.join()
    wait_until(lambda: not any(Path(f"/proc/{process}").exists() for process in started))
    assert world.spent() == (NOTHING, PRICE)
    assert not Path(world.out()).exists()
    again = start(released_by_spark, str(world.folder), False).result()
    assert world.spent() == (PRICE, NOTHING)
    assert world.wrong() == []
    assert sorted(values(read(target(world.out())))) == sorted(map(tuple, again))
    secrets = (world.folder / "secrets").read_bytes()
    assert secrets[:32] == secrets[32:]
    request = asked_of(world).request
    assert isinstance(request, Aggregates)
    with DuckDBEngine({TABLE: str(world.sales)}) as file:
        assert values(run(request, Source(file, TABLE), secrets[:32])) == list(map(tuple, again))
    assert not [path for path in (world.folder / "spark").rglob("*") if path.name.startswith("shuffle_")]


def jvm_of(child: Child) -> int:
    [found] = below(child.process.pid or os.getpid(), "SparkSubmit")
    return found
