"""Apache Pinot keeps the contract, on two servers, and its answers are complete or failures."""

from __future__ import annotations

import itertools
import json
import math
import re
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar

import httpx2
import pytest
from click.testing import CliRunner
from sqlglot import exp

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.cli import main
from sfumato.demo import demo
from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.pinot import PinotEngine, translation
from sfumato.engines.pinot.columns import read_columns
from sfumato.engines.pinot.replies import incompleteness
from sfumato.errors import EngineFailed, Failed
from sfumato.ledger import seals, tables
from sfumato.query.counting import usable
from tests.contracts.engine import (
    COMPARISONS,
    TABLE,
    EngineContract,
    column,
    counting,
    present,
    ranked,
    ranking,
    source,
    summing,
)
from tests.contracts.trees import HURTFUL, WORDS, hurtful_rows
from tests.helpers import pinot, tls_proxy
from tests.helpers.duckdb_tables import write
from tests.helpers.worlds import key_bytes

pytestmark = pytest.mark.slow  # a real cluster

NUMBERS = itertools.count()
NO_REPLIES = (b"<html>", b"", b"[]", b"null", b"\xff", b'{"resultTable": 5}', b'{"exceptions": 1}')


def halves(rows):
    return [rows[::2], rows[1::2]]


class Tables:
    """A table for each engine: its rows are on both servers."""

    addresses: ClassVar[dict[str, str]]
    opened: ClassVar[ExitStack]
    worker: ClassVar[str]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _cluster(cls, pinot_cluster, worker_id) -> Iterator[None]:
        cls.addresses, cls.worker = pinot_cluster, worker_id
        with ExitStack() as cls.opened, pytest.MonkeyPatch.context() as patch:
            patch.setattr(translation, "MANY_GROUPS", pinot.MERGED)
            yield

    def engine(self, rows, columns, table=TABLE, *, parts=None, **more) -> PinotEngine:
        name = f"t_{self.worker}_{next(NUMBERS)}"
        self.opened.enter_context(pinot.table(self.addresses, name, columns, parts or halves(rows), **more))
        days = {each: kind for each, kind in columns.items() if kind in ("date", "timestamp")}
        return PinotEngine(
            self.addresses["broker"], {table: name}, controller=self.addresses["controller"], types={table: days}
        )


class TestPinot(Tables, EngineContract):
    can_be_slow = False  # see TestComplete
    names = ("select", "MixedCase", 'say"hi"')  # a column of Pinot has no blanks in its name, and no other letters

    def make(self, rows, columns, table=TABLE, **options):
        return self.engine(rows, columns, table)

    def lose(self, engine):
        httpx2.delete(f"{self.addresses['controller']}/tables/{engine._sources[TABLE]}", trust_env=False)
        return True

    def can_hold(self, text):
        """Pinot cuts text off at NUL. Ranges of the words that UTF-16 orders otherwise differ."""
        return "\0" not in text and text not in ("\ue000", "\uffff")

    def held(self, rows):
        """Moments of whole milliseconds."""
        return [(*row, at and at - timedelta(microseconds=at.microsecond % 1000)) for *row, at in rows]

    def test_queries_may_be_nested(self, events):
        """Not here, so no question needs it."""
        inner = ranking().subquery("inner", copy=False)
        assert not events.abilities.nested
        with pytest.raises(EngineFailed, match=COULD_NOT_ANSWER):
            events.run(exp.select(exp.Count(this=exp.Star())).from_(inner))


PAIRS = {"unit": "integer", "key": "text"}


class TestComplete(Tables):
    """Counts are those of all servers, or there are none."""

    def test_nothing_is_trimmed_before_servers_are_merged(self):
        """Each key that is large on one server is among the smallest of 9,001 on the other."""
        large = [(person, f"large {key}") for key in range(1001) for person in range(3)]
        small = [(3, f"large {key}") for key in range(1001)]
        small += [(person, f"small {key}") for key in range(8000) for person in range(2)]
        with self.engine([], PAIRS, parts=[large, small]) as found:
            rows = found.run(ranking(1001))
        assert rows == ranked(large + small)[:1001]
        assert {count for _, count in rows} == {4}

    def test_the_broker_trims_nothing_while_it_merges(self):
        """With many groups it would, again and again: each large key is among the smallest of one server."""
        parts = []
        for own, other in (("one", "two"), ("two", "one")):
            rows = [(3, f"large {own} {key}") for key in range(1001)]
            rows += [(person, f"large {other} {key}") for key in range(1001) for person in range(3)]
            rows += [(person, f"small {own} {key}") for key in range(2 * pinot.MERGED) for person in range(2)]
            parts.append(rows)
        with self.engine([], PAIRS, parts=parts) as found:
            rows = found.run(ranking(2003))
        assert rows == ranked(parts[0] + parts[1])[:2003]
        assert [count for _, count in rows] == [4] * 2002 + [2]

    def test_more_groups_than_servers_hold_are_a_failure(self, caplog):
        rows = [(i, f"k{i}") for i in range(pinot.MAX_GROUPS + 10)]
        with self.engine([], PAIRS, parts=[rows]) as found:
            assert found.run(counting()) == [(len(rows),)]
            with pytest.raises(EngineFailed) as failure:
                found.run(ranking(10))
        assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
        [record] = caplog.records
        assert record.fields == {"table": record.fields["table"], "why": "numGroupsLimitReached"}

    def test_segments_that_the_broker_does_not_know_are_missed(self, monkeypatch):
        with self.engine([(1, "a"), (2, "b")], PAIRS) as found:
            assert found.run(counting()) == [(2,)]
            listed = found._segments(TABLE)
            assert len(listed) == 2
            monkeypatch.setattr(found, "_segments", lambda name: listed | {"another"})
            with pytest.raises(EngineFailed, match=COULD_NOT_ANSWER):
                found.run(counting())

    @pytest.mark.parametrize("body", NO_REPLIES)
    def test_a_body_that_is_no_reply_is_a_failure(self, body):
        class Broker(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                pass

        with (
            self.engine([(1, "a"), (2, "b")], PAIRS) as found,
            ThreadingHTTPServer(("127.0.0.1", 0), Broker) as server,
        ):
            threading.Thread(target=server.serve_forever, daemon=True).start()
            found._broker, broker = f"http://127.0.0.1:{server.server_port}", found._broker
            with pytest.raises(EngineFailed) as failure:
                found.run(counting())
            assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
            server.shutdown()
            found._broker = broker
            assert found.run(counting()) == [(2,)]

    def test_a_slow_query_ends_and_the_engine_goes_on(self, monkeypatch):
        rows = [(i, f"k{i}") for i in range(100_000)]
        with self.engine(rows, PAIRS) as found:
            usual = found._options
            monkeypatch.setattr(found, "_options", f"{usual};timeoutMs=1")
            with pytest.raises(EngineFailed) as failure:
                found.run(ranking())
            assert (str(failure.value), failure.value.__context__) == (COULD_NOT_ANSWER, None)
            monkeypatch.setattr(found, "_options", usual)
            assert found.run(counting()) == [(100_000,)]


class TestColumns(Tables):
    def test_days_and_moments_may_be_milliseconds(self):
        days = [date(1930, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9998, 12, 31), None]
        rows = [
            (i, day, day and datetime(day.year, day.month, day.day, 23, 59, 59, 999000)) for i, day in enumerate(days)
        ]
        columns = {"unit": "integer", "day": "date", "at": "timestamp"}
        for stored in ({"day": "LONG", "at": "LONG"}, {"day": "TIMESTAMP", "at": "TIMESTAMP"}, {"at": "LONG"}):
            with self.engine(rows, columns, stored=stored) as found:
                assert found.schema(TABLE) == columns
                for name, values in (("day", days), ("at", [at for _, _, at in rows])):
                    groups = exp.select(column(name), exp.Count(this=exp.Star())).from_(source())
                    groups = groups.where(present(name)).group_by(column(name)).order_by(column(name))
                    assert found.run(groups) == [(value, 1) for value in values if value is not None]
                    for kind, holds in COMPARISONS.items():
                        asked = counting(kind(this=column(name), expression=exp.convert(values[2])))
                        assert found.run(asked) == [(sum(holds(v, values[2]) for v in values if v is not None),)]

    def test_the_time_of_a_day_is_none_of_its_business(self):
        """A day in milliseconds is the day of the moment in UTC."""
        moments = [datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(1970, 1, 1, 0), datetime(1970, 1, 1, 23)]
        rows = [(i, moment) for i, moment in enumerate(moments)]
        with self.engine(rows, {"unit": "integer", "day": "date"}, stored={"day": "LONG"}) as found:
            groups = exp.select(column("day"), exp.Count(this=exp.Star())).from_(source()).where(present("day"))
            groups = groups.group_by(column("day")).order_by(column("day"))
            assert found.run(groups) == [(date(1969, 12, 31), 1), (date(1970, 1, 1), 2)]
            assert found.run(counting(column("day").eq(exp.convert(date(1970, 1, 1))))) == [(2,)]
            assert found.run(counting(column("day") < exp.convert(date(1970, 1, 1)))) == [(1,)]

    def test_text_that_is_no_day_is_null(self):
        texts = ["2024-02-29", "2023-02-29", "2024-02-30", "2024-1-01", "20240101", "2024-01-01\n", "n/a", "0000-01-01"]
        rows = [(i, text) for i, text in enumerate(texts)]
        with self.engine(rows, {"unit": "integer", "day": "text"}) as made:
            name = made._sources[TABLE]
        with PinotEngine(
            self.addresses["broker"],
            {TABLE: name},
            controller=self.addresses["controller"],
            types={TABLE: {"day": "date"}},
        ) as found:
            day = column("day")
            assert found.run(exp.select(day).distinct().from_(source()).where(present("day"))) == [(date(2024, 2, 29),)]
            assert found.run(counting(day > exp.convert(date(1900, 1, 1)))) == [(1,)]
            assert found.run(counting(day.neq(exp.convert(date(1900, 1, 1))))) == [(1,)]
            assert found.run(counting(exp.Not(this=present("day")))) == [(7,)]

    def test_both_zeros_are_zero(self):
        """In a dictionary of Pinot they are two values, one after the other."""
        values = [0.0, -0.0, 0.0, -0.0, 1.5, -1.5, 5e-324, -5e-324, None]
        with self.engine([(i, x) for i, x in enumerate(values)], {"unit": "integer", "x": "number"}) as found:
            for kind, holds in COMPARISONS.items():
                asked = counting(kind(this=column("x"), expression=exp.convert(0)))
                assert found.run(asked) == [(sum(holds(x, 0) for x in values if x is not None),)]
            among = exp.In(this=column("x"), expressions=[exp.convert(0), exp.convert(1.5)])
            assert found.run(counting(among)) == [(5,)]
            assert found.run(counting(exp.Not(this=among.copy()))) == [(3,)]

    @pytest.mark.parametrize("raw", [(), ("x",)], ids=["in a dictionary", "in none"])
    def test_nan_is_above_all_numbers(self, raw):
        values = [math.nan, math.inf, -math.inf, 3.0, 0.0, -0.0, -1.0, None]
        with self.engine([(i, x) for i, x in enumerate(values)], {"unit": "integer", "x": "number"}, raw=raw) as found:
            for kind, holds in COMPARISONS.items():
                for bound in (-1, 0, 3):
                    asked = kind(this=column("x"), expression=exp.convert(bound))
                    number = sum(holds(math.inf if math.isnan(x) else x, bound) for x in values if x is not None)
                    assert found.run(counting(asked)) == [(number,)]
                    assert found.run(counting(exp.Not(this=asked.copy()))) == [(7 - number,)]

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, None])
    def test_groups_of_one_size_are_ordered_by_code_point_wherever_a_list_ends(self, limit):
        """A ranking in another order is refused after it was read: then a tie would decide about a failure."""
        groups = {"large": 3, "a": 2, "\uffff": 2, "😀": 2, "\ue000": 2, "é": 2, "small😀": 1}
        rows = [(person, key) for key, people in groups.items() for person in range(people)]
        with self.engine(rows, PAIRS) as found:
            assert found.run(ranking(limit)) == ranked(rows)[:limit]
            assert found.run(ranking(limit).where(usable("key", "text"))) == ranked(rows)[:limit]

    @pytest.mark.parametrize("max_length", [512, 3000])
    def test_long_keys_are_left_out(self, max_length):
        """Whether the schema promises that there are none, which older segments break, or it does not."""
        groups = {"x" * 1001: 5, "😀" * 1000: 4, "y" * 2000: 3, "x" * 1000: 2, "a": 1}
        rows = [(person, key) for key, people in groups.items() for person in range(people)]
        short = [(key, people) for key, people in groups.items() if len(key) <= 1000]
        with self.engine([], PAIRS, parts=[rows], max_length=3000) as found:
            key = found._columns[TABLE]["key"]
            assert key.max_length == 3000
            found._columns[TABLE]["key"] = replace(key, max_length=max_length)
            for limit in (1, 2, 3, 4, None):
                assert found.run(ranking(limit).where(usable("key", "text"))) == short[:limit]

    def test_sums_leave_nulls_out_in_tables_of_many_rows(self):
        """As a value, `IS NULL` of 0.11 is wrong beyond the first block of 10,000 rows."""
        rows = [(None if i % 7 else 5,) for i in range(40_000)]
        with self.engine(rows, {"n": "integer"}) as found:
            assert found.run(summing("n")) == [(5 * sum(i % 7 == 0 for i in range(40_000)),)]

    def test_lists_and_small_floats_are_left_alone(self):
        fields = [
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
            {"name": "f", "dataType": "FLOAT"},
            {"name": "one", "dataType": "LONG", "defaultNullValue": 1},
            {"name": "zero", "dataType": "LONG", "defaultNullValue": 0},
        ]
        read = read_columns({"dimensionFieldSpecs": fields}, {})
        assert [column.kind for column in read.values()] == ["other", "other", "other", "integer"]


class TestOpening(Tables):
    def refusal(self, source: str, **more) -> EngineFailed:
        addresses = {**self.addresses, **more}
        with pytest.raises(EngineFailed) as refused:
            PinotEngine(addresses["broker"], {TABLE: source}, controller=addresses["controller"])
        assert refused.value.__context__ is None
        return refused.value

    def test_no_such_table(self):
        with self.engine([(1, "a")], PAIRS) as found:
            name = found._sources[TABLE].removesuffix("_OFFLINE")
            assert "is not a table of this cluster; did you mean" in str(self.refusal(f"{name}x"))
            with PinotEngine(
                self.addresses["broker"], {TABLE: f"{name}_OFFLINE"}, controller=self.addresses["controller"]
            ) as again:
                assert again.run(counting()) == [(1,)]

    def test_a_table_without_nulls(self):
        name = f"t_{self.worker}_{next(NUMBERS)}"
        with pinot.table(self.addresses, name, PAIRS, [[(1, "a")]], keeps_nulls=False):
            assert "nullHandlingEnabled" in str(self.refusal(name))

    def test_addresses_that_do_not_answer(self):
        with self.engine([(1, "a")], PAIRS) as found:
            name = found._sources[TABLE]
            for place in ("broker", "controller"):
                assert "does not answer" in str(self.refusal(name, **{place: "http://127.0.0.1:1"}))


CONFIG = """
[ledger]
fence = "../{name}.state/fence"
[engines.here]
{engine}
[tables.events]
engine = "here"
source = "{source}"
privacy_unit = "unit"
version = {{ value = "1" }}
[tables.events.columns]
word = {{}}
region = {{ domain = ["emea", "apac", "amer"], max_groups = 2, guaranteed = true }}
flag = {{}}
day = {{ type = "date" }}
at = {{ type = "timestamp" }}
x = {{}}
[tables.events.measures]
people = {{ count = "units" }}
[budgets.all]
epsilon_per = 1
delta_per = 1e-6
information = 1000
calls = 100
[analysts.anna]
budget = "all"
[reports.ads]
table = "events"
time = "day"
levels = ["day"]
entities = ["word"]
epsilon = 1
[reports.ads.statistics]
events = {{ count = "rows" }}
[reports.ads.attributes]
region = {{}}
[reports.spending]
table = "events"
time = "at"
levels = ["hour", "day"]
entities = ["region", "word"]
epsilon = 1
[reports.spending.statistics]
spent = {{ sum = "n" }}
early = {{ sum = "n", where = {{ day = {{ lt = "2000-01-01" }} }} }}
"""

QUESTIONS = (
    "SELECT word, COUNT(DISTINCT unit) FROM events GROUP BY word ORDER BY 2 DESC LIMIT 5",
    "SELECT region, people FROM events WHERE day BETWEEN '1930-01-01' AND '2026-03-29' GROUP BY region",
    "SELECT people FROM events WHERE at >= '2026-03-28 23:59:59.5' AND NOT (word = 'a' OR x > 0)",
    "SELECT word, flag, people FROM events WHERE x <= 0 GROUP BY word, flag LIMIT 3",
)
ADS = {"report": "ads", "statistics": "events", "entity": {"word": "a"}, "attribute": "region"}
ADS |= {"start": "2024-02-26", "end": "2024-03-04", "granularity": "day"}
SPENDING = {"report": "spending", "statistics": ["spent", "early"], "entity": {"region": "emea"}}
SPENDING |= {"start": "2026-03-28", "end": "2026-03-30", "granularity": "hour"}


WORD_CONFIG = re.sub(r"^(region|flag|day|at|x) = .*\n", "", CONFIG.partition("[reports")[0], flags=re.MULTILINE)
WORD_COLUMNS = {"unit": "integer", "word": "text"}


class TestAsked(Tables):
    """Through the whole path: what is stored has the bytes that DuckDB's rows give."""

    def written(self, folder, engine: str, source: str, config: str = CONFIG) -> sf.Session:
        folder.mkdir()
        (folder / "sfumato.toml").write_text(config.format(name=folder.name, engine=engine, source=source))
        (folder / "noise.key").write_bytes(key_bytes())
        (folder / "noise.key").chmod(0o600)
        return sf.open(folder / "sfumato.toml")

    def address(self) -> str:
        broker, controller = self.addresses["broker"], self.addresses["controller"]
        return f'type = "pinot"\nurl = "{broker}"\noptions = {{ controller = "{controller}" }}'

    def test_what_is_wrong_with_the_set_up_is_one_sentence(self, tmp_path, monkeypatch):
        def check(code: int, words: str) -> None:
            result = CliRunner().invoke(main, ["policy", "check", "--config", str(path)])
            assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output
            assert words in " ".join(result.output.split())

        path = tmp_path / "there" / "sfumato.toml"
        with self.engine([(1, "a")], WORD_COLUMNS) as found:
            self.written(tmp_path / "there", self.address(), found._sources[TABLE], WORD_CONFIG).close()
        good = path.read_text()
        check(0, "")
        for place in ("broker", "controller"):
            path.write_text(good.replace(self.addresses[place], "http://127.0.0.1:1"))
            check(4, "does not answer")
        path.write_text(good)
        monkeypatch.setitem(sys.modules, "httpx2", None)
        check(2, "pip install 'sfumato[pinot]'")

    def test_answers_and_reports_have_the_bytes_of_duckdb(self, tmp_path, monkeypatch):
        words = tuple(word for word in WORDS if "\0" not in word)
        rows = [(*row, at and at - timedelta(microseconds=at.microsecond % 1000)) for *row, at in hurtful_rows(words)]
        monkeypatch.setattr(tables, "os", SimpleNamespace(urandom=lambda size: b"n" * size))
        monkeypatch.setattr(seals, "os", SimpleNamespace(urandom=lambda size: b"s" * size))
        monkeypatch.setattr(DuckDBEngine, "abilities", PinotEngine.abilities)
        for kind in (DuckDBEngine, PinotEngine):  # the place of the rows is a part of every digest
            monkeypatch.setattr(kind, "origin", classmethod(lambda cls, settings, source, folder: "the same"))
        write(tmp_path / "events.parquet", rows, HURTFUL)
        with self.engine(rows, HURTFUL) as found:
            pass
        stored = {}
        for name, engine, place in (
            ("duckdb", 'type = "duckdb"', str(tmp_path / "events.parquet")),
            ("pinot", self.address(), found._sources[TABLE]),
        ):
            with self.written(tmp_path / name, engine, place) as session:
                for question in QUESTIONS:
                    session.ask(question, analyst="anna")
                reports = [session.report(asked, analyst="anna").rows for asked in (ADS, SPENDING)]
            with closing(sqlite3.connect(tmp_path / name / "ledger.db")) as books:
                stored[name] = [*books.execute("SELECT atom, payload FROM atoms ORDER BY atom"), *reports]
        assert len(stored["pinot"]) == len(QUESTIONS) + 2
        assert max(len(json.loads(payload)["rows"]) for _, payload in stored["pinot"][:-2]) == 3  # every region
        assert all(len(rows) > 20 for rows in stored["pinot"][-2:])
        assert stored["pinot"] == stored["duckdb"]

    def test_a_failure_keeps_its_charge_and_says_nothing(self, tmp_path, monkeypatch, caplog):
        with self.engine([(i, "a") for i in range(50)], WORD_COLUMNS) as found:
            pass
        with self.written(tmp_path / "shop", self.address(), found._sources[TABLE], WORD_CONFIG) as session:
            monkeypatch.setattr(PinotEngine, "_segments", lambda self, name: frozenset({"gone"}))
            with pytest.raises(EngineFailed, match=f"^{COULD_NOT_ANSWER}$"):
                session.ask(QUESTIONS[0], analyst="anna")
            failed = session.budget("anna").accounts[0]
            assert failed.reserved != NOTHING
            with pytest.raises(sf.NotSupported, match=r"is not known to compute upper as .*; ask the owner for a view"):
                session.ask("SELECT people FROM events WHERE upper(word) = 'A'", analyst="anna")
            assert session.budget("anna").accounts[0] == failed
        assert caplog.records[0].fields["why"] == "2 of 1 segments were looked at"
        assert QUESTIONS[0] not in caplog.text

    def test_https_with_a_user_a_password_and_a_private_certificate(self, tmp_path):
        """Each setting that is wrong is one sentence at the start, and nothing is charged."""
        with self.engine([(i, "a") for i in range(5000)], WORD_COLUMNS) as found:
            name = found._sources[TABLE]
        file, user, password = tls_proxy.certificate(tmp_path), "reader@example.com", "päss:word"
        (tmp_path / "password").write_text(f"{password}\n", "utf-8")
        (tmp_path / "wrong").write_text("wrong", "utf-8")
        with (
            tls_proxy.in_front_of(self.addresses["broker"], file, user, password) as broker,
            tls_proxy.in_front_of(self.addresses["controller"], file, user, password) as controller,
        ):
            address = f'type = "pinot"\nurl = "{broker.replace("//", "//reader%40example.com@")}"\n'
            address += f'controller = "{controller}"\npassword_file = "../password"\nca_file = "../server.pem"'
            with self.written(tmp_path / "shop", address, name, WORD_CONFIG) as session:
                answer = session.ask("SELECT people FROM events", analyst="anna")
                assert abs(answer.rows[0]["people"] - 5000) < 1000
                spent = session.budget("anna").accounts[0]
            path = tmp_path / "shop" / "sfumato.toml"
            for right, wrong, said in (
                ("../password", "../wrong", "does not answer, or refuses this user or its password"),
                ("../password", "../none", "none' cannot be read"),
                ("reader%40", "another%40", "does not answer, or refuses this user or its password"),
                ('ca_file = "../server.pem"', "", "has a certificate that is not trusted"),
                ("../server.pem", "../none", "none' cannot be read, or has no certificates"),
                ("../server.pem", "../password", "password' cannot be read, or has no certificates"),
            ):
                text = path.read_text()
                path.write_text(text.replace(right, wrong))
                asked = CliRunner().invoke(main, ["ask", QUESTIONS[0], "--analyst", "anna", "--config", str(path)])
                path.write_text(text)
                assert asked.exit_code == 4, asked.output
                assert said in " ".join(asked.output.split())
                assert "Traceback" not in asked.output
            with sf.open(path) as session:
                assert session.budget("anna").accounts[0] == spent

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("guaranteed = true", "guaranteed = false", r"tables.events.columns.region.max_groups.*guaranteed = true"),
            (
                'people = { count = "units" }',
                'rows = { count = "rows", max_per_unit = 3 }',
                r"measures.rows.*count = \"units\"",
            ),
            ('people = { count = "units" }', 'n = { sum = "n", max_per_unit = 3 }', r"measures.n.*count = \"units\""),
            ("x = {}", "x = { domain = [0, 1] }", r"columns.x: x holds a number.*use it as a filter"),
            (
                "epsilon = 1\n",
                "epsilon = 1\nmax_events_per_unit = 5\n",
                r"reports.ads.max_events_per_unit.*leave it out",
            ),
            ("region = {}\n", "x = { domain = [0, 1] }\n", r"reports.ads.attributes.x: x holds a number"),
            (
                'events = { count = "rows" }',
                'events = { count = "rows", where = { word = { gt = "😀" } } }',
                r"reports.ads.statistics.events.where.*use a list",
            ),
        ],
    )
    def test_what_pinot_cannot_do_is_refused_by_policy_check(self, tmp_path, old, new, said):
        with self.engine([(1, *[None] * 7)], HURTFUL) as found:
            pass
        folder = tmp_path / "shop"
        with self.written(folder, self.address(), found._sources[TABLE]):
            pass
        text = (folder / "sfumato.toml").read_text()
        changed = text.replace(old, new)
        assert changed != text
        (folder / "sfumato.toml").write_text(changed)
        checked = CliRunner().invoke(main, ["policy", "check", "--config", str(folder / "sfumato.toml")])
        assert checked.exit_code == 1
        assert re.search(said, " ".join(checked.output.split()))


GOOD = {
    "resultTable": {"dataSchema": {"columnNames": ["count(*)"], "columnDataTypes": ["LONG"]}, "rows": [[7]]},
    "exceptions": [],
    "numServersQueried": 2,
    "numServersResponded": 2,
    "numSegmentsQueried": 3,
    "numSegmentsPrunedByBroker": 1,
    "numGroupsLimitReached": False,
}
SEGMENTS = frozenset("abcd")


def without(name: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != name}


class TestReplies:
    """What is read of a reply, reply by reply. That brokers write them so is shown by the other tests."""

    def test_a_complete_one(self):
        assert incompleteness(GOOD, SEGMENTS, SEGMENTS, None) == ""

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"exceptions": [{"errorCode": 427, "message": "host of a cell"}]}, "exceptions [427]"),
            ({"exceptions": None}, "exceptions []"),
            ({"numServersResponded": 1}, "1 of 2 servers responded"),
            ({"numSegmentsQueried": 2}, "3 of 4 segments were looked at"),
            ({"numSegmentsQueried": 4}, "5 of 4 segments were looked at"),
            ({"numGroupsLimitReached": True}, "numGroupsLimitReached"),
            ({"partialResult": True}, "partialResult"),
            ({"groupsTrimmed": True}, "groupsTrimmed"),
            (
                {"resultTable": {"dataSchema": {"columnNames": ["distinctcountbitmap(unit)"]}, "rows": [[7]]}},
                "the broker replaces COUNT(DISTINCT) by an approximate function",
            ),
        ],
    )
    def test_one_that_must_not_be_used(self, changed, why):
        assert incompleteness({**GOOD, **changed}, SEGMENTS, SEGMENTS, None) == why

    def test_segments_that_come_or_go_and_rows_beyond_the_limit(self):
        assert incompleteness(GOOD, SEGMENTS, SEGMENTS | {"e"}, None) == "the segments of the table changed"
        assert incompleteness(GOOD, SEGMENTS, SEGMENTS, 0) == "there are more rows than a query may return"

    @pytest.mark.parametrize("name", ["numServersQueried", "numServersResponded", "numSegmentsQueried"])
    def test_one_without_its_flags_is_unreadable(self, name):
        with pytest.raises(KeyError):
            incompleteness(without(name), SEGMENTS, SEGMENTS, None)
        assert incompleteness(without("exceptions"), SEGMENTS, SEGMENTS, None) == "exceptions []"


@pytest.mark.exhaustive
def test_a_server_that_dies_is_missed_until_it_is_back(tmp_path):
    """Killed, it is an error; forgotten, it is in no flag; back, its rows are counted again."""
    if why := pinot.why_missing():
        pytest.skip(why)
    made = pinot.Cluster(tmp_path)
    addresses = {"broker": made.broker, "controller": made.controller}
    rows = [(i, "ab"[i % 2]) for i in range(1000)]
    try:
        made.start()
        with pinot.table(addresses, "events", PAIRS, halves(rows)):
            found = PinotEngine(made.broker, {TABLE: "events"}, controller=made.controller)
            assert found.run(ranking()) == [("a", 500), ("b", 500)]
            made.kill("two")
            for_now = [outcome(found)]
            with httpx2.Client(timeout=60, trust_env=False) as http:
                # Until the broker has forgotten it, and answers from half of the rows without a flag.
                pinot.wait_until(lambda: pinot.rows_seen(http, made.broker, "events") == 500)
                for_now.append(outcome(found))
            with pytest.raises(EngineFailed, match="segments were looked at"):
                found.check()
            assert for_now == [COULD_NOT_ANSWER, COULD_NOT_ANSWER]
            made.start_server("two")
            pinot.wait_until(lambda: outcome(found) != COULD_NOT_ANSWER)
            assert found.run(ranking()) == [("a", 500), ("b", 500)]
            found.close()
    finally:
        made.stop()


def outcome(found: PinotEngine) -> object:
    """What a question gets: the right rows, or the words of a failure."""
    try:
        rows = found.run(ranking())
    except EngineFailed as failure:
        return str(failure)
    assert rows == [("a", 500), ("b", 500)]
    return rows


class TestDemo(Tables):
    """The first minute, on the real engine."""

    def test_it_runs_on_pinot(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SFUMATO_ENGINES__LOCAL__URL", self.addresses["broker"])
        monkeypatch.setenv("SFUMATO_ENGINES__LOCAL__CONTROLLER", self.addresses["controller"])
        with demo.start_demo(20_000, tmp_path / "first", "pinot") as finished:
            answers = list(finished.answers.values())
        assert finished.table is None
        assert [row["region"] for row in answers[2].rows] == ["emea", "amer", "apac"]
        assert 0 < len(finished.numbers.rows) <= 21  # numbers below 3 are not shown
        with (
            pytest.raises(Failed, match=r"^the table sfumato_demo has [0-9,]+ rows and not .*delete it"),
            demo.start_demo(100, tmp_path / "second", "pinot"),
        ):
            pass

    def test_without_a_pinot_it_says_how_to_start_one(self, tmp_path, monkeypatch):
        monkeypatch.setenv("SFUMATO_ENGINES__LOCAL__CONTROLLER", "http://127.0.0.1:1")
        with pytest.raises(Failed, match="docker run"), demo.start_demo(100, tmp_path / "shop", "pinot"):
            pass
