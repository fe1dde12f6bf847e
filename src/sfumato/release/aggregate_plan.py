"""How the budget of an aggregates release is divided: everything that follows from parameters and released values.

    census of all keys          where it decides something or describes a number: a twentieth if it chooses L, else a
                                fortieth
    selection of keys           as much as a statistic, or what the caller says; nothing where keys are public
    census of released keys     as much, where something is measured on them and a person may have more than L
    bounds                      a tenth, where some are to be found
    statistics                  the rest, in equal parts

What is divided is rho, for Gaussian noise, or epsilon, for Laplace noise. The steps add up to the guarantee of the
request, exactly, whatever was released on the way. Proof: proofs/release.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.naming import NamingPart
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.bounds import NumericBounds
from sfumato.mechanisms.census import KeyCensus
from sfumato.mechanisms.estimates import Share
from sfumato.mechanisms.key_selection import GaussianRule, KeyRule, ThresholdRule
from sfumato.mechanisms.weighted_selection import WeightedRule
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, Estimand
from sfumato.release.guarantee import ReleaseGuarantee, Spending
from sfumato.release.measurement import estimand_of, finders, laws_in_words
from sfumato.release.request import describe, without_bounds
from sfumato.release.selection import (
    PEOPLE,
    WEIGHTED,
    WEIGHTED_KEYS,
    Selection,
    SelectionBudget,
    describe_rule,
    halfway,
)
from sfumato.release.statistics.base import Statistic, describe_law
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.statistics.units import Units

if TYPE_CHECKING:
    from sfumato.release.aggregates import Aggregates

CENSUS, CHOOSING = Fraction(1, 40), Fraction(1, 20)
"""What each census takes of the budget, and what it takes where it chooses L."""

FINDING = Fraction(1, 10)
"""What finding bounds takes of the budget, all together."""


@dataclass(frozen=True, slots=True)
class NoiseBudget:
    """What a plan may spend: `amount` is rho of Gaussian noise or, with `epsilon`, epsilon of Laplace noise.

    `delta` is for naming keys. `epsilon` is that of all steps together, also of those that are paid already. `counting`
    is the share that each census takes.
    """

    amount: Fraction
    delta: Fraction
    epsilon: Fraction | None = None
    counting: Fraction = CENSUS

    @property
    def is_pure(self) -> bool:
        return self.epsilon is not None

    def share(self, amount: Fraction, max_keys: int) -> Share:
        return Share(self.rho(amount), max_keys, amount if self.is_pure else None)

    def census(self, keys: int | None = None) -> KeyCensus:
        """The census that this budget pays; `keys` is how many there are in all, where that is public."""
        amount = self.counting * self.amount
        return KeyCensus(rho=self.rho(amount), keys=keys, epsilon=amount if self.is_pure else None)

    def rho(self, amount: Fraction) -> Fraction:
        """The zCDP of a part. Of Laplace noise, so much that all parts make epsilon^2 / 2, however it is divided."""
        return amount if self.epsilon is None else amount * self.epsilon / 2


@dataclass(frozen=True)
class AggregatePlan:
    """The bounds, the selection rules and the shares of a request.

    bound        L, the keys that a person counts for
    recounts     whether people are counted again on the released keys
    prepaid      the census of all keys, where it is not paid from `budget`
    found        how many keys are released, once that is known: a person has no more of them
    chosen       L of the released keys, where their census chose it
    """

    request: Aggregates
    bound: int
    recounts: bool
    budget: NoiseBudget
    prepaid: KeyCensus | None = None
    found: int | None = None
    chosen: int | None = None

    @property
    def max_keys(self) -> int:
        """The keys that a person counts for in what is measured on the released keys."""
        most = self.bound if self.chosen is None else self.chosen
        return most if self.found is None else max(min(most, self.found), 1)

    @property
    def selection_max_keys(self) -> int:
        """The keys that a person counts for in selection: weights are made for many."""
        return self.rules[0].max_keys if self.rules else self.bound

    @cached_property
    def one_release(self) -> bool:
        """Whether the counts that select the keys are released as their distinct people."""
        return self.request.may_release_once and not self.recounts

    @property
    def selection(self) -> Selection:
        """What selects the keys: by default, what keeps the smallest ones."""
        if self.request.selection != "auto":
            return self.request.selection
        if not self.budget.is_pure:
            by_weights = not self.one_release and self.request.bounds_again
            return "weighted_twice" if by_weights else "gaussian"
        if not self.one_release:
            return "geometric"
        names: tuple[Selection, ...] = ("laplace", "truncated_laplace")
        return min(names, key=lambda name: halfway(self._rules(name)[0]))

    @property
    def _measured(self) -> list[Statistic]:
        """The statistics that have a share of their own."""
        return [each for each in self.request.statistics if not (self.one_release and isinstance(each, Units))]

    @property
    def census(self) -> KeyCensus | None:
        """The census of all keys, if it is taken."""
        return self.prepaid or (self.budget.census() if self.request.takes_census else None)

    @property
    def released_census(self) -> KeyCensus | None:
        """The census of released keys, if it is taken: not where no person can have more of them than L."""
        too_few = self.found is not None and self.found <= (self.bound if self.request.max_keys else 1)
        return None if too_few or not self._may_take_released else self.budget.census(self.found)

    @property
    def _may_take_released(self) -> bool:
        return self.request.bounds_again and bool(self._measured) and not self.request.within_max_keys

    @property
    def _finding(self) -> Fraction:
        return FINDING * self.budget.amount if without_bounds(self.request.statistics) else Fraction(0)

    @property
    def _rest(self) -> Fraction:
        """For selection and statistics. Selection comes before it is known whether released keys have a census."""
        censuses = (self.census is not None and self.prepaid is None) + self._may_take_released
        return (1 - censuses * self.budget.counting) * self.budget.amount - self._finding

    @property
    def selecting(self) -> Fraction:
        """What selection takes of the budget: as much as a statistic, or `selection_share`."""
        if self.request.public:
            return Fraction(0)
        if not self._measured:
            return self._rest
        given = self.request.selection_share
        return self._rest * (Fraction(1, 1 + len(self._measured)) if given is None else given)

    def shares(self) -> dict[Statistic, Share]:
        """What each statistic that is measured may spend."""
        measured = self._measured
        left = self._rest - self.selecting
        if self._may_take_released and self.released_census is None:
            left += self.budget.counting * self.budget.amount
        return {each: self.budget.share(left / len(measured), self.max_keys) for each in measured}

    def finders(self) -> dict[Numeric, NumericBounds]:
        """How bounds that were not given are found."""
        return finders(without_bounds(self.request.statistics), self._finding, self.max_keys)

    @cached_property
    def rules(self) -> tuple[KeyRule, ...]:
        """What selects the keys, a rule for each round; none where they are public."""
        return () if self.request.public else self._rules(self.selection)

    def _rules(self, selection: Selection) -> tuple[KeyRule, ...]:
        many = selection in WEIGHTED and not self.request.within_max_keys
        most = self.request.selection_max_keys or (WEIGHTED_KEYS if many else self.bound)
        share = self.budget.share(self.selecting, most)
        return SelectionBudget(share.rho, self.budget.delta, most, share.epsilon).rules(selection)

    @property
    def weighted_rules(self) -> list[WeightedRule]:
        return [rule for rule in self.rules if isinstance(rule, WeightedRule)]

    def estimands(self, statistics: Sequence[Statistic]) -> list[Estimand]:
        """Which number the intervals of each statistic are for."""
        if self.request.within_max_keys:
            return [estimand_of(each, None) for each in statistics]
        again = None if self.found is not None and self.found <= self.max_keys else RELEASED_KEYS
        measured = again if self.request.bounds_again else ALL_KEYS
        selected = ALL_KEYS if self.one_release else measured
        return [estimand_of(each, selected if isinstance(each, Units) else measured) for each in statistics]

    def to_dict(self, statistics: Sequence[Statistic]) -> dict[str, Any]:
        """What a statement says beyond the parameters of the request."""
        threshold = next((rule.threshold for rule in self.rules if isinstance(rule, ThresholdRule)), None)
        return {
            "max_keys": self.max_keys,
            "selection_max_keys": self.selection_max_keys if self.rules else None,
            "selection": self.selection if self.rules else "public keys",
            "threshold": threshold,
            "one_release": self.one_release,
            "statistics": describe(statistics),
        }

    def check(self) -> None:
        """Refuse noise that cannot be drawn, and thresholds that nothing reaches."""
        self.spendings()
        if any(halfway(rule) > PEOPLE for rule in self.rules[-1:]):
            problem = "is too small for this max_keys: no key could ever be kept; give more, or a smaller max_keys"
            raise InvalidArgument(self.request.guarantee.given, problem)

    def spendings(self, found: Mapping[Statistic, Statistic] | None = None) -> list[Spending]:
        """What the budget goes to; once bounds are `found`, with the noise that they need."""
        spent = [] if self.census is None else [describe_census(ALL_KEYS, self.census)]
        spent += self._selection_spendings()
        if self.released_census is not None:
            spent.append(describe_census(RELEASED_KEYS, self.released_census))
        return spent + laws_in_words(self.finders(), self._finding, self.shares(), found)

    def _selection_spendings(self) -> Iterator[Spending]:
        purpose = "selection of keys, and units" if self.one_release else "selection of keys"
        rounds = [""] if len(self.rules) == 1 else [", first round", ", second round"]
        for rule, which in zip(self.rules, rounds, strict=False):
            law, rho = describe_rule(rule), self.budget.rho(self.selecting) if len(self.rules) == 1 else rule.rho
            epsilon = self.selecting if self.budget.is_pure else None
            yield Spending(purpose + which, law, rho, rule.delta, rule.group_delta, gaussian_steps(rule), epsilon)

    @property
    def promised(self) -> ReleaseGuarantee:
        """What it promises: by exact accounting, if all of its noise can be accounted so."""
        spent = self.spendings()
        return self.request.guarantee.exact(spent) if self.request.is_exact else self.request.guarantee

    def possible(self) -> list[AggregatePlan]:
        """It, and where more is decided on the way, the plans with the least noise that it may become.

        Fewer keys need less noise for the same zCDP, and less noise is accounted at a little more.
        """
        return [self, replace(self, found=1), replace(self, chosen=1)] if self._measured else [self]

    def parts(self) -> list[NamingPart]:
        """All of its Gaussian noise, in the order in which it is drawn, and the delta of naming keys."""
        after = [step for statistic, share in self.shares().items() for step in statistic.steps(share)]
        return [
            *(NamingPart(census_steps(census)) for census in (self.census,) if census and not self.prepaid),
            *(NamingPart(gaussian_steps(rule), rule.delta) for rule in self.rules),
            *(NamingPart(census_steps(census)) for census in (self.released_census,) if census),
            NamingPart(tuple(after)),
        ]

    def errors(self) -> list[float]:
        """What is to be small: the people that a key needs, and the deviation of the noise on every sum."""
        needed: list[float] = [halfway(rule, self.bound) for rule in self.rules[-1:]]
        if self.one_release:
            needed += [rule.noise.deviation for rule in self.rules if isinstance(rule, ThresholdRule)]
        laws = (law for statistic, share in self.shares().items() for law in statistic.noises(share))
        return needed + [law.deviation for law in laws]


def gaussian_steps(rule: KeyRule) -> tuple[GaussianStep, ...]:
    """The noise of a rule for exact accounting; none where it is not Gaussian."""
    return (rule.step,) if isinstance(rule, GaussianRule | WeightedRule) else ()


def census_steps(census: KeyCensus) -> tuple[GaussianStep, ...]:
    return (GaussianStep.counts(census.noise.parameter, 1),) if census.epsilon is None else ()


def describe_census(keys: str, census: KeyCensus) -> Spending:
    law = f"{describe_law(census.noise)}, deviation {census.noise.deviation:,.4g}"
    steps, epsilon = census_steps(census), census.epsilon
    return Spending(f"census of {keys}", law, census.rho, gaussian=steps, epsilon=epsilon)
