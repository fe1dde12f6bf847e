"""Sealed cells in an SQLite file keep the contract."""

from __future__ import annotations

from tests.contracts.ledger import InSQLite
from tests.contracts.seals import SealsContract


class TestSQLiteSeals(InSQLite, SealsContract):
    pass
