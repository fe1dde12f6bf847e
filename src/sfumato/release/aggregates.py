"""Statistics of every key that enough people have (Plume): bound, select, bound again, aggregate.

    1  each person keeps at most L_S keys, by a keyed order; distinct people of every key are counted
    2  S: the keys whose noisy count reaches a threshold, or a public list
    3  the original rows of S; each person keeps at most L_M keys of S, and of each key what its statistics allow
    4  for every key of S, data or not: the statistics, with noise

Guarantee: delta-approximate zCDP of the sum of what the steps spend, `ReleaseGuarantee` of the request, for one person
more or less. S is released, so steps 3 and 4 may depend on it. Proof: proofs/release.md.

Pipelines: `plume` is the above, by codes that were made once; `naive` joins the source with S and codes it again (the
same table, later); `fast` leaves step 3 out, and people waste places on keys that are not released.

Where the statistic is distinct people, the noisy counts of step 2 are the answer: one release has the whole budget.
Counting again, on S, costs half of the budget, and pays where bounding takes more than that: below L = `REBOUND_BELOW`
(benchmarks/RESULTS.md, "Keys retained": from there on one release has more keys within 10 %); or where L_M is not L_S,
or when asked to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.bounds import NumericBounds
from sfumato.mechanisms.intervals import selected_interval
from sfumato.mechanisms.key_selection import (
    GaussianRule,
    GeometricRule,
    KeyRule,
    KeySelection,
    LaplaceRule,
    ThresholdRule,
)
from sfumato.mechanisms.noise import DiscreteGaussian, Integers
from sfumato.release.bounding import count_people, keys_per_person
from sfumato.release.guarantee import Spending, root
from sfumato.release.measurement import Bounded, build_table, describe_bounds, with_found_bounds
from sfumato.release.request import Progress, ReleaseRequest, Rows, describe, without_bounds
from sfumato.release.statistics.base import Column, Share, Statistic
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

Pipeline: TypeAlias = Literal["plume", "naive", "fast"]
Selection: TypeAlias = Literal["auto", "laplace", "geometric", "gaussian"]

REBOUND_BELOW = 64
PEOPLE = 8 * 10**9
"""A threshold above the number of people on earth keeps nothing."""

CHOOSING = Fraction(1, 20)
"""What `max_keys="auto"` takes of the budget."""

KEPT_WHOLE = Fraction(19, 20)
"""With `max_keys="auto"`, about so many people keep all of their keys."""

BOUNDS = tuple(dict.fromkeys(math.ceil(2 ** (half / 2)) for half in range(25)))
"""The bounds that can be chosen: 1, 2, 3, 4, 6, 8, 12, ..., 4096."""

STANDS_OUT = 3
"""So many deviations make a number of people count for that choice: the noise of many empty bins is not people."""

EXAMPLE = 16
FINDING = Fraction(1, 10)
"""What finding bounds takes of the budget, all together."""

_WIDEST = Fraction(1), Fraction(2)
"""Of the bounds that can be found, these need the most noise for their step: they are furthest from 0."""


@dataclass(frozen=True, kw_only=True)
class Aggregates(ReleaseRequest):
    """Statistics by key. `max_keys` None is to be chosen from the data, for a part of the budget."""

    max_keys: int | None
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

    def plan(self, max_keys: int) -> AggregatePlan:
        """Everything that follows from the parameters once the bound on keys is known."""
        return AggregatePlan(self, max_keys)

    def spendings(self) -> list[Spending]:
        """For a bound that is still to be chosen: as if it were `EXAMPLE`."""
        return [*self._choosing(), *self.plan(self.max_keys or EXAMPLE).spendings()]

    @property
    def assumptions(self) -> list[str]:
        if self.max_keys:
            return []
        assumed = f"Noise and thresholds are shown as if {EXAMPLE} keys per person were chosen."
        people = math.ceil(2000 / self.guarantee.epsilon)
        return [f"{assumed} The choice needs some {people:,} people to be a good one."]

    def check_affordable(self) -> None:
        """Refuse a budget that cannot buy anything, whatever bound will be chosen and whatever bounds will be found."""
        for max_keys in (self.max_keys,) if self.max_keys else (BOUNDS[0], BOUNDS[-1]):
            self.plan(max_keys).check()

    @property
    def choosing(self) -> Fraction:
        """What choosing the bound on keys takes of rho."""
        return Fraction(0) if self.max_keys else CHOOSING * self.guarantee.rho

    def _choosing(self) -> list[Spending]:
        if self.max_keys:
            return []
        law = f"people by number of keys: discrete Gaussian, deviation {self._census.deviation:,.4g}"
        return [Spending("bound on keys a person", law, self.choosing)]

    @property
    def _census(self) -> DiscreteGaussian:
        """Of the number of people at each of BOUNDS: a person is at one of them."""
        return DiscreteGaussian(1 / (2 * self.choosing))

    def table(self, rows: Rows, progress: Progress) -> Released:
        plan = self.plan(self.max_keys or self._choose_max_keys(rows))
        codes, columns = self._select(plan, rows, progress)
        plan = replace(plan, found=len(codes))
        bounded = self._bound(plan, rows, codes)
        progress("aggregating", 0)
        bounds = bounded.bounds(plan.finders(), rows.rng)
        found = with_found_bounds(bounds)
        shares = {found.get(statistic, statistic): share for statistic, share in plan.shares().items()}
        columns |= bounded.columns(shares, rows.rng)
        statistics = [found.get(statistic, statistic) for statistic in self.statistics]
        spent = [*self._choosing(), *plan.spendings(found)]
        learned = {**plan.to_dict(statistics), "bounds": describe_bounds(bounds)}
        return build_table(self, rows, codes, statistics, columns, spent, learned)

    def _choose_max_keys(self, rows: Rows) -> int:
        """The bound on keys: a private quantile of keys per person, from noisy numbers of people at each bound."""
        people = keys_per_person(rows.contributions, BOUNDS[-1])
        enough = np.searchsorted(BOUNDS, np.arange(1, len(people)))  # the first bound that keeps them all
        exact = np.zeros(len(BOUNDS), np.int64)
        np.add.at(exact, enough, people[1:])
        law = self._census
        noisy = exact + law.sample(rows.rng.stream(purpose="max_keys", variance=law.sigma_squared), len(BOUNDS))
        sure = np.where(noisy < STANDS_OUT * law.deviation, 0, noisy)
        ends = np.cumsum(sure if sure.any() else np.maximum(noisy, 0))
        return BOUNDS[int(np.argmax(ends >= float(KEPT_WHOLE) * ends[-1]))]

    def _select(self, plan: AggregatePlan, rows: Rows, progress: Progress) -> tuple[Integers, dict[str, Column]]:
        """The codes of S, and the noisy counts that selected them where these are the answer."""
        contributions = rows.contributions
        if plan.rule is None:
            return np.arange(contributions.size), {}
        counts = count_people(contributions, rows.order("select"), max_keys=plan.selection_max_keys)
        progress("selecting keys", 0)
        # Keys without people are never kept. Noise is independent from key to key: it does not matter which gets which.
        present = np.flatnonzero(counts)
        selection = plan.rule.select(counts[present], rows.rng.child(purpose="select"))
        codes = present[selection.kept]
        return codes, selection_columns(plan.rule, selection) if plan.one_release else {}

    def _bound(self, plan: AggregatePlan, rows: Rows, codes: Integers) -> Bounded:
        if self.pipeline == "fast" and not self.public:
            return Bounded(rows.contributions, rows.order("select"), plan.selection_max_keys, codes, within=False)
        if self.pipeline == "naive" and not self.public and len(codes):
            # Codes of the joined rows ascend as those of the source do: the n-th key of S has code n.
            restricted = rows.contributions.restrict(codes)
            return Bounded(restricted, rows.order("aggregate"), plan.max_keys, np.arange(len(codes)))
        return Bounded(rows.contributions, rows.order("aggregate"), plan.max_keys, codes)


@dataclass(frozen=True)
class AggregatePlan:
    """The bounds, the selection rule and the shares of a request, given its bound on keys.

    Once `found` keys are selected, which is public, a person has at most so many of them.
    """

    request: Aggregates
    bound: int
    found: int | None = None

    @property
    def max_keys(self) -> int:
        return self.bound if self.found is None else max(min(self.bound, self.found), 1)

    @property
    def selection_max_keys(self) -> int:
        return self.request.selection_max_keys or self.bound

    @property
    def rebound(self) -> bool:
        """Whether distinct people are counted again on the selected keys."""
        request = self.request
        if request.rebound is not None:
            return request.rebound
        if request.pipeline != "plume":
            return request.pipeline == "naive"
        alone = request.selection_share is not None and request.statistics == (Units(),)
        if request.max_keys is None and not alone and request.selection_max_keys is None:
            return False  # it was chosen so that most people keep all of their keys
        return alone or self.bound != self.selection_max_keys or self.bound < REBOUND_BELOW

    @cached_property
    def one_release(self) -> bool:
        """Whether the counts that select the keys are released as their distinct people."""
        units = Units() in self.request.statistics and not self.rebound
        return units and not self.request.public and self.request.selection != "geometric"

    @property
    def _measured(self) -> list[Statistic]:
        """The statistics that have a share of their own."""
        return [each for each in self.request.statistics if not (self.one_release and isinstance(each, Units))]

    @property
    def _finding(self) -> Fraction:
        return FINDING * self.request.guarantee.rho if without_bounds(self.request.statistics) else Fraction(0)

    @property
    def _rest(self) -> Fraction:
        return self.request.guarantee.rho - self.request.choosing - self._finding

    @property
    def selecting(self) -> Fraction:
        """What selection takes of rho: as much as a statistic, or `selection_share`."""
        if self.request.public:
            return Fraction(0)
        if not self._measured:
            return self._rest
        given = self.request.selection_share
        return self._rest * (Fraction(1, 1 + len(self._measured)) if given is None else given)

    def shares(self) -> dict[Statistic, Share]:
        """What each statistic that is measured may spend."""
        measured = self._measured
        return {each: Share((self._rest - self.selecting) / len(measured), self.max_keys) for each in measured}

    def finders(self) -> dict[Numeric, NumericBounds]:
        """How bounds that were not given are found."""
        return finders(without_bounds(self.request.statistics), self._finding, self.max_keys)

    @cached_property
    def rule(self) -> KeyRule | None:
        """What selects the keys; None where they are public."""
        if self.request.public:
            return None
        makers = {"gaussian": self._gaussian, "laplace": self._laplace, "geometric": self._geometric}
        if self.request.selection != "auto":
            return makers[self.request.selection]()
        # Only rules whose counts can be released are candidates where their counts are the answer.
        names = ["gaussian", "laplace"] if self.one_release else list(makers)
        rules = [rule for name in names if (rule := _possible(makers[name])) is not None]
        return min(rules, key=halfway) if rules else self._gaussian()

    def _gaussian(self) -> KeyRule:
        return GaussianRule(total=self.selecting, delta=self._delta, max_keys=self.selection_max_keys)

    def _laplace(self) -> KeyRule:
        return LaplaceRule(epsilon=self._epsilon, delta=self._delta, max_keys=self.selection_max_keys)

    def _geometric(self) -> KeyRule:
        return GeometricRule(epsilon=self._epsilon, delta=self._delta, max_keys=self.selection_max_keys)

    @property
    def _delta(self) -> Fraction:
        return self.request.guarantee.delta

    @property
    def _epsilon(self) -> Fraction:
        """A rule of epsilon / L per key is epsilon^2 / (2 L) zCDP."""
        return root(2 * self.selection_max_keys * self.selecting)

    @property
    def threshold(self) -> int | None:
        return self.rule.threshold if isinstance(self.rule, ThresholdRule) else None

    @property
    def selection_name(self) -> str:
        return "public keys" if self.rule is None else self.rule.name

    def to_dict(self, statistics: Sequence[Statistic]) -> dict[str, Any]:
        """What a statement says beyond the parameters of the request."""
        return {
            "max_keys": self.max_keys,
            "selection_max_keys": None if self.rule is None else self.selection_max_keys,
            "selection": self.selection_name,
            "threshold": self.threshold,
            "one_release": self.one_release,
            "statistics": describe(statistics),
        }

    def check(self) -> None:
        """Refuse noise that cannot be drawn, and thresholds that nothing reaches."""
        self.spendings()
        if self.rule is not None and halfway(self.rule) > PEOPLE:
            problem = "is too small for this max_keys: no key could ever be kept; give more, or a smaller max_keys"
            raise InvalidArgument(self.request.guarantee.given, problem)

    def spendings(self, found: Mapping[Statistic, Statistic] | None = None) -> list[Spending]:
        """What the budget goes to; once bounds are `found`, with the noise that they need."""
        spent = []
        if self.rule is not None:
            purpose = "selection of keys, and units" if self.one_release else "selection of keys"
            spent.append(Spending(purpose, _law(self.rule), self.selecting, self._delta, self.rule.group_delta))
        return spent + laws_in_words(self.finders(), self._finding, self.shares(), found)


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
        spent.append(Spending(", ".join(statistic.names), laws if known else "as the bounds will need", share.rho))
    return spent


def selection_columns(rule: KeyRule, selection: KeySelection) -> dict[str, Column]:
    """The noisy counts that selected the keys, with intervals that allow for it."""
    assert isinstance(rule, ThresholdRule)  # noqa: S101
    assert selection.counts is not None  # noqa: S101
    noisy, deviation = selection.counts, rule.noise.deviation
    if isinstance(rule, GaussianRule):
        low, high = selected_interval(noisy, rule.threshold, deviation)
        high = np.maximum(high, noisy)  # close to the threshold it could end below what was released
    else:
        # Beyond the threshold Laplace noise forgets how far it came: up to there, any smaller count explains it.
        scale, width = float(rule.noise.parameter), rule.noise.half_width()
        low = np.where(noisy - rule.threshold < scale * math.log(40), 1, np.maximum(noisy - width, 1))
        high = noisy + width
    ends = {"units_low": low, "units_high": high, "units_deviation": np.full(len(noisy), deviation)}
    return {"units": noisy, **ends}


def halfway(rule: KeyRule) -> int:
    """The number of people with which a key is kept about half of the time."""
    if isinstance(rule, ThresholdRule):
        return rule.threshold
    assert isinstance(rule, GeometricRule)  # noqa: S101
    low, high = 0, 1
    while float(rule.probabilities(np.array([high]))[0]) < 0.5 and high <= PEOPLE:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rule.probabilities(np.array([middle]))[0] >= 0.5 else (middle, high)
    return high


def _law(rule: KeyRule) -> str:
    if isinstance(rule, ThresholdRule):
        return (
            f"discrete {rule.noise.family.title()}, deviation {rule.noise.deviation:,.4g}, threshold {rule.threshold:,}"
        )
    return f"truncated geometric, a key of {halfway(rule):,} people is kept half of the time"


def _possible(make: Callable[[], KeyRule]) -> KeyRule | None:
    """The rule, if its noise can be drawn and its threshold be computed."""
    try:
        rule = make()
        halfway(rule)
    except InvalidArgument:
        return None
    return rule
