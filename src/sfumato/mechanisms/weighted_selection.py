"""Key selection without a bound to guess: people with few keys count for more in each of them.

A person with d keys adds w(d), about SCALE / sqrt(d), to each. So every person moves the sums by at most SCALE in all,
with one key or with many. The sums are no counts of people: they select keys, and what is published of these is
measured afterwards. Proof: proofs/weighted_selection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

import numpy as np

from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.groups import weighted_group_delta
from sfumato.accounting.numbers import Number, positive, rational, whole
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.key_selection import KeyRule, KeySelection, chance_per_key
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.random import Rng, check_source

SCALE = 2**20
"""What a person with a single key adds to it."""

MAX_DEGREE = 2**16
"""The most keys per person that selection can count."""


def key_weights(max_keys: int, scale: int = SCALE) -> Integers:
    """w(d) for d = 0 to `max_keys`: the whole root of scale^2 / d, so d w(d)^2 <= scale^2; w(0) is 0."""
    return np.array([0, *(math.isqrt(scale**2 // keys) for keys in range(1, max_keys + 1))], np.int64)


@dataclass(frozen=True, kw_only=True)
class WeightedRule(KeyRule):
    """Keep a key iff its sum of weights plus discrete Gaussian noise, sigma = scale / sqrt(2 rho), reaches a threshold.

    Guarantee: delta-approximate rho-zCDP; the noisy sums of the kept keys could be released with it.
    Assumes:   a person has at most `max_keys` keys, by bounding, and adds w(d) to each of the d keys that are left.
    Error:     of people with d keys each, threshold / w(d) are enough for a key to be kept half of the time.
    Source:    after Gopi et al. (2020), with whole weights and exact tails. Proof: proofs/weighted_selection.md.
    """

    name = "weighted"
    stream_name = "WeightedRule"

    total: Fraction
    scale: int = SCALE

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "max_keys", whole("max_keys", self.max_keys, at_most=MAX_DEGREE))
        object.__setattr__(self, "total", positive("rho", self.total))
        with blamed_on("rho"):
            self.noise  # noqa: B018

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.scale**2 / (2 * self.total))

    @property
    def rho(self) -> Fraction:
        return self.total

    @property
    def step(self) -> GaussianStep:
        return GaussianStep(self.noise.sigma_squared, Fraction(self.scale**2), self.max_keys)

    @cached_property
    def weights(self) -> Integers:
        return key_weights(self.max_keys, self.scale)

    @cached_property
    def threshold(self) -> int:
        """The smallest T with P[w(d) + noise >= T] <= 1 - (1 - delta)^(1 / d) for every d up to `max_keys`."""
        chances = [chance_per_key(self.delta, keys) for keys in range(1, self.max_keys + 1)]
        weights, law = self.weights[1:].tolist(), NormalDist(0, self.noise.deviation)
        about = [weight - law.inv_cdf(chance) for weight, chance in zip(weights, chances, strict=True)]
        least = 0
        # The worst d is first to set the threshold: then few others have to raise it. Every d is looked at.
        for place in sorted(range(self.max_keys), key=lambda place: -about[place]):
            if self.noise.tail(least - weights[place]) > chances[place]:
                least = weights[place] + self.noise.smallest_tail(chances[place])
        return least

    def select(self, counts: Integers, rng: Rng) -> KeySelection:
        """The keys to keep, of the sums of weights by key."""
        exact = exact_counts("counts", counts)
        stream = check_source(rng).stream(
            rule=self.stream_name,
            parameter=self.noise.parameter,
            delta=self.delta,
            max_keys=self.max_keys,
            scale=self.scale,
        )
        noisy = exact + self.noise.sample(stream, len(exact))
        kept = np.flatnonzero((noisy >= self.threshold) & (exact > 0))
        return KeySelection(kept, None, self.rho, self.delta)

    def group_delta(self, people: int) -> float:
        weights = [(keys, int(self.weights[keys])) for keys in range(1, self.max_keys + 1)]
        return weighted_group_delta(self.noise.tail, self.threshold, weights, people)


def select_weighted(sums: Integers, *, rho: Number, delta: Number, max_keys: int, rng: Rng) -> KeySelection:
    """Keep the keys whose sum of weights plus discrete Gaussian noise reaches the threshold: see `WeightedRule`."""
    exact, spare = rational("rho", rho), rational("delta", delta)
    return WeightedRule(total=exact, delta=spare, max_keys=max_keys).select(sums, rng)
