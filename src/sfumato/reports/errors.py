"""The error of a report's numbers: from the law of the noise behind a sum of cells, plain or weighted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.noise import DiscreteLaplace

Terms: TypeAlias = tuple[tuple[Fraction, float, int], ...]
"""The noise of a number: so many independent draws of a scale, each multiplied by a weight."""

_DIGITS = 12  # of a weight: cells in the same place of like trees have the same weight, but for the last digits
_LEAST_VARIANCE = 1e-30
_FINEST = 1 / 16
_STEPS = 256  # of the grid in one deviation


def as_terms(parts: Iterable[tuple[Fraction, NDArray[np.float64]]], entities: int = 1) -> Terms:
    """The noise of a weighted sum of cells of so many entities: scales, each with the weights of cells that have it."""
    found: Counter[tuple[Fraction, float]] = Counter()
    for scale, weights in parts:
        values, counts = np.unique(np.abs(weights).round(_DIGITS), return_counts=True)
        found.update({(scale, value): n for value, n in zip(values.tolist(), counts.tolist(), strict=True) if value})
    return tuple((scale, weight, n * entities) for (scale, weight), n in sorted(found.items()))


@lru_cache(4096)
def variance(scale: Fraction) -> float:
    """That of one cell's noise. It is never 0, so that it can weigh."""
    return max(DiscreteLaplace(scale).deviation ** 2, _LEAST_VARIANCE)


def deviation(terms: Terms) -> float:
    return math.sqrt(sum(n * weight**2 * variance(scale) for scale, weight, n in terms))


def error95(terms: Terms, *, alone: bool = True) -> int:
    """The half-width that holds with 95 % for a whole number that is this noise off.

    A number that is `alone` is the nearest whole one. One that shares a sum with others is less than one off from it.
    """
    if all(weight == 1 for _, weight, _ in terms):
        return half_width_of_sum(tuple((scale, n) for scale, _, n in terms))
    reach = half_width_of_weighted_sum(terms)
    return math.floor(reach + 0.5) if alone else math.ceil(reach)


@lru_cache(4096)
def half_width_of_sum(scales: tuple[tuple[Fraction, int], ...], confidence: float = 0.95) -> int:
    """The smallest w that a sum of independent discrete Laplace draws, n of each scale, exceeds with 1 - confidence.

    By the inverse Fourier transform of its characteristic function; by Chebyshev's bound where that would be too long.
    """
    if not scales:
        return 0
    if len(scales) == 1 and scales[0][1] == 1:
        return DiscreteLaplace(scales[0][0]).half_width(confidence)
    deviation = math.sqrt(sum(n * DiscreteLaplace(scale).deviation ** 2 for scale, n in scales))
    reach = 12 * deviation + 40 * float(max(scale for scale, _ in scales))
    if reach > 2**20:
        return math.ceil(deviation / math.sqrt(1 - confidence))
    size = 2 ** math.ceil(math.log2(2 * reach + 2))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.ones_like(angles)
    for scale, n in scales:
        transform *= _characteristic(scale, angles) ** n
    masses = np.fft.irfft(transform, size)
    inside = masses[0] + 2 * np.cumsum(np.concatenate([[0.0], masses[1 : size // 2]]))
    return int(np.argmax(inside >= confidence))


@lru_cache(4096)
def half_width_of_weighted_sum(terms: Terms, confidence: float = 0.95) -> float:
    """The least w, on a fine grid, with P[|X| <= w] >= confidence, for X the sum of weighted draws.

    By the inverse Fourier transform of the characteristic function of X + T. T is a small noise, a triangle as wide as
    a step of the grid, at most 1/16 or 1/256 of a deviation: it smooths a law that need not lie on any grid.
    """
    spread = deviation(terms)
    step = max(_FINEST, spread / _STEPS)
    reach = 12 * spread + 40 * max(weight * float(scale) for scale, weight, _ in terms)
    size = 2 ** math.ceil(math.log2(2 * reach / step + 2))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.sinc(angles / (2 * np.pi)) ** 2
    for scale, weight, n in terms:
        transform *= _characteristic(scale, weight * angles / step) ** n
    masses = np.fft.irfft(transform, size)
    inside = masses[0] + 2 * np.cumsum(np.concatenate([[0.0], masses[1 : size // 2]]))
    return float(np.argmax(inside >= confidence)) * step


def _characteristic(scale: Fraction, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """E[cos(angle * Z)] for a discrete Laplace Z."""
    a = math.exp(-1 / float(scale))
    numbers: NDArray[np.float64] = (1 - a) ** 2 / (1 - 2 * a * np.cos(angles) + a**2)
    return numbers
