"""The ASGI application: routes over a session.

    Middleware -> route -> authenticate -> rate, right -> read the body -> queue -> session -> reply
                    └─ any refusal or failure -> problem

Each route calls one method of `Calls` in a worker thread, because the engine and the ledger block.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import metadata
from typing import Any, TypeAlias

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from sfumato.config import Right
from sfumato.errors import Failed, InvalidArgument, NotFound, SfumatoError
from sfumato.ledger.api_keys import START
from sfumato.service import openapi, pools
from sfumato.service.bodies import BODY, BodyTooLarge, Disconnected
from sfumato.service.calls import ANSWERS, Authenticated, Calls, readiness_reply
from sfumato.service.middleware import RECORD, Middleware
from sfumato.service.pages import add_pages
from sfumato.service.pools import Pool
from sfumato.service.readiness import Probe
from sfumato.service.reply import Health, json_reply, problem_reply
from sfumato.service.sweeper import Sweeper
from sfumato.service.telemetry import METRICS_TYPE, Telemetry
from sfumato.session import PARTS, Session

Work: TypeAlias = Callable[[Authenticated], Response]

MAX_UNAUTHENTICATED = 1000  # calls that wait to be authenticated: each holds a connection and a network buffer
CLOSED_REQUEST = 499  # the caller is gone; for the log, as nginx writes it

_LOG = logging.getLogger("sfumato.service")

# FastAPI's own traces and logs contain paths, queries and messages of exceptions. `sfumato.service.telemetry` has ours.
_NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def create_app(session: Session) -> Middleware:
    """The service over an open session. It closes the session when it shuts down."""
    telemetry = Telemetry()
    calls = Calls(session, telemetry)
    sweeper = Sweeper(session)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper.start()
        _LOG.info("started", extra={"fields": {"process": os.getpid()}})
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
        telemetry=_NO_TELEMETRY,
    )
    app.add_exception_handler(HTTPException, _reply_to_error)
    app.add_exception_handler(Exception, _reply_to_error)
    add_api_routes(app, calls)
    add_probe_routes(app, calls, telemetry)
    add_pages(app)
    return Middleware(app, session.config, telemetry, calls.find_cached)


def add_api_routes(app: FastAPI, calls: Calls) -> None:
    """The routes that need a key or a token."""
    activity = pools.Activity()
    kinds = pools.ASK, pools.REPORT, pools.ESTIMATE, pools.READ
    asking, reporting, estimating, reading = (Pool(*sizes, activity) for sizes in kinds)
    respond = _create_responder(calls, activity)

    @app.post(ANSWERS, **openapi.options("ask"))
    async def ask(request: Request) -> Response:
        key = request.headers.get("idempotency-key")
        return await respond(request, "ask", asking, lambda caller: calls.ask(caller, key))

    @app.post("/v1/reports", **openapi.options("report"))
    async def report(request: Request) -> Response:
        key = request.headers.get("idempotency-key")
        return await respond(request, "report", reporting, lambda caller: calls.report(caller, key))

    @app.post("/v1/estimates", **openapi.options("estimate"))
    async def estimate(request: Request) -> Response:
        return await respond(request, "estimate", estimating, calls.estimate)

    @app.get("/v1/answers/{digest}", **openapi.options("recall"))
    async def recall(request: Request) -> Response:
        digest, tags = request.path_params["digest"], ",".join(request.headers.getlist("if-none-match"))
        return await respond(request, "recall", reading, lambda caller: calls.recall(caller, digest, tags))

    @app.get("/v1/me", **openapi.options("me"))
    async def me(request: Request) -> Response:
        return await respond(request, "read", reading, calls.me)

    @app.get("/v1/budget", **openapi.options("budget"))
    async def budget(request: Request) -> Response:
        return await respond(request, "read", reading, calls.budget)

    @app.get("/v1/budget/charges", **openapi.options("charges"))
    async def charges(request: Request) -> Response:
        cursor, rows = (request.query_params.get(name) for name in ("cursor", "rows"))
        return await respond(request, "read", reading, lambda caller: calls.charges(caller, cursor, rows))

    @app.get("/v1/tables", **openapi.options("tables"))
    async def tables(request: Request) -> Response:
        return await respond(request, "read", reading, calls.tables)

    @app.get("/v1/guarantee", **openapi.options("guarantee"))
    async def guarantee(request: Request) -> Response:
        return await respond(request, "read", estimating, calls.guarantee)

    @app.get("/v1/admin/guarantee", **openapi.options("total_guarantee"))
    async def total_guarantee(request: Request) -> Response:
        return await respond(request, "usage", estimating, calls.total_guarantee)

    @app.get("/v1/admin/usage", **openapi.options("usage"))
    async def usage(request: Request) -> Response:
        query = request.query_params
        arguments = query.get("since"), query.get("until"), query.getlist("budget")
        return await respond(request, "usage", estimating, lambda caller: calls.usage(caller, *arguments))


def _create_responder(
    calls: Calls, activity: pools.Activity
) -> Callable[[Request, Right, Pool, Work], Awaitable[Response]]:
    """What the routes with a key have in common: the key, the rate and the right, the body, and then the work."""
    # A token may wait for the keys of its provider; calls with an API key must not wait behind it.
    # With a key, a turn that does not come means a stuck ledger.
    with_token = Pool(*pools.AUTHENTICATE, activity, max_queued=MAX_UNAUTHENTICATED, is_short=True)
    with_key = Pool(
        *pools.AUTHENTICATE,
        activity,
        max_queued=MAX_UNAUTHENTICATED,
        max_wait_s=pools.MAX_WAIT_S,
        is_short=True,
    )

    async def authenticate(authorization: str | None) -> Authenticated:
        known = calls.recognise(authorization)
        if known is not None:
            return known
        if authorization is None:
            return calls.authenticate(None)  # raises, and waits for nothing
        pool = with_key if START in authorization[:20] else with_token
        # All callers that were never seen share one turn, because before authentication they are all the same.
        return await pool.run(calls.recall_analyst(authorization), partial(calls.authenticate, authorization))

    async def respond(request: Request, right: Right, pool: Pool, work: Work) -> Response:
        record = request.scope[RECORD]
        try:
            caller = await authenticate(request.headers.get("authorization"))
            calls.admit(caller, right, record)
            if request.method == "POST":
                caller = replace(caller, body=await request.scope[BODY].read(caller.analyst))
            return await pool.run(caller.analyst, partial(work, caller))
        except BodyTooLarge as error:
            return problem_reply(record, error, name="too-large")
        except SfumatoError as error:
            return problem_reply(record, error)
        except Disconnected:
            return Response(status_code=CLOSED_REQUEST)

    return respond


def add_probe_routes(app: FastAPI, calls: Calls, telemetry: Telemetry) -> None:
    """The routes for operators and load balancers. They need no key."""
    probes = {part: Probe(part, lambda part=part: calls.check(part)) for part in PARTS}  # type: ignore[misc]

    @app.get("/healthz", **openapi.options("healthz"))
    async def healthz() -> Response:
        return json_reply(Health())

    @app.get("/readyz", **openapi.options("readyz"))
    async def readyz() -> Response:
        are_ready = await asyncio.gather(*(probe.is_ready() for probe in probes.values()))
        return readiness_reply(dict(zip(probes, are_ready, strict=True)))

    @app.get("/metrics", **openapi.options("metrics"))
    async def metrics() -> Response:
        return Response(telemetry.metrics(), media_type=METRICS_TYPE)


async def _reply_to_error(request: Request, error: Exception) -> Response:
    """An unknown path gives the same 404 as a thing that is not the caller's. An unexpected error is not described."""
    record, status = request.scope[RECORD], getattr(error, "status_code", None)
    if status == 404:
        return problem_reply(record, NotFound(""))
    if status == 405:
        unsupported = InvalidArgument("method", "is not supported by this path; use one of those in Allow")
        reply = problem_reply(record, unsupported, name="method-not-allowed")
        reply.headers.update(getattr(error, "headers", None) or {})
        return reply
    return problem_reply(record, Failed(""))
