"""Readiness: whether the ledger and the engines can be used, without a check per call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from anyio import CapacityLimiter, to_thread

MAX_READINESS_S = 3.0
INTERVAL_S = 1.0

NOT_READY: Mapping[str, str] = {"ledger": "not ok", "engines": "not ok"}


class Probe:
    """Checks the parts: one check at a time, at most one per `INTERVAL_S`. For use from one event loop.

    A call waits for the running check until it has run for `MAX_READINESS_S`. A check that runs longer hangs: then the
    service is not ready, and calls are told so at once, until the check ends.
    """

    def __init__(self, check: Callable[[], Mapping[str, str]]) -> None:
        self._check = check
        self._thread = CapacityLimiter(1)
        self._running: asyncio.Task[Mapping[str, str]] | None = None
        self._started = -INTERVAL_S

    async def find(self) -> Mapping[str, str]:
        """The state of each part, "ok" or "not ok"."""
        now = asyncio.get_running_loop().time()
        if self._running is None or (self._running.done() and now - self._started >= INTERVAL_S):
            self._running, self._started = asyncio.create_task(self._run()), now
        left_s = self._started + MAX_READINESS_S - now
        if not self._running.done() and left_s > 0:
            await asyncio.wait({self._running}, timeout=left_s)
        return self._running.result() if self._running.done() else NOT_READY

    async def _run(self) -> Mapping[str, str]:
        try:
            return await to_thread.run_sync(self._check, limiter=self._thread, abandon_on_cancel=True)
        except Exception:  # a check that breaks is a part that is not in order
            return NOT_READY
