"""A process that is frozen while it uses the fence: others are refused within seconds, and go on when it is over."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.postgres_fence import PostgresFence
from sfumato.ledger.store import LIMITS, Limits
from tests.contracts.fence import mark
from tests.helpers.children import environment
from tests.helpers.worlds import new_world, standing

TOTAL = "SELECT members FROM engagements WHERE day <> '2026-11-07'"
SECONDS = 60  # before a test gives up

# Adds a mark, and says when it is inside; goes on at the next line that it is sent.
IN_FILE = """
import os, sys
from pathlib import Path
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.fence import Mark
fence, real = FileFence(Path(sys.argv[1])), os.fsync
def fsync(descriptor):
    os.write(1, b"inside\\n")
    sys.stdin.readline()
    real(descriptor)
os.fsync = fsync
known = fence.mark()
fence.advance(Mark(known.ledger, known.sequence + int(sys.argv[2]), known.head, known.totals))
os.write(1, b"done\\n")
"""
IN_TRANSACTION = """
import os, sys
from sfumato.ledger.postgres_connection import connect
connection = connect(sys.argv[1])
if sys.argv[2]:
    connection.execute(f"SET idle_in_transaction_session_timeout = {sys.argv[2]}")
connection.execute("BEGIN")
connection.execute("SELECT * FROM sfumato_fence.mark FOR UPDATE")
os.write(1, b"inside\\n")
sys.stdin.readline()
"""
ENDLESS = """
import itertools, os, sys
from sfumato.ledger.postgres_fence import PostgresFence
from sfumato.ledger.fence import Mark
fence = PostgresFence(sys.argv[1])
for number in itertools.count(1):
    fence.advance(Mark("ledger", number, f"head {number}"))
    if number == 3:
        os.write(1, b"inside\\n")
"""


@contextmanager
def frozen(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs `code`, and is stopped when it says that it is inside."""
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        try:
            assert process.stdout.readline() == b"inside\n"
            process.send_signal(signal.SIGSTOP)
            until(lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
            yield process
        finally:
            process.kill()


def until(condition) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def thaw(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)
    process.stdin.write(b"\n")
    process.stdin.flush()


@pytest.mark.parametrize("ending", ["thaw", "kill"])
def test_a_process_that_holds_the_lock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setitem(LIMITS, "fence", Limits(0.3, 0.3, 0.3))
    monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
    world = new_world(tmp_path / "world")
    with world.open() as session:
        with frozen(IN_FILE, str(world.fence), "0") as process:
            with pytest.raises(LedgerFailed, match="in use for too long"):
                session.ask(TOTAL, analyst="olga")
            assert session.check()["ledger"] == "not ok"
            with pytest.raises(LedgerFailed, match="in use for too long"):  # it is charged, and still does not leave
                session.ask(TOTAL, analyst="olga")
            if ending == "thaw":
                thaw(process)
                assert process.stdout.readline() == b"done\n"
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
    with frozen(IN_FILE, str(fence.path), "6") as process:
        with pytest.raises(LedgerFailed, match="in use for too long"):
            fence.advance(mark(2, bob=1))
        assert fence.mark().sequence == 7  # written, and not synced: to read waits for no lock
        thaw(process)
        assert process.stdout.readline() == b"done\n"
    fence.advance(mark(3, bob=2))
    found = FileFence(fence.path).mark()
    assert (found.sequence, found.totals) == (7, mark(0, anna=1, bob=2).totals)


def test_many_threads_wait_no_longer_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own deadline: they do not wait one after the other."""
    monkeypatch.setitem(LIMITS, "fence", Limits(1.0, 1.0, 1.0))
    fence, told = FileFence(tmp_path / "fence"), []
    fence.restart(mark(1))

    def advance(number: int) -> None:
        begun = time.monotonic()
        try:
            fence.advance(mark(number))
        except LedgerFailed as error:
            told.append((str(error), time.monotonic() - begun))

    with frozen(IN_FILE, str(fence.path), "1"):
        threads = [threading.Thread(target=advance, args=[number]) for number in range(3, 23)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
    assert len(told) == 20
    assert {"in use for too long" in words for words, _ in told} == {True}
    assert max(seconds for _, seconds in told) < 15  # twenty, if each waited for all before it


@pytest.fixture
def shared(postgres_url: str) -> Iterator[PostgresFence]:
    fence = PostgresFence(postgres_url)
    fence.restart(mark(0))
    yield fence
    fence.close()


@pytest.mark.slow
def test_a_process_inside_a_transaction_of_the_database(shared: PostgresFence, postgres_url: str) -> None:
    with frozen(IN_TRANSACTION, postgres_url, "0") as process:
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
    with frozen(IN_TRANSACTION, postgres_url, "") as process:
        until(lambda: not holders(postgres_url))
        shared.advance(mark(2, anna=2))
        assert process.poll() is None
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
        with frozen(ENDLESS, postgres_url):
            shared.advance(mark(10**6, anna=1))
            shared.check()
            assert shared.mark() == mark(10**6, anna=1)
