"""What every account has spent, durably: one ledger, in SQLite or PostgreSQL.

The worst case is reserved before a row is read. The answer is stored and charged in one transaction. Then the fence is
advanced; then the answer leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sfumato.config import LedgerSettings, ledger_scheme
from sfumato.errors import ConfigError
from sfumato.ledger.accounts import accounts_of, all_accounts, budget_accounts
from sfumato.ledger.fence import Fence, default_path
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.postgres import PostgresStore
from sfumato.ledger.sqlite import SQLiteStore
from sfumato.ledger.store import Store
from sfumato.ledger.types import (
    Account,
    ChargeEntry,
    Debit,
    EarlierCall,
    History,
    IdempotentCall,
    Reservation,
    Reserved,
    Revealed,
    Row,
    Settled,
    Standing,
)

__all__ = [
    "STORES",
    "Account",
    "ChargeEntry",
    "Debit",
    "EarlierCall",
    "History",
    "IdempotentCall",
    "Ledger",
    "Reservation",
    "Reserved",
    "Revealed",
    "Row",
    "Settled",
    "Standing",
    "accounts_of",
    "all_accounts",
    "budget_accounts",
    "find_store",
    "open_ledger",
]

STORES: Mapping[str, type[Store]] = {
    "sqlite": SQLiteStore,
    "postgresql": PostgresStore,
    "postgres": PostgresStore,
}
"""The store of each scheme that `ledger.url` may have (`sfumato.config.LEDGER_URLS`)."""


def find_store(settings: LedgerSettings, folder: Path) -> Store:
    """The store of a configuration, not opened: nothing on disk or network is touched."""
    return STORES[ledger_scheme(settings.url)].at(settings.url, folder)


def open_ledger(settings: LedgerSettings, folder: Path) -> Ledger:
    """Open the ledger of a configuration; create it if there is none. Relative paths start at `folder`."""
    store = find_store(settings, folder)
    if settings.fence is not None and settings.fence.resolve().parent == store.folder:
        raise ConfigError("ledger.fence", "must not be in the ledger's own folder: both would be restored together")
    store.open()
    try:
        return Ledger(store, lambda identity: Fence(settings.fence or default_path(store.place, identity)))
    except BaseException:
        store.close()
        raise
