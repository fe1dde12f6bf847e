"""The same contracts by Spark Connect: nothing here runs in the driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import ClassVar

import duckdb
import pytest

import sfumato as sf
from sfumato.engines.spark import SparkEngine, sessions
from sfumato.errors import EngineFailed
from tests.contracts.contributions import ContributionsContract
from tests.contracts.engine import EngineContract
from tests.contracts.spark import Files, SparkAsked, SparkReleases
from tests.helpers.duckdb_tables import write
from tests.helpers.spark_connect import connect_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
]


class Remote:
    url: ClassVar[str]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls) -> Iterator[None]:
        with connect_server() as cls.url:
            yield


class TestConnect(Remote, Files, EngineContract):
    pass


class TestConnectContributions(Remote, Files, ContributionsContract):
    pass


class TestConnectAsking(Remote, SparkAsked):
    pass


class TestConnectReleases(Remote, SparkReleases):
    pass


def test_a_release_of_a_frame_is_that_of_a_parquet_file(tmp_path):
    path = str(write(tmp_path / "t.parquet", SparkReleases.rows, SparkReleases.columns))
    with connect_server() as address, SparkEngine(address, {}) as found:
        frame = found._session.read.parquet(path)
        tables = [
            sf.release_counts(rows, unit="person", key="key", rho=5, delta=1e-6, method="gaussian")
            for rows in (frame, duckdb.read_parquet(path))
        ]
    assert [len(table) > 20 for table in tables] == [True, True]


def test_a_server_that_does_not_answer():
    with pytest.raises(EngineFailed) as refused:
        SparkEngine("sc://127.0.0.1:1", {})
    assert (str(refused.value), refused.value.__context__) == (sessions.NO_ANSWER, None)
