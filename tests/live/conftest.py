"""Real servers for the tests of this folder, over the worlds of the tests of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.helpers.servers import Server, start


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """`servers.start`, for as long as the test takes."""
    with ExitStack() as stack:

        def started(*arguments: Any, **options: Any) -> Server:
            server = start(*arguments, **options)
            stack.callback(server.kill)
            return server

        yield started
