"""Stores are rows of a table: a new store is a class, its rows, and the inherited contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.config import LEDGER_URLS, LedgerSettings
from sfumato.errors import ConfigError
from sfumato.ledger import STORES, find_store, open_ledger
from sfumato.ledger.sqlite import SQLiteStore
from tests.contracts.ledger import answer, top


class ToyStore(SQLiteStore):
    """A third database, as far as the ledger can tell."""

    name = "Toy"
    shared = True

    @classmethod
    def at(cls, url: str, folder: Path) -> ToyStore:
        return cls((folder / url.removeprefix("toy:")).resolve())


def test_every_url_that_a_configuration_may_have_names_a_store():
    assert STORES.keys() == LEDGER_URLS.keys()


def test_a_new_store_is_a_class_and_its_rows(tmp_path, monkeypatch):
    monkeypatch.setitem(LEDGER_URLS, "toy", "toy:.+")
    monkeypatch.setitem(STORES, "toy", ToyStore)
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
