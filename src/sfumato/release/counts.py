"""Distinct people of as many keys as a budget can buy, and statistics of what was found.

    pcr         Private Count Release: keys per person are not bounded, and it walks from the largest counts down
    gaussian    one noisy vector of all counts, each person in at most L keys; L is chosen by a census
    auto        begins with pcr, and changes to gaussian where that would reach smaller counts

Two shares of the budget can be set aside before: one for refining the counts that are least accurate for their size
(pcr), one for statistics of the keys that were found.

Guarantee: delta-approximate zCDP of the sum of the shares, `ReleaseGuarantee` of the request. What is done next, the
refined counts and the statistics depend on the data through what was released only, and through fresh noise. Proof:
proofs/release.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.accounting.groups import passes_group_delta
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.bounds import NumericBounds
from sfumato.mechanisms.census import MAX_SEEN, KeyCensus, KeysPerPerson
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.intervals import Floats
from sfumato.mechanisms.noise import DiscreteGaussian, Integers
from sfumato.mechanisms.pcr import COARSEST, PrivateCountRelease, Walk
from sfumato.mechanisms.pooling import Estimates
from sfumato.mechanisms.random import Rng
from sfumato.release.aggregate_plan import describe_census
from sfumato.release.bounding import MAX_KEYS
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, Estimand, bounding_record
from sfumato.release.guarantee import Spending
from sfumato.release.measurement import (
    Bounded,
    build_table,
    describe_bounds,
    estimand_of,
    finders,
    laws_in_words,
    with_found_bounds,
)
from sfumato.release.one_release import CENSUS, OneRelease, choose_bound, take_census
from sfumato.release.request import ProgressCallback, ReleaseRequest, Rows, describe, without_bounds
from sfumato.release.selection import describe_rule
from sfumato.release.statistics.base import Series, Statistic, interval_columns
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

Method: TypeAlias = Literal["auto", "pcr", "gaussian"]

ALGORITHM = "sfumato-counts/4"
"""In digests and statements. 3 cut the counts of one release at what was accurate on average, and had no census of what
bounding drops from statistics, and had more noise for a large relative error; 2 had another order of keys; 1 had
coarser passes and counts that were not pooled, and is not named there."""

EARLIER = "sfumato-counts/3"
"""Still the name where nothing changed: pcr without a bound on keys, up to a relative error of COARSEST."""

TRYING = Fraction(1, 20)
"""With "auto", what pcr takes of its budget before it is decided."""

TRYING_AT_MOST = Fraction(1, 5)
"""The pass that goes beyond that is cut here: where many keys have equal counts, one pass finds them all."""

CLEARLY = 0.75
"""How much smaller the counts must be that one release reaches: its numbers are those after bounding."""

DROPPING = Fraction(1, 40)
"""What a census of the released keys takes of the share of the statistics."""

COUNTING = "selection of keys, and units"

EXAMPLE = 16
"""A bound on keys with which noise is shown before there is one."""

FINEST = Fraction(1, 2**60)
"""Precisions, and what is left of rho, are multiples of this."""


@dataclass(frozen=True, kw_only=True)
class Counts(ReleaseRequest):
    """Distinct people of the keys that stand out; `statistics` are of the same keys, for `statistics_share` of rho.

    A person counts for `max_keys` keys in the statistics; without it, for all that were found, which needs more noise.
    """

    method: Method = "pcr"
    limit: int = 10_000
    relative_error: Fraction = Fraction(1, 10)
    refine: Fraction | None = None
    statistics_share: Fraction = Fraction(0)
    max_keys: int | None = None

    @property
    def all_statistics(self) -> tuple[Statistic, ...]:
        return (Units(), *self.statistics)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"algorithm": ALGORITHM if self._has_changed else EARLIER, **self._asked, **self._trying}

    @property
    def _has_changed(self) -> bool:
        return self.method != "pcr" or self.max_keys is not None or self.relative_error > COARSEST

    @property
    def _trying(self) -> dict[str, Any]:
        return {"trying": [str(TRYING), str(TRYING_AT_MOST)]} if self.method == "auto" else {}

    @property
    def _asked(self) -> dict[str, Any]:
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
    def earlier_parameters(self) -> Sequence[Mapping[str, Any]]:
        third, second = {"algorithm": EARLIER, **self._asked}, {"algorithm": "sfumato-counts/2", **self._asked}
        if self.method == "auto":
            return {**third, **self._trying}, third, second
        earlier = (third, second) if self._has_changed else (second,)
        return (*earlier, self._asked) if self.method == "pcr" else earlier

    @property
    def refining(self) -> Fraction:
        return (self.refine or Fraction(0)) * self.guarantee.rho

    @property
    def measuring(self) -> Fraction:
        return self.statistics_share * self.guarantee.rho

    @property
    def census(self) -> Fraction:
        """What the census takes of rho."""
        return Fraction(0) if self.method == "pcr" else CENSUS * (self.guarantee.rho - self.measuring)

    @property
    def counting(self) -> Fraction:
        """What is left of rho for finding keys and counting their people."""
        return self.guarantee.rho - self.measuring - self.census

    @cached_property
    def mechanism(self) -> PrivateCountRelease:
        return PrivateCountRelease(
            rho=self.counting - self.refining,
            delta=self.guarantee.delta,
            limit=self.limit,
            # More noise would save next to nothing, and intervals would hold less often than they say.
            relative_error=min(self.relative_error, COARSEST),
        )

    def check_affordable(self) -> None:
        """Refuse a budget that cannot buy anything, or noise that cannot be drawn, whatever is decided on the way."""
        try:
            self.spendings()
            if self.census:
                self._one_release_laws(OneRelease(self.counting / 2, self.guarantee.delta / 2, MAX_SEEN, Fraction(1)))
        except InvalidArgument as refusal:
            if refusal.argument not in ("rho", "first_epsilon"):
                raise
            problem = "cannot buy a single count; give more, or a larger relative_error"
            raise InvalidArgument(self.guarantee.given, problem) from None

    def spendings(self) -> list[Spending]:
        """For bounds on keys that are not known yet: as if `limit` keys were found, each person in `EXAMPLE` of all."""
        if self.method == "gaussian":
            once = OneRelease(self.counting, self.guarantee.delta, EXAMPLE, self.relative_error)
            return self._with_statistics(self._one_release_laws(once), self.limit)
        return self._with_statistics(self._pcr_laws(), self.limit)

    @property
    def assumptions(self) -> list[str]:
        assumed = []
        if self.method == "gaussian":
            assumed.append(f"The noise of counts is shown as if {EXAMPLE} keys per person were chosen.")
        if self.method == "auto":
            assumed.append(
                "If one release of all counts reaches smaller ones, by what the first passes find and by the census, "
                "what is left is spent on that."
            )
        if self.statistics and not self.max_keys:
            assumed.append(
                f"The noise of statistics is shown as if {self.limit:,} keys were found; --max-keys bounds it."
            )
        return assumed

    def _census_law(self) -> list[Spending]:
        return [describe_census(ALL_KEYS, KeyCensus(rho=self.census))] if self.census else []

    def _pcr_laws(self) -> list[Spending]:
        levels = self.mechanism.levels
        first, last = (math.sqrt(level.variance) for level in (levels[0], levels[-1]))
        widths = f"deviations from {first:,.4g} down to {last:,.4g}"
        law = f"{len(levels)} exact Gumbel races, then discrete Gaussian counts, {widths}"
        shown = self._group_delta(len(levels))
        spent = [*self._census_law(), Spending(COUNTING, law, self.mechanism.rho, self.mechanism.delta, shown)]
        if self.refining:
            spent.append(Spending("refining units", "discrete Gaussian, by what each count lacks", self.refining))
        return spent

    def _one_release_laws(self, once: OneRelease, walk: Walk[int] | None = None) -> list[Spending]:
        """After the passes of a walk, if there was one: what it left over is stated as spent on it."""
        passes = []
        if walk is not None:
            rho, delta = self.counting - once.rho, self.guarantee.delta - once.delta
            law = f"{walk.passes} exact Gumbel races, then discrete Gaussian counts"
            passes = [Spending("first keys", law, rho, delta, self._group_delta(walk.passes))]
        law, shown = describe_rule(once.rule), once.rule.group_delta
        return [*self._census_law(), *passes, Spending(COUNTING, law, once.rho, once.delta, shown)]

    def _group_delta(self, passes: int) -> Callable[[int], float]:
        """The delta of the first passes, for so many people together."""
        levels = self.mechanism.levels[:passes]
        return partial(passes_group_delta, [(level.epsilon, self.mechanism.delta_level) for level in levels])

    def _with_statistics(
        self, spent: list[Spending], found: int, bounds: Mapping[Statistic, Statistic] | None = None
    ) -> list[Spending]:
        """What is spent with statistics of `found` keys; once their bounds are found, with the noise that they need."""
        census = self._released_census(found)
        counted = [] if census is None else [describe_census(RELEASED_KEYS, census)]
        return spent + counted + laws_in_words(self._finders(found), self._each(found), self._shares(found), bounds)

    def _bound(self, found: int) -> int:
        """The keys that a person counts for in statistics of `found` keys."""
        return min(self.max_keys or found, found) or 1

    def _released_census(self, found: int) -> KeyCensus | None:
        """What tells how much bounding drops from the statistics, where it can drop anything."""
        bounded = self.statistics and self._bound(found) < found
        return KeyCensus(rho=DROPPING * self.measuring, keys=found) if bounded else None

    def _each(self, found: int) -> Fraction:
        """Equal parts for the statistics, and one for all bounds that are to be found."""
        parts = len(self.statistics) + bool(without_bounds(self.statistics))
        census = self._released_census(found)
        return (self.measuring - (census.rho if census else 0)) / parts if parts else Fraction(0)

    def _finders(self, found: int) -> dict[Numeric, NumericBounds]:
        return finders(without_bounds(self.statistics), self._each(found), self._bound(found))

    def _shares(self, found: int) -> dict[Statistic, Share]:
        return {statistic: Share(self._each(found), self._bound(found)) for statistic in self.statistics}

    def table(self, rows: Rows, progress: ProgressCallback) -> Released:
        found = self._count(rows, progress)
        codes = found.codes
        progress("aggregating", 0)
        max_keys, census = self._bound(len(codes)), self._released_census(len(codes))
        bounded = Bounded(rows.contributions, rows.order("aggregate"), max_keys, codes)
        ends = bounded.bounds(self._finders(len(codes)), rows.rng)
        known = with_found_bounds(ends)
        shares = {known.get(each, each): share for each, share in self._shares(len(codes)).items()}
        bounding = list(found.bounding)
        if census is None:
            columns = found.columns | bounded.columns(shares, rows.rng)
        else:
            measured, people = bounded.columns_and_people(shares, rows.rng)
            columns = found.columns | measured
            seen = census.release(people, rows.rng.child(census=RELEASED_KEYS))
            bounding.append(bounding_record(RELEASED_KEYS, max_keys, seen))
        statistics = [found.units, *(known.get(each, each) for each in self.statistics)]
        within = None if census is None else RELEASED_KEYS
        estimands = [found.estimand, *(estimand_of(each, within) for each in statistics[1:])]
        learned = {"statistics": describe(statistics), "bounds": describe_bounds(ends), **found.learned}
        if self.statistics:
            learned["max_keys"] = max_keys
        spent = self._with_statistics(found.spent, len(codes), known)
        table = build_table(self, rows, codes, statistics, columns, spent, learned, estimands, self.guarantee)
        return replace(table, statement={**table.statement, "bounding": bounding})

    def _count(self, rows: Rows, progress: ProgressCallback) -> CountedKeys:
        """Find keys and count their people, by the method that was asked for or is better."""
        census = take_census(rows, self.census) if self.census else None
        bound = None if census is None else choose_bound(census, self.relative_error)
        if census is not None and self.method == "gaussian":
            whole = OneRelease(self.counting, self.guarantee.delta, bound or MAX_SEEN, self.relative_error)
            return self._release_once(whole, rows, census, None)
        counts = rows.contributions.count_people(rows.order("count"), max_keys=MAX_KEYS)
        progress("selecting keys", 0)
        walk = Walk(self.mechanism, largest(counts, self.limit), rows.rng)
        once = None if bound is None else self._better(walk, bound)
        if census is not None and once is not None:
            return self._release_once(once, rows, census, walk)
        walk.go()
        codes = np.array(walk.keys, np.int64)
        learned = {"counted_by": "pcr", "levels": walk.passes} | ({"census": census.to_dict()} if census else {})
        return CountedKeys(codes, self._refined(walk, counts[codes], rows.rng), self._pcr_laws(), learned)

    def _better(self, walk: Walk[int], bound: int) -> OneRelease | None:
        """Begin a walk; what is left of its budget as one release, if that would reach smaller counts."""
        walk.go(TRYING * self.mechanism.rho, TRYING_AT_MOST * self.mechanism.rho)
        left = math.floor((self.counting - walk.spent) / FINEST) * FINEST
        delta = self.guarantee.delta - walk.passes * self.mechanism.delta_level
        once = OneRelease(left, delta, bound, self.relative_error)
        return once if walk.passes and once.lowest < CLEARLY * walk.expected_reach() else None

    def _release_once(self, once: OneRelease, rows: Rows, census: KeysPerPerson, walk: Walk[int] | None) -> CountedKeys:
        """One release, and before it what a walk has found: its rows stay where the release does not have them."""
        codes, columns, level = once.release(rows)
        learned: dict[str, Any] = {"counted_by": "gaussian", "selection_max_keys": once.max_keys, "level": level}
        if walk is None:
            learned["threshold"] = once.rule.threshold
        else:
            found = np.array(walk.keys, np.int64)
            alone = ~np.isin(found, codes)
            codes, first = np.concatenate([codes, found[alone]]), _estimate_columns(walk.pool())
            columns = {name: np.concatenate([part, np.asarray(first[name])[alone]]) for name, part in columns.items()}
            learned["levels"] = walk.passes
        spent, bounding = self._one_release_laws(once, walk), bounding_record(ALL_KEYS, once.max_keys, census)
        return CountedKeys(codes, columns, spent, learned, [bounding])

    def _refined(self, walk: Walk[int], exact: Integers, rng: Rng) -> dict[str, Series]:
        """The counts of a walk, refined where a share was set aside for it."""
        pooled = walk.pool()
        if not self.refining or not walk.keys:
            return _estimate_columns(pooled)
        noisy, precisions = walk.noisy.astype(np.float64), walk.deviations**-2
        for place, more in enumerate(refinements(pooled.counts, pooled.deviations, 2 * self.refining)):
            if more:
                drawn = DiscreteGaussian(1 / more).sample(rng.stream(purpose="refine", place=place), 1)
                better = precisions[place] + float(more)
                noisy[place] += float(more) / better * (int(exact[place]) + int(drawn[0]) - noisy[place])
                precisions[place] = better
        return _estimate_columns(walk.pool(noisy, precisions**-0.5))


class PooledUnits(Units):
    """Distinct people, from noisy counts and from the passes that found them."""

    @property
    def spread(self) -> str:
        return "standard deviation of the true number, given what was released"


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """Keys by code, the columns of their counts, what was spent, and what a statement says of how."""

    codes: Integers
    columns: dict[str, Series]
    spent: list[Spending]
    learned: dict[str, Any]
    bounding: Sequence[Mapping[str, Any]] = ()

    @property
    def units(self) -> Units:
        return Units() if self.bounding else PooledUnits()

    @property
    def estimand(self) -> Estimand:
        return estimand_of(self.units, ALL_KEYS if self.bounding else None)


def _estimate_columns(found: Estimates) -> dict[str, Series]:
    return interval_columns("units", found.counts, found.low, found.high, found.deviations)


def refinements(counts: Integers, deviations: Floats, total: Fraction) -> list[Fraction]:
    """Further precisions of at most `total` in all, which lift the worst relative errors to one level.

    A function of what was released. One more count of precision p costs p / 2 of rho: one person moves it by one.
    """
    # A count is taken to be no smaller than its own deviation, from which it cannot be distinguished.
    sizes = np.maximum(counts, deviations).tolist()
    have = (deviations**-2).tolist()

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
