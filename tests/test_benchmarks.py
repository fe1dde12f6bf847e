"""Benchmarks that look into a release run on today's code: nothing else does until `make bench`."""

from __future__ import annotations

from pathlib import Path

import duckdb

from benchmarks import bounded


def test_bounded_numbers_are_counted_again_without_noise(tmp_path: Path) -> None:
    """300 people with each of 4 items, of which each counts for 2: half of the pairs are dropped."""
    path = tmp_path / "rows.parquet"
    duckdb.sql("SELECT p AS user_id, 'i' || i AS item FROM range(300) a(p), range(4) b(i)").write_parquet(str(path))
    released, counted = bounded.today(path, 2, 5, b"s" * 32)
    assert len(released) == len(counted) == 4
    estimand = released.estimand("units")
    # Where so much is dropped, people are counted again among the released keys.
    most = released.statement["parameters"]["max_keys"]
    assert sum(counted.values()) == 300 * min(most, 4) < 1200
    assert estimand.bounded_by is not None
