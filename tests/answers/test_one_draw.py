"""No noise draw is ever seen on two states of the data, whatever happens to rows, keys, processes and disks.

A seeded walk over everything that can happen, with the real plan, mechanisms and ledger; only the engine is made up.
Its rows tell which state of the data they are from, so that an answer shows by itself what it was computed on.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from sfumato import answer as answers
from sfumato.accounting import NOTHING, Charge
from sfumato.config import load_config, noise_key
from sfumato.errors import BudgetExhausted, LedgerFailed
from sfumato.ledger import all_accounts, open_ledger, payments, rules
from sfumato.ledger.rules import step_charges
from sfumato.ledger.tables import Books
from sfumato.mechanisms import Rng
from sfumato.query.abilities import Abilities
from sfumato.query.plan import Plan, plan
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.session import Session
from tests.helpers.repeats import repeats
from tests.helpers.worlds import NOW, REGIONS, World, key_bytes, lasting

ANALYSTS = ("anna", "ben", "olga")
SHIFT = 10_000  # what one state of the data adds to every count: far more than any noise


class Crash(BaseException):
    """The power fails."""


class Violation(AssertionError):
    """A draw of noise was seen on two states of the data."""


class Rows:
    """An engine whose counts are those of a state. Articles are named after it: a list without counts tells it too."""

    state = 1
    abilities = Abilities(every_group=True)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def schema(self, table: str) -> dict[str, str]:
        kinds = {"member_id": "integer", "article": "text", "job_title": "text", "region": "text", "market": "text"}
        return {**kinds, "day": "date", "n": "integer"}

    def run(self, query: Any) -> list[tuple[Any, ...]]:
        names = query.named_selects
        if len(names) == 1:
            return [(SHIFT * Rows.state,)]
        if names[0] == "article":
            return [(f"{Rows.state}-{place:02}", SHIFT * Rows.state + 400 - 20 * place) for place in range(15)]
        return [(region, SHIFT * Rows.state + 50 * place) for place, region in enumerate(REGIONS)]

    def origin(self, *_: Any) -> str:
        return "rows"

    def close(self) -> None:
        pass


def state_of(rows: list[dict[str, Any]]) -> int | None:
    """The state of the data that an answer was computed on."""
    if not rows:
        return None
    if "article" in rows[0]:
        return int(rows[0]["article"].split("-")[0])
    count = next(value for value in rows[0].values() if isinstance(value, int))
    return round(count / SHIFT)


QUESTIONS: list[Request] = [
    *(TopK("engagements", "article", "members", k=k, counts=counts) for k in (1, 3, 6, 20) for counts in (True, False)),
    *(TopK("engagements", "market", "members", k=k) for k in (1, 2, 3)),
    Histogram("engagements", "region", "members"),
    Total("engagements", "members", {"region": "emea"}),
    TopK("engagements", "article", "members", {"region": "emea"}, k=4),
]


class Walk:
    """One walk, and what must hold after each of its steps."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.version = self.key = 1
        self.computed: dict[str, list[tuple[bytes, dict[str, Any]]]] = defaultdict(list)  # atom -> (seed, payload)
        self.seen: dict[bytes, set[int]] = defaultdict(set)
        self.said: dict[str, tuple[str, str]] = {}  # digest -> atom, bytes
        self.accepted: dict[str, set[tuple[int, int, int]]] = defaultdict(set)
        self.kept: dict[str, Charge] = defaultdict(Charge)
        self.recovered = False
        self.counts: dict[str, int] = defaultdict(int)
        self.session: Session | None = None
        Rows.state = 1
        self.configure()
        self.restart()

    # -- what can happen --

    def configure(self) -> None:
        self.world.write_key(self.key)
        self.world.write_config(version=f'{{ value = "v{self.version}" }}', information=200, calls=12)

    def ask(self) -> None:
        number, analyst = self.chance.randrange(len(QUESTIONS)), self.chance.choice(ANALYSTS)
        question = QUESTIONS[number]
        atom = self.session._cheapest(self.session._planner.plan(question, analyst, self.session.now())).plan.atom
        try:
            found = self.session.ask(question, analyst=analyst)
        except BudgetExhausted:
            self.counts["refused"] += 1
            return
        self.accept(analyst, number, atom)
        self.look(atom, found)

    def accept(self, analyst: str, number: int, atom: str) -> None:
        """The analyst pays for a question, unless it was read off a histogram that she has paid for."""
        if self.planned(analyst, number, self.version, self.key).atom == atom:
            self.accepted[analyst].add((number, self.version, self.key))

    def crash(self) -> None:
        """At one of the moments after the reservation; the process is gone, its reservation is not."""
        number, analyst = self.chance.randrange(len(QUESTIONS)), self.chance.choice(ANALYSTS)
        question = QUESTIONS[number]
        moment = self.chance.choice(["reserve", "engine", "settle"])
        patch = pytest.MonkeyPatch()
        owner, name = {"reserve": (Rows, "run"), "engine": (payments, "settle")}.get(
            moment, (self.session._ledger.fence, "advance")
        )
        patch.setattr(owner, name, _raising)
        try:
            atom = self.session._cheapest(self.session._planner.plan(question, analyst, self.session.now())).plan.atom
            found = self.session.ask(question, analyst=analyst)
            self.look(atom, found)  # it was stored: nothing was there to crash
            self.accept(analyst, number, atom)
        except Crash:
            self.counts[f"crash after {moment}"] += 1
            self.accept(analyst, number, atom)
        except BudgetExhausted:
            self.counts["refused"] += 1
        finally:
            patch.undo()
        self.stop()
        others = [self.change_rows, self.new_version, self.change_key, lambda: None]
        self.chance.choice([*others, self.back_up, self.back_up, self.back_up])()
        self.restart()

    def change_rows(self) -> None:
        Rows.state += 1

    def new_version(self) -> None:
        self.version += 1
        self.configure()
        self.restart()

    def change_key(self) -> None:
        self.key = 3 - self.key  # and, the next time, back again
        self.configure()
        self.restart()

    def back_up(self) -> None:
        self.stop()
        shutil.copyfile(self.world.folder / "ledger.db", self.world.folder / "backup.db")
        self.restart()

    def restore(self) -> None:
        if not (self.world.folder / "backup.db").exists():
            return
        self.stop()
        shutil.copyfile(self.world.folder / "backup.db", self.world.folder / "ledger.db")
        try:
            self.restart()
        except LedgerFailed:
            self.recover()
        # What the copy does not hold was forgotten, and may be answered anew: with another nonce.
        stored = self.stored()
        self.said = {digest: (atom, text) for digest, (atom, text) in self.said.items() if atom in stored}
        self.recovered = True
        self.counts["restored"] += 1

    def recover(self) -> None:
        config = load_config(self.world.path)
        with open_ledger(config.ledger, config.folder) as ledger:
            ledger.recover(list(all_accounts(config).values()), NOW)
        self.counts["recovered"] += 1
        self.restart()

    def stop(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None

    def restart(self) -> None:
        """A new process, which finishes what was reserved, or spends it where it means nothing any more."""
        self.stop()
        before = self.holds()
        self.session = self.world.open()
        answered = {(account, digest) for account, digest, *_ in self.rows("answers")}
        for account, digest, parts in before:
            if (account, digest) not in answered:
                self.drop(account.removeprefix("analyst:"), digest)
                mine = [Charge.from_dict(charge) for name, _, charge in parts if name == account]
                self.kept[account.removeprefix("analyst:")] += sum(mine, NOTHING)
                self.counts["kept"] += 1

    def drop(self, analyst: str, digest: str) -> None:
        """A request that was never answered was not accepted, after all."""
        for asked in list(self.accepted[analyst]):
            if self.planned(analyst, *asked).digest == digest:
                self.accepted[analyst].discard(asked)

    # -- what must hold --

    def look(self, atom: str, found: Any) -> None:
        """Somebody sees an answer."""
        self.counts["answers"] += 1
        text = self.said.setdefault(found.receipt.digest, (atom, lasting(found)))[1]
        assert lasting(found) == text, "two answers of one digest differ"
        state = state_of(found.rows)
        if state is None:
            return
        cells = [list(row.values()) for row in found.rows]
        sources = [seed for seed, payload in self.computed[atom] if _shows(payload, cells)]
        assert sources, "an answer was seen that nothing computed"
        if not any(self.seen[seed] <= {state} for seed in sources):
            raise Violation(f"one draw was seen on the states {sorted(self.seen[sources[0]])} and on {state}")
        fitting = next(seed for seed in sources if self.seen[seed] <= {state})
        self.seen[fitting].add(state)

    def check(self) -> None:
        for analyst in ANALYSTS:
            found = self.session.budget(analyst).accounts[0]
            assert found.spent + found.reserved <= found.limit
            owed = self.owed(analyst)
            if self.recovered:
                continue
            assert found.spent == owed, f"{analyst} has spent {found.spent} and owes {owed}"
        assert self.session._ledger.verify() == []

    def owed(self, analyst: str) -> Charge:
        """What was revealed to an analyst, each step once, by the stored rankings; and what was kept."""
        stored, steps = self.stored(), {}
        for asked in self.accepted[analyst]:
            made = self.planned(analyst, *asked)
            if made.atom not in stored:
                continue
            payload = stored[made.atom]
            rows = min(made.k, len(payload["rows"]))
            shown = made.full.steps(rows, stopped=payload["stopped"] and made.k > rows)
            for name, charge in step_charges(shown).items():
                if made.counts or not name.startswith("count "):
                    steps[made.atom, name] = charge
        return sum(steps.values(), self.kept[analyst])

    def planned(self, analyst: str, number: int, version: int, key: int) -> Plan:
        policy = self.session._catalog.policy_at(analyst, "engagements", f"value v{version}", NOW)
        prices = self.session.config.budgets["partner"].prices
        return plan(QUESTIONS[number], policy, prices, noise_key.epoch(key_bytes(key)))

    def stored(self) -> dict[str, dict[str, Any]]:
        return {atom: json.loads(payload) for atom, _, payload in self.rows("atoms") if payload is not None}

    def holds(self) -> list[tuple[str, str, list[Any]]]:
        if not (self.world.folder / "ledger.db").exists():
            return []
        return [(row[0], row[1], json.loads(row[8])) for row in self.rows("holds")]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.world.folder / "ledger.db")) as connection:
            return connection.execute(f"SELECT * FROM {table}").fetchall()

    def go(self, steps: int) -> None:
        moves: dict[Callable[[], None], int] = {
            self.ask: 12,
            self.crash: 4,
            self.change_rows: 4,
            self.new_version: 1,
            self.change_key: 1,
            self.back_up: 1,
            self.restore: 2,
            self.restart: 1,
        }
        for _ in range(steps):
            self.chance.choices(list(moves), list(moves.values()))[0]()
            if self.chance.random() < 0.3:
                self.check()
        self.check()


def _raising(*_: Any, **__: Any) -> None:
    raise Crash


def _shows(payload: dict[str, Any], cells: list[list[Any]]) -> bool:
    """Whether these rows are the head of a payload, with its counts or without."""
    head = [[*key, count] for key, count in payload["rows"]][: len(cells)]
    return cells in (head, [row[:-1] for row in head])


def walked(world: World, seed: int, steps: int, patch: pytest.MonkeyPatch) -> Walk:
    """A walk, in which every draw of noise is noted with the payload that came of it."""
    drawn: list[bytes] = []
    compute = answers._compute

    class Noted(Rng):
        @classmethod
        def keyed(cls, key: bytes, context: bytes) -> Rng:
            drawn.append(key + context)
            return Rng.keyed(key, context)

    def noted(plan: Plan, runtime: Any, nonce: bytes) -> str:
        payload = compute(plan, runtime, nonce)
        walk.computed[plan.atom].append((drawn[-1], json.loads(payload)))
        return payload

    patch.setattr("sfumato.catalog.open_engine", Rows)
    patch.setattr(answers, "Rng", Noted)
    patch.setattr(answers, "_compute", noted)
    walk = Walk(world, seed)
    try:
        walk.go(steps)
    finally:
        walk.stop()
    return walk


@pytest.fixture
def bare_world(tmp_path) -> World:
    world = World(tmp_path / "world")
    world.folder.mkdir()
    (world.folder / "rows.duckdb").touch()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(repeats(2, 100)))
def test_no_draw_is_seen_on_two_states_of_the_data(bare_world, monkeypatch, seed):
    walk = walked(bare_world, seed, 120, monkeypatch)
    assert walk.counts["answers"] > 20
    assert len(walk.seen) > 5


@pytest.mark.slow
def test_the_walks_reach_everything_that_can_happen(tmp_path, monkeypatch):
    """Four more walks, in which no draw is seen twice either."""
    counts: dict[str, int] = defaultdict(int)
    for seed in range(100, 104):
        world = World(tmp_path / str(seed))
        world.folder.mkdir()
        for name, count in walked(world, seed, 120, monkeypatch).counts.items():
            counts[name] += count
        monkeypatch.undo()
    moments = {f"crash after {moment}" for moment in ("reserve", "engine", "settle")}
    assert {"answers", "refused", "kept", "restored", "recovered", *moments} <= counts.keys(), dict(counts)


# The walk finds what is broken


def constant_nonces(patch: pytest.MonkeyPatch) -> None:
    def begin(books: Books, atom: str) -> str:
        books.run("INSERT INTO atoms (atom, nonce) VALUES (?, ?)", atom, "00" * 16)
        return "00" * 16

    patch.setattr(Books, "begin_atom", begin)


def stored_rankings_ignored(patch: pytest.MonkeyPatch) -> None:
    """Not while it is reserved: the ledger itself would notice that what was paid for is gone."""
    atom, reserve, reserving = Books.atom, rules.reserve, []

    def ignored(books: Books, name: str) -> tuple[str, str | None] | None:
        found = atom(books, name)
        return found if reserving or found is None else (found[0], None)

    def reserved(*arguments: Any) -> Any:
        reserving.append(True)
        try:
            return reserve(*arguments)
        finally:
            reserving.pop()

    patch.setattr(Books, "atom", ignored)
    patch.setattr(rules, "reserve", reserved)


def nonces_kept_in_a_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Books, "drop_nonces", lambda books: None)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Neither the head of the journal nor what the accounts have spent is compared with it."""

    def forget(ledger: object, books: Books, mark: object) -> None:
        books.floor = {}

    patch.setattr("sfumato.ledger.ledger.Ledger._check_continues", forget)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [constant_nonces, stored_rankings_ignored, nonces_kept_in_a_recovery, no_fence], ids=lambda f: f.__name__
)
def test_the_walk_finds_a_draw_that_is_seen_twice(tmp_path, monkeypatch, broken):
    # One walk in ten finds the rarest of them, and sixty all but one time in 500. The first that does so today is tried
    # first; which one it is says nothing about the power of the others.
    for seed in range(19, 79):
        world = World(tmp_path / str(seed))
        world.folder.mkdir()
        broken(monkeypatch)
        monkeypatch.setattr(Walk, "check", lambda walk: None)  # only the draws are looked at
        try:
            walked(world, seed, 120, monkeypatch)
        except Violation:
            return
        except AssertionError:
            continue  # something else broke first; another walk
        finally:
            monkeypatch.undo()
    pytest.fail("no walk noticed it")
