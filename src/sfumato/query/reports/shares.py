"""How one epsilon, or one rho, is divided among the levels of time: the usual ranges have the least error.

The usual ranges are the last 7, 28 and 90 days, the last month, the year to date, and one range of each level. They are
asked for on the day they end, as the option `calendar` answers them: ranges that are over by then are weighed against
one another by least squares. Pure, and frozen: shares are part of what a stored cell is, so the same levels have the
same shares in every version.

The year is a regular one, of 12 months of 30 days. Every node of a level is then like every other, so the variance of a
range needs one path through its tree, and all shares are tried at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.query.reports.calendar import regular_hours

LAST_DAYS = (7, 28, 90)
PARTS = 20  # a share is a whole number of twentieths, at least one
EVERY = 5  # days: how often a range is asked for

_DAY, _MONTH, _YEAR = 24, 30 * 24, 360 * 24


def split_epsilon(levels: Sequence[str], total: Fraction) -> dict[str, Fraction]:
    """The epsilon of a cell on each level; they add up to `total`.

    >>> {level: str(epsilon) for level, epsilon in split_epsilon(("day", "month"), Fraction(1)).items()}
    {'day': '13/20', 'month': '7/20'}
    """
    return {level: total * share for level, share in zip(levels, best_shares(tuple(levels)), strict=True)}


@lru_cache(64)
def best_shares(levels: tuple[str, ...], exponent: int = 2) -> tuple[Fraction, ...]:
    """The shares with the least mean square error over the usual ranges, the finest level first.

    The variance of a cell is one by its share to this power: 2 for shares of an epsilon, 1 for shares of a rho.
    """
    cuts = combinations(range(1, PARTS), len(levels) - 1)
    shares = np.array([[high - low for low, high in pairwise((0, *cut, PARTS))] for cut in cuts]).T
    forest = RegularForest([regular_hours(level) for level in levels], [*(PARTS / shares) ** exponent])
    means = [np.mean([forest.variance(*each) for each in ranges], axis=0) for ranges in _usual_ranges(forest.lengths)]
    best = int(np.argmin(np.sum([*forest.variances, *means], axis=0)))
    return tuple(Fraction(int(share), PARTS) for share in shares[:, best])


def _usual_ranges(lengths: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Each usual range as it is asked for over a year, in hours; only what is on the grid of the finest level."""
    days = range(EVERY * _DAY, _YEAR + 1, EVERY * _DAY)
    kinds = [[(end - last * _DAY, end) for end in days] for last in LAST_DAYS]
    kinds += [[(0, _MONTH)], [(0, end) for end in days]]
    for ranges in kinds:
        fitting = [(start, end) for start, end in ranges if start % lengths[0] == end % lengths[0] == 0]
        if fitting:
            yield fitting


class RegularForest:
    """Trees over regular time: `lengths` of the levels in hours, the finest first, and the variance of a cell on each.

    Variances may be arrays, which are worked out side by side. `variances` are those of the least squares estimates of
    whole ranges, from the cells in them.
    """

    def __init__(self, lengths: Sequence[int], cells: Sequence[NDArray[np.float64]]) -> None:
        self.lengths, self._cells = lengths, cells
        self.variances = [cells[0]]
        for level, (short, long) in enumerate(pairwise(lengths), 1):
            below = long // short * self.variances[-1]
            self.variances.append(cells[level] * below / (cells[level] + below))
        self._known: dict[tuple[int, int], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def variance(self, start: int, end: int) -> NDArray[np.float64]:
        """That of the least squares estimate of [start, end), a range on the grid that is asked for at its end."""
        total = np.zeros_like(self._cells[0])
        while start < end:
            level, since = self._longest(start, end)
            total = total + self._rest(level, start - since)[0]
            start = since + self.lengths[level]
        return total

    def _longest(self, start: int, end: int) -> tuple[int, int]:
        """The level and the start of the longest range around `start` that is over by `end`."""
        starts = [(level, start - start % length) for level, length in enumerate(self.lengths)]
        return max((level, since) for level, since in starts if since + self.lengths[level] <= end)

    def _rest(self, level: int, skipped: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Of a range without its first `skipped` hours: the variance, and the covariance with the whole range."""
        if skipped == 0:
            return self.variances[level], self.variances[level]
        if (level, skipped) not in self._known:
            short, one = self.lengths[level - 1], self.variances[level - 1]
            whole, part = divmod(self.lengths[level] - skipped, short)
            variance = covariance = whole * one
            if part:
                more = self._rest(level - 1, short - part)
                variance, covariance = variance + more[0], covariance + more[1]
            weight = 1 / (self._cells[level] + self.lengths[level] // short * one)  # the range's own cell comes in
            self._known[level, skipped] = (
                variance - covariance**2 * weight,
                covariance * self._cells[level] * weight,
            )
        return self._known[level, skipped]
