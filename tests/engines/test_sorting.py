"""Both sorts against Python's own, and the choice between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines import sorting
from sfumato.engines.sorting import Sort, choose_sort, faster_sort, sort_by_buckets, sort_by_numpy, sort_with_places
from tests.helpers.repeats import repeats

SORTS = (sort_by_numpy, sort_by_buckets)


def mixed(size: int) -> np.ndarray:
    """Words without an order, all different."""
    return np.arange(size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short arrays take every step that long ones take."""
    for name, value in {"MIN_LONG": 2, "BLOCK": 16, "SHORT": 4, "BUCKET": 2}.items():
        monkeypatch.setattr(sorting, name, value)


@pytest.fixture
def unmeasured() -> Iterator[None]:
    sorting._measure.cache_clear()
    yield
    sorting._measure.cache_clear()


LONG = {
    "mixed": mixed(300_000),
    "of few bits": mixed(300_000) >> np.uint64(60),
    "all the same": np.full(5_000, 7, np.uint64),
    "one far away": np.append(mixed(5_000) >> np.uint64(40), np.uint64(2**64 - 1)),
    "ascending": np.arange(5_000, dtype=np.uint64),
    "descending": np.arange(5_000, dtype=np.uint64)[::-1],
    "most of one person": np.append(np.arange(200_000, dtype=np.uint64) | np.uint64(5 << 40), mixed(300)),
}


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", LONG)
def test_long_arrays_are_sorted_in_place(sort: Sort, name: str) -> None:
    words = LONG[name].copy()
    sort(words)
    assert words.tolist() == sorted(LONG[name].tolist())


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("choice", SORTS)
def test_both_sorts_give_the_same_array_and_places(choice: Sort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "faster_sort", lambda: choice)

    @settings(max_examples=repeats(50, 500), deadline=None)
    @given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1) | st.integers(2**40, 2**40 + 99), max_size=90))
    def check(numbers: list[int]) -> None:
        words = np.array(numbers, np.uint64)
        ascending, places = sort_with_places(words)
        assert ascending.tolist() == words[places].tolist() == sorted(numbers)
        assert sorted(places.tolist()) == list(range(len(numbers)))
        assert words.tolist() == numbers
        sorting.sort_words(words)
        assert words.tolist() == sorted(numbers)

    check()


def test_the_sort_with_the_shortest_turn_is_chosen() -> None:
    now = 0.0

    def taking(*turns: float) -> Sort:
        left = iter(turns)

        def sort(words: np.ndarray) -> None:
            nonlocal now
            assert len(words) > sorting.SHORT
            now += next(left)

        return sort

    for one, other, first in [((9, 2, 9), (3, 3, 3), True), ((1, 9, 9), (2, 2, 0.5), False)]:
        sorts = taking(*one), taking(*other)
        assert choose_sort(sorts, lambda: now) is sorts[not first]


@pytest.mark.usefixtures("unmeasured")
def test_it_is_measured_once_by_all_threads_and_only_for_long_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[Sort, ...]] = []

    def choose(sorts: tuple[Sort, ...], clock: Callable[[], float]) -> Sort:
        measured.append(sorts)
        assert clock is time.perf_counter
        return sorts[-1]

    monkeypatch.setattr(sorting, "choose_sort", choose)
    sorting.sort_words(mixed(1000))
    assert measured == []
    barrier = Barrier(8)

    def ask(_: int) -> Sort:
        barrier.wait()
        return faster_sort()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {sort_by_buckets}
    assert measured == [SORTS]


@pytest.mark.usefixtures("unmeasured")
def test_the_measurement_itself() -> None:
    assert faster_sort() in SORTS
    words = mixed(sorting.MIN_LONG)
    sorting.sort_words(words)
    assert (words[1:] > words[:-1]).all()
