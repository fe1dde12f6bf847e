"""How long a mechanism takes once the rows are there."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.mechanisms import (
    Rng,
    UnknownGumbel,
    context,
    known_gaussian,
    unknown_gaussian,
    unknown_gumbel,
    unknown_laplace,
)
from sfumato.mechanisms.selection import Scores, race

EPSILON, DELTA = 0.15, 1e-10


def report() -> str:
    # Short and long ones apart: after a race of a million runners, the next one finds the caches cold.
    best = side_by_side(_over_a_thousand_rows(), repeats=15, calls=20) | side_by_side(_over_many(), repeats=9)
    return "## Mechanisms\n\n" + table(["what", "time"], [(name, milliseconds(s)) for name, s in best.items()])


def _over_a_thousand_rows() -> dict[str, Callable[[], Any]]:
    rows = [(f"article-{rank:04}", 50_000 // (rank + 1)) for rank in range(1001)]
    common = {"limit": 1000, "epsilon": EPSILON, "delta": DELTA, "rng": _source()}
    gumbel = partial(unknown_gumbel, rows, k=10, max_k=100, **common)
    gaussian = partial(gumbel, count_noise="gaussian")
    planned = UnknownGumbel.of(k=10, max_k=100, limit=1000, epsilon=EPSILON, delta=DELTA, count_noise="gaussian")
    return {
        "`UnknownGumbel.release`, 1000 rows, k = 10, as a plan runs it (target: 0.5 ms)": partial(
            planned.release, rows, _source()
        ),
        "`UnknownGumbel.release`, the same, k = 100": partial(planned.at(100).release, rows, _source()),
        "`unknown_gumbel`, 1000 rows, k = 10, Laplace counts": gumbel,
        "`unknown_gumbel`, the same, Gaussian counts": gaussian,
        "`unknown_gumbel`, the same, k = 100": partial(gaussian, k=100),
        "`unknown_laplace`, 1000 rows": partial(unknown_laplace, rows, max_groups=1, **common),
        "`unknown_gaussian`, 1000 rows": partial(unknown_gaussian, rows, max_groups=1, **common),
    }


def _over_many() -> dict[str, Callable[[], Any]]:
    domain = {f"key-{i:06}": i % 1000 for i in range(10**5)}
    runners = Scores(Fraction(15, 100), np.random.default_rng(1).zipf(1.5, 10**6).clip(max=10**6))
    return {
        "`known_gaussian`, 100,000 keys": partial(known_gaussian, domain, epsilon=EPSILON, max_groups=1, rng=_source()),
        "Gumbel race, 1,000,000 runners, first 10": partial(race, runners, _source().stream(purpose="race"), 10),
    }


def _source() -> Rng:
    return Rng.keyed(b"benchmarks", context(purpose="mechanisms"))
