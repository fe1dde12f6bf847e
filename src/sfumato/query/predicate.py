"""Filters as a typed tree with one form per meaning.

A leaf says that a column lies in a set of values. Sets are unions of intervals, because then `IN`, `OR`, `BETWEEN`,
comparisons and their negations over one column are all the same thing. Leaves meet in `AllOf` and `AnyOf`, which
flatten, merge leaves of one column, drop duplicates and sort. Negation is pushed down to the sets.

SQL's third truth value: a row passes where a filter is *true*, and no comparison with NULL is. Under negation NULL
stays NULL, so De Morgan's laws hold and every leaf means "not NULL, and in the set". That is why the set of all
values is still a filter: it keeps the rows where the column is not NULL.

Two filters with one canonical form have one meaning. The converse is not promised: where this misses an equality, a
question is asked and paid for twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import TypeAlias

from sfumato.query.values import spelling, successor
from sfumato.types import Value


@total_ordering
@dataclass(frozen=True, slots=True)
class Cut:
    """A place between values: just before or just after one, or beyond them all (value None)."""

    value: Value | None
    side: int  # -1 before the value (or below everything), +1 after it (or above everything)

    def __lt__(self, other: Cut) -> bool:
        if self.value is None or other.value is None:
            return self._infinity() < other._infinity()
        return bool((self.value, self.side) < (other.value, other.side))

    def _infinity(self) -> int:
        return self.side if self.value is None else 0


BELOW, ABOVE = Cut(None, -1), Cut(None, 1)

Interval: TypeAlias = tuple[Cut, Cut]


@dataclass(frozen=True, slots=True)
class Values:
    """A set of values of one type: disjoint intervals in ascending order, none of them touching."""

    intervals: tuple[Interval, ...]

    @classmethod
    def of(cls, *values: Value) -> Values:
        return cls.union([(Cut(value, -1), Cut(value, 1)) for value in values])

    @classmethod
    def between(cls, low: Cut, high: Cut) -> Values:
        return cls.union([(low, high)])

    @classmethod
    def union(cls, intervals: Iterable[Interval]) -> Values:
        """Sorted, merged where they touch, and closed at whole values where the type has them."""
        merged: list[Interval] = []
        for low, high in sorted((_normal(low), _normal(high)) for low, high in intervals):
            if low >= high:
                continue
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def any_of(cls, sets: Iterable[Values]) -> Values:
        """The union of sets, in one sort: a list of a thousand alternatives is one union."""
        return cls.union(interval for values in sets for interval in values.intervals)

    @classmethod
    def all_of(cls, sets: Iterable[Values]) -> Values:
        """The intersection of sets, as the complement of a union."""
        return ~cls.any_of(~values for values in sets)

    def __or__(self, other: Values) -> Values:
        return Values.any_of([self, other])

    def __invert__(self) -> Values:
        edges = [BELOW, *(cut for interval in self.intervals for cut in interval), ABOVE]
        return Values.union(zip(edges[::2], edges[1::2], strict=True))

    def __and__(self, other: Values) -> Values:
        return Values.all_of([self, other])

    def __contains__(self, value: Value) -> bool:
        return any(low < Cut(value, 0) < high for low, high in self.intervals)

    @property
    def points(self) -> tuple[Value, ...] | None:
        """The values themselves, where they are listed one by one; None where there are ranges."""
        singles = [
            low.value
            for low, high in self.intervals
            if low.value is not None and low.side == -1 and high == _normal(Cut(low.value, 1))
        ]
        return tuple(singles) if len(singles) == len(self.intervals) else None

    def list_values(self, most: int) -> tuple[Value, ...] | None:
        """All values of the set, if they are at most `most`. A range of whole numbers or of days is a list too."""
        values: list[Value] = []
        for low, high in self.intervals:
            value = low.value if low.side == -1 and high.value is not None else None
            while value is not None and Cut(value, 0) < high and len(values) <= most:
                values.append(value)
                value = successor(value)
            if not values or high != _normal(Cut(values[-1], 1)):  # there are further values before the end
                return None
        return tuple(values) if len(values) <= most else None

    def within(self, ordered: Sequence[Value]) -> tuple[Value, ...]:
        """Those of the values in ascending order that are in the set."""

        def place(cut: Cut) -> int:
            if cut.value is None:
                return 0 if cut.side < 0 else len(ordered)
            return (bisect_left if cut.side < 0 else bisect_right)(ordered, cut.value)

        return tuple(value for low, high in self.intervals for value in ordered[place(low) : place(high)])


ALL_VALUES = Values(((BELOW, ABOVE),))
NO_VALUES = Values(())


@dataclass(frozen=True, slots=True)
class In:
    """The column is not NULL and its value is in the set."""

    column: str
    values: Values

    def __str__(self) -> str:
        parts = [f"{_edge(low)}..{_edge(high)}" for low, high in self.values.intervals]
        return f"{self.column!r} in {parts}"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds. `AllOf(())` is no filter at all."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"all({'; '.join(map(str, self.parts))})"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds. `AnyOf(())` lets nothing through."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return f"any({'; '.join(map(str, self.parts))})"


Predicate: TypeAlias = In | AllOf | AnyOf

EVERYTHING, NOTHING = AllOf(()), AnyOf(())


def all_of(parts: Sequence[Predicate]) -> Predicate:
    """The conjunction, in canonical form if its parts are."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AllOf) else (part,))]
    merged = _merge(flat, intersect=True)
    if NOTHING in merged:
        return NOTHING
    return merged[0] if len(merged) == 1 else AllOf(tuple(merged))


def any_of(parts: Sequence[Predicate]) -> Predicate:
    """The disjunction, in canonical form if its parts are."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, AnyOf) else (part,))]
    merged = _merge(flat, intersect=False)
    if EVERYTHING in merged:
        return EVERYTHING
    return merged[0] if len(merged) == 1 else AnyOf(tuple(merged))


def negate(predicate: Predicate) -> Predicate:
    """What is true where `predicate` is false; where it is NULL, so is this.

    Not for pruned filters: `x = 1 AND x = 2` is false or, where x is NULL, NULL; its negation asks that x is not NULL.
    """
    if isinstance(predicate, In):
        return In(predicate.column, ~predicate.values)
    if isinstance(predicate, AllOf):
        return any_of([negate(part) for part in predicate.parts])
    return all_of([negate(part) for part in predicate.parts])


def prune(predicate: Predicate) -> Predicate:
    """The final form, in which a leaf that no value passes is `NOTHING`. Do not negate it afterwards."""
    once = _prune_once(predicate)
    return once if once == predicate else prune(once)  # the parts that are left may exclude one another now


def extent(predicate: Predicate) -> tuple[int, int]:
    """How many intervals, leaves and branches a filter has, and how many branches are inside each other."""
    if isinstance(predicate, In):
        return 1 + len(predicate.values.intervals), 0
    extents = [extent(part) for part in predicate.parts]
    return 1 + sum(size for size, _ in extents), 1 + max((depth for _, depth in extents), default=0)


def columns_of(predicate: Predicate) -> Iterator[str]:
    """The columns that a filter looks at."""
    return (column for column, _ in sets_of(predicate))


def sets_of(predicate: Predicate) -> Iterator[tuple[str, Values]]:
    """The columns that a filter looks at, each with its set of values."""
    if isinstance(predicate, In):
        yield predicate.column, predicate.values
        return
    for part in predicate.parts:
        yield from sets_of(part)


def _prune_once(predicate: Predicate) -> Predicate:
    if isinstance(predicate, In):
        return predicate if predicate.values.intervals else NOTHING
    join = all_of if isinstance(predicate, AllOf) else any_of
    return join([_prune_once(part) for part in predicate.parts])


def _merge(parts: Sequence[Predicate], *, intersect: bool) -> list[Predicate]:
    """Leaves of one column as one leaf, nothing twice, in one order."""
    sets: dict[str, list[Values]] = {}
    others: dict[Predicate, None] = {}
    for part in parts:
        if isinstance(part, In):
            sets.setdefault(part.column, []).append(part.values)
        else:
            others[part] = None
    leaves = [In(column, (Values.all_of if intersect else Values.any_of)(each)) for column, each in sets.items()]
    return sorted({*leaves, *others}, key=str)


def _normal(cut: Cut) -> Cut:
    """One form per place: after 1 is before 2 where a type has whole values, and before FALSE is nothing."""
    if isinstance(cut.value, bool):
        return {(False, -1): BELOW, (True, 1): ABOVE}.get((cut.value, cut.side), Cut(True, -1))
    if cut.side != 1 or cut.value is None:
        return cut
    step = successor(cut.value)
    return cut if step is None else Cut(step, -1)


def _edge(cut: Cut) -> str:
    if cut.value is None:
        return "-" if cut.side < 0 else "+"
    return f"{'<' if cut.side < 0 else '>'}{spelling(cut.value)!r}"
