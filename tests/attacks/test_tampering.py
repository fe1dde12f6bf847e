"""Rows of a ledger that somebody changed, and single tables that were put back from an older copy.

`verify` names every change of every column. And what the service does next spends no unit and draws no number twice.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.config import load_config
from sfumato.errors import BudgetExhausted, LedgerFailed, LedgerSetBack, SfumatoError
from sfumato.ledger import open_ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.session import Session
from sfumato.spending import forfeit
from tests.golden import story, subjects
from tests.helpers import adverts
from tests.helpers.repeats import repeats
from tests.helpers.worlds import NOW, World, new_world, standing

pytestmark = pytest.mark.slow

TABLES = (
    *("ledger", "journal", "balances", "atoms", "paid", "holds", "answers", "keys", "calls", "questions"),
    *("places", "seals", "cells", "domains"),
)


def columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as ledger:
        return [(table, row[1]) for table in TABLES for row in ledger.execute(f"PRAGMA table_info({table})")]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with something in every table."""
    folder = story.copy_world(tmp_path_factory.mktemp("busy"), ledger=False)
    with subjects.fixed_world(distinct=True):
        story.tell(folder)
    with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        ledger.execute("PRAGMA journal_mode = DELETE")
        assert all(ledger.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in TABLES)
    assert found(folder) == []
    return folder


def found(folder: Path) -> list[str]:
    """What `verify` says of a ledger."""
    with open_ledger(load_config(folder / "sfumato.toml").ledger, folder) as ledger:
        return ledger.verify()


def another(value: Any, choose: random.Random) -> Any:
    """A value near to this one."""
    if value is None:
        return choose.choice(["", "2026-11-15T12:00:00.000000+00:00", "x"])
    if isinstance(value, int):
        return value + choose.choice([-1, 1, 7])
    place = choose.randrange(len(value) + 1)
    kind = choose.choice(["cut", "add", "change", "empty"])
    if kind == "empty" and value:
        return ""
    if kind == "cut" and place < len(value):
        return value[:place] + value[place + 1 :]
    letter = choose.choice('0123456789abcdef \n"{')
    changed = value[:place] + letter + value[place + (kind == "change") :]
    return changed if changed != value else value + letter


def tamper(path: Path, table: str, column: str, choose: random.Random) -> bool:
    """Change one value, or delete or repeat its row. False where the database does not take it."""
    with closing(sqlite3.connect(path)) as ledger, ledger:
        rows = ledger.execute(f"SELECT rowid, * FROM {table}").fetchall()
        names = [row[1] for row in ledger.execute(f"PRAGMA table_info({table})")]
        row = choose.choice(rows)
        value = row[1 + names.index(column)]
        act = choose.choice(["change"] * 4 + ["delete", "repeat"])
        try:
            if act == "delete":
                ledger.execute(f"DELETE FROM {table} WHERE rowid = ?", row[:1])
            elif act == "repeat":
                again = [
                    another(each, choose) if name == column else each for name, each in zip(names, row[1:], strict=True)
                ]
                ledger.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(again))})", again)
            else:
                ledger.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (another(value, choose), row[0]))
        except sqlite3.IntegrityError:
            return False
    return True


@pytest.mark.usefixtures("damage_is_named")
def test_every_change_of_every_column_is_named(busy: Path, tmp_path: Path) -> None:
    """At least 300 changes. That a table without a row is named too follows from the deletions."""
    folder = story.copy_world(tmp_path, ledger=False)
    shutil.copytree(story.fence_of(busy).parent, story.fence_of(folder).parent)
    changes, missed = 0, []
    for seed in range(repeats(4, 60)):
        for table, column in columns(busy / "ledger.db"):
            choose = random.Random(f"{seed} {table} {column}")
            shutil.copyfile(busy / "ledger.db", folder / "ledger.db")
            (folder / "ledger.db").chmod(0o600)
            while not tamper(folder / "ledger.db", table, column, choose):
                pass
            changes += 1
            try:
                named = found(folder)
            except LedgerFailed as error:
                named = [str(error)]
            if not named:
                missed.append((seed, table, column))
    assert changes >= 300
    assert missed == []


# -- one table from an older copy --


@contextmanager
def older(folder: Path, table: str) -> Iterator[Callable[[], None]]:
    """Remembers a table as it is now; the call puts it back."""
    with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
        before = ledger.execute(f"SELECT * FROM {table}").fetchall()

    def put_back() -> None:
        with closing(sqlite3.connect(folder / "ledger.db")) as ledger, ledger:
            ledger.execute(f"DELETE FROM {table}")
            if before:
                ledger.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(before[0]))})", before)

    yield put_back


def total(number: int) -> dict[str, Any]:
    return {"type": "total", "table": "engagements", "measure": "members", "where": {"n": {"ne": number}}}


def ask_all(session: Session, analyst: str, numbers: range) -> dict[int, Any]:
    """The answers of an analyst; what is refused or fails is left out."""
    found: dict[int, Any] = {}
    for number in numbers:
        try:
            found[number] = session.ask(total(number), analyst=analyst).rows
        except (BudgetExhausted, LedgerFailed):
            continue
    return found


@pytest.mark.parametrize("live", [True, False], ids=["while it runs", "before it starts"])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_was_put_back_gives_no_budget_and_no_second_draw(tmp_path: Path, table: str, live: bool) -> None:
    """Ten units, of which six are spent, three of them after the copy was made."""
    world = new_world(tmp_path / "world", information=10, calls=10, cap=True, shared=(10, 10))
    with world.open() as session:
        first = ask_all(session, "anna", range(3))
        with older(world.folder, table) as put_back:
            later = ask_all(session, "anna", range(3, 6))
            assert (len(first), len(later)) == (3, 3)
            if live:
                put_back()
                check_no_gain(world, session, first | later)
    if not live:
        put_back()
        try:
            again = world.open()
        except LedgerFailed:
            return
        with again as session:
            check_no_gain(world, session, first | later)


def check_no_gain(world: World, session: Session, seen: dict[int, Any]) -> None:
    """Of the ten units four are left, for the two of acme together, and what was drawn stays what it was."""
    for name in ("anna", "ben"):
        again = ask_all(session, name, range(6))
        assert again.items() <= seen.items()
        seen |= ask_all(session, name, range(6, 20))
    assert len(seen) <= 10


@pytest.mark.parametrize("table", ["balances", "atoms", "ledger"])
def test_the_refusal_says_what_to_do(tmp_path: Path, table: str) -> None:
    world = new_world(tmp_path / "world")
    with world.open() as session:
        session.ask(total(1), analyst="anna")
        with older(world.folder, table) as put_back:
            session.ask(total(2), analyst="anna")
        put_back()
        with pytest.raises(LedgerFailed, match=r"copy"):
            session.ask(total(2) if table == "atoms" else total(3), analyst="ben" if table == "atoms" else "anna")
        assert session.check()["ledger"] == ("ok" if table == "atoms" else "not ok")


def test_an_open_request_that_was_closed_before_is_not_closed_again(tmp_path: Path) -> None:
    """Closing it twice would give back twice what it had reserved."""
    world = new_world(tmp_path / "world")
    with world.open() as session:
        engine: Any = session._catalog.engine("engagements")
        run, engine.run = engine.run, None
        with pytest.raises(SfumatoError):
            session.ask(total(1), analyst="anna")
        with older(world.folder, "holds") as put_back:
            engine.run = run
            session.ask(total(1), analyst="anna")
        before = standing(session, "analyst:anna")
        put_back()
        session.finish()
        with pytest.raises(LedgerFailed):
            forfeit(session.ledger.reservations()[0], session.ledger, NOW)
        assert standing(session, "analyst:anna") == before


@pytest.mark.parametrize("tables", [["cells"], ["seals"], ["cells", "seals"], ["cells", "seals", "places", "domains"]])
def test_cells_that_were_put_back_are_not_drawn_again(tmp_path: Path, tables: list[str]) -> None:
    world = adverts.new_adverts(tmp_path / "world")
    account = {"account": "a0"}
    with world.open() as session:
        adverts.ask(session, entity=account, end="2026-01-11")
        with older(world.folder, tables[0]) as first, older(world.folder, tables[-1]) as last:
            shown = adverts.lasting(adverts.ask(session, entity=account, end="2026-01-12"))
        first()
        last()
        try:
            assert adverts.lasting(adverts.ask(session, entity=account, end="2026-01-12")) == shown
        except LedgerFailed:
            pass
        else:
            assert tables == ["seals"]


def test_a_key_that_was_revoked_does_not_come_back(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world")
    with world.open() as session:
        _, key = ApiKeys(session.ledger).create("anna", "analyst", None, NOW)
        copy = world.folder / "copy.db"
        with closing(sqlite3.connect(world.folder / "ledger.db")) as source, closing(sqlite3.connect(copy)) as into:
            source.backup(into)
        ApiKeys(session.ledger).revoke(key.id, NOW)
    (world.folder / "ledger.db").write_bytes(copy.read_bytes())
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (world.folder / name).unlink(missing_ok=True)
    with pytest.raises(LedgerFailed):
        world.open()


class TestKeysThatWerePutBack:
    """The table of the API keys alone is an older copy, in which a revoked key is valid."""

    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return new_world(tmp_path / "world")

    @pytest.fixture
    def revoked(self, world: World) -> tuple[str, str, str]:
        """A key that stays, a key that was revoked, and the id of this one. Another was made and revoked since."""
        with world.open() as session:
            keys = ApiKeys(session.ledger)
            stays, _ = keys.create("ben", "analyst", None, NOW)
            text, key = keys.create("anna", "analyst", None, NOW)
            with older(world.folder, "keys") as self.put_back:
                keys.revoke(key.id, NOW)
                keys.revoke(keys.create("anna", "owner", None, NOW)[1].id, NOW)
        return stays, text, key.id

    def test_are_refused_at_the_next_call(self, world: World, revoked: tuple[str, str, str]) -> None:
        stays, text, name = revoked
        with world.open() as session:
            keys = ApiKeys(session.ledger)
            assert (keys.find(text, NOW), keys.find(stays, NOW) is None) == (None, False)
            self.put_back()
            for key in (text, stays):
                with pytest.raises(LedgerSetBack, match="API keys were revoked"):
                    keys.find(key, NOW)
            with pytest.raises(LedgerSetBack):  # another one must not take the place of the lost one
                keys.revoke(name, NOW)
            assert session.check()["ledger"] == "not ok"
            assert any("API key" in problem for problem in session.ledger.verify())

    def test_are_refused_at_the_start(self, world: World, revoked: tuple[str, str, str]) -> None:
        self.put_back()
        with pytest.raises(LedgerSetBack, match="sfumato budget recover"):
            world.open()

    def test_are_revoked_by_a_recovery_and_others_are_not(self, world: World, revoked: tuple[str, str, str]) -> None:
        stays, text, name = revoked
        self.put_back()
        ran = CliRunner().invoke(main, ["budget", "recover", "--yes", "--config", str(world.path)])
        assert ran.exit_code == 0, ran.output
        assert f"the API key {name} was not as the journal has it, and is revoked" in " ".join(ran.output.split())
        with world.open() as session:
            keys = ApiKeys(session.ledger)
            assert (keys.find(text, NOW), keys.find(stays, NOW) is None) == (None, False)
            session.ask(total(1), analyst="anna")
            assert session.ledger.verify() == []

    def test_a_whole_copy_is_recovered_and_says_that_keys_may_be_back(self, world: World) -> None:
        with world.open() as session:
            keys = ApiKeys(session.ledger)
            text, key = keys.create("anna", "analyst", None, NOW)
            copy = world.folder / "copy.db"
            with closing(sqlite3.connect(world.folder / "ledger.db")) as source, closing(sqlite3.connect(copy)) as into:
                source.backup(into)
            keys.revoke(key.id, NOW)
        copy.replace(world.folder / "ledger.db")
        (world.folder / "ledger.db").chmod(0o600)
        ran = CliRunner().invoke(main, ["budget", "recover", "--yes", "--config", str(world.path)])
        assert ran.exit_code == 0, ran.output
        assert "may be valid again" in " ".join(ran.output.split())
        with world.open() as session:
            keys = ApiKeys(session.ledger)
            assert keys.find(text, NOW) is not None
            keys.revoke(key.id, NOW)
            assert keys.find(text, NOW) is None
            assert session.ledger.verify() == []


def test_a_recovery_that_cannot_help_says_so(tmp_path: Path) -> None:
    """Balances that were put back are not made right by it: the words say to put the newest copy in place."""
    world = new_world(tmp_path / "world")
    with world.open() as session:
        session.ask(total(1), analyst="anna")
        with older(world.folder, "balances") as put_back:
            session.ask(total(2), analyst="anna")
    put_back()
    ran = CliRunner().invoke(main, ["budget", "recover", "--yes", "--config", str(world.path)])
    assert (ran.exit_code, "Put the newest copy in place" in " ".join(ran.output.split())) == (4, True)
