"""Stores are rows of a table: a new store is a class, its row, and the inherited contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.config import LedgerSettings
from sfumato.config.stores import STORES, StoreKind
from sfumato.errors import ConfigError, InvalidArgument, LedgerFailed
from sfumato.ledger import find_store, open_ledger
from sfumato.ledger.sqlite import SQLiteStore
from tests.contracts.ledger import answer, reserve, top


class ToyStore(SQLiteStore):
    """A third database, as far as the ledger can tell."""

    name = "Toy"
    shared = True

    @classmethod
    def at(cls, url: str, folder: Path) -> ToyStore:
        return cls((folder / url.removeprefix("toy:")).resolve())


def test_a_new_store_is_a_class_and_its_row(tmp_path, monkeypatch):
    monkeypatch.setitem(STORES, "toy", StoreKind(f"{__name__}:ToyStore", "toy:.+"))
    (tmp_path / "ledger").mkdir()
    with open_ledger(LedgerSettings("toy:books.db", tmp_path / "fence"), tmp_path / "ledger") as ledger:
        assert answer(ledger, top()).charge == Charge(5, 1)
        assert ledger.shared
        assert ledger.verify() == []


@pytest.mark.parametrize(
    "url", ["", "books.db", "sqlite:", "sqlite::memory:", "postgresql:x", "mysql://localhost", "SQLITE:x", ":x"]
)
def test_only_known_urls_are_ledgers(url, tmp_path):
    with pytest.raises(ConfigError, match=r'ledger\.url: must be "sqlite:FILE"'):
        find_store(LedgerSettings(url), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["postgresql://anna:secret@nowhere/x", "postgres://nowhere", "sqlite:missing/books.db"])
def test_to_find_a_store_touches_nothing(url, tmp_path):
    store = find_store(LedgerSettings(url), tmp_path)
    assert (store.name, store.shared) in (("SQLite", False), ("PostgreSQL", True))
    assert "secret" not in store.place
    assert list(tmp_path.iterdir()) == []


class TestDamage:
    """What cannot be read is named, without the value. An error of our own is not hidden from tests."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SQLiteStore]:
        made = SQLiteStore(tmp_path / "books.db")
        made.open()
        with made.writing() as run:
            run("CREATE TABLE things (thing TEXT)")
        yield made
        made.close()

    @pytest.mark.parametrize("transaction", [SQLiteStore.reading, SQLiteStore.writing])
    @pytest.mark.parametrize("error", [ValueError, KeyError, TypeError, UnicodeError, InvalidArgument, RecursionError])
    @pytest.mark.usefixtures("damage_is_named")
    def test_a_value_that_cannot_be_read_is_told_without_the_value(self, store, transaction, error):
        arguments = ("secret", "secret") if error is InvalidArgument else ("secret",)
        with pytest.raises(LedgerFailed, match=error.__name__) as told, transaction(store):
            raise error(*arguments)
        assert "secret" not in str(told.value)
        assert "newest copy" in str(told.value)
        assert told.value.__context__ is None

    @pytest.mark.usefixtures("damage_is_named")
    def test_the_line_that_read_it_is_named(self, tmp_path):
        (tmp_path / "ledger").mkdir()
        with open_ledger(LedgerSettings("sqlite:books.db", tmp_path / "fence"), tmp_path / "ledger") as ledger:
            reserve(ledger, top())
            with ledger._store.writing() as run:
                run("UPDATE holds SET parts = '[1'")
            with pytest.raises(LedgerFailed, match=r"JSONDecodeError tables\.py:\d+"):
                ledger.reservations()

    def test_in_other_tests_an_error_is_raised_as_it_is(self, store):
        with pytest.raises(KeyError), store.reading():
            raise KeyError

    @pytest.mark.parametrize("value", ["x'00'", "CAST(x'ff' AS TEXT)"])
    def test_a_value_of_another_type_is_damage(self, store, value):
        with store.writing() as run:
            run(f"INSERT INTO things VALUES ({value})")
        for transaction in (store.reading, store.writing):
            with pytest.raises(LedgerFailed, match="damaged"), transaction() as run:
                run("SELECT thing FROM things")
