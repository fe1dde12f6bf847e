"""The same contracts on a cluster: executors in other processes than the driver, with speculation."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from sfumato.engines.spark import sessions
from tests.contracts.contributions import ContributionsContract
from tests.contracts.engine import EngineContract
from tests.contracts.spark import Files, SparkAsked, SparkReleases
from tests.helpers.spark_drivers import CLUSTER, CLUSTER_SETTINGS, driver, executors, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.exhaustive,
    pytest.mark.skipif(shutil.which("java") is None, reason=sessions.NO_JAVA),
]


@pytest.fixture(autouse=True, scope="module")
def _driver(tmp_path_factory) -> Iterator[None]:
    with driver(CLUSTER, CLUSTER_SETTINGS | {"spark.sql.shuffle.partitions": "2"}, tmp_path_factory.mktemp("cluster")):
        wait_until(lambda: len(executors()) == 2)
        yield


class Cluster:
    url = CLUSTER


class TestCluster(Cluster, Files, EngineContract):
    pass


class TestClusterContributions(Cluster, Files, ContributionsContract):
    pass


class TestClusterAsking(Cluster, SparkAsked):
    pass


class TestClusterReleases(Cluster, SparkReleases):
    pass
