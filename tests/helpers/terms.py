"""The arithmetic of statistics, in numpy and as SQL over a table of numbers: an engine must have numpy's numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sqlglot import exp

from sfumato.mechanisms.bounds import bins
from sfumato.mechanisms.estimates import Floats
from sfumato.release import Count, Mean, Quantile, Sum, Variance
from sfumato.release.addends import Sizes

_SPREAD = np.random.default_rng(3)
_POWERS = 2.0 ** np.arange(-40, 70)
VALUES: Floats = np.concatenate(
    [
        [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1e300, -1e300, np.inf, -np.inf, 5e-324, 0.1, 29.999999999999996, 30.0],
        np.arange(-40, 40) / 8,
        _POWERS,
        -np.nextafter(_POWERS, np.inf),
        np.nextafter(_POWERS, 0),
        _SPREAD.uniform(-50, 50, 400),
        _SPREAD.normal(0, 1, 300) * 10.0 ** _SPREAD.integers(-12, 20, 300),
    ]
)
"""Halves, of which the even neighbour is the nearest, powers of two and their neighbours, and what has no bounds."""

WHOLE = np.concatenate([np.arange(-20, 20), _SPREAD.integers(-(2**52), 2**52, 400), [2**52, -(2**52)]])


def of_values() -> Iterator[tuple[str, exp.Expr, np.ndarray]]:
    """Names, expressions of the column `value`, and what they are for `VALUES`."""
    for options in ({"low": 0, "high": 30}, {"low": -5, "high": 5, "step": 0.5}, {"low": 0, "high": 1e-9}):
        mean, variance, quantile = (kind("x", **options) for kind in (Mean, Variance, Quantile))
        one, center = mean.terms().amounts
        yield f"one {options}", one, np.ones(len(VALUES), np.int64)
        yield f"center {options}", center, mean.scale.center(VALUES)
        yield f"square {options}", variance.terms().amounts[2], variance._squares.of(variance.scale.center(VALUES))
        point = quantile.terms().point
        assert point is not None
        yield f"place {options}", point, quantile.scale.places(VALUES)
    bin_of = Sizes(Mean("x")).terms().point
    assert bin_of is not None
    yield "bin", bin_of, bins(VALUES)


def of_pairs() -> Iterator[tuple[str, exp.Expr, np.ndarray]]:
    """Of the columns `rows`, `total0` and `total1`, which are all `WHOLE`."""
    total = Sum("x", -1000, 2**29, step=1)
    yield "rows", Count(7).terms().amounts[0], np.clip(WHOLE, 0, 7)
    yield "total", total.terms().amounts[0], np.clip(WHOLE, *total.scale.ends)
    coarse = WHOLE * 2.0**20
    number = np.where(np.abs(coarse) >= 2.0**20, coarse, WHOLE * 2.0**-16)
    bin_of = Sizes(Sum("x")).terms().point
    assert bin_of is not None
    yield "bin of totals", bin_of, bins(number)
