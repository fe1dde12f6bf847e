"""A ledger in PostgreSQL keeps the contract, also when the server drops its connections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from sfumato.accounting import Charge
from sfumato.config import LedgerSettings
from sfumato.ledger import Revealed, open_ledger, payments
from tests.contracts.ledger import (
    NOW,
    InPostgres,
    LedgerContract,
    answer,
    ranking,
    refusal,
    reserve,
    reserved_now,
    reveal_of,
    settle,
    spent,
    top,
)
from tests.helpers import postgres

pytestmark = pytest.mark.slow  # a real server; SQLite keeps the same contract in `make check`

TERMINATE = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    """One database for all tests here: a schema is emptied much faster than a database is made."""
    with postgres.database(postgres_server) as url:
        yield url


class TestPostgresLedger(InPostgres, LedgerContract):
    def test_a_dropped_idle_connection_is_replaced_silently(self):
        ledger = self.make()
        reserve(ledger, top())
        assert self.raw(TERMINATE) == [(True,)]
        assert settle(ledger, top()).charge == Charge(5, 1)

    def test_a_connection_dropped_on_the_way_is_a_failure_that_charges_nothing(self):
        ledger = self.make()
        reserve(ledger, top())
        before = self.books()

        def reveal(payload: str) -> Revealed:
            self.raw(TERMINATE)
            return reveal_of(top())(payload)

        told = refusal(lambda: payments.settle(ledger, top(), reserved_now(ledger, top()), ranking(), reveal, NOW))
        assert "terminat" not in str(told)
        assert self.books() == before
        assert settle(ledger, top()).charge == Charge(5, 1)

    def test_a_server_that_is_not_there_is_told_without_its_address(self, tmp_path):
        url = f"postgresql://anna:secret@/nowhere?host={tmp_path}"
        told = refusal(lambda: open_ledger(LedgerSettings(url, tmp_path / "fence"), tmp_path))
        assert "secret" not in str(told)
        assert str(tmp_path) not in str(told)

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    def test_writers_see_one_another_whatever_the_servers_isolation_is(self, level, postgres_url):
        self.settings = replace(self.settings, url=postgres_url)
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        self.raw(f"ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")
        self.test_threads_spend_what_there_is_and_not_more()

    def test_a_commit_waits_for_the_disk_whatever_the_servers_default_is(self, postgres_url):
        self.settings = replace(self.settings, url=postgres_url)
        name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
        self.raw(f"ALTER DATABASE {name} SET synchronous_commit = off")
        ledger = self.make()
        answer(ledger, top())
        with ledger._store.writing() as run:
            assert run("SHOW synchronous_commit") == [("on",)]

    def test_the_books_are_in_a_schema_of_their_own(self):
        answer(self.make(), top())
        found = self.raw("SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_name = 'journal'")
        assert found == [("sfumato",)]
        assert spent(self.another()) == Charge(5, 1)
