"""Exact counts of a report, from the engine. They are not for showing: `cells` adds the noise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import Engine
from sfumato.errors import NotSupported
from sfumato.query.predicate import EVERYTHING, In, Predicate, Values, all_of, prune
from sfumato.query.reports.calendar import Span
from sfumato.query.reports.counting import ReportCounting, segment_query, values_of
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import ReportPolicy
from sfumato.query.values import read_value
from sfumato.reports.numbers import MAX_COUNT
from sfumato.types import Value


def exact_counts(
    engine: Engine,
    policy: ReportPolicy,
    attribute: str | None,
    statistics: Sequence[str],
    paths: Sequence[Path],
    spans: Sequence[Span],
    entities: Entities,
) -> NDArray[np.int64]:
    """Exact counts, statistics x entities x ranges x values: from one query, where the engine can add them all up."""
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    by: tuple[str, ...] = ()  # the columns that tell these entities apart
    if len(paths) > 1:
        by = policy.levels[-1:] if policy.reach == "leaf" else policy.levels[: max(map(len, paths))]
    counted = tuple(policy.statistics[name] for name in statistics)
    within = _rows_of(policy, paths, entities)
    values = 1 if attribute is None else len(policy.attributes[attribute].domain)
    by_segment = np.zeros((len(statistics), len(paths), len(edges), values), np.int64)
    together = len(counted) if engine.abilities.conditional_sums else 1
    for first in range(0, len(counted), together):
        some = counted[first : first + together]
        rows = engine.run(segment_query(ReportCounting(policy, some, attribute, tuple(edges), within, by)))
        if not rows:
            continue
        segments, *columns = zip(*rows, strict=True)
        counts, pieces = [_clamp(column) for column in columns[-len(some) :]], np.array(segments, np.intp)
        row, value = _value_places(policy, attribute, columns[len(by)] if attribute is not None else segments)
        for owner in _owners(policy, paths, entities, list(zip(*columns[: len(by)], strict=True)), len(rows)):
            mine = owner[row] >= 0
            at = row[mine]
            for statistic, count in enumerate(counts, first):
                np.add.at(by_segment[statistic], (owner[at], pieces[at], value[mine]), count[at])
    return _sum_segments(by_segment, edges, spans)


def _rows_of(policy: ReportPolicy, paths: Sequence[Path], entities: Entities) -> Predicate:
    """The rows of these entities: those of the one that is above them all."""
    top = _common_parent(paths)
    if not top:
        return EVERYTHING
    by_level = list(zip(policy.levels, ([name] for name in top), strict=False))
    if policy.reach == "leaf":
        by_level = [(policy.levels[-1], [leaf[-1] for leaf in entities.leaves(top)])]
    held = [(column, [read_value(column, policy.types[column], name) for name in names]) for column, names in by_level]
    return prune(all_of([In(column, Values.of(*names)) for column, names in held]))


def _common_parent(paths: Sequence[Path]) -> Path:
    top = min(paths, key=len)
    while any(path[: len(top)] != top for path in paths):
        top = top[:-1]
    return top


def _clamp(column: Sequence[int]) -> NDArray[np.int64]:
    """Clamp counts, because sums must not overflow int64."""
    try:
        return np.minimum(np.array(column, np.int64), MAX_COUNT)
    except OverflowError:
        return np.array([min(int(count), MAX_COUNT) for count in column], np.int64)


def _value_places(
    policy: ReportPolicy, attribute: str | None, cells: Sequence[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which row counts for which value of the domain: pairs of their places."""
    if attribute is None:
        return np.arange(len(cells)), np.zeros(len(cells), np.intp)
    settings = policy.attributes[attribute]
    index: dict[Value, int] = {value: at for at, value in enumerate(settings.domain)}
    if settings.several:
        lists = (values_of(cell, settings.separator, settings.max_values) for cell in cells)
        pairs = [(row, index[value]) for row, values in enumerate(lists) for value in values if value in index]
        places = np.array(pairs, np.intp).reshape(-1, 2)
        return places[:, 0], places[:, 1]
    if settings.type == "number":
        cells = [_number(settings.name, cell) for cell in cells]
    value = np.fromiter(map(index.get, cells, itertools.repeat(-1)), np.intp, len(cells))
    return np.flatnonzero(value >= 0), value[value >= 0]


def _number(name: str, cell: Any) -> Value | None:
    try:
        return read_value(name, "number", cell)
    except NotSupported:  # of more digits than a domain can hold
        return None


def _owners(
    policy: ReportPolicy, paths: Sequence[Path], entities: Entities, names: Sequence[tuple[Any, ...]], rows: int
) -> Iterator[NDArray[np.intp]]:
    """The entity, by its place, that each row counts for, level by level; -1 for none."""
    if not names:
        yield np.zeros(rows, np.intp)
        return
    place = {path: at for at, path in enumerate(paths)}
    own = [tuple(itertools.takewhile(bool, ("" if name is None else str(name) for name in each))) for each in names]
    if policy.reach == "leaf":
        leaves = {leaf[-1]: leaf for leaf in entities.leaves(_common_parent(paths))}
        own = [leaves.get(each[0], ()) if each else () for each in own]
    for depth in sorted({len(path) for path in paths}):
        yield np.array([place.get(path[:depth], -1) if len(path) >= depth else -1 for path in own], np.intp)


def _sum_segments(by_segment: NDArray[np.int64], edges: Sequence[datetime], spans: Sequence[Span]) -> NDArray[np.int64]:
    """Ranges from segments: differences of running sums."""
    running = np.zeros_like(by_segment)
    running[:, :, 1:] = by_segment[:, :, :-1].cumsum(axis=2)
    place = {edge: at for at, edge in enumerate(edges)}
    starts, ends = [place[span.start] for span in spans], [place[span.end] for span in spans]
    return running[:, :, ends] - running[:, :, starts]
