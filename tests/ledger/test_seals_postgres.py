"""Sealed cells in PostgreSQL keep the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.ledger import InPostgres
from tests.contracts.seals import SealsContract
from tests.helpers import postgres

pytestmark = pytest.mark.slow  # a real server; SQLite keeps the same contract in `make check`


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


class TestPostgresSeals(InPostgres, SealsContract):
    pass
