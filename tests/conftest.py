"""What all tests share: a fixed source of noise, and a stream whose words a test chooses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from sfumato.mechanisms import Rng
from sfumato.mechanisms.stream import Stream

# Contract tests are inherited, so one test runs in several classes: that is the point of them.
settings.register_profile(
    "sfumato", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.differing_executors]
)
settings.load_profile("sfumato")


class ChosenStream(Stream):
    """Words written by hand: lane -> index -> word. A word nobody wrote is an error."""

    def __init__(self, words: dict[int, dict[int, int]]) -> None:
        self._words = words

    def words(self, lane: int, start: int, count: int) -> np.ndarray:
        return np.array([self._words[lane][index] for index in range(start, start + count)], np.uint64)


@pytest.fixture
def rng() -> Rng:
    return Rng.keyed(b"k" * 32, b"tests")


def pytest_terminal_summary(terminalreporter) -> None:
    """Say at the end what was skipped, and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"{len(skipped)} skipped")
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {report.longrepr[2] if report.longrepr else ''}")
