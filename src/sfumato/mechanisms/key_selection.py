"""Key selection: which keys of a table may be named at all, from distinct people per key.

A person counts for at most `max_keys` keys, enforced by bounding before these rules see the counts. Keys with
no person are never kept. Positions in the array are dealt their noise in order, so the order of the keys must
not depend on the data: sort them. Thresholds and guarantees: proofs/key_selection.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.groups import group_delta, threshold_group_delta
from sfumato.accounting.numbers import Number, positive, probability, rational, whole
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.mechanism import MAX_EPSILON
from sfumato.mechanisms.noise import (
    CERTAIN,
    ROUND_UP,
    DiscreteGaussian,
    DiscreteLaplace,
    Integers,
    Noise,
    blamed_on,
)
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.stream import Uniform
from sfumato.mechanisms.truncated_laplace import TruncatedLaplace


def chance_per_key(delta: Fraction, keys: int) -> float:
    """1 - (1 - delta)^(1 / keys), rounded down: with that for each of `keys` keys, one of them is kept with `delta`."""
    return -math.expm1(math.log1p(-float(delta)) / keys) / ROUND_UP


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The keys that may be named.

    `kept` are positions in the array of counts, ascending; `counts` their noisy counts, where the rule covers
    them. The selection is `delta`-approximate `rho`-zCDP.
    """

    kept: Integers
    counts: Integers | None
    rho: Fraction
    delta: Fraction


@dataclass(frozen=True, kw_only=True)
class KeyRule(ABC):
    """A rule that keeps a key by its count of distinct people, of which a person is in `max_keys` at most."""

    name: ClassVar[str]
    """Its name in statements."""

    stream_name: ClassVar[str]
    """Its name in the key of its noise stream. Never change it: the same key would draw other noise."""

    delta: Fraction
    max_keys: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta))
        object.__setattr__(self, "max_keys", whole("max_keys", self.max_keys, at_least=1, at_most=2**40))

    @property
    @abstractmethod
    def rho(self) -> Fraction:
        """The zCDP parameter of the whole selection."""

    @abstractmethod
    def select(self, counts: Integers, rng: Rng) -> KeySelection:
        """The keys to keep."""

    @abstractmethod
    def group_delta(self, people: int) -> float:
        """The delta for `people` people together: the chance that a key is shown that only these people have."""

    @cached_property
    def per_key(self) -> Fraction:
        """The most a key of a single person may be kept with: 1 - (1 - delta)^(1 / max_keys), rounded down."""
        return Fraction(chance_per_key(self.delta, self.max_keys))


class ThresholdRule(KeyRule):
    """Keep a key iff its noisy count reaches a threshold; the noisy counts of the kept keys are free."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The law of the noise on a count."""

    @cached_property
    def threshold(self) -> int:
        """1 + t for the smallest t >= 0 with P[noise >= t] <= per_key."""
        return 1 + self.noise.smallest_tail(float(self.per_key))

    def select(self, counts: Integers, rng: Rng) -> KeySelection:
        exact = exact_counts("counts", counts)
        stream = check_source(rng).stream(
            rule=self.stream_name, parameter=self.noise.parameter, delta=self.delta, max_keys=self.max_keys
        )
        noisy = exact + self.noise.sample(stream, len(exact))
        kept = np.flatnonzero((noisy >= self.threshold) & (exact > 0))
        return KeySelection(kept, noisy[kept], self.rho, self.delta)

    def group_delta(self, people: int) -> float:
        return threshold_group_delta(self.noise.tail, self.threshold, self.max_keys, people)


@dataclass(frozen=True, kw_only=True)
class LaplaceRule(ThresholdRule):
    """Discrete Laplace noise of scale max_keys / epsilon.

    Guarantee: (epsilon, delta)-DP with the kept keys' noisy counts; epsilon^2 / (2 max_keys) zCDP but for delta.
    """

    name = "laplace"
    stream_name = "LaplaceRule"

    epsilon: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", _step_in_range(self.epsilon, self.max_keys))

    @property
    def noise(self) -> Noise:
        return DiscreteLaplace(self.max_keys / self.epsilon)

    @property
    def rho(self) -> Fraction:
        return self.epsilon**2 / (2 * self.max_keys)


@dataclass(frozen=True, kw_only=True)
class TruncatedLaplaceRule(LaplaceRule):
    """Laplace noise that ends where a key of one person would be kept with more than its part of delta.

    Guarantee: (epsilon, delta)-DP with the kept keys' noisy counts; epsilon^2 / (2 max_keys) zCDP but for delta.
    Error:     that of `LaplaceRule`. Keys are kept as often as by `GeometricRule`, which is as often as can be.
    Source:    after Desfontaines, Voss, Gipson, Mandayam (2022). Proof: proofs/key_selection.md.
    """

    name = "truncated_laplace"
    stream_name = "TruncatedLaplaceRule/2"

    @cached_property
    def noise(self) -> TruncatedLaplace:
        return TruncatedLaplace(self.max_keys / self.epsilon, self.per_key)

    @property
    def threshold(self) -> int:
        return self.noise.threshold


@dataclass(frozen=True, kw_only=True)
class GaussianRule(ThresholdRule):
    """Discrete Gaussian noise of variance max_keys / (2 rho).

    Guarantee: delta-approximate rho-zCDP with the kept keys' noisy counts.
    """

    name = "gaussian"
    stream_name = "GaussianRule"

    total: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "total", positive("rho", self.total))
        with blamed_on("rho"):
            self.noise  # noqa: B018

    @property
    def noise(self) -> Noise:
        return DiscreteGaussian(self.max_keys / (2 * self.total))

    @property
    def rho(self) -> Fraction:
        return self.total

    @property
    def step(self) -> GaussianStep:
        return GaussianStep.counts(self.noise.parameter, self.max_keys)


@dataclass(frozen=True, kw_only=True)
class GeometricRule(KeyRule):
    """Keep a key of n people with the largest probability pi(n) that privacy allows (truncated geometric).

    Guarantee: (epsilon, delta)-DP; only the decision is released.
    Source:    Desfontaines, Voss, Gipson, Mandayam (2022): P[X >= threshold - n] of `TruncatedLaplace` noise X.
    """

    name = "geometric"
    stream_name = "GeometricRule"

    epsilon: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", _step_in_range(self.epsilon, self.max_keys))

    @property
    def rho(self) -> Fraction:
        return self.epsilon**2 / (2 * self.max_keys)

    def select(self, counts: Integers, rng: Rng) -> KeySelection:
        exact = exact_counts("counts", counts)
        stream = check_source(rng).stream(
            rule=self.stream_name, epsilon=self.epsilon, delta=self.delta, max_keys=self.max_keys
        )
        excess = stream.words(0, 0, len(exact)) * 2.0**-64 - self.probabilities(exact)
        kept = excess < 0
        for i in np.flatnonzero((np.abs(excess) < CERTAIN) & (exact > 0)):
            kept[i] = Uniform(stream, int(i)).below(partial(self.law.bounds, int(exact[i])))
        return KeySelection(np.flatnonzero(kept & (exact > 0)), None, self.rho, self.delta)

    def group_delta(self, people: int) -> float:
        """At `people` times epsilon."""
        return group_delta(self.epsilon, self.delta, people)

    def probabilities(self, counts: Integers) -> NDArray[np.float64]:
        """pi(n) in float64."""
        return self.law.chances(counts)

    @cached_property
    def law(self) -> TruncatedLaplace:
        return TruncatedLaplace(self.max_keys / self.epsilon, self.per_key)


def _step_in_range(epsilon: Fraction, max_keys: int) -> Fraction:
    """An epsilon whose share a key, epsilon / max_keys, can be computed with: its noise has a scale within range."""
    exact = positive("epsilon", epsilon, at_most=MAX_EPSILON)
    with blamed_on("epsilon"):
        DiscreteLaplace(max_keys / exact)
    return exact


def select_laplace(counts: Integers, *, epsilon: Number, delta: Number, max_keys: int, rng: Rng) -> KeySelection:
    """Keep the keys whose count plus discrete Laplace noise reaches the threshold: see `LaplaceRule`."""
    exact, spare = rational("epsilon", epsilon), rational("delta", delta)
    return LaplaceRule(epsilon=exact, delta=spare, max_keys=max_keys).select(counts, rng)


def select_geometric(counts: Integers, *, epsilon: Number, delta: Number, max_keys: int, rng: Rng) -> KeySelection:
    """Keep each key with the largest probability that privacy allows: see `GeometricRule`."""
    exact, spare = rational("epsilon", epsilon), rational("delta", delta)
    return GeometricRule(epsilon=exact, delta=spare, max_keys=max_keys).select(counts, rng)


def select_gaussian(counts: Integers, *, rho: Number, delta: Number, max_keys: int, rng: Rng) -> KeySelection:
    """Keep the keys whose count plus discrete Gaussian noise reaches the threshold: see `GaussianRule`."""
    exact, spare = rational("rho", rho), rational("delta", delta)
    return GaussianRule(total=exact, delta=spare, max_keys=max_keys).select(counts, rng)


def select_truncated_laplace(
    counts: Integers, *, epsilon: Number, delta: Number, max_keys: int, rng: Rng
) -> KeySelection:
    """Keep the keys whose count plus Laplace noise that ends reaches the threshold: see `TruncatedLaplaceRule`."""
    exact, spare = rational("epsilon", epsilon), rational("delta", delta)
    return TruncatedLaplaceRule(epsilon=exact, delta=spare, max_keys=max_keys).select(counts, rng)
