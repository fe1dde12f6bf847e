"""The race is in the exact order of score plus Gumbel noise."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.mechanisms import Rng, selection
from sfumato.mechanisms.selection import Scores, race, runners_ahead
from sfumato.mechanisms.stream import Stream
from tests.helpers.chosen import ChosenStream
from tests.helpers.false_alarms import unlikely
from tests.helpers.repeats import repeats

STREAM = Stream(bytes(range(32)))


def oracle_places(scores: Scores, lanes: list[list[int]]) -> list[mpmath.mpf]:
    """score - ln(-ln(1 - W)) to 120 digits, from as many words as there are lanes."""
    with mpmath.workdps(120):
        places = []
        for runner, words in enumerate(zip(*lanes, strict=True)):
            numerator = sum(word << 64 * (len(words) - 1 - i) for i, word in enumerate(words))
            rest = 1 - mpmath.mpf(numerator) / mpmath.mpf(2) ** (64 * len(words))
            rate = mpmath.mpf(scores.rate.numerator) / scores.rate.denominator
            divisor = 1 if scores.divisors is None else int(scores.divisors[runner])
            places.append(rate * int(scores.counts[runner]) - mpmath.log(divisor) - mpmath.log(-mpmath.log(rest)))
        return places


def oracle_order(scores: Scores, stream: Stream) -> list[int]:
    runners = len(scores.counts)
    places = oracle_places(scores, [stream.words(lane, 0, runners).tolist() for lane in range(3)])
    return sorted(range(runners), key=lambda runner: -places[runner])


@given(
    counts=st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 20), min_size=1, max_size=60),
    rate=st.sampled_from([Fraction(1, 100), Fraction(0.15), Fraction(3)]),
    seed=st.binary(min_size=32, max_size=32),
    divided=st.booleans(),
)
def test_the_order_is_that_of_an_oracle(counts, rate, seed, divided):
    divisors = np.arange(5, 5 + len(counts)) if divided else None
    scores, stream = Scores(rate, np.array(counts), divisors), Stream(seed)
    expected = oracle_order(scores, stream)
    for first in {1, len(counts) // 2 + 1, len(counts), len(counts) + 3}:
        assert race(scores, stream, first) == expected[:first]


def ahead_in_a_race(scores: Scores, stream: Stream, first: int) -> list[int]:
    order = race(scores, stream, len(scores.counts))
    return order[: order.index(0)][:first]


@given(
    bottom=st.integers(-50, 500),
    counts=st.lists(st.integers(0, 400) | st.integers(2**50, 2**53), max_size=300),
    rate=st.sampled_from([Fraction(1, 1000), Fraction(1, 100), Fraction(0.15), Fraction(3)]),
    seed=st.binary(min_size=32, max_size=32),
)
def test_the_runners_ahead_of_one_are_those_of_the_race(bottom, counts, rate, seed):
    scores, stream = Scores(rate, np.array([bottom, *counts])), Stream(seed)
    for first in (1, 5, len(counts) + 1):
        assert runners_ahead(scores, stream, first) == ahead_in_a_race(scores, stream, first)


@pytest.mark.slow
@pytest.mark.parametrize("word", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("other", [0, 2**64 - 1, *repeats([], [1, 2**63])])
def test_words_at_the_ends_do_not_hide_a_runner_ahead(word, other):
    """Runner 0 has the first word, the others have the other, in two blocks and with growing counts."""
    first_words = np.full(selection.RUNNERS + 6, other, np.uint64)
    first_words[0] = word

    class Chosen(Stream):
        def words(self, lane, start, count):
            return super().words(lane, start, count) if lane else first_words[start : start + count]

    stream = Chosen(bytes(32))
    for rate in (Fraction(1, 50), Fraction(2)):
        scores = Scores(rate, np.array([40, *range(1, len(first_words))]))
        assert runners_ahead(scores, stream, 200) == ahead_in_a_race(scores, stream, 200)


def test_few_runners_are_looked_at_closely(monkeypatch):
    """Of 10,000 that are far behind, only runner 0 and those whose words are among the smallest."""
    seen, brackets = [], selection._brackets
    monkeypatch.setattr(
        selection, "_brackets", lambda scores, words: seen.append(len(words)) or brackets(scores, words)
    )
    runners_ahead(Scores(Fraction(1), np.array([12, *[0] * 10_000])), STREAM, 10_000)
    assert sum(seen) < 30


def test_the_float_brackets_only_say_where_to_look_closer(monkeypatch):
    scores = Scores(Fraction(0.15), np.arange(80)[::-1] // 3)
    fast = race(scores, STREAM, 80)
    monkeypatch.setattr(selection, "MARGIN", 1.0)
    assert race(scores, STREAM, 80) == fast
    assert race(scores, STREAM, 7) == fast[:7]


@pytest.mark.parametrize("word", [0, 1, 2**20, 2**63 - 1, 2**63, 2**64 - 2**20, 2**64 - 1])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_equal_runners_are_told_apart_by_further_words(word, depth):
    """Two runners agree in `depth` words; the one with the smaller next word has the larger noise."""
    lanes = {lane: {0: word, 1: word} for lane in range(depth)}
    lanes[depth] = {0: 5, 1: 4}
    lanes[depth + 1] = {0: 2**63, 1: 2**63}
    scores = Scores(Fraction(1, 7), np.array([3, 3]))
    assert race(scores, ChosenStream(lanes), 2) == [1, 0]


def test_runners_at_an_end_of_the_interval_are_open_towards_it():
    """The first 64 digits put no bound on how far ahead runner 1 is, nor on how far behind runner 2 is."""
    words = np.array([2**62, 0, 2**64 - 1, 2**63], np.uint64)
    low, high = selection._brackets(Scores(Fraction(1), np.zeros(4, np.int64)), words)
    assert np.isinf(low).tolist() == [False, False, True, False]
    assert np.isinf(high).tolist() == [False, True, False, False]


@pytest.mark.parametrize("late", [2**64 - 2**49, 2**64 - 2**30, 2**64 - 3])
def test_runners_near_the_end_of_the_interval_keep_their_digits(late):
    """1 - W below 2^-15 has lost its digits once W is rounded; the order of close runners must not."""
    lanes = {lane: {0: late, 1: late + 1, 2: late - 1} for lane in range(3)}
    assert race(Scores(Fraction(1), np.array([0, 0, 0])), ChosenStream(lanes), 3) == [2, 0, 1]


def test_runner_i_uses_word_i_whoever_else_runs():
    counts = np.arange(50)[::-1] * 3
    order = race(Scores(Fraction(0.1), counts), STREAM, 50)
    shorter = race(Scores(Fraction(0.1), counts[:30]), STREAM, 30)
    assert [runner for runner in order if runner < 30] == shorter


def test_an_empty_race():
    assert race(Scores(Fraction(1), np.array([], np.int64)), STREAM, 3) == []


def peeling(weights: list[float]) -> dict[tuple[int, ...], float]:
    """The law of the whole order: draw without replacement, in proportion to the weights left."""
    law = {}
    for order in permutations(range(len(weights))):
        left, probability = sum(weights), 1.0
        for runner in order:
            probability *= weights[runner] / left
            left -= weights[runner]
        law[order] = probability
    return law


@pytest.mark.slow
def test_the_law_of_the_order_is_peeling():
    """20,000 races; false alarm once in a million (Chernoff); a rate wrong by a quarter is told apart."""
    counts, divisors, rng = [3, 1, 0], [1, 1, 2], Rng.system()
    scores = Scores(Fraction(1), np.array(counts), np.array(divisors))
    orders = [tuple(race(scores, rng.stream(), 3)) for _ in range(20_000)]
    law = {
        rate: peeling([math.exp(rate * c) / d for c, d in zip(counts, divisors, strict=True)])
        for rate in (1.0, 1.25, 0.8)
    }
    assert not unlikely(orders, law[1.0])
    assert unlikely(orders, law[1.25])
    assert unlikely(orders, law[0.8])
