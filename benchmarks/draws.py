"""Exact integer noise against numpy's inexact Laplace sampler, and against OpenDP's exact one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.mechanisms import Rng, context

SCALES = (Fraction(2), Fraction(40, 3), Fraction(1000))
KEY = b"benchmarks"
NUMPY, LAPLACE, GAUSSIAN = "numpy laplace (inexact)", "discrete_laplace", "discrete_gaussian"


def large() -> str:
    return _section(10**6, {LAPLACE: 1.0, GAUSSIAN: 5.0}, repeats=15, calls=1)


def small() -> str:
    return _section(10**3, {LAPLACE: 3.0, GAUSSIAN: 3.0}, repeats=25, calls=200)


def _section(size: int, targets: dict[str, float], *, repeats: int, calls: int) -> str:
    rows = []
    for scale in SCALES:
        best = side_by_side(_contestants(scale, size), repeats=repeats, calls=calls)
        for name, seconds in best.items():
            rows.append(
                (f"{name}, scale {scale}", milliseconds(seconds), *_judged(seconds / best[NUMPY], name, targets))
            )
    return (
        f"## {size:,} draws\n\n"
        "The yardstick is `Generator.laplace`, which draws floating-point noise, not an exact integer law. "
        "The Gaussian has the deviation of the Laplace law beside it, sigma² = 2 scale².\n\n"
        + table(["sampler", "time", "ratio to numpy", "target", "verdict"], rows)
    )


def _judged(ratio: float, name: str, targets: dict[str, float]) -> tuple[str, str, str]:
    if name not in targets:
        return f"{ratio:.2f}", "", ""
    return f"{ratio:.2f}", f"≤ {targets[name]:.1f}", "met" if ratio <= targets[name] else "missed"


def _contestants(scale: Fraction, size: int) -> dict[str, Callable[[], Any]]:
    numpy_source, keyed = np.random.default_rng(1), Rng.keyed(KEY, context(purpose="draws"))
    return {
        NUMPY: partial(numpy_source.laplace, 0.0, float(scale), size),
        LAPLACE: partial(keyed.discrete_laplace, scale, size),
        GAUSSIAN: partial(keyed.discrete_gaussian, 2 * scale**2, size),
    }


def opendp() -> str:
    """OpenDP draws one by one with exact arithmetic; it gets fewer draws, and both are given per draw."""
    heading = "## Against OpenDP's exact discrete Laplace\n\n"
    try:
        import opendp.prelude as dp
    except ModuleNotFoundError:
        return heading + "Skipped: OpenDP is not installed (`pip install opendp` adds this section).\n"
    dp.enable_features("contrib")
    few, many = 20_000, 10**6
    zeros, rows = [0] * few, []
    for scale in SCALES:
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
        measurement = dp.m.make_laplace(*space, scale=float(scale))
        ours = _contestants(scale, many)[LAPLACE]
        best = side_by_side({"opendp": partial(measurement, zeros), "sfumato": ours}, repeats=5)
        theirs, own = best["opendp"] / few, best["sfumato"] / many
        rows.append((f"scale {scale}", f"{1e9 * theirs:,.0f} ns", f"{1e9 * own:,.1f} ns", f"{theirs / own:,.0f}"))
    return (
        f"{heading}Nanoseconds per draw: OpenDP {version('opendp')} on a list of "
        f"{few:,} zeros, the conversion of the list included; `discrete_laplace` on {many:,} draws.\n\n"
        + table(["law", "OpenDP", "discrete_laplace", "times faster"], rows)
    )
