"""Sessions of Spark, with every setting that an answer depends on.

A process has one driver, which all engines share: each has a session of its own, with its own settings. A driver that
was started here ends with the last engine that uses it, and its folders with it. One that was there before stays.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sfumato.errors import EngineFailed

SparkSession: TypeAlias = Any
"""A `SparkSession`, of the driver in this process or of Spark Connect. They have no class in common but `object`."""

NO_SPARK = "a Spark engine needs: pip install 'sfumato[spark]'"
NO_JAVA = "Spark needs Java 17 or 21: apt-get install openjdk-17-jre-headless, or set JAVA_HOME; or use sc://host:port"
JAVAS = (17, 21)
FIRST_RETRIES, RETRIES, RETRY_MS = 4, 6, 10_000
"""How often Spark Connect is called again, at first and later, and the longest pause: half a minute in all, not ten."""

NO_ANSWER = "Spark does not start, or does not answer at this address"

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # A text such as '${x}' stays what it is, and so does a backslash in it.
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.runSQLOnFiles": "true",
    # All rows, or a failure.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # Days before 1582 and moments without a zone are what the file says.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
"""Set in every session, and read back."""

_OWN: Mapping[str, str] = {
    "spark.app.name": "sfumato",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}
"""Of a driver that is started here. Its log could quote a cell."""


def set_all(session: SparkSession, settings: Mapping[str, str] = SETTINGS) -> dict[str, str]:
    """Set what a session needs, and read it back. Returns the values that were others before."""
    before = {name: old for name, value in settings.items() if (old := session.conf.get(name)) != value}
    for name in before:
        session.conf.set(name, settings[name])
    refused = [name for name, value in settings.items() if session.conf.get(name) != value]
    if refused:
        raise EngineFailed(f"Spark does not let a session set {refused[0]}")
    return before


@dataclass(frozen=True, slots=True)
class Tags:
    """What runs on Spark by a thread that has added a tag can be stopped by it, from any thread."""

    add: Callable[[str], None]
    remove: Callable[[str], None]
    stop: Callable[[str], Any]

    @classmethod
    def of(cls, session: SparkSession) -> Tags:
        if ".connect." in type(session).__module__:
            return cls(session.addTag, session.removeTag, session.interruptTag)
        driver = session.sparkContext  # the tags of its sessions are known to the thread alone that has added them
        return cls(driver.addJobTag, driver.removeJobTag, driver.cancelJobsWithTag)


class Driver:
    """The driver of this process. Use `DRIVER`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own: SparkSession | None = None
        self._folder: Path | None = None

    def open(self, master: str) -> SparkSession:
        """A session on it; it is started where there is none."""
        with self._lock:
            from pyspark import SparkContext
            from pyspark.sql import SparkSession

            there = SparkContext._active_spark_context
            if there is not None and there.master != master:
                raise EngineFailed(f"this process runs Spark on {there.master}; use this master, or another process")
            if there is None:
                self._start(master)
            session = SparkSession.builder.getOrCreate().newSession()
            self._users += 1
            return session

    def _start(self, master: str) -> None:
        from pyspark.sql import SparkSession

        home = os.environ.get("JAVA_HOME")
        if shutil.which("java") is None and not (home and (Path(home) / "bin" / "java").exists()):
            raise EngineFailed(NO_JAVA)
        self._folder = Path(tempfile.mkdtemp(prefix="sfumato-spark-"))
        places = {"spark.sql.warehouse.dir": str(self._folder / "warehouse")}
        if master.startswith("local"):
            # What is on this machine alone can be found from this machine alone.
            places |= {"spark.local.dir": str(self._folder), "spark.driver.host": "localhost"}
            places |= {"spark.driver.bindAddress": "127.0.0.1"}
        builder = SparkSession.builder.master(master)
        for name, value in {**_OWN, **places}.items():
            builder = builder.config(name, value)
        try:
            self._own = builder.getOrCreate()
            return
        except Exception:
            shutil.rmtree(self._folder, ignore_errors=True)
            if (found := _java_version()) in JAVAS:
                raise
        # Raised here: Spark's own text stays out of __context__.
        raise EngineFailed(f"{NO_JAVA}; this is Java {found}" if found else NO_JAVA)

    def leave(self) -> None:
        """The last one to leave stops a driver that was started here."""
        with self._lock:
            self._users -= 1
            if self._users or self._own is None:
                return
            own, self._own = self._own, None
            try:
                own.stop()
            finally:  # it may be dead
                if self._folder is not None:
                    shutil.rmtree(self._folder, ignore_errors=True)


def _java_version() -> int | None:
    """The number of the Java that a driver is started with; None where it does not tell."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else "java"
    with suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60).stderr  # noqa: S603
        if found := re.search(r'version "(?:1\.)?(\d+)', said):
            return int(found[1])
    return None


DRIVER = Driver()


def borrow_session(frame: Any) -> tuple[SparkSession, Callable[[], None]]:
    """The session of a data frame, with our settings; and what sets it back as it was."""
    session = frame.sparkSession
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    before = set_all(session)

    def end() -> None:
        for name, value in before.items():
            session.conf.set(name, value)

    return session, end


def open_session(url: str) -> tuple[SparkSession, Callable[[], None]]:
    """A session at a master, or at the `sc://` address of Spark Connect; and what ends it."""
    try:
        import pyspark  # noqa: F401

        # It writes the text of every failure to stderr, and that can quote a cell.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        if url.startswith("sc://"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                from pyspark.sql.connect.client.retries import DefaultPolicy
                from pyspark.sql.connect.session import SparkSession as RemoteSession
    except ImportError as missing:
        raise ModuleNotFoundError(NO_SPARK) from missing
    session, end = None, DRIVER.leave
    try:
        with warnings.catch_warnings():  # about the versions of libraries that are not used here
            warnings.simplefilter("ignore")
            if url.startswith("sc://"):
                session = RemoteSession.builder.remote(url).create()
                session.client.set_retry_policies([DefaultPolicy(max_retries=FIRST_RETRIES)])
                end = session.stop
            else:
                session = DRIVER.open(url)
            set_all(session)
            if url.startswith("sc://"):
                session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=RETRY_MS)])
        return session, end
    except EngineFailed as failed:
        problem = failed.problem
    except Exception:  # of Java, of gRPC or of the library itself: it has no common class, and its text is not ours
        problem = NO_ANSWER
    if session is not None:
        end()
    raise EngineFailed(problem)
