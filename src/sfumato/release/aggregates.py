"""Statistics of every key that enough people have (Plume): bound, select, bound again, aggregate.

    1  each person keeps at most L_S keys, by a keyed order; distinct people of every key are counted
    2  S: the keys whose noisy count reaches a threshold, or a public list
    3  the original rows of S; each person keeps at most L_M keys of S, and of each key what its statistics allow
    4  for every key of S, data or not: the statistics, with noise

Guarantee: delta-approximate zCDP of the sum of what the steps spend, `ReleaseGuarantee` of the request, for one person
more or less. S is released, so steps 3 and 4 may depend on it. Proof: proofs/release.md.

Pipelines: `plume` is the above, by codes that were made once; `naive` joins the source with S and codes it again (the
same table, later); `fast` leaves step 3 out, and people waste places on keys that are not released.

A census (`sfumato.mechanisms.census`) tells what bounding drops: of all keys in step 1, and of the keys of S in step 3,
each where it decides something or describes a released number. With `max_keys="auto"` the bounds are the smallest ones
that drop at most `MAX_DROPPED` of the pairs.

Where the statistic is distinct people, the noisy counts of step 2 are the answer: one release has the whole budget.
Counting again, on S, costs half of it, and pays where bounding drops more than `RECOUNT_ABOVE` of the pairs (and L is
not 1); or where L_M is not L_S, or when asked to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.mechanisms.census import BOUNDS, MAX_SEEN, KeyCensus, KeysPerPerson
from sfumato.mechanisms.noise import Integers
from sfumato.release.aggregate_plan import AggregatePlan
from sfumato.release.bounding import count_people, count_people_and_keys, keys_per_person
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, bounding_record
from sfumato.release.guarantee import Spending
from sfumato.release.measurement import Bounded, build_table, describe_bounds, with_found_bounds
from sfumato.release.request import Progress, ReleaseRequest, Rows, describe
from sfumato.release.selection import Selection, select_keys
from sfumato.release.statistics.base import Column
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

Pipeline: TypeAlias = Literal["plume", "naive", "fast"]

ALGORITHM = "sfumato-aggregates/2"
"""In digests and statements. 1 was without a census, and is not named there."""

MAX_DROPPED = Fraction(1, 20)
"""With `max_keys="auto"`, about so many (person, key) pairs are dropped at most."""

RECOUNT_ABOVE = Fraction(1, 10)
"""Where bounding drops more than this, people are counted again on the released keys."""

CENSUS = Fraction(1, 20)
"""What each census takes of the budget."""

EXAMPLE = 16


@dataclass(frozen=True, kw_only=True)
class Aggregates(ReleaseRequest):
    """Statistics by key. `max_keys` None is to be chosen by a census.

    `within_max_keys`: the caller states that every person has at most `max_keys` keys. They are bounded all the same.
    """

    max_keys: int | None
    within_max_keys: bool = False
    selection_max_keys: int | None = None
    selection: Selection = "auto"
    selection_share: Fraction | None = None
    pipeline: Pipeline = "plume"
    rebound: bool | None = None
    public: bool = False

    @property
    def method(self) -> str:
        return self.pipeline

    @property
    def parameters(self) -> dict[str, Any]:
        return {"algorithm": ALGORITHM, **self._asked, "within_max_keys": self.within_max_keys}

    @property
    def _asked(self) -> dict[str, Any]:
        """What was asked before there was a census."""
        reading = self.reading
        return {
            "unit": reading.unit,
            "key": list(reading.key),
            "filter": reading.filter,
            "statistics": describe(self.statistics),
            "max_keys": self.max_keys or "auto",
            "selection_max_keys": self.selection_max_keys,
            "selection": "public keys" if self.public else self.selection,
            "selection_share": None if self.selection_share is None else str(self.selection_share),
            "rebound": self.rebound,
        }

    @property
    def earlier_parameters(self) -> Sequence[Mapping[str, Any]]:
        return () if self.within_max_keys else (self._asked,)

    @property
    def bounds_again(self) -> bool:
        """Whether statistics are measured on people bounded among the released keys."""
        return self.public or self.pipeline != "fast"

    @property
    def _recounts(self) -> bool | None:
        """Whether people are counted again on the released keys; None where the census decides."""
        if self.rebound is not None:
            return self.rebound
        if self.pipeline != "plume":
            return self.pipeline == "naive"
        alone = self.selection_share is not None and self.statistics == (Units(),)
        if alone or self.selection_max_keys not in (None, self.max_keys):
            return True
        return False if self.within_max_keys or self.max_keys == 1 else None

    @property
    def may_release_once(self) -> bool:
        """Whether the counts that select keys can be released as their distinct people."""
        possible = Units() in self.statistics and not self.public and self.selection != "geometric"
        return possible and self._recounts is not True

    @property
    def takes_census(self) -> bool:
        """Whether there is a census of all keys: where it chooses the bound or describes a number."""
        wanted = self.max_keys is None or self.may_release_once or not self.bounds_again
        return wanted and not self.within_max_keys and not self.public

    @property
    def census(self) -> KeyCensus:
        """A census and its price, of all keys or of released ones."""
        return KeyCensus(rho=CENSUS * self.guarantee.rho)

    def plan(self, max_keys: int, census: KeysPerPerson | None = None) -> AggregatePlan:
        """Everything that follows from the parameters, the bound on keys and the census of all keys."""
        recounts = self._recounts
        if recounts is None:
            recounts = census is not None and max_keys > 1 and census.dropped(max_keys).share > RECOUNT_ABOVE
        return AggregatePlan(self, max_keys, recounts)

    def spendings(self) -> list[Spending]:
        """For a bound that is still to be chosen: as if it were `EXAMPLE`; and as if people were not counted again."""
        return self.plan(self.max_keys or EXAMPLE).spendings()

    @property
    def assumptions(self) -> list[str]:
        assumed = []
        if not self.max_keys:
            people = math.ceil(2000 / self.guarantee.epsilon)
            shown = f"Noise and thresholds are shown as if {EXAMPLE} keys per person were chosen."
            assumed.append(f"{shown} The choice needs some {people:,} people to be a good one.")
        if self.max_keys and self._recounts is None and self.may_release_once:
            share = f"{float(RECOUNT_ABOVE):.0%}".replace("%", " %")
            assumed.append(
                f"If bounding drops more than {share} of the (person, key) pairs, people are counted again on the "
                "released keys, for half of what is left after the census."
            )
        return assumed

    def check_affordable(self) -> None:
        """Refuse a budget that cannot buy anything, whatever bounds will be chosen or found and whatever is decided."""
        for max_keys in (self.max_keys,) if self.max_keys else (BOUNDS[0], BOUNDS[-1]):
            for recounts in (False, True) if self._recounts is None else (self._recounts,):
                AggregatePlan(self, max_keys, recounts).check()

    def table(self, rows: Rows, progress: Progress) -> Released:
        plan, counts, census = self._count(rows)
        bounding = [] if census is None else [bounding_record(ALL_KEYS, plan.selection_max_keys, census)]
        progress("selecting keys", 0)
        codes, columns = self._select(plan, counts, rows)
        plan, bounded, census = self._bound_again(replace(plan, found=len(codes)), rows, codes)
        progress("aggregating", 0)
        bounds = bounded.bounds(plan.finders(), rows.rng)
        found = with_found_bounds(bounds)
        shares = {found.get(statistic, statistic): share for statistic, share in plan.shares().items()}
        if plan.released_census is None or census is not None:
            columns |= bounded.columns(shares, rows.rng)
        else:
            measured, people = bounded.columns_and_people(shares, rows.rng)
            columns |= measured
            census = plan.released_census.release(people, rows.rng.child(census=RELEASED_KEYS))
        bounding += [] if census is None else [bounding_record(RELEASED_KEYS, plan.max_keys, census)]
        statistics = [found.get(statistic, statistic) for statistic in self.statistics]
        learned = {**plan.to_dict(statistics), "bounds": describe_bounds(bounds)}
        spent, estimands = plan.spendings(found), plan.estimands(statistics)
        table = build_table(self, rows, codes, statistics, columns, spent, learned, estimands)
        return replace(table, statement={**table.statement, "bounding": bounding})

    def _count(self, rows: Rows) -> tuple[AggregatePlan, Integers, KeysPerPerson | None]:
        """The plan, the people of every key, each in at most L_S keys, and the census of all keys if there is one."""
        if self.public:
            return self.plan(self.max_keys or MAX_SEEN), np.zeros(0, np.int64), None
        contributions, order, most = rows.contributions, rows.order("select"), MAX_SEEN + 1
        rng = rows.rng.child(census=ALL_KEYS)
        if self.max_keys is None:
            census = self.census.release(keys_per_person(contributions, most), rng)
            plan = self.plan(census.smallest_bound(MAX_DROPPED), census)
            return plan, count_people(contributions, order, max_keys=plan.selection_max_keys), census
        bound = self.selection_max_keys or self.max_keys
        if not self.takes_census:
            return self.plan(self.max_keys), count_people(contributions, order, max_keys=bound), None
        counts, people = count_people_and_keys(contributions, order, max_keys=bound, most=most)
        census = self.census.release(people, rng)
        return self.plan(self.max_keys, census), counts, census

    def _select(self, plan: AggregatePlan, counts: Integers, rows: Rows) -> tuple[Integers, dict[str, Column]]:
        """The codes of S, and the noisy counts that selected them where these are the answer."""
        if plan.rule is None:
            return np.arange(rows.contributions.size), {}
        return select_keys(plan.rule, counts, rows.rng.child(purpose="select"), publishes_counts=plan.one_release)

    def _bound_again(
        self, plan: AggregatePlan, rows: Rows, codes: Integers
    ) -> tuple[AggregatePlan, Bounded, KeysPerPerson | None]:
        """The rows of S, each person in at most L_M keys; and the census of S, where that is what chooses L_M."""
        if not self.bounds_again:
            bound = plan.selection_max_keys
            return plan, Bounded(rows.contributions, rows.order("select"), bound, codes, within=False), None
        contributions, places = rows.contributions, codes
        if self.pipeline == "naive" and not self.public and len(codes):
            # Codes of the joined rows ascend as those of the source do: the n-th key of S has code n.
            contributions, places = contributions.restrict(codes), np.arange(len(codes))
        bounded = Bounded(contributions, rows.order("aggregate"), plan.max_keys, places)
        if self.max_keys is not None or plan.released_census is None:
            return plan, bounded, None
        census = plan.released_census.release(bounded.people_by_keys(), rows.rng.child(census=RELEASED_KEYS))
        plan = replace(plan, chosen=census.smallest_bound(MAX_DROPPED))
        return plan, replace(bounded, max_keys=plan.max_keys), census
