"""What every statistic is: a record that says what is computed for every key, and how much of it one person can move.

Each is the four operations of the Plume paper: combine a person's raw values of a key, preprocess, combine across
people, add noise. The first three are `parts`, on exact integers; the last is `release`, on their sums.

Values are whole numbers of steps: `Sum("amount", 0, 100)` counts in steps of 100 / 2^20 unless a step is given. A
person's total of a key (`Sum`), or each of at most `values` values (`Mean`, `Variance`, `Quantile`), is clamped to the
public bounds, so what a person adds to a key is bounded whatever is in the rows. Guarantees and estimators:
proofs/release.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np

from sfumato.accounting.gaussian import GaussianStep
from sfumato.engines.contributions import Terms, Totals
from sfumato.mechanisms.estimates import Floats, Share, total_width
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers, Noise, blamed_on
from sfumato.mechanisms.random import Rng
from sfumato.release.bounding import Pairs

Series: TypeAlias = "Integers | Floats | list[None]"

PARAMETERS = {"gaussian": "variance", "laplace": "scale"}
"""What the parameter of a law is called in the key of its noise stream. Never change it."""


class Exact(Protocol):
    """What people add up to, by row of the table."""

    def __add__(self, other: Any) -> Self: ...

    def first(self, size: int) -> Self:
        """That of the first `size` rows."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Exact sums by row of the table, one array for each of several."""

    arrays: tuple[Integers, ...]

    def __add__(self, other: Any) -> Sums:
        return Sums(tuple(mine + yours for mine, yours in zip(self.arrays, other.arrays, strict=True)))

    def first(self, size: int) -> Sums:
        return Sums(tuple(array[:size] for array in self.arrays))


def sum_by_place(places: Integers, amounts: Integers | int, size: int) -> Integers:
    """Exact sums by place: `bincount` would add amounts in floating point. It counts exactly."""
    if isinstance(amounts, int):
        return amounts * np.bincount(places, minlength=size)
    totals = np.zeros(size, np.int64)
    np.add.at(totals, places, amounts)
    return totals


class Statistic(ABC):
    """One statistic of every key: a record of what it is, without the budget."""

    word: ClassVar[str]
    """Its row in `STATISTICS`; its name in digests, statements, columns and refusals. Never change it."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Its columns in the table, but for those of their intervals."""

    @property
    @abstractmethod
    def describes(self) -> str:
        """What it is, in the words of a statement."""

    @property
    def kind(self) -> str:
        return "number"

    @property
    def mechanism(self) -> str | None:
        """Its name in digests and statements, where another one computed the statistic before. Never change it."""
        return None

    def ends(self, number: str) -> tuple[str, str]:
        """What the ends of its interval are, in the words of a statement; `number` is what the interval is for."""
        return f"lower end of a 95 % interval for {number}", "upper end of it"

    @property
    def spread(self) -> str:
        """What its deviation is, in the words of a statement."""
        return "standard deviation of the noise"

    @property
    def clamped(self) -> bool:
        """Whether a person's rows of a key can count for less than they are: clamped values, or some rows only."""
        return True

    @property
    def grows(self) -> bool:
        """Whether more rows never lower it: then it is too low where bounding dropped some."""
        return False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source that hold its values."""
        return ()

    @property
    def needs_rows(self) -> bool:
        """Whether it depends on the rows of a pair, and not only on who has which key."""
        return True

    @abstractmethod
    def parts(self, pairs: Pairs, places: Integers, size: int) -> Exact:
        """What a set of people adds to a table of `size` rows; `places` has the row of each pair."""

    @abstractmethod
    def terms(self) -> Terms:
        """What `parts` adds up, in SQL."""

    @abstractmethod
    def exact(self, totals: Totals, size: int) -> Exact:
        """The same as `parts` makes, of what SQL has added up."""

    @abstractmethod
    def nothing(self, size: int) -> Exact:
        """What no rows add."""

    @abstractmethod
    def release(self, exact: Any, size: int, share: Share, rng: Rng) -> dict[str, Series]:
        """Its columns, with noise."""

    @abstractmethod
    def laws(self, share: Share) -> Mapping[str, str]:
        """The noise in words, by what it is added to. Refuses noise that cannot be drawn."""

    def steps(self, share: Share) -> tuple[GaussianStep, ...]:
        """Its noise for exact accounting; none where a part of it is not Gaussian."""
        return ()

    def noises(self, share: Share) -> Sequence[Noise]:
        """The noise on each of its sums, if it is made of sums: then it can have Laplace noise too."""
        return ()


class SummedStatistic(Statistic):
    """A statistic that follows from sums over people, each with discrete Gaussian noise."""

    @property
    @abstractmethod
    def most(self) -> Mapping[str, int]:
        """What is summed, and by how much a person moves the sum of one key at most."""

    @abstractmethod
    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers | slice, Integers | int]]:
        """For each sum: which pairs add, and how much each."""

    @abstractmethod
    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Series]:
        """Its columns from the noisy sums and the laws of their noise."""

    def parts(self, pairs: Pairs, places: Integers, size: int) -> Sums:
        return Sums(tuple(sum_by_place(places[which], amounts, size) for which, amounts in self.amounts(pairs)))

    def exact(self, totals: Totals, size: int) -> Sums:
        sums = self.nothing(size)
        for array, amounts in zip(sums.arrays, totals.amounts, strict=True):
            array[totals.places] = amounts
        return sums

    def nothing(self, size: int) -> Sums:
        return Sums(tuple(np.zeros(size, np.int64) for _ in self.most))

    def release(self, exact: Sums, size: int, share: Share, rng: Rng) -> dict[str, Series]:
        laws = self._laws(share)
        noisy = [
            sums + law.sample(rng.stream(sum=name, **{PARAMETERS[law.family]: law.parameter}), size)
            for sums, (name, law) in zip(exact.arrays, laws.items(), strict=True)
        ]
        return self.estimate(noisy, list(laws.values()))

    def laws(self, share: Share) -> Mapping[str, str]:
        laws = zip(self._laws(share).items(), self._units, strict=True)
        return {name: f"{describe_law(law)}, deviation {unit * law.deviation:,.4g}" for (name, law), unit in laws}

    def steps(self, share: Share) -> tuple[GaussianStep, ...]:
        if share.epsilon is not None:
            return ()
        moved = zip(self.noises(share), self.most.values(), strict=True)
        keys = share.max_keys
        return tuple(GaussianStep(law.parameter, Fraction(keys * most**2), keys) for law, most in moved)

    def noises(self, share: Share) -> Sequence[Noise]:
        return list(self._laws(share).values())

    def _laws(self, share: Share) -> Mapping[str, DiscreteGaussian | DiscreteLaplace]:
        with blamed_on(self.names[0]):
            return {name: share.noise(most, len(self.most)) for name, most in self.most.items()}

    @property
    def _units(self) -> Sequence[float]:
        """What one whole number of each sum stands for."""
        return [1.0] * len(self.most)


def interval_columns(name: str, values: Series, low: Series, high: Series, deviation: Series) -> dict[str, Series]:
    """The columns of a statistic, by name."""
    return {name: values, f"{name}_low": low, f"{name}_high": high, f"{name}_deviation": deviation}


def describe_law(law: Noise) -> str:
    """In words; "truncated_laplace" is the name of a law whose draws end."""
    return f"discrete {law.family.replace('_', ' ').title()}"


@dataclass(frozen=True)
class CountStatistic(SummedStatistic):
    """Whole numbers of people or rows."""

    @property
    def kind(self) -> str:
        return "integer"

    @property
    def grows(self) -> bool:
        return True

    def estimate(self, noisy: Sequence[Integers], laws: Sequence[Noise]) -> dict[str, Series]:
        """An interval ends at 0, but a noisy count may be below it."""
        [counts], [law] = noisy, laws
        width = total_width(law)
        low, high = np.maximum(counts - width, 0), np.maximum(counts + width, 0)
        deviations = np.full(len(counts), law.deviation)
        return interval_columns(self.names[0], counts, np.minimum(low, counts), high, deviations)
