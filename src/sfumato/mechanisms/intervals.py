"""Intervals for counts that are known only because they were large enough to be shown.

A count that was kept because count + noise reached a threshold was, near the threshold, kept because its noise was
high. The usual interval would then miss the truth far more often than it says. The law of the noisy count given that it
was kept is known, so the interval can be read off that law. Free: post-processing of what was released.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.numbers import positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers

Floats: TypeAlias = NDArray[np.float64]

TAIL = 0.025
NORMAL_95 = NormalDist().inv_cdf(1 - TAIL)

# True counts from 35 deviations below the threshold, where tails are still within float64, to 10 above it, where
# being kept is no news.
_LOWEST, _HIGHEST, _STEP = -35.0, 10.0, 2.0**-10
# In deviations: far more than linear interpolation between steps can be off.
_SLACK = 1e-6


def selected_interval(noisy: Integers, threshold: int, deviation: float) -> tuple[Integers, Integers]:
    """The 95 % interval of each count n that was kept because noisy = n + noise >= threshold.

    Conditional on being kept: the n that neither P_n[Y >= noisy | Y >= threshold] nor P_n[Y <= noisy | Y >= threshold]
    rejects at 2.5 %, for Gaussian noise of this deviation, discrete noise being rounded noise. Never below 1: a kept
    key has a person. More than six deviations above the threshold it is noisy +- 1.96 deviations.

    Near the threshold it reaches down to 1, and at the threshold itself its upper end is low as well: the smaller n is,
    the more of what is kept lies there.
    """
    sigma = float(positive("deviation", deviation, at_most=2**53))
    bar = whole("threshold", threshold, at_least=-(2**53), at_most=2**53)
    if not isinstance(noisy, np.ndarray) or noisy.dtype != np.int64:
        raise InvalidArgument("noisy", "must be an int64 array")
    if len(noisy) and int(noisy.min()) < bar:
        raise InvalidArgument("noisy", "must reach the threshold: others were not kept")
    # Y >= y is Y > y - 1/2, and Y <= y is Y < y + 1/2; whole n within the ends are those that are not rejected.
    above = (noisy - bar).astype(np.float64)
    low = np.ceil(bar - 0.5 + sigma * (_solve(above / sigma, TAIL, -math.inf) - _SLACK))
    high = np.floor(bar - 0.5 + sigma * (_solve((above + 1) / sigma, 1 - TAIL, _LOWEST) + _SLACK))
    floor = np.maximum(low, 1.0).astype(np.int64)
    return floor, np.maximum(high.astype(np.int64), floor)


def _solve(above: Floats, tail: float, lowest: float) -> Floats:
    """The mean m with P_m[Y >= above | Y >= 0] = tail, in deviations from the threshold; `lowest` below the table."""
    means, places = _table(tail)
    inside = np.interp(above, places, means, left=lowest)
    return np.where(above > places[-1], above + NormalDist().inv_cdf(tail), inside)


@lru_cache(maxsize=8)
def _table(tail: float) -> tuple[Floats, Floats]:
    """Means, and for each the place that is passed with probability `tail` by a standard normal above zero.

    Q(place - mean) = tail * Q(-mean), Q(x) = P[Z >= x], so the place is mean + Q^-1(tail * Q(-mean)). It rises with the
    mean, so the same table read the other way round gives the mean for a place.
    """
    means = np.arange(_LOWEST, _HIGHEST + _STEP, _STEP)
    kept = (0.5 * math.erfc(-mean / math.sqrt(2)) for mean in means.tolist())
    return means, means - np.array([NormalDist().inv_cdf(tail * mass) for mass in kept])
