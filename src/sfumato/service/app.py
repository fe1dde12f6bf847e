"""The ASGI application: routes over a session.

    Middleware -> route -> authenticate -> rate, right -> read the body -> queue -> session -> reply
                    └─ any refusal or failure -> problem

Each route does its work in a worker thread, because the engine and the ledger block.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any, TypeAlias

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from sfumato.config import Config
from sfumato.errors import Failed, InvalidArgument, NotFound, SfumatoError
from sfumato.ledger.api_keys import START
from sfumato.service import openapi, pools
from sfumato.service.bodies import BODY, BodyTooLarge, Disconnected
from sfumato.service.calls import ApiCall, Authenticated, Calls, Work, readiness_reply
from sfumato.service.media import NotAcceptable
from sfumato.service.middleware import RECORD, Middleware
from sfumato.service.pages import add_pages
from sfumato.service.pools import Activity, Pool
from sfumato.service.readiness import Probe
from sfumato.service.reload import PolicyWatch
from sfumato.service.reply import Health, json_reply, problem_reply
from sfumato.service.routes import Route
from sfumato.service.sweeper import Sweeper
from sfumato.service.telemetry import METRICS_TYPE, Telemetry
from sfumato.session import PARTS, Session

Respond: TypeAlias = Callable[[Request, Route, Work, Pool], Awaitable[Response]]

AddConsole: TypeAlias = "Callable[[FastAPI, Parts], None]"

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


@dataclass(frozen=True, slots=True)
class Parts:
    """What routes are made of: the calls, the pools by their names, and what analysts do in all of these."""

    calls: Calls
    pools: Mapping[str, Pool]
    activity: Activity


def create_app(
    session: Session, file: str | None = None, written: Config | None = None, *, add_console: AddConsole | None = None
) -> Middleware:
    """The service over an open session. It closes the session when it shuts down.

    With the `file` of its configuration, and what was `written` there, it takes changes of the policy while it runs.
    `add_console` adds the pages, unless the configuration has them off.
    """
    telemetry, activity = Telemetry(), pools.Activity()
    calls = Calls(session, telemetry, pools.LoopTurns(activity))
    sweeper = Sweeper(session)

    def take(other: Session) -> None:
        outermost.take(other.config)  # first, because nothing may be answered without its padding
        calls.take(other)
        sweeper.take(other)

    watch = None if file is None else PolicyWatch(file, written or session.config, session, take)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeper.start()
        if watch is not None:
            watch.start()
        _LOG.info("started", extra={"fields": {"process": os.getpid()}})
        try:
            yield
        finally:
            if watch is not None:
                watch.stop()
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
    app.add_exception_handler(HTTPException, reply_to_error)
    app.add_exception_handler(Exception, reply_to_error)
    by_name = add_api_routes(app, calls, activity)
    if add_console is not None and session.config.console.enabled:
        add_console(app, Parts(calls, by_name, activity))
    add_probe_routes(app, calls, telemetry)
    add_pages(app)
    outermost = Middleware(app, session.config, telemetry, calls.find_cached)
    return outermost


def add_api_routes(app: FastAPI, calls: Calls, activity: pools.Activity) -> Mapping[str, Pool]:
    """The routes that need a key or a token, and the pools of their work."""
    sizes = {"ask": pools.ASK, "report": pools.REPORT, "estimate": pools.ESTIMATE, "read": pools.READ}
    by_name = {name: Pool(*size, activity) for name, size in sizes.items()}
    respond = _create_responder(calls, activity)
    for name, route in openapi.ROUTES.items():
        if route.work is not None:
            endpoint = _create_endpoint(respond, route, route.work, by_name[route.pool])
            app.add_api_route(route.path, endpoint, methods=[route.method], **openapi.options(name))
    return by_name


def _create_endpoint(
    respond: Respond, route: Route, work: Work, pool: Pool
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await respond(request, route, work, pool)

    return endpoint


def _create_responder(calls: Calls, activity: pools.Activity) -> Respond:
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

    def reply_to(call: ApiCall, route: Route, work: Work) -> Response:
        result = work(calls, call)
        return result if isinstance(result, Response) else json_reply(result, status=route.status)

    async def respond(request: Request, route: Route, work: Work, pool: Pool) -> Response:
        record = request.scope[RECORD]
        try:
            caller = await authenticate(request.headers.get("authorization"))
            calls.admit(caller, route.right, record)
            openapi.check_query(route, request.query_params)
            body = await request.scope[BODY].read(caller.analyst) if request.method == "POST" else b""
            return await pool.run(caller.analyst, partial(reply_to, ApiCall(caller, request, body), route, work))
        except NotAcceptable as error:
            return problem_reply(record, error, name="not-acceptable")
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


async def reply_to_error(request: Request, error: Exception) -> Response:
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
