"""Where exact rows come from: one port, one module or folder per engine.

An engine answers SELECT trees over the tables it was opened with, and nothing else. What it returns is exact and
private: it goes to a mechanism, never to an analyst. The table of engines is `sfumato.config.engines.ENGINES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from sfumato.config import EngineSettings
from sfumato.config.engines import ENGINES
from sfumato.engines.base import ColumnType, Engine
from sfumato.errors import InvalidArgument, find_nearest

__all__ = ["ColumnType", "Engine", "engine_class", "open_engine"]


def engine_class(name: str) -> type[Engine]:
    """The class of an engine, by its `type` in a configuration. It is imported now."""
    if name not in ENGINES:
        raise InvalidArgument("type", f"must be one of {', '.join(ENGINES)}", nearest=find_nearest(name, ENGINES))
    module, _, attribute = ENGINES[name].home.partition(":")
    found: type[Engine] = getattr(import_module(module), attribute)
    return found


def open_engine(
    settings: EngineSettings,
    sources: Mapping[str, str],
    *,
    folder: Path | None = None,
    types: Mapping[str, Mapping[str, str]] | None = None,
) -> Engine:
    """An engine with these tables: `sources` maps a table's name to its source. See `Engine.open`."""
    return engine_class(settings.type).open(settings, sources, folder=folder, types=types or {})
