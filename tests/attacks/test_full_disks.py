"""Disks that take nothing more, or are read-only: no answer, and words that name the place and the reason."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.errors import LedgerFailed
from sfumato.ledger import file_fence
from tests.helpers import children
from tests.helpers.worlds import World, new_world

TOTAL = "SELECT members FROM engagements WHERE n <> {}"


def ask_when_full(folder: str) -> tuple[str, str, str]:
    """Words of a question, readiness and words of a repeat, while the ledger's files cannot become longer."""
    world = World(Path(folder))
    with world.open() as session:
        session.ask(TOTAL.format(1), analyst="olga")
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        size = (world.folder / "ledger.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        asked = words(lambda: session.ask(TOTAL.format(2), analyst="olga"))
        return asked, session.check()["ledger"], words(lambda: session.ask(TOTAL.format(1), analyst="olga"))


def words(call: Callable[[], object]) -> str:
    try:
        call()
    except LedgerFailed as error:
        return str(error)
    return "answered"


@pytest.mark.slow
def test_a_ledger_that_cannot_grow(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world")
    asked, state, again = children.alone(ask_when_full, str(world.folder))
    assert "the ledger could not be read or written; nothing was answered" in asked
    assert (state, again) == ("not ok", "answered")  # a repeat writes nothing
    with world.open() as session:
        assert session.ask(TOTAL.format(2), analyst="olga").rows
        assert session.ledger.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["ENOSPC", "EROFS", "EACCES", "EIO"])
def test_a_fence_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    def fail(*_: object) -> None:
        number = getattr(errno, reason)
        raise OSError(number, os.strerror(number))

    world = new_world(tmp_path / "world")
    with world.open() as session:
        session.ask(TOTAL.format(1), analyst="olga")
        with monkeypatch.context() as patched:
            patched.setattr(file_fence.os, "write", fail)
            with pytest.raises(LedgerFailed) as told:
                session.ask(TOTAL.format(2), analyst="olga")
            assert session.check()["ledger"] == "not ok"
        assert f"the ledger's fence {session.ledger.fence.place!r} cannot be read or written" in str(told.value)
        assert str(told.value).endswith(f"({reason})")
        assert session.ask(TOTAL.format(2), analyst="olga").rows
        assert session.ledger.verify() == []
