"""Quantiles: what a release gives, that its noise is drawn once, and that a choice is an exact race."""

from __future__ import annotations

import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, quantiles, selection
from sfumato.mechanisms.quantiles import QuantileChoice, QuantileTree, ValueCodes, _Nodes, uniform_below
from sfumato.mechanisms.selection import Scores, race, winners
from sfumato.mechanisms.stream import Stream
from tests.helpers.chosen import ChosenStream

THREE = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
HUGE = 10**12


def sparse(values: list[list[int]], points: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Keys, codes and counts of each key's values."""
    flat = [key * points + value for key, row in enumerate(values) for value in row]
    codes, counts = np.unique(np.array(flat, np.int64), return_counts=True)
    return len(values), codes, counts


def lower_quantile(values: list[int], q: Fraction) -> int:
    """The smallest value with at least a share q at or below it."""
    return sorted(values)[max(-(-q.numerator * len(values) // q.denominator), 1) - 1]


def tree(**arguments) -> QuantileTree:
    return QuantileTree(**{"rho": Fraction(1), "max_keys": 1, "max_values": 1} | arguments)


def choice(**arguments) -> QuantileChoice:
    usual = {"epsilon": Fraction(1), "quantile": Fraction(1, 2), "max_keys": 1, "max_values": 1, "points": 10}
    return QuantileChoice(**usual | arguments)


# --- The tree -----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 80), min_size=1, max_size=30), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_without_noise_the_quantiles_are_the_true_ones(values):
    released = tree(rho=HUGE, height=4, branching=3).release(*sparse(values, 81), THREE, Rng.system())
    for i, q in enumerate(THREE):
        exact = [lower_quantile(row, q) for row in values]
        assert (np.ceil(released.values[i]) - 1).tolist() == exact


def test_a_key_without_noise_and_without_values_gives_the_middle():
    released = tree(rho=HUGE).release(2, np.array([5 * 16]), np.array([9]), [Fraction(1, 2)], Rng.system())
    assert released.values.tolist() == [[5 * 16 + 0.5, 16**4 / 2]]


def test_positions_stay_exact_for_the_last_of_many_keys():
    keys = 2**46
    codes = np.array([(keys - 1) * 16**4 + 7])
    last = QuantileTree(rho=HUGE, max_keys=1, max_values=1)
    walk = _Nodes(last, ValueCodes(keys, codes, np.array([9])), Rng.system()).walk(
        np.array([keys - 1, keys - 2]), np.array([0.5, 0.5])
    )
    assert walk.positions.tolist() == [7.5, 16**4 / 2]


@given(
    st.lists(st.lists(st.integers(0, 255), max_size=40), min_size=1, max_size=6),
    st.permutations([Fraction(i, 10) for i in (1, 3, 5, 7, 9)]),
    st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(100)]),
)
@settings(max_examples=60, deadline=None)
def test_shape_order_and_ends(values, wanted, rho):
    released = tree(rho=rho, height=4, branching=4).release(*sparse(values, 256), wanted, Rng.system())
    order = np.argsort(np.array([float(q) for q in wanted]))
    for positions in (released.low, released.values, released.high):
        assert positions.shape == (5, len(values))
        assert positions.min() >= 0
        assert positions.max() <= 256
        assert (np.diff(positions[order], axis=0) >= 0).all()
    assert (released.low <= released.values).all()
    assert (released.values <= released.high).all()


def test_a_node_is_noised_once_however_often_it_is_looked_at():
    mechanism = tree(height=3, branching=4)
    nodes = _Nodes(mechanism, ValueCodes(8, np.arange(0, 512, 3), np.ones(171, np.int64)), Rng.system())
    first = nodes._children(1, np.array([9, 4, 9]))
    again = nodes._children(1, np.array([4, 7, 9, 2]))
    assert first.shape == (3, 4)
    assert first[0].tolist() == first[2].tolist() == again[2].tolist()
    assert first[1].tolist() == again[0].tolist()
    assert (nodes.seen[1].tolist(), nodes.looks) == ([2, 4, 7, 9], 2)
    assert nodes._children(1, np.array([2, 4])).tolist() == [again[3].tolist(), again[0].tolist()]
    assert nodes.looks == 2


def test_only_what_is_visited_is_noised():
    """A root and at most three nodes a level for each quantile: the value and its two ends."""
    mechanism = tree(rho=10)
    spied = _Nodes(mechanism, ValueCodes(5, np.arange(0, 5 * 16**4, 16), np.full(5 * 16**3, 3)), Rng.system())
    spied.walk(np.repeat(np.arange(5), 3), np.tile([0.1, 0.5, 0.9], 5))
    assert len(spied.seen[0]) == 5
    assert all(len(seen) <= 15 for seen in spied.seen[1:])


def test_a_keyed_source_repeats_and_parameters_change_the_noise():
    values = sparse([list(range(0, 200, 3)), list(range(50))], 16**4)
    runs = [tree(max_values=m).release(*values, THREE, Rng.keyed(b"k", b"c")).values.tolist() for m in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_what_the_tree_costs():
    mechanism = tree(rho=Fraction(1, 2), max_keys=3, max_values=2)
    assert (mechanism.points, mechanism.noise.sigma_squared) == (65536, 4 * 3 * 4)


def test_no_keys_and_no_quantiles():
    empty = np.empty(0, np.int64)
    assert tree().release(0, empty, empty, THREE, Rng.system()).values.shape == (3, 0)
    assert tree().release(4, empty, empty, [], Rng.system()).low.shape == (0, 4)
    assert choice().release(0, empty, empty, Rng.system()).shape == (0,)


def test_ten_thousand_keys_do_not_take_long():
    points = np.random.default_rng(1).integers(0, 16**4, (10_000, 100))
    codes, counts = np.unique((points + 16**4 * np.arange(10_000)[:, None]).ravel(), return_counts=True)
    start = time.thread_time()
    tree().release(10_000, codes, counts, THREE, Rng.system())
    middle = time.thread_time()
    choice(points=16**4).release(10_000, codes, counts, Rng.system())
    assert middle - start < 6  # 0.7 s of work, however busy the machine
    assert time.thread_time() - middle < 6  # 0.15 s


BAD_TREES = [
    ("rho", 0),
    ("rho", -1),
    ("rho", float("nan")),
    ("rho", 1e-40),
    ("max_keys", 0),
    ("max_keys", 1.5),
    ("max_values", 0),
    ("height", 0),
    ("height", 11),
    ("branching", 1),
]


@pytest.mark.parametrize(("argument", "value"), BAD_TREES)
def test_bad_trees_are_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        tree(**{argument: value})


@pytest.mark.parametrize("quantile", [0, 1, Fraction(-1, 2), 2, float("nan"), "half"])
def test_bad_quantiles_are_refused(quantile):
    empty = np.empty(0, np.int64)
    with pytest.raises(InvalidArgument, match=r"^quantile: "):
        tree().release(1, empty, empty, [quantile], Rng.system())
    with pytest.raises(InvalidArgument, match=r"^quantile: "):
        choice(quantile=quantile)


BAD_DATA = [
    (-1, [], [], "keys"),
    (2**60, [], [], "keys"),
    (1, [3, 3], [1, 1], "codes"),
    (1, [4, 3], [1, 1], "codes"),
    (1, [-1], [1], "codes"),
    (1, [16**4], [1], "codes"),
    (1, [3], [], "counts"),
    (1, [3], [-1], "counts"),
    (1, [3], [2**41], "counts"),
]


@pytest.mark.parametrize(("keys", "codes", "counts", "argument"), BAD_DATA)
def test_bad_histograms_are_refused_by_name(keys, codes, counts, argument):
    arrays = np.array(codes, np.int64), np.array(counts, np.int64)
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        tree().release(keys, *arrays, THREE, Rng.system())
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        choice(points=16**4).release(keys, *arrays, Rng.system())


def test_codes_are_an_array_and_the_source_is_ours():
    counts = np.array([1])
    for codes in ([3], np.array([3.0]), np.array([[3]])):
        with pytest.raises(InvalidArgument, match=r"^codes: "):
            choice().release(1, codes, counts, Rng.system())
    for mechanism, more in ((tree(), (THREE,)), (choice(), ())):
        with pytest.raises(InvalidArgument, match=r"^rng: "):
            mechanism.release(1, counts, counts, *more, np.random.default_rng())


# --- The choice ---------------------------------------------------------------------------------------------------


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=25), min_size=1, max_size=6),
    st.sampled_from([*THREE, Fraction(1, 3), Fraction(999, 1000)]),
)
@settings(max_examples=60, deadline=None)
def test_with_a_large_epsilon_the_choice_has_the_best_score(values, quantile):
    """Counts a hundred thousand times as large: what is not best is never chosen."""
    keys, codes, counts = sparse(values, 61)
    chosen = choice(epsilon=100, quantile=quantile, points=61).release(keys, codes, counts * 10**5, Rng.system())
    for row, point in zip(values, chosen.tolist(), strict=True):
        scores = [abs((1 - quantile) * sum(v < x for v in row) - quantile * sum(v > x for v in row)) for x in range(61)]
        assert scores[point] == min(scores)


def test_what_a_choice_costs():
    mechanism = choice(epsilon=Fraction(1, 2), quantile=Fraction(9, 10), max_keys=3, max_values=4)
    assert mechanism.rho == Fraction(3, 32)
    assert mechanism.rate == Fraction(1, 2) / (2 * 9 * 4)


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(1, 3), 1e-9, Fraction(2)])
@pytest.mark.parametrize("max_keys", [1, 7])
def test_an_epsilon_from_rho_never_costs_more(rho, max_keys):
    mechanism = QuantileChoice.of_rho(rho, quantile=Fraction(1, 2), max_keys=max_keys, max_values=1, points=5)
    assert Fraction(rho) * (1 - Fraction(1, 10**9)) <= mechanism.rho <= Fraction(rho)


@pytest.mark.parametrize("rho", [0, -1, 1e-50, 10**6, float("inf"), "1"])
def test_bad_rho_is_refused(rho):
    with pytest.raises(InvalidArgument, match=r"^rho: "):
        QuantileChoice.of_rho(rho, quantile=Fraction(1, 2), max_keys=1, max_values=1, points=5)


BAD_CHOICES = [
    ("epsilon", 0),
    ("epsilon", 101),
    ("quantile", 0.9),
    ("max_keys", 0),
    ("max_values", 0),
    ("points", 0),
    ("points", 2**41),
]


@pytest.mark.parametrize(("argument", "value"), BAD_CHOICES)
def test_bad_choices_are_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        choice(**{argument: value})


def test_a_keyed_choice_repeats_and_blocks_cover_all_keys(monkeypatch):
    keys, codes, counts = sparse([[1, 2, 2, 5]] * 40, 10)
    chosen = [choice(max_keys=m).release(keys, codes, counts, Rng.keyed(b"k", b"c")).tolist() for m in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    monkeypatch.setattr(quantiles, "BLOCK_KEYS", 7)
    blocks = choice().release(keys, codes, counts, Rng.system())
    assert len(blocks) == 40
    assert blocks.min() >= 0
    assert blocks.max() < 10


def test_a_uniform_number_rejects_the_words_that_would_favour_small_ones():
    """2^64 = 1 modulo 3: the last word is one too many. Modulo a power of two none is."""
    top = 2**64 - 1
    lanes = {0: {0: top, 1: 5, 2: top, 3: top}, 1: {0: top, 1: 9, 2: 9, 3: 9}, 2: {0: 7, 1: 9, 2: 9, 3: 9}}
    drawn = uniform_below(np.array([3, 3, 1, 2**40]), ChosenStream(lanes))
    assert drawn.tolist() == [1, 2, 0, 2**40 - 1]


# --- Many races at once, and weights ------------------------------------------------------------------------------


class Shifted(Stream):
    """The same words, from another place on."""

    def __init__(self, stream: Stream, by: int) -> None:
        self._stream, self._by = stream, by

    def words(self, lane, start, count):
        return self._stream.words(lane, start + self._by, count)


RACES = st.lists(
    st.lists(st.tuples(st.integers(-30, 30), st.integers(1, 2**40)), min_size=1, max_size=12), min_size=1, max_size=12
)


@given(RACES, st.binary(min_size=32, max_size=32))
@settings(deadline=None)
def test_many_races_at_once_are_each_its_own_race(races, seed):
    stream, rate = Stream(seed), Fraction(0.3)
    runners = np.array([runner for one in races for runner in one])
    starts = np.cumsum([0, *map(len, races)])[:-1]
    won = winners(Scores(rate, runners[:, 0], weights=runners[:, 1]), starts, stream)
    for one, start, first in zip(races, starts.tolist(), won.tolist(), strict=True):
        counts, weights = np.array(one).T
        assert race(Scores(rate, counts, weights=weights), Shifted(stream, start), 1) == [first - start]


def test_the_float_brackets_only_say_where_to_look_closer(monkeypatch):
    counts, starts = np.arange(90) // 4, np.array([0, 1, 30, 55])
    scores, stream = Scores(Fraction(0.15), counts, weights=np.arange(1, 91)), Stream(bytes(range(32)))
    fast = winners(scores, starts, stream).tolist()
    monkeypatch.setattr(selection, "MARGIN", 1.0)
    assert winners(scores, starts, stream).tolist() == fast


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 2**62)), min_size=1, max_size=40),
    st.binary(min_size=32, max_size=32),
)
@settings(deadline=None)
def test_the_order_of_weighted_runners_is_that_of_an_oracle(runners, seed):
    """rate * count + ln(weight) - ln(-ln(1 - W)) to 60 digits."""
    counts, weights = np.array(runners).T
    stream = Stream(seed)
    lanes = [stream.words(lane, 0, len(runners)).tolist() for lane in range(2)]
    with mpmath.workdps(60):
        places = [
            mpmath.mpf(count) / 7
            + mpmath.log(weight)
            - mpmath.log(-mpmath.log(1 - mpmath.mpf((head << 64) + tail) / mpmath.mpf(2) ** 128))
            for (count, weight), head, tail in zip(runners, *lanes, strict=True)
        ]
    expected = sorted(range(len(runners)), key=lambda runner: -places[runner])
    assert race(Scores(Fraction(1, 7), counts, weights=weights), stream, len(runners)) == expected
