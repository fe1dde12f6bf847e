"""The policy of a running process: SIGHUP and a changed file, with one process and with several."""

from __future__ import annotations

import os
import signal

import httpx2
import pytest

from tests.helpers.servers import new_key, wait_until
from tests.helpers.worlds import new_world

pytestmark = pytest.mark.slow

ZOE = '\n[analysts.zoe]\nbudget = "partner"\n'


def status(server, key):
    reply = httpx2.get(f"{server.url}/v1/budget", headers={"authorization": f"Bearer {key}"}, timeout=30)
    return reply.status_code


def events(server):
    return [line.get("message", line.get("event", "")) for line in server.lines()]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_new_analyst_works_without_a_restart(tmp_path, request, serve, store):
    several = store == "postgresql"
    ledger = request.getfixturevalue("postgres_url") if several else "sqlite:ledger.db"
    world = new_world(tmp_path / "world", ledger)
    server = serve(world, *(["--workers", "2"] if several else []))
    workers, text, key = server.workers(), world.path.read_text(), new_key(world, "zoe")
    assert status(server, key) == 401
    beside = world.path.with_name("new.toml")
    beside.write_text(text + ZOE)
    beside.replace(world.path)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: [status(server, key) for _ in range(8)] == [200] * 8)

    world.path.write_text(text + ZOE + "[analysts.yan\n")
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: any("not taken" in each for each in events(server)))
    assert status(server, key) == 200

    world.path.write_text(text)  # without a signal
    wait_until(lambda: [status(server, key) for _ in range(8)] == [401] * 8)
    assert server.workers() == workers
    assert server.process.poll() is None
