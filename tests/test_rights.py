"""Who may ask about what: tables, rows and roles, in embedded use. Over HTTP: tests/service/test_rights.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.config import read_config
from sfumato.errors import ConfigError, Conflict, EngineFailed, NotFound, NotSupported, SfumatoError, TableNotFound
from sfumato.ledger import IdempotentCall
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.predicate import NOTHING as NO_ROWS
from sfumato.query.predicate import Predicate, prune
from sfumato.query.request import filter_json
from sfumato.session import Session
from sfumato.wire import Answer
from tests.helpers.advertised import BY_DAY
from tests.helpers.rights import ATTEMPTS, MALLORY, new_rights
from tests.helpers.worlds import NOW, World, new_world, spent
from tests.query.test_predicate import filters

pytestmark = pytest.mark.slow  # many services

FREE = "\n[analysts.mallory]\nbudget = 'partner'\n"
STAFF = sf.TopK("payroll", by="article", measure="staff", k=3)
ARTICLES = sf.TopK("engagements", by="article", measure="members", k=3)
CLICKS = {"report": "clicks", "statistics": "clicks", "entity": {"account": "acme"}}
CONDITION = "region = 'emea' AND day < DATE '2026-11-10'"
OCTOBER = {"start": "2026-10-01", "end": "2026-11-01"}


def told(session: Session, door: str, request: Any) -> tuple[type, str] | str:
    """What mallory gets: the refusal, or that there was an answer; of the policy, with its rows."""
    try:
        got = getattr(session, door)(request, analyst="mallory")
    except SfumatoError as error:
        return type(error), str(error)
    if isinstance(got, Answer) and got.receipt.mechanism == "policy":
        return f"of the policy: {got.rows}"
    return "of the policy" if getattr(got, "mechanism", "") == "policy" else "an answer"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session]]:
    """The world and its twin without the table."""
    folder = tmp_path_factory.mktemp("rights")
    with new_rights(folder / "whole").open() as whole, new_rights(folder / "twin", twin=True).open() as twin:
        yield whole, twin


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Mallory may count some rows of one table."""
    people = FREE + f'tables = ["engagements"]\nwhere = "{CONDITION}"\n'
    with new_rights(tmp_path_factory.mktemp("rows") / "world", analysts=people).open() as session:
        yield session


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Mallory is a reader."""
    people = FREE + "role = 'reader'\nentities = { account = ['acme'] }\n"
    with new_rights(tmp_path_factory.mktemp("reader") / "world", analysts=people).open() as session:
        yield session


def reopen(world: World, analysts: str) -> Session:
    """The world with other analysts in its file."""
    text = world.path.read_text().partition("\n[analysts.mallory]")[0]
    world.path.write_text(text + analysts)
    return world.open()


class TestTables:
    def test_there_are_enough_attempts(self) -> None:
        assert len(ATTEMPTS) >= 200

    @pytest.mark.parametrize("door", ["ask", "estimate"])
    def test_a_table_without_the_right_is_a_table_that_does_not_exist(
        self, both: tuple[Session, Session], door: str
    ) -> None:
        whole, twin = both
        before = spent(whole, "mallory")
        for attempt in ATTEMPTS:
            expected = told(twin, door, attempt)
            assert expected != "an answer"
            assert told(whole, door, attempt) == expected, attempt
        assert spent(whole, "mallory") == before == NOTHING

    def test_those_with_the_right_get_an_answer(self, both: tuple[Session, Session]) -> None:
        whole, _ = both
        assert whole.ask("SELECT staff FROM PayRoll", analyst="olga").rows

    def test_it_is_not_listed(self, both: tuple[Session, Session]) -> None:
        whole, twin = both
        assert whole.tables("mallory") == twin.tables("mallory") == twin.tables()
        assert [row.table for row in whole.tables("olga").rows] == ["engagements", "payroll"]
        assert whole.tables("olga") == whole.tables()
        assert whole.me("mallory") == twin.me("mallory")
        assert whole.me("mallory").tables == ["engagements"]
        assert whole.me("mallory").reports == ["clicks"]

    def test_its_reports_do_not_exist_either(self, both: tuple[Session, Session]) -> None:
        whole, twin = both
        attempts = [BY_DAY, {**OCTOBER, "report": "salaries", "statistics": "paid"}, {**OCTOBER, "statistics": "paid"}]
        attempts += [{**BY_DAY, "report": name} for name in ("adss", "ADS", "payroll", "salarie", 7)]
        for attempt in attempts:
            expected = told(twin, "report", attempt)
            assert expected[0] is NotSupported or "statistic" in str(expected)
            assert told(whole, "report", attempt) == expected, attempt
        assert whole.report({**CLICKS, **OCTOBER}, analyst="mallory").rows
        assert whole.report(BY_DAY, analyst="olga").rows

    def test_its_cap_is_not_in_her_budget(self, both: tuple[Session, Session]) -> None:
        whole, twin = both
        assert whole.budget("mallory") == twin.budget("mallory")
        assert "table:payroll" in [each.account for each in whole.budget("olga").accounts]

    def test_an_answer_of_another_analyst_is_an_unknown_answer(self, both: tuple[Session, Session]) -> None:
        whole, _ = both
        digest = whole.ask(STAFF, analyst="olga").receipt.digest
        assert told(whole, "recall", digest) == told(whole, "recall", "sha256:" + "0" * 64)

    @pytest.mark.parametrize(
        ("analyst", "budget", "organisation", "seen"),
        [
            (None, None, None, {"engagements", "payroll"}),
            (["payroll"], None, None, {"payroll"}),
            (None, ["payroll"], None, {"payroll"}),
            (["engagements", "payroll"], ["payroll", "ads"], None, {"payroll"}),
            (["engagements"], ["payroll"], None, set()),
            ([], None, None, set()),
            (None, None, ["engagements"], {"engagements"}),
            (["engagements", "payroll"], None, ["payroll"], {"payroll"}),
        ],
    )
    def test_all_limits_hold_at_once(
        self, tmp_path: Path, analyst: Any, budget: Any, organisation: Any, seen: set[str]
    ) -> None:
        terms = "epsilon_per = 0.5\ndelta_per = 1e-6\ninformation = 9\ncalls = 9\n"
        world = new_rights(tmp_path / "world")

        def limit(tables: Any) -> str:
            return "" if tables is None else f"tables = {tables}\n"

        people = f"[budgets.own]\n{terms}{limit(budget)}[budgets.shared]\n{terms}{limit(organisation)}"
        people += "[organisations.initech]\nbudget = 'shared'\n"
        people += f"[analysts.mallory]\nbudget = 'own'\norganisation = 'initech'\n{limit(analyst)}"
        with reopen(world, people) as session:
            assert {row.table for row in session.tables("mallory").rows} == {*session.me("mallory").tables} == seen
            for table, measure in (("engagements", "members"), ("payroll", "staff")):
                asked = told(session, "estimate", sf.Total(table, measure))
                assert (asked == "an answer") == (table in seen)


class TestARightThatWasTakenAway:
    def test_answers_of_before_are_refused_too(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE)
        call = IdempotentCall.of("once", b"staff")
        with world.open() as session:
            given = session.ask(STAFF, analyst="mallory", call=call)
            own = session.ask(ARTICLES, analyst="mallory")
            assert session.recall(given.receipt.digest, analyst="mallory").rows == given.rows
        with reopen(world, MALLORY) as session:
            unknown = told(session, "recall", "sha256:" + "0" * 64)
            assert told(session, "recall", given.receipt.digest) == unknown
            assert session.recall(own.receipt.digest, analyst="mallory").rows == own.rows
            refused = told(session, "ask", STAFF)
            assert refused == (TableNotFound, "there is no table 'payroll'; there is engagements")
            with pytest.raises(TableNotFound) as again:
                session.ask(STAFF, analyst="mallory", call=call)
            assert (TableNotFound, str(again.value)) == refused
        with reopen(world, FREE) as session:  # given back: nothing was lost
            assert session.ask(STAFF, analyst="mallory", call=call).rows == given.rows

    def test_a_role_without_questions_has_no_answers_of_before(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE)
        with world.open() as session:
            digest = session.ask(ARTICLES, analyst="mallory").receipt.digest
        with reopen(world, FREE + "role = 'reader'\n") as session:
            refused = told(session, "recall", digest)
            assert refused[0] is NotFound
            assert "mallory has the role reader" in refused[1]

    def test_what_was_reserved_is_not_answered(self, tmp_path: Path) -> None:
        world, call = new_rights(tmp_path / "world", analysts=FREE), IdempotentCall.of("once", b"staff")

        class Broken:
            def run(self, _: object) -> Any:
                raise EngineFailed("the engine could not answer")

        with world.open() as session:
            session._runtime = dataclasses.replace(session._runtime, engines={"payroll": Broken()})
            with pytest.raises(EngineFailed):
                session.ask(STAFF, analyst="mallory", call=call)
            reserved = session.budget("mallory").accounts[0].reserved
        text = world.path.read_text().partition("\n[analysts.mallory]")[0]
        world.path.write_text(text + MALLORY)
        with Session(world.path, clock=lambda: NOW, finish=False) as session:
            with pytest.raises(TableNotFound, match=r"^there is no table 'payroll'; there is engagements$"):
                session.ask(STAFF, analyst="mallory", call=call)
            assert session.finish() == 0
            assert spent(session, "mallory") == reserved != NOTHING
        assert not world.tables()["answers"]

    def test_another_condition_is_no_longer_the_same_answer(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE)
        limited = FREE + "tables = ['engagements']\nwhere = \"region = '{}'\"\n"
        call = IdempotentCall.of("once", b"articles")
        with world.open() as session:
            everything = session.ask(ARTICLES, analyst="mallory", call=call)
        with reopen(world, limited.format("emea")) as session:
            assert told(session, "recall", everything.receipt.digest)[0] is NotFound
            with pytest.raises(Conflict):
                session.ask(ARTICLES, analyst="mallory", call=call)
            emea = session.ask(ARTICLES, analyst="mallory")
            assert emea.receipt.digest != everything.receipt.digest
            assert emea.receipt.charge != NOTHING
            assert session.recall(emea.receipt.digest, analyst="mallory").rows == emea.rows
        with reopen(world, limited.format("apac")) as session:
            assert told(session, "recall", emea.receipt.digest)[0] is NotFound
        with reopen(world, FREE) as session:  # no condition any more: what she saw before is a part of all
            assert session.recall(emea.receipt.digest, analyst="mallory").rows == emea.rows
            assert session.recall(everything.receipt.digest, analyst="mallory").rows == everything.rows


class TestRows:
    """`where`: a condition that every question gets in addition."""

    def planned(self, session: Session, request: Any, analyst: str = "mallory") -> Any:
        return session._planner.plan(request, analyst, NOW)

    @pytest.mark.parametrize(
        "where",
        [
            *("", "region = 'emea'", "region = 'apac'", "TRUE", "FALSE", "NOT region = 'emea'", "region <> 'emea'"),
            *("region = 'emea' OR TRUE", "region IN ('emea', 'apac', 'amer')", "day >= DATE '2026-11-05'"),
            *("n > 3 OR region = 'apac'", "NOT (n > 3 AND region = 'emea')", "REGION = 'amer' OR \"region\" = 'apac'"),
            "(region = 'apac' OR market = 'apac') AND NOT (day < DATE '2026-11-10')",
        ],
    )
    def test_no_other_row_is_counted(self, limited: Session, where: str) -> None:
        """By the engine: the exact query counts rows that pass both, whatever is written."""
        sql = f"SELECT shares FROM engagements {f'WHERE {where}' if where else ''}"
        query = self.planned(limited, sql).plan.query
        [(found,)] = limited._catalog.engine("engagements").run(query)
        with duckdb.connect(str(limited.config.folder / "rows.duckdb"), read_only=True) as connection:
            both = CONDITION + (f" AND ({where})" if where else "")
            counted = f"SELECT least(count(*), 3) AS n FROM engagements WHERE {both} GROUP BY member_id"
            [(expected,)] = connection.execute(f"SELECT coalesce(sum(n), 0) FROM ({counted})").fetchall()
        assert found == expected

    def test_the_condition_is_a_part_of_the_question(self, limited: Session) -> None:
        """What she asks is what another analyst asks who writes the condition: one atom, one digest, one price."""
        written = "SELECT article, members FROM engagements WHERE {} GROUP BY article LIMIT 5"
        hers = self.planned(limited, written.replace(" WHERE {}", "")).plan
        same = self.planned(limited, written.format("day < DATE '2026-11-10' AND region = 'emea'"), "olga").plan
        assert (hers.atom, hers.digest, hers.request) == (same.atom, same.digest, same.request)
        free = self.planned(limited, written.replace(" WHERE {}", ""), "olga").plan
        assert free.atom != hers.atom

    def test_an_answer_says_that_it_counts_her_rows_only(self, limited: Session) -> None:
        codes = [note.code for note in limited.ask(ARTICLES, analyst="mallory").notes]
        assert "own-rows" in codes
        assert "own-rows" not in [note.code for note in limited.ask(ARTICLES, analyst="olga").notes]

    def test_a_stored_request_already_has_it(self, limited: Session) -> None:
        """A request that is resumed, and a suggestion of a refusal, are read again: the condition is added once."""
        once = self.planned(limited, ARTICLES).plan
        again = self.planned(limited, once.request).plan
        assert (again.request, again.digest) == (once.request, once.digest)

    def test_a_suggestion_is_the_question_that_it_suggests(self, tmp_path: Path) -> None:
        world = new_world(tmp_path / "world", information=9, analysts="", others="")
        condition = "region = 'emea' OR market = 'apac'"
        world.path.write_text(world.path.read_text() + FREE + f'where = "{condition}"\n')
        with world.open() as session:
            with pytest.raises(sf.BudgetExhausted) as refused:
                session.ask(sf.TopK("engagements", by="article", measure="members", k=20), analyst="mallory")
            [suggested] = refused.value.instead
            plain = sf.TopK("engagements", by="article", measure="members", k=suggested["k"])
            answers = [session.ask(each, analyst="mallory") for each in (suggested, plain)]
            assert answers[0].receipt.digest == answers[1].receipt.digest
            assert [each.receipt.repeat for each in answers] == [False, True]

    def test_a_reservation_is_finished_under_the_condition(self, tmp_path: Path) -> None:
        world = new_rights(
            tmp_path / "world", analysts=FREE + "tables = ['engagements']\nwhere = \"region = 'emea'\"\n"
        )

        class Broken:
            def run(self, _: object) -> Any:
                raise EngineFailed("the engine could not answer")

        with world.open() as session:
            session._runtime = dataclasses.replace(session._runtime, engines={"engagements": Broken()})
            with pytest.raises(EngineFailed):
                session.ask(ARTICLES, analyst="mallory")
        with Session(world.path, clock=lambda: NOW, finish=False) as session:
            assert session.finish() == 1
            assert session.ask(ARTICLES, analyst="mallory").receipt.repeat

    @given(filters, filters)
    def test_adding_it_twice_changes_nothing(self, asked: Predicate, required: Predicate) -> None:
        columns = {"n": Column("n", "integer"), "flag": Column("flag", "boolean"), "word": Column("word")}
        free = TablePolicy("t", "unit", columns, {})
        table = dataclasses.replace(free, row_filter=prune(required))
        once = canonical_filter(asked, table)
        assert canonical_filter(once, table) == once
        assert canonical_filter(filter_json(once), table) == once == canonical_filter(filter_json(once), free)

    def test_a_list_of_values_is_that_of_the_policy(self, limited: Session) -> None:
        listed = limited.ask("SELECT DISTINCT region FROM engagements", analyst="mallory")
        assert len(listed.rows) == 3
        assert listed.receipt.charge == NOTHING

    @pytest.mark.parametrize(
        ("section", "words"),
        [
            ("where = \"account = '7'\"", r"analysts.mallory.where: engagements has no column 'account'.*tables"),
            (
                'where = "n = 3"',
                r"analysts.mallory.where: payroll has no column 'n'.*; list the tables that",
            ),
            ('where = "member_id = 7"', r"analysts.mallory.where: people are counted, not named"),
            ("where = \"region SIMILAR TO 'e%'\"", r"analysts.mallory.where: SIMILAR TO is not supported yet"),
            ("where = \"region = 'emea' LIMIT 3\"", r"analysts.mallory.where: a filter is what stands after WHERE"),
            ("where = \"region = 'emea') OR (TRUE\"", r"analysts.mallory.where: this could not be read as SQL"),
            ("where = \"n = 'x'\"\ntables = ['engagements']", r"analysts.mallory.where: n is compared with something"),
            ("where = ' '", r"analysts.mallory.where: is empty; write a condition, or leave it out"),
            ("where = 7", r"analysts.mallory.where: must be text in quotes"),
            ("tables = ['payrol']", r"analysts.mallory.tables: names a table that is not in the file.*payroll"),
            ("tables = 'payroll'", r"analysts.mallory.tables: must be a list of text in quotes"),
            ("tables = ['ads', 'ads']", r"analysts.mallory.tables: lists something twice"),
        ],
    )
    def test_a_right_that_makes_no_sense_is_told_at_the_start(self, tmp_path: Path, section: str, words: str) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE + section)
        with pytest.raises(ConfigError, match=words):
            world.open()

    def test_a_condition_that_fits_the_listed_tables_is_taken(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE + "where = 'n = 3'\ntables = ['engagements', 'clicks']")
        with world.open() as session:
            assert session.me("mallory").where == "n = 3"

    def test_a_contradiction_counts_nothing(self) -> None:
        columns = {"word": Column("word")}
        table = TablePolicy("t", "unit", columns, {})
        mine = dataclasses.replace(table, row_filter=canonical_filter({"word": "a"}, table))
        assert canonical_filter({"word": "b"}, mine) == NO_ROWS
        assert canonical_filter({"not": {"word": "a"}}, mine) == NO_ROWS


class TestReader:
    """The role reader: reports and the own record, no questions and no estimates."""

    @pytest.mark.parametrize("door", ["ask", "estimate"])
    def test_no_question_is_taken(self, reading: Session, door: str) -> None:
        for request in ("SELECT members FROM engagements", "SELECT DISTINCT region FROM engagements", ARTICLES, "", 7):
            kind, words = told(reading, door, request)
            assert kind is NotFound
            assert "mallory has the role reader" in words
            assert "analysts.mallory.role" in words
        assert spent(reading, "mallory") == NOTHING

    def test_no_answer_is_recalled(self, reading: Session) -> None:
        digest = reading.ask(ARTICLES, analyst="olga").receipt.digest
        assert told(reading, "recall", digest)[0] is NotFound

    def test_reports_are_shown(self, reading: Session) -> None:
        assert reading.report(BY_DAY, analyst="mallory").rows
        assert told(reading, "report", {**BY_DAY, "entity": {"account": "globex"}})[0] is NotFound

    def test_her_own_record_is_shown(self, reading: Session) -> None:
        me = reading.me("mallory")
        assert (me.role, me.budget, me.tables) == ("reader", "partner", [])
        assert me.reports == ["ads", "clicks", "salaries"]
        assert me.entities == {"account": ["acme"]}
        assert [each.account for each in reading.budget("mallory").accounts] == ["analyst:mallory"]
        assert reading.charges("mallory").rows == []
        assert reading.tables("mallory").rows == []
        assert len(reading.tables("mallory").reports) == 3

    def test_an_auditor_is_refused_in_embedded_use_too(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world", analysts=FREE + "role = 'auditor'\n")
        with world.open() as session:
            assert told(session, "ask", ARTICLES)[0] is NotFound
            assert told(session, "report", BY_DAY)[0] is NotFound
            assert told(session, "estimate", ARTICLES) == "an answer"


def test_a_plan_without_rights_is_what_it_was() -> None:
    """The field for row rights changes no digest where there are none."""
    table = TablePolicy("t", "unit", {"word": Column("word")}, {})
    assert table == dataclasses.replace(table, row_filter=canonical_filter(None, table))


class TestReleases:
    def test_a_budget_with_tables_pays_for_no_other_table(self, tmp_path: Path) -> None:
        terms = "epsilon_per = 0.5\ndelta_per = 1e-6\ninformation = 900\ncalls = 9\n"
        people = f"\n[budgets.publisher]\n{terms}tables = ['engagements']\n{FREE}"
        world = new_rights(tmp_path / "world", analysts=people)

        def release(table: str) -> sf.Released:
            options: dict[str, Any] = {"config": world.path, "budget": "publisher", "job": f"of-{table}"}
            return sf.release_counts(table, unit="member_id", key="region", rho=1, delta=1e-6, **options)

        with pytest.raises(NotSupported, match=r"^budget: publisher does not pay for payroll; it pays for engag"):
            release("payroll")
        assert len(release("engagements"))

    def test_a_cap_of_another_table_is_told_at_the_start(self, tmp_path: Path) -> None:
        world = new_rights(tmp_path / "world")
        text = world.path.read_text().replace("[budgets.common]", "[budgets.common]\ntables = ['engagements']")
        with pytest.raises(ConfigError, match=r"tables\.payroll\.cap: names a budget that does not pay for payroll"):
            read_config(text, world.folder, {})


def test_prices_of_other_tables_do_not_matter(tmp_path: Path) -> None:
    """The budgets that pay for one question have the same prices; a cap that she never pays has its own."""
    other = "epsilon_per = 9\ndelta_per = 1e-6\ninformation = 9\ncalls = 9\n"
    world = new_rights(tmp_path / "world")
    text = world.path.read_text()
    with pytest.raises(ConfigError, match=r"tables\.payroll\.cap"):
        read_config(text + f"[budgets.own]\n{other}[analysts.eve]\nbudget = 'own'\n", world.folder, {})
    people = f"[budgets.own]\n{other}[analysts.eve]\nbudget = 'own'\ntables = ['engagements']\n"
    assert read_config(text + people, world.folder, {}).tables_of("eve") == {"engagements"}
