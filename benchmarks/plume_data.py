"""The synthetic data of the Plume paper (Amin et al., 2022): how often people contribute, and to which keys.

Records a person follow the Zipf-Mandelbrot law P(x) ~ (x + 25)^-4.67 on 1..10^5 (about ten on average), keys the law
P(r) ~ (r + 1000)^-1.4 on 10^6; the key of each record is drawn on its own. Rows are written in random order within a
piece of people, as events arrive. Each piece has a generator of its own, by seed and number: a file is a function of
its number of people and the seed, and only one piece is in memory at a time.

    python -m benchmarks.plume_data 1000000 people.parquet
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

MAX_RECORDS, RECORDS_SHIFT, RECORDS_POWER = 10**5, 25, 4.67
KEYS, KEYS_SHIFT, KEYS_POWER = 10**6, 1000, 1.4
PIECE = 10**6  # people
SEED = 20240501

Column = NDArray[np.int64]


def write(path: Path, people: int, *, seed: int = SEED) -> int:
    """Rows (person BIGINT, key BIGINT) of `people` people as Parquet; how many there are."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder, duckdb.connect() as connection:
        starts = range(0, people, PIECE)
        for number, start in enumerate(starts):
            person, key = piece(number, min(PIECE, people - start), seed=seed)
            connection.register("piece", {"person": person + start, "key": key})
            connection.sql("FROM piece").write_parquet(f"{folder}/{number:05}.parquet")
            connection.unregister("piece")
        return _join(connection, sorted(map(str, Path(folder).glob("*.parquet"))), path)


def _join(connection: duckdb.DuckDBPyConnection, pieces: list[str], path: Path) -> int:
    connection.execute("SET memory_limit = '2GB'")
    rows = connection.read_parquet(pieces)
    rows.write_parquet(str(path))
    counted = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(path)]).fetchone()
    assert counted is not None  # noqa: S101
    return int(counted[0])


def piece(number: int, people: int, *, seed: int = SEED) -> tuple[Column, Column]:
    """The rows of one piece, people numbered from 0: their persons and their keys."""
    rng = np.random.default_rng([seed, number])
    records = _draw(rng, people, MAX_RECORDS, RECORDS_SHIFT, RECORDS_POWER)
    person = np.repeat(np.arange(people, dtype=np.int64), records)
    rng.shuffle(person)
    return person, _draw(rng, len(person), KEYS, KEYS_SHIFT, KEYS_POWER)


def _draw(rng: np.random.Generator, size: int, last: int, shift: int, power: float) -> Column:
    """`size` numbers of 1..last with P(x) ~ (x + shift)^-power, by inversion."""
    cumulated = np.cumsum((np.arange(1, last + 1) + float(shift)) ** -power)
    return np.searchsorted(cumulated, rng.random(size) * cumulated[-1], side="right").astype(np.int64) + 1


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[2]), int(sys.argv[1])):,} rows")
