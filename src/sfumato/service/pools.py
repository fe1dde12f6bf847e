"""Thread pools, one per kind of call. Analysts take turns, and share the machine when several are active."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import LedgerFailed, RateLimited

T = TypeVar("T")

# Pool sizes: (threads, threads of an analyst who is the only active one).
ASK, REPORT, ESTIMATE, READ, AUTHENTICATE = (40, 10), (16, 3), (4, 2), (16, 4), (8, 8)

MAX_QUEUED = 200  # calls of one analyst that wait for a thread: each holds a connection and a body
MAX_WAIT_S = 5.0  # for a turn, where calls wait for the ledger only
ACTIVE_S = 1.0  # an analyst stays active for this time after a call
SLOW_S = 1.0  # a call that has run for longer does not hold up the analyst's calls of other kinds
CORES = os.cpu_count() or 1

Turn: TypeAlias = "asyncio.Future[None]"
"""Done when the call may use a thread."""

STRANGER = ""
"""The share of all callers who are not known yet."""


class Activity:
    """What analysts do in all pools that share it. For use from one event loop.

    An analyst is active who has a call in one of the pools, or had one within `ACTIVE_S`.
    """

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._last: dict[str, float] = {}
        self._began: dict[str, dict[Turn, float]] = {}  # the calls of each analyst that use a thread, and since when
        self.pools: list[Pool] = []

    def enter(self, analyst: str) -> None:
        self._calls[analyst] += 1

    def leave(self, analyst: str) -> None:
        """A call has ended: others may start. The pool that has started none for the longest time is the first."""
        self._calls[analyst] -= 1
        if not self._calls[analyst]:
            del self._calls[analyst]
        self._last[analyst] = asyncio.get_running_loop().time()
        for pool in sorted(self.pools, key=lambda pool: pool.started_at):
            pool.start()

    def begin(self, analyst: str, turn: Turn) -> None:
        """A call gets a thread."""
        self._began.setdefault(analyst, {})[turn] = asyncio.get_running_loop().time()

    def end(self, analyst: str, turn: Turn) -> None:
        began = self._began.get(analyst, {})
        began.pop(turn, None)
        if not began:
            self._began.pop(analyst, None)

    def count_running(self, analyst: str) -> int:
        """The threads that this analyst uses, without those of slow calls."""
        since = asyncio.get_running_loop().time() - SLOW_S
        return sum(at > since for at in self._began.get(analyst, {}).values())

    def find(self) -> set[str]:
        """The active analysts. Strangers do not count: they would take threads away from analysts."""
        now = asyncio.get_running_loop().time()
        self._last = {analyst: at for analyst, at in self._last.items() if now - at < ACTIVE_S}
        return {*self._calls, *self._last} - {STRANGER}


class Pool:
    """A pool of threads. For use from one event loop.

    Queued calls start in turns, one analyst after the other (round robin). An analyst who is the only active one uses
    up to `per_analyst` threads. Several active analysts divide the cores of the machine among them, at least one thread
    each: more threads of one would slow down the calls of the others. Such a share is for all pools with the same
    `activity` together: an analyst with many kinds of calls has no more of it. Pools of short calls are left out. At
    most `max_queued` calls of an analyst wait, each at most `max_wait_s`.
    """

    def __init__(
        self,
        threads: int,
        per_analyst: int,
        activity: Activity,
        *,
        max_queued: int = MAX_QUEUED,
        max_wait_s: float | None = None,
        is_short: bool = False,
    ) -> None:
        self._threads, self._per_analyst, self._activity = threads, per_analyst, activity
        self._max_queued, self._max_wait_s, self._is_short = max_queued, max_wait_s, is_short
        self._limiter = CapacityLimiter(threads)  # never waited for: `start` starts no more than it holds
        self._running: Counter[str] = Counter()
        self._queues: dict[str, deque[Turn]] = {}
        self._turns: Counter[str] = Counter()  # the number of the latest turn of each analyst
        self._timer: asyncio.TimerHandle | None = None
        self.started_at = 0.0
        activity.pools.append(self)

    async def run(self, analyst: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises `RateLimited` if too many calls of this analyst are queued."""
        self._activity.enter(analyst)
        try:
            turn = await self._wait(analyst)
            try:
                return await to_thread.run_sync(work, limiter=self._limiter)
            finally:
                self._end(analyst, turn)
        finally:
            self._activity.leave(analyst)

    async def _wait(self, analyst: str) -> Turn:
        queue = self._queues.setdefault(analyst, deque())
        if len(queue) >= self._max_queued:
            raise RateLimited(f"more than {self._max_queued} of your calls are queued; wait until some have ended", 1)
        turn: Turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.start()
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # its turn came in the same moment
                self._end(analyst, turn)
            elif turn in queue:
                queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise LedgerFailed("calls before this one wait for the ledger; send it again in a moment") from None
            raise
        return turn

    def start(self) -> None:
        """Start queued calls, one per analyst and round, while there are threads."""
        active = self._activity.find()
        while self._running.total() < self._threads:
            waiting = [name for name, queue in self._queues.items() if queue and self._may_start(name, active)]
            if not waiting:
                break
            analyst = min(waiting, key=self._turns.__getitem__)
            turn = self._queues[analyst].popleft()
            if turn.done():
                continue  # its caller was cancelled
            self._running[analyst] += 1
            self._turns[analyst] = max(self._turns.values(), default=0) + 1
            self.started_at = asyncio.get_running_loop().time()
            if not self._is_short:
                self._activity.begin(analyst, turn)
            turn.set_result(None)
        for name in [name for name, queue in self._queues.items() if not queue]:
            del self._queues[name]
        if self._queues and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._start_later)

    def _start_later(self) -> None:
        """A call of another pool may have become slow, and another analyst inactive."""
        self._timer = None
        self.start()

    def _may_start(self, analyst: str, active: set[str]) -> bool:
        sharing, running = len(active | {analyst}), self._running[analyst]
        if sharing == 1:
            return running < self._per_analyst
        share = max(1, CORES // sharing)
        is_free = self._is_short or self._activity.count_running(analyst) < share
        return is_free and running < min(self._per_analyst, share)

    def _end(self, analyst: str, turn: Turn) -> None:
        self._running[analyst] -= 1
        self._activity.end(analyst, turn)
