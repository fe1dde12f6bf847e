"""One browser and one service for all tests of this folder; services of their own where a test changes something.

They end with the folder: while a browser is open, its driver runs an event loop in the thread of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from playwright.sync_api import Browser

from tests.helpers import chromium
from tests.helpers.screens import Screen, Seated, screen
from tests.helpers.staged import Stage, publish, staged


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if why := chromium.why_missing():
        pytest.skip(why)
    with chromium.launched() as found:
        yield found


@pytest.fixture(scope="package")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as opened:
        yield opened


@pytest.fixture(scope="package")
def shared(browser: Browser, portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One service for what another test may see. Its ledger has a release."""
    with staged(tmp_path_factory.mktemp("screens") / "world", portal, ads=True, govern=True) as stage:
        publish(stage)
        yield stage


@pytest.fixture
def staging(browser: Browser, portal: BlockingPortal, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Services of a test's own."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(staged(tmp_path / "world", portal, **options))


@pytest.fixture
def stage(staging: Callable[..., Stage]) -> Stage:
    return staging()


@pytest.fixture
def seated(browser: Browser) -> Seated:

    def take_seat(stage: Stage, analyst: str | None = None, **options: Any) -> AbstractContextManager[Screen]:
        return screen(browser, stage.url, stage.cookie(analyst) if analyst else None, **options)

    return take_seat
