"""Several measures in one statement, through the whole path: what is paid, once, and what comes back."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from sfumato.accounting import NOTHING, Charge
from sfumato.cli import main
from sfumato.engines import Engine
from sfumato.errors import BudgetExhausted, EngineFailed, LedgerSetBack, NotSupported, SfumatoError
from sfumato.ledger import Debit, Ledger, Reserved, Settled, payments
from sfumato.query.request import TopK, Total
from sfumato.session import Session
from sfumato.wire import Answer
from sfumato.wire import notes as codes
from tests.helpers.worlds import NOW, World, new_world, spent

LIST = "SELECT article, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY article ORDER BY people DESC"
WITH_MEAN = LIST.replace("people FROM", "people, AVG(n) AS mean FROM")
BOUNDED = "SELECT job_title, COUNT(DISTINCT member_id), AVG(n), SUM(n) FROM engagements GROUP BY job_title"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = new_world(tmp_path / "world", information=3000)
    text = made.path.read_text()
    text = text.replace('n = { type = "integer" }', "n = { min = 0, max = 8, max_per_unit = 3 }")
    made.path.write_text(text.replace('visits = { sum = "n", max_per_unit = 20 }', ""))
    return made


@pytest.fixture
def session(world: World) -> Iterator[Session]:
    with world.open() as opened:
        yield opened


def units(session: Session, sql: str, analyst: str = "anna") -> int:
    return int(session.ask(sql, analyst=analyst).receipt.charge.information)


def exact(world: World, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(world.database), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_the_bounds_of_a_column_are_shown_where_columns_are(world: World, session: Session) -> None:
    bounds = {"min": "0", "max": "8", "step": "1", "max_per_unit": 3}
    columns = {each["name"]: each for each in session.tables("anna").rows[0].columns}
    assert columns["n"]["bounds"] == bounds
    assert "bounds" not in columns["article"]
    words = "averaged from 0 to 8 in steps of 1, at most 3 values per person and group"
    assert words in str(session.tables())
    described = {row["column_name"]: row for row in session.ask("DESCRIBE engagements", analyst="anna").rows}
    assert described["n"]["description"] == f"any value; {words}"
    assert "averaged" not in str(described["article"]["description"])
    check = ["policy", "check", "--config", str(world.path)]
    assert words in CliRunner().invoke(main, check, env={"COLUMNS": "400"}).output
    [table] = json.loads(CliRunner().invoke(main, [*check, "--json"]).output)["tables"]
    checked = {each["name"]: each["bounds"] for each in table["columns"]}
    assert checked == dict.fromkeys(columns, None) | {"n": bounds}


def test_a_mean_shares_the_rows_that_are_paid_for(session: Session) -> None:
    rows = [row["people"] for row in session.ask(f"{LIST} LIMIT 5", analyst="anna").rows]
    assert units(session, f"{WITH_MEAN} LIMIT 5") == 5
    again = session.ask(f"{WITH_MEAN} LIMIT 5", analyst="anna")
    assert again.receipt.repeat
    assert [row["people"] for row in again.rows] == sorted(rows, reverse=True)
    assert units(session, f"{LIST} LIMIT 5", "olga") + 5 == units(session, f"{WITH_MEAN} LIMIT 5", "ben") + 0 * len(
        rows
    )


def test_another_order_alias_or_having_never_pays_twice(session: Session) -> None:
    first = session.ask(WITH_MEAN, analyst="anna")
    for sql in (
        "SELECT AVG(n) AS m, article, COUNT(DISTINCT member_id) FROM engagements GROUP BY article ORDER BY 1 LIMIT 2",
        "SELECT article, COUNT(DISTINCT member_id) FROM engagements GROUP BY article HAVING AVG(n) > 2",
        "SELECT article, COUNT(DISTINCT member_id) AS p FROM engagements GROUP BY article ORDER BY AVG(n), p",
        "SELECT article, 10 * AVG(n) AS tens, COUNT(DISTINCT member_id) FROM engagements GROUP BY article OFFSET 1",
    ):
        answer = session.ask(sql, analyst="anna")
        assert (answer.receipt.digest, answer.receipt.repeat, answer.receipt.charge) == (
            first.receipt.digest,
            True,
            NOTHING,
        ), sql
        assert session.estimate(sql, analyst="anna").charge.worst == NOTHING


def test_a_longer_list_pays_the_new_rows_only(session: Session) -> None:
    short, long = (
        session.ask(f"{WITH_MEAN} LIMIT 3", analyst="anna"),
        session.ask(f"{WITH_MEAN} LIMIT 7", analyst="anna"),
    )
    assert short.receipt.charge == Charge(10, 1)  # a cutoff, and a pick, a count and a mean per row
    assert long.receipt.charge == Charge(12)
    means = {row["article"]: row["mean"] for row in long.rows}
    assert all(means[row["article"]] == row["mean"] for row in short.rows)
    assert units(session, f"{WITH_MEAN} LIMIT 5") == 0


def test_bounded_groups_pay_once_for_all_rows(session: Session) -> None:
    answer = session.ask(BOUNDED, analyst="anna")
    assert answer.receipt.charge == Charge(3, 1)
    assert units(session, f"{BOUNDED} ORDER BY 2 DESC LIMIT 2") == 0
    assert units(session, BOUNDED.replace("AVG(n)", "STDDEV(n), VARIANCE(n)")) == 1
    assert units(session, BOUNDED.replace("AVG(n)", "VAR_POP(n)")) == 0


def test_totals_and_public_groups_need_no_selection(session: Session, world: World) -> None:
    total = session.ask("SELECT AVG(n) FROM engagements", analyst="anna")
    assert total.receipt.charge == Charge(1)
    regions = session.ask("SELECT region, AVG(n), MEDIAN(n) FROM engagements GROUP BY region", analyst="anna")
    assert regions.receipt.charge == Charge(2)
    assert [row["region"] for row in regions.rows] == ["amer", "apac", "emea"]
    assert units(session, "SELECT market, AVG(n) FROM engagements GROUP BY market") == 3
    assert units(session, "SELECT market, AVG(n) FROM engagements GROUP BY market LIMIT 1", "ben") == 1
    [(mean,)] = exact(world, "SELECT avg(n) FROM engagements")
    assert abs(total.rows[0]["AVG(n)"] - float(mean)) < 3 * total.receipt.error95["AVG(n)"]


def test_where_no_measure_can_select_people_do(session: Session) -> None:
    answer = session.ask("SELECT article, AVG(n) FROM engagements GROUP BY article LIMIT 4", analyst="anna")
    assert answer.receipt.charge == Charge(9, 1)  # a cutoff, and a pick and a mean per row
    assert answer.has_note(codes.BY_PEOPLE)
    assert [*answer.columns] == ["article", "AVG(n)"]
    assert units(session, f"{LIST} LIMIT 4") == 4  # their counts are new


def test_a_sum_that_only_rises_selects(session: Session) -> None:
    sums = session.ask(
        "SELECT article, SUM(n) FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 3", analyst="anna"
    )
    assert sums.receipt.charge == Charge(7, 1)
    assert sums.columns == {"article": "text", "SUM(n)": "integer"}
    assert not sums.has_note(codes.BY_PEOPLE)


def test_minimum_and_maximum_are_extreme_quantiles_by_their_names(session: Session) -> None:
    answer = session.ask("SELECT MIN(n), MAX(n), MEDIAN(n) AS middle FROM engagements", analyst="anna")
    assert [*answer.columns] == ["QUANTILE_CONT(n, 0.01)", "QUANTILE_CONT(n, 0.99)", "middle"]
    assert answer.receipt.charge == Charge(3)
    assert answer.receipt.error95 == {}
    [note] = [each for each in answer.notes if each.code == codes.NO_INTERVAL]
    assert "QUANTILE_CONT(n, 0.01)" in note.text
    low, high, middle = answer.rows[0].values()
    assert 0 <= low <= middle <= high <= 8


def test_intervals_go_where_they_are_known(session: Session) -> None:
    both = "SELECT article, COUNT(DISTINCT member_id) AS p, AVG(n) AS m, 2 * AVG(n) + 1 AS d, AVG(n) * SHARES AS t"
    both = both.replace("SHARES", "COUNT(DISTINCT member_id)")
    answer = session.ask(f"{both} FROM engagements GROUP BY article", analyst="anna")
    errors = answer.receipt.error95
    assert errors.keys() == {"p", "m", "d"}
    assert errors["d"] == 2 * errors["m"]
    plain = "SELECT article, COUNT(DISTINCT member_id) AS p, AVG(n) AS m FROM engagements GROUP BY article"
    by_people = session.ask(f"{plain} ORDER BY p LIMIT 2", analyst="anna")
    assert by_people.receipt.error95["m"] == errors["m"]
    assert by_people.receipt.error95["p"] > errors["p"]
    by_mean = session.ask(f"{plain} ORDER BY m DESC LIMIT 2", analyst="anna")
    assert by_mean.receipt.error95.keys() == {"p"}
    assert by_mean.has_note(codes.NO_INTERVAL)


def test_requests_as_json_are_the_same_questions(session: Session) -> None:
    asked = session.ask(f"{WITH_MEAN} LIMIT 3", analyst="anna")
    request = {
        "type": "top_k",
        "table": "engagements",
        "by": "article",
        "measure": "members",
        "measures": ["avg( n )"],
        "k": 3,
    }
    for same in (request, TopK("engagements", "article", "members", k=3, measures=["AVG(n)"])):
        answer = session.ask(same, analyst="anna")
        assert (answer.receipt.digest, answer.receipt.repeat) == (asked.receipt.digest, True)
    [row] = session.questions("anna").rows
    assert row.request == {**request, "measures": ["AVG(n)"], "where": {}, "by": ["article"], "counts": True}
    assert row.sql is not None
    assert session.ask(row.sql, analyst="anna").receipt.repeat
    assert row.error95 == dict(session.recall(row.digest, analyst="anna").receipt.error95)
    total = session.ask(Total("engagements", "AVG(n)", measures=("COUNT(n)",)), analyst="anna")
    assert [*total.columns] == ["AVG(n)", "COUNT(n)"]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT AVG(article) FROM engagements", "AVG of article is not supported yet: it holds text"),
        ("SELECT AVG(DISTINCT n) FROM engagements", "DISTINCT"),
        ("SELECT QUANTILE_CONT(n, 0) FROM engagements", "from 0.001 to 0.999"),
        ("SELECT QUANTILE_CONT(n, n) FROM engagements", "from 0.001 to 0.999"),
        ("SELECT AVG(n), COUNT(*) FILTER (WHERE region = 'emea') FROM engagements", "two filters"),
        ("SELECT AVG(member_id) FROM engagements", "people are counted, not named"),
    ],
)
def test_refusals_say_why_and_charge_nothing(session: Session, sql: str, words: str) -> None:
    before = spent(session, "anna")
    with pytest.raises(NotSupported, match=words):
        session.ask(sql, analyst="anna")
    assert spent(session, "anna") == before


def test_an_engine_that_is_not_known_to_compute_them_refuses_before_any_charge(session: Session) -> None:
    policy = session._catalog.policy(session.now()).table("engagements")
    object.__setattr__(policy, "abilities", replace(policy.abilities, values=False))
    for sql in ("SELECT AVG(n) FROM engagements", "SELECT SUM(n) FROM engagements"):
        with pytest.raises(NotSupported, match="ask of a copy of the rows in Parquet"):
            session.ask(sql, analyst="anna")
    assert spent(session, "anna") == NOTHING


def test_all_is_reserved_together_and_a_refusal_offers_what_fits(world: World) -> None:
    text = world.path.read_text()
    world.path.write_text(text.replace("information = 3000", "information = 16", 1))
    with world.open() as session:
        with pytest.raises(SfumatoError) as refused:
            session.ask(f"{WITH_MEAN} LIMIT 6", analyst="anna")
        assert isinstance(refused.value, BudgetExhausted)
        assert refused.value.asked == Charge(19, 1)
        assert refused.value.longest == 5
        assert spent(session, "anna") == NOTHING
        answer = session.ask(refused.value.instead[0], analyst="anna")
        assert (answer.receipt.charge, len(answer.rows)) == (Charge(16, 1), 5)


@pytest.mark.parametrize(("analyst", "sql"), [("olga", WITH_MEAN), ("anna", LIST), ("olga", LIST)])
def test_who_computes_the_core_over_other_rows_later_shows_what_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, analyst: str, sql: str
) -> None:
    """One draw is stored. That of the later process was computed with the same noise over other rows: it is void."""
    settle, made = payments.settle, list[str]()

    def settle_late(ledger: Ledger, debit: Debit, reserved: Reserved, payload: str, *more: Any) -> Settled | Reserved:
        if not made:
            made.append(payload)
            made.extend(more[2])
            world.write_rows(seed=2)
            with Session(world.path, clock=lambda: NOW, finish=False) as other:  # it leaves alone what is reserved
                earlier.append(other.ask(sql, analyst=analyst))
        return settle(ledger, debit, reserved, payload, *more)

    earlier = list[Answer]()
    monkeypatch.setattr(payments, "settle", settle_late)
    with world.open() as session:
        late = session.ask(WITH_MEAN, analyst="anna")
        assert session.ledger.verify() == []
        assert session.ledger.reservations() == []
        assert [(row["article"], row["people"]) for row in late.rows] == [
            (row["article"], row["people"]) for row in earlier[0].rows
        ]
        stored = str(world.tables()["atoms"])
        assert all(payload not in stored for payload in made)
        again = session.ask(WITH_MEAN, analyst="anna")
        assert (again.receipt.repeat, again.rows) == (True, late.rows)
        assert spent(session, "anna") == Charge(61, 1)
        if sql == WITH_MEAN:
            assert late.rows == earlier[0].rows


def test_a_failure_keeps_the_reservation_and_a_repeat_costs_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.open() as session:
        run, calls = Engine.run, list[str]()

        def fail_second(engine: Engine, query: object) -> object:
            calls.append("run")
            if len(calls) == 2:
                raise EngineFailed("the engine could not answer")
            return run(engine, query)  # type: ignore[arg-type]

        monkeypatch.setattr(Engine, "run", fail_second)
        with pytest.raises(EngineFailed):
            session.ask(BOUNDED, analyst="anna")
        [held] = session.ledger.reservations()
        assert held.parts[0].charge == Charge(3, 1)
        assert session.ask(BOUNDED, analyst="anna").receipt.charge == Charge(3, 1)
        assert session.ledger.reservations() == []
        assert session.ledger.verify() == []


def test_what_was_begun_is_finished_at_the_next_start(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.open() as session, monkeypatch.context() as broken:
        broken.setattr(Engine, "run", lambda *_: (_ for _ in ()).throw(EngineFailed("no")))
        with pytest.raises(EngineFailed):
            session.ask(BOUNDED, analyst="anna")
    with world.open() as session:
        assert session.ask(BOUNDED, analyst="anna").receipt.repeat


def test_the_books_show_every_draw(world: World) -> None:
    with world.open() as session:
        session.ask(BOUNDED, analyst="anna")
        session.ask(f"{WITH_MEAN} LIMIT 3", analyst="olga")
        assert session.ledger.verify() == []
    with closing(sqlite3.connect(world.folder / "ledger.db")) as books:
        draws = [atom for atom, payload in books.execute("SELECT atom, payload FROM atoms") if "numbers" in payload]
        assert len(draws) == 3
        books.execute("UPDATE atoms SET payload = payload || ' ' WHERE atom = ?", draws[:1])
        books.commit()
    with world.open() as session:
        assert any(draws[0] in problem for problem in session.ledger.verify())


def test_a_draw_that_was_paid_for_and_lost_is_not_drawn_again(world: World) -> None:
    with world.open() as session:
        session.ask(f"{WITH_MEAN} LIMIT 3", analyst="anna")
    with closing(sqlite3.connect(world.folder / "ledger.db")) as books:
        books.execute("UPDATE atoms SET payload = NULL WHERE payload LIKE '%numbers%'")
        books.commit()
    with world.open() as session, pytest.raises(LedgerSetBack):
        session.ask(f"{WITH_MEAN} LIMIT 4", analyst="anna")


def test_keys_without_a_value_have_every_measure(world: World) -> None:
    """All groups that are selected, also where no row has a value."""
    with duckdb.connect(str(world.database)) as connection:
        connection.execute("UPDATE engagements SET n = NULL WHERE region = 'emea'")
    with world.open() as session:
        sql = "SELECT region, AVG(n), STDDEV(n), MEDIAN(n), SUM(n), COUNT(n) FROM engagements GROUP BY region"
        answer = session.ask(sql, analyst="anna")
        assert [row["region"] for row in answer.rows] == ["amer", "apac", "emea"]
        assert all(math.isfinite(number) for row in answer.rows for name, number in row.items() if name != "region")
        assert json.loads(answer.to_json())["receipt"]["error95"].keys() >= {"AVG(n)", "SUM(n)"}
        frame = answer.to_pandas()
        assert {"AVG(n)_low", "SUM(n)_high"} <= {*frame.columns}
        assert "MEDIAN" not in str(frame.columns)


def test_means_of_two_columns_are_two_draws(world: World) -> None:
    """With the same bounds their mechanisms are the same, and their noise is not."""
    with duckdb.connect(str(world.database)) as connection:
        connection.execute("ALTER TABLE engagements ADD COLUMN m INTEGER")
        connection.execute("UPDATE engagements SET m = n")
    text = world.path.read_text()
    world.path.write_text(text.replace("n = { min", "m = { min = 0, max = 8, max_per_unit = 3 }\nn = { min"))
    with world.open() as session:
        answer = session.ask("SELECT AVG(n) AS n, AVG(m) AS m FROM engagements", analyst="anna")
        assert answer.receipt.charge == Charge(2)
        assert answer.rows[0]["n"] != answer.rows[0]["m"]
