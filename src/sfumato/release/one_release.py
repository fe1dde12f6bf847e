"""One release that selects keys and counts their people: the whole budget in one vector of noisy counts.

A person counts for at most L keys. A census chooses L: the smallest bound that drops few enough (person, key) pairs for
the relative error that is wanted. Noisy counts that reach a threshold are released with their keys, and those of them
that are too small for their noise are left out again, which is free.

Guarantee: delta-approximate rho-zCDP, the census and the release together (proofs/release.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.mechanisms.census import MAX_SEEN, KeyCensus, KeysPerPerson
from sfumato.mechanisms.key_selection import GaussianRule
from sfumato.mechanisms.noise import Integers
from sfumato.release.estimand import ALL_KEYS
from sfumato.release.request import Rows
from sfumato.release.selection import select_keys
from sfumato.release.statistics.base import Column

CENSUS = Fraction(1, 20)
"""What the census takes of the budget."""

DROPPED = Fraction(1, 5)
"""So much of the relative error may be what bounding drops."""

WITHIN = 0.95
"""So many of the released counts should be within the relative error, as far as noise goes."""

ACCURATE = 1.25
"""About so many deviations are the relative error of the smallest count that is released then."""


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
    def reach(self) -> float:
        """About the smallest count that is released."""
        deviation = math.sqrt(self.max_keys / (2 * self.rho))
        return max(ACCURATE * deviation / float(self.relative_error), float(self.rule.threshold))

    def release(self, rows: Rows) -> tuple[Integers, dict[str, Column]]:
        """The codes of keys, and their columns."""
        counts = rows.contributions.count_people(rows.order("select"), max_keys=self.max_keys)
        codes, columns = select_keys(self.rule, counts, rows.rng.child(purpose="select"), publishes_counts=True)
        kept = accurate_rows(np.asarray(columns["units"]), self.rule.noise.deviation, float(self.relative_error))
        return codes[kept], {name: np.asarray(column)[kept] for name, column in columns.items()}


def take_census(rows: Rows, rho: Fraction) -> KeysPerPerson:
    """How many people have how many keys."""
    people = rows.contributions.keys_per_person(MAX_SEEN + 1)
    return KeyCensus(rho=rho).release(people, rows.rng.child(census=ALL_KEYS))


def choose_bound(census: KeysPerPerson, relative_error: Fraction) -> int | None:
    """The smallest bound that drops little enough for a relative error; None where none does."""
    bound = census.smallest_bound(DROPPED * relative_error)
    return bound if census.dropped(bound).share <= DROPPED * relative_error else None


def accurate_rows(noisy: Integers, deviation: float, relative_error: float) -> Integers:
    """As many of the largest counts as there can be with a share of WITHIN of them within the relative error."""
    order = np.argsort(-noisy, kind="stable")
    sizes = relative_error / (math.sqrt(2) * deviation) * np.maximum(noisy[order], 0)
    chances = np.array([math.erf(size) for size in sizes.tolist()])
    enough = np.flatnonzero(np.cumsum(chances) >= WITHIN * np.arange(1, len(chances) + 1))
    return np.sort(order[: enough[-1] + 1 if len(enough) else 0])
