"""Where exact aggregates come from: one port, one file for each engine.

An engine answers SELECT trees over the tables it was opened with, and nothing else. What it returns is exact and
private: it goes to a mechanism, never to an asker.
"""

from sfumato.engines.base import Abilities, ColumnType, Engine

__all__ = ["Abilities", "ColumnType", "Engine"]
