"""Half an hour of load that spends: `python -m benchmarks soak --minutes 30`.

Clients ask new questions, repeats, estimates and budgets of one `sfumato serve`. Every half a minute a line says what
was answered and what the process holds. It ends with 1 on the first error, if memory or open files keep growing, or if
the books do not add up: what the receipts charged is what the account has spent, and `verify` finds nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from benchmarks.answers import NUMBERS, QUESTION
from benchmarks.service import SERVE, configured, new_key_for, process
from sfumato.accounting import NOTHING, Charge
from sfumato.cli.output import now
from sfumato.client import Client
from sfumato.config import load_config
from sfumato.errors import SfumatoError
from sfumato.ledger import accounts_of, open_ledger

Reserved: TypeAlias = tuple[int, int]

GROWTH = 1.25  # of memory, from the first quarter of the time to the last
EVERY_S = 30


@dataclass
class Load:
    """What all clients have done so far."""

    answers: int = 0
    repeats: int = 0
    charged: Charge = NOTHING
    errors: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=6)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        config, _ = configured(Path(place))
        key = new_key_for(config)
        with process([*SERVE, "--config", str(config)]) as (url, number):
            load, held = _loaded(url, key, options.clients, options.minutes * 60, lambda: _held(number))
        problems = load.errors + _grown(held) + _unbalanced(config, load)
    for problem in problems:
        print(f"problem: {problem}")
    print(f"{load.answers:,} answers, {load.repeats:,} repeats, {len(problems)} problems")
    return 1 if problems else 0


def _loaded(
    url: str, key: str, clients: int, seconds: float, look: Callable[[], Reserved]
) -> tuple[Load, list[Reserved]]:
    load, stopped = Load(), threading.Event()
    threads = [threading.Thread(target=_ask, args=(url, key, load, stopped, seed)) for seed in range(clients)]
    for thread in threads:
        thread.start()
    held, end = [], time.monotonic() + seconds
    while time.monotonic() < end and not load.errors:
        time.sleep(min(EVERY_S, max(end - time.monotonic(), 0)))
        held.append(look())
        print(f"{load.answers:,} answers, {load.repeats:,} repeats, {held[-1][0]} MB, {held[-1][1]} files", flush=True)
    stopped.set()
    for thread in threads:
        thread.join()
    return load, held


def _ask(url: str, key: str, load: Load, stopped: threading.Event, seed: int) -> None:
    chance = random.Random(seed)
    with Client(url, key) as client:
        for turn in itertools.count():
            if stopped.is_set():
                return
            number = next(NUMBERS) if turn % 3 == 0 else -chance.randint(1, 50)
            try:
                answer = client.ask(QUESTION.format("engagements", number))
                if turn % 10 == 0:
                    client.estimate(QUESTION.format("engagements", number))
                    client.budget()
                    client.charges(rows=10)
            except SfumatoError as error:
                with load.lock:
                    load.errors.append(f"{type(error).__name__}: {error}")
                return
            with load.lock:
                load.answers += 1
                load.repeats += answer.receipt.repeat
                load.charged += answer.receipt.charge


def _held(number: int) -> Reserved:
    """Megabytes and open files of a process."""
    pages = int(Path(f"/proc/{number}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20, len(list(Path(f"/proc/{number}/fd").iterdir()))


def _grown(held: list[Reserved]) -> list[str]:
    quarter = max(len(held) // 4, 1)
    names = "memory", "open files"
    before, after = (tuple(map(max, zip(*part, strict=True))) for part in (held[:quarter], held[-quarter:]))
    return [
        f"{name} grew from {first} to {last}"
        for name, first, last in zip(names, before, after, strict=True)
        if last > GROWTH * first
    ]


def _unbalanced(config: Path, load: Load) -> list[str]:
    read = load_config(config)
    with open_ledger(read.ledger, read.folder) as ledger:
        problems = ledger.verify()
        [standing, *_] = ledger.standings(accounts_of(read, "anna"), now())
    agreed = standing.spent == load.charged and not standing.reserved
    return problems + ([] if agreed else [f"receipts say {load.charged}, the ledger {standing.spent}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
