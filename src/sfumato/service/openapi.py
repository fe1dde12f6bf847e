"""The service described: what FastAPI is told of each route, and the schemas and worked examples behind it.

Every example request is asked by the tests, of the demo's table and of a report on advertisements, and every response
is held against its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from sfumato.ledger.usage import MAX_BUDGETS
from sfumato.problems import PLACE, PROBLEM_TYPES, find_problem_type
from sfumato.query.reports.policy import OPTIONS
from sfumato.service.limits import MAX_KEY
from sfumato.wire import Note, schemas

Json: TypeAlias = dict[str, Any]

DESCRIPTION = """\
Private answers about people, under a budget that is accounted exactly.

Ask with `Authorization: Bearer <key>`. An answer is noisy; it says how far off its counts may be, what it cost and
what is left. The same question again gives the same answer and costs nothing. A report is numbers of an entity over
time, which stay what they are; it costs nothing, and carries the guarantee of all of its numbers. Problems follow
RFC 9457; their `type` leads to a page that says what to do.
"""

DIGEST = "sha256:6f0c2a7f2d3cd0c5f3a0f9d4d3f1a9f4f0a6de7f0f3b1c1c9a34bb7a9e2f5b10"

# -- schemas --


def _object(properties: Json, *, required: list[str] | None = None, closed: bool = True, **more: Any) -> Json:
    needed = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": not closed, **more}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: Json, **more: Any) -> Json:
    return {"type": "array", "items": of, **more}


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
DAY: Json = {"type": "string", "format": "date"}
AMOUNT: Json = {"type": "string", "pattern": "^-?[0-9]+(/[1-9][0-9]*)?$", "description": "An exact number."}
NAME: Json = {"type": "string", "minLength": 1}
TYPE: Json = {"enum": ["text", "integer", "number", "boolean", "date", "timestamp"]}
CELL: Json = {"type": ["string", "number", "boolean"]}
SEAL: Json = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
BY: Json = {"anyOf": [NAME, _list(NAME, minItems=1, uniqueItems=True)]}
WHERE: Json = {"anyOf": [_ref("Where"), {"type": "null"}], "description": "Which rows count; all of them without it."}
MOMENT: Json = {**NAME, "description": "A day or a moment, on the finest grid of the report's time; in its zone."}
OPTION: Json = {
    "enum": [*OPTIONS],
    "description": " ".join(f"`{name}`: {words}." for name, words in OPTIONS.items()),
}
MEASURE: Json = {**NAME, "description": "What is counted: a measure of the table's policy."}

RECEIPT: Json = {
    "mechanism": TEXT,
    "unit": {**TEXT, "description": "Whose presence is hidden."},
    "charge": {**_ref("Charge"), "description": "What this answer cost."},
    "left": {**_ref("Charge"), "description": "What is left of the asker's own budget."},
    "resets": _maybe(DAY),
    "error95": {
        "type": "object",
        "additionalProperties": WHOLE,
        "description": "A count is within this of the truth with 95 %.",
    },
    "data_version": TEXT,
    "digest": {**SEAL, "description": "Names the answer: GET /v1/answers/{digest}."},
    "repeat": {**FLAG, "description": "Whether it was answered before."},
}

SCHEMAS: Mapping[str, Json] = {
    **schemas([Note]),
    "Charge": _object(
        {"information": AMOUNT, "calls": AMOUNT},
        description="What a question costs: units of information, and calls that name groups nobody listed.",
    ),
    "Where": {
        "type": "object",
        "additionalProperties": True,
        "description": "Columns with a value, a list, or comparisons (`eq`, `ne`, `lt`, `le`, `gt`, `ge`, `in`, "
        "`between`); `and` and `or` take lists of filters, `not` takes one.",
        "examples": [{"region": "emea"}, {"day": {"ge": "2026-10-01"}, "not": {"region": ["apac", "amer"]}}],
    },
    "TopK": _object(
        {
            "type": {"const": "top_k"},
            "table": NAME,
            "by": {**BY, "description": "The grouped column, or several."},
            "measure": MEASURE,
            "where": WHERE,
            "k": _maybe({**WHOLE, "minimum": 1, "description": "How many groups; the policy's most without it."}),
            "counts": {**FLAG, "description": "False: the groups alone, for less."},
        },
        required=["type", "table", "by", "measure"],
        description="The k largest groups.",
    ),
    "Histogram": _object(
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
    "Total": _object(
        {"type": {"const": "total"}, "table": NAME, "measure": MEASURE, "where": WHERE},
        required=["type", "table", "measure"],
        description="One number for all rows that pass the filter.",
    ),
    "Sql": _object({"sql": {**TEXT, "description": "One SELECT with a GROUP BY and a count."}}),
    "ReportQuestion": _object(
        {
            "report": _maybe({**NAME, "description": "May be left out where there is only one."}),
            "statistics": {"anyOf": [NAME, _list(NAME, minItems=1)], "description": "What is counted."},
            "entity": {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": ["string", "integer"]}},
                    {"type": "null"},
                ],
                "description": "Names an entity by its level; with those above it where the name is not enough.",
            },
            "attribute": _maybe({**NAME, "description": "Breaks the numbers down by its values; totals without it."}),
            "start": MOMENT,
            "end": {**MOMENT, "description": f"{MOMENT['description']} It is not in the range."},
            "granularity": _maybe({**NAME, "description": "`all`, one number for the range; or a level of time."}),
            "top": _maybe({**WHOLE, "minimum": 1, "description": "Of the attribute's values only the largest."}),
            "options": {
                "anyOf": [OPTION, _list(OPTION), {"type": "null"}],
                "description": "What makes the numbers agree with one another; the report's own without it.",
            },
        },
        required=["statistics", "start", "end"],
        description="Numbers of one entity from `start` on and before `end`.",
    ),
    "Question": {"oneOf": [_ref("TopK"), _ref("Histogram"), _ref("Total"), _ref("Sql")]},
    "Receipt": _object(RECEIPT),
    "ReportReceipt": _object(
        {
            **RECEIPT,
            "charge": {**_ref("Charge"), "description": "Nothing: a report debits nobody."},
            "digest": {**SEAL, "description": "Names the numbers: as long as it is the same, so are they."},
            "repeat": {**FLAG, "description": "Whether all of its numbers were there before."},
            "mechanism": {**TEXT, "description": "`exact` for totals without noise."},
            "error95": {
                "type": "object",
                "additionalProperties": WHOLE,
                "description": "The half-width of the noise alone, with 95 %. A number is within it of the truth, "
                "unless the options `monotone` or `totals` raised it; 0 where `mechanism` is `exact`.",
            },
            "guarantee": _ref("Guarantee"),
        }
    ),
    "Answer": _object(
        {
            "columns": {"type": "object", "additionalProperties": TYPE, "description": "Names with their types."},
            "rows": _list({"type": "object", "additionalProperties": CELL}, description="The largest first."),
            "stopped": {**FLAG, "description": "Whether noise, and not the length asked for, ended the list."},
            "receipt": _ref("Receipt"),
            "notes": _list(_ref("Note")),
        }
    ),
    "Guarantee": _object(
        {
            "epsilon": {"type": "number", "exclusiveMinimum": 0},
            "unit": {"enum": ["event", "person"], "description": "What is hidden: one event, or all of a person's."},
            "totals": {"const": "exact", "description": "There if totals have no noise: they are not covered."},
        },
        required=["epsilon", "unit"],
        description="What all numbers of the report together promise, whatever is asked, how often and by whom.",
    ),
    "Report": _object(
        {
            "report": TEXT,
            "entity": {
                "type": "object",
                "additionalProperties": TEXT,
                "description": "Whose numbers they are: names by level, from the top.",
            },
            "start": {**TEXT, "description": "Of the range that was asked for; as in the rows."},
            "end": {**TEXT, "description": "It is not in the range."},
            "complete_until": {
                **TEXT,
                "description": "Before it all is in the numbers; `end`, or where that is earlier.",
            },
            "granularity": {**TEXT, "description": "`all`, one number for the range; or a level of time."},
            "columns": {"type": "object", "additionalProperties": TYPE, "description": "Names with their types."},
            "rows": _list(
                {
                    "type": "object",
                    "properties": {"start": TEXT, "end": TEXT},
                    "required": ["start", "end"],
                    "additionalProperties": {"type": [*CELL["type"], "null"]},
                },
                description="By time, and in each step the largest first. A count that is null is too small to show.",
            ),
            "stopped": {"const": False},
            "receipt": _ref("ReportReceipt"),
            "notes": _list(_ref("Note")),
            "options": _list(OPTION, description="Those that were applied."),
            "zone": {**TEXT, "description": "Whose clocks show `start` and `end`."},
        }
    ),
    "Estimate": _object(
        {
            "mechanism": TEXT,
            "charge": _object({"least": _ref("Charge"), "worst": _ref("Charge")}),
            "error95": {"type": "object", "additionalProperties": WHOLE},
            "left": _ref("Charge"),
            "answers_left": _maybe({**WHOLE, "description": "How many such answers fit; null: no end to them."}),
        }
    ),
    "Standing": _object(
        {
            "account": TEXT,
            **{name: _ref("Charge") for name in ("limit", "granted", "spent", "reserved", "left")},
            "resets": _maybe(DAY),
        }
    ),
    "Budget": _object(
        {
            "analyst": TEXT,
            "mode": {"enum": ["enforce", "track"]},
            "resets": _maybe(DAY),
            "accounts": _list(_ref("Standing"), description="One's own first, then those that are shared."),
        }
    ),
    "Charges": _object(
        {
            "rows": _list(
                _object(
                    {
                        "at": {**TEXT, "format": "date-time"},
                        "digest": TEXT,
                        "account": TEXT,
                        "charge": _ref("Charge"),
                        "state": {"enum": ["reserved", "settled", "kept", "granted", "recovered"]},
                    }
                )
            ),
            "next": _maybe({**TEXT, "description": "The `cursor` of the next page; null on the last."}),
        }
    ),
    "Tables": _object(
        {
            "rows": _list(
                _object(
                    {
                        "table": TEXT,
                        "unit": TEXT,
                        "columns": _list(
                            _object(
                                {
                                    "name": TEXT,
                                    "type": TYPE,
                                    "domain": {
                                        "anyOf": [{"const": "unknown"}, _list(CELL)],
                                        "description": "The values that the policy lists; unknown where it lists none.",
                                    },
                                    "max_groups": _maybe({**WHOLE, "description": "Of how many one person can be."}),
                                }
                            )
                        ),
                        "measures": _list(
                            _object({"name": TEXT, "counts": {"enum": ["units", "rows", "sum"]}, "max_per_unit": WHOLE})
                        ),
                    }
                )
            ),
            "reports": _list(_ref("ReportRow"), description="Reports, where there are any: POST /v1/reports."),
        },
        required=["rows"],
    ),
    "ReportRow": _object(
        {
            "report": TEXT,
            "statistics": _list(TEXT),
            "attributes": {
                "type": "object",
                "additionalProperties": _list(CELL),
                "description": "What numbers are broken down by, with their public values.",
            },
            "entities": _list(TEXT, description="Levels, the top first."),
            "levels": _list(TEXT, description="Levels of time, the finest first."),
            "zone": TEXT,
            "guarantee": _ref("Guarantee"),
        }
    ),
    "Usage": _object(
        {
            "since": DAY,
            "until": DAY,
            "rows": _list(
                _object({"day": DAY, "analyst": TEXT, "account": TEXT, "period": _maybe(DAY), "charge": _ref("Charge")})
            ),
            "forecast": _list(
                _object(
                    {
                        "budget": _ref("Charge"),
                        "days": _list(
                            _object(
                                {
                                    "day": {**WHOLE, "description": "Since the first charge of a period."},
                                    "dry": _object({"information": WHOLE, "calls": WHOLE, "either": WHOLE}),
                                    "of": {**WHOLE, "description": "How many analysts and periods there are."},
                                }
                            )
                        ),
                    }
                )
            ),
            "notes": _list(TEXT),
        },
        description="Spending by day, analyst and account, and how many would have run dry by each day.",
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "Readiness": _object(
        {
            "status": {"enum": ["ready", "not ready"]},
            "checks": {"type": "object", "additionalProperties": {"enum": ["ok", "not ok"]}},
        }
    ),
    "Problem": _object(
        {
            "type": {**TEXT, "format": "uri-reference", "enum": [PLACE + kind.name for kind in PROBLEM_TYPES]},
            "title": TEXT,
            "status": WHOLE,
            "detail": TEXT,
            "asked": _ref("Charge"),
            "left": _ref("Charge"),
            "resets": _maybe(DAY),
            "try": _list(_ref("Question"), description="Smaller questions that would fit now."),
        },
        required=["type", "title", "status", "detail"],
    ),
}

# -- examples --

QUESTIONS: Mapping[str, Json] = {
    "top_articles": {
        "summary": "The ten articles that most members read in EMEA",
        "value": {
            "type": "top_k",
            "table": "engagements",
            "by": "article",
            "measure": "members",
            "where": {"region": "emea"},
            "k": 10,
        },
    },
    "regions": {
        "summary": "Members by region in the last week of October",
        "value": {
            "type": "histogram",
            "table": "engagements",
            "by": "region",
            "measure": "members",
            "where": {"day": {"between": ["2026-10-24", "2026-10-30"]}},
        },
    },
    "everybody": {
        "summary": "All members",
        "value": {"type": "total", "table": "engagements", "measure": "members"},
    },
    "sql": {
        "summary": "A question in SQL",
        "value": {
            "sql": "SELECT job_title, COUNT(DISTINCT member_id) FROM engagements GROUP BY job_title "
            "ORDER BY 2 DESC LIMIT 5"
        },
    },
}

REPORT_QUESTIONS: Mapping[str, Json] = {
    "by_day": {
        "summary": "Impressions and clicks of a campaign, day by day",
        "value": {
            "report": "ads",
            "statistics": ["impressions", "clicks"],
            "entity": {"campaign": "spring"},
            "start": "2026-10-01",
            "end": "2026-11-01",
            "granularity": "day",
            "options": ["actions"],
        },
    },
    "top_titles": {
        "summary": "The five job titles that saw it most, over half a year",
        "value": {
            "report": "ads",
            "statistics": ["impressions", "clicks"],
            "entity": {"campaign": "spring"},
            "attribute": "job_title",
            "start": "2026-03-31T21:00",
            "end": "2026-10-02T03:00",
            "top": 5,
        },
    },
    "account": {
        "summary": "All clicks of an account, by month",
        "value": {
            "report": "ads",
            "statistics": "clicks",
            "entity": {"account": "acme"},
            "start": "2026-01-01",
            "end": "2026-11-01",
            "granularity": "month",
        },
    },
}

_CHARGE = {"information": "21", "calls": "1"}
_LEFT = {"information": "2979", "calls": "29"}

ANSWER: Json = {
    "columns": {"article": "text", "members": "integer"},
    "rows": [{"article": "gdpr-guide", "members": 1240}, {"article": "cookie-free-ads-51", "members": 1187}],
    "stopped": False,
    "receipt": {
        "mechanism": "unknown_gumbel",
        "unit": "member_id",
        "charge": _CHARGE,
        "left": _LEFT,
        "resets": "2026-12-01",
        "error95": {"members": 27},
        "data_version": "daily 2026-11-16",
        "digest": DIGEST,
        "repeat": False,
    },
    "notes": [{"code": "small-groups-absent", "text": "groups below a noisy threshold are absent"}],
}

REPORT: Json = {
    "report": "ads",
    "entity": {"account": "acme", "campaign": "spring"},
    "start": "2026-03-31T21:00:00",
    "end": "2026-10-02T03:00:00",
    "complete_until": "2026-10-02T03:00:00",
    "granularity": "all",
    "columns": {
        "start": "timestamp",
        "end": "timestamp",
        "job_title": "text",
        "impressions": "integer",
        "clicks": "integer",
    },
    "rows": [
        {
            "start": "2026-03-31T21:00:00",
            "end": "2026-10-02T03:00:00",
            "job_title": "engineer",
            "impressions": 1377,
            "clicks": 93,
        },
        {
            "start": "2026-03-31T21:00:00",
            "end": "2026-10-02T03:00:00",
            "job_title": "nurse",
            "impressions": 41,
            "clicks": None,
        },
    ],
    "stopped": False,
    "receipt": {
        "mechanism": "canonical_laplace",
        "unit": "event",
        "charge": {"information": "0", "calls": "0"},
        "left": _LEFT,
        "resets": "2026-12-01",
        "error95": {"impressions": 6, "clicks": 6},
        "data_version": "seal 1",
        "digest": DIGEST,
        "repeat": True,
        "guarantee": {"epsilon": 45.0, "unit": "event"},
    },
    "notes": [
        {"code": "event-level", "text": "the guarantee is for one event; a person with many events is hidden less"},
        {"code": "small-counts-hidden", "text": "counts below 3 are not shown"},
    ],
    "options": [],
    "zone": "America/New_York",
}

EXAMPLES: Mapping[str, Json] = {
    "Answer": ANSWER,
    "Report": REPORT,
    "Estimate": {
        "mechanism": "unknown_gumbel",
        "charge": {"least": {"information": "1", "calls": "1"}, "worst": _CHARGE},
        "error95": {"members": 27},
        "left": _LEFT,
        "answers_left": 29,
    },
    "Budget": {
        "analyst": "anna",
        "mode": "enforce",
        "resets": "2026-12-01",
        "accounts": [
            {
                "account": "analyst:anna",
                "limit": {"information": "3000", "calls": "30"},
                "granted": {"information": "0", "calls": "0"},
                "spent": _CHARGE,
                "reserved": {"information": "0", "calls": "0"},
                "left": _LEFT,
                "resets": "2026-12-01",
            }
        ],
    },
    "Charges": {
        "rows": [
            {
                "at": "2026-11-16T08:30:00.000000+00:00",
                "digest": DIGEST,
                "account": "analyst:anna",
                "charge": _CHARGE,
                "state": "settled",
            }
        ],
        "next": None,
    },
    "Tables": {
        "rows": [
            {
                "table": "engagements",
                "unit": "member_id",
                "columns": [
                    {"name": "region", "type": "text", "domain": ["emea", "apac", "amer"], "max_groups": 1},
                    {"name": "article", "type": "text", "domain": "unknown", "max_groups": None},
                ],
                "measures": [{"name": "members", "counts": "units", "max_per_unit": 1}],
            }
        ]
    },
    "Usage": {
        "since": "2026-11-01",
        "until": "2026-11-16",
        "rows": [
            {
                "day": "2026-11-16",
                "analyst": "anna",
                "account": "analyst:anna",
                "period": "2026-11-01",
                "charge": _CHARGE,
            }
        ],
        "forecast": [
            {
                "budget": {"information": "3000", "calls": "30"},
                "days": [{"day": 1, "dry": {"information": 0, "calls": 0, "either": 0}, "of": 1}],
            }
        ],
        "notes": [],
    },
    "Health": {"status": "ok"},
    "Readiness": {"status": "ready", "checks": {"ledger": "ok", "engines": "ok"}},
}

# -- routes --


def _header(name: str, schema: Json, words: str, *, required: bool = True) -> Json:
    return {name: {"required": required, "schema": schema, "description": words}}


_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_HEADERS: Json = _header("X-Request-Id", _ID, "Names this call in the service's log.")
_BUDGET_HEADERS: Json = {
    **_HEADERS,
    **_header("Sfumato-Left-Information", AMOUNT, "What is left, without parsing the body."),
    **_header("Sfumato-Left-Calls", AMOUNT, "The same for calls."),
    **_header("Sfumato-Resets", DAY, "When the next period begins; absent where none does.", required=False),
}
_ETAG: Json = _header("ETag", TEXT, "The digest, in quotes: these bytes never change.")
_WAIT: Json = _header("Retry-After", {"type": "string", "pattern": "^[0-9]+$"}, "Seconds.")
_OF_STATUS: Mapping[int, Json] = {
    401: _header("WWW-Authenticate", {"const": "Bearer"}, "How to say who asks."),
    405: _header("Allow", TEXT, "The methods of this path."),
    **dict.fromkeys((409, 429, 503), _WAIT),
}


def _good(schema: str, words: str, headers: Json | None = None) -> Json:
    content = {"application/json": {"schema": _ref(schema)}}
    return {"description": words, "headers": headers or _HEADERS, "content": content}


# A body may be too large or too late on any route, also where none is read.
_ANYWHERE = ("invalid-argument", "method-not-allowed", "too-large", "failed")


def _problems(*names: str) -> dict[int | str, Json]:
    """The problems of a route, by status; kinds that share one are told together."""
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys((*names, *_ANYWHERE)):
        by_status.setdefault(find_problem_type(name).status, []).append(name)
    return {
        status: {
            "description": " ".join(f"`{name}`: {find_problem_type(name).meaning}" for name in kinds),
            "headers": _HEADERS | _OF_STATUS.get(status, {}),
            "content": {"application/problem+json": {"schema": _ref("Problem")}},
        }
        for status, kinds in sorted(by_status.items())
    }


_SIGNED = ("unauthorized", "rate-limited", "ledger-failed", "not-found")
_BODY: Json = {
    "required": True,
    "content": {"application/json": {"schema": _ref("Question"), "examples": QUESTIONS}},
}
_REPORT_BODY: Json = {
    "required": True,
    "content": {"application/json": {"schema": _ref("ReportQuestion"), "examples": REPORT_QUESTIONS}},
}
_PAIR: Json = {"type": "string", "pattern": "^[0-9]{1,15},[0-9]{1,15}$"}
_IDEMPOTENCY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Names this call. Sent again with the same body it gives the same answer, at no further charge, "
    "whatever happened in between; with another body it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY, "pattern": "^[!-~]+$"},
}

_IDEMPOTENT: Json = {
    **_IDEMPOTENCY,
    "description": "Taken and not needed: a report costs nothing, and sent again with the same body it gives the same "
    "bytes, but for `repeat`, `left` and `resets` on its receipt, with this header or without, until an epoch is "
    "complete that was not or the owner has it sealed anew. Another body under the same key is another question.",
}


def _query(name: str, schema: Json, words: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": words, "schema": schema}


def _route(name: str, summary: str, words: str, responses: Mapping[int | str, Json], **extra: Any) -> Json:
    open_ = extra.pop("open_", False)
    return {
        "operation_id": name,
        "summary": summary,
        "description": words,
        "responses": dict(responses),
        "response_model": None,
        "openapi_extra": extra | ({} if open_ else {"security": [{"key": []}]}),
    }


ROUTES: Mapping[str, Json] = {
    "ask": _route(
        "ask",
        "Ask a question",
        "A noisy answer, charged to the asker's budget. The same question again is the same answer, for nothing.",
        {
            200: _good("Answer", "The answer, with its receipt.", _BUDGET_HEADERS),
            **_problems(
                *("not-supported", "invalid-argument", "budget-exhausted", "in-flight", "key-reused"),
                *("engine-failed", *_SIGNED),
            ),
        },
        requestBody=_BODY,
        parameters=[_IDEMPOTENCY],
    ),
    "report": _route(
        "report",
        "Have a report",
        "Numbers of an entity over time, by an attribute or in total. They are drawn once and stay: every range is "
        "made of the same few of them, so that no number of questions adds to what `guarantee` says. Nobody is "
        "charged. What is left, on the receipt and in the headers, is for the questions that are. An entity that "
        "is not the caller's looks like one that does not exist.",
        {
            200: _good("Report", "The report, with its receipt.", _BUDGET_HEADERS),
            **_problems("not-supported", "invalid-argument", "in-flight", "engine-failed", *_SIGNED),
        },
        requestBody=_REPORT_BODY,
        parameters=[_IDEMPOTENT],
    ),
    "estimate": _route(
        "estimate",
        "Price a question",
        "What a question would cost and how accurate it would be. Free, and the same whatever the data is.",
        {200: _good("Estimate", "The estimate."), **_problems("not-supported", "invalid-argument", *_SIGNED)},
        requestBody=_BODY,
    ),
    "recall": _route(
        "recall",
        "Fetch an answer again",
        "An answer that the caller was given before: the same bytes as the first time.",
        {
            200: _good("Answer", "The answer as it first left.", _BUDGET_HEADERS | _ETAG),
            304: {"description": "It is the one in `If-None-Match`.", "headers": _BUDGET_HEADERS | _ETAG},
            **_problems(*_SIGNED),
        },
        parameters=[
            {
                "name": "digest",
                "in": "path",
                "required": True,
                "description": "The `digest` of a receipt.",
                "schema": NAME,
                "example": DIGEST,
            },
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "ETags, of which the digest in quotes gives a 304; or `*`, for whatever there is.",
                "schema": TEXT,
            },
        ],
    ),
    "budget": _route(
        "budget",
        "See what is left",
        "The caller's own account, and those that she shares.",
        {200: _good("Budget", "The accounts."), **_problems(*_SIGNED)},
    ),
    "charges": _route(
        "charges",
        "See what was charged",
        "The caller's charges, the latest first, a page at a time.",
        {200: _good("Charges", "A page."), **_problems("invalid-argument", *_SIGNED)},
        parameters=[
            _query("cursor", TEXT, "The `next` of the page before."),
            _query("rows", {**WHOLE, "minimum": 1, "maximum": 1000, "default": 100}, "How many a page."),
        ],
    ),
    "tables": _route(
        "tables",
        "See what may be asked",
        "Tables with their columns and measures, and reports with their statistics and levels, as the policy has them.",
        {200: _good("Tables", "The tables."), **_problems(*_SIGNED)},
    ),
    "usage": _route(
        "usage",
        "See who spends what",
        "For owners and auditors: spending by day, analyst and account; and, for given budgets, how many analysts "
        "would have run dry by each day of their period.",
        {200: _good("Usage", "The usage."), **_problems("invalid-argument", *_SIGNED)},
        parameters=[
            _query("since", DAY, "The first day (UTC); 30 days before the last without it."),
            _query("until", DAY, "The last day (UTC); today without it."),
            {
                **_query(
                    "budget", _list(_PAIR, maxItems=MAX_BUDGETS), "INFORMATION,CALLS; more than once for several."
                ),
                "style": "form",
                "explode": True,
                "example": ["3000,30"],
            },
        ],
    ),
    "healthz": _route(
        "healthz",
        "Is the process up?",
        "Always yes, if it can say so.",
        {200: _good("Health", "It is."), **_problems()},
        open_=True,
    ),
    "readyz": _route(
        "readyz",
        "Can it answer?",
        "Whether the ledger can be written and continues what its fence saw, and every table can be reached.",
        {
            200: _good("Readiness", "It can."),
            **_problems(),
            503: {
                "description": "Not now.",
                "headers": _HEADERS,
                "content": {
                    "application/json": {"schema": _ref("Readiness")},
                    "application/problem+json": {"schema": _ref("Problem")},
                },
            },
        },
        open_=True,
    ),
    "metrics": {
        **_route(
            "metrics",
            "Metrics",
            "In the text format of Prometheus: requests, problems, answers and times. Nothing of any question.",
            {200: {"description": "The metrics.", "headers": _HEADERS, "content": {"text/plain": {}}}, **_problems()},
            open_=True,
        ),
        "response_class": PlainTextResponse,
    },
}


def openapi(app: FastAPI) -> Json:
    """The OpenAPI 3.1 document of the service."""
    document = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
    )
    for responses in (operation["responses"] for path in document["paths"].values() for operation in path.values()):
        _show_example(responses["200"])
    components = document.setdefault("components", {})
    components["schemas"] = dict(SCHEMAS)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key from `sfumato keys create`, or a token."}
    }
    return document


def _show_example(response: Json) -> None:
    """Put the example of its schema beside it. FastAPI would leave out what is null in it."""
    for content in response["content"].values():
        name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if name in EXAMPLES:
            content["example"] = EXAMPLES[name]
