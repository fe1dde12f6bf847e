"""Sealed cells in an SQLite file keep the contract."""

from __future__ import annotations

from contracts.ledger import InSQLite
from contracts.seals import SealsContract


class TestSQLiteSeals(InSQLite, SealsContract):
    pass
