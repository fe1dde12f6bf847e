"""Distinct people of as many keys as a budget can buy (Private Count Release), and statistics of what was found.

Keys per person are not bounded, and nothing is tuned: `PrivateCountRelease` walks from the largest counts down. Two
shares of the budget can be set aside before: one for refining the counts that are least accurate for their size, one
for statistics of the keys that were found.

Guarantee: delta-approximate zCDP of the sum of the shares, `ReleaseGuarantee` of the request. The refined counts and
the statistics depend on the data through what was released only, and through fresh noise. Proof: proofs/release.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from sfumato.accounting.groups import passes_group_delta
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.bounds import NumericBounds
from sfumato.mechanisms.noise import DiscreteGaussian, Integers
from sfumato.mechanisms.pcr import PrivateCount, PrivateCountRelease
from sfumato.mechanisms.random import Rng
from sfumato.release.bounding import MAX_KEYS, count_people
from sfumato.release.guarantee import Spending
from sfumato.release.measurement import (
    Bounded,
    build_table,
    describe_bounds,
    finders,
    laws_in_words,
    with_found_bounds,
)
from sfumato.release.request import Progress, ReleaseRequest, Rows, describe, without_bounds
from sfumato.release.statistics.base import Column, Share, Statistic, count_columns
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

FINEST = Fraction(1, 2**60)
"""Precisions are multiples of this."""


@dataclass(frozen=True, kw_only=True)
class Counts(ReleaseRequest):
    """Distinct people of the keys that stand out; `statistics` are of the same keys, for `statistics_share` of rho.

    A person counts for `max_keys` keys in the statistics; without it, for all that were found, which needs more noise.
    """

    limit: int = 10_000
    relative_error: Fraction = Fraction(1, 10)
    refine: Fraction | None = None
    statistics_share: Fraction = Fraction(0)
    max_keys: int | None = None

    @property
    def method(self) -> str:
        return "pcr"

    @property
    def all_statistics(self) -> tuple[Statistic, ...]:
        return (Units(), *self.statistics)

    @property
    def parameters(self) -> dict[str, Any]:
        reading = self.reading
        return {
            "unit": reading.unit,
            "key": list(reading.key),
            "filter": reading.filter,
            "limit": self.limit,
            "relative_error": str(self.relative_error),
            "refine": None if self.refine is None else str(self.refine),
            "statistics": describe(self.statistics),
            "statistics_share": str(self.statistics_share),
            "max_keys": self.max_keys,
        }

    @property
    def refining(self) -> Fraction:
        return (self.refine or Fraction(0)) * self.guarantee.rho

    @property
    def measuring(self) -> Fraction:
        return self.statistics_share * self.guarantee.rho

    @cached_property
    def mechanism(self) -> PrivateCountRelease:
        return PrivateCountRelease(
            rho=self.guarantee.rho - self.refining - self.measuring,
            delta=self.guarantee.delta,
            limit=self.limit,
            relative_error=self.relative_error,
        )

    def check_affordable(self) -> None:
        try:
            self.spendings()
        except InvalidArgument as refusal:
            if refusal.argument not in ("rho", "first_epsilon"):
                raise
            raise InvalidArgument(self.guarantee.given, "cannot buy a single count; give more") from None

    def spendings(self) -> list[Spending]:
        """For statistics without a bound on keys: as if `limit` keys were found."""
        return self._spendings(self.max_keys or self.limit)

    @property
    def assumptions(self) -> list[str]:
        if not self.statistics or self.max_keys:
            return []
        return [f"The noise of statistics is shown as if {self.limit:,} keys were found; --max-keys bounds it."]

    def _spendings(self, max_keys: int, found: Mapping[Statistic, Statistic] | None = None) -> list[Spending]:
        levels = self.mechanism.levels
        widths = f"deviations from {levels[0].noise.deviation:,.4g} down to {levels[-1].noise.deviation:,.4g}"
        law = f"{len(levels)} exact Gumbel races, then discrete Gaussian counts, {widths}"
        passes = [(level.epsilon, self.mechanism.delta_level) for level in levels]
        shown = partial(passes_group_delta, passes)
        spent = [Spending("selection of keys, and units", law, self.mechanism.rho, self.mechanism.delta, shown)]
        if self.refining:
            spent.append(Spending("refining units", "discrete Gaussian, by what each count lacks", self.refining))
        return spent + laws_in_words(self._finders(max_keys), self._each, self._shares(max_keys), found)

    @property
    def _each(self) -> Fraction:
        """Equal parts for the statistics, and one for all bounds that are to be found."""
        parts = len(self.statistics) + bool(without_bounds(self.statistics))
        return self.measuring / parts if parts else Fraction(0)

    def _finders(self, max_keys: int) -> dict[Numeric, NumericBounds]:
        return finders(without_bounds(self.statistics), self._each, max_keys)

    def _shares(self, max_keys: int) -> dict[Statistic, Share]:
        return {statistic: Share(self._each, max_keys) for statistic in self.statistics}

    def table(self, rows: Rows, progress: Progress) -> Released:
        counts = count_people(rows.contributions, rows.order("count"), max_keys=MAX_KEYS)
        progress("selecting keys", 0)
        found = self.mechanism.release(largest(counts, self.limit), rows.rng)
        codes = np.array([row.key for row in found.rows], np.int64)
        columns = self._units(found.rows, counts[codes], rows.rng)
        progress("aggregating", 0)
        max_keys = min(self.max_keys or len(codes), len(codes)) or 1
        bounded = Bounded(rows.contributions, rows.order("aggregate"), max_keys, codes)
        ends = bounded.bounds(self._finders(max_keys), rows.rng)
        known = with_found_bounds(ends)
        shares = {known.get(each, each): share for each, share in self._shares(max_keys).items()}
        columns |= bounded.columns(shares, rows.rng)
        statistics = [Units(), *(known.get(each, each) for each in self.statistics)]
        learned = {"statistics": describe(statistics), "levels": found.levels, "bounds": describe_bounds(ends)}
        if self.statistics:
            learned["max_keys"] = max_keys
        return build_table(self, rows, codes, statistics, columns, self._spendings(max_keys, known), learned)

    def _units(self, found: Sequence[PrivateCount[int]], exact: Integers, rng: Rng) -> dict[str, Column]:
        """The counts, refined where a share was set aside for it."""
        noisy = [Fraction(row.count) for row in found]
        precisions = [1 / row.variance for row in found]
        if self.refining and found:
            further = refinements(noisy, precisions, 2 * self.refining)
            for place, precision in enumerate(further):
                if precision:
                    law = DiscreteGaussian(1 / precision)
                    again = int(exact[place]) + int(law.sample(rng.stream(purpose="refine", place=place), 1)[0])
                    noisy[place] = (noisy[place] * precisions[place] + again * precision) / (
                        precisions[place] + precision
                    )
                    precisions[place] += precision
        deviations = np.array([1 / math.sqrt(precision) for precision in precisions])
        return count_columns("units", np.array([round(count) for count in noisy], np.int64), deviations)


def refinements(noisy: Sequence[Fraction], precisions: Sequence[Fraction], total: Fraction) -> list[Fraction]:
    """Further precisions of at most `total` in all, which lift the worst relative errors to one level.

    A function of what was released. One more count of precision p costs p / 2 of rho: one person moves it by one.
    """
    # A count is taken to be no smaller than its own noise, from which it cannot be distinguished.
    sizes = [max(float(count), 1 / math.sqrt(precision)) for count, precision in zip(noisy, precisions, strict=True)]
    have = [float(precision) for precision in precisions]

    def lacking(level: float) -> list[float]:
        """What lifts every count to a relative precision of `level`."""
        return [max(level / size**2 - known, 0) for size, known in zip(sizes, have, strict=True)]

    low, high = 0.0, 1.0
    while sum(lacking(high)) < total:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(lacking(middle)) < total else (low, middle)
    amounts = [Fraction(amount) // FINEST * FINEST for amount in lacking(low)]
    spent = sum(amounts)
    if spent <= total:
        return amounts
    # Floats have added up to a little more than there is.
    return [amount * total / spent // FINEST * FINEST for amount in amounts]


def largest(counts: Integers, limit: int) -> list[tuple[int, int]]:
    """The `limit` + 1 largest counts by code, largest first, ties by code. Ties at the end are never released."""
    present = np.flatnonzero(counts)
    if len(present) > limit + 1:
        bar = np.partition(counts[present], len(present) - limit - 1)[len(present) - limit - 1]
        above, at = present[counts[present] > bar], present[counts[present] == bar]
        present = np.concatenate([above, at[: limit + 1 - len(above)]])
    order = np.lexsort((present, -counts[present]))
    return list(zip(present[order].tolist(), counts[present[order]].tolist(), strict=True))
