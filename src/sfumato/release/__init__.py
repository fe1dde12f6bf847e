"""Releases: tables of counts and statistics that are published once, from data too large for a loop over rows.

import sfumato as sf

counts = sf.release_counts("data.parquet", unit="user_id", key="item", rho=0.5, delta=1e-6)
table = sf.release_aggregates(
    "data.parquet", unit="user_id", key="item", max_keys=64, epsilon=1.1, delta=1e-5,
    aggregates=[sf.Units(), sf.Sum("amount", 0, 100)], out="table.parquet",
)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.release.calls import aggregates_job, counts_job, release_aggregates, release_counts
    from sfumato.release.job import Job
    from sfumato.release.statistics.base import Statistic
    from sfumato.release.statistics.count import Count
    from sfumato.release.statistics.mean import Mean
    from sfumato.release.statistics.quantile import Quantile
    from sfumato.release.statistics.sum import Sum
    from sfumato.release.statistics.units import Units
    from sfumato.release.statistics.variance import Variance
    from sfumato.release.table import Released

__all__ = [
    "Count",
    "Job",
    "Mean",
    "Quantile",
    "Released",
    "Statistic",
    "Sum",
    "Units",
    "Variance",
    "aggregates_job",
    "counts_job",
    "release_aggregates",
    "release_counts",
]

# Imported when they are first used: the table of statistics is all that a command needs to print its help.
_HOMES = {
    "calls": ("aggregates_job", "counts_job", "release_aggregates", "release_counts"),
    "job": ("Job",),
    "statistics.base": ("Statistic",),
    "table": ("Released",),
}


def __getattr__(name: str) -> Any:
    from sfumato.release.statistics import STATISTICS

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"sfumato.release.{home}"), name)
    for kind in STATISTICS.values():
        if kind.class_name == name:
            return kind.load()
    raise AttributeError(f"module 'sfumato.release' has no attribute {name!r}")
