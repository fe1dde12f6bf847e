"""The census: its bins, and what its noisy numbers say about a bound on keys."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng
from sfumato.mechanisms.census import BOUNDS, MAX_SEEN, Dropped, KeyCensus, KeysPerPerson, bins
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace

SILENT = Fraction(10**12)
"""A rho at which the noise is 0."""


def histogram(sizes: list[int]) -> np.ndarray:
    """People by their number of keys, as engines count them: those with more than MAX_SEEN are one place beyond."""
    return np.bincount(np.minimum(np.array(sizes, np.int64), MAX_SEEN + 1), minlength=MAX_SEEN + 2)


def census(sizes: list[int], rho: Fraction = SILENT, keys: int | None = None) -> KeysPerPerson:
    return KeyCensus(rho=rho, keys=keys).release(histogram(sizes), Rng.keyed(b"k" * 32, b"census"))


class TestBins:
    def test_they_grow_by_half_a_power_of_two(self) -> None:
        assert BOUNDS[:12] == (1, 2, 3, 4, 6, 8, 12, 16, 23, 32, 46, 64)
        assert (BOUNDS[-1], len(BOUNDS)) == (4096, 24)

    @given(st.none() | st.integers(1, 5000))
    def test_every_number_of_keys_is_in_one(self, keys: int | None) -> None:
        found = bins(keys)
        assert found[0][0] == 1
        assert all(after == (last or 0) + 1 for (_, last), (after, _) in itertools.pairwise(found))
        assert found[-1][1] == (keys if keys is not None and keys <= MAX_SEEN else None)

    @given(st.lists(st.integers(0, 6000), max_size=30), st.none() | st.integers(1, 5000))
    def test_every_person_with_a_key_is_in_one(self, sizes: list[int], keys: int | None) -> None:
        sizes = [min(size, keys or size) for size in sizes]
        found = census(sizes, keys=keys)
        for number, (first, last) in zip(found.people, bins(keys), strict=True):
            assert number == sum(first <= size and (last is None or size <= last) for size in sizes)


class TestNoise:
    def test_has_the_variance_that_one_person_in_one_bin_needs(self) -> None:
        assert KeyCensus(rho=Fraction(1, 50)).noise == DiscreteGaussian(Fraction(25))

    def test_a_budget_that_buys_nothing_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="rho"):
            KeyCensus(rho=Fraction(0))
        with pytest.raises(InvalidArgument, match="rho: asks for noise that cannot be drawn"):
            KeyCensus(rho=Fraction(1, 10**60))


def truth(sizes: list[int], max_keys: int) -> float:
    counted = [min(size, MAX_SEEN) for size in sizes]
    return sum(max(size - max_keys, 0) for size in counted) / max(sum(counted), 1)


class TestDropped:
    @given(st.lists(st.integers(1, 6000), min_size=1, max_size=50), st.integers(1, 6000))
    def test_without_noise_the_truth_is_in_the_interval(self, sizes: list[int], max_keys: int) -> None:
        found = census(sizes).dropped(max_keys)
        assert 0 <= found.low <= found.share <= (1 if found.high is None else found.high) <= 1
        assert found.low <= truth(sizes, max_keys) <= (1 if found.high is None else found.high)

    @pytest.mark.parametrize("max_keys", [1, 2, 3, 4])
    def test_small_numbers_of_keys_have_bins_of_their_own(self, max_keys: int) -> None:
        sizes = [1, 1, 2, 3, 4, 4] * 50
        found = census(sizes).dropped(max_keys)
        assert found.share == pytest.approx(truth(sizes, max_keys))
        assert found.high is not None
        assert found.high - found.low < 0.01

    def test_more_keys_than_are_told_apart_make_it_a_lower_bound(self) -> None:
        found = census([10_000] * 50 + [1] * 50).dropped(64)
        assert found.high is None
        assert found.share == pytest.approx((4096 - 64) / 4096, abs=0.001)
        assert found.share <= (10_000 - 64) / 10_000
        assert str(found).startswith("at least 98 % (95 %: 98 % to 100 %")

    def test_a_public_number_of_keys_bounds_it(self) -> None:
        """With ten keys in all nobody can have thousands, and their noise is out of the way."""
        sizes = [10] * 40 + [1] * 400
        few, many = (census(sizes, Fraction(1, 50), keys).dropped(8) for keys in (10, None))
        assert few.high is not None
        assert many.high is not None
        assert few.high < 0.25 < many.high

    def test_the_noise_of_empty_bins_is_not_taken_for_people(self) -> None:
        for number in range(50):
            found = KeyCensus(rho=Fraction(1, 50)).release(histogram([1] * 2000), Rng.keyed(bytes([number]) * 32, b""))
            assert found.dropped(1).share < 0.05
            assert found.smallest_bound(Fraction(1, 20)) == 1

    @pytest.mark.parametrize(
        ("dropped", "said"),
        [
            (Dropped(0.123, 0.09, 0.15), "about 12 % (95 %: 9 % to 15 %)"),
            (Dropped(0.07, 0.07, 0.07), "about 7 % (95 %: 7 % to 7 %)"),
            (Dropped(0.001, 0, 0.021), "less than 1 % (95 %: 0 % to 3 %)"),
            (Dropped(0, 0, 1), "an unknown share (95 %: 0 % to 100 %)"),
            (Dropped(0.001, 0, None), "an unknown share (95 %: 0 % to 100 %)"),
            (Dropped(0.559, 0.5, None), "at least 55 % (95 %: 50 % to 100 %)"),
        ],
    )
    def test_in_words(self, dropped: Dropped, said: str) -> None:
        assert str(dropped) == said


class TestSmallestBound:
    @pytest.mark.parametrize("share", [Fraction(1, 100), Fraction(1, 20), Fraction(1, 2)])
    def test_drops_at_most_the_share_and_the_one_before_drops_more(self, share: Fraction) -> None:
        sizes = [1 + person % 300 for person in range(3000)]
        found = census(sizes)
        bound = found.smallest_bound(share)
        before = BOUNDS[BOUNDS.index(bound) - 1]
        assert found.dropped(bound).share <= share < found.dropped(before).share

    def test_is_never_above_the_number_of_keys(self) -> None:
        assert census([7] * 100, keys=7).smallest_bound(Fraction(1, 1000)) == 7

    def test_is_1_where_nothing_is_known(self) -> None:
        assert census([]).smallest_bound(Fraction(1, 20)) == 1

    def test_is_the_largest_where_even_that_drops_more(self) -> None:
        assert census([9000] * 100).smallest_bound(Fraction(0)) == MAX_SEEN


class TestStored:
    def test_it_is_what_it_was(self) -> None:
        found = census([3, 4, 4], Fraction(1, 7))
        stored = found.to_dict()
        again = KeysPerPerson(tuple(stored["people"]), DiscreteGaussian(Fraction(stored["variance"])), stored["keys"])
        assert again == found

    def test_it_names_the_parameter_of_its_noise(self, rng: Rng) -> None:
        pure = KeyCensus(rho=Fraction(1, 8), epsilon=Fraction(1, 2)).release(np.bincount([3, 4, 4]), rng)
        assert pure.noise == DiscreteLaplace(2)
        assert pure.to_dict()["scale"] == "2"
        assert "variance" not in pure.to_dict()

    @pytest.mark.parametrize(
        ("people", "keys"), [((1, 2), None), ((1, 2, 3), 2), ((1.5,), 1), ((2**70,), 1), ((1,), 0)]
    )
    def test_what_cannot_be_one_is_refused(self, people: tuple[int, ...], keys: int | None) -> None:
        with pytest.raises(InvalidArgument):
            KeysPerPerson(people, DiscreteGaussian(Fraction(1)), keys)


class TestLaplaceNoise:
    def test_has_the_scale_that_one_person_in_one_bin_needs(self) -> None:
        assert KeyCensus(rho=Fraction(1), epsilon=Fraction(1, 3)).noise == DiscreteLaplace(3)

    def test_its_zcdp_covers_its_epsilon(self) -> None:
        with pytest.raises(InvalidArgument, match="epsilon"):
            KeyCensus(rho=Fraction(1, 100), epsilon=Fraction(1, 2))
        with pytest.raises(InvalidArgument, match="epsilon"):
            KeyCensus(rho=Fraction(1), epsilon=Fraction(0))
