"""Sort words of 64 bits, by the faster of two sorts.

numpy partitions an array by the widest vectors of the processor. On some processors (AMD Zen 4) that takes five times
as long as by narrower ones. Up to 256 words are sorted without a partition, which is fast everywhere. So
`sort_by_buckets` leaves only short arrays to numpy. Which sort is faster is measured once per process, on words that
have nothing to do with any data. Both give the same array.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words64

Sort: TypeAlias = Callable[[Words64], None]
"""In place, ascending."""

MIN_LONG = 2**18
"""From so many words on it matters which sort is taken."""

BLOCK = 2**17
"""Words that are dealt out together: so many that they stay in the cache."""

SHORT = 2**10
"""Up to so many words are left to numpy."""

BUCKET = 2**7
"""About so many words are in the last buckets."""

_BYTE = 8
_SAMPLE = 2**16
_ODD = np.uint64(0x9E3779B97F4A7C15)

_lock = Lock()


def sort_words(words: Words64) -> None:
    """Sort in place, ascending."""
    sort = sort_by_numpy if len(words) < MIN_LONG else faster_sort()
    sort(words)


def fresh(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a sorted array differs from the place before."""
    found = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def sort_with_places(words: Words64) -> tuple[Words64, Integers]:
    """The words in ascending order, and the place that each had before."""
    number_bits = max(1, (len(words) - 1).bit_length())
    if _bits(words) + number_bits > 64:
        places = words.argsort()
        return words.take(places), places
    # One number for both is sorted faster than places are by their words.
    numbered = words << np.uint64(number_bits)
    numbered |= np.arange(len(words), dtype=np.uint64)
    sort_words(numbered)
    return numbered >> np.uint64(number_bits), (numbered & np.uint64((1 << number_bits) - 1)).view(np.int64)


def faster_sort() -> Sort:
    """The sort that is faster on this machine: measured by the first thread that asks."""
    with _lock:
        return _measure()


@cache
def _measure() -> Sort:
    return choose_sort((sort_by_numpy, sort_by_buckets), time.perf_counter)


def choose_sort(sorts: tuple[Sort, ...], clock: Callable[[], float], turns: int = 3) -> Sort:
    """The sort with the shortest of a few turns."""
    best = dict.fromkeys(sorts, float("inf"))
    for _ in range(turns):
        for sort in sorts:
            words = np.arange(_SAMPLE, dtype=np.uint64) * _ODD  # as good as random
            started = clock()
            sort(words)
            best[sort] = min(best[sort], clock() - started)
    return min(sorts, key=best.__getitem__)


def sort_by_numpy(words: Words64) -> None:
    words.sort()


def sort_by_buckets(words: Words64) -> None:
    """Deal words out by their upper bits, into 256 buckets at most, and sort each bucket by itself."""
    if len(words):
        _sort(words, _bits(words))


def _sort(words: Words64, bits: int) -> None:
    """Sort words that differ in the lower `bits` only."""
    if len(words) <= SHORT:
        words.sort()
    elif bits:
        width = min(_BYTE, bits, (len(words) // BUCKET).bit_length() - 1)
        for start, end in pairwise([0, *_deal(words, bits - width, width)]):
            _sort(words[start:end], bits - width)


def _deal(words: Words64, shift: int, width: int) -> Iterator[int]:
    """Order the words by `width` bits from `shift` on; where each bucket ends.

    Block by block at first: then what is written at random stays in the cache.
    """
    moved, sizes = np.empty_like(words), []
    for start in range(0, len(words), BLOCK):
        block = words[start : start + BLOCK]
        buckets = (block >> np.uint64(shift) & np.uint64((1 << width) - 1)).astype(np.uint8)
        # numpy sorts bytes by counting them.
        block.take(buckets.argsort(kind="stable"), out=moved[start : start + BLOCK], mode="clip")
        sizes.append(np.bincount(buckets, minlength=1 << width))
    ends = np.cumsum(sizes).reshape(-1, 1 << width)
    starts = ends - sizes
    pieces = zip(starts.T.ravel().tolist(), ends.T.ravel().tolist(), strict=True)
    np.concatenate([moved[start:end] for start, end in pieces], out=words)
    return iter(np.cumsum(np.sum(sizes, axis=0)).tolist())


def _bits(words: Words64) -> int:
    """How many bits the largest word has."""
    return int(words.max(initial=0)).bit_length()
