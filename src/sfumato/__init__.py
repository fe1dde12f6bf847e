"""Sfumato: private answers about people, under a budget that is accounted exactly.

    import sfumato as sf

    with sf.open("sfumato.toml") as session:
        answer = session.ask("SELECT article, members FROM engagements GROUP BY article LIMIT 10", analyst="anna")

`Client` makes the same calls to a service, over HTTP and with a key.
The pure parts have doors of their own: `sfumato.mechanisms`, `sfumato.accounting`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.accounting import Charge
    from sfumato.client import AsyncClient, Client
    from sfumato.errors import (
        BudgetExhausted,
        Conflict,
        EngineFailed,
        Failed,
        LedgerFailed,
        NotFound,
        NotSupported,
        RateLimited,
        Refused,
        SfumatoError,
        Unauthorized,
    )
    from sfumato.query.request import Histogram, TopK, Total
    from sfumato.release import (
        Count,
        Mean,
        Quantile,
        Released,
        Sum,
        Units,
        Variance,
        release_aggregates,
        release_counts,
    )
    from sfumato.session import Session
    from sfumato.session import Session as open  # noqa: A004, N813
    from sfumato.wire import Answer, Receipt, Report

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AsyncClient",
    "BudgetExhausted",
    "Charge",
    "Client",
    "Conflict",
    "Count",
    "EngineFailed",
    "Failed",
    "Histogram",
    "LedgerFailed",
    "Mean",
    "NotFound",
    "NotSupported",
    "Quantile",
    "RateLimited",
    "Receipt",
    "Refused",
    "Released",
    "Report",
    "Session",
    "SfumatoError",
    "Sum",
    "TopK",
    "Total",
    "Unauthorized",
    "Units",
    "Variance",
    "open",
    "release_aggregates",
    "release_counts",
]

# Imported when they are first used: a command that prints its help needs no engine.
_HOMES = {
    "sfumato.accounting": ("Charge",),
    "sfumato.client": ("AsyncClient", "Client"),
    "sfumato.errors": (
        *("BudgetExhausted", "Conflict", "EngineFailed", "Failed", "LedgerFailed", "NotFound", "NotSupported"),
        *("RateLimited", "Refused", "SfumatoError", "Unauthorized"),
    ),
    "sfumato.query.request": ("Histogram", "TopK", "Total"),
    "sfumato.wire": ("Answer", "Receipt", "Report"),
    "sfumato.release": (
        *("Count", "Mean", "Quantile", "Released", "Sum", "Units", "Variance"),
        *("release_aggregates", "release_counts"),
    ),
    "sfumato.session": ("Session",),
}


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("sfumato.session").Session
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
