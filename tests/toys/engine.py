"""A toy engine: the tables of an SQLite file. Enough for questions about text and whole numbers."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER, Engine
from sfumato.errors import EngineFailed


class ToyEngine(Engine):
    dialect = "sqlite"

    def __init__(self, path: Path, sources: dict[str, str]) -> None:
        self._sources, self._lock = sources, threading.Lock()
        self._connection: sqlite3.Connection | None = sqlite3.connect(path, check_same_thread=False)
        for name, source in sources.items():
            self._connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT * FROM main."{source}"')

    @classmethod
    def open(cls, settings, sources, *, folder, types):
        return cls((folder or Path()) / settings.url.removeprefix("toy:"), dict(sources))

    def _run(self, text: str) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._connection is None:
                raise EngineFailed(CLOSED)
            try:
                return self._connection.execute(text).fetchall()
            except sqlite3.Error:
                pass
        raise EngineFailed(COULD_NOT_ANSWER)

    def schema(self, table):
        kinds = {"TEXT": "text", "INTEGER": "integer"}
        return {name: kinds.get(kind, "other") for _, name, kind, *_ in self._run(f'PRAGMA table_info("{table}")')}

    def tables(self):
        return tuple(self._sources)

    def close(self):
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
