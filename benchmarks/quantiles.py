"""Quantiles: by how many values they miss, chosen one by one or read off a tree, beside the rule of before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks.reproduction import DATA
from benchmarks.timing import table
from sfumato.mechanisms import Rng
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.quantile_tree import QuantileTree, _Nodes
from sfumato.mechanisms.quantiles import Grid, QuantileChoice, ValueCodes
from sfumato.release.statistics.quantile import Quantile

Floats = NDArray[np.float64]

WANTED = {
    1: (Fraction(1, 2),),
    2: (Fraction(1, 4), Fraction(3, 4)),
    3: (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)),
    5: tuple(Fraction(part, 10) for part in (1, 3, 5, 7, 9)),
    9: tuple(Fraction(part, 10) for part in range(1, 10)),
}
RHOS = (Fraction(1, 10), Fraction(1, 100))
DRAWS = 800
"""So many keys at least are drawn for a number of the table."""

FORMER_POINTS = 2**16
STANDS_OUT = 1.5


@dataclass(frozen=True, eq=False)
class Numbers:
    """Values by key, one per person and key, with public bounds, and a step unless values are continuous."""

    name: str
    keys: Integers
    values: Floats
    low: int
    high: int
    step: Fraction | None = None

    @property
    def size(self) -> int:
        return int(self.keys.max()) + 1

    @cached_property
    def rows(self) -> list[Floats]:
        """The values of each key, ascending."""
        order = np.lexsort((self.values, self.keys))
        return np.split(self.values[order], np.cumsum(np.bincount(self.keys))[:-1])

    def statistic(self, wanted: Sequence[Fraction]) -> Quantile:
        return Quantile("x", self.low, self.high, step=self.step, quantiles=wanted)

    @cached_property
    def on_the_grid(self) -> ValueCodes:
        statistic = self.statistic(WANTED[1])
        return self._counts(statistic.grid.points, statistic.scale.places(self.values))

    @cached_property
    def in_parts(self) -> ValueCodes:
        parts = (self.values - self.low) / (self.high - self.low) * FORMER_POINTS
        return self._counts(FORMER_POINTS, np.clip(parts.astype(np.int64), 0, FORMER_POINTS - 1))

    def _counts(self, points: int, places: Integers) -> ValueCodes:
        return ValueCodes(self.size, *np.unique(self.keys * points + places, return_counts=True))

    def misses(self, found: Floats, wanted: Sequence[Fraction]) -> Floats:
        """By how many values each quantile of each key misses. Numbers off the step are rounded to it: that is free."""
        if self.step is not None:
            found = self.low + np.rint((found - self.low) / float(self.step)) * float(self.step)
        missed = []
        for row, numbers in zip(self.rows, found.T, strict=True):
            less, up_to = (np.searchsorted(row, numbers + slack) for slack in (-1e-9, 1e-9))
            ranks = len(row) * np.array(wanted, float)
            missed.append(np.maximum(np.maximum(less - ranks, ranks - up_to), 0))
        return np.array(missed)


Method = Callable[[Numbers, Sequence[Fraction], Share], Floats]
"""Of values, quantiles and a share: a number per quantile and key."""


def chosen(data: Numbers, wanted: Sequence[Fraction], share: Share) -> Floats:
    statistic = data.statistic(wanted)
    points = [choice.release(*data.on_the_grid, Rng.system()) for choice in statistic._choices(share)]
    return statistic.scale.at(np.sort(points, axis=0))


def by_tree(data: Numbers, wanted: Sequence[Fraction], share: Share) -> Floats:
    statistic = data.statistic(wanted)
    return statistic.scale.at(statistic._tree(share).release(*data.on_the_grid, wanted, Rng.system()).values)


class FormerChoice(QuantileChoice):
    """The score of before: without the values at the point itself."""

    def _scores(self, less: Integers, equal: Integers, total: Integers) -> Integers:
        below, parts = self.quantile.numerator, self.quantile.denominator
        return -np.abs((parts - below) * less - below * (total - less - equal))


def former(data: Numbers, wanted: Sequence[Fraction], share: Share) -> Floats:
    """On 65,536 parts of the range: one quantile by a choice, several by a tree of height 4, whatever the step is."""
    common = {"max_keys": share.max_keys, "max_values": 1}
    if len(wanted) == 1:
        choice = FormerChoice.of_rho(share.rho, quantile=wanted[0], grid=Grid(FORMER_POINTS), **common)
        places = choice.release(*data.in_parts, Rng.system())[None, :] + 0.5
    else:
        tree = QuantileTree(rho=share.rho, points=FORMER_POINTS, height=4, **common)
        nodes = _Nodes(tree, data.in_parts, Rng.system())
        walks = np.tile(np.arange(data.size), len(wanted)), np.repeat(np.array(wanted, float), data.size)
        places = np.sort(former_walk(nodes, *walks).reshape(len(wanted), data.size), axis=0)
    return data.low + places / FORMER_POINTS * (data.high - data.low)


def former_walk(nodes: _Nodes, of_key: Integers, shares: Floats) -> Floats:
    """Down to the leaf in which the counts pass a share: negative counts are 0, and so are small ones beside large."""
    places, left, rows = np.zeros(len(of_key), np.int64), shares.copy(), np.arange(len(of_key))
    for level in range(nodes.tree.levels):
        noisy = nodes.children(level, of_key, places)
        held = np.maximum(noisy, 0)
        certain = np.where(noisy < STANDS_OUT * nodes.tree.noise.deviation, 0, held)
        held = np.where(certain.any(axis=1, keepdims=True), certain, held)
        ends = np.cumsum(held, axis=1)
        target = left * ends[:, -1]
        child = ((ends >= (target - 1e-9 * ends[:, -1])[:, None]) & (held > 0)).argmax(axis=1)
        child = np.where(ends[:, -1] > 0, child, nodes.tree.branching // 2)
        inside = np.maximum(held[rows, child], 1)
        left = np.clip((target - ends[rows, child] + held[rows, child]) / inside, 0, 1)
        places = places * nodes.tree.branching + child
    return places + left


# --- Data ---------------------------------------------------------------------------------------------------------

RATINGS = "SELECT item, rating FROM read_parquet(?) QUALIFY count(*) OVER (PARTITION BY item) >= 50"
SALES = """
    SELECT item, cents / 100 FROM (
        SELECT item, user_id, first(sales_value_cents ORDER BY basket_id) AS cents FROM read_parquet(?) GROUP BY ALL
    ) QUALIFY count(*) OVER (PARTITION BY item) >= 200
"""
HOURS = "SELECT occupation, hours_per_week FROM read_parquet(?)"


def read(name: str, file: str, query: str, low: int, high: int, step: Fraction) -> Numbers:
    keys, values = zip(*duckdb.execute(query, [str(DATA / file)]).fetchall(), strict=True)
    _, places = np.unique(keys, return_inverse=True)
    return Numbers(name, places, np.clip(np.array(values, float), low, high), low, high, step)


def real() -> list[Numbers]:
    return [
        read("MovieLens, ratings", "movielens_latest_small.parquet", RATINGS, 0, 5, Fraction(1, 2)),
        read("Complete Journey, sales", "completejourney_transactions.parquet", SALES, 0, 20, Fraction(1, 100)),
        read("Adult, hours", "adult_census.parquet", HOURS, 0, 99, Fraction(1)),
    ]


def synthetic() -> list[Numbers]:
    rng, keys = np.random.default_rng(1), np.repeat(np.arange(200), 300)
    size = len(keys)
    zeros = np.where(rng.random(size) < 0.7, 0, rng.lognormal(3, 1.5, size))
    made = {
        "uniform": (rng.uniform(0, 100, size), 0, 100, None),
        "heavy tails": (rng.lognormal(0, 1.5, size), 0, 1000, None),
        "70 % zeros": (zeros, 0, 1000, None),
        "whole numbers, step 1": (np.rint(rng.normal(-20, 15, size)), -100, 100, Fraction(1)),
    }
    whole = made["whole numbers, step 1"]
    made["the same, step unknown"] = (*whole[:3], None)
    clipped = {name: (np.clip(values, low, high), low, high, step) for name, (values, low, high, step) in made.items()}
    return [Numbers(name, keys, *parts) for name, parts in clipped.items()]


# --- The table ----------------------------------------------------------------------------------------------------


def measure(data: Numbers, wanted: Sequence[Fraction], share: Share, method: Method) -> tuple[float, float]:
    """The mean of the misses, and how many are none."""
    runs = [data.misses(method(data, wanted, share), wanted) for _ in range(-(-DRAWS // data.size))]
    return float(np.mean(runs)), float(np.mean(np.array(runs) == 0))


def line(data: Numbers, wanted: Sequence[Fraction], share: Share) -> list[str]:
    before, choice, tree = (measure(data, wanted, share, method) for method in (former, chosen, by_tree))
    tree_used = data.statistic(wanted).by_tree
    now, both = tree if tree_used else choice, ((choice, not tree_used), (tree, tree_used))
    ratio = f"{before[0] / now[0]:.1f}" if now[0] else ""
    numbers = [f"**{missed:.2f}**" if used else f"{missed:.2f}" for (missed, _), used in both]
    return [f"{before[0]:.2f}", *numbers, ratio, f"{before[1]:.0%}", f"{now[1]:.0%}"]


def report() -> str:
    header = ["values", "rho / L", "quantiles", "before", "chosen", "tree", "before / now", "exact before", "exact now"]
    lines = []
    for data in [*(real() if DATA.exists() else []), *synthetic()]:
        grid = data.statistic(WANTED[1]).grid.points
        label = f"{data.name}: {data.size} keys, {np.median(np.bincount(data.keys)):.0f} values, {grid:,} points"
        for rho in RHOS:
            share = Share(rho, 1)
            lines += [[label, f"{float(rho):g}", str(k), *line(data, wanted, share)] for k, wanted in WANTED.items()]
    return f"## Quantiles\n\n{_introduction()}\n{table(header, lines)}{_summary(lines)}"


def _summary(lines: Sequence[Sequence[str]]) -> str:
    three = [line for line in lines if line[2] == "3" and line[6]]
    less = [f"{line[0].partition(':')[0]} at {line[1]} ({line[6]})" for line in three if float(line[6]) < 2]
    why = "there few values were missed before, or a key has few values for the noise"
    others = f", all but {' and '.join(less)}: {why}" if less else ""
    return (
        f"\nThree quantiles miss by at most half of what they missed by before in {len(three) - len(less)} of "
        f"{len(three)} settings{others}.\n"
    )


def _introduction() -> str:
    skipped = "" if DATA.exists() else " Real data is left out: it is not at `../shared/data`."
    return (
        "By how many values a quantile misses, the mean over keys and quantiles: the quantile is x if at most a share "
        "q of the values lies below x and at most 1 - q above it. `rho / L` is what the quantiles of one key may "
        "spend. **Before**: one quantile by the exponential mechanism, several by a tree of height 4, on 65,536 parts "
        "of the range, with a score that left out the values at the point itself. Now both are on the grid of the "
        "step; without a step, on a fine grid on which round numbers weigh more. In bold what is used: choices, unless "
        "there are more of them than levels in the tree, whose height follows from the grid. *Exact*: the share "
        f"of quantiles that do not miss at all.{skipped}\n"
    )


if __name__ == "__main__":
    print(report())
