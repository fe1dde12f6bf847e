"""What all tests share: a fixed source of noise, and a PostgreSQL."""

from __future__ import annotations

import atexit
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sfumato.ledger import store
from sfumato.mechanisms import Rng
from tests.helpers import pinot, postgres
from tests.helpers.repeats import EXHAUSTIVE, repeats

# An error of our own inside a transaction shows itself. Tests of damaged ledgers use the fixture `damage_is_named`.
UNREADABLE, store.UNREADABLE = store.UNREADABLE, ()

# Contract tests are inherited, so one test runs in several classes: that is the point of them.
settings.register_profile(
    "sfumato",
    max_examples=repeats(50, 500),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("sfumato")

# A shell's job in the background ignores Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fences without a place of their own are in the user's state folder: not in that of the one who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def damage_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "UNREADABLE", UNREADABLE)


@pytest.fixture
def rng() -> Rng:
    return Rng.keyed(b"k" * 32, b"tests")


@atexit.register
def end_silently() -> None:
    """DuckDB's binding lists the objects that are alive when a process ends, on dozens of lines. Nothing else is left
    to be said by then: the first function registered is the last to be called."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """`-n auto`: slow tests wait for locks, disks and processes, so there are more workers than cores for them."""
    return len(os.sched_getaffinity(0)) + (0 if config.option.markexpr == "not slow" else 2)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    if config.getvalue("dist") != "worksteal":
        return None
    from tests.helpers.scheduling import StealingScheduler

    return StealingScheduler(config, log)


def pytest_sessionstart(session: pytest.Session) -> None:
    """The process that outlives the workers (or has none) is the one whose end stops PostgreSQL and Pinot."""
    if not hasattr(session.config, "workerinput"):
        run = ExitStack()
        for name in ("postgres", "pinot"):
            run.enter_context(postgres.running(session.config._tmp_path_factory.getbasetemp(), name))
        session.config.add_cleanup(run.close)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Not a `-m` in the settings: the `-m` of a command line would replace it."""
    left_out = [] if EXHAUSTIVE else [item for item in items if item.get_closest_marker("exhaustive")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays until the end: without it, each full pass of the collector looks at much less."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the socket of this run's PostgreSQL, the same for all workers."""
    binaries = next(postgres.installations(), None)
    if binaries is None:
        pytest.skip(postgres.MISSING)
    own = tmp_path_factory.getbasetemp()
    return postgres.server(own.parent if hasattr(request.config, "workerinput") else own, binaries)


@pytest.fixture
def postgres_url(postgres_server: Path) -> Iterator[str]:
    """A new, empty database of its own for each test, as libpq wants it: `psycopg.connect(postgres_url)`."""
    with postgres.database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def pinot_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of this run's Pinot, the same for all workers."""
    if why := pinot.why_missing():
        pytest.skip(why)
    own = tmp_path_factory.getbasetemp()
    return pinot.cluster(own.parent if hasattr(request.config, "workerinput") else own)


def pytest_terminal_summary(terminalreporter) -> None:
    """Say at the end what was skipped, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"{len(skipped)} skipped")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[2] if report.longrepr else ''}")
