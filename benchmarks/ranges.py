"""Reports: the error of ranges of time by levels, weighing and shares. Exact variances; no noise is drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import table
from sfumato.mechanisms.consistency import Tree, least_squares_weights
from sfumato.mechanisms.noise import DiscreteLaplace
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.query.reports.policy import ReportPolicy, ReportStatistic
from sfumato.query.reports.shares import split_epsilon
from sfumato.query.reports.timetrees import time_trees
from sfumato.reports.accuracy import usual_errors

Reals = NDArray[np.float64]

FIRST, LAST, DAYS = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), 365
DELTA = Fraction(1, 10**6)
CELLS, EACH = (1, 4, 9, 14, 22, 40, 80), (Fraction(1, 10), Fraction(1, 2), Fraction(1))
FOUR, TWO = ("day", "month", "quarter", "year"), ("day", "month")


def report() -> str:
    """The root mean square error over all ranges of a year, and the error of the usual ranges."""
    one = Fraction(1)
    four, two, best = _equal(FOUR), _equal(TWO), split_epsilon(TWO, one)
    over_all = [
        ("day, month, quarter, year: equal shares", fewest_cells(four), root_mean_square(calendar_days(four))),
        ("binary tree of ten levels", math.nan, root_mean_square(binary_days())),
        ("day, month: equal shares", fewest_cells(two), root_mean_square(calendar_days(two))),
        (
            f"day, month: {' and '.join(map(str, best.values()))}",
            fewest_cells(best),
            root_mean_square(calendar_days(best)),
        ),
    ]
    lines = [(name, "" if math.isnan(sums) else f"{sums:.1f}", f"{least:.1f}") for name, sums, least in over_all]
    return (
        "## Reports: ranges of time at a total epsilon of 1\n\n"
        "Root mean square error over all ranges of the days of 2025, from exact variances: sums of the fewest cells, "
        "and least squares over all cells of the year (the option `calendar`).\n\n"
        + table(["levels", "fewest cells", "least squares"], lines)
        + "\n95 % error of the usual ranges on a typical day: fewest cells · with `calendar` on the day that the range "
        "ends · later, when all longer ranges around it are complete.\n\n" + _usual(four, two, best)
    )


def gaussian() -> str:
    """The error of Gaussian cells beside Laplace ones at the same epsilon, by how many cells an event is in."""
    lines = [(str(cells), *(_change(cells, each) for each in EACH)) for cells in CELLS]
    least = (f"{_least_cells(each)} cells at {float(each):g}" for each in EACH)
    return (
        "## Reports: Gaussian noise beside Laplace noise\n\n"
        'By how many cells one event is counted in: the deviation of a cell with `noise = "gaussian"` beside that '
        f"with Laplace noise, at the same epsilon for the event, delta {float(DELTA):g}. All cells have the same "
        "noise, so ranges change in the same proportion. From exact laws; no noise is drawn. "
        f"Gaussian noise has less error from so many cells on: {', '.join(least)} of epsilon per cell.\n\n"
        + table(["cells of an event", *(f"epsilon {float(each):g} per cell" for each in EACH)], lines)
        + "\n`report explain` says for each report which noise would have less error, and by how much.\n"
    )


def _change(cells: int, each: Fraction) -> str:
    percent = round(100 * (_ratio(cells, each) - 1))
    return f"{abs(percent)} % {'less' if percent < 0 else 'more'}" if percent else "the same"


def _ratio(cells: int, each: Fraction) -> float:
    found = GaussianCells.of_promise(("day",), cells, cells * each, DELTA)
    return float(found.deviations["day"]) / math.sqrt(variance(each))


def _least_cells(each: Fraction) -> int:
    return next(cells for cells in itertools.count(1) if _ratio(cells, each) < 1)


def _usual(*splits: Mapping[str, Fraction]) -> str:
    columns = {
        f"{', '.join(split)}: {', '.join(map(str, split.values()))}": {
            each.range: f"{each.sums[0]} · {each.calendar[0]} · {each.final[0]}"
            for each in usual_errors(_policy(split))
        }
        for split in splits
    }
    names = [*next(iter(columns.values()))]
    return table(["range", *columns], [(name, *(column[name] for column in columns.values())) for name in names])


def _policy(epsilon: Mapping[str, Fraction]) -> ReportPolicy:
    return ReportPolicy("ads", "ads", "at", Calendar(tuple(epsilon), "UTC"), {"n": ReportStatistic("n", epsilon)})


def _equal(levels: Sequence[str]) -> dict[str, Fraction]:
    return dict.fromkeys(levels, Fraction(1, len(levels)))


def variance(epsilon: Fraction) -> float:
    return DiscreteLaplace(1 / epsilon).deviation ** 2


def root_mean_square(covariance: Reals) -> float:
    """Of the errors of all ranges of days, given the covariance of the days' errors."""
    sums = np.zeros((DAYS + 1, DAYS + 1))
    sums[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    own = np.diag(sums)
    return math.sqrt((own[None] + own[:, None] - 2 * sums)[np.triu_indices(DAYS + 1, 1)].mean())


def calendar_days(epsilon: Mapping[str, Fraction]) -> Reals:
    """The covariance of the days' errors, by least squares over a complete year."""
    covariance = np.zeros((DAYS, DAYS))
    for tree in time_trees(Calendar(tuple(epsilon), "UTC"), FIRST, LAST, LAST):
        leaves = [node for node, span in enumerate(tree.spans) if span.level == "day"]
        places = [(tree.spans[node].start - FIRST).days for node in leaves]
        variances = [variance(epsilon[span.level]) for span in tree.spans]
        covariance[np.ix_(places, places)] = _leaves(tree.tree, leaves, variances)
    return covariance


def binary_days() -> Reals:
    """The same for a binary tree, of which the lowest level has a leaf for each day and the highest one root."""
    nodes = [(start, width) for width in (2**k for k in range(9, -1, -1)) for start in range(0, DAYS, width)]
    place = {node: at for at, node in enumerate(nodes)}
    parents = (-1, *(place[start - start % (2 * width), 2 * width] for start, width in nodes[1:]))
    leaves = [at for at, (_, width) in enumerate(nodes) if width == 1]
    return _leaves(Tree(parents), leaves, [variance(Fraction(1, 10))] * len(nodes))


def _leaves(tree: Tree, leaves: Sequence[int], variances: Sequence[float]) -> Reals:
    weights = least_squares_weights(tree, np.eye(len(tree))[:, list(leaves)], variances)
    found: Reals = weights.T @ (weights * np.array(variances)[:, None])
    return found


def fewest_cells(epsilon: Mapping[str, Fraction]) -> float:
    """The root mean square error of plain sums over the smallest partitions."""
    calendar, own = Calendar(tuple(epsilon), "UTC"), {level: variance(each) for level, each in epsilon.items()}
    edges = [FIRST + timedelta(days=day) for day in range(DAYS + 1)]
    place = {edge: at for at, edge in enumerate(edges)}
    variances = np.zeros((DAYS + 1, DAYS + 1))  # of the range from one edge to another
    for end in range(1, DAYS + 1):
        for start in range(end):
            last = calendar.last(edges[start], edges[end])
            variances[start, end] = variances[start, place[last.start]] + own[last.level]
    return math.sqrt(variances[np.triu_indices(DAYS + 1, 1)].mean())


if __name__ == "__main__":
    print(report())
