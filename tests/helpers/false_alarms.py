"""Statistical checks with a proven false-alarm rate: a correct sampler fails one of them once in a million runs.

Both bounds hold for every sample size, not only in the limit.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np

FALSE_ALARM = 1e-6


def cdf_distance(draws: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> float:
    """The largest gap between the empirical and the exact distribution function of an integer law."""
    support, counts = np.unique(draws, return_counts=True)
    seen = np.cumsum(counts) / len(draws)
    before = np.concatenate([[0.0], seen[:-1]])
    return float(max(np.abs(seen - cdf(support)).max(), np.abs(before - cdf(support - 1)).max()))


def cdf_slack(draws: int) -> float:
    """Massart (1990): a correct sampler's `cdf_distance` exceeds this with probability at most FALSE_ALARM."""
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * draws))


def unlikely(outcomes: Iterable[Hashable], law: Mapping[Hashable, float]) -> dict[Hashable, tuple[float, float]]:
    """Outcomes whose frequency is off: {outcome: (seen, expected)}; empty for a correct sampler but once in a million.

    Chernoff: P[n KL(seen || p) >= x] <= 2 exp(-x) for one outcome; a union bound covers them all.
    """
    seen = Counter(outcomes)
    n, bar = seen.total(), math.log(2 * (len(law) + 1) / FALSE_ALARM)
    frequencies = {outcome: seen[outcome] / n for outcome in law.keys() | seen.keys()}
    return {
        outcome: (frequency, law.get(outcome, 0.0))
        for outcome, frequency in frequencies.items()
        if n * divergence(frequency, law.get(outcome, 0.0)) > bar
    }


def least_mean(promised: float, draws: int) -> float:
    """What the mean of so many independent numbers in [0, 1] stays above, if their expectation is at least `promised`.

    Chernoff, in Hoeffding's form for numbers that need not be 0 or 1; false alarm FALSE_ALARM.
    """
    low, high = 0.0, promised
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if draws * divergence(middle, promised) < -math.log(FALSE_ALARM) else (middle, high)
    return low


def divergence(seen: float, expected: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    expected = min(max(expected, 1e-300), 1 - 1e-16)
    heads = seen * math.log(seen / expected) if seen else 0.0
    tails = (1 - seen) * math.log((1 - seen) / (1 - expected)) if seen < 1 else 0.0
    return heads + tails
