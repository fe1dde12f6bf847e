"""What a mechanism accepts: exact non-negative integer counts, in an order the data cannot choose.

Messages never quote a key or a count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.release import K

MAX_COUNT = 2**53

_SORTABLE = frozenset({str, bytes, int, bool, date, datetime})


def known_domain(counts: Mapping[K, int]) -> tuple[list[K], Integers]:
    """The domain in canonical order, and its counts.

    Canonical, because noise is dealt out by position and ties are broken by it: the order in which an
    engine returned the rows may depend on the data.
    """
    if not isinstance(counts, Mapping):
        raise InvalidArgument("counts", f"must map every item of the domain to its count, not {type(counts).__name__}")
    if not counts:
        raise InvalidArgument("counts", "must hold every item of the known domain, zeros included; it is empty")
    keys = sorted(counts, key=sort_key(counts))
    return keys, exact_counts("counts", [counts[key] for key in keys])


def ranked_rows(rows: Sequence[tuple[K, int]], limit: int) -> tuple[list[K], Integers]:
    """Keys and counts of the top rows, largest first, then by key; the counts zero-padded to limit + 1."""
    if len(rows) > limit + 1:
        raise InvalidArgument("rows", f"must be at most limit + 1 = {limit + 1} rows; ask the engine for no more")
    if any(not isinstance(row, tuple | list) or len(row) != 2 for row in rows):
        raise InvalidArgument("rows", "must be pairs of an item and its count")
    keys = [row[0] for row in rows]
    if len(set(keys)) != len(keys):
        raise InvalidArgument("rows", "must name every item once")
    padded = np.zeros(limit + 1, np.int64)
    padded[: len(rows)] = exact_counts("rows", [row[1] for row in rows])
    falls = np.diff(padded[: len(rows)])
    key_of = sort_key(keys)
    ties = np.flatnonzero(falls == 0)
    if (falls > 0).any() or any(not key_of(keys[i]) < key_of(keys[i + 1]) for i in ties):
        raise InvalidArgument("rows", "must be in order: ORDER BY count DESC, key ASC, keys compared as binary")
    return keys, padded


def exact_counts(name: str, counts: Sequence[int] | Integers) -> Integers:
    """Counts as an int64 array; anything but non-negative integers is refused."""
    try:
        array = np.asarray(counts) if len(counts) else np.zeros(0, np.int64)
    except (ValueError, OverflowError):
        array = np.zeros(1, object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument(
            name, f"counts must be integers of at most {MAX_COUNT}, and exact: no floats, no estimates"
        )
    if len(array) and (int(array.min()) < 0 or int(array.max()) > MAX_COUNT):
        raise InvalidArgument(name, f"counts must lie between 0 and {MAX_COUNT}")
    return array.astype(np.int64)


def sort_key(keys: Any) -> Any:
    """A sort key that makes one order of any set of keys, whatever order they come in."""
    return _plain if len(kinds := set(map(type, keys))) == 1 and kinds <= _SORTABLE else _tagged


def _plain(key: Any) -> Any:
    return key


def _tagged(key: Any) -> Any:
    """By type first; tuples part by part; anything we cannot sort for certain, by its text."""
    if type(key) is tuple:
        return "tuple", tuple(map(_tagged, key))
    if type(key) in _SORTABLE:
        return type(key).__name__, key
    return type(key).__name__, repr(key)
