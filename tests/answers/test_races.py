"""Many processes on one ledger: the budget is spent once, to the last unit, and one question has one answer."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import BudgetExhausted
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.session import Session
from tests.helpers.children import alone
from tests.helpers.worlds import World, crowd, lasting, new_world, notes, spent, standing

pytestmark = pytest.mark.slow  # processes, not threads

PROCESSES = 8


def meet(path: str, others: int) -> None:
    """Wait until all are here: a session that opens later would finish what the others have begun to ask."""
    (Path(path).parent / f"here-{os.getpid()}").touch()
    for _ in range(60_000):
        if len(list(Path(path).parent.glob("here-*"))) >= others:
            return
        time.sleep(0.001)
    raise TimeoutError("some processes did not open the ledger")


def one_unit(number: int) -> Request:
    """A question of one unit, whatever the data; every number is another atom."""
    return Histogram("engagements", "region", "members", {"n": {"ne": number}})


def mixed(number: int) -> Request:
    """Twenty questions over eight atoms: lists of several lengths, with counts and without, totals and histograms."""
    if number < 12:
        where = {"region": "emea"} if number % 2 else None
        return TopK("engagements", "article", "members", where, k=2 + number, counts=number % 3 > 0)
    return [one_unit(number), Total("engagements", "visits", {"n": {"ge": number}})][number % 2]


def asking(path: str, numbers: list[int], question: str, analyst: str) -> list[Any]:
    """(number, digest, bytes, charge) of every question that is answered; (number, None) of those refused."""
    with World(Path(path).parent).open() as session:
        meet(path, PROCESSES)
        ask: Callable[[int], Any] = partial(_asked, session, globals()[question], analyst)
        return [ask(number) for number in numbers]


def _asked(session: Session, question: Callable[[int], Request], analyst: str, number: int) -> list[Any]:
    try:
        answer = session.ask(question(number), analyst=analyst)
    except BudgetExhausted:
        return [number, None, None, None]
    return [number, answer.receipt.digest, lasting(answer), answer.receipt.charge.to_dict()]


def race(path: str, numbers: list[list[int]], question: str, analysts: list[str]) -> list[Any]:
    """Runs alone: a process for every list of numbers, all starting to ask at one moment."""
    works = zip(numbers, analysts, strict=True)
    return crowd([partial(asking, path, list(mine), question, analyst) for mine, analyst in works])


def test_eight_processes_spend_a_budget_to_the_last_unit(tmp_path, ledger_url):
    world = new_world(tmp_path / "world", ledger_url, information=100, calls=0)
    numbers = [list(range(50 * process, 50 * process + 50)) for process in range(PROCESSES)]
    found = alone(race, str(world.path), numbers, "one_unit", ["anna"] * PROCESSES)
    outcomes = Counter(digest is not None for mine in found for _, digest, *_ in mine)
    assert outcomes == {True: 100, False: 300}
    with world.open() as session:
        own, shared = standing(session, "analyst:anna"), standing(session, "organisation:acme")
        assert (own.spent, own.reserved, own.left) == (Charge(100), NOTHING, NOTHING)
        assert shared.spent == Charge(100)
        assert session._ledger.verify() == []
    settled = [digest for account, digest, _ in notes(world) if account == "analyst:anna"]
    assert sorted(settled) == sorted(digest for mine in found for _, digest, *_ in mine if digest)
    assert len(world.tables()["atoms"]) == 100


@pytest.mark.parametrize("analysts", ["anna", "anna ben olga"])
def test_eight_processes_with_the_same_questions_get_the_same_answers_for_one_charge(tmp_path, ledger_url, analysts):
    world = new_world(tmp_path / "world", ledger_url)
    names = [analysts.split()[process % len(analysts.split())] for process in range(PROCESSES)]
    orders = [random.Random(process).sample(range(20), 20) for process in range(PROCESSES)]
    found = alone(race, str(world.path), orders, "mixed", names)
    texts = {(number, digest, text) for mine in found for number, digest, text, _ in mine}
    assert len(texts) == 20
    assert len({digest for _, digest, _ in texts}) == 20
    with world.open() as session:
        assert session._ledger.verify() == []
        for name in set(names):
            receipts = [row[3] for mine, who in zip(found, names, strict=True) for row in mine if who == name]
            paid = sum(map(Charge.from_dict, receipts), NOTHING)
            assert spent(session, name) == paid == Charge(owed(), 2)
            assert standing(session, f"analyst:{name}", name).reserved == NOTHING
    atoms = world.tables()["atoms"]
    assert len(atoms) == len({nonce for _, nonce, _ in atoms}) == 10
    # The journal says which payload every charge was for: one for each atom.
    assert len({(note["atom"], note["payload"]) for _, _, note in notes(world)}) == 10


def owed() -> int:
    """What one analyst owes for all of `mixed`: every step once."""
    steps = set()
    for number in range(12):
        steps |= {(number % 2, "cutoff", 0)} | {(number % 2, "pick", place) for place in range(1, 3 + number)}
        steps |= {(number % 2, "count", place) for place in range(1, 3 + number) if number % 3 > 0}
    return len(steps) + 8


def stepping_in(path: str, moment: str) -> list[Any]:
    """Runs alone: two processes compute one atom; what each reads is its own state of the rows."""
    world = World(Path(path).parent)

    def ask(people: int) -> list[Any]:
        with world.open() as session:
            real = session._runtime.engines["engagements"].run

            def run(query: object) -> Any:
                rows = real(query)
                time.sleep(0.3)  # so that both are between reserve and settle
                return [(*row[:-1], row[-1] + people) for row in rows]

            session._runtime.engines["engagements"].run = run
            meet(path, 2)
            return _asked(session, one_unit, "anna" if moment == "one" or not people else "olga", 1)

    return crowd([partial(ask, 0), partial(ask, 10_000)])


@pytest.mark.parametrize("moment", ["one", "two"])
def test_of_two_that_compute_one_atom_the_first_stored_is_everybodys(tmp_path, ledger_url, moment):
    """The rows changed between their reads: the second result must not be seen, in whosever account it is."""
    world = new_world(tmp_path / "world", ledger_url)
    first, second = alone(stepping_in, str(world.path), moment)
    assert first[2] == second[2]
    assert len(world.tables()["atoms"]) == 1
    with world.open() as session:
        assert spent(session, "anna") == Charge(1)
        assert spent(session, "olga") == Charge(1 if moment == "two" else 0)


def opening(path: str) -> list[int]:
    """Runs alone: eight processes open one new ledger at once, and each asks a question."""

    def first(number: int) -> int:
        meet(path, PROCESSES)
        with World(Path(path).parent).open() as session:
            session.ask(one_unit(number), analyst="anna")
        return os.getpid()

    return crowd([partial(first, number) for number in range(PROCESSES)])


def test_eight_processes_may_open_a_new_ledger_at_once(tmp_path, ledger_url):
    world = new_world(tmp_path / "world", ledger_url)
    assert len(set(alone(opening, str(world.path)))) == PROCESSES
    with world.open() as session:
        assert spent(session, "anna") == Charge(PROCESSES)
        assert session._ledger.verify() == []
