"""Readiness: whether a part that answers need can be used, without a check per call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread

from sfumato.errors import SfumatoError
from sfumato.service.telemetry import locate

MAX_READINESS_S = 3.0
INTERVAL_S = 1.0
HANGS = "the check does not end"

_LOG = logging.getLogger("sfumato.service")


class Probe:
    """Checks one part: one check at a time, at most one per `INTERVAL_S`. For use from one event loop.

    A call waits for the running check until it has run for `MAX_READINESS_S`. A check that runs longer hangs: then the
    part is not ready, and calls get that reply at once, until the check ends. The log says why, once.
    """

    def __init__(self, part: str, check: Callable[[], None]) -> None:
        """`check` raises if the part cannot be used."""
        self._part, self._check = part, check
        self._thread = CapacityLimiter(1)
        self._running: asyncio.Task[str] | None = None
        self._started = -INTERVAL_S
        self._logged = ""

    async def is_ready(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._running is None or (self._running.done() and now - self._started >= INTERVAL_S):
            self._running, self._started = asyncio.create_task(self._run()), now
        left_s = self._started + MAX_READINESS_S - now
        if not self._running.done() and left_s > 0:
            await asyncio.wait({self._running}, timeout=left_s)
        why = self._running.result() if self._running.done() else HANGS
        if why != self._logged:
            self._logged = why
            fields = {"part": self._part, **({"why": why} if why else {})}
            _LOG.warning("not ready" if why else "ready again", extra={"fields": fields})
        return not why

    async def _run(self) -> str:
        """Why the part cannot be used; empty if it can."""
        try:
            await to_thread.run_sync(self._check, limiter=self._thread, abandon_on_cancel=True)
        except SfumatoError as error:
            return str(error)
        except Exception as error:  # a check that breaks is a part that is not in order
            return locate(error)
        return ""
