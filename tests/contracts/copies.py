"""What releases from an engine must keep whose rows are copied into DuckDB."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

import pytest

import sfumato as sf
from sfumato.engines import Engine
from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import EngineFailed
from sfumato.release.source import Source
from tests.contracts.engine import TABLE
from tests.helpers.aggregating import request_of, run
from tests.helpers.duckdb_tables import write

COLUMNS: Mapping[str, str] = {"person": "integer", "key": "text", "x": "number", "at": "timestamp"}
ODD = {0: None, 3: math.nan, 5: math.inf, 7: -math.inf}
ROWS = [
    (i % 500 or None, f"k{i % 13}", ODD.get(i % 17, i % 90 / 4), datetime(2026, 3, 1 + i % 28, i % 24))
    for i in range(8000)
]


class CopiesContract:
    """The table is the one that a Parquet file of the same rows gives."""

    asked: ClassVar = {
        "aggregates": [sf.Units(), sf.Count(cap=5), sf.Sum("x", 0, 30), sf.Mean("x", 0, 30), sf.Quantile("x", 0, 30)],
        "epsilon": 5,
        "delta": 1e-6,
        "max_keys": 4,
        "filter": "at >= '2026-03-03' AND NOT x BETWEEN 1 AND 2",
    }

    def make(self, rows: Any, columns: Mapping[str, str], table: str = TABLE) -> Engine:
        raise NotImplementedError

    def lose(self, engine: Engine) -> None:
        """From now on, the engine cannot read its table."""
        raise NotImplementedError

    @pytest.fixture
    def tables(self, tmp_path):
        path = write(tmp_path / "t.parquet", ROWS, COLUMNS)
        with self.make(ROWS, COLUMNS) as found, DuckDBEngine({TABLE: str(path)}) as file:
            yield Source(found, TABLE), Source(file, TABLE)

    def test_it_has_the_same_bytes(self, tables):
        request = request_of(**self.asked)
        ours, theirs = (run(request, table) for table in tables)
        assert ours.rows == theirs.rows
        assert ours.statement == theirs.statement
        assert len(ours.rows) > 5

    def test_nothing_is_left_behind_by_a_release_that_fails(self, tables, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spill"))
        (tmp_path / "spill").mkdir()
        self.lose(tables[0].engine)
        with pytest.raises(EngineFailed) as failure:
            run(request_of(**self.asked), tables[0])
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
        assert list((tmp_path / "spill").iterdir()) == []
