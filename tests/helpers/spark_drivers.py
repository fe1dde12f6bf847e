"""Drivers of Spark for the tests, each in a JVM of its own, so that the settings of the tests are those that hold.

PySpark keeps one JVM per process, also when the last session has ended. Its settings are those it was started with.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from sfumato.engines.spark import SparkEngine, sessions

ZONE = "America/New_York"
"""Of the machine, as the JVM sees it: not that of a session."""

CLUSTER = "local-cluster[2,1,1024]"
CLUSTER_SETTINGS = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.1",
    "spark.task.maxFailures": "8",
    "spark.sql.files.maxPartitionBytes": "65536",
}


@contextmanager
def driver(master: str, settings: Mapping[str, str], folder: Path) -> Iterator[SparkEngine]:
    """A driver while the block lasts, and an engine of no table that keeps it. Its files are in `folder`."""
    end_jvm()
    with pytest.MonkeyPatch.context() as patch:
        options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"{options} pyspark-shell")
        # Each query is new code for the JVM, which would spend most of the time on compiling it well.
        patch.setenv("JDK_JAVA_OPTIONS", f"-XX:TieredStopAtLevel=1 -Duser.timezone={ZONE}")
        patch.setenv("SPARK_WORKER_DIR", str(folder / "work"))
        patch.setattr(sessions.tempfile, "tempdir", str(folder))
        with SparkEngine(master, {}) as found:
            context = found._session.sparkContext
            assert {name: context.getConf().get(name) for name in settings} == {**settings}
            assert context._jvm.java.util.TimeZone.getDefault().getID() == ZONE
            yield found
    end_jvm()


def end_jvm() -> None:
    """End the JVM of this process, if it has one."""
    from pyspark import SparkContext

    assert SparkContext._active_spark_context is None, "a driver runs"
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def below(parent: int, named: str = "") -> list[int]:
    """Processes that a process has started, itself or by others, whose command names this."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if named.encode() in (entry / "cmdline").read_bytes() and parent in _ancestors(int(entry.name)):
                found.append(int(entry.name))
    return sorted(found)


def _ancestors(process: int) -> Iterator[int]:
    while process > 1:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        yield process


def executors(parent: int | None = None) -> list[int]:
    return below(parent or os.getpid(), "executor.CoarseGrainedExecutorBackend")


def kill(process: int) -> None:
    """In the middle of all that it does."""
    os.kill(process, signal.SIGKILL)


def wait_until(seen: Callable[[], bool], patience_s: float = 120) -> None:
    """Look until it is so. Nothing is decided by how long it takes."""
    deadline = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < deadline, f"not seen within {patience_s} s"
        time.sleep(0.02)
