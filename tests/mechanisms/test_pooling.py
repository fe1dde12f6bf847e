"""Counts pooled with the passes that found them: the posterior, its ends, and that only released values enter."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.mechanisms import PrivateCountRelease, PrivateCounts
from sfumato.mechanisms.intervals import TAIL
from sfumato.mechanisms.pooling import NODES, ZIPF, Passes
from tests.contracts.mechanism import keyed, seeds

DELTA = Fraction(1, 10**6)


def made(level: list[int], noisy: list[float], *, cut: bool = False, passes: int = 12, sigma: float = 2.5) -> Passes:
    """Passes from epsilon 0.02 on, with an outside that does not have to be estimated."""
    epsilons = 0.02 * 2 ** (np.arange(passes) / 8)
    gaps = np.ceil(1 + 27 / epsilons)
    found = Passes(epsilons, gaps, sigma / epsilons, cut, np.array(level), np.array(noisy, float))
    found.__dict__["outside"] = (0.0, 0.0)
    return found


def reference(passes: Passes, number: int, noisy: float, *, cut: float | None = None) -> tuple[float, float, float]:
    """Mean and quantiles by a plain sum over whole counts, from the definition."""
    c = np.arange(1, 20_000, dtype=float)
    sigmoid = [1 / (1 + np.exp(-eps * (c - gap))) for eps, gap in zip(passes.epsilons, passes.gaps, strict=True)]
    if cut is not None:
        sigmoid[number] = 1 / (1 + np.exp(-passes.epsilons[number] * (c - passes.gaps[number]) + cut))
    chance = sigmoid[number] * np.prod([1 - each for each in sigmoid[:number]], axis=0)
    weights = c**-ZIPF * chance * np.exp(-(((noisy - c) / passes.deviations[number]) ** 2) / 2)
    cumulated = np.cumsum(weights) / weights.sum()
    ends = (c[np.searchsorted(cumulated, tail)] for tail in (TAIL, 1 - TAIL))
    return float(weights @ c / weights.sum()), *ends


@pytest.mark.parametrize("sigma", [0.1, 1.0, 2.5, 20.0])
@pytest.mark.parametrize("number", [1, 3, 11])
@pytest.mark.parametrize("off", [-4.0, -1.0, 0.0, 1.0, 4.0])
def test_the_posterior_is_that_of_the_definition(sigma: float, number: int, off: float) -> None:
    passes = made([number], [0.0], sigma=sigma)
    noisy = passes.gaps[number] + off / passes.epsilons[number]
    found = passes.pool(np.array([noisy]), passes.deviations[[number]])
    mean, low, high = reference(passes, number, noisy)
    slack = 1 + 0.02 / passes.epsilons[number] + 12 * passes.deviations[number] / NODES / 20
    assert abs(found.counts[0] - mean) <= slack
    assert abs(found.low[0] - low) <= slack + 1
    assert abs(found.high[0] - high) <= slack + 1


def test_far_above_the_first_threshold_a_count_is_its_noisy_count() -> None:
    passes = made([0], [0.0])
    for noisy in (10**5, 10**8, 2**53):
        found = passes.pool(np.array([float(noisy)]), passes.deviations[[0]])
        deviation = passes.deviations[0]
        assert abs(found.counts[0] - noisy) <= 2 * ZIPF * deviation**2 / noisy + 1
        assert abs(found.high[0] - noisy - 1.96 * deviation) < 0.02 * deviation + 2
        assert found.deviations[0] == pytest.approx(deviation, rel=0.01)


def test_a_pass_tells_a_count_to_two_over_epsilon_or_better() -> None:
    """A noisy count with hardly any information, at the middle of the pass."""
    passes = made([9], [0.0], sigma=50)
    found = passes.pool(passes.gaps[[9]], passes.deviations[[9]])
    assert 1.2 < found.deviations[0] * passes.epsilons[9] < 2


def test_a_better_count_narrows_the_interval() -> None:
    passes = made([5], [0.0])
    noisy = passes.gaps[[5]]
    widths = [
        float(found.high[0] - found.low[0])
        for share in (1, 0.5, 0.1)
        for found in [passes.pool(noisy, share * passes.deviations[[5]])]
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 3 * widths[2]


def test_a_cut_pass_has_a_higher_threshold() -> None:
    """Twenty keys that all seem to lie high in their pass: the next runner was high, and not the bottom element."""
    above = made([11] * 20, [0.0] * 20)
    high = above.gaps[11] + 2.5 / above.epsilons[11]
    noisy, deviations = np.full(20, high), np.full(20, above.deviations[11])
    stopped = above.pool(noisy, deviations)
    cut = replace(above, cut=True)
    cut.__dict__["outside"] = (0.0, 0.0)
    assert cut.pool(noisy, deviations).counts[0] > stopped.counts[0]


def rows_of(counts: list[int]) -> list[tuple[str, int]]:
    return [(f"{place:05}", n) for place, n in enumerate(sorted(counts, reverse=True))]


def pooled_again(mechanism: PrivateCountRelease, released: PrivateCounts[str]) -> list[tuple[int, int, int]]:
    """From what the release shows, and nothing else."""
    levels = mechanism.levels[: released.levels]
    number = np.array([row.level for row in released.rows], np.int64)
    deviations = np.array([level.noise.deviation for level in levels])
    passes = Passes(
        np.array([float(level.epsilon) for level in levels]),
        np.array([float(level.gap) for level in levels]),
        deviations,
        released.cut,
        number,
        np.array([row.noisy for row in released.rows], float),
    )
    found = passes.pool(passes.noisy, deviations[number])
    return list(zip(found.counts.tolist(), found.low.tolist(), found.high.tolist(), strict=True))


@given(st.lists(st.integers(0, 3000), max_size=60), seeds)
def test_pooled_counts_follow_from_what_was_released(counts: list[int], seed: bytes) -> None:
    mechanism = PrivateCountRelease(rho=1, delta=DELTA, limit=40, first_epsilon=Fraction(1, 50))
    released = mechanism.release(rows_of(counts)[:41], keyed(seed))
    assert [(row.count, row.low, row.high) for row in released.rows] == pooled_again(mechanism, released)
    for row in released.rows:
        assert 1 <= row.low <= row.count <= row.high
        assert 0 < row.deviation < math.inf


@pytest.mark.parametrize("outside", [0, 150, 2000])
def test_the_first_count_out_of_sight_is_estimated_from_the_rows(outside: int) -> None:
    """400 keys above it; the claimed deviation is not exceeded six times over."""
    mechanism = PrivateCountRelease(rho=1, delta=DELTA, limit=400, first_epsilon=Fraction(1, 100))
    rows = rows_of([outside + int(20_000 / place) for place in range(1, 401)] + [outside])
    released = mechanism.release(rows, keyed(b"outside"))
    levels = mechanism.levels[: released.levels]
    passes = Passes(
        np.array([float(level.epsilon) for level in levels]),
        np.array([float(level.gap) for level in levels]),
        np.array([level.noise.deviation for level in levels]),
        released.cut,
        np.array([row.level for row in released.rows]),
        np.array([row.noisy for row in released.rows], float),
    )
    estimate, variance = passes.outside
    assert abs(estimate - outside) <= 6 * math.sqrt(variance)
    assert math.sqrt(variance) < 1 / passes.epsilons[-1] * 2


def test_rows_that_tell_nothing_of_it_leave_the_noisy_counts() -> None:
    """Rows of the first pass only, or of a pass that was cut: what is out of sight is not known."""
    passes = replace(made([0, 0], [5000.0, 6000.0]), cut=False)
    assert passes.outside == (0.0, math.inf)
    found = passes.pool(passes.noisy, passes.deviations[[0, 0]])
    assert np.abs(found.counts - passes.noisy).max() <= 0.1 * passes.deviations[0]
