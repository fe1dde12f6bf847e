"""Who has spent what, durably: one ledger, in SQLite or PostgreSQL.

Reserve before a row is read; settle with the answer, in one transaction; then the fence; then the answer leaves.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from sfumato.config import LedgerSettings
from sfumato.errors import ConfigError, LedgerFailed
from sfumato.ledger.accounts import accounts_of, all_accounts, budget_accounts
from sfumato.ledger.fence import UNWRITABLE, Fence
from sfumato.ledger.ledger import (
    Account,
    ChargeEntry,
    Debit,
    EarlierCall,
    IdempotentCall,
    Ledger,
    Reserved,
    Reveal,
    Revealed,
    Settled,
    Standing,
)
from sfumato.ledger.store import Store
from sfumato.ledger.tables import Reservation, Row

__all__ = [
    "Account",
    "ChargeEntry",
    "Debit",
    "EarlierCall",
    "IdempotentCall",
    "Ledger",
    "Reservation",
    "Reserved",
    "Reveal",
    "Revealed",
    "Row",
    "Settled",
    "Standing",
    "accounts_of",
    "all_accounts",
    "budget_accounts",
    "open_ledger",
]

SQLITE = "sqlite:"
POSTGRES = ("postgresql://", "postgres://")


def open_ledger(settings: LedgerSettings, folder: Path) -> Ledger:
    """The ledger of a configuration; a new one where there is none. Relative paths start at `folder`."""
    store = _store(settings, folder)
    try:
        return Ledger(store, lambda identity: Fence(settings.fence or _fence_of(store.place, identity)))
    except BaseException:
        store.close()
        raise


def _fence_of(place: str, identity: str) -> Path:
    """By default a fence has its ledger's name, so that a ledger can be moved, and every place remembers its fence.

    A ledger that was lost, and begun anew in the same place, meets the fence of the lost one and is not served.
    """
    folder = _state_folder()
    note = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.place"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError), note.open("x") as file:
            file.write(identity)
        return folder / f"{note.read_text().strip()}.fence"
    except OSError:
        raise LedgerFailed(UNWRITABLE) from None


def _store(settings: LedgerSettings, folder: Path) -> Store:
    if settings.url.startswith(SQLITE):
        from sfumato.ledger.sqlite import SQLiteStore

        path = (folder / settings.url.removeprefix(SQLITE)).resolve()
        if settings.fence is not None and settings.fence.resolve().parent == path.parent:
            raise ConfigError("ledger.fence", "must not be in the ledger's own folder: both would be restored together")
        return SQLiteStore(path)
    if settings.url.startswith(POSTGRES):
        from sfumato.ledger.postgres import PostgresStore

        return PostgresStore(settings.url)
    raise ConfigError("ledger.url", 'must be "sqlite:FILE" or "postgresql://..."')


def _state_folder() -> Path:
    """Where a user's programs keep what they know, by the XDG convention."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "sfumato"
