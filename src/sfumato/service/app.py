"""The HTTP service: routes over a session. What an answer is, `sfumato.answer` says; this is one of its doors.

    Wall -> route -> admit (who) -> rate -> read the body -> session -> reply
                └─ any refusal or failure -> problem

Routes are thin: each hands its call to `Calls`, in a thread, because the engine and the ledger wait.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from importlib import metadata
from typing import Any

from anyio import CapacityLimiter, move_on_after, to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from sfumato.accounting import Charge
from sfumato.errors import Failed, InvalidArgument, NotFound, RateLimited, SfumatoError
from sfumato.ledger import IdempotentCall
from sfumato.ledger.api_keys import START, ApiKeys
from sfumato.ledger.usage import overview, read_budget, read_range
from sfumato.problems import ProblemType, find_problem_type, problem, problem_type
from sfumato.service import openapi, pages
from sfumato.service.auth import Authenticator, Principal, Right, check
from sfumato.service.limits import Rates, read_key, read_object
from sfumato.service.middleware import Middleware, Pairs, Scope, header
from sfumato.service.pools import Pool
from sfumato.service.reply_cache import CachedReply, ReplyCache
from sfumato.service.sweeper import Sweeper
from sfumato.service.telemetry import METRICS_TYPE, CallRecord, Telemetry
from sfumato.session import Session

PROBLEM = "application/problem+json"
_LOG = logging.getLogger("sfumato.service")
JSON = "application/json"
ASK, REPORT = "/v1/answers", "/v1/reports"
AGAIN_S = "1"  # Retry-After of what will pass by itself
READY_S = 2.0  # how long a look at the parts is good for
LOOK_S = 3.0  # and how long it may take
MAX_ROWS = 1000

# Threads, and how many of them one analyst may have at a time: for questions, reports, what is only reckoned, the rest.
ENTERING, ASKING, REPORTING, PRICING, LOOKING = 8, (40, 10), (16, 3), (4, 2), (16, 4)

REPORT_SHAPE = '{"statistics": ["clicks"], "start": "2026-10-01", "end": "2026-11-01"}'

# FastAPI's own traces and logs hold paths, queries and the words of exceptions. `sfumato.service.telemetry` has ours.
_OFF: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: always a whole body."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CallHeaders:
    """What a call says of itself in its headers, and where its traces go."""

    authorization: str | None
    seen: CallRecord

    @classmethod
    def of(cls, request: Request) -> CallHeaders:
        return cls(request.headers.get("authorization"), request.scope["sfumato.seen"])


@dataclass(frozen=True, slots=True)
class Admitted:
    """Somebody who may call, and the stamp of the ledger before that was known."""

    person: Principal
    since: Hashable | None
    authorization: str


class Calls:
    """What each route does, without HTTP around it."""

    def __init__(self, session: Session, door: Authenticator, telemetry: Telemetry) -> None:
        self._session, self._door, self._telemetry = session, door, telemetry
        self._rates = Rates(session.config.service.rate_per_minute)
        self._replies = ReplyCache(session.ledger, session.now)
        self._looking = threading.Lock()
        self._looked: tuple[float, Reply] = (-READY_S, Reply(b""))

    def enter(self, caller: CallHeaders, right: Right) -> Admitted:
        """Let somebody in who may do this. The stamp comes first: what happens to the key from now on changes it."""
        since = self._replies.stamp()
        person = self._door.admit(caller.authorization)
        caller.seen.analyst = person.analyst
        self._rates.take(person.analyst)
        check(person, right)
        return Admitted(person, since, caller.authorization or "")

    def ask(self, entered: Admitted, body: bytes, key: str | None) -> Reply:
        person = entered.person
        question, once = read_object(body), read_key(key)
        call = None if once is None else IdempotentCall.of(once, body)
        answer = self._session.ask(question, analyst=person.analyst, call=call)
        self._telemetry.answered(repeat=answer.receipt.repeat)
        reply = _reply(answer.to_dict(), _budget_headers(answer.receipt.left, answer.receipt.resets))
        sent = [("content-type", JSON), *reply.headers.items()]
        pairs = tuple((name.encode(), value.encode()) for name, value in sent)
        known = CachedReply(person.analyst, pairs, reply.body)
        self._replies.keep((entered.authorization, body, key), entered.since, known, person.until)
        return reply

    def report(self, entered: Admitted, body: bytes, key: str | None) -> Reply:
        """The numbers of a report. Whoever sends the same again gets the same, so that a key has nothing to add."""
        question = read_object(body, REPORT_SHAPE)
        read_key(key)
        report = self._session.report(question, analyst=entered.person.analyst)
        self._telemetry.reported(repeat=report.receipt.repeat)
        return _reply(report.to_dict(), _budget_headers(report.receipt.left, report.receipt.resets))

    def known(self, scope: Scope, body: bytes, seen: CallRecord) -> tuple[Pairs, bytes] | None:
        """The reply to a question that was asked just so before, if nothing has happened since."""
        if scope["path"] != ASK or scope["method"] != "POST":
            return None
        call = header(scope, b"authorization") or "", body, header(scope, b"idempotency-key")
        found = self._replies.get(call)
        if found is None or not self._rates.spare(found.analyst):
            return None
        seen.route, seen.analyst = ASK, found.analyst
        self._telemetry.answered(repeat=True)
        return found.headers, found.body

    def estimate(self, entered: Admitted, body: bytes) -> Reply:
        return _reply(self._session.estimate(read_object(body), analyst=entered.person.analyst).to_dict())

    def recall(self, entered: Admitted, digest: str, known: str) -> Reply:
        analyst = entered.person.analyst
        answer = self._session.recall(digest, analyst=analyst)
        standing = self._session.budget(analyst).accounts[0]
        headers = _budget_headers(standing.left, standing.resets)
        headers |= {"etag": f'"{digest}"', "cache-control": "private, no-cache"}
        if _matches(known, f'"{digest}"'):
            return Reply(b"", 304, headers)
        return _reply(answer.to_dict(), headers)

    def budget(self, entered: Admitted) -> Reply:
        return _reply(self._session.budget(entered.person.analyst).to_dict())

    def charges(self, entered: Admitted, cursor: str | None, rows: str | None) -> Reply:
        page = self._session.charges(entered.person.analyst, cursor=cursor, rows=_rows(rows))
        return _reply(page.to_dict())

    def tables(self, _: Admitted) -> Reply:
        return _reply(self._session.tables().to_dict())

    def usage(self, _: Admitted, since: str | None, until: str | None, budgets: Sequence[str]) -> Reply:
        first, last = read_range(since, until, self._session.now())
        wanted = [read_budget(text) for text in budgets]
        return _reply(overview(self._session.ledger, self._session.config, first, last, budgets=wanted).to_dict())

    def ready(self) -> Reply:
        """Whether everything that an answer needs is there. Looked at anew every few seconds, whoever asks."""
        with self._looking:
            at, reply = self._looked
            if time.monotonic() - at >= READY_S:
                checks = self._session.check()
                fine = all(words == "ok" for words in checks.values())
                status = {"status": "ready" if fine else "not ready", "checks": checks}
                reply = _reply(status) if fine else Reply(_bytes(status), 503)
                self._looked = time.monotonic(), reply
            return reply


def create_app(session: Session) -> Middleware:
    """The service over an open session, as an ASGI application. It closes the session when it ends."""
    telemetry = Telemetry()
    door = Authenticator(session.config, ApiKeys(session.ledger), session.now)
    calls = Calls(session, door, telemetry)
    sweeper = Sweeper(session)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper.start()
        _LOG.info("serving", extra={"fields": {"process": os.getpid()}})
        try:
            yield
        finally:
            sweeper.stop()
            await to_thread.run_sync(session.close)
            await to_thread.run_sync(telemetry.flush)

    app = FastAPI(
        title="Sfumato",
        version=metadata.version("sfumato"),
        description=openapi.DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        telemetry=_OFF,
    )
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(Exception, _unexpected)
    _routes(app, calls)
    _open_routes(app, calls, telemetry)
    pages.add(app)
    return Middleware(app, session.config.service, telemetry, calls.known)


def _routes(app: FastAPI, calls: Calls) -> None:
    """What needs a key."""
    # Those who come with a token may have to wait for the keys of its issuer; those with a key must not wait for them.
    entering = CapacityLimiter(ENTERING), CapacityLimiter(ENTERING)
    asking, reporting, pricing, looking = Pool(*ASKING), Pool(*REPORTING), Pool(*PRICING), Pool(*LOOKING)

    async def served(request: Request, right: Right, pool: Pool, work: Callable[[Admitted], Reply]) -> Response:
        caller = CallHeaders.of(request)
        try:
            entered = await to_thread.run_sync(calls.enter, caller, right, limiter=_door(caller, entering))
            reply = await pool.run(entered.person.analyst, partial(work, entered))
        except SfumatoError as error:
            reply = _problem(problem_type(error), error)
        caller.seen.problem = reply.problem
        return _response(reply)

    @app.post(ASK, **openapi.ROUTES["ask"])
    async def ask(request: Request) -> Response:
        body, key = await request.body(), request.headers.get("idempotency-key")
        return await served(request, "ask", asking, lambda who: calls.ask(who, body, key))

    @app.post(REPORT, **openapi.ROUTES["report"])
    async def report(request: Request) -> Response:
        body, key = await request.body(), request.headers.get("idempotency-key")
        return await served(request, "report", reporting, lambda who: calls.report(who, body, key))

    @app.post("/v1/estimates", **openapi.ROUTES["estimate"])
    async def estimate(request: Request) -> Response:
        body = await request.body()
        return await served(request, "estimate", pricing, lambda who: calls.estimate(who, body))

    @app.get("/v1/answers/{digest}", **openapi.ROUTES["recall"])
    async def recall(request: Request) -> Response:
        digest, known = request.path_params["digest"], ",".join(request.headers.getlist("if-none-match"))
        return await served(request, "look", looking, lambda who: calls.recall(who, digest, known))

    @app.get("/v1/budget", **openapi.ROUTES["budget"])
    async def budget(request: Request) -> Response:
        return await served(request, "look", looking, calls.budget)

    @app.get("/v1/budget/charges", **openapi.ROUTES["charges"])
    async def charges(request: Request) -> Response:
        cursor, rows = (request.query_params.get(name) for name in ("cursor", "rows"))
        return await served(request, "look", looking, lambda who: calls.charges(who, cursor, rows))

    @app.get("/v1/tables", **openapi.ROUTES["tables"])
    async def tables(request: Request) -> Response:
        return await served(request, "look", looking, calls.tables)

    @app.get("/v1/admin/usage", **openapi.ROUTES["usage"])
    async def usage(request: Request) -> Response:
        query = request.query_params
        wanted = query.get("since"), query.get("until"), query.getlist("budget")
        return await served(request, "usage", pricing, lambda who: calls.usage(who, *wanted))


def _open_routes(app: FastAPI, calls: Calls, telemetry: Telemetry) -> None:
    """What operators and balancers look at."""
    readiness = CapacityLimiter(1)

    @app.get("/healthz", **openapi.ROUTES["healthz"])
    async def healthz() -> Response:
        return _response(_reply({"status": "ok"}))

    @app.get("/readyz", **openapi.ROUTES["readyz"])
    async def readyz() -> Response:
        with move_on_after(LOOK_S):
            return _response(await to_thread.run_sync(calls.ready, limiter=readiness, abandon_on_cancel=True))
        late = {"status": "not ready", "checks": {"ledger": "not ok", "engines": "not ok"}}
        return _response(Reply(_bytes(late), 503))

    @app.get("/metrics", **openapi.ROUTES["metrics"])
    async def metrics() -> Response:
        return Response(telemetry.metrics(), media_type=METRICS_TYPE)


def _door(caller: CallHeaders, doors: tuple[CapacityLimiter, CapacityLimiter]) -> CapacityLimiter:
    with_key, with_token = doors
    return with_key if START in (caller.authorization or "")[:20] else with_token


def _problem(kind: ProblemType, error: SfumatoError) -> Reply:
    headers = {}
    if isinstance(error, RateLimited):
        headers["retry-after"] = str(error.wait_s)
    elif kind.status in (409, 503):
        headers["retry-after"] = AGAIN_S
    elif kind.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Reply(_bytes(problem(error, kind)), kind.status, headers, PROBLEM, kind.name)


async def _http_problem(request: Request, error: Exception) -> Response:
    """What no route takes: another path looks as one that is not the caller's, another method is told as such."""
    status = getattr(error, "status_code", 404)
    if status == 405:
        told = InvalidArgument("method", "is not one of this path; see Allow")
        reply = _problem(find_problem_type("method-not-allowed"), told)
        response = _response(reply)
        response.headers.update(getattr(error, "headers", None) or {})
    else:
        error = NotFound("") if status == 404 else Failed("")
        reply = _problem(problem_type(error), error)
        response = _response(reply)
    request.scope["sfumato.seen"].problem = reply.problem
    return response


async def _unexpected(request: Request, _: Exception) -> Response:
    """What should not happen. The wall writes down where it did; the caller learns nothing of it."""
    request.scope["sfumato.seen"].problem = "failed"
    return _response(_problem(find_problem_type("failed"), Failed("")))


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, dict(reply.headers), reply.media if reply.body else None)


def _reply(serial: dict[str, Any], headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(_bytes(serial), headers=headers or {})


def _bytes(serial: dict[str, Any]) -> bytes:
    return json.dumps(serial, separators=(",", ":")).encode()


def _budget_headers(left: Charge, resets: date | None) -> dict[str, str]:
    amounts = left.to_dict()
    headers = {"sfumato-left-information": amounts["information"], "sfumato-left-calls": amounts["calls"]}
    return headers if resets is None else headers | {"sfumato-resets": resets.isoformat()}


def _matches(known: str, tag: str) -> bool:
    """Whether an `If-None-Match` holds a tag, weak or strong (RFC 9110, 13.1.2), or any."""
    tags = [each.strip() for each in known.split(",")]
    return tags == ["*"] or tag in (each.removeprefix("W/") for each in tags)


def _rows(text: str | None) -> int:
    if text is None:
        return 100
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= MAX_ROWS):
        raise InvalidArgument("rows", f"must be a whole number from 1 to {MAX_ROWS}")
    return int(text)
