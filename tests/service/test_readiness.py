"""Readiness while the ledger is stuck: replies come, and checks do not pile up."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfumato.ledger import Ledger
from sfumato.service import readiness
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
    monkeypatch.setattr(readiness, "MAX_READINESS_S", 0.2)
    monkeypatch.setattr(readiness, "INTERVAL_S", 0.0)
    try:
        assert served.get("/readyz").status == 503
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


def test_a_check_that_breaks_is_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "check", lambda _: 1 / 0)
    reply = served.get("/readyz")
    assert (reply.status, reply.json["status"]) == (503, "not ready")
