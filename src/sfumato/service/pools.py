"""Who is next: thread pools, one per kind of call, and turns for calls that need no thread.

Analysts take turns, and share the machine when several are active.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import LedgerBusy, LedgerFailed, RateLimited

T = TypeVar("T")

# Pool sizes: (threads, threads of an analyst who is the only active one).
ASK, REPORT, ESTIMATE, READ, AUTHENTICATE = (40, 10), (16, 3), (4, 2), (16, 4), (8, 8)

MAX_QUEUED = 200  # calls of one analyst that wait for a thread: each holds a connection and a body
MAX_WAIT_S = 5.0  # for a turn, where calls wait for the ledger only
ACTIVE_S = 1.0  # an analyst stays active for this time after a call
SLOW_S = 1.0  # a call that has run for longer does not hold up the analyst's calls of other kinds
TICK_S = 0.001  # the timers of the event loop are no finer
CORES = os.cpu_count() or 1

Turn: TypeAlias = "asyncio.Future[None]"
"""Done when the call may use a thread, or is refused."""

STRANGER = ""
"""The share of all callers who are not known yet."""


class Activity:
    """What analysts do in all pools that share it. For use from one event loop.

    An analyst is active who has a call in one of the pools, or had one within `ACTIVE_S`. An analyst is light whose
    calls all use a thread: none waits. Others give way to the calls of a light analyst: each of theirs starts only
    after a rest as long as the one before took, or when the light ones have ended.
    """

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._last: dict[str, float] = {}
        self._began: dict[str, dict[Turn, float]] = {}  # the calls of each analyst that use a thread, and since when
        self._rests: dict[str, float] = {}  # until when each analyst rests beside a light one
        self._timer: asyncio.TimerHandle | None = None
        self._starts_at = 0.0
        self.pools: list[Pool] = []

    def enter(self, analyst: str) -> None:
        self._calls[analyst] += 1

    def leave(self, analyst: str) -> None:
        """A call has ended: others may start."""
        self._calls[analyst] -= 1
        if not self._calls[analyst]:
            del self._calls[analyst]
        self._last[analyst] = time.monotonic()
        self.start()

    def start(self) -> None:
        """Start what may start. The pool that has started none for the longest time is the first."""
        now = time.monotonic()  # the same for all: a rest that ends meanwhile would let a later pool go first
        for pool in sorted(self.pools, key=lambda pool: pool.started_at):
            pool.start(now)

    def start_later(self, delay: float) -> None:
        """Start again after `delay` seconds at the latest."""
        delay = max(delay, TICK_S)
        starts_at = time.monotonic() + delay
        if self._timer is not None:
            if self._starts_at <= starts_at:
                return
            self._timer.cancel()
        self._timer, self._starts_at = asyncio.get_running_loop().call_later(delay, self._start_now), starts_at

    def _start_now(self) -> None:
        self._timer = None
        self.start()

    def begin(self, analyst: str, turn: Turn) -> None:
        """A call gets a thread."""
        self._began.setdefault(analyst, {})[turn] = time.monotonic()

    def end(self, analyst: str, turn: Turn) -> None:
        began, now = self._began.get(analyst, {}), time.monotonic()
        if turn in began:
            self._rests[analyst] = now + min(now - began.pop(turn), SLOW_S)
        if not began:
            self._began.pop(analyst, None)

    def count_running(self, analyst: str) -> int:
        """The threads that this analyst uses, without those of slow calls."""
        since = time.monotonic() - SLOW_S
        return sum(at > since for at in self._began.get(analyst, {}).values())

    def gives_way(self, analyst: str) -> bool:
        """Whether another analyst is light at this moment."""
        return any(
            name != analyst and self._calls[name] == len(turns) and self.count_running(name)
            for name, turns in self._began.items()
        )

    def find_rest(self, analyst: str, now: float) -> float:
        """For how many seconds the next call of this analyst waits for a light one."""
        left = self._rests.get(analyst, 0.0) - now
        return left if left > 0 and self.gives_way(analyst) else 0.0

    def find(self, now: float) -> set[str]:
        """The active analysts. Strangers do not count: they would take threads away from analysts."""
        self._last = {analyst: at for analyst, at in self._last.items() if now - at < ACTIVE_S}
        self._rests = {analyst: until for analyst, until in self._rests.items() if until > now}
        return {*self._calls, *self._last} - {STRANGER}


class Pool:
    """A pool of threads. For use from one event loop.

    Queued calls start in turns, one analyst after the other (round robin). An analyst who is the only active one uses
    up to `per_analyst` threads. Several active analysts divide the cores of the machine among them, at least one thread
    each: more threads of one would slow down the calls of the others. Such a share is for all pools with the same
    `activity` together: an analyst with many kinds of calls has no more of it. Pools of short calls are left out. At
    most `max_queued` calls of an analyst wait, each at most `max_wait_s`.

    A call that finds the ledger stuck ends the waiting of all that are queued: one after the other, each would wait as
    long as this one has. Behind a slow engine they wait on.
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
        self.started_at = 0.0
        activity.pools.append(self)

    async def run(self, analyst: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises `RateLimited` if too many calls of this analyst are queued."""
        self._activity.enter(analyst)
        try:
            turn = await self._wait(analyst)
            try:
                return await to_thread.run_sync(work, limiter=self._limiter)
            except LedgerBusy as busy:
                if busy.is_stuck:
                    self._refuse_queued(busy)
                raise
            finally:
                self._end(analyst, turn)
        finally:
            self._activity.leave(analyst)

    def _refuse_queued(self, busy: LedgerBusy) -> None:
        for queue in self._queues.values():
            for turn in queue:
                if not turn.done():  # otherwise its caller was cancelled
                    turn.set_exception(LedgerBusy(str(busy), busy.retry_after_s))
            queue.clear()

    async def _wait(self, analyst: str) -> Turn:
        queue = self._queues.setdefault(analyst, deque())
        if len(queue) >= self._max_queued:
            raise RateLimited(f"more than {self._max_queued} of your calls are queued; wait until some have ended", 1)
        turn: Turn = asyncio.get_running_loop().create_future()
        queue.append(turn)
        self.start(time.monotonic())
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                if turn.exception() is None:  # otherwise it is refused
                    self._end(analyst, turn)  # its turn came in the same moment
            elif turn in queue:
                queue.remove(turn)
            if isinstance(error, TimeoutError):
                raise LedgerFailed("calls before this one wait for the ledger; send it again in a moment") from None
            raise
        return turn

    def start(self, now: float) -> None:
        """Start queued calls, one per analyst and round, while there are threads."""
        active = self._activity.find(now)
        while self._running.total() < self._threads:
            waiting = [name for name, queue in self._queues.items() if queue and self._may_start(name, active, now)]
            if not waiting:
                break
            analyst = min(waiting, key=self._turns.__getitem__)
            turn = self._queues[analyst].popleft()
            if turn.done():
                continue  # its caller was cancelled
            self._running[analyst] += 1
            self._turns[analyst] = max(self._turns.values(), default=0) + 1
            self.started_at = time.monotonic()
            if not self._is_short:
                self._activity.begin(analyst, turn)
            turn.set_result(None)
        for name in [name for name, queue in self._queues.items() if not queue]:
            del self._queues[name]
        if self._queues:  # a call of another pool may become slow, another analyst inactive, and a rest may end
            self._activity.start_later(min(self._activity.find_rest(name, now) or SLOW_S for name in self._queues))

    def _may_start(self, analyst: str, active: set[str], now: float) -> bool:
        sharing, running = len(active | {analyst}), self._running[analyst]
        if sharing == 1:
            return running < self._per_analyst
        share = max(1, CORES // sharing)
        rests = self._activity.find_rest(analyst, now) > 0
        if not self._is_short and (rests or self._activity.count_running(analyst) >= share):
            return False
        return running < min(self._per_analyst, share)

    def _end(self, analyst: str, turn: Turn) -> None:
        self._running[analyst] -= 1
        self._activity.end(analyst, turn)


class LoopTurns:
    """Turns for calls that are answered without a thread. For use from one event loop.

    Beside a light analyst, each of the others has one such call per pass of the loop: a pass stays short.
    """

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._queues: dict[str, deque[Turn]] = {}

    async def wait(self, analyst: str) -> None:
        """Wait for a turn of this analyst."""
        if not self._activity.gives_way(analyst):
            return
        loop = asyncio.get_running_loop()
        if not self._queues:
            loop.call_soon(self._start)
        turn: Turn = loop.create_future()
        self._queues.setdefault(analyst, deque()).append(turn)
        await turn

    def _start(self) -> None:
        """Start the first call of each queue."""
        for queue in self._queues.values():
            turn = queue.popleft()
            if not turn.done():  # otherwise its caller was cancelled
                turn.set_result(None)
        self._queues = {analyst: queue for analyst, queue in self._queues.items() if queue}
        if self._queues:
            asyncio.get_running_loop().call_soon(self._start)
