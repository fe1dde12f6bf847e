"""The generated rows in a Pinot that is running, loaded through its controller.

Its addresses are those of Pinot's quick start, or in the variables that also override the configuration.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import duckdb

from sfumato.demo import sample
from sfumato.demo.engines import BROKER, CONTROLLER, PINOT_TABLE
from sfumato.errors import Failed

if TYPE_CHECKING:
    import httpx2

BROKER_VARIABLE, CONTROLLER_VARIABLE = "SFUMATO_ENGINES__LOCAL__URL", "SFUMATO_ENGINES__LOCAL__CONTROLLER"
ROWS_PER_SEGMENT = 250_000
LOADED_S = 180
COUNTED = f"SELECT COUNT(*) FROM {PINOT_TABLE}"  # noqa: S608

FIELDS = {"member_id": "LONG", "article": "STRING", "job_title": "STRING", "region": "STRING", "day": "STRING"}
HOW_TO_START = (
    "no Pinot answers at {}; start one with: docker run -p 9000:9000 -p 8000:8000 apachepinot/pinot QuickStart "
    f"-type EMPTY; or write its addresses into {BROKER_VARIABLE} and {CONTROLLER_VARIABLE}"
)


def write_table(folder: Path, members: int) -> None:
    """Load the rows of so many members. A table that is there already must have them."""
    import httpx2

    broker = os.environ.get(BROKER_VARIABLE, BROKER)
    controller = os.environ.get(CONTROLLER_VARIABLE, CONTROLLER)
    with httpx2.Client(timeout=120, trust_env=False) as http, TemporaryDirectory(dir=folder) as place:
        files = list(_generate(Path(place), members))
        rows = sum(count for _, count in files)
        try:
            known = http.get(f"{controller}/tables").json()["tables"]
            if PINOT_TABLE not in known:
                _load(http, controller, [file for file, _ in files])
            _wait(http, broker, rows)
        except (httpx2.HTTPError, LookupError, ValueError):
            raise Failed(HOW_TO_START.format(f"{broker} and {controller}")) from None


def _generate(place: Path, members: int) -> Iterator[tuple[Path, int]]:
    """Files of CSV, each with the number of its rows."""
    with duckdb.connect() as connection:
        sample.generate(connection, members)
        for number in range(10_000):
            file = place / f"{number}.csv"
            rows = connection.table("engagements").limit(ROWS_PER_SEGMENT, number * ROWS_PER_SEGMENT)
            count = len(rows)
            if not count:
                return
            rows.write_csv(str(file), header=True)
            yield file, count


def _load(http: httpx2.Client, controller: str, files: list[Path]) -> None:
    schema: dict[str, Any] = {
        "schemaName": PINOT_TABLE,
        "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in FIELDS.items()],
    }
    table: dict[str, Any] = {
        "tableName": PINOT_TABLE,
        "tableType": "OFFLINE",
        "segmentsConfig": {"schemaName": PINOT_TABLE, "replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"loadMode": "MMAP", "nullHandlingEnabled": True},
        "metadata": {},
    }
    http.post(f"{controller}/schemas", json=schema).raise_for_status()
    http.post(f"{controller}/tables", json=table).raise_for_status()
    params = {"tableNameWithType": f"{PINOT_TABLE}_OFFLINE", "batchConfigMapStr": '{"inputFormat": "csv"}'}
    for file in files:
        content = {"file": (file.name, file.read_bytes())}
        http.post(f"{controller}/ingestFromFile", params=params, files=content).raise_for_status()


def _wait(http: httpx2.Client, broker: str, rows: int) -> None:
    """Return when the broker sees all rows."""
    deadline, seen = time.monotonic() + LOADED_S, -1
    while time.monotonic() < deadline:
        reply = http.post(f"{broker}/query/sql", json={"sql": COUNTED}).json()
        if reply.get("resultTable") and not reply["exceptions"]:
            seen = reply["resultTable"]["rows"][0][0]
        if seen == rows:
            return
        if seen > rows:
            break
        time.sleep(0.1)
    raise Failed(f"the table {PINOT_TABLE} has {seen:,} rows and not {rows:,}; delete it there, and run the demo again")
