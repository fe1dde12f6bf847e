"""The port that releases read through: who contributed what to which key, with people and keys as integer codes.

A side of this port delivers coded rows, in disjoint sets of people. What is kept of them, and what is counted, is
decided in `sfumato.release.bounding`, which is the same for every engine. The argument there relies on this:

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
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.errors import InvalidArgument, nearest
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.stream import Words
from sfumato.types import Type

T = TypeVar("T")

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

CODE_BITS = 44
"""What a person's and a key's code have together in a word of 64 bits. The rest is for the order of keys."""

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

    def bits(self, codes: Words) -> Words:
        """Those of some codes, in a new array."""
        return codes + np.uint64(self.first % 2**64)


@dataclass(frozen=True, slots=True)
class Listed:
    """The 64 bits behind every code: those of code c are `values[c]`."""

    values: Words

    def bits(self, codes: Words) -> Words:
        """Those of some codes, in a new array."""
        return self.values.take(codes.view(np.int64))


CodeValues: TypeAlias = Affine | Listed


@dataclass(frozen=True, slots=True)
class PairCodes:
    """How words person * 2^key_bits + key are to be read, and the 64 bits behind the codes."""

    key_bits: int
    people: CodeValues
    keys: CodeValues

    def keys_of(self, words: Words) -> Integers:
        """The codes of keys."""
        return (words & np.uint64((1 << self.key_bits) - 1)).view(np.int64)

    def are_among(self, chosen: Mask, words: Words) -> Mask:
        """Which words have a chosen key."""
        found = np.empty(len(words), np.bool_)
        for start in range(0, len(words), BLOCK):
            chosen.take(self.keys_of(words[start : start + BLOCK]), out=found[start : start + BLOCK], mode="clip")
        return found


@dataclass(frozen=True)
class CodedWords(ABC):
    """Words person * 2^key_bits + key of a set of people."""

    words: Words
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


class Contributions(ABC):
    """The coded rows of a `ContributionQuery`. Use it from one thread, and as a context manager.

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
    def restrict(self, codes: Sequence[int] | Integers) -> Contributions:
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
            known = ", ".join(list(schema)[:20])
            raise InvalidArgument(argument, f"there is no column {name!r}{nearest(name, schema)} (there are {known})")
