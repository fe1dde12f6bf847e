"""From stored cells to shown numbers: sums, then consistency. All of it is post-processing.

A number is the sum of its cells; with the option `calendar`, of their least squares estimates. It is made consistent
with those of its family (`sfumato.mechanisms.consistency`), and then raised to its floor, once, at the end. Every
promise of consistency is such a floor: no number is below zero; an action is not below the one that follows from it; a
total is not below its shown parts; and a cumulative count is not below its value an epoch before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.consistency import Tree, least_squares, least_squares_weights, settle, split_tree
from sfumato.mechanisms.report_noise import CellNoise
from sfumato.query.reports.calendar import Range, Span
from sfumato.query.reports.entities import Family
from sfumato.query.reports.policy import Option, ReportPolicy
from sfumato.query.reports.timetrees import TimeTree
from sfumato.reports.errors import ErrorTerms, as_terms, half_width_of_sum, sum_terms, variance

MAX_COUNT = 2**40
"""Counts are clamped to this, because sums must not overflow int64."""

FALSE_ALARM = 1e-6
"""How often a range and the ranges in it, which saw the same rows, are taken for such that did not."""

_DIGITS = 6  # of an estimate: a half is a half, in whatever order it was added up

Array: TypeAlias = NDArray[np.int64]
Steps: TypeAlias = tuple[Range, ...]
Which: TypeAlias = tuple[str, str | None]  # a statistic, and an attribute or None for its total


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the numbers of one question are computed: from which ranges each step is added up, and under which options.

    `steps` list the places of their ranges among `spans`. Running counts go from end to end instead: each of `ends`
    adds one range to the ranges of an earlier end (-1: to none), and `upto` has the numbers of ends at which a step is
    over. `trees` are ranges that are weighed against one another first, each with the places of its nodes.
    """

    policy: ReportPolicy
    family: Family
    spans: tuple[Span, ...]
    options: tuple[Option, ...]
    steps: tuple[tuple[int, ...], ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    upto: frozenset[int] = frozenset()
    trees: tuple[tuple[tuple[int, ...], Tree], ...] = ()

    def compute(self, cells: Mapping[Which, Array]) -> dict[Which, Array]:
        """Shown numbers: steps x entities of the family x values. `cells` have also those that only set floors.

        Each statistic comes after those that follow from it, and totals come last.
        """
        return self.settle(self.estimate(cells))

    def settle(self, estimates: Mapping[Which, NDArray[np.float64]]) -> dict[Which, Array]:
        """Whole numbers near their estimates and at or above their floors; those of a family add up."""
        if "monotone" in self.options:
            return self._compute_running(estimates)
        shown: dict[Which, Array] = {}
        for which in self._order(estimates):
            floors = self._floors(which, shown, estimates[which].shape)
            shown[which] = self._raise_to(floors, which, estimates[which])
        return shown

    def estimate(self, cells: Mapping[Which, Array]) -> dict[Which, NDArray[np.float64]]:
        """The numbers before their floors, not rounded; of running counts, the sums at all ends."""
        add_up = self._running_sums if "monotone" in self.options else self._sums
        return {which: self._estimate(which, add_up(self._weigh(which, array))) for which, array in cells.items()}

    def most_moved(self, estimates: NDArray[np.float64], shown: Array, entity: int) -> int:
        """How far a number of an entity is at most from its estimate, or from 0 if that is below it; 0 if less than 1.

        Only siblings move it so far: those that are raised to 0 take the sum of the family from the others. The true
        number is within this of the shown one whenever the noise is within its own interval, on top of that.
        """
        moved: NDArray[np.float64] = np.abs(shown[:, entity] - np.maximum(estimates[:, entity], 0))
        return math.floor(float(moved.max(initial=0)))

    def saw_other_rows(self, cells: Mapping[Which, Array]) -> bool:
        """Whether some ranges are further from the ranges in them than noise explains: rows came or went between."""
        return any(
            self._apart(which, places, tree, array).any()
            for which, array in cells.items()
            for places, tree in self.trees
            if not self._exact(which)
        )

    def noise(self, statistic: str, entities: int) -> Iterator[ErrorTerms]:
        """The noise of the steps, each a sum over so many entities; of steps with the same variance, that of one."""
        laws, variances = self._laws(statistic), self._cell_variances(statistic)
        places = {level: [at for at, span in enumerate(self.spans) if span.level == level] for level in laws}
        known = set()
        for some in _chunks(self.steps):
            weights = np.zeros((len(self.spans), len(some)))
            for step, those in enumerate(some):
                weights[list(those), step] = 1
            for nodes, tree in ((list(nodes), tree) for nodes, tree in self.trees):
                if weights[nodes].any():
                    weights[nodes] = least_squares_weights(tree, weights[nodes], variances[nodes])
            for step, spread in enumerate((weights**2 * variances[:, None]).sum(axis=0).tolist()):
                if (rough := f"{spread:.9g}") not in known:
                    known.add(rough)
                    yield as_terms(((law, weights[places[level], step]) for level, law in laws.items()), entities)

    def sum_noise(self, statistic: str, cells: Mapping[str, int], entities: int) -> ErrorTerms:
        """The noise of a plain sum, over so many entities, of as many cells as there are by level of time."""
        laws = self._laws(statistic)
        return sum_terms(((laws[level], n) for level, n in cells.items()), entities)

    def _laws(self, statistic: str) -> dict[str, CellNoise]:
        """A cell's noise, by level of time."""
        return {level: self.policy.law(statistic, level) for level in self.policy.calendar.levels}

    def _cell_variances(self, statistic: str) -> NDArray[np.float64]:
        """The variance of a cell's noise, by range."""
        by_level = {level: variance(law) for level, law in self._laws(statistic).items()}
        return np.array([by_level[span.level] for span in self.spans])

    def _weigh(self, which: Which, cells: Array) -> NDArray[Any]:
        """Each cell's estimate by least squares over its tree of ranges. Not clamped: estimates are added up later."""
        if not self.trees or self._exact(which):
            return cells
        estimates, variances = cells.astype(np.float64), self._cell_variances(which[0])
        for places, tree in self.trees:
            flat, own = _by_node(cells, places).astype(np.float64), variances[list(places)]
            alike: dict[bytes, list[int]] = {}  # columns, by which of their nodes stand apart
            apart = self._apart(which, places, tree, cells)
            for column in range(flat.shape[1]):
                alike.setdefault(apart[:, column].tobytes(), []).append(column)
            for columns in alike.values():
                for nodes, part in split_tree(tree, apart[:, columns[0]]):
                    block = np.ix_(nodes, np.array(columns))
                    flat[block] = least_squares(part, flat[block], own[nodes])
            estimates[:, places] = flat.reshape(len(places), len(cells), -1).swapaxes(0, 1)
        return estimates

    def _apart(self, which: Which, places: Sequence[int], tree: Tree, cells: Array) -> NDArray[np.bool_]:
        """Nodes x columns: whether a range and the ranges in it saw other rows. Late or deleted rows do that.

        Decided by noisy numbers alone: by chance they differ so much with probability `FALSE_ALARM` at most.
        """
        flat = _by_node(cells, places)
        apart = np.zeros(flat.shape, bool)
        for parent, children in tree.families():
            levels = Counter(self.spans[places[node]].level for node in (parent, *children))
            most = half_width_of_sum(self.sum_noise(which[0], levels, 1), 1 - FALSE_ALARM)
            apart[parent] = np.abs(flat[parent] - flat[children].sum(axis=0)) > most
        return apart

    def _sums(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Steps x measured entities x values."""
        return np.array([cells[:, list(places)].sum(axis=1) for places in self.steps])

    def _running_sums(self, cells: NDArray[Any]) -> Array:
        sums = np.zeros((len(self.ends), cells.shape[0], cells.shape[2]), np.int64)
        for at, (before, place) in enumerate(self.ends):
            sums[at] = cells[:, place] + (sums[before] if before >= 0 else 0)
        return sums

    def _estimate(self, which: Which, sums: NDArray[Any]) -> NDArray[np.float64]:
        """Each number before its floor: the sum of its cells, made consistent with its family by least squares."""
        estimate = np.zeros((len(sums), len(self.family.paths), sums.shape[-1]))
        estimate[:, np.flatnonzero(self.family.measured)] = np.clip(sums.round(_DIGITS), -MAX_COUNT, MAX_COUNT)
        if len(self.family.paths) > 1 and not self._exact(which):
            for at, spread in enumerate(self._variances(which)):
                own = np.array([spread if measured else math.inf for measured in self.family.measured])
                estimate[at] = least_squares(self.family.tree, estimate[at], own)
        return estimate

    def _exact(self, which: Which) -> bool:
        return which[1] is None and self.policy.exact_totals

    def _variances(self, which: Which) -> list[float]:
        """The variance of the sum behind each step, or behind each end."""
        each = self._cell_variances(which[0]).tolist()
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
        return settle(self.family.tree, *flat).reshape(nodes, steps, values).swapaxes(0, 1)

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


def step_numbers(
    policy: ReportPolicy, family: Family, options: tuple[Option, ...], steps: Steps, trees: Sequence[TimeTree]
) -> Numbers:
    """Each step is the sum of the ranges of its partition, which are weighed against all ranges of their trees."""
    partitions = [policy.calendar.partition(*step) for step in steps]
    spans = (*(span for each in partitions for span in each), *(span for tree in trees for span in tree.spans))
    place = {span: at for at, span in enumerate(dict.fromkeys(spans))}
    return Numbers(
        policy,
        family,
        tuple(place),
        options,
        steps=tuple(tuple(place[span] for span in each) for each in partitions),
        trees=tuple((tuple(place[span] for span in each.spans), each.tree) for each in trees if len(each.tree) > 1),
    )


def _chunks(steps: Sequence[tuple[int, ...]]) -> Iterator[Sequence[tuple[int, ...]]]:
    """A few steps at a time, to bound the table of their weights."""
    return (steps[first : first + 256] for first in range(0, len(steps), 256))


def _by_node(cells: Array, places: Sequence[int]) -> Array:
    """Ranges x (entities x values)."""
    return cells[:, list(places)].swapaxes(0, 1).reshape(len(places), -1)
