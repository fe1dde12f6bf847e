"""Statistics of every key that enough people have (Plume): bound, select, bound again, aggregate.

    1  each person keeps at most L_S keys, by a keyed order; distinct people of every key are counted, or weights of
       people are added up where that is not the answer
    2  S: the keys whose noisy number reaches a threshold, or a public list
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.accounting.gaussian import largest_rho
from sfumato.accounting.naming import NamingLoss
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.census import BOUNDS, MAX_SEEN, KeysPerPerson
from sfumato.mechanisms.noise import Integers
from sfumato.release.aggregate_plan import CENSUS, CHOOSING, AggregatePlan, NoiseBudget
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, bounding_record
from sfumato.release.guarantee import ReleaseGuarantee, Spending
from sfumato.release.measurement import Bounded, build_table, describe_bounds, with_found_bounds
from sfumato.release.request import ProgressCallback, ReleaseRequest, Rows, describe, without_bounds
from sfumato.release.selection import WEIGHTED, Selection, select_by_weights, select_keys
from sfumato.release.statistics.base import Series, SummedStatistic
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

Pipeline: TypeAlias = Literal["plume", "naive", "fast"]

NoiseKind: TypeAlias = Literal["gaussian", "laplace", "either"]

ALGORITHM = "sfumato-aggregates/6"
"""In digests and statements. 5 had a larger census, and added the delta of names to that of noise; 4 had Laplace noise
with other ends; 3 had another order of keys; 2 had no weights, no exact accounting and no Laplace noise; 1 had no
census, and is not named there."""

MAX_DROPPED = Fraction(1, 20)
"""With `max_keys="auto"`, about so many (person, key) pairs are dropped at most."""

RECOUNT_ABOVE = Fraction(1, 10)
"""Where bounding drops more than this, people are counted again on the released keys."""

EXAMPLE = 16


@dataclass(frozen=True, kw_only=True)
class Aggregates(ReleaseRequest):
    """Statistics by key. `max_keys` None is to be chosen by a census.

    `within_max_keys`: the caller states that every person has at most `max_keys` keys. They are bounded all the same.
    `noise`: all of it is Gaussian, or Laplace noise; "either" is decided by a census with Laplace noise.
    """

    max_keys: int | None
    within_max_keys: bool = False
    selection_max_keys: int | None = None
    selection: Selection = "auto"
    selection_share: Fraction | None = None
    pipeline: Pipeline = "plume"
    rebound: bool | None = None
    public: bool = False
    noise: NoiseKind = "gaussian"

    @property
    def method(self) -> str:
        return self.pipeline

    @property
    def parameters(self) -> dict[str, Any]:
        return {"algorithm": ALGORITHM, **self._since_census, "noise": self.noise}

    @property
    def _since_census(self) -> dict[str, Any]:
        return {**self._asked, "within_max_keys": self.within_max_keys}

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
        second = {"algorithm": "sfumato-aggregates/2", **self._since_census}
        third = {**second, "algorithm": "sfumato-aggregates/3", "noise": self.noise}
        fourth = {**third, "algorithm": "sfumato-aggregates/4"}
        fifth = {**third, "algorithm": "sfumato-aggregates/5"}
        with_census = (fifth, fourth, third, second)
        return with_census if self.within_max_keys else (*with_census, self._asked)

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
        counts = self.selection not in ("geometric", *WEIGHTED)
        return Units() in self.statistics and not self.public and counts and self._recounts is not True

    @property
    def takes_census(self) -> bool:
        """Whether there is a census of all keys: where it chooses the bound or describes a number."""
        by_weights = self.selection in WEIGHTED or (self.selection == "auto" and self.bounds_again)
        wanted = (self.max_keys is None and not by_weights) or self.may_release_once or not self.bounds_again
        return wanted and not self.within_max_keys and not self.public

    @cached_property
    def budget(self) -> NoiseBudget:
        """For all steps, and for the census that decides which noise the others have."""
        asked, guarantee = self.guarantee.asked, self.guarantee
        if self.noise != "gaussian" and asked is not None:
            return NoiseBudget(asked, self._whole_delta, epsilon=asked, counting=self._counting)
        if not self.is_exact or asked is None:
            return NoiseBudget(guarantee.rho, guarantee.delta, counting=self._counting)
        bounds = (self.max_keys,) if self.max_keys else (BOUNDS[0], MAX_SEEN)
        branches = (False, True) if self._recounts is None else (self._recounts,)
        plans = [partial(AggregatePlan, self, bound, recounts) for bound in bounds for recounts in branches]
        return self._exact_budget(plans, asked)

    @property
    def _whole_delta(self) -> Fraction:
        """For naming keys, where nothing else needs a delta."""
        return Fraction(0) if self.public else self.guarantee.epsilon_delta

    def _exact_budget(self, plans: Sequence[Callable[[NoiseBudget], AggregatePlan]], epsilon: Fraction) -> NoiseBudget:
        """The largest with which all of these plans, one of which is followed, have this epsilon."""
        named = self.guarantee.delta

        def budget(rho: Fraction) -> NoiseBudget:
            return NoiseBudget(rho, named, counting=self._counting)

        def loss(rho: Fraction) -> NamingLoss:
            return NamingLoss.of_any([each.parts() for plan in plans for each in plan(budget(rho)).possible()])

        return budget(largest_rho(loss, epsilon, self.guarantee.epsilon_delta, named))

    @property
    def _counting(self) -> Fraction:
        """What a census takes of the budget."""
        return CENSUS if self.max_keys else CHOOSING

    @cached_property
    def is_exact(self) -> bool:
        """Whether its noise is accounted exactly: where an epsilon is asked for, and no step has any other noise."""
        if self.guarantee.asked is None:
            return False
        if self.noise != "gaussian":
            return True
        known = NoiseBudget(self.guarantee.rho, self.guarantee.delta)
        plan = AggregatePlan(self, self.max_keys or EXAMPLE, self._recounts is True, known)
        return all(each.gaussian for each in plan.spendings())

    def plan(self, max_keys: int, census: KeysPerPerson | None = None) -> AggregatePlan:
        """Everything that follows from the parameters, the bound on keys and the census of all keys."""
        recounts = self._recounts
        if recounts is None:
            recounts = census is not None and max_keys > 1 and census.dropped(max_keys).share > RECOUNT_ABOVE
        plan = AggregatePlan(self, max_keys, recounts, self.budget)
        return plan if self.noise != "either" else self._after_census(plan)

    def _after_census(self, plan: AggregatePlan) -> AggregatePlan:
        """The plan with the better noise, for what a census with Laplace noise has left of epsilon."""
        census = self.budget.census()
        left = self.budget.amount - (census.epsilon or 0)
        pure = replace(plan, prepaid=census, budget=replace(self.budget, amount=left))
        made = partial(replace, plan, prepaid=census)
        gaussian = made(budget=self._exact_budget([lambda budget: made(budget=budget)], left))
        return pure if not plan.recounts and is_better(pure, gaussian) else gaussian

    def with_better_noise(self) -> Aggregates:
        """The same request with Laplace noise, where that is possible and better for every number."""
        if not self.can_be_pure:
            return self
        if self.max_keys is None:
            decides = self.takes_census and self.statistics == (Units(),) and self._recounts is None
            return replace(self, noise="either") if decides else self
        pure = replace(self, noise="laplace")
        plans = [request.plan(self.max_keys) for request in (pure, self)]
        return pure if _possible(plans[0]) and is_better(*plans) else self

    @property
    def can_be_pure(self) -> bool:
        """Whether all noise can be Laplace noise."""
        names_keys = self.selection in ("auto", "laplace", "truncated_laplace", "geometric")
        sums = all(isinstance(each, SummedStatistic) for each in self.statistics)
        return self.guarantee.asked is not None and names_keys and sums and not without_bounds(self.statistics)

    def spendings(self) -> list[Spending]:
        """For a bound that is still to be chosen: as if it were `EXAMPLE`; and as if people were not counted again."""
        return self._example.spendings()

    @property
    def promised(self) -> ReleaseGuarantee:
        return self._example.promised

    @cached_property
    def _example(self) -> AggregatePlan:
        return self.plan(self.max_keys or EXAMPLE)

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
                plan = AggregatePlan(self, max_keys, recounts, self.budget)
                (plan if self.noise != "either" else self._after_census(plan)).check()

    def table(self, rows: Rows, progress: ProgressCallback) -> Released:
        plan, census = self._choose_plan(rows)
        bounding = [] if census is None else [bounding_record(ALL_KEYS, plan.selection_max_keys, census)]
        progress("selecting keys", 0)
        codes, columns = self._select(plan, rows)
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
        table = build_table(self, rows, codes, statistics, columns, spent, learned, estimands, plan.promised)
        return replace(table, statement={**table.statement, "bounding": bounding})

    def _choose_plan(self, rows: Rows) -> tuple[AggregatePlan, KeysPerPerson | None]:
        """The plan, and the census of all keys, if it is taken."""
        if not self.takes_census:
            return self.plan(self.max_keys or MAX_SEEN), None
        people = rows.contributions.keys_per_person(MAX_SEEN + 1)
        census = self.budget.census().release(people, rows.rng.child(census=ALL_KEYS))
        return self.plan(self.max_keys or census.smallest_bound(MAX_DROPPED), census), census

    def _select(self, plan: AggregatePlan, rows: Rows) -> tuple[Integers, dict[str, Series]]:
        """The codes of S, and the noisy counts that selected them where these are the answer."""
        if not plan.rules:
            return np.arange(rows.contributions.size), {}
        if plan.weighted_rules:
            return select_by_weights(plan.weighted_rules, rows), {}
        [rule] = plan.rules
        counts = rows.contributions.count_people(rows.order("select"), max_keys=plan.selection_max_keys)
        return select_keys(rule, counts, rows.rng.child(purpose="select"), publishes_counts=plan.one_release)

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


def is_better(one: AggregatePlan, other: AggregatePlan) -> bool:
    """Whether nothing is worse under the first plan than under the second."""
    return all(mine <= yours for mine, yours in zip(one.errors(), other.errors(), strict=True))


def _possible(plan: AggregatePlan) -> bool:
    try:
        plan.check()
    except InvalidArgument:
        return False
    return True
