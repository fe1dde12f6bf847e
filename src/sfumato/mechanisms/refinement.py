"""A count that can be made more accurate later, for what the gain costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.charges import Charge
from sfumato.accounting.numbers import Number, positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import exact_counts
from sfumato.mechanisms.noise import DiscreteGaussian, blamed_on
from sfumato.mechanisms.random import Rng, check_source


@dataclass(frozen=True, slots=True)
class RefinedCount:
    """A noisy count and how much it knows: `precision` is one over its variance.

    `a & b` averages two independent estimates of one count by inverse variance. Precisions add, and so do the
    charges: refining costs exactly what asking for the accuracy at once would have cost.
    A value is slightly biased if refining it stops because of what it looks like.
    """

    value: Fraction
    precision: Fraction
    charge: Charge

    def __and__(self, other: RefinedCount) -> RefinedCount:
        precision = self.precision + other.precision
        value = (self.value * self.precision + other.value * other.precision) / precision
        return RefinedCount(value, precision, self.charge + other.charge)

    @property
    def deviation(self) -> float:
        return 1 / math.sqrt(self.precision)

    @property
    def error95(self) -> int:
        """The half-width that holds with 95 %, rounded up."""
        return math.ceil(1.959964 * self.deviation)


def measure_count(
    count: int, *, epsilon: Number, units: Number = 1, tau: int = 1, refinement: int = 0, rng: Rng
) -> RefinedCount:
    """A count with discrete Gaussian noise of variance 4 tau^2 / (units epsilon^2), for `units` units.

    Guarantee: units * epsilon^2 / 8 zCDP. Reserve each measurement before it is drawn.
    Assumes:   one person moves the count by at most tau. A keyed source belongs to one count: two counts measured
               from one source share their noise, and show their exact difference. Measurements of the same count
               have different `refinement` (0, 1, 2, ...).
    Source:    Whitehouse et al. (2022) for the trade-off; proofs/refinement.md.
    """
    step, share = positive("epsilon", epsilon), positive("units", units)
    exact = int(exact_counts("count", [count])[0])
    tau = whole("tau", tau, at_least=1)
    variance = 4 * tau**2 / (share * step**2)
    stream = check_source(rng).stream(
        mechanism="measure_count",
        version=1,
        epsilon=step,
        units=share,
        tau=tau,
        refinement=whole("refinement", refinement),
    )
    with blamed_on("units"):
        law = DiscreteGaussian(variance)
    noisy = exact + int(law.sample(stream, 1)[0])
    return RefinedCount(Fraction(noisy), 1 / variance, Charge(share))


def refine(*estimates: RefinedCount) -> RefinedCount:
    """The best linear estimate from independent measurements of one count."""
    if not estimates or not all(isinstance(estimate, RefinedCount) for estimate in estimates):
        raise InvalidArgument("estimates", "must be one or more measurements of a count")
    total, *others = estimates
    for estimate in others:
        total &= estimate
    return total
