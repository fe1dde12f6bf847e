"""How the tests of a run are divided: workers take tests from one another, but for those that stay together.

One worker has all tests of a file or folder in `TOGETHER`, and begins with them. Such a file starts something that is
expensive and lives in the worker: a second worker would start it again.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import WorkStealingScheduling
from xdist.scheduler.worksteal import MIN_PENDING
from xdist.workermanage import WorkerController

TOGETHER = (
    "tests/engines/test_spark.py",  # a driver of Spark
    "tests/engines/test_spark_cluster.py",  # another one
    "tests/engines/test_clickhouse.py",  # a process has one folder of ClickHouse open
    "tests/browser/",  # a browser, and the service that it visits
)


class StealingScheduler(WorkStealingScheduling):
    """That of `--dist worksteal`. It names tests by their place in the list that all workers have."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        self._kept: dict[WorkerController, frozenset[int]] = {}

    def check_schedule(self) -> None:
        """Give one worker what stays together; then divide what is left, and move tests from busy to idle workers."""
        for place in TOGETHER:
            self._give([at for at in self.pending if self._file(at).startswith(place)])
        # Tests are moved from the end of the longest queue. The scheduler sees no more of what a worker keeps than it
        # leaves in every queue.
        queues = self.node2pending
        seen = {node: self._seen(queues[node], kept) for node, kept in self._kept.items() if node in queues}
        lengths = {node: len(queue) for node, queue in seen.items()}
        self.node2pending = {**queues, **seen}
        super().check_schedule()
        for node, queue in seen.items():
            queues[node].extend(queue[lengths[node] :])
        self.node2pending = queues

    def _give(self, tests: list[int]) -> None:
        """Give these to the worker that has least to do."""
        nodes = [node for node in self.nodes if not node.shutting_down]
        if tests and nodes:
            node = min(nodes, key=lambda node: len(self.node2pending[node]))
            self._kept[node] = self._kept.get(node, frozenset()).union(tests)
            self.pending = [at for at in self.pending if at not in self._kept[node]]
            self.node2pending[node].extend(tests)
            node.send_runtest_some(tests)

    def _seen(self, queue: list[int], kept: frozenset[int]) -> list[int]:
        return [*[at for at in queue if at in kept][-MIN_PENDING:], *(at for at in queue if at not in kept)]

    def _file(self, at: int) -> str:
        assert self.collection is not None
        return self.collection[at].partition("::")[0]
