"""xxHash64 of 64-bit integers, one column after the other: the hash of a column is the seed of the next one.

That is what the SQL function `xxhash64` of Spark computes over BIGINT columns, from its first seed 42 on. (A DOUBLE is
hashed by its 64 bits.) Here it is computed in place, on blocks that stay in the cache.
"""

from __future__ import annotations

import numpy as np

from sfumato.mechanisms.stream import Words64

FIRST_SEED = np.uint64(42)

_PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_P1, _P2, _P3, _P4, _ = map(np.uint64, _PRIMES)
_P5_AND_LENGTH = np.uint64(_PRIMES[4] + 8)


def xxhash64(*columns: Words64, seed: Words64 | np.uint64 = FIRST_SEED) -> Words64:
    """The hash of each row. Overwrites the columns; one with a single row goes with every row of the next."""
    for column in columns:
        _hash(column, seed)
        seed = column
    return columns[-1]


def _hash(values: Words64, seed: Words64 | np.uint64) -> None:
    """Replace 64-bit values by their hashes."""
    spare = np.empty_like(values)
    values *= _P2
    _rotate(values, 31, spare)
    values *= _P1
    values ^= np.add(seed, _P5_AND_LENGTH, out=spare)
    _rotate(values, 27, spare)
    values *= _P1
    values += _P4
    for shift, factor in ((33, _P2), (29, _P3)):
        values ^= np.right_shift(values, np.uint64(shift), out=spare)
        values *= factor
    values ^= np.right_shift(values, np.uint64(32), out=spare)


def _rotate(values: Words64, places: int, spare: Words64) -> None:
    """Rotate to the left."""
    np.right_shift(values, np.uint64(64 - places), out=spare)
    values <<= np.uint64(places)
    values |= spare
