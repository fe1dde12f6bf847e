"""What happens to the service during a soak: workers die and freeze, the service restarts, databases crash."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.helpers import postgres
from tests.helpers.servers import Server, start, wait_until
from tests.helpers.worlds import World

FREEZE_S = 15  # longer than every bounded wait, and than the server lets a transaction stand still
RECOVERY_S = 20  # after an accident: until then, failures belong to it
BETWEEN_S = 100  # accidents, on average
TRIES = 300  # to freeze a worker inside a transaction

# A transaction that holds the ledger's lock and has done nothing for a while: its process was stopped in it.
_STANDS_STILL = """
SELECT 1 FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE datname = current_database() AND locktype = 'advisory' AND objsubid = 1 AND granted
AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '40 ms'
"""


class Calm:
    """Whether an accident is a reason for failures at this moment."""

    def __init__(self) -> None:
        self._busy, self._since = 0, -float("inf")

    def is_quiet(self) -> bool:
        return not self._busy and time.monotonic() > self._since + RECOVERY_S

    @contextmanager
    def disturbed(self) -> Iterator[None]:
        self._busy += 1
        try:
            yield
        finally:
            self._since = time.monotonic()
            self._busy -= 1


class Service:
    """`sfumato serve` at one address, whatever happens to it."""

    def __init__(self, shop: World, workers: int) -> None:
        self._shop, self._arguments = shop, ("--workers", str(workers), "--log-level", "warning")
        self._server = start(shop, *self._arguments)
        self._servers: list[Server] = [self._server]
        self.url = self._server.url

    def workers(self) -> list[int]:
        """The processes that answer."""
        with suppress(OSError):  # one of them has just died
            return self._server.workers() or [self._server.process.pid]
        return []

    @property
    def supervisor(self) -> int | None:
        """The process that replaces dead workers; None where there is one process for all."""
        return self._server.process.pid if self._server.process.pid not in self.workers() else None

    def held(self) -> dict[int, tuple[int, int]]:
        """Megabytes and open files of each worker."""
        found = {}
        for worker in self.workers():
            with suppress(OSError):
                pages = int(Path(f"/proc/{worker}/statm").read_text().split()[1])
                files = len(list(Path(f"/proc/{worker}/fd").iterdir()))
                found[worker] = pages * os.sysconf("SC_PAGE_SIZE") >> 20, files
        return found

    def restart(self) -> None:
        self.stop()
        self._begin()

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        self._server.kill()

    def kill_worker(self, worker: int) -> None:
        """Kill a worker; the supervisor starts another. Without a supervisor, the service is started again."""
        is_supervised = self.supervisor is not None
        os.kill(worker, signal.SIGKILL)
        if is_supervised:
            wait_until(lambda: worker not in self.workers())
        else:
            self._server.process.wait()
            self._begin()

    def _begin(self) -> None:
        self._server = start(self._shop, *self._arguments, port=self._server.port)
        self._servers.append(self._server)

    def unexpected(self) -> list[str]:
        """What the logs say of errors that the code does not expect. A worker may start while the ledger is away."""
        lines = [line for server in self._servers for line in server.lines() if line["level"] == "error"]
        return [f"in the log: {line}" for line in lines if line["event"] != "worker did not start"]


def schedule(seed: int, seconds: float, *, has_databases: bool) -> list[tuple[float, str]]:
    """The accidents of a run and their moments, in seconds from its start."""
    dice = random.Random(seed)
    kinds = ["kill", "freeze", "restart", *(["crash_ledger", "crash_fence"] if has_databases else [])]
    more = max(0, round(seconds / BETWEEN_S) - len(kinds))
    kinds += dice.choices(["kill", "freeze", "restart"], weights=(3, 2, 1), k=more)
    dice.shuffle(kinds)
    step = seconds / (len(kinds) + 1)
    return [(step * (place + dice.uniform(0.3, 0.9)), kind) for place, kind in enumerate(kinds)]


class Accidents:
    """Makes them happen, one after the other, and counts them."""

    def __init__(self, service: Service, homes: list[Path], urls: list[str], calm: Calm, seed: int) -> None:
        """`homes` and `urls` are those of the databases of the ledger and of its fence; empty without databases."""
        self._service, self._homes, self._urls, self._calm = service, homes, urls, calm
        self._dice = random.Random(seed)
        self._counts: Counter[str] = Counter()

    def happen(self, planned: list[tuple[float, str]], stopped: threading.Event) -> None:
        began = time.monotonic()
        for at, kind in planned:
            if stopped.wait(max(0.0, began + at - time.monotonic())):
                return
            print(f"  {kind.replace('_', ' ')}", flush=True)
            with self._calm.disturbed():
                getattr(self, kind)()
            self._counts[kind] += 1

    def kill(self) -> None:
        self._service.kill_worker(self._dice.choice(self._service.workers()))

    def restart(self) -> None:
        self._service.restart()

    def freeze(self) -> None:
        """Stop a worker for a while, inside a transaction if one is caught in it. Then it goes on.

        Its supervisor is stopped too: it would kill a worker that does not reply.
        """
        worker, supervisor = self._dice.choice(self._service.workers()), self._service.supervisor
        if supervisor is not None:
            os.kill(supervisor, signal.SIGSTOP)
        try:
            self._counts["frozen inside a transaction"] += self._stop(worker)
            time.sleep(FREEZE_S)
        finally:
            os.kill(worker, signal.SIGCONT)
            if supervisor is not None:
                time.sleep(1)
                os.kill(supervisor, signal.SIGCONT)

    def _stop(self, worker: int) -> bool:
        """Stop a process. True if others now wait for its transaction."""
        if not self._urls:
            os.kill(worker, signal.SIGSTOP)
            return False
        import psycopg

        with psycopg.connect(self._urls[0], autocommit=True) as connection:
            for _ in range(TRIES):
                os.kill(worker, signal.SIGSTOP)
                time.sleep(0.05)
                if connection.execute(_STANDS_STILL).fetchall():
                    return True
                os.kill(worker, signal.SIGCONT)
                time.sleep(self._dice.uniform(0, 0.03))
        os.kill(worker, signal.SIGSTOP)
        return False

    def crash_ledger(self) -> None:
        postgres.crash(self._homes[0])

    def crash_fence(self) -> None:
        postgres.crash(self._homes[1])

    def __str__(self) -> str:
        words_of = {
            "kill": "kills",
            "freeze": "freezes",
            "frozen inside a transaction": "of them inside a transaction",
            "restart": "restarts",
            "crash_ledger": "crash of the ledger's PostgreSQL",
            "crash_fence": "crash of the fence's PostgreSQL",
        }
        return ", ".join(f"{self._counts[kind]} {words}" for kind, words in words_of.items() if self._counts[kind])
