"""Quantiles that are chosen: what a release gives, what it refuses, and that a choice is an exact race."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, quantiles, selection
from sfumato.mechanisms.quantile_tree import QuantileTree
from sfumato.mechanisms.quantiles import Grid, QuantileChoice, uniform_below
from sfumato.mechanisms.selection import Scores, race, winners
from sfumato.mechanisms.stream import Stream
from tests.helpers.chosen import ChosenStream
from tests.helpers.tracing import traced

THREE = [Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]


def sparse(values: list[list[int]], points: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Keys, codes and counts of each key's values."""
    flat = [key * points + value for key, row in enumerate(values) for value in row]
    codes, counts = np.unique(np.array(flat, np.int64), return_counts=True)
    return len(values), codes, counts


def tree(**arguments) -> QuantileTree:
    return QuantileTree(**{"rho": Fraction(1), "max_keys": 1, "max_values": 1, "points": 16**4} | arguments)


def choice(points: int = 10, **arguments) -> QuantileChoice:
    usual = {"epsilon": Fraction(1), "quantile": Fraction(1, 2), "max_keys": 1, "max_values": 1, "grid": Grid(points)}
    return QuantileChoice(**usual | arguments)


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
    """Counts a hundred thousand times as large: what is not best is never chosen. A quantile misses by nothing."""
    keys, codes, counts = sparse(values, 61)
    chosen = choice(epsilon=100, quantile=quantile, points=61).release(keys, codes, counts * 10**5, Rng.system())
    for row, point in zip(values, chosen.tolist(), strict=True):
        below, up_to = sum(v < point for v in row), sum(v <= point for v in row)
        assert below <= quantile * len(row) <= up_to


def test_a_quantile_at_an_end_is_refused_with_the_way_out():
    with pytest.raises(InvalidArgument, match=r"ask for 0\.01 or 0\.99 instead of the smallest or the largest"):
        choice(quantile=1)


def test_with_decades_round_points_weigh_more():
    """Points 95 to 112: 100 weighs 2 + 10 + 100, 110 weighs 2 + 10, the others 2 each."""
    grid = Grid(18, 95, 2)
    first, widths = np.array([0, 5, 6, 0]), np.array([5, 1, 12, 18])
    assert grid.weights(first, widths).tolist() == [10, 112, 24 + 10, 32 + 12 + 112]
    found = grid.at_weight(np.zeros(156, np.int64), np.full(156, 18), np.arange(156))
    assert np.bincount(found, minlength=18).tolist() == [2] * 5 + [112] + [2] * 9 + [12] + [2] * 2
    assert Grid(5).weights(np.array([0]), np.array([5])).tolist() == [5]


def test_decades_of_negative_numbers():
    """Points -12 to 3: the tens are -10 and 0."""
    found = Grid(16, -12, 1).at_weight(np.zeros(36, np.int64), np.full(36, 16), np.arange(36))
    assert np.flatnonzero(np.bincount(found, minlength=16) > 1).tolist() == [2, 12]


def test_the_rank_that_is_promised():
    """A range of 1.8 over epsilon 1/2, times the logarithm of 20 times the weight of all ten points."""
    mechanism = choice(epsilon=Fraction(1, 2), quantile=Fraction(9, 10), max_values=1)
    assert mechanism.miss() == pytest.approx(3.6 * math.log(10 / 0.05))
    assert mechanism.miss(0.5) < mechanism.miss()


def test_what_a_choice_costs():
    mechanism = choice(epsilon=Fraction(1, 2), quantile=Fraction(9, 10), max_keys=3, max_values=4)
    assert mechanism.rho == Fraction(3, 32)
    assert mechanism.rate == Fraction(1, 2) / (2 * 9 * 4)


@pytest.mark.parametrize("rho", [Fraction(1, 8), Fraction(1, 3), 1e-9, Fraction(2)])
@pytest.mark.parametrize("max_keys", [1, 7])
def test_an_epsilon_from_rho_never_costs_more(rho, max_keys):
    mechanism = QuantileChoice.of_rho(rho, quantile=Fraction(1, 2), max_keys=max_keys, max_values=1, grid=Grid(5))
    assert Fraction(rho) * (1 - Fraction(1, 10**9)) <= mechanism.rho <= Fraction(rho)


@pytest.mark.parametrize("rho", [0, -1, 1e-50, 10**6, float("inf"), "1"])
def test_bad_rho_is_refused(rho):
    with pytest.raises(InvalidArgument, match=r"^rho: "):
        QuantileChoice.of_rho(rho, quantile=Fraction(1, 2), max_keys=1, max_values=1, grid=Grid(5))


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


def test_a_thousand_keys_take_no_more_steps_than_ten():
    steps = []
    for keys in (10, 1_000):
        points = np.random.default_rng(1).integers(0, 16**4, (keys, 100))
        codes, counts = np.unique((points + 16**4 * np.arange(keys)[:, None]).ravel(), return_counts=True)
        seen = Counter()
        with traced(seen):
            choice(grid=Grid(16**4, 0, 3)).release(keys, codes, counts, Rng.system())
        steps.append(seen.total())
    assert steps[1] < 2 * steps[0]


def test_no_keys():
    empty = np.empty(0, np.int64)
    assert choice().release(0, empty, empty, Rng.system()).shape == (0,)


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
