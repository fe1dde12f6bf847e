"""Requests as JSON: what the HTTP interface takes, and what `Plan.request` writes.

    {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "where": {...}, "k": 10}
    {"type": "histogram", "table": ..., "by": [...], "measure": ..., "where": {...}}
    {"type": "total", "table": ..., "measure": ..., "where": {...}}
    {"sql": "SELECT ...", "params": [...] | {...}}

`"measures": ["AVG(amount)"]` names further measures of the same groups. `read_question` reads all that can be asked,
with statements in SQL that are more than one request. `params` are bound before anything is read here
(`sfumato.query.sql.binding`). `where`, `k`, `counts` and `measures` may be left out; null for `where` or `k` is the
same as leaving it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from sfumato.errors import NotSupported, find_nearest
from sfumato.query.policy import Policy
from sfumato.query.request import NOT_A_REQUEST, NOT_AN_OBJECT, REQUESTS, Request, RequestLike
from sfumato.query.sql import Statement, read_sql, read_statement

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
    "measures": (
        "a list of measures, such as ['AVG(amount)']",
        lambda value: isinstance(value, list | tuple) and all(isinstance(item, str) for item in value),
    ),
    "where": ("a filter, such as {'region': 'emea'}", lambda value: value is None or isinstance(value, Mapping)),
    "k": ("a whole number", lambda value: value is None or (isinstance(value, int) and not isinstance(value, bool))),
    "counts": ("true or false", lambda value: isinstance(value, bool)),
}


def read_question(request: RequestLike, policy: Policy) -> Statement:
    """What is asked, in any form. A request that is no SQL is a statement whose answer is the released rows."""
    if isinstance(request, str):
        return read_statement(request, policy)
    if isinstance(request, Mapping):
        if "sql" in request and all(isinstance(name, str) for name in request):
            return read_statement(_read_sql_field(request), policy)
        return Statement(read_request(request, policy))
    if isinstance(request, Request):
        return Statement(request)
    raise NotSupported(NOT_A_REQUEST)


def _read_sql_field(serial: Mapping[str, Any]) -> str:
    """The SQL of a JSON object, beside which nothing else may stand."""
    for field in serial.keys() - {"sql"}:
        raise NotSupported("cannot stand beside sql, which says it all; leave one of them out", field=field[:60])
    if not isinstance(serial["sql"], str):
        raise NotSupported("must be text", field="sql")
    return serial["sql"]


def read_request(serial: Mapping[str, Any], policy: Policy) -> Request:
    """The request that a JSON object makes; a refusal names the field."""
    if not isinstance(serial, Mapping) or not all(isinstance(name, str) for name in serial):
        raise NotSupported(NOT_AN_OBJECT)
    if "sql" in serial:
        return read_sql(_read_sql_field(serial), policy)
    if "type" not in serial:
        near = find_nearest("type", serial)
        hint = f"; did you mean {near[:60]} to be it?" if near else ""
        raise NotSupported(f"is missing, and so is sql; it is one of {', '.join(REQUESTS)}{hint}", field="type")
    name = serial["type"]
    if not isinstance(name, str) or name not in REQUESTS:
        near = find_nearest(name, REQUESTS)
        raise NotSupported(f"must be one of {', '.join(REQUESTS)}", field="type", nearest=near)
    kind = REQUESTS[name]
    known = {field.name: field.default is MISSING for field in fields(kind)}
    given = {field: value for field, value in serial.items() if field != "type"}
    for field in given.keys() - known.keys():
        near = find_nearest(field, ["type", *known])
        there = "" if near else f"; there is type, {', '.join(known)}"
        raise NotSupported(f"is not a field of a {name}{there}", field=field[:60], nearest=near)
    for field in (field for field, required in known.items() if required and field not in given):
        raise NotSupported(f"is missing; a {name} needs {_SHAPES[field][0]} there", field=field)
    for field, value in given.items():
        words, fits = _SHAPES[field]
        if not fits(value):
            raise NotSupported(f"must be {words}", field=field)
    return kind(**given)
