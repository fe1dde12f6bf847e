"""`ledger.url`: which store holds the books.

`STORES` has one row per scheme: where the class is, and the form of its URLs. Nothing is imported here: the class is
imported when a ledger is opened (`sfumato.ledger.find_store`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sfumato.errors import ConfigError


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A row of `STORES`. `home` is "module:Class", and `form` is the pattern of its URLs."""

    home: str
    form: str


STORES: dict[str, StoreKind] = {
    # A file: books in memory would forget what was spent.
    "sqlite": StoreKind("sfumato.ledger.sqlite:SQLiteStore", r"sqlite:(?!:memory:$).+"),
    "postgresql": StoreKind("sfumato.ledger.postgres:PostgresStore", r"postgresql://.*"),
    "postgres": StoreKind("sfumato.ledger.postgres:PostgresStore", r"postgres://.*"),
}


def store_kind(url: str) -> StoreKind:
    """The row of a `ledger.url`. Raises `ConfigError` if the URL has none of the forms."""
    kind = STORES.get(url.partition(":")[0])
    if kind is None or not re.fullmatch(kind.form, url, re.DOTALL):
        raise ConfigError("ledger.url", 'must be "sqlite:FILE", such as "sqlite:ledger.db", or "postgresql://..."')
    return kind
