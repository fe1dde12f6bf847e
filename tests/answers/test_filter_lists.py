"""Questions whose filter lists their groups, through `Session`: what is shown, what it costs, and what came before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING, Charge
from sfumato.config.noise_key import new_key
from sfumato.errors import EngineFailed, NotFound
from sfumato.query import plan as planning
from sfumato.query.request import Histogram, TopK
from sfumato.session import Session
from tests.helpers.worlds import World, standing

TITLES = Histogram("engagements", "job_title", "members", {"job_title": ["nurse", "astronaut"]})
ARTICLES = TopK("engagements", "article", "members", {"article": ["article-0", "article-1", "no such"]}, k=3)


@pytest.mark.parametrize(
    ("question", "column", "listed", "price"),
    [
        (TITLES, "job_title", {"nurse", "astronaut"}, Charge(1)),  # one title per person
        (ARTICLES, "article", {"article-0", "article-1", "no such"}, Charge(3)),  # any number of articles
    ],
)
def test_every_listed_value_has_its_row_for_units_alone(world: World, question: Any, column, listed, price):
    with world.open() as session:
        estimate = session.estimate(question, analyst="anna")
        answer = session.ask(question, analyst="anna")
        again = session.ask(question, analyst="anna")
    assert (estimate.worst, answer.receipt.charge) == (price, price)
    assert (answer.receipt.mechanism, answer.receipt.visible, estimate.visible) == ("known_gaussian", None, None)
    counts = {row[column]: row["members"] for row in answer.rows}
    assert counts.keys() == listed
    assert abs(min(counts.values())) < 60  # the value that no row has; the noise has a deviation of 4
    assert max(counts.values()) > 300
    assert answer.notes == []
    assert (again.rows, again.receipt.charge) == (answer.rows, NOTHING)


def test_the_rows_that_an_analyst_may_ask_about_list_groups_too(world: World):
    section = '[analysts.olga]\nbudget = "partner"\n'
    limited = section + "where = \"article IN ('article-0', 'no such')\"\n"
    world.path.write_text(world.path.read_text().replace(section, limited))
    with world.open() as session:
        answer = session.ask(TopK("engagements", "article", "members"), analyst="olga")
        assert {row["article"] for row in answer.rows} == {"article-0", "no such"}
        assert answer.receipt.charge == Charge(2)
        same = TopK("engagements", "article", "members", {"article": ["article-0", "no such"]})
        assert session.ask(same, analyst="anna").rows == answer.rows  # one question, one draw


TYPES: dict[str, tuple[str, list[str], list[Any], dict[Any, int]]] = {
    # the engine's type, the rows, the list, and the people of each listed value
    "text": ("VARCHAR", ["'a'", "'a '", "'A'", "'ä'", "NULL", "''"], ["a", "ä", ""], {"a": 1, "ä": 1, "": 1}),
    "text with a collation": ("VARCHAR COLLATE NOCASE", ["'a'", "'A'", "'A'"], ["a", "b"], {"a": 1, "b": 0}),
    "an enumeration": ("ENUM('z', 'a')", ["'a'", "'z'", "'z'"], ["z", "x"], {"z": 2, "x": 0}),
    "both zeros": ("DOUBLE", ["0.0", "-0.0", "0.1", "'nan'"], [0, "0.10"], {0.0: 2, 0.1: 1}),
    "floats": ("FLOAT", ["0.5", "0.1"], [0.5], {0.5: 1}),
    "decimals": ("DECIMAL(18, 3)", ["0.100", "0.1", "0.101"], ["0.1"], {0.1: 2}),
    "more digits than are compared": (
        "DECIMAL(38, 30)", ["0.1", "0.10000000000000000001", "0.100000000000000000000000000001"], ["0.1"], {0.1: 1},
    ),
    "whole numbers": ("HUGEINT", ["3", "4", "7", "170141183460469231731687303715884105727"], [3, 4], {3: 1, 4: 1}),
    "booleans": ("BOOLEAN", ["TRUE", "TRUE", "FALSE", "NULL"], [True, False], {True: 2, False: 1}),
    "days": ("DATE", ["'2026-11-01'", "'2026-11-02'", "'infinity'"], ["2026-11-01", "2026-11-03"],
             {"2026-11-01": 1, "2026-11-03": 0}),
    "moments": ("TIMESTAMPTZ", ["'2026-11-01 08:00:00+01'", "'2026-11-01 07:00Z'", "'2026-11-01 07:00:00.000001Z'"],
                ["2026-11-01T08:00:00+01:00"], {"2026-11-01 07:00:00": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_row_counts_for_the_value_that_it_equals(name: str, tmp_path: Path):
    """As Python has it: engines differ in what they take for equal. The noise is too small to change a number."""
    kind, rows, listed, expected = TYPES[name]
    with duckdb.connect(tmp_path / "d.duckdb") as database:
        database.execute(f"CREATE TABLE t (u INTEGER, x {kind})")
        database.execute(f"INSERT INTO t VALUES {', '.join(f'({u}, {value})' for u, value in enumerate(rows))}")
    new_key(tmp_path / "noise.key")
    (tmp_path / "books").mkdir()
    (tmp_path / "c.toml").write_text(
        '[ledger]\nurl = "sqlite:books/l.db"\n[engines.e]\ntype = "duckdb"\ndatabase = "d.duckdb"\n'
        '[tables.t]\nengine = "e"\nsource = "t"\nprivacy_unit = "u"\n[tables.t.columns]\nx = {}\n'
        '[tables.t.measures]\npeople = { count = "units" }\n'
        "[budgets.b]\nepsilon_per = 80\ndelta_per = 1e-10\ninformation = 100\ncalls = 1\n"
        '[analysts.anna]\nbudget = "b"\n'
    )
    with Session(tmp_path / "c.toml") as session:
        answer = session.ask(Histogram("t", "x", "people", {"x": listed}), analyst="anna")
    assert {
        row["x"] if isinstance(row["x"], str | float | int) else str(row["x"]): row["people"] for row in answer.rows
    } == expected


# What an earlier version asked and stored: there the list of a filter was not a domain.


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(planning, "_values", lambda column, passing: column.domain)
    return monkeypatch


@pytest.mark.parametrize("question", [TITLES, ARTICLES])
def test_a_stored_answer_stays_and_the_question_is_a_new_one(world: World, question: Any, earlier: pytest.MonkeyPatch):
    with world.open() as session:
        before = session.ask(question, analyst="anna")
    assert before.receipt.charge.calls == 1
    earlier.undo()
    with world.open() as session:
        assert session.recall(before.receipt.digest, analyst="anna").rows == before.rows
        now = session.ask(question, analyst="anna")
        assert (now.receipt.charge.calls, now.receipt.repeat) == (0, False)
        assert now.receipt.digest != before.receipt.digest
        assert session.recall(before.receipt.digest, analyst="anna").rows == before.rows
        assert session.ledger.verify() == []


def test_what_an_earlier_version_reserved_is_closed_at_its_worst_case(world: World, earlier: pytest.MonkeyPatch):
    earlier.setattr("sfumato.engines.duckdb.DuckDBEngine.run", lambda self, query: 1 / 0)
    with world.open() as session:
        with pytest.raises(EngineFailed):
            session.ask(ARTICLES, analyst="anna")
        digest = session.charges("anna").rows[0].digest
        assert standing(session, "analyst:anna").reserved == Charge(7, 1)
    earlier.undo()
    with world.open() as session:
        assert session.ledger.reservations() == []
        assert (standing(session, "analyst:anna").spent, standing(session, "analyst:anna").reserved) == (
            Charge(7, 1),
            NOTHING,
        )
        with pytest.raises(NotFound):
            session.recall(digest, analyst="anna")
        assert session.ask(ARTICLES, analyst="anna").receipt.charge == Charge(3)
        assert session.ledger.verify() == []


def test_sql_and_json_list_the_same_groups(world: World):
    sql = "SELECT job_title, members FROM engagements WHERE job_title IN ('nurse', 'astronaut') GROUP BY job_title"
    serial = {"type": "histogram", "table": "engagements", "by": "job_title", "measure": "members",
              "where": {"or": [{"job_title": "nurse"}, {"job_title": "astronaut"}]}}  # fmt: skip
    with world.open() as session:
        answers: list[sf.Answer] = [session.ask(question, analyst="anna") for question in (TITLES, sql, serial)]
    assert len({answer.receipt.digest for answer in answers}) == 1
    assert [answer.receipt.charge for answer in answers] == [Charge(1), NOTHING, NOTHING]
