"""`sfumato serve` as a process of its own: started, watched, stopped, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from sfumato.config import load_config
from sfumato.ledger import open_ledger
from sfumato.ledger.api_keys import ApiKeys
from tests.helpers.worlds import World

PATIENCE_S = 120  # before a test gives up; no test takes longer because of it, however busy the machine

# A question with this literal in its filter keeps the engine busy: for a while, until it is interrupted, or until it is
# closed; the last without work for the machine.
SLOW, ENDLESS, IDLE, SLOW_S = 777_001, 777_002, 777_003, 1.5
SLEEPY = f"""
import time
from sfumato.engines.duckdb import DuckDBEngine
real = DuckDBEngine._run
def _run(self, text):
    if "{SLOW}" in text:
        time.sleep({SLOW_S})
    if "{ENDLESS}" in text:
        return real(self, "SELECT sum(a.range ^ b.range) FROM range(10000000) AS a, range(10000000) AS b")
    if "{IDLE}" in text:
        with self._cursor():
            while not self._closed:
                time.sleep(0.05)
    return real(self, text)
DuckDBEngine._run = _run
"""


@dataclass
class Server:
    """A running service, or one that was."""

    process: subprocess.Popen[bytes]
    url: str
    out: Path
    err: Path

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    def said(self) -> str:
        return self.out.read_text() + self.err.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """The log, line by line: each is an object, or the test fails."""
        whole, _, _ = self.err.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def workers(self) -> list[int]:
        """The processes of the workers, without the one in which `multiprocessing` keeps its things."""
        here = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = [int(pid) for pid in here.read_text().split()]
        return [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self, patience_s: float = PATIENCE_S) -> int:
        """Its exit code after a SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience_s)

    def kill(self) -> None:
        """End it and all of its workers, whatever they do. The group is its own."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


def start(
    world: World,
    *arguments: str,
    first: str = "",
    env: Mapping[str, str] | None = None,
    port: int = 0,
    ready: bool = True,
) -> Server:
    """Serve a world; `first` is code that runs before, in the one process there is."""
    number = len(list(world.folder.glob("serve-*.out")))
    out, err = world.folder / f"serve-{number}.out", world.folder / f"serve-{number}.err"
    code = f"{first}\nfrom sfumato.cli import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        "--config",
        str(world.path),
        "--port",
        str(port),
        "--json",
        *arguments,
    ]
    settings = {
        "SFUMATO_SERVICE__RATE_PER_MINUTE": "0",
        "SFUMATO_SERVICE__PAD_MS": "0",
        "TMPDIR": str(_temporary(world)),
    }
    with out.open("wb") as told, err.open("wb") as logged:
        process = subprocess.Popen(
            command, stdout=told, stderr=logged, env={**os.environ, **settings, **(env or {})}, start_new_session=True
        )
    server = Server(process, "", out, err)
    try:
        server.url = json.loads(_first_line(server))["url"]
        if ready:
            wait_until_ready(server)
    except BaseException:
        server.kill()
        raise
    return server


def _temporary(world: World) -> Path:
    folder = world.folder / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


def _first_line(server: Server) -> str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        line, newline, _ = server.out.read_text().partition("\n")
        if newline:
            return line
        if server.process.poll() is not None:
            break
        time.sleep(0.01)
    raise RuntimeError(f"the service did not start:\n{server.said()}")


def wait_until_ready(server: Server) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            if httpx2.get(f"{server.url}/readyz", timeout=5).status_code == 200:
                return
        except httpx2.RequestError:
            pass
        if server.process.poll() is not None:
            break
        time.sleep(0.02)
    raise RuntimeError(f"the service did not become ready:\n{server.said()}")


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"it did not come within {PATIENCE_S} s")
        time.sleep(0.01)


def new_key(world: World, analyst: str = "anna", role: str = "analyst") -> str:
    """An API key, made past the command line, which takes a second."""
    config = load_config(world.path)
    ledger = open_ledger(config.ledger, config.folder)
    try:
        return ApiKeys(ledger).create(analyst, role, None, datetime.now(UTC))[0]
    finally:
        ledger.close()


def run(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command of `sfumato` on this world."""
    code = "from sfumato.cli import main; main()"
    command = [sys.executable, "-c", code, *arguments, "--config", str(world.path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def one_unit(number: int) -> dict[str, Any]:
    """A question of one unit, whatever the data; every number is another one."""
    where = {"n": {"ne": number}}
    return {"type": "histogram", "table": "engagements", "by": "region", "measure": "members", "where": where}
