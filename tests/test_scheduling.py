"""Workers take tests from one another, but what stays together has one worker."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace

import pytest

from tests.helpers.scheduling import TOGETHER, StealingScheduler

KEPT = (TOGETHER[0], TOGETHER[1], "tests/browser/")
TESTS = [
    *(f"tests/a/test_one.py::test_{i}" for i in range(90)),
    *(f"{TOGETHER[0]}::test_{i}" for i in range(60)),
    *(f"{TOGETHER[1]}::test_{i}" for i in range(5)),
    *(f"tests/browser/test_{file}.py::test_{i}" for file in "ab" for i in range(5)),
    *(f"tests/z/test_two.py::TestTwo::test_{i}" for i in range(50)),
]


class Worker:
    """What a scheduler sees of a worker. It never runs its last test before it knows that there is no other."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.queue: list[int] = []
        self.done: list[int] = []
        self.given_back: list[list[int]] = []
        self.shutting_down = False

    def send_runtest_some(self, tests: list[int]) -> None:
        self.queue.extend(tests)

    def send_steal(self, tests: list[int]) -> None:
        back = [at for at in tests if at in self.queue[1:]]
        self.queue = [at for at in self.queue if at not in back]
        self.given_back.append(back)

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_go_on(self) -> bool:
        return bool(self.given_back) or len(self.queue) > (0 if self.shutting_down else 1)


def take_a_step(scheduler: StealingScheduler, worker: Worker) -> None:
    if worker.given_back:
        scheduler.remove_pending_tests_from_node(worker, worker.given_back.pop())
        return
    worker.done.append(worker.queue.pop(0))
    scheduler.mark_test_complete(worker, worker.done[-1])


def workers_of_a_run(seed: int, number: int) -> list[Worker]:
    config = SimpleNamespace(getvalue=lambda name: [f"{number}*popen"], option=SimpleNamespace(maxprocesses=None))
    scheduler = StealingScheduler(config)
    workers = [Worker(f"gw{at}") for at in range(number)]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, TESTS)
    scheduler.schedule()
    speed = [1 + at for at in range(number)]
    choice = random.Random(seed)
    while any(worker.can_go_on for worker in workers):
        [worker] = choice.choices(workers, speed)
        if worker.can_go_on:
            take_a_step(scheduler, worker)
    return workers


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_each_test_runs_once_and_what_stays_together_runs_first_on_one_worker(seed, number):
    workers = workers_of_a_run(seed, number)
    assert sorted(itertools.chain(*(worker.done for worker in workers))) == list(range(len(TESTS)))
    kept = {worker: set() for worker in workers}
    for place in KEPT:
        together = [at for at, name in enumerate(TESTS) if name.startswith(place)]
        [keeper] = [worker for worker in workers if {*worker.done} & {*together}]
        assert [at for at in keeper.done if at in together] == together
        kept[keeper].update(together)
    assert number == 1 or all({*worker.done[: len(first)]} == first for worker, first in kept.items())


def test_other_tests_go_to_workers_that_have_time():
    """The first worker is slow: others take what it does not keep."""
    keeper, *others = workers_of_a_run(0, 4)
    assert len(keeper.done) < 60 + min(len(worker.done) for worker in others)
    assert len(keeper.done) < 70
