"""Fair timing, and the tables it goes into."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def side_by_side(contestants: dict[str, Callable[[], Any]], *, repeats: int, calls: int = 1) -> dict[str, float]:
    """The best time of one call of each, in seconds.

    The contestants take turns within every repeat: a slow moment of the machine meets all of them.
    `calls` in a row are timed together where one is too short for the clock.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for run in contestants.values():
        run()  # fills caches, and is not counted
    for _ in range(repeats):
        for name, run in contestants.items():
            started = time.perf_counter()
            for _ in range(calls):
                run()
            best[name] = min(best[name], (time.perf_counter() - started) / calls)
    return best


def mean_times(contestants: dict[str, Callable[[], Any]], *, repeats: int) -> dict[str, float]:
    """The mean time of one call of each, in seconds: what decides throughput. They take turns, as above."""
    spent = dict.fromkeys(contestants, 0.0)
    for run in contestants.values():
        run()
    for _ in range(repeats):
        for name, run in contestants.items():
            started = time.perf_counter()
            run()
            spent[name] += time.perf_counter() - started
    return {name: total / repeats for name, total in spent.items()}


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table, its first column to the left and numbers to the right."""
    rules = [":--", *["--:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in [header, rules, *rows])
