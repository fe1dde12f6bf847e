"""Load that spends, through accidents: `python -m benchmarks soak --minutes 30 --store postgresql --workers 2`.

Analysts of two organisations ask new questions, repeats, reports, estimates and budgets of one `sfumato serve`.
Meanwhile workers are killed and frozen, the service is restarted, and each PostgreSQL server crashes once.
Every half a minute a line says what was answered and what the processes hold.

It ends with 1 if there is a problem: a reply that the interface does not promise, a lost connection while all is well,
an answer that changes, memory or open files that grow within the life of a process, or books that do not add up.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.soak.accidents import Accidents, Calm, Service, schedule
from benchmarks.soak.clients import Seen, ask_until
from benchmarks.soak.shop import ANALYSTS, find_differences, open_shop
from tests.helpers import postgres
from tests.helpers.servers import new_key
from tests.helpers.worlds import World

LINE_S, LOOK_S = 30, 5
WARM_UP_S = 60  # of a process: imports, connections, caches
MIN_LOOKS = 8  # after the warm-up, or the life of a process was too short to compare
GROWTH = 1.25  # of memory and open files, from the first quarter of a life to the last


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float, default=20, help="calls per second, of all clients together")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-soak-")))
        homes = [_start_postgres(stack, folder / name) for name in ("ledger", "fence")] * (options.store != "sqlite")
        urls = [postgres.url(home, "postgres") for home in homes]
        shop = open_shop(folder / "shop", *urls)
        service = Service(shop, options.workers)
        stack.callback(service.kill)
        calm = Calm()
        accidents = Accidents(service, homes, urls, calm, options.seed)
        seen, lives = _run(shop, service, accidents, calm, options)
        service.stop()
        problems = seen.errors + service.unexpected() + _grown(lives) + find_differences(shop, seen)
    for problem in problems:
        print(f"problem: {problem}")
    print(f"{seen}; {accidents}; {_compared(lives)}; {len(problems)} problems")
    return 1 if problems else 0


def _start_postgres(stack: ExitStack, run: Path) -> Path:
    """The folder of a new PostgreSQL server."""
    binaries = next(postgres.installations(), None)
    if binaries is None:
        raise SystemExit(postgres.MISSING)
    run.mkdir()
    stack.enter_context(postgres.running(run))
    return postgres.server(run, binaries)


def _run(
    shop: World, service: Service, accidents: Accidents, calm: Calm, options: argparse.Namespace
) -> tuple[Seen, dict[int, list[tuple[int, int]]]]:
    """Load and accidents until the time is over. What the clients saw, and what each process held at each look."""
    seen, stopped, end = Seen(calm), threading.Event(), time.monotonic() + options.minutes * 60
    names = list(itertools.islice(itertools.cycle(ANALYSTS), options.clients))
    planned = schedule(options.seed, options.minutes * 60, has_databases=options.store != "sqlite")
    lives: dict[int, list[tuple[int, int]]] = {}
    with ThreadPoolExecutor(options.clients + 1) as pool:
        running = [pool.submit(accidents.happen, planned, stopped)]
        for seed, name in enumerate(names, start=options.seed * 1000):
            client = service.url, new_key(shop, name), name, seen, seed, options.clients / options.rate
            running.append(pool.submit(ask_until, stopped, *client))
        try:
            for look in itertools.count(1):
                time.sleep(LOOK_S)
                held = service.held()
                for process, amounts in held.items():
                    lives.setdefault(process, []).append(amounts)
                has_failed = bool(seen.errors) or any(each.done() for each in running[1:])
                is_over = has_failed or (time.monotonic() >= end and running[0].done())  # after all accidents
                if is_over or look % (LINE_S // LOOK_S) == 0:
                    print(f"{seen}; {', '.join('{} MB {} files'.format(*each) for each in held.values())}", flush=True)
                if is_over:
                    break
        finally:
            stopped.set()
    for each in running:
        each.result()
    return seen, lives


def _quarters(life: list[tuple[int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The most that a process held in the first and in the last quarter of its life after the warm-up."""
    warm = life[WARM_UP_S // LOOK_S :]
    if len(warm) < MIN_LOOKS:
        return None
    quarter = len(warm) // 4
    first, last = (tuple(map(max, zip(*part, strict=True))) for part in (warm[:quarter], warm[-quarter:]))
    return first, last


def _grown(lives: dict[int, list[tuple[int, int]]]) -> list[str]:
    found = []
    for process, life in lives.items():
        quarters = _quarters(life)
        for name, before, after in zip(("memory", "open files"), *(quarters or ((), ())), strict=False):
            if after > GROWTH * before:
                found.append(f"{name} of process {process} grew from {before} to {after}")
    return found


def _compared(lives: dict[int, list[tuple[int, int]]]) -> str:
    quarters = [found for life in lives.values() if (found := _quarters(life)) is not None]
    most = max((after[0] / before[0] for before, after in quarters), default=1)
    return f"{len(lives)} processes, {len(quarters)} of them long enough to compare, memory at most {most:.2f} times"
