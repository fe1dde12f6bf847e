"""The list of mutants is applicable: every edit fits today's sources, and every test that it names is there."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from tests.mutants import DoesNotApply, Mutant, read_mutants
from tests.mutants.__main__ import ROOT, copy_tree, judge, main

MUTANTS = read_mutants()
TESTS = sorted({mutant.test for mutant in MUTANTS})


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 100
    assert len({mutant.harm for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.harm)
def test_an_edit_applies_once_and_leaves_a_module(mutant: Mutant) -> None:
    broken = mutant.broken(ROOT)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(mutant.path(ROOT).read_text("utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS)
def test_a_named_test_is_one_of_make_test_and_compares_no_recorded_values(test: str) -> None:
    """Recorded values (tests/golden) notice every change, also a harmless one."""
    file, *names = test.partition("[")[0].split("::")
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    found: list[object] = [module]
    for name in names:
        found.append(getattr(found[-1], name))
    assert callable(found[-1])
    assert "golden" not in test
    marks = [mark for each in found for mark in _marks(each)]
    assert "exhaustive" not in {mark.name for mark in marks}


def _marks(thing: object) -> list[pytest.Mark]:
    given = getattr(thing, "pytestmark", [])
    return [getattr(mark, "mark", mark) for mark in (given if isinstance(given, list) else [given])]


SOURCE = "def double(x):\n    return 2 * x\n"
CHECK = "import sfumato\n\n\ndef test_double():\n    assert sfumato.double(2) == 4\n"


@pytest.mark.slow  # processes
@pytest.mark.parametrize(
    ("new", "verdict"),
    [("3 * x", "caught"), ("x + x", "SURVIVED"), ("x.missing", "BROKE"), ("(", "BROKE"), (None, "DOES NOT APPLY")],
)
def test_a_mutant_is_caught_by_an_assertion_and_by_nothing_else(tmp_path: Path, new: str | None, verdict: str) -> None:
    """On a package of one function. Its tests are run by the same plugin, from the same tree."""
    small = tmp_path / "small"
    (small / "src" / "sfumato").mkdir(parents=True)
    (small / "tests").mkdir()
    (small / "src" / "sfumato" / "__init__.py").write_text(SOURCE)
    (small / "tests" / "test_double.py").write_text(CHECK)
    (small / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    for file in ("__init__.py", "mutants/__init__.py", "mutants/verdict.py"):
        (small / "tests" / file).parent.mkdir(exist_ok=True)
        (small / "tests" / file).write_text((ROOT / "tests" / file).read_text("utf-8"))
    copy_tree(small, tmp_path / "unbroken")
    mutant = Mutant("", "__init__.py", "2 * x" if new else "3 * x", new or "", "", "tests/test_double.py::test_double")
    assert judge(mutant, tmp_path / "unbroken").verdict == verdict
    assert (tmp_path / "unbroken" / "src" / "sfumato" / "__init__.py").read_text() == SOURCE


def test_an_edit_that_fits_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "src" / "sfumato").mkdir(parents=True)
    (tmp_path / "src" / "sfumato" / "a.py").write_text("x = 1\ny = 1\n")
    with pytest.raises(DoesNotApply, match="2 times"):
        Mutant("", "a.py", "= 1", "= 2", "", "").broken(tmp_path)


def test_words_that_no_mutant_has_run_nothing() -> None:
    assert main(["no mutant has these words"]) == 2
