"""Intervals and relative errors of Private Count Release, and of one Gaussian release, hold as often as they say.

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
from sfumato.mechanisms.pcr import COARSEST, Walk
from sfumato.mechanisms.pooling import Estimates, Passes
from sfumato.release.one_release import OneRelease
from sfumato.release.selection import gaussian_columns, select_keys
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


@pytest.mark.parametrize("relative_error", [TENTH, COARSEST])
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_the_true_count_95_times_in_100(shape: str, relative_error: Fraction) -> None:
    shares = [covered(walk.pool(), exact) for walk, exact in walks(shape, relative_error)]
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


ONCE = OneRelease(Fraction(1, 100), Fraction(1, 10**6), 2, TENTH)
"""Its noise has a deviation of 10."""


def ties(size: int, deviations: float, once: OneRelease = ONCE) -> list[int]:
    """Keys with the same count, so far from the lowest level."""
    return [round(once.lowest + deviations * once.rule.noise.deviation)] * size


def released_once(once: OneRelease, exact: list[int], run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each released count of a run: the true one, whether the interval holds it, whether it is within the error."""
    counts = np.array(exact, np.int64)
    codes, columns = select_keys(once.rule, counts, keyed(f"once {run}".encode()), publishes_counts=True)
    noisy = np.asarray(columns["units"])
    level = once.level(noisy)
    kept = noisy >= level
    ends = gaussian_columns(noisy[kept], level, once.rule.noise.deviation)
    true, units = counts[codes[kept]], np.asarray(ends["units"])
    held = (np.asarray(ends["units_low"]) <= true) & (true <= np.asarray(ends["units_high"]))
    return true, held, np.abs(units - true) <= float(once.relative_error) * true


class TestOneRelease:
    """Each release has one number here, and releases are independent; `least_mean` has the false alarms."""

    @pytest.mark.parametrize("size", [10, 100, 3000])
    @pytest.mark.parametrize("deviations", [-3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 2, 4])
    def test_ties_at_the_lowest_level(self, size: int, deviations: float) -> None:
        runs = [released_once(ONCE, ties(size, deviations), run) for run in range(repeats(100, 1000))]
        held = [float(np.mean(held)) for _, held, _ in runs if len(held)]
        assert not held or np.mean(held) >= least_mean(0.95, len(held))
        # At least 90 % of them are within the relative error, but for one.
        allowed = [max(len(within) - within.sum() - 1, 0) / max(len(within) - 1, 1) for _, _, within in runs]
        assert 1 - np.mean(allowed) >= least_mean(0.90, len(runs))

    @pytest.mark.parametrize(("rho", "count", "size"), [("0.475", 18, 6000), ("0.475", 17, 3000), ("0.0475", 60, 4000)])
    def test_ties_that_a_cut_by_what_is_accurate_on_average_got_wrong(self, rho: str, count: int, size: int) -> None:
        once = OneRelease(Fraction(rho), Fraction(1, 10**6), 1, TENTH)
        runs = [released_once(once, [count] * size, run) for run in range(30)]
        held, within = (np.concatenate([run[place] for run in runs]) for place in (1, 2))
        assert len(held) == 0 or (np.mean(held) > 0.95 and np.mean(within) > 0.9)

    @pytest.mark.parametrize("relative_error", [Fraction(1, 20), TENTH, Fraction(3, 10), Fraction(1)])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_other_shapes(self, shape: str, relative_error: Fraction) -> None:
        once = OneRelease(Fraction(1, 20), Fraction(1, 10**6), 3, relative_error)
        runs = [released_once(once, SHAPES[shape], run) for run in range(RUNS)]
        held, within = ([float(np.mean(run[place])) for run in runs if len(run[0])] for place in (1, 2))
        assert len(held) > RUNS / 2
        assert np.mean(held) >= least_mean(0.95, len(held))
        assert np.mean(within) >= least_mean(0.90, len(within))

    def test_intervals_that_know_of_the_threshold_alone_are_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = gaussian_columns

        def columns(noisy: np.ndarray, level: int, deviation: float) -> dict[str, object]:
            return plain(noisy, ONCE.rule.threshold, deviation)

        monkeypatch.setattr("tests.statistics.test_count_intervals.gaussian_columns", columns)
        runs = [released_once(ONCE, ties(20, -1), run) for run in range(200)]
        held = [float(np.mean(held)) for _, held, _ in runs if len(held)]
        assert np.mean(held) < least_mean(0.95, len(held))

    def test_the_lowest_level_where_many_counts_lie_just_below_it_is_rejected(self) -> None:
        within = []
        for run in range(50):
            counts = np.array(ties(3000, -2), np.int64)
            _, columns = select_keys(ONCE.rule, counts, keyed(f"low {run}".encode()), publishes_counts=True)
            risen = np.asarray(columns["units"])[np.asarray(columns["units"]) >= ONCE.lowest]
            within.append(float(np.mean(np.abs(risen - counts[0]) <= 0.1 * counts[0])))
        assert np.mean(within) < 0.2
