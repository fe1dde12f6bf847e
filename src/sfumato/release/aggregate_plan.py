"""How the budget of an aggregates release is divided: everything that follows from parameters and released values.

    census of all keys          a twentieth, where it decides something or describes a number
    selection of keys           as much as a statistic, or what the caller says; nothing where keys are public
    census of released keys     a twentieth, where something is measured on them and a person may have more than L
    bounds                      a tenth, where some are to be found
    statistics                  the rest, in equal parts

The steps add up to the guarantee of the request, exactly, whatever was released on the way. Proof: proofs/release.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.bounds import NumericBounds
from sfumato.mechanisms.census import KeyCensus
from sfumato.mechanisms.key_selection import KeyRule, ThresholdRule
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, Estimand
from sfumato.release.guarantee import Spending
from sfumato.release.measurement import estimand_of, finders, laws_in_words
from sfumato.release.request import describe, without_bounds
from sfumato.release.selection import PEOPLE, SelectionBudget, describe_rule, halfway
from sfumato.release.statistics.base import Share, Statistic
from sfumato.release.statistics.numeric import Numeric
from sfumato.release.statistics.units import Units

if TYPE_CHECKING:
    from sfumato.release.aggregates import Aggregates

FINDING = Fraction(1, 10)
"""What finding bounds takes of the budget, all together."""


@dataclass(frozen=True)
class AggregatePlan:
    """The bounds, the selection rule and the shares of a request.

    bound        L, the keys that a person counts for
    recounts     whether people are counted again on the released keys
    found        how many keys are released, once that is known: a person has no more of them
    chosen       L of the released keys, where their census chose it
    """

    request: Aggregates
    bound: int
    recounts: bool
    found: int | None = None
    chosen: int | None = None

    @property
    def max_keys(self) -> int:
        """The keys that a person counts for in what is measured on the released keys."""
        most = self.bound if self.chosen is None else self.chosen
        return most if self.found is None else max(min(most, self.found), 1)

    @property
    def selection_max_keys(self) -> int:
        return self.request.selection_max_keys or self.bound

    @cached_property
    def one_release(self) -> bool:
        """Whether the counts that select the keys are released as their distinct people."""
        return self.request.may_release_once and not self.recounts

    @property
    def _measured(self) -> list[Statistic]:
        """The statistics that have a share of their own."""
        return [each for each in self.request.statistics if not (self.one_release and isinstance(each, Units))]

    @property
    def released_census(self) -> KeyCensus | None:
        """The census of released keys, if it is taken: not where no person can have more of them than L."""
        too_few = self.found is not None and self.found <= (self.bound if self.request.max_keys else 1)
        return None if too_few or not self._may_take_released else replace(self.request.census, keys=self.found)

    @property
    def _may_take_released(self) -> bool:
        return self.request.bounds_again and bool(self._measured) and not self.request.within_max_keys

    @property
    def _finding(self) -> Fraction:
        return FINDING * self.request.guarantee.rho if without_bounds(self.request.statistics) else Fraction(0)

    @property
    def _rest(self) -> Fraction:
        """For selection and statistics. Selection comes before it is known whether released keys have a census."""
        censuses = self.request.takes_census + self._may_take_released
        return self.request.guarantee.rho - censuses * self.request.census.rho - self._finding

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
        left = self._rest - self.selecting
        if self._may_take_released and self.released_census is None:
            left += self.request.census.rho
        return {each: Share(left / len(measured), self.max_keys) for each in measured}

    def finders(self) -> dict[Numeric, NumericBounds]:
        """How bounds that were not given are found."""
        return finders(without_bounds(self.request.statistics), self._finding, self.max_keys)

    @cached_property
    def rule(self) -> KeyRule | None:
        """What selects the keys; None where they are public."""
        if self.request.public:
            return None
        budget = SelectionBudget(self.selecting, self.request.guarantee.delta, self.selection_max_keys)
        return budget.choose_rule(self.request.selection, publishes_counts=self.one_release)

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
        return {
            "max_keys": self.max_keys,
            "selection_max_keys": None if self.rule is None else self.selection_max_keys,
            "selection": "public keys" if self.rule is None else self.rule.name,
            "threshold": self.rule.threshold if isinstance(self.rule, ThresholdRule) else None,
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
        spent = [describe_census(ALL_KEYS, self.request.census)] if self.request.takes_census else []
        if self.rule is not None:
            purpose = "selection of keys, and units" if self.one_release else "selection of keys"
            law, delta = describe_rule(self.rule), self.request.guarantee.delta
            spent.append(Spending(purpose, law, self.selecting, delta, self.rule.group_delta))
        if self.released_census is not None:
            spent.append(describe_census(RELEASED_KEYS, self.released_census))
        return spent + laws_in_words(self.finders(), self._finding, self.shares(), found)


def describe_census(keys: str, census: KeyCensus) -> Spending:
    law = f"discrete Gaussian, deviation {census.noise.deviation:,.4g}"
    return Spending(f"census of {keys}", law, census.rho)
