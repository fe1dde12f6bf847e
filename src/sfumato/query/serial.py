"""Requests as JSON: what the HTTP interface takes, and what `Plan.request` gives.

    {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "where": {...}, "k": 10}
    {"type": "histogram", "table": ..., "by": [...], "measure": ..., "where": {...}}
    {"type": "total", "table": ..., "measure": ..., "where": {...}}
    {"sql": "SELECT ..."}

`where`, `k` and `counts` may be left out; a `where` or a `k` that is null is one that is left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sfumato.errors import NotSupported
from sfumato.query.policy import Policy
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.query.sql import read_sql

_TYPES: Mapping[str, type[TopK | Histogram | Total]] = {kind.kind: kind for kind in (TopK, Histogram, Total)}

# What a field must be, in words and as a test.
_SHAPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "table": ("text", lambda value: isinstance(value, str)),
    "by": ("a column, or a list of columns", lambda value: isinstance(value, str) or _texts(value)),
    "measure": ("text", lambda value: isinstance(value, str)),
    "where": ("a filter, such as {'region': 'emea'}", lambda value: value is None or isinstance(value, Mapping)),
    "k": ("a whole number", lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool))),
    "counts": ("true or false", lambda value: isinstance(value, bool)),
}


def read_request(serial: Mapping[str, Any], policy: Policy) -> Request:
    """The request that a JSON object makes; a refusal names the field."""
    if not isinstance(serial, Mapping) or not all(isinstance(name, str) for name in serial):
        raise NotSupported("a request is an object: {'type': 'top_k', 'table': ..., ...} or {'sql': 'SELECT ...'}")
    if "sql" in serial:
        return _sql(serial, policy)
    kind, name = _kind(serial)
    known = {field.name: field.default is MISSING for field in fields(kind)}
    given = {field: value for field, value in serial.items() if field != "type"}
    for field in given.keys() - known.keys():
        raise NotSupported(f"{field[:60]}: is not a field of a {name}; {_nearest(field, ['type', *known])}")
    for field in (field for field, required in known.items() if required and field not in given):
        raise NotSupported(f"{field}: is missing; a {name} needs {_SHAPES[field][0]} there")
    for field, value in given.items():
        words, fits = _SHAPES[field]
        if not fits(value):
            raise NotSupported(f"{field}: must be {words}")
    return kind(**given)


def _sql(serial: Mapping[str, Any], policy: Policy) -> Request:
    for field in serial.keys() - {"sql"}:
        raise NotSupported(f"{field[:60]}: cannot stand beside sql, which says it all; leave one of them out")
    if not isinstance(serial["sql"], str):
        raise NotSupported("sql: must be text")
    return read_sql(serial["sql"], policy)


def _kind(serial: Mapping[str, Any]) -> tuple[type[TopK | Histogram | Total], str]:
    if "type" not in serial:
        near = difflib.get_close_matches("type", serial, n=1)
        hint = f"; did you mean {near[0][:60]} to be it?" if near else ""
        raise NotSupported(f"type: is missing, and so is sql; it is one of {', '.join(_TYPES)}{hint}")
    name = serial["type"]
    if not isinstance(name, str) or name not in _TYPES:
        raise NotSupported(f"type: must be one of {', '.join(_TYPES)}; {_nearest(name, _TYPES)}")
    return _TYPES[name], name


def _nearest(name: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
