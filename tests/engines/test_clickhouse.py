"""ClickHouse keeps the contract, in a folder that chdb opens, and on a server whose address is given."""

from __future__ import annotations

import base64
import itertools
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import date, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import duckdb
import pytest
from sqlglot import exp

import sfumato as sf
from sfumato.config.settings import EngineSettings
from sfumato.engines import open_engine
from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER
from sfumato.engines.clickhouse import ClickHouseEngine
from sfumato.engines.clickhouse.engine import _SETTINGS
from sfumato.engines.clickhouse.sessions import Https, driver
from sfumato.errors import EngineFailed
from sfumato.release.source import Source
from tests.contracts.asking import COLUMNS, AskContract
from tests.contracts.contributions import CodedContributionsContract
from tests.contracts.copies import CopiesContract
from tests.contracts.decimals import DecimalsContract
from tests.contracts.engine import TABLE, EngineContract, column, counting, ranking, source
from tests.helpers.aggregating import request_of, run
from tests.helpers.duckdb_tables import write

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

MISSING = "chdb is not installed (700 MB): pip install 'sfumato[clickhouse]'"
NO_SERVER = (
    "SFUMATO_TEST_CLICKHOUSE is not set: the https:// URL of a ClickHouse server, with a user who may create users"
)
KINDS = {
    "text": "String",
    "integer": "Int64",
    "number": "Float64",
    "boolean": "Bool",
    "date": "Date32",
    "timestamp": "DateTime64(6, 'Asia/Tokyo')",
}
SLOW = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) % 7 = 1"
PAIRS = {"unit": "integer", "key": "text"}


def typed(columns) -> str:
    """Columns and their types, as CREATE TABLE has them."""
    names = (exp.to_identifier(name, quoted=True).sql("clickhouse") for name in columns)
    return ", ".join(f"{name} Nullable({KINDS[kind]})" for name, kind in zip(names, columns.values(), strict=True))


class Writer:
    """The folder of this process, and a session that may write to it."""

    def __init__(self, folder) -> None:
        chdb = pytest.importorskip("chdb", reason=MISSING)
        self.folder = folder
        self.connection = chdb.connect(str(folder))
        self.numbers = itertools.count()

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self.connection.query(statement)

    def fill(self, rows, columns, table=TABLE) -> str:
        """A table in a database of its own, which is named."""
        database = f"s{next(self.numbers)}"
        place = exp.table_(table, database, quoted=True).sql("clickhouse")
        self.execute(
            f"CREATE DATABASE {database}", f"CREATE TABLE {place} ({typed(columns)}) ENGINE = MergeTree ORDER BY ()"
        )
        if rows:
            path = write(self.folder.parent / f"{database}.parquet", rows, columns)
            self.execute(f"INSERT INTO {place} SELECT * FROM file('{path}', Parquet)")
        return database

    def engine(self, database: str = "default", table: str = TABLE, **more) -> ClickHouseEngine:
        return ClickHouseEngine(f"chdb:{self.folder}", {table: f"{database}.{table}"}, **more)


class Server:
    """A user with a database for each table, on a real server."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _server(cls):
        url = os.environ.get("SFUMATO_TEST_CLICKHOUSE")
        if not url:
            pytest.skip(NO_SERVER)
        driver("pyarrow")
        cls.home, cls.numbers = Https(url, None, 60), itertools.count()
        cls.name, cls.made = f"sfumato_{uuid4().hex}", []
        cls.execute(f"CREATE USER {cls.name} IDENTIFIED BY '{cls.name}'")
        yield
        for statement in (*(f"DROP DATABASE {database} SYNC" for database in cls.made), f"DROP USER {cls.name}"):
            cls.execute(statement)

    @classmethod
    def execute(cls, statement: str, body: bytes = b"") -> None:
        cls.home._client.post("/", params={"query": statement}, content=body).raise_for_status()

    def make(self, rows, columns, table=TABLE, **options):
        database = f"{self.name}_{next(self.numbers)}"
        self.made.append(database)
        place = exp.table_(table, database, quoted=True).sql("clickhouse")
        self.execute(f"CREATE DATABASE {database}")
        self.execute(f"CREATE TABLE {place} ({typed(columns)}) ENGINE = MergeTree ORDER BY ()")
        if rows:
            with tempfile.TemporaryDirectory() as folder:
                body = write(Path(folder) / "rows.parquet", rows, columns).read_bytes()
            self.execute(f"INSERT INTO {place} FORMAT Parquet", body)
        self.execute(f"GRANT SELECT ON {place} TO {self.name}")
        url = f"https://{self.name}:{self.name}@{self.home.name}/{database}"
        return ClickHouseEngine(url, {table: table}, **options)

    def lose(self, engine):
        self.execute(f"DROP TABLE {engine._tables[TABLE].sql('clickhouse')} SYNC")
        return True


class TestServer(Server, EngineContract):
    casts_fail = False


class TestServerContributions(Server, CodedContributionsContract):
    pass


class TestServerCopies(Server, CopiesContract):
    pass


@pytest.fixture(scope="session")
def writer(tmp_path_factory) -> Iterator[Writer]:
    found = Writer(tmp_path_factory.mktemp("clickhouse") / "folder")
    yield found
    found.connection.close()


class Folders:
    writer: ClassVar[Writer]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _writer(cls, writer):
        cls.writer = writer

    def make(self, rows, columns, table=TABLE, **options):
        return self.writer.engine(self.writer.fill(rows, columns, table), table, **options)

    def lose(self, engine):
        self.writer.execute(f"DROP TABLE {engine._tables[TABLE].sql('clickhouse')} SYNC")
        return True


class TestFolder(Folders, EngineContract):
    casts_fail = False


class TestContributions(Folders, CodedContributionsContract):
    """What releases read: rows that are copied into DuckDB."""


class TestCopies(Folders, CopiesContract):
    pass


class TestDecimals(Folders, DecimalsContract):
    def retype(self, engine):
        table = engine._tables[TABLE]
        self.writer.execute(f"ALTER TABLE {table.sql('clickhouse')} MODIFY COLUMN x Nullable(Decimal(20, 2))")
        return self.writer.engine(table.db)


class TestAsking(Folders, AskContract):
    dead = 'type = "clickhouse"\nurl = "https://reader@127.0.0.1:1/none"'
    extra, modules = "clickhouse", ("chdb", "pyarrow")

    def settle(self, rows):
        database = self.writer.fill(rows, COLUMNS, "engagements")
        return f'type = "clickhouse"\nurl = "chdb:{self.writer.folder}"', f"{database}.engagements"

    def unsettle(self, source):
        self.writer.execute(f"DROP TABLE {source} SYNC")


def test_every_type_reads_as_python_reads_it(writer):
    database = writer.fill([], {"n": "integer"})
    writer.execute(
        f"CREATE TABLE {database}.types (unit UUID, c FixedString(3), l LowCardinality(Nullable(String)), "
        "m Enum8('z' = 1, 'a' = 2), w Int128, u UInt64, f Float32, d Decimal(18, 2), day Date, "
        "at DateTime('Asia/Tokyo'), fine DateTime64(9), j Array(String), "
        "k String MATERIALIZED upper(toString(m))) ENGINE = MergeTree ORDER BY ()",
        f"INSERT INTO {database}.types VALUES "
        "(generateUUIDv4(), 'a', 'x', 'z', pow(2, 100), 18446744073709551615, -0., 1.5, '2024-01-01', "
        "toDateTime('2023-12-31 15:00:00', 'UTC'), now(), ['a']), "
        "(generateUUIDv4(), 'a', 'x', 'a', 5, 18446744073709551615, 0., 1.50, '2024-01-01', "
        "toDateTime('2023-12-31 15:00:00', 'UTC'), now(), [])",
        f"INSERT INTO {database}.types (unit, c, l, m) SELECT generateUUIDv4(), 'b', unhex('ff'), 'a'",
    )
    with writer.engine(database, "types") as found:
        assert found.schema("types") == {
            "unit": "other",
            **dict.fromkeys("clm", "text"),
            **dict.fromkeys("wu", "integer"),
            **dict.fromkeys("fd", "number"),
            "day": "date",
            "at": "timestamp",
            **dict.fromkeys(("fine", "j"), "other"),
            "k": "text",
        }
        groups = {}
        for name in ("c", "l", "m", "w", "u", "f", "d", "day", "at", "k"):
            count = exp.Count(this=exp.Star())
            tree = exp.select(column(name), count).from_(source("types")).group_by(column(name))
            wanted = tree.where(exp.EQ(this=column("c"), expression=exp.Literal.string("a"))).order_by(column(name))
            groups[name] = found.run(wanted)
        assert groups["c"] == [("a", 2)]
        assert groups["m"] == [("a", 1), ("z", 1)]
        assert groups["w"] == [(5, 1), (None, 1)]
        assert groups["u"] == [(2**64 - 1, 2)]
        assert [(str(key), number) for key, number in groups["f"]] == [("0.0", 2)]
        assert [number for _, number in groups["d"]] == [2]
        assert groups["day"] == [(date(2024, 1, 1), 2)]
        assert groups["at"] == [(datetime(2023, 12, 31, 15), 2)]
        assert groups["k"] == [("A", 1), ("Z", 1)]
        every = exp.select(column("l")).from_(source("types")).order_by(column("l"))
        assert found.run(every) == [("x",), ("x",), (None,)]  # what is no UTF-8 is no text


class TestOpening:
    """What is wrong with the set-up is said by name, at once."""

    def refusal(self, url: str, tables=None) -> str:
        with pytest.raises(EngineFailed) as refused:
            ClickHouseEngine(url, tables or {})
        assert refused.value.__context__ is None
        return str(refused.value)

    def test_a_folder_that_is_none(self, writer, tmp_path):
        assert "is not a folder of ClickHouse" in self.refusal(f"chdb:{tmp_path}")
        assert list(tmp_path.iterdir()) == []

    def test_a_second_folder(self, writer, tmp_path):
        (tmp_path / "metadata").mkdir()
        assert self.refusal(f"chdb:{tmp_path}").startswith("the folder cannot be opened: another process has it open")

    def test_a_folder_that_another_process_has_open(self, writer):
        writer.fill([], PAIRS)
        text = (
            "import sys\nfrom sfumato.engines.clickhouse import ClickHouseEngine\n"
            "try: ClickHouseEngine('chdb:' + sys.argv[1], {})\nexcept Exception as e: print(e)"
        )
        done = subprocess.run([sys.executable, "-c", text, str(writer.folder)], capture_output=True, text=True)
        assert done.stdout.startswith("the folder cannot be opened: another process has it open")

    def test_no_such_table(self, writer):
        database = writer.fill([], PAIRS, "purchases of people")
        problem = self.refusal(f"chdb:{writer.folder}", {TABLE: f"{database}.purchase of people"})
        assert problem.endswith(f"nor a view of this database; did you mean {database}.purchases of people?")

    def test_a_role_that_can_write(self, writer):
        """The one of chdb may do everything; with `only_ours` off, it is asked as those of servers are."""
        database = writer.fill([], PAIRS)
        with writer.engine(database) as found, pytest.raises(EngineFailed, match=r"may change 'x'; use a role"):
            found._refuse_writers(found._server.connect({}), {TABLE: "x"})

    def test_a_setting_that_cannot_be_set_is_a_refusal(self, writer, monkeypatch):
        database = writer.fill([], PAIRS)
        for name, value in (("readonly", "0"), ("count_distinct_implementation", "uniq")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ClickHouseEngine, "_read_back", lambda *_, given={**_SETTINGS, name: value}: given)
                with pytest.raises(EngineFailed, match=f"^the server does not let a session set {name}$"):
                    writer.engine(database)

    def test_origins_hold_no_role_and_no_password(self, tmp_path):
        settings = EngineSettings("clickhouse", "https://anna:secret@db.example:9000/sales")
        assert ClickHouseEngine.origin(settings, "orders", tmp_path) == "clickhouse db.example:9000/sales orders"
        here, there = EngineSettings("clickhouse", "chdb:click"), EngineSettings("clickhouse", f"chdb:{tmp_path}/click")
        assert ClickHouseEngine.origin(here, "orders", tmp_path) == "clickhouse click orders"
        places = {ClickHouseEngine.places(each, "orders", tmp_path) for each in (here, there)}
        assert len(places) == 1

    def test_the_folder_starts_at_that_of_the_configuration(self, writer):
        database = writer.fill([(1, "a")], PAIRS)
        settings = EngineSettings("clickhouse", f"chdb:{writer.folder.name}")
        with open_engine(settings, {TABLE: f"{database}.{TABLE}"}, folder=writer.folder.parent) as found:
            assert found.run(counting()) == [(1,)]


class TestSessions:
    @pytest.fixture
    def found(self, writer):
        with writer.engine(writer.fill([(i, "ab"[i % 2]) for i in range(10)], PAIRS), timeout_s=2) as found:
            yield found

    def test_they_only_read_and_have_one_zone(self, found):
        [row] = found._run("SELECT getSetting('readonly'), timezone(), getSetting('max_execution_time')")
        assert row == (1, "UTC", 2)
        for statement in ("CREATE TABLE x (a Int8) ENGINE = Memory", "SET readonly = 0", "SET limit = 1"):
            with pytest.raises(EngineFailed, match=COULD_NOT_ANSWER):
                found._run(statement)

    def test_a_slow_query_ends_and_the_engine_goes_on(self, found):
        with pytest.raises(EngineFailed) as failure:
            found._run(SLOW)
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
        assert found.run(counting()) == [(10,)]

    def test_what_a_failed_query_leaves_behind_is_never_taken_for_rows(self, found):
        failing = "SELECT throwIf(number = 5), number FROM numbers(10)"
        session = found._server.connect({})
        with pytest.raises(Exception, match="throwIf"):
            session.read(failing)
        with pytest.raises(ValueError, match="not one whole table"):  # chdb puts the rest of the reply before this one
            session.read("SELECT 1")
        session.close()
        with pytest.raises(EngineFailed):
            found._run(failing)
        assert found.run(counting()) == [(10,)]

    def test_closing_ends_what_is_running(self, writer):
        found = writer.engine(writer.fill([], PAIRS), timeout_s=600)
        closing = threading.Timer(0.5, found.close)
        closing.start()
        with pytest.raises(EngineFailed, match=CLOSED):
            found._run(SLOW)
        closing.join()

    def test_a_table_that_is_gone_fails_in_the_same_words(self, found, writer):
        writer.execute(f"DROP TABLE {found._tables[TABLE].sql('clickhouse')} SYNC")
        with pytest.raises(EngineFailed) as failure:
            found.run(counting())
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)


def test_a_million_rows_in_many_groups(writer):
    database = writer.fill([], PAIRS)
    rows = "SELECT number % 999, concat('k', toString(number % 200000)) FROM numbers(1000000)"
    writer.execute(f"INSERT INTO {database}.events {rows}")
    with writer.engine(database) as found:
        rows = found.run(ranking())
        assert len(rows) == 200_000
        assert {count for _, count in rows} == {5}
        assert [key for key, _ in rows] == sorted(key for key, _ in rows)


def test_people_may_be_named_by_uuid(writer):
    database = writer.fill([], PAIRS)
    writer.execute(
        f"CREATE TABLE {database}.people (person UUID, key LowCardinality(String)) ENGINE = MergeTree ORDER BY ()",
        f"INSERT INTO {database}.people SELECT toUUID(UUIDNumToString(MD5(toString(number % 900)))), "
        "concat('k', toString(number % 3)) FROM numbers(5000)",
    )
    with writer.engine(database, "people") as found:
        released = run(request_of(aggregates=[sf.Units()], epsilon=5, delta=1e-6), Source(found, "people"))
    assert sorted(row["key"] for row in released.rows) == ["k0", "k1", "k2"]


def test_a_release_whose_rows_end_too_early_fails(writer):
    database = writer.fill([], PAIRS)
    rows = "SELECT number % 500 + throwIf(number = 2500000) AS person, 'a' AS key FROM numbers(3000000)"
    writer.execute(f"CREATE VIEW {database}.broken AS {rows}")
    with writer.engine(database, "broken") as found:
        assert found.is_view("broken")
        with pytest.raises(EngineFailed) as failure:
            run(request_of(aggregates=[sf.Units()], epsilon=5, delta=1e-6), Source(found, "broken"))
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)


class TestReplies:
    """What comes over HTTP is one whole table, or an error."""

    @pytest.fixture
    def address(self):
        """A peer that is no ClickHouse: it sends back what it is sent, with the status that stands in front."""

        class Echo(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(int(body[:3]))
                self.end_headers()
                self.wfile.write(base64.b64decode(body[3:]))

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}/"
            server.shutdown()
            thread.join()

    @pytest.fixture
    def whole(self):
        arrow = pytest.importorskip("pyarrow", reason=MISSING)
        with arrow.BufferOutputStream() as file:
            with arrow.ipc.new_stream(file, arrow.schema([("n", arrow.int64())])) as stream:
                stream.write_batch(arrow.record_batch({"n": [1, 2, 3]}))
            return file.getvalue().to_pybytes()

    def test_a_cut_reply_has_no_rows(self, address, whole):
        session = Https(address, None, 5).connect({})

        def text(status: int, body: bytes) -> str:
            return f"{status}{base64.b64encode(body).decode()}"

        def streamed(body: str) -> int:
            with session.stream(body) as rows, duckdb.connect() as connection:
                connection.register("rows", rows)
                [(count,)] = connection.execute("SELECT count(*) FROM rows").fetchall()
                return count

        assert session.read(text(200, whole)).num_rows == streamed(text(200, whole)) == 3
        for status, body in ((500, whole), (200, b"Code: 159"), (200, b""), (200, whole[:-8]), (200, whole[:-20])):
            for read in (session.read, streamed):
                with pytest.raises(Exception, match=r"."):
                    read(text(status, body))
        with pytest.raises(ValueError, match="not one whole table"):
            session.read(text(200, whole + whole))
