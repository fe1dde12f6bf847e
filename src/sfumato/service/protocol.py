"""Connections of the service, below HTTP: what a caller may send before there is a request to answer."""

from __future__ import annotations

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD = 32 * 1024  # bytes
HEAD_S = 15.0  # seconds
MAX_WAITING = 100  # requests behind one that is being answered

_NO_BODY = (b"content-length", b"0")


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits where it has none. Whoever passes one of them loses the connection.

    - A head is at most MAX_HEAD bytes, and so are the trailers and whatever else brings no byte of a body.
    - A head is complete HEAD_S seconds after its first byte, and the first one after the connection began.
    - An Upgrade is ignored. With a body it is refused: the parser passes over the body, which would be the next head.
    - At most MAX_WAITING requests wait on a connection. They are answered; those behind them are not.
    - Trailers are dropped: the application would find them among the headers.
    """

    _timer: asyncio.TimerHandle | None = None
    _begun = False  # some of a head is here, but not all
    _headed = False  # all of a head is here, but not all of its body
    _moved = False  # the parser found the end of a head or of a body, or some of a body
    _still = 0  # bytes since it did
    _over = False  # nothing more is read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(HEAD_S, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        view, at = memoryview(data), 0
        while at < len(data) and not self._over:
            at += self._fed(view[at : at + MAX_HEAD - self._still])
        waits = self._begun or not (self._headed or self._moved)
        if waits and self._timer is None and not self._over:
            self._timer = self.loop.call_later(HEAD_S, self._late)

    def _fed(self, part: memoryview) -> int:
        """How many of these bytes the parser took. A head that begins in the middle is counted from the next ones."""
        self._moved = False
        taken = len(part)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade as stopped:
            taken = stopped.args[0]
        except httptools.HttpParserError:
            self._refuse(400)
        self._still = 0 if self._moved else self._still + taken
        if self._still >= MAX_HEAD and not self._over:
            self._refuse(431)
        return taken

    def on_message_begin(self) -> None:
        self._begun = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._begun, self._moved = False, True
        self._in_time()
        if self.parser.should_upgrade() and (self.parser.get_method() == b"CONNECT" or self._announces_body()):
            self._end(400)
        elif len(self.pipeline) >= MAX_WAITING:
            self._end(None)
        if not self._over:
            super().on_headers_complete()
            self._headed = True
            self.headers = []  # for the trailers; the application has the list until here

    def on_body(self, body: bytes) -> None:
        self._moved = True
        if not self._over:  # else it is not the body of the last request that was taken
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._headed, self._moved = False, True
        if not self._over:
            super().on_message_complete()

    def _announces_body(self) -> bool:
        sizing = (b"content-length", b"transfer-encoding")
        return any(pair[0] in sizing and pair != _NO_BODY for pair in self.headers)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # we are late, not the caller
            self._timer = self.loop.call_later(HEAD_S, self._late)
        else:
            self._end(408 if self._begun else None)

    def _refuse(self, status: int) -> None:
        if self._headed:  # the application waits for the rest of the body, and need not
            self._over = True
            self.send_400_response("Invalid HTTP request received.")
        else:
            self._end(status)

    def _end(self, status: int | None) -> None:
        """Say why and close; requests before this one are answered first, as a reply now would be taken for theirs."""
        self._over = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return
        if status is not None:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
