"""Two machines on one PostgreSQL ledger, and an old copy of its database put in place under them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.config import LedgerSettings
from sfumato.errors import BudgetExhausted, ConfigError, LedgerFailed, LedgerSetBack
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger import ledger as ledger_module
from sfumato.ledger.service_lock import ServiceLock
from sfumato.session import Session
from tests.contracts.ledger import TABLES
from tests.helpers import postgres
from tests.helpers.worlds import NOW, World, new_world

pytestmark = pytest.mark.slow

LIMIT = 20
TOTAL = "SELECT members FROM engagements WHERE n <> {}"  # one unit each


@dataclass
class Database:
    """The ledger's database, without the ledger."""

    url: str

    def raw(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, options="-c search_path=sfumato") as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def copy(self) -> dict[str, list[tuple[Any, ...]]]:
        return {table: self.raw(f"SELECT * FROM {table}") for table in TABLES}

    def restore(self, copy: dict[str, list[tuple[Any, ...]]]) -> None:
        with psycopg.connect(self.url, options="-c search_path=sfumato") as connection:
            for table, rows in copy.items():
                connection.execute(f"DELETE FROM {table}")
                for row in rows:
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)


@pytest.fixture
def database(postgres_url: str) -> Database:
    return Database(postgres_url)


@pytest.fixture
def fence_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


def machine(folder: Path, ledger: str, fence: str | Path) -> World:
    """A world as another machine has it: the same rows and key, and a fence in its own place or in a shared one."""
    world = new_world(folder, ledger, information=LIMIT, calls=0)
    lines = [f'fence = "{fence}"' if line.startswith("fence") else line for line in world.path.read_text().splitlines()]
    world.path.write_text("\n".join(lines))
    return world


def spend(session: Session, numbers: range) -> tuple[int, type[Exception] | None]:
    """How many of these questions were granted before one was refused, and how."""
    for granted, number in enumerate(numbers):
        try:
            session.ask(TOTAL.format(number), analyst="olga")
        except (BudgetExhausted, LedgerFailed) as told:
            return granted, type(told)
    return len(numbers), None


def shared_fence(kind: str, tmp_path: Path, fence_url: str) -> str | Path:
    if kind == "folder":
        (tmp_path / "mounted").mkdir()
        return tmp_path / "mounted"
    return fence_url


@pytest.mark.parametrize("kind", ["database", "folder"])
def test_an_old_copy_is_refused_by_both_if_they_share_a_fence(
    tmp_path: Path, database: Database, fence_url: str, kind: str
) -> None:
    """The first machine has not answered since the copy was made, so a fence of its own would not know."""
    fence = shared_fence(kind, tmp_path, fence_url)
    first, second = (machine(tmp_path / name, database.url, fence) for name in ("first", "second"))
    with first.open() as one, second.open() as other:
        one.ledger.lock_service()
        other.ledger.lock_service()
        assert spend(one, range(100, 105)) == (5, None)
        copy = database.copy()
        assert spend(other, range(200, 210)) == (10, None)
        database.restore(copy)
        assert spend(one, range(300, 320)) == spend(other, range(400, 420)) == (0, LedgerSetBack)
        for session in (one, other):
            assert session.check()["ledger"] == "not ok"
    recovered = CliRunner().invoke(main, ["budget", "recover", "--yes", "--config", str(first.path)])
    assert recovered.exit_code == 0, recovered.output
    with first.open() as one, second.open() as other:
        left = spend(one, range(500, 503))[0] + spend(other, range(600, 620))[0]
        assert left == LIMIT - 15
        assert one.ledger.verify() == other.ledger.verify() == []


def test_nothing_is_answered_while_the_shared_fence_is_away(
    tmp_path: Path, database: Database, fence_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0)
    world = machine(tmp_path / "first", database.url, fence_url)
    name = psycopg.conninfo.conninfo_to_dict(fence_url)["dbname"]
    with world.open() as session:
        assert spend(session, range(3)) == (3, None)
        with psycopg.connect(database.url, autocommit=True) as server:
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            try:
                server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
                before = database.copy()
                assert spend(session, range(3, 9)) == (0, LedgerFailed)
                assert spend(session, range(1)) == (0, LedgerFailed)  # what is stored does not leave either
                assert session.check()["ledger"] == "not ok"
                assert database.copy() == before
            finally:
                server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert session.check()["ledger"] == "ok"
        assert spend(session, range(3, 100))[0] == LIMIT - 3


# -- one fence for all services --


class TestASecondService:
    @pytest.fixture(autouse=True)
    def ledgers(self, tmp_path: Path, database: Database) -> Iterator[None]:
        self.database, self.place, self.stack = database, tmp_path, ExitStack()
        with self.stack:
            yield

    def opened(self, fence: str | Path) -> Ledger:
        return self.stack.enter_context(open_ledger(LedgerSettings(self.database.url, fence), self.place))

    def joined(self, name: str, first: Ledger) -> Ledger:
        ledger = self.opened(self.place / name / "fence")
        ledger.join(first.fence.mark())
        return ledger

    def test_does_not_start_with_a_fence_of_its_own(self):
        first = self.opened(self.place / "first" / "fence")
        second = self.joined("second", first)
        first.lock_service()
        with pytest.raises(ConfigError, match=r"ledger\.fence: another service .* sfumato budget join"):
            second.lock_service()
        first.close()
        second.lock_service()

    def test_starts_with_the_same_fence(self):
        for _ in range(3):
            self.opened(self.place / "first" / "fence").lock_service()

    def test_does_not_start_with_a_copy_of_the_fence(self):
        first = self.opened(self.place / "first" / "fence")
        first.lock_service()
        (self.place / "second").mkdir()
        (self.place / "second" / "fence").write_bytes((self.place / "first" / "fence").read_bytes())
        with pytest.raises(ConfigError, match=r"ledger\.fence"):
            self.opened(self.place / "second" / "fence").lock_service()

    def test_a_lock_that_was_lost_is_taken_again(self):
        first = self.opened(self.place / "first" / "fence")
        second = self.joined("second", first)
        first.lock_service()
        self.lose_locks()
        with first.writing():
            pass
        with pytest.raises(ConfigError, match=r"ledger\.fence"):
            second.lock_service()

    def test_a_service_whose_place_was_taken_answers_nothing(self):
        first = self.opened(self.place / "first" / "fence")
        second = self.joined("second", first)
        first.lock_service()
        self.lose_locks()
        second.lock_service()
        for _ in range(2):
            with pytest.raises(LedgerFailed, match="another service"), first.writing():
                pass
        second.close()
        with first.writing():
            pass

    def test_two_that_start_at_the_same_time_do_not_both_start(self):
        locks = [ServiceLock(self.database.url, name) for name in "ababab"]
        for lock in locks:
            self.stack.enter_context(closing(lock))
        with ThreadPoolExecutor(6) as pool:
            taken = list(pool.map(ServiceLock.take, locks))
        assert taken in ([True, False] * 3, [False, True] * 3)

    def lose_locks(self) -> None:
        holders = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"
        for (pid,) in self.database.raw(holders):
            self.database.raw(f"SELECT pg_terminate_backend({pid}, 5000)")
        assert self.database.raw(holders) == []

    def test_the_command_says_so(self):
        worlds = [machine(self.place / name, self.database.url, self.place / f"{name}.fence") for name in ("a", "b")]
        with worlds[0].open(NOW) as session:
            spend(session, range(1))
            session.ledger.lock_service()
            joined = CliRunner().invoke(
                main, ["budget", "join", str(self.place / "a.fence"), "--config", str(worlds[1].path)]
            )
            assert joined.exit_code == 0, joined.output
            for workers in "12":
                ran = CliRunner().invoke(
                    main, ["serve", "--port", "0", "--workers", workers, "--config", str(worlds[1].path)]
                )
                assert ran.exit_code == 2, ran.output
                assert "another service uses this ledger with another fence" in " ".join(ran.output.split())
