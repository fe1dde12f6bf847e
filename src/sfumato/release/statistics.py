"""The statistics of a release: what is computed for every key, and how much of it one person can move.

Each is the four operations of the Plume paper: combine a person's raw values of a key, preprocess, combine across
people, add noise. The first three are `parts`, on exact integers; the last is `released`, on what they add up to.

Values are whole numbers of steps: `Sum("amount", 0, 100)` counts in steps of 100 / 2^20 unless it is told another step.
A person's total of a key (`Sum`), or each of at most `values` values of hers (`Mean`, `Variance`, `Quantile`), is
clamped to the public bounds, so that what she adds to a key is bounded whatever is in her rows. Guarantees and
estimators: proofs/release.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.numbers import Number, probability, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian, Integers, blamed_on
from sfumato.mechanisms.quantiles import QuantileChoice, QuantileTree
from sfumato.mechanisms.random import Rng
from sfumato.release.guarantee import as_written
from sfumato.release.pairs import Pairs

Floats: TypeAlias = NDArray[np.floating[Any]]
Column: TypeAlias = "Integers | Floats | list[None]"

NORMAL95 = 1.959964

STEPS = 2**20
"""So many steps lie between the bounds, unless a step is given."""

MAX_STEPS = 2**30
FARTHEST = 2**36
"""A row counts for at most so many steps in a sum: those of 2^26 rows of one person fit into 64 bits."""

MAX_CAP = 2**31
MAX_VALUES = 1000
MAX_QUANTILES = 20
POINTS = 2**16
"""The places between the bounds at which a quantile can lie."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a statistic may spend: `rho` for all that one person adds to at most `max_keys` keys."""

    rho: Fraction
    max_keys: int

    def noise(self, sensitivity: int, sums: int = 1) -> DiscreteGaussian:
        """The law for one of several sums that share equally, where a person moves each by at most `sensitivity`."""
        return DiscreteGaussian(sums * self.max_keys * sensitivity**2 / (2 * self.rho))


@dataclass(frozen=True, slots=True)
class Sums:
    """Exact sums by row of the table, one array for each of several."""

    arrays: tuple[Integers, ...]

    def __add__(self, other: Any) -> Sums:
        return Sums(tuple(mine + yours for mine, yours in zip(self.arrays, other.arrays, strict=True)))

    def first(self, size: int) -> Sums:
        return Sums(tuple(array[:size] for array in self.arrays))


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """How many values lie at each place: ascending codes row * POINTS + place, and their counts."""

    codes: Integers
    counts: Integers

    @classmethod
    def of(cls, codes: Integers, counts: Integers) -> ValueCounts:
        found, inverse = np.unique(codes, return_inverse=True)
        return cls(found, _summed(inverse, counts, len(found)))

    def __add__(self, other: Any) -> ValueCounts:
        pairs = (self.codes, other.codes), (self.counts, other.counts)
        return ValueCounts.of(*(np.concatenate(pair) for pair in pairs))

    def first(self, size: int) -> ValueCounts:
        end = np.searchsorted(self.codes, size * POINTS)
        return ValueCounts(self.codes[:end], self.counts[:end])


Exact: TypeAlias = Sums | ValueCounts


def _summed(places: Integers, amounts: Integers | int, size: int) -> Integers:
    """Exact sums by place: `bincount` would add in floating point."""
    totals = np.zeros(size, np.int64)
    np.add.at(totals, places, amounts)
    return totals


class Statistic(ABC):
    """One statistic of every key: a record of what it is, without the budget."""

    word: ClassVar[str]
    """Its name in digests, statements, columns and refusals. Never change it: a job would not find its table."""

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
    def spread(self) -> str:
        """What its deviation is, in the words of a statement."""
        return "standard deviation of the noise"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the source that hold its values."""
        return ()

    @abstractmethod
    def parts(self, pairs: Pairs, places: Integers, size: int) -> Any:
        """What a set of people adds to a table of `size` rows; `places` are the rows that their pairs belong to."""

    @abstractmethod
    def nothing(self, size: int) -> Exact:
        """What nobody adds."""

    @abstractmethod
    def released(self, exact: Any, size: int, share: Share, rng: Rng) -> dict[str, Column]:
        """Its columns, with noise."""

    @abstractmethod
    def laws(self, share: Share) -> Mapping[str, str]:
        """The noise, in words, for each thing that is noised. Refuses what cannot be drawn."""


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
    def estimated(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> dict[str, Column]:
        """Its columns from the noisy sums."""

    def parts(self, pairs: Pairs, places: Integers, size: int) -> Sums:
        return Sums(tuple(_summed(places[which], amounts, size) for which, amounts in self.amounts(pairs)))

    def nothing(self, size: int) -> Sums:
        return Sums(tuple(np.zeros(size, np.int64) for _ in self.most))

    def released(self, exact: Sums, size: int, share: Share, rng: Rng) -> dict[str, Column]:
        laws = self._laws(share)
        noisy = [
            sums + law.sample(rng.stream(sum=name, variance=law.sigma_squared), size)
            for sums, (name, law) in zip(exact.arrays, laws.items(), strict=True)
        ]
        return self.estimated(noisy, [law.deviation for law in laws.values()])

    def laws(self, share: Share) -> Mapping[str, str]:
        laws = zip(self._laws(share).items(), self._units, strict=True)
        return {name: f"discrete Gaussian, deviation {unit * law.deviation:,.4g}" for (name, law), unit in laws}

    def _laws(self, share: Share) -> Mapping[str, DiscreteGaussian]:
        with blamed_on(self.names[0]):
            return {name: share.noise(most, len(self.most)) for name, most in self.most.items()}

    @property
    def _units(self) -> Sequence[float]:
        """What one whole number of each sum stands for."""
        return [1.0] * len(self.most)


def _columns(name: str, values: Column, low: Column, high: Column, deviation: Column) -> dict[str, Column]:
    return {name: values, f"{name}_low": low, f"{name}_high": high, f"{name}_deviation": deviation}


def counted(name: str, counts: Integers, deviations: Floats) -> dict[str, Column]:
    """Noisy counts with their intervals. Nothing is counted less than never, but a noisy count may be below 0."""
    width = np.ceil(NORMAL95 * deviations).astype(np.int64)
    low, high = np.maximum(counts - width, 0), np.maximum(counts + width, 0)
    return _columns(name, counts, np.minimum(low, counts), high, deviations)


@dataclass(frozen=True)
class CountStatistic(SummedStatistic):
    """Whole numbers of people or rows."""

    @property
    def kind(self) -> str:
        return "integer"

    def estimated(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> dict[str, Column]:
        [counts], [deviation] = noisy, deviations
        return counted(self.names[0], counts, np.full(len(counts), deviation))


@dataclass(frozen=True)
class Units(CountStatistic):
    """How many different people have the key."""

    word: ClassVar[str] = "units"

    @property
    def names(self) -> tuple[str, ...]:
        return ("units",)

    @property
    def describes(self) -> str:
        return "distinct people"

    @property
    def most(self) -> Mapping[str, int]:
        return {"people": 1}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, int]]:
        return [(slice(None), 1)]


@dataclass(frozen=True)
class Count(CountStatistic):
    """How many rows the key has, at most `cap` of each person."""

    word: ClassVar[str] = "count"

    cap: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", whole(self.word, self.cap, at_least=1, at_most=MAX_CAP))

    @property
    def names(self) -> tuple[str, ...]:
        return ("count",)

    @property
    def describes(self) -> str:
        return f"rows, at most {self.cap:,} a person and key"

    @property
    def most(self) -> Mapping[str, int]:
        return {"rows": self.cap}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, Integers]]:
        return [(slice(None), np.minimum(pairs.rows, self.cap))]


@dataclass(frozen=True, slots=True)
class Scale:
    """Public bounds, and the step in which values between them are counted."""

    low: Fraction
    high: Fraction
    step: Fraction

    @property
    def ends(self) -> tuple[int, int]:
        """The bounds in whole steps from zero."""
        return math.floor(self.low / self.step), math.ceil(self.high / self.step)

    @property
    def reach(self) -> int:
        """How far a value can be from the middle, in whole steps."""
        return math.ceil((self.high - self.low) / (2 * self.step))

    @property
    def middle(self) -> float:
        """Halfway, in whole steps from the lower bound: of 0 and 1 in steps of 1, neither may be half a step away."""
        return float(self.low + math.ceil((self.high - self.low) / self.step) // 2 * self.step)

    def centred(self, values: Floats) -> Integers:
        """Values as whole steps from the middle, clamped to the bounds."""
        inside = np.clip(values, float(self.low), float(self.high))
        steps: Integers = np.rint((inside - self.middle) / float(self.step)).astype(np.int64)
        return np.clip(steps, -self.reach, self.reach)

    def places(self, values: Floats) -> Integers:
        """In which of POINTS equal parts of the range a value lies."""
        inside = np.clip(values, float(self.low), float(self.high)) - float(self.low)
        places: Integers = (inside / float(self.high - self.low) * POINTS).astype(np.int64)
        return np.clip(places, 0, POINTS - 1)

    def at(self, places: Floats) -> Floats:
        """The value at a place from 0 to POINTS."""
        return float(self.low) + places / POINTS * float(self.high - self.low)

    def inside(self, values: Floats) -> Floats:
        return np.clip(values, float(self.low), float(self.high))


@dataclass(frozen=True)
class Numeric(Statistic):
    """A statistic of the values of a column between public bounds. Without bounds, they are found and paid for."""

    column: str
    low: Number | None = None
    high: Number | None = None
    step: Number | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InvalidArgument(self.word, "needs the name of a column")
        for name in ("low", "high", "step"):
            if (given := getattr(self, name)) is not None:
                object.__setattr__(self, name, rational(f"{self.word} {self.column}, {name}", as_written(given)))
        if (self.low is None) != (self.high is None):
            raise InvalidArgument(self.word, f"{self.column} needs both bounds or neither, such as {self.column}:0:100")
        if self.bounded:
            self._check_scale()
        elif self.step is not None:
            # Whether it fits bounds that are found would follow from the rows, and then it is too late to refuse.
            raise InvalidArgument(self.word, f"the step of {self.column} needs bounds; leave it out to have them found")

    def _check_scale(self) -> None:
        scale = self.scale
        wide = scale.high - scale.low
        if wide <= 0:
            raise InvalidArgument(
                self.word,
                f"the bounds of {self.column} are {float(scale.low):g} to {float(scale.high):g}; the lower comes first",
            )
        if not 0 < scale.step <= wide or wide > MAX_STEPS * scale.step:
            raise InvalidArgument(self.word, f"the step of {self.column} must be between its range and range / 2^30")
        if not all(2**-100 < abs(float(number)) < 2**100 for number in (scale.low, scale.high, wide) if number):
            raise InvalidArgument(
                self.word, f"the bounds of {self.column} are too large, or too small, to compute with"
            )

    @property
    def bounded(self) -> bool:
        return self.low is not None

    @cached_property
    def scale(self) -> Scale:
        if self.low is None or self.high is None:
            raise InvalidArgument(
                self.word, f"{self.column} needs bounds, such as {self.column}:0:100; or let --auto-bounds find them"
            )
        low, high = Fraction(self.low), Fraction(self.high)
        return Scale(low, high, (high - low) / STEPS if self.step is None else Fraction(self.step))

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{self.column}_{self.word}",)

    @property
    def describes(self) -> str:
        bounds = f"[{float(self.scale.low):g}, {float(self.scale.high):g}]"
        return f"{self.word} of {self.column}, {self._clamped} to {bounds}, in steps of {float(self.scale.step):.4g}"

    @property
    @abstractmethod
    def _clamped(self) -> str: ...

    @property
    @abstractmethod
    def looked_at(self) -> int:
        """How many numbers of a person and key unknown bounds are found from."""

    @abstractmethod
    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        """Those numbers, and the places of their pairs."""


@dataclass(frozen=True)
class Sum(Numeric, SummedStatistic):
    """The sum of a column: each person's total of the key is clamped to the bounds."""

    word: ClassVar[str] = "sum"

    def _check_scale(self) -> None:
        super()._check_scale()
        if max(map(abs, self.scale.ends)) > FARTHEST:
            raise InvalidArgument(
                self.word, f"the bounds of {self.column} are too far from 0 for its step; use a larger"
            )

    @property
    def _clamped(self) -> str:
        return "a person's total of a key clamped"

    @property
    def looked_at(self) -> int:
        return 1

    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        # Fine steps for small totals, coarse ones for those that fine steps would have clamped.
        fine, coarse = (pairs.totals(self.column, step) * step for step in (2.0**-16, 2.0**20))
        return np.arange(len(fine)), np.where(np.abs(coarse) >= 2.0**20, coarse, fine)

    @property
    def most(self) -> Mapping[str, int]:
        return {"total": max(map(abs, self.scale.ends))}

    def amounts(self, pairs: Pairs) -> Sequence[tuple[slice, Integers]]:
        return [(slice(None), np.clip(pairs.totals(self.column, self._units[0]), *self.scale.ends))]

    @property
    def _units(self) -> Sequence[float]:
        return [float(self.scale.step)]

    def estimated(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> dict[str, Column]:
        [step] = self._units
        totals, deviation = noisy[0] * step, deviations[0] * step
        width = NORMAL95 * deviation
        return _columns(self.names[0], totals, totals - width, totals + width, np.full(len(totals), deviation))


@dataclass(frozen=True)
class ValueStatistic(Numeric):
    """A statistic of single values, at most `values` of a person and key, chosen by a keyed order."""

    values: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", whole("values", self.values, at_least=1, at_most=MAX_VALUES))

    @property
    def _clamped(self) -> str:
        return f"at most {self.values} value{'s' if self.values > 1 else ''} a person and key, clamped"

    @property
    def looked_at(self) -> int:
        return self.values

    def raw(self, pairs: Pairs) -> tuple[Integers, Floats]:
        return pairs.values(self.column, self.values)


@dataclass(frozen=True)
class Mean(ValueStatistic, SummedStatistic):
    """The mean of a column: the noisy sum of distances from the middle, over a noisy count of values."""

    word: ClassVar[str] = "mean"

    @property
    def most(self) -> Mapping[str, int]:
        return {"values": self.values, "distances from the middle": self.values * self.scale.reach}

    @property
    def _units(self) -> Sequence[float]:
        return [1.0, float(self.scale.step)]

    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers, Integers | int]]:
        which, values = pairs.values(self.column, self.values)
        return [(which, 1), (which, self.scale.centred(values))]

    def estimated(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> dict[str, Column]:
        _, mean, deviation = _means(noisy, deviations)
        step, wide = float(self.scale.step), float(self.scale.high - self.scale.low)
        values, low, high = (
            self.scale.inside(self.scale.middle + step * place) for place in (mean, *self._ends(noisy, deviations))
        )
        ends = np.minimum(low, values), np.maximum(high, values)
        return _columns(self.names[0], values, *ends, np.minimum(step * deviation, wide))

    def _ends(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> tuple[Floats, Floats]:
        """Fieller's: all means m for which the sum less m times the count is no surprise. All, where the count is 0."""
        count, total = (sums.astype(np.float64) for sums in noisy)
        of_count, of_total = deviations
        square = count**2 - (NORMAL95 * of_count) ** 2
        certain = (square > 0) & (count > 0)
        square = np.where(certain, square, 1.0)
        half = NORMAL95 * np.sqrt(square * of_total**2 + (of_count * total) ** 2)
        reach = float(self.scale.reach)
        low, high = (np.where(certain, (total * count + side * half) / square, side * reach) for side in (-1, 1))
        return low, high


@dataclass(frozen=True)
class Variance(ValueStatistic, SummedStatistic):
    """The variance of a column: from noisy sums of distances from the middle and of their squares."""

    word: ClassVar[str] = "variance"

    @property
    def spread(self) -> str:
        return "standard deviation of the noise, to first order: intervals of keys with few values hold with 90 %"

    @property
    def _shift(self) -> int:
        """Squares are counted in units that leave at most 2^20 of them, so that many people's fit into 64 bits."""
        return max((self.scale.reach**2).bit_length() - 21, 0)

    @property
    def _square(self) -> int:
        """2 x^2 - reach^2 lies within plus and minus reach^2: so many units at most."""
        return (self.scale.reach**2 >> self._shift) + 1

    @property
    def most(self) -> Mapping[str, int]:
        reach, square = self.values * self.scale.reach, self.values * self._square
        return {"values": self.values, "distances from the middle": reach, "their squares": square}

    @property
    def _units(self) -> Sequence[float]:
        step = float(self.scale.step)
        return [1.0, step, 2.0 ** (self._shift - 1) * step**2]

    def amounts(self, pairs: Pairs) -> Sequence[tuple[Integers, Integers | int]]:
        which, values = pairs.values(self.column, self.values)
        steps = self.scale.centred(values)
        squares = np.clip((2 * steps**2 - self.scale.reach**2) >> self._shift, -self._square, self._square)
        return [(which, 1), (which, steps), (which, squares)]

    def estimated(self, noisy: Sequence[Integers], deviations: Sequence[float]) -> dict[str, Column]:
        people, mean, _ = _means(noisy[:2], deviations[:2])
        unit, reach = 2.0 ** (self._shift - 1), float(self.scale.reach)
        # Rounded down when it was shifted: half a unit is missing on average.
        half = noisy[2] / people + (0.5 if self._shift else 0.0)
        squares = unit * half + reach**2 / 2
        # To first order; the count is in both parts, with opposite signs.
        parts = unit * deviations[2], 2 * mean * deviations[1], (2 * mean**2 - unit * half) * deviations[0]
        deviation = np.sqrt(sum(np.square(part) for part in parts)) / people
        step = float(self.scale.step)
        most = (step * reach) ** 2
        values = np.clip(step**2 * (squares - mean**2), 0, most)
        return _around(self.names[0], values, step**2 * deviation, 0.0, most)


def _means(noisy: Sequence[Integers], deviations: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """The count that is divided by, the mean and its deviation (to first order in the noise)."""
    people = np.maximum(noisy[0], 1).astype(np.float64)
    mean = noisy[1] / people
    return people, mean, np.hypot(deviations[1], mean * deviations[0]) / people


def _around(name: str, values: Floats, deviation: Floats, low: float, high: float) -> dict[str, Column]:
    """95 % about each value, within what is possible at all."""
    deviation = np.minimum(deviation, high - low)
    below, above = (np.clip(values + side * NORMAL95 * deviation, low, high) for side in (-1, 1))
    return _columns(name, values, below, above, deviation)


@dataclass(frozen=True)
class Quantile(ValueStatistic):
    """Quantiles of a column: one by the exponential mechanism, several from one noisy tree of counts.

    A single one comes without an interval: what it is worth follows from the values, which nobody may see.
    """

    quantiles: Number | Sequence[Number] = Fraction(1, 2)
    word: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.quantiles if isinstance(self.quantiles, Sequence) else (self.quantiles,)
        parts = tuple(sorted({probability("quantile", as_written(part)) for part in given}))
        if not 1 <= len(parts) <= MAX_QUANTILES:
            raise InvalidArgument(self.word, f"{self.column} needs 1 to {MAX_QUANTILES} quantiles, such as 0.5,0.9")
        object.__setattr__(self, "quantiles", parts)

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        return self.quantiles  # type: ignore[return-value]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}_q{_percent(part)}" for part in self._parts)

    @property
    def describes(self) -> str:
        bounds = f"[{float(self.scale.low):g}, {float(self.scale.high):g}]"
        listed = ", ".join(f"{float(part):g}" for part in self._parts)
        return f"quantiles {listed} of {self.column}, {self._clamped} to {bounds}, at one of {POINTS:,} places"

    @property
    def spread(self) -> str:
        return "the width of the interval over 3.92" if len(self._parts) > 1 else "not told, nor is an interval"

    def nothing(self, size: int) -> ValueCounts:
        return ValueCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))

    def parts(self, pairs: Pairs, places: Integers, size: int) -> ValueCounts:
        which, values = pairs.values(self.column, self.values)
        codes = places[which] * POINTS + self.scale.places(values)
        return ValueCounts.of(codes, np.ones(len(codes), np.int64))

    def released(self, exact: ValueCounts, size: int, share: Share, rng: Rng) -> dict[str, Column]:
        if len(self._parts) > 1:
            found = self._tree(share).release(size, exact.codes, exact.counts, self._parts, rng)
            arrays = zip(
                self.names, *(self.scale.at(ends) for ends in (found.values, found.low, found.high)), strict=True
            )
            tables = [_columns(name, at, low, high, self._deviation(low, high)) for name, at, low, high in arrays]
            return {name: column for table in tables for name, column in table.items()}
        places = self._choice(share).release(size, exact.codes, exact.counts, rng)
        unknown: list[None] = [None] * size
        return _columns(self.names[0], self.scale.at(places + 0.5), unknown, unknown, unknown)

    def _deviation(self, low: Floats, high: Floats) -> Floats:
        """From the width of an interval, and no less than the grid allows."""
        finest = float(self.scale.high - self.scale.low) / POINTS / math.sqrt(12)
        return np.maximum((high - low) / (2 * NORMAL95), finest)

    def laws(self, share: Share) -> Mapping[str, str]:
        with blamed_on(self.names[0]):
            if len(self._parts) == 1:
                epsilon = float(self._choice(share).epsilon)
                return {"choice of a place": f"exponential mechanism, epsilon {epsilon:.4g} a key"}
            deviation = self._tree(share).noise.deviation
        return {"counts of a tree": f"discrete Gaussian, deviation {deviation:,.4g}"}

    def _tree(self, share: Share) -> QuantileTree:
        return QuantileTree(rho=share.rho, max_keys=share.max_keys, max_values=self.values)

    def _choice(self, share: Share) -> QuantileChoice:
        [quantile] = self._parts
        return QuantileChoice.of_rho(
            share.rho, quantile=quantile, max_keys=share.max_keys, max_values=self.values, points=POINTS
        )


def _percent(part: Fraction) -> str:
    """50 for a half, 99_9 for 0.999."""
    return f"{float(part * 100):.10g}".replace(".", "_")
