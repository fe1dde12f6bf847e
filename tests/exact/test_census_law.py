"""The census keeps its word between all small neighbours, and what follows from it follows from what it released."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.census import MAX_SEEN, KeyCensus, KeysPerPerson, bins
from tests.helpers.claims import assert_zcdp
from tests.helpers.laws import NoiseLaw, shift_pair

RHOS = (Fraction(1, 100), Fraction(1, 4), Fraction(2))
SIZES = (1, 2, 3, 4, 5, 6, 7, 9, 64, 65, MAX_SEEN, MAX_SEEN + 1)


def exact_bins(sizes: tuple[int, ...], keys: int | None = None) -> list[int]:
    """The numbers to which the noise is added."""
    people = np.bincount(sizes, minlength=MAX_SEEN + 2)
    noiseless = KeyCensus(rho=Fraction(10**12), keys=keys)
    return list(noiseless.release(people, Rng.keyed(b"k" * 32, b"")).people)


@pytest.mark.parametrize("keys", [None, 9, MAX_SEEN])
def test_one_more_person_moves_one_bin_by_one(keys: int | None) -> None:
    sizes = [size for size in SIZES if keys is None or size <= keys]
    for people in itertools.combinations_with_replacement(sizes, 2):
        for size in sizes:
            moved = np.subtract(exact_bins((*people, size), keys), exact_bins(people, keys))
            assert sorted(moved.tolist()) == [0] * (len(bins(keys)) - 1) + [1]


@pytest.mark.parametrize("rho", RHOS)
def test_it_is_zcdp(rho: Fraction) -> None:
    """The other bins have the same law on both sides."""
    assert_zcdp([shift_pair(NoiseLaw.of(KeyCensus(rho=rho).noise), (1,))], rho)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("moved", [(2,), (1, 1)])
def test_a_person_in_two_places_would_be_caught(rho: Fraction, moved: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        assert_zcdp([shift_pair(NoiseLaw.of(KeyCensus(rho=rho).noise), moved)], rho)


def test_what_is_dropped_and_the_bound_follow_from_the_released_numbers() -> None:
    """`KeysPerPerson` holds nothing else."""
    released = KeyCensus(rho=Fraction(1, 4)).release(np.arange(MAX_SEEN + 2), Rng.keyed(b"k" * 32, b""))
    again = KeysPerPerson(tuple(released.people), released.noise)
    for max_keys in (1, 10, 1000):
        assert again.dropped(max_keys) == released.dropped(max_keys)
    assert again.smallest_bound(Fraction(1, 20)) == released.smallest_bound(Fraction(1, 20))
