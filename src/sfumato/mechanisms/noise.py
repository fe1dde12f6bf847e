"""Integer noise, exactly distributed: the discrete Laplace and the discrete Gaussian.

Each draw is a fixed mathematical function of an infinite uniform bit string (`Uniform`). Float64 evaluates
that function where it is certain of the result, with a margin far wider than its error; the few draws
within the margin are settled in decimal arithmetic with as many further random digits as it takes. So the
law is exact, and the same key gives the same draws on every platform. Proofs: proofs/noise.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.numbers import rational
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.stream import BLOCK, Stream, Uniform, Words64, decimal

Integers: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

# Tail probabilities in float64 are off by far less than this share, and are rounded up by it.
ROUND_UP = 1 + 2.0**-36

# The Laplace margin is (scale + t) * MARGIN; heads below MIN_HEAD are too coarse for it. See proofs/noise.md.
MARGIN = 2.0**-44
MIN_HEAD = 2**45
_SIGN, _HEAD = np.int64(63), np.int64(2**63 - 1)
# An acceptance is certain when probability and uniform differ by more than this.
CERTAIN = 2.0**-40
# From this variance on, sums over integers are bounded by integrals: more by 1e-6 of their value where it matters.
SMOOTH_VARIANCE = 2**24
# Beyond these ranges int64 would overflow, or the noise would be none.
_SCALES, _VARIANCES = (2.0**-40, 2.0**40), (2.0**-80, 2.0**80)


class Noise(ABC):
    """A law of integer noise, symmetric about zero."""

    family: ClassVar[str]  # its name, as in the argument `count_noise`

    @property
    @abstractmethod
    def parameter(self) -> Fraction:
        """The exact number that, with the family, fixes the law."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Its standard deviation."""

    @abstractmethod
    def sample(self, stream: Stream, size: int) -> Integers:
        """`size` independent draws; the first n of them do not depend on `size`."""

    @abstractmethod
    def upper_tail(self, n: int) -> float:
        """P[X >= n] for n >= 1, rounded up."""

    @abstractmethod
    def difference_tail(self, n: int) -> float:
        """P[X - Y >= n] for two independent draws and n >= 0, rounded up."""

    def characteristic(self, angles: Floats) -> Floats:
        """E[cos(angle * X)]."""
        raise NotImplementedError(f"{self.family} noise is not added up")

    def tail(self, n: int) -> float:
        """P[X >= n], rounded up."""
        return self.upper_tail(n) if n > 0 else 1 - self.upper_tail(1 - n) / self._looseness

    @property
    def _looseness(self) -> float:
        """By how much `upper_tail` may exceed the truth, as a factor."""
        return ROUND_UP**2

    def smallest_tail(self, probability: float) -> int:
        """The smallest n >= 0 with P[X >= n] <= probability."""
        return smallest(lambda n: self.tail(n) <= probability)

    def smallest_difference_tail(self, probability: float) -> int:
        """The smallest n >= 0 with P[X - Y >= n] <= probability."""
        return smallest(lambda n: self.difference_tail(n) <= probability)

    def deviations(self, missed: float) -> float:
        """So many deviations bound a weighted sum of independent draws, but for a probability of about `missed`.

        As if the sum were normal; a law with heavier tails overrides it.
        """
        return NormalDist().inv_cdf(1 - missed / 2)

    def half_width(self, confidence: float = 0.95) -> int:
        """The smallest w with P[|X| <= w] >= confidence."""
        if not 0 < confidence < 1:
            raise InvalidArgument("confidence", "must lie strictly between 0 and 1")
        return _half_width(self, confidence)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Noise):
    """P[X = x] = (1 - a) / (1 + a) * a^|x| with a = exp(-1 / scale).

    Guarantee: added to a count that one person moves by at most tau, (tau / scale)-DP.
    Source:    Ghosh, Roughgarden, Sundararajan (2012); sampling and proof in proofs/noise.md.
    """

    family = "laplace"

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", rational("scale", self.scale, between=_SCALES))

    @property
    def parameter(self) -> Fraction:
        return self.scale

    @property
    def deviation(self) -> float:
        return 1 / (math.sqrt(2) * math.sinh(1 / (2 * float(self.scale))))

    def deviations(self, missed: float) -> float:
        """Those of a single draw: the tails of a sum are between its own and normal ones (proofs/noise.md)."""
        return max(Noise.deviations(self, missed), -math.log(missed) / math.sqrt(2))

    def sample(self, stream: Stream, size: int) -> Integers:
        draws = np.empty(size, np.int64)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            words = stream.words(0, start, stop - start)
            draws[start:stop] = _apply_signs(_magnitudes(stream, slice(start, stop, 1), self.scale, words), words)
        return draws

    def upper_tail(self, n: int) -> float:
        a, _ = self._ratio()
        return self._power(n) / (1 + a) * ROUND_UP

    def difference_tail(self, n: int) -> float:
        a, rest = self._ratio()
        heads = (n + 1) / rest + a / rest**2 + 2 * a**2 / ((1 + a) * rest**2)
        return (rest / (1 + a)) ** 2 * self._power(n) * heads * ROUND_UP

    @property
    def tail_scale(self) -> float:
        """Far out, the tail falls by a factor of e over this length."""
        return float(self.scale)

    def characteristic(self, angles: Floats) -> Floats:
        """E[cos(angle * X)]."""
        a = math.exp(-1 / float(self.scale))
        numbers: Floats = (1 - a) ** 2 / (1 - 2 * a * np.cos(angles) + a**2)
        return numbers

    def _ratio(self) -> tuple[float, float]:
        """a and 1 - a, both to full relative precision."""
        x = -1 / float(self.scale)
        return math.exp(x), -math.expm1(x)

    def _power(self, n: int) -> float:
        return math.exp(-n / float(self.scale))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Noise):
    """P[X = x] proportional to exp(-x^2 / (2 sigma_squared)) over the integers.

    Guarantee: added to a count that one person moves by at most tau, tau^2 / (2 sigma_squared) zCDP.
    Source:    Canonne, Kamath, Steinke (2020); sampling and proof in proofs/noise.md.
    """

    family = "gaussian"

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma_squared", rational("sigma_squared", self.sigma_squared, between=_VARIANCES))

    @property
    def parameter(self) -> Fraction:
        return self.sigma_squared

    @property
    def deviation(self) -> float:
        """sigma, which the true deviation never exceeds and matches to 1e-8 from sigma = 1 on."""
        return math.sqrt(self.sigma_squared)

    def sample(self, stream: Stream, size: int) -> Integers:
        """Rejection from the discrete Laplace: candidate c is word 2c, and word 2c + 1 accepts it or does not."""
        t, sigma = math.isqrt(math.floor(self.sigma_squared)) + 1, math.sqrt(self.sigma_squared)
        share = math.tanh(0.5 / t) * math.exp(-0.5 * (sigma / t) ** 2) * max(1.0, sigma * math.sqrt(2 * math.pi))
        draws: list[Integers] = []
        start, wanted = 0, size
        while wanted > 0:
            stop = start + 2 * min(BLOCK, math.ceil((wanted + 3 * math.sqrt(wanted * (1 - share))) / share))
            words = stream.words(0, start, stop - start)
            magnitudes = _magnitudes(stream, slice(start, stop, 2), t, words[0::2])
            z = magnitudes * (math.sqrt(0.5) / sigma)
            z -= math.sqrt(0.5) * sigma / t
            z *= z
            excess = words[1::2] * 2.0**-64
            excess -= np.exp(np.negative(z, out=z), out=z)
            accepted = excess < 0
            doubtful = np.abs(excess, out=excess) < CERTAIN
            for i in np.flatnonzero(doubtful) if np.count_nonzero(doubtful) else ():
                exponent = (int(magnitudes[i]) - self.sigma_squared / t) ** 2 / (2 * self.sigma_squared)
                accepted[i] = Uniform(stream, start + 2 * int(i) + 1).below(_Exponential(exponent).bounds)
            draws.append(_apply_signs(magnitudes, words[0::2]).compress(accepted)[:wanted])
            start, wanted = stop, wanted - len(draws[-1])
        return draws[0] if len(draws) == 1 else np.concatenate([np.empty(0, np.int64), *draws])

    @property
    def tail_scale(self) -> float:
        """None: the tail falls faster than any exponential."""
        return 0.0

    def characteristic(self, angles: Floats) -> Floats:
        """E[cos(angle * X)]: a sum over the integers, or over the multiples of 2 pi by Poisson summation."""
        variance = float(self.sigma_squared)
        if variance < 1:
            places = range(1, _reach(variance, 0) + 1)
            terms = (2 * math.exp(-x * (x / (2 * variance))) * np.cos(x * angles) for x in places)
            return sum(terms, np.ones_like(angles)) / _theta(variance, 0.0)
        near = np.remainder(angles + math.pi, 2 * math.pi) - math.pi
        turns = [2 * math.pi * k for k in range(-2, 3)]  # beyond them there is less than e^-40
        heights = (np.exp(-variance / 2 * np.square(near + turn)) for turn in turns)
        return sum(heights, np.zeros_like(angles)) / sum(math.exp(-variance / 2 * turn**2) for turn in turns)

    def upper_tail(self, n: int) -> float:
        return _gaussian_tail(float(self.sigma_squared), n) / _theta(float(self.sigma_squared), 0.0) * ROUND_UP

    @property
    def _looseness(self) -> float:
        return ROUND_UP**2 if self.sigma_squared < SMOOTH_VARIANCE else 1.001

    def difference_tail(self, n: int) -> float:
        """exp(-x^2/2v) exp(-(x-d)^2/2v) = exp(-d^2/4v) exp(-(x-d/2)^2/v): the sum over x knows d by its parity only."""
        variance = float(self.sigma_squared)
        weights = _theta(variance / 2, 0.0), _theta(variance / 2, 0.5)
        if variance >= SMOOTH_VARIANCE:
            mass = max(weights) * _gaussian_tail(2 * variance, n)
        else:
            d = np.arange(n, n + _reach(2 * variance, n))
            mass = float(np.sum(np.where(d % 2, weights[1], weights[0]) * np.exp(-d * (d / (4 * variance)))))
        return mass / _theta(variance, 0.0) ** 2 * ROUND_UP


@contextmanager
def blamed_on(argument: str) -> Iterator[None]:
    """Let the error of noise that cannot be drawn name the argument that asked for it."""
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(argument, f"asks for noise that cannot be drawn; its {error}") from None


def _magnitudes(stream: Stream, places: slice, scale: Fraction | int, words: Words64) -> Integers:
    """|X| for each of the words at `places` of lane 0: floor(t), t = scale * (ln(2 / (1 + a)) - ln U)."""
    head = words.view(np.int64) & _HEAD
    b = float(scale)
    t = head + 0.5  # the middle of the interval that its first 63 digits leave to U
    t *= 2.0**-63
    np.log(t, out=t)
    # From here on t is a lower bound, t - (b + t) * MARGIN, and then an upper one.
    np.subtract(math.log(2 / (1 + math.exp(-1 / b))) - MARGIN, t, out=t)
    t *= b * (1 - MARGIN)
    magnitudes = t.astype(np.int64)
    t *= 1 + 3 * MARGIN
    t += 3 * MARGIN * b
    doubtful = t.astype(np.int64) != magnitudes
    doubtful |= head < MIN_HEAD
    for i in np.flatnonzero(doubtful) if np.count_nonzero(doubtful) else ():
        magnitudes[i] = _settle(Uniform(stream, places.start + places.step * int(i)), Fraction(scale))
    return magnitudes


def _apply_signs(magnitudes: Integers, words: Words64) -> Integers:
    """Negated in place where the word's first bit is set; the rest of it made the magnitude."""
    sign = words.view(np.int64) >> _SIGN  # 0 or -1, and ~x + 1 is -x
    magnitudes ^= sign
    magnitudes -= sign
    return magnitudes


def _settle(uniform: Uniform, scale: Fraction) -> int:
    """floor(t) for the uniform behind one word, its first bit (the sign) left out."""
    uniform.drop_first_bit()
    while True:
        low, high = _laplace_bounds(uniform, scale)
        if high.is_finite() and low.to_integral_value(ROUND_FLOOR) == high.to_integral_value(ROUND_FLOOR):
            return max(int(low.to_integral_value(ROUND_FLOOR)), 0)
        uniform.reveal()


def _laplace_bounds(uniform: Uniform, scale: Fraction) -> tuple[Decimal, Decimal]:
    """Certain bounds of t, which falls as the uniform number rises."""
    context = uniform.context()
    b = decimal(scale, context)
    one_plus_a = context.add(1, context.exp(context.divide(-1, b)))
    top = context.subtract(context.multiply(uniform.bits + 1, context.ln(2)), context.ln(one_plus_a))
    # Six roundings of terms no larger than bits + 1, of half a unit in the last place each, times b.
    slack = context.multiply(b, context.scaleb(uniform.bits + 1, 2 - context.prec))
    low = context.multiply(b, context.subtract(top, context.ln(uniform.numerator + 1)))
    high = context.multiply(b, context.subtract(top, context.ln(uniform.numerator)))
    return max(context.subtract(low, slack), Decimal(0)), context.add(high, slack)


@dataclass(frozen=True, slots=True)
class _Exponential:
    """exp(-exponent), to any precision."""

    exponent: Fraction

    def bounds(self, context: Context) -> tuple[Decimal, Decimal]:
        exponent = decimal(self.exponent, context)
        value = context.exp(exponent.copy_negate())
        slack = context.multiply(value, context.scaleb(context.add(1, exponent), 2 - context.prec))
        return context.subtract(value, slack), context.next_plus(context.add(value, slack))


@lru_cache(maxsize=1024)
def _theta(variance: float, shift: float) -> float:
    """The sum of exp(-(x + shift)^2 / (2 variance)) over all integers x."""
    if variance >= SMOOTH_VARIANCE / 2:
        return math.sqrt(2 * math.pi * variance)  # the error is below exp(-2 pi^2 variance)
    x = np.arange(-_reach(variance, 0), _reach(variance, 0) + 1) + shift
    return float(np.sum(np.exp(-x * (x / (2 * variance)))))


def _gaussian_tail(variance: float, n: int) -> float:
    """The sum of exp(-x^2 / (2 variance)) over the integers x >= n >= 0, or slightly more."""
    if variance < SMOOTH_VARIANCE:
        x = np.arange(n, n + _reach(variance, n))
        return float(np.sum(np.exp(-x * (x / (2 * variance)))))
    deviation = math.sqrt(variance)
    if n <= deviation:  # not convex there: fall back on the first term and the integral
        return math.exp(-n * n / (2 * variance)) + _integral(deviation, n)
    return _integral(deviation, n - 0.5)  # a convex function lies below its means over unit intervals


def _integral(deviation: float, start: float) -> float:
    return deviation * math.sqrt(math.pi / 2) * math.erfc(start / (deviation * math.sqrt(2)))


def _reach(variance: float, n: int) -> int:
    """After this many terms from n on, exp(-x^2 / (2 variance)) has fallen by exp(-50) at least."""
    return 2 + math.ceil(min(math.sqrt(100 * variance), 50 * variance / max(n, 1)))


@lru_cache(maxsize=1024)
def _half_width(law: Noise, confidence: float) -> int:
    return max(law.smallest_tail((1 - confidence) / 2) - 1, 0)


def smallest(holds: Callable[[int], bool]) -> int:
    """The smallest n >= 0 with holds(n), for a predicate that holds from some n on."""
    high = 1
    while not holds(high):
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
