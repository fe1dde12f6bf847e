"""Laplace noise that ends: what lets a noisy count name a key and promise (epsilon, delta) with nothing left over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from sfumato.accounting.numbers import probability
from sfumato.mechanisms.noise import CERTAIN, ROUND_UP, DiscreteLaplace, Floats, Integers, Noise, smallest
from sfumato.mechanisms.stream import BLOCK, Stream, Uniform, decimal, digits

_SUMMED_SCALE = 2**12
"""Up to this scale the deviation is summed over all values."""


@dataclass(frozen=True)
class TruncatedLaplace(Noise):
    """X = threshold - N, where N is the number of people that a key needs: P[N <= n] = pi(n).

    pi(n) is the largest chance to be shown that (e, d)-indistinguishability from n - 1 people allows, with
    e = 1 / scale and d = `missed`: pi(0) = 0, pi(n) = min(exp(e) pi(n-1) + d, 1 - exp(-e) (1 - pi(n-1) - d), 1). So the
    probabilities of X rise by exp(e) from one end to a peak at about 0, and fall by exp(-e) to the other end.

    Guarantee: added to a count that one person moves by at most 1, (1 / scale, missed)-DP.
    Error:     the threshold is the median of N: half of the draws are at least 0.
    Source:    after Desfontaines, Voss, Gipson, Mandayam (2022), whose rule decides and publishes no count; proof in
               proofs/key_selection.md.
    """

    family = "truncated_laplace"

    scale: Fraction
    missed: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self._whole_law.scale)
        object.__setattr__(self, "missed", probability("missed", self.missed))

    @property
    def _whole_law(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.scale)

    @property
    def parameter(self) -> Fraction:
        return self.scale

    @cached_property
    def threshold(self) -> int:
        """The median of N."""
        low, _ = self.bounds(self._turn, digits(60))
        return self._turn + (low < Decimal("0.5"))

    @cached_property
    def least(self) -> int:
        """The lower end of X."""
        return self.threshold - smallest(lambda n: float(self.chances(np.array([n]))[0]) >= 1)

    @cached_property
    def deviation(self) -> float:
        """The root of E[X^2], or a little more."""
        if self.scale > _SUMMED_SCALE:
            return self._whole_law.deviation + 1  # the peak is within 1 of 0
        values = np.arange(self.least, self.threshold, dtype=np.float64)
        return math.sqrt(float(np.sum(values**2 * self._masses)))

    @property
    def _masses(self) -> Floats:
        """P[X = x] from the lower end to the upper one."""
        return np.diff(self.chances(np.arange(self.threshold - self.least + 1)))[::-1]

    def sample(self, stream: Stream, size: int) -> Integers:
        """By inversion: N is the smallest n with U < pi(n)."""
        draws = np.empty(size, np.int64)
        for start in range(0, size, BLOCK):
            uniform = np.asarray(stream.words(0, start, min(BLOCK, size - start)) * 2.0**-64, np.float64)
            needed = self._inverse(uniform)
            sure = (uniform < self.chances(needed) - CERTAIN) & (uniform >= self.chances(needed - 1) + CERTAIN)
            for i in np.flatnonzero(~sure):
                needed[i] = self._settled(int(needed[i]), stream, start + int(i))
            draws[start : start + len(needed)] = self.threshold - needed
        return draws

    def tail(self, n: int) -> float:
        return min(float(self.chances(np.array([max(self.threshold - n, 0)]))[0]) * ROUND_UP, 1.0)

    def upper_tail(self, n: int) -> float:
        return self.tail(n)

    def difference_tail(self, n: int) -> float:
        """The mean of P[X >= n + y] over all y."""
        places = range(self.least + n, self.threshold + n)
        return min(1.0, math.fsum(p * self.tail(x) for p, x in zip(self._masses.tolist(), places, strict=True)))

    def half_width(self, confidence: float = 0.95) -> int:
        """The smallest w with P[X > w] and P[X < -w] at most half of what is missed."""
        out = (1 - confidence) / 2
        return smallest(lambda w: self.tail(w + 1) <= out and self.tail(-w) >= 1 - out)

    def chances(self, people: Integers) -> Floats:
        """pi(n) in float64."""
        step, d, turn = 1 / float(self.scale), float(self.missed), self._turn
        rising = d * np.expm1(step * np.minimum(people, turn)) / math.expm1(step)
        beyond = -step * np.maximum(people - turn, 0)
        # expm1, not 1 - exp: d / step may be large, and would blow up what 1 - exp loses.
        missing = (1 - rising) * np.exp(beyond) + d * np.expm1(beyond) / math.expm1(step)
        chances: Floats = np.clip(1 - missing, 0, 1)
        return np.where(people <= turn, rising, chances)

    def bounds(self, people: int, context: Context) -> tuple[Decimal, Decimal]:
        """pi(n) to within 10^(25 - prec), computed with 40 digits more."""
        wide = digits(context.prec + 40)
        step, d = decimal(1 / self.scale, wide), decimal(self.missed, wide)
        rise = wide.subtract(wide.exp(step), 1)
        head, rest = min(people, self._turn), max(people - self._turn, 0)
        rising = wide.divide(wide.multiply(d, wide.subtract(wide.exp(wide.multiply(step, head)), 1)), rise)
        fall = wide.exp(wide.multiply(step, -rest))
        missing = wide.subtract(
            wide.multiply(wide.subtract(1, rising), fall), wide.divide(wide.multiply(d, wide.subtract(1, fall)), rise)
        )
        value, slack = wide.subtract(1, missing), wide.scaleb(1, 25 - context.prec)
        return wide.subtract(value, slack), wide.add(value, slack)

    @cached_property
    def _turn(self) -> int:
        """Up to this n the first formula is the smallest: as long as pi(n-1) <= (1 - d) / (1 + exp(e))."""
        context = digits(60)
        step, d = decimal(1 / self.scale, context), decimal(self.missed, context)
        rise = context.subtract(context.exp(step), 1)
        ratio = context.divide(
            context.multiply(rise, context.subtract(1, d)), context.multiply(d, context.add(rise, 2))
        )
        return 1 + math.floor(context.divide(context.ln(context.add(1, ratio)), step))

    def _inverse(self, uniform: Floats) -> Integers:
        """The smallest n with u < pi(n), or one beside it."""
        step, d, turn = 1 / float(self.scale), float(self.missed), self._turn
        unit, left = d / math.expm1(step), 1 - float(self.chances(np.array([turn]))[0])
        rising = np.log1p(uniform / unit) / step
        falling = turn + np.log((left + unit) / (1 - uniform + unit)) / step
        return 1 + np.floor(np.where(uniform < 1 - left, rising, falling)).astype(np.int64)

    def _settled(self, about: int, stream: Stream, position: int) -> int:
        """The smallest n with U < pi(n), exactly."""
        uniform, n = Uniform(stream, position), max(about, 1)
        while not uniform.below(partial(self.bounds, n)):
            n += 1
        while n > 1 and uniform.below(partial(self.bounds, n - 1)):
            n -= 1
        return n
