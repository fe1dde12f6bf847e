"""Readiness while the ledger is stuck: replies come, and checks do not pile up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sfumato.errors import LedgerFailed
from sfumato.ledger import Ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.service import pools, readiness
from tests.helpers.served import Served


class Stuck:
    """A check of the ledger that does not return before it is told to."""

    def __init__(self) -> None:
        self.gate, self.calls, self.running, self.most = threading.Event(), 0, 0, 0

    def __call__(self) -> None:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.gate.wait(60)
        self.running -= 1


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Stuck:
    check = Stuck()
    monkeypatch.setattr(Ledger, "check", lambda _: check())
    return check


def test_a_stuck_ledger_is_not_ready(served: Served, stuck: Stuck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "MAX_READINESS_S", 1.0)
    monkeypatch.setattr(readiness, "INTERVAL_S", 0.0)
    try:
        reply = served.get("/readyz")
        assert (reply.status, reply.json["checks"]) == (503, {"ledger": "not ok", "engines": "ok"})
        monkeypatch.setattr(readiness, "MAX_READINESS_S", -60.0)  # no call waits: this check hangs
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: served.get("/readyz"), range(100)))
        assert {reply.status for reply in replies} == {503}
        assert {reply.headers["retry-after"] for reply in replies} == {"5"}
        assert (stuck.calls, stuck.most) == (1, 1)
        assert served.get("/healthz").status == 200
    finally:
        stuck.gate.set()
    monkeypatch.setattr(readiness, "MAX_READINESS_S", 60.0)
    assert served.get("/readyz").status == 200


def test_one_check_serves_all_who_ask_within_a_second(
    served: Served, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "MAX_READINESS_S", 60.0)
    monkeypatch.setattr(readiness, "INTERVAL_S", 600.0)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(served.get, "/readyz") for _ in range(50)]
        stuck.gate.set()
        assert {each.result().status for each in asked} == {200}
    assert stuck.calls == 1
    monkeypatch.setattr(readiness, "INTERVAL_S", 0.0)
    assert served.get("/readyz").status == 200
    assert stuck.calls == 2


def test_the_log_says_once_why_the_ledger_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Ledger) -> None:
        raise LedgerFailed("the disk is full")

    monkeypatch.setattr(readiness, "INTERVAL_S", 0.0)
    assert served.get("/readyz").status == 200
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "check", fail)
        assert [served.get("/readyz").status for _ in range(3)] == [503] * 3
    assert [served.get("/readyz").status for _ in range(3)] == [200] * 3
    told = [(record.getMessage(), vars(record)["fields"]) for record in caplog.records if hasattr(record, "fields")]
    assert told == [
        ("not ready", {"part": "ledger", "why": "the disk is full"}),
        ("ready again", {"part": "ledger"}),
    ]


def test_a_check_that_breaks_is_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "check", lambda _: 1 / 0)
    reply = served.get("/readyz")
    assert (reply.status, reply.json["status"]) == (503, "not ready")


def test_callers_do_not_queue_behind_a_stuck_ledger(
    serving: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads that authenticate wait for the ledger. Calls behind them get a 503 and do not wait for their turn."""
    monkeypatch.setattr(pools, "MAX_WAIT_S", 0.1)
    gate, entered, real = threading.Event(), threading.Semaphore(0), ApiKeys.find

    def find(*arguments: Any) -> Any:
        entered.release()
        gate.wait(60)
        return real(*arguments)

    served = serving()
    key, threads = served.key(), pools.AUTHENTICATE[0]
    monkeypatch.setattr(ApiKeys, "find", find)
    with ThreadPoolExecutor(threads) as pool:
        held = [pool.submit(served.get, "/v1/budget", key) for _ in range(threads)]
        for _ in held:
            assert entered.acquire(timeout=60)
        try:
            late = [served.get("/v1/budget", key) for _ in range(3)]
        finally:
            gate.set()
        assert {each.result().status for each in held} == {200}
    assert {(reply.status, reply.kind, reply.headers["retry-after"]) for reply in late} == {(503, "ledger-failed", "5")}
    assert served.get("/v1/budget", key).status == 200
