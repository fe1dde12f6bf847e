"""Which tables of a configuration have rows in common: what is published of one says something about all of them.

Names do not matter: a file by another path, by a link or within a pattern is the same file. A view is another source,
and so is a copy: how their rows follow from others is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sfumato.config import Config, EngineSettings
from sfumato.engines import engine_class


def source_places(settings: EngineSettings, source: str, folder: Path) -> frozenset[str]:
    """Where the rows of a source are, as `Engine.places` names it. Relative files start at `folder`."""
    return engine_class(settings.type).places(settings, source, folder)


def table_places(config: Config, table: str) -> frozenset[str]:
    """Where the rows of a table of a configuration are."""
    settings = config.tables[table]
    return source_places(config.engines[settings.engine], settings.source, config.folder)


def public_places(config: Config, table: str) -> frozenset[str]:
    """Where the rows of a public table of a configuration are."""
    settings = config.public[table]
    return source_places(config.engines[settings.engine], settings.source, config.folder)


def tables_at(config: Config, places: frozenset[str]) -> tuple[str, ...]:
    """The tables that have rows at these places."""
    return tuple(table for table in config.tables if places & table_places(config, table))


def tables_by_source(config: Config, tables: Iterable[str] | None = None) -> list[tuple[str, ...]]:
    """The tables, or some of them, those with rows in common together: each group is one source."""
    groups: list[tuple[frozenset[str], tuple[str, ...]]] = []
    for table in config.tables if tables is None else tables:
        places = table_places(config, table)
        names: tuple[str, ...] = (table,)
        apart = []
        for other, others in groups:
            if places & other:
                places, names = places | other, (*others, *names)
            else:
                apart.append((other, others))
        groups = [*apart, (places, names)]
    order = list(config.tables)
    return sorted((tuple(sorted(names, key=order.index)) for _, names in groups), key=lambda each: order.index(each[0]))
