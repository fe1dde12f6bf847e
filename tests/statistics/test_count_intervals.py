"""Intervals and relative errors of Private Count Release hold as often as they say.

One number per release: the share of its counts that are within their intervals, or within the relative error. Counts of
one release share the noise of bottom elements and an estimate; releases are independent. A promise that is kept fails
here once in a million runs (Chernoff, `least_mean`), under a fixed key.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from sfumato.mechanisms import PrivateCountRelease
from sfumato.mechanisms.pcr import Walk
from sfumato.mechanisms.pooling import Estimates, Passes
from tests.contracts.mechanism import keyed
from tests.helpers.false_alarms import least_mean
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

RUNS = repeats(200, 4000)
LIMIT = 300
TENTH = Fraction(1, 10)

SHAPES: dict[str, list[int]] = {
    "zipf": [4000 // rank for rank in range(1, LIMIT + 2)],
    "a light tail": [int(1200 * rank**-0.4) for rank in range(1, LIMIT + 2)],
    "most are out of sight": [900 + 3000 // rank for rank in range(1, LIMIT + 2)],
    "a few keys": [2500, 2100, 1500, 1400, 900, 600, 500, 260, 120, 40, 3],
    "ties": [400] * 40 + [250] * 40 + [1],
}


@lru_cache(maxsize=16)
def walks(shape: str, relative_error: Fraction) -> list[tuple[Walk[int], np.ndarray]]:
    """Releases that found something, and the true counts of what they found."""
    mechanism = PrivateCountRelease(
        rho=Fraction(1, 2),
        delta=Fraction(1, 10**6),
        limit=LIMIT,
        relative_error=relative_error,
        first_epsilon=Fraction(1, 50),
    )
    exact = np.array(SHAPES[shape])
    found = []
    for run in range(RUNS):
        walk = Walk(mechanism, list(enumerate(SHAPES[shape])), keyed(f"intervals {run}".encode()))
        walk.go()
        found.append(walk)
    assert sum(len(walk.keys) > 0 for walk in found) > 0.9 * RUNS
    return [(walk, exact[walk.keys]) for walk in found if walk.keys]


def covered(found: Estimates, exact: np.ndarray) -> float:
    return float(np.mean((found.low <= exact) & (exact <= found.high)))


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_the_true_count_95_times_in_100(shape: str) -> None:
    shares = [covered(walk.pool(), exact) for walk, exact in walks(shape, TENTH)]
    assert np.mean(shares) >= least_mean(0.95, len(shares))


@pytest.mark.parametrize(
    ("shape", "relative_error"),
    [("zipf", Fraction(1, 50)), ("zipf", TENTH), ("zipf", Fraction(3, 10)), ("a few keys", TENTH), ("ties", TENTH)],
)
def test_counts_are_within_the_relative_error_90_times_in_100(shape: str, relative_error: Fraction) -> None:
    shares = [
        np.mean(np.abs(walk.pool().counts - exact) <= float(relative_error) * exact)
        for walk, exact in walks(shape, relative_error)
    ]
    assert np.mean(shares) >= least_mean(0.90, len(shares))


class TestWrongPooling:
    """What the check above rejects, on the shape that shows it."""

    def rejects(self, shape: str) -> bool:
        shares = [covered(walk.pool(), exact) for walk, exact in walks(shape, TENTH)]
        return float(np.mean(shares)) < least_mean(0.95, len(shares))

    def test_what_is_out_of_sight_taken_for_zero(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Passes, "outside", (0.0, 0.0))
        assert self.rejects("most are out of sight")

    def test_a_pass_that_counts_for_three(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = Passes._chances

        def chances(self: Passes, number: int, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            places, chance = plain(self, number, scales)
            return places, 3 * chance

        monkeypatch.setattr(Passes, "_chances", chances)
        assert self.rejects("zipf")
