"""What a mechanism accepts: exact non-negative integer counts, in an order the data cannot choose.

Messages never quote a key or a count.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from operator import lt
from typing import Any
from uuid import UUID

import numpy as np

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers
from sfumato.mechanisms.release import K

MAX_COUNT = 2**53

_ORDERED_TYPES = frozenset({str, bytes, int, bool, date})


def known_domain(counts: Mapping[K, int]) -> tuple[list[K], Integers]:
    """The domain in canonical order, and its counts.

    Canonical, because noise is dealt out by position and ties are broken by it: the order in which an
    engine returned the rows may depend on the data.
    """
    if not isinstance(counts, Mapping):
        raise InvalidArgument("counts", f"must map every item of the domain to its count, not {type(counts).__name__}")
    if not counts:
        raise InvalidArgument("counts", "must hold every item of the known domain, zeros included; it is empty")
    places = dict(zip(counts, canonical(counts, "counts"), strict=True))
    keys = sorted(counts, key=places.__getitem__)
    return keys, exact_counts("counts", [counts[key] for key in keys])


def ranked_rows(rows: Sequence[tuple[K, int]], limit: int) -> tuple[list[K], Integers]:
    """Keys and counts of the top rows, largest first, then by key; the counts zero-padded to limit + 1."""
    table = _table(rows)
    if len(rows) > limit + 1:
        raise InvalidArgument("rows", f"must be at most limit + 1 = {limit + 1} rows; ask the engine for no more")
    keys = list(table)
    padded = np.zeros(limit + 1, np.int64)
    padded[: len(rows)] = exact_counts("rows", list(table.values()))
    falls = np.diff(padded[: len(rows)])
    places, ties = canonical(keys), (falls == 0).tobytes()
    if (falls > 0).any() or not all(map(lt, compress(places, ties), compress(places[1:], ties))):
        raise InvalidArgument("rows", "must be in order: ORDER BY count DESC, key ASC, keys compared as binary")
    return keys, padded


def every_row(rows: Sequence[tuple[K, int]]) -> tuple[list[K], Integers]:
    """Keys and counts of all rows with a count above zero, in canonical order."""
    table = _table(rows)
    counts = exact_counts("rows", list(table.values()))
    places = dict(zip(table, canonical(table), strict=True))
    found = {key: count for key, count in zip(table, counts.tolist(), strict=True) if count}
    keys = sorted(found, key=places.__getitem__)
    return keys, np.array([found[key] for key in keys], np.int64)


def _table(rows: Sequence[tuple[K, int]]) -> dict[K, int]:
    """Pairs of an item and its count, by item."""
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        raise InvalidArgument("rows", f"must be a list of pairs of an item and its count, not {type(rows).__name__}")
    try:
        table = dict(rows)
    except (TypeError, ValueError):
        raise InvalidArgument("rows", "must be pairs of an item and its count") from None
    if len(table) != len(rows):
        raise InvalidArgument("rows", "must name every item once")
    return table


def exact_counts(name: str, counts: Sequence[int] | Integers) -> Integers:
    """Counts as an int64 array; anything but non-negative integers is refused."""
    if not isinstance(counts, Sequence | np.ndarray):
        raise InvalidArgument(name, f"must be a list or an array of counts, not {type(counts).__name__}")
    try:
        array = np.asarray(counts) if len(counts) else np.zeros(0, np.int64)
    except (ValueError, OverflowError):
        array = np.zeros(1, object)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InvalidArgument(name, f"counts must be exact integers of at most {MAX_COUNT}: no floats, no estimates")
    if len(array) and (int(array.min()) < 0 or int(array.max()) > MAX_COUNT):
        raise InvalidArgument(name, f"counts must lie between 0 and {MAX_COUNT}")
    return array.astype(np.int64)


def canonical(keys: Collection[Any], name: str = "rows") -> Sequence[Any]:
    """Sort keys, one for each key, that put any set of keys into one order, however they came.

    Only types whose order is a function of their value are taken; the others are refused whatever the data is.
    """
    kinds = set(map(type, keys))
    if len(kinds) == 1 and kinds <= _ORDERED_TYPES:
        return tuple(keys)
    return [_tag(key, name) for key in keys]


def _tag(key: Any, name: str) -> Any:
    """By type first, then by value; tuples part by part."""
    if isinstance(key, np.generic):
        key = key.item()
    kind = type(key)
    if kind is tuple:
        return "tuple", tuple(_tag(part, name) for part in key)
    if kind in _ORDERED_TYPES or kind is Fraction:
        return kind.__name__, key
    if (kind is float and not math.isnan(key)) or (kind is Decimal and not key.is_nan()):
        return kind.__name__, key
    if kind is datetime:
        return "datetime", key.tzinfo is not None, key
    if kind is UUID or key is None:
        return kind.__name__, str(key)
    wanted = "text, bytes, whole or other numbers (not NaN), booleans, dates, UUIDs, None, or tuples of these"
    raise InvalidArgument(name, f"items must be {wanted}; {kind.__name__} has no order that is sure")
