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

CODE_BITS = 44
"""What a person's and a key's code have together in a word of 64 bits. The rest is for the order of keys."""


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
class CodedRows:
    """All rows of a set of people: words person * 2^key_bits + key, and the values by column, NaN where there is none.

    `people` has the 64 bits behind the codes of the people. The arrays belong to the caller, who may overwrite them.
    """

    words: Words
    columns: Mapping[str, Floats]
    people: CodeValues


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
    def map_sets(self, work: Callable[[CodedRows], T], *, values: bool = False) -> Iterator[T]:
        """`work` on each of some disjoint sets of people; its results, one by one. `values`: read the values too.

        How many sets there are, and who is in which, depends on all rows: add the results up exactly. `work` may run
        elsewhere (in another thread or process), on several sets at once.
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


def check_present(argument: str, names: Sequence[str], schema: Mapping[str, str]) -> None:
    """Refuse columns that are not in a schema."""
    for name in names:
        if name not in schema:
            known = ", ".join(list(schema)[:20])
            raise InvalidArgument(argument, f"there is no column {name!r}{nearest(name, schema)} (there are {known})")
