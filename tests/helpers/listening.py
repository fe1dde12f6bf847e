"""A service of this process that listens on a port, for browsers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from sfumato.service.middleware import Middleware
from sfumato.service.server import bind, url_of, uvicorn_config
from tests.helpers.servers import wait_until


@contextmanager
def listening(app: Middleware, listener: socket.socket | None = None) -> Iterator[str]:
    """Its address on this machine. The session of the application is closed at the end, and so is the `listener`."""
    listener = listener or bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn_config(app))
    thread = threading.Thread(target=server.run, args=([listener],), name="listening")
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        yield url_of(listener)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
