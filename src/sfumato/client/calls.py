"""The calls of the HTTP interface. Each stands here once: its arguments, method, path, parameters, body and reader.

`Client` and `AsyncClient` have a method for each, with the same arguments and the same docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from inspect import Parameter, signature
from typing import Any, TypeAlias, TypeVar, Unpack
from uuid import uuid4

from sfumato.accounting import Charge
from sfumato.accounting.numbers import Number, whole
from sfumato.client.bodies import report_body, request_body
from sfumato.client.exchange import Call
from sfumato.errors import InvalidArgument, NotFound
from sfumato.problems import find_problem_type
from sfumato.query.reports.request import ReportKeywords, takes_report_keywords
from sfumato.query.request import RequestLike
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Guarantee, Me, Report, Tables

Method = TypeVar("Method", bound=Callable[..., Any])
BudgetLike: TypeAlias = Charge | tuple[Number, Number] | str


def ask(request: RequestLike) -> Call[Answer]:
    """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON."""
    # One idempotency key per call, the same on all its retries: the service answers, and charges, once.
    headers = {"Idempotency-Key": str(uuid4())}
    return Call("POST", "/v1/answers", Answer.from_dict, body=request_body(request), headers=headers, spends=True)


@takes_report_keywords
def report(report: str | Mapping[str, Any] | None = None, **keywords: Unpack[ReportKeywords]) -> Call[Report]:
    """Numbers of an entity over time, which stay what they are. Free; the receipt carries the report's guarantee.

    The range is [start, end), as clocks show it in the report's zone. Or hand over the whole question as a dictionary.
    """
    # No idempotency key: a report costs nothing, and the same question gives the same numbers.
    return Call("POST", "/v1/reports", Report.from_dict, body=report_body(report, keywords))


def estimate(request: RequestLike) -> Call[Estimate]:
    """What a request would cost and how accurate it would be. Free; no row is read."""
    return Call("POST", "/v1/estimates", Estimate.from_dict, body=request_body(request))


def recall(digest: str) -> Call[Answer]:
    """An answer that was given before, by the `digest` on its receipt. Free; it is the very same one."""
    if not isinstance(digest, str) or not re.fullmatch(r"[A-Za-z0-9:_-]{1,200}", digest):
        raise NotFound(find_problem_type("not-found").detail)
    return Call("GET", f"/v1/answers/{digest}", Answer.from_dict)


def budget() -> Call[BudgetReport]:
    """What may still be spent: the analyst's own account, the organisation's, and those of capped tables."""
    return Call("GET", "/v1/budget", BudgetReport.from_dict)


def charges(cursor: str | None = None, rows: int = 100) -> Call[Charges]:
    """What requests have cost, the latest first. `cursor` is the `next` of the page before."""
    if not isinstance(cursor, str | None):
        raise InvalidArgument("cursor", "must be the `next` of the page before")
    page = {"cursor": cursor, "rows": str(whole("rows", rows, at_least=1, at_most=10_000))}
    return Call("GET", "/v1/budget/charges", Charges.from_dict, params=_params(page))


def tables() -> Call[Tables]:
    """What may be asked about."""
    return Call("GET", "/v1/tables", Tables.from_dict)


def me() -> Call[Me]:
    """The caller's own record: role, budget, and what the caller may ask about."""
    return Call("GET", "/v1/me", Me.from_dict)


def guarantee() -> Call[Guarantee]:
    """What the caller's accounts and reports promise to one person."""
    return Call("GET", "/v1/guarantee", Guarantee.from_dict)


def total_guarantee() -> Call[Guarantee]:
    """For owners and auditors: what all accounts, releases and reports promise, with one total per source."""
    return Call("GET", "/v1/admin/guarantee", Guarantee.from_dict)


def usage(
    since: date | str | None = None,
    until: date | str | None = None,
    budgets: Iterable[BudgetLike] = (),
) -> Call[dict[str, Any]]:
    """For owners and auditors: spending by day, and who would run dry under `budgets` of (information, calls)."""
    days = {"since": _day("since", since), "until": _day("until", until)}
    pairs = tuple(("budget", _amounts(budget)) for budget in budgets)
    return Call("GET", "/v1/admin/usage", dict[str, Any], params=_params(days) + pairs)


def _params(values: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in values.items() if value is not None)


def _day(name: str, day: date | str | None) -> str | None:
    if day is None or isinstance(day, str):
        return day
    if not isinstance(day, date):
        raise InvalidArgument(name, "must be a date, such as 2026-11-15")
    return date(day.year, day.month, day.day).isoformat()


def _amounts(budget: BudgetLike) -> str:
    """A budget as the service reads it: information,calls."""
    if isinstance(budget, str):
        return budget
    try:
        charge = budget if isinstance(budget, Charge) else Charge(*budget)
    except TypeError:
        raise InvalidArgument("budgets", "each is a pair of information and calls, such as (3000, 30)") from None
    return f"{charge.information},{charge.calls}"


def describe(method: Method, call: Callable[..., Call[Any]]) -> Method:
    """Give a client's method the name, the docstring and the signature of its call, for `help()` and notebooks."""
    own = signature(call)
    parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *own.parameters.values()]
    record = str(own.return_annotation).removeprefix("Call[").removesuffix("]")
    method.__name__, method.__doc__ = call.__name__, call.__doc__
    method.__signature__ = own.replace(parameters=parameters, return_annotation=record)  # type: ignore[attr-defined]
    return method
