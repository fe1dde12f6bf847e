"""The pages of tables, history and the budget. In a worker thread: the session blocks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import RedirectResponse, Response

from sfumato.service.media import CSV
from sfumato.web import words
from sfumato.web.answer_pages import SHA
from sfumato.web.burning import draw_burning
from sfumato.web.frame import PageCall
from sfumato.web.rendering import HEADERS, download
from sfumato.wire.csv_text import write_csv

HISTORY_ROWS, MAX_SEARCHED, CHARGES = 50, 1000, 50


def show_start(call: PageCall) -> Response:
    is_reader = call.may("report") and not call.may("estimate")
    return RedirectResponse("/reports" if is_reader else "/tables", 303, HEADERS)


def show_tables(call: PageCall) -> Response:
    tables = call.session.tables(call.analyst, role=call.caller.principal.role)
    return call.page(
        "tables.html",
        "Tables",
        here="/tables",
        tables=tables.rows,
        reports=tables.reports,
        can_ask=call.may("ask"),
        can_report=call.may("report"),
    )


def show_history(call: PageCall) -> Response:
    """The analyst's own questions, the latest first. What is searched for is sent in a form, never in an address."""
    find, table = call.first("find").strip(), call.first("table") or call.request.query_params.get("table", "")
    cursor = call.request.query_params.get("cursor")
    role = call.caller.principal.role
    is_searched = bool(find or table)
    rows = MAX_SEARCHED if is_searched else HISTORY_ROWS
    page = call.session.questions(call.analyst, cursor=cursor, rows=rows, role=role)
    listed = [_history_row(row, call.may("ask")) for row in page.rows]
    listed = [
        row
        for row in listed
        if (not table or row["table"] == table) and (find.casefold() in f"{row['words']} {row['sql']}".casefold())
    ]
    tables = [each.table for each in call.session.tables(call.analyst, role=role).rows]
    return call.page(
        "history.html",
        "History",
        here="/history",
        rows=listed,
        next=page.next,
        find=find,
        table=table,
        tables=tables,
        can_ask=call.may("ask"),
        first=cursor is None,
        is_searched=is_searched,
    )


def _history_row(row: Any, can_ask: bool) -> dict[str, Any]:
    request = row.request or {}
    return {
        "at": datetime.fromisoformat(row.at),
        "words": words.describe_request(row.request, row.sql),
        "sql": row.sql or "",
        "table": str(request.get("table", "")),
        "price": words.price(row.charge),
        "state": row.state,
        "outcome": row.outcome,
        "digest": row.digest.removeprefix(SHA),
        "recallable": row.recallable,
        "can_ask_again": can_ask and bool(row.sql),
    }


def save_history(call: PageCall) -> Response:
    """The latest questions as CSV. A cell that a spreadsheet would run begins with an apostrophe."""
    page = call.session.questions(call.analyst, rows=MAX_SEARCHED, role=call.caller.principal.role)
    names = ("at", "state", "units", "calls", "sql", "digest")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for row in page.rows:
        values = (row.at, row.state, str(row.charge.information), str(row.charge.calls), row.sql or "", row.digest)
        for name, value in zip(names, values, strict=True):
            columns[name].append(value)
    return download(write_csv(dict.fromkeys(names, "text"), columns), "questions.csv", CSV)


def show_budget(call: PageCall) -> Response:
    now = call.session.now()
    budget = call.session.budget(call.analyst, now=now)
    cursor = call.request.query_params.get("cursor")
    page = call.session.charges(call.analyst, cursor=cursor, rows=CHARGES)
    burning = draw_burning(call.session, call.analyst, budget, now)
    return call.page(
        "budget.html",
        "Budget",
        here="/budget",
        budget=budget,
        accounts=[_account(account) for account in budget.accounts],
        burning=burning,
        charges=[
            {
                "at": datetime.fromisoformat(row.at),
                "state": row.state,
                "price": words.price(row.charge),
                "account": row.account,
                "sql": row.sql or "",
                "reason": row.reason or "",
            }
            for row in page.rows
        ],
        next=page.next,
        first=cursor is None,
        resets=None if budget.resets is None else words.days_until(budget.resets, now),
    )


def _account(account: Any) -> dict[str, Any]:
    whole = account.limit + account.granted
    meters = [
        words.Meter("units", account.left.information, whole.information),
        words.Meter("calls", account.left.calls, whole.calls),
    ]
    amounts = {name: words.price(getattr(account, name)) for name in ("limit", "granted", "spent", "reserved")}
    return {"name": account.account, "meters": meters, "resets": account.resets, **amounts}
