"""JSON schemas for the OpenAPI document.

Schemas of replies follow from the records in `sfumato.wire`. Those of requests follow from the request classes and the
fields of a report; here is only what a class cannot say: constraints and descriptions.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias, get_args

import msgspec

from sfumato import wire
from sfumato.problems import PLACE, PROBLEM_TYPES
from sfumato.query.reports.policy import OPTIONS
from sfumato.query.reports.request import FIELDS
from sfumato.query.request import MAX_MEASURES, Request
from sfumato.types import TYPES

Json: TypeAlias = dict[str, Any]


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def array(of: Json, **more: Any) -> Json:
    return {"type": "array", "items": of, **more}


def nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: Json = {"type": "string"}
NAME: Json = {"type": "string", "minLength": 1}
DAY: Json = {"type": "string", "format": "date"}
AMOUNT: Json = wire.schemas([wire.Estimate])["Charge"]["properties"]["information"]
_COUNT: Json = {"type": "integer", "minimum": 1}
_TIME: Json = {**NAME, "description": "A day or a time on the report's finest time grid, in its zone."}
_OPTION: Json = {"enum": [*OPTIONS], "description": " ".join(f"`{name}`: {text}." for name, text in OPTIONS.items())}

_WHERE: Json = {
    "type": "object",
    "additionalProperties": True,
    "description": "A filter. Each column maps to a value, a list of values, or comparisons (`eq`, `ne`, `lt`, `le`, "
    "`gt`, `ge`, `in`, `between`). `and` and `or` take a list of filters, `not` takes one.",
    "examples": [{"region": "emea"}, {"day": {"ge": "2026-10-01"}, "not": {"region": ["apac", "amer"]}}],
}

_PARAMETER: Json = {
    "anyOf": [
        {"type": ["string", "number", "boolean"]},
        {"type": "object", "propertyNames": {"enum": [*TYPES]}, "minProperties": 1, "maxProperties": 1},
    ],
    "description": "A value, or an object that names its type.",
    "examples": ["emea", 10, {"date": "2026-11-01"}, {"number": "0.10"}],
}
_PARAMS: Json = {
    **nullable({"anyOf": [array(ref("Parameter")), {"type": "object", "additionalProperties": ref("Parameter")}]}),
    "description": "The values of parameters: a list, one for each `?`, or an object, one for each `:name`.",
}

_REQUEST_FIELDS: Mapping[str, Json] = {
    "table": NAME,
    "by": {
        "anyOf": [NAME, array(NAME, minItems=1, uniqueItems=True)],
        "description": "The column or columns to group by.",
    },
    "measure": {
        **NAME,
        "description": "What to count: a measure of the table's policy, or an aggregate of a column such as "
        "`AVG(amount)`. It selects the groups if one person can only raise it; otherwise people do.",
    },
    "measures": {
        **array(NAME, maxItems=MAX_MEASURES - 1),
        "default": [],
        "description": "Further measures of the same groups. Each costs a unit for each group that a person is in.",
    },
    "where": {**nullable(ref("Where")), "description": "The rows to count. Default: all."},
    "k": {**nullable(_COUNT), "description": "Number of groups. Default: the policy's max_k."},
    "counts": {"type": "boolean", "description": "False: only the groups, at a lower cost. Default: true."},
}

_REPORT_FIELDS: Mapping[str, Json] = {
    "report": {**nullable(NAME), "description": "The report. Optional if there is only one."},
    "statistics": {"anyOf": [NAME, array(NAME, minItems=1)], "description": "What to count."},
    "entity": {
        **nullable({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
        "description": "The entity: its level and name. Add the levels above it if the name is not unique.",
    },
    "attribute": {**nullable(NAME), "description": "Break the counts down by this attribute. Default: totals."},
    "start": _TIME,
    "end": {**_TIME, "description": f"{_TIME['description']} Exclusive."},
    "granularity": {
        **nullable(NAME),
        "description": "A level of time. Default: `all`, one count for the range.",
    },
    "top": {**nullable(_COUNT), "description": "Only this many of the attribute's values, the largest."},
    "options": {
        "anyOf": [_OPTION, array(_OPTION), {"type": "null"}],
        "description": "How to make the counts consistent with one another. Default: the report's own options.",
    },
}


def _object(properties: Json, required: Iterable[str], text: str) -> Json:
    parts = {"properties": properties, "required": [*required], "additionalProperties": False, "description": text}
    return {"type": "object", **parts}


def request_schemas() -> dict[str, Json]:
    """The schemas of what can be sent: `Request`, `ReportRequest` and their parts."""
    schemas = {"Where": _WHERE}
    kinds = get_args(Request)
    for kind in kinds:
        properties = {field.name: _REQUEST_FIELDS[field.name] for field in fields(kind)}
        required = [field.name for field in fields(kind) if field.default is MISSING]
        text = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0]
        schemas[kind.__name__] = _object({"type": {"const": kind.kind}, **properties}, ["type", *required], text)
    sql = {"sql": {**TEXT, "description": "A SELECT with a count, and what follows from its rows."}, "params": _PARAMS}
    schemas["Sql"] = _object(sql, ["sql"], "A request in SQL.")
    schemas["Parameter"] = _PARAMETER
    schemas["Request"] = {"oneOf": [*(ref(kind.__name__) for kind in kinds), ref("Sql")]}
    schemas["ReportRequest"] = _object(
        {name: _REPORT_FIELDS.get(name, {}) for name in FIELDS},  # a new field takes any value until it is described
        ["statistics", "start", "end"],
        "Counts of one entity in the range [start, end).",
    )
    schemas["KeyRequest"] = _object(
        {
            "analyst": NAME,
            "role": {"enum": ["analyst", "reader", "auditor", None], "description": "Default: that of the file."},
            "expires": {**nullable(DAY), "description": "Its last day (UTC). Default: as late as possible."},
        },
        ["analyst"],
        "A key to make.",
    )
    schemas["GrantRequest"] = _object(
        {
            "account": {**NAME, "description": "An analyst, or the full name of an account."},
            "information": {**AMOUNT, "description": "Units to add. Default: none."},
            "calls": {**AMOUNT, "description": "Calls to add. Default: none."},
            "reason": {**NAME, "maxLength": 500, "description": "Why; it is written to the journal."},
        },
        ["account", "reason"],
        "An amount to add to what an account may spend.",
    )
    return schemas


def reply_schemas(records: Iterable[type[msgspec.Struct]]) -> dict[str, Json]:
    """The schemas of these records and of `Problem`, with all that they contain."""
    schemas = wire.schemas([*records, wire.Problem])
    problem = schemas["Problem"]["properties"]
    problem["type"]["enum"] = [PLACE + kind.name for kind in PROBLEM_TYPES]
    problem["try"]["items"] = {"anyOf": [ref("Request"), ref("ReportRequest")]}
    return schemas
