"""What is in the kept (person, key) pairs of one set of people.

After the sort (`order`), the rows of a pair are neighbours: sums over them are sums of slices, exact in integers.

Guarantee: `totals` and `rows` of a kept pair are functions of that pair's own rows, and so is the set of at most
`most` values that `values` chooses of it, given the secret and the label. So one more person (or one less) does not
change what other people add to any key. That a person has at most L pairs, and which, is argued in
`sfumato.release.bounding`.

Argument for values. A pair's values, numbered among equals 0, 1, 2, ..., are ordered by (g, value, number), where g is
32 bits of a hash of what the order of keys hashes, of the 64 bits of the value, and of its number: a total order of the
pair's own values, which neither codes, nor the order of rows, nor other people enter.
Equal values are interchangeable: which row each came from cannot be seen. Without the number, equal values would be
chosen together, which costs no privacy but is not a fair sample.

The order of pairs, and of values within a pair, follows codes and rows, and means nothing: add them up in integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.engines.contributions import CodeValues, Floats
from sfumato.errors import InvalidArgument, nearest
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words
from sfumato.release.bounding.order import (
    ORDER_BITS,
    KeyOrder,
    Mask,
    among_first,
    fresh,
    insert_order,
    lengths,
    people_by_keys,
)

MAX_VALUE_STEPS = 2**36
"""A value's largest distance from zero in steps: 2^26 rows of a pair cannot overflow a total of 64 bits."""

_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class PairCodes:
    """How words are to be read: key_bits for the key, and the 64 bits behind the codes."""

    key_bits: int
    people: CodeValues
    keys: CodeValues


class Pairs:
    """The kept (person, key) pairs of one set of people, each once; every array of pairs is in the same order."""

    def __init__(
        self, words: Words, columns: Mapping[str, Floats], codes: PairCodes, *, order: KeyOrder, max_keys: int
    ) -> None:
        """Of words person * 2^key_bits + key, which are used up, and of values by row, NaN where there is none."""
        insert_order(words, codes.key_bits, codes.people, codes.keys, order)
        # Where each row went is needed for its values only, and costs more than the sort.
        self._moved: Integers | None = words.argsort() if columns else None
        if self._moved is None:
            words.sort()
        else:
            words = words.take(self._moved)
        self._columns, self._codes, self._order = columns, codes, order
        self._starts = np.flatnonzero(fresh(words))
        self._end = len(words)
        self._every = words[self._starts]
        self._kept = among_first(self._every, max_keys, codes.key_bits + ORDER_BITS)
        self._pairs = self._every[self._kept]

    def people_by_keys(self, most: int) -> Integers:
        """How many people have n keys, kept or not, by n; more than `most` count as `most`."""
        return people_by_keys(self._every, most, self._codes.key_bits + ORDER_BITS)

    @cached_property
    def keys(self) -> Integers:
        """The code of each pair's key."""
        return (self._pairs & np.uint64((1 << self._codes.key_bits) - 1)).view(np.int64)

    @cached_property
    def rows(self) -> Integers:
        """How many rows each pair has, with or without values."""
        return lengths(self._starts, self._end)[self._kept]

    def totals(self, column: str, step: float) -> Integers:
        """The sum of each pair's values in steps, each rounded half to even and clipped to MAX_VALUE_STEPS before."""
        if not 0 < step < math.inf:
            raise InvalidArgument("step", "must be a number above 0")
        with np.errstate(over="ignore"):
            steps = self._by_pair(column) / step
        np.clip(steps, -float(MAX_VALUE_STEPS), float(MAX_VALUE_STEPS), out=steps)
        np.rint(steps, out=steps)
        steps[np.isnan(steps)] = 0
        if not len(steps):
            return np.zeros(0, np.int64)
        return np.add.reduceat(steps.astype(np.int64), self._starts)[self._kept]

    def values(self, column: str, most: int) -> tuple[Integers, Floats]:
        """At most `most` values of each pair, chosen by the keyed order: the places of their pairs, and the values."""
        if most < 1:
            raise InvalidArgument("most", "must be at least 1")
        pairs, values = self._values_by_pair(column)
        many = np.bincount(pairs, minlength=len(self._pairs))[pairs] > most
        chosen_pairs, chosen = self._choose(pairs[many], values[many], most)
        few = ~many
        return np.concatenate([pairs[few], chosen_pairs]), np.concatenate([values[few], chosen])

    def _by_pair(self, column: str) -> Floats:
        """The column's values, pair by pair."""
        if column not in self._columns or self._moved is None:
            raise InvalidArgument("column", f"{column!r} was not asked for{nearest(column, self._columns)}")
        return self._columns[column].take(self._moved)

    def _values_by_pair(self, column: str) -> tuple[Integers, Floats]:
        """Every value of a kept pair, with the pair's place."""
        values = self._by_pair(column)
        values += 0.0  # no negative zero
        places = np.where(self._kept, np.cumsum(self._kept) - 1, -1)
        pairs = np.repeat(places, lengths(self._starts, self._end))
        there = (pairs >= 0) & ~np.isnan(values)
        return pairs[there], values[there]

    def _choose(self, pairs: Integers, values: Floats, most: int) -> tuple[Integers, Floats]:
        """The first `most` values of each pair by (g, value, number); `pairs` ascends."""
        ascending = np.lexsort((values, pairs))
        values = values[ascending]  # and `pairs` stays as it is
        numbers = _numbers(fresh(pairs) | fresh(values))
        words = self._order.value_ranks(self._hashes[pairs], values, numbers)
        words |= pairs.view(np.uint64) << _HALF
        # Stable: equal words stay in the order of (value, number).
        values = values[words.argsort(kind="stable")]
        first = _numbers(fresh(pairs)) < most
        return pairs[first], values[first]

    @cached_property
    def _hashes(self) -> Words:
        """What the order of values knows of each pair's person and key."""
        persons = self._pairs >> np.uint64(self._codes.key_bits + ORDER_BITS)
        return self._order.pair_hashes(self._codes.people, persons, self._codes.keys, self.keys.view(np.uint64))


def _numbers(starts: Mask) -> Integers:
    """0, 1, 2, ... from every start."""
    places = np.arange(len(starts))
    return places - np.maximum.accumulate(np.where(starts, places, 0))
