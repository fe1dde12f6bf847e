"""The JSON schemas of requests and replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.problems import PLACE, PROBLEM_TYPES
from sfumato.query.reports.policy import OPTIONS
from sfumato.service.examples import Json
from sfumato.wire import Note, schemas


def obj(properties: Json, *, required: list[str] | None = None, **more: Any) -> Json:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False, **more}


def ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def array(of: Json, **more: Any) -> Json:
    return {"type": "array", "items": of, **more}


def nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
DAY: Json = {"type": "string", "format": "date"}
AMOUNT: Json = {"type": "string", "pattern": "^-?[0-9]+(/[1-9][0-9]*)?$", "description": "An exact number."}
NAME: Json = {"type": "string", "minLength": 1}
TYPE: Json = {"enum": ["text", "integer", "number", "boolean", "date", "timestamp"]}
CELL: Json = {"type": ["string", "number", "boolean"]}
DIGEST: Json = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
BY: Json = {
    "anyOf": [NAME, array(NAME, minItems=1, uniqueItems=True)],
    "description": "The column or columns to group by.",
}
WHERE: Json = {"anyOf": [ref("Where"), {"type": "null"}], "description": "The rows to count. Default: all."}
MOMENT: Json = {**NAME, "description": "A day or a time on the report's finest time grid, in its zone."}
OPTION: Json = {
    "enum": [*OPTIONS],
    "description": " ".join(f"`{name}`: {text}." for name, text in OPTIONS.items()),
}
MEASURE: Json = {**NAME, "description": "What to count: a measure of the table's policy."}
COLUMNS: Json = {"type": "object", "additionalProperties": TYPE, "description": "Column names with their types."}

RECEIPT: Json = {
    "mechanism": TEXT,
    "unit": {**TEXT, "description": "The privacy unit: whose presence is hidden."},
    "charge": {**ref("Charge"), "description": "What this answer cost."},
    "left": {**ref("Charge"), "description": "What is left of the caller's own budget."},
    "resets": nullable(DAY),
    "error95": {
        "type": "object",
        "additionalProperties": INTEGER,
        "description": "Half-width of the 95 % interval of a count.",
    },
    "data_version": TEXT,
    "digest": {**DIGEST, "description": "Identifies the answer: GET /v1/answers/{digest}."},
    "repeat": {**BOOLEAN, "description": "True if it was answered before."},
}

SCHEMAS: Mapping[str, Json] = {
    **schemas([Note]),
    "Charge": obj(
        {"information": AMOUNT, "calls": AMOUNT},
        description="A cost: units of information, and calls on columns with an unknown domain.",
    ),
    "Where": {
        "type": "object",
        "additionalProperties": True,
        "description": "A filter. Each column maps to a value, a list of values, or comparisons (`eq`, `ne`, `lt`, "
        "`le`, `gt`, `ge`, `in`, `between`). `and` and `or` take a list of filters, `not` takes one.",
        "examples": [{"region": "emea"}, {"day": {"ge": "2026-10-01"}, "not": {"region": ["apac", "amer"]}}],
    },
    "TopK": obj(
        {
            "type": {"const": "top_k"},
            "table": NAME,
            "by": BY,
            "measure": MEASURE,
            "where": WHERE,
            "k": nullable({**INTEGER, "minimum": 1, "description": "Number of groups. Default: the policy's max_k."}),
            "counts": {**BOOLEAN, "description": "False: only the groups, at a lower cost. Default: true."},
        },
        required=["type", "table", "by", "measure"],
        description="The k largest groups.",
    ),
    "Histogram": obj(
        {
            "type": {"const": "histogram"},
            "table": NAME,
            "by": BY,
            "measure": MEASURE,
            "where": WHERE,
        },
        required=["type", "table", "by", "measure"],
        description="All groups that can be shown.",
    ),
    "Total": obj(
        {"type": {"const": "total"}, "table": NAME, "measure": MEASURE, "where": WHERE},
        required=["type", "table", "measure"],
        description="One count over all rows that pass the filter.",
    ),
    "Sql": obj({"sql": {**TEXT, "description": "One SELECT with a count, and usually a GROUP BY."}}),
    "ReportRequest": obj(
        {
            "report": nullable({**NAME, "description": "The report. Optional if there is only one."}),
            "statistics": {"anyOf": [NAME, array(NAME, minItems=1)], "description": "What to count."},
            "entity": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
                    {"type": "null"},
                ],
                "description": "The entity: its level and name. Add the levels above it if the name is not unique.",
            },
            "attribute": nullable({**NAME, "description": "Break the counts down by this attribute. Default: totals."}),
            "start": MOMENT,
            "end": {**MOMENT, "description": f"{MOMENT['description']} Exclusive."},
            "granularity": nullable({**NAME, "description": "A level of time, or `all`: one count for the range."}),
            "top": nullable({**INTEGER, "minimum": 1, "description": "Only the largest values of the attribute."}),
            "options": {
                "anyOf": [OPTION, array(OPTION), {"type": "null"}],
                "description": "How to make the counts consistent with one another. Default: the report's own options.",
            },
        },
        required=["statistics", "start", "end"],
        description="Counts of one entity in the range [start, end).",
    ),
    "Request": {"oneOf": [ref("TopK"), ref("Histogram"), ref("Total"), ref("Sql")]},
    "Receipt": obj(RECEIPT),
    "ReportReceipt": obj(
        {
            **RECEIPT,
            "charge": {**ref("Charge"), "description": "Always zero: reports are free."},
            "digest": {**DIGEST, "description": "Identifies the counts: the same digest means the same counts."},
            "repeat": {**BOOLEAN, "description": "True if all counts existed before."},
            "mechanism": {**TEXT, "description": "`exact` for totals without noise."},
            "error95": {
                "type": "object",
                "additionalProperties": INTEGER,
                "description": "Half-width of the 95 % interval of the noise; 0 if `mechanism` is `exact`. The options "
                "`monotone` and `totals` can raise a count above it.",
            },
            "guarantee": ref("Guarantee"),
        }
    ),
    "Answer": obj(
        {
            "columns": COLUMNS,
            "rows": array({"type": "object", "additionalProperties": CELL}, description="The largest first."),
            "stopped": {**BOOLEAN, "description": "True if noise ended the list before the requested length."},
            "receipt": ref("Receipt"),
            "notes": array(ref("Note")),
        }
    ),
    "Guarantee": obj(
        {
            "epsilon": {"type": "number", "exclusiveMinimum": 0},
            "unit": {"enum": ["event", "person"], "description": "What is hidden: one event, or all of a person's."},
            "totals": {"const": "exact", "description": "Present if totals have no noise: they are not covered."},
        },
        required=["epsilon", "unit"],
        description="The privacy guarantee of all counts of the report together, however they are queried.",
    ),
    "Report": obj(
        {
            "report": TEXT,
            "entity": {
                "type": "object",
                "additionalProperties": TEXT,
                "description": "Names by level, the top level first.",
            },
            "start": {**TEXT, "description": "Start of the requested range, in the form of the rows."},
            "end": {**TEXT, "description": "End of the requested range, exclusive."},
            "complete_until": {
                **TEXT,
                "description": "The data is complete up to here: `end`, or earlier.",
            },
            "granularity": {**TEXT, "description": "A level of time, or `all`: one count for the range."},
            "columns": COLUMNS,
            "rows": array(
                {
                    "type": "object",
                    "properties": {"start": TEXT, "end": TEXT},
                    "required": ["start", "end"],
                    "additionalProperties": {"type": [*CELL["type"], "null"]},
                },
                description="By time; within a step, the largest first. A null count is too small to show.",
            ),
            "stopped": {"const": False},
            "receipt": ref("ReportReceipt"),
            "notes": array(ref("Note")),
            "options": array(OPTION, description="The options that were applied."),
            "zone": {**TEXT, "description": "The time zone of `start` and `end`."},
        }
    ),
    "Estimate": obj(
        {
            "mechanism": TEXT,
            "charge": obj({"least": ref("Charge"), "worst": ref("Charge")}),
            "error95": {"type": "object", "additionalProperties": INTEGER},
            "left": ref("Charge"),
            "answers_left": nullable(
                {**INTEGER, "description": "How many such answers fit into what is left; null: unlimited."}
            ),
        }
    ),
    "Standing": obj(
        {
            "account": TEXT,
            **{name: ref("Charge") for name in ("limit", "granted", "spent", "reserved", "left")},
            "resets": nullable(DAY),
        }
    ),
    "Budget": obj(
        {
            "analyst": TEXT,
            "mode": {"enum": ["enforce", "track"]},
            "resets": nullable(DAY),
            "accounts": array(ref("Standing"), description="The caller's own account first, then shared ones."),
        }
    ),
    "Charges": obj(
        {
            "rows": array(
                obj(
                    {
                        "at": {**TEXT, "format": "date-time"},
                        "digest": TEXT,
                        "account": TEXT,
                        "charge": ref("Charge"),
                        "state": {"enum": ["reserved", "settled", "kept", "granted", "recovered"]},
                    }
                )
            ),
            "next": nullable({**TEXT, "description": "The `cursor` of the next page; null on the last."}),
        }
    ),
    "Tables": obj(
        {
            "rows": array(
                obj(
                    {
                        "table": TEXT,
                        "unit": TEXT,
                        "columns": array(
                            obj(
                                {
                                    "name": TEXT,
                                    "type": TYPE,
                                    "domain": {
                                        "anyOf": [{"const": "unknown"}, array(CELL)],
                                        "description": "The values in the policy, or `unknown`.",
                                    },
                                    "max_groups": nullable({**INTEGER, "description": "Maximum groups per person."}),
                                }
                            )
                        ),
                        "measures": array(
                            obj({"name": TEXT, "counts": {"enum": ["units", "rows", "sum"]}, "max_per_unit": INTEGER})
                        ),
                    }
                )
            ),
            "reports": array(ref("ReportRow"), description="The reports, if there are any: POST /v1/reports."),
        },
        required=["rows"],
    ),
    "ReportRow": obj(
        {
            "report": TEXT,
            "statistics": array(TEXT),
            "attributes": {
                "type": "object",
                "additionalProperties": array(CELL),
                "description": "Attributes with their public values.",
            },
            "entities": array(TEXT, description="Levels of entities, the top level first."),
            "levels": array(TEXT, description="Levels of time, the finest first."),
            "zone": TEXT,
            "guarantee": ref("Guarantee"),
        }
    ),
    "Usage": obj(
        {
            "since": DAY,
            "until": DAY,
            "rows": array(
                obj({"day": DAY, "analyst": TEXT, "account": TEXT, "period": nullable(DAY), "charge": ref("Charge")})
            ),
            "forecast": array(
                obj(
                    {
                        "budget": ref("Charge"),
                        "days": array(
                            obj(
                                {
                                    "day": {**INTEGER, "description": "Days since the first charge of a period."},
                                    "dry": obj({"information": INTEGER, "calls": INTEGER, "either": INTEGER}),
                                    "of": {**INTEGER, "description": "Number of analysts times periods."},
                                }
                            )
                        ),
                    }
                )
            ),
            "notes": array(TEXT),
        },
        description="Spending per day, analyst and account, and how many analysts would have exhausted a budget.",
    ),
    "Health": obj({"status": {"const": "ok"}}),
    "Readiness": obj(
        {
            "status": {"enum": ["ready", "not ready"]},
            "checks": {"type": "object", "additionalProperties": {"enum": ["ok", "not ok"]}},
        }
    ),
    "Problem": obj(
        {
            "type": {**TEXT, "format": "uri-reference", "enum": [PLACE + kind.name for kind in PROBLEM_TYPES]},
            "title": TEXT,
            "status": INTEGER,
            "detail": TEXT,
            "asked": ref("Charge"),
            "left": ref("Charge"),
            "resets": nullable(DAY),
            "try": array(ref("Request"), description="Smaller requests that would fit now."),
        },
        required=["type", "title", "status", "detail"],
    ),
}
