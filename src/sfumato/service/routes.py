"""The routes: where each is, who may call it, what it does, and its texts. A route is one row of a table.

Each row follows from the record of its reply, from a method of the session that makes this record, and from the example
in `examples`. The application and the OpenAPI document follow from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from sfumato.config import Right
from sfumato.service import examples
from sfumato.service.calls import ANSWERS, Calls, Work
from sfumato.service.limits import DEFAULT_PAGE_ROWS, MAX_IDEMPOTENCY_KEY, MAX_PAGE_ROWS, read_object
from sfumato.service.reply import Health, Readiness
from sfumato.service.schemas import AMOUNT, DAY, NAME, TEXT, Json, array, ref
from sfumato.wire import (
    Answer,
    BudgetReport,
    Charges,
    EntityPage,
    Estimate,
    Guarantee,
    Me,
    Questions,
    Record,
    Report,
    ReportInfo,
    Tables,
)

PoolName: TypeAlias = Literal["ask", "report", "estimate", "read"]
"""The pool of threads that a route uses: `estimate` for what computes long, `read` for what does not."""


def describe_header(name: str, schema: Json, text: str, *, required: bool = True) -> Json:
    return {name: {"required": required, "schema": schema, "description": text}}


_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
HEADERS: Json = describe_header("X-Request-Id", _ID, "Identifies this request in the service's log.")
_BUDGET: Json = {
    **describe_header("Sfumato-Left-Information", AMOUNT, "Information left, as in the receipt."),
    **describe_header("Sfumato-Left-Calls", AMOUNT, "Calls left, as in the receipt."),
    **describe_header("Sfumato-Resets", DAY, "First day of the next period, if there is one.", required=False),
}
_RECEIPT: Json = {
    **_BUDGET,
    **describe_header("Sfumato-Digest", TEXT, "The digest, as in the receipt."),
    **describe_header("Sfumato-Charge-Information", AMOUNT, "Information charged, as in the receipt."),
    **describe_header("Sfumato-Charge-Calls", AMOUNT, "Calls charged, as in the receipt."),
    **describe_header("Vary", {"const": "Accept"}, "`Accept` chooses the media type."),
}
_ETAG: Json = describe_header(
    "ETag",
    TEXT,
    "The digest in quotes, for CSV and Arrow with `;csv` or `;stream`. The body of a digest never changes.",
)
RETRY_AFTER: Json = describe_header("Retry-After", {"type": "string", "pattern": "^[0-9]+$"}, "Seconds to wait.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route: callers with this right have its `work` done in a thread of its pool. Without `work` it needs no key.

    `reply` is the record of a 200, or of `status`; None is plain text. `headers` are those of a 200 beside
    X-Request-Id, `more` are replies that are neither a 200 nor a problem. A reply that `has_rows` can be had as CSV or
    Arrow too.
    """

    path: str
    method: Literal["GET", "POST"] = "GET"
    right: Right = "read"
    pool: PoolName = "read"
    work: Work | None = None
    summary: str
    text: str
    reply: type[Record] | None
    reply_text: str
    status: int = 200
    headers: Json = field(default_factory=dict)
    more: Mapping[int, Json] = field(default_factory=dict)
    problems: Sequence[str] = ()
    parameters: Sequence[Json] = ()
    body: Json | None = None
    has_rows: bool = False


def describe_body(schema: str, requests: Mapping[str, Json]) -> Json:
    return {"required": True, "content": {"application/json": {"schema": ref(schema), "examples": requests}}}


def describe_parameter(name: str, place: str, schema: Json, text: str, **more: object) -> Json:
    required = place == "path"
    return {"name": name, "in": place, "required": required, "description": text, "schema": schema, **more}


IDEMPOTENCY_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY, "pattern": "^[!-~]+$"}
PAGE = (
    describe_parameter("cursor", "query", TEXT, "The `next` of the previous page."),
    describe_parameter(
        *("rows", "query"),
        {"type": "integer", "minimum": 1, "maximum": MAX_PAGE_ROWS, "default": DEFAULT_PAGE_ROWS},
        "Rows per page.",
    ),
)
_REPORT = describe_parameter("name", "path", NAME, "The name of a report.", example="ads")

ANALYST_ROUTES: Mapping[str, Route] = {
    "ask": Route(
        path=ANSWERS,
        method="POST",
        right="ask",
        pool="ask",
        work=Calls.ask,
        summary="Answer a request",
        text="A noisy answer, charged to the caller's budget. The same request again gives the same answer and costs "
        "nothing.",
        body=describe_body("Request", examples.REQUESTS),
        parameters=[
            describe_parameter(
                *("Idempotency-Key", "header", IDEMPOTENCY_KEY),
                "Identifies this call. The same key with the same body gives the same answer at no further charge, "
                "also after a new data version. The same key with another body is refused.",
            )
        ],
        reply=Answer,
        reply_text="The answer with its receipt.",
        headers=_RECEIPT,
        has_rows=True,
        problems=[
            "not-acceptable",
            *("not-supported", "table-not-found", "invalid-argument", "budget-exhausted", "in-flight", "key-reused"),
            "engine-failed",
        ],
    ),
    "report": Route(
        path="/v1/reports",
        method="POST",
        right="report",
        pool="report",
        work=Calls.report,
        summary="Query a report",
        text="Counts of an entity over time, in total or by an attribute. A count is drawn once and then stays the "
        "same. Every range is made of the same few counts, so no number of requests adds to `guarantee`. Reports are "
        "free: `left` is the budget for other requests. An entity that is not the caller's looks like an unknown one.",
        body=describe_body("ReportRequest", examples.REPORT_REQUESTS),
        parameters=[
            describe_parameter(
                *("Idempotency-Key", "header", IDEMPOTENCY_KEY),
                "Accepted, and not needed: the same body gives the same counts, with or without this header, until "
                "more data is complete or the owner reseals the range. Only `repeat`, `left` and `resets` may differ. "
                "The same key with another body is another request.",
            )
        ],
        reply=Report,
        reply_text="The report with its receipt.",
        headers=_RECEIPT,
        has_rows=True,
        problems=["not-acceptable", "not-supported", "invalid-argument", "in-flight", "engine-failed"],
    ),
    "describe_report": Route(
        path="/v1/reports/{name}",
        right="report",
        work=lambda calls, call: calls.session.describe_report(call.part("name"), analyst=call.analyst),
        summary="Get a report's description",
        text="What the caller may ask of a report: its statistics, attributes, levels and options, which statistic "
        "follows from which, below what counts are not shown, and how far its data is complete.",
        parameters=[_REPORT],
        reply=ReportInfo,
        reply_text="The description.",
        problems=["engine-failed"],
    ),
    "entities": Route(
        path="/v1/reports/{name}/entities",
        right="report",
        work=lambda calls, call: calls.session.entities(
            *(call.part("name"), call.request.query_params.getlist("under")),
            analyst=call.analyst,
            find=call.query("find")["find"],
            **call.page(),
        ),
        summary="List the entities of a report",
        text="The entities that the caller may ask a report about: the children of one, or the caller's topmost. With "
        "`find`, all below it whose names begin so. An entity that is not the caller's looks like an unknown one.",
        parameters=[
            _REPORT,
            describe_parameter(
                *("under", "query", array(NAME)),
                "The path of an entity, from the top down; repeat the parameter for each level.",
                style="form",
                explode=True,
                example=["acme"],
            ),
            describe_parameter("find", "query", TEXT, "The beginning of a name, in any case.", example="spr"),
            *PAGE,
        ],
        reply=EntityPage,
        reply_text="One page.",
        problems=["invalid-argument", "engine-failed"],
    ),
    "estimate": Route(
        path="/v1/estimates",
        method="POST",
        right="estimate",
        pool="estimate",
        work=lambda calls, call: calls.session.estimate(read_object(call.body), analyst=call.analyst),
        summary="Estimate a request",
        text="The cost and accuracy of a request. Free, and independent of the data.",
        body=describe_body("Request", examples.REQUESTS),
        reply=Estimate,
        reply_text="The estimate.",
        problems=["not-supported", "table-not-found", "invalid-argument"],
    ),
    "recall": Route(
        path="/v1/answers/{digest}",
        right="recall",
        work=Calls.recall,
        summary="Get a stored answer",
        text="An answer that the caller got before, with the same bytes as the first time.",
        parameters=[
            describe_parameter("digest", "path", NAME, "The `digest` of a receipt.", example=examples.DIGEST),
            describe_parameter(
                *("If-None-Match", "header", TEXT),
                "ETags, or `*`. If the answer's ETag is among them, the reply is a 304.",
            ),
        ],
        reply=Answer,
        reply_text="The answer with its first receipt.",
        headers=_RECEIPT | _ETAG,
        more={304: {"description": "`If-None-Match` has its ETag.", "headers": HEADERS | _BUDGET | _ETAG}},
        problems=["not-acceptable"],
        has_rows=True,
    ),
    "budget": Route(
        path="/v1/budget",
        work=lambda calls, call: calls.session.budget(call.analyst),
        summary="Get the budget",
        text="The caller's own account, and the accounts shared with others.",
        reply=BudgetReport,
        reply_text="The accounts.",
    ),
    "charges": Route(
        path="/v1/budget/charges",
        work=lambda calls, call: calls.session.charges(call.analyst, **call.page()),
        summary="List charges",
        text="The caller's charges by page, the latest first.",
        parameters=PAGE,
        reply=Charges,
        reply_text="One page.",
        problems=["invalid-argument"],
    ),
    "questions": Route(
        path="/v1/questions",
        work=lambda calls, call: calls.session.questions(call.analyst, **call.page(), role=call.role),
        summary="List questions",
        text="What the caller asked, by page: first what is not answered yet, then what is, each with the latest "
        "first. Repeats are not in it, because they cost nothing.",
        parameters=PAGE,
        reply=Questions,
        reply_text="One page.",
        problems=["invalid-argument"],
    ),
    "tables": Route(
        path="/v1/tables",
        work=lambda calls, call: calls.session.tables(call.analyst, role=call.role),
        summary="List tables and reports",
        text="The tables that the caller may ask about, with their columns and measures, and the reports with their "
        "statistics and levels, as in the policy.",
        reply=Tables,
        reply_text="The tables and reports.",
    ),
    "me": Route(
        path="/v1/me",
        work=Calls.me,
        summary="Get the caller's record",
        text="The caller's role with its rights, organisation and budget, what the caller may ask about (tables, "
        "reports, entities and rows), and the key of this call.",
        reply=Me,
        reply_text="The record.",
    ),
    "guarantee": Route(
        path="/v1/guarantee",
        pool="estimate",
        work=lambda calls, call: calls.session.guarantee(call.analyst, role=call.role),
        summary="Get the caller's guarantee",
        text="What the caller's accounts and reports promise to one person, and to several together: for one question, "
        "one period and a year. `sources` adds up all results about the same rows. What others learn and what is "
        "published is not in it.",
        reply=Guarantee,
        reply_text="The guarantee.",
    ),
    "healthz": Route(
        path="/healthz",
        summary="Liveness",
        text="The process is up.",
        reply=Health,
        reply_text="It is up.",
    ),
    "readyz": Route(
        path="/readyz",
        summary="Readiness",
        text="The ledger can be written and agrees with its fence, and every table can be reached. Checked at most "
        "once per second; a check that hangs is not waited for.",
        reply=Readiness,
        reply_text="Ready.",
        more={
            503: {
                "description": "Not ready.",
                "headers": HEADERS | RETRY_AFTER,
                "content": {
                    "application/json": {"schema": ref("Readiness")},
                    "application/problem+json": {"schema": ref("Problem")},
                },
            }
        },
    ),
    "metrics": Route(
        path="/metrics",
        summary="Metrics",
        text="Counts and durations of requests, problems and answers, in the text format of Prometheus. Nothing of any "
        "request or answer.",
        reply=None,
        reply_text="The metrics.",
    ),
}
