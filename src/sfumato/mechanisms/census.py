"""The census: how many people have how many keys, with noise, and what a bound on keys drops of them.

People are counted in bins of 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, ..., 2,897 to 4,096 keys, and more than that. Where
each person keeps at most L keys, the noisy numbers tell which share of all (person, key) pairs is dropped. That is
post-processing, and free. Proof: proofs/release.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.numbers import positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.intervals import TAIL
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers, Noise, blamed_on
from sfumato.mechanisms.random import Rng, check_source

Floats: TypeAlias = NDArray[np.float64]

BOUNDS = tuple(dict.fromkeys(math.ceil(2 ** (half / 2)) for half in range(25)))
"""Where bins end, and the bounds that can be chosen: 1, 2, 3, 4, 6, 8, 12, ..., 4096."""

MAX_SEEN = BOUNDS[-1]
"""More keys of one person are counted as this many."""

STANDS_OUT, FOLLOWS = 2 * NormalDist().cdf(-4), 2 * NormalDist().cdf(-1)
"""A bin counts for estimates where noise is that far from zero so rarely; and the second, where the bin before counts.
That is 4 deviations and 1, if the noise is normal. Most bins are empty, and their noise must not be taken for people
with thousands of keys: one of 25 is in a thousand censuses."""

LAWS: Mapping[str, type[DiscreteGaussian | DiscreteLaplace]] = {"variance": DiscreteGaussian, "scale": DiscreteLaplace}
"""The laws of the noise, by what their parameter is called in statements. Never change the names."""

GRID = 1000
"""Ends of intervals are multiples of 1 / GRID."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The share of (person, key) pairs that a bound on keys drops, counting at most MAX_SEEN keys of each person.

    `share` is an estimate. The truth is between `low` and `high` with 95 %. Where people with more keys than MAX_SEEN
    stand out, more is dropped than is counted, and `high` is None.
    """

    share: float
    low: float
    high: float | None

    @property
    def estimate(self) -> str:
        """The estimate in words."""
        if (self.low, self.high) == (0, 1) or (self.high is None and self.share < 0.005):
            return "an unknown share"
        if self.high is None:
            return f"at least {_percent(self.share, math.floor)}"
        return "less than 1 %" if self.share < 0.005 else f"about {_percent(self.share)}"

    def __str__(self) -> str:
        """With the interval."""
        high = "100 %" if self.high is None else _percent(self.high, math.ceil)
        return f"{self.estimate} (95 %: {_percent(self.low, math.floor)} to {high})"


def _percent(share: float, rounded: Callable[[float], int] = round) -> str:
    # 100 * 0.07 is 7.000000000000001: no reason to round up to 8.
    return f"{rounded(round(100 * share, 6))} %"


def bins(keys: int | None = None) -> tuple[tuple[int, int | None], ...]:
    """The first and the last number of keys of each bin. The last bin ends at `keys`, if these are few, or nowhere."""
    few = keys is not None and keys <= MAX_SEEN
    ends = [bound for bound in BOUNDS if not few or bound < (keys or 0)]
    return tuple(zip([1, *(end + 1 for end in ends)], [*ends, keys if few else None], strict=True))


@dataclass(frozen=True, kw_only=True)
class KeyCensus:
    """The number of people in each of `bins`, each with discrete Gaussian noise of variance 1 / (2 rho).

    With `epsilon` it is discrete Laplace noise of scale 1 / epsilon.

    Guarantee: rho-zCDP; with `epsilon`, epsilon-DP, and `rho` covers its zCDP. A person is in one bin, and moves it
               by one.
    Assumes:   a person's number of keys follows from that person's own rows and from what was released before. `keys`,
               where it is given, is how many keys there are in all, and public.
    Error:     of one number, a deviation of sqrt(1 / (2 rho)) or sqrt(2) / epsilon; of what is dropped, see `Dropped`.
    Source:    Amin et al. (2022) ask for a private quantile here; proof in proofs/release.md.
    """

    rho: Fraction
    keys: int | None = None
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive("rho", self.rho))
        if self.epsilon is not None and self.rho < positive("epsilon", self.epsilon) ** 2 / 2:
            raise InvalidArgument("rho", "must be at least epsilon^2 / 2, where epsilon is given")
        with blamed_on("rho" if self.epsilon is None else "epsilon"):
            self.noise  # noqa: B018

    @property
    def noise(self) -> Noise:
        return DiscreteGaussian(1 / (2 * self.rho)) if self.epsilon is None else DiscreteLaplace(1 / self.epsilon)

    def release(self, people: Integers, rng: Rng) -> KeysPerPerson:
        """Of the number of people with n keys, by n; those with more than MAX_SEEN may be anywhere beyond it."""
        exact = exact_counts("people", people)
        sums = [int(exact[first : None if last is None else last + 1].sum()) for first, last in bins(self.keys)]
        pure = {} if self.epsilon is None else {"epsilon": self.epsilon}
        stream = check_source(rng).stream(mechanism="key_census", version=1, rho=self.rho, keys=self.keys, **pure)
        noisy = np.array(sums, np.int64) + self.noise.sample(stream, len(sums))
        return KeysPerPerson(tuple(noisy.tolist()), self.noise, self.keys)


@dataclass(frozen=True, slots=True)
class KeysPerPerson:
    """A released census: noisy numbers of people, one for each of `bins(keys)`, with the law of their noise."""

    people: tuple[int, ...]
    noise: Noise
    keys: int | None = None

    def __post_init__(self) -> None:
        if self.keys is not None:
            whole("keys", self.keys, at_least=1)
        for number in self.people:
            whole("people", number, at_least=-(2**62), at_most=2**62)
        if len(self.people) != len(bins(self.keys)):
            raise InvalidArgument("people", "must be one number for each bin")

    def to_dict(self) -> dict[str, Any]:
        law = next(name for name, kind in LAWS.items() if isinstance(self.noise, kind))
        return {"people": list(self.people), law: str(self.noise.parameter), "keys": self.keys}

    def smallest_bound(self, most_dropped: Fraction) -> int:
        """The smallest bound that drops at most this share, by the estimate; the largest where none does."""
        bounds = [last for _, last in bins(self.keys) if last is not None]
        return next((bound for bound in bounds if self._share(bound) <= most_dropped), bounds[-1])

    def dropped(self, max_keys: int) -> Dropped:
        """What is dropped where each person keeps at most `max_keys` keys."""
        share = self._share(max_keys)
        low, high = self._interval(max_keys)
        beyond = bins(self.keys)[-1][1] is None and self.people[-1] >= self._least(STANDS_OUT)
        return Dropped(share, min(low, share), None if beyond else max(high, share))

    def _least(self, chance: float) -> float:
        """The number of people that noise alone is that far from zero with."""
        return self.noise.deviations(chance) * self.noise.deviation

    def _share(self, max_keys: int) -> float:
        """The estimate: of the people who stand out, their keys spread evenly over each bin."""
        first, last = self._ends()
        over = np.maximum(last - max_keys, 0)
        excess = np.where(first > max_keys, (first + last) / 2 - max_keys, over * (over + 1) / 2 / (last - first + 1))
        people = self._standing_out()
        pairs = float(people @ (first + last) / 2)
        return float(people @ excess) / pairs if pairs else 0.0

    def _standing_out(self) -> Floats:
        """The numbers of people without those that may well be noise."""
        noisy, counts = np.array(self.people, np.float64), np.zeros(len(self.people), np.bool_)
        for place, number in enumerate(self.people):
            follows = place > 0 and counts[place - 1]
            counts[place] = number >= self._least(FOLLOWS if follows else STANDS_OUT)
        return np.where(counts, noisy, 0.0)

    def _ends(self) -> tuple[Floats, Floats]:
        """The first and the last number of keys of each bin. Without an end, MAX_SEEN of each person are counted."""
        first, last = zip(*((min(first, MAX_SEEN), last or MAX_SEEN) for first, last in bins(self.keys)), strict=True)
        return np.array(first, np.float64), np.array(last, np.float64)

    def _interval(self, max_keys: int) -> tuple[float, float]:
        """The shares that the noisy numbers do not reject, each side at 2.5 %.

        If t is the share, the sum over people of g(k) = max(k - L, 0) - t k is 0. k is known up to its bin: with the
        largest g of each bin the sum is at least 0, with the smallest at most 0. A t is rejected where a noisy sum is
        too far on the wrong side of 0. Numbers of people are not negative: a noisy one below 0 counts as 0 where that
        rejects less, and for the lower end weights above 0 may be left out from some bin on, with the noise of those
        bins. All sums that this makes are looked at together.
        """
        first, last = self._ends()
        shares = np.linspace(0, 1, GRID + 1)[:, np.newaxis]
        noisy = np.array(self.people, np.float64)

        def weights(keys: Floats) -> Floats:
            return np.asarray(np.maximum(keys - max_keys, 0) - shares * keys)

        largest, smallest = np.maximum(weights(first), weights(last)), weights(np.clip(max_keys, first, last))
        people = np.maximum(noisy, 0)
        totals = np.minimum(largest, 0) @ noisy + np.maximum(largest, 0) @ people
        above = totals < -self._slack(_norm(largest), TAIL)
        lower, upper = np.minimum(smallest, 0), np.maximum(smallest, 0)
        sums = lower @ people + np.cumsum(upper * noisy, axis=1).T
        norms = np.hypot(_norm(lower), np.sqrt(np.cumsum(np.square(upper), axis=1)).T)
        below = (sums > self._slack(norms, TAIL / len(noisy))).any(axis=0)
        # The ends lie between a share that is rejected and one that is not.
        low, high = np.flatnonzero(~below), np.flatnonzero(~above)
        ends = ((low[0] - 1) / GRID if len(low) else 1.0, (high[-1] + 1) / GRID if len(high) else 0.0)
        return max(float(ends[0]), 0.0), min(float(ends[1]), 1.0)

    def _slack(self, norms: Floats, tail: float) -> Floats:
        """What noise with weights of these norms exceeds with at most `tail`, to either side.

        No less than a single bin needs, where the noise is discrete.
        """
        law = self.noise
        wide = max(law.deviations(2 * tail) * law.deviation, law.half_width(1 - 2 * tail))
        return np.asarray(wide * norms)


def _norm(weights: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(weights).sum(axis=1)))
