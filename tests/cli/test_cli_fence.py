"""`sfumato budget fence` and `sfumato budget join`: a fence that is taken over, and nothing is spent for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sfumato.accounting import Charge
from sfumato.cli import main
from sfumato.ledger.file_fence import FileFence
from sfumato.session import Session
from tests.contracts.fence import mark
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.usefixtures("damage_is_named")  # a wrong mark is no damaged ledger

TOTAL = "SELECT members FROM engagements WHERE n <> {}"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two answers were given; the fence was moved to `kept`, and another has seen the first answer only."""
    made = new_world(tmp_path / "world", information=10, calls=0)
    with made.open() as session:
        session.ask(TOTAL.format(1), analyst="olga")
        (tmp_path / "older").write_bytes(made.fence.read_bytes())
        session.ask(TOTAL.format(2), analyst="olga")
    (tmp_path / "kept").mkdir()
    made.fence.rename(tmp_path / "kept" / "ledger.fence")
    return made


def invoke(world: World, *arguments: str, **options: str | bytes) -> Result:
    return CliRunner().invoke(main, [*arguments, "--config", str(world.path)], **options)


def spent(world: World) -> Charge:
    with Session(world.path) as session:
        return session.budget("olga").accounts[0].spent


def test_without_a_fence_the_message_says_to_join_first_and_to_recover_last(world: World) -> None:
    words = invoke(world, "budget", "show").output
    assert 0 < words.index("budget join") < words.index("budget recover")


@pytest.mark.parametrize("source", ["kept/ledger.fence", "kept", "kept/"])
def test_a_fence_is_taken_over_and_nothing_is_spent(world: World, tmp_path: Path, source: str) -> None:
    result = invoke(world, "budget", "join", f"{tmp_path}/{source}", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert Path(found["fence"]).samefile(world.fence)
    assert found["seen"] == 5  # the policy; two answers, reserved and settled
    assert spent(world) == Charge(2)
    assert FileFence(world.fence).mark() == FileFence(tmp_path / "kept" / "ledger.fence").mark()


def test_a_mark_is_printed_on_one_machine_and_joined_on_another(world: World, tmp_path: Path) -> None:
    world.fence.write_bytes((tmp_path / "kept" / "ledger.fence").read_bytes())
    printed = invoke(world, "budget", "fence").output
    assert invoke(world, "budget", "fence", "--json").output == printed
    assert len(printed.splitlines()) == 1
    world.fence.unlink()
    result = invoke(world, "budget", "join", "-", input=printed)
    assert result.exit_code == 0, result.output
    assert "has seen 5 rows" in " ".join(result.output.split())
    assert spent(world) == Charge(2)


def test_a_machine_without_a_fence_has_none_to_print(world: World) -> None:
    assert invoke(world, "budget", "fence").exit_code == 4


def test_what_a_fence_has_seen_stays(world: World, tmp_path: Path) -> None:
    invoke(world, "budget", "join", str(tmp_path / "kept"))
    before = FileFence(world.fence).mark()
    assert invoke(world, "budget", "join", str(tmp_path / "older")).exit_code == 0
    assert FileFence(world.fence).mark() == before


def test_an_old_copy_of_the_ledger_cannot_join(world: World, tmp_path: Path) -> None:
    books = (world.folder / "ledger.db").read_bytes()
    invoke(world, "budget", "join", str(tmp_path / "kept"))
    with world.open() as session:
        session.ask(TOTAL.format(3), analyst="olga")
    for file in world.folder.glob("ledger.db*"):
        file.unlink()
    (world.folder / "ledger.db").write_bytes(books)
    (world.folder / "ledger.db").chmod(0o600)
    newest = tmp_path / "newest"
    world.fence.rename(newest)
    result = invoke(world, "budget", "join", str(newest))
    assert (result.exit_code, "older than its fence" in result.output) == (4, True)
    assert not world.fence.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere", "FROM: there is no fence"),
        ("", "FROM: must name a fence"),
        ("missing/", "there is no folder"),
        ("mysql://somewhere", "must be the path of a file or a folder"),
        ("foreign", "FROM: is not of this ledger"),
        ("-", "FROM: what came is no mark"),
    ],
)
def test_a_source_that_is_no_fence_of_this_ledger_is_refused(
    world: World, tmp_path: Path, source: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FileFence(tmp_path / "foreign").restart(mark(3, "another"))
    result = invoke(world, "budget", "join", source, input="no mark")
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert not world.fence.exists()


def test_the_fence_of_another_ledger_is_not_overwritten(world: World, tmp_path: Path) -> None:
    FileFence(world.fence).restart(mark(3, "another"))
    result = invoke(world, "budget", "join", str(tmp_path / "kept"))
    assert result.exit_code == 2
    assert "ledger.fence: holds the mark of another ledger" in " ".join(result.output.split())
    assert FileFence(world.fence).mark() == mark(3, "another")
