"""Services with pages, and browsers that are signed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.helpers.browsing import Browser
from tests.helpers.served import Served, new_served


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="session")
def shared(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for what changes nothing that another test sees."""
    served = new_served(tmp_path_factory.mktemp("pages") / "world", portal, console=True)
    with served.session:
        yield served


@pytest.fixture
def serving(portal: BlockingPortal, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    with ExitStack() as stack:

        def started(**options: Any) -> Served:
            served = new_served(tmp_path / "world", portal, **{"console": True} | options)
            stack.callback(served.session.close)
            return served

        yield started


@pytest.fixture
def served(serving: Callable[..., Served]) -> Served:
    return serving()


@pytest.fixture
def anna(served: Served) -> Browser:
    """Signed in, in a service of her own."""
    browser = Browser(served)
    browser.sign_in(served.key())
    return browser


@pytest.fixture
def reading(shared: Served) -> Browser:
    """Signed in as an analyst, in the shared service."""
    browser = Browser(shared)
    browser.sign_in(shared.key())
    return browser
