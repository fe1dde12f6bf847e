"""PostgreSQL computes those expressions of one row that it claims as Python does."""

from __future__ import annotations

import psycopg
import pytest

from sfumato.engines.postgres import PostgresEngine
from sfumato.query.expressions.functions import abilities_of, evaluate
from tests.contracts.expressions import COLUMNS, TABLE, TREES, ExpressionContract, computed
from tests.engines.test_postgres import Databases, as_reader, fill

pytestmark = pytest.mark.slow


class TestExpressions(Databases, ExpressionContract):
    def test_what_python_does_not_know_is_read_as_null(self):
        """Days beyond the year 9999 and before the first, and moments without an end."""
        row = (1, "a", None, 2, None, None, None, True, None)
        beyond = ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC", "5874897-12-31", "4713-01-01 BC"]
        moments = [*beyond[:4], "294276-12-31 23:59:59", "4713-01-01 00:00:00 BC"]
        fill(self.url, TABLE, [(*row, None, None, None, None)] * len(beyond), COLUMNS, "beyond")
        with psycopg.connect(self.url) as owner:
            owner.execute("DELETE FROM beyond.events")
            for day, moment in zip(beyond, moments, strict=True):
                places = "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                owner.execute(f"INSERT INTO beyond.events VALUES {places}", [*row, day, day, moment, moment])
        nulls = dict(zip(COLUMNS, (*row, None, None, None, None), strict=True))
        able = PostgresEngine.abilities.functions
        trees = {
            text: tree for text, tree in TREES.items() if not text.endswith(" IS NULL") and abilities_of(tree) <= able
        }
        with PostgresEngine(as_reader(self.url), {TABLE: f"beyond.{TABLE}"}) as engine:
            found = computed(engine, [*trees.values()])
        assert len(found) == len(beyond)
        for values in found:
            assert dict(zip(trees, values, strict=True)) == {
                text: evaluate(tree, nulls) for text, tree in trees.items()
            }
