"""The OpenAPI document. Texts are those of the routes; schemas follow from the records and request classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from sfumato.errors import InvalidArgument, find_nearest
from sfumato.problems import find_problem_type
from sfumato.service import examples
from sfumato.service.admin_routes import ADMIN_ROUTES
from sfumato.service.media import ARROW, CSV
from sfumato.service.routes import ANALYST_ROUTES, HEADERS, RETRY_AFTER, Route, describe_header
from sfumato.service.schemas import TEXT, Json, ref, reply_schemas, request_schemas

DESCRIPTION = """\
Differentially private answers about people, under an exact budget.

Send `Authorization: Bearer <key>`. An answer is noisy: its receipt says how far off the counts may be, what the answer
cost and what is left. The same request again gives the same answer and costs nothing. A report gives counts of an
entity over time; it costs nothing, and its receipt carries the guarantee of the whole report. Problems follow RFC 9457;
the `type` of a problem is the path of a page that says what to do.
"""


ROUTES: Mapping[str, Route] = {**ANALYST_ROUTES, **ADMIN_ROUTES}

_ROWS: Json = {
    CSV: {"schema": {"type": "string", "description": "The rows, with both ends of each 95 % interval."}},
    ARROW: {"schema": {"type": "string", "format": "binary", "description": "The same as an Arrow IPC stream."}},
}
_STATUS_HEADERS: Mapping[int, Json] = {
    401: describe_header("WWW-Authenticate", {"const": "Bearer"}, "The authentication scheme."),
    405: describe_header("Allow", TEXT, "The methods of this path."),
    **dict.fromkeys((409, 429, 503), RETRY_AFTER),
}

# Every route can have these: a body that is too large or too slow can be sent to any.
_ANY_PROBLEMS = ("invalid-argument", "method-not-allowed", "too-large", "failed")
_KEY_PROBLEMS = ("misdirected", "unauthorized", "rate-limited", "ledger-busy", "ledger-failed", "not-found")


def options(name: str) -> Json:
    """The arguments of FastAPI's decorator of a route."""
    route = ROUTES[name]
    media = {"text/plain": {}} if route.reply is None else {"application/json": {"schema": ref(route.reply.__name__)}}
    media |= _ROWS if route.has_rows else {}
    ok = {"description": route.reply_text, "headers": HEADERS | route.headers, "content": media}
    problems = (*route.problems, *(_KEY_PROBLEMS if route.work else ()), *_ANY_PROBLEMS)
    extra: Json = {"security": [{"key": []}]} if route.work else {}
    extra |= {"parameters": [*route.parameters]} if route.parameters else {}
    extra |= {} if route.body is None else {"requestBody": route.body}
    return {
        "operation_id": name,
        "status_code": route.status,
        "summary": route.summary,
        "description": route.text,
        "responses": {route.status: ok, **_problem_replies(problems), **route.more},
        "response_model": None,
        "openapi_extra": extra,
        **({"response_class": PlainTextResponse} if route.reply is None else {}),
    }


def check_query(route: Route, given: Iterable[str]) -> None:
    """Refuse a query parameter that the route does not have."""
    known = [each["name"] for each in route.parameters if each["in"] == "query"]
    for parameter in given:
        if parameter not in known:
            near = find_nearest(parameter, known)
            there = "" if near else f"; there is {', '.join(known) or 'none'}"
            raise InvalidArgument(parameter[:60], f"is not a parameter of this path{there}", nearest=near)


def _problem_replies(names: Sequence[str]) -> dict[int, Json]:
    """The problems of a route by status. Types with the same status share one entry."""
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        by_status.setdefault(find_problem_type(name).status, []).append(name)
    return {
        status: {
            "description": " ".join(f"`{name}`: {find_problem_type(name).meaning}" for name in kinds),
            "headers": HEADERS | _STATUS_HEADERS.get(status, {}),
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
        route = ROUTES[operation["operationId"]]
        if route.reply is not None:
            # Added here because FastAPI drops null values from examples.
            content = operation["responses"][str(route.status)]["content"]["application/json"]
            content["example"] = examples.REPLIES[route.reply.__name__]
    components = document.setdefault("components", {})
    components["schemas"] = schemas()
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "A key from `sfumato keys create`, or a token."}
    }
    return document
