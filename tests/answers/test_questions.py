"""What was asked is kept with every charge, whole, and shown to the one who asked."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.errors import EngineFailed, InvalidArgument, NotFound
from sfumato.query.request import Histogram, TopK, Total
from sfumato.query.sql import read_sql
from sfumato.session import Session
from tests.helpers.worlds import NOW, World, new_world

LONG = {"n": [*range(0, 2000, 2)]}
ASKED = (
    TopK("engagements", "article", "members", k=5, where={"region": "emea"}),
    "SELECT article FROM engagements GROUP BY article ORDER BY members DESC LIMIT 3",
    {"type": "top_k", "table": "engagements", "by": ["region", "article"], "measure": "shares", "where": LONG},
    Histogram("engagements", "region", "members"),
    Total("engagements", "members", where={"not": {"region": ["emea", "apac"]}}),
    "SELECT upper(region), length(article) % 2, members FROM engagements WHERE article IS NOT NULL "
    "GROUP BY 1, 2 LIMIT 3",
    Histogram("engagements", "n % 3", "members", where={"n": {"between": [0, 9]}, "article LIKE '%a_'": False}),
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path / "world")


@pytest.mark.parametrize("asked", ASKED)
def test_both_forms_of_what_was_asked_are_the_same_question(world: World, asked: object) -> None:
    with world.open() as session:
        answer = session.ask(asked, analyst="anna")
        rows = session.charges("anna").rows
        assert rows
        for row in rows:
            assert row.digest == answer.receipt.digest
            for again in (row.request, row.sql, read_sql(row.sql, session._catalog.policy(session.now()))):
                repeated = session.ask(again, analyst="anna")
                assert (repeated.receipt.digest, repeated.receipt.repeat) == (answer.receipt.digest, True)
        assert session.charges("anna").rows == rows
        assert session.ledger.verify() == []


def test_an_analyst_reads_her_own_questions_only(world: World) -> None:
    with world.open() as session:
        session.ask(ASKED[0], analyst="anna")
        session.ask(ASKED[4], analyst="ben")
        assert {row.request["type"] for row in session.charges("anna").rows} == {"top_k"}
        assert {row.request["type"] for row in session.charges("ben").rows} == {"total"}


class TestListed:
    def test_what_an_analyst_asked(self, world: World) -> None:
        """One row per question that was paid for, the latest first: both forms, price, error, digest."""
        with world.open() as session:
            answers = [session.ask(asked, analyst="anna") for asked in ASKED[:2]]
            session.ask(ASKED[0], analyst="anna")  # a repeat
            session.ask(ASKED[4], analyst="ben")
            page = session.questions("anna")
            assert [row.digest for row in page.rows] == [answer.receipt.digest for answer in reversed(answers)]
            for row, answer in zip(page.rows, reversed(answers), strict=True):
                receipt = answer.receipt
                assert (row.analyst, row.state, row.outcome) == ("anna", "settled", "answered")
                assert (row.charge, row.error95, row.recallable) == (receipt.charge, receipt.error95, True)
                assert session.recall(row.digest, analyst="anna").rows == answer.rows
                assert session.ask(row.request, analyst="anna").receipt.repeat
                assert session.ask(row.sql, analyst="anna").receipt.repeat
            assert [row.analyst for row in session.questions("ben").rows] == ["ben"]

    def test_no_answer_is_in_it(self, world: World) -> None:
        with world.open() as session:
            answer = session.ask(ASKED[0], analyst="anna")
            for page in (session.questions("anna"), session.all_questions()):
                text = page.to_json().decode()
                assert not any(row["article"] in text for row in answer.rows)
                assert not any(f": {row['members']}," in text for row in answer.rows)

    def test_what_was_not_answered(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        """Reserved, and closed without an answer after the key was lost."""
        with monkeypatch.context() as patched:
            patched.setattr("sfumato.engines.duckdb.DuckDBEngine.run", lambda self, query: 1 / 0)
            with world.open() as session, pytest.raises(EngineFailed):
                session.ask(ASKED[0], analyst="anna")
        with Session(world.path, clock=lambda: NOW, finish=False) as session:
            [row] = session.questions("anna").rows
            assert (row.state, row.charge, row.error95, row.recallable) == ("reserved", Charge(11, 1), None, False)
            assert row.request["type"] == "top_k"
            assert session.questions("ben").rows == []
            assert [each.digest for each in session.all_questions().rows] == [row.digest]
            assert session.all_questions("ben").rows == session.all_questions(until="2026-11-01").rows == []
        world.write_key(9)
        with world.open() as session:
            [row] = session.questions("anna").rows
            assert (row.state, row.outcome) == ("kept", "closed without an answer")
            assert (row.charge, row.recallable) == (Charge(11, 1), False)

    def test_recallable_is_what_recall_says(self, tmp_path: Path) -> None:
        """Also where a right was withdrawn since, and for those who have left the file."""
        world = new_world(tmp_path / "world")
        with world.open() as session:
            digest = session.ask(ASKED[0], analyst="anna").receipt.digest
            assert session.questions("anna").rows[0].recallable
            assert not session.questions("anna", role="reader").rows[0].recallable
        text = world.path.read_text()
        for change in ("where = \"region = 'emea'\"", "tables = []", 'role = "reader"'):
            world.path.write_text(text.replace("[analysts.anna]\n", f"[analysts.anna]\n{change}\n"))
            with world.open() as session:
                [row] = session.questions("anna").rows
                assert (row.digest, row.recallable) == (digest, False)
                with pytest.raises(NotFound):
                    session.recall(digest, analyst="anna")
        world.path.write_text(text.replace("[analysts.anna]", "[analysts.other]"))
        with world.open() as session:
            [row] = session.all_questions().rows
            assert (row.analyst, row.recallable) == ("anna", False)

    def test_questions_of_all_by_analyst_and_day(self, world: World) -> None:
        moments = [NOW, NOW + timedelta(days=1), NOW + timedelta(days=2)]
        for moment, (asked, analyst) in zip(moments, zip(ASKED, ("anna", "ben", "anna"), strict=False), strict=True):
            with world.open(moment) as session:
                session.ask(asked, analyst=analyst)
        with world.open(moments[-1]) as session:

            def listed(*which: object, **more: object) -> list[str]:
                return [f"{row.at[8:10]} {row.analyst}" for row in session.all_questions(*which, **more).rows]

            first, second, third = (f"{moment.day}" for moment in moments)
            assert listed() == [f"{third} anna", f"{second} ben", f"{first} anna"]
            assert listed("anna") == [f"{third} anna", f"{first} anna"]
            assert listed("nobody") == []
            assert listed(since=moments[1].date()) == [f"{third} anna", f"{second} ben"]
            assert listed(until=str(moments[1].date())) == [f"{second} ben", f"{first} anna"]
            assert listed(since=moments[1].date(), until=moments[1].date()) == [f"{second} ben"]
            pages, cursor = [], None
            while cursor is not None or not pages:
                page = session.all_questions(cursor=cursor, rows=1)
                pages, cursor = [*pages, *page.rows], page.next
            assert pages == session.all_questions().rows
            for wrong in ({"analyst": "a\0"}, {"since": "x"}, {"cursor": "-1"}, {"rows": 0}):
                with pytest.raises(InvalidArgument, match=next(iter(wrong))):
                    session.all_questions(**wrong)
