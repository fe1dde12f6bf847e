"""The OpenAPI document: the texts of every route. Schemas follow from the records and request classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from sfumato.ledger.usage import MAX_BUDGETS
from sfumato.problems import find_problem_type
from sfumato.service import examples
from sfumato.service.limits import DEFAULT_PAGE_ROWS, MAX_IDEMPOTENCY_KEY, MAX_PAGE_ROWS
from sfumato.service.reply import Health, Readiness
from sfumato.service.schemas import AMOUNT, DAY, NAME, TEXT, Json, array, ref, reply_schemas, request_schemas
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Guarantee, Me, Record, Report, Tables, UsageReport

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
_BUDGET: Json = {
    **_header("Sfumato-Left-Information", AMOUNT, "Information left, as in the receipt."),
    **_header("Sfumato-Left-Calls", AMOUNT, "Calls left, as in the receipt."),
    **_header("Sfumato-Resets", DAY, "First day of the next period, if there is one.", required=False),
}
_ETAG: Json = _header("ETag", TEXT, "The digest in quotes. The body of a digest never changes.")
_RETRY_AFTER: Json = _header("Retry-After", {"type": "string", "pattern": "^[0-9]+$"}, "Seconds to wait.")
_STATUS_HEADERS: Mapping[int, Json] = {
    401: _header("WWW-Authenticate", {"const": "Bearer"}, "The authentication scheme."),
    405: _header("Allow", TEXT, "The methods of this path."),
    **dict.fromkeys((409, 429, 503), _RETRY_AFTER),
}

# Every route can have these: a body that is too large or too slow can be sent to any.
_ANY_PROBLEMS = ("invalid-argument", "method-not-allowed", "too-large", "failed")
_KEY_PROBLEMS = ("unauthorized", "rate-limited", "ledger-busy", "ledger-failed", "not-found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The texts of a route. `reply` is the record of a 200; None is plain text.

    `headers` are those of a 200 beside X-Request-Id, `more` are replies that are neither a 200 nor a problem.
    """

    summary: str
    text: str
    reply: type[Record] | None
    reply_text: str
    headers: Json = field(default_factory=dict)
    more: Mapping[int, Json] = field(default_factory=dict)
    problems: Sequence[str] = ()
    parameters: Sequence[Json] = ()
    body: Json | None = None
    needs_key: bool = True


def _body(schema: str, requests: Mapping[str, Json]) -> Json:
    return {"required": True, "content": {"application/json": {"schema": ref(schema), "examples": requests}}}


def _parameter(name: str, place: str, schema: Json, text: str, **more: object) -> Json:
    required = place == "path"
    return {"name": name, "in": place, "required": required, "description": text, "schema": schema, **more}


_IDEMPOTENCY_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY, "pattern": "^[!-~]+$"}

ROUTES: Mapping[str, Route] = {
    "ask": Route(
        summary="Answer a request",
        text="A noisy answer, charged to the caller's budget. The same request again gives the same answer and costs "
        "nothing.",
        body=_body("Request", examples.REQUESTS),
        parameters=[
            _parameter(
                *("Idempotency-Key", "header", _IDEMPOTENCY_KEY),
                "Identifies this call. The same key with the same body gives the same answer at no further charge, "
                "also after a new data version. The same key with another body is refused.",
            )
        ],
        reply=Answer,
        reply_text="The answer with its receipt.",
        headers=_BUDGET,
        problems=[
            *("not-supported", "table-not-found", "invalid-argument", "budget-exhausted", "in-flight", "key-reused"),
            "engine-failed",
        ],
    ),
    "report": Route(
        summary="Query a report",
        text="Counts of an entity over time, in total or by an attribute. A count is drawn once and then stays the "
        "same. Every range is made of the same few counts, so no number of requests adds to `guarantee`. Reports are "
        "free: `left` is the budget for other requests. An entity that is not the caller's looks like an unknown one.",
        body=_body("ReportRequest", examples.REPORT_REQUESTS),
        parameters=[
            _parameter(
                *("Idempotency-Key", "header", _IDEMPOTENCY_KEY),
                "Accepted, and not needed: the same body gives the same counts, with or without this header, until "
                "more data is complete or the owner reseals the range. Only `repeat`, `left` and `resets` may differ. "
                "The same key with another body is another request.",
            )
        ],
        reply=Report,
        reply_text="The report with its receipt.",
        headers=_BUDGET,
        problems=["not-supported", "invalid-argument", "in-flight", "engine-failed"],
    ),
    "estimate": Route(
        summary="Estimate a request",
        text="The cost and accuracy of a request. Free, and independent of the data.",
        body=_body("Request", examples.REQUESTS),
        reply=Estimate,
        reply_text="The estimate.",
        problems=["not-supported", "table-not-found", "invalid-argument"],
    ),
    "recall": Route(
        summary="Get a stored answer",
        text="An answer that the caller got before, with the same bytes as the first time.",
        parameters=[
            _parameter("digest", "path", NAME, "The `digest` of a receipt.", example=examples.DIGEST),
            _parameter(
                *("If-None-Match", "header", TEXT),
                "ETags, or `*`. If the answer's ETag is among them, the reply is a 304.",
            ),
        ],
        reply=Answer,
        reply_text="The answer with its first receipt.",
        headers=_BUDGET | _ETAG,
        more={304: {"description": "`If-None-Match` has its ETag.", "headers": _HEADERS | _BUDGET | _ETAG}},
    ),
    "budget": Route(
        summary="Get the budget",
        text="The caller's own account, and the accounts shared with others.",
        reply=BudgetReport,
        reply_text="The accounts.",
    ),
    "charges": Route(
        summary="List charges",
        text="The caller's charges by page, the latest first.",
        parameters=[
            _parameter("cursor", "query", TEXT, "The `next` of the previous page."),
            _parameter(
                *("rows", "query"),
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_ROWS, "default": DEFAULT_PAGE_ROWS},
                "Rows per page.",
            ),
        ],
        reply=Charges,
        reply_text="One page.",
        problems=["invalid-argument"],
    ),
    "tables": Route(
        summary="List tables and reports",
        text="The tables that the caller may ask about, with their columns and measures, and the reports with their "
        "statistics and levels, as in the policy.",
        reply=Tables,
        reply_text="The tables and reports.",
    ),
    "me": Route(
        summary="Get the caller's record",
        text="The caller's role, organisation and budget, and what the caller may ask about: tables, reports, entities "
        "and rows.",
        reply=Me,
        reply_text="The record.",
    ),
    "guarantee": Route(
        summary="Get the caller's guarantee",
        text="What the caller's accounts and reports promise to one person, and to several together: for one question, "
        "one period and a year. `sources` adds up all results about the same rows. What others learn and what is "
        "published is not in it.",
        reply=Guarantee,
        reply_text="The guarantee.",
    ),
    "total_guarantee": Route(
        summary="Get the guarantee of all",
        text="For owners and auditors: what all accounts and reports promise, and for each source of rows one total of "
        "questions, releases and reports.",
        reply=Guarantee,
        reply_text="The guarantee.",
    ),
    "usage": Route(
        summary="Get the usage",
        text="For owners and auditors: spending per day, analyst and account. With budgets, also how many analysts "
        "would have exhausted each by each day of their period.",
        parameters=[
            _parameter("since", "query", DAY, "The first day (UTC). Default: 30 days before the last."),
            _parameter("until", "query", DAY, "The last day (UTC). Default: today."),
            _parameter(
                *("budget", "query"),
                array({"type": "string", "pattern": "^[0-9]{1,15},[0-9]{1,15}$"}, maxItems=MAX_BUDGETS),
                "INFORMATION,CALLS. Repeat the parameter for several budgets.",
                style="form",
                explode=True,
                example=["3000,30"],
            ),
        ],
        reply=UsageReport,
        reply_text="The usage.",
        problems=["invalid-argument"],
    ),
    "healthz": Route(
        summary="Liveness",
        text="The process is up.",
        reply=Health,
        reply_text="It is up.",
        needs_key=False,
    ),
    "readyz": Route(
        summary="Readiness",
        text="The ledger can be written and agrees with its fence, and every table can be reached. Checked at most "
        "once per second; a check that hangs is not waited for.",
        reply=Readiness,
        reply_text="Ready.",
        more={
            503: {
                "description": "Not ready.",
                "headers": _HEADERS | _RETRY_AFTER,
                "content": {
                    "application/json": {"schema": ref("Readiness")},
                    "application/problem+json": {"schema": ref("Problem")},
                },
            }
        },
        needs_key=False,
    ),
    "metrics": Route(
        summary="Metrics",
        text="Counts and durations of requests, problems and answers, in the text format of Prometheus. Nothing of any "
        "request or answer.",
        reply=None,
        reply_text="The metrics.",
        needs_key=False,
    ),
}


def options(name: str) -> Json:
    """The arguments of FastAPI's decorator of a route."""
    route = ROUTES[name]
    media = {"text/plain": {}} if route.reply is None else {"application/json": {"schema": ref(route.reply.__name__)}}
    ok = {"description": route.reply_text, "headers": _HEADERS | route.headers, "content": media}
    problems = (*route.problems, *(_KEY_PROBLEMS if route.needs_key else ()), *_ANY_PROBLEMS)
    extra: Json = {"security": [{"key": []}]} if route.needs_key else {}
    extra |= {"parameters": [*route.parameters]} if route.parameters else {}
    extra |= {} if route.body is None else {"requestBody": route.body}
    return {
        "operation_id": name,
        "summary": route.summary,
        "description": route.text,
        "responses": {200: ok, **_problem_replies(problems), **route.more},
        "response_model": None,
        "openapi_extra": extra,
        **({"response_class": PlainTextResponse} if route.reply is None else {}),
    }


def _problem_replies(names: Sequence[str]) -> dict[int, Json]:
    """The problems of a route by status. Types with the same status share one entry."""
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        by_status.setdefault(find_problem_type(name).status, []).append(name)
    return {
        status: {
            "description": " ".join(f"`{name}`: {find_problem_type(name).meaning}" for name in kinds),
            "headers": _HEADERS | _STATUS_HEADERS.get(status, {}),
            "content": {"application/problem+json": {"schema": ref("Problem")}},
        }
        for status, kinds in sorted(by_status.items())
    }


def schemas() -> dict[str, Json]:
    """All schemas of the document by name."""
    return request_schemas() | reply_schemas(route.reply for route in ROUTES.values() if route.reply is not None)


def openapi(app: FastAPI) -> Json:
    """The OpenAPI 3.1 document of an application with these routes."""
    document = get_openapi(
        title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
    )
    for operation in (operation for path in document["paths"].values() for operation in path.values()):
        reply = ROUTES[operation["operationId"]].reply
        if reply is not None:
            # Added here because FastAPI drops null values from examples.
            content = operation["responses"]["200"]["content"]["application/json"]
            content["example"] = examples.REPLIES[reply.__name__]
    components = document.setdefault("components", {})
    components["schemas"] = schemas()
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key from `sfumato keys create`, or a token."}
    }
    return document
