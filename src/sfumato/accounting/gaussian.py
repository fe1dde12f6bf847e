"""Exact accounting of Gaussian noise: the (epsilon, delta) of the noise that is drawn, without the detour of zCDP.

It applies where every step adds discrete Gaussian noise to whole numbers, and the largest move of one person over sigma
is fixed before the data is seen, or their squares have a total that is. Releases with any other step stay in zCDP.

    counts of distinct people    exact: the loss is a sum of discrete Gaussians, whose tail is a sum over whole numbers
    any other whole moves        a bound: continuous noise of variance sigma^2 - 1, randomly rounded, is within a factor
                                 e^kappa of discrete noise, number by number

Thresholds add their own delta. A ledger is charged the rho of the noise that is drawn. Proofs: proofs/gaussian.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, Protocol

from sfumato.accounting.composition import zcdp_delta, zcdp_rho
from sfumato.accounting.numbers import Number, positive, probability, rational, whole
from sfumato.errors import InvalidArgument

KAPPA = 1.1e-8
"""Rounded continuous noise and discrete noise differ by a factor of at most e^KAPPA for each number that moves."""

# More than what is left out of a sum or a convolution. No delta is ever stated below it.
_LOST = 1e-28
# Terms below e^-_REACH of the largest are left out.
_REACH = 79.0
# Far more than float64 can be off in a sum of positive terms, as a share of it.
UP = 1 + 2.0**-36
# Beyond this variance of a sum of draws the bound is as good as the exact sum, which would take long.
_MAX_VARIANCE = 2**20
_MAX_BLOCKS = 256
# A variance from which one less does not count.
_LARGE = Fraction(2**60)
# The largest x of which e^x is computed.
MAX_EXPONENT = 700


@dataclass(frozen=True, slots=True)
class GaussianStep:
    """Whole numbers, each with discrete Gaussian noise of `variance`.

    One person moves at most `coordinates` of them, by a vector whose square is at most `norm_squared`. `of_people`
    states that the numbers are counts of distinct people and `coordinates` was fixed before the data was seen: every
    move is 0 or 1, and `norm_squared` equals `coordinates`.
    """

    variance: Fraction
    norm_squared: Fraction
    coordinates: int
    of_people: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive("variance", self.variance))
        object.__setattr__(self, "norm_squared", positive("norm_squared", self.norm_squared))
        object.__setattr__(self, "coordinates", whole("coordinates", self.coordinates, at_least=1))
        if self.of_people and self.norm_squared != self.coordinates:
            raise InvalidArgument("norm_squared", "must be the number of coordinates, where people are counted")

    @classmethod
    def counts(cls, variance: Number, max_keys: int) -> GaussianStep:
        """Distinct people by key, each person in `max_keys` keys at most."""
        return cls(rational("variance", variance), Fraction(max_keys), max_keys, of_people=True)

    @property
    def rho(self) -> Fraction:
        """Its zCDP, which a ledger is charged."""
        return self.norm_squared / (2 * self.variance)

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> GaussianStep:
        """What `to_dict` wrote. Refuses what is not a step."""
        variance, square = (rational(name, Fraction(str(serial[name]))) for name in ("variance", "norm_squared"))
        return cls(variance, square, serial["coordinates"], serial["of_people"] is True)

    def to_dict(self) -> dict[str, Any]:
        numbers = {"variance": str(self.variance), "norm_squared": str(self.norm_squared)}
        return {**numbers, "coordinates": self.coordinates, "of_people": self.of_people}


@dataclass(frozen=True)
class GaussianLoss:
    """What several steps of Gaussian noise, one after the other, tell about one person.

    >>> one = GaussianLoss((GaussianStep.counts(19, 1),))
    >>> f"{one.delta(1):.2e}", f"{one.epsilon(1e-6):.3f}"
    ('5.38e-07', '0.966')
    """

    steps: tuple[GaussianStep, ...]

    @classmethod
    def of_any(cls, plans: Sequence[Sequence[GaussianStep]]) -> GaussianLoss:
        """The loss of any one of some plans, where released numbers decide between them on the way.

        It is that of one step that is no less than each plan: in the sum of |u|^2 / (variance - 1), and in the numbers
        that move. That the plans have one rho is not used.
        """
        if any(step.variance <= 1 for steps in plans for step in steps):
            return cls((GaussianStep(Fraction(1, 2), Fraction(2**20), 1),))  # no bound
        largest = max(summed_squares(steps) for steps in plans)
        moved = max(sum(step.coordinates for step in steps) for steps in plans)
        return cls((GaussianStep(_LARGE + 1, largest * _LARGE, moved),))

    @property
    def rho(self) -> Fraction:
        return sum((step.rho for step in self.steps), Fraction(0))

    def delta(self, epsilon: Number) -> float:
        """The delta at which the steps are (`epsilon`, delta)-DP, rounded up."""
        at = float(rational("epsilon", epsilon))
        if at < 0:
            raise InvalidArgument("epsilon", "must not be negative")
        return min(self._exact(at), self._bound(at), zcdp_delta(self.rho, at))

    def epsilon(self, delta: Number) -> float:
        """The epsilon at which the steps are (epsilon, `delta`)-DP, rounded up; infinite if there is none."""
        target = float(probability("delta", delta))
        low, high = 0.0, 1.0
        if self.delta(low) <= target:
            return low
        while self.delta(high) > target:
            low, high = high, 2 * high
            if high > 2**20:
                return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= target else (middle, high)
        return high

    def of_group(self, people: int) -> GaussianLoss:
        """The same for `people` people together: every move is so many times as long."""
        group = whole("people", people, at_least=1)
        return GaussianLoss(
            tuple(
                replace(
                    step,
                    norm_squared=group**2 * step.norm_squared,
                    coordinates=group * step.coordinates,
                    of_people=step.of_people and group == 1,
                )
                for step in self.steps
            )
        )

    def _bound(self, epsilon: float) -> float:
        """e^(m kappa) times the delta of continuous noise at epsilon - 2 m kappa, m the numbers that move."""
        if any(step.variance <= 1 for step in self.steps):
            return 1.0
        slack = KAPPA * sum(step.coordinates for step in self.steps) * UP
        if slack > MAX_EXPONENT:
            return 1.0
        return math.exp(slack) * gaussian_delta(summed_squares(self.steps), epsilon - 2 * slack) * UP

    def _exact(self, epsilon: float) -> float:
        """The mean, over the losses of all steps but the last, of the delta that the last one has at what is left."""
        if not all(step.of_people and step.coordinates * step.variance <= _MAX_VARIANCE for step in self.steps):
            return 1.0
        *before, last = [_sum_of(step.variance, step.coordinates) for step in self.steps]
        spread = [(0.0, 1.0)]
        for law in before:
            spread = [(loss + more, mass * share) for loss, mass in spread for more, share in law.losses]
        parts = (mass * last.delta(epsilon - loss) for loss, mass in spread)
        return math.fsum(parts) * UP + _LOST * len(self.steps)


def summed_squares(steps: Sequence[GaussianStep]) -> Fraction:
    """Of continuous noise that is at most as large."""
    return sum((step.norm_squared / (step.variance - 1) for step in steps), Fraction(0))


def gaussian_delta(mu_squared: Number, epsilon: Number) -> float:
    """The delta of continuous Gaussian noise, rounded up: mu is the move over sigma (Balle and Wang 2018)."""
    mu = math.sqrt(rational("mu_squared", mu_squared)) * (1 + 2.0**-50)
    return continuous_delta(mu, float(rational("epsilon", epsilon)))


def continuous_delta(mu: float, epsilon: float) -> float:
    """The same in floating point."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    place = epsilon / mu - mu / 2
    with_person = math.erfc(place / math.sqrt(2)) / 2 * UP
    if epsilon > MAX_EXPONENT:
        return min(with_person + _LOST, 1.0)
    without = math.exp(epsilon) * math.erfc((place + mu) / math.sqrt(2)) / 2 / UP
    return min(max(with_person - without, 0.0) + _LOST, 1.0)


class HasDelta(Protocol):
    """What some steps tell about one person."""

    def delta(self, epsilon: Number) -> float: ...


def largest_rho(loss: Callable[[Fraction], HasDelta], epsilon: Number, delta: Number, named: Number = 0) -> Fraction:
    """The largest rho, rounded down, whose steps `loss(rho)` are (`epsilon`, `delta`)-DP; `named` is for naming keys.

    At least that of the conversion of zCDP, which holds for these steps too.
    """
    target, spare = positive("epsilon", epsilon), probability("delta", delta)
    low = zcdp_rho(target, spare - rational("named", named))
    high = 1.05 * low
    while loss(Fraction(high)).delta(target) <= spare:
        low, high = high, 1.05 * high
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(Fraction(middle)).delta(target) <= spare else (low, middle)
    return Fraction(low)


def smallest_variance(epsilon: Number, delta: Number, max_keys: int) -> Fraction:
    """The smallest variance with which counts of distinct people are (`epsilon`, `delta`)-DP.

    >>> round(math.sqrt(smallest_variance(1, 5e-7, 1)), 2)
    4.37
    """
    keys = whole("max_keys", max_keys, at_least=1)
    rho = largest_rho(lambda rho: GaussianLoss((GaussianStep.counts(keys / (2 * rho), keys),)), epsilon, delta)
    return keys / (2 * rho)


@dataclass(frozen=True)
class _SummedNoise:
    """The sum X of `keys` discrete Gaussians of `variance`: the loss of one person is (2X + keys) / 2 variance.

    P[X = x] is e^(-x^2 / 2 keys variance) times a number that depends on x modulo `keys` only, and hardly on that: with
    the first factor alone, no probability is more than `factor` times too small.
    """

    variance: float
    keys: int

    def delta(self, epsilon: float) -> float:
        """P[X >= n] - e^epsilon P[X >= n + keys], n the first place at which the loss is above epsilon."""
        first = math.floor(min(max(epsilon * self.variance - self.keys / 2, -(2.0**60)), 2.0**60)) + 1
        with_person, without = self._tail(first), self._tail(first + self.keys)
        if without == 0 or epsilon > MAX_EXPONENT:
            return with_person * self.factor * UP
        return max(with_person * UP - math.exp(epsilon) * without / UP, 0.0) * self.factor

    @cached_property
    def losses(self) -> Sequence[tuple[float, float]]:
        """Its losses and their probabilities, in blocks whose largest loss counts for all."""
        width = max(1, 2 * self._reach // _MAX_BLOCKS)
        blocks = [(start, start + width) for start in range(-self._reach, self._reach + 1, width)]
        return [
            ((2 * stop - 2 + self.keys) / (2 * self.variance), self._mass(start, stop) * self.factor * UP)
            for start, stop in blocks
        ]

    @property
    def factor(self) -> float:
        """The product over m < keys of (1 + eta) / (1 - eta), eta = 2 e^(-2 pi^2 variance m / (m + 1)) and its like."""
        if self.variance < 1:
            return 1.0
        return _evenness(self.variance, self.keys)

    @cached_property
    def _reach(self) -> int:
        """Beyond it there is less than _LOST of X."""
        return len(self._tails) - 1

    def _tail(self, n: int) -> float:
        """P[X >= n]: for n <= 0 by symmetry."""
        if n <= 0:
            return 1.0 - self._tail(1 - n)
        return self._tails[n] if n <= self._reach else 0.0

    def _mass(self, start: int, stop: int) -> float:
        """P[start <= X < stop], of the smaller tails: they have the smaller error."""
        if start + stop < 1:
            start, stop = 1 - stop, 1 - start
        return self._tail(start) - self._tail(stop)

    @cached_property
    def _tails(self) -> list[float]:
        """P[X >= n] for n from 0 on."""
        weights = self._convolve() if self.variance < 1 else self._smooth()
        sums = list(accumulate(reversed(weights)))[::-1]
        total = 2 * sums[0] - weights[0]
        return [each / total for each in sums]

    def _smooth(self) -> list[float]:
        """e^(-x^2 / 2 keys variance) from x = 0 on."""
        wide = 2 * self.keys * self.variance
        return [math.exp(-x * (x / wide)) for x in range(math.ceil(math.sqrt(_REACH * wide)) + 2)]

    def _convolve(self) -> list[float]:
        """The law itself, from x = 0 on, by repeated squaring."""
        power = [math.exp(-x * (x / (2 * self.variance))) for x in range(-13, 14)]
        result, left = [1.0], self.keys
        while left:
            result = _convolve(result, power) if left % 2 else result
            left //= 2
            power = _convolve(power, power) if left else power
        return result[len(result) // 2 :]


@lru_cache(maxsize=256)
def _sum_of(variance: Fraction, keys: int) -> _SummedNoise:
    return _SummedNoise(float(variance), keys)


@lru_cache(maxsize=256)
def _evenness(variance: float, keys: int) -> float:
    logs = 0.0
    for m in range(1, keys):
        eta = 2.01 * math.exp(-2 * math.pi**2 * variance * m / (m + 1))
        logs += math.log1p(2 * eta / (1 - eta))
        if eta < 1e-18:
            break
    return math.exp(logs + 1e-15 * keys)


def _convolve(left: Sequence[float], right: Sequence[float]) -> list[float]:
    """The law of a sum of two symmetric ones, without the ends, which have less than 1e-34 of the middle."""
    whole_law = [math.fsum(_products(left, right, place)) for place in range(len(left) + len(right) - 1)]
    least = math.exp(-_REACH) * max(whole_law)
    ends = next(place for place, mass in enumerate(whole_law) if mass >= least)
    return whole_law[ends : len(whole_law) - ends]


def _products(left: Sequence[float], right: Sequence[float], place: int) -> Iterator[float]:
    first = max(0, place - len(right) + 1)
    return (left[at] * right[place - at] for at in range(first, min(place + 1, len(left))))
