"""Quantiles and bounds: what they claim holds between all small neighbours, a person with several values included."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import pytest

from sfumato.mechanisms import DiscreteGaussian, Rng
from sfumato.mechanisms.bounds import BINS, NumericBounds, bins
from sfumato.mechanisms.quantile_tree import HALF, MISSED, QuantileTree, _Edge, _Nodes
from sfumato.mechanisms.quantiles import Grid, QuantileChoice, ValueCodes
from tests.helpers.claims import assert_private, assert_zcdp
from tests.helpers.laws import TOLERANCE, NoiseLaw, Pair, bounded_range, product, shift_pair
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

QUANTILES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)]
GRIDS = [Grid(5), Grid(5, -2), Grid(13, -3, 1), Grid(105, 98, 2)]


THREE = Grid(3)


def choice(
    quantile: Fraction, max_values: int, *, epsilon: Fraction = Fraction(1), grid: Grid = THREE
) -> QuantileChoice:
    return QuantileChoice(epsilon=epsilon, quantile=quantile, max_keys=2, max_values=max_values, grid=grid)


def sparse(*histograms: tuple[int, ...]) -> ValueCodes:
    """One histogram a key, a count for each point."""
    flat = np.array(histograms).ravel()
    return ValueCodes(len(histograms), np.flatnonzero(flat), flat[flat > 0])


def score(q: Fraction, h: tuple[int, ...], x: int) -> Fraction:
    """By how many values x misses the quantile, negative."""
    less, equal, total = sum(h[:x]), h[x], sum(h)
    return -max(Fraction(0), less - q * total, q * total - less - equal)


def former_score(q: Fraction, h: tuple[int, ...], x: int) -> Fraction:
    """Without the values at x itself: as private, and wrong where many values are the same."""
    return -abs((1 - q) * sum(h[:x]) - q * sum(h[x + 1 :]))


def weight(grid: Grid, x: int) -> int:
    """From the definition: `decades`, and 10, 100, ... more as far as they divide the number of steps."""
    round_numbers = (10**decade for decade in range(1, grid.decades + 1))
    return max(grid.decades, 1) + sum(size for size in round_numbers if (grid.offset + x) % size == 0)


def law(mechanism: QuantileChoice, h: tuple[int, ...], factor: int = 1) -> np.ndarray:
    """From the definition, point by point, at the rate that the implementation computes."""
    scores = [mechanism.quantile.denominator * score(mechanism.quantile, h, x) for x in range(len(h))]
    weights = [
        weight(mechanism.grid, x) * math.exp(factor * mechanism.rate * (each - max(scores)))
        for x, each in enumerate(scores)
    ]
    return np.array(weights) / sum(weights)


def implemented_law(mechanism: QuantileChoice, h: tuple[int, ...]) -> np.ndarray:
    """From the runs that race, and from the point at which each whole weight of the winner lies."""
    runs, grid = mechanism.runs(sparse(h)), mechanism.grid
    weights = grid.weights(runs.first, runs.widths)
    assert runs.first.tolist() == [0, *np.cumsum(runs.widths)[:-1].tolist()]
    assert runs.widths.sum() == len(h)
    masses = np.zeros(len(h))
    for run, heavy in enumerate(weights.tolist()):
        first, width = (np.full(heavy, each[run]) for each in (runs.first, runs.widths))
        points = grid.at_weight(first, width, np.arange(heavy))
        assert first[0] <= points.min()
        assert points.max() < first[0] + width[0]
        np.add.at(masses, points, math.exp(mechanism.rate * int(runs.scores[run] - runs.scores.max())))
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
    found = neighbours(mechanism.grid.points, most, mechanism.max_values)
    return [(law(mechanism, h), law(mechanism, other)) for h, other in found]


@pytest.mark.parametrize("quantile", QUANTILES, ids=str)
class TestQuantileChoice:
    @pytest.mark.parametrize("grid", GRIDS, ids=str)
    @pytest.mark.parametrize("places", [(), (1, 1, 4), (0, 0, 0), (0, 1, 2, 3, 4), (3, 3, 3, 3), (2, 4, 4)])
    def test_runs_have_the_law_of_the_definition(self, quantile: Fraction, grid: Grid, places: tuple[int, ...]) -> None:
        h = tuple(Counter(places)[x] for x in range(grid.points))
        mechanism = choice(quantile, 1, grid=grid)
        assert implemented_law(mechanism, h) == pytest.approx(law(mechanism, h), rel=1e-12)

    def test_keys_do_not_see_one_another(self, quantile: Fraction) -> None:
        mechanism, keys = choice(quantile, 1, grid=Grid(4)), [(0, 2, 0, 1), (0, 0, 0, 0), (5, 0, 0, 1)]
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

    def test_weights_of_round_numbers_cost_nothing(self, quantile: Fraction) -> None:
        """They are the same for both neighbours: here 1, 11 and 1."""
        mechanism = choice(quantile, 2, epsilon=Fraction(2), grid=Grid(3, -1, 1))
        assert [weight(mechanism.grid, x) for x in range(3)] == [1, 11, 1]
        found = pairs(mechanism, 3)
        assert max(bounded_range(*pair) for pair in found) <= 2 + TOLERANCE
        assert_zcdp(found, 2**2 / 8)

    def test_two_keys_cost_rho(self, quantile: Fraction) -> None:
        """A person in both: the keys are independent, and rho covers them."""
        mechanism = choice(quantile, 1)
        assert mechanism.rho == Fraction(1, 4)
        worst = sorted(pairs(mechanism, 3), key=lambda pair: bounded_range(*pair))[-12:]
        assert_zcdp((product(both) for both in itertools.product(worst, repeat=2)), float(mechanism.rho))


def test_several_quantiles_of_the_same_values_cost_the_sum() -> None:
    """Three choices from one histogram, for all neighbours; what one of them costs does not cover two."""
    choices = [choice(quantile, 1) for quantile in QUANTILES]
    found = [
        product((law(each, h), law(each, other)) for each in choices) for h, other in neighbours(3, 3, max_values=1)
    ]
    assert_zcdp(found, 3 / 8)
    with pytest.raises(AssertionError):
        assert_zcdp(found, 1 / 8)


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
    mechanism, other = choice(quantile, sum(u), grid=Grid(4)), tuple(a + b for a, b in zip(h, u, strict=True))
    assert spread(mechanism, h, other) == mechanism.epsilon / mechanism.rate
    assert bounded_range(law(mechanism, h), law(mechanism, other)) == pytest.approx(1)
    assert bounded_range(law(mechanism, h, 2), law(mechanism, other, 2)) == pytest.approx(2)


@pytest.mark.parametrize("quantile", QUANTILES, ids=str)
def test_a_choice_misses_by_more_than_it_says_as_seldom_as_it_says(quantile: Fraction) -> None:
    """For all histograms of up to five values on four points, and for one value in 400 points."""
    mechanism = choice(quantile, 1, epsilon=Fraction(4), grid=Grid(4, 0, 1))
    for h in itertools.product(range(6), repeat=4):
        assert missed(mechanism, h) <= 0.05
    lonely = choice(quantile, 1, epsilon=Fraction(4), grid=Grid(400))
    assert missed(lonely, tuple(int(x == 17) for x in range(400))) <= 0.05


def missed(mechanism: QuantileChoice, h: tuple[int, ...]) -> float:
    misses = np.array([float(-score(mechanism.quantile, h, x)) for x in range(len(h))])
    return float(law(mechanism, h)[misses > mechanism.miss(0.05)].sum())


@pytest.mark.parametrize("quantile", QUANTILES, ids=str)
def test_equal_values_are_chosen(quantile: Fraction) -> None:
    """Twenty values of 1 and nothing else: 1 is every quantile. The score that left them out preferred other points."""
    h = (0, 20, 0)
    scores = [score(quantile, h, x) for x in range(3)]
    assert scores[1] == 0 > max(scores[0], scores[2])
    skewed = (12, 0, 8)  # 0 is the median and most values; the former score is better at 1, where there are none
    assert score(Fraction(1, 2), skewed, 0) == 0 > score(Fraction(1, 2), skewed, 1)
    assert former_score(Fraction(1, 2), skewed, 0) < former_score(Fraction(1, 2), skewed, 1)


# --- The tree -----------------------------------------------------------------------------------------------------

TREE = QuantileTree(rho=Fraction(1), max_keys=2, max_values=2, points=9, height=2)


def node_counts(tree: QuantileTree, *keys: tuple[int, ...]) -> np.ndarray:
    """All counts of all nodes that have a point, as the implementation forms them before it adds noise."""
    nodes = _Nodes(tree, sparse(*keys), Rng.system())
    levels = [nodes.exact(level, np.arange(len(keys) * tree.branching**level)) for level in range(tree.levels)]
    return np.concatenate([counts[~empty] for counts, empty in levels])


def test_node_counts() -> None:
    assert node_counts(TREE, (1, 0, 2, 0, 0, 0, 0, 0, 5)).tolist() == [3, 0, 5, 1, 0, 2, 0, 0, 0, 0, 0, 5]


def test_nodes_behind_the_last_point_are_no_nodes() -> None:
    """Seven points in a tree of nine leaves: three nodes of the first level and seven leaves; key by key."""
    tree = QuantileTree(rho=1, max_keys=1, max_values=1, points=7, height=2)
    assert node_counts(tree, (1, 0, 2, 0, 0, 4, 5)).tolist() == [3, 4, 5, 1, 0, 2, 0, 0, 4, 5]
    both = node_counts(tree, (1, 0, 2, 0, 0, 4, 5), (0, 0, 0, 0, 0, 0, 9))
    assert both.tolist() == [3, 4, 5, 0, 0, 9, 1, 0, 2, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 9]


@pytest.mark.parametrize("points", [9, 7])
def test_one_person_moves_all_node_counts_by_what_the_noise_is_made_for(points: int) -> None:
    """Every person of up to two values in each of two keys, beside other people's values."""
    tree = QuantileTree(rho=Fraction(1), max_keys=2, max_values=2, points=points, height=2)
    base = (1, 0, 2, 0, 0, 0, 0, 0, 5)[-points:]
    before = node_counts(tree, base, base)
    options = [(0,) * points, *additions(points, 2)]
    seen = set()
    for first, second in itertools.combinations_with_replacement(options, 2):
        grown = (tuple(a + b for a, b in zip(base, u, strict=True)) for u in (first, second))
        seen.add(int(((node_counts(tree, *grown) - before) ** 2).sum()))
    assert max(seen) == tree.levels * tree.max_keys * tree.max_values**2
    assert Fraction(max(seen)) / (2 * tree.noise.sigma_squared) == tree.rho


@pytest.mark.parametrize("u", [(2, 0, 0, 0, 0, 0, 0, 0, 0), (1, 1, 0, 0, 0, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0, 0, 0, 1)])
def test_the_noisy_tree_costs_its_rho(u: tuple[int, ...]) -> None:
    moved = node_counts(TREE, u, u)
    pair = shift_pair(NoiseLaw.of(TREE.noise), tuple(sorted(moved[moved > 0].tolist())))
    assert_zcdp([pair], float(TREE.rho))


# --- The ends of intervals ----------------------------------------------------------------------------------------

FINEST = 2.0**-8
"""Sums are rounded up to multiples of this: tails come out too large, by that much noise, and never too small."""

SIZE = 2**16


def edge_weights(q: Fraction, branching: int, path: tuple[int, ...]) -> np.ndarray:
    """What each node weighs in the excess of an edge, level by level: `path` has the child behind it at each level.

    Least squares over all nodes that the path looks at: no linear estimate has less variance (Gauss, Markov). Unknown
    are the counts that these looks tell apart: of the children at each level, but for the one that is gone into.
    """
    last = len(path) - 1
    unknown = [
        (level, at) for level in range(last + 1) for at in range(branching) if level == last or at != path[level]
    ]

    def holds(level: int, at: int, part: tuple[int, int]) -> bool:
        return part[0] > level if level < last and at == path[level] else part == (level, at)

    looks = itertools.product(range(last + 1), range(branching))
    design = np.array([[float(holds(*look, part)) for part in unknown] for look in looks])
    wanted = np.array([(at < path[level]) - float(q) for level, at in unknown])
    weights: np.ndarray = design @ np.linalg.solve(design.T @ design, wanted)
    return weights


@lru_cache(maxsize=512)
def sum_law(variance: Fraction, terms: int) -> tuple[np.ndarray, np.ndarray]:
    """A sum of independent draws: its values, and their probabilities."""
    one = NoiseLaw.of(DiscreteGaussian(variance))
    reach = min(one.reach, 2 + math.ceil(9 * math.sqrt(variance)))
    mass, total = one.mass(np.arange(-reach, reach + 1)), np.ones(1)
    for _ in range(terms):
        total = np.convolve(total, mass)
    return np.arange(-reach * terms, reach * terms + 1), total


def edge_missed(variance: Fraction, weights: np.ndarray, threshold: float) -> float:
    """P[the weighted noise exceeds the threshold], or slightly more: an edge at its worst, of an exact excess of 0."""
    transform, low = np.ones(SIZE // 2 + 1, complex), 0
    for weight, nodes in Counter(np.round(weights, 12).tolist()).items():
        values, mass = sum_law(variance, nodes)
        likely = mass > 1e-15
        steps = np.ceil(values[likely] * weight / FINEST).astype(np.int64)
        law = np.bincount(steps - steps.min(), mass[likely], minlength=SIZE)
        transform, low = transform * np.fft.rfft(law), low + int(steps.min())
    law = np.fft.irfft(transform, SIZE)
    return float(law[(low + np.arange(SIZE)) * FINEST > threshold].sum())


def worst_edge(variance: Fraction, q: Fraction, tree: QuantileTree, tail: float, half: float) -> float:
    """The largest miss over edges of all levels: in the first, the last and a middle child of such a child ..."""
    deviation, z, most = math.sqrt(variance), NormalDist().inv_cdf(1 - tail), tree.branching - 1
    found = []
    for level in range(tree.levels):
        for above, edge in itertools.product({0, most // 2, most}, {1, most // 2, most} - {0}):
            weights = edge_weights(q, tree.branching, (above,) * level + (edge,))
            spread = math.sqrt(weights @ weights)
            found.append(edge_missed(variance, weights, z * deviation * spread + half))
    return max(found)


PATHS = [(1,), (3,), (0, 2), (2, 1), (3, 3), (1, 0, 3), (0, 0, 0, 1), (3, 1, 2, 2)]


@pytest.mark.parametrize("path", PATHS, ids=str)
@pytest.mark.parametrize("q", [*QUANTILES, Fraction(1, 100)], ids=str)
def test_the_excess_of_an_edge_and_its_variance_are_those_of_least_squares(q: Fraction, path: tuple[int, ...]) -> None:
    noisy = np.random.default_rng(3).integers(-9, 99, (len(path), 4))
    children, edge = np.array([4])[:, None], None
    for counts, child in zip(noisy[:, None], path, strict=True):
        looked = counts, children
        below = _Edge.of_root(*looked, np.array([[float(q)]])) if edge is None else edge.children(*looked)
        edge = _Edge(*(part[:, [child]] for part in below))
    weights = edge_weights(q, 4, path)
    assert edge.excess[0, 0] == pytest.approx(weights @ noisy.ravel(), rel=1e-9)
    assert edge.variance[0, 0] == pytest.approx(weights @ weights, rel=1e-9)


VARIANCES = [Fraction(each).limit_denominator(1000) for each in (0.02, 0.25, 1, 20, *repeats((), (0.1, 0.5, 2, 5)))]


@pytest.mark.parametrize("points", [2, 5, 30, 625])
@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_an_edge_of_the_exact_quantile_is_rejected_as_seldom_as_its_part_of_the_interval(
    variance: Fraction, points: int
) -> None:
    """The other tail is the same, by symmetry."""
    tree = QuantileTree(rho=1, max_keys=1, max_values=1, points=points)
    for q in (Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 3)):
        assert worst_edge(variance, q, tree, MISSED / tree.levels, HALF) <= MISSED / tree.levels


def test_without_the_half_or_with_the_whole_of_the_misses_the_check_fails() -> None:
    tree = QuantileTree(rho=1, max_keys=1, max_values=1, points=625)
    limit = MISSED / tree.levels
    assert worst_edge(Fraction(20), Fraction(1, 2), tree, MISSED, HALF) > limit
    assert worst_edge(Fraction(1, 4), Fraction(1, 2), tree, limit, 0.0) > limit


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
