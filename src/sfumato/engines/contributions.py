"""The port that releases read through: who contributed what to which key, with keys as integer codes.

`Contributions` is what a release asks. It has two sides. An engine can answer by itself; only numbers by key
leave it: releases push. Or it hands over its rows as `CodedContributions`, with people and keys as codes in disjoint
sets of people: releases pull, and `sfumato.release.bounding` bounds and counts them. Both sides keep the same pairs
and give the same numbers. The argument for what is kept (`sfumato.release.bounding`) relies on this:

- Behind every value stand 64 bits, a fixed function of the value. An integer of up to 64 bits is its own bits. All else
  is the first half of the MD5 of a text: the length of the value in characters, a colon, and the value as SQL writes
  it. Several columns are one text, each with its length before it.
- Codes of keys ascend by (bits, value), where bits compare as integers with a sign, text by code point, and FALSE comes
  before TRUE. The code of an integer may also be its distance from the smallest one: the order is the same. Codes of
  public keys do not depend on any row.
- A person's code only tells people apart. Codes are exact, never hashes: two people are never merged.
- All rows of a person are in one set. Which set that is, is never seen.

Rows with a NULL person, a NULL or NaN key or a NaN value are dropped, each by itself. A NULL value is none: its row
counts as a row, and adds nothing. Zero and negative zero are one key, and one value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.errors import InvalidArgument, find_nearest
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words64
from sfumato.types import Type

T = TypeVar("T")

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

CODE_BITS = 44
"""What a person's and a key's code have together in a word of 64 bits. The rest is for the order of keys."""

MAX_VALUE_STEPS = 2**36
"""A value's largest distance from zero in steps: 2^26 rows of a pair cannot overflow a total of 64 bits."""

BLOCK = 2**15
"""Words that are computed with together: so many that they stay in the cache."""


@dataclass(frozen=True, slots=True)
class ContributionQuery:
    """Which rows and columns of a table are needed.

    `where` is a condition on its columns. `types` is None for a table that has types; in a table of text, such as a CSV
    file, `types` are those that were written for some columns, and a cell that does not fit is NULL. `public` is the
    table of public keys: rows with other keys are dropped, and a public key without rows has a code too.
    """

    table: str
    unit: str
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    where: exp.Expr | None = None
    types: Mapping[str, Type] | None = None
    public: str | None = None


@dataclass(frozen=True, slots=True)
class Affine:
    """The 64 bits behind every code: code c stands for the integer `first` + c."""

    first: int

    def bits(self, codes: Words64) -> Words64:
        """Those of some codes, in a new array."""
        return codes + np.uint64(self.first % 2**64)


@dataclass(frozen=True, slots=True)
class Listed:
    """The 64 bits behind every code: those of code c are `values[c]`."""

    values: Words64

    def bits(self, codes: Words64) -> Words64:
        """Those of some codes, in a new array."""
        return self.values.take(codes.view(np.int64))


CodeValues: TypeAlias = Affine | Listed


@dataclass(frozen=True, slots=True)
class PairCodes:
    """How words person * 2^key_bits + key are to be read, and the 64 bits behind the codes."""

    key_bits: int
    people: CodeValues
    keys: CodeValues

    def keys_of(self, words: Words64) -> Integers:
        """The codes of keys."""
        return (words & np.uint64((1 << self.key_bits) - 1)).view(np.int64)

    def are_among(self, chosen: Mask, words: Words64) -> Mask:
        """Which words have a chosen key."""
        found = np.empty(len(words), np.bool_)
        for start in range(0, len(words), BLOCK):
            chosen.take(self.keys_of(words[start : start + BLOCK]), out=found[start : start + BLOCK], mode="clip")
        return found


@dataclass(frozen=True)
class CodedWords(ABC):
    """Words person * 2^key_bits + key of a set of people."""

    words: Words64
    codes: PairCodes

    @abstractmethod
    def only(self, some: Mask) -> Self: ...

    def of_keys(self, chosen: Mask | None) -> Self:
        """Those with chosen keys; None is all."""
        return self if chosen is None else self.only(self.codes.are_among(chosen, self.words))


@dataclass(frozen=True)
class CodedRows(CodedWords):
    """All rows of a set of people, in any order, and their values by column, NaN where there is none.

    The arrays belong to the caller, who may overwrite them.
    """

    columns: Mapping[str, Floats]

    def only(self, some: Mask) -> CodedRows:
        columns = {name: values.compress(some) for name, values in self.columns.items()}
        return CodedRows(self.words.compress(some), self.codes, columns)


@dataclass(frozen=True)
class DistinctPairs(CodedWords):
    """The (person, key) pairs of a set of people, each once, ascending.

    They may be read again, and must not be overwritten.
    """

    def only(self, some: Mask) -> DistinctPairs:
        return DistinctPairs(self.words.compress(some), self.codes)

    @property
    def keys(self) -> Integers:
        """The code of each pair's key."""
        return self.codes.keys_of(self.words)

    @cached_property
    def degrees(self) -> Integers:
        """How many keys each person has."""
        starts, other = np.ones(len(self.words), np.bool_), np.uint64(1 << self.codes.key_bits)
        for start in range(1, len(self.words), BLOCK):
            block = self.words[start : start + BLOCK]
            # Two words are one person's if they differ in the lower bits only.
            differing = block ^ self.words[start - 1 : start - 1 + len(block)]
            np.greater_equal(differing, other, out=starts[start : start + BLOCK])
        return np.diff(np.flatnonzero(starts), append=len(starts))

    def people_by_keys(self, most: int) -> Integers:
        """How many people have n keys, by n; more than `most` count as `most`."""
        return np.bincount(np.minimum(self.degrees, most), minlength=most + 1)


class Order(Protocol):
    """The two numbers that put each person's keys in order: `sfumato.release.bounding.KeyOrder`."""

    @property
    def a(self) -> int: ...

    @property
    def b(self) -> int: ...


@dataclass(frozen=True, slots=True)
class PairTotals:
    """Of each pair, the columns `total0`, ...: the sum of its values in each of these steps.

    Each value is rounded half to even and clipped to MAX_VALUE_STEPS before.
    """

    column: str
    steps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PairValues:
    """Of each of at most `most` values of a pair, chosen by the keyed order, the column `value`."""

    column: str
    most: int


@dataclass(frozen=True, slots=True)
class PersonKeys:
    """Of each person, how many of the keys there are, before they are bounded: the point, `most` at most."""

    most: int


@dataclass(frozen=True, slots=True)
class Terms:
    """What an addend adds up, in SQL: `amounts`, of each pair or value that `reads` names, by key and by `point`.

    Without `reads`, the column `rows` is the number of a pair's rows. Expressions are of doubles and of integers.
    """

    amounts: tuple[exp.Expr, ...]
    reads: PairTotals | PairValues | PersonKeys | None = None
    point: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of some amounts. Number n has those of key `places[n]` and of `points[n]`, if there are points."""

    places: Integers
    points: Integers
    amounts: tuple[Integers, ...]


class Addend(Protocol):
    """What is added up over kept pairs: in numpy, set by set of people, and in SQL. Both give the same numbers."""

    @property
    def needs_rows(self) -> bool:
        """Whether it depends on the rows of a pair, and not only on who has which key."""

    def nothing(self, size: int) -> Any:
        """What no rows add."""

    def parts(self, pairs: Any, places: Integers, size: int) -> Any:
        """What the `Pairs` of a set of people add to `size` keys; `places` has the key of each pair."""

    def terms(self) -> Terms:
        """The same in SQL."""

    def exact(self, totals: Totals, size: int) -> Any:
        """What `parts` makes, of what SQL has added up."""


class Contributions(ABC):
    """The bounded rows of a `ContributionQuery`. Use it from one thread, and as a context manager.

    A key is named by a code from 0 up. Codes ascend by (bits, value), and name keys for as long as this is open.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many codes there are for keys. Some may have no rows."""

    @abstractmethod
    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        """The keys of these codes, in their order, one tuple of values each."""

    @abstractmethod
    def count_people(self, order: Order, *, max_keys: int, within: Sequence[int] | Integers | None = None) -> Integers:
        """Distinct people by code, each person counted for at most `max_keys` keys.

        `within` restricts the rows to the keys of these codes first: people spend no place on other keys.
        """

    @abstractmethod
    def keys_per_person(self, most: int, *, within: Sequence[int] | Integers | None = None) -> Integers:
        """How many people have n distinct keys, by n; those with more than `most` are counted at `most`."""

    @abstractmethod
    def sum_weights(self, order: Order, weights: Integers, *, without: Sequence[int] | Integers = ()) -> Integers:
        """The sum of weights by code: a person with d keys adds `weights[d]` to each of them.

        A person counts for as many keys as there are weights. `without` removes the keys of these codes first.
        """

    @abstractmethod
    def add_up(
        self, addends: Sequence[Addend], order: Order, *, max_keys: int, codes: Integers, within: bool = True
    ) -> list[Any]:
        """What all people add to each addend; number n is the key of `codes[n]`, and the one after the last is lost.

        A person counts for at most `max_keys` keys. `within` says that these are chosen among `codes`: else they are
        chosen among all keys, and those that are not in `codes` are lost.
        """

    @abstractmethod
    def restrict(self, codes: Sequence[int] | Integers) -> Contributions:
        """The rows of these keys alone, read again by a join, with new codes. It ends when this one is closed."""

    @abstractmethod
    def close(self) -> None:
        """Free everything. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class CodedContributions(ABC):
    """The coded rows of a `ContributionQuery`, for the caller to count.

    Use it from one thread, and as a context manager.

    Codes are made once, when it is opened, and name keys for as long as it is open.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many codes there are for keys. Some may have no rows."""

    @property
    @abstractmethod
    def key_values(self) -> CodeValues:
        """The 64 bits behind the codes of keys."""

    @property
    def key_bits(self) -> int:
        """How many bits of a word are the key's code."""
        return max(1, (self.size - 1).bit_length())

    @abstractmethod
    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        """The keys of these codes, in their order, one tuple of values each."""

    @abstractmethod
    def map_rows(self, work: Callable[[CodedRows], T]) -> Iterator[T]:
        """`work` on the rows of each of some disjoint sets of people; its results, one by one.

        How many sets there are, and who is in which, depends on all rows: add the results up exactly. `work` may run
        elsewhere (in another thread or process), on several sets at once.
        """

    @abstractmethod
    def map_pairs(self, work: Callable[[DistinctPairs], T]) -> Iterator[T]:
        """`work` on the distinct pairs of each set, likewise. Pairs may be held in memory for the next call."""

    @abstractmethod
    def restrict(self, codes: Sequence[int] | Integers) -> CodedContributions:
        """The rows of these keys alone, read again by a join, with new codes. It ends when this one is closed."""

    @abstractmethod
    def close(self) -> None:
        """Free everything. Closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_present(argument: str, names: Sequence[str], schema: Mapping[str, str]) -> None:
    """Refuse columns that are not in a schema."""
    for name in names:
        if name not in schema:
            near = find_nearest(name, schema)
            there = "" if near else f"; there are {', '.join(list(schema)[:20])}"
            raise InvalidArgument(argument, f"there is no column {name!r}{there}", nearest=near)
