"""Fresh quantiles and bounds against their exact laws. A correct mechanism fails a test here once in a million runs."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.bounds import BINS, STRICTEST, NumericBounds, bins
from sfumato.mechanisms.quantile_tree import QuantileTree, _Nodes
from sfumato.mechanisms.quantiles import Grid, QuantileChoice, ValueCodes, uniform_below
from tests.helpers.false_alarms import cdf_distance, cdf_slack, unlikely

pytestmark = pytest.mark.slow

KEYS = 100_000
VALUES = [
    ([], Grid(7)),
    ([2, 2, 3], Grid(7)),
    ([0, 3, 6, 6, 6], Grid(7)),
    ([5] * 4 + [1], Grid(7)),
    ([3, 9, 40], Grid(61, -5, 1)),
]


def law(values: list[int], grid: Grid, quantile: Fraction, epsilon: float, max_values: int) -> dict[int, float]:
    """weight * exp(epsilon * score / range), from the definition."""
    q = float(quantile)
    weights = []
    for x in range(grid.points):
        below, up_to = sum(v < x for v in values), sum(v <= x for v in values)
        score = -max(0.0, below - q * len(values), q * len(values) - up_to)
        round_number = grid.decades and (grid.offset + x) % 10 == 0
        weights.append((11 if round_number else 1) * math.exp(epsilon * score / (2 * max(q, 1 - q) * max_values)))
    return {x: weight / sum(weights) for x, weight in enumerate(weights)}


@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(9, 10), Fraction(1, 3)], ids=str)
@pytest.mark.parametrize(("values", "grid"), VALUES)
def test_choices_follow_the_exponential_mechanism(quantile, values, grid):
    """As many keys as draws (Chernoff); an epsilon that is wrong by a quarter is told apart where scores differ."""
    epsilon, max_values, points = Fraction(4), 2, grid.points
    mechanism = QuantileChoice(epsilon=epsilon, quantile=quantile, max_keys=1, max_values=max_values, grid=grid)
    point, count = np.unique(np.array(values, np.int64), return_counts=True)
    codes = (point + points * np.arange(KEYS)[:, None]).ravel()
    chosen = mechanism.release(KEYS, codes, np.tile(count, KEYS), Rng.system()).tolist()
    assert not unlikely(chosen, law(values, grid, quantile, 4.0, max_values))
    if values:
        assert unlikely(chosen, law(values, grid, quantile, 5.0, max_values))
        assert unlikely(chosen, law(values, grid, quantile, 3.2, max_values))


def test_keys_of_one_choice_are_independent():
    """Pairs of neighbouring keys, as one outcome each (Chernoff)."""
    mechanism = QuantileChoice(epsilon=Fraction(2), quantile=Fraction(1, 2), max_keys=1, max_values=1, grid=Grid(4))
    chosen = mechanism.release(KEYS, 4 * np.arange(KEYS) + 1, np.ones(KEYS, np.int64), Rng.system())
    one = law([1], Grid(4), Fraction(1, 2), 2.0, 1)
    both = {(x, y): one[x] * one[y] for x in one for y in one}
    assert not unlikely(zip(chosen[::2].tolist(), chosen[1::2].tolist(), strict=True), both)


def test_places_within_a_run_are_uniform():
    drawn = uniform_below(np.full(KEYS, 11), Rng.system().stream())
    assert not unlikely(drawn.tolist(), dict.fromkeys(range(11), 1 / 11))


def test_the_noise_of_nodes():
    """Nodes of all levels, looked at in two steps (Massart); a variance that is wrong by a tenth is rejected."""
    tree = QuantileTree(rho=Fraction(1, 10), max_keys=3, max_values=2, points=64, height=3)
    nodes = _Nodes(tree, ValueCodes(20_000, np.arange(0, 64 * 20_000, 5), np.full(256_000, 3)), Rng.system())
    drawn = []
    for level in range(3):
        everything = np.arange(20_000 * 4**level)
        of_key, places = np.divmod(everything, 4**level)
        nodes.children(level, of_key[::3], places[::3])
        drawn.append((nodes.children(level, of_key, places) - nodes.exact(level, everything)[0]).ravel())
    noise, wrong = np.concatenate(drawn), replace(tree, rho=Fraction(11, 100))
    assert cdf_distance(noise, cdf(tree)) <= cdf_slack(len(noise))
    assert cdf_distance(noise, cdf(wrong)) > cdf_slack(len(noise))


def cdf(tree):
    return lambda points: np.array([1 - tree.noise.tail(int(point) + 1) for point in points])


@pytest.mark.parametrize("count", [20, 25, 30])
def test_a_bin_is_found_as_often_as_its_noise_says(count):
    """Found at the strictest threshold (Chernoff); that another bin is found instead adds 1e-9 a run."""
    mechanism, rng = NumericBounds(epsilon=1, contributions=1), Rng.system()
    counts = np.bincount(bins(np.full(count, 3.0)), minlength=BINS)
    found = [mechanism.release(counts, rng) for _ in range(3000)]
    shows = mechanism.noise.tail(mechanism.threshold(STRICTEST) - count)
    assert not unlikely([f.probability == STRICTEST for f in found], {True: shows, False: 1 - shows})
