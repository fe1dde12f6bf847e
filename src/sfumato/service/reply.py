"""How replies are written: JSON bodies, problems (RFC 9457), budget headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

from starlette.responses import Response

from sfumato.accounting import Charge
from sfumato.errors import RateLimited, SfumatoError
from sfumato.problems import named, problem, problem_type
from sfumato.service.telemetry import CallRecord

JSON, PROBLEM_JSON = "application/json", "application/problem+json"
RETRY_AFTER_S = 1  # for problems that pass by themselves


def json_reply(content: dict[str, Any], headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    return Response(encode(content), status, headers, JSON)


def problem_reply(record: CallRecord, error: SfumatoError, *, name: str | None = None) -> Response:
    """An error as a problem of the type `name`, or of the error's own type. The record notes the type."""
    kind = problem_type(error) if name is None else named(name)
    record.problem = kind.name
    headers = {}
    if isinstance(error, RateLimited):
        headers["retry-after"] = str(error.wait_s)
    elif kind.status in (409, 503):
        headers["retry-after"] = str(RETRY_AFTER_S)
    elif kind.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(encode(problem(error, kind)), kind.status, headers, PROBLEM_JSON)


def encode(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def budget_headers(left: Charge, resets: date | None) -> dict[str, str]:
    """What is left of the analyst's own budget, for clients that do not parse the body."""
    amounts = left.to_dict()
    headers = {"sfumato-left-information": amounts["information"], "sfumato-left-calls": amounts["calls"]}
    return headers if resets is None else headers | {"sfumato-resets": resets.isoformat()}
