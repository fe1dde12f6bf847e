"""Statements with several questions: reserved together, paid for once each, and the same after any failure."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import BudgetExhausted, Conflict, EngineFailed, NotFound
from sfumato.ledger import IdempotentCall
from sfumato.statements import join_digests
from tests.answers.test_kills import instrument, places
from tests.helpers.children import alone
from tests.helpers.worlds import NOW, World, new_world, spent

PEOPLE = "SELECT region, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY region"
SHARES = "SELECT region, COUNT(*) AS shares FROM engagements GROUP BY region"
ARTICLES = "SELECT article, members AS people FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 4"
BOTH = f"WITH p AS ({PEOPLE}), s AS ({SHARES}) SELECT p.region, people, shares FROM p JOIN s ON p.region = s.region"


def sum_of(charges: Any) -> Charge:
    return sum(charges, NOTHING)


def test_a_statement_is_its_parts(world: World):
    with world.open() as session:
        estimate = session.estimate(BOTH, analyst="anna")
        answer = session.ask(BOTH, analyst="anna")
        receipt = answer.receipt
        assert receipt.charge == sum_of(part.charge for part in receipt.parts) == spent(session, "anna")
        assert estimate.charge.worst == sum_of(part.charge.worst for part in estimate.parts) == receipt.charge
        assert receipt.digest == join_digests([part.digest for part in receipt.parts])
        assert (receipt.left, receipt.repeat) == (receipt.parts[-1].left, False)
        members, shares = (part.error95 for part in receipt.parts)
        assert receipt.error95 == {"people": members["members"], "shares": shares["shares"]} == estimate.error95
        assert receipt.measures == ["shares"]
        assert not answer.has_note("no-interval")
        alone = [session.ask(sql, analyst="anna") for sql in (PEOPLE, SHARES)]
        assert [each.receipt.repeat for each in alone] == [True, True]
        by_region = [{row["region"]: row for row in each.rows} for each in alone]
        for row in answer.rows:
            assert row["people"] == by_region[0][row["region"]]["people"]
            assert row["shares"] == by_region[1][row["region"]]["shares"]
        for part in receipt.parts:
            assert session.recall(part.digest, analyst="anna").receipt == part
        with pytest.raises(NotFound, match=r"recalled by its own digest, which is in receipt\.parts"):
            session.recall(receipt.digest, analyst="anna")
        assert {row.digest for row in session.questions("anna").rows} == {part.digest for part in receipt.parts}
        again = session.ask(BOTH, analyst="anna")
        assert (again.rows, again.receipt.repeat, again.receipt.charge) == (answer.rows, True, NOTHING)
        assert [*again.receipt.parts[0].error95] == ["members"]
        assert "2 questions" in str(answer)
        assert session.estimate(BOTH, analyst="anna").charge.worst == NOTHING


def test_an_interval_goes_where_it_is_known_and_no_further(world: World):
    people = "SELECT COUNT(DISTINCT member_id) FROM engagements"
    regions = f"SELECT region, people, ({people}) AS everyone, ({people} WHERE n > 3) AS few FROM ({PEOPLE}) t"
    parts = "people, people - everyone AS d, people + everyone - 2 * few AS e, people / everyone AS share, everyone"
    with world.open() as session:
        answer = session.ask(f"WITH t AS ({regions}) SELECT region, {parts} FROM t", analyst="anna")
        errors, one = answer.receipt.error95, answer.receipt.parts[0].error95["members"]
        assert errors.keys() == {"people", "d", "e", "everyone"}
        assert errors["people"] == errors["everyone"] == one
        assert 1.3 * one < errors["d"] < 1.6 * one
        assert 4 * one < errors["e"] < 6 * one
        assert answer.receipt.signed == ["d", "e"]
        assert [note.code for note in answer.notes] == ["no-interval"]
        assert "share" in answer.lines()["rows"]
        frame = answer.to_pandas()
        assert (frame["d_high"] - frame["d"] == errors["d"]).all()
        # at most three rows: LIMIT 4 leaves out none
        for end, known in (("LIMIT 4", True), ("LIMIT 3", False), ("WHERE people > 0", False), ("ORDER BY d", True)):
            shaped = f"WITH t AS ({regions}), u AS (SELECT region, {parts} FROM t) SELECT * FROM u {end}"
            asked = session.ask(shaped, analyst="anna")
            assert bool(asked.receipt.error95) == known, end
            estimate = session.estimate(shaped, analyst="anna").error95
            assert estimate == ({} if "LIMIT" in end else asked.receipt.error95)
        pair = "SELECT a.people AS x, a.people - b.people AS y FROM ({}) a JOIN ({}) b USING ({})"
        picked = pair.format(ARTICLES, ARTICLES.replace("GROUP", "WHERE n > 3 GROUP"), "article")
        assert session.ask(picked, analyst="anna").receipt.error95.keys() == {"x", "y"}
        titles = "SELECT job_title, members AS people FROM engagements WHERE n > {} GROUP BY job_title"
        above = pair.format(titles.format(1), titles.format(3), "job_title")
        joined = session.ask(above, analyst="anna")  # what stands above a threshold is there because of its noise
        assert joined.receipt.error95 == {}
        assert joined.has_note("no-interval")


def test_a_core_that_is_paid_for_is_not_paid_for_again_in_any_statement(world: World):
    with world.open() as session:
        first = session.ask(PEOPLE, analyst="anna").receipt
        both = session.ask(BOTH, analyst="anna").receipt
        assert [part.repeat for part in both.parts] == [True, False]
        twice = session.ask(f"{PEOPLE} UNION ALL {PEOPLE}", analyst="anna").receipt
        assert (twice.digest, twice.repeat, twice.parts) == (first.digest, True, [])
        short = f"SELECT * FROM ({ARTICLES}) a UNION ALL SELECT * FROM ({PEOPLE}) r"
        session.ask(short, analyst="anna")
        longer = session.ask(short.replace("LIMIT 4", "LIMIT 6"), analyst="anna").receipt
        other = session.ask(ARTICLES.replace("LIMIT 4", "LIMIT 6"), analyst="ben").receipt
        assert longer.parts[0].charge < other.charge


def test_all_are_reserved_or_none_and_before_any_row_is_read(world: World, monkeypatch: pytest.MonkeyPatch):
    world.write_config(information=4)
    with world.open() as session:
        read = []
        monkeypatch.setattr(DuckDBEngine, "run", lambda *_: read.append(1))
        three = " UNION ALL ".join(f"SELECT members FROM engagements WHERE n = {n}" for n in range(5))
        with pytest.raises(BudgetExhausted) as refused:
            session.ask(three, analyst="anna")
        assert refused.value.asked == Charge(5)
        assert (read, spent(session, "anna"), session.questions("anna").rows) == ([], NOTHING, [])
        assert not world.tables()["holds"]


LISTED = "SELECT article, members FROM engagements GROUP BY article"
WAYS = {
    "lists of a UNION": f"{LISTED} UNION ALL SELECT day, members FROM engagements GROUP BY day",
    "lists that are joined": f"WITH a AS ({LISTED}), b AS ({LISTED.replace('GROUP', 'WHERE n > 3 GROUP')}) "
    "SELECT a.article, a.members - b.members AS d FROM a JOIN b ON a.article = b.article ORDER BY d",
    "a list beside a total": "SELECT article, people, (SELECT members FROM engagements) AS everyone FROM "
    "(SELECT article, members AS people FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 12) t",
    "rows that are picked": "WITH e AS (SELECT * FROM engagements WHERE n > 1) SELECT article, COUNT(*) FROM e "
    "GROUP BY article UNION ALL SELECT region, COUNT(*) FROM e GROUP BY region",
}


@pytest.mark.parametrize("sql", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("information", [9, 14, 20])
def test_a_statement_that_does_not_fit_is_offered_with_shorter_lists(world: World, sql: str, information: int):
    world.write_config(information=information)
    with world.open() as session:
        with pytest.raises(BudgetExhausted) as refused:
            session.ask(sql, analyst="anna")
        assert spent(session, "anna") == NOTHING
        [shorter], longest = refused.value.instead, refused.value.longest
        assert f"a list of {longest} would fit" in str(refused.value)
        worst = session.estimate(shorter, analyst="anna").charge.worst
        assert worst.information <= information
        longer = shorter["sql"].replace(f"LIMIT {longest}", f"LIMIT {longest + 1}")
        assert longer != shorter["sql"]
        assert session.estimate(longer, analyst="anna").charge.worst.information > information
        answer = session.ask(shorter, analyst="anna")
        assert answer.columns.keys() == session.ask(f"SELECT * FROM ({sql}) t LIMIT 0", analyst="anna").columns.keys()
        assert answer.receipt.charge.information <= information


def test_where_no_shorter_statement_fits_its_questions_are_offered_one_by_one(world: World):
    world.write_config(information=4)
    with world.open() as session:
        totals = " UNION ALL ".join(f"SELECT members FROM engagements WHERE n = {n}" for n in range(5))
        for sql, kinds in (
            (totals, ["total", "total"]),
            (
                f"SELECT market, members FROM engagements GROUP BY market UNION ALL {LISTED} HAVING members > 9",
                ["top_k", "top_k"],
            ),
        ):
            with pytest.raises(BudgetExhausted) as refused:
                session.ask({"sql": sql}, analyst="anna")
            assert refused.value.longest is None
            assert [each["type"] for each in refused.value.instead] == kinds
            for each in refused.value.instead:
                assert session.estimate(each, analyst="anna").charge.worst.information <= 4
            assert spent(session, "anna") == NOTHING
        assert session.ask(refused.value.instead[0], analyst="anna").receipt.charge.information <= 4


def test_a_failure_between_two_cores_keeps_both_reserved_and_asking_again_is_free(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    with world.open() as session:
        real, calls = DuckDBEngine.run, itertools.count()

        def fail_second(self: Any, query: Any) -> Any:
            if next(calls) == 1:
                raise EngineFailed("no")
            return real(self, query)

        monkeypatch.setattr(DuckDBEngine, "run", fail_second)
        with pytest.raises(EngineFailed):
            session.ask(BOTH, analyst="anna")
        states = [row.state for row in session.questions("anna").rows]
        assert sorted(states) == ["reserved", "settled"]
        answer = session.ask(BOTH, analyst="anna")
        assert [part.repeat for part in answer.receipt.parts] == [True, False]
        assert spent(session, "anna") == session.estimate(BOTH, analyst="ben").charge.worst


def test_a_call_with_an_idempotency_key_gives_what_it_gave_then(world: World):
    call, other = IdempotentCall.of("key", BOTH.encode()), IdempotentCall.of("key", b"another body")
    with world.open() as session:
        first = session.ask(BOTH, analyst="anna", call=call)
        assert session.ask(BOTH, analyst="anna", call=call) == first
        with pytest.raises(Conflict):
            session.ask(PEOPLE, analyst="anna", call=other)
        free = session.ask(BOTH, analyst="anna", call=IdempotentCall.of("new", BOTH.encode()))
        assert (free.receipt.repeat, free.receipt.charge, free.rows) == (True, NOTHING, first.rows)
        assert session.ask(BOTH, analyst="anna", call=IdempotentCall.of("new", BOTH.encode())) == free
    world.write_config(version='{ value = "v2" }')
    with world.open() as session:  # the data has a new version since
        again = session.ask(BOTH, analyst="anna", call=call)
        assert (again.rows, again.receipt) == (first.rows, first.receipt)
        assert session.ask(BOTH, analyst="anna").receipt.digest != first.receipt.digest


def test_a_call_that_failed_half_way_is_finished_by_its_next_attempt(world: World, monkeypatch: pytest.MonkeyPatch):
    call = IdempotentCall.of("key", BOTH.encode())
    with world.open() as session:
        real, calls = DuckDBEngine.run, itertools.count()

        def fail_second(self: Any, query: Any) -> Any:
            if next(calls) == 1:
                raise EngineFailed("no")
            return real(self, query)

        monkeypatch.setattr(DuckDBEngine, "run", fail_second)
        with pytest.raises(EngineFailed):
            session.ask(BOTH, analyst="anna", call=call)
        answer = session.ask(BOTH, analyst="anna", call=call)
        assert [part.repeat for part in answer.receipt.parts] == [False, False]
        assert answer.receipt.charge == spent(session, "anna")


def life(folder: str, stop: int | None, out: str) -> list[str]:
    """A child that asks, and kills itself at a point; what it has met."""
    world, met = World(Path(folder), "sqlite:ledger.db"), Path(out)
    met.unlink(missing_ok=True)
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or status == 0, f"a child failed with {status}"
        return met.read_text().splitlines()
    status, count = 1, itertools.count()
    try:
        log = os.open(out, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

        def hit(point: str, when: str) -> None:
            os.write(log, f"{when} {point}\n".encode())
            if next(count) == stop:
                os.kill(os.getpid(), signal.SIGKILL)

        instrument(hit)
        with world.open(NOW) as session:
            answer = session.ask(BOTH, analyst="anna")
            (Path(folder) / "answer").write_text(json.dumps([answer.rows, spent(session, "anna").to_dict()]))
        status = 0
    finally:
        os._exit(status)


def killed_everywhere(folder: str) -> list[str]:
    """Runs alone: one ledger for each place, killed there; then the statement is asked again."""
    problems = []
    new_world(Path(folder) / "whole")
    met = life(f"{folder}/whole", None, f"{folder}/met")
    price = json.loads((Path(folder) / "whole" / "answer").read_text())[1]
    for place in places(met):
        world = new_world(Path(folder) / str(place))
        life(str(world.folder), place, f"{folder}/met")
        life(str(world.folder), None, f"{folder}/met")
        _, paid = json.loads((world.folder / "answer").read_text())
        kinds = [row[2] for row in world.tables()["journal"] if row[2] in ("reserve", "settle", "keep")]
        accounts = 2  # her own and the organisation's
        each = ["reserve"] * 2 * accounts + ["settle"] * 2 * accounts
        if paid != price or sorted(kinds) != each or world.tables()["holds"]:
            problems.append(f"{met[place]} ({place}): {paid}, {kinds}")
        shutil.rmtree(world.folder)
    return [*problems, *([] if met.count("after commit") >= 3 else ["the points were not met"])]


@pytest.mark.slow
def test_killed_anywhere_each_core_is_reserved_once_settled_once_and_paid_for_once(tmp_path: Path):
    assert alone(killed_everywhere, str(tmp_path)) == []
