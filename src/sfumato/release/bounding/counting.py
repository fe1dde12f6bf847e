"""Count and collect what is kept, over all sets of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from sfumato.engines.contributions import CodedRows, Contributions
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words
from sfumato.release.bounding.order import (
    ORDER_BITS,
    KeyOrder,
    Mask,
    among_first,
    fresh,
    kept_pairs,
    lengths,
    ordered_pairs,
    people_by_keys,
)
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
    chosen = None if within is None else _mask(within, size)

    def count(part: CodedRows) -> Integers:
        words = _restricted(part.words, chosen, key_bits)
        return _by_key(kept_pairs(words, key_bits, part.people, keys, order=order, max_keys=max_keys), key_bits, size)

    return _total(contributions.map_sets(count), size)


def keys_per_person(
    contributions: Contributions, most: int, *, within: Sequence[int] | Integers | None = None
) -> Integers:
    """How many people have n distinct keys, by n; those with more than `most` are counted at `most`."""
    _check_most(most)
    key_bits = contributions.key_bits
    chosen = None if within is None else _mask(within, contributions.size)

    def count(part: CodedRows) -> Integers:
        words = _restricted(part.words, chosen, key_bits)
        words.sort()
        return people_by_keys(words[fresh(words)], most, key_bits)

    return _total(contributions.map_sets(count), most + 1)


def count_people_and_keys(
    contributions: Contributions, order: KeyOrder, *, max_keys: int, most: int
) -> tuple[Integers, Integers]:
    """`count_people` and `keys_per_person` of the same rows, by one sort."""
    _check_max_keys(max_keys)
    _check_most(most)
    size, key_bits, keys = contributions.size, contributions.key_bits, contributions.key_values
    person_shift = key_bits + ORDER_BITS

    def count(part: CodedRows) -> Integers:
        pairs = ordered_pairs(part.words, key_bits, part.people, keys, order)
        people = people_by_keys(pairs, most, person_shift)
        return np.concatenate([_by_key(pairs[among_first(pairs, max_keys, person_shift)], key_bits, size), people])

    both = _total(contributions.map_sets(count), size + most + 1)
    return both[:size], both[size:]


def sum_weights(
    contributions: Contributions, order: KeyOrder, weights: Integers, *, without: Sequence[int] | Integers = ()
) -> Integers:
    """The sum of weights by key code: a person with d keys adds `weights[d]` to each of them.

    A person counts for as many keys as there are weights. `without` removes the keys of these codes first: people have
    fewer keys then.
    """
    size, key_bits, keys = contributions.size, contributions.key_bits, contributions.key_values
    most, person_shift = len(weights) - 1, key_bits + ORDER_BITS
    chosen = None if len(without) == 0 else ~_mask(without, size)

    def add_up(part: CodedRows) -> Integers:
        words = _restricted(part.words, chosen, key_bits)
        pairs = kept_pairs(words, key_bits, part.people, keys, order=order, max_keys=most)
        starts = np.flatnonzero(among_first(pairs, 1, person_shift))
        degrees = lengths(starts, len(pairs))
        pairs &= np.uint64((1 << key_bits) - 1)
        # In floats, which are exact here: weights are at most 2^20 and people fewer than 2^33.
        each = np.repeat(weights[degrees].astype(np.float64), degrees)
        return np.bincount(pairs.view(np.int64), weights=each, minlength=size).astype(np.int64)

    return _total(contributions.map_sets(add_up), size)


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
    chosen = None if within is None else _mask(within, contributions.size)

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


def _check_most(most: int) -> None:
    if not 1 <= most <= MAX_CENSUS:
        raise InvalidArgument("most", f"must be from 1 to {MAX_CENSUS}")


def _mask(codes: Sequence[int] | Integers, size: int) -> Mask:
    chosen = np.zeros(size, np.bool_)
    chosen[np.asarray(codes, np.int64)] = True
    return chosen


def _restricted(words: Words, chosen: Mask | None, key_bits: int) -> Words:
    return words if chosen is None else words[_among(chosen, words, key_bits)]


def _by_key(pairs: Words, key_bits: int, size: int) -> Integers:
    """How many pairs each key has. The words are used up."""
    pairs &= np.uint64((1 << key_bits) - 1)
    return np.bincount(pairs.view(np.int64), minlength=size)


def _among(chosen: Mask, words: Words, key_bits: int) -> Mask:
    return chosen.take((words & np.uint64((1 << key_bits) - 1)).view(np.int64))
