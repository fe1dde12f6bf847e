"""A service that is stopped or killed: nothing is charged twice, nothing that was paid is lost, and it ends in time."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING, Charge
from sfumato.client.client import Client
from sfumato.service.pools import ASK
from tests.helpers.repeats import repeats
from tests.helpers.servers import ENDLESS, IDLE, PATIENCE_S, SLEEPY, SLOW, Server, new_key, one_unit, run, wait_until
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.slow

# Most kills meet four calls under way, each somewhere on its path. A moment that takes a share f of the path is missed
# by all of them with probability (1 - f)^(4 * KILLS); tests/answers/test_kills.py kills at every step of it.
KILLS, CALLERS, QUESTIONS, LATEST = repeats(8, 40), 4, 400, 20
ENDS = (0, -signal.SIGTERM, 128 + signal.SIGINT)  # uvicorn ends with the signal that stopped it
GRACE = "import sfumato.service.server as serving; serving.GRACE_S = 2\n"
NO_END = "import sfumato.service.server as serving; serving.GRACE_S = 100_000\n"


def post(server: Server, key: str, question: Any, once: str | None = None) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} | ({} if once is None else {"Idempotency-Key": once})
    return httpx2.post(f"{server.url}/v1/answers", json=question, headers=headers, timeout=PATIENCE_S)


def differing(literal: int, number: int) -> dict[str, Any]:
    """Every number another question, each with the literal in it."""
    return {**one_unit(literal), "where": {"and": [{"n": {"ne": literal}}, {"n": {"ne": number}}]}}


def holds(world: World) -> int:
    return len(world.tables()["holds"])


def wait_for_holds(world: World, wanted: int) -> None:
    wait_until(lambda: holds(world) == wanted)


def verified(world: World) -> bool:
    return run(world, "budget", "verify").returncode == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_what_is_running_is_answered_before_the_end(tmp_path, serve, signum):
    world = new_world(tmp_path / "world")
    server, key = serve(world, first=SLEEPY), new_key(world)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(post, server, key, differing(SLOW, number)) for number in range(4)]
        wait_for_holds(world, 4)
        server.process.send_signal(signum)
        replies = [each.result() for each in running]
    assert server.process.wait(PATIENCE_S) in ENDS
    assert [reply.status_code for reply in replies] == [200] * 4
    assert holds(world) == 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{server.url}/readyz")
    again = serve(world)
    for number, reply in enumerate(replies):
        repeat = post(again, key, differing(SLOW, number)).json()
        assert repeat["rows"] == reply.json()["rows"]
        assert repeat["receipt"]["charge"] == {"information": "0", "calls": "0"}
    assert again.stop() in ENDS
    assert list((world.folder / "tmp").iterdir()) == []


def test_what_does_not_end_stays_reserved_and_is_finished_by_the_next(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server, key = serve(world, first=SLEEPY + GRACE), new_key(world)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(post, server, key, one_unit(ENDLESS), "the-call")
        wait_for_holds(world, 1)
        since = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) in ENDS  # it ends, though what is running never would
        assert time.monotonic() - since > 1.5  # not before the grace is over
        reply = running.result()
    assert (reply.status_code, reply.json()["type"], reply.headers["retry-after"]) == (503, "/problems/failed", "5")
    assert holds(world) == 1
    assert list((world.folder / "tmp").iterdir()) == []
    again = serve(world)
    wait_for_holds(world, 0)
    reply = post(again, key, one_unit(ENDLESS), "the-call").json()
    with sf.Client(again.url, key) as client:
        own = client.budget().accounts[0]
    assert (own.spent, own.reserved) == (Charge(1), NOTHING)
    assert reply["receipt"]["left"]["information"] == "2999"
    assert verified(world)


def test_a_second_signal_ends_it_at_once(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server, key = serve(world, first=SLEEPY + NO_END), new_key(world)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(post, server, key, one_unit(ENDLESS))
        wait_for_holds(world, 1)
        while server.process.poll() is None:  # until one has come after the first was noticed
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        running.exception()
    serve(world)
    wait_for_holds(world, 0)


def test_an_idle_connection_does_not_hold_up_the_end(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server = serve(world, first=NO_END)
    with httpx2.Client(base_url=server.url) as http:
        assert http.get("/healthz").status_code == 200
        server.stop()  # waits for its end, and fails if it does not come while the connection is open


def test_traces_are_sent_before_the_end(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server, key = serve(world, env={"OTEL_TRACES_EXPORTER": "console"}), new_key(world)
    assert post(server, key, one_unit(1)).status_code == 200
    server.stop()
    assert '"http.route": "/v1/answers"' in server.out.read_text()


def test_the_ledger_that_goes_away_is_told_and_comes_back(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server, key = serve(world), new_key(world)
    assert post(server, key, one_unit(1)).status_code == 200
    ledger, away = world.folder / "ledger.db", world.folder / "away.db"
    ledger.rename(away)
    wait_until(lambda: httpx2.get(f"{server.url}/readyz").status_code == 503)  # a check is good for one second
    ready = httpx2.get(f"{server.url}/readyz")
    assert (ready.status_code, ready.json()["checks"]["ledger"]) == (503, "not ok")
    assert httpx2.get(f"{server.url}/healthz").status_code == 200
    lost = post(server, key, one_unit(2))
    assert (lost.status_code, lost.json()["type"]) == (503, "/problems/ledger-failed")
    assert post(server, key, one_unit(1)).status_code == 503
    assert not ledger.exists()
    away.rename(ledger)
    wait_until(lambda: httpx2.get(f"{server.url}/readyz").status_code == 200)
    assert post(server, key, one_unit(2)).status_code == 200
    assert [line for line in server.lines() if "error" in line] == []


@contextmanager
def callers(server: Server, key: str, seen: list[tuple[int, str]], turn: int) -> Iterator[None]:
    """Threads that ask at random until the service is gone, each call without retries."""
    stopped = threading.Event()

    def ask(place: int) -> None:
        chance = random.Random(1000 * turn + place)
        with Client(server.url, key, retries=0, timeout_s=PATIENCE_S) as client:
            while not stopped.is_set():
                number = chance.randrange(QUESTIONS)
                try:
                    answer = client.ask(one_unit(number))
                except sf.errors.SfumatoError:
                    return
                seen.append((number, json.dumps([answer.receipt.digest, *answer.rows])))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(CALLERS)]
    for thread in threads:
        thread.start()
    yield
    stopped.set()
    for thread in threads:
        thread.join()


@pytest.mark.exhaustive  # every run has the kills of tests/answers/test_kills.py
def test_killed_at_any_moment_nothing_is_charged_twice(tmp_path, serve):
    world = new_world(tmp_path / "world", information=100_000)
    key, chance, seen = new_key(world), random.Random(6), []
    for turn in range(KILLS):
        server = serve(world, "--log-level", "warning")
        latest = len(seen) + chance.randrange(LATEST)  # counted, not timed: a busy machine comes as far
        with callers(server, key, seen, turn):
            wait_until(lambda latest=latest: len(seen) >= latest)
            time.sleep(chance.uniform(0, 0.02))  # to anywhere within the next answers
            server.kill()
    last = serve(world)
    wait_for_holds(world, 0)
    assert len(set(seen)) == len(dict(seen))  # one question, one answer
    settled = [row[6] for row in world.tables()["journal"] if row[2] == "settle" and row[3] == "analyst:anna"]
    assert len(settled) == len(set(settled)) >= len(dict(seen))
    with sf.Client(last.url, key) as client:
        assert client.budget().accounts[0].spent == Charge(len(settled))
        for number, stored in sorted(set(seen))[:20]:
            answer = client.ask(one_unit(number))
            assert json.dumps([answer.receipt.digest, *answer.rows]) == stored
            assert answer.receipt.charge == NOTHING
    assert len(seen) > 2 * KILLS
    assert verified(world)


def test_slow_questions_hold_up_nothing_but_questions(tmp_path, serve):
    """One analyst uses all her threads; probes and other routes still answer."""
    world = new_world(tmp_path / "world")
    server, key = serve(world, first=SLEEPY + GRACE), new_key(world)
    _, each = ASK
    endless = [differing(IDLE, number) for number in range(each)]
    with ThreadPoolExecutor(each) as pool:
        running = [pool.submit(post, server, key, question) for question in endless]
        wait_for_holds(world, each)
        for path in ("/healthz", "/readyz", "/v1/budget", "/v1/tables"):
            headers = {"Authorization": f"Bearer {key}"}
            assert httpx2.get(f"{server.url}{path}", headers=headers, timeout=PATIENCE_S).status_code == 200
        assert server.stop() in ENDS
        assert {each.result().status_code for each in running} == {503}
    assert holds(world) == each
