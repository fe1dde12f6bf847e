"""Apply each mutant to a copy of the tree and run its test: `make mutants`, or with ARGS=fence those about a fence.

The working tree is only read. All named tests must pass on an unbroken copy first. A mutant is caught if an assertion
of its test fails; a mutant that breaks its test in another way (an import, a fixture, the time limit) is not.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from tests.mutants import DoesNotApply, Mutant, read_mutants
from tests.mutants.verdict import CAUGHT

ROOT = Path(__file__).parents[2]
NEEDED = ("src", "tests", "pyproject.toml")
AT_ONCE = 2
MAX_TEST_S, MAX_ALL_S = 300, 1800  # on a busy machine; on a quiet one no test takes ten seconds
VERDICTS = {CAUGHT: "caught", 0: "SURVIVED"}


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of pytest ended: its exit code, None after the time limit, and what it printed."""

    code: int | None
    printed: str


@dataclass(frozen=True, slots=True)
class Result:
    verdict: str
    details: str
    seconds: float


def copy_tree(root: Path, target: Path) -> None:
    """What tests need, without compiled modules: those know where they were compiled."""
    target.mkdir()
    for name in NEEDED:
        if (root / name).is_dir():
            shutil.copytree(root / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / name, target)


def run_tests(tree: Path, *arguments: str, max_s: float = MAX_TEST_S) -> Run:
    """pytest in a tree, on the sources of this tree. What it started is gone when it has ended."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    process = subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True, **pipes)
    try:
        printed, _ = process.communicate(timeout=max_s)
        return Run(process.returncode, printed)
    except subprocess.TimeoutExpired:
        return Run(None, f"not finished after {max_s} s")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def judge(mutant: Mutant, unbroken: Path) -> Result:
    """Break a fresh copy of the unbroken tree, and run the test."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=unbroken.parent) as folder:
        tree = Path(folder) / "tree"
        try:
            broken = mutant.broken(unbroken)
        except DoesNotApply as problem:
            return Result("DOES NOT APPLY", str(problem), 0)
        shutil.copytree(unbroken, tree)
        path = mutant.path(tree)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(broken, "utf-8")
        run = run_tests(tree, "-x", "-p", "tests.mutants.verdict", mutant.test)
    verdict = VERDICTS.get(run.code, "BROKE")
    return Result(verdict, "" if verdict == "caught" else run.printed[-3000:], time.monotonic() - started)


def main(words: Sequence[str]) -> int:
    started, console = time.monotonic(), Console(highlight=False, markup=False, soft_wrap=True)
    mutants = [mutant for mutant in read_mutants() if all(word in str(mutant) for word in words)]
    if not mutants:
        console.print(f"no mutant has all of these words: {' '.join(words)}")
        return 2
    tests = sorted({mutant.test for mutant in mutants})
    with tempfile.TemporaryDirectory(prefix="sfumato-mutants-") as folder:
        unbroken = Path(folder) / "unbroken"
        copy_tree(ROOT, unbroken)
        console.print(
            f"{len(mutants)} mutants; the {len(tests)} tests that have to catch them, on the unbroken tree ..."
        )
        run = run_tests(unbroken, "-n", str(AT_ONCE), "--dist", "worksteal", *tests, max_s=MAX_ALL_S)
        if run.code != 0:
            console.print(f"{run.printed}\nthese tests do not pass on the unbroken tree, so nothing was broken")
            return 1
        verdicts: Counter[str] = Counter()
        with ThreadPoolExecutor(AT_ONCE) as pool, Progress(console=console, transient=True) as progress:
            bar = progress.add_task("breaking", total=len(mutants))
            results = pool.map(partial(judge, unbroken=unbroken), mutants)
            for number, (mutant, result) in enumerate(zip(mutants, results, strict=True), 1):
                progress.advance(bar)
                place = f"{number:3}/{len(mutants)} {result.verdict:8} {result.seconds:5.1f} s"
                console.print(f"{place}  {mutant.file}: {mutant.harm}")
                if result.details:
                    console.print(f"{mutant.test}\n{result.details}\n")
                verdicts[result.verdict] += 1
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    console.print(f"{len(mutants)} mutants: {counted}; {time.monotonic() - started:.0f} s")
    return 0 if set(verdicts) == {"caught"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
