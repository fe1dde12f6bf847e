"""Many connections and a budget for a hundred answers: a hundred leave, each paid once, though a worker is killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sfumato.accounting import NOTHING, Charge
from sfumato.session import Session
from tests.helpers.repeats import repeats
from tests.helpers.servers import PATIENCE_S, Server, new_key, one_unit, run, wait_until, wait_until_ready
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.slow

# The budget is gone within the first hundred and some calls of 64 connections at once. Four rounds are twice as many;
# in all that follow, every call is refused as the last of these are.
CONNECTIONS, EACH, ENOUGH = 64, repeats(4, 50), 100
LATEST_S = 300  # of patience


@dataclass
class Crowd:
    """All that the callers saw."""

    replies: dict[int, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    lost: int = 0
    unavailable: int = 0

    @property
    def answers(self) -> dict[int, dict[str, Any]]:
        return {number: body for number, (status, body) in self.replies.items() if status == 200}


async def ask_all(url: str, key: str, seen: Callable[[Crowd], None] = lambda _: None) -> Crowd:
    """Every connection asks its questions one after the other, each until there is an answer or a refusal."""
    crowd, limits = Crowd(), httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    end = time.monotonic() + LATEST_S

    async def ask(http: httpx2.AsyncClient, number: int) -> None:
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": f"call-{number}"}
        while time.monotonic() < end:
            try:
                reply = await http.post(f"{url}/v1/answers", json=one_unit(number), headers=headers)
            except httpx2.RequestError:
                crowd.lost += 1
                await asyncio.sleep(0.05)
                continue
            if reply.status_code not in (409, 503):
                crowd.replies[number] = reply.status_code, reply.json()
                seen(crowd)
                return
            crowd.unavailable += 1
            await asyncio.sleep(0.05)
        raise TimeoutError(f"question {number} has no reply")

    async def caller(http: httpx2.AsyncClient, place: int) -> None:
        for turn in range(EACH):
            await ask(http, turn * CONNECTIONS + place)

    async with httpx2.AsyncClient(limits=limits, timeout=PATIENCE_S) as http:
        await asyncio.gather(*(caller(http, place) for place in range(CONNECTIONS)))
    return crowd


def check(world: World, crowd: Crowd) -> None:
    """A hundred answers, everything else refused, and books that say the same."""
    assert Counter(status for status, _ in crowd.replies.values()) == {200: ENOUGH, 403: CONNECTIONS * EACH - ENOUGH}
    assert {body["type"] for status, body in crowd.replies.values() if status == 403} == {"/problems/budget-exhausted"}
    assert len({body["receipt"]["digest"] for body in crowd.answers.values()}) == ENOUGH
    receipts = sum((Charge.from_dict(body["receipt"]["charge"]) for body in crowd.answers.values()), NOTHING)
    verified = run(world, "budget", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    tables = world.tables()
    assert tables["holds"] == []
    settled = Counter(row[6] for row in tables["journal"] if row[2] == "settle" and row[3] == "analyst:anna")
    assert set(settled.values()) == {1}
    assert set(settled) == {body["receipt"]["digest"] for body in crowd.answers.values()}
    with Session(world.path, finish=False) as session:
        own = session.budget("anna").accounts[0]
        assert (own.spent, own.reserved, own.left) == (Charge(ENOUGH), NOTHING, NOTHING)
    assert receipts <= Charge(ENOUGH)


def counted(server: Server) -> Counter[str]:
    """The counters of all workers, summed over their labels."""
    text = httpx2.get(f"{server.url}/metrics").text
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if read := re.fullmatch(r"(\w+_total)\{(.*)\} ([0-9.e+]+)", line):
            found[read[1] + ("" if "answers" not in read[1] else " " + read[2])] += int(float(read[3]))
    return found


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_budget_for_a_hundred_gives_a_hundred_answers(tmp_path, request, serve, store):
    several = store == "postgresql"
    ledger = request.getfixturevalue("postgres_url") if several else "sqlite:ledger.db"
    world = new_world(tmp_path / "world", ledger, information=ENOUGH, calls=0)
    server, key = serve(world, *(["--workers", "2"] if several else []), "--log-level", "warning"), new_key(world)
    assert len(server.workers()) == (2 if several else 0)
    crowd = asyncio.run(ask_all(server.url, key))
    metrics = counted(server)
    check(world, crowd)
    assert (crowd.lost, crowd.unavailable) == (0, 0)
    assert sum(Charge.from_dict(body["receipt"]["charge"]).information for body in crowd.answers.values()) == ENOUGH
    assert metrics['sfumato_answers_total repeat="false"'] == ENOUGH
    assert metrics["sfumato_problems_total"] == CONNECTIONS * EACH - ENOUGH
    assert metrics["sfumato_requests_total"] >= CONNECTIONS * EACH
    server.stop()
    assert server.err.read_text() == ""


@pytest.mark.exhaustive  # every run has a worker that dies, below
def test_the_same_while_a_worker_is_killed(tmp_path, postgres_url, serve):
    world = new_world(tmp_path / "world", postgres_url, information=ENOUGH, calls=0)
    server, key = serve(world, "--workers", "2"), new_key(world)
    before, killed = server.workers(), []

    def kill(crowd: Crowd) -> None:
        # Twice: in the middle of the answers, and again once nearly all budget is reserved.
        if len(killed) < 2 and len(crowd.answers) >= (30, 95)[len(killed)]:
            killed.append(server.workers()[0])
            os.kill(killed[-1], signal.SIGKILL)

    crowd = asyncio.run(ask_all(server.url, key, kill))
    assert killed
    assert crowd.lost > 0
    check(world, crowd)
    wait_until_ready(server)
    wait_until(lambda: len(server.workers()) == 2)
    assert set(server.workers()) != set(before)
    assert server.stop() == 0
    assert [line for line in server.lines() if "error" in line] == []
    left = list((world.folder / "tmp").iterdir())  # the dead could not clear theirs away; there is nothing in it
    assert len(left) <= len(killed)
    assert [file for folder in left for file in folder.iterdir()] == []


def test_a_worker_that_dies_while_it_computes_leaves_nothing_open(tmp_path, postgres_url, serve):
    """The same request again finishes the reservation of the dead process, and costs nothing more."""
    world = new_world(tmp_path / "world", postgres_url, information=ENOUGH, calls=0)
    with Session(world.path) as session:
        runtime = session._runtime
        object.__setattr__(runtime, "engines", {name: Broken() for name in runtime.engines})
        for number in range(3):
            with pytest.raises(Exception, match="the engine could not answer"):
                session.ask(one_unit(number), analyst="anna")
    assert len(world.tables()["holds"]) == 3
    server, key = serve(world, "--workers", "2"), new_key(world)
    for number in range(3):
        headers = {"Authorization": f"Bearer {key}"}
        reply = httpx2.post(f"{server.url}/v1/answers", json=one_unit(number), headers=headers)
        assert (reply.status_code, reply.headers["sfumato-left-information"]) == (200, "97")
    assert world.tables()["holds"] == []


def test_workers_come_back_when_the_ledger_does(tmp_path, postgres_url, serve):
    """The database refuses, and a worker dies: those that are left say so, and new ones are tried until it is back."""
    world = new_world(tmp_path / "world", postgres_url)
    key, server = new_key(world), serve(world, "--workers", "2", ready=False)
    assert (
        httpx2.get(f"{server.url}/healthz", timeout=PATIENCE_S).status_code == 200
    )  # it listens before it tells where
    wait_until_ready(server)
    name = conninfo_to_dict(postgres_url)["dbname"]
    headers = {"Authorization": f"Bearer {key}"}
    with psycopg.connect(make_conninfo(postgres_url, dbname="postgres"), autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        lost = httpx2.post(f"{server.url}/v1/answers", json=one_unit(1), headers=headers, timeout=PATIENCE_S)
        assert (lost.status_code, lost.json()["type"]) == (503, "/problems/ledger-failed")
        os.kill(server.workers()[0], signal.SIGKILL)
        wait_for_line(server, "worker did not start")
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    started = sum(line["event"] == "started" for line in server.lines())
    wait_for_line(server, "started", started + 1)
    assert (
        httpx2.post(f"{server.url}/v1/answers", json=one_unit(1), headers=headers, timeout=PATIENCE_S).status_code
        == 200
    )
    assert server.stop() == 0


def wait_for_line(server: Server, event: str, times: int = 1) -> None:
    wait_until(lambda: sum(line["event"] == event for line in server.lines()) >= times)


class Broken:
    """An engine that never delivers."""

    def run(self, query: object) -> list[Any]:
        raise OSError

    def close(self) -> None:
        pass


def test_several_workers_need_postgresql(tmp_path):
    world = new_world(tmp_path / "world")
    done = run(world, "serve", "--workers", "2", "--port", "0")
    assert done.returncode == 2
    assert "a SQLite ledger serves one process" in " ".join((done.stdout + done.stderr).split())
    printed = json.loads(run(world, "serve", "--workers", "2", "--port", "0", "--json").stdout)
    assert "SQLite" in json.dumps(printed)


def test_a_port_in_use_is_reported(tmp_path, serve):
    world = new_world(tmp_path / "world")
    server = serve(world)
    done = run(new_world(tmp_path / "another"), "serve", "--port", str(server.port))
    assert done.returncode == 4
    assert "cannot be listened on" in " ".join((done.stdout + done.stderr).split())
