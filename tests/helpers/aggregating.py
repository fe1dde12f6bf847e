"""Aggregates releases of small tables, and what they computed exactly on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from sfumato.engines.contributions import Contributions
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.mechanisms.census import KeyCensus, KeysPerPerson
from sfumato.mechanisms.noise import Integers
from sfumato.release import Released, Statistic, aggregates_job
from sfumato.release.aggregates import Aggregates
from sfumato.release.bounding import PulledContributions
from sfumato.release.request import ReleaseRequest, Rows
from sfumato.release.source import PUBLIC, ROWS, Source
from sfumato.release.statistics.base import SummedStatistic
from sfumato.release.statistics.quantile import Quantile

Row = tuple[Any, ...]
TYPES = {"person": "INTEGER", "key": "VARCHAR", "x": "DOUBLE"}
ENGINE = DuckDBEngine({}, threads=2)


def filled(name: str, rows: Iterable[Row], types: Mapping[str, str]) -> None:
    """A table of the engine, behind its back: no file is written for every example."""
    named = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
    ENGINE._connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({named})')
    columns = list(zip(*rows, strict=True))
    if columns:
        lists = ", ".join(f"unnest(CAST(? AS {kind}[]))" for kind in types.values())
        ENGINE._connection.execute(f'INSERT INTO "{name}" SELECT {lists}', [list(column) for column in columns])
    ENGINE._read_schema(name)


def source_of(rows: Iterable[Row], types: Mapping[str, str] = TYPES, keys: Iterable[Row] | None = None) -> Source:
    filled(ROWS, rows, types)
    if keys is not None:
        filled(PUBLIC, keys, {name: kind for name, kind in types.items() if name not in ("person", "x")})
    return Source(ENGINE, ROWS, None if keys is None else PUBLIC)


def request_of(**options: Any) -> Aggregates:
    given = {"unit": "person", "key": "key", "max_keys": 2, **options}
    request = aggregates_job("rows.parquet", **given).request
    assert isinstance(request, Aggregates)
    return request


def run(request: ReleaseRequest, source: Source, secret: bytes = b"s" * 32) -> Released:
    request.check_affordable()
    request.check(source)
    return request.run(source, secret)


class Seen:
    """What a run computed exactly: the counts for selection, or the sums of weights of each of its rounds; the
    censuses; and by key every statistic's sums, or its points and how many values lie at each."""

    table: Released

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.weights: list[Counter[Any]] = []
        self.censuses: list[list[int]] = []
        self.sums: dict[Statistic, dict[Any, tuple[int, ...]]] = {}
        self.points: dict[Quantile, dict[Any, tuple[Integers, Integers]]] = {}


def exactly(request: Aggregates, source: Source, secret: bytes, chosen: set[Any] | None = None) -> Seen:
    """Run it, and look. With `chosen`, these keys are selected whatever the noise says."""
    seen, keys = Seen(), []
    plain_release, plain_select, plain_census = SummedStatistic.release, Aggregates._select, KeyCensus.release
    plain_quantiles = Quantile.release

    plain_counts, plain_weights = PulledContributions.count_people, PulledContributions.sum_weights

    def named(contributions: Contributions, found: Integers) -> Counter[Any]:
        names = contributions.keys(np.flatnonzero(found))
        return Counter({key: int(n) for (key,), n in zip(names, found[found > 0], strict=True)})

    def weights(contributions: Contributions, *given: Any, **options: Any) -> Integers:
        found = plain_weights(contributions, *given, **options)
        seen.weights.append(named(contributions, found))
        return found

    def counts(contributions: Contributions, *given: Any, **options: Any) -> Integers:
        found = plain_counts(contributions, *given, **options)
        seen.counts = named(contributions, found)
        return found

    def census(self: KeyCensus, people: Integers, rng: Any) -> KeysPerPerson:
        seen.censuses.append(people.tolist())
        return plain_census(self, people, rng)

    def select(self: Aggregates, plan: Any, rows: Rows) -> Any:
        codes, columns = plain_select(self, plan, rows)
        if chosen is not None:
            every = rows.contributions.keys(np.arange(rows.contributions.size))
            codes, columns = np.array([code for code, (key,) in enumerate(every) if key in chosen], np.int64), {}
        keys.extend(key for (key,) in rows.contributions.keys(codes))
        return codes, columns

    def release(self: SummedStatistic, exact: Any, size: int, share: Any, rng: Any) -> Any:
        assert size == len(keys)  # every selected key, and no other
        seen.sums[self] = dict(zip(keys, zip(*(array.tolist() for array in exact.arrays), strict=True), strict=True))
        return plain_release(self, exact, size, share, rng)

    def quantiles(self: Quantile, exact: Any, size: int, share: Any, rng: Any) -> Any:
        assert size == len(keys)
        ends = np.searchsorted(exact.codes, exact.points * np.arange(size + 1))
        parts = zip(keys, ends[:-1], ends[1:], strict=True)
        seen.points[self] = {
            key: (exact.codes[low:high] % exact.points, exact.counts[low:high]) for key, low, high in parts
        }
        return plain_quantiles(self, exact, size, share, rng)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quantile, "release", quantiles)
        patch.setattr(PulledContributions, "count_people", counts)
        patch.setattr(PulledContributions, "sum_weights", weights)
        patch.setattr(KeyCensus, "release", census)
        patch.setattr(SummedStatistic, "release", release)
        patch.setattr(Aggregates, "_select", select)
        seen.table = request.run(source, secret)
    return seen
