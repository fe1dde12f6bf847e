"""The calls of the HTTP interface. Each stands here once: its arguments, method, path, parameters, body and reader.

`Client` and `AsyncClient` have a method for each, with the same arguments and the same docstring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias, TypeVar, Unpack
from urllib.parse import quote
from uuid import uuid4

from sfumato.accounting import Charge
from sfumato.accounting.numbers import Number, whole
from sfumato.client.bodies import encode_body, report_body, request_body
from sfumato.client.exchange import Call
from sfumato.errors import InvalidArgument, NotFound
from sfumato.problems import find_problem_type
from sfumato.query.parameters import Params
from sfumato.query.reports.request import ReportKeywords, takes_report_keywords
from sfumato.query.request import RequestLike
from sfumato.wire import (
    Accounts,
    AccountStanding,
    Answer,
    BudgetReport,
    Charges,
    EntityPage,
    Estimate,
    Guarantee,
    Keys,
    KeyState,
    LedgerState,
    Me,
    NewKey,
    PolicyReport,
    Questions,
    ReleaseInfo,
    Releases,
    Report,
    ReportInfo,
    Tables,
    UsageReport,
    VerificationInfo,
)

Method = TypeVar("Method", bound=Callable[..., Any])
BudgetLike: TypeAlias = Charge | tuple[Number, Number] | str
KeyRole: TypeAlias = Literal["analyst", "reader", "auditor"]


def ask(request: RequestLike, *, params: Params | None = None) -> Call[Answer]:
    """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON.

    `params` are the values of `?` or `:name` in SQL.
    """
    return Call(
        "POST", "/v1/answers", Answer.from_dict, body=request_body(request, params), headers=_once(), spends=True
    )


@takes_report_keywords
def report(report: str | Mapping[str, Any] | None = None, **keywords: Unpack[ReportKeywords]) -> Call[Report]:
    """Numbers of an entity over time, which stay what they are. Free; the receipt carries the report's guarantee.

    The range is [start, end), as clocks show it in the report's zone. Or hand over the whole question as a dictionary.
    """
    # No idempotency key: a report costs nothing, and the same question gives the same numbers.
    return Call("POST", "/v1/reports", Report.from_dict, body=report_body(report, keywords))


def describe_report(report: str) -> Call[ReportInfo]:
    """What may be asked of a report, and how far its data is complete."""
    return Call("GET", f"/v1/reports/{_segment('report', report)}", ReportInfo.from_dict)


def entities(
    report: str,
    under: Sequence[str] = (),
    find: str | None = None,
    cursor: str | None = None,
    rows: int = 100,
) -> Call[EntityPage]:
    """The entities that a report may be asked about, level by level.

    `under` is the path of one, from the top down; without it, the topmost that may be seen. With `find`, all below it
    whose names begin with this text, in any case. `cursor` is the `next` of the page before.
    """
    if isinstance(under, str) or not all(isinstance(name, str) for name in under):
        raise InvalidArgument("under", "must be a path of names, such as ['acme', 'spring']")
    params = tuple(("under", name) for name in under) + _params({"find": find, **_page(cursor, rows)})
    return Call("GET", f"/v1/reports/{_segment('report', report)}/entities", EntityPage.from_dict, params=params)


def estimate(request: RequestLike, *, params: Params | None = None) -> Call[Estimate]:
    """What a request would cost and how accurate it would be. Free; no row is read."""
    return Call("POST", "/v1/estimates", Estimate.from_dict, body=request_body(request, params))


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
    return Call("GET", "/v1/budget/charges", Charges.from_dict, params=_params(_page(cursor, rows)))


def questions(cursor: str | None = None, rows: int = 100) -> Call[Questions]:
    """What was asked, what it cost, and whether its answer can still be recalled; the latest first.

    `cursor` is the `next` of the page before.
    """
    return Call("GET", "/v1/questions", Questions.from_dict, params=_params(_page(cursor, rows)))


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
) -> Call[UsageReport]:
    """For owners and auditors: spending by day, and who would run dry under `budgets` of (information, calls)."""
    days = {"since": _day("since", since), "until": _day("until", until)}
    pairs = tuple(("budget", _amounts(budget)) for budget in budgets)
    return Call("GET", "/v1/admin/usage", UsageReport.from_dict, params=_params(days) + pairs)


def all_questions(
    analyst: str | None = None,
    since: date | str | None = None,
    until: date | str | None = None,
    cursor: str | None = None,
    rows: int = 100,
) -> Call[Questions]:
    """For owners and auditors: what analysts asked from one day to another (UTC). Default: the latest 31 days."""
    which = {"analyst": analyst, "since": _day("since", since), "until": _day("until", until)}
    return Call("GET", "/v1/admin/questions", Questions.from_dict, params=_params(which | _page(cursor, rows)))


def accounts() -> Call[Accounts]:
    """For owners and auditors: every account, and the day on which it would run dry at this pace."""
    return Call("GET", "/v1/admin/accounts", Accounts.from_dict)


def policy() -> Call[PolicyReport]:
    """For owners and auditors: the policy in force, and what `sfumato policy check` says of it now."""
    return Call("GET", "/v1/admin/policy", PolicyReport.from_dict)


def ledger_state() -> Call[LedgerState]:
    """For owners and auditors: what the ledger is, how long its journal is, and what is open."""
    return Call("GET", "/v1/admin/ledger", LedgerState.from_dict)


def verify_ledger() -> Call[VerificationInfo]:
    """For owners: begin a check of the whole ledger; `ledger_state` says how far it is, and what it has found."""
    return Call("POST", "/v1/admin/ledger/verify", VerificationInfo.from_dict)


def releases(cursor: str | None = None, rows: int = 100) -> Call[Releases]:
    """For owners and auditors: the releases that the ledger has paid for, the latest first."""
    return Call("GET", "/v1/admin/releases", Releases.from_dict, params=_params(_page(cursor, rows)))


def release(digest: str) -> Call[ReleaseInfo]:
    """For owners and auditors: one of the releases, with its statement."""
    return Call("GET", f"/v1/admin/releases/{_segment('digest', digest)}", ReleaseInfo.from_dict)


def keys(analyst: str | None = None) -> Call[Keys]:
    """For owners and auditors: the API keys that were made (for one analyst), with who made and who revoked them."""
    return Call("GET", "/v1/admin/keys", Keys.from_dict, params=_params({"analyst": analyst}))


def create_key(analyst: str, role: KeyRole | None = None, expires: date | str | None = None) -> Call[NewKey]:
    """For owners: make an API key, which is in this record and nowhere else.

    It ends within 90 days, and is never an owner's. By default it has the role of the analyst in the file.
    """
    body = {"analyst": analyst, "role": role, "expires": _day("expires", expires)}
    given = {name: value for name, value in body.items() if value is not None}
    return Call("POST", "/v1/admin/keys", NewKey.from_dict, body=encode_body(given), headers=_once(), changes=True)


def revoke_key(id: str) -> Call[KeyState]:  # noqa: A002
    """For owners: end an API key at once and for good."""
    return Call("POST", f"/v1/admin/keys/{_segment('id', id)}/revoke", KeyState.from_dict)


def grant(account: str, amount: BudgetLike, reason: str) -> Call[AccountStanding]:
    """For owners: add (information, calls) to what an account may spend until it resets; the journal has the reason."""
    information, calls = _amounts(amount).split(",")
    body = {"account": account, "information": information, "calls": calls, "reason": reason}
    return Call(
        "POST", "/v1/admin/grants", AccountStanding.from_dict, body=encode_body(body), headers=_once(), changes=True
    )


def _once() -> dict[str, str]:
    """One idempotency key per call, the same on all its retries: the service does it once, and charges it once."""
    return {"Idempotency-Key": str(uuid4())}


def _segment(argument: str, name: str) -> str:
    """A name as one part of a path."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        raise InvalidArgument(argument, "must be a name")
    return quote(name, safe="")


def _page(cursor: str | None, rows: int) -> dict[str, str | None]:
    if not isinstance(cursor, str | None):
        raise InvalidArgument("cursor", "must be the `next` of the page before")
    return {"cursor": cursor, "rows": str(whole("rows", rows, at_least=1, at_most=10_000))}


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
