"""Bodies of requests. A body is read after the key was checked, within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from sfumato.errors import InvalidArgument, RateLimited

Message: TypeAlias = MutableMapping[str, Any]
AsgiScope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]

BODY = "sfumato.body"
"""The key of a scope under which its `Body` is."""

MAX_BODY_S = 30
MAX_HELD_BYTES, MAX_HELD_BYTES_PER_ANALYST = 1 << 26, 1 << 23
LATE_S = 0.001  # a body that was here before it was read takes less


class BodyTooLarge(InvalidArgument):
    """The body is longer than `max_request_bytes`."""


class Disconnected(Exception):
    """The caller closed the connection before the body was complete."""


class HeldBytes:
    """The bytes of all bodies that are being read or answered, in total and per analyst. For use from one event loop.

    An analyst may always hold one body of `max_request_bytes`.
    """

    def __init__(self, max_request_bytes: int) -> None:
        self._max_per_analyst = max(MAX_HELD_BYTES_PER_ANALYST, max_request_bytes)
        self._total, self._held = 0, dict[str, int]()

    def add(self, analyst: str, count: int) -> None:
        """Count bytes that have arrived. Raises `RateLimited` if they are too many; then nothing is counted."""
        own = self._held.get(analyst, 0) + count
        if own > self._max_per_analyst:
            megabytes = self._max_per_analyst >> 20
            raise RateLimited(f"the bodies of your running calls exceed {megabytes} MB; wait until some are answered")
        if self._total + count > max(MAX_HELD_BYTES, self._max_per_analyst):
            raise RateLimited("the service holds too many bodies of all analysts; send this one again in a moment")
        self._total += count
        self._held[analyst] = own

    def remove(self, analyst: str, count: int) -> None:
        self._total -= count
        self._held[analyst] -= count
        if not self._held[analyst]:
            del self._held[analyst]


class Body:
    """The body of one request. No byte of it is taken from the connection before `read` is called.

    `on_late` is called when a body is complete that was not here yet when `read` was called.
    """

    __slots__ = (
        *("_analyst", "_content", "_counted", "_failure", "_held", "_max_bytes", "_on_late", "_receive", "_scope"),
        "is_late",
    )

    def __init__(
        self, scope: AsgiScope, receive: Receive, max_bytes: int, held: HeldBytes, on_late: Callable[[], None]
    ) -> None:
        self._scope, self._receive, self._max_bytes = scope, receive, max_bytes
        self._held, self._on_late = held, on_late
        self._content: bytes | None = None
        self._failure: Exception | None = None
        self._analyst, self._counted = "", 0
        self.is_late = False

    @property
    def is_unread(self) -> bool:
        """Whether the request has a body, of which a part may still arrive."""
        if self._content is not None:
            return False
        names = {name: value for name, value in self._scope["headers"] if name in (b"content-length", _ENCODING)}
        return _ENCODING in names or names.get(b"content-length", b"0") != b"0"

    async def read(self, analyst: str) -> bytes:
        """The whole body, counted as held by `analyst` until `release`. Read again, it is the same or fails the same.

        Raises `InvalidArgument` if it is too large (`BodyTooLarge`) or too slow, `RateLimited` if too many bytes are
        held, and `Disconnected`.
        """
        if self._failure is not None:
            raise self._failure
        if self._content is None:
            clock, self._analyst = asyncio.get_running_loop().time, analyst
            started = clock()
            try:
                self._content = await self._read()
            except (InvalidArgument, RateLimited, Disconnected) as error:
                self._failure = error
                raise
            if clock() - started > LATE_S:
                self.is_late = True
                self._on_late()
        return self._content

    async def _read(self) -> bytes:
        length = header(self._scope, b"content-length") or "0"
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > self._max_bytes:
            raise self._too_large()
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(MAX_BODY_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise Disconnected
                    chunk = message.get("body", b"")
                    if self._counted + len(chunk) > self._max_bytes:
                        raise self._too_large()
                    self._held.add(self._analyst, len(chunk))
                    self._counted += len(chunk)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return b"".join(chunks)
        except TimeoutError:
            raise InvalidArgument("body", f"did not arrive within {MAX_BODY_S} seconds") from None

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge("body", f"must be at most {self._max_bytes} bytes")

    def release(self) -> None:
        """The request is answered: the bytes are held no longer."""
        if self._counted:
            self._held.remove(self._analyst, self._counted)
            self._counted = 0


_ENCODING = b"transfer-encoding"


def header(scope: AsgiScope, name: bytes) -> str | None:
    """The first header of this name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value, "latin-1")
    return None
