"""Numbers of groups that are released already: counts, sums, means, variances and quantiles of their rows.

Each is one unit for each group that one person can be in: epsilon^2 / 8 zCDP. A measure of sums divides it among its
sums. Which groups there are is public by then. Proof: proofs/measures.md.

|                 | its sums of a group, and by how much one person moves each                               |
|-----------------|-------------------------------------------------------------------------------------------|
| `GroupCount`    | what is counted: `most`                                                                   |
| `GroupMean`     | values: `values`; their distances from the middle: `values` times half of the range       |
| `GroupVariance` | the same, and the squares of the distances                                                |
| `GroupQuantile` | none: a point of the grid is chosen                                                       |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.accounting.charges import Charge
from sfumato.accounting.composition import bounded_range_to_zcdp
from sfumato.mechanisms.estimates import (
    Estimated,
    Scale,
    Share,
    Squares,
    find_means,
    find_variances,
    total_width,
    variance_ends,
)
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.mechanisms.noise import Integers, Noise
from sfumato.mechanisms.quantiles import Grid, QuantileChoice
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.release import Step
from sfumato.mechanisms.stream import ContextField, context


@dataclass(frozen=True, kw_only=True)
class GroupMeasure(ABC):
    """A number of every released group, and what it costs.

    A person is in at most `groups` of them; in any number where that is None, and then each row is paid for by itself.
    """

    name: ClassVar[str]

    epsilon: Fraction
    groups: int | None
    count_noise: CountNoise = "gaussian"

    @property
    def share(self) -> Share:
        """What it may spend on one group, or on all groups of one person where these are bounded: a unit for each."""
        groups = self.groups or 1
        pure = groups * self.epsilon / 2 if self.count_noise == "laplace" else None
        return Share(groups * bounded_range_to_zcdp(self.epsilon), groups, pure)

    @property
    def charge(self) -> Charge:
        """The price of `share` in units, rounded up."""
        return Charge(math.ceil(8 * self.share.rho / self.epsilon**2))

    def charge_of(self, rows: int) -> Charge:
        """The price of its number in `rows` groups."""
        return Charge(self.charge.information * (1 if self.groups is not None else rows))

    def steps(self, rows: int, tag: str) -> tuple[Step, ...]:
        """What showing it for the first `rows` groups reveals. `tag` names the draw."""
        if self.groups is not None:
            return (Step("measure", self.charge, 0, tag),)
        return tuple(Step("measure", self.charge, place, tag) for place in range(1, rows + 1))

    @abstractmethod
    def parameters(self) -> Mapping[str, ContextField]:
        """What its draw depends on besides epsilon and the groups."""

    def fingerprint(self) -> bytes:
        """The measure and everything that its draw depends on, as bytes."""
        common = {"epsilon": self.epsilon, "groups": self.groups, "noise": self.count_noise}
        return context(measure=self.name, version=1, **common, **self.parameters())

    @abstractmethod
    def release(self, exact: Sequence[Any], rng: Rng) -> list[list[int]]:
        """Noisy whole numbers for each group, in the order of the groups. They may leave."""

    @abstractmethod
    def estimate(self, noisy: Sequence[Sequence[int]]) -> Estimated:
        """Its values, with the ends of their intervals, of released numbers; NaN for ends that are not known."""


@dataclass(frozen=True, kw_only=True)
class GroupSums(GroupMeasure):
    """A measure that follows from sums over people, each with noise.

    Guarantee: with discrete Gaussian noise of variance 4 m s^2 / epsilon^2 on each of m sums, epsilon^2 / 8 zCDP per
               group; with discrete Laplace noise of scale 2 m s / epsilon, (epsilon / 2)-DP per group.
    Assumes:   a person moves a sum of a group by at most s, its `most`: the query enforces it.
    Source:    Canonne, Kamath, Steinke (2020); Ghosh, Roughgarden, Sundararajan (2012). Proof: proofs/measures.md.
    """

    @property
    @abstractmethod
    def most(self) -> Mapping[str, int]:
        """What is summed, and by how much a person moves the sum of one group at most. The names are hashed."""

    @property
    def laws(self) -> Mapping[str, Noise]:
        """The noise of each sum."""
        return {name: self.share.noise(most, len(self.most)) for name, most in self.most.items()}

    def parameters(self) -> Mapping[str, ContextField]:
        return {"most": [*self.most.items()]}

    def release(self, exact: Sequence[Sequence[int]], rng: Rng) -> list[list[int]]:
        source, sums = check_source(rng), np.array(exact, np.int64).reshape(len(exact), len(self.most))
        noise = [law.sample(source.stream(sum=name), len(exact)) for name, law in self.laws.items()]
        noisy: list[list[int]] = (sums + np.array(noise, np.int64).T).tolist()
        return noisy

    def estimate(self, noisy: Sequence[Sequence[int]]) -> Estimated:
        return self.of_sums([*np.array(noisy, np.int64).reshape(len(noisy), len(self.most)).T], [*self.laws.values()])

    @abstractmethod
    def of_sums(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> Estimated:
        """Its values from the noisy sums and the laws of their noise."""


@dataclass(frozen=True, kw_only=True)
class GroupCount(GroupSums):
    """A count or a sum of every group, of which a person is at most `tau`."""

    name = "group_count"

    tau: int

    @property
    def most(self) -> Mapping[str, int]:
        return {"count": self.tau}

    @property
    def width(self) -> int:
        """The half-width of its 95 % interval."""
        return total_width(self.laws["count"])

    def of_sums(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> Estimated:
        counts, width = noisy[0].astype(np.float64), self.width
        return Estimated(counts, counts - width, counts + width, np.full(len(counts), laws[0].deviation))


@dataclass(frozen=True, kw_only=True)
class ScaledSums(GroupSums):
    """A measure of values in whole steps between public bounds, at most `values` of a person and group."""

    scale: Scale
    values: int

    def parameters(self) -> Mapping[str, ContextField]:
        scale = self.scale
        return {**super().parameters(), "scale": [scale.low, scale.high, scale.step], "values": self.values}


@dataclass(frozen=True, kw_only=True)
class GroupMean(ScaledSums):
    """The mean of a column in every group: the noisy sum of distances from the middle, over a noisy count of values."""

    name = "group_mean"

    @property
    def most(self) -> Mapping[str, int]:
        return {"values": self.values, "distances": self.values * self.scale.reach}

    def of_sums(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> Estimated:
        return find_means(noisy, laws, self.scale)


@dataclass(frozen=True, kw_only=True)
class GroupVariance(ScaledSums):
    """The variance of a column in every group: from noisy sums of distances from the middle and of their squares."""

    name = "group_variance"

    @property
    def most(self) -> Mapping[str, int]:
        reach, square = self.scale.reach, Squares(self.scale.reach).most
        return {"values": self.values, "distances": self.values * reach, "squares": self.values * square}

    def of_sums(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> Estimated:
        return find_variances(noisy, laws, self.scale, variance_ends(noisy, laws, self.scale.reach))


@dataclass(frozen=True, kw_only=True)
class GroupQuantile(GroupMeasure):
    """A quantile of a column in every group: a noisy choice among the points of its scale.

    Guarantee: epsilon-bounded range per group, so epsilon^2 / 8 zCDP.
    Assumes:   a person has at most `values` values in a group: the query enforces it.
    Error:     that of `QuantileChoice`. It has no interval.
    Source:    McSherry, Talwar (2007); Smith (2011). Proof: proofs/quantiles.md.
    """

    name = "group_quantile"

    scale: Scale
    values: int
    quantile: Fraction

    @property
    def choice(self) -> QuantileChoice:
        """The mechanism behind it."""
        common = {"max_keys": self.groups or 1, "max_values": self.values}
        return QuantileChoice(epsilon=self.epsilon, quantile=self.quantile, grid=Grid(self.scale.points), **common)

    def parameters(self) -> Mapping[str, ContextField]:
        scale = [self.scale.low, self.scale.high, self.scale.step]
        return {"scale": scale, "values": self.values, "quantile": self.quantile}

    def release(self, exact: Sequence[Mapping[int, int]], rng: Rng) -> list[list[int]]:
        """`exact` has how many values lie at each point of a group; the lower bound is number 0."""
        points = self.scale.points
        pairs = sorted(
            (place * points + point, count) for place, group in enumerate(exact) for point, count in group.items()
        )
        codes, counts = np.array(pairs, np.int64).reshape(len(pairs), 2).T
        chosen = self.choice.release(len(exact), np.ascontiguousarray(codes), counts, check_source(rng))
        return [[point] for point in chosen.tolist()]

    def estimate(self, noisy: Sequence[Sequence[int]]) -> Estimated:
        values = self.scale.at(np.array([point for [point] in noisy], np.int64))
        unknown = np.full(len(values), np.nan)
        return Estimated(values, unknown, unknown, unknown)
