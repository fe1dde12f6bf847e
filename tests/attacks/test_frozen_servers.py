"""A PostgreSQL server that stands still, with its connections open: callers are refused in time, and go on later."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from sfumato.accounting import Charge
from sfumato.config import LedgerSettings
from sfumato.errors import LedgerBusy, LedgerFailed
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.store import LIMITS
from sfumato.ledger.types import Debit
from sfumato.postgres import connection_type
from tests.contracts.ledger import ANNA, NOW, answer, histogram, spent
from tests.helpers import postgres

pytestmark = pytest.mark.slow  # a real server

OTHERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
PATIENCE_S = 60  # before a test gives up: without a bound, it would be reached
SHORT_S = 0.5


@contextmanager
def standing_still(url: str) -> Iterator[None]:
    """Freeze the server's processes behind all connections to a database."""
    with psycopg.connect(url, autocommit=True) as connection:
        processes = [process for (process,) in connection.execute(OTHERS)]
    assert processes
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


@pytest.fixture
def fence_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


@pytest.fixture
def ledger(postgres_url: str, fence_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    for work, limits in LIMITS.items():
        monkeypatch.setitem(LIMITS, work, replace(limits, wait_s=SHORT_S, run_s=SHORT_S))
    monkeypatch.setattr(connection_type(), "patience_s", SHORT_S)
    monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
    with open_ledger(LedgerSettings(postgres_url, fence_url), tmp_path) as opened:
        answer(opened, histogram("before"))
        yield opened


CALLS: dict[str, Callable[[Ledger], object]] = {
    "ask": lambda ledger: answer(ledger, histogram("during")),
    "read": lambda ledger: ledger.standings([ANNA], NOW),
    "check": Ledger.check,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("server", ["postgres_url", "fence_url"])
def test_calls_are_refused_and_go_on_later(
    ledger: Ledger, server: str, call: str, request: pytest.FixtureRequest
) -> None:
    with ThreadPoolExecutor(1) as pool, standing_still(request.getfixturevalue(server)):
        with pytest.raises(LedgerFailed, match=r"ConnectionTimeout"):
            pool.submit(CALLS[call], ledger).result(PATIENCE_S)
        answer(ledger, histogram("after"))  # over another connection: the server itself goes on
    answer(ledger, histogram("during"))
    assert spent(ledger) == Charge(3)
    assert ledger.verify() == []


def answer_at_last(ledger: Ledger, debit: Debit) -> None:
    """The limits are short here: on a busy machine one thread waits too long for another."""
    with suppress(LedgerBusy):
        answer(ledger, debit)
        return
    answer_at_last(ledger, debit)


def test_many_connections_are_not_waited_for_one_after_the_other(ledger: Ledger, fence_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: answer_at_last(ledger, histogram(str(number))), range(24)))
        with standing_still(fence_url):
            with pytest.raises(LedgerFailed):
                pool.submit(ledger.standings, [ANNA], NOW).result(PATIENCE_S)
            assert ledger.standings([ANNA], NOW)[0].spent == Charge(25)


def test_a_transaction_of_which_a_reply_is_missing_is_taken_back(ledger: Ledger, postgres_url: str) -> None:
    with ThreadPoolExecutor(1) as pool:

        def write() -> None:
            with ledger.writing() as books:
                books.run("UPDATE balances SET spent = '0 0'")
                with standing_still(postgres_url):
                    books.run("SELECT 1")

        with pytest.raises(LedgerFailed, match="ConnectionTimeout"):
            pool.submit(write).result(PATIENCE_S)
    assert spent(ledger) == Charge(1)
    assert ledger.verify() == []
