"""Sfumato: private answers about people, under a budget that is accounted exactly.

    import sfumato as sf

    with sf.open("sfumato.toml") as session:
        answer = session.ask("SELECT article, members FROM engagements GROUP BY article LIMIT 10", analyst="anna")

`Client` makes the same calls to a service, over HTTP and with a key.
The pure parts have doors of their own: `sfumato.mechanisms`, `sfumato.accounting`.
"""

from importlib import import_module

__version__ = "0.1.0"

# Every public name and the module that has it. `__all__`, the loader below, and `__init__.pyi`, which type checkers
# read and `make docs` writes, follow from this table.
PUBLIC = {
    "Answer": "sfumato.wire",
    "AsyncClient": "sfumato.client",
    "BudgetExhausted": "sfumato.errors",
    "Charge": "sfumato.accounting",
    "Client": "sfumato.client",
    "ConfigError": "sfumato.errors",
    "Conflict": "sfumato.errors",
    "Count": "sfumato.release",
    "EngineFailed": "sfumato.errors",
    "Failed": "sfumato.errors",
    "Histogram": "sfumato.query.request",
    "InvalidArgument": "sfumato.errors",
    "LedgerFailed": "sfumato.errors",
    "Mean": "sfumato.release",
    "NotFound": "sfumato.errors",
    "NotSupported": "sfumato.errors",
    "Quantile": "sfumato.release",
    "RateLimited": "sfumato.errors",
    "Receipt": "sfumato.wire",
    "Refused": "sfumato.errors",
    "Released": "sfumato.release",
    "Report": "sfumato.wire",
    "Session": "sfumato.session",
    "SfumatoError": "sfumato.errors",
    "Sum": "sfumato.release",
    "TopK": "sfumato.query.request",
    "Total": "sfumato.query.request",
    "Unauthorized": "sfumato.errors",
    "Units": "sfumato.release",
    "Variance": "sfumato.release",
    "open": "sfumato.session",
    "release_aggregates": "sfumato.release",
    "release_counts": "sfumato.release",
}
OTHER_NAMES = {"open": "Session"}  # what a public name is called in its module, where that differs

__all__ = [*PUBLIC]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: a command that prints its help needs no engine."""
    if name not in PUBLIC:
        raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), OTHER_NAMES.get(name, name))


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
