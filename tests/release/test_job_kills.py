"""Jobs that are killed, and jobs that are run twice at once: one charge, one whole table."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfumato.accounting import NOTHING
from sfumato.errors import Conflict
from sfumato.ledger import payments
from sfumato.release import job, outputs
from sfumato.release.outputs import read, target
from sfumato.release.verify import differences
from sfumato.session import Session
from tests.helpers.children import Child, start
from tests.release.test_jobs import ITEMS, PRICE, World, new_world, unread, values

pytestmark = pytest.mark.slow

KILLED = 9

POINTS: dict[str, tuple[Any, ...]] = {
    "before reserve": (payments, "reserve", "before"),
    "after reserve": (payments, "reserve", "after"),
    "before the rows": (job.Job, "_compute", "before"),
    "after the rows": (job.Job, "_compute", "after"),
    "before settle": (payments, "settle", "before"),
    "after settle": (payments, "settle", "after"),
    "before write": (outputs, "write", "before"),
    "before the statement's rename": (os, "replace", "before", ".statement.json"),
    "after the statement's rename": (os, "replace", "after", ".statement.json"),
    "after the table's rename": (os, "replace", "after", "table.parquet"),
    "after write": (outputs, "write", "after"),
}
RESERVED = {"after reserve", "before the rows", "after the rows", "before settle"}


def die(owner: Any, name: str, when: str, place: str = "") -> None:
    """From now on, the process ends at once before or after its first call of this, if need be with this place."""
    real = getattr(owner, name)

    def dying(*arguments: Any, **named: Any) -> Any:
        if not str(arguments[-1]).endswith(place):
            return real(*arguments, **named)
        if when == "after":
            real(*arguments, **named)
        os._exit(KILLED)

    setattr(owner, name, dying)


def child(folder: str, ledger: str, out: str, point: str, meet: int) -> list[Any]:
    """What a process does: meet the others, run the job, and return what it has."""
    world = World(Path(folder), ledger)
    if point:
        die(*POINTS[point])
    if meet:
        (world.folder / f"here-{os.getpid()}").touch()
        while len([*world.folder.glob("here-*")]) < meet:
            time.sleep(0.001)
    return values(world.counts(out=out).run())


def started(world: World, out: str, point: str = "", meet: int = 0) -> Child:
    return start(child, str(world.folder), world.ledger, out, point, meet)


def killed(world: World, out: str, point: str) -> None:
    assert started(world, out, point).exit_code() == KILLED


def whole(out: str) -> list[tuple[Any, ...]]:
    """What stands there, if it is what was released."""
    assert differences(target(out)) == []
    found = values(read(target(out)))
    assert {row[0] for row in found} <= {*ITEMS}
    assert found
    return sorted(found)


@pytest.mark.parametrize("point", POINTS)
def test_a_job_that_was_killed_is_run_again_under_its_one_charge(tmp_path: Path, point: str) -> None:
    world = new_world(tmp_path / "world")
    out = world.out()
    killed(world, out, point)
    assert Path(out).exists() == (point in ("after the table's rename", "after write"))
    spent, reserved = world.spent()
    if point == "before reserve":
        assert (spent, reserved) == (NOTHING, NOTHING)
    else:
        assert (spent, reserved) == ((NOTHING, PRICE) if point in RESERVED else (PRICE, NOTHING))
    with Session(world.config):  # finishes questions, and leaves releases alone
        assert world.spent() == (spent, reserved)
    if point != "before reserve":
        with pytest.raises(Conflict):
            world.counts(out=out, rho=2).run()
    world.counts(out=out).run()
    first = whole(out)
    world.lose()
    world.counts(out=out).run()
    assert whole(out) == first
    assert world.spent() == (PRICE, NOTHING)
    assert world.wrong() == []


@pytest.mark.parametrize("point", ["after settle", "before write", "before the statement's rename", "after write"])
def test_what_was_settled_is_not_read_again(tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world(tmp_path / "world")
    killed(world, world.out(), point)
    world.change()
    unread(monkeypatch)
    world.counts(out=world.out()).run()
    assert {row[0] for row in whole(world.out())} <= {*ITEMS}  # not "other", as all rows are now


def test_what_was_not_settled_may_be_of_other_rows(tmp_path: Path) -> None:
    """Nothing of the first run was seen."""
    world = new_world(tmp_path / "world")
    killed(world, world.out(), "after the rows")
    world.change("SELECT user_id, 'item-7' AS item, region, amount, n, day")
    world.counts(out=world.out()).run()
    assert {row[0] for row in whole(world.out())} == {"item-7"}
    assert world.spent() == (PRICE, NOTHING)


def test_a_job_killed_again_and_again_is_charged_once(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world")
    for point in POINTS:
        killed(world, world.out(), point)
    first = whole(world.out())
    world.counts(out=world.out()).run()
    assert whole(world.out()) == first
    assert world.spent() == (PRICE, NOTHING)
    assert world.wrong() == []


@pytest.mark.parametrize("point", ["before write", "after write"])
@pytest.mark.parametrize("out", ["table.csv", "table.duckdb#t"])
def test_a_kill_leaves_nothing_or_all_of_it_elsewhere_too(tmp_path: Path, point: str, out: str) -> None:
    world = new_world(tmp_path / "world")
    killed(world, world.out(out), point)
    world.counts(out=world.out(out)).run()
    whole(world.out(out))
    assert world.spent() == (PRICE, NOTHING)


@pytest.mark.parametrize("turn", range(2))
@pytest.mark.parametrize("outs", [["a.parquet"] * 4, ["a.parquet", "b.parquet", "c.csv", "d.duckdb#t"]])
def test_several_processes_with_one_job_have_one_table_for_one_charge(
    tmp_path: Path, outs: list[str], turn: int
) -> None:
    world = new_world(tmp_path / f"world-{turn}")
    running = [started(world, world.out(out), meet=len(outs)) for out in outs]
    told = {json.dumps(sorted(process.result())) for process in running}
    assert len(told) == 1
    assert {json.dumps(whole(world.out(out))) for out in {*outs}} == told
    if "b.parquet" in outs:
        assert Path(world.out("a.parquet")).read_bytes() == Path(world.out("b.parquet")).read_bytes()
    assert world.spent() == (PRICE, NOTHING)
    assert world.wrong() == []


class TestPostgres:
    def test_a_ledger_keeps_a_job_too(self, tmp_path: Path, postgres_url: str) -> None:
        world = new_world(tmp_path / "world", postgres_url)
        killed(world, world.out(), "before settle")
        assert world.spent() == (NOTHING, PRICE)
        world.counts(out=world.out()).run()
        first = Path(world.out()).read_bytes()
        world.lose()
        world.counts(out=world.out()).run()
        assert Path(world.out()).read_bytes() == first
        assert world.spent() == (PRICE, NOTHING)
        assert world.wrong() == []

    def test_a_ledger_serves_several_processes(self, tmp_path: Path, postgres_url: str) -> None:
        world = new_world(tmp_path / "world", postgres_url)
        running = [started(world, world.out(f"{turn}.parquet"), meet=3) for turn in range(3)]
        assert len({json.dumps(process.result()) for process in running}) == 1
        assert world.spent() == (PRICE, NOTHING)
        assert world.wrong() == []

    @pytest.mark.parametrize("point", ["before write", "after write"])
    def test_a_table_is_there_whole_or_not_at_all(self, tmp_path: Path, postgres_url: str, point: str) -> None:
        world = new_world(tmp_path / "world")
        out = f"{postgres_url}#monthly"
        killed(world, out, point)
        world.counts(out=out).run()
        first = whole(out)
        world.lose()
        world.counts(out=out).run()
        assert whole(out) == first
        assert world.spent() == (PRICE, NOTHING)

    def test_a_job_without_a_ledger_is_remembered_by_its_table(self, tmp_path: Path, postgres_url: str) -> None:
        world = new_world(tmp_path / "world")
        alone = {"config": None, "budget": None, "out": f"{postgres_url}#monthly"}
        first = world.counts(**alone).run()
        world.lose()
        assert {*values(world.counts(**alone).run())} == {*values(first)}
        with pytest.raises(Conflict):
            world.counts(**alone | {"rho": 2}).run()


def test_the_checks_find_a_torn_table(tmp_path: Path) -> None:
    """The check above can fail."""
    world = new_world(tmp_path / "world")
    world.counts(out=world.out("t.duckdb#t")).run()
    whole(world.out("t.duckdb#t"))
    with duckdb.connect(world.out("t.duckdb")) as connection:
        connection.execute("DELETE FROM t WHERE item = (SELECT min(item) FROM t)")
    with pytest.raises(AssertionError):
        whole(world.out("t.duckdb#t"))
