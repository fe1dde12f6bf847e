"""Which keys a person keeps: one sort of 64-bit words.

One word per row, from the top: the person's code, ORDER_BITS of the keyed order, the key's code. After one sort,
duplicates are neighbours, each person's keys stand in that person's own order, and a key is among the first L if the
word L places before it belongs to another person.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.contributions import CODE_BITS, CodeValues, Floats
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words, context
from sfumato.release.bounding.xxhash import xxhash64

Mask: TypeAlias = NDArray[np.bool_]

ORDER_BITS = 64 - CODE_BITS
BLOCK = 2**15

_HALF = np.uint64(32)


@dataclass(frozen=True)
class KeyOrder:
    """Every person's order of keys, and every pair's order of values, by the 64 bits behind each.

    h = the upper ORDER_BITS of xxhash64(a, b, person, key)
    g = the upper 32 bits of xxhash64(a, b, person, key, value, number)
    """

    a: int
    b: int

    @classmethod
    def of(cls, secret: bytes, label: str) -> KeyOrder:
        """The order of one job and one purpose. Different labels give unrelated orders."""
        if not isinstance(secret, bytes | bytearray) or not secret:
            raise InvalidArgument("secret", "must be bytes, and not empty; use 32 random bytes")
        seed = hmac.digest(secret, context(purpose="bounding", label=label), "sha256")
        return cls(int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:16], "little"))

    def __repr__(self) -> str:
        return "KeyOrder(...)"

    def ranks(self, people: CodeValues, persons: Words, keys: CodeValues, codes: Words) -> Words:
        """h of pairs of codes."""
        hashes = self.pair_hashes(people, persons, keys, codes)
        hashes >>= np.uint64(CODE_BITS)
        return hashes

    def pair_hashes(self, people: CodeValues, persons: Words, keys: CodeValues, codes: Words) -> Words:
        """xxhash64(a, b, person, key) of pairs of codes."""
        return xxhash64(people.bits(persons), keys.bits(codes), seed=self._seed)

    @cached_property
    def _seed(self) -> Words:
        """xxhash64(a, b)."""
        return xxhash64(*(np.array([number], np.uint64) for number in (self.a, self.b)))

    def value_ranks(self, pair_hashes: Words, values: Floats, numbers: Integers) -> Words:
        """g of values, given the hashes of their pairs."""
        ranks = xxhash64(values.view(np.uint64).copy(), numbers.view(np.uint64).copy(), seed=pair_hashes)
        ranks >>= _HALF
        return ranks


def insert_order(words: Words, key_bits: int, people: CodeValues, keys: CodeValues, order: KeyOrder) -> None:
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


def kept_pairs(
    words: Words, key_bits: int, people: CodeValues, keys: CodeValues, *, order: KeyOrder, max_keys: int
) -> Words:
    """The pairs that are kept, each once, as words (person, h, key), of words person * 2^key_bits + key.

    Sorts in place: `words` is used up. Persons have CODE_BITS - key_bits bits.
    """
    pairs = ordered_pairs(words, key_bits, people, keys, order)
    return pairs if len(pairs) <= max_keys else pairs[among_first(pairs, max_keys, key_bits + ORDER_BITS)]


def ordered_pairs(words: Words, key_bits: int, people: CodeValues, keys: CodeValues, order: KeyOrder) -> Words:
    """All pairs, kept or not, likewise."""
    insert_order(words, key_bits, people, keys, order)
    words.sort()
    return words[fresh(words)]


def fresh(words: Words | Integers | Floats) -> Mask:
    """Where a sorted array differs from the place before."""
    found = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=found[1:])
    return found


def among_first(pairs: Words, max_keys: int, person_shift: int) -> Mask:
    """Which are among the first `max_keys` of their person, of sorted distinct words."""
    within = np.ones(len(pairs), np.bool_)
    if len(pairs) > max_keys:
        # Two words are one person's if they differ in the lower bits only.
        np.greater_equal(pairs[max_keys:] ^ pairs[:-max_keys], np.uint64(1 << person_shift), out=within[max_keys:])
    return within


def people_by_keys(pairs: Words, most: int, person_shift: int) -> Integers:
    """How many people have n keys, by n, of sorted distinct words; more than `most` count as `most`."""
    starts = np.flatnonzero(among_first(pairs, 1, person_shift))
    return np.bincount(np.minimum(lengths(starts, len(pairs)), most), minlength=most + 1)


def lengths(starts: Integers, end: int) -> Integers:
    """How long each run is that begins at a start."""
    return np.diff(starts, append=end)
