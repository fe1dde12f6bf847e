"""People counted per key by Spark, each bounded to L keys, and whole releases, beside plain Spark."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import bounding, pictures, plume_data, releases
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.spark import SparkEngine
from sfumato.release import Job, aggregates_job
from sfumato.release.source import Source

MASTER, MEMORY = "local[2]", "10g"
PEOPLE = 10**6
GROWTH = {10**5: 5, 10**6: 3, 10**7: 1}
"""People, of whom each has about ten rows, and how often each contestant runs."""

TABLE, BOUNDS = "rows", (64, 8)
BOUNDED, RELEASED, TEXT = (1.4, 1.0), (1.8, 1.4), (2.0,)
"""Targets, and what would be better still, as ratios to plain Spark."""

METHODS = (
    pictures.Line("plain Spark", pictures.ORANGE),
    pictures.Line("bounded counts", pictures.SKY),
    pictures.Line("whole release", pictures.BLUE),
)
Contestants = dict[str, Callable[[], Any]]


def report(people: int = PEOPLE) -> str:
    if shutil.which("java") is None:
        return "## Releases on Spark\n\nNot measured: Spark needs Java 17 or 21.\n"
    with tempfile.TemporaryDirectory() as folder, _driver():
        path = Path(folder) / "integers.parquet"
        rows = plume_data.write(path, people)
        lines = [line for form in ("integers", "text") for line in _lines(form, bounding._rewritten(path, form))]
    return (
        "## Releases on Spark\n\n"
        f"The Plume paper's synthetic data, {people:,} people and {rows:,} rows in one Parquet file, on {MASTER}. "
        "Plain: Spark's `COUNT(DISTINCT person) GROUP BY key`, all counts brought to the driver. Bounded: the same "
        "counts, each person in at most L keys. Release: from opening the file to the noisy table, epsilon = ln 3, "
        "delta = 1e-5.\n\n"
        + table(["person and key", "L", "what", "plain", "ours", "ratio", "target", "stretch", "verdict"], lines)
    )


def growth(sizes: dict[int, int] = GROWTH) -> str:
    if shutil.which("java") is None:
        return "## Releases on Spark: growth\n\nNot measured: Spark needs Java 17 or 21.\n"
    points, lines = list[pictures.Point](), []
    for people, repeats in sizes.items():
        with tempfile.TemporaryDirectory() as folder, _driver():
            path = Path(folder) / "integers.parquet"
            rows = plume_data.write(path, people)
            best = _measured(path, repeats)
        for most in BOUNDS:
            times = best["plain"], best[f"bounded {most}"], best[f"released {most}"]
            ratios = (f"{each / times[0]:.2f}" for each in times[1:])
            lines.append((f"{rows:,}", str(most), *map(milliseconds, times), *ratios))
            points += [
                {"rows": rows, "seconds": seconds, "method": line.method, "bound": f"L = {most}"}
                for line, seconds in zip(METHODS, times, strict=True)
            ]
    drawn = _drawn(points, sorted({point["rows"] for point in points}))
    header = ["rows", "L", "plain", "bounded", "release", "bounded / plain", "release / plain"]
    runs = ", ".join(f"{repeats} for {people:,} people" for people, repeats in sizes.items())
    return (
        "## Releases on Spark: growth\n\n"
        f"The same with ten and a hundred times as many rows. The best of some runs: {runs}.\n\n"
        + table(header, lines)
        + f"\n{drawn}"
    )


def _drawn(points: list[pictures.Point], sizes: list[int]) -> str:
    chart = pictures.lines(
        points,
        pictures.Axis("rows", "rows", {"type": "log"}, sizes, "~s"),
        pictures.Axis("seconds", "seconds", {"type": "log"}),
        pictures.Panels("bound", [f"L = {most}" for most in BOUNDS], side=220),
        METHODS,
    )
    return pictures.save(chart, "spark_growth", "Seconds by rows, of plain Spark, bounded counts and whole releases")


@contextmanager
def _driver() -> Iterator[None]:
    """One driver for all contestants, with room for all of them."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {MEMORY} pyspark-shell"
    try:
        with SparkEngine(MASTER, {}):
            yield
    finally:
        os.environ.pop("PYSPARK_SUBMIT_ARGS")
        if before is not None:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def _contestants(path: Path, plain: SparkEngine) -> Contestants:
    found: Contestants = {"plain": partial(_plain, plain)}
    for most in BOUNDS:
        job = aggregates_job(
            str(path), unit="person", key="key", max_keys=most, epsilon=releases.EPSILON, delta=releases.DELTA
        )
        found[f"bounded {most}"] = partial(_bounded, path, most)
        found[f"released {most}"] = partial(_released, path, job)
    return found


def _measured(path: Path, repeats: int) -> dict[str, float]:
    with SparkEngine(MASTER, {TABLE: str(path)}) as plain:
        return side_by_side(_contestants(path, plain), repeats=repeats)


def _lines(form: str, path: Path) -> list[tuple[str, ...]]:
    best = _measured(path, GROWTH[PEOPLE])
    lines = []
    for what, targets in (("bounded", BOUNDED), ("released", RELEASED)):
        aims = targets if form == "integers" else TEXT
        for most in BOUNDS:
            ratio = best[f"{what} {most}"] / best["plain"]
            times = milliseconds(best["plain"]), milliseconds(best[f"{what} {most}"])
            shown = [f"≤ {aim}" for aim in aims]
            verdict = "met" if ratio <= aims[0] else "missed"
            lines.append((form, str(most), what, *times, f"{ratio:.2f}", shown[0], "".join(shown[1:]), verdict))
    return lines


def _plain(engine: SparkEngine) -> Any:
    place = engine._tables[TABLE].sql(dialect=engine.dialect, identify=True)
    return engine._session.sql(f"SELECT key, COUNT(DISTINCT person) AS n FROM {place} GROUP BY key").toArrow()  # noqa: S608


def _bounded(path: Path, max_keys: int) -> Any:
    query = ContributionQuery(TABLE, "person", ("key",))
    with SparkEngine(MASTER, {TABLE: str(path)}) as engine, engine.contributions(query) as contributions:
        return contributions.count_people(bounding.ORDER, max_keys=max_keys)


def _released(path: Path, job: Job) -> Any:
    with SparkEngine(MASTER, {TABLE: str(path)}) as engine:
        return job.request.run(Source(engine, TABLE), os.urandom(32))
