"""Thread pools, one per kind of call, with a limit per analyst."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sfumato.errors import RateLimited

T = TypeVar("T")

# Pool sizes: (threads, threads per analyst).
ASK, REPORT, ESTIMATE, READ = (40, 10), (16, 3), (4, 2), (16, 4)

MAX_QUEUED = 200  # calls of one analyst that wait for a thread: each holds a connection and a body


class Pool:
    """A pool of threads in which one analyst uses at most `per_analyst`. For use from one event loop."""

    def __init__(self, threads: int, per_analyst: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._analysts: defaultdict[str, CapacityLimiter] = defaultdict(lambda: CapacityLimiter(per_analyst))

    async def run(self, analyst: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raises `RateLimited` if too many calls of this analyst are queued."""
        own = self._analysts[analyst]
        if own.statistics().tasks_waiting >= MAX_QUEUED:
            raise RateLimited(f"more than {MAX_QUEUED} of your calls are queued; wait until some have ended", 1)
        async with own:
            return await to_thread.run_sync(work, limiter=self._threads)
