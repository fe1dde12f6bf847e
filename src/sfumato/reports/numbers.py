"""From stored cells to shown numbers: sums, then consistency. All of it is post-processing.

A number is the sum of its cells. It is made consistent with those of its family (`sfumato.mechanisms.consistency`), and
then raised to its floor, once, at the end. Every promise of consistency is such a floor: no number is below zero; an
action is not below the one that follows from it; a total is not below its shown parts; and a cumulative count is not
below its value an epoch before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.consistency import least_squares, settled
from sfumato.mechanisms.noise import DiscreteLaplace
from sfumato.query.reports.calendar import Span
from sfumato.query.reports.entities import Family
from sfumato.query.reports.policy import Option, ReportPolicy

MAX_COUNT = 2**40
"""Counts are clamped to this, so that sums cannot overflow int64."""

Array: TypeAlias = NDArray[np.int64]
Which: TypeAlias = tuple[str, str | None]  # a statistic, and an attribute or None for its total


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the numbers of one question are computed: from which ranges each step is added up, and under which options.

    `steps` list the places of their ranges among `spans`. Running counts go from end to end instead: each of `ends`
    adds one range to the ranges of an earlier end (-1: to none), and `upto` has the numbers of ends at which a step is
    over.
    """

    policy: ReportPolicy
    family: Family
    spans: tuple[Span, ...]
    options: tuple[Option, ...]
    steps: tuple[tuple[int, ...], ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    upto: frozenset[int] = frozenset()

    def compute(self, cells: Mapping[Which, Array]) -> dict[Which, Array]:
        """Shown numbers: steps x entities of the family x values. `cells` have also those that only set floors.

        Each statistic comes after those that follow from it, and totals come last.
        """
        running = "monotone" in self.options
        sums = {which: self._running_sums(array) if running else self._sums(array) for which, array in cells.items()}
        estimates = {which: self._estimate(which, array) for which, array in sums.items()}
        if running:
            return self._compute_running(estimates)
        shown: dict[Which, Array] = {}
        for which in self._order(cells):
            floors = self._floors(which, shown, estimates[which].shape)
            shown[which] = self._raise_to(floors, which, estimates[which])
        return shown

    def _sums(self, cells: Array) -> Array:
        """Steps x measured entities x values."""
        return np.array([cells[:, list(places)].sum(axis=1) for places in self.steps])

    def _running_sums(self, cells: Array) -> Array:
        sums = np.zeros((len(self.ends), cells.shape[0], cells.shape[2]), np.int64)
        for at, (before, place) in enumerate(self.ends):
            sums[at] = cells[:, place] + (sums[before] if before >= 0 else 0)
        return sums

    def _estimate(self, which: Which, sums: Array) -> NDArray[np.float64]:
        """Each number before its floor: the sum of its cells, made consistent with its family by least squares."""
        estimate = np.zeros((len(sums), len(self.family.paths), sums.shape[-1]))
        estimate[:, np.flatnonzero(self.family.measured)] = np.clip(sums, -MAX_COUNT, MAX_COUNT)
        if len(self.family.paths) > 1 and not self._exact(which):
            for at, variance in enumerate(self._variances(which)):
                own = np.array([variance if measured else math.inf for measured in self.family.measured])
                estimate[at] = least_squares(self.family.tree, estimate[at], own)
        return estimate

    def _exact(self, which: Which) -> bool:
        return which[1] is None and self.policy.exact_totals

    def _variances(self, which: Which) -> list[float]:
        """The variance of the sum behind each step, or behind each end."""
        each = [DiscreteLaplace(1 / self.policy.epsilon(which[0], span.level)).deviation ** 2 for span in self.spans]
        if "monotone" not in self.options:
            return [sum(each[place] for place in places) for places in self.steps]
        variances: list[float] = []
        for before, place in self.ends:
            variances.append(each[place] + (variances[before] if before >= 0 else 0))
        return variances

    def _order(self, cells: Iterable[Which]) -> list[Which]:
        names = self.policy.with_dependents(name for name, _ in cells)
        return sorted(cells, key=lambda which: (which[1] is None, names.index(which[0])))

    def _floors(self, which: Which, shown: Mapping[Which, Array], shape: tuple[int, ...]) -> Array:
        """The least that a number may be, given the numbers before it in the order."""
        name, attribute = which
        floors = np.zeros(shape, np.int64)
        if "actions" in self.options:
            for (other, over), numbers in shown.items():
                if over == attribute and self.policy.statistics[other].of == name:
                    np.maximum(floors, numbers, out=floors)
        if "totals" in self.options and attribute is None:
            for (other, over), numbers in shown.items():
                if other == name and over is not None:
                    np.maximum(floors, self._visible(numbers).sum(axis=-1, keepdims=True), out=floors)
        return floors

    def _visible(self, numbers: Array) -> Array:
        """Numbers that are shown; 0 for the others. Of running counts all, because each may be shown later."""
        least = 0 if "monotone" in self.options else self.policy.min_count
        return np.where(numbers >= least, numbers, 0)

    def _raise_to(self, floors: Array, which: Which, estimates: NDArray[np.float64]) -> Array:
        """Whole numbers at or above their floors. Each step and value by itself, entities together."""
        steps, nodes, values = estimates.shape
        if self._exact(which):
            return self._add_up(estimates)
        floors = np.minimum(floors, MAX_COUNT)
        flat = estimates.swapaxes(0, 1).reshape(nodes, -1), floors.swapaxes(0, 1).reshape(nodes, -1)
        return settled(self.family.tree, *flat).reshape(nodes, steps, values).swapaxes(0, 1)

    def _add_up(self, exact: NDArray[np.float64]) -> Array:
        """Exact numbers as they are. An entity without cells of its own has the sum of its children."""
        numbers = exact.astype(np.int64)
        for node in reversed(range(1, len(self.family.paths))):
            above = self.family.tree.parents[node]
            if not self.family.measured[above]:
                numbers[:, above] += numbers[:, node]
        return numbers

    def _compute_running(self, estimates: Mapping[Which, NDArray[np.float64]]) -> dict[Which, Array]:
        """What each running count grows by in every step, at least by its floors."""
        order = self._order(estimates)
        if len(self.family.paths) == 1:
            grown = self._running_alone(estimates, order)
        else:
            grown = self._running_together(estimates, order)
        ends = sorted(self.upto)
        return {which: np.add.reduceat(array, [0, *ends[:-1]]) for which, array in grown.items()}

    def _running_alone(
        self, estimates: Mapping[Which, NDArray[np.float64]], order: Sequence[Which]
    ) -> dict[Which, Array]:
        """All ends at once. Where floors add up to d, the count is d plus the largest (sum - d) so far."""
        grown: dict[Which, Array] = {}
        for which in order:
            sums = np.rint(estimates[which]).astype(np.int64)
            floors = np.minimum(self._floors(which, grown, sums.shape), MAX_COUNT).cumsum(axis=0)
            above = sums if self._exact(which) else np.maximum(np.maximum.accumulate(sums - floors), 0) + floors
            grown[which] = np.diff(above, axis=0, prepend=0)
        return grown

    def _running_together(
        self, estimates: Mapping[Which, NDArray[np.float64]], order: Sequence[Which]
    ) -> dict[Which, Array]:
        """End by end: what a count has grown by since the end before."""
        so_far = {which: np.zeros(array.shape[1:], np.int64) for which, array in estimates.items()}
        ends: dict[Which, list[Array]] = {which: [] for which in order}
        for end in range(len(self.ends)):
            grown: dict[Which, Array] = {}
            for which in order:
                growth = (estimates[which][end] - so_far[which])[np.newaxis]
                grown[which] = self._raise_to(self._floors(which, grown, growth.shape), which, growth)
            for which, array in grown.items():
                so_far[which] += array[0]
                ends[which].append(array[0])
        return {which: np.array(arrays) for which, arrays in ends.items()}


def error95(policy: ReportPolicy, statistic: str, spans: Sequence[Span], entities: int) -> int:
    """The half-width that holds with 95 % for the sum of these ranges' cells, over so many `entities`."""
    scales: dict[Fraction, int] = {}
    for span in spans:
        scale = 1 / policy.epsilon(statistic, span.level)
        scales[scale] = scales.get(scale, 0) + entities
    return half_width_of_sum(tuple(sorted(scales.items())))


@lru_cache(4096)
def half_width_of_sum(scales: tuple[tuple[Fraction, int], ...], confidence: float = 0.95) -> int:
    """The smallest w that a sum of independent discrete Laplace draws, n of each scale, exceeds with 1 - confidence.

    By the inverse Fourier transform of its characteristic function; by Chebyshev's bound where that would be too long.
    """
    if not scales:
        return 0
    if len(scales) == 1 and scales[0][1] == 1:
        return DiscreteLaplace(scales[0][0]).half_width(confidence)
    deviation = math.sqrt(sum(n * DiscreteLaplace(scale).deviation ** 2 for scale, n in scales))
    reach = 12 * deviation + 40 * float(max(scale for scale, _ in scales))
    if reach > 2**20:
        return math.ceil(deviation / math.sqrt(1 - confidence))
    size = 2 ** math.ceil(math.log2(2 * reach + 2))
    wave = np.cos(2 * np.pi * np.arange(size // 2 + 1) / size)
    transform = np.ones_like(wave)
    for scale, n in scales:
        a = math.exp(-1 / float(scale))
        transform *= ((1 - a) ** 2 / (1 - 2 * a * wave + a**2)) ** n
    masses = np.fft.irfft(transform, size)
    inside = masses[0] + 2 * np.cumsum(np.concatenate([[0.0], masses[1 : size // 2]]))
    return int(np.argmax(inside >= confidence))
