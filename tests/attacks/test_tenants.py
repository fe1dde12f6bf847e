"""Tenants who share a table with a cap, and want to know what the others have asked.

What an attacker may see is whether a question is refused, what is left on the cap, and what an answer costs. Guesses
that another tenant has asked must give the same as guesses that nobody has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import Charge
from sfumato.errors import BudgetExhausted, ConfigError
from sfumato.session import Session
from tests.helpers.worlds import World, new_world, spent, standing

pytestmark = pytest.mark.slow  # a session for each guess

CAP = "table:engagements"
GUESSES = [
    {"type": "total", "table": "engagements", "measure": measure, "where": {"day": {"ge": f"2026-11-{day:02}"}}}
    for measure in ("members", "shares", "visits")
    for day in range(1, 15)
]
ASKED = (3, 17, 40)  # of the guesses, by olga, who is alone


def tenants(folder: Path, *, cap: int = 5000, **config: Any) -> World:
    """Anna and Ben of acme, Olga and Nora alone, on a table whose cap has so many units."""
    world = new_world(folder, cap=True, shared=(5000, 500), others="olga nora", **config)
    budget = (
        f'[budgets.cap]\nepsilon_per = 0.5\ndelta_per = 1e-6\ninformation = {cap}\ncalls = 500\nresets = "monthly"\n'
    )
    world.path.write_text(world.path.read_text().replace('cap = "common"', 'cap = "cap"') + budget)
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return tenants(tmp_path / "world")


def left(session: Session, analyst: str = "anna") -> Charge:
    return next(each for each in session.budget(analyst).accounts if each.account.startswith(CAP)).left


def outcome(session: Session, guess: dict[str, Any], analyst: str = "anna") -> tuple[Any, ...]:
    """All that an analyst sees of a guess: refused or not, what it cost her, and how the cap moved."""
    before = left(session, analyst)
    try:
        receipt = session.ask(guess, analyst=analyst).receipt
    except BudgetExhausted as refusal:
        return "refused", refusal.asked, refusal.left, refusal.account, refusal.longest, left(session, analyst)
    return "answered", receipt.charge, receipt.repeat, before - left(session, analyst)  # type: ignore[operator]


def test_a_spent_cap_refuses_what_others_have_asked_too(tmp_path: Path) -> None:
    world = tenants(tmp_path / "world", cap=len(ASKED))
    with world.open() as session:
        for number in ASKED:
            session.ask(GUESSES[number], analyst="olga")
        seen = {outcome(session, guess) for guess in GUESSES}
        assert len(seen) == 1
        assert {each[0] for each in seen} == {"refused"}
        # What she paid for herself is hers.
        assert all(session.ask(GUESSES[number], analyst="olga").receipt.repeat for number in ASKED)


def test_the_balance_moves_alike_for_every_guess(world: World) -> None:
    with world.open() as session:
        for number in ASKED:
            session.ask(GUESSES[number], analyst="olga")
        assert {outcome(session, guess) for guess in GUESSES} == {("answered", Charge(1), False, Charge(1))}
        assert standing(session, CAP).spent == Charge(len(GUESSES) + len(ASKED))
        assert session.ledger.verify() == []


def test_refusals_compare_a_price_with_a_balance_that_tells_nothing(tmp_path: Path) -> None:
    """The attacker finds the balance by asking for ever longer lists, before and after each guess."""
    lists = [
        {"type": "top_k", "table": "engagements", "by": "article", "measure": "shares", "k": k} for k in range(1, 21)
    ]

    def longest(session: Session) -> int:
        """The longest list that an estimate says would still fit; no list is paid for."""
        fitting = [each["k"] for each in lists if session.estimate(each, analyst="anna").answers_left]
        return max(fitting, default=0)

    drops = {}
    for asked in (True, False):
        world = tenants(tmp_path / str(asked), cap=40)
        with world.open() as session:
            if asked:
                session.ask(GUESSES[3], analyst="olga")
            else:
                session.ask(GUESSES[4], analyst="olga")
            before = longest(session)
            session.ask(GUESSES[3], analyst="anna")
            drops[asked] = before, longest(session)
    assert drops[True] == drops[False]


def test_a_repeat_within_an_organisation_is_free_on_the_cap(world: World) -> None:
    with world.open() as session:
        session.ask(GUESSES[0], analyst="anna")
        assert outcome(session, GUESSES[0], "ben") == ("answered", Charge(1), False, Charge())
        assert outcome(session, GUESSES[0], "anna") == ("answered", Charge(), True, Charge())
        assert outcome(session, GUESSES[0], "olga") == ("answered", Charge(1), False, Charge(1))
        assert outcome(session, GUESSES[0], "nora") == ("answered", Charge(1), False, Charge(1))


def test_a_stored_answer_is_debited_although_no_row_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.open() as session:
        rows = session.ask(GUESSES[0], analyst="olga").rows
        monkeypatch.setattr(session._catalog.engine("engagements"), "run", None)
        assert session.ask(GUESSES[0], analyst="anna").rows == rows
        assert standing(session, CAP).spent == Charge(2)


class TestParts:
    @pytest.fixture
    def parted(self, tmp_path: Path) -> World:
        world = tenants(tmp_path / "world", cap=40)
        text = world.path.read_text().replace('cap = "cap"', 'cap = "cap"\nparts = { acme = 0.5, olga = 0.25 }')
        world.path.write_text(text)
        return world

    def test_a_tenant_sees_nothing_of_what_the_others_spend(self, parted: World) -> None:
        with parted.open() as session:
            before = session.budget("anna")
            for guess in GUESSES[:10]:
                session.ask(guess, analyst="olga")
            assert session.budget("anna") == before
            with pytest.raises(BudgetExhausted) as refusal:
                session.ask(GUESSES[10], analyst="olga")
            assert refusal.value.account == f"{CAP} part olga"
            assert all(each.account != CAP for each in before.accounts)

    def test_each_gets_its_part_and_all_together_no_more_than_the_cap(self, parted: World) -> None:
        with parted.open() as session:
            answered = dict.fromkeys(("anna", "ben", "olga", "nora"), 0)
            for name in answered:
                for guess in GUESSES if name != "ben" else GUESSES[::-1]:
                    try:
                        answered[name] += not session.ask(guess, analyst=name).receipt.repeat
                    except BudgetExhausted:
                        break
            assert standing(session, f"{CAP} part acme").spent == Charge(20)
            assert answered["olga"] == answered["nora"] == 10
            accounts = session._planner.plan(GUESSES[0], "anna", session.now()).debit.accounts
            whole = session.ledger.standings([each for each in accounts if each.name == CAP], session.now())
            assert whole[0].spent == Charge(40)
            assert session.ledger.verify() == []

    def test_what_was_spent_before_there_were_parts_counts(self, parted: World, tmp_path: Path) -> None:
        text = parted.path.read_text()
        parted.path.write_text(text.replace("parts = { acme = 0.5, olga = 0.25 }", ""))
        with parted.open() as session:
            for guess in GUESSES[:35]:
                session.ask(guess, analyst="olga")
        parted.path.write_text(text)
        with parted.open() as session:
            for guess in GUESSES[:5]:
                session.ask(guess, analyst="anna")
            with pytest.raises(BudgetExhausted) as refusal:
                session.ask(GUESSES[5], analyst="anna")
            assert refusal.value.account == CAP

    @pytest.mark.parametrize(
        ("parts", "words"),
        [
            ("{ acme = 0.5, nobody = 0.2 }", "parts.nobody: names an organisation, or an analyst without one,"),
            ("{ anna = 0.5 }", "parts.anna: names an organisation, or an analyst without one,"),
            ("{ acme = 0.8, olga = 0.3 }", "parts: add up to more than 1"),
            ("{ acme = 0.8, olga = 0.2 }", "parts: leave nothing of the cap to nora"),
            ("{ acme = 0 }", "parts.acme: must be above 0"),
            ("{ acme = 1.5 }", "parts.acme: must be above 0"),
            ('{ acme = "half" }', "parts.acme: must be a number"),
        ],
    )
    def test_parts_that_make_no_sense_are_refused(self, parted: World, parts: str, words: str) -> None:
        text = parted.path.read_text()
        parted.path.write_text(text.replace("{ acme = 0.5, olga = 0.25 }", parts))
        with pytest.raises(ConfigError) as refusal:
            parted.open()
        assert words in str(refusal.value)

    def test_parts_need_a_cap(self, parted: World) -> None:
        parted.path.write_text(parted.path.read_text().replace('cap = "cap"\n', ""))
        with pytest.raises(ConfigError, match="parts: are parts of a cap"):
            parted.open()


def test_an_answer_of_an_earlier_schema_is_still_free_for_the_one_who_has_it(world: World) -> None:
    """There a cap was paid for once, under its own name."""
    import sqlite3
    from contextlib import closing

    with world.open() as session:
        session.ask(GUESSES[0], analyst="anna")
        before = spent(session, "anna")
    with closing(sqlite3.connect(world.folder / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE paid SET account = ? WHERE account = ?", (CAP, f"{CAP} organisation:acme"))
    with world.open() as session:
        assert session.ask(GUESSES[0], analyst="anna").receipt.repeat
        assert spent(session, "anna") == before
        assert outcome(session, GUESSES[0], "ben") == ("answered", Charge(1), False, Charge(1))
        assert outcome(session, GUESSES[0], "olga") == ("answered", Charge(1), False, Charge(1))
