"""What a noisy count and the pass that found its key tell together about the true count.

In pass j of Private Count Release a key of c people beats the bottom element with probability
sigmoid(epsilon_j (c - c0 - T_j)), c0 being the first count out of sight, with fresh noise in each pass. So "it survived
the passes before, and stood out in this one" is a second measurement of c, about as sharp as the noisy count. This
module multiplies the two likelihoods and reads the mean and a 95 % interval off the product.

Everything here is a function of what was released: free, and without a say in what is released. c0 was not released,
and is estimated from the released rows. Floating point is good enough: no noise is drawn. Model: proofs/pcr.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.mechanisms.intervals import TAIL, Floats
from sfumato.mechanisms.noise import Integers

ZIPF = 2
"""Before anything is known, a count c has the weight c^-ZIPF. That is Zipf's law."""

LOOKING_BACK = 8
"""Surviving a pass tells something if its epsilon was at least half of this one's: there are so many of these."""

REACH = 12.0
"""Further than REACH / epsilon from a threshold the chance to beat it is 0 or 1."""

WIDTH = 6.0
"""So many deviations around a noisy count are looked at."""

POINTS, NODES, CANDIDATES = 128, 65, 65
"""Points of the tables over counts, nodes of each key's posterior, and values of c0 that are compared."""

SHIFTS = np.arange(0, 6.25, 0.5)
"""How far, in 1 / epsilon, the threshold of a pass that the budget cut may be above that of the bottom element."""

_LOGISTIC, _GUMBEL = math.pi**2 / 3, math.pi**2 / 6
"""Variances: of the difference of two Gumbel draws, and of one."""

_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Estimates:
    """Counts with their 95 % intervals and the deviations of their posteriors, to four digits."""

    counts: Integers
    low: Integers
    high: Integers
    deviations: Floats


@dataclass(frozen=True)
class Passes:
    """What a walk has shown: its passes, whether the budget `cut` the last one, and the rows with their noisy counts.

    `level` is the pass that found a row; `deviations` are those of the noise on counts, by pass.
    """

    epsilons: Floats
    gaps: Floats
    deviations: Floats
    cut: bool
    level: Integers
    noisy: Floats

    def pool(self, noisy: Floats, deviations: Floats) -> Estimates:
        """The counts of the rows, from `noisy` counts with these deviations and from the passes.

        They are those of the walk, or better ones of the same keys.
        """
        found = np.empty((4, len(noisy)))
        for number in np.unique(self.level):
            rows = np.flatnonzero(self.level == number)
            found[:, rows] = self._posterior(int(number), noisy[rows], deviations[rows])
        mean, low, high, spread = found
        rounded = np.array([float(f"{deviation:.4g}") for deviation in spread])
        floor = np.maximum(np.floor(low), 1)
        ceiling = np.maximum(np.ceil(high), floor)
        counts = np.clip(np.rint(mean), floor, ceiling)
        return Estimates(counts.astype(np.int64), floor.astype(np.int64), ceiling.astype(np.int64), rounded)

    @cached_property
    def outside(self) -> tuple[float, float]:
        """c0 by maximum likelihood, and the variance of that estimate; infinite where no row tells anything.

        A pass speaks by the density of its noisy counts, given that it found them: how many keys there are to be found
        is not known. The rows of a pass share the noise of its bottom element.
        """
        numbers = [number for number in np.unique(self.level).tolist() if number and not self._is_cut(number)]
        numbers = [number for number in numbers if 4 * self.epsilons[number] >= self.epsilons[numbers[-1]]]
        if not numbers:
            return 0.0, math.inf
        tables, precision = [], 0.0
        for number in numbers:
            noisy, deviation = self.noisy[self.level == number], self.deviations[number]
            places, log_chances = self._chances(number, np.ones(len(self.epsilons)))
            chances = np.exp(log_chances) / np.exp(log_chances).sum()
            grid = np.linspace(places[0] - WIDTH * deviation, places[-1] + WIDTH * deviation, POINTS)
            blur = max(deviation, grid[1] - grid[0])  # a finer density would fall between the points
            density = np.exp(-(((grid[:, np.newaxis] - places) / blur) ** 2) / 2) @ chances
            tables.append((noisy[:, np.newaxis], grid, np.log(density + _TINY)))
            spread = chances @ (places - chances @ places) ** 2 + deviation**2
            shared = _GUMBEL / self.epsilons[number] ** 2
            precision += 1 / (shared + max(spread - shared, 0) / len(noisy))
        above = (self.noisy - self.gaps[self.level])[np.isin(self.level, numbers)]
        candidates = np.linspace(0, max(float(np.median(above)), 0) + REACH / self.epsilons[numbers[-1]], CANDIDATES)
        for _ in range(3):
            fits = sum(np.interp(noisy - candidates, grid, density).sum(0) for noisy, grid, density in tables)
            best = int(np.argmax(fits))
            low, high = candidates[max(best - 1, 0)], candidates[min(best + 1, CANDIDATES - 1)]
            candidates = np.linspace(low, high, CANDIDATES)
        return float(candidates[CANDIDATES // 2]), 1 / precision

    def _is_cut(self, number: int) -> bool:
        return self.cut and number == len(self.epsilons) - 1

    @cached_property
    def _scales(self) -> Floats:
        """By how much the uncertainty about c0 blurs the threshold of each pass."""
        _, variance = self.outside
        return np.minimum(np.sqrt(1 + self.epsilons**2 * variance / _LOGISTIC), 1e9)

    def _chances(self, number: int, scales: Floats) -> tuple[Floats, Floats]:
        """Places above c0, and the logarithm of the chance to be found in this pass at each."""
        places, survival = self._survival(number, scales)
        return places, survival - _softplus(-self.epsilons[number] / scales[number] * (places - self.gaps[number]))

    def _survival(self, number: int, scales: Floats) -> tuple[Floats, Floats]:
        """Places above c0, and the logarithm of the chance to survive the passes before this one at each."""
        last = max(number - 1, 0)
        rates = self.epsilons / scales
        places = np.linspace(self.gaps[number] - REACH / rates[number], self.gaps[last] + REACH / rates[last], POINTS)
        before = slice(max(number - LOOKING_BACK, 0), number)
        missing = rates[before, np.newaxis] * (places - self.gaps[before, np.newaxis])
        return places, -_softplus(missing).sum(0)

    def _cut_chances(self, number: int, noisy: Floats, deviations: Floats) -> tuple[Floats, Floats]:
        """The same for a pass that the budget cut: there the threshold is what the next runner had.

        It is above that of the bottom element by an unknown shift, of which the noisy counts tell something.
        """
        places, survival = self._survival(number, self._scales)
        rate = self.epsilons[number] / self._scales[number]
        beaten = _softplus(SHIFTS - rate * (places[:, np.newaxis] - self.gaps[number]))
        chances = np.exp(survival[:, np.newaxis] - beaten) + _TINY
        chances /= chances.sum(0)
        noise = np.exp(-(((noisy[:, np.newaxis] - places) / deviations[:, np.newaxis]) ** 2) / 2)
        fits = np.log(noise @ chances + _TINY).sum(0)
        weights = np.exp(fits - fits.max())
        return places, np.log(chances @ (weights / weights.sum()))

    def _posterior(self, number: int, noisy: Floats, deviations: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Mean, both ends of the interval, and deviation of each row that this pass found."""
        outside, _ = self.outside
        above = noisy - outside
        if number and self._is_cut(number):
            places, chances = self._cut_chances(number, above, deviations)
        else:
            places, chances = self._chances(number, self._scales)
        # In the first pass a count may be anywhere above the threshold.
        window = places[0], places[-1] if number else math.inf
        centre = np.clip(above, *window)
        low = np.maximum(centre - WIDTH * deviations, window[0])[:, np.newaxis]
        high = np.minimum(centre + WIDTH * deviations, window[1])[:, np.newaxis]
        steps = np.linspace(0, 1, NODES)
        nodes = low + (high - low) * steps
        fits = np.interp(nodes, places, chances) - ((nodes - above[:, np.newaxis]) / deviations[:, np.newaxis]) ** 2 / 2
        fits -= ZIPF * np.log(np.maximum(outside + nodes, 1))
        weights = np.exp(fits - fits.max(1, keepdims=True))
        weights[:, [0, -1]] /= 2
        weights /= weights.sum(1, keepdims=True)
        mean = (weights * nodes).sum(1)
        deviation = np.sqrt((weights * (nodes - mean[:, np.newaxis]) ** 2).sum(1))
        cumulated = np.cumsum(weights, 1) - weights / 2
        ends = (_quantiles(cumulated, nodes, tail) for tail in (TAIL, 1 - TAIL))
        return outside + mean, *(outside + end for end in ends), deviation


def _softplus(x: Floats) -> Floats:
    """ln(1 + exp(x)): minus the logarithm of sigmoid(-x)."""
    return np.logaddexp(np.float64(0), x)


def _quantiles(cumulated: Floats, nodes: Floats, share: float) -> Floats:
    """Where each row of cumulated weights reaches `share`."""
    rows = np.arange(len(nodes))
    after = np.clip((cumulated < share).sum(1), 1, nodes.shape[1] - 1)
    before = after - 1
    step = cumulated[rows, after] - cumulated[rows, before]
    part = np.clip((share - cumulated[rows, before]) / np.maximum(step, _TINY), 0, 1)
    return np.asarray(nodes[rows, before] + part * (nodes[rows, after] - nodes[rows, before]))
