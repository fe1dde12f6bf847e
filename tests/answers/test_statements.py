"""Statements through the whole path: what they cost, what is stored, and what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.accounting import NOTHING
from sfumato.errors import NotFound, NotSupported
from sfumato.ledger import IdempotentCall
from sfumato.query.request import Histogram, TopK
from sfumato.session import Session
from tests.helpers.worlds import World, lasting, spent

LIST = "SELECT article, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY article"
AFTER = [
    f"{LIST} ORDER BY people",
    f"{LIST} ORDER BY article DESC LIMIT 3 OFFSET 2",
    f"{LIST} HAVING people > 200",
    "SELECT members * 2, upper(article) FROM engagements GROUP BY article ORDER BY 2",
    f"WITH t AS ({LIST}) SELECT article, ROUND(100.0 * people / SUM(people) OVER (), 1) AS share FROM t",
    f"SELECT COUNT(*), AVG(people), MAX(article) FROM ({LIST}) t",
    f"SELECT a.article FROM ({LIST}) a JOIN ({LIST}) b ON a.people < b.people",
    f"{LIST} LIMIT 5000",
]


def test_what_comes_after_a_core_is_never_paid_for(world: World) -> None:
    with world.open() as session:
        first = session.ask(LIST, analyst="anna")
        before, charges = spent(session, "anna"), session.charges("anna").rows
        assert before != NOTHING
        for sql in AFTER:
            for asked in (sql, {"sql": sql}):
                answer = session.ask(asked, analyst="anna")
                assert (answer.receipt.digest, answer.receipt.repeat) == (first.receipt.digest, True), sql
                assert answer.receipt.charge == NOTHING
            assert session.estimate(sql, analyst="anna").charge == session.estimate(LIST, analyst="anna").charge
        assert spent(session, "anna") == before
        assert session.charges("anna").rows == charges


def test_a_shorter_list_is_paid_first_and_then_only_what_is_new(world: World) -> None:
    with world.open() as session:
        session.ask(f"{LIST} ORDER BY 2 DESC LIMIT 3", analyst="anna")
        session.ask(f"{LIST} ORDER BY article", analyst="anna")
        in_parts = spent(session, "anna")
        session.ask(Histogram("engagements", "article", "members"), analyst="ben")
        assert spent(session, "ben") == in_parts


def test_rows_come_in_the_order_that_was_asked_for(world: World) -> None:
    """A ranking of picks is seldom in the order of the counts that are drawn for it."""
    with world.open() as session:
        drawn = [row["members"] for row in session.ask(TopK("engagements", "article", "members"), analyst="anna").rows]
        falling = session.ask(f"{LIST} ORDER BY people DESC", analyst="anna").rows
        assert [row["people"] for row in falling] == sorted(drawn, reverse=True)
        rising = session.ask(f"{LIST} ORDER BY people, article", analyst="anna").rows
        assert rising == sorted(falling, key=lambda row: (row["people"], row["article"]))
        by_name = session.ask(f"{LIST} ORDER BY article LIMIT 2 OFFSET 1", analyst="anna").rows
        assert by_name == sorted(falling, key=lambda row: row["article"])[1:3]
        assert [row["people"] for row in session.ask(LIST, analyst="anna").rows] == drawn


def test_columns_are_those_of_the_select_list(world: World) -> None:
    with world.open() as session:
        answer = session.ask("SELECT COUNT(*) AS n_rows, region AS place FROM engagements GROUP BY 2", analyst="anna")
        assert answer.columns == {"n_rows": "integer", "place": "text"}
        assert [*answer.rows[0]] == ["n_rows", "place"]
        assert answer.measure == "n_rows"
        assert [*answer.receipt.error95] == ["n_rows"]
        estimate = session.estimate("SELECT COUNT(*) / 10 AS tens, region FROM engagements GROUP BY 2", analyst="anna")
        assert estimate.error95 == {"tens": answer.receipt.error95["n_rows"] / 10}
        listed = session.ask("SELECT DISTINCT region AS place FROM engagements", analyst="anna")
        plain = session.ask("SELECT DISTINCT region FROM engagements", analyst="anna")
        assert [row["place"] for row in listed.rows] == [row["region"] for row in plain.rows]
        assert listed.receipt.digest == plain.receipt.digest


def test_frames_have_intervals_of_computed_columns(world: World) -> None:
    with world.open() as session:
        items = "members / 10 AS tens, members - 9999 AS below, members > 5 AS large"
        answer = session.ask(f"SELECT region, {items} FROM engagements GROUP BY 1", analyst="anna")
        error = answer.receipt.error95["below"]
        frame = answer.to_pandas()
        row = answer.rows[0]
        assert [*frame.columns] == [*answer.columns, "tens_low", "tens_high", "below_low", "below_high"]
        assert frame["tens_high"][0] == pytest.approx(row["tens"] + error / 10)
        assert (frame["below_low"][0], frame["below_high"][0]) == (row["below"] - error, row["below"] + error)
        assert answer.has_note("no-interval")
        assert "large" in answer.lines()["rows"]
        for page in (answer._repr_html_(), answer.chart().to_json()):
            assert "tens" in page


def test_what_noise_has_chosen_has_a_wider_interval(world: World) -> None:
    regions = "SELECT region, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY region"
    with world.open() as session:
        every = session.ask(regions, analyst="anna").receipt.error95["people"]
        first = session.ask(f"{regions} ORDER BY 2 DESC LIMIT 1", analyst="anna").receipt
        around = session.ask(
            f"SELECT * FROM ({regions}) t WHERE people > 0 ORDER BY 2 DESC LIMIT 1", analyst="anna"
        ).receipt
        assert (first.mechanism, around.mechanism) == ("known_gaussian", "known_gaussian")
        assert first.error95["people"] == around.error95["people"] > every
        by_name = session.ask(f"{regions} ORDER BY region LIMIT 1", analyst="anna").receipt
        assert by_name.error95["people"] == every


def test_what_is_stored_is_the_core(world: World) -> None:
    with world.open() as session:
        shaped = session.ask(f"{LIST} HAVING people > 200 ORDER BY article", analyst="anna")
        core = session.ask(Histogram("engagements", "article", "members"), analyst="anna")
        recalled = session.recall(shaped.receipt.digest, analyst="anna")
        assert lasting(recalled) == lasting(core)
        assert [*recalled.columns] == ["article", "members"]
        asked = {charged.sql for charged in session.charges("anna").rows}
        assert asked == {"SELECT article, members FROM engagements GROUP BY article ORDER BY members DESC LIMIT 20"}
    with world.open() as session:
        again = session.ask(f"{LIST} HAVING people > 200 ORDER BY article", analyst="anna")
        assert again.rows == shaped.rows


def test_a_call_that_is_made_again_gets_what_it_got(world: World) -> None:
    sql, call = f"{LIST} HAVING people > 200 ORDER BY article DESC", IdempotentCall.of("key", b"body")
    with world.open() as session:
        first = session.ask(sql, analyst="anna", call=call)
        again = session.ask(sql, analyst="anna", call=call)
        assert again.to_dict() == first.to_dict()
        other = IdempotentCall.of("other", b"body")
        free = session.ask(sql, analyst="anna", call=other)
        assert lasting(free) == lasting(first)
        assert session.ask(sql, analyst="anna", call=other).receipt.repeat


def test_a_list_says_that_its_limit_was_more_than_there_may_be(world: World) -> None:
    with world.open() as session:
        long = session.ask(f"{LIST} LIMIT 5000", analyst="anna")
        assert [note.text for note in long.notes if note.code == "limit-above"] == [
            "LIMIT 5000 is more than there may be: a list has at most 20 rows"
        ]
        assert not session.ask(f"{LIST} LIMIT 20", analyst="anna").has_note("limit-above")
        regions = "SELECT region, members FROM engagements GROUP BY region LIMIT 5000"
        assert not session.ask(regions, analyst="anna").has_note("limit-above")
        assert len(session.ask("SELECT COUNT(*) FROM engagements LIMIT 5", analyst="anna").rows) == 1


REFUSED = [
    f"WITH t AS ({LIST}) SELECT article + 1 FROM t",
    f"WITH t AS ({LIST}) SELECT article, SUM(people) FROM t",
    f"SELECT people, region + 1 FROM ({LIST}) a JOIN (SELECT region, members FROM engagements GROUP BY 1) b ON TRUE",
    f"WITH t AS ({LIST}) SELECT getenv('HOME') FROM t",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refusal_comes_before_anything_is_charged(world: World, sql: str) -> None:
    with world.open() as session:
        before = world.tables()
        for door in (session.ask, session.estimate):
            with pytest.raises(NotSupported):
                door(sql, analyst="anna")
        assert world.tables() == before


def test_what_is_released_is_all_that_can_be_read(world: World, tmp_path: Path) -> None:
    """Sentinels in the source, beside the core, and on the disk: no statement brings one of them out."""
    (tmp_path / "sentinel.csv").write_text("sentinel\n424242\n")
    files = f"{tmp_path / 'sentinel.csv'}"
    tried = [
        f"WITH t AS ({LIST}) SELECT * FROM t, '{files}'",
        f"WITH t AS ({LIST}) SELECT * FROM t, read_csv('{files}') f",
        f"WITH t AS ({LIST}) SELECT * FROM t WHERE article IN (SELECT member_id FROM engagements)",
        f"WITH t AS ({LIST}) SELECT (SELECT MAX(member_id) FROM engagements) FROM t",
        f"WITH t AS ({LIST}) SELECT member_id FROM t",
        f"WITH t AS ({LIST}) SELECT e.member_id FROM t JOIN engagements e USING (article)",
        f"SELECT member_id, x.people FROM ({LIST}) x",
        f"{LIST} HAVING member_id > 5",
        f"{LIST} ORDER BY MAX(member_id)",
        f"{LIST} HAVING article IN (SELECT article FROM engagements WHERE n > 5)",
        f"WITH engagements AS (SELECT * FROM engagements LIMIT 9) {LIST}",
        f"WITH t AS ({LIST}) SELECT * FROM sfumato_core",
        f"WITH t AS ({LIST}) SELECT * FROM ledger",
    ]
    with world.open() as session:
        before = world.tables()
        for sql in tried:
            with pytest.raises((NotSupported, NotFound)) as refusal:
                session.ask(sql, analyst="anna")
            assert "424242" not in str(refusal.value)
        assert world.tables() == before


def test_a_name_of_with_stands_before_a_table(world: World) -> None:
    with world.open() as session:
        sql = f"WITH engagements AS ({LIST}) SELECT COUNT(*) AS groups FROM engagements"
        assert session.ask(sql, analyst="anna").rows == [{"groups": len(session.ask(LIST, analyst="anna").rows)}]


def test_a_statement_of_another_policy_gets_the_rows_of_its_core(world: World) -> None:
    sql, call = f"{LIST} HAVING people > 200", IdempotentCall.of("key", b"body")
    with world.open() as session:
        session.ask(sql, analyst="anna", call=call)
    world.path.write_text(world.path.read_text().replace("members = ", "persons = "))
    with Session(world.path, clock=lambda: session.now()) as later:
        answer = later.ask(sql, analyst="anna", call=call)
        assert [*answer.columns] == ["article", "members"]
