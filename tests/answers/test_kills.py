"""Killed at any moment, restarted on other rows: what left was paid for, is paid once, and never changes."""

from __future__ import annotations

import itertools
import json
import math
import mmap
import os
import random
import shutil
import signal
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sfumato import answer as answers
from sfumato.accounting import NOTHING, Charge
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import LedgerSetBack
from sfumato.ledger import payments
from sfumato.ledger.fence import Fence
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.postgres import PostgresStore
from sfumato.ledger.sqlite import SQLiteStore
from sfumato.ledger.tables import sha256
from sfumato.ledger.types import read_charge
from sfumato.session import Session
from tests.helpers.children import alone
from tests.helpers.repeats import EXHAUSTIVE, repeats
from tests.helpers.worlds import World, lasting, new_world

pytestmark = pytest.mark.slow

# A moment that takes a share f of the path is missed by (1 - f)^KILLS of all runs; the places where something changes
# that outlives the process are not left to chance, but are all met by the other test.
KILLS = repeats(30, 200)
LATEST_HIT = 160  # of the points below; an answer that is not stored has sixteen
ANALYSTS = ("anna", "ben", "olga")
PHASES = ("opening", "reserve", "engine", "mechanism", "settle", "fence", "between")

Points = dict[str, tuple[Any, str]]


def points() -> Points:
    """Where a process can die: calls on the path of an answer, by the phase they belong to."""
    return {
        "reserve": (payments, "reserve"),
        "engine": (DuckDBEngine, "run"),
        "mechanism": (answers, "_compute"),
        "settle": (payments, "settle"),
        "fence": (Fence, "advance"),
        "append": (FileFence, "_append"),
        "finish": (Session, "finish"),
        "ask": (Session, "ask"),
    }


def instrument(hit: Callable[[str, str], None]) -> None:
    """Call `hit` before and after each of the points, and around every commit. For a child: nothing is put back."""
    for name, (owner, attribute) in points().items():
        setattr(owner, attribute, _around(name, getattr(owner, attribute), hit))
    for store in (SQLiteStore, PostgresStore):
        store.writing = _commit(store.writing, hit)


def _around(name: str, real: Callable[..., Any], hit: Callable[[str, str], None]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        hit(name, "before")
        found = real(*arguments, **named)
        hit(name, "after")
        return found

    return wrapped


def _commit(real: Callable[..., Any], hit: Callable[[str, str], None]) -> Callable[..., Any]:
    @contextmanager
    def writing(store: Any, *work: Any) -> Iterator[Any]:
        with real(store, *work) as run:
            yield run
            hit("commit", "before")
        hit("commit", "after")

    return writing


def question(number: int) -> dict[str, Any]:
    """Lists of 1 to 10 rows over forty atoms, with counts or without, and as many histograms and totals."""
    where = {"n": {"ne": number % 40}}
    if number % 3 == 0:
        return {"type": "histogram", "table": "engagements", "by": "region", "measure": "members", "where": where}
    if number % 3 == 1:
        return {"type": "total", "table": "engagements", "measure": "visits", "where": where}
    k, counts = 1 + number // 40 % 10, number % 4 > 0
    asked = {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "where": where}
    return {**asked, "k": k, "counts": counts}


def ask_all(world: World, numbers: Iterator[int], told: Path) -> None:
    """A child's life: open, ask, and let every answer go with one write."""
    out = os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    with world.open() as session:
        for number in numbers:
            analyst = ANALYSTS[number % 7 % 3]
            answer = session.ask(question(number), analyst=analyst)
            atom = session._planner.plan(question(number), analyst, session.now()).plan.atom
            line = [number, analyst, atom, lasting(answer)]
            os.write(out, json.dumps(line).encode() + b"\n")


def live(world: World, numbers: Iterator[int], told: Path, hit: Callable[[str, str], None]) -> int:
    """Fork a child that lives until it has asked everything, or is killed."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        instrument(hit)
        ask_all(world, numbers, told)
        status = 0
    finally:
        os._exit(status)


def other_rows(world: World, turn: int) -> None:
    """Every restart meets another state of the data."""
    beside = world.folder / "rows.next"
    shutil.copyfile(world.folder / f"rows.{turn % 3}", beside)
    beside.replace(world.database)


Told = tuple[int, str, str, str]
"""What left: the question's number, who asked, the atom and the bytes."""


def seen(told: Path) -> list[Told]:
    """What was written down whole: a kill can tear a line where a page of the file ends."""
    lines = told.read_bytes().splitlines() if told.exists() else []
    return [tuple(json.loads(line)) for line in lines if line.startswith(b"[") and line.endswith(b"]")]


def shown(text: str) -> set[str]:
    """The steps behind an answer that left, by kind and place."""
    answer = json.loads(text)
    if answer["receipt"]["mechanism"] != "unknown_gumbel":
        return {"histogram"}
    kinds = ("pick", "count") if answer["receipt"]["error95"] else ("pick",)
    rows = {f"{kind} {place}" for kind in kinds for place in range(1, len(answer["rows"]) + 1)}
    return rows | {"call", "cutoff"} | ({f"stop {len(answer['rows']) + 1}"} if answer["stopped"] else set())


def uncharged(world: World, told: list[Told], up_to: float = math.inf) -> list[str]:
    """What left although the first rows of the journal do not charge for all of its steps."""
    paid: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in world.tables()["journal"]:
        if row[2] == "settle" and row[0] <= up_to:
            note = json.loads(row[10])
            paid[row[3], note["atom"]].update(" ".join(step.split()[:2]) for step in note["steps"])
    return [
        f"{number} left without a charge"
        for number, analyst, atom, text in told
        if not shown(text) <= paid[f"analyst:{analyst}", atom]
    ]


def unseen_by_the_fence(world: World, told: Path, since: int) -> list[str]:
    """What left although the fence had not seen its charge."""
    return uncharged(world, seen(told)[since:], FileFence(world.fence).mark().sequence)


def random_kills(folder: str, ledger: str, kills: int, seed: int) -> dict[str, Any]:
    """Runs alone: children that ask at random, each killed a moment after a random point of the path.

    How often each phase was hit.
    """
    world, told = World(Path(folder), ledger), Path(folder) / "told"
    chance, phase, hits = random.Random(seed), mmap.mmap(-1, 2), mmap.mmap(-1, 4)
    phases: Counter[str] = Counter()
    early: list[str] = []

    def hit(name: str, when: str) -> None:
        hits[:] = (int.from_bytes(hits[:], "little") + 1).to_bytes(4, "little")
        # Commits belong to the phase around them; the one inside `reserve` and `settle` is what a kill tears apart.
        if name in PHASES:
            phase[0] = PHASES.index(name) if when == "before" else PHASES.index("between")
        elif name == "ask" and when == "before":
            phase[0] = PHASES.index("between")

    for turn in range(kills):
        other_rows(world, turn)
        phase[0], hits[:] = 0, bytes(4)
        since = len(seen(told))
        numbers = random.Random(chance.random())
        child = live(world, (numbers.randrange(1200) for _ in itertools.count()), told, hit)
        # How far it comes is counted, not timed: a busy machine kills at the same places. The sleep only moves the
        # kill off the point, to anywhere before the next ones.
        latest = chance.randrange(LATEST_HIT) if turn % 5 else 0
        while int.from_bytes(hits[:], "little") < latest:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "a child ended by itself"
            time.sleep(0.0002)
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "a child ended by itself"
        phases[PHASES[phase[0]]] += 1
        if world.fence.exists() and len(seen(told)) > since:
            early += unseen_by_the_fence(world, told, since)
    return {"phases": phases, "early": early, "left": len(seen(told))}


def planned_kills(folder: str, ledger: str) -> dict[str, Any]:
    """Runs alone: one child for each place, killed there; then another, killed while it recovers."""
    world, told = World(Path(folder), ledger), Path(folder) / "told"
    numbers = [125, 245, 5, 3]  # a list, a longer one, somebody else's of the same atom, a histogram
    reached: Counter[str] = Counter()
    problems: list[str] = []
    hits = run_until(world, numbers, told, None)
    for turn, place in enumerate(places(hits)):
        fresh(world, told)
        again = [] if turn % 3 else [7 * place % len(hits)]
        for life, stop in enumerate([place, *again, None]):
            other_rows(world, life)
            since = len(seen(told))
            met = run_until(world, numbers, told, stop)
            where = "never" if stop is None or len(met) <= stop else met[stop]
            reached[where] += 1
            if len(seen(told)) > since:
                problems += [f"{where}: {problem}" for problem in unseen_by_the_fence(world, told, since)]
        problems += [f"after {place}: {problem}" for problem in wrong(world, told)]
    return {"reached": reached, "problems": problems}


def places(hits: list[str]) -> list[int]:
    """Which of them to die at: all, or each kind once, and every one after a change of what outlives the process.

    Whatever a process does between two commits or appends goes with it, so that all places there leave the same.
    """
    changes = ("after commit", "after append")
    return [at for at, hit in enumerate(hits) if EXHAUSTIVE or hit in changes or hit not in hits[:at]]


def run_until(world: World, numbers: list[int], told: Path, stop: int | None) -> list[str]:
    """What a child hits until it kills itself at the hit number `stop`."""
    count, names = itertools.count(), mmap.mmap(-1, 1 << 16)

    def hit(point: str, when: str) -> None:
        names.write(f"{when} {point}\n".encode())
        if next(count) == stop:
            os.kill(os.getpid(), signal.SIGKILL)

    child = live(world, iter(numbers), told, hit)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, f"a child failed with {status}"
    return names[:].rstrip(b"\0").decode().splitlines()


def fresh(world: World, told: Path) -> None:
    """An empty ledger and no fence."""
    told.unlink(missing_ok=True)
    world.fence.unlink(missing_ok=True)
    if world.ledger.startswith("sqlite:"):
        for file in world.folder.glob("ledger.db*"):
            file.unlink()
    else:
        import psycopg

        with psycopg.connect(world.ledger) as connection:
            connection.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")


def wrong(world: World, told: Path) -> list[str]:
    """Everything that is wrong with a ledger after its last clean start, and with what had left before."""
    tables = world.tables()
    problems = [] if not tables["holds"] else ["something stays reserved"]
    rows = [
        (row[2], row[3], row[6], read_charge(row[7]), read_charge(row[8]), row[10])
        for row in sorted(tables["journal"])
        if row[2] != "policy"
    ]
    by_kind = {kind: [row for row in rows if row[0] == kind] for kind in ("reserve", "settle")}
    if len(rows) != sum(map(len, by_kind.values())):
        problems.append("there are rows that are neither a reserve nor a settle")
    keys = {kind: sorted((account, digest) for _, account, digest, *_ in found) for kind, found in by_kind.items()}
    if keys["reserve"] != keys["settle"] or len(set(keys["settle"])) != len(keys["settle"]):
        problems.append("a request was reserved or settled twice, or not at all")
    problems += uncharged(world, seen(told))
    problems += unstored(tables, by_kind["settle"], seen(told))
    problems += wrong_sums(tables, rows)
    return problems


def unstored(tables: dict[str, Any], settles: list[Any], told: list[Told]) -> Iterator[str]:
    """What left and is not what is stored, or what the journal says that left."""
    stored = {(account, digest): body for account, digest, body, *_ in tables["answers"]}
    signed = {(account, digest): json.loads(note)["answer"] for _, account, digest, _, _, note in settles}
    for number, analyst, _, text in told:
        key = f"analyst:{analyst}", json.loads(text)["receipt"]["digest"]
        body = stored.get(key, "null")
        if json.loads(body) != json.loads(text):
            yield f"{number} left as something else than what is stored"
        elif signed.get(key, sha256(body)) != sha256(body):
            yield f"{number} left as something else than what was charged for"


def wrong_sums(tables: dict[str, Any], rows: list[Any]) -> Iterator[str]:
    """Spending is the sum of the rows, and the number of distinct steps that each account has seen."""
    for account, _, _, reserved, spent, _ in tables["balances"]:
        mine = [row for row in rows if row[1] == account]
        steps = [
            (note["atom"], step)
            for note in (json.loads(row[5]) for row in mine if row[5])
            for step in note.get("steps", ())
        ]
        price = sum((Charge(0, 1) if step == "call" else Charge(1) for _, step in set(steps)), NOTHING)
        if len(set(steps)) != len(steps):
            yield f"{account} paid twice for a step"
        if not read_charge(spent) == price == sum((row[4] for row in mine), NOTHING):
            yield f"{account} has spent {spent}, and its steps cost {price}"
        if read_charge(reserved) or sum((row[3] for row in mine), NOTHING):
            yield f"{account} still has {reserved} reserved"


def prepared(folder: Path, ledger: str) -> World:
    world = new_world(folder, ledger, information=100_000, calls=10_000, shared=(100_000, 10_000))
    for turn in range(3):
        world.write_rows(seed=turn + 1, people=900 + 300 * turn)
        shutil.copyfile(world.database, world.folder / f"rows.{turn}")
    return world


def repeats(world: World) -> list[str]:
    """Ask again for everything that had left: what is not free, or not the same bytes."""
    problems = []
    with world.open() as session:
        problems += session._ledger.verify()
        before = {name: session.budget(name).accounts[0].spent for name in ANALYSTS}
        for number, analyst, _, text in dict.fromkeys(seen(world.folder / "told")):
            again = session.ask(question(number), analyst=analyst)
            if (lasting(again), again.receipt.charge, again.receipt.repeat) != (text, NOTHING, True):
                problems.append(f"{number} is not what it was, or not free")
        if before != {name: session.budget(name).accounts[0].spent for name in ANALYSTS}:
            problems.append("repeating cost something")
    return problems


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.exhaustive)])
def ledger_url(request: pytest.FixtureRequest) -> str:
    return "sqlite:ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_kills_at_random_moments(tmp_path, ledger_url):
    world = prepared(tmp_path / "world", ledger_url)
    found = alone(random_kills, str(world.folder), ledger_url, KILLS, 20261115)
    held = len(world.tables()["holds"])
    assert found["early"] == []
    assert found["left"] > KILLS, found
    with world.open() as session:  # finishes what was reserved
        assert session._ledger.verify() == []
    assert wrong(world, world.folder / "told") == []
    assert repeats(world) == []
    assert sum(found["phases"].values()) == KILLS
    # Where the kills fell is chance; that they fell into the opening and into the path itself is not.
    assert found["phases"]["opening"] > 0
    assert sum(count for name, count in found["phases"].items() if name != "opening") > KILLS // 4, (found, held)


def test_a_kill_before_and_after_every_step_of_the_path(tmp_path, ledger_url):
    world = prepared(tmp_path / "world", ledger_url)
    found = alone(planned_kills, str(world.folder), ledger_url)
    assert found["problems"] == []
    expected = {f"{when} {name}" for name in [*points(), "commit"] for when in ("before", "after")}
    assert expected <= found["reached"].keys()
    assert repeats(world) == []


def test_the_checks_find_an_answer_that_left_without_a_charge(tmp_path):
    """The checks above can fail: more rows than were paid for, other rows than are stored, a charge taken back."""
    world = prepared(tmp_path / "world", "sqlite:ledger.db")
    told = world.folder / "told"
    ask_all(world, iter([5, 3, 125]), told)
    assert wrong(world, told) == unseen_by_the_fence(world, told, 0) == repeats(world) == []
    number, _, atom, text = seen(told)[0]
    with told.open("a") as out:
        out.write(json.dumps([number, "ben", atom, text]) + "\n")
    assert wrong(world, told) == ["5 left without a charge", "5 left as something else than what is stored"]
    assert unseen_by_the_fence(world, told, 0) == ["5 left without a charge"]
    with closing(sqlite3.connect(world.folder / "ledger.db")) as connection, connection:
        connection.execute("UPDATE answers SET body = replace(body, 'members', 'people')")
    assert "5 left as something else than what is stored" in wrong(world, told)
    assert len(repeats(world)) > 2
    with closing(sqlite3.connect(world.folder / "ledger.db")) as connection, connection:
        connection.execute("UPDATE balances SET spent = '0 0' WHERE account = 'analyst:olga'")
    assert any("analyst:olga has spent" in problem for problem in wrong(world, told))
    with pytest.raises(LedgerSetBack, match="analyst:olga"):
        repeats(world)
