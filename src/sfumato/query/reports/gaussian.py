"""Gaussian noise for the cells of a report: from what is promised to the deviation of a cell.

Pure, and frozen: a deviation is part of what a stored cell is, so the same promise has the same deviations in every
version. They are rounded up to four digits, far above what two machines compute differently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting import GaussianLoss, GaussianStep, zcdp_epsilon, zcdp_rho
from sfumato.accounting.gaussian import largest_rho
from sfumato.query.reports.shares import best_shares

DIGITS = 4
MAX_EXACT_LEVELS = 2
"""With more levels of time the exact law of the loss takes long to compute, and a bound stands in for it."""


@dataclass(frozen=True, slots=True)
class GaussianCells:
    """The deviations of a report's cells by level of time, and the promise that they were made for.

    `epsilon` and `delta` are promised to one event, over all its cells in one version.
    """

    epsilon: Fraction
    delta: Fraction
    deviations: Mapping[str, Fraction]

    @classmethod
    def of_promise(cls, levels: Sequence[str], cells: int, epsilon: Fraction, delta: Fraction) -> GaussianCells:
        """The smallest noise that keeps the promise, where an event is in so many cells of each level.

        Each level has its share of rho, that with the least error of the usual ranges. The second way is for noise so
        small that more of it need not be safer by the exact law; in zCDP it always is.
        """

        def divide(rho: Fraction) -> GaussianCells:
            shares = best_shares(tuple(levels), exponent=1)
            variances = (cells / (2 * rho * share) for share in shares)
            return cls(epsilon, delta, dict(zip(levels, map(_deviation, variances), strict=True)))

        noise = divide(largest_rho(lambda rho: divide(rho).loss(cells), epsilon, delta))
        return noise if noise.loss(cells).delta(epsilon) <= delta else divide(Fraction(zcdp_rho(epsilon, delta)))

    def variance(self, level: str) -> Fraction:
        return self.deviations[level] ** 2

    def loss(self, cells: int, events: int = 1) -> GaussianLoss:
        """What so many cells of each level tell about one event; or about one person with several, in any of them."""
        exact = len(self.deviations) <= MAX_EXACT_LEVELS
        steps = (GaussianStep(self.variance(level), Fraction(cells), cells, exact) for level in self.deviations)
        return GaussianLoss(tuple(steps)).of_group(events)

    def epsilon_of(self, loss: GaussianLoss) -> Fraction:
        """The epsilon of a loss at this delta: the one that was promised where it holds, else rounded up."""
        if loss.delta(self.epsilon) <= self.delta:
            return self.epsilon
        epsilon = min(loss.epsilon(self.delta), zcdp_epsilon(loss.rho, self.delta))
        return Fraction(math.ceil(Fraction(epsilon) * 10**DIGITS), 10**DIGITS)


def _deviation(variance: Fraction) -> Fraction:
    """The smallest number of four digits whose square is at least this."""
    step = Fraction(10) ** (math.floor(math.log10(variance) / 2) + 1 - DIGITS)
    return step * (math.isqrt(math.ceil(variance / step**2) - 1) + 1)
