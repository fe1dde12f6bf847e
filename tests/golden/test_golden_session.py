"""Answers, reports and all that a ledger writes are what they were when they were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import story
from tests.golden.comparing import differences, recorded, texts, without_notes

RECORDED = recorded("session")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return story.written(story.copy_world(tmp_path_factory.mktemp("golden"), ledger=False))


@pytest.mark.parametrize("part", [part for part in RECORDED if part not in ("tables", "release")])
def test_what_leaves(part: str, written: Any):
    assert not differences(without_notes(written[part]), without_notes(RECORDED[part]))


def test_the_order_of_fields_is_that_of_the_interface(written: Any):
    assert list(written["answers"]["top"]) == ["columns", "rows", "stopped", "receipt", "notes"]


@pytest.mark.parametrize("part", ["answers", "reports"])
def test_the_texts_of_notes(part: str, written: Any):
    found, before = ({name: texts(each["notes"]) for name, each in all_[part].items()} for all_ in (written, RECORDED))
    assert found == before


@pytest.mark.parametrize("table", RECORDED["tables"])
def test_what_the_ledger_writes(table: str, written: Any):
    found, expected = written["tables"][table], RECORDED["tables"][table]
    if table == "journal":
        found = with_recorded_settings(found, expected)
    assert not differences(found, expected)


def with_recorded_settings(found: Any, expected: Any) -> Any:
    """The journal, its trail of the policy without kinds of settings that were not recorded yet: it may get more."""
    before = {name for row in expected if row["kind"] == "policy" for name in row["note"]["set"]}
    assert before

    def shorten(note: Any) -> Any:
        return note | {"set": {name: text for name, text in note["set"].items() if name in before}}

    return [row | {"note": shorten(row["note"])} if row["kind"] == "policy" else row for row in found]


def test_a_release_that_a_ledger_pays_for(tmp_path: Path):
    assert not differences(story.released(story.copy_world(tmp_path, ledger=False)), RECORDED["release"])


def test_a_fence_without_a_place_of_its_own_is_found_by_the_ledgers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The names of these files are how a ledger that was lost, and begun again, is noticed."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = story.copy_world(tmp_path, ledger=False)
    config = (folder / "sfumato.toml").read_text()
    (folder / "sfumato.toml").write_text(config.replace('fence = "../elsewhere/fence"\n', ""))
    place = story.fence_note(folder / "ledger.db")
    identity = story.begin(folder)
    found = {path.name: path for path in (tmp_path / "state" / "sfumato").iterdir()}
    assert set(found) == {place, f"{identity}.fence", f"{identity}.fence.lock"}
    assert found[place].read_text() == identity
