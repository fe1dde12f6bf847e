"""When something fails in the middle: nothing half-made is seen, and what was sealed stays what it is."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sfumato.engines.base import COULD_NOT_READ
from sfumato.errors import Conflict, EngineFailed, LedgerSetBack, NotSupported, Refused
from sfumato.session import Session
from tests.helpers.adverts import NOW, Adverts, ask, events, hierarchy, lasting, new_adverts
from tests.helpers.children import start

pytestmark = pytest.mark.slow  # processes that are killed

A0 = {"account": "a0"}


@pytest.fixture
def world(tmp_path) -> Adverts:
    return new_adverts(tmp_path / "world")


class Broken:
    """Stands in for an engine's `run`: fails as long as it is told to, and counts how often it was asked."""

    def __init__(self, session: Session, error: Exception | None = None) -> None:
        self.error, self.runs = error or EngineFailed("row 7 is 'a secret'"), 0
        self.well = False
        self._engine: Any = session._catalog.engine("ads")
        self._run = self._engine.run
        self._engine.run = self

    def __call__(self, query: Any) -> Any:
        self.runs += 1
        if not self.well:
            raise self.error
        return self._run(query)


def entities_known(session: Session) -> None:
    """Read the table of entities, so that what fails is the counting."""
    session._reports.entities(session._reports.policies["ads"], session.now())


def failure(session: Session, **question: Any) -> None:
    with pytest.raises(EngineFailed) as error:
        ask(session, **{"entity": A0, **question})
    assert str(error.value) == COULD_NOT_READ
    assert error.value.__cause__ is None
    assert error.value.__context__ is None  # nothing of the rows hangs on it


def nonces(world: Adverts) -> list[tuple[Any, ...]]:
    return sorted(world.tables()["seals"])


# -- the engine --


@pytest.mark.parametrize("error", [EngineFailed("row 7"), RuntimeError("row 7"), ValueError("row 7"), MemoryError()])
def test_an_engine_that_fails_is_told_in_words_that_say_nothing(world, error):
    with world.open() as session:
        entities_known(session)
        broken = Broken(session, error)
        failure(session, attribute="title")
        tables = world.tables()
        assert tables["cells"] == []
        assert len(tables["seals"]) == 12
        opened = nonces(world)
        broken.well = True
        found = ask(session, entity=A0, attribute="title")
        assert not found.receipt.repeat
        assert nonces(world) == opened
        assert lasting(ask(session, entity=A0, attribute="title")) == lasting(found)
        assert session.ledger.verify() == []


def test_the_nonce_of_a_failed_attempt_gives_the_numbers_of_one_that_did_not_fail(world):
    """What was never seen may be drawn again: the same rows and the same nonce are the same numbers."""
    with world.open() as session:
        entities_known(session)
        Broken(session)
        failure(session)
    kept = world.folder.parent / "kept"
    shutil.copytree(world.folder, kept)
    seen = world.fence.read_bytes()
    with world.open() as session:
        first = ask(session, entity=A0).rows
    shutil.rmtree(world.folder)
    kept.rename(world.folder)
    world.fence.write_bytes(seen)
    with world.open() as session:
        assert not (again := ask(session, entity=A0)).receipt.repeat
        assert again.rows == first


def test_rows_that_cannot_be_read_as_counts_are_a_failure_like_any_other(world):
    with world.open() as session:
        entities_known(session)
        engine: Any = session._catalog.engine("ads")
        run = engine.run
        for rows in ([("no segment",)], [(0, None)], [(99, 1)], [(0, "many")]):
            engine.run = lambda query, rows=rows: rows
            failure(session)
            session._reports._flights._failed.clear()
        engine.run = run
        assert ask(session, entity=A0).rows
    assert len(world.tables()["cells"]) == 12


def test_a_question_that_fails_again_and_again_pauses(world):
    with world.open() as session:
        entities_known(session)
        broken = Broken(session)
        for _ in range(5):
            failure(session)
        assert broken.runs == 2
        broken.well = True
        failure(session)  # still within its pause
        assert ask(session, entity=A0, end="2026-01-12").rows  # others are not held up
        session._reports._flights._clock = lambda: time.monotonic() + 60
        assert ask(session, entity=A0).rows


def test_a_table_of_entities_that_cannot_be_read_is_told_in_the_same_words(world):
    with world.open() as session:
        broken = Broken(session, EngineFailed("row 7 is 'a secret'"))
        with pytest.raises(EngineFailed) as error:
            ask(session, entity=A0)
        assert str(error.value) == COULD_NOT_READ
        broken.well = True
        assert ask(session, entity=A0).rows
    assert len(world.tables()["seals"]) == 12


def test_what_fails_in_its_second_part_shows_nothing_of_the_first(world):
    """Totals rest on breakdowns: each is read by itself."""
    question: dict[str, Any] = {"options": ["totals"]}
    with world.open() as session:
        entities_known(session)
        broken = Broken(session)
        broken.well = True
        run = broken._run

        def second_fails(query: Any) -> Any:
            if broken.runs == 2:
                raise EngineFailed("row 7")
            return run(query)

        broken._run = second_fails
        failure(session, **question)
        stored = world.tables()["cells"]
        assert len(stored) == 12
        found = ask(session, entity=A0, **question)
        assert set(stored) <= set(world.tables()["cells"])
        assert lasting(ask(session, entity=A0, **question)) == lasting(found)


def test_sums_beyond_all_measure_do_not_break_a_report(tmp_path):
    rows = f"SELECT i AS member, TIMESTAMP '2026-01-10' AS at, {2**62} AS n, 'n0' AS creative FROM range(9000) AS r (i)"
    huge = f"CREATE TABLE ads AS {rows}"
    world = new_adverts(tmp_path, *hierarchy(1), huge, attributes="", statistics='\nclicks = { sum = "n" }')
    with world.open() as session:
        [row] = ask(session, entity=A0).rows
        assert row["clicks"] > 2**39


# -- at the same time --


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [future.result(timeout=60) for future in [pool.submit(work) for work in works]]


def shifting(session: Session, wait_s: float = 0.05) -> None:
    """Every read sees other rows than the one before."""
    engine: Any = session._catalog.engine("ads")
    run, reads, lock = engine.run, [0], threading.Lock()

    def slow(query: Any) -> Any:
        rows = run(query)
        with lock:
            reads[0] += 1
            more = 1000 * reads[0]
        time.sleep(wait_s)  # so that several are between open and store
        return [(*row[:-1], row[-1] + more) for row in rows]

    engine.run = slow


def test_the_same_question_at_once_has_one_answer(world):
    with world.open() as session, world.open() as beside:
        for each in (session, beside):
            entities_known(each)
            shifting(each)
        works = [
            lambda each=each: ask(each, entity=A0, attribute="title", granularity="day")
            for each in (session, beside) * 4
        ]
        found = at_once(works)
        assert len({lasting(each) for each in found}) == 1
        assert session.ledger.verify() == []
    assert len(world.tables()["cells"]) == 12


def test_overlapping_questions_at_once_agree_on_what_they_share(world):
    ranges = [
        ("2026-01-10", "2026-01-22"),
        ("2026-01-12", "2026-01-20"),
        ("2026-01-11", "2026-01-15"),
        ("2026-01-14", "2026-01-22"),
    ]
    with world.open() as session, world.open() as beside:
        for each in (session, beside):
            entities_known(each)
            shifting(each)
        works = [
            lambda each=each, start=start, end=end, options=options: ask(
                each, entity=A0, start=start, end=end, granularity="day", options=options
            )
            for each in (session, beside)
            for start, end in ranges
            for options in ([], ["actions"])
        ]
        found = at_once(works)
        days: dict[Any, set[int]] = {}
        for report in found:
            if not report.options:
                for row in report.rows:
                    days.setdefault(row["start"], set()).add(row["clicks"])
        assert len(days) == 12
        assert all(len(numbers) == 1 for numbers in days.values())
        again = ask(session, entity=A0, granularity="day")
        assert {row["start"]: {row["clicks"]} for row in again.rows} == days
        assert session.ledger.verify() == []


def test_whoever_waits_for_a_question_that_fails_fails_with_it(world):
    with world.open() as session:
        entities_known(session)
        broken = Broken(session)
        run = broken.__call__

        def slow(query: Any) -> Any:
            end = time.monotonic() + 60
            while [flight.users for flight in session._reports._flights._used.values()] != [4]:
                assert time.monotonic() < end
                time.sleep(0.001)
            return run(query)

        session._catalog.engine("ads").run = slow  # type: ignore[method-assign]
        assert at_once([lambda: failure(session)] * 4) == [None] * 4
        assert broken.runs == 1
    assert world.tables()["cells"] == []


def test_numbers_that_were_drawn_while_their_range_was_sealed_anew_are_not_seen(world):
    world.write_config(report="max_versions = 2")
    with world.open() as session:
        ask(session, entity=A0, end="2026-01-12")
        resealed: dict[str, Any] = {"start": "2026-01-10", "end": "2026-01-12"}
        session.reseal("ads", **resealed)
        engine: Any = session._catalog.engine("ads")
        run = engine.run

        def meanwhile(query: Any) -> Any:
            rows = run(query)
            engine.run = run
            with world.open() as beside:
                ask(beside, entity=A0, end="2026-01-12")
            return rows

        engine.run = meanwhile
        found = ask(session, entity=A0, end="2026-01-12")
        assert found.receipt.data_version == "seal 2"
        assert lasting(ask(session, entity=A0, end="2026-01-12")) == lasting(found)
        with pytest.raises(Refused):
            session.reseal("ads", **resealed)


def test_a_seal_that_is_not_current_any_more_stores_nothing(world):
    world.write_config(report="max_versions = 3")
    with world.open() as session:
        entities_known(session)
        engine: Any = session._catalog.engine("ads")
        run = engine.run

        def meanwhile(query: Any) -> Any:
            rows = run(query)
            engine.run = run
            with world.open() as beside:
                ask(beside, entity=A0, end="2026-01-12")
                beside.reseal("ads", start="2026-01-10", end="2026-01-12")
            return rows

        engine.run = meanwhile
        with pytest.raises(Conflict, match="sealed again"):
            ask(session, entity=A0, end="2026-01-12")
        assert ask(session, entity=A0, end="2026-01-12").receipt.data_version == "seal 2"


# -- the ledger --


def test_a_ledger_restored_from_an_older_copy_is_refused(world):
    with world.open() as session:
        ask(session, entity=A0, end="2026-01-12")
    copy = world.folder / "copy.db"
    shutil.copy(world.ledger, copy)
    with world.open() as session:
        seen = ask(session, entity=A0)
    copy.replace(world.ledger)
    with pytest.raises(LedgerSetBack), world.open() as session:
        ask(session, entity=A0)
    assert seen.rows


def test_after_a_recovery_what_may_have_left_is_not_drawn_again(world):
    with world.open() as session:
        first = ask(session, entity=A0, end="2026-01-12")
    copy = world.folder / "copy.db"
    shutil.copy(world.ledger, copy)
    with world.open() as session:
        ask(session, entity=A0)
    copy.replace(world.ledger)
    from sfumato.config import load_config
    from sfumato.ledger import open_ledger

    config = load_config(world.path)
    with open_ledger(config.ledger, config.folder) as ledger:
        ledger.recover([], NOW)
    with world.open(NOW + timedelta(days=3)) as session:
        assert lasting(ask(session, entity=A0, end="2026-01-12")) == lasting(first)
        with pytest.raises(NotSupported, match="restored from a copy"):
            ask(session, entity=A0)
        assert ask(session, entity=A0, start="2026-02-02", end="2026-02-03").rows  # of which nothing can have left
        assert session.ledger.verify() == []


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def ask_and_die(folder: Path, moment: str) -> None:
    with Adverts(folder).open() as session:
        entities_known(session)
        if moment == "open":
            session._catalog.engine("ads").run = die
        else:
            session._reports._cells["ads"]._seals.store = die
        ask(session, entity=A0, attribute="title")


@pytest.mark.parametrize("moment", ["open", "drawn"])
def test_a_process_that_is_killed_before_it_stores_leaves_nothing_but_nonces(world, moment):
    assert start(ask_and_die, world.folder, moment).exit_code() == -signal.SIGKILL
    opened = nonces(world)
    assert len(opened) == 12
    assert world.tables()["cells"] == []
    with world.open() as session:
        found = ask(session, entity=A0, attribute="title")
        assert nonces(world) == opened
        assert lasting(ask(session, entity=A0, attribute="title")) == lasting(found)
        assert session.ledger.verify() == []


def test_late_rows_do_not_change_what_a_killed_process_had_not_shown(world):
    """The nonce of a seal that nobody saw meets the rows of later: nothing can be compared with them."""
    with world.open() as session:
        entities_known(session)
        Broken(session)
        failure(session)
    world.write_rows(*hierarchy(1), *events(1), "INSERT INTO ads SELECT * FROM ads")
    with world.open() as session:
        later = ask(session, entity=A0)
    world.write_rows(*hierarchy(1), *events(1))
    with world.open() as session:
        assert lasting(ask(session, entity=A0)) == lasting(later)
