"""Damaged files: every command ends with an exit code and a sentence, and no stored answer leaves in another form."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from sfumato.cli import main
from sfumato.errors import EngineFailed
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.types import IdempotentCall
from sfumato.service import server
from sfumato.session import Session
from tests.contracts.ledger import TABLES
from tests.helpers import children
from tests.helpers.advertised import BY_DAY, new_ads
from tests.helpers.repeats import repeats
from tests.helpers.worlds import World

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("damage_is_named")]

LEDGERS, FENCES, CONFIGS, SOURCES = (
    [*range(repeats(15, 300)), *repeats([136, 285, 297], [])],  # three whose errors are not UTF-8
    range(repeats(10, 60)),
    range(repeats(15, 80)),
    repeats(8, 60),
)

STORED = "SELECT article, members FROM engagements GROUP BY article LIMIT 3"
NEW = "SELECT region, members FROM engagements GROUP BY region"
DIFFERENT, USAGE, REFUSED, FAILED = 1, 2, 3, 4

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("budget", "show"),
    ("budget", "history", "--rows", "1000"),
    ("budget", "usage"),
    ("budget", "forecast"),
    ("budget", "grant", "anna", "--information", "1", "--reason", "more"),
    ("keys", "list"),
    ("ask", "--analyst", "anna", NEW),
    ("ask", "--analyst", "ben", STORED),
    (
        *("report", "--analyst", "tina", "--report", "ads", "--entity", "account=acme", "--statistic", "clicks"),
        *("--start", "2026-10-28", "--end", "2026-11-03"),
    ),
    ("report", "explain"),
    ("policy", "check"),
    ("serve", "--port", "0"),
)


@pytest.fixture(autouse=True)
def stop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sfumato serve` does everything up to the first call, and stops."""
    real = server.create_app

    def create(session: Session, *given: Any, **options: Any) -> Any:
        app = real(session, *given, **options)
        session.close()
        return app

    monkeypatch.setattr(server, "create_app", create)
    monkeypatch.setattr(server, "prepare_process", lambda _: None)  # logs of this process
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda _, listeners: [each.close() for each in listeners])


def run(world: World, *command: str) -> Result:
    """A command of Sfumato. It must not end in a traceback."""
    found = CliRunner().invoke(main, [*command, "--config", str(world.path)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise AssertionError(f"{command} ended in a traceback") from found.exception
    assert found.exit_code in (0, DIFFERENT, USAGE, REFUSED, FAILED), found.output
    if found.exit_code > DIFFERENT:
        told = json.loads(found.stdout)["detail"] if "--json" in command else found.stderr
        assert len(told) > 40, told
        assert len(told.splitlines()) == 1, told
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose ledger has some of everything: answers, a reservation, keys, calls, a grant, cells of a report."""
    world = new_ads(tmp_path_factory.mktemp("whole") / "world")
    assert run(world, "budget", "grant", "anna", "--information", "5", "--reason", "more").exit_code == 0
    with Session(world.path) as session:
        session.ask(STORED, analyst="anna", call=IdempotentCall.of("key", b"body"))
        session.ask(STORED.replace("3", "5"), analyst="ben")
        session.report(BY_DAY, analyst="tina")
        keys = ApiKeys(session.ledger)
        made = [keys.create("anna", "analyst", None, datetime.now(UTC))[1] for _ in range(3)]
        keys.revoke(made[0].id, datetime.now(UTC))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(session._catalog.engine("engagements")), "run", lambda *_, **__: 1 / 0)
            with pytest.raises(EngineFailed):
                session.ask("SELECT job_title, members FROM engagements GROUP BY job_title LIMIT 2", analyst="anna")
    with closing(sqlite3.connect(world.folder / "ledger.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert connection.execute("SELECT COUNT(*) FROM holds").fetchone() == (1,)
    return world


@pytest.fixture(scope="module")
def stored(whole: World) -> Any:
    """The rows of the answer that is stored."""
    return json.loads(run(whole, "ask", "--analyst", "anna", "--json", STORED).stdout)["rows"]


@pytest.fixture
def world(whole: World, tmp_path: Path) -> World:
    """A copy that may be damaged, with a fence of its own."""
    copy = World(tmp_path / "world", whole.ledger)
    shutil.copytree(whole.folder, copy.folder)
    shutil.copytree(whole.fence.parent, copy.fence.parent)
    return copy


# -- the ledger --


def flip_bytes(file: Path, dice: random.Random) -> None:
    content = bytearray(file.read_bytes())
    for _ in range(dice.choice((1, 1, 2, 8, 64))):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    file.write_bytes(content)


def overwrite_page(file: Path, dice: random.Random) -> None:
    content = bytearray(file.read_bytes())
    page = dice.randrange(len(content) // 4096) * 4096
    filling = dice.choice((bytes(4096), dice.randbytes(4096), b"\xff" * 4096, bytes(content[:4096])))
    file.write_bytes(content[:page] + filling + content[page + 4096 :])


def cut_short(file: Path, dice: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: dice.choice((0, 1, 100, 4096, dice.randrange(len(content))))])


VALUES = (
    *("''", "'x'", "'null'", "'[]'", "'{}'", "'{\"a\": 1}'", "'[1, 2]'", "'-1'", "'1/0 1'", "'9999-99-99'", "0", "-1"),
    *("9223372036854775807", "1.5", "x'00ff'", "CAST(x'ff41' AS TEXT)", "CAST(x'410042' AS TEXT)", "'\ud7ff'"),
    *('\'[["analyst:anna", "", 1]]\'', "'{\"versions\": 3}'", "'2026-01-01'", "char(27) || '[31m'"),
)


def spoil_value(file: Path, dice: random.Random) -> None:
    """A value that Sfumato does not write, in any column, in all rows or in one."""
    with closing(sqlite3.connect(file)) as connection:
        table = dice.choice([*TABLES, "keys"])
        column = dice.choice([name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")])
        where = dice.choice(("", f"WHERE rowid = (SELECT MIN(rowid) FROM {table})"))
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {dice.choice(VALUES)} {where}")
        connection.commit()


def spoil_letters(file: Path, dice: random.Random) -> None:
    """One letter of a stored text is another one."""
    with closing(sqlite3.connect(file)) as connection:
        table = dice.choice([*TABLES, "keys"])
        column = dice.choice([name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")])
        rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE typeof({column}) = 'text'").fetchall()
        rows = [row for row in rows if row[1]]
        if rows:
            row, text = dice.choice(rows)
            place = dice.randrange(len(text))
            changed = text[:place] + dice.choice('0123456789abc"{}[],: \x00') + text[place + 1 :]
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
            connection.commit()


def drop_table(file: Path, dice: random.Random) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"DROP TABLE {dice.choice([*TABLES, 'keys'])}")
        connection.commit()


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    *(flip_bytes, flip_bytes, overwrite_page, cut_short),
    *(spoil_value, spoil_value, spoil_value, spoil_letters, drop_table),
)


@pytest.mark.parametrize("seed", LEDGERS)
def test_a_damaged_ledger(seed: int, world: World, stored: Any) -> None:
    dice = random.Random(seed)
    DAMAGES[seed % len(DAMAGES)](world.folder / "ledger.db", dice)
    run(world, "budget", "verify")
    found = run(world, "ask", "--analyst", "anna", "--json", STORED)
    if found.exit_code == 0:
        assert json.loads(found.stdout)["rows"] == stored
    for command in dice.sample(COMMANDS, 3):
        run(world, *command)


# -- the fence --


@pytest.mark.parametrize("seed", FENCES)
def test_a_damaged_fence(seed: int, world: World) -> None:
    """A line that cannot be read does not count. Without a line that can, nothing is answered."""
    dice = random.Random(seed)
    content = world.fence.read_bytes()
    torn = [dice.randbytes(dice.randrange(1, 400)) for _ in range(3)]
    damaged = dice.choice((b"", b"\x00" * 500, *torn, b'{"ledger": 1}\n' * 3, b"[[[[" * 30_000))
    is_garbage = dice.random() < 0.5
    world.fence.write_bytes(damaged if is_garbage else content)
    if not is_garbage:
        flip_bytes(world.fence, dice)
    for command in (("ask", "--analyst", "anna", NEW), ("budget", "show")):
        found = run(world, *command)
        if is_garbage:
            assert found.exit_code == FAILED
            assert "fence" in found.stderr
    run(world, "budget", "verify")


# -- the configuration --


@pytest.mark.parametrize("seed", CONFIGS)
def test_a_damaged_configuration(seed: int, world: World) -> None:
    dice = random.Random(seed)
    content = bytearray(world.path.read_bytes())
    for _ in range(dice.choice((1, 2, 5, 40))):
        content[dice.randrange(len(content))] = dice.randrange(256)
    world.path.write_bytes(dice.choice((bytes(content), bytes(content), dice.randbytes(300), b"\xff\xfe" + content)))
    for command in (("ask", "--analyst", "anna", STORED), dice.choice(COMMANDS)):
        run(world, *command)


def test_a_configuration_that_is_no_text_names_the_file(world: World) -> None:
    world.path.write_bytes(bytes(range(256)))
    for command in COMMANDS:
        found = run(world, *command)
        assert found.exit_code == USAGE
        assert "sfumato.toml" in found.stderr


# -- the rows --

CONTENT = ("article-", "engineer", "teacher", "amer", "emea")


def ask_damaged_rows(folder: str, seeds: int) -> int:
    """Ask about files with flipped bytes. Returns how many commands were refused.

    In a process of its own: the exit code shows a crash of the engine.
    """
    refused = 0
    world = World(Path(folder))
    for ending, written in (("parquet", "(FORMAT parquet)"), ("csv", "(FORMAT csv, HEADER)")):
        whole = world.folder / f"whole.{ending}"
        with duckdb.connect(str(world.database), read_only=True) as connection:
            connection.execute(f"COPY engagements TO '{whole}' {written}")
        config = world.path.read_text()
        world.path.write_text(config.replace('source = "engagements"', f'source = "rows.{ending}"'))
        for seed in range(seeds):
            dice = random.Random(f"{ending} {seed}")
            rows = world.folder / f"rows.{ending}"
            shutil.copy(whole, rows)
            dice.choice((flip_bytes, flip_bytes, overwrite_page, cut_short))(rows, dice)
            for command in (("ask", "--analyst", "olga", NEW), ("policy", "check")):
                found = run(world, *command)
                assert not any(text in found.stderr for text in CONTENT), found.stderr
                refused += found.exit_code == FAILED
        world.path.write_text(config)
    return refused


def test_damaged_rows(world: World) -> None:
    assert children.alone(ask_damaged_rows, str(world.folder), SOURCES) > 0


def test_every_command_works_where_nothing_is_damaged(world: World) -> None:
    """Otherwise a refusal of theirs would prove nothing."""
    for command in COMMANDS:
        assert run(world, *command).exit_code == 0, command
