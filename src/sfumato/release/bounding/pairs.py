"""What is in the kept (person, key) pairs of one set of people.

After the sort, the rows of a pair are neighbours: sums over them are sums of slices, exact in integers.

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
from functools import cached_property

import numpy as np

from sfumato.engines.contributions import MAX_VALUE_STEPS, CodedRows, DistinctPairs, Floats, Mask
from sfumato.engines.sorting import fresh, sort_with_places, sort_words
from sfumato.errors import InvalidArgument, find_nearest
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words64
from sfumato.release.bounding.order import KeyOrder, are_first

_HALF = np.uint64(32)


class Pairs:
    """The kept (person, key) pairs of one set of people, each once; every array of pairs is in the same order."""

    def __init__(self, source: CodedRows | DistinctPairs, *, order: KeyOrder, max_keys: int) -> None:
        """Of rows, which are used up; or of pairs alone, whose rows are not known then."""
        self._order, self._codes = order, source.codes
        self._columns: Mapping[str, Floats] = {}
        self._starts: Integers | None = None
        self._every = self._sort(source) if isinstance(source, CodedRows) else source
        self._kept = are_first(self._every, max_keys, order)
        self._pairs = self._every.words[self._kept]

    def _sort(self, rows: CodedRows) -> DistinctPairs:
        self._columns, self._end, words = rows.columns, len(rows.words), rows.words
        if rows.columns:
            words, self._moved = sort_with_places(words)
        else:
            sort_words(words)
        self._starts = np.flatnonzero(fresh(words))
        return DistinctPairs(words[self._starts], rows.codes)

    def people_by_keys(self, most: int) -> Integers:
        """How many people have n keys, kept or not, by n; more than `most` count as `most`."""
        return self._every.people_by_keys(most)

    @cached_property
    def keys(self) -> Integers:
        """The code of each pair's key."""
        return self._codes.keys_of(self._pairs)

    @cached_property
    def rows(self) -> Integers:
        """How many rows each pair has, with or without values."""
        return self._every_rows[self._kept]

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
        return np.add.reduceat(steps.astype(np.int64), self._row_starts)[self._kept]

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
        if column not in self._columns:
            raise InvalidArgument(
                "column", f"{column!r} was not asked for", nearest=find_nearest(column, self._columns)
            )
        return self._columns[column].take(self._moved)

    def _values_by_pair(self, column: str) -> tuple[Integers, Floats]:
        """Every value of a kept pair, with the pair's place."""
        values = self._by_pair(column)
        values += 0.0  # no negative zero
        places = np.where(self._kept, np.cumsum(self._kept) - 1, -1)
        pairs = np.repeat(places, self._every_rows)
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

    @property
    def _every_rows(self) -> Integers:
        """How many rows each pair has, kept or not."""
        return np.diff(self._row_starts, append=self._end)

    @property
    def _row_starts(self) -> Integers:
        """Where the rows of each pair start."""
        if self._starts is None:
            raise InvalidArgument("rows", "were not asked for")
        return self._starts

    @cached_property
    def _hashes(self) -> Words64:
        """What the order of values knows of each pair's person and key."""
        persons = self._pairs >> np.uint64(self._codes.key_bits)
        return self._order.pair_hashes(self._codes.people, persons, self._codes.keys, self.keys.view(np.uint64))


def _numbers(starts: Mask) -> Integers:
    """0, 1, 2, ... from every start."""
    places = np.arange(len(starts))
    return places - np.maximum.accumulate(np.where(starts, places, 0))
