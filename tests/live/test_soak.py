"""The soak, in a short form: `python -m benchmarks soak` runs it for half an hour."""

from __future__ import annotations

import pytest

from benchmarks import soak
from tests.helpers import postgres

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


@pytest.mark.parametrize(("store", "workers"), [("sqlite", 1), ("postgresql", 2)])
def test_books_and_receipts_agree_after_kills_freezes_and_restarts(store: str, workers: int) -> None:
    if store == "postgresql" and next(postgres.installations(), None) is None:
        pytest.skip(postgres.MISSING)
    assert soak.main(["--minutes", "1", "--store", store, "--workers", str(workers)]) == 0
