"""PostgreSQL keeps the contract, in a database that sorts by bytes and in one that sorts as people do."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from sqlglot import exp

import sfumato as sf
from sfumato.config.engines import ENGINES
from sfumato.config.settings import EngineSettings
from sfumato.engines import open_engine
from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.postgres import PostgresEngine
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.release.source import Source
from sfumato.types import TYPES
from tests.contracts.asking import COLUMNS, AskContract, command
from tests.contracts.contributions import CodedContributionsContract
from tests.contracts.copies import CopiesContract
from tests.contracts.decimals import DecimalsContract
from tests.contracts.engine import TABLE, EngineContract, column, counting, ranking, source
from tests.helpers import postgres
from tests.helpers.aggregating import request_of, run
from tests.helpers.worlds import spent

pytestmark = pytest.mark.slow  # a real server

READER = "reader"
NO_ICU = "this PostgreSQL has no ICU collations; those of Debian have them: apt-get install postgresql"


def as_reader(url: str) -> str:
    return url.replace("postgres@", f"{READER}@")


@contextmanager
def new_database(home, options: str = "") -> Iterator[str]:
    """A database whose sessions begin in another zone, with a role that may only read what it is given."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres.url(home, "postgres"), autocommit=True) as server:
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            server.execute(f"CREATE ROLE {READER} LOGIN")
        server.execute(f"CREATE DATABASE {name} {options}")
        server.execute(f"ALTER DATABASE {name} SET TimeZone = 'America/New_York'")
        try:
            yield postgres.url(home, name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def fill(url: str, table: str, rows, columns, schema: str = "public") -> None:
    """Make a table that the reader may read."""
    place = sql.Identifier(schema, table)
    typed = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(TYPES[kind].postgres)) for name, kind in columns.items()
    ]
    with psycopg.connect(url) as owner:
        owner.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        owner.execute(sql.SQL("CREATE TABLE {} ({})").format(place, sql.SQL(", ").join(typed)))
        with owner.cursor() as cursor, cursor.copy(sql.SQL("COPY {} FROM STDIN").format(place)) as copy:
            for row in rows:
                copy.write_row(row)
        owner.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), sql.Identifier(READER)))
        owner.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(place, sql.Identifier(READER)))


class Databases:
    """A schema for each table, and an engine that reads it as another role."""

    options = ""
    url: str
    numbers: Iterator[int]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _database(cls, postgres_server):
        cls.numbers = itertools.count()
        try:
            with new_database(postgres_server, cls.options) as cls.url:
                yield
        except psycopg.errors.FeatureNotSupported:
            pytest.skip(NO_ICU)

    def make(self, rows, columns, table=TABLE, **options):
        schema = f"s{next(self.numbers)}"
        fill(self.url, table, rows, columns, schema)
        return PostgresEngine(as_reader(self.url), {table: f"{schema}.{table}"}, **options)

    def lose(self, engine):
        execute(self.url, f"REVOKE SELECT ON {engine._tables[TABLE].sql('postgres')} FROM {READER}")
        return True

    def can_hold(self, text):
        return "\0" not in text


class TestBytes(Databases, EngineContract):
    pass


class TestDecimals(Databases, DecimalsContract):
    def retype(self, engine):
        table = engine._tables[TABLE]
        execute(self.url, f"ALTER TABLE {table.sql('postgres')} ALTER COLUMN x TYPE numeric(20, 2)")
        return PostgresEngine(as_reader(self.url), {TABLE: f"{table.db}.{TABLE}"})


class TestIcu(Databases, EngineContract):
    """A database in which 'a' comes before 'B', as in a dictionary."""

    options = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US-x-icu'"


class TestContributions(Databases, CodedContributionsContract):
    """What releases read: rows that are copied into DuckDB."""


class TestAsking(Databases, AskContract):
    dead = 'type = "postgres"\nurl = "postgresql://reader@127.0.0.1:1/none"'
    extra, modules = "postgres", ("psycopg",)

    def settle(self, rows):
        schema = f"s{next(self.numbers)}"
        fill(self.url, "engagements", rows, COLUMNS, schema)
        return f'type = "postgres"\nurl = "{as_reader(self.url)}"', f"{schema}.engagements"

    def unsettle(self, source):
        execute(self.url, f"DROP TABLE {source}")

    def test_a_role_that_may_write_is_one_sentence_and_free(self, place):
        world, source = place
        execute(self.url, f"GRANT INSERT ON {source} TO {READER}")
        code, said = command(world, "policy", "check")
        assert code == 4
        assert f"this role may change '{source}'" in " ".join(said.split())
        execute(self.url, f"REVOKE INSERT ON {source} FROM {READER}")
        with world.open() as session:
            assert spent(session, "anna") == sf.Charge(0, 0)


@pytest.fixture
def database(postgres_server):
    with new_database(postgres_server) as url:
        yield url


def engine(url: str, **more) -> PostgresEngine:
    return PostgresEngine(as_reader(url), {TABLE: TABLE}, **more)


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url) as owner:
        for statement in statements:
            owner.execute(statement)


CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader' AND datname = current_database()"
)
PAIRS = {"unit": "integer", "key": "text"}


class TestColumns:
    def test_every_type_reads_as_python_reads_it(self, database):
        execute(
            database,
            "SET TimeZone = 'America/New_York'",
            "CREATE TYPE mood AS ENUM ('z', 'a')",
            "CREATE DOMAIN short AS varchar(5)",
            "CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "CREATE TABLE events (unit uuid, c char(3), s short, m mood, k text COLLATE same, n int2, "
            "d numeric(30, 2), f real, at timestamptz, tags text[], ids int[], j json)",
            "INSERT INTO events VALUES (gen_random_uuid(), 'a', 'b', 'z', 'x', 1, 1.5, '-0', "
            "'2024-01-01 01:00:00+01', '{b,a}', '{1}', '1'), (gen_random_uuid(), 'a', 'b', 'a', 'X', 1, 1.50, 0, "
            "'2023-12-31 19:00:00-05', NULL, NULL, NULL)",
            f"GRANT SELECT ON events TO {READER}",
        )
        with engine(database) as found:
            kinds = [
                "other",
                "text",
                "text",
                "text",
                "text",
                "integer",
                "number",
                "number",
                "timestamp",
                *["other"] * 3,
            ]
            assert list(found.schema(TABLE).values()) == kinds
            assert found.lists(TABLE) == {"tags": "text", "ids": "integer"}
            groups = {}
            for name in ("c", "s", "m", "k", "d", "f", "at"):
                count = exp.Count(this=exp.Star())
                tree = exp.select(column(name), count).from_(source()).group_by(column(name)).order_by(column(name))
                groups[name] = [(key, number) for key, number in found.run(tree)]
            assert groups["c"] == [("a", 2)]
            assert groups["m"] == [("a", 1), ("z", 1)]
            assert groups["k"] == [("X", 1), ("x", 1)]
            assert [number for _, number in groups["d"]] == [2]
            assert [(str(key), number) for key, number in groups["f"]] == [("0.0", 2)]
            assert groups["at"] == [(datetime(2024, 1, 1), 2)]

    def test_columns_that_the_role_may_not_read_are_not_there(self, database):
        execute(
            database,
            "CREATE TABLE events (unit int, key text, secret text)",
            f"GRANT SELECT (unit, key) ON events TO {READER}",
        )
        with engine(database) as found:
            assert found.schema(TABLE) == PAIRS
            assert found.run(ranking()) == []

    def test_days_beyond_the_calendar_make_no_question_fail(self, database):
        fill(database, TABLE, [], {"unit": "integer", "day": "date"})
        execute(
            database,
            "INSERT INTO events VALUES (1, 'infinity'), (2, '-infinity'), (3, '2024-01-01'), (4, '12024-01-01')",
        )
        with engine(database) as found:
            day = column("day")
            between = exp.Between(this=day, low=exp.convert(date(1, 1, 1)), high=exp.convert(date(9999, 12, 31)))
            assert found.run(exp.select(day.copy()).from_(source()).where(between)) == [(date(2024, 1, 1),)]


class TestOpening:
    """What is wrong with the set-up is said by name, at once."""

    def refusal(self, url: str, **more) -> EngineFailed:
        with pytest.raises(EngineFailed) as refused:
            engine(url, **more)
        assert refused.value.__context__ is None
        return refused.value

    def test_a_role_that_can_write(self, database):
        fill(database, TABLE, [], PAIRS)
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            execute(database, f"GRANT {right} ON events TO {READER}")
            assert str(self.refusal(database)) == (
                "table 'events': this role may change 'events'; use a role that may only SELECT"
            )
            execute(database, f"REVOKE {right} ON events FROM {READER}")
        engine(database).close()

    def test_a_role_that_may_not_read(self, database):
        execute(database, "CREATE TABLE events (unit int)")
        assert "GRANT SELECT" in str(self.refusal(database))

    def test_no_such_table(self, database):
        fill(database, "event", [], PAIRS)
        assert str(self.refusal(database)).endswith("nor a view of this database; did you mean event?")

    def test_an_address_that_does_not_answer(self):
        with pytest.raises(EngineFailed, match=r"^the server does not answer") as refused:
            PostgresEngine("postgresql://reader@127.0.0.1:1/none", {})
        assert refused.value.__context__ is None

    def test_the_password_stands_in_a_file(self, database, tmp_path):
        fill(database, TABLE, [(1, "a")], PAIRS)
        settings = EngineSettings("postgres", as_reader(database), {"password_file": tmp_path / "none"})
        with pytest.raises(EngineFailed, match=r"none' cannot be read$"):
            open_engine(settings, {TABLE: TABLE})
        (tmp_path / "none").write_text("secret\n")
        with open_engine(settings, {TABLE: TABLE}) as found:
            assert found.run(counting()) == [(1,)]

    def test_a_setting_that_cannot_be_set_is_a_refusal(self, database, monkeypatch):
        fill(database, TABLE, [], PAIRS)
        monkeypatch.setattr(PostgresEngine, "_set", lambda self, connection, settings: ("off",) * len(settings))
        assert str(self.refusal(database)) == "the server does not let a session set default_transaction_read_only"

    def test_origins_hold_no_role_and_no_password(self, tmp_path):
        settings = EngineSettings("postgres", "postgresql://anna:secret@db.example/sales")
        assert PostgresEngine.origin(settings, "orders", tmp_path) == "postgres db.example:5432/sales orders"
        same = {PostgresEngine.places(settings, name, tmp_path) for name in ("orders", "public.orders")}
        assert len(same) == 1
        assert ENGINES["postgres"].url


class TestSessions:
    @pytest.fixture
    def found(self, database):
        fill(database, TABLE, [(i, "ab"[i % 2]) for i in range(10)], PAIRS)
        with engine(database, timeout_s=2) as found:
            yield found

    def test_they_only_read_and_have_one_zone(self, found):
        def shown(connection):
            names = ("transaction_read_only", "transaction_isolation", "search_path", "TimeZone", "statement_timeout")
            return [connection.execute(f"SHOW {name}").fetchone()[0] for name in names]

        assert found._use(shown) == ["on", "repeatable read", "", "UTC", "2s"]
        with pytest.raises(EngineFailed):
            found._use(lambda connection: connection.execute("CREATE TEMPORARY TABLE x (a int)"))

    def test_one_statement_at_a_time(self, found):
        with pytest.raises(EngineFailed, match=COULD_NOT_ANSWER):
            found._run("SELECT 1; SELECT 2")

    def test_a_slow_query_ends_and_the_engine_goes_on(self, found):
        with pytest.raises(EngineFailed) as failure:
            found._run("SELECT pg_catalog.pg_sleep(60)")
        assert str(failure.value) == COULD_NOT_ANSWER
        assert failure.value.__context__ is None
        assert found.run(counting()) == [(10,)]

    def test_closing_ends_what_is_running(self, found):
        started = threading.Event()

        def work(connection):
            started.set()
            return connection.execute("SELECT pg_catalog.pg_sleep(1)").fetchall()

        closing = threading.Thread(target=lambda: (started.wait(), found.close()))
        closing.start()
        with pytest.raises(EngineFailed):
            for _ in iter(lambda: found._use(work), None):
                pass
        closing.join()

    def test_connections_that_the_server_ended_are_replaced(self, found, database):
        assert found.run(counting()) == [(10,)]
        execute(database, CUT_OFF)
        assert found.run(counting()) == [(10,)]

    def test_a_connection_that_ends_during_a_query_fails_in_the_same_words(self, found, database):
        def work(connection):
            execute(database, CUT_OFF)
            return connection.execute("SELECT pg_catalog.pg_sleep(60)").fetchall()

        with pytest.raises(EngineFailed) as failure:
            found._use(work)
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
        assert found.run(counting()) == [(10,)]

    def test_a_server_that_is_gone_fails_in_the_same_words(self, found, database):
        name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
        with psycopg.connect(database.replace(name, "postgres"), autocommit=True) as owner:
            owner.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        with pytest.raises(EngineFailed) as failure:
            found.run(counting())
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)


def test_a_million_rows_in_many_groups(database):
    fill(database, TABLE, [], PAIRS)
    execute(database, "INSERT INTO events SELECT i % 999, 'k' || i % 200000 FROM generate_series(1, 1000000) AS i")
    with engine(database) as found:
        rows = found.run(ranking())
        assert len(rows) == 200_000
        assert {count for _, count in rows} == {5}
        assert [key for key, _ in rows] == sorted(key for key, _ in rows)


class TestCopies(Databases, CopiesContract):
    pass


class TestReleases:
    def test_numeric_keys_are_refused_with_a_way_out(self, database):
        execute(database, "CREATE TABLE events (person int, key numeric, x int)", f"GRANT SELECT ON events TO {READER}")
        with engine(database) as found, pytest.raises(InvalidArgument, match=r"^key: key is numeric.* in a view$"):
            request_of(aggregates=[sf.Units()], epsilon=1, delta=1e-6).check(Source(found, TABLE))

    def test_people_may_be_named_by_uuid(self, database):
        execute(
            database,
            "CREATE TABLE events AS SELECT md5((i % 900)::text)::uuid AS person, 'k' || i % 3 AS key "
            "FROM generate_series(1, 5000) i",
            f"GRANT SELECT ON events TO {READER}",
        )
        with engine(database) as found:
            released = run(request_of(aggregates=[sf.Units()], epsilon=5, delta=1e-6), Source(found, TABLE))
        assert sorted(row["key"] for row in released.rows) == ["k0", "k1", "k2"]
