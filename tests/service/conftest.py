"""The service in this process, over the worlds of the tests of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.helpers.served import Served, new_served


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """The event loop of all calls, in a thread of its own."""
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="session")
def shared(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all calls that are refused, or that do not mind what others have asked."""
    served = new_served(tmp_path_factory.mktemp("shared") / "world", portal)
    with served.session:
        yield served


@pytest.fixture
def serving(portal: BlockingPortal, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """`new_served`, for as long as the test takes."""
    with ExitStack() as stack:

        def started(**options: Any) -> Served:
            served = new_served(tmp_path / "world", portal, **options)
            stack.callback(served.session.close)
            return served

        yield started


@pytest.fixture
def served(serving: Callable[..., Served]) -> Served:
    return serving()
