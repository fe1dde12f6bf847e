"""A process that is frozen while it puts a table into its place: others are refused within seconds."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from sfumato.errors import Failed
from sfumato.release.outputs import files, read, target
from sfumato.release.verify import differences
from tests.helpers.frozen import frozen, then_freeze
from tests.release.test_table import counted

pytestmark = pytest.mark.slow  # processes


def write(path: Path) -> str:
    """Freeze between the statement and the table."""
    with patch.object(os, "replace", then_freeze(os.replace)):
        counted(("frozen", 90)).write(str(path))
    return "done"


@pytest.mark.parametrize("name", ["same.csv", "other.parquet"])
@pytest.mark.parametrize("ending", ["thaw", "kill"])
def test_others_are_refused_until_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, name: str
) -> None:
    monkeypatch.setattr(files, "MAX_WAIT_S", 0.2)
    same, place = tmp_path / "same.csv", tmp_path / name
    with frozen(write, same) as process:
        with pytest.raises(Failed, match="could not be written: another process has locked its folder"):
            counted(("late", 80)).write(str(place))
        assert not place.exists()
        left = [*tmp_path.glob("*.tmp")]
        assert all(each.name.startswith(".same.csv.") for each in left)  # of the frozen process
        assert (process.thaw() if ending == "thaw" else process.kill()) == ("done" if ending == "thaw" else None)
    monkeypatch.undo()
    counted(("late", 80)).write(str(place), overwrite=True)
    assert read(target(str(place))).values("article") == ["late"]
    assert differences(target(str(place))) == []
    assert not [*tmp_path.glob(f".{name}.*.tmp")]
