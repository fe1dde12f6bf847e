"""A process that is frozen while it uses the fence: others are refused within seconds, and go on when it is over."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.postgres_connection import connect
from sfumato.ledger.postgres_fence import PostgresFence
from sfumato.ledger.store import LIMITS, Limits
from tests.contracts.fence import mark
from tests.helpers.frozen import freeze, frozen, running, then_freeze
from tests.helpers.worlds import new_world, standing

TOTAL = "SELECT members FROM engagements WHERE day <> '2026-11-07'"
SECONDS = 60  # before a test gives up


def hold_file(path: Path, more: int) -> str:
    """Add a mark, and freeze before it is on disk."""
    fence = FileFence(path)
    known = fence.mark()
    with patch.object(os, "fsync", then_freeze(lambda _: None)):
        fence.advance(replace(known, sequence=known.sequence + more))
    return "done"


def hold_row(url: str, pause: str) -> None:
    connection = connect(url)
    if pause:
        connection.execute(f"SET idle_in_transaction_session_timeout = {pause}")
    connection.execute("BEGIN")
    connection.execute("SELECT * FROM sfumato_fence.mark FOR UPDATE")
    freeze()


def advance_for_ever(url: str) -> None:
    fence = PostgresFence(url)
    for number in itertools.count(1):
        fence.advance(mark(number))


def until(condition) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["thaw", "kill"])
def test_a_process_that_holds_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setitem(LIMITS, "fence", Limits(0.3, 0.3, 0.3))
    monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
    world = new_world(tmp_path / "world")
    with world.open() as session:
        with frozen(hold_file, world.fence, 0) as process:
            with pytest.raises(LedgerFailed, match="in use for too long"):
                session.ask(TOTAL, analyst="olga")
            assert session.check()["ledger"] == "not ok"
            with pytest.raises(LedgerFailed, match="in use for too long"):  # it is charged, and still does not leave
                session.ask(TOTAL, analyst="olga")
            if ending == "thaw":
                assert process.thaw() == "done"
        answered = session.ask(TOTAL, analyst="olga")
        assert answered.rows
        assert standing(session, "analyst:olga", "olga").spent == Charge(1)
        assert session.check()["ledger"] == "ok"
        assert session.ledger.verify() == []
    assert FileFence(world.fence).mark().totals["analyst:olga"].spent == Charge(1)


def test_marks_of_a_process_that_is_thawed_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "fence", Limits(0.3, 0.3, 0.3))
    fence = FileFence(tmp_path / "fence")
    fence.restart(mark(1, anna=1))
    with frozen(hold_file, fence.path, 6) as process:
        with pytest.raises(LedgerFailed, match="in use for too long"):
            fence.advance(mark(2, bob=1))
        assert fence.mark().sequence == 7  # written, and not synced: to read waits for no lock
        assert process.thaw() == "done"
    fence.advance(mark(3, bob=2))
    found = FileFence(fence.path).mark()
    assert (found.sequence, found.totals) == (7, mark(0, anna=1, bob=2).totals)


def test_many_threads_wait_no_longer_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own deadline. One after the other they would need a hundred seconds."""
    monkeypatch.setitem(LIMITS, "fence", Limits(1.0, 1.0, 1.0))
    fence = FileFence(tmp_path / "fence")
    fence.restart(mark(1))
    with frozen(hold_file, fence.path, 1), ThreadPoolExecutor(100) as pool:
        advances = [pool.submit(fence.advance, mark(number)) for number in range(3, 103)]
        done, waiting = wait(advances, timeout=SECONDS)
    assert not waiting
    for each in done:
        with pytest.raises(LedgerFailed, match="in use for too long"):
            each.result()


@pytest.fixture
def shared(postgres_url: str) -> Iterator[PostgresFence]:
    fence = PostgresFence(postgres_url)
    fence.restart(mark(0))
    yield fence
    fence.close()


@pytest.mark.slow
def test_a_process_inside_a_transaction_of_the_database(shared: PostgresFence, postgres_url: str) -> None:
    with frozen(hold_row, postgres_url, "0") as process:
        with pytest.raises(LedgerFailed, match="in use for too long"):
            shared.advance(mark(1, anna=1))
        assert shared.mark() == mark(0)
        process.kill()
        until(lambda: not holders(postgres_url))
        shared.advance(mark(2, anna=2))
        shared.check()
    assert shared.mark() == mark(2, anna=2)


@pytest.mark.slow
def test_the_server_ends_the_transaction_of_a_frozen_process(shared: PostgresFence, postgres_url: str) -> None:
    with frozen(hold_row, postgres_url, "") as process:
        until(lambda: not holders(postgres_url))
        shared.advance(mark(2, anna=2))
        assert process.is_frozen()
    assert shared.mark() == mark(2, anna=2)


def holders(url: str) -> list[tuple[int]]:
    idle = "state = 'idle in transaction' AND datname = current_database()"
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT pid FROM pg_stat_activity WHERE {idle}").fetchall()


@pytest.mark.slow
def test_a_process_that_is_frozen_while_it_advances_holds_nothing(shared: PostgresFence, postgres_url: str) -> None:
    """Wherever it is stopped: its statements end by themselves, and no transaction waits for it."""
    for _ in range(5):
        shared.restart(mark(0))
        with running(advance_for_ever, postgres_url) as process:
            until(lambda: shared.mark().sequence >= 3)
            process.stop()
            shared.advance(mark(10**6, anna=1))
            shared.check()
            assert shared.mark() == mark(10**6, anna=1)
