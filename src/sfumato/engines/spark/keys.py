"""The keys of a release in the driver: their values and 64 bits by code, in the order of (bits, value)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sfumato.errors import EngineFailed
from sfumato.mechanisms.noise import Integers

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

    Columns: TypeAlias = Sequence[pyarrow.ChunkedArray]


@dataclass(frozen=True)
class KeyList:
    """Key number n has the code n. `values` has a column for each column of the key."""

    values: pyarrow.Table
    bits: Integers

    @classmethod
    def of(cls, values: pyarrow.Table, bits: Integers) -> tuple[KeyList, Integers]:
        """Different keys, in their order; and where each of them was."""
        order = np.argsort(bits, kind="stable")
        equal = np.flatnonzero(np.diff(bits[order]) == 0)
        if len(equal):  # which takes 2^32 texts
            order = np.array(sorted(order.tolist(), key=lambda at: (bits[at], _row(values, at))), np.int64)
        return cls(values.take(order), bits[order]), order

    @property
    def size(self) -> int:
        return len(self.bits)

    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        chosen = self.values.take(np.asarray(codes, np.int64))
        return list(zip(*(column.to_pylist() for column in chosen.columns), strict=True))

    def codes(self, values: pyarrow.Table, bits: Integers) -> Integers:
        """The codes of keys that are all in the list."""
        first = np.searchsorted(self.bits, bits)
        last = np.searchsorted(self.bits, bits, side="right")
        if (first >= last).any():
            raise EngineFailed("a key has appeared that was not there before: the rows have changed meanwhile")
        for at in np.flatnonzero(last - first > 1).tolist():
            same = range(int(first[at]), int(last[at]))
            first[at] = next(code for code in same if _row(self.values, code) == _row(values, at))
        return first

    def table(self, codes: Integers) -> pyarrow.Table:
        """Keys with their codes and bits, as rows."""
        import pyarrow

        chosen = self.values.take(codes)
        chosen = chosen.append_column("code", pyarrow.array(codes, pyarrow.int64()))
        return chosen.append_column("bits", pyarrow.array(self.bits[codes], pyarrow.int64()))


def _row(values: pyarrow.Table, at: int) -> tuple[Any, ...]:
    return tuple(column[at].as_py() for column in values.columns)
