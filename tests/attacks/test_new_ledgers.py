"""Several processes open a new ledger at the same moment: none fails, and they make one ledger with one fence."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from sfumato.config import LedgerSettings
from sfumato.errors import SfumatoError
from sfumato.ledger import open_ledger
from tests.contracts.ledger import answer, histogram
from tests.helpers import children
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # processes

PROCESSES, ROUNDS = 16, repeats(10, 50)


def open_new(together: Barrier, folder: Path, number: int) -> list[str]:
    """Open a new ledger per round and ask it something. Returns its identity and its fence, or what went wrong."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    found = []
    for place in range(ROUNDS):
        together.wait(60)
        try:
            with open_ledger(LedgerSettings("sqlite:books.db"), folder / str(place)) as ledger:
                answer(ledger, histogram(str(number)))
                found.append(f"{ledger.fence.mark().ledger} {ledger.fence.path.name}")
        except SfumatoError as error:
            found.append(str(error))
    return found


def test_a_new_ledger_is_made_once(tmp_path: Path) -> None:
    for place in range(ROUNDS):
        (tmp_path / str(place)).mkdir()
    together: Any = children._server().Barrier(PROCESSES)
    started = [children.start(open_new, together, tmp_path, number) for number in range(PROCESSES)]
    for place, found in enumerate(zip(*[child.result() for child in started], strict=True)):
        assert len(set(found)) == 1, set(found)
        one = found[0]
        identity, fence = one.split()
        assert fence == f"{identity}.fence"
        with open_ledger(
            LedgerSettings("sqlite:books.db", tmp_path / "state/sfumato" / fence), tmp_path / str(place)
        ) as ledger:
            assert ledger.verify() == []
