"""The outermost layer of the service: what every request passes on its way in, and every response on its way out.

Request ids, security headers, the size of a body, replies that are known already, the padding of response times, and
an end for every error that nobody expected.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from sfumato.config import ServiceSettings
from sfumato.errors import Failed, InvalidArgument, SfumatoError
from sfumato.problems import find_problem_type, problem
from sfumato.service.telemetry import CallRecord, Telemetry, where

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs: TypeAlias = Iterable[tuple[bytes, bytes]]
Shortcut: TypeAlias = Callable[[Scope, bytes, CallRecord], tuple[Pairs, bytes] | None]
"""The headers and the body of a reply that is known, or None: then the application is asked."""

BODY_S = 30  # seconds in which a body has to arrive

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"))

HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_MAY_DIFFER = frozenset((b"content-security-policy", b"cache-control"))


class Middleware:
    """An ASGI application around another."""

    def __init__(self, app: Application, settings: ServiceSettings, telemetry: Telemetry, shortcut: Shortcut) -> None:
        self._app, self._settings, self._telemetry, self._shortcut = app, settings, telemetry, shortcut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "other"
        seen = CallRecord(request_id=os.urandom(16).hex(), method=method)
        scope["sfumato.seen"] = seen
        if scope["method"] == "HEAD" and not scope["path"].startswith("/v1/"):
            scope = {**scope, "method": "GET"}  # for balancers that only look; the server leaves the body out
        if self._telemetry.traced is None:
            await self._watched(scope, receive, send, seen)
            return
        with self._telemetry.traced.around(seen, header(scope, b"traceparent")):
            await self._watched(scope, receive, send, seen)

    async def _watched(self, scope: Scope, receive: Receive, send: Send, seen: CallRecord) -> None:
        try:
            await self._passed(scope, receive, send, seen)
        finally:
            if "route" in scope:
                seen.route = scope["route"].path
            self._telemetry.saw(seen)

    async def _passed(self, scope: Scope, receive: Receive, send: Send, seen: CallRecord) -> None:
        leaving = _Leaving(send, seen, self._settings.pad_ms if scope["path"].startswith("/v1/") else 0)
        most = self._settings.max_request_bytes
        try:
            body = await _body(scope, receive, most)
        except _TooLarge:
            await leaving.problem("too-large", InvalidArgument("body", f"must be at most {most} bytes"))
            return
        except TimeoutError:
            late = InvalidArgument("body", f"has not arrived within {BODY_S} seconds")
            await leaving.problem("invalid-argument", late)
            return
        except _Gone:
            return
        leaving.begin()
        try:
            known = self._shortcut(scope, body, seen)
            if known is None:
                await self._app(scope, _replayed(body, receive), leaving)
            else:
                await leaving.whole(200, *known)
        except (Exception, asyncio.CancelledError) as error:
            seen.error = where(error)
            if not leaving.begun:
                await leaving.problem("failed", Failed(""))
            if isinstance(error, asyncio.CancelledError):  # the service stops, and this has taken longer than it may
                raise


class _Leaving:
    """A response on its way out: it begins at a multiple of `pad_ms`, and carries the headers of all."""

    def __init__(self, send: Send, seen: CallRecord, pad_ms: int) -> None:
        self._send, self._seen, self._pad_ms = send, seen, pad_ms
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()
        self.begun = False

    def begin(self) -> None:
        """Count from now: all of the request is here. By sending its end late, a caller could choose what is hidden."""
        self._since = self._clock()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self._pad_ms:
                await self._padded()
            self.begun = True
            self._seen.status = message["status"]
            self._seen.seconds = self._clock() - self._since
            message["headers"] = self._with_ours(message["headers"])
        await self._send(message)

    def _with_ours(self, given: Pairs) -> list[tuple[bytes, bytes]]:
        headers = list(given)
        differing = {name for name, _ in headers if name in _MAY_DIFFER}
        headers += [pair for pair in _ENCODED if pair[0] not in differing] if differing else _ENCODED
        headers.append((b"x-request-id", self._seen.request_id.encode()))
        return headers

    async def _padded(self) -> None:
        """Wait for the next multiple, so that what a question took inside does not show. Never for nothing."""
        quantum = self._pad_ms / 1000
        passed = self._clock() - self._since
        await asyncio.sleep(math.ceil(passed / quantum) * quantum - passed)

    async def whole(self, status: int, headers: Pairs, body: bytes) -> None:
        sized = [*headers, (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": sized})
        await self._send({"type": "http.response.body", "body": body})

    async def problem(self, name: str, error: SfumatoError) -> None:
        """A problem from out here, where the rest of the body may still be on its way: so the connection ends."""
        kind = find_problem_type(name)
        self._seen.problem = name
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        headers += [(b"retry-after", b"1")] if kind.status == 503 else []
        await self.whole(kind.status, headers, json.dumps(problem(error, kind)).encode())


class _TooLarge(Exception):
    """The body is longer than a question can be."""


class _Gone(Exception):
    """The caller has left."""


async def _body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The whole body: no route streams, and a body that comes in late must not hold a thread."""
    length = header(scope, b"content-length") or "0"
    if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > most:
        raise _TooLarge
    async with asyncio.timeout(BODY_S):
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > most:
                raise _TooLarge
            if not message.get("more_body", False):
                return b"".join(chunks)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, in one piece; then whatever the caller does."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of this name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None
