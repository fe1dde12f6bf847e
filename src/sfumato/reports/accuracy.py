"""How accurate a report is: the error of the ranges that are usually asked for, and what the other noise would change.

Pure: it follows from the policy, before anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from sfumato.accounting.gaussian import gaussian_delta
from sfumato.mechanisms.consistency import Tree
from sfumato.mechanisms.noise import DiscreteLaplace
from sfumato.mechanisms.report_noise import CellNoise
from sfumato.query.reports.calendar import Range, Span
from sfumato.query.reports.entities import Family
from sfumato.query.reports.policy import ReportGuarantee, ReportPolicy
from sfumato.query.reports.shares import LAST_DAYS
from sfumato.query.reports.timetrees import TimeTree, time_trees
from sfumato.reports.errors import error95, variance
from sfumato.reports.numbers import step_numbers

YEAR = 2025
EVERY = 5  # days: how often each range is looked at in the year
DELTA = Fraction(1, 10**6)  # of the Gaussian noise that is compared with

_ALONE = Family(((),), Tree((-1,)), (True,))


@dataclass(frozen=True, slots=True)
class UsualError:
    """The 95 % error of a range for statistics with one noise: each on a typical day of a year, and at most.

    `sums` adds up the fewest cells. `calendar` is with the option of that name, on the day that the range ends; `final`
    is with it too, when all longer ranges around it are complete.
    """

    range: str
    statistics: tuple[str, ...]
    sums: tuple[int, int]
    calendar: tuple[int, int]
    final: tuple[int, int]

    def to_dict(self) -> dict[str, Any]:
        pairs = {"sums": self.sums, "calendar": self.calendar, "final": self.final}
        error95 = {name: dict(zip(("typical", "largest"), pair, strict=True)) for name, pair in pairs.items()}
        return {"range": self.range, "statistics": [*self.statistics], "error95": error95}


def usual_errors(policy: ReportPolicy) -> list[UsualError]:
    """The errors of the usual ranges, of one entity. A range that is not on the grid of the report is left out."""
    alike: dict[tuple[CellNoise, ...], list[str]] = {}
    for name in policy.statistics:
        alike.setdefault(tuple(policy.law(name, level) for level in policy.calendar.levels), []).append(name)
    ranges, later = usual_ranges(policy), policy.calendar.instant("end", date(YEAR + 2, 1, 1))
    trees = partial(time_trees, policy.calendar)

    def errors(statistic: str, asked: list[Range]) -> Iterator[tuple[int, int]]:
        spread = RangeVariances(policy, statistic)
        yield spread.errors([(each, ()) for each in asked])
        yield spread.errors([(each, trees(*each, each[1])) for each in asked])
        yield spread.errors([(each, trees(*each, later)) for each in asked])

    return [
        UsualError(words, tuple(names), *errors(names[0], asked))
        for names in alike.values()
        for words, asked in ranges.items()
    ]


def usual_ranges(policy: ReportPolicy) -> Mapping[str, list[Range]]:
    """Each usual range, as it is asked for on many days of a year: on the day that it ends."""
    first = date(YEAR, 1, 1)
    days = [first + timedelta(days=n) for n in range(EVERY, 366, EVERY)]
    months = [date(YEAR, month, 1) for month in range(1, 13)]
    by_words = {f"last {last} days": [(end - timedelta(days=last), end) for end in days] for last in LAST_DAYS}
    by_words |= {"last month": list(pairwise(months)), "year to date": [(first, end) for end in days]}
    on_grid = {words: list(_on_grid(policy, ranges)) for words, ranges in by_words.items()}
    return {words: ranges for words, ranges in on_grid.items() if ranges}


def _on_grid(policy: ReportPolicy, ranges: list[tuple[date, date]]) -> Iterator[Range]:
    calendar = policy.calendar
    for start, end in ranges:
        moments: tuple[datetime, datetime] = calendar.instant("start", start), calendar.instant("end", end)
        if all(map(calendar.fits, moments)):
            yield moments


class RangeVariances:
    """Variances of the ranges of one statistic. A weighed range needs one path through each tree, and no weights."""

    def __init__(self, policy: ReportPolicy, statistic: str) -> None:
        self._policy, self._statistic = policy, statistic
        self._cells = {level: variance(policy.law(statistic, level)) for level in policy.calendar.levels}
        self._known: dict[Span, tuple[list[float], dict[int, list[int]]]] = {}

    def errors(self, asked: Sequence[tuple[Range, tuple[TimeTree, ...]]]) -> tuple[int, int]:
        """The 95 % errors of the range with the median variance, and of the one with the largest."""
        ordered = sorted(asked, key=lambda each: self.variance(*each))
        return self._error95(*ordered[len(ordered) // 2]), self._error95(*ordered[-1])

    def _error95(self, asked: Range, trees: tuple[TimeTree, ...]) -> int:
        numbers = step_numbers(self._policy, _ALONE, (), (asked,), trees)
        return error95(next(numbers.noise(self._statistic, entities=1)))

    def variance(self, asked: Range, trees: Sequence[TimeTree]) -> float:
        """That of a sum of the fewest cells; with trees, of the least squares estimate."""
        if not trees:
            return sum(self._cells[span.level] for span in self._policy.calendar.partition(*asked))
        return sum(self._part(tree, 0, asked)[0] for tree in trees)

    def _part(self, tree: TimeTree, node: int, asked: Range) -> tuple[float, float]:
        """Of what is asked of a node, from its own cell and those below: variance, and covariance with the node."""
        span, (estimates, children) = tree.spans[node], self._estimates(tree)
        if asked[0] <= span.start and span.end <= asked[1]:
            return estimates[node], estimates[node]
        if span.end <= asked[0] or asked[1] <= span.start:
            return 0.0, 0.0
        parts = [self._part(tree, child, asked) for child in children[node]]
        below, shared = sum(each[0] for each in parts), sum(each[1] for each in parts)
        cell, weight = self._cells[span.level], estimates[node] / self._cells[span.level]  # weight of the node's cell
        return below - shared**2 * (1 - weight) / cell, shared * (1 - weight)

    def _estimates(self, tree: TimeTree) -> tuple[list[float], dict[int, list[int]]]:
        """Of each node, the variance of its estimate from its own cell and those below; and its children."""
        if tree.spans[0] not in self._known:
            estimates = [self._cells[span.level] for span in tree.spans]
            children = {parent: below.tolist() for parent, below in tree.tree.families()}
            for parent, below in reversed(children.items()):
                together = sum(estimates[child] for child in below)
                estimates[parent] *= together / (estimates[parent] + together)
            self._known[tree.spans[0]] = estimates, children
        return self._known[tree.spans[0]]


@dataclass(frozen=True, slots=True)
class NoiseComparison:
    """What the other kind of `noise` would do at the same epsilon: the error times `ratio`.

    `delta` is that of the Gaussian noise, of the two. `cells` is the number of cells that one event is counted in.
    """

    noise: Literal["laplace", "gaussian"]
    delta: Fraction
    cells: int
    ratio: float

    def __str__(self) -> str:
        percent = round(100 * abs(1 - self.ratio))
        change = f"{percent} % {'less' if self.ratio < 1 else 'more'}" if percent else "the same"
        at = f"and delta {float(self.delta):g}" if self.noise == "gaussian" else "and no delta"
        noise = f"{self.noise.capitalize()} noise at the same epsilon {at} would have {change} error"
        return f"{noise}: one event is counted in {self.cells:,} cell{'' if self.cells == 1 else 's'}."

    def to_dict(self) -> dict[str, Any]:
        return {"delta": float(self.delta), "cells": self.cells, "error_ratio": round(self.ratio, 3)}


def compare_noise(policy: ReportPolicy, promise: ReportGuarantee) -> NoiseComparison:
    """Each cell's noise replaced by the other kind, in the same proportion everywhere, at the same epsilon.

    Of Gaussian noise an event's cells add up to mu^2 = sum 1 / sigma^2 for each version, and c events of a person to
    c^2 times that; it is then (epsilon, delta)-DP for the delta of a Gaussian of this mu (Balle and Wang 2018). Of
    Laplace noise they add up to epsilon = sum 1 / scale, times versions and events.
    """
    each = [policy.law(name, level) for name in promise.statistics for level in policy.calendar.levels]
    several = promise.attributes * promise.entities
    if promise.gaussian is None:
        squared = several * promise.versions * promise.events**2 * sum(1 / variance(law) for law in each)
        ratio = math.sqrt(squared) / largest_mu(float(promise.epsilon), float(DELTA))
        return NoiseComparison("gaussian", DELTA, several * len(each), ratio)
    inverse = several * promise.versions * promise.events * sum(1 / law.deviation for law in each)
    scales = [Fraction(law.deviation * inverse) / promise.epsilon for law in each]
    squares = sum(variance(DiscreteLaplace(scale)) for scale in scales), sum(map(variance, each))
    return NoiseComparison("laplace", promise.delta, several * len(each), math.sqrt(squares[0] / squares[1]))


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest distance of two Gaussians, in deviations, that is (epsilon, delta)-DP.

    >>> round(largest_mu(1, 1e-6), 4)
    0.2367
    """
    low, high = 0.0, 1.0
    while gaussian_delta(high**2, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle**2, epsilon) <= delta else (low, middle)
    return low
