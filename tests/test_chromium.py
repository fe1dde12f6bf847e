"""Where the tests get their browser: what is found, what is downloaded, and what is said where there is none."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import chromium
from tests.helpers.cached import cached


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    chromium.find_program.cache_clear()
    yield
    chromium.find_program.cache_clear()


def test_the_variable_counts_first_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "browser"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv(chromium.VARIABLE, str(program))
    assert chromium.find_program() == program
    chromium.find_program.cache_clear()
    program.unlink()
    assert chromium.why_missing() == chromium.NO_CHROMIUM


def test_one_sentence_says_why_there_is_none_and_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(chromium, "PLACES", ())
    assert chromium.why_missing() == chromium.NO_CHROMIUM


def test_a_package_that_is_not_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pack(command: list[str], cwd: Path, **_: Any) -> None:
        assert command[:3] == ["npm", "pack", "axe-core@4.14.1"]
        with tarfile.open(cwd / "axe-core.tgz", "w:gz") as archive:
            archive.addfile(tarfile.TarInfo("package/axe.min.js"), io.BytesIO())

    monkeypatch.setattr(subprocess, "run", pack)
    with pytest.raises(RuntimeError, match=r"axe-core 4\.14\.1 is not what it was"):
        cached("axe", lambda folder: chromium.unpack(chromium.AXE, folder))
    assert not (tmp_path / "cache" / "sfumato-tests" / "axe").exists()


def test_a_folder_of_the_cache_is_filled_once() -> None:
    def fill(folder: Path) -> None:
        (folder / "file").write_text("whole")

    first = cached("thing", fill)
    assert cached("thing", lambda _: pytest.fail("it is there")) == first
    assert (first / "file").read_text() == "whole"
