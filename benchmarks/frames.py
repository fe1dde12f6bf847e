"""Releases from data frames, beside the same release from a Parquet file of the same rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars

from benchmarks import plume_data
from benchmarks.releases import DELTA, EPSILON, run
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.release import aggregates_job

PEOPLE, MAX_KEYS = 300_000, 8
COLUMNS = {"integers": "person, key", "text": "'person ' || person AS person, 'key ' || key AS key"}


def report(people: int = PEOPLE) -> str:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        rows = plume_data.write(path, people)
        for form, columns in COLUMNS.items():
            written = Path(folder) / f"{form}.parquet"
            with duckdb.connect() as connection:
                connection.execute(f"COPY (SELECT {columns} FROM '{path}') TO '{written}'")  # noqa: S608
            best = side_by_side(_contestants(written), repeats=3)
            ratios = (f"{best[name] / best['Parquet']:.2f}" for name in best if name != "Parquet")
            lines.append((form, milliseconds(best["Parquet"]), *ratios))
    return (
        "## Releases: from data frames\n\n"
        f"The Plume paper's synthetic data, {people:,} people and {rows:,} rows; the release is that of the whole path "
        f"with L = {MAX_KEYS}. Parquet: its time from a file. The others: their times as multiples of it. A frame is "
        "read once, into a temporary table, and the passes of the release read that.\n\n"
        + table(["people and keys", "Parquet", "Polars", "pandas", "relation of DuckDB"], lines)
    )


def _contestants(path: Path) -> dict[str, Callable[[], Any]]:
    read = polars.read_parquet(path)
    columns = {name: read[name].to_numpy() for name in read.columns}
    sources = {"Parquet": str(path), "Polars": read, "pandas": pandas.DataFrame(columns)}
    sources["relation of DuckDB"] = duckdb.connect().sql(f"FROM '{path}'")
    options: dict[str, Any] = {"unit": "person", "key": "key", "epsilon": EPSILON, "delta": DELTA}
    return {name: partial(run, aggregates_job(each, **options, max_keys=MAX_KEYS)) for name, each in sources.items()}
