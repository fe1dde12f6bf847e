"""Quantiles and bounds: what they claim holds between all small neighbours, a person with several values included."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.bounds import BINS, NumericBounds, bins
from sfumato.mechanisms.quantiles import QuantileChoice, QuantileTree, ValueCodes, _Nodes
from tests.helpers.claims import assert_private, assert_zcdp
from tests.helpers.laws import TOLERANCE, NoiseLaw, Pair, bounded_range, product, shift_pair

QUANTILES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)]


def choice(quantile: Fraction, max_values: int, *, epsilon: Fraction = Fraction(1), points: int = 3) -> QuantileChoice:
    return QuantileChoice(epsilon=epsilon, quantile=quantile, max_keys=2, max_values=max_values, points=points)


def sparse(*histograms: tuple[int, ...]) -> ValueCodes:
    """One histogram a key, a count for each point."""
    flat = np.array(histograms).ravel()
    return ValueCodes(len(histograms), np.flatnonzero(flat), flat[flat > 0])


def law(mechanism: QuantileChoice, h: tuple[int, ...], factor: int = 1) -> np.ndarray:
    """From the definition, point by point, at the rate that the implementation computes."""
    q, parts = mechanism.quantile, mechanism.quantile.denominator
    scores = [-abs((1 - q) * sum(h[:x]) - q * sum(h[x + 1 :])) for x in range(len(h))]
    weights = np.array([math.exp(factor * mechanism.rate * parts * (score - max(scores))) for score in scores])
    return weights / weights.sum()


def implemented_law(mechanism: QuantileChoice, h: tuple[int, ...]) -> np.ndarray:
    """From the runs that race: each wins in proportion to its width times exp(rate * score), and is spread evenly."""
    runs = mechanism.runs(sparse(h))
    weights = np.exp(float(mechanism.rate) * (runs.scores - runs.scores.max()))
    assert runs.first.tolist() == [0, *np.cumsum(runs.widths)[:-1].tolist()]
    assert runs.widths.sum() == len(h)
    masses = np.repeat(weights, runs.widths)
    return masses / masses.sum()


def additions(points: int, max_values: int) -> Iterator[tuple[int, ...]]:
    """What one more person may add to a key: 1 to max_values values anywhere."""
    for size in range(1, max_values + 1):
        for values in itertools.combinations_with_replacement(range(points), size):
            seen = Counter(values)
            yield tuple(seen[x] for x in range(points))


def neighbours(points: int, most: int, max_values: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for h in itertools.product(range(most + 1), repeat=points):
        for u in additions(points, max_values):
            yield h, tuple(a + b for a, b in zip(h, u, strict=True))


def pairs(mechanism: QuantileChoice, most: int) -> list[Pair]:
    found = neighbours(mechanism.points, most, mechanism.max_values)
    return [(law(mechanism, h), law(mechanism, other)) for h, other in found]


@pytest.mark.parametrize("quantile", QUANTILES, ids=str)
class TestQuantileChoice:
    @pytest.mark.parametrize("h", [(0, 0, 0, 0, 0), (0, 2, 0, 0, 1), (3, 0, 0, 0, 0), (1, 1, 1, 1, 1), (0, 0, 0, 4, 0)])
    def test_runs_have_the_law_of_the_definition(self, quantile: Fraction, h: tuple[int, ...]) -> None:
        mechanism = choice(quantile, 1, points=5)
        assert implemented_law(mechanism, h) == pytest.approx(law(mechanism, h), rel=1e-12)

    def test_keys_do_not_see_one_another(self, quantile: Fraction) -> None:
        mechanism, keys = choice(quantile, 1, points=4), [(0, 2, 0, 1), (0, 0, 0, 0), (5, 0, 0, 1)]
        together = mechanism.runs(sparse(*keys))
        alone = [mechanism.runs(sparse(key)) for key in keys]
        for name in ("first", "widths", "scores"):
            assert getattr(together, name).tolist() == np.concatenate([getattr(one, name) for one in alone]).tolist()
        assert np.diff(together.starts, append=len(together.first)).tolist() == [len(one.first) for one in alone]

    @pytest.mark.parametrize(("max_values", "most"), [(1, 4), (2, 3), (3, 3)])
    def test_one_person_moves_score_differences_by_the_range(
        self, quantile: Fraction, max_values: int, most: int
    ) -> None:
        """Exactly, in whole scores."""
        mechanism = choice(quantile, max_values)
        worst = max(spread(mechanism, h, other) for h, other in neighbours(3, most, max_values))
        wide = 2 * max(quantile, 1 - quantile) * max_values * quantile.denominator
        assert mechanism.rate * wide == mechanism.epsilon
        assert worst <= wide

    @pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3)])
    @pytest.mark.parametrize(("max_values", "most"), [(1, 4), (2, 3)])
    def test_bounded_range_and_zcdp(self, quantile: Fraction, max_values: int, most: int, epsilon: Fraction) -> None:
        mechanism = choice(quantile, max_values, epsilon=epsilon)
        found = pairs(mechanism, most)
        assert max(bounded_range(*pair) for pair in found) <= epsilon + TOLERANCE
        assert_zcdp(found, float(epsilon) ** 2 / 8)

    def test_two_keys_cost_rho(self, quantile: Fraction) -> None:
        """A person in both: the keys are independent, and rho covers them."""
        mechanism = choice(quantile, 1)
        assert mechanism.rho == Fraction(1, 4)
        worst = sorted(pairs(mechanism, 3), key=lambda pair: bounded_range(*pair))[-12:]
        assert_zcdp((product(both) for both in itertools.product(worst, repeat=2)), float(mechanism.rho))


def spread(mechanism: QuantileChoice, h: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How far apart the moves of two points' whole scores are."""
    moves = whole_scores(mechanism, other) - whole_scores(mechanism, h)
    return int(moves.max() - moves.min())


def whole_scores(mechanism: QuantileChoice, h: tuple[int, ...]) -> np.ndarray:
    runs = mechanism.runs(sparse(h))
    return np.repeat(runs.scores, runs.widths)


# A person at one end; two points beyond her values, one with too few before it and one with too many.
TIGHT = [
    (Fraction(1, 2), (0, 0, 4, 0), (1, 0, 0, 0)),
    (Fraction(1, 4), (0, 0, 30, 2), (1, 0, 0, 0)),
    (Fraction(1, 4), (0, 0, 30, 2), (2, 0, 0, 0)),
    (Fraction(9, 10), (2, 30, 0, 0), (0, 0, 0, 1)),
]


@pytest.mark.parametrize(("quantile", "h", "u"), TIGHT)
def test_the_range_is_reached(quantile: Fraction, h: tuple[int, ...], u: tuple[int, ...]) -> None:
    """And half of it would be twice epsilon."""
    mechanism, other = choice(quantile, sum(u), points=4), tuple(a + b for a, b in zip(h, u, strict=True))
    assert spread(mechanism, h, other) == mechanism.epsilon / mechanism.rate
    assert bounded_range(law(mechanism, h), law(mechanism, other)) == pytest.approx(1)
    assert bounded_range(law(mechanism, h, 2), law(mechanism, other, 2)) == pytest.approx(2)


# --- The tree -----------------------------------------------------------------------------------------------------

TREE = QuantileTree(rho=Fraction(1), max_keys=2, max_values=2, height=2, branching=3)


def node_counts(tree: QuantileTree, *keys: tuple[int, ...]) -> np.ndarray:
    """All counts of all nodes, as the implementation forms them before it adds noise."""
    nodes = _Nodes(tree, sparse(*keys), Rng.system())
    levels = (nodes._exact(level, np.arange(len(keys) * tree.branching**level)) for level in range(tree.height))
    return np.concatenate([counts.ravel() for counts in levels])


def test_node_counts() -> None:
    assert node_counts(TREE, (1, 0, 2, 0, 0, 0, 0, 0, 5)).tolist() == [3, 0, 5, 1, 0, 2, 0, 0, 0, 0, 0, 5]


def test_one_person_moves_all_node_counts_by_what_the_noise_is_made_for() -> None:
    """Every person of up to two values in each of two keys, on nine points, beside other people's values."""
    base = (1, 0, 2, 0, 0, 0, 0, 0, 5)
    before = node_counts(TREE, base, base)
    options = [(0,) * 9, *additions(9, 2)]
    seen = set()
    for first, second in itertools.combinations_with_replacement(options, 2):
        grown = (tuple(a + b for a, b in zip(base, u, strict=True)) for u in (first, second))
        seen.add(int(((node_counts(TREE, *grown) - before) ** 2).sum()))
    assert max(seen) == TREE.height * TREE.max_keys * TREE.max_values**2
    assert Fraction(max(seen)) / (2 * TREE.noise.sigma_squared) == TREE.rho


@pytest.mark.parametrize("u", [(2, 0, 0, 0, 0, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0, 0, 1)])
def test_the_noisy_tree_costs_its_rho(u: tuple[int, ...]) -> None:
    moved = node_counts(TREE, u, u)
    pair = shift_pair(NoiseLaw.of(TREE.noise), tuple(sorted(moved[moved > 0].tolist())))
    assert_zcdp([pair], float(TREE.rho))


# --- Bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("contributions", [1, 3])
def test_the_noisy_bins_are_private(epsilon: Fraction, contributions: int) -> None:
    """Every way to spread a person's values over bins, given all noisy counts and not only the bounds."""
    mechanism = NumericBounds(epsilon=epsilon, contributions=contributions)
    spreads = {
        tuple(sorted(np.bincount(bins(np.array(values)), minlength=BINS)[np.unique(bins(np.array(values)))].tolist()))
        for size in range(1, contributions + 1)
        for values in itertools.product([-3.0, 0.0, 1e300], repeat=size)
    }
    assert max(map(sum, spreads)) == contributions
    found = [shift_pair(NoiseLaw.of(mechanism.noise), shifts) for shifts in spreads]
    assert_private(found, float(epsilon), 0.0)
    assert_zcdp(found, float(mechanism.rho))
