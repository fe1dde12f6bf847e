"""The tree of quantiles: what a release gives, that its noise is drawn once, and which nodes it looks at."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, quantile_tree
from sfumato.mechanisms.quantile_tree import MAX_BRANCHING, QuantileTree, _Nodes, best_height
from sfumato.mechanisms.quantiles import ValueCodes
from tests.helpers.tracing import traced

THREE = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
HUGE = 10**12
EMPTY = np.empty(0, np.int64)


def sparse(values: list[list[int]], points: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Keys, codes and counts of each key's values."""
    flat = [key * points + value for key, row in enumerate(values) for value in row]
    codes, counts = np.unique(np.array(flat, np.int64), return_counts=True)
    return len(values), codes, counts


def exact_quantiles(values: list[int], q: Fraction) -> tuple[int, int]:
    """The smallest and the largest of its quantiles: at most a share q lies below it, and at most 1 - q above it."""
    ordered, rank = sorted(values), q * len(values)
    return ordered[max(-(-rank // 1), 1) - 1], ordered[min(rank // 1, len(values) - 1)]


def tree(**arguments) -> QuantileTree:
    return QuantileTree(**{"rho": Fraction(1), "max_keys": 1, "max_values": 1, "points": 16**4} | arguments)


@pytest.mark.parametrize(("points", "height"), [(81, 4), (81, 1), (81, None), (70, 4), (100, 2)])
@given(st.lists(st.lists(st.integers(0, 69), min_size=1, max_size=30), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_without_noise_the_quantiles_are_the_true_ones(points, height, values):
    released = tree(rho=HUGE, points=points, height=height).release(*sparse(values, points), THREE, Rng.system())
    for i, q in enumerate(THREE):
        for key, row in enumerate(values):
            low, high = exact_quantiles(row, q)
            assert low <= released.values[i, key] <= high
            assert released.low[i, key] <= low
            assert released.high[i, key] >= high


def test_a_key_without_noise_and_without_values_gives_the_middle_and_the_whole_grid():
    released = tree(rho=HUGE).release(2, np.array([5 * 16]), np.array([9]), [Fraction(1, 2)], Rng.system())
    assert released.values[0, 0] == 5 * 16
    assert abs(released.values[0, 1] - 16**4 / 2) < 16**4 / 4
    assert (released.low[0].tolist(), released.high[0].tolist()) == ([5 * 16, 0], [5 * 16, 16**4 - 1])


@given(
    st.lists(st.lists(st.integers(0, 255), max_size=40), min_size=1, max_size=6),
    st.permutations([Fraction(i, 10) for i in (1, 3, 5, 7, 9)]),
    st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(100)]),
    st.sampled_from([256, 300]),
)
@settings(max_examples=60, deadline=None)
def test_shape_order_and_ends(values, wanted, rho, points):
    released = tree(rho=rho, points=points).release(*sparse(values, points), wanted, Rng.system())
    order = np.argsort(np.array([float(q) for q in wanted]))
    for found in (released.low, released.values, released.high):
        assert found.shape == (5, len(values))
        assert found.dtype == np.int64
        assert found.min() >= 0
        assert found.max() < points
        assert (np.diff(found[order], axis=0) >= 0).all()
    assert (released.low <= released.values).all()
    assert (released.values <= released.high).all()


def test_intervals_are_widened_and_never_sorted():
    """Sorted ends would make [2, 6] of the interval [5, 9], which then may miss its quantile."""
    ends = np.array([[7], [6]]), np.array([[5], [2]]), np.array([[9], [6]])
    values, low, high = quantile_tree._monotone(*ends, np.array([0.25, 0.75]))
    assert (values.tolist(), low.tolist(), high.tolist()) == ([[6], [7]], [[2], [2]], [[9], [9]])


def test_a_node_is_noised_once_however_often_it_is_looked_at():
    nodes = _Nodes(tree(points=64, height=3), ValueCodes(8, np.arange(0, 512, 3), np.ones(171, np.int64)), Rng.system())
    first = nodes.children(1, np.array([2, 1, 2]), np.array([1, 0, 1]))
    again = nodes.children(1, np.array([1, 1, 2, 0]), np.array([0, 3, 1, 2]))
    assert first.shape == (3, 4)
    assert first[0].tolist() == first[2].tolist() == again[2].tolist()
    assert first[1].tolist() == again[0].tolist()
    assert (nodes.seen[1].tolist(), nodes.looks) == ([2, 4, 7, 9], 2)
    assert nodes.children(1, np.array([0, 1]), np.array([2, 0])).tolist() == [again[3].tolist(), again[0].tolist()]
    assert nodes.looks == 2


def test_nodes_behind_the_last_point_have_no_noise_and_no_quantile():
    nodes = _Nodes(tree(rho=Fraction(1, 1000), points=7, height=2), ValueCodes(3, EMPTY, EMPTY), Rng.system())
    last = nodes.children(1, np.arange(3), np.full(3, 2))
    assert last[:, 1:].tolist() == [[0, 0]] * 3
    assert nodes.real(1, np.array([0, 1, 2])).tolist() == [3, 3, 1]
    released = tree(rho=Fraction(1, 1000), points=7, height=2).release(500, EMPTY, EMPTY, THREE, Rng.system())
    assert {*np.unique(released.values)} <= {*range(7)}


def test_only_what_is_visited_is_noised():
    """A root and at most three nodes a level for each quantile: the value and its two ends."""
    mechanism = tree(rho=10)
    nodes = _Nodes(mechanism, ValueCodes(5, np.arange(0, 5 * 16**4, 16), np.full(5 * 16**3, 3)), Rng.system())
    for side in (-1, 0, 1):
        nodes.descend(np.repeat(np.arange(5), 3), np.tile([0.1, 0.5, 0.9], 5), side)
    assert len(nodes.seen[0]) == 5
    assert all(len(seen) <= 45 for seen in nodes.seen[1:])


def test_a_keyed_source_repeats_and_parameters_change_the_noise():
    values = sparse([list(range(0, 200, 3)), list(range(50))], 16**4)
    runs = [tree(max_values=m).release(*values, THREE, Rng.keyed(b"k", b"c")).values.tolist() for m in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_blocks_cover_all_keys(monkeypatch):
    monkeypatch.setattr(quantile_tree, "BLOCK_KEYS", 7)
    released = tree(rho=HUGE, points=50).release(*sparse([[key] * 5 for key in range(40)], 50), THREE, Rng.system())
    assert released.values.tolist() == [list(range(40))] * 3


def test_what_the_tree_costs():
    mechanism = tree(rho=Fraction(1, 2), max_keys=3, max_values=2, height=4)
    assert (mechanism.branching, mechanism.noise.sigma_squared) == (16, 4 * 3 * 4)


@pytest.mark.parametrize(
    ("points", "height", "branching"),
    [(1, 1, 2), (2, 1, 2), (11, 1, 11), (31, 2, 6), (100, 3, 5), (2001, 4, 7), (16**4, 8, 4), (100_001, 6, 7)],
)
def test_the_height_has_the_least_deviation(points, height, branching):
    mechanism = tree(points=points)
    assert (mechanism.levels, mechanism.branching) == (height, branching) == (best_height(points), branching)
    assert branching**height >= points


@given(st.integers(1, 2**40))
def test_trees_of_any_grid_have_enough_leaves_and_no_empty_level(points):
    mechanism = tree(points=points)
    assert mechanism.branching**mechanism.levels >= points
    assert mechanism.branching ** (mechanism.levels - 1) < max(points, 2)
    assert 2 <= mechanism.branching <= MAX_BRANCHING


def test_no_keys_and_no_quantiles():
    assert tree().release(0, EMPTY, EMPTY, THREE, Rng.system()).values.shape == (3, 0)
    assert tree().release(4, EMPTY, EMPTY, [], Rng.system()).low.shape == (0, 4)


def test_a_thousand_keys_take_no_more_steps_than_ten():
    steps = []
    for keys in (10, 1_000):
        points = np.random.default_rng(1).integers(0, 16**4, (keys, 100))
        codes, counts = np.unique((points + 16**4 * np.arange(keys)[:, None]).ravel(), return_counts=True)
        seen = Counter()
        with traced(seen):
            tree().release(keys, codes, counts, THREE, Rng.system())
        steps.append(seen.total())
    assert steps[1] < 2 * steps[0]


BAD_TREES = [
    ("rho", 0),
    ("rho", -1),
    ("rho", float("nan")),
    ("rho", 1e-40),
    ("max_keys", 0),
    ("max_keys", 1.5),
    ("max_values", 0),
    ("points", 0),
    ("points", 2**41),
    ("height", 0),
    ("height", 1),
    ("height", 17),
]


@pytest.mark.parametrize(("argument", "value"), BAD_TREES)
def test_bad_trees_are_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        tree(**{argument: value})
