"""The OpenAPI document: the texts of every route, with the schemas and examples of requests and replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from sfumato.ledger.usage import MAX_BUDGETS
from sfumato.problems import named
from sfumato.service import examples
from sfumato.service.examples import Json
from sfumato.service.limits import DEFAULT_PAGE_ROWS, MAX_IDEMPOTENCY_KEY, MAX_PAGE_ROWS
from sfumato.service.schemas import AMOUNT, DAY, INTEGER, NAME, SCHEMAS, TEXT, array, ref

DESCRIPTION = """\
Differentially private answers about people, under an exact budget.

Send `Authorization: Bearer <key>`. An answer is noisy: its receipt says how far off the counts may be, what the answer
cost and what is left. The same request again gives the same answer and costs nothing. A report gives counts of an
entity over time; it costs nothing, and its receipt carries the guarantee of the whole report. Problems follow RFC 9457;
the `type` of a problem is the path of a page that says what to do.
"""


def _header(name: str, schema: Json, text: str, *, required: bool = True) -> Json:
    return {name: {"required": required, "schema": schema, "description": text}}


_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_HEADERS: Json = _header("X-Request-Id", _ID, "Identifies this request in the service's log.")
_BUDGET_HEADERS: Json = {
    **_HEADERS,
    **_header("Sfumato-Left-Information", AMOUNT, "Information left, as in the receipt."),
    **_header("Sfumato-Left-Calls", AMOUNT, "Calls left, as in the receipt."),
    **_header(
        "Sfumato-Resets", DAY, "First day of the next period; absent if the budget never resets.", required=False
    ),
}
_ETAG: Json = _header("ETag", TEXT, "The digest in quotes. The body of a digest never changes.")
_RETRY_AFTER: Json = _header("Retry-After", {"type": "string", "pattern": "^[0-9]+$"}, "Seconds to wait.")
_STATUS_HEADERS: Mapping[int, Json] = {
    401: _header("WWW-Authenticate", {"const": "Bearer"}, "The authentication scheme."),
    405: _header("Allow", TEXT, "The methods of this path."),
    **dict.fromkeys((409, 429, 503), _RETRY_AFTER),
}


def _ok(schema: str, text: str, headers: Json | None = None) -> Json:
    content = {"application/json": {"schema": ref(schema)}}
    return {"description": text, "headers": headers or _HEADERS, "content": content}


# Every route can meet these: also where no body is read, one may be sent that is too large or too slow.
_ANY_ROUTE = ("invalid-argument", "method-not-allowed", "too-large", "failed")
_AUTHENTICATED = ("unauthorized", "rate-limited", "ledger-failed", "not-found")


def _problems(*names: str) -> dict[int | str, Json]:
    """The problems of a route by status. Types with the same status share one entry."""
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys((*names, *_ANY_ROUTE)):
        by_status.setdefault(named(name).status, []).append(name)
    return {
        status: {
            "description": " ".join(f"`{name}`: {named(name).meaning}" for name in kinds),
            "headers": _HEADERS | _STATUS_HEADERS.get(status, {}),
            "content": {"application/problem+json": {"schema": ref("Problem")}},
        }
        for status, kinds in sorted(by_status.items())
    }


def _body(schema: str, requests: Mapping[str, Json]) -> Json:
    return {"required": True, "content": {"application/json": {"schema": ref(schema), "examples": requests}}}


def _idempotency_key(text: str) -> Json:
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY, "pattern": "^[!-~]+$"}
    return {"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": schema}


def _query(name: str, schema: Json, text: str) -> Json:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}


def _route(name: str, summary: str, text: str, responses: Mapping[int | str, Json], **extra: Any) -> Json:
    is_open = extra.pop("is_open", False)
    return {
        "operation_id": name,
        "summary": summary,
        "description": text,
        "responses": dict(responses),
        "response_model": None,
        "openapi_extra": extra | ({} if is_open else {"security": [{"key": []}]}),
    }


ROUTES: Mapping[str, Json] = {
    "ask": _route(
        "ask",
        "Answer a request",
        "A noisy answer, charged to the caller's budget. The same request again gives the same answer and costs "
        "nothing.",
        {
            200: _ok("Answer", "The answer with its receipt.", _BUDGET_HEADERS),
            **_problems(
                *("not-supported", "invalid-argument", "budget-exhausted", "in-flight", "key-reused"),
                *("engine-failed", *_AUTHENTICATED),
            ),
        },
        requestBody=_body("Request", examples.REQUESTS),
        parameters=[
            _idempotency_key(
                "Identifies this call. The same key with the same body gives the same answer at no further charge, "
                "also after a new data version. The same key with another body is refused."
            )
        ],
    ),
    "report": _route(
        "report",
        "Query a report",
        "Counts of an entity over time, in total or by an attribute. A count is drawn once and then stays the same. "
        "Every range is made of the same few counts, so no number of requests adds to `guarantee`. Reports are free: "
        "`left` is the budget for other requests. An entity that is not the caller's looks like an unknown one.",
        {
            200: _ok("Report", "The report with its receipt.", _BUDGET_HEADERS),
            **_problems("not-supported", "invalid-argument", "in-flight", "engine-failed", *_AUTHENTICATED),
        },
        requestBody=_body("ReportRequest", examples.REPORT_REQUESTS),
        parameters=[
            _idempotency_key(
                "Accepted, and not needed: the same body gives the same counts, with or without this header, until "
                "more data is complete or the owner reseals the range. Only `repeat`, `left` and `resets` may differ. "
                "The same key with another body is another request."
            )
        ],
    ),
    "estimate": _route(
        "estimate",
        "Estimate a request",
        "The cost and accuracy of a request. Free, and independent of the data.",
        {200: _ok("Estimate", "The estimate."), **_problems("not-supported", "invalid-argument", *_AUTHENTICATED)},
        requestBody=_body("Request", examples.REQUESTS),
    ),
    "recall": _route(
        "recall",
        "Get a stored answer",
        "An answer that the caller got before, with the same bytes as the first time.",
        {
            200: _ok("Answer", "The answer with its first receipt.", _BUDGET_HEADERS | _ETAG),
            304: {"description": "`If-None-Match` has its ETag.", "headers": _BUDGET_HEADERS | _ETAG},
            **_problems(*_AUTHENTICATED),
        },
        parameters=[
            {
                "name": "digest",
                "in": "path",
                "required": True,
                "description": "The `digest` of a receipt.",
                "schema": NAME,
                "example": examples.DIGEST,
            },
            {
                "name": "If-None-Match",
                "in": "header",
                "required": False,
                "description": "ETags, or `*`. If the answer's ETag is among them, the reply is a 304.",
                "schema": TEXT,
            },
        ],
    ),
    "budget": _route(
        "budget",
        "Get the budget",
        "The caller's own account, and the accounts shared with others.",
        {200: _ok("Budget", "The accounts."), **_problems(*_AUTHENTICATED)},
    ),
    "charges": _route(
        "charges",
        "List charges",
        "The caller's charges by page, the latest first.",
        {200: _ok("Charges", "One page."), **_problems("invalid-argument", *_AUTHENTICATED)},
        parameters=[
            _query("cursor", TEXT, "The `next` of the previous page."),
            _query(
                "rows",
                {**INTEGER, "minimum": 1, "maximum": MAX_PAGE_ROWS, "default": DEFAULT_PAGE_ROWS},
                "Rows per page.",
            ),
        ],
    ),
    "tables": _route(
        "tables",
        "List tables and reports",
        "The tables with their columns and measures, and the reports with their statistics and levels, as in the "
        "policy.",
        {200: _ok("Tables", "The tables and reports."), **_problems(*_AUTHENTICATED)},
    ),
    "usage": _route(
        "usage",
        "Get the usage",
        "For owners and auditors: spending per day, analyst and account. With budgets, also how many analysts would "
        "have exhausted each by each day of their period.",
        {200: _ok("Usage", "The usage."), **_problems("invalid-argument", *_AUTHENTICATED)},
        parameters=[
            _query("since", DAY, "The first day (UTC). Default: 30 days before the last."),
            _query("until", DAY, "The last day (UTC). Default: today."),
            {
                **_query(
                    "budget",
                    array({"type": "string", "pattern": "^[0-9]{1,15},[0-9]{1,15}$"}, maxItems=MAX_BUDGETS),
                    "INFORMATION,CALLS. Repeat the parameter for several budgets.",
                ),
                "style": "form",
                "explode": True,
                "example": ["3000,30"],
            },
        ],
    ),
    "healthz": _route(
        "healthz",
        "Liveness",
        "The process is up.",
        {200: _ok("Health", "It is up."), **_problems()},
        is_open=True,
    ),
    "readyz": _route(
        "readyz",
        "Readiness",
        "The ledger can be written and agrees with its fence, and every table can be reached.",
        {
            200: _ok("Readiness", "Ready."),
            **_problems(),
            503: {
                "description": "Not ready.",
                "headers": _HEADERS,
                "content": {
                    "application/json": {"schema": ref("Readiness")},
                    "application/problem+json": {"schema": ref("Problem")},
                },
            },
        },
        is_open=True,
    ),
    "metrics": {
        **_route(
            "metrics",
            "Metrics",
            "Counts and durations of requests, problems and answers, in the text format of Prometheus. Nothing of any "
            "request or answer.",
            {200: {"description": "The metrics.", "headers": _HEADERS, "content": {"text/plain": {}}}, **_problems()},
            is_open=True,
        ),
        "response_class": PlainTextResponse,
    },
}


def openapi(app: FastAPI) -> Json:
    """The OpenAPI 3.1 document of an application with these routes."""
    document = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
    )
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        for content in operation["responses"]["200"]["content"].values():
            # Added here and not in `_ok`: FastAPI drops null values from examples.
            name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            if name in examples.REPLIES:
                content["example"] = examples.REPLIES[name]
    components = document.setdefault("components", {})
    components["schemas"] = dict(SCHEMAS)
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key from `sfumato keys create`, or a token."}
    }
    return document
