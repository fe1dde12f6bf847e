"""Count and collect what is kept, over all sets of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from sfumato.engines.contributions import CodedRows, Contributions
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words
from sfumato.release.bounding.order import KeyOrder, Mask, fresh, kept_pairs, lengths
from sfumato.release.bounding.pairs import PairCodes, Pairs

T = TypeVar("T")

MAX_KEYS = 2**32
MAX_CENSUS = 2**26


def count_people(
    contributions: Contributions, order: KeyOrder, *, max_keys: int, within: Sequence[int] | Integers | None = None
) -> Integers:
    """Distinct people by key code, each person counted for at most `max_keys` keys.

    `within` restricts the rows to the keys of these codes first: people spend no place on other keys.
    """
    _check_max_keys(max_keys)
    size, key_bits, keys = contributions.size, contributions.key_bits, contributions.key_values
    chosen = _mask(within, size)
    mask = np.uint64((1 << key_bits) - 1)

    def count(part: CodedRows) -> Integers:
        words = part.words if chosen is None else part.words[_among(chosen, part.words, key_bits)]
        kept = kept_pairs(words, key_bits, part.people, keys, order=order, max_keys=max_keys)
        kept &= mask
        return np.bincount(kept.view(np.int64), minlength=size)

    return _total(contributions.map_sets(count), size)


def keys_per_person(contributions: Contributions, most: int) -> Integers:
    """How many people have n distinct keys, by n; those with more than `most` are counted at `most`."""
    if not 1 <= most <= MAX_CENSUS:
        raise InvalidArgument("most", f"must be from 1 to {MAX_CENSUS}")
    key_bits = np.uint64(contributions.key_bits)

    def count(part: CodedRows) -> Integers:
        words = part.words
        words.sort()
        persons = words[fresh(words)] >> key_bits
        keys = lengths(np.flatnonzero(fresh(persons)), len(persons))
        return np.bincount(np.minimum(keys, most), minlength=most + 1)

    return _total(contributions.map_sets(count), most + 1)


def fold_pairs(
    contributions: Contributions,
    work: Callable[[Pairs], T],
    order: KeyOrder,
    *,
    max_keys: int,
    within: Sequence[int] | Integers | None = None,
) -> Iterator[T]:
    """`work` on the kept pairs of each of some disjoint sets of people; its results, one by one.

    The pairs are those that `count_people` counts for the same arguments. How many sets there are, and who is in which,
    depends on all rows: add the results up exactly. `work` may run elsewhere, for several sets at once.
    """
    _check_max_keys(max_keys)
    key_bits, keys = contributions.key_bits, contributions.key_values
    chosen = _mask(within, contributions.size)

    def fold(part: CodedRows) -> T:
        words, columns = part.words, part.columns
        if chosen is not None:
            here = _among(chosen, words, key_bits)
            words, columns = words[here], {name: values[here] for name, values in columns.items()}
        return work(Pairs(words, columns, PairCodes(key_bits, part.people, keys), order=order, max_keys=max_keys))

    return contributions.map_sets(fold, values=True)


def _total(parts: Iterator[Integers], size: int) -> Integers:
    total = np.zeros(size, np.int64)
    for part in parts:
        total += part
    return total


def _check_max_keys(max_keys: int) -> None:
    if not 1 <= max_keys <= MAX_KEYS:
        raise InvalidArgument("max_keys", f"must be from 1 to {MAX_KEYS}")


def _mask(codes: Sequence[int] | Integers | None, size: int) -> Mask | None:
    if codes is None:
        return None
    chosen = np.zeros(size, np.bool_)
    chosen[np.asarray(codes, np.int64)] = True
    return chosen


def _among(chosen: Mask, words: Words, key_bits: int) -> Mask:
    return chosen.take((words & np.uint64((1 << key_bits) - 1)).view(np.int64))
