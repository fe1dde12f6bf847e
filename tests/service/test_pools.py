"""Thread pools: turns, shares, limits; on the loop that the service runs on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from sfumato.errors import EngineFailed, LedgerBusy, LedgerFailed, RateLimited
from sfumato.service import pools
from sfumato.service.pools import MAX_QUEUED, STRANGER, Activity, LoopTurns, Pool


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

    assert uvloop.run(story()) == ["ben"]


def test_analysts_take_turns() -> None:
    async def story() -> list[str]:
        pool, held = Pool(1, 1, Activity()), Held()
        calls = [asyncio.create_task(pool.run(name, held.work(name))) for name in "aaaabbbcc"]
        await settle(lambda: len(held.began) == 1)
        held.gate.release(9)
        await asyncio.gather(*calls)
        return held.began

    assert "".join(uvloop.run(story())) == "abcabcaba"


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

    uvloop.run(story())


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

    uvloop.run(story())


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

    uvloop.run(story())


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

    uvloop.run(story())


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

    uvloop.run(story())


def busy(is_stuck: bool) -> LedgerBusy:
    error = LedgerBusy("another process holds it", 7)
    error.is_stuck = is_stuck
    return error


class TestAStuckLedger:
    """One call has waited for the ledger in vain. Those that are queued would wait as long, one after the other."""

    @pytest.mark.parametrize(
        ("error", "refused"), [(busy(True), 6), (busy(False), 0), (LedgerFailed("damaged"), 0), (EngineFailed("no"), 0)]
    )
    def test_ends_the_waiting_of_all(self, error: Exception, refused: int) -> None:
        """Of all analysts: a thread may be free for them only when those of another have ended."""

        async def story() -> None:
            pool, stuck, held = Pool(2, 1, Activity()), Held(), Held()

            def fail() -> None:
                stuck.work("stuck")()
                raise error

            failing = asyncio.create_task(pool.run("anna", fail))
            running = asyncio.create_task(pool.run("ben", held.work("ben")))
            await settle(lambda: len(stuck.began) == len(held.began) == 1)
            queued = [asyncio.create_task(pool.run(name, held.work(name))) for name in ("anna", "ben", "cleo") * 2]
            lost = asyncio.create_task(pool.run("anna", held.work("lost")))
            await asyncio.sleep(0)
            lost.cancel()
            stuck.gate.release()
            with pytest.raises(type(error), match=str(error)):
                await failing
            held.gate.release(10)
            ended = [each for each in await asyncio.gather(*queued, return_exceptions=True) if each is not None]
            assert [(type(each), str(each), each.retry_after_s) for each in ended] == [
                (LedgerBusy, str(error), 7)
            ] * refused
            await running
            await pool.run("anna", held.work("next"))  # the next call tries again
            assert len(held.began) == 8 - refused
            assert not +pool._running

        uvloop.run(story())

    def test_is_no_matter_of_calls_behind_a_slow_engine(self) -> None:
        async def story() -> None:
            activity, slow, held = Activity(), Held(), Held()
            asking, reading = Pool(1, 1, activity), Pool(1, 1, activity)

            def fail() -> None:
                raise busy(True)

            calls = [asyncio.create_task(asking.run("anna", slow.work("slow"))) for _ in range(3)]
            await settle(lambda: len(slow.began) == 1)
            with pytest.raises(LedgerBusy):
                await reading.run("ben", fail)  # what a call of another kind finds is not what these will find
            await reading.run("ben", lambda: held.gate.release())
            slow.gate.release(3)
            await asyncio.gather(*calls)
            assert len(slow.began) == 3

        uvloop.run(story())


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
            assert [set(held.began[first : first + 4]) for first in (0, 4, 8)] == [set("0123")] * 3  # kinds take turns

        uvloop.run(story())

    def test_use_all_their_threads_alone(self) -> None:
        async def story() -> None:
            activity, held = Activity(), Held()
            kinds = [Pool(8, 4, activity) for _ in range(4)]
            calls = [asyncio.create_task(pool.run("anna", held.work("anna"))) for pool in kinds for _ in range(4)]
            await settle(lambda: len(held.began) == 16)
            held.gate.release(16)
            await asyncio.gather(*calls)

        uvloop.run(story())

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

        uvloop.run(story())

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

        uvloop.run(story())


class TestGivingWay:
    """Others give way to an analyst with few calls."""

    @pytest.fixture(autouse=True)
    def two_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pools, "CORES", 2)

    def test_a_call_waits_as_long_as_the_one_before_took(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Times have lower bounds only: a busy machine makes them longer. No call becomes slow meanwhile."""
        monkeypatch.setattr(pools, "SLOW_S", 3600.0)

        async def story() -> None:
            activity, held, light = Activity(), Held(), Held()
            pool, times = Pool(8, 4, activity), list[float]()

            def work() -> None:
                times.append(time.monotonic())
                held.gate.acquire(timeout=60)
                times.append(time.monotonic())

            calls = [asyncio.create_task(pool.run("ben", light.work("ben")))]
            await settle(lambda: len(light.began) == 1)
            calls += [asyncio.create_task(pool.run("anna", work)) for _ in range(3)]
            for done in range(3):
                await settle(lambda done=done: len(times) == 2 * done + 1)
                await asyncio.sleep(0.02)
                held.gate.release()
            light.gate.release()
            await asyncio.gather(*calls)
            for begin, end, following in zip(times[::2], times[1::2], times[2::2], strict=False):
                assert following - end > 0.9 * (end - begin)

        uvloop.run(story())

    @pytest.mark.parametrize("waiting", [0, 1])
    def test_only_while_the_other_has_a_call_and_none_that_waits(
        self, monkeypatch: pytest.MonkeyPatch, waiting: int
    ) -> None:
        monkeypatch.setattr(pools, "SLOW_S", 3600.0)

        async def story() -> None:
            activity, held, light = Activity(), Held(), Held()
            pool, narrow = Pool(8, 4, activity), Pool(8, 1, activity)
            calls = [asyncio.create_task(narrow.run("ben", light.work("ben"))) for _ in range(1 + waiting)]
            await settle(lambda: len(light.began) == 1)
            activity._rests["anna"] = time.monotonic() + 3600
            calls.append(asyncio.create_task(pool.run("anna", held.work("anna"))))
            if waiting:
                with suppress(TimeoutError):
                    await settle(lambda: len(held.began) == 1)
            await asyncio.sleep(0.01)
            started = len(held.began)
            light.gate.release(2)
            held.gate.release()
            _, pending = await asyncio.wait(calls, timeout=20)
            for call in pending:
                call.cancel()
            assert (started, pending) == (waiting, set())

        uvloop.run(story())

    def test_calls_without_a_thread_are_one_per_pass(self) -> None:
        async def story() -> list[str]:
            activity, light, order = Activity(), Held(), list[str]()
            passes = LoopTurns(activity)

            async def answer(name: str) -> None:
                await passes.wait(name)
                order.append(name)

            other = asyncio.create_task(Pool(8, 4, activity).run("ben", light.work("ben")))
            await settle(lambda: len(light.began) == 1)
            calls = [asyncio.create_task(answer(name)) for name in "aaaaccc"]
            lost = asyncio.create_task(answer("a"))
            await asyncio.sleep(0)
            lost.cancel()
            assert order == []
            await asyncio.gather(*calls)
            light.gate.release()
            await other
            await passes.wait("a")  # at once: there is no light analyst any more
            return order

        assert "".join(uvloop.run(story())) == "acacaca"
