"""One release that selects keys and counts their people: the whole budget in one vector of noisy counts.

A person counts for at most L keys. A census chooses L: the smallest bound that drops few enough (person, key) pairs for
the relative error that is wanted. Noisy counts that reach a level are released with their keys: it is so high that they
are accurate for their size, and above the threshold that privacy needs. Where many counts lie just below a level, noise
brings too many of them above it, and the next level is taken. Intervals allow for the level.

Guarantee: delta-approximate rho-zCDP, the census and the release together (proofs/release.md).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from sfumato.mechanisms.census import MAX_SEEN, KeyCensus, KeysPerPerson
from sfumato.mechanisms.key_selection import GaussianRule
from sfumato.mechanisms.noise import Integers
from sfumato.release.estimand import ALL_KEYS
from sfumato.release.request import Rows
from sfumato.release.selection import gaussian_columns, select_keys
from sfumato.release.statistics.base import Series

CENSUS = Fraction(1, 20)
"""What the census takes of the budget."""

DROPPED = Fraction(1, 5)
"""So much of the relative error may be what bounding drops."""

AT_LEVEL, BEYOND = NormalDist().inv_cdf(0.95), NormalDist().inv_cdf(0.965)
"""The relative error is so many deviations of a count at the lowest level, which noise can only have raised, and of one
two deviations above it, which noise can also have lowered."""

LEVELS = 8
"""Each level is 2^(1 / LEVELS) times the one before it."""

BELOW = 2
"""So many deviations below a level are looked at."""

RISEN, SPARE = 0.15, 0.03
"""For each count that lies there, at most RISEN of what is released has risen above the level and is off by more than
the relative error. A share of SPARE of what is released may be of that kind, and one more."""


@dataclass(frozen=True, slots=True)
class OneRelease:
    """A release to a relative error, given its budget and the bound on keys."""

    rho: Fraction
    delta: Fraction
    max_keys: int
    relative_error: Fraction

    @property
    def rule(self) -> GaussianRule:
        return GaussianRule(total=self.rho, delta=self.delta, max_keys=self.max_keys)

    @property
    def lowest(self) -> float:
        """The lowest level: what lies below it, as far as it is looked at, has passed the threshold as well."""
        deviation, error = math.sqrt(self.max_keys / (2 * self.rho)), float(self.relative_error)
        accurate = max(AT_LEVEL / error, BEYOND / error - BELOW)
        return max(accurate * deviation, self.rule.threshold + BELOW * deviation)

    def level(self, noisy: Integers) -> int:
        """The lowest level that few counts have only reached by their noise, by the noisy counts themselves."""
        ordered, below = np.sort(noisy), BELOW * self.rule.noise.deviation
        for step in itertools.count():
            level = math.ceil(self.lowest * 2 ** (step / LEVELS))
            first, reached = np.searchsorted(ordered, [level - below, level])
            if RISEN * (reached - first) <= SPARE * (len(ordered) - reached) + 1:
                return level
        raise AssertionError

    def release(self, rows: Rows) -> tuple[Integers, dict[str, Series], int]:
        """The codes of keys, their columns, and the level that their noisy counts have reached."""
        counts = rows.contributions.count_people(rows.order("select"), max_keys=self.max_keys)
        codes, columns = select_keys(self.rule, counts, rows.rng.child(purpose="select"), publishes_counts=True)
        noisy = np.asarray(columns["units"])
        level = self.level(noisy)
        kept = noisy >= level
        return codes[kept], gaussian_columns(noisy[kept], level, self.rule.noise.deviation), level


def take_census(rows: Rows, rho: Fraction) -> KeysPerPerson:
    """How many people have how many keys."""
    people = rows.contributions.keys_per_person(MAX_SEEN + 1)
    return KeyCensus(rho=rho).release(people, rows.rng.child(census=ALL_KEYS))


def choose_bound(census: KeysPerPerson, relative_error: Fraction) -> int | None:
    """The smallest bound that drops little enough for a relative error; None where none does."""
    bound = census.smallest_bound(DROPPED * relative_error)
    return bound if census.dropped(bound).share <= DROPPED * relative_error else None
