"""The pages of owners and auditors: their frame, questions of all, the ledger, and releases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from starlette.responses import JSONResponse, RedirectResponse, Response

from sfumato.errors import InvalidArgument, NotFound, SfumatoError
from sfumato.ledger import all_accounts
from sfumato.problems import problem
from sfumato.service.governing import actor_of
from sfumato.show.text import plural
from sfumato.web import words
from sfumato.web.answer_pages import SHA
from sfumato.web.frame import PageCall
from sfumato.web.rendering import HEADERS, download
from sfumato.wire import LedgerState, VerificationInfo
from sfumato.wire.budget import QuestionRow

QUESTION_ROWS, RELEASE_ROWS = 50, 50
MAX_LISTED = 200
"""A list to choose from is not longer than this: then the name is typed."""


def owner_page(call: PageCall, template: str, title: str, status: int = 200, **values: Any) -> Response:
    """A page for owners and auditors. It says so where a budget is tracked: then nothing is bounded."""
    tracked = sorted(each.name for each in all_accounts(call.session.config).values() if each.budget.mode == "track")
    return call.page(template, title, status, tracked=tracked, **values)


def asked(call: PageCall, *names: str) -> dict[str, str | None]:
    """Parameters of the address. One that is empty, as a form sends it, was not given."""
    return {name: (call.request.query_params.get(name) or "").strip() or None for name in names}


def listed_analysts(call: PageCall) -> list[str]:
    """The analysts to choose from; none where they are too many for a list."""
    names = sorted(call.session.config.analysts)
    return names if len(names) <= MAX_LISTED else []


def moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def describe_refusal(call: PageCall, error: SfumatoError) -> tuple[str, int]:
    """What was wrong, in words, and the status of the page that says so."""
    found = problem(error)
    call.record.problem = found.type.rpartition("/")[2]
    return (str(error), 400) if isinstance(error, NotFound) else (found.detail, found.status)


# -- questions of all --


def show_questions(call: PageCall) -> Response:
    """What analysts asked and what it cost them. Never an answer."""
    chosen = asked(call, "analyst", "since", "until")
    cursor, page, refused, status = call.request.query_params.get("cursor"), None, "", 200
    try:
        page = call.session.all_questions(**chosen, cursor=cursor, rows=QUESTION_ROWS)
    except InvalidArgument as error:
        refused, status = describe_refusal(call, error)
    return owner_page(
        call,
        "questions.html",
        "Questions of all",
        status,
        here="/questions",
        refused=refused,
        chosen=chosen,
        analysts=listed_analysts(call),
        rows=[_question_row(row) for row in page.rows] if page else [],
        next=page.next if page else None,
        first=cursor is None,
    )


def _question_row(row: QuestionRow) -> dict[str, Any]:
    return {
        "at": moment(row.at),
        "analyst": row.analyst,
        "words": words.describe_request(row.request, row.sql),
        "sql": row.sql or "",
        "price": words.price(row.charge),
        "outcome": row.outcome,
    }


# -- the ledger --


def show_ledger(call: PageCall) -> Response:
    state = call.session.ledger_state()
    return owner_page(
        call,
        "ledger.html",
        "Ledger",
        here="/ledger",
        state=state,
        oldest=moment(state.oldest),
        verification=_describe_verification(state, call.session.now()),
        can_govern=call.may("govern"),
    )


def verify_ledger(call: PageCall) -> Response:
    """Begin a check of the whole ledger; if one is running, it is that one."""
    call.session.verify_ledger(by=actor_of(call.caller))
    return RedirectResponse("/ledger", 303, HEADERS)


def show_progress(call: PageCall) -> Response:
    """How far the check of the ledger is, for the script."""
    job = call.session.ledger_state().verification
    return JSONResponse(None if job is None else job.to_dict(), headers=HEADERS)


def _describe_verification(state: LedgerState, now: datetime) -> dict[str, Any] | None:
    """The latest check: who began it and when, how far it is, and what it found."""
    job = state.verification
    if job is None:
        return None
    ended = moment(job.ended)
    return {
        "state": job.state,
        "at": moment(job.at),
        "by": job.by.analyst or job.by.user or "unknown",
        "done": job.done,
        "of": job.of,
        "ended": ended,
        "age": None if ended is None else age(ended, now),
        "newer": max(state.rows - job.of, 0),
        "problems": job.problems,
        "verdict": _verdict(job),
    }


def _verdict(job: VerificationInfo) -> str:
    if job.state == "running":
        return "running"
    if job.state == "lost":
        return "lost"
    return "wrong" if job.problems else "right"


def age(then: datetime, now: datetime) -> str:
    """How long ago a moment was.

    >>> age(datetime(2026, 11, 1), datetime(2026, 11, 3, 1))
    '2 days ago'
    """
    minutes = max(int((now - then).total_seconds()) // 60, 0)
    if minutes < 60:
        return f"{plural(minutes, 'minute')} ago" if minutes else "just now"
    hours = minutes // 60
    return f"{plural(hours, 'hour')} ago" if hours < 48 else f"{plural(hours // 24, 'day')} ago"


# -- releases --


def show_releases(call: PageCall) -> Response:
    cursor = call.request.query_params.get("cursor")
    page = call.session.releases(cursor=cursor, rows=RELEASE_ROWS)
    return owner_page(
        call,
        "releases.html",
        "Releases",
        here="/releases",
        rows=[_release_row(row) for row in page.rows],
        next=page.next,
        first=cursor is None,
    )


def show_release(call: PageCall) -> Response:
    release = call.session.release(f"{SHA}{call.request.path_params['digest']}")
    statement = release.statement
    return owner_page(
        call,
        "release.html",
        "Release",
        here="/releases",
        release=_release_row(release),
        neighbours=str(statement.get("neighbours", "")),
        parameters=_pairs(statement.get("parameters")),
        columns=[
            {name: str(each.get(name) or "") for name in ("name", "type", "role", "meaning")}
            for each in statement.get("columns", ())
        ],
        rules=[str(each) for each in statement.get("rules", ())],
    )


def save_statement(call: PageCall) -> Response:
    """The statement as JSON, as the ledger has it."""
    release = call.session.release(f"{SHA}{call.request.path_params['digest']}")
    text = json.dumps(release.statement, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return download(text, f"release-{release.digest.removeprefix(SHA)[:12]}.json", "application/json")


def _release_row(row: Any) -> dict[str, Any]:
    return {
        "digest": row.digest.removeprefix(SHA),
        "job": row.job or "",
        "at": moment(row.at) if row.at else None,
        "budget": row.budget,
        "method": row.method,
        "unit": row.unit,
        "guarantee": _pairs(row.guarantee),
        "charges": {account: words.price(charge) for account, charge in row.charges.items()},
    }


def _pairs(found: Any) -> list[tuple[str, str]]:
    """A part of a statement as names and texts."""
    if not isinstance(found, dict):
        return []
    return [
        (str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in found.items()
        if value is not None
    ]
