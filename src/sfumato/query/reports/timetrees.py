"""Ranges of time as trees: a month with its days, a year with its months and days.

They are made consistent with one another by least squares (the option `calendar`). A tree has complete ranges only, so
the days of a month that is not complete stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from sfumato.mechanisms.consistency import Tree
from sfumato.query.reports.calendar import Calendar, Span


@dataclass(frozen=True, slots=True)
class TimeTree:
    """A range, node 0, and all ranges of finer levels in it. Each node is the sum of its children."""

    spans: tuple[Span, ...]
    tree: Tree


def time_trees(calendar: Calendar, start: datetime, end: datetime, complete: datetime) -> tuple[TimeTree, ...]:
    """The trees of the longest ranges that are over by `complete` and meet [start, end), in order.

    All three are on the grid, and `end` is not after `complete`. The first tree may begin before `start`, and the last
    may end after `end`. Every range of the partition of [start, end) is in one of them.
    """
    trees: list[TimeTree] = []
    while start < end:
        root = next(span for span in _around(calendar, start) if span.end <= complete)
        trees.append(_time_tree(calendar, root))
        start = root.end
    return tuple(trees)


def _around(calendar: Calendar, moment: datetime) -> Iterator[Span]:
    """The range of each level that holds `moment`, the longest first."""
    return (calendar.span(moment, level) for level in reversed(calendar.levels))


@lru_cache(1024)
def _time_tree(calendar: Calendar, root: Span) -> TimeTree:
    spans, parents = [root], [-1]
    for place, span in enumerate(spans):  # which grows in the loop
        below = _children(calendar, span)
        spans += below
        parents += [place] * len(below)
    return TimeTree(tuple(spans), Tree(tuple(parents)))


def _children(calendar: Calendar, span: Span) -> tuple[Span, ...]:
    """The ranges of the next finer level that cuts a range in several; none below the finest."""
    for level in reversed(calendar.levels[: calendar.levels.index(span.level)]):
        steps = calendar.steps(span.start, span.end, level)
        if len(steps) > 1:
            return tuple(Span(level, *step) for step in steps)
    return ()
