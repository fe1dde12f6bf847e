"""A process that freezes where it holds a lock of the ledger: others are refused in time, and go on when it is gone."""

from __future__ import annotations

import ast
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from sfumato.accounting import Charge
from sfumato.config import LedgerSettings
from sfumato.config.read import read_config
from sfumato.errors import BudgetExhausted, LedgerBusy, LedgerFailed, LedgerSetBack
from sfumato.ledger import Ledger, cells, open_ledger, payments, rules, service_lock, verification
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.cells import Seals
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.group_commit import Batch
from sfumato.ledger.policy_trail import record_policy
from sfumato.ledger.postgres_connection import connect
from sfumato.ledger.service_lock import ServiceLock
from sfumato.ledger.sign_ins import SignIns
from sfumato.ledger.store import LIMITS
from sfumato.ledger.tables import Books
from sfumato.ledger.types import Actor
from sfumato.ledger.verification import Verifications
from tests.contracts import seals
from tests.contracts.ledger import ANNA, NOW, answer, histogram, refusal, reserve, spent
from tests.helpers import postgres
from tests.helpers.frozen import freeze, frozen, then_freeze
from tests.helpers.served import TOP, Served

pytestmark = pytest.mark.slow  # processes, and a real server

SHORT_S, LONG_S = 0.5, 600
POLICY = """
[engines.here]
type = "duckdb"
database = "rows.duckdb"
[tables.visits]
engine = "here"
source = "visits"
privacy_unit = "person"
[tables.visits.measures]
people = { count = "units" }
"""
ENDINGS = ("thaw", "kill")
CROWD = 30
PATIENCE_S = 60  # before a test gives up
THREADS = 10  # of an analyst who is alone


# -- what the frozen process does --


def ask(ledger: Ledger, account: Any = ANNA) -> None:
    answer(ledger, histogram("frozen", account))


def freeze_reserving(ledger: Ledger) -> None:
    with patch.object(Books, "begin_atom", then_freeze(Books.begin_atom)):
        ask(ledger)


def freeze_reserving_together(ledger: Ledger) -> None:
    with patch.object(Books, "begin_atom", then_freeze(Books.begin_atom)):
        payments.reserve_together(ledger, [histogram("frozen"), histogram("also frozen")], NOW)


def freeze_settling(ledger: Ledger) -> None:
    with patch.object(rules, "settle", then_freeze(rules.settle)):
        ask(ledger)


def freeze_in_a_batch(ledger: Ledger) -> None:
    """Between two parts of one commit: the first has ended, and a thread that is queued has not begun."""
    ledger._store._queue.add(-1)
    with patch.object(Batch, "wait", then_freeze(lambda *_: None)):
        ask(ledger)


def freeze_migrating(ledger: Ledger) -> None:
    with patch.object(ledger_module, "migrate", then_freeze(ledger_module.migrate)):
        ledger.migrate()


def freeze_probing(ledger: Ledger) -> None:
    with patch.object(Books, "check_writable", then_freeze(Books.check_writable)):
        ledger.check()
    ask(ledger)


def freeze_reading(ledger: Ledger) -> None:
    """A reader: others do not wait for it."""
    with ledger.reading() as books:
        books.balance(ANNA.name)
        freeze()
    ask(ledger)


def freeze_closing(ledger: Ledger) -> None:
    reserve(ledger, histogram("frozen"))
    [held] = ledger.reservations()
    with patch.object(rules, "keep", then_freeze(rules.keep)):
        payments.keep(ledger, held, NOW)


def freeze_granting(ledger: Ledger) -> None:
    with patch.object(Books, "move", then_freeze(Books.move)):
        ledger.grant(ANNA, Charge(1), "more", NOW)


def freeze_opening_seals(ledger: Ledger) -> None:
    with patch.object(cells, "store_seals", then_freeze(cells.store_seals)):
        seals.draw(Seals(ledger), [seals.day()])


def freeze_storing_cells(ledger: Ledger) -> None:
    with patch.object(cells, "store_cells", then_freeze(cells.store_cells)):
        seals.draw(Seals(ledger), [seals.day()])


def freeze_resealing(ledger: Ledger) -> None:
    seals.draw(Seals(ledger), [seals.day()])
    with patch.object(cells, "store_seals", then_freeze(cells.store_seals)):
        seals.reseal(Seals(ledger))


def freeze_creating_a_key(ledger: Ledger) -> None:
    with patch.object(Books, "note_credential", then_freeze(Books.note_credential)):
        ApiKeys(ledger).create("anna", "analyst", None, NOW)


def freeze_revoking_a_key(ledger: Ledger) -> None:
    _, key = ApiKeys(ledger).create("anna", "analyst", None, NOW)
    with patch.object(Books, "end_credential", then_freeze(Books.end_credential)):
        ApiKeys(ledger).revoke(key.id, NOW)


def freeze_beginning_a_sign_in(ledger: Ledger) -> None:
    _, key = ApiKeys(ledger).create("anna", "analyst", None, NOW)
    with patch.object(Books, "note_credential", then_freeze(Books.note_credential)):
        SignIns(ledger).begin(key, 8, NOW)


def freeze_beginning_a_sign_in_with_a_provider(ledger: Ledger) -> None:
    with patch.object(Books, "note_credential", then_freeze(Books.note_credential)):
        SignIns(ledger).begin_once("0" * 12, "anna", "analyst", 8, NOW)


def freeze_ending_a_sign_in(ledger: Ledger) -> None:
    _, key = ApiKeys(ledger).create("anna", "analyst", None, NOW)
    secret, _ = SignIns(ledger).begin(key, 8, NOW)
    with patch.object(Books, "end_credential", then_freeze(Books.end_credential)):
        SignIns(ledger).end(secret, NOW)


def freeze_recording_the_policy(ledger: Ledger) -> None:
    config = read_config(POLICY, Path(), {})
    with patch.object(Books, "append", then_freeze(Books.append)):
        record_policy(ledger, config, NOW)


def freeze_beginning_a_verification(ledger: Ledger) -> None:
    with patch.object(verification, "moment_text", then_freeze(verification.moment_text)):
        Verifications(ledger, lambda: NOW).begin(Actor())


def freeze_noting_a_verification(ledger: Ledger) -> None:
    jobs = Verifications(ledger, lambda: NOW)
    job, _ = jobs.begin(Actor())
    with patch.object(verification, "moment_text", then_freeze(verification.moment_text)):
        jobs.note(job.number, (0, 1))


WRITERS: dict[str, Callable[[Ledger], None]] = {
    "payments.reserve": freeze_reserving,
    "payments.reserve_together": freeze_reserving_together,
    "payments.settle": freeze_settling,
    "payments.keep": freeze_closing,
    "ledger.migrate": freeze_migrating,
    "ledger._write_nothing": freeze_probing,
    "ledger.grant": freeze_granting,
    "cells.open": freeze_opening_seals,
    "cells.store": freeze_storing_cells,
    "cells.reseal": freeze_resealing,
    "api_keys.create": freeze_creating_a_key,
    "api_keys.revoke": freeze_revoking_a_key,
    "sign_ins.begin": freeze_beginning_a_sign_in,
    "sign_ins.begin_once": freeze_beginning_a_sign_in_with_a_provider,
    "sign_ins.end": freeze_ending_a_sign_in,
    "policy_trail.record_policy": freeze_recording_the_policy,
    "verification.begin": freeze_beginning_a_verification,
    "verification.note": freeze_noting_a_verification,
}
"""By the function that holds the ledger."""

OTHER_TESTS = {  # of these functions
    "ledger._create": "test_a_new_ledger_that_is_half_created",
    "ledger.recover": "test_a_recovery_that_holds_the_ledger_and_its_fence",
    "ledger.writing": "all of them",
    "postgres.open": "test_a_new_ledger_that_is_half_created",
}

SPENDING = ("payments.reserve", "payments.settle", "payments.keep", "ledger._write_nothing")
ALIKE = ("ledger.grant", *[place for place in WRITERS if not place.startswith(("payments.", "ledger."))])
PLACES = [pytest.param(each, marks=pytest.mark.exhaustive if each in ALIKE else ()) for each in WRITERS]


def test_a_process_freezes_in_every_function_that_holds_the_ledger() -> None:
    holding = {
        f"{path.stem}.{function.name}"
        for path in Path(ledger_module.__file__).parent.glob("*.py")
        for function in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "writing"
    }
    assert holding == {*WRITERS, *OTHER_TESTS}


def act(place: str, url: str, fence: Path, folder: Path, pause_s: float = LONG_S) -> str:
    """Freeze at a place; "done", or the name of the error that came after it was thawed."""
    for work, limits in LIMITS.items():
        LIMITS[work] = replace(limits, pause_s=pause_s)
    known = {**WRITERS, "in_a_batch": freeze_in_a_batch, "reading": freeze_reading}
    with open_ledger(LedgerSettings(url, fence), folder) as ledger:
        try:
            known[place](ledger)
        except LedgerFailed as error:
            return type(error).__name__
    return "done"


def create(url: str, fence: Path, folder: Path) -> str:
    """Freeze before a new ledger is committed."""
    with (
        patch.object(ledger_module, "migrate", then_freeze(ledger_module.migrate)),
        open_ledger(LedgerSettings(url, fence), folder),
    ):
        return "done"


def recover(url: str, fence: Path, folder: Path) -> str:
    """Freeze with the ledger and its fence: the fence has its new mark, and the ledger has not committed."""
    for work, limits in LIMITS.items():
        LIMITS[work] = replace(limits, pause_s=LONG_S)
    with (
        patch.object(FileFence, "_replace", then_freeze(FileFence._replace)),
        open_ledger(LedgerSettings(url, fence), folder) as ledger,
    ):
        ledger.recover([ANNA], NOW)
    return "done"


def hold_file(file: Path) -> str:
    """Freeze with the lock that SQLite holds while it changes the journal mode of a file."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    freeze()
    connection.close()
    return "done"


def start_service(url: str) -> str:
    """Freeze while a service starts, in its turn to see which fence the others use."""
    connection = connect(url)
    with (
        patch.object(service_lock, "connect", lambda _: connection),
        patch.object(connection, "execute", then_freeze(connection.execute)),
    ):
        try:
            return str(ServiceLock(url, "frozen").take())
        except LedgerFailed as error:
            return type(error).__name__


# -- the others --


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Short waits in this process, until the fixture is called."""
    with monkeypatch.context() as patched:
        for work, limits in LIMITS.items():
            patched.setitem(LIMITS, work, replace(limits, wait_s=SHORT_S))
        yield patched.undo


def assert_refused(call: Callable[[], object]) -> None:
    told = refusal(call)
    assert isinstance(told, LedgerBusy)
    assert told.retry_after_s > 0
    assert "another process holds the ledger; nothing was answered. What was reserved stays reserved" in str(told)


class FrozenProcesses:
    """Every store inherits this."""

    settings: LedgerSettings
    folder: Path

    def frozen(self, function: Callable[..., Any], *more: Any) -> Any:
        return frozen(function, *more, self.settings.url, self.settings.fence, self.folder)

    @pytest.mark.parametrize("ending", ENDINGS)
    @pytest.mark.parametrize("place", PLACES)
    def test_others_are_refused_until_it_is_gone(self, place, ending, impatient):
        with open_ledger(self.settings, self.folder) as ledger:
            answer(ledger, histogram("before"))
            with self.frozen(act, place) as process:
                assert_refused(lambda: reserve(ledger, histogram("during")))
                assert_refused(ledger.check)
                assert ledger.standings([ANNA], NOW)[0].spent == Charge(1)  # readers wait for nothing
                impatient()
                done = process.thaw() if ending == "thaw" else process.kill()
            assert done == ("done" if ending == "thaw" else None)
            answer(ledger, histogram("after"))
            assert spent(ledger) == Charge(3 if ending == "thaw" and place in SPENDING else 2)
            assert ledger.verify() == []

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_a_reader_stops_no_other(self, ending, impatient):
        with open_ledger(self.settings, self.folder) as ledger, self.frozen(act, "reading") as process:
            answer(ledger, histogram("during"))
            ledger.check()
            assert (process.thaw() if ending == "thaw" else process.kill()) == ("done" if ending == "thaw" else None)
            assert ledger.verify() == []

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_a_new_ledger_that_is_half_created(self, ending, impatient):
        with self.frozen(create) as process:
            assert_refused(lambda: open_ledger(self.settings, self.folder))
            impatient()
            done = process.thaw() if ending == "thaw" else process.kill()
        assert done == ("done" if ending == "thaw" else None)
        with open_ledger(self.settings, self.folder) as ledger:
            answer(ledger, histogram("after"))
            assert ledger.verify() == []

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_a_recovery_that_holds_the_ledger_and_its_fence(self, ending, impatient):
        with open_ledger(self.settings, self.folder) as ledger:
            answer(ledger, histogram("before"))
        self.settings.fence.unlink()  # then a recovery spends what is left of every budget
        with open_ledger(self.settings, self.folder) as ledger, self.frozen(recover) as process:
            assert_refused(lambda: reserve(ledger, histogram("during")))
            assert_refused(lambda: ledger.recover([ANNA], NOW))
            assert_refused(ledger.check)
            with pytest.raises(LedgerBusy, match="in use for too long"):
                ledger.fence.check()
            assert isinstance(refusal(lambda: ledger.standings([ANNA], NOW)), LedgerSetBack)  # the fence is ahead
            impatient()
            done = process.thaw() if ending == "thaw" else process.kill()
        assert done == ("done" if ending == "thaw" else None)
        with open_ledger(self.settings, self.folder) as ledger:
            if ending == "kill":  # nothing is half done: the ledger stays refused until it is recovered
                assert isinstance(refusal(lambda: reserve(ledger, histogram("after"))), LedgerSetBack)
            assert bool(ledger.recover([ANNA], NOW)) == (ending == "kill")
            with pytest.raises(BudgetExhausted):
                reserve(ledger, histogram("after"))
            assert ledger.verify() == []

    def test_a_crowd_of_threads_is_refused_in_the_time_of_one(self, impatient):
        """One after the other they would need 100 s."""
        with (
            open_ledger(self.settings, self.folder) as ledger,
            self.frozen(act, "payments.reserve"),
            ThreadPoolExecutor(200) as pool,
        ):
            asked = [pool.submit(reserve, ledger, histogram(str(number))) for number in range(200)]
            done, waiting = wait(asked, timeout=60)
        assert not waiting
        failures = [each.exception() for each in done]
        assert all(isinstance(each, LedgerFailed) for each in failures)  # on a busy machine some get no connection
        assert any(isinstance(each, LedgerBusy) for each in failures)


class TestSQLite(FrozenProcesses):
    @pytest.fixture(autouse=True)
    def lay_out(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "ledger"
        self.folder.mkdir()
        self.settings = LedgerSettings("sqlite:books.db", tmp_path / "elsewhere" / "fence")

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_between_two_parts_of_a_commit(self, ending, impatient):
        with open_ledger(self.settings, self.folder) as ledger, self.frozen(act, "in_a_batch") as process:
            assert_refused(lambda: reserve(ledger, histogram("during")))
            impatient()
            done = process.thaw() if ending == "thaw" else process.kill()
            assert done == ("done" if ending == "thaw" else None)
            answer(ledger, histogram("after"))
            assert spent(ledger) == Charge(2 if ending == "thaw" else 1)
            assert ledger.verify() == []

    def test_a_file_whose_journal_mode_is_being_changed(self, impatient):
        file = self.folder / "books.db"
        file.touch(mode=0o600)
        with frozen(hold_file, file) as process:
            assert_refused(lambda: open_ledger(self.settings, self.folder))
            process.kill()
        impatient()
        with open_ledger(self.settings, self.folder) as ledger:
            answer(ledger, histogram("after"))


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


class TestPostgres(FrozenProcesses):
    @pytest.fixture(autouse=True)
    def lay_out(self, tmp_path: Path, shared_url: str) -> None:
        self.folder = tmp_path
        self.settings = LedgerSettings(shared_url, tmp_path / "elsewhere" / "fence")
        with psycopg.connect(shared_url, autocommit=True) as connection:
            connection.execute(postgres.CUT_OFF + " AND pid <> pg_backend_pid()", [connection.info.dbname])
            connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")

    @pytest.mark.parametrize("place", PLACES)
    def test_the_server_ends_its_transaction_and_nothing_is_half_done(self, place):
        with open_ledger(self.settings, self.folder) as ledger:
            answer(ledger, histogram("before"))
            with frozen(act, place, self.settings.url, self.settings.fence, self.folder, 0.5) as process:
                answer(ledger, histogram("during"))  # waits until the server has ended the other transaction
                books = ledger.history(None).rows
                assert process.thaw() == "LedgerFailed"
                assert ledger.history(None).rows == books
            answer(ledger, histogram("frozen"))
            assert spent(ledger) == Charge(3)
            assert ledger.verify() == []

    def test_a_service_that_is_frozen_while_it_starts_keeps_no_other_from_starting(self):
        with frozen(start_service, self.settings.url) as process, closing(ServiceLock(self.settings.url, "a")) as lock:
            assert isinstance(refusal(lock.take), LedgerBusy)
            assert lock.take()  # the server has ended the transaction of the other
            assert process.thaw() == "LedgerFailed"

    def test_a_server_that_is_gone_is_noticed_in_less_than_ten_seconds(self):
        """Keepalives, and the limit for data that nothing confirms. A socket of this machine has neither."""
        with closing(connect(self.settings.url)) as connection:
            told = connection.info.get_parameters()
        idle, interval, count = (int(told[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
        assert 0 < idle + interval * count < 10
        assert 0 < int(told["tcp_user_timeout"]) < 10_000

    def test_the_server_ends_what_stands_still_in_less_than_ten_seconds(self):
        with open_ledger(self.settings, self.folder) as ledger, ledger._store.writing() as run:
            [(pause,)] = run(
                "SELECT setting::BIGINT FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
            )
        assert 0 < pause < 10_000

    def test_upkeep_may_run_for_long_and_questions_may_not(self):
        asked = "SELECT setting::BIGINT FROM pg_settings WHERE name = 'statement_timeout'"
        with open_ledger(self.settings, self.folder) as ledger:
            for transaction in (ledger._store.reading, ledger._store.writing):
                with transaction() as run:
                    [(question,)] = run(asked)
                with transaction("upkeep") as run:
                    [(upkeep,)] = run(asked)
                assert 0 < question < 10_000 < 600_000 < upkeep

    def test_a_full_pool_of_connections_is_not_waited_for_without_end(self, impatient):
        with open_ledger(self.settings, self.folder) as ledger, self.frozen(act, "payments.reserve"):
            store = ledger._store
            for _ in range(16):
                store._room.acquire()
            assert_refused(lambda: ledger.standings([ANNA], NOW))


class TestOverHTTP:
    """A service beside a process that is frozen."""

    @pytest.fixture
    def served(self, tmp_path: Path, portal: Any) -> Iterator[Served]:
        from tests.helpers.served import new_served

        made = new_served(tmp_path / "world", portal)
        yield made
        made.session.close()

    @pytest.fixture
    def portal(self) -> Iterator[Any]:
        from anyio.from_thread import start_blocking_portal

        with start_blocking_portal() as portal:
            yield portal

    def test_a_question_gets_a_503_that_says_when_to_come_again(self, served, impatient, monkeypatch):
        monkeypatch.setattr("sfumato.service.readiness.INTERVAL_S", 0)
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
        key, config = served.key(), served.session.config
        assert served.get("/readyz").status == 200
        url = f"sqlite:{served.world.folder / 'ledger.db'}"
        with frozen(act, "payments.reserve", url, config.ledger.fence, served.world.folder) as process:
            reply = served.ask(key, TOP)
            assert (reply.status, reply.kind) == (503, "ledger-busy")
            assert int(reply.headers["retry-after"]) > 0
            ready = served.get("/readyz")
            assert (ready.status, ready.json["checks"]["ledger"]) == (503, "not ok")
            process.kill()
        impatient()
        assert served.get("/readyz").status == 200
        assert served.ask(key, TOP).status == 200

    @pytest.fixture
    def reserves(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The analysts for whom something was to be reserved: each waits for the ledger, unless it is free."""
        begun, real = list[str](), payments.reserve

        def reserve(ledger: Ledger, debit: Any, *more: Any, **named: Any) -> Any:
            begun.append(debit.own.name)
            return real(ledger, debit, *more, **named)

        monkeypatch.setattr(payments, "reserve", reserve)
        monkeypatch.setitem(LIMITS, "question", replace(LIMITS["question"], wait_s=2))
        return begun

    def freeze_beside(self, served: Served) -> Any:
        url = f"sqlite:{served.world.folder / 'ledger.db'}"
        return frozen(act, "ledger._write_nothing", url, served.session.config.ledger.fence, served.world.folder)

    def test_a_crowd_is_refused_in_the_time_of_one(self, served, reserves):
        """An analyst with many calls has one thread beside another analyst. One after the other would need 60 s."""
        keys = [served.key("anna")] * CROWD + [served.key("olga")]
        questions = [{**TOP, "k": 1 + number % 5} for number in range(len(keys))]
        with self.freeze_beside(served), ThreadPoolExecutor(len(keys)) as pool:
            replies = list(pool.map(served.ask, keys, questions))
        assert_all_busy(replies)
        assert len(reserves) < len(keys) / 2  # the others waited for none of their own

    def test_a_crowd_that_asks_the_same_is_refused_with_the_one_that_computes(self, served, reserves, monkeypatch):
        """The first computes, the others wait for it. Then the ledger is stuck."""
        key, goes_on = served.key(), threading.Event()
        engine = type(served.session._catalog.engine("engagements"))
        real = engine.run

        def run(*arguments: Any) -> Any:
            assert goes_on.wait(PATIENCE_S)
            return real(*arguments)

        monkeypatch.setattr(engine, "run", run)
        flights = served.session._runtime.flights
        with ThreadPoolExecutor(CROWD) as pool:
            try:
                asked = [pool.submit(served.ask, key) for _ in range(CROWD)]
                until(lambda: sum(flight.users for flight in flights._used.values()) == THREADS)
                with self.freeze_beside(served):
                    goes_on.set()
                    assert_all_busy([each.result() for each in asked])
            finally:
                goes_on.set()
        assert len(reserves) == THREADS  # those behind the first, and those in the queue, waited for none of their own
        monkeypatch.undo()
        reply = served.ask(key)
        assert (reply.status, reply.json["receipt"]["repeat"]) == (200, False)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def assert_all_busy(replies: list[Any]) -> None:
    assert {(reply.status, reply.kind) for reply in replies} == {(503, "ledger-busy")}
    assert all(int(reply.headers["retry-after"]) > 0 for reply in replies)
