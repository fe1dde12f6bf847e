"""A question to a report: its keywords in Python, which are its fields in JSON.

    {"report": "ads", "statistics": ["impressions", "clicks"], "entity": {"campaign": "7"}, "attribute": "job_title",
     "start": "2026-10-01", "end": "2026-11-01", "granularity": "day", "top": 10, "options": ["actions"]}

The range is [start, end), in the report's zone. `granularity` is "all", one number for the whole range, or a level of
time. `attribute`, `granularity`, `top` and `options` may be left out; `report` too, where there is only one.

`Session.report`, `Client.report`, `AsyncClient.report` and the HTTP interface take them from here. A new one is a line
in `ReportKeywords` and its reader in `sfumato.query.reports.read`. The client needs this module, so it imports no
policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from inspect import Parameter
from typing import Any, TypedDict, TypeVar

from sfumato.errors import NotSupported, find_nearest

Method = TypeVar("Method", bound=Callable[..., Any])


class ReportKeywords(TypedDict, total=False):
    """What may be asked of a report. None is the same as leaving it out."""

    statistics: str | Sequence[str] | None
    entity: Mapping[str, str] | None
    attribute: str | None
    start: str | date | None
    end: str | date | None
    granularity: str | None
    top: int | None
    options: Sequence[str] | None


KEYWORDS = (*ReportKeywords.__annotations__,)
FIELDS = ("report", *KEYWORDS)


def report_question(report: str | Mapping[str, Any] | None, keywords: ReportKeywords) -> Mapping[str, Any]:
    """The question as one object: `report` itself where it is the whole of it, or a report's name and `keywords`."""
    for name in keywords:
        if name not in KEYWORDS:
            near = find_nearest(name, KEYWORDS)
            hint = f"; did you mean {near}?" if near else ""
            raise TypeError(f"report() got an unexpected keyword argument {name!r}{hint}")
    given = {name: value for name, value in keywords.items() if value is not None}
    if not isinstance(report, Mapping):
        return {"report": report, **given}
    for name in given:
        raise NotSupported("stands beside a whole question; put it inside", field=name)
    return report


def takes_report_keywords(method: Method) -> Method:
    """Show the keywords in the signature of a method that takes `**keywords: Unpack[ReportKeywords]`."""
    signature = inspect.signature(method)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    new = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint.__forward_arg__)
        for name, hint in ReportKeywords.__annotations__.items()
    ]
    method.__signature__ = signature.replace(parameters=[*own, *new])  # type: ignore[attr-defined]
    return method
