"""Mutants: deliberate breakages of `src/sfumato`, each with the one test that has to notice it.

`mutants.toml` is the list, by area. `python -m tests.mutants` (`make mutants`) applies one at a time to a copy of the
tree and runs the test that the list names. `test_mutants.py` keeps the list applicable.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("mutants.toml")


class DoesNotApply(Exception):
    """The text to replace is not in the file exactly once."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One breakage: in `file`, below src/sfumato, `old` becomes `new`. `harm` is what that does, `test` what fails."""

    area: str
    file: str
    old: str
    new: str
    harm: str
    test: str

    def path(self, root: Path) -> Path:
        return root / "src" / "sfumato" / self.file

    def broken(self, root: Path) -> str:
        """The text of the broken file."""
        text = self.path(root).read_text("utf-8")
        if text.count(self.old) != 1:
            raise DoesNotApply(f"{self.file} has the text {text.count(self.old)} times: {self.old!r}")
        return text.replace(self.old, self.new)


def read_mutants(path: Path = LIST) -> list[Mutant]:
    areas = tomllib.loads(path.read_text("utf-8"))
    return [Mutant(area=area, **fields) for area, mutants in areas.items() for fields in mutants]
