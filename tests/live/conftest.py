"""Real servers for the tests of this folder, over the worlds of the tests of answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[1] / "answers"))  # for `worlds`, if only this folder is run
sys.path.append(str(Path(__file__).parents[1] / "service"))  # and for `advertised`

from servers import Server, start


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """`servers.start`, for as long as the test takes."""
    with ExitStack() as stack:

        def started(*arguments: Any, **options: Any) -> Server:
            server = start(*arguments, **options)
            stack.callback(server.kill)
            return server

        yield started
