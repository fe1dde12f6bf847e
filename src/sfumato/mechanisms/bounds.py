"""Bounds of numbers that are not given: a noisy histogram on a fixed logarithmic scale.

Bins are [-2^63, -2^62), ..., [-2^-29, -2^-30), [-2^-30, 2^-30], (2^-30, 2^-29], ..., (2^62, 2^63].
Proof: proofs/bounds.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.composition import pure_to_zcdp
from sfumato.accounting.numbers import positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.mechanism import MAX_EPSILON
from sfumato.mechanisms.noise import ROUND_UP, DiscreteLaplace, Integers, blamed_on
from sfumato.mechanisms.random import Rng, check_source

FINEST, COARSEST = -30, 62
"""The powers of two at which the first bin beyond zero and the last one begin."""
ZERO = COARSEST - FINEST + 1
"""The bin around zero."""
BINS = 2 * ZERO + 1

STRICTEST, LOOSEST = Fraction(1, 10**9), Fraction(1, 10**6)
FALLBACK = Fraction(0), Fraction(1)


def bins(values: NDArray[np.floating[Any]]) -> Integers:
    """The bin of each value. What is beyond the last bins belongs to them, and NaN to the bin around zero."""
    mantissa, exponent = np.frexp(np.abs(values))  # |value| = mantissa * 2^exponent, mantissa in [1/2, 1)
    steps = np.clip(exponent.astype(np.int64) - (mantissa == 0.5) - FINEST, 0, ZERO)
    steps[np.isinf(values)] = ZERO
    steps[np.isnan(values) | (values == 0)] = 0
    numbers: Integers = np.where(values < 0, ZERO - steps, ZERO + steps)
    return numbers


def edges(number: int) -> tuple[Fraction, Fraction]:
    """The ends of a bin."""
    if number == ZERO:
        return -(Fraction(2) ** FINEST), Fraction(2) ** FINEST
    outer = Fraction(2) ** (FINEST + abs(number - ZERO))
    return (outer / 2, outer) if number > ZERO else (-outer, -outer / 2)


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """Bounds, low < high. Bins without a value reached the threshold with at most `probability`.

    `fell_back`: nothing stood out, and the bounds are 0 and 1 whatever the values are.
    """

    low: Fraction
    high: Fraction
    probability: Fraction
    fell_back: bool


@dataclass(frozen=True, kw_only=True)
class NumericBounds:
    """The outer edges of the lowest and highest bins whose noisy counts stand out.

    Guarantee: epsilon-DP, and epsilon^2 / 2 zCDP.
    Assumes:   a person adds at most `contributions` values, over all keys.
    Error:     a bin without a value is taken for one with a value with probability 1e-6 at most; a bin with few values
               (about contributions / epsilon * 25) may be passed over.
    Source:    Wilson et al. (2020), with discrete noise and exact tails. Proof: proofs/bounds.md.
    """

    epsilon: Fraction
    contributions: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon, at_most=MAX_EPSILON))
        object.__setattr__(self, "contributions", whole("contributions", self.contributions, at_least=1))
        with blamed_on("epsilon"):
            self.noise  # noqa: B018

    @property
    def rho(self) -> Fraction:
        return pure_to_zcdp(self.epsilon)

    @property
    def noise(self) -> DiscreteLaplace:
        """Of each bin: one person moves the whole histogram by `contributions` at most, in L1."""
        return DiscreteLaplace(self.contributions / self.epsilon)

    def threshold(self, probability: Fraction) -> int:
        """The smallest t for which any of BINS empty bins reaches t with at most `probability`."""
        return self.noise.smallest_tail(-math.expm1(math.log1p(-float(probability)) / BINS) / ROUND_UP)

    def release(self, counts: Integers, rng: Rng) -> FoundBounds:
        """Bounds from the number of values in each bin, zeros included: np.bincount(bins(values), minlength=BINS)."""
        exact = exact_counts("counts", counts)
        if len(exact) != BINS:
            raise InvalidArgument("counts", f"must be {BINS} counts, one for each bin, zeros included")
        stream = check_source(rng).stream(
            mechanism="numeric_bounds", version=1, epsilon=self.epsilon, contributions=self.contributions
        )
        noisy = exact + self.noise.sample(stream, BINS)
        for probability in probabilities():
            found = np.flatnonzero(noisy >= self.threshold(probability))
            if len(found):
                return FoundBounds(edges(int(found[0]))[0], edges(int(found[-1]))[1], probability, fell_back=False)
        return FoundBounds(*FALLBACK, LOOSEST, fell_back=True)


def probabilities() -> Iterator[Fraction]:
    """From the strictest on, each twice the one before it, up to the loosest."""
    probability = STRICTEST
    while probability < LOOSEST:
        yield probability
        probability *= 2
    yield LOOSEST
