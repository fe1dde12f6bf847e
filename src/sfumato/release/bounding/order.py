"""Which keys a person keeps: by sorted words of 64 bits.

Words person * 2^key_bits + key, ascending: duplicates are neighbours, and so are a person's keys. People with at most L
keys keep all of them. Only the keys of the others are put in order: words with, from the top, the person's code,
ORDER_BITS of the keyed order and the key's code are sorted, and a key is kept if its word is at most the L-th of its
person.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.engines.contributions import BLOCK, CODE_BITS, CodeValues, DistinctPairs, Floats, Mask
from sfumato.engines.sorting import sort_words
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words64, context
from sfumato.release.bounding.xxhash import xxhash64

ORDER_BITS = 64 - CODE_BITS

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

    def ranks(self, people: CodeValues, persons: Words64, keys: CodeValues, codes: Words64) -> Words64:
        """h of pairs of codes."""
        hashes = self.pair_hashes(people, persons, keys, codes)
        hashes >>= np.uint64(CODE_BITS)
        return hashes

    def pair_hashes(self, people: CodeValues, persons: Words64, keys: CodeValues, codes: Words64) -> Words64:
        """xxhash64(a, b, person, key) of pairs of codes."""
        return xxhash64(people.bits(persons), keys.bits(codes), seed=self._seed)

    @cached_property
    def _seed(self) -> Words64:
        """xxhash64(a, b)."""
        return xxhash64(*(np.array([number], np.uint64) for number in (self.a, self.b)))

    def value_ranks(self, pair_hashes: Words64, values: Floats, numbers: Integers) -> Words64:
        """g of values, given the hashes of their pairs."""
        ranks = xxhash64(values.view(np.uint64).copy(), numbers.view(np.uint64).copy(), seed=pair_hashes)
        ranks >>= _HALF
        return ranks


def insert_order(words: Words64, key_bits: int, people: CodeValues, keys: CodeValues, order: KeyOrder) -> None:
    """Put h between person and key, block by block: the arrays stay in the cache."""
    shift, mask, wider = np.uint64(key_bits), np.uint64((1 << key_bits) - 1), np.uint64(ORDER_BITS)
    for start in range(0, len(words), BLOCK):
        block = words[start : start + BLOCK]
        persons, codes = block >> shift, block & mask
        ranks = order.ranks(people, persons, keys, codes)
        persons <<= wider
        persons |= ranks
        persons <<= shift
        np.bitwise_or(persons, codes, out=block)


def first_keys(pairs: DistinctPairs, max_keys: int, order: KeyOrder) -> DistinctPairs:
    """The first `max_keys` pairs of each person, in that person's order."""
    return pairs if pairs.degrees.max(initial=0) <= max_keys else pairs.only(are_first(pairs, max_keys, order))


def are_first(pairs: DistinctPairs, max_keys: int, order: KeyOrder) -> Mask:
    """Which pairs these are."""
    found, over, codes = np.ones(len(pairs.words), np.bool_), pairs.degrees > max_keys, pairs.codes
    if over.any():
        theirs, sizes = np.repeat(over, pairs.degrees), pairs.degrees[over]
        words = pairs.words[theirs]
        insert_order(words, codes.key_bits, codes.people, codes.keys, order)
        ordered = words.copy()
        sort_words(ordered)
        last = ordered[np.cumsum(sizes) - sizes + max_keys - 1]
        found[theirs] = words <= np.repeat(last, sizes)
    return found
