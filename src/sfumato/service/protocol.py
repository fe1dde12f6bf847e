"""The HTTP/1.1 connections of the service: limits on what arrives before there is a request to answer."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MAX_HEAD_BYTES = 32 * 1024
MAX_HEAD_S = 15.0
MAX_PIPELINED = 100  # requests queued behind the one that is being answered
MAX_LINGER_S, MAX_LINGER_BYTES = 2.0, 1 << 20

_NO_BODY = (b"content-length", b"0")


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits where it has none. A connection that exceeds one is closed.

    - A request head has at most MAX_HEAD_BYTES. The same limit holds for trailers and all else that is not body.
    - A head is complete MAX_HEAD_S seconds after its first byte; the first head, after the connection was made.
    - An Upgrade is ignored. With a body it is refused: the parser skips the body, and would read it as the next head.
    - At most MAX_PIPELINED requests are queued per connection. They are answered; later ones are not.
    - Trailers are dropped: the application would see them among the headers.
    - After a head, no more is read until the application asks for the body. A stranger's body stays on the network.
    - A connection is closed in two steps while a body is arriving (lingering close): first this side, and after at
      most MAX_LINGER_S or MAX_LINGER_BYTES the other. What arrives meanwhile is thrown away. Closed at once, the
      caller's machine would throw away the reply (RFC 9112, 9.6).
    """

    _timer: asyncio.TimerHandle | None = None
    _in_head = False  # a part of a head has arrived
    _in_body = False  # a head is complete, its body is not
    _progressed = False  # the parser saw the end of a head, the end of a body, or a part of a body
    _stalled_bytes = 0  # bytes since it did
    _ended = False  # nothing more is read

    _head_ended = False  # in the data that is being fed
    _thrown_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_LingeringTransport(transport, self))  # type: ignore[arg-type]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._ended:
            self._thrown_bytes += len(data)
            if self._thrown_bytes > MAX_LINGER_BYTES:
                self.transport.close()
            return
        view, at, self._head_ended = memoryview(data), 0, False
        while at < len(data) and not self._ended:
            at += self._feed(view[at : at + MAX_HEAD_BYTES - self._stalled_bytes])
        if self._head_ended and self._in_body and not self._ended:
            self.flow.pause_reading()
        expects_head = self._in_head or not (self._in_body or self._progressed)
        if expects_head and self._timer is None and not self._ended:
            self._start_timer()

    def _feed(self, part: memoryview) -> int:
        """Feed the parser; the number of bytes that it took.

        A head that begins inside this part is counted from the next part on.
        """
        self._progressed = False
        taken = len(part)
        try:
            self.parser.feed_data(part)
        except httptools.HttpParserUpgrade as stopped:
            taken = stopped.args[0]
        except httptools.HttpParserError:
            self._refuse(400)
        self._stalled_bytes = 0 if self._progressed else self._stalled_bytes + taken
        if self._stalled_bytes >= MAX_HEAD_BYTES and not self._ended:
            self._refuse(431)
        return taken

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._progressed = False, True
        self._cancel_timer()
        if self.parser.should_upgrade() and (self.parser.get_method() == b"CONNECT" or self._announces_body()):
            self._end(400)
        elif len(self.pipeline) >= MAX_PIPELINED:
            self._end(None)
        if not self._ended:
            super().on_headers_complete()
            self._in_body = self._head_ended = True
            self.headers = []  # takes the trailers; the application keeps the list of the head

    def on_body(self, body: bytes) -> None:
        self._progressed = True
        if not self._ended:  # otherwise it belongs to a request that was refused
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body, self._progressed = False, True
        if not self._ended:
            super().on_message_complete()

    def stop_reading(self) -> bool:
        """Take no more requests from this connection; whether a body is still arriving."""
        self._ended = True
        self._cancel_timer()
        if self.cycle is not None:
            self.cycle.body = bytearray()
        return self._in_body

    def _announces_body(self) -> bool:
        lengths = (b"content-length", b"transfer-encoding")
        return any(pair[0] in lengths and pair != _NO_BODY for pair in self.headers)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(MAX_HEAD_S, self._on_timeout)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # the service is slow, not the caller
            self._start_timer()
        else:
            self._end(408 if self._in_head else None)

    def _refuse(self, status: int) -> None:
        if self._in_body:  # the application waits for the rest of the body: end its wait
            self._ended = True
            self.send_400_response("Invalid HTTP request received.")
        else:
            self._end(status)

    def _end(self, status: int | None) -> None:
        """Send a status, if given, and close.

        Requests before this one are answered first: a reply now would be taken for theirs.
        """
        self._ended = True
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
            return
        if status is not None:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()


class _LingeringTransport:
    """The transport of a connection; `close` lingers while a body is arriving. All else is the transport's own."""

    def __init__(self, transport: asyncio.Transport, protocol: GuardedProtocol) -> None:
        self._transport, self._protocol, self._lingers = transport, protocol, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._lingers or self._transport.is_closing()

    def close(self) -> None:
        if self._lingers or self._transport.is_closing() or not self._protocol.stop_reading():
            self._transport.close()
            return
        self._lingers = True
        self._transport.write_eof()
        self._protocol.flow.resume_reading()  # to throw it away
        self._protocol.loop.call_later(MAX_LINGER_S, self._transport.close)
