"""How one epsilon is divided among levels of time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.query.reports.shares import PARTS, RegularForest, best_shares, split_epsilon

# Stored cells are keyed by their epsilon: another share would be another release. Never change these.
GOLDEN = {
    ("day",): "1",
    ("day", "week"): "9/20 11/20",
    ("day", "month"): "13/20 7/20",
    ("day", "month", "year"): "11/20 2/5 1/20",
    ("day", "month", "quarter", "year"): "11/20 7/20 1/20 1/20",
    ("3h", "day", "month"): "3/20 11/20 3/10",
    ("1h", "day"): "3/20 17/20",
    ("3h", "day", "month", "quarter", "year"): "3/20 9/20 3/10 1/20 1/20",
    ("month", "year"): "19/20 1/20",
    ("week",): "1",
}


@pytest.mark.parametrize("levels", GOLDEN, ids="-".join)
def test_shares_are_frozen(levels):
    assert " ".join(map(str, best_shares(levels))) == GOLDEN[levels]


@pytest.mark.parametrize("levels", GOLDEN, ids="-".join)
def test_shares_add_up_exactly(levels):
    split = split_epsilon(levels, Fraction(1, 7))
    assert tuple(split) == levels
    assert sum(split.values()) == Fraction(1, 7)
    assert min(split.values()) >= Fraction(1, 7) / PARTS


SHAPES = [([1, 3], [2.0, 1.0]), ([1, 2, 6], [1.0, 0.5, 3.0]), ([2, 6, 12], [4.0, 1.0, 0.25])]


@pytest.mark.parametrize(("lengths", "cells"), SHAPES, ids=str)
def test_the_variance_of_a_range_is_that_of_the_dense_solution(lengths, cells):
    """For all ranges of the first two longest ranges, each asked for at its end."""
    forest = RegularForest(lengths, [np.array([cell]) for cell in cells])
    for end in range(lengths[0], 2 * lengths[-1] + 1, lengths[0]):
        complete = [
            (start, start + length, cell)
            for length, cell in zip(lengths, cells, strict=True)
            for start in range(0, end, length)
            if start + length <= end
        ]
        units = range(0, end, lengths[0])
        design = np.array([[low <= unit < high for unit in units] for low, high, _ in complete], float)
        precision = 1 / np.array([cell for _, _, cell in complete])
        covariance = np.linalg.inv(design.T @ (design * precision[:, None]))
        for start in units:
            wanted = np.array([unit >= start for unit in units], float)
            assert forest.variance(start, end)[0] == pytest.approx(wanted @ covariance @ wanted)
