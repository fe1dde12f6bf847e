"""Thread pools: turns, shares, limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sfumato.errors import LedgerFailed, RateLimited
from sfumato.service import pools
from sfumato.service.pools import MAX_QUEUED, STRANGER, Activity, Pool


class Held:
    """Calls that run until they are told to end, and the order in which they began."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.gate = threading.Semaphore(0)

    def work(self, name: str) -> Callable[[], None]:
        def run() -> None:
            self.began.append(name)
            self.gate.acquire(timeout=60)

        return run


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_one_call_is_not_behind_fifty_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "CORES", 2)

    async def story() -> list[str]:
        pool, held = Pool(4, 4, Activity()), Held()
        calls = [asyncio.create_task(pool.run("anna", held.work("anna"))) for _ in range(50)]
        await settle(lambda: len(held.began) == 4)
        calls.append(asyncio.create_task(pool.run("ben", held.work("ben"))))
        await asyncio.sleep(0)
        held.gate.release()
        await settle(lambda: len(held.began) == 5)
        first = held.began[4]
        held.gate.release(50)
        await asyncio.gather(*calls)
        assert held.began.count("anna") == 50
        return [first]

    assert asyncio.run(story()) == ["ben"]


def test_analysts_take_turns() -> None:
    async def story() -> list[str]:
        pool, held = Pool(1, 1, Activity()), Held()
        calls = [asyncio.create_task(pool.run(name, held.work(name))) for name in "aaaabbbcc"]
        await settle(lambda: len(held.began) == 1)
        held.gate.release(9)
        await asyncio.gather(*calls)
        return held.began

    assert "".join(asyncio.run(story())) == "abcabcaba"


@pytest.mark.parametrize(("cores", "most"), [(2, 1), (4, 2), (16, 6), (1, 1)])
def test_active_analysts_divide_the_cores(monkeypatch: pytest.MonkeyPatch, cores: int, most: int) -> None:
    """Alone, anna has six threads. While ben is active she has her part of the cores, and all six again later."""
    monkeypatch.setattr(pools, "CORES", cores)

    async def story() -> None:
        pool, held, other = Pool(40, 6, Activity()), Held(), Held()
        calls = [asyncio.create_task(pool.run("anna", held.work("anna"))) for _ in range(30)]
        await settle(lambda: len(held.began) == 6)
        calls.append(asyncio.create_task(pool.run("ben", other.work("ben"))))
        await settle(lambda: len(other.began) == 1)
        held.gate.release(6)
        await settle(lambda: pool._running["anna"] == most and len(held.began) == 6 + most)
        monkeypatch.setattr(pools, "ACTIVE_S", 0.0)
        other.gate.release()
        await settle(lambda: len(held.began) == 12)
        held.gate.release(30)
        await asyncio.gather(*calls)

    asyncio.run(story())


@pytest.mark.parametrize(("other", "most"), [("ben", 1), (STRANGER, 6)])
def test_activity_in_another_pool_counts(monkeypatch: pytest.MonkeyPatch, other: str, most: int) -> None:
    """Except of strangers, who would take threads away from analysts."""
    monkeypatch.setattr(pools, "CORES", 2)

    async def story() -> None:
        activity, held, beside = Activity(), Held(), Held()
        calls = [asyncio.create_task(Pool(8, 8, activity).run(other, beside.work("beside")))]
        await settle(lambda: len(beside.began) == 1)
        pool = Pool(40, 6, activity)
        calls += [asyncio.create_task(pool.run("anna", held.work("anna"))) for _ in range(10)]
        await settle(lambda: len(held.began) == most)
        await asyncio.sleep(0.01)
        assert len(held.began) == pool._running["anna"] == most
        beside.gate.release()
        held.gate.release(10)
        await asyncio.gather(*calls)

    asyncio.run(story())


def test_a_queue_has_an_end() -> None:
    async def story() -> None:
        pool, held = Pool(1, 1, Activity()), Held()
        calls = [asyncio.create_task(pool.run("anna", held.work("anna"))) for _ in range(MAX_QUEUED + 1)]
        await settle(lambda: len(held.began) == 1)
        with pytest.raises(RateLimited, match="queued"):
            await pool.run("anna", held.work("anna"))
        ben = asyncio.create_task(pool.run("ben", held.work("ben")))
        held.gate.release(MAX_QUEUED + 2)
        await asyncio.gather(*calls, ben)

    asyncio.run(story())


def test_a_call_that_is_given_up_leaves_the_queue() -> None:
    async def story() -> None:
        pool, held = Pool(1, 1, Activity()), Held()
        first = asyncio.create_task(pool.run("anna", held.work("first")))
        await settle(lambda: held.began == ["first"])
        lost: list[asyncio.Task[Any]] = [asyncio.create_task(pool.run("anna", held.work("lost"))) for _ in range(3)]
        last = asyncio.create_task(pool.run("anna", held.work("last")))
        await asyncio.sleep(0)
        for call in lost:
            call.cancel()
        held.gate.release(2)
        await asyncio.gather(first, last)
        assert held.began == ["first", "last"]
        assert not +pool._running

    asyncio.run(story())


def test_a_turn_that_does_not_come_is_refused() -> None:
    async def story() -> None:
        pool, held = Pool(1, 1, Activity(), max_wait_s=0.01), Held()
        first = asyncio.create_task(pool.run("anna", held.work("first")))
        await settle(lambda: held.began == ["first"])
        with pytest.raises(LedgerFailed, match="send it again"):
            await pool.run("ben", held.work("late"))
        held.gate.release(2)
        await first
        await pool.run("ben", held.work("next"))
        assert held.began == ["first", "next"]

    asyncio.run(story())


class TestSeveralKindsOfCalls:
    """An analyst whose calls are in several pools has one share of the machine, not one per pool."""

    @pytest.fixture(autouse=True)
    def two_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pools, "CORES", 2)

    def test_share_one_thread_beside_another_analyst(self) -> None:
        async def story() -> None:
            activity, held, other = Activity(), Held(), Held()
            kinds = [Pool(8, 4, activity) for _ in range(4)]
            calls = [asyncio.create_task(kinds[0].run("ben", other.work("ben")))]
            await settle(lambda: len(other.began) == 1)
            for number, pool in enumerate(kinds):
                calls += [asyncio.create_task(pool.run("anna", held.work(str(number)))) for _ in range(3)]
            for done in range(12):
                await settle(lambda done=done: len(held.began) > done)
                await asyncio.sleep(0.002)
                assert len(held.began) == done + 1
                held.gate.release()
            other.gate.release()
            await asyncio.gather(*calls)
            assert all(set(held.began[first : first + 4]) == set("0123") for first in (0, 4, 8))  # kinds take turns

        asyncio.run(story())

    def test_use_all_their_threads_alone(self) -> None:
        async def story() -> None:
            activity, held = Activity(), Held()
            kinds = [Pool(8, 4, activity) for _ in range(4)]
            calls = [asyncio.create_task(pool.run("anna", held.work("anna"))) for pool in kinds for _ in range(4)]
            await settle(lambda: len(held.began) == 16)
            held.gate.release(16)
            await asyncio.gather(*calls)

        asyncio.run(story())

    def test_do_not_wait_behind_a_slow_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pools, "SLOW_S", 0.05)

        async def story() -> None:
            activity, slow, held, other = Activity(), Held(), Held(), Held()
            asking, reading = Pool(8, 4, activity), Pool(8, 4, activity)
            calls = [asyncio.create_task(reading.run("ben", other.work("ben")))]
            calls += [asyncio.create_task(asking.run("anna", slow.work("slow"))) for _ in range(2)]
            await settle(lambda: len(slow.began) == 1)
            calls.append(asyncio.create_task(reading.run("anna", held.work("anna"))))
            await settle(lambda: len(held.began) == 1)  # when the question has become slow
            assert len(slow.began) == 1  # of one kind, they do
            for each in (slow, held, other):
                each.gate.release(2)
            await asyncio.gather(*calls)

        asyncio.run(story())

    def test_short_calls_are_not_held_up(self) -> None:
        async def story() -> None:
            activity, other, short = Activity(), Held(), Held()
            asking, checking = Pool(8, 4, activity), Pool(8, 8, activity, is_short=True)
            calls = [asyncio.create_task(asking.run(name, other.work(name))) for name in ("anna", "ben")]
            await settle(lambda: len(other.began) == 2)
            calls.append(asyncio.create_task(checking.run("anna", short.work("anna"))))
            await settle(lambda: len(short.began) == 1)
            for each in (other, short):
                each.gate.release(2)
            await asyncio.gather(*calls)

        asyncio.run(story())
