"""Count and collect what is kept, over all sets of people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from sfumato.engines.contributions import CodedContributions, CodedRows, DistinctPairs, Mask
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.release.bounding.order import KeyOrder, first_keys
from sfumato.release.bounding.pairs import Pairs

T = TypeVar("T")

MAX_KEYS = 2**32
MAX_CENSUS = 2**26


def count_people(
    contributions: CodedContributions, order: KeyOrder, *, max_keys: int, within: Sequence[int] | Integers | None = None
) -> Integers:
    """Distinct people by key code, each person counted for at most `max_keys` keys.

    `within` restricts the rows to the keys of these codes first: people spend no place on other keys.
    """
    _check_max_keys(max_keys)
    size = contributions.size

    def count(pairs: DistinctPairs) -> Integers:
        return np.bincount(first_keys(pairs, max_keys, order).keys, minlength=size)

    return _total(contributions, count, size, None if within is None else _mask(within, size))


def keys_per_person(
    contributions: CodedContributions, most: int, *, within: Sequence[int] | Integers | None = None
) -> Integers:
    """How many people have n distinct keys, by n; those with more than `most` are counted at `most`."""
    if not 1 <= most <= MAX_CENSUS:
        raise InvalidArgument("most", f"must be from 1 to {MAX_CENSUS}")
    chosen = None if within is None else _mask(within, contributions.size)
    return _total(contributions, lambda pairs: pairs.people_by_keys(most), most + 1, chosen)


def sum_weights(
    contributions: CodedContributions, order: KeyOrder, weights: Integers, *, without: Sequence[int] | Integers = ()
) -> Integers:
    """The sum of weights by key code: a person with d keys adds `weights[d]` to each of them.

    A person counts for as many keys as there are weights. `without` removes the keys of these codes first: people have
    fewer keys then.
    """
    size, most = contributions.size, len(weights) - 1

    def add_up(pairs: DistinctPairs) -> Integers:
        degrees = np.minimum(pairs.degrees, most)
        # In floats, which are exact here: weights are at most 2^20 and people fewer than 2^33.
        each = np.repeat(weights[degrees].astype(np.float64), degrees)
        return np.bincount(first_keys(pairs, most, order).keys, weights=each, minlength=size).astype(np.int64)

    return _total(contributions, add_up, size, None if len(without) == 0 else ~_mask(without, size))


def fold_pairs(
    contributions: CodedContributions,
    work: Callable[[Pairs], T],
    order: KeyOrder,
    *,
    max_keys: int,
    within: Sequence[int] | Integers | None = None,
    rows: bool = True,
) -> Iterator[T]:
    """`work` on the kept pairs of each of some disjoint sets of people; its results, one by one.

    The pairs are those that `count_people` counts for the same arguments. How many sets there are, and who is in which,
    depends on all rows: add the results up exactly. `work` may run elsewhere, for several sets at once. Without `rows`,
    what is in the rows of a pair is not known.
    """
    _check_max_keys(max_keys)
    chosen = None if within is None else _mask(within, contributions.size)

    def fold(part: CodedRows | DistinctPairs) -> T:
        return work(Pairs(part.of_keys(chosen), order=order, max_keys=max_keys))

    return contributions.map_rows(fold) if rows else contributions.map_pairs(fold)


def _total(
    contributions: CodedContributions, work: Callable[[DistinctPairs], Integers], size: int, chosen: Mask | None
) -> Integers:
    """The sum of `size` numbers over all sets of people, of the pairs of chosen keys."""
    total = np.zeros(size, np.int64)
    for added in contributions.map_pairs(lambda pairs: work(pairs.of_keys(chosen))):
        total += added
    return total


def _check_max_keys(max_keys: int) -> None:
    if not 1 <= max_keys <= MAX_KEYS:
        raise InvalidArgument("max_keys", f"must be from 1 to {MAX_KEYS}")


def _mask(codes: Sequence[int] | Integers, size: int) -> Mask:
    chosen = np.zeros(size, np.bool_)
    chosen[np.asarray(codes, np.int64)] = True
    return chosen
