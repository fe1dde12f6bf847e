"""The configuration and its ledger, opened for one command: no table, no noise key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.config import Config
    from sfumato.ledger import Ledger


def read_settings(path: str) -> Config:
    from sfumato.config import load_config

    return load_config(path)


@contextmanager
def open_books(path: str) -> Iterator[tuple[Config, Ledger]]:
    """The configuration at `path`, with its ledger open."""
    from sfumato.ledger import open_ledger

    settings = read_settings(path)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        yield settings, ledger
