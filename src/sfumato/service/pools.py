"""Who waits for whom: threads for each kind of call, so that slow questions stop nothing but questions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import RateLimited

T = TypeVar("T")

WAITING = 200  # calls of one analyst that may wait for her others: each holds a connection and a body


class Pool:
    """So many threads, and so many of them for one analyst: others do not wait for hers. Use it from one event loop."""

    def __init__(self, threads: int, each: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._turns: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(each))

    async def run(self, analyst: str, work: Callable[[], T]) -> T:
        """What `work` returns, from a thread, when it is this analyst's turn; `RateLimited` if too many wait."""
        turn = self._turns[analyst]
        if turn.statistics().tasks_waiting >= WAITING:
            raise RateLimited(f"more than {WAITING} calls are waiting for others of yours; wait for them", 1)
        async with turn:
            return await to_thread.run_sync(work, limiter=self._threads)
