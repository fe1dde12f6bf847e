"""Who has spent what, durably: one ledger, in SQLite or PostgreSQL.

Reserve before a row is read; settle with the answer, in one transaction; then the fence; then the answer leaves.
"""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.budget.accounts import accounts_of, all_accounts, report
from sfumato.budget.books import Hold, Row
from sfumato.budget.fence import Fence
from sfumato.budget.ledger import Account, Ask, Held, Ledger, Revealed, Settled
from sfumato.budget.store import Store
from sfumato.config import LedgerSettings
from sfumato.errors import ConfigError

__all__ = [
    "Account",
    "Ask",
    "Held",
    "Hold",
    "Ledger",
    "Revealed",
    "Row",
    "Settled",
    "accounts_of",
    "all_accounts",
    "open_ledger",
    "report",
]

SQLITE = "sqlite:"
POSTGRES = ("postgresql://", "postgres://")


def open_ledger(settings: LedgerSettings, folder: Path) -> Ledger:
    """The ledger of a configuration; a new one where there is none. Relative paths start at `folder`."""
    store = _store(settings, folder)
    try:
        return Ledger(store, lambda identity: Fence(settings.fence or _state_folder() / f"{identity}.fence"))
    except BaseException:
        store.close()
        raise


def _store(settings: LedgerSettings, folder: Path) -> Store:
    if settings.url.startswith(SQLITE):
        from sfumato.budget.sqlite import SQLiteStore

        path = (folder / settings.url.removeprefix(SQLITE)).resolve()
        if settings.fence is not None and settings.fence.resolve().parent == path.parent:
            raise ConfigError("ledger.fence", "must not be in the ledger's own folder: both would be restored together")
        return SQLiteStore(path)
    if settings.url.startswith(POSTGRES):
        from sfumato.budget.postgres import PostgresStore

        return PostgresStore(settings.url)
    raise ConfigError("ledger.url", 'must be "sqlite:FILE" or "postgresql://..."')


def _state_folder() -> Path:
    """Where a user's programs keep what they know, by the XDG convention."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "sfumato"
