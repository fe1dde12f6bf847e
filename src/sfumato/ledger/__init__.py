"""What every account has spent, durably: one ledger, in SQLite or PostgreSQL.

The worst case is reserved before a row is read. The answer is stored and charged in one transaction. Then the fence is
advanced; then the answer leaves.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sfumato.config import LedgerSettings
from sfumato.config.stores import store_kind
from sfumato.errors import ConfigError
from sfumato.ledger.accounts import accounts_of, all_accounts, budget_accounts
from sfumato.ledger.fence import Fence
from sfumato.ledger.file_fence import NAME_IN_FOLDER, FileFence, default_path, state_folder
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.postgres_fence import HOLDS_A_LEDGER, PostgresFence
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
    "check_fence_place",
    "find_fence",
    "find_store",
    "open_ledger",
]

BESIDE_LEDGER = (
    "must not be in {}, where the ledger is: both would be copied and restored together. Name a place outside, on "
    "another disk if you can; or leave it out, and the fence is in your state folder"
)
STATE_BELOW = (
    "must not be in {}: the fence, in your state folder {}, would be copied and restored together with the ledger. "
    "Move the ledger, with its sfumato.toml, into a folder of its own; or set [ledger] fence to a place outside"
)


def find_store(settings: LedgerSettings, folder: Path) -> Store:
    """The store of a configuration, not opened: nothing on disk or network is touched."""
    module, _, name = store_kind(settings.url).home.partition(":")
    store: type[Store] = getattr(import_module(module), name)
    return store.at(settings.url, folder)


def find_fence(setting: Path | str) -> Fence:
    """The fence at a path, in a folder, or in a database. Nothing is written, and no network is touched."""
    if isinstance(setting, str):
        return PostgresFence(setting)
    return FileFence(setting / NAME_IN_FOLDER if setting.is_dir() else setting)


def check_fence_place(settings: LedgerSettings, folder: Path) -> None:
    """Refuse a fence that would be copied or restored together with its ledger. Raises `ConfigError`."""
    if settings.fence == settings.url:
        raise ConfigError("ledger.fence", HOLDS_A_LEDGER)
    books = find_store(settings, folder).folder
    if books is None or isinstance(settings.fence, str):
        return
    fence, books, folder = settings.fence or state_folder(), books.resolve(), folder.resolve()
    # Where a link leads, and where it is itself: the file is replaced from time to time, and a link would be with it.
    places = fence.resolve(), fence.parent.resolve() / fence.name
    # A folder with both is copied as a whole, wherever in it the two are.
    for each in (books, folder) if books.is_relative_to(folder) else (books,):
        if any(place.is_relative_to(each) for place in places):
            if settings.fence is None:
                raise ConfigError("ledger.url", STATE_BELOW.format(repr(str(each)), repr(str(fence))))
            raise ConfigError("ledger.fence", BESIDE_LEDGER.format(repr(str(each))))


def open_ledger(settings: LedgerSettings, folder: Path) -> Ledger:
    """Open the ledger of a configuration; create it if there is none. Relative paths start at `folder`."""
    check_fence_place(settings, folder)
    store = find_store(settings, folder)
    store.open()
    try:
        return Ledger(store, lambda identity: find_fence(settings.fence or default_path(store.place, identity)))
    except BaseException:
        store.close()
        raise
