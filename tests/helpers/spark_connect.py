"""A server of Spark Connect for the tests.

This file is run as a script. It ends when its stdin does: with its parent, however that ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "ready "


@contextmanager
def connect_server() -> Iterator[str]:
    """The address of a new server on this machine."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        line = next((line for line in server.stdout if line.startswith(READY)), "")
        try:
            assert line, "Spark Connect does not start"
            yield line.removeprefix(READY).strip()
        finally:
            server.stdin.close()
            server.wait()


def serve() -> None:
    from pyspark.sql import SparkSession

    folder = tempfile.mkdtemp(prefix="spark-connect-")
    os.chdir(folder)
    try:
        builder = SparkSession.builder.master("local[2]")
        for name, value in {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": str(Path(folder) / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        java = session._jvm.java.lang
        loader = java.Thread.currentThread().getContextClassLoader()
        name = "org.apache.spark.sql.connect.service.SparkConnectService$"
        service = java.Class.forName(name, True, loader).getField("MODULE$").get(None)
        sys.stdout.write(f"{READY}sc://127.0.0.1:{service.localPort()}\n")
        sys.stdout.flush()
        sys.stdin.read()
        session.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    serve()
