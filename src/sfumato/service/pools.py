"""Thread pools, one per kind of call. Analysts take turns, and share the machine when several are active."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import LedgerFailed, RateLimited

T = TypeVar("T")

# Pool sizes: (threads, threads of an analyst who is the only active one).
ASK, REPORT, ESTIMATE, READ, AUTHENTICATE = (40, 10), (16, 3), (4, 2), (16, 4), (8, 8)

MAX_QUEUED = 200  # calls of one analyst that wait for a thread: each holds a connection and a body
MAX_WAIT_S = 5.0  # for a turn, where calls wait for the ledger only
ACTIVE_S = 1.0  # an analyst stays active for this time after a call
CORES = os.cpu_count() or 1


STRANGER = ""
"""The share of all callers who are not known yet."""


class Activity:
    """The analysts who have calls in any pool, or had one within `ACTIVE_S`. For use from one event loop."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._last: dict[str, float] = {}

    def enter(self, analyst: str) -> None:
        self._calls[analyst] += 1

    def leave(self, analyst: str) -> None:
        self._calls[analyst] -= 1
        if not self._calls[analyst]:
            del self._calls[analyst]
        self._last[analyst] = asyncio.get_running_loop().time()

    def find(self) -> set[str]:
        """The names. Strangers do not count: they would take threads away from analysts."""
        now = asyncio.get_running_loop().time()
        self._last = {analyst: at for analyst, at in self._last.items() if now - at < ACTIVE_S}
        return {*self._calls, *self._last} - {STRANGER}


class Pool:
    """A pool of threads. For use from one event loop.

    Queued calls start in turns, one analyst after the other (round robin). An analyst who is the only active one uses
    up to `per_analyst` threads. Several active analysts, in this pool or in another with the same `activity`, divide
    the cores of the machine among them, at least one thread each: more threads of one would slow down the calls of the
    others. At most `max_queued` calls of an analyst wait, each at most `max_wait_s`.
    """

    def __init__(
        self,
        threads: int,
        per_analyst: int,
        activity: Activity,
        *,
        max_queued: int = MAX_QUEUED,
        max_wait_s: float | None = None,
    ) -> None:
        self._threads, self._per_analyst, self._activity = threads, per_analyst, activity
        self._max_queued, self._max_wait_s = max_queued, max_wait_s
        self._limiter = CapacityLimiter(threads)  # never waited for: `_start` starts no more than it holds
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._turns: Counter[str] = Counter()  # the number of the latest turn of each analyst

    async def run(self, analyst: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises `RateLimited` if too many calls of this analyst are queued."""
        self._activity.enter(analyst)
        try:
            await self._wait(analyst)
            try:
                return await to_thread.run_sync(work, limiter=self._limiter)
            finally:
                self._running[analyst] -= 1
        finally:
            self._activity.leave(analyst)
            self._start()

    async def _wait(self, analyst: str) -> None:
        queue = self._queues.setdefault(analyst, deque())
        if len(queue) >= self._max_queued:
            raise RateLimited(f"more than {self._max_queued} of your calls are queued; wait until some have ended", 1)
        turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self._start()
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # its turn came in the same moment
                self._running[analyst] -= 1
            elif turn in queue:
                queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise LedgerFailed("calls before this one wait for the ledger; send it again in a moment") from None
            raise

    def _start(self) -> None:
        """Start queued calls, one per analyst and round, while there are threads."""
        active = self._activity.find()
        while self._running.total() < self._threads:
            waiting = [
                name
                for name, queue in self._queues.items()
                if queue and self._running[name] < self._limit(name, active)
            ]
            if not waiting:
                break
            analyst = min(waiting, key=self._turns.__getitem__)
            turn = self._queues[analyst].popleft()
            if turn.done():
                continue  # its caller was cancelled
            self._running[analyst] += 1
            self._turns[analyst] = max(self._turns.values(), default=0) + 1
            turn.set_result(None)
        for name in [name for name, queue in self._queues.items() if not queue]:
            del self._queues[name]

    def _limit(self, analyst: str, active: set[str]) -> int:
        """The threads that this analyst may use now."""
        sharing = len(active | {analyst})
        return self._per_analyst if sharing == 1 else min(self._per_analyst, max(1, CORES // sharing))
