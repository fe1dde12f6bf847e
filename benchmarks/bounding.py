"""Distinct people per key, each person bounded to L keys, beside the same query without privacy."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from sqlglot import exp

from benchmarks import plume_data
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.duckdb.contributions import DuckDBContributions
from sfumato.engines.sorting import faster_sort, sort_by_buckets, sort_by_numpy, sort_with_places
from sfumato.release.bounding import KeyOrder, count_people

PEOPLE = 10**6
THREADS, REPEATS = 2, 7
SIZES, BITS = (10**5, 10**6, 10**7), 40
TARGETS = {64: 1.3, 8: 1.5}
ORDER = KeyOrder.of(b"benchmarks", "select")
ROWS = exp.select("*").from_("rows")
PLAIN = "SELECT key, COUNT(DISTINCT person) AS people FROM read_parquet(?) GROUP BY key"
FORMS = {
    "integers": "SELECT person, key FROM read_parquet(?)",
    "64-bit ids": "SELECT CAST(hash(person) >> 1 AS BIGINT) AS person, CAST(hash(key) >> 1 AS BIGINT) AS key "
    "FROM read_parquet(?)",
    "text": "SELECT 'user-' || md5(CAST(person AS VARCHAR))[:12] AS person, 'item/' || key AS key FROM read_parquet(?)",
}


def report(people: int = PEOPLE) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "integers.parquet"
        rows = plume_data.write(path, people)
        lines = [line for form in FORMS for line in _lines(form, _rewritten(path, form))]
    return (
        "## Bounding: distinct people per key\n\n"
        f"The Plume paper's synthetic data, {people:,} people and {rows:,} rows in one Parquet file; {THREADS} "
        "threads. Plain: DuckDB's `COUNT(DISTINCT person) GROUP BY key`. Bounded: the same counts, each person in at "
        "most L keys, coding included. Memory: the peak of a process that does only this.\n\n"
        + table(["person and key", "L", "plain", "bounded", "ratio", "target", "plain memory", "bounded memory"], lines)
    )


def sorts() -> str:
    rng = np.random.default_rng(1)
    lines = []
    for size in SIZES:
        words = rng.integers(0, 2**BITS, size, dtype=np.uint64)
        contestants = {
            "numpy": lambda words=words: sort_by_numpy(words.copy()),
            "buckets": lambda words=words: sort_by_buckets(words.copy()),
            "argsort": lambda words=words: words.take(words.argsort()),
            "places": lambda words=words: sort_with_places(words),
        }
        best = side_by_side(contestants, repeats=REPEATS)
        lines.append((f"{size:,}", *map(milliseconds, best.values())))
    chosen = "numpy's sort" if faster_sort() is sort_by_numpy else "the sort by buckets"
    return (
        "## Sorting words\n\n"
        f"Random words of {BITS} bits, which is what a million people and as many keys need; one thread. A short "
        f"measurement chose {chosen} on this machine. With places: where each word was before, for the values of its "
        "row.\n\n" + table(["words", "numpy", "by buckets", "numpy, with places", "with places"], lines)
    )


def _rewritten(path: Path, form: str) -> Path:
    """The same rows, people and keys named in another way."""
    if form == "integers":
        return path
    target = path.with_name(f"{form}.parquet")
    with _connect() as connection:
        connection.sql(FORMS[form], params=[str(path)]).write_parquet(str(target))
    return target


def _lines(form: str, path: Path) -> list[tuple[str, ...]]:
    with _connect() as connection:
        contestants = {"plain": partial(plain, connection, path)}
        contestants |= {f"L = {most}": partial(bounded, path, most) for most in TARGETS}
        best = side_by_side(contestants, repeats=REPEATS if form == "integers" else 3)
    memory = [_megabytes(path, most) for most in (0, *TARGETS)]
    return [
        (
            *(form, str(most), milliseconds(best["plain"]), milliseconds(best[f"L = {most}"])),
            *(f"{best[f'L = {most}'] / best['plain']:.2f}", f"≤ {target}", f"{memory[0]} MB", f"{used} MB"),
        )
        for (most, target), used in zip(TARGETS.items(), memory[1:], strict=True)
    ]


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute("SET enable_progress_bar = false")
    return connection


def plain(connection: duckdb.DuckDBPyConnection, path: Path) -> Any:
    return connection.execute(PLAIN, [str(path)]).fetchnumpy()


def bounded(path: Path, max_keys: int, **options: int) -> Any:
    """From opening the file to the counts."""
    with (
        DuckDBEngine({"rows": str(path)}, threads=THREADS) as engine,
        engine.workspace() as workspace,
        DuckDBContributions(workspace, ROWS, unit="person", key=["key"], threads=THREADS, **options) as contributions,
    ):
        return count_people(contributions, ORDER, max_keys=max_keys)


def _megabytes(path: Path, max_keys: int) -> int:
    """The peak of a fresh process; of the plain query where `max_keys` is 0."""
    command = [sys.executable, "-m", "benchmarks.bounding", str(path), str(max_keys)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) // 1024  # noqa: S603


def _once(path: Path, max_keys: int) -> None:
    if max_keys:
        bounded(path, max_keys)
    else:
        with _connect() as connection:
            plain(connection, path)
    # Not `getrusage`: a new process inherits the peak of the one that started it.
    status = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))


if __name__ == "__main__":
    _once(Path(sys.argv[1]), int(sys.argv[2]))
