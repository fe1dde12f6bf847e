"""One set of people: which (person, key) pairs are kept, by one sort of 64-bit words, and what is in them.

One word a row, from the top: the person's code, ORDER_BITS of the keyed order, the key's code. One sort, and
duplicates are neighbours, each person's keys stand in that person's own order, and a key is among the first L if the
word L places before it belongs to another person. The rows of a pair are neighbours too: sums over them are sums of
slices, exact in integers.

Guarantee: `totals` and `rows` of a kept pair are functions of that pair's own rows, and so is the set of at most
`most` values that `values` chooses of it, given the secret and the label. So one more person (or one less) changes
what nobody else adds to any key. That a person has at most L pairs, and which, is argued in `bounding`.

Argument for values. A pair's values, numbered among equals 0, 1, 2, ..., are ordered by (g, value, number), where g is
32 bits of a mix of the secret, the label, the 64 bits behind the person and the key, the 64 bits of the value, and
its number: a total order of the pair's own values, which neither codes, nor the order of rows, nor other people enter.
Equal values are interchangeable: which row each came from cannot be seen. Without the number, equal values would be
chosen together, which costs no privacy but is not a fair sample.

The order of pairs, and of values within a pair, follows codes and rows, and means nothing: add them up in integers.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidArgument, nearest
from sfumato.mechanisms.stream import Words, context

Counts: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

ORDER_BITS = 20
CODE_BITS = 64 - ORDER_BITS
"""What a person's and a key's code share."""

BLOCK = 2**15

MAX_STEPS = 2.0**36
"""A value's largest distance from zero in steps: 2^27 rows of a pair cannot overflow a total."""

_WORD = 2**64
_MURMUR = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Affine:
    """The 64 bits behind every code: code c stands for the integer `first` + c."""

    first: int

    def times(self, factor: int, codes: Words) -> Words:
        scaled: Words = codes * np.uint64(factor)
        scaled += np.uint64(self.first * factor % _WORD)
        return scaled


@dataclass(frozen=True, slots=True)
class Listed:
    """The 64 bits behind every code: those of code c are `values[c]`."""

    values: Words

    def times(self, factor: int, codes: Words) -> Words:
        scaled: Words = self.values.take(codes.view(np.int64))
        scaled *= np.uint64(factor)
        return scaled


Values: TypeAlias = "Affine | Listed"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Every person's order of keys, and every pair's order of values, modulo 2^64.

    h = the upper ORDER_BITS of mix(a * person + b * key + c)
    g = the upper 32 bits of mix(a * person + b * key + d * value + e * number + f)
    """

    a: int
    b: int
    c: int
    d: int
    e: int
    f: int

    @classmethod
    def of(cls, secret: bytes, label: str) -> KeyOrder:
        """The order of one job and one purpose. Different labels give unrelated orders."""
        if not isinstance(secret, bytes | bytearray) or not secret:
            raise InvalidArgument("secret", "must be bytes, and not empty; use 32 random bytes")
        seed = hmac.digest(secret, context(purpose="bounding", label=label), "sha256")
        a, b, c = _three_words(seed)
        d, e, f = _three_words(hmac.digest(seed, b"values", "sha256"))
        return cls(a | 1, b | 1, c, d | 1, e | 1, f)

    def __repr__(self) -> str:
        return "KeyOrder(...)"

    def ranks(self, people: Values, persons: Words, keys: Values, codes: Words) -> Words:
        """h of pairs of codes."""
        x = self.places(people, persons, keys, codes)
        x += np.uint64(self.c)
        _mix(x)
        x >>= np.uint64(CODE_BITS)
        return x

    def places(self, people: Values, persons: Words, keys: Values, codes: Words) -> Words:
        """a * person + b * key of pairs of codes."""
        x = people.times(self.a, persons)
        x += keys.times(self.b, codes)
        return x

    def value_ranks(self, places: Words, values: Floats, numbers: Counts) -> Words:
        """g of values, given the `places` of their pairs."""
        x: Words = values.view(np.uint64) * np.uint64(self.d)
        x += numbers.view(np.uint64) * np.uint64(self.e)
        x += places
        x += np.uint64(self.f)
        _mix(x)
        x >>= _HALF
        return x


def _three_words(seed: bytes) -> tuple[int, int, int]:
    first, second, third = (int.from_bytes(seed[place : place + 8], "little") for place in (0, 8, 16))
    return first, second, third


def _mix(x: Words) -> None:
    for factor in _MURMUR:
        x ^= x >> np.uint64(33)
        x *= factor


def kept_pairs(words: Words, key_bits: int, people: Values, keys: Values, *, order: KeyOrder, max_keys: int) -> Words:
    """The pairs that are kept, each once, as words (person, h, key), of words person * 2^key_bits + key.

    Sorts in place: `words` is used up. Persons have CODE_BITS - key_bits bits.
    """
    insert_order(words, key_bits, people, keys, order)
    words.sort()
    pairs = words[_fresh(words)]
    if len(pairs) <= max_keys:
        return pairs
    return pairs[_among_first(pairs, max_keys, key_bits + ORDER_BITS)]


def _fresh(words: Words | Counts | Floats) -> Mask:
    """Where a sorted array differs from the place before."""
    fresh = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=fresh[1:])
    return fresh


def _among_first(pairs: Words, max_keys: int, person_shift: int) -> Mask:
    """Which are among the first `max_keys` of their person, of sorted distinct words."""
    within = np.ones(len(pairs), np.bool_)
    if len(pairs) > max_keys:
        # Two words are one person's if they differ in the lower bits only.
        np.greater_equal(pairs[max_keys:] ^ pairs[:-max_keys], np.uint64(1 << person_shift), out=within[max_keys:])
    return within


def insert_order(words: Words, key_bits: int, people: Values, keys: Values, order: KeyOrder) -> None:
    """Put h between person and key, block by block so that the arrays stay in the cache."""
    shift, mask, wider = np.uint64(key_bits), np.uint64((1 << key_bits) - 1), np.uint64(ORDER_BITS)
    for start in range(0, len(words), BLOCK):
        block = words[start : start + BLOCK]
        persons, codes = block >> shift, block & mask
        ranks = order.ranks(people, persons, keys, codes)
        persons <<= wider
        persons |= ranks
        persons <<= shift
        np.bitwise_or(persons, codes, out=block)


def people_by_keys(words: Words, key_bits: int, most: int) -> Counts:
    """How many people have n distinct keys, for n from 0 to `most`, where all who have more are counted too.

    Sorts in place: `words` is used up.
    """
    words.sort()
    persons = words[_fresh(words)] >> np.uint64(key_bits)
    keys = _lengths(np.flatnonzero(_fresh(persons)), len(persons))
    return np.bincount(np.minimum(keys, most), minlength=most + 1)


def _lengths(starts: Counts, end: int) -> Counts:
    return np.diff(starts, append=end)


@dataclass(frozen=True, slots=True)
class Codes:
    """How words are to be read: key_bits for the key, and the 64 bits behind the codes."""

    key_bits: int
    people: Values
    keys: Values


class Pairs:
    """The kept (person, key) pairs of one set of people, each once; every array of pairs is in the same order."""

    def __init__(
        self, words: Words, columns: Mapping[str, Floats], codes: Codes, *, order: KeyOrder, max_keys: int
    ) -> None:
        """Of words person * 2^key_bits + key, which are used up, and of values by row, NaN where there is none."""
        insert_order(words, codes.key_bits, codes.people, codes.keys, order)
        # Where each row went is needed for its values only, and costs more than the sort.
        self._moved: Counts | None = words.argsort() if columns else None
        if self._moved is None:
            words.sort()
        else:
            words = words.take(self._moved)
        self._columns, self._codes, self._order = columns, codes, order
        self._starts = np.flatnonzero(_fresh(words))
        self._end = len(words)
        every = words[self._starts]
        self._kept = _among_first(every, max_keys, codes.key_bits + ORDER_BITS)
        self._pairs = every[self._kept]

    @cached_property
    def keys(self) -> Counts:
        """The code of each pair's key."""
        return (self._pairs & np.uint64((1 << self._codes.key_bits) - 1)).view(np.int64)

    @cached_property
    def rows(self) -> Counts:
        """How many rows each pair has, with or without values."""
        return _lengths(self._starts, self._end)[self._kept]

    def totals(self, column: str, step: float) -> Counts:
        """The sum of each pair's values in steps, each rounded half to even and clipped to MAX_STEPS before."""
        if not 0 < step < math.inf:
            raise InvalidArgument("step", "must be a number above 0")
        with np.errstate(over="ignore"):
            steps = self._sorted(column) / step
        np.clip(steps, -MAX_STEPS, MAX_STEPS, out=steps)
        np.rint(steps, out=steps)
        steps[np.isnan(steps)] = 0
        if not len(steps):
            return np.zeros(0, np.int64)
        return np.add.reduceat(steps.astype(np.int64), self._starts)[self._kept]

    def values(self, column: str, most: int) -> tuple[Counts, Floats]:
        """At most `most` values of each pair, chosen by the keyed order: the places of their pairs, and the values."""
        if most < 1:
            raise InvalidArgument("most", "must be at least 1")
        pairs, values = self._valued(column)
        many = np.bincount(pairs, minlength=len(self._pairs))[pairs] > most
        chosen_pairs, chosen = self._chosen(pairs[many], values[many], most)
        few = ~many
        return np.concatenate([pairs[few], chosen_pairs]), np.concatenate([values[few], chosen])

    def _sorted(self, column: str) -> Floats:
        """The column's values, pair by pair."""
        if column not in self._columns or self._moved is None:
            raise InvalidArgument("column", f"{column!r} was not asked for{nearest(column, self._columns)}")
        return self._columns[column].take(self._moved)

    def _valued(self, column: str) -> tuple[Counts, Floats]:
        """Every value of a kept pair, with the pair's place."""
        values = self._sorted(column)
        values += 0.0  # no negative zero
        places = np.where(self._kept, np.cumsum(self._kept) - 1, -1)
        pairs = np.repeat(places, _lengths(self._starts, self._end))
        there = (pairs >= 0) & ~np.isnan(values)
        return pairs[there], values[there]

    def _chosen(self, pairs: Counts, values: Floats, most: int) -> tuple[Counts, Floats]:
        """The first `most` values of each pair by (g, value, number); `pairs` ascends."""
        ascending = np.lexsort((values, pairs))
        values = values[ascending]  # and `pairs` stays as it is
        numbers = _numbers(_fresh(pairs) | _fresh(values))
        words = self._order.value_ranks(self._places[pairs], values, numbers)
        words |= pairs.view(np.uint64) << _HALF
        # Stable: equal words stay in the order of (value, number).
        values = values[words.argsort(kind="stable")]
        first = _numbers(_fresh(pairs)) < most
        return pairs[first], values[first]

    @cached_property
    def _places(self) -> Words:
        """What the order of values knows of each pair's person and key."""
        persons = self._pairs >> np.uint64(self._codes.key_bits + ORDER_BITS)
        return self._order.places(self._codes.people, persons, self._codes.keys, self.keys.view(np.uint64))


def _numbers(fresh: Mask) -> Counts:
    """0, 1, 2, ... from every place that is fresh."""
    places = np.arange(len(fresh))
    return places - np.maximum.accumulate(np.where(fresh, places, 0))
