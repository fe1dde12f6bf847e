"""Laplace noise that ends: what lets a noisy count name a key and promise (epsilon, delta) with nothing left over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.numbers import whole
from sfumato.mechanisms.noise import ROUND_UP, DiscreteLaplace, Integers, Noise
from sfumato.mechanisms.stream import Stream

MAX_REACH = 2**52


@dataclass(frozen=True, slots=True)
class TruncatedLaplace(Noise):
    """P[X = x] proportional to a^|x| for |x| <= reach, with a = exp(-1 / scale).

    Guarantee: added to a count that one person moves by at most 1, (1 / scale, P[X = reach])-DP.
    Source:    Desfontaines, Voss, Gipson, Mandayam (2022), section on noisy counts; proof in proofs/key_selection.md.
    """

    family = "truncated_laplace"

    scale: Fraction
    reach: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self._whole_law.scale)
        object.__setattr__(self, "reach", whole("reach", self.reach, at_least=1, at_most=MAX_REACH))

    @property
    def _whole_law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.scale)

    @property
    def parameter(self) -> Fraction:
        return self.scale

    @property
    def deviation(self) -> float:
        """That of Laplace noise without an end, which the true deviation never exceeds."""
        return self._whole_law.deviation

    def sample(self, stream: Stream, size: int) -> Integers:
        """Laplace draws without those beyond the ends, in order."""
        drawn = size + 16
        while True:
            draws = self._whole_law.sample(stream, drawn)
            inside = draws[np.abs(draws) <= self.reach]
            if len(inside) >= size:
                return inside[:size]
            drawn *= 2

    def upper_tail(self, n: int) -> float:
        """(a^n - a^(reach + 1)) / (1 + a - 2 a^(reach + 1))."""
        if n > self.reach:
            return 0.0
        unit = 1 / float(self.scale)
        ends = math.exp(-n * unit) * -math.expm1(-(self.reach + 1 - n) * unit)
        whole_mass = -math.expm1(-(self.reach + 1) * unit) - math.exp(-unit) * math.expm1(-self.reach * unit)
        return ends / whole_mass * ROUND_UP

    def difference_tail(self, n: int) -> float:
        """The mean of P[X >= n + y] over all y."""
        tails = [self.tail(place) for place in range(-self.reach, self.reach + 2)]
        shown = (self.tail(n + place) for place in range(-self.reach, self.reach + 1))
        return min(
            1.0, math.fsum((p - q) * tail for p, q, tail in zip(tails, tails[1:], shown, strict=False)) * ROUND_UP
        )
