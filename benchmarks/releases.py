"""Whole releases, from opening the file to the noisy table, beside the same query without privacy."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import bounding, plume_data
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.mechanisms import Rng, private_count_release
from sfumato.release import Job, Released, aggregates_job, counts_job

PEOPLE, MORE_PEOPLE = 10**6, 10**7
EPSILON, DELTA = math.log(3), 1e-5
TARGETS = {"L = 64": 0.8, "L = 8": 1.2, "L = 64, keys in two rounds": 1.2}
LARGE_TARGETS = {64: 1.5, 8: 1.5}


def report(people: int = PEOPLE) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        rows = plume_data.write(path, people)
        jobs = _jobs(path)
        with bounding._connect() as connection:
            contestants = {"plain": partial(bounding.plain, connection, path)}
            best = side_by_side(contestants | {name: partial(run, job) for name, job in jobs.items()}, repeats=5)
        kept = {name: len(run(job)) for name, job in jobs.items()}
        lines = [
            (
                *(name, milliseconds(best["plain"]), milliseconds(best[name]), f"{best[name] / best['plain']:.2f}"),
                *(f"≤ {TARGETS[name]}" if name in TARGETS else "", f"{kept[name]:,}"),
            )
            for name in jobs
        ]
        lookup = _after_the_counts(path)
    return (
        "## Releases: the whole path\n\n"
        f"The Plume paper's synthetic data, {people:,} people and {rows:,} rows in one Parquet file; distinct people a "
        "key, epsilon = ln 3, delta = 1e-5 (PCR: rho = 0.5, delta = 1e-6). Plain: DuckDB's `COUNT(DISTINCT person)` of "
        "every key. The release: from opening the file to the noisy table, its keys named. With "
        "L = 64 the counts by which keys are kept are the answer. With L = 8, and where it is asked for, keys are "
        "selected by weights in two rounds, and people are counted again.\n\n"
        + table(["release", "plain", "released", "ratio", "target", "keys"], lines)
        + f"\nPCR by itself, from the counts of all keys to the table: {milliseconds(lookup)} (target 50 ms).\n"
    )


def large(people: int = MORE_PEOPLE) -> str:
    """One run each, in processes of their own, whose memory is measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        rows = plume_data.write(path, people)
        plain, plain_memory = _apart(path, 0)
        lines = []
        for most, target in LARGE_TARGETS.items():
            seconds, memory = _apart(path, most)
            ratio, aim = f"{seconds / plain:.2f}", f"≤ {target}"
            lines.append(
                (f"L = {most}", f"{plain:.1f} s", f"{seconds:.1f} s", ratio, aim, f"{plain_memory} MB", f"{memory} MB")
            )
    return (
        "## Releases: ten times as many people\n\n"
        f"The same with {people:,} people and {rows:,} rows, one run each. Target for memory: 8 GB.\n\n"
        + table(["release", "plain", "released", "ratio", "target", "plain memory", "memory"], lines)
    )


def _jobs(path: Path) -> dict[str, Job]:
    aggregates = partial(aggregates_job, str(path), unit="person", key="key", epsilon=EPSILON, delta=DELTA)
    named = {"L = 64": aggregates(max_keys=64), "L = 8": aggregates(max_keys=8)}
    named["L = 64, keys in two rounds"] = aggregates(max_keys=64, selection="weighted_twice")
    for pipeline in ("naive", "fast"):
        named[f"L = 64, {pipeline}"] = aggregates(max_keys=64, pipeline=pipeline)
    return named | {"pcr": counts_job(str(path), unit="person", key="key", rho=0.5, delta=1e-6)}


def run(job: Job) -> Released:
    with job._opened() as source:
        return job.request.run(source, os.urandom(32))


def _after_the_counts(path: Path) -> float:
    """What PCR takes with 10,000 candidates and some 500 released."""
    query = "SELECT key, COUNT(DISTINCT person) AS n FROM read_parquet(?) GROUP BY key ORDER BY n DESC, key LIMIT 10001"
    with bounding._connect() as connection:
        counts = connection.execute(query, [str(path)]).fetchall()
    best = math.inf
    for _ in range(5):
        started = time.perf_counter()
        private_count_release(counts, rho=0.02, delta=1e-6, rng=Rng.system())
        best = min(best, time.perf_counter() - started)
    return best


def _apart(path: Path, max_keys: int) -> tuple[float, int]:
    command = [sys.executable, "-m", "benchmarks.releases", str(path), str(max_keys)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()  # noqa: S603
    return float(printed[0]), int(printed[1]) // 1024


def _once(path: Path, max_keys: int) -> None:
    started = time.perf_counter()
    _work(path, max_keys)
    seconds = time.perf_counter() - started
    status = Path("/proc/self/status").read_text().splitlines()
    print(seconds, next(line.split()[1] for line in status if line.startswith("VmHWM")))


def _work(path: Path, max_keys: int) -> Any:
    if max_keys:
        return run(aggregates_job(str(path), unit="person", key="key", max_keys=max_keys, epsilon=EPSILON, delta=DELTA))
    with bounding._connect() as connection:
        return bounding.plain(connection, path)


if __name__ == "__main__":
    _once(Path(sys.argv[1]), int(sys.argv[2]))
