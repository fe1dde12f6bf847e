"""The error of a report's numbers: from the law of the noise behind a sum of cells, plain or weighted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.report_noise import CellNoise

ErrorTerms: TypeAlias = tuple[tuple[CellNoise, float, int], ...]
"""The noise of a number: so many independent draws of a law, each multiplied by a weight."""

MISSED = 0.05
_DIGITS = 12  # of a weight: cells in the same place of like trees have the same weight, but for the last digits
_LEAST_VARIANCE = 1e-30
_FINEST = 1 / 16
_STEPS = 256  # of the grid in one deviation


def as_terms(parts: Iterable[tuple[CellNoise, NDArray[np.float64]]], entities: int = 1) -> ErrorTerms:
    """The noise of a weighted sum of cells of so many entities: laws, each with the weights of cells that have it."""
    terms: Counter[tuple[CellNoise, float]] = Counter()
    for law, weights in parts:
        values, counts = np.unique(np.abs(weights).round(_DIGITS), return_counts=True)
        terms.update({(law, value): n for value, n in zip(values.tolist(), counts.tolist(), strict=True) if value})
    ordered = sorted(terms.items(), key=lambda each: (each[0][0].parameter, each[0][1]))
    return tuple((law, weight, n * entities) for (law, weight), n in ordered)


def sum_terms(cells: Iterable[tuple[CellNoise, int]], entities: int = 1) -> ErrorTerms:
    """The noise of a plain sum of cells of so many entities: laws, each with the number of cells that have it."""
    counts: Counter[CellNoise] = Counter()
    for law, n in cells:
        counts[law] += n
    return tuple((law, 1.0, counts[law] * entities) for law in sorted(counts, key=lambda law: law.parameter))


@lru_cache(4096)
def variance(law: CellNoise) -> float:
    """That of one cell's noise. It is never 0, because its inverse is a weight."""
    return max(law.deviation**2, _LEAST_VARIANCE)


def deviation(terms: ErrorTerms) -> float:
    return math.sqrt(sum(n * weight**2 * variance(law) for law, weight, n in terms))


def error95(terms: ErrorTerms, *, alone: bool = True, missed: float = MISSED) -> int:
    """The half-width that holds with 95 % for a whole number that is this noise off, or with 1 - `missed`.

    A number that is `alone` is the nearest whole one. One that shares a sum with others is less than one off from it.
    """
    if all(weight == 1 for _, weight, _ in terms):
        return half_width_of_sum(terms, 1 - missed)
    reach = half_width_of_weighted_sum(terms, 1 - missed)
    return math.floor(reach + 0.5) if alone else math.ceil(reach)


@lru_cache(4096)
def half_width_of_sum(terms: ErrorTerms, confidence: float = 0.95) -> int:
    """The smallest w that a plain sum of draws, all of weight 1, exceeds with probability 1 - confidence.

    By the inverse Fourier transform of its characteristic function; by Chebyshev's bound where that would be too long.
    """
    if not terms:
        return 0
    if len(terms) == 1 and terms[0][2] == 1:
        return terms[0][0].half_width(confidence)
    spread = math.sqrt(sum(n * law.deviation**2 for law, _, n in terms))
    reach = 12 * spread + 40 * max(law.tail_scale for law, _, _ in terms)
    if reach > 2**20:
        return math.ceil(spread / math.sqrt(1 - confidence))
    size = 2 ** math.ceil(math.log2(2 * reach + 2))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.ones_like(angles)
    for law, _, n in terms:
        transform *= law.characteristic(angles) ** n
    masses = np.fft.irfft(transform, size)
    inside = masses[0] + 2 * np.cumsum(np.concatenate([[0.0], masses[1 : size // 2]]))
    return int(np.argmax(inside >= confidence))


@lru_cache(4096)
def half_width_of_weighted_sum(terms: ErrorTerms, confidence: float = 0.95) -> float:
    """The least w, on a fine grid, with P[|X| <= w] >= confidence, for X the sum of weighted draws.

    By the inverse Fourier transform of the characteristic function of X + T. T is a small noise, a triangle as wide as
    a step of the grid, at most 1/16 or 1/256 of a deviation: it smooths a law that need not lie on any grid.
    """
    spread = deviation(terms)
    step = max(_FINEST, spread / _STEPS)
    reach = 12 * spread + 40 * max(weight * law.tail_scale for law, weight, _ in terms)
    size = 2 ** math.ceil(math.log2(2 * reach / step + 2))
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    transform = np.sinc(angles / (2 * np.pi)) ** 2
    for law, weight, n in terms:
        transform *= law.characteristic(weight * angles / step) ** n
    masses = np.fft.irfft(transform, size)
    inside = masses[0] + 2 * np.cumsum(np.concatenate([[0.0], masses[1 : size // 2]]))
    return float(np.argmax(inside >= confidence)) * step
