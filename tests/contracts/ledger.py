"""The contract of every ledger, over any store. The test of a store inherits it and says where the books are."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Budget, LedgerSettings
from sfumato.errors import BudgetExhausted, ConfigError, Conflict, InvalidArgument, LedgerFailed
from sfumato.ledger import (
    Account,
    Debit,
    EarlierCall,
    IdempotentCall,
    Ledger,
    Reserved,
    Revealed,
    Settled,
    find_store,
    open_ledger,
    payments,
)
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.fence import Mark
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.migrations import LATEST, migrate
from sfumato.ledger.postgres import PostgresStore
from sfumato.ledger.sqlite import SQLiteStore
from sfumato.ledger.store import Store, Work
from sfumato.ledger.tables import Books, next_hash
from sfumato.ledger.types import Row
from sfumato.mechanisms import Step
from sfumato.query.policy import Prices

TABLES = (
    *("ledger", "journal", "balances", "atoms", "paid", "holds", "answers", "calls", "questions"),
    *("places", "seals", "cells", "domains"),
)
PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
NOVEMBER, DECEMBER = NOW, datetime(2026, 12, 3, tzinfo=UTC)
UNIT, CALL = Charge(1), Charge(0, 1)

Books_ = dict[str, list[tuple[Any, ...]]]


class Killed(BaseException):
    """The process ends here."""


# -- asking --


def budget(information: Any = 100, calls: int = 10, resets: str = "monthly", **terms: Any) -> Budget:
    return Budget(**{"prices": PRICES, "cap": Charge(information, calls), "resets": resets, **terms})


def own(analyst: str = "anna", **terms: Any) -> Account:
    return Account(f"analyst:{analyst}", budget(**terms))


def acme(**terms: Any) -> Account:
    return Account("organisation:acme", budget(**terms), shared=True)


ANNA, BOB, ACME = own("anna"), own("bob"), acme()


def row_steps(rows: int, *, counts: bool) -> tuple[Step, ...]:
    """1 call, 1 unit for the cutoff, 1 for each row and 1 for each count."""
    picks = [Step("pick", UNIT, place) for place in range(1, rows + 1)]
    noisy = [Step("count", UNIT, place, "gaussian 40/3") for place in range(1, rows + 1)] if counts else []
    return (Step("call", CALL), Step("cutoff", UNIT), *picks, *noisy)


def top(k: int = 2, atom: str = "list", *accounts: Account, counts: bool = True) -> Debit:
    """A list of `k` from a ranking of unknown keys: 2k + 1 units and a call at worst."""
    return debit_of(accounts or (ANNA,), atom, {"k": k, "counts": counts}, row_steps(k, counts=counts))


def histogram(atom: str = "histogram", *accounts: Account, units: Any = 1) -> Debit:
    """All of a public domain, which needs no call."""
    return debit_of(accounts or (ANNA,), atom, {"units": str(units)}, (Step("histogram", Charge(units)),))


def debit_of(accounts: tuple[Account, ...], atom: str, request: dict[str, Any], worst: tuple[Step, ...]) -> Debit:
    analyst = accounts[0].name.removeprefix("analyst:")
    digest = " ".join((atom, *map(str, request.values())))
    sql = f"SELECT {digest}"
    return Debit(analyst, accounts, digest, atom, "epoch", "daily 2026-11-15", request, worst, write_sql=lambda: sql)


def ranking(rows: int = 100, word: str = "first") -> str:
    """What is stored of an atom: noise ends the list after `rows`."""
    return json.dumps({"rows": rows, "word": word})


def reveal_of(ask: Debit) -> Callable[[str], Revealed]:
    def reveal(payload: str) -> Revealed:
        stored, k = json.loads(payload), ask.request.get("k")
        if k is None:
            return Revealed(json.dumps([ask.digest, stored["word"]]), ask.worst)
        rows, stopped = min(k, stored["rows"]), k > stored["rows"]
        ending = (Step("stop", UNIT, rows + 1),) if stopped else ()
        body = json.dumps([ask.digest, stored["word"], rows, stopped])
        return Revealed(body, row_steps(rows, counts=ask.request["counts"]) + ending)

    return reveal


def reserve(ledger: Ledger, ask: Debit, now: datetime = NOW) -> Reserved | Settled:
    return payments.reserve(ledger, ask, reveal_of(ask), now)


def settle(ledger: Ledger, ask: Debit, payload: str | None = None, now: datetime = NOW) -> Settled:
    return payments.settle(ledger, ask, reserved_now(ledger, ask), payload or ranking(), reveal_of(ask), now)


def open_store(store: Store) -> Store:
    store.open()
    return store


def reserved_now(ledger: Ledger, ask: Debit) -> Reserved:
    """What `reserve` would return now: the current nonce of the atom."""
    with ledger._store.reading() as run:
        atom = Books(run).atom(ask.atom)
    return Reserved(bytes.fromhex(atom[0]) if atom else bytes(16))


def answer(ledger: Ledger, ask: Debit, payload: str | None = None, now: datetime = NOW) -> Settled:
    """The whole path."""
    found = reserve(ledger, ask, now)
    return settle(ledger, ask, payload, now) if isinstance(found, Reserved) else found


def recall(ledger: Ledger, digest: str, *accounts: Account) -> Settled | None:
    return ledger.recall(accounts[0].name, digest, lambda _: accounts, NOW)


def spent(ledger: Ledger, account: Account = ANNA, now: datetime = NOW) -> Charge:
    return ledger.standings([account], now)[0].spent


def left(ledger: Ledger, account: Account = ANNA, now: datetime = NOW) -> Charge:
    return ledger.standings([account], now)[0].left


def price(ledger: Ledger, ask: Debit) -> Charge:
    [charge] = ledger.prices(ask, lambda _: [ask.worst])
    return charge


def refusal(call: Callable[[], object]) -> LedgerFailed:
    """The failure of a call. It carries no other exception."""
    with pytest.raises(LedgerFailed) as told:
        call()
    assert told.value.__cause__ is None
    assert told.value.__context__ is None
    return told.value


OPERATIONS: dict[str, Callable[[Ledger], object]] = {
    "reserve": lambda ledger: reserve(ledger, top(3, "another")),
    "settle": lambda ledger: settle(ledger, top()),
    "reservations": lambda ledger: ledger.reservations(),
    "standings": lambda ledger: ledger.standings([ANNA], NOW),
    "prices": lambda ledger: ledger.prices(top(), lambda _: [top().worst]),
    "recall": lambda ledger: recall(ledger, top().digest, ANNA),
    "earlier_call": lambda ledger: ledger.earlier_call(ANNA.name, IdempotentCall.of("key", b"body")),
    "check": lambda ledger: ledger.check(),
    "history": lambda ledger: ledger.history("anna"),
    "grant": lambda ledger: ledger.grant(ANNA, UNIT, "more", NOW),
}

# Changes through a raw connection to the books that `LedgerContract.busy` makes.
TAMPERINGS = {
    "a journal row's amount": "UPDATE journal SET spent = '0 0' WHERE sequence = 3",
    "a journal row's analyst": "UPDATE journal SET analyst = 'bob' WHERE sequence = 3",
    "a journal row's moment": "UPDATE journal SET at = '2026-11-14T00:00:00.000000+00:00' WHERE sequence = 3",
    "a journal row's note": "UPDATE journal SET note = '{}' WHERE sequence = 3",
    "a journal row's prices": "UPDATE journal SET prices = 'epsilon_per 9, delta_per 9' WHERE sequence = 3",
    "a journal row's hash": "UPDATE journal SET hash = 'ff' WHERE sequence = 3",
    "a journal row that is no row": "UPDATE journal SET spent = 'much' WHERE sequence = 3",
    "the first journal row deleted": "DELETE FROM journal WHERE sequence = 1",
    "a middle journal row deleted": "DELETE FROM journal WHERE sequence = 5",
    "the last journal row deleted": "DELETE FROM journal WHERE sequence = (SELECT sequence FROM ledger)",
    "the journal deleted": "DELETE FROM journal",
    "two journal rows swapped": "UPDATE journal SET sequence = -1 WHERE sequence = 3; "
    "UPDATE journal SET sequence = 3 WHERE sequence = 4; UPDATE journal SET sequence = 4 WHERE sequence = -1",
    "a balance's spending": "UPDATE balances SET spent = '0 0' WHERE account = 'analyst:anna'",
    "a balance's grants": "UPDATE balances SET granted = '99 0' WHERE account = 'analyst:anna'",
    "a balance that is no number": "UPDATE balances SET spent = 'much' WHERE account = 'analyst:anna'",
    "a balance deleted": "DELETE FROM balances WHERE account = 'analyst:anna'",
    "a balance added": "INSERT INTO balances VALUES ('analyst:eve', '2026-11-01', '', '0 0', '0 0', '9 9')",
    "a hold deleted": "DELETE FROM holds",
    "a hold made smaller": "UPDATE holds SET parts = '[]'",
    "a stored payload changed": "UPDATE atoms SET payload = '{}' WHERE atom = 'list'",
    "a stored payload emptied": "UPDATE atoms SET payload = NULL WHERE atom = 'list'",
    "a stored payload deleted": "DELETE FROM atoms WHERE atom = 'list'",
    "a stored payload planted": "UPDATE atoms SET payload = '{}' WHERE atom = 'open'",
    "a stored body changed": "UPDATE answers SET body = '{}' WHERE digest = 'list 2 True'",
    "a receipt changed": "UPDATE answers SET receipt = '' WHERE digest = 'list 2 True'",
    "a free answer's body changed": "UPDATE answers SET body = '{}' WHERE digest = 'list 1 True'",
    "a stored question's request": "UPDATE questions SET request = '{}' WHERE digest = 'list 2 True'",
    "a stored question's SQL": "UPDATE questions SET sql = 'SELECT 1' WHERE digest = 'list 2 True'",
    "a stored question deleted": "DELETE FROM questions WHERE digest = 'list 2 True'",
    "a stored question added": "INSERT INTO questions VALUES ('analyst:bob', 'list 2 True', '{}', '')",
    "steps added to paid": "UPDATE paid SET steps = 'pick 9' WHERE account = 'analyst:anna'",
    "a paid atom added": "INSERT INTO paid VALUES ('analyst:bob', 'list', 'pick 1')",
    "a paid atom deleted": "DELETE FROM paid WHERE account = 'analyst:anna'",
    "the head rewritten": "UPDATE ledger SET head = 'ff'",
    "the length rewritten": "UPDATE ledger SET sequence = 3",
    "the head deleted": "DELETE FROM ledger",
}

FORKS = """
import os, sys
from pathlib import Path
from sfumato.ledger import open_ledger
from sfumato.config import LedgerSettings
from sfumato.errors import LedgerFailed

url, fence, folder = sys.argv[1:]
with open_ledger(LedgerSettings(url, Path(fence)), Path(folder)) as ledger:
    child = os.fork()
    if not child:
        try:
            ledger.reservations()
        except LedgerFailed as error:
            os.write(1, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert ledger.reservations() == []
"""


class LedgerPlace:
    """`place` puts `settings`, whose fence is outside `folder`, and `folder` on the test; the rest follows."""

    settings: LedgerSettings
    folder: Path

    def store(self) -> Store:
        """The store on its own, in the same place."""
        raise NotImplementedError

    def raw(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement without the ledger."""
        raise NotImplementedError

    def fill(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Put rows into an empty table, without the ledger."""
        raise NotImplementedError

    def written(self) -> object:
        """A value that changes with every commit that is written to disk."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def opened(self) -> Iterator[None]:
        self._opened: list[Ledger] = []
        yield
        for ledger in self._opened:
            ledger.close()

    def make(self) -> Ledger:
        """The ledger in this test's place."""
        self._opened.append(open_ledger(self.settings, self.folder))
        return self._opened[-1]

    another = make  # as another process would: nothing in memory is shared

    @property
    def fence(self) -> Path:
        assert isinstance(self.settings.fence, Path)
        return self.settings.fence

    def books(self) -> Books_:
        """Every row of every table."""
        return {table: sorted(self.raw(f"SELECT * FROM {table}"), key=repr) for table in TABLES}

    def restore(self, copy: Books_) -> None:
        for table, rows in copy.items():
            self.raw(f"DELETE FROM {table}")
            self.fill(table, rows)

    def recover(self, ledger: Ledger, now: datetime = NOW) -> list[Row]:
        return ledger.recover([ANNA, BOB, ACME], now)


class InSQLite(LedgerPlace):
    """A ledger in an SQLite file."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "ledger"
        self.folder.mkdir()
        self.file = self.folder / "books.db"
        self.settings = LedgerSettings("sqlite:books.db", tmp_path / "elsewhere" / "fence")

    def store(self) -> Store:
        return open_store(SQLiteStore(self.file))

    def raw(self, statement: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.file, isolation_level=None)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def written(self) -> object:
        log = self.file.with_name(self.file.name + "-wal")
        return log.read_bytes() if log.exists() else b""

    def fill(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        connection = sqlite3.connect(self.file)
        with connection:
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        connection.close()


class InPostgres(LedgerPlace):
    """A ledger in the PostgreSQL database of the module's `shared_url`."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, shared_url: str) -> None:
        self.folder = tmp_path
        self.settings = LedgerSettings(shared_url, tmp_path / "elsewhere" / "fence")
        self.raw("DROP SCHEMA IF EXISTS sfumato CASCADE")

    def store(self) -> Store:
        return open_store(PostgresStore(self.settings.url))

    def connected(self) -> Any:
        import psycopg

        return psycopg.connect(self.settings.url, options="-c search_path=sfumato")

    def raw(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def written(self) -> object:
        return self.raw("SELECT xmin FROM ledger")  # the transaction that wrote the row

    def fill(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        with self.connected() as connection:
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)


class LedgerContract(LedgerPlace):
    """What a ledger keeps, in any place."""

    def nonce(self, atom: str) -> str:
        return self.raw(f"SELECT nonce FROM atoms WHERE atom = '{atom}'")[0][0]

    def busy(self) -> Ledger:
        """Books with some of everything: a list, longer and shorter, a grant, a hold."""
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        answer(ledger, top(4, "list", ANNA, ACME))
        answer(ledger, top(1, "list", ANNA, ACME))
        ledger.grant(ANNA, Charge(7), "more", NOW)
        reserve(ledger, top(2, "open", BOB, ACME))
        return ledger

    # -- the store --

    def test_a_store_knows_whether_it_has_books_and_creates_none_to_tell(self):
        store = self.store_of()
        assert not store.exists
        assert not self.store_of().exists
        self.make()
        assert store.exists

    def test_a_store_that_is_not_open_refuses(self):
        self.make()
        store = self.store_of()
        for transaction in (store.writing, store.reading):
            with pytest.raises(LedgerFailed, match="closed"), transaction():
                pass

    def test_the_same_books_have_the_same_place(self):
        assert self.store_of().place == self.store_of().place
        assert "secret" not in self.store_of().place

    def test_one_service_uses_a_store_that_cannot_be_shared(self):
        first, second, third = self.make(), self.another(), self.another()
        first.lock_service()
        if first.shared:
            second.lock_service()
            second.close()
        else:
            with pytest.raises(ConfigError, match="another `sfumato serve`"):
                second.lock_service()
        first.close()
        third.lock_service()
        assert self.store_of().shared == first.shared

    def store_of(self) -> Store:
        return find_store(self.settings, self.folder)

    # -- reserve --

    def test_the_worst_case_is_reserved_on_every_account(self):
        ledger = self.make()
        reserve(ledger, top(2, "list", ANNA, ACME))
        assert [s.reserved for s in ledger.standings([ANNA, ACME], NOW)] == [Charge(5, 1)] * 2
        assert [s.left for s in ledger.standings([ANNA, ACME], NOW)] == [Charge(95, 9)] * 2

    @pytest.mark.parametrize("short", ["own", "shared"])
    def test_what_one_account_cannot_pay_no_account_pays(self, short):
        anna = own(information=4) if short == "own" else ANNA
        shared = acme(information=4) if short == "shared" else ACME
        ledger = self.make()
        before = self.books()
        with pytest.raises(BudgetExhausted) as refused:
            reserve(ledger, top(2, "list", anna, shared))
        assert self.books() == before
        assert refused.value.account == (anna if short == "own" else shared).name
        assert (refused.value.asked, refused.value.left) == (Charge(5, 1), Charge(4, 10))
        assert refused.value.resets == date(2026, 12, 1)

    def test_a_refusal_changes_nothing_in_books_that_are_in_use(self):
        ledger = self.busy()
        before = self.books()
        with pytest.raises(BudgetExhausted):
            reserve(ledger, top(50, "another", ANNA, ACME))
        assert self.books() == before

    def test_exactly_what_is_left_can_be_spent(self):
        ledger, anna = self.make(), own(information=5, calls=1)
        assert answer(ledger, top(2, "list", anna)).left == NOTHING

    @pytest.mark.parametrize("terms", [{"information": 4}, {"calls": 0}])
    def test_one_more_than_is_left_cannot(self, terms):
        with pytest.raises(BudgetExhausted):
            reserve(self.make(), top(2, "list", own(**terms)))

    def test_without_calls_a_known_domain_is_still_answered(self):
        ledger, anna = self.make(), own(calls=1)
        answer(ledger, top(1, "list", anna))
        with pytest.raises(BudgetExhausted):
            reserve(ledger, top(1, "another", anna))
        assert answer(ledger, histogram("known", anna)).charge == UNIT

    def test_what_is_reserved_is_not_spent_twice(self):
        ledger, anna = self.make(), own(information=8)
        reserve(ledger, top(2, "list", anna))
        with pytest.raises(BudgetExhausted) as refused:
            reserve(self.another(), top(2, "another", anna))
        assert refused.value.left == Charge(3, 9)

    def test_the_reserve_does_not_depend_on_what_is_stored_and_unseen(self):
        ledger, anna = self.make(), own(information=20)
        assert answer(ledger, top(10, "list", BOB), ranking(2)).charge == Charge(6, 1)
        before = self.books()
        with pytest.raises(BudgetExhausted) as refused:
            reserve(ledger, top(10, "list", anna))
        assert refused.value.asked == Charge(21, 1)
        assert self.books() == before

    def test_a_price_is_what_would_be_reserved(self):
        ledger = self.make()
        assert price(ledger, top(2)) == Charge(5, 1)
        answer(ledger, top(2))
        assert [price(ledger, top(k)) for k in (1, 2, 4)] == [NOTHING, NOTHING, Charge(4)]
        assert price(ledger, top(2, "list", BOB)) == Charge(5, 1)
        reserve(ledger, top(3, "another"))
        assert price(ledger, top(3, "another")) == NOTHING

    def test_a_price_follows_from_the_rows_that_are_paid_for(self):
        ledger = self.make()

        def outcomes(seen: int) -> list[tuple[Step, ...]]:
            assert seen == 2
            return [top(4).worst, (*row_steps(seen, counts=True), Step("stop", UNIT, seen + 1))]

        answer(ledger, top(2))
        assert ledger.prices(top(4), outcomes) == [Charge(4), Charge(1)]

    def test_resuming_continues_a_reservation_and_begins_none(self):
        ledger, ask = self.make(), top()
        before = self.books()
        with pytest.raises(LedgerFailed):
            payments.reserve(ledger, ask, reveal_of(ask), NOW, resume=True)
        assert self.books() == before
        assert reserve(ledger, ask) == payments.reserve(ledger, ask, reveal_of(ask), NOW, resume=True)

    # -- settle --

    def test_the_own_account_gets_back_what_was_not_revealed_and_a_shared_one_nothing(self):
        ledger = self.make()
        settled = answer(ledger, top(10, "list", ANNA, ACME), ranking(2))
        assert settled.charge == Charge(6, 1)  # a cutoff, two rows with counts, a stop
        assert spent(ledger, ANNA) == Charge(6, 1)
        assert spent(ledger, ACME) == Charge(21, 1)
        assert [s.reserved for s in ledger.standings([ANNA, ACME], NOW)] == [NOTHING] * 2
        assert settled.left == ledger.standings([ANNA], NOW)[0].left

    def test_a_shared_account_pays_an_atom_once_and_each_analyst_her_own(self):
        ledger = self.make()
        assert answer(ledger, top(2, "list", ANNA, ACME)).charge == Charge(5, 1)
        assert answer(ledger, top(2, "list", BOB, ACME)).charge == Charge(5, 1)
        assert (spent(ledger, ANNA), spent(ledger, BOB), spent(ledger, ACME)) == (Charge(5, 1),) * 3

    def test_a_shared_account_pays_once_when_two_ask_at_the_same_time(self):
        ledger, asks = self.make(), [top(2, "list", ANNA, ACME), top(2, "list", BOB, ACME)]
        for ask in asks:
            reserve(ledger, ask)
        assert ledger.standings([ACME], NOW)[0].reserved == Charge(10, 2)
        assert [settle(ledger, ask).charge for ask in asks] == [Charge(5, 1)] * 2
        assert spent(ledger, ACME) == Charge(5, 1)
        assert ledger.standings([ACME], NOW)[0].reserved == NOTHING

    def test_a_longer_list_pays_its_new_steps_and_reads_no_row(self):
        ledger = self.make()
        answer(ledger, top(2))
        longer = reserve(ledger, top(5))
        assert isinstance(longer, Settled)
        assert (longer.charge, longer.repeat) == (Charge(6), False)
        assert json.loads(longer.body) == ["list 5 True", "first", 5, False]

    def test_the_step_after_the_last_row_is_paid_for(self):
        ledger = self.make()
        answer(ledger, top(2), ranking(2))
        assert answer(ledger, top(5)).charge == UNIT  # only that the list has ended is new

    def test_nothing_is_paid_after_a_stop(self):
        ledger = self.make()
        answer(ledger, top(5, "list", ANNA, ACME), ranking(2))
        before = spent(ledger)
        assert answer(ledger, top(9, "list", ANNA, ACME)).charge == NOTHING
        assert spent(ledger) == before
        assert spent(ledger, ACME) == Charge(19, 1)  # which does not show that the list had ended

    def test_a_stop_that_was_seen_is_remembered_over_other_questions(self):
        ledger = self.make()
        answer(ledger, top(5, counts=False), ranking(2))
        answer(ledger, top(5, "another"))
        assert answer(ledger, top(5)).charge == Charge(2)  # the counts
        assert price(ledger, top(50)) == NOTHING
        assert answer(ledger, top(9)).charge == NOTHING

    def test_a_list_that_ends_costs_nothing_longer_even_if_the_budget_is_gone(self):
        ledger, anna = self.make(), own(information=11)
        answer(ledger, top(5, "list", anna), ranking(2))
        assert answer(ledger, top(50, "list", anna)).charge == NOTHING

    def test_counts_are_paid_when_they_are_asked_for(self):
        ledger = self.make()
        assert answer(ledger, top(3, counts=False)).charge == Charge(4, 1)
        assert answer(ledger, top(3)).charge == Charge(3)
        assert spent(ledger) == Charge(7, 1)

    def test_the_same_request_again_is_free_and_the_same_bytes(self):
        ledger = self.make()
        first = answer(ledger, top(2))
        again = reserve(self.another(), top(2))
        assert isinstance(again, Settled)
        assert (first.repeat, again.repeat) == (False, True)
        assert (again.body, again.charge) == (first.body, NOTHING)
        assert spent(ledger) == Charge(5, 1)

    def test_the_same_request_again_is_free_without_a_budget(self):
        ledger, anna = self.make(), own(information=5, calls=1)
        first = answer(ledger, top(2, "list", anna))
        assert answer(ledger, top(2, "list", anna)).body == first.body
        assert answer(ledger, top(2, "list", anna), now=DECEMBER).body == first.body

    def test_a_shorter_list_is_free(self):
        ledger = self.make()
        answer(ledger, top(5, "list", ANNA, ACME))
        shorter = reserve(ledger, top(2, "list", ANNA, ACME))
        assert isinstance(shorter, Settled)
        assert (shorter.charge, shorter.repeat) == (NOTHING, False)
        assert spent(ledger) == spent(ledger, ACME) == Charge(11, 1)

    def test_an_answer_belongs_to_one_account(self):
        ledger, bob = self.make(), own("bob")
        answer(ledger, top(2))
        assert not answer(ledger, top(2, "list", bob)).repeat
        assert spent(ledger, bob) == Charge(5, 1)

    def test_an_organisation_that_she_joined_later_pays_for_what_leaves_again(self):
        ledger = self.make()
        first = answer(ledger, top(2))
        again = answer(ledger, top(2, "list", ANNA, ACME))
        assert (again.body, again.charge, again.repeat) == (first.body, NOTHING, True)
        assert spent(ledger, ACME) == Charge(5, 1)
        assert answer(ledger, top(2, "list", ANNA, ACME)).repeat
        assert spent(ledger, ACME) == Charge(5, 1)
        poor = Account("organisation:poor", budget(information=4), shared=True)
        with pytest.raises(BudgetExhausted):
            answer(ledger, top(2, "list", ANNA, poor))
        assert ledger.verify() == []

    def test_a_cap_that_was_added_after_the_reservation_pays_before_the_answer_leaves(self):
        ledger = self.make()
        reserve(ledger, top(2))
        poor = Account("table:t", budget(information=4), shared=True)
        before = self.books()
        with pytest.raises(BudgetExhausted):
            reserve(ledger, top(2, "list", ANNA, poor))
        assert self.books() == before
        cap = Account("table:t", budget(information=5), shared=True)
        assert answer(ledger, top(2, "list", ANNA, cap)).charge == Charge(5, 1)
        assert spent(ledger, cap) == Charge(5, 1)
        assert ledger.verify() == []

    def test_an_answer_that_costs_more_than_its_reserve_does_not_leave(self):
        ledger, ask = self.make(), top(2)
        reserve(ledger, ask)
        before = self.books()
        with pytest.raises(LedgerFailed, match="more than was reserved"):
            payments.settle(
                ledger, ask, reserved_now(ledger, ask), ranking(), lambda payload: reveal_of(top(3))(payload), NOW
            )
        assert self.books() == before

    # -- once --

    def test_a_draw_with_a_nonce_that_was_renewed_is_void(self):
        """It was computed before a recovery; the same nonce may have been seen in the books that were lost."""
        ledger, ask = self.make(), top(2)
        reserve(ledger, ask)
        with pytest.raises(LedgerFailed, match="started again"):
            payments.settle(ledger, ask, Reserved(bytes(16)), ranking(), reveal_of(ask), NOW)
        assert settle(ledger, ask).charge == Charge(5, 1)

    def test_the_longest_list_that_every_account_can_pay_is_found(self):
        ledger, anna, shared = self.make(), own(information=9), acme(information=7)

        def asking(k: int) -> Debit:
            return top(k, "list", anna, shared)

        assert [ledger.longest_fitting(most, asking, NOW) for most in (1, 2, 3, 4, 5, 100)] == [1, 2, 3, 3, 3, 3]
        answer(ledger, asking(1))
        assert ledger.longest_fitting(100, asking, NOW) == 3
        answer(ledger, asking(3))
        assert ledger.longest_fitting(100, lambda k: top(k, "another", anna, shared), NOW) is None

    def test_reserving_twice_holds_once(self):
        ledger = self.make()
        reserve(ledger, top(2, "list", ANNA, ACME))
        reserve(self.another(), top(2, "list", ANNA, ACME))
        assert [s.reserved for s in ledger.standings([ANNA, ACME], NOW)] == [Charge(5, 1)] * 2
        assert len(ledger.reservations()) == 1

    def test_settling_twice_charges_once(self):
        ledger = self.make()
        first = answer(ledger, top(2))
        second = settle(ledger, top(2), ranking(word="second"))
        assert (second.body, second.charge, second.repeat) == (first.body, NOTHING, True)
        assert spent(ledger) == Charge(5, 1)

    def test_two_identical_requests_at_once_are_charged_once_and_get_the_same_bytes(self):
        ledgers, ask = [self.make(), self.another()], top(2, "list", ANNA, ACME)
        together = threading.Barrier(2)

        def run(ledger: Ledger) -> Settled:
            together.wait()
            found = reserve(ledger, ask)
            together.wait()
            return settle(ledger, ask, ranking(word=str(id(ledger)))) if isinstance(found, Reserved) else found

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(run, ledgers))
        assert answers[0].body == answers[1].body
        assert answers[0].charge + answers[1].charge == Charge(5, 1)
        assert spent(ledgers[0], ANNA) == spent(ledgers[1], ACME) == Charge(5, 1)

    def test_the_first_stored_ranking_wins(self):
        ledger, other = self.make(), self.another()
        reserve(ledger, top(2, "list", ANNA))
        reserve(other, top(3, "list", BOB))
        settle(ledger, top(2, "list", ANNA), ranking(word="first"))
        late = settle(other, top(3, "list", BOB), ranking(word="second"))
        assert json.loads(late.body) == ["list 3 True", "first", 3, False]

    def test_keeping_spends_the_worst_case(self):
        ledger = self.make()
        reserve(ledger, top(2, "list", ANNA, ACME))
        payments.keep(ledger, ledger.reservations()[0], NOW)
        assert [s.spent for s in ledger.standings([ANNA, ACME], NOW)] == [Charge(5, 1)] * 2
        assert [s.reserved for s in ledger.standings([ANNA, ACME], NOW)] == [NOTHING] * 2
        assert ledger.reservations() == []

    def test_keeping_twice_spends_once(self):
        ledger = self.make()
        reserve(ledger, top(2))
        [hold] = ledger.reservations()
        payments.keep(ledger, hold, NOW)
        payments.keep(ledger, hold, NOW)
        assert spent(ledger) == Charge(5, 1)

    def test_keeping_what_was_settled_changes_nothing(self):
        ledger = self.make()
        reserve(ledger, top(2))
        [hold] = ledger.reservations()
        settle(ledger, top(2), ranking(0))
        payments.keep(ledger, hold, NOW)
        assert spent(ledger) == Charge(2, 1)

    def test_keeping_an_older_hold_leaves_a_newer_one_of_the_same_request_alone(self):
        ledger = self.make()
        reserve(ledger, top(2), NOVEMBER)
        [older] = ledger.reservations()
        payments.keep(ledger, older, NOVEMBER)
        reserve(ledger, top(2), DECEMBER)
        payments.keep(ledger, older, DECEMBER)
        assert ledger.verify() == []
        assert settle(ledger, top(2), now=DECEMBER).charge == Charge(5, 1)

    def test_a_late_answer_to_a_kept_request_does_not_leave(self):
        ledger, ask = self.make(), top(2)
        reserve(ledger, ask)
        payments.keep(self.another(), ledger.reservations()[0], NOW)
        before = self.books()
        with pytest.raises(LedgerFailed, match="what was charged stays charged"):
            settle(ledger, ask)
        assert self.books() == before
        assert self.raw("SELECT * FROM answers") == []

    def test_a_hold_carries_all_that_is_needed_to_run_it_again(self):
        ledger, ask = self.make(), top(2, "list", ANNA, ACME)
        reserve(ledger, ask)
        [hold] = self.another().reservations()
        assert (hold.account, hold.digest, hold.analyst) == (ANNA.name, ask.digest, "anna")
        assert (hold.atom, hold.epoch, hold.version) == (ask.atom, ask.epoch, ask.version)
        assert hold.request == ask.request
        assert [(part.account, part.charge) for part in hold.parts] == [
            (ANNA.name, Charge(5, 1)),
            (ACME.name, Charge(5, 1)),
        ]

    # -- again --

    def test_an_answer_is_recalled_as_it_first_left(self):
        ledger, ask = self.make(), top(2, "list", ANNA, ACME)
        first = answer(ledger, ask)
        answer(ledger, top(3, "another"))
        assert answer(ledger, ask).left != first.left
        assert recall(ledger, ask.digest, ANNA, ACME) == first
        assert (first.charge, first.left, first.repeat) == (Charge(5, 1), Charge(95, 9), False)

    def test_only_ones_own_answers_are_recalled(self):
        ledger, ask = self.make(), top(2, "list", ANNA)
        assert recall(ledger, ask.digest, ANNA) is None
        reserve(ledger, ask)
        assert recall(ledger, ask.digest, ANNA) is None
        settle(ledger, ask)
        assert recall(ledger, ask.digest, ANNA) is not None
        assert recall(ledger, ask.digest, BOB) is None
        assert recall(ledger, "something else", ANNA) is None

    def test_an_answer_is_recalled_when_all_who_pay_for_it_now_have_paid(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA))
        assert recall(ledger, top().digest, ANNA, ACME) is None  # the organisation is new, or the table has a cap
        answer(ledger, top(1, "list", BOB, ACME))
        assert recall(ledger, top().digest, ANNA, ACME) is None  # a part of it is paid for
        answer(ledger, top(2, "list", BOB, ACME))
        assert recall(ledger, top().digest, ANNA, ACME) is not None

    def test_a_list_that_noise_ended_is_recalled_too(self):
        ledger, ask = self.make(), top(10, "list", ANNA, ACME)
        first = answer(ledger, ask, ranking(2))
        assert recall(ledger, ask.digest, ANNA, ACME) == first

    def test_a_recalled_answer_leaves_after_the_fence_has_seen_its_charge(self):
        ledger, ask = self.make(), top()
        answer(ledger, ask)
        FileFence(self.fence).restart(replace(FileFence(self.fence).mark(), totals={}))
        assert recall(ledger, ask.digest, ANNA) is not None
        totals = FileFence(self.fence).mark().totals
        assert {name: total.spent for name, total in totals.items()} == {ANNA.name: Charge(5, 1)}

    def test_a_call_begins_one_request(self):
        ledger, call = self.make(), IdempotentCall.of("key", b"body")
        assert ledger.earlier_call(ANNA.name, call) is None
        ask = replace(top(), call=call)
        reserve(ledger, ask)
        assert ledger.earlier_call(ANNA.name, call) == EarlierCall(ask.digest, free=False)
        assert ledger.earlier_call(BOB.name, call) is None  # another's key of the same name
        assert answer(ledger, ask).charge == Charge(5, 1)
        assert answer(ledger, ask).charge == NOTHING
        with pytest.raises(Conflict) as refused:
            ledger.earlier_call(ANNA.name, IdempotentCall.of("key", b"another body"))
        assert refused.value.reused

    def test_a_key_with_another_body_changes_nothing(self):
        ledger, ask = self.make(), replace(top(), call=IdempotentCall.of("key", b"body"))
        answer(ledger, ask)
        before = self.books()
        for other in (top(), top(3), histogram()):
            with pytest.raises(Conflict):
                reserve(ledger, replace(other, call=IdempotentCall.of("key", b"another body")))
        with pytest.raises(Conflict) as refused:  # the same body, which has come to mean another question
            reserve(ledger, replace(top(3), call=ask.call))
        assert not refused.value.reused
        assert self.books() == before

    def test_a_refused_call_leaves_its_key_free(self):
        ledger, poor = self.make(), own(information=1)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, replace(top(5, "list", poor), call=IdempotentCall.of("key", b"too much")))
        answer(ledger, replace(histogram("little", poor), call=IdempotentCall.of("key", b"less")))

    def test_a_free_repeat_binds_its_key_too(self):
        ledger = self.make()
        answer(ledger, top())
        answer(ledger, replace(top(), call=IdempotentCall.of("key", b"body")))
        assert ledger.earlier_call(ANNA.name, IdempotentCall.of("key", b"body")) == EarlierCall(top().digest, free=True)

    @pytest.mark.parametrize("payer", [0, 1, 2])
    def test_of_calls_that_wait_for_one_answer_one_pays(self, payer):
        ledger, calls = self.make(), [IdempotentCall.of(f"key {number}", b"body") for number in range(3)]
        for call in calls:
            reserve(ledger, replace(top(), call=call))
        assert settle(ledger, replace(top(), call=calls[payer])).charge == Charge(5, 1)
        assert [ledger.earlier_call(ANNA.name, call).free for call in calls] == [number != payer for number in range(3)]

    def test_of_calls_that_were_left_behind_the_first_has_paid(self):
        ledger, calls = self.make(), [IdempotentCall.of(f"key {number}", b"body") for number in range(3)]
        for call in calls:
            reserve(ledger, replace(top(), call=call))
        assert answer(ledger, top()).charge == Charge(5, 1)  # finished without a call
        assert [ledger.earlier_call(ANNA.name, call).free for call in calls] == [False, True, True]

    def test_neither_keys_nor_bodies_of_calls_are_stored(self):
        ledger = self.make()
        answer(ledger, replace(top(), call=IdempotentCall.of("a-key-of-mine", b"a-body-of-mine")))
        assert "of-mine" not in str(self.books())

    def test_only_the_latest_calls_are_remembered(self, monkeypatch):
        monkeypatch.setattr("sfumato.ledger.tables.MAX_CALLS", 3)
        ledger = self.make()
        for number in range(5):
            answer(ledger, replace(top(), call=IdempotentCall.of(f"key {number}", b"body")))
        answer(ledger, replace(top(2, "list", BOB), call=IdempotentCall.of("key", b"body")))
        found = [ledger.earlier_call(ANNA.name, IdempotentCall.of(f"key {number}", b"body")) for number in range(5)]
        assert found == [None, None, *[EarlierCall(top().digest, free=True)] * 3]
        assert ledger.earlier_call(BOB.name, IdempotentCall.of("key", b"body")) is not None

    def test_a_stamp_stays_while_the_books_do(self):
        ledger, other = self.make(), self.another()
        before = ledger.stamp()
        recall(ledger, "nothing", ANNA)
        ledger.standings([ANNA], NOW)
        assert ledger.stamp() == before
        answer(other, top())
        assert before is None or ledger.stamp() != before

    def test_a_check_writes_and_changes_nothing(self, monkeypatch):
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
        ledger = self.make()
        answer(ledger, top())
        books, fence, written = self.books(), self.fence.read_bytes(), self.written()
        ledger.check()
        assert self.written() != written
        assert (self.books(), self.fence.read_bytes()) == (books, fence)
        assert [path for path in self.fence.parent.iterdir() if path.name.endswith(".probe")] == []
        assert ledger.verify() == []
        self.fence.unlink()
        refusal(ledger.check)

    def test_many_checks_write_once(self, monkeypatch):
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 3600)
        ledger = self.make()
        ledger.check()
        written = self.written()
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(ledger.check) for _ in range(100)]:
                done.result(60)
        assert self.written() == written

    def test_a_check_that_failed_is_repeated_and_not_remembered_for_long(self, monkeypatch):
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 3600)
        ledger = self.make()
        fence = self.fence.read_bytes()
        self.fence.unlink()
        refusal(ledger.check)
        self.fence.write_bytes(fence)
        refusal(ledger.check)
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
        ledger.check()

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
    def test_a_check_fails_where_the_fence_cannot_be_synced(self, code, monkeypatch):
        def fail(_: int) -> None:
            raise OSError(code, "a disk at /secret/place")

        ledger = self.make()
        monkeypatch.setattr(os, "fsync", fail)
        assert "secret" not in str(refusal(ledger.check))

    # -- nonces --

    def test_an_atom_has_one_nonce(self):
        ledger = self.make()
        held = [reserve(ledger, top(2)), reserve(self.another(), top(2)), reserve(ledger, top(3, "list", BOB))]
        assert all(isinstance(found, Reserved) for found in held)
        assert len({found.nonce for found in held}) == 1
        assert len(held[0].nonce) == 16

    def test_a_nonce_outlives_a_kept_request(self):
        ledger = self.make()
        first = reserve(ledger, top(2))
        payments.keep(ledger, ledger.reservations()[0], NOW)
        assert reserve(ledger, top(2)) == first

    def test_two_atoms_have_two_nonces(self):
        ledger = self.make()
        assert len({reserve(ledger, top(1, str(i))).nonce for i in range(5)}) == 5

    # -- periods --

    @pytest.mark.parametrize(
        ("resets", "next_period", "inside"),
        [
            ("daily", date(2026, 11, 16), timedelta(hours=11, minutes=59)),
            ("weekly", date(2026, 11, 16), timedelta(hours=11, minutes=59)),  # 2026-11-15 is a Sunday
            ("monthly", date(2026, 12, 1), timedelta(days=15, hours=11, minutes=59)),
        ],
    )
    def test_a_budget_comes_back_when_its_period_ends(self, resets, next_period, inside):
        ledger, anna = self.make(), own(resets=resets)
        settled = answer(ledger, top(2, "list", anna))
        assert settled.resets == next_period
        assert left(ledger, anna, NOW + inside) == Charge(95, 9)
        assert left(ledger, anna, datetime(*next_period.timetuple()[:3], tzinfo=UTC)) == Charge(100, 10)

    def test_a_budget_that_never_resets_never_does(self):
        ledger, anna = self.make(), own(resets="never")
        assert answer(ledger, top(2, "list", anna)).resets is None
        assert left(ledger, anna, NOW + timedelta(days=9999)) == Charge(95, 9)

    def test_a_clock_that_goes_back_grants_nothing_twice(self):
        ledger, anna = self.make(), own(information=10)
        answer(ledger, top(2, "december", anna), now=DECEMBER)
        assert left(ledger, anna, NOVEMBER) == Charge(5, 9)
        answer(ledger, top(2, "back in november", anna), now=NOVEMBER)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, top(1, "november", anna), NOVEMBER)
        with pytest.raises(BudgetExhausted):
            reserve(ledger, top(1, "december again", anna), DECEMBER)
        assert left(ledger, anna, datetime(2027, 1, 1, tzinfo=UTC)) == Charge(10, 10)

    def test_a_reservation_is_charged_to_the_period_it_was_made_in(self):
        ledger = self.make()
        reserve(ledger, top(2, "list", ANNA, ACME), NOVEMBER)
        settled = settle(ledger, top(2, "list", ANNA, ACME), now=DECEMBER)
        assert (settled.charge, settled.left) == (Charge(5, 1), Charge(100, 10))
        rows = self.raw("SELECT DISTINCT period, spent FROM balances WHERE spent <> '0 0'")
        assert rows == [("2026-11-01", "5 1")]
        assert ledger.verify() == []

    def test_a_kept_reservation_is_charged_to_the_period_it_was_made_in(self):
        ledger = self.make()
        reserve(ledger, top(2), NOVEMBER)
        payments.keep(ledger, ledger.reservations()[0], DECEMBER)
        assert self.raw("SELECT period, spent FROM balances") == [("2026-11-01", "5 1")]

    def test_a_grant_belongs_to_its_period(self):
        ledger = self.make()
        ledger.grant(ANNA, Charge(7, 1), "more", NOVEMBER)
        assert left(ledger, ANNA, NOVEMBER) == Charge(107, 11)
        assert left(ledger, ANNA, DECEMBER) == Charge(100, 10)

    def test_resets_is_the_end_of_the_recorded_period_when_the_clock_is_behind_it(self):
        ledger, anna = self.make(), own(information=10)
        answer(ledger, top(2, "december", anna), now=DECEMBER)
        settled = answer(ledger, top(1, "november", anna), now=NOVEMBER)
        assert settled.resets == date(2027, 1, 1)
        with pytest.raises(BudgetExhausted) as refused:
            reserve(ledger, top(2, "another", anna), NOVEMBER)
        assert refused.value.resets == date(2027, 1, 1)

    # -- modes and prices --

    def test_a_tracked_budget_never_refuses_and_goes_below_zero(self):
        ledger, anna = self.make(), own(information=3, calls=0, mode="track")
        assert answer(ledger, top(2, "list", anna)).left == Charge(-2, -1)

    def test_a_budget_that_was_tracked_refuses_once_it_is_enforced(self):
        ledger, tracked = self.make(), own(information=3, mode="track")
        answer(ledger, top(2, "list", tracked))
        with pytest.raises(BudgetExhausted) as refused:
            reserve(ledger, histogram("known", own(information=3)))
        assert refused.value.left == Charge(-2, 9)

    def test_calls_below_zero_do_not_stop_a_known_domain(self):
        ledger = self.make()
        answer(ledger, top(2, "list", own(calls=0, mode="track")))
        assert answer(ledger, histogram("known", own(calls=0))).left == Charge(94, -1)

    @pytest.mark.parametrize(
        "prices", [replace(PRICES, epsilon_per=Fraction(1, 4)), replace(PRICES, delta_per=Fraction(1, 10**9))]
    )
    def test_a_unit_may_not_change_its_meaning_within_a_period(self, prices):
        ledger, changed = self.make(), own(prices=prices)
        answer(ledger, top(2))
        before = self.books()
        for call in (
            lambda: reserve(ledger, top(2, "another", changed)),
            lambda: ledger.standings([changed], NOW),
            lambda: ledger.grant(changed, UNIT, "more", NOW),
        ):
            with pytest.raises(ConfigError, match=ANNA.name):
                call()
        assert self.books() == before
        assert answer(ledger, top(2, "another", changed), now=DECEMBER).left == Charge(95, 9)

    # -- history --

    def test_history_lists_the_latest_first_with_states(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        ledger.grant(ANNA, Charge(7), "more", NOW + timedelta(hours=1))
        reserve(ledger, top(1, "kept"))
        payments.keep(ledger, ledger.reservations()[0], NOW + timedelta(hours=2))
        reserve(ledger, top(3, "open", ANNA, ACME), NOW + timedelta(hours=3))
        listed = [(row.digest, row.account, row.charge, row.state) for row in ledger.history("anna").rows]
        assert listed == [
            ("open 3 True", ANNA.name, Charge(7, 1), "reserved"),
            ("open 3 True", ACME.name, Charge(7, 1), "reserved"),
            ("kept 1 True", ANNA.name, Charge(3, 1), "kept"),
            ("", ANNA.name, Charge(7), "granted"),
            ("list 2 True", ACME.name, Charge(5, 1), "settled"),
            ("list 2 True", ANNA.name, Charge(5, 1), "settled"),
        ]
        assert [row.at[:13] for row in ledger.history("anna").rows[1:4]] == [
            "2026-11-15T15",
            "2026-11-15T14",
            "2026-11-15T13",
        ]

    def test_history_tells_what_was_asked(self):
        """On every account that paid, of what is settled, closed and open, and whole."""
        ledger, long = self.make(), "x" * 60_000
        answer(ledger, top(2, "list", ANNA, ACME))
        answer(ledger, top(2, "list", BOB, ACME))
        ledger.grant(ANNA, Charge(7), "more", NOW)
        reserve(ledger, top(1, "kept"))
        payments.keep(ledger, ledger.reservations()[0], NOW)
        reserve(ledger, top(1, "kept"))
        payments.keep(ledger, ledger.reservations()[0], NOW)
        reserve(ledger, histogram(units=1, atom=long))
        listed = [(row.state, row.request, row.sql) for row in ledger.history("anna").rows]
        asked = {"k": 2, "counts": True}, "SELECT list 2 True"
        assert listed == [
            ("reserved", {"units": "1"}, f"SELECT {long} 1"),
            ("kept", {"k": 1, "counts": True}, "SELECT kept 1 True"),
            ("kept", {"k": 1, "counts": True}, "SELECT kept 1 True"),
            ("granted", None, None),
            *[("settled", *asked)] * 2,
        ]
        assert [(row.request, row.sql) for row in ledger.history("bob").rows] == [asked]
        assert ledger.verify() == []

    def test_what_has_no_form_in_sql_has_its_request_alone(self):
        ledger = self.make()
        answer(ledger, replace(histogram(), write_sql=str))
        [row] = ledger.history("anna").rows
        assert (row.request, row.sql) == ({"units": "1"}, None)

    @pytest.mark.parametrize("rows", [1, 2, 3, 7, 8])
    def test_pages_have_no_gaps_and_no_repeats(self, rows):
        ledger = self.make()
        for i in range(7):
            answer(ledger, histogram(f"question {i}"))
            answer(ledger, histogram(f"question {i}", BOB))
        pages, cursor = [], None
        while True:
            page = ledger.history("anna", before=cursor, rows=rows)
            pages += [row.digest for row in page.rows]
            assert len(page.rows) <= rows
            if page.next is None:
                break
            cursor = int(page.next)
        assert pages == [f"question {i} 1" for i in reversed(range(7))]

    def test_nothing_comes_before_the_first_row(self):
        ledger = self.make()
        answer(ledger, histogram())
        assert ledger.history("anna", before=1).rows == []
        assert ledger.history("anna", before=0).rows == []

    def test_history_shows_an_analyst_her_own_rows_only(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        answer(ledger, top(2, "list", BOB, ACME))
        reserve(ledger, top(2, "open", BOB, ACME))
        ledger.grant(BOB, UNIT, "more", NOW)
        assert {row.account for row in ledger.history("anna").rows} == {ANNA.name, ACME.name}
        assert {row.state for row in ledger.history("anna").rows} == {"settled"}
        assert len(ledger.history("anna").rows) == 2
        # Bob's part of the shared account was nothing: Anna had paid for the list.
        assert len(ledger.history(None).rows) == 2 + 1 + 2 + 1

    # -- grants --

    def test_a_grant_adds_to_what_is_left(self):
        ledger = self.make()
        granted = ledger.grant(ANNA, Charge(7, 2), "more", NOW)
        assert (granted.granted, granted.left) == (Charge(7, 2), Charge(107, 12))
        assert ledger.grant(ANNA, Charge(1), "and more", NOW).left == Charge(108, 12)
        answer(ledger, histogram("large", units=108))

    @pytest.mark.parametrize("amount", [NOTHING, Charge(-1), Charge(0, -1), Charge(5, -1)])
    def test_a_grant_adds(self, amount):
        ledger = self.make()
        before = self.books()
        with pytest.raises(InvalidArgument):
            ledger.grant(ANNA, amount, "less", NOW)
        assert self.books() == before

    # -- exact amounts --

    def test_three_thirds_are_one(self):
        ledger, anna = self.make(), own(information=1)
        for i in range(3):
            answer(ledger, histogram(f"third {i}", anna, units=Fraction(1, 3)))
        assert spent(ledger, anna) == UNIT
        assert self.raw("SELECT spent FROM balances") == [("1 0",)]

    def test_no_float_reaches_the_store(self):
        ledger = self.busy()
        answer(ledger, histogram("third", units=Fraction(1, 3)))
        reserve(ledger, histogram("seventh", units=Fraction(1, 7)))
        amounts = self.raw("SELECT reserved, spent, granted FROM journal") + self.raw(
            "SELECT reserved, spent, granted FROM balances"
        )
        number = r"-?\d+(/\d+)?"
        assert all(re.fullmatch(f"{number} {number}", text) for row in amounts for text in row)
        parts = [part for (text,) in self.raw("SELECT parts FROM holds") for part in json.loads(text)]
        assert all(re.fullmatch(number, text) for *_, charge in parts for text in charge.values())
        assert "1/7" in str(parts)

    # -- verify --

    def test_clean_books_have_no_problems(self):
        ledger = self.busy()
        payments.keep(ledger, ledger.reservations()[0], NOW)
        answer(ledger, histogram("december"), now=DECEMBER)
        assert len(self.raw("SELECT * FROM journal")) >= 15
        assert ledger.verify() == []

    def test_new_books_have_no_problems(self):
        assert self.make().verify() == []

    @pytest.mark.parametrize("what", TAMPERINGS)
    def test_a_change_behind_the_ledgers_back_is_named(self, what):
        ledger = self.busy()
        before = self.books()
        for statement in TAMPERINGS[what].split("; "):
            self.raw(statement)
        assert self.books() != before
        try:
            problems = ledger.verify()
        except LedgerFailed as told:
            problems = [str(told)]
        assert problems != []

    # -- the fence --

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_restored_copy_is_refused(self, operation):
        ledger = self.make()
        reserve(ledger, top())
        copy = self.books()
        answer(ledger, top(2, "later"))
        assert len(ledger.reservations()) == 1  # this ledger knows its fence, and asks it all the same
        self.restore(copy)
        for opened in (ledger, self.another()):
            assert "sfumato budget recover" in str(refusal(lambda opened=opened: OPERATIONS[operation](opened)))
        assert self.books() == copy

    def test_a_restored_copy_closes_no_hold(self):
        ledger = self.make()
        reserve(ledger, top())
        [hold], copy = ledger.reservations(), self.books()
        answer(ledger, top(2, "later"))
        self.restore(copy)
        assert "sfumato budget recover" in str(refusal(lambda: payments.keep(ledger, hold, NOW)))
        assert self.books() == copy

    def test_a_restored_copy_of_an_empty_ledger_is_refused(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        self.restore(copy)
        assert "sfumato budget recover" in str(refusal(lambda: self.another().reservations()))

    def fork(self) -> Ledger:
        """A copy that went on under an older fence, as one on another machine may be; 5 units are in the newer only."""
        ledger = self.make()
        copy, older = self.books(), self.fence.read_bytes()
        answer(ledger, top())
        newer = self.fence.read_bytes()
        self.fence.write_bytes(older)
        self.restore(copy)
        for i in range(3):
            answer(self.another(), top(2, f"other {i}"))
        self.fence.write_bytes(newer)
        return self.another()

    def test_a_restored_copy_that_went_on_is_refused(self):
        forked = self.fork()
        assert "sfumato budget recover" in str(refusal(lambda: forked.reservations()))

    def test_recovering_a_copy_that_went_on_counts_both_histories(self):
        forked = self.fork()
        self.recover(forked)
        assert spent(forked) >= Charge(20, 4)

    def test_verify_names_a_restored_copy(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        self.restore(copy)
        assert "sfumato budget recover" in " ".join(ledger.verify())

    def test_a_missing_fence_is_refused(self):
        ledger = self.make()
        answer(ledger, top())
        self.fence.unlink()
        for opened in (ledger, self.another()):
            for operation in OPERATIONS.values():
                assert "sfumato budget recover" in str(refusal(lambda o=opened, call=operation: call(o)))

    def test_another_ledgers_fence_is_refused(self):
        ledger = self.make()
        answer(ledger, top())
        self.fence.write_bytes(Mark("another", 1, "ff").to_line())
        for opened in (ledger, self.another()):
            for operation in OPERATIONS.values():
                assert "sfumato budget recover" in str(refusal(lambda o=opened, call=operation: call(o)))

    def test_a_new_ledger_takes_no_fence_over(self):
        self.fence.parent.mkdir()
        self.fence.write_bytes(Mark("another", 7, "ff").to_line())
        assert "sfumato budget recover" in str(refusal(lambda: reserve(self.make(), top())))
        assert FileFence(self.fence).mark().ledger == "another"

    def test_a_torn_last_line_of_the_fence_is_ignored(self):
        ledger = self.make()
        answer(ledger, top())
        whole = FileFence(self.fence).mark()
        with self.fence.open("ab") as file:
            file.write(b"\n" + whole.to_line()[:-20])
        assert FileFence(self.fence).mark() == whole
        answer(self.another(), top(2, "another"))
        assert FileFence(self.fence).mark().totals[ANNA.name].spent == Charge(10, 2)

    def test_a_fence_that_is_behind_is_fine(self):
        ledger = self.make()
        answer(ledger, top())
        behind = self.fence.read_bytes()
        answer(ledger, top(2, "another"))
        self.fence.write_bytes(behind)
        for opened in (ledger, self.another()):
            assert spent(opened) == Charge(10, 2)
        answer(ledger, top(2, "third"))
        assert FileFence(self.fence).mark().totals[ANNA.name].spent == Charge(15, 3)

    def test_the_fence_has_seen_every_charge_when_an_answer_leaves(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        answer(ledger, top(3, "list", ANNA, ACME))
        mark = FileFence(self.fence).mark()
        assert {name: total.spent for name, total in mark.totals.items()} == {
            ANNA.name: Charge(7, 1),
            ACME.name: Charge(7, 1),
        }
        assert (mark.ledger, mark.sequence, mark.head) == self.raw("SELECT id, sequence, head FROM ledger")[0]

    @pytest.mark.parametrize("stored", [False, True], ids=["computed", "stored"])
    def test_an_unwritable_fence_lets_no_answer_leave(self, stored):
        ledger = self.make()
        if stored:
            answer(ledger, top(2, "list", BOB))
        lock = self.fence.with_name(self.fence.name + ".lock")
        lock.unlink()
        lock.mkdir()
        assert "fence" in str(refusal(lambda: answer(ledger, top())))
        refusal(lambda: answer(ledger, top()))
        lock.rmdir()
        assert json.loads(answer(ledger, top()).body) == ["list 2 True", "first", 2, False]
        assert spent(ledger) == FileFence(self.fence).mark().totals[ANNA.name].spent == Charge(5, 1)

    # -- recover --

    def test_recovering_a_healthy_ledger_does_nothing(self):
        ledger = self.busy()
        before = self.books(), self.fence.read_bytes()
        assert self.recover(ledger) == []
        assert (self.books(), self.fence.read_bytes()) == before

    def test_recovering_raises_spending_to_what_the_fence_saw(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        copy = self.books()
        answer(ledger, top(4, "list", ANNA, ACME))
        answer(ledger, top(1, "another", BOB, ACME))
        before = ledger.standings([ANNA, BOB, ACME], NOW)
        self.restore(copy)
        rows = self.recover(self.another())
        assert {(row.kind, row.account, row.spent) for row in rows} == {
            ("recover", ANNA.name, Charge(4)),
            ("recover", BOB.name, Charge(3, 1)),
            ("recover", ACME.name, Charge(7, 1)),
        }
        for opened in (ledger, self.another()):
            assert opened.standings([ANNA, BOB, ACME], NOW) == before
            assert opened.verify() == []
        assert {row.state for row in ledger.history(None).rows} == {"settled", "recovered"}

    def test_recovering_twice_does_nothing_more(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        self.restore(copy)
        assert self.recover(ledger) != []
        before = self.books()
        assert self.recover(self.another()) == []
        assert self.books() == before

    def test_recovering_keeps_what_the_fence_saw_of_accounts_that_are_not_listed(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top(2, "list", BOB))
        self.restore(copy)
        ledger.recover([ANNA], NOW)
        assert spent(ledger, BOB) == FileFence(self.fence).mark().totals[BOB.name].spent == Charge(5, 1)

    def test_each_amount_is_raised_for_itself(self):
        ledger = self.make()
        reserve(ledger, histogram("open", units=20))
        copy = self.books()
        answer(ledger, top(2))
        self.restore(copy)
        self.recover(ledger)
        assert spent(ledger) == Charge(20, 1)
        assert left(ledger) == Charge(80, 9)

    def test_recovering_closes_holds_at_their_worst_case(self):
        ledger = self.make()
        reserve(ledger, top(2, "list", ANNA, ACME))
        copy = self.books()
        settle(ledger, top(2, "list", ANNA, ACME), ranking(0))
        assert spent(ledger) == Charge(2, 1)
        self.restore(copy)
        rows = self.recover(ledger)
        assert {(row.kind, row.account) for row in rows} == {("keep", ANNA.name), ("keep", ACME.name)}
        assert ledger.reservations() == []
        assert spent(ledger) == spent(ledger, ACME) == Charge(5, 1)

    def test_recovering_renews_the_nonces_of_what_is_not_stored(self):
        ledger = self.make()
        answer(ledger, top(1, "stored"))
        unseen = reserve(ledger, top(1, "unseen"))
        copy, stored = self.books(), self.nonce("stored")
        settle(ledger, top(1, "unseen"))
        self.restore(copy)
        self.recover(ledger)
        again = reserve(ledger, top(1, "unseen"))
        assert isinstance(again, Reserved)
        assert again.nonce != unseen.nonce
        assert self.nonce("stored") == stored

    def test_what_the_copy_has_forgotten_is_drawn_and_paid_again(self):
        ledger = self.make()
        copy = self.books()
        reserve(ledger, top(2))
        nonce = self.nonce("list")
        settle(ledger, top(2))
        self.restore(copy)
        self.recover(ledger)
        assert answer(ledger, top(2)).charge == Charge(5, 1)
        assert self.nonce("list") != nonce
        assert spent(ledger) == Charge(10, 2)

    def test_without_a_fence_nothing_is_left_until_the_next_reset(self):
        ledger = self.make()
        answer(ledger, top(2, "list", ANNA, ACME))
        ledger.grant(ANNA, Charge(7), "more", NOW)
        reserve(ledger, top(2, "open", BOB))
        self.fence.unlink()
        self.recover(ledger)
        assert [s.left for s in ledger.standings([ANNA, BOB, ACME], NOW)] == [NOTHING] * 3
        with pytest.raises(BudgetExhausted):
            reserve(ledger, histogram("known"))
        assert answer(ledger, top(2, "list", ANNA, ACME)).repeat
        assert [s.left for s in ledger.standings([ANNA, BOB, ACME], DECEMBER)] == [Charge(100, 10)] * 3
        assert ledger.verify() == []

    def test_another_ledgers_fence_is_as_good_as_none(self):
        ledger = self.make()
        answer(ledger, top())
        self.fence.write_bytes(Mark("another", 1, "ff").to_line())
        self.recover(ledger)
        assert left(self.another()) == NOTHING

    @pytest.mark.parametrize("lost", [False, True], ids=["with a fence", "without a fence"])
    def test_a_recovery_that_is_killed_leaves_the_ledger_refused_and_can_be_repeated(self, lost, monkeypatch):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top(2, "list", ANNA, ACME))
        self.restore(copy)
        if lost:
            self.fence.unlink()
        writing = ledger._store.writing

        @contextmanager
        def killed(work: Work) -> Iterator[Any]:
            with writing(work) as run:
                yield run
                raise Killed

        monkeypatch.setattr(ledger._store, "writing", killed)
        with pytest.raises(Killed):
            self.recover(ledger)
        monkeypatch.undo()
        assert self.books() == copy
        for opened in (ledger, self.another()):
            assert "sfumato budget recover" in str(refusal(lambda o=opened: o.standings([ANNA], NOW)))
        self.recover(self.another())
        expected = Charge(100, 10) if lost else Charge(5, 1)
        assert spent(ledger) == spent(ledger, ACME) == expected

    def test_a_recovery_whose_fence_cannot_be_written_changes_nothing(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        self.restore(copy)
        lock = self.fence.with_name(self.fence.name + ".lock")
        lock.unlink()
        lock.mkdir()
        refusal(lambda: self.recover(ledger))
        assert self.books() == copy

    # -- versions --

    def old_ledger(self) -> None:
        """Books of version 1, with a grant in them."""
        store = self.store()
        with store.writing() as run:
            migrate(run, 0, to=1)
            row = Row(NOW.isoformat(), "grant", ANNA.name, "2026-11-01", "anna", granted=Charge(7))
            texts, [(head,)] = row.texts()[:-1], run("SELECT head FROM ledger")
            hashed = next_hash(head, 1, row)
            run(f"INSERT INTO journal VALUES (1, {', '.join('?' * 11)})", *texts, hashed)
            run("UPDATE ledger SET sequence = 1, head = ?", hashed)
            run("INSERT INTO balances VALUES (?, '2026-11-01', '', '0 0', '0 0', '7 0')", ANNA.name)
        store.close()
        head = self.raw("SELECT id, sequence, head FROM ledger")[0]
        FileFence(self.fence).restart(Mark(*head))

    def test_an_older_ledger_is_refused_until_it_is_migrated(self):
        self.old_ledger()
        ledger = self.make()
        for operation in (*OPERATIONS.values(), Ledger.verify, self.recover):
            assert "sfumato budget migrate" in str(refusal(lambda call=operation: call(ledger)))

    def test_migrating_keeps_the_rows(self):
        self.old_ledger()
        [row], balances = self.raw("SELECT * FROM journal"), self.raw("SELECT * FROM balances")
        ledger = self.make()
        assert ledger.migrate() == LATEST - 1
        assert self.raw("SELECT * FROM journal") == [(*row, "")]
        assert self.raw("SELECT * FROM balances") == balances
        assert left(ledger) == Charge(107, 10)
        answer(ledger, top())
        assert ledger.verify() == []
        assert self.another().migrate() == 0

    def test_a_newer_ledger_is_refused(self):
        ledger = self.make()
        self.raw(f"UPDATE ledger SET version = {LATEST + 1}")
        for opened in (ledger, self.another()):
            for operation in (*OPERATIONS.values(), Ledger.verify, Ledger.migrate, self.recover):
                assert "upgrade" in str(refusal(lambda o=opened, call=operation: call(o)))

    def test_opening_at_the_same_time_creates_one_ledger(self):
        together = threading.Barrier(6)

        def run(i: int) -> str:
            together.wait()
            ledger = self.make()
            answer(ledger, histogram(str(i)))
            return ledger.fence.mark().ledger

        with ThreadPoolExecutor(6) as pool:
            assert len(set(pool.map(run, range(6)))) == 1
        assert spent(self.make()) == Charge(6)

    def test_opening_late_does_not_take_a_fence_back(self):
        """A second process saw an empty ledger without a fence; by now the first has answered."""
        ledger = self.make()
        empty = Mark(ledger.fence.mark().ledger, 0, ledger.fence.mark().head)
        answer(ledger, top())
        seen = FileFence(self.fence).mark()

        class Late(FileFence):
            def mark(self) -> Mark | None:
                return super().mark() if self._writing.locked() else None  # what it saw before it had the lock

        copy = self.books()
        self.raw("UPDATE ledger SET sequence = 0")
        store = self.store()
        try:
            Ledger(store, lambda _: Late(self.fence))
        finally:
            store.close()
        self.restore(copy)
        assert empty != seen
        assert FileFence(self.fence).mark() == seen

    # -- failures --

    def test_a_closed_ledger_says_so(self):
        ledger = self.make()
        ledger.close()
        ledger.close()
        for operation in OPERATIONS.values():
            assert "closed" in str(refusal(lambda call=operation: call(ledger)))

    def test_a_failure_in_the_store_tells_nothing_of_it(self):
        ledger = self.make()
        self.raw("ALTER TABLE balances RENAME TO secret")
        told = refusal(lambda: reserve(ledger, top()))
        assert "nothing was answered" in str(told)
        assert "balances" not in str(told)
        self.raw("ALTER TABLE secret RENAME TO balances")
        assert answer(ledger, top()).charge == Charge(5, 1)

    def test_a_failure_of_the_reader_leaves_nothing_behind(self):
        ledger = self.make()
        reserve(ledger, top())
        before = self.books()

        def reveal(payload: str) -> Revealed:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            payments.settle(ledger, top(), reserved_now(ledger, top()), ranking(), reveal, NOW)
        assert self.books() == before
        assert settle(ledger, top()).charge == Charge(5, 1)

    def test_a_forked_childs_use_is_refused_in_words(self):
        command = [sys.executable, "-c", FORKS, self.settings.url, self.fence, self.folder]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        assert "forked" in ran.stdout

    # -- threads --

    def test_threads_spend_what_there_is_and_not_more(self):
        ledger, anna = self.make(), own(information=100)
        shared = acme(information=1000)

        def run(thread: int) -> list[bool]:
            return [self.granted(ledger, histogram(f"{thread} {i}", anna, shared)) for i in range(25)]

        with ThreadPoolExecutor(8) as pool:
            granted = [one for thread in pool.map(run, range(8)) for one in thread]
        assert (granted.count(True), granted.count(False)) == (100, 100)
        rows = [Row.of(texts) for texts in self.raw(_OWN_ROWS)]
        assert sum((row.spent for row in rows), NOTHING) == spent(ledger, anna) == Charge(100)
        assert sum((row.reserved for row in rows), NOTHING) == NOTHING
        assert spent(ledger, shared) == Charge(100)
        assert ledger.verify() == []
        assert FileFence(self.fence).mark().totals[anna.name].spent == Charge(100)

    def granted(self, ledger: Ledger, ask: Debit) -> bool:
        try:
            return answer(ledger, ask).charge == UNIT
        except BudgetExhausted:
            return False


_OWN_ROWS = (
    "SELECT at, kind, account, period, analyst, digest, reserved, spent, granted, note FROM journal "
    "WHERE account = 'analyst:anna'"
)
