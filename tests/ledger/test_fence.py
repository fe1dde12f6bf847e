"""The fence alone: marks that are joined, in a file that survives its writers."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.file_fence import FileFence
from tests.contracts.fence import NOVEMBER, FenceContract, mark

DECEMBER = "2026-12-01"


class TestFileFence(FenceContract):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "state" / "fence"

    def make(self) -> FileFence:
        return FileFence(self.path)

    def lose(self) -> None:
        self.path.unlink()

    def test_a_check_writes_and_syncs_and_the_file_does_not_grow(self, begun, monkeypatch):
        before, synced = self.path.read_bytes(), []
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor) or real(descriptor))
        for _ in range(3):
            begun.check()
        assert len(synced) == 6
        assert self.path.read_bytes() == before
        assert {path.name for path in self.path.parent.iterdir()} == {"fence", "fence.lock"}

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
    @pytest.mark.parametrize("name", ["write", "fsync", "open"])
    def test_a_disk_that_is_full_read_only_or_broken_does_not_pass_the_check(self, begun, monkeypatch, name, code):
        real = getattr(os, name)

        def failing(first, *others):
            if name != "open" or str(first).endswith(".check"):
                raise OSError(code, "a disk at /secret/place")
            return real(first, *others)

        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing)
            with pytest.raises(LedgerFailed, match=r"\[ledger\] fence") as told:
                begun.check()
        assert "secret" not in str(told.value)
        begun.check()
        begun.advance(mark(1, anna=1))
        assert self.make().mark() == mark(1, anna=1)

    def test_a_copy_is_another_fence(self, begun):
        begun.advance(mark(1, anna=1))
        copied = self.path.parent.parent / "copy"
        shutil.copytree(self.path.parent, copied)
        assert FileFence(copied / "fence").identity() != begun.identity()
        (copied / "fence.lock").unlink()
        assert FileFence(copied / "fence").identity() != begun.identity()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "fence"


@pytest.fixture
def fence(path: Path) -> FileFence:
    begun = FileFence(path)
    begun.restart(mark(0))
    return begun


def test_a_mark_reads_as_it_was_written():
    written = mark(7, anna=Charge(Fraction(1, 3), 2), bob=5)
    assert Mark.from_line(written.to_line()) == written


def test_of_one_period_the_larger_of_each_amount_counts():
    assert SpentTotal(NOVEMBER, Charge(5, 1)) | SpentTotal(NOVEMBER, Charge(3, 2)) == SpentTotal(NOVEMBER, Charge(5, 2))


def test_a_later_period_counts_whatever_was_spent_before():
    totals = SpentTotal(NOVEMBER, Charge(50)), SpentTotal(DECEMBER, Charge(1))
    assert totals[0] | totals[1] == totals[1] | totals[0] == totals[1]


def test_what_is_known_is_not_written_again(fence, path):
    fence.advance(mark(3, anna=5))
    before = path.read_bytes()
    fence.advance(mark(3, anna=5))
    fence.advance(mark(2, anna=1))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "torn", [b"", b"{", b'{"ledger": "led', b"\xff\xfe", b"7", b"[]", b"{}", b'"text"', b"\n\n", b"[" * 50_000]
)
def test_a_torn_line_spoils_nothing_but_itself(fence, path, torn):
    fence.advance(mark(3, anna=5))
    with path.open("ab") as file:
        file.write(torn)
    assert FileFence(path).mark() == mark(3, anna=5)
    FileFence(path).advance(mark(4, bob=1))
    assert fence.mark() == FileFence(path).mark() == mark(4, anna=5, bob=1)


def test_every_cut_of_a_line_is_no_mark(path):
    line = mark(3, anna=Charge(Fraction(10, 3), 1)).to_line()
    path.parent.mkdir()
    for end in range(len(line)):
        path.write_bytes(line[:end])
        assert FileFence(path).mark() is None


def test_a_write_that_is_cut_short_is_not_taken_for_a_mark(fence, path, monkeypatch):
    """A full disk takes a part of a line, and says so only in how much it took."""
    whole = os.write
    cuts = iter([True])
    monkeypatch.setattr(
        os, "write", lambda descriptor, line: whole(descriptor, line[:9] if next(cuts, False) else line)
    )
    try:
        fence.advance(mark(3, anna=5))
    except LedgerFailed:
        return
    assert FileFence(path).mark() == mark(3, anna=5)


def test_a_fence_cut_short_is_not_put_in_place(fence, path, monkeypatch):
    whole = os.write
    cuts = iter([True])
    monkeypatch.setattr(
        os, "write", lambda descriptor, line: whole(descriptor, line[:9] if next(cuts, False) else line)
    )
    try:
        fence.restart(mark(3, anna=5))
    except LedgerFailed:
        assert FileFence(path).mark() == mark(0)
        return
    assert FileFence(path).mark() == mark(3, anna=5)


def test_a_file_of_the_same_name_and_size_is_read_again(fence, path):
    """A folder gives the inode of a deleted file to the next one, and compacted fences are all of one size."""
    fence.advance(mark(3, anna=5))
    assert fence.mark() == mark(3, anna=5)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(mark(3, anna=5).to_line(), mark(4, anna=6).to_line()))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert (path.stat().st_ino, path.stat().st_size) == (before.st_ino, before.st_size)
    assert fence.mark() == mark(4, anna=6)


@pytest.mark.slow
def test_the_fence_stays_small(fence, path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    largest = 0
    for sequence in range(1, 10_001):
        fence.advance(mark(sequence, anna=sequence, **{f"analyst{sequence % 50}": sequence}))
        largest = max(largest, path.stat().st_size)
    assert largest < 1_000_000
    assert path.stat().st_size < largest  # it was compacted, not just short
    totals = {f"analyst{sequence % 50}": sequence for sequence in range(9_951, 10_001)}
    assert FileFence(path).mark() == mark(10_000, anna=10_000, **totals)


ADVANCE = """
import os, sys
from pathlib import Path
from sfumato.accounting import Charge
from sfumato.ledger import file_fence
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.file_fence import FileFence

path, me = Path(sys.argv[1]), int(sys.argv[2])
file_fence._COMPACT_AT = 4096
for turn in range(1, 61):
    totals = {f"analyst{me}": SpentTotal("2026-11-01", Charge(turn))}
    if turn % 20 == 0:
        totals[f"turn{turn} of {me}"] = SpentTotal("", Charge(me))
    FileFence(path).advance(Mark("ledger", 4 * turn + me, "head", totals))
"""


@pytest.mark.slow
def test_four_processes_lose_nothing(fence, path):
    commands = [[sys.executable, "-c", ADVANCE, str(path), str(me)] for me in range(4)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in running:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told
    found = fence.mark()
    assert found.sequence == 243
    own = {f"analyst{me}": SpentTotal(NOVEMBER, Charge(60)) for me in range(4)}
    rare = {f"turn{turn} of {me}": SpentTotal("", Charge(me)) for me in range(4) for turn in range(20, 61, 20)}
    assert found.totals == own | rare
    assert path.stat().st_size < 20_000


def test_an_unwritable_fence_says_so_and_nothing_of_the_disk(fence, path):
    lock = path.with_name("fence.lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(LedgerFailed, match=r"\[ledger\] fence") as told:
        fence.advance(mark(1, anna=1))
    assert told.value.__context__ is None
    assert fence.mark() == mark(0)


def test_a_fence_that_cannot_be_read_is_not_one_that_is_gone(path):
    path.mkdir(parents=True)
    with pytest.raises(LedgerFailed, match=r"\[ledger\] fence"):
        FileFence(path).mark()
