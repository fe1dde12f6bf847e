"""A real Apache Pinot for the tests: ZooKeeper, a controller, a broker and two servers. One per run, gone when it is.

The keeper of a run works as that of PostgreSQL does (`tests.helpers.postgres`). Its processes get a signal from the
kernel when it dies, so none is left however the run ends. They are in another time zone than UTC, on purpose.

The programs come from Maven, once, into a cache folder of the user.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import httpx2

from tests.helpers.cached import cache
from tests.helpers.postgres import READY, keep, started

VERSION = "0.11.0"
ROOT = Path(__file__).parents[2]
POM = Path(__file__).with_name("pinot-pom.xml")
NO_JAVA = "Apache Pinot needs Java 11 or 17: apt-get install openjdk-17-jre-headless"
NO_MAVEN = "Apache Pinot comes from Maven, which is not installed: apt-get install maven"
NO_JARS = "Maven could not download Apache Pinot; `mvn dependency:copy-dependencies` says why"

START_S, STOP_S, DOWNLOAD_S = 180, 20, 1500
MAX_GROUPS = 250_000  # per server; Pinot's own default is 100,000
MERGED = 10_000  # by the broker, before it trims; Pinot's own default is 1,000,000
OPENED = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "java.lang.reflect")
STORED = {
    "text": "STRING",
    "integer": "LONG",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "STRING",
    "timestamp": "TIMESTAMP",
}


# Where the programs can be had


def why_missing() -> str:
    """Why there can be no Pinot here, and how to get one; "" where there can. Downloads the programs, once."""
    if shutil.which("java") is None:
        return NO_JAVA
    if jars().is_dir():
        return ""
    if shutil.which("mvn") is None:
        return NO_MAVEN
    return "" if download() else NO_JARS


def jars() -> Path:
    """The folder of the programs, which exists when it is complete."""
    return cache() / f"pinot-{VERSION}" / "lib"


def download() -> bool:
    """One run downloads at a time; others wait for it."""
    place = jars().parent
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if jars().is_dir():
            return True
        part = place / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        shutil.copy(POM, part / "pom.xml")
        command = ["mvn", "-B", "-q", "dependency:copy-dependencies", f"-DoutputDirectory={part / 'lib'}"]
        done = subprocess.run(command, cwd=part, capture_output=True, timeout=DOWNLOAD_S)
        if done.returncode == 0:
            (part / "lib").rename(jars())
        shutil.rmtree(part)
        return done.returncode == 0


# A cluster


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def end_with_parent() -> None:
    """The kernel kills a process when the one that started it dies."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Cluster:
    """Processes of one cluster in a folder, which is an absolute path."""

    def __init__(self, home: Path) -> None:
        self.home, self.running = home, {}
        self.ports = {name: free_port() for name in ("zookeeper", "controller", "broker")}
        self.controller = f"http://127.0.0.1:{self.ports['controller']}"
        self.broker = f"http://127.0.0.1:{self.ports['broker']}"
        self.servers = {name: {each: free_port() for each in ("netty", "admin", "grpc")} for name in ("one", "two")}

    def start(self) -> None:
        self.start_program("zookeeper", "64m", "StartZookeeper", "-zkPort", str(self.ports["zookeeper"]))
        wait_until(lambda: answers_on(self.ports["zookeeper"]))
        settings = {
            "controller.zk.str": self.zookeeper,
            "controller.helix.cluster.name": "tests",
            "controller.host": "127.0.0.1",
            "controller.port": self.ports["controller"],
            "controller.data.dir": self.home / "controller",
        }
        self.start_with_settings("controller", "192m", settings)
        wait_until(lambda: said(f"{self.controller}/health") == "OK")
        broker = {
            "pinot.broker.client.queryPort": self.ports["broker"],
            "pinot.broker.hostname": "127.0.0.1",
            "pinot.broker.groupby.trim.threshold": MERGED,
        }
        self.start_broker("broker", broker)
        for name in self.servers:
            self.start_server(name)
        wait_until(lambda: said(f"{self.broker}/health") == "OK")
        for name in self.servers:
            self.wait_for_server(name)

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self.ports['zookeeper']}"

    def start_broker(self, name: str, settings: Mapping[str, Any]) -> None:
        self.start_with_settings(name, "256m", {**self.cluster, **settings})

    @property
    def cluster(self) -> dict[str, str]:
        return {"pinot.zk.server": self.zookeeper, "pinot.cluster.name": "tests"}

    def start_server(self, name: str) -> None:
        ports, data = self.servers[name], self.home / name
        settings = {
            **self.cluster,
            "pinot.server.netty.host": "127.0.0.1",
            "pinot.server.netty.port": ports["netty"],
            "pinot.server.adminapi.port": ports["admin"],
            "pinot.server.grpc.port": ports["grpc"],
            "pinot.server.instance.dataDir": data / "data",
            "pinot.server.instance.segmentTarDir": data / "segments",
            "pinot.server.query.executor.num.groups.limit": MAX_GROUPS,
        }
        self.start_with_settings(name, "400m", settings, "StartServer")

    def wait_for_server(self, name: str) -> None:
        wait_until(lambda: said(f"http://127.0.0.1:{self.servers[name]['admin']}/health") == "OK")

    def start_with_settings(self, name: str, heap: str, settings: Mapping[str, Any], program: str = "") -> None:
        file = self.home / f"{name}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.start_program(name, heap, program or f"Start{name.capitalize()}", "-configFileName", str(file))

    def start_program(self, name: str, heap: str, program: str, *options: str) -> None:
        data = ["-dataDir", str(self.home / name)] if program == "StartZookeeper" else []
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
        small = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=America/New_York"]
        main = ["-cp", f"{jars()}/*", "org.apache.pinot.tools.admin.PinotAdministrator"]
        command = ["java", *small, *opened, *main, program, *options, *data]
        with (self.home / f"{name}.log").open("a") as log:
            out = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self.running[name] = subprocess.Popen(command, cwd=self.home, preexec_fn=end_with_parent, **out)

    def kill(self, name: str) -> None:
        """In the middle of all that it does."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for name in list(self.running):
            self.kill(name)


def said(url: str) -> str:
    """What a health check says; "" where there is no reply."""
    with suppress(httpx2.HTTPError):
        return httpx2.get(url, timeout=5, trust_env=False).text
    return ""


def answers_on(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(seen: Callable[[], bool], patience_s: float = START_S) -> None:
    """Look until it is so. Nothing is decided by how long it takes."""
    deadline = time.monotonic() + patience_s
    while not seen():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not seen within {patience_s} s")
        time.sleep(0.05)


# The run and its workers


def cluster(run: Path) -> dict[str, str]:
    """The addresses of the run's cluster. The first caller starts it."""
    return json.loads(started(run, "pinot", ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", __name__, run]))


def serve(home: Path, alive: IO[str]) -> None:
    made = Cluster(home)
    try:
        made.start()
        print(f"{READY}{json.dumps({'broker': made.broker, 'controller': made.controller})}", flush=True)  # noqa: T201
        fcntl.flock(alive, fcntl.LOCK_SH)  # granted when the run is over
    finally:
        made.stop()


# Tables


@contextmanager
def table(
    addresses: Mapping[str, str],
    name: str,
    columns: Mapping[str, str],
    parts: Sequence[Sequence[tuple[Any, ...]]],
    *,
    stored: Mapping[str, str] | None = None,
    keeps_nulls: bool = True,
    max_length: int = 512,
    raw: Sequence[str] = (),
) -> Iterator[str]:
    """A table of these rows while the block lasts. Each part is one segment, and they go to the servers in turn.

    Columns that are `raw` have no dictionary.
    """
    index = {"loadMode": "MMAP", "nullHandlingEnabled": keeps_nulls, "noDictionaryColumns": list(raw)}
    with httpx2.Client(timeout=60, trust_env=False) as http:
        fill(http, addresses, name, columns, parts, stored=stored or {}, index=index, max_length=max_length)
        try:
            yield name
        finally:
            http.delete(f"{addresses['controller']}/tables/{name}")
            http.delete(f"{addresses['controller']}/schemas/{name}")


def fill(
    http: httpx2.Client,
    addresses: Mapping[str, str],
    name: str,
    columns: Mapping[str, str],
    parts: Sequence[Sequence[tuple[Any, ...]]],
    *,
    stored: Mapping[str, str],
    index: Mapping[str, Any],
    max_length: int,
) -> None:
    controller = addresses["controller"]
    post(http, f"{controller}/schemas", json=schema(name, columns, stored, max_length))
    config = {
        "tableName": name,
        "tableType": "OFFLINE",
        "segmentsConfig": {"schemaName": name, "replication": "1"},
        "tenants": {},
        "tableIndexConfig": index,
        "metadata": {},
    }
    post(http, f"{controller}/tables", json=config)
    params = {"tableNameWithType": f"{name}_OFFLINE", "batchConfigMapStr": '{"inputFormat": "json"}'}
    kinds = [stored.get(each, STORED[kind]) for each, kind in columns.items()]
    for rows in filter(None, parts):
        cells = (map(as_stored, row, kinds) for row in rows)
        lines = "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in cells)
        post(http, f"{controller}/ingestFromFile", params=params, files={"file": ("rows.json", lines.encode())})
    wait_until(lambda: rows_seen(http, addresses["broker"], name) == sum(map(len, parts)))


def schema(name: str, columns: Mapping[str, str], stored: Mapping[str, str], max_length: int) -> dict[str, Any]:
    """Text is cut off after so many characters when a segment is built."""
    kinds = {each: stored.get(each, STORED[kind]) for each, kind in columns.items()}
    fields = [{"name": each, "dataType": kind, "maxLength": max_length} for each, kind in kinds.items()]
    return {"schemaName": name, "dimensionFieldSpecs": fields}


def as_stored(value: Any, kind: str) -> Any:
    """A cell as JSON has it for Pinot: days and moments in whole milliseconds, or as text; infinities as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    if not isinstance(value, date):
        return value
    if kind == "STRING":
        return value.isoformat()
    start = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    since = (start - datetime(1970, 1, 1)) // timedelta(milliseconds=1)
    return str(since) if kind == "TIMESTAMP" else since


def post(http: httpx2.Client, url: str, **body: Any) -> None:
    response = http.post(url, **body)
    if response.status_code != 200:
        raise RuntimeError(f"{url}: {response.text}")


def rows_seen(http: httpx2.Client, broker: str, name: str) -> int | None:
    """How many rows a query sees; None where it fails. An empty table has no result, but the broker must know it."""
    reply = http.post(f"{broker}/query/sql", json={"sql": f'SELECT COUNT(*) FROM "{name}"'}).json()
    shown = reply.get("resultTable")
    return None if reply["exceptions"] else shown["rows"][0][0] if shown else 0


if __name__ == "__main__":
    keep(Path(sys.argv[1]), "pinot", serve)
