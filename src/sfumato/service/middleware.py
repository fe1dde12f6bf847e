"""The outermost layer: what every request and every response passes.

It gives each request an id, refuses requests for other hosts, answers from the reply cache, adds security headers,
pads response times, closes the connection after a reply to a request whose body was not read, and turns unexpected
errors into problems.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from starlette.responses import Response

from sfumato.config import Config
from sfumato.errors import Failed, InvalidArgument
from sfumato.service.bodies import BODY, AsgiScope, Body, HeldBytes, Message, Receive, header
from sfumato.service.origin import Origin
from sfumato.service.reply import problem_reply
from sfumato.service.telemetry import CallRecord, Telemetry, locate

Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[AsgiScope, Receive, Send], Awaitable[None]]
Shortcut: TypeAlias = Callable[[AsgiScope, Body, CallRecord], Awaitable[Response | None]]
"""A cached reply to a request and its body, or None: then the application is called."""

RECORD = "sfumato.record"
"""The key of a scope under which its `CallRecord` is."""

PROBES = ("/healthz", "/readyz", "/metrics")
WRONG_HOST = "is not the name of this service; its owner sets it as [service] origin"

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"))

HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_REPLACEABLE = frozenset((b"content-security-policy", b"cache-control", b"referrer-policy"))

UNPADDED = ("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/problems/", "/assets/")
"""Where paths begin that read nothing of an analyst. All others, of the API and of the pages, are padded."""


class Middleware:
    """An ASGI application around another."""

    def __init__(self, app: Application, config: Config, telemetry: Telemetry, shortcut: Shortcut) -> None:
        self._app, self._telemetry, self._shortcut = app, telemetry, shortcut
        self._pad_ms, self._max_bytes = config.pad_ms, config.service.max_request_bytes
        self._origin = Origin(config.service)
        self._held = HeldBytes(self._max_bytes)

    def take(self, config: Config) -> None:
        """Pad as this configuration says: a new tenant may need it."""
        self._pad_ms = config.pad_ms

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        record = CallRecord(request_id=os.urandom(16).hex(), method=method)
        scope[RECORD] = record
        if scope["method"] == "HEAD" and not scope["path"].startswith("/v1/"):
            scope = {**scope, "method": "GET"}  # for load balancers; the server drops the body
        if self._telemetry.tracer is None:
            await self._measure(scope, receive, send, record)
            return
        with self._telemetry.tracer.span(record, header(scope, b"traceparent")):
            await self._measure(scope, receive, send, record)

    async def _measure(self, scope: AsgiScope, receive: Receive, send: Send, record: CallRecord) -> None:
        pad_ms = 0 if scope["path"].startswith(UNPADDED) else self._pad_ms
        padded = _PaddedSend(send, record, pad_ms)
        body = Body(scope, receive, self._max_bytes, self._held, padded.restart_clock)
        padded.body = scope[BODY] = body
        try:
            await self._respond(scope, receive, padded, record)
        finally:
            body.release()
            if "route" in scope:
                record.route = scope["route"].path
            self._telemetry.finish(record)

    async def _respond(self, scope: AsgiScope, receive: Receive, send: _PaddedSend, record: CallRecord) -> None:
        """Answer from the cache or call the application; an unexpected error becomes a problem."""
        try:
            reply = self._refuse_host(scope, record) or await self._shortcut(scope, scope[BODY], record)
            await (self._app(scope, receive, send) if reply is None else reply(scope, receive, send))
        except (Exception, asyncio.CancelledError) as error:
            record.error = locate(error)
            if not send.started:
                reply = problem_reply(record, Failed(""))
                reply.headers["connection"] = "close"
                await reply(scope, receive, send)
            if isinstance(error, asyncio.CancelledError):  # the service stops, and its grace period is over
                raise

    def _refuse_host(self, scope: AsgiScope, record: CallRecord) -> Response | None:
        """The refusal of a request for another host. Probes come from machines that know an address only."""
        hosts = [str(value, "latin-1") for name, value in scope["headers"] if name == b"host"]
        if scope["path"] in PROBES or self._origin.is_ours(hosts):
            return None
        return problem_reply(record, InvalidArgument("Host", WRONG_HOST), name="misdirected")


class _PaddedSend:
    """An ASGI `send` that starts the response at a multiple of `pad_ms` and adds the headers of all responses."""

    def __init__(self, send: Send, record: CallRecord, pad_ms: int) -> None:
        self._send, self._record, self._pad_ms = send, record, pad_ms
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()
        self.started = False
        self.body: Body | None = None

    def restart_clock(self) -> None:
        """Measure from now, when a late body is complete. Its end could otherwise cancel the padding."""
        self._since = self._clock()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self._pad_ms:
                await self._pad()
            self.started = True
            self._record.status = message["status"]
            self._record.seconds = self._clock() - self._since
            given = message["headers"]
            replaced = {name for name, _ in given if name in _REPLACEABLE}
            added = [pair for pair in _RAW_HEADERS if pair[0] not in replaced] if replaced else _RAW_HEADERS
            message["headers"] = [*given, *added, (b"x-request-id", self._record.request_id.encode())]
            if self.body is not None and self.body.is_unread and all(name != b"connection" for name, _ in given):
                message["headers"].append((b"connection", b"close"))  # the rest of the body may still arrive
        await self._send(message)

    async def _pad(self) -> None:
        """Wait for the next multiple of `pad_ms`, to hide how long the computation took."""
        quantum = self._pad_ms / 1000
        passed = self._clock() - self._since
        await asyncio.sleep(math.ceil(passed / quantum) * quantum - passed)
