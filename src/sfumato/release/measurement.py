"""Statistics of selected keys: fold the bounded rows, add noise, and build the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.engines.contributions import Addend, Contributions
from sfumato.mechanisms.bounds import FoundBounds, NumericBounds
from sfumato.mechanisms.census import MAX_SEEN
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.random import Rng
from sfumato.release.addends import Degrees, Sizes
from sfumato.release.bounding import KeyOrder
from sfumato.release.estimand import Estimand
from sfumato.release.guarantee import ReleaseGuarantee, Spending, root
from sfumato.release.request import ReleaseRequest, Rows
from sfumato.release.statement import key_columns, statistic_columns
from sfumato.release.statistics.base import Series, Statistic
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.table import Released

_WIDEST = Fraction(1), Fraction(2)
"""Of the bounds that can be found, these need the most noise for their step: they are furthest from 0."""


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

    def people_by_keys(self) -> Integers:
        """How many people have n of the keys, by n, before they are bounded."""
        return self.contributions.keys_per_person(MAX_SEEN + 1, within=self.codes)

    def columns(self, shares: Mapping[Statistic, Share], rng: Rng) -> dict[str, Series]:
        """Every statistic of every key, with noise."""
        return self._noisy(shares, self._add_up([*shares]), rng)

    def columns_and_people(self, shares: Mapping[Statistic, Share], rng: Rng) -> tuple[dict[str, Series], Integers]:
        """`columns` and `people_by_keys`, by one look at the rows where that is possible."""
        *exact, people = self._add_up([*shares, Degrees(MAX_SEEN + 1)])
        return self._noisy(shares, exact, rng), people

    def _noisy(self, shares: Mapping[Statistic, Share], sums: Sequence[Any], rng: Rng) -> dict[str, Series]:
        size = len(self.codes)
        columns: dict[str, Series] = {}
        for (statistic, share), exact in zip(shares.items(), sums, strict=True):
            source = rng.child(purpose="statistic", names=list(statistic.names))
            columns |= statistic.release(exact.first(size), size, share, source)
        return columns

    def bounds(self, finders: Mapping[Numeric, NumericBounds], rng: Rng) -> dict[Numeric, FoundBounds]:
        """The bounds of statistics that have none."""
        found = {}
        for (statistic, finder), counts in zip(
            finders.items(), self._add_up([Sizes(each) for each in finders]), strict=True
        ):
            found[statistic] = finder.release(counts, rng.child(purpose="bounds", names=list(statistic.names)))
        return found

    def _add_up(self, measures: Sequence[Addend]) -> list[Any]:
        if not measures:
            return []
        return self.contributions.add_up(
            measures, self.order, max_keys=self.max_keys, codes=self.codes, within=self.within
        )


def finders(lacking: Sequence[Numeric], rho: Fraction, max_keys: int) -> dict[Numeric, NumericBounds]:
    """How the bounds of some statistics are found, each for an equal part of rho."""
    made = {}
    for statistic in lacking:
        epsilon, contributions = root(2 * rho / len(lacking)), max_keys * statistic.samples
        made[statistic] = NumericBounds(epsilon=epsilon, contributions=contributions)
    return made


def laws_in_words(
    bounds: Mapping[Numeric, NumericBounds],
    finding: Fraction,
    shares: Mapping[Statistic, Share],
    found: Mapping[Statistic, Statistic] | None = None,
) -> list[Spending]:
    """What is spent on bounds and statistics. Refuses noise that cannot be drawn, whatever bounds will be found."""
    spent = []
    for lacking, finder in bounds.items():
        law = f"discrete Laplace, scale {float(finder.noise.scale):,.4g}"
        spent.append(Spending(f"bounds of {', '.join(lacking.names)}", law, finding / len(bounds)))
    for statistic, share in shares.items():
        known = statistic not in bounds or found is not None
        drawn = (found or {}).get(statistic, statistic)
        if not known:
            drawn = replace(statistic, low=_WIDEST[0], high=_WIDEST[1])  # type: ignore[type-var]
        laws = "; ".join(f"{name}: {law}" for name, law in drawn.laws(share).items())
        words = laws if known else "as the bounds will need"
        steps = drawn.steps(share) if known else ()
        names = ", ".join(statistic.names)
        spent.append(Spending(names, words, share.rho, gaussian=steps, epsilon=share.epsilon))
    return spent


def with_found_bounds(bounds: Mapping[Numeric, FoundBounds]) -> dict[Statistic, Statistic]:
    """The statistics with the bounds that were found."""
    return {statistic: statistic.with_bounds(ends.low, ends.high) for statistic, ends in bounds.items()}


def describe_bounds(bounds: Mapping[Numeric, FoundBounds]) -> dict[str, dict[str, Any]]:
    """How far found bounds can be trusted, for a statement."""
    return {
        ", ".join(statistic.names): {"probability": str(ends.probability), "fell_back": ends.fell_back}
        for statistic, ends in bounds.items()
    }


def estimand_of(statistic: Statistic, bounded_by: str | None) -> Estimand:
    return Estimand(bounded_by, statistic.clamped, statistic.grows)


def build_table(
    request: ReleaseRequest,
    rows: Rows,
    codes: Integers,
    statistics: Sequence[Statistic],
    columns: Mapping[str, Series],
    spent: Sequence[Spending],
    found: Mapping[str, Any],
    estimands: Sequence[Estimand],
    promised: ReleaseGuarantee,
) -> Released:
    """The table and its statement: the largest first by its first statistic, ties in the fixed order of codes.

    `estimands` has which number the intervals of each statistic are for.
    """
    entries = key_columns(rows.kinds)
    for each, estimand in zip(statistics, estimands, strict=True):
        entries += statistic_columns(each, estimand)
    first = np.asarray(columns[statistics[0].names[0]], np.float64)
    order = np.lexsort((codes, -first))
    keys = rows.contributions.keys(codes[order])
    data: dict[str, Any] = {name: [key[place] for key in keys] for place, name in enumerate(rows.kinds)}
    for column in entries[len(rows.kinds) :]:
        values = columns[column["name"]]
        data[column["name"]] = values if isinstance(values, list) else values[order]
    kinds = {column["name"]: column["type"] for column in entries}
    return Released(kinds, data, request.statement(entries, spent, promised, **found))
