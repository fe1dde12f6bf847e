"""What an engine must keep that has columns of decimal digits: DuckDB's rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from sfumato.engines import Engine
from sfumato.engines.duckdb import DuckDBEngine
from tests.contracts.engine import TABLE
from tests.contracts.trees import FINITE, HURTFUL, WORDS, hurtful_rows, question_trees
from tests.helpers.duckdb_tables import write


class DecimalsContract:
    def make(self, rows: Any, columns: Mapping[str, str], table: str = TABLE) -> Engine:
        raise NotImplementedError

    def can_hold(self, text: str) -> bool:
        return True

    def retype(self, engine: Engine) -> Engine:
        """The engine, over the same table, whose column x has 20 digits now, 2 of them after the point."""
        raise NotImplementedError

    def test_every_question_about_them_has_the_rows_of_duckdb(self, tmp_path):
        rows = hurtful_rows(tuple(word for word in WORDS if self.can_hold(word)), FINITE)
        path, decimals = write(tmp_path / "doubles.parquet", rows, HURTFUL), tmp_path / "decimals.parquet"
        replaced = f"SELECT * REPLACE (CAST(x AS DECIMAL(20, 2)) AS x) FROM '{path}'"
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({replaced}) TO '{decimals}'")
        with (
            self.make(rows, HURTFUL) as doubles,
            self.retype(doubles) as engine,
            DuckDBEngine({TABLE: str(decimals)}) as expected,
        ):
            asked = [(name, tree) for name, tree in question_trees(engine.abilities) if '"x"' in tree.sql()]
            assert len(asked) >= 8
            for name, tree in asked:
                found, same = engine.run(tree), expected.run(tree)
                if not tree.args.get("order"):
                    found, same = sorted(found, key=repr), sorted(same, key=repr)
                assert found == same, name
