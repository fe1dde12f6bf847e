"""A fence in a PostgreSQL database keeps the contract, also while its server is away."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sfumato.config import LedgerSettings
from sfumato.errors import ConfigError, LedgerFailed
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger import open_ledger
from sfumato.ledger.fence import Fence
from sfumato.ledger.postgres_fence import PostgresFence
from tests.contracts.fence import FenceContract, mark
from tests.contracts.ledger import InSQLite, LedgerContract, answer, refusal, reserve, top
from tests.helpers import postgres

pytestmark = pytest.mark.slow

TERMINATE = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
)


@pytest.fixture(scope="module")
def fence_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


class InDatabase:
    @pytest.fixture(autouse=True)
    def empty(self, fence_url: str) -> Iterator[None]:
        self.url, self.opened_fences = fence_url, []
        self.raw_fence("DROP SCHEMA IF EXISTS sfumato_fence CASCADE")
        yield
        for fence in self.opened_fences:
            fence.close()

    def make(self) -> PostgresFence:
        self.opened_fences.append(PostgresFence(self.url))
        return self.opened_fences[-1]

    def raw_fence(self, statement: str) -> list[tuple]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def lose(self) -> None:
        self.raw_fence("DELETE FROM sfumato_fence.mark")


class TestPostgresFence(InDatabase, FenceContract):
    def test_a_mark_that_is_covered_needs_one_statement(self, begun, monkeypatch):
        begun.advance(mark(3, anna=5))
        run: list[str] = []
        real = begun._run
        monkeypatch.setattr(begun, "_run", lambda sql, *values: run.append(sql) or real(sql, *values))
        begun.advance(mark(2, anna=5))
        assert len(run) == 1

    def test_dropped_connections_are_replaced_silently(self, begun):
        begun.advance(mark(1, anna=1))
        assert self.raw_fence(TERMINATE) == [(True,)]
        begun.advance(mark(2, anna=2))
        assert self.raw_fence(TERMINATE) == [(True,)]
        begun.check()
        assert begun.mark() == mark(2, anna=2)

    def test_connections_are_used_again(self, begun):
        for sequence in range(1, 20):
            begun.advance(mark(sequence))
            begun.check()
        assert len(begun._idle) == 1

    def test_a_commit_waits_for_the_disk_whatever_the_servers_default_is(self, begun):
        name = psycopg.conninfo.conninfo_to_dict(self.url)["dbname"]
        self.raw_fence(f"ALTER DATABASE {name} SET synchronous_commit = off")
        try:
            assert self.make()._run("SHOW synchronous_commit") == [("on",)]
        finally:
            self.raw_fence(f"ALTER DATABASE {name} RESET synchronous_commit")

    def test_a_server_that_is_not_there_is_told_without_its_secrets(self, tmp_path):
        away = PostgresFence(f"postgresql://anna:secret@/nowhere?host={tmp_path}")
        for call in (away.mark, away.check, away.identity, lambda: away.advance(mark(1))):
            with pytest.raises(LedgerFailed, match="cannot be reached") as told:
                call()
            assert "secret" not in str(told.value)
            assert told.value.__context__ is None
        assert "secret" not in away.place

    def test_a_standby_is_no_fence(self, begun):
        name = psycopg.conninfo.conninfo_to_dict(self.url)["dbname"]
        self.raw_fence(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            with pytest.raises(LedgerFailed, match="cannot be reached"):
                self.make().mark()
        finally:
            with psycopg.connect(self.url, options="-c default_transaction_read_only=off") as connection:
                connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

    @pytest.mark.parametrize("damage", ["", "{", "[]", "7", '{"ledger": 1}'])
    def test_a_damaged_mark_is_not_one_that_is_gone(self, begun, damage):
        self.raw_fence(f"UPDATE sfumato_fence.mark SET mark = '{damage}', state = 'x'")
        with pytest.raises(LedgerFailed, match="cannot be read"):
            begun.mark()

    def test_a_row_that_another_transaction_holds_is_not_waited_for_without_end(self, begun):
        with psycopg.connect(self.url) as holder:
            holder.execute("SELECT * FROM sfumato_fence.mark FOR UPDATE")
            for call in (lambda: begun.advance(mark(1, anna=1)), begun.check):
                with pytest.raises(LedgerFailed, match="in use for too long"):
                    call()
            assert begun.mark() == mark(0)  # to read needs no lock
        begun.advance(mark(1, anna=1))
        begun.check()

    def test_a_forked_child_does_not_use_the_connections_of_its_parent(self, begun):
        begun.advance(mark(1))
        child = os.fork()
        if not child:
            try:
                begun.mark()
            except LedgerFailed as told:
                os._exit(0 if "forked" in str(told) else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert begun.mark() == mark(1)

    def test_a_closed_one_says_so(self, begun):
        begun.close()
        with pytest.raises(LedgerFailed, match="closed"):
            begun.mark()
        assert begun._idle == []

    def test_the_database_of_a_ledger_is_no_place_for_a_fence(self, tmp_path, postgres_url):
        (tmp_path / "fences").mkdir()
        with open_ledger(LedgerSettings(postgres_url, tmp_path / "fences"), tmp_path):
            pass
        self.url = postgres_url
        for call in (self.make().start, self.make().restart):
            with pytest.raises(ConfigError, match=r"ledger\.fence: must be another database"):
                call(mark(0))

    def test_nor_if_it_is_spelled_in_another_way(self, tmp_path, postgres_url):
        for fence in (postgres_url, f"{postgres_url}&application_name=fence"):
            with pytest.raises(ConfigError, match=r"ledger\.fence: must be another database"):
                open_ledger(LedgerSettings(postgres_url, fence), tmp_path)


class TestALedgerWithAFenceInADatabase(InDatabase, InSQLite):
    """The parts of the ledger's contract that are about its fence."""

    make = LedgerContract.make
    another = LedgerContract.make

    @pytest.fixture(autouse=True)
    def at_url(self, empty: None, place: None) -> None:
        self.settings = LedgerSettings("sqlite:books.db", self.url)

    def test_an_old_copy_is_refused(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        self.restore(copy)
        for each in (ledger, self.another()):
            assert "older than its fence" in str(refusal(lambda each=each: reserve(each, top())))
        assert self.recover(ledger)
        assert self.another().verify() == []

    def test_a_new_ledger_takes_no_fence_over(self):
        fence = InDatabase.make(self)
        fence.restart(mark(7, ledger="another"))
        ledger = self.make()
        told = str(refusal(lambda: reserve(ledger, top())))
        assert "belongs to another ledger" in told
        assert "PostgreSQL" in told

    def test_nothing_is_answered_or_ready_while_it_is_away(self, monkeypatch):
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
        ledger = self.make()
        answer(ledger, top())
        name = psycopg.conninfo.conninfo_to_dict(self.url)["dbname"]
        self.raw_fence("SELECT 1")
        with psycopg.connect(self.url.replace(name, "postgres"), autocommit=True) as server:
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            try:
                server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
                for call in (lambda: answer(ledger, top()), lambda: answer(ledger, top(3)), ledger.check):
                    assert "fence" in str(refusal(call))
            finally:
                server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        ledger.check()
        assert answer(ledger, top()).repeat

    def test_replies_are_not_cached(self):
        assert self.make().stamp() is None

    def test_readiness_writes_to_it(self):
        ledger = self.make()
        ledger.check()
        assert self.raw_fence("SELECT count(*) FROM sfumato_fence.mark WHERE checked IS NOT NULL") == [(1,)]


def test_a_fence_is_a_port() -> None:
    assert issubclass(PostgresFence, Fence)
