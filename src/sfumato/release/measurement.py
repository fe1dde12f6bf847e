"""Statistics of selected keys: fold the bounded rows, add noise, and build the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.engines.contributions import Contributions
from sfumato.mechanisms.bounds import BINS, FoundBounds, NumericBounds, bins
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.random import Rng
from sfumato.release.bounding import KeyOrder, Pairs, fold_pairs
from sfumato.release.guarantee import Spending
from sfumato.release.request import ReleaseRequest, Rows
from sfumato.release.statement import key_columns, statistic_columns
from sfumato.release.statistics.base import Column, Share, Statistic
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.table import Released


@dataclass(frozen=True, slots=True)
class Bounded:
    """The rows of some keys, at most `max_keys` per person; row n of the table is the key with code `codes[n]`.

    Where not `within`, people chose among all of their keys, and the keys they chose beyond `codes` are lost.
    """

    contributions: Contributions
    order: KeyOrder
    max_keys: int
    codes: Integers
    within: bool = True

    def columns(self, shares: Mapping[Statistic, Share], rng: Rng) -> dict[str, Column]:
        """Every statistic of every key, with noise."""
        size = len(self.codes)
        # Lost keys go to a row after the last.
        start = [statistic.nothing(size + 1) for statistic in shares]

        def parts(pairs: Pairs, places: Integers) -> list[Any]:
            return [statistic.parts(pairs, places, size + 1) for statistic in shares]

        columns: dict[str, Column] = {}
        for (statistic, share), exact in zip(shares.items(), self._fold(start, parts), strict=True):
            source = rng.child(purpose="statistic", names=list(statistic.names))
            columns |= statistic.release(exact.first(size), size, share, source)
        return columns

    def bounds(self, finders: Mapping[Numeric, NumericBounds], rng: Rng) -> dict[Numeric, FoundBounds]:
        """The bounds of statistics that have none."""
        start = [np.zeros(BINS, np.int64) for _ in finders]

        def count(pairs: Pairs, places: Integers) -> list[Any]:
            counts = []
            for each in finders:
                which, values = each.raw(pairs)
                # Without lost keys: of `codes` a person has at most `max_keys`, but of all keys perhaps more.
                kept = values[places[which] < len(self.codes)]
                counts.append(np.bincount(bins(kept), minlength=BINS))
            return counts

        found = {}
        for (statistic, finder), counts in zip(finders.items(), self._fold(start, count), strict=True):
            found[statistic] = finder.release(counts, rng.child(purpose="bounds", names=list(statistic.names)))
        return found

    def _fold(self, start: list[Any], work: Callable[[Pairs, Integers], list[Any]]) -> list[Any]:
        """What all sets of people add, to `start`."""
        if not start:
            return []
        places = np.full(self.contributions.size, len(self.codes), np.int64)
        places[self.codes] = np.arange(len(self.codes))
        folded = fold_pairs(
            self.contributions,
            lambda pairs: work(pairs, places[pairs.keys]),
            self.order,
            max_keys=self.max_keys,
            within=self.codes if self.within else None,
        )
        for parts in folded:
            start = [total + part for total, part in zip(start, parts, strict=True)]
        return start


def with_found_bounds(bounds: Mapping[Numeric, FoundBounds]) -> dict[Statistic, Statistic]:
    """The statistics with the bounds that were found."""
    return {statistic: statistic.with_bounds(ends.low, ends.high) for statistic, ends in bounds.items()}


def describe_bounds(bounds: Mapping[Numeric, FoundBounds]) -> dict[str, dict[str, Any]]:
    """How far found bounds can be trusted, for a statement."""
    return {
        ", ".join(statistic.names): {"probability": str(ends.probability), "fell_back": ends.fell_back}
        for statistic, ends in bounds.items()
    }


def build_table(
    request: ReleaseRequest,
    rows: Rows,
    codes: Integers,
    statistics: Sequence[Statistic],
    columns: Mapping[str, Column],
    spent: Sequence[Spending],
    found: Mapping[str, Any],
) -> Released:
    """The table and its statement: the largest first by its first statistic, ties in the fixed order of codes."""
    entries = [*key_columns(rows.kinds), *(column for each in statistics for column in statistic_columns(each))]
    first = np.asarray(columns[statistics[0].names[0]], np.float64)
    order = np.lexsort((codes, -first))
    keys = rows.contributions.keys(codes[order])
    data: dict[str, Any] = {name: [key[place] for key in keys] for place, name in enumerate(rows.kinds)}
    for column in entries[len(rows.kinds) :]:
        values = columns[column["name"]]
        data[column["name"]] = values if isinstance(values, list) else values[order]
    kinds = {column["name"]: column["type"] for column in entries}
    return Released(kinds, data, request.statement(entries, spent, **found))
