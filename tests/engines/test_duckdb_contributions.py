"""DuckDB's rows of a release keep the contract, from every kind of source."""

from __future__ import annotations

import duckdb
import pytest

from sfumato.engines.base import CLOSED
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import EngineFailed
from sfumato.release.bounding import count_people
from tests.contracts.contributions import SELECT, TABLE, CodedContributionsContract, by_key
from tests.contracts.engine import counting
from tests.engines.test_duckdb import database, fill, write


class TestParquet(CodedContributionsContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def make(self, rows, columns, table=TABLE):
        return DuckDBEngine({table: str(write(self.folder / "rows.parquet", rows, columns))})


@pytest.mark.slow
class TestDatabase(TestParquet):
    def make(self, rows, columns, table=TABLE):
        path = self.folder / "rows.duckdb"
        with duckdb.connect(str(path)) as connection:
            fill(connection, "t", rows, columns)
        return DuckDBEngine({table: "t"}, database=path)


def test_public_keys_have_codes_without_rows(tmp_path):
    rows = write(tmp_path / "rows.parquet", [(1, "a"), (2, "a"), (2, "z")])
    keys = database(tmp_path / "keys.duckdb", "CREATE TABLE keys AS SELECT unnest(['a', 'b', NULL]) AS k")
    query = ContributionQuery(TABLE, "unit", ("key",), public="keys")
    with DuckDBEngine({TABLE: str(rows), "keys": "keys"}, database=keys) as engine:
        engine.check_contributions(query)
        with engine.contributions(query) as contributions:
            assert {key for (key,) in contributions.keys(range(contributions.size))} == {"a", "b"}
            assert by_key(contributions, count_people(contributions, SELECT, max_keys=1)) == {"a": 2}


def test_a_table_of_text_has_the_types_that_were_written(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("unit,key,x\n1,7,1.5\n2,7.0,none\n3,7.5,\n4,seven,2\n")
    query = ContributionQuery(TABLE, "unit", ("key",), ("x",), types={"key": "integer"})
    with DuckDBEngine({TABLE: str(path)}, types={TABLE: {}}) as engine, engine.contributions(query) as contributions:
        assert by_key(contributions, count_people(contributions, SELECT, max_keys=1)) == {7: 2}


def test_the_workspace_ends_with_the_contributions(tmp_path):
    path = write(tmp_path / "rows.parquet", [(1, "a")])
    with DuckDBEngine({TABLE: str(path)}) as engine:
        with engine.contributions(ContributionQuery(TABLE, "unit", ("key",))) as contributions:
            assert contributions._workspace.rows(counting()) == [(1,)]
        with pytest.raises(EngineFailed, match=CLOSED):
            contributions._workspace.rows(counting())
