"""Requests as JSON: what the HTTP interface takes, and what `Plan.request` writes.

    {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "where": {...}, "k": 10}
    {"type": "histogram", "table": ..., "by": [...], "measure": ..., "where": {...}}
    {"type": "total", "table": ..., "measure": ..., "where": {...}}
    {"sql": "SELECT ..."}

`where`, `k` and `counts` may be left out; null for `where` or `k` is the same as leaving it out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sfumato.errors import NotSupported, nearest
from sfumato.query.policy import Policy
from sfumato.query.request import NOT_AN_OBJECT, REQUESTS, Request
from sfumato.query.sql import read_sql

# What a field must be, in words and as a test.
_SHAPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "table": ("text", lambda value: isinstance(value, str)),
    "by": (
        "a column, or a list of columns",
        lambda value: (
            isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(item, str) for item in value))
        ),
    ),
    "measure": ("text", lambda value: isinstance(value, str)),
    "where": ("a filter, such as {'region': 'emea'}", lambda value: value is None or isinstance(value, Mapping)),
    "k": ("a whole number", lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool))),
    "counts": ("true or false", lambda value: isinstance(value, bool)),
}


def read_request(serial: Mapping[str, Any], policy: Policy) -> Request:
    """The request that a JSON object makes; a refusal names the field."""
    if not isinstance(serial, Mapping) or not all(isinstance(name, str) for name in serial):
        raise NotSupported(NOT_AN_OBJECT)
    if "sql" in serial:
        for field in serial.keys() - {"sql"}:
            raise NotSupported("cannot stand beside sql, which says it all; leave one of them out", field=field[:60])
        if not isinstance(serial["sql"], str):
            raise NotSupported("must be text", field="sql")
        return read_sql(serial["sql"], policy)
    if "type" not in serial:
        near = difflib.get_close_matches("type", serial, n=1)
        hint = f"; did you mean {near[0][:60]} to be it?" if near else ""
        raise NotSupported(f"is missing, and so is sql; it is one of {', '.join(REQUESTS)}{hint}", field="type")
    name = serial["type"]
    if not isinstance(name, str) or name not in REQUESTS:
        hint = nearest(name, REQUESTS) if isinstance(name, str) else ""
        raise NotSupported(f"must be one of {', '.join(REQUESTS)}{hint}", field="type")
    kind = REQUESTS[name]
    known = {field.name: field.default is MISSING for field in fields(kind)}
    given = {field: value for field, value in serial.items() if field != "type"}
    for field in given.keys() - known.keys():
        hint = nearest(field, ["type", *known]) or f"; there is type, {', '.join(known)}"
        raise NotSupported(f"is not a field of a {name}{hint}", field=field[:60])
    for field in (field for field, required in known.items() if required and field not in given):
        raise NotSupported(f"is missing; a {name} needs {_SHAPES[field][0]} there", field=field)
    for field, value in given.items():
        words, fits = _SHAPES[field]
        if not fits(value):
            raise NotSupported(f"must be {words}", field=field)
    return kind(**given)
