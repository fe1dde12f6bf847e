"""What can be asked: `TopK`, `Histogram`, `Total`; and the JSON form of a filter.

A filter (`where`) is written as in the HTTP interface:

    {"region": "emea"}                       one value
    {"region": ["emea", "apac"]}             any of these; in Python also a set
    {"day": {"ge": "2026-11-01", "lt": "2026-12-01"}}
    {"or": [{"region": "emea"}, {"not": {"title": "nurse"}}]}

The ledger stores requests as JSON: neither a `kind` nor the name of a field may change.

The client needs this module, so it imports no policy and no mechanism. `sfumato.query.filters` reads a filter under a
policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.predicate import AnyOf, In, Interval, Predicate, Values
from sfumato.query.values import json_value
from sfumato.types import Value

Where: TypeAlias = Mapping[str, Any]

CATALOG, SCHEMA = "sfumato", "main"
SCHEMAS = frozenset((SCHEMA, "public", "sfumato"))
"""The one schema, by the names that tools give it. A table may be named with it."""

MAX_DEPTH = 20
MAX_MEASURES = 20
MAX_VALUES = 1000
MAX_PARTS = 2000
MAX_NODES = 5 * MAX_PARTS  # a part of a canonical filter is written as five nodes at most, so it can be read back
MAX_LEVELS = 3 * MAX_DEPTH

LISTS = (list, tuple, set, frozenset)

NOT_A_REQUEST = "a question is SQL, a TopK, a Histogram or a Total, or one of these as a dictionary"
NOT_AN_OBJECT = "a request is an object: {'type': 'top_k', 'table': ..., ...} or {'sql': 'SELECT ...'}"
NOT_A_FILTER = "a filter maps columns to what they are compared with, such as {'region': 'emea'}"
TOO_DEEP = f"where is nested more than {MAX_DEPTH} deep; flatten it"


@dataclass(frozen=True, slots=True)
class TopK:
    """The `k` largest groups; the longest list the policy allows where `k` is None.

    Without `counts` it is the groups alone, in the same order: where each is picked on its own, for half the price.
    `measures` are further ones of the same groups: names of the policy, or aggregates such as "AVG(amount)".
    """

    kind: ClassVar[str] = "top_k"

    table: str
    by: str | Sequence[str]
    measure: str
    where: Where | Predicate | None = None
    k: int | None = None
    counts: bool = True
    measures: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """All groups that can be shown."""

    kind: ClassVar[str] = "histogram"

    table: str
    by: str | Sequence[str]
    measure: str
    where: Where | Predicate | None = None
    measures: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Total:
    """One number for all rows that pass the filter."""

    kind: ClassVar[str] = "total"

    table: str
    measure: str
    where: Where | Predicate | None = None
    measures: Sequence[str] = ()


Request: TypeAlias = TopK | Histogram | Total
RequestLike: TypeAlias = str | Request | Mapping[str, Any]
"""What the doors take: SQL, a request, or a request as JSON."""

REQUESTS: Mapping[str, type[TopK | Histogram | Total]] = {request.kind: request for request in (TopK, Histogram, Total)}
"""The requests by their `kind`, which is the `type` of their JSON form."""


def check_size(where: Any) -> None:
    """Refuse a filter that is too deep or too long. Looks at it level by level, without recursion."""
    level: list[Any] = [where]
    seen = 0
    for _ in range(MAX_LEVELS):
        level = [inner for outer in level for inner in _inside(outer)]
        seen += len(level)
        if seen > MAX_NODES:
            raise NotSupported(f"where has more than {MAX_NODES} parts; ask for ranges instead of lists")
        if not level:
            return
    raise NotSupported(TOO_DEEP)


def _inside(node: Any) -> Sequence[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    return list(node) if isinstance(node, LISTS) else ()


def filter_json(where: Predicate) -> dict[str, Any]:
    """A canonical filter in its JSON form; `sfumato.query.filters.canonical_filter` reads it back."""
    if isinstance(where, In):
        return _leaf(where.column, where.values)
    parts = [filter_json(part) for part in where.parts]
    if isinstance(where, AnyOf):
        return {"or": parts}
    together = {name: clause for part in parts for name, clause in part.items()}
    return together if len(together) == sum(map(len, parts)) else {"and": parts}


def _leaf(column: str, values: Values) -> dict[str, Any]:
    """One list where there is one, of values that are in or that are out; otherwise values and ranges.

    All values are those that are not out of an empty list: the column is not NULL, and that is all.
    """
    if values.points is None and (out := (~values).points) is not None:
        return {"not": _either(_lists(column, out))}
    points = [point for interval in values.intervals for point in Values((interval,)).points or ()]
    ranges = [{column: _range(interval)} for interval in values.intervals if not Values((interval,)).points]
    return _either((_lists(column, points) if points else []) + ranges)


def _lists(column: str, points: Sequence[Value]) -> list[dict[str, Any]]:
    """The values in lists of at most `MAX_VALUES`; at least one list."""
    values = [json_value(point) for point in points]
    return [{column: values[at : at + MAX_VALUES]} for at in range(0, max(len(values), 1), MAX_VALUES)]


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"or": parts}


def _range(interval: Interval) -> dict[str, Any]:
    low, high = interval
    bounds = ("ge" if low.side < 0 else "gt", low.value), ("lt" if high.side < 0 else "le", high.value)
    return {operator: json_value(value) for operator, value in bounds if value is not None}


def unique_object(argument: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object from its pairs, an `object_pairs_hook` of `json`. A key that occurs twice is refused.

    Readers of JSON differ in which of the two they take: what was checked might not be what is asked.
    """
    read = dict(pairs)
    if len(read) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(argument, f"has the key {twice[:60]!r} twice in one object; keep one of them")
    return read
