"""How replies are written: records as JSON, problems (RFC 9457), budget headers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

from starlette.responses import Response

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed, RateLimited, SfumatoError
from sfumato.problems import find_problem_type, problem, problem_type
from sfumato.service.telemetry import CallRecord
from sfumato.wire import Record, to_json

JSON, PROBLEM_JSON = "application/json", "application/problem+json"
RETRY_CONFLICT_S, RETRY_FAILURE_S = 1, 5  # when a problem that passes by itself may have passed


class Health(Record, frozen=True):
    """The process is up."""

    status: Literal["ok"] = "ok"


class Readiness(Record, frozen=True):
    """The state of each part that an answer needs."""

    status: Literal["ready", "not ready"]
    checks: dict[str, Literal["ok", "not ok"]]


def json_reply(content: Record, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    return Response(to_json(content), status, headers, JSON)


def problem_reply(record: CallRecord, error: SfumatoError, *, name: str | None = None) -> Response:
    """An error as a problem of the type `name`, or of the error's own type. The record of the call notes the type."""
    kind = problem_type(error) if name is None else find_problem_type(name)
    record.problem = kind.name
    if isinstance(error, LedgerFailed):
        record.why = str(error)  # for the owner's log; the caller gets the words of the kind
    headers = {}
    if isinstance(error, RateLimited):
        headers = retry_after(error.wait_s)
    elif kind.status == 409:
        headers = retry_after(RETRY_CONFLICT_S)
    elif kind.status == 503:
        headers = retry_after(getattr(error, "retry_after_s", RETRY_FAILURE_S))
    elif kind.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(problem(error, kind).to_json(), kind.status, headers, PROBLEM_JSON)


def retry_after(seconds: int = RETRY_FAILURE_S) -> dict[str, str]:
    return {"retry-after": str(seconds)}


def budget_headers(left: Charge, resets: date | None) -> dict[str, str]:
    """What is left of the analyst's own budget, for clients that do not parse the body."""
    headers = {"sfumato-left-information": str(left.information), "sfumato-left-calls": str(left.calls)}
    return headers if resets is None else headers | {"sfumato-resets": resets.isoformat()}
