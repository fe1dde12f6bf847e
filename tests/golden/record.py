"""Write the recorded values of the golden tests: `python tests/golden/record.py`.

NEVER run this to make a failing test pass. A golden test that fails says that ledgers, noise or digests of released
versions are not understood any more: change the code, or add a migration and keep the old values beside the new ones.
It is for new values only, recorded from code that is known to be right.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tests.golden import story, subjects
from tests.golden.comparing import DATA, LEDGER, record


def main() -> None:
    DATA.mkdir(exist_ok=True)
    for name in ("draws", "fingerprints", "report_cells", "questions"):
        record(name, getattr(subjects, name)())
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        subjects.write_release_rows(Path(place))
        record("releases", subjects.releases())
        subjects.write_table(DATA / "table.csv")
        record("table", {path.name: subjects.table_digest(path) for path in sorted(DATA.glob("*.csv"))})
    shutil.rmtree(LEDGER, ignore_errors=True)
    LEDGER.mkdir()
    with tempfile.TemporaryDirectory() as place:
        _record_ledger(Path(place))
    with tempfile.TemporaryDirectory() as place:
        written = story.written(story.copy_world(Path(place), ledger=False))
    with tempfile.TemporaryDirectory() as place:
        released = story.released(story.copy_world(Path(place), ledger=False))
    record("session", {**written, "release": released})


def _record_ledger(place: Path) -> None:
    folder = place / "world"
    folder.mkdir()
    story.write_world(folder)
    with subjects.fixed_world(distinct=True):
        told = story.tell(folder)
    (LEDGER / "ledger.sql").write_text(story.dump(folder), "utf-8")
    for name in (*story.FILES, "noise.key", "../elsewhere/fence"):
        shutil.copyfile(folder / name, LEDGER / Path(name).name)
    record("ledger", {**told, "later": story.go_on(folder)})


if __name__ == "__main__":
    main()
