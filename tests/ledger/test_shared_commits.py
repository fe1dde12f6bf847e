"""Group commit: no block returns before it is on disk, and a block that fails takes no other with it."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.config import LedgerSettings
from sfumato.errors import BudgetExhausted, LedgerFailed
from sfumato.ledger import Account, Debit, open_ledger, sqlite
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.group_commit import LOST, Batch
from sfumato.ledger.sqlite import SQLiteStore
from tests.contracts.ledger import ACME, ANNA, BOB, NOW, UNIT, Killed, answer, histogram, own, top

pytestmark = pytest.mark.slow  # threads and processes

INSERT = "INSERT INTO things VALUES (?)"


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.001)


class FailingCommits:
    """A connection whose disk fails at the end."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self.real = real

    def execute(self, sql: str, *values: Any) -> Any:
        if sql == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error at /secret/place")
        return self.real.execute(sql, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(tmp_path / "books.db")
    made.open()
    with made.writing() as run:
        run("CREATE TABLE things (thing TEXT)")
    yield made
    made.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as threads:
        yield threads


def traced(store: SQLiteStore) -> list[str]:
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    return statements


def on_disk(store: SQLiteStore) -> set[str]:
    """What another process sees; it may also write, as no transaction was left open."""
    other = sqlite3.connect(store.path, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        return {thing for (thing,) in other.execute("SELECT thing FROM things")}
    finally:
        other.close()


def put(store: SQLiteStore, thing: str, error: type[BaseException] | None = None) -> None:
    with store.writing() as run:
        run(INSERT, thing)
        if error is not None:
            raise error


def together(
    store: SQLiteStore, pool: ThreadPoolExecutor, others: dict[str, type[BaseException] | None]
) -> dict[str, Future[None]]:
    """The first block ends when all others are queued: all are one batch."""

    def first() -> None:
        with store.writing() as run:
            run(INSERT, "first")
            until(lambda: len(store._queue) == len(others))

    begun = {"first": pool.submit(first)}
    until(lambda: store._batch is not None)
    return begun | {name: pool.submit(put, store, name, error) for name, error in others.items()}


def names(count: int) -> dict[str, type[BaseException] | None]:
    return {str(number): None for number in range(count)}


def test_many_share_one_commit(store, pool):
    statements = traced(store)
    futures = together(store, pool, names(15))
    for future in futures.values():
        future.result(30)
    assert [statements.count(word) for word in ("BEGIN IMMEDIATE", "COMMIT")] == [1, 1]
    assert on_disk(store) == futures.keys()


def test_one_alone_commits_at_once_and_needs_no_savepoint(store):
    statements = traced(store)
    for thing in "abc":
        put(store, thing)
        assert thing in on_disk(store)
    assert statements.count("COMMIT") == 3
    assert not any("part" in statement for statement in statements)


def test_a_block_without_changes_does_not_wait(store, monkeypatch):
    done: list[bool] = []
    monkeypatch.setattr(Batch, "wait", lambda batch, _: done.append(batch.done))
    store._queue.add(-1)  # a thread that stays queued
    with store.writing() as run:
        run("SELECT * FROM things")
    put(store, "a")
    assert done == [False]  # of the second block


def test_a_batch_is_bounded(store, pool, monkeypatch):
    monkeypatch.setattr(sqlite, "_MAX_PARTS", 4)
    statements = traced(store)
    for future in together(store, pool, names(15)).values():
        future.result(30)
    assert statements.count("COMMIT") == 4


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, Killed, sqlite3.OperationalError])
def test_a_part_that_raises_is_taken_back_alone(store, pool, error):
    futures = together(store, pool, names(6) | dict.fromkeys(("bad", "worse"), error))
    expected = LedgerFailed if error is sqlite3.OperationalError else error
    told = {name: future.exception(30) for name, future in futures.items()}
    assert {name: type(error) for name, error in told.items() if error} == dict.fromkeys(("bad", "worse"), expected)
    assert on_disk(store) == futures.keys() - {"bad", "worse"}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_one_alone_that_raises_leaves_nothing(store, error):
    with pytest.raises(error):
        put(store, "a", error)
    assert on_disk(store) == set()
    put(store, "b")
    assert on_disk(store) == {"b"}


def test_a_failing_commit_fails_all_and_leaves_no_trace(store, pool):
    real = store._connection
    store._connection = FailingCommits(real)
    futures = together(store, pool, names(7))
    for future in futures.values():
        told = future.exception(30)
        assert isinstance(told, LedgerFailed)
        assert "nothing was answered" in str(told)
        assert "secret" not in str(told)
        assert told.__context__ is None
    assert on_disk(store) == set()
    store._connection = real
    put(store, "later")
    assert on_disk(store) == {"later"}


def test_a_transaction_that_sqlite_takes_back_fails_all_of_its_parts(store, pool):
    """A full disk ends the whole transaction in the middle of one statement of one part."""

    def full() -> None:
        with store.writing() as run:
            run(INSERT, "full")
            store._connection.execute("ROLLBACK")

    def first() -> None:
        with store.writing() as run:
            run(INSERT, "first")
            until(lambda: len(store._queue) == 1)

    futures = [pool.submit(first)]
    until(lambda: store._batch is not None)
    futures.append(pool.submit(full))
    assert [str(future.exception(30)) for future in futures] == [LOST, LOST]
    assert on_disk(store) == set()


def test_readers_see_what_is_committed_and_do_not_wait(store, pool):
    seen: list[int] = []
    inside = threading.Event()

    def look() -> int:
        with store.reading() as run:
            return run("SELECT count(*) FROM things")[0][0]

    def second() -> None:
        with store.writing() as run:
            seen.append(run("SELECT count(*) FROM things")[0][0])
            inside.set()
            seen.append(pool.submit(look).result(30))  # a whole part is in the batch, and this one

    def first() -> None:
        with store.writing() as run:
            run(INSERT, "first")
            seen.append(pool.submit(look).result(30))
            until(lambda: bool(store._queue))

    futures = [pool.submit(first)]
    until(lambda: store._batch is not None)
    futures.append(pool.submit(second))
    assert inside.wait(30)
    for future in futures:
        future.result(30)
    assert seen == [0, 1, 0]
    assert look() == 1


def test_a_reader_cannot_write_and_is_kept_after_a_failure(store):
    for _ in range(5):
        with pytest.raises(LedgerFailed), store.reading() as run:
            run(INSERT, "a")
        with pytest.raises(ZeroDivisionError), store.reading() as run:
            raise ZeroDivisionError
    assert store._readers.qsize() == sqlite._READERS
    assert on_disk(store) == set()


def test_many_long_readers_stop_no_writer(store):
    with store.reading(), store.reading(), store.reading() as run:
        put(store, "a")
        assert run("SELECT * FROM things") == [("a",)]  # its view begins with its first look
        put(store, "b")
        assert run("SELECT * FROM things") == [("a",)]


def test_a_reader_that_outlives_its_store_reads_to_the_end(store):
    with store.reading() as run:
        run("SELECT * FROM things")
        store.close()
        assert run("SELECT * FROM things") == []
    assert store._readers.empty()
    with pytest.raises(LedgerFailed, match="closed"), store.reading():
        pass


def test_an_interrupt_while_waiting_leaves_no_transaction_open(store, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store._queue.add(-1)  # then it waits
    monkeypatch.setattr(Batch, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(store, "a")
    assert on_disk(store) == {"a"}


def test_a_thread_that_was_interrupted_in_the_queue_is_not_waited_for(store, monkeypatch):
    monkeypatch.setattr(sqlite, "_PATIENCE_S", 0.01)
    store._queue.add(-1)
    put(store, "a")
    assert on_disk(store) == {"a"}


def test_a_part_half_taken_back_is_never_committed(store, pool, monkeypatch):
    """Interrupted, and interrupted again before it could be taken back."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    store._queue.add(-1)
    first = pool.submit(put, store, "first")
    until(lambda: store._batch is not None and store._batch.parts == 1)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_take_back", interrupted)
        patch.setattr(store, "_end", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            put(store, "half", ZeroDivisionError)
    store._queue.discard(-1)
    put(store, "next")
    assert str(first.exception(30)) == LOST
    assert on_disk(store) == {"next"}


def test_closing_commits_for_those_who_wait(store, pool):
    store._queue.add(-1)
    waiting = pool.submit(put, store, "a")
    until(lambda: store._batch is not None and store._batch.parts == 1)
    store.close()
    waiting.result(30)
    assert on_disk(store) == {"a"}
    with pytest.raises(LedgerFailed, match="closed"):
        put(store, "b")


OTHER = """
import sys
from pathlib import Path
from sfumato.ledger.sqlite import SQLiteStore

store = SQLiteStore(Path(sys.argv[1]))
store.open()
for number in range(5):
    with store.writing() as run:
        run("INSERT INTO things VALUES (?)", f"other {number}")
store.close()
"""


def test_another_process_gets_in_between_batches(store, pool):
    stop = threading.Event()

    def hammer(me: int) -> int:
        count = 0
        while not stop.is_set():
            put(store, f"{me} {count}")
            count += 1
        return count

    hammering = [pool.submit(hammer, me) for me in range(8)]
    try:
        ran = subprocess.run([sys.executable, "-c", OTHER, store.path], capture_output=True, text=True, timeout=60)
    finally:
        stop.set()
    assert ran.returncode == 0, ran.stderr
    mine = sum(future.result(30) for future in hammering)
    assert len(on_disk(store)) == 5 + mine


# -- the fence --


def mark(sequence: int, **spent: int) -> Mark:
    totals = {name: SpentTotal("", Charge(amount)) for name, amount in spent.items()}
    return Mark("ledger", sequence, f"head {sequence}", totals)


@pytest.fixture
def fence(tmp_path: Path) -> FileFence:
    begun = FileFence(tmp_path / "state" / "fence")
    begun.restart(mark(0))
    return begun


class Syncs:
    """os.fsync, counted; the first one waits to be let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, failing: frozenset[int] = frozenset()) -> None:
        self.count, self.failing, self.go = 0, failing, threading.Event()
        self._real = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, descriptor: int) -> None:
        self.count += 1
        if self.count == 1:
            assert self.go.wait(30)
        if self.count in self.failing:
            raise OSError("a disk at /secret/place")
        self._real(descriptor)


def advanced(fence: FileFence, pool: ThreadPoolExecutor, syncs: Syncs) -> list[Future[None]]:
    """One thread is at its sync when eight others come."""
    futures = [pool.submit(fence.advance, mark(1, anna=1))]
    until(lambda: syncs.count == 1)
    futures += [pool.submit(fence.advance, mark(number, anna=number, **{f"a{number}": 1})) for number in range(2, 10)]
    until(lambda: len(fence._batch.marks) == 8)
    assert fence.mark() == mark(1, anna=1)  # looking waits for no sync
    syncs.go.set()
    return futures


def test_marks_share_one_sync(fence, pool, monkeypatch):
    syncs = Syncs(monkeypatch)
    for future in advanced(fence, pool, syncs):
        future.result(30)
    assert syncs.count == 2
    assert len(fence.path.read_bytes().split()) > 2
    totals = {f"a{number}": 1 for number in range(2, 10)}
    assert FileFence(fence.path).mark() == fence.mark() == mark(9, anna=9, **totals)


def test_a_sync_that_fails_fails_the_whole_batch_and_the_file_is_replaced(fence, pool, monkeypatch):
    syncs = Syncs(monkeypatch, failing=frozenset({2}))
    first, *others = advanced(fence, pool, syncs)
    first.result(30)
    for future in others:
        told = future.exception(30)
        assert (type(told), told.__context__) == (LedgerFailed, None)
        assert f"the ledger's fence {str(fence.path)!r} cannot be read or written" in str(told)
    # The line is in the file, and may not be on disk: it does not count as synced.
    fence.advance(mark(5, anna=5))
    assert syncs.count == 4  # the new file and its folder
    assert len(fence.path.read_bytes().splitlines()) == 1
    fence.advance(mark(9, anna=9))
    assert syncs.count == 4


def test_an_interrupted_writer_leaves_the_others_to_write(fence, pool, monkeypatch):
    syncs = Syncs(monkeypatch)
    real, calls = fence._append, []

    def interrupted(known: Mark, new: Mark) -> None:
        calls.append(new)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(known, new)

    monkeypatch.setattr(fence, "_append", interrupted)
    told = [future.exception(30) for future in advanced(fence, pool, syncs)]
    assert [type(error) for error in told if error] == [KeyboardInterrupt]
    assert len(calls) == 3
    assert calls[1] == calls[2]  # all marks of the batch that was interrupted, by the next of its threads
    assert calls[1].totals.keys() == {"anna", *(f"a{number}" for number in range(2, 10))}
    assert FileFence(fence.path).mark() == calls[2]


def test_what_another_process_wrote_is_synced_before_it_counts(fence, monkeypatch):
    fence.advance(mark(3, anna=3))
    before = fence.path.read_bytes()
    syncs = Syncs(monkeypatch)
    syncs.go.set()
    other = FileFence(fence.path)
    for _ in range(3):
        other.advance(mark(3, anna=3))
    assert syncs.count == 1
    assert fence.path.read_bytes() == before


def test_a_fence_that_is_gone_is_seen_even_if_all_was_known(fence):
    fence.advance(mark(3, anna=3))
    fence.path.unlink()
    with pytest.raises(LedgerFailed, match="gone"):
        fence.advance(mark(3, anna=3))


def test_a_fence_put_back_from_a_copy_is_brought_forward_again(fence):
    copy = fence.path.read_bytes()
    fence.advance(mark(3, anna=3))
    fence.path.write_bytes(copy)
    fence.advance(mark(2, anna=3))
    assert FileFence(fence.path).mark() == mark(2, anna=3)


@pytest.mark.parametrize("seed", range(200))
def test_covering_is_adding_nothing(seed):
    chance = random.Random(seed)

    def any_mark() -> Mark:
        totals = {
            name: SpentTotal(chance.choice(["", "2026-11-01"]), Charge(chance.randrange(3), chance.randrange(3)))
            for name in chance.sample("abc", chance.randrange(4))
        }
        sequence = chance.randrange(3)
        return Mark("ledger", sequence, f"head {sequence}", totals)

    one, other = any_mark(), any_mark()
    assert one.covers(other) == (one | other == one)


# -- all of it --


def test_sixteen_threads_keep_the_books_in_order(tmp_path):
    analysts = [ANNA, BOB, own("eve", information=40)]
    (tmp_path / "ledger").mkdir()
    settings = LedgerSettings("sqlite:books.db", tmp_path / "elsewhere" / "fence")
    with open_ledger(settings, tmp_path / "ledger") as ledger:

        def move(chance: random.Random) -> tuple[str, Charge]:
            """One random call, and what its answer cost."""
            account = chance.choice(analysts)
            kind, question = chance.randrange(10), _question(chance, account)
            try:
                if kind > 1:
                    return account.name, answer(ledger, question).charge
                if kind == 1:
                    ledger.grant(account, UNIT, "more", NOW)
                assert ledger.standings([account], NOW)[0].left >= NOTHING
            except BudgetExhausted:
                pass
            return account.name, NOTHING

        def live(seed: int) -> list[tuple[str, Charge]]:
            chance = random.Random(seed)
            return [move(chance) for _ in range(50)]

        with ThreadPoolExecutor(16) as threads:
            receipts = [receipt for mine in threads.map(live, range(16)) for receipt in mine]
        assert ledger.verify() == []
        assert ledger.reservations() == []
        rows, seen = ledger.history(None, rows=10_000).rows, FileFence(settings.fence).mark()
        for account in (*analysts, ACME):
            standing = ledger.standings([account], NOW)[0]
            settled = [row.charge for row in rows if (row.account, row.state) == (account.name, "settled")]
            assert (standing.reserved, standing.spent) == (NOTHING, sum(settled, NOTHING))
            assert standing.left >= NOTHING
            assert seen.totals[account.name].spent == standing.spent
            if account is not ACME:
                paid = [charge for name, charge in receipts if name == account.name]
                assert sum(paid, NOTHING) == standing.spent > NOTHING


def _question(chance: random.Random, account: Account) -> Debit:
    if chance.random() < 0.5:
        return histogram(f"h{chance.randrange(60)}", account, ACME)
    return top(chance.randrange(1, 6), f"t{chance.randrange(8)}", account, ACME)
