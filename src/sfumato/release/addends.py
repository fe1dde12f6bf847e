"""What is added up besides statistics: how many keys people have, and how large numbers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.engines.contributions import PersonKeys, Terms, Totals
from sfumato.mechanisms.bounds import BINS, bins
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding import Pairs
from sfumato.release.statistics.expressions import bin_of, whole
from sfumato.release.statistics.numeric import Numeric


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many people have n keys, before they are bounded, by n; those with more than `most` count as `most`."""

    most: int
    needs_rows = False

    def nothing(self, size: int) -> Integers:
        return np.zeros(self.most + 1, np.int64)

    def parts(self, pairs: Pairs, places: Integers, size: int) -> Integers:
        return pairs.people_by_keys(self.most)

    def terms(self) -> Terms:
        return Terms((whole(1),), PersonKeys(self.most))

    def exact(self, totals: Totals, size: int) -> Integers:
        found = self.nothing(size)
        found[totals.points] = totals.amounts[0]
        return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many numbers are in each bin, of a statistic whose bounds are to be found."""

    statistic: Numeric
    needs_rows = True

    def nothing(self, size: int) -> Integers:
        return np.zeros(BINS, np.int64)

    def parts(self, pairs: Pairs, places: Integers, size: int) -> Integers:
        which, values = self.statistic.raw(pairs)
        # Without lost keys: of the released ones a person has at most `max_keys`, but of all keys perhaps more.
        return np.bincount(bins(values[places[which] < size - 1]), minlength=BINS)

    def terms(self) -> Terms:
        reads, number = self.statistic.raw_terms()
        return Terms((whole(1),), reads, bin_of(number))

    def exact(self, totals: Totals, size: int) -> Integers:
        found = self.nothing(size)
        np.add.at(found, totals.points, totals.amounts[0])
        return found
