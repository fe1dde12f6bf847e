"""A ledger in an SQLite file keeps the contract, in a file that only its owner can read."""

from __future__ import annotations

import resource
import shutil
import signal
import stat
from pathlib import Path

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.config import LedgerSettings
from sfumato.errors import ConfigError
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger import ledger as ledger_module
from tests.contracts.ledger import ANNA, NOW, InSQLite, LedgerContract, answer, refusal, reserve, spent, top
from tests.helpers import children


class TestSQLiteLedger(InSQLite, LedgerContract):
    def test_the_file_is_its_owners_and_every_commit_is_on_disk(self):
        ledger = self.make()
        answer(ledger, top())
        for file in self.folder.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert self.raw("PRAGMA journal_mode") == [("wal",)]
        [(synchronous,)] = ledger._store._connection.execute("PRAGMA synchronous")
        assert synchronous == 2  # FULL

    def test_a_file_restored_from_a_backup_is_refused(self):
        ledger = self.make()
        answer(ledger, top())
        self.raw("PRAGMA wal_checkpoint(TRUNCATE)")
        backup = shutil.copy(self.file, self.folder / "backup.db")
        answer(ledger, top(4))
        ledger.close()
        shutil.copy(backup, self.file)
        restored = self.make()
        assert "sfumato budget recover" in str(refusal(lambda: reserve(restored, top(4))))
        self.recover(restored)
        assert spent(restored) == Charge(9, 1)

    def test_a_file_that_is_gone_is_refused(self):
        ledger = self.make()
        answer(ledger, top())
        for file in self.folder.iterdir():
            file.unlink()
        refusal(lambda: answer(ledger, top(2, "another")))

    def test_a_file_that_was_replaced_is_refused(self):
        ledger = self.make()
        answer(ledger, top())
        self.raw("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(self.file, self.folder / "backup.db")
        answer(ledger, top(3))
        (self.folder / "backup.db").rename(self.file)
        refusal(lambda: answer(ledger, top(4)))

    def test_a_ledger_that_cannot_be_written_is_refused(self):
        ledger = self.make()
        ledger._store._connection.execute("PRAGMA query_only = ON")
        told = refusal(lambda: reserve(ledger, top()))
        assert "nothing was answered" in str(told)
        assert "readonly" not in str(told)

    def test_a_file_that_is_no_ledger_is_refused(self):
        self.file.write_bytes(b"no ledger " * 1000)
        refusal(self.make)

    def test_a_folder_that_is_missing_is_named(self):
        self.folder.rmdir()
        assert str(self.folder) in str(refusal(self.make))

    def test_the_fence_may_not_be_in_the_ledgers_folder(self):
        with pytest.raises(ConfigError, match="fence"):
            open_ledger(LedgerSettings("sqlite:books.db", self.folder / "fence"), self.folder)
        assert list(self.folder.iterdir()) == []

    def test_without_a_setting_the_fence_is_in_the_state_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        with open_ledger(LedgerSettings("sqlite:books.db"), self.folder) as ledger:
            assert ledger.fence.path.parent == tmp_path / "state" / "sfumato"
            assert ledger.fence.path.stem == ledger.fence.mark().ledger
            assert stat.S_IMODE(ledger.fence.path.stat().st_mode) == 0o600


class TestTheDefaultFence:
    """Where `[ledger] fence` says nothing: in the state folder, under the ledger's own name, known by its place."""

    @pytest.fixture(autouse=True)
    def state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        self.folder = tmp_path / "ledger"
        self.folder.mkdir()

    def opened(self, folder: Path | None = None) -> Ledger:
        return open_ledger(LedgerSettings("sqlite:books.db"), folder or self.folder)

    def test_a_lost_ledger_that_is_created_again_is_not_served(self):
        with self.opened() as ledger:
            answer(ledger, top())
        for file in self.folder.iterdir():
            file.unlink()
        with self.opened() as ledger:
            assert "belongs to another ledger" in str(refusal(lambda: reserve(ledger, top())))
            ledger.recover([ANNA], NOW)
            assert ledger.standings([ANNA], NOW)[0].left == NOTHING
        with self.opened() as ledger:
            assert ledger.verify() == []

    def test_a_ledger_can_be_moved(self, tmp_path):
        with self.opened() as ledger:
            answer(ledger, top())
        moved = self.folder.rename(tmp_path / "moved")
        with self.opened(moved) as ledger:
            assert answer(ledger, top()).repeat

    def test_two_ledgers_have_two_fences(self, tmp_path):
        (tmp_path / "other").mkdir()
        with self.opened() as ledger, self.opened(tmp_path / "other") as other:
            assert ledger.fence.path != other.fence.path
            answer(ledger, top())
            assert answer(other, top()).charge == Charge(5, 1)

    def test_the_refusal_names_the_file(self):
        with self.opened() as ledger:
            answer(ledger, top())
            ledger.fence.path.unlink()
            assert str(ledger.fence.path) in str(refusal(lambda: reserve(ledger, top())))


def check_on_a_full_disk(folder: str) -> str:
    """The failure of a check whose process may write no more than 16 KiB per file: enough for the fence alone."""
    place = Path(folder)
    with open_ledger(LedgerSettings("sqlite:books.db", place / "elsewhere" / "fence"), place / "ledger") as ledger:
        answer(ledger, top())
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, resource.RLIM_INFINITY))
        ledger.fence.check()
        found = str(refusal(ledger.check))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ledger_module.CHECK_EVERY_S = 0
        ledger.check()
        assert ledger.verify() == []
    return found


@pytest.mark.slow  # a process
def test_a_check_fails_on_a_full_disk_and_passes_when_there_is_room_again(tmp_path):
    (tmp_path / "ledger").mkdir()
    assert "nothing was answered" in children.alone(check_on_a_full_disk, str(tmp_path))
