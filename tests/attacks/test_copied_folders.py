"""A folder that is copied, or restored, as a whole does not give spent budget back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.accounting import Charge
from sfumato.cli import main
from sfumato.config import LedgerSettings
from sfumato.demo import demo
from sfumato.errors import BudgetExhausted, ConfigError, LedgerSetBack
from sfumato.ledger import open_ledger
from sfumato.ledger.fence import Mark
from sfumato.session import Session
from tests.helpers.worlds import World, new_world

LIMIT = 10
TOTAL = "SELECT members FROM engagements WHERE day <> '2026-11-{:02}'"  # one unit each
COMMANDS = (
    ["ask", "--analyst", "olga", TOTAL.format(1)],
    ["policy", "check"],
    ["serve", "--port", "0"],
    ["budget", "show"],
)

pytestmark = pytest.mark.slow  # two sessions each


def without_fence(world: World) -> None:
    """The fence where it is by default."""
    lines = world.path.read_text().splitlines()
    world.path.write_text("\n".join(line for line in lines if not line.startswith("fence")))


def spend(session: Session, first: int, questions: int) -> int:
    """How many of these questions were granted."""
    granted = 0
    for number in range(first, first + questions):
        try:
            granted += session.ask(TOTAL.format(number), analyst="olga").receipt.charge == Charge(1)
        except (BudgetExhausted, LedgerSetBack):
            break
    return granted


def test_two_copies_that_are_open_together_share_one_fence(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world", information=LIMIT, calls=0)
    without_fence(world)
    with world.open() as session:
        granted = spend(session, 1, 3)
    copy = World(shutil.copytree(world.folder, tmp_path / "copy"))
    with world.open() as first, copy.open() as second:
        for turn in range(1, LIMIT + 1):
            granted += spend(first, 2 * turn + 3, 1) + spend(second, 2 * turn + 2, 1)
        assert granted == LIMIT
        with pytest.raises(LedgerSetBack, match="older than its fence"):
            second.budget("olga")
    with pytest.raises(LedgerSetBack):
        copy.open()


@pytest.mark.parametrize("ahead", [0, 2], ids=["as long", "longer"])
def test_an_answer_of_a_copy_that_is_overtaken_on_its_way_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """Both have read the same fence. The other copy is the first to advance it, with a shorter or a longer journal."""
    world = new_world(tmp_path / "world", information=LIMIT, calls=0)
    with world.open() as session:
        granted = spend(session, 1, 3)
    copy = World(shutil.copytree(world.folder, tmp_path / "copy"))
    copy.path.write_text(copy.path.read_text().replace("../world.state", str(world.fence.parent)))
    with copy.open() as late, world.open() as first:
        for number in range(ahead):  # reserved and settled in the copy, and not answered
            with monkeypatch.context() as patch:
                patch.setattr(late.ledger.fence, "advance", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    late.ask(TOTAL.format(20 + number), analyst="olga")
        real = late.ledger.fence.advance

        def overtaken(mark: Mark) -> None:
            nonlocal granted
            granted += spend(first, 4, 1)
            real(mark)

        with monkeypatch.context() as patch:
            patch.setattr(late.ledger.fence, "advance", overtaken)
            with pytest.raises(LedgerSetBack, match="older than its fence"):
                late.ask(TOTAL.format(5), analyst="olga")
        granted += spend(late, 6, LIMIT)
        assert granted == 4
        granted += spend(first, 6, LIMIT)
    assert granted == LIMIT


def interrupted(mark: Mark) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("url", "fence"),
    [
        ("sqlite:ledger.db", "fence"),
        ("sqlite:ledger.db", "state/fence"),
        ("sqlite:ledger.db", "a/b/c/fence"),
        ("sqlite:ledger.db", "../world/state/fence"),
        ("sqlite:books/ledger.db", "books/x/fence"),
        ("sqlite:books/ledger.db", "state/fence"),  # the layout of two folders in one, which is copied as one
        ("sqlite:books/ledger.db", "outside/fence"),
        ("sqlite:linked/ledger.db", "real/deep/fence"),
        ("sqlite:books/ledger.db", "../link-into-books"),
        ("sqlite:books/ledger.db", "books/link-outwards"),
    ],
)
def test_a_fence_in_the_folder_of_the_ledger_is_refused_everywhere(tmp_path: Path, url: str, fence: str) -> None:
    world = new_world(tmp_path / "world", url)
    for name in ("books", "real"):
        (world.folder / name).mkdir()
    (world.folder / "linked").symlink_to(world.folder / "real")
    (world.folder / "books" / "deep").mkdir()
    (world.folder / "outside").symlink_to(world.folder / "books" / "deep")
    (tmp_path / "link-into-books").symlink_to(world.folder / "books" / "fence")
    (world.folder / "books" / "link-outwards").symlink_to(tmp_path / "fence")
    text = world.path.read_text().replace(f'fence = "../{world.fence.parent.name}/fence"', f'fence = "{fence}"')
    world.path.write_text(text)
    with pytest.raises(ConfigError, match=r"^ledger.fence: must not be in .* state folder"):
        open_ledger(LedgerSettings(url, world.folder / fence), world.folder)
    with pytest.raises(ConfigError, match=r"^ledger.fence"):
        world.open()
    for command in COMMANDS:
        ran = CliRunner().invoke(main, [*command, "--config", str(world.path), "--json"])
        assert ran.exit_code == 2, ran.output
        assert "ledger.fence" in ran.output
    assert not list(world.folder.rglob("*.db"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder whose state folder is where it usually is."""
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize("url", ["sqlite:ledger.db", "sqlite:books/ledger.db", "sqlite:.local/ledger.db"])
def test_a_ledger_above_the_state_folder_is_refused_everywhere(home: Path, url: str) -> None:
    """The home folder is then the folder of the ledger, and a copy of it has the fence too."""
    world = new_world(home, url)
    without_fence(world)
    for name in ("books", ".local"):
        (home / name).mkdir()
    with pytest.raises(ConfigError, match=r"^ledger.url: must not be in .*folder of its own; or set \[ledger\] fence"):
        world.open()
    for command in COMMANDS:
        ran = CliRunner().invoke(main, [*command, "--config", str(world.path), "--json"])
        assert ran.exit_code == 2, ran.output
        assert "ledger.url" in ran.output
    assert not list(home.rglob("*.db"))
    assert not list(home.rglob("*.fence"))


def test_both_ways_out_of_a_home_folder_keep_what_was_spent(home: Path) -> None:
    world = new_world(home / "shop", information=LIMIT, calls=0)
    without_fence(world)
    with world.open() as session:
        assert spend(session, 1, 4) == 4
        old = session.ledger.fence.place
    for name in ("sfumato.toml", "noise.key", "rows.duckdb", "ledger.db"):
        (world.folder / name).rename(home / name)
    world = World(home)
    with pytest.raises(ConfigError, match=r"^ledger.url"):
        world.open()
    default = world.path.read_text()
    world.path.write_text(default.replace("[ledger]", '[ledger]\nfence = "../outside/fence"'))
    joined = CliRunner().invoke(main, ["budget", "join", old, "--config", str(world.path)])
    assert joined.exit_code == 0, joined.output
    with world.open() as session:
        assert spend(session, 5, 1) == 1
    world.path.write_text(default)
    moved = World(home / "books")
    moved.folder.mkdir()
    for name in ("sfumato.toml", "noise.key", "rows.duckdb", "ledger.db"):
        (home / name).rename(moved.folder / name)
    with moved.open() as session:
        assert session.ledger.fence.place == old
        assert spend(session, 6, LIMIT) == LIMIT - 5


def test_nothing_is_made_where_it_would_be_refused(home: Path) -> None:
    home.mkdir()
    rows = home.parent / "rows.csv"
    rows.write_text("person,colour\n1,red\n2,blue\n")
    for command in (["init", str(home), "--source", str(rows), "--unit", "person"], ["demo", "--dir", str(home)]):
        ran = CliRunner().invoke(main, command)
        assert (ran.exit_code, "ledger.url: must not be in" in ran.output) == (2, True), ran.output
    assert not list(home.iterdir())


def test_a_user_without_a_home_is_told_to_name_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no name."""

    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    world = new_world(tmp_path / "world")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", fail)
    world.open().close()
    without_fence(world)
    with pytest.raises(ConfigError, match=r"^ledger.fence: is needed here"):
        world.open()


def test_a_demo_can_be_removed_and_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    for _ in range(2):
        demo.run(200, folder)
        shutil.rmtree(folder)


def test_a_demo_in_a_temporary_folder_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    demo.run(200)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_copied_demo_is_no_second_budget(tmp_path: Path) -> None:
    demo.run(200, tmp_path / "shop")
    shutil.copytree(tmp_path / "shop", tmp_path / "copy")
    question = ["ask", "--analyst", "anna", "SELECT members FROM engagements WHERE region = 'emea'", "--json"]
    asked = CliRunner().invoke(main, [*question, "--config", str(tmp_path / "shop" / "sfumato.toml")])
    assert json.loads(asked.output)["receipt"]["charge"]["information"] == "1"
    again = CliRunner().invoke(main, [*question, "--config", str(tmp_path / "copy" / "sfumato.toml")])
    assert (again.exit_code, "older than its fence" in again.output) == (4, True)
