"""The SQLAlchemy dialect: addresses, reflection, and that what it writes is what the service reads."""

from __future__ import annotations

import tomllib
from datetime import date, datetime
from pathlib import Path

import httpx2
import pandas
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.engine import make_url

from sfumato.client import alchemy
from tests.helpers.fake_service import KEY, Reading

registry.register("sfumato", "sfumato.client.alchemy", "SfumatoDialect")
registry.register("sfumato.https", "sfumato.client.alchemy", "SfumatoHttpsDialect")

ADDRESS = f"sfumato+https://:{KEY}@sfumato.test:8080/"


@pytest.fixture
def service():
    return Reading()


@pytest.fixture
def engine(service):
    made = sa.create_engine(ADDRESS, connect_args={"transport": httpx2.MockTransport(service)})
    yield made
    made.dispose()


@pytest.fixture
def table(engine):
    return sa.Table("engagements", sa.MetaData(), autoload_with=engine)


def test_the_entry_points_are_declared():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, place in project["entry-points"]["sqlalchemy.dialects"].items():
        module, _, dialect = place.partition(":")
        assert module == alchemy.__name__
        assert registry.load(name) is getattr(alchemy, dialect)


@pytest.mark.parametrize(
    ("address", "url", "options"),
    [
        (ADDRESS, "https://sfumato.test:8080", {"key": KEY}),
        ("sfumato+https://:k@host/", "https://host", {"key": "k"}),
        ("sfumato://:k@host:1/?tls=true", "https://host:1", {"key": "k"}),
        ("sfumato://host/under/path", "http://host/under/path", {"key": None}),
        ("sfumato://:a%2Fb@[::1]:8080", "http://[::1]:8080", {"key": "a/b"}),
        ("sfumato://:k@host?allow_plain_http=true", "http://host", {"key": "k", "allow_plain_http": True}),
        ("sfumato://:k@host?timeout_s=5&retries=0", "http://host", {"key": "k", "timeout_s": 5.0, "retries": 0}),
    ],
)
def test_addresses(address, url, options):
    made = make_url(address)
    assert made.get_dialect()().create_connect_args(made) == ([url], options)


@pytest.mark.parametrize("end", ["?tls=maybe", "?timeout_s=long", "?other=1"])
def test_options_that_make_no_sense_are_refused(end):
    with pytest.raises(sa.exc.ArgumentError):
        sa.create_engine(ADDRESS + end).connect()


def test_a_key_as_a_user_is_refused_and_keys_are_not_shown(engine):
    with pytest.raises(sa.exc.ArgumentError, match="after a colon"):
        sa.create_engine("sfumato://KEY@host/").connect()
    assert KEY not in repr(engine)


def test_the_key_may_come_from_the_environment(monkeypatch, service):
    monkeypatch.setenv("SFUMATO_KEY", KEY)
    made = sa.create_engine("sfumato+https://sfumato.test/", connect_args={"transport": httpx2.MockTransport(service)})
    assert sa.inspect(made).get_table_names() == ["engagements"]
    made.dispose()


def test_what_there_is(engine):
    seen = sa.inspect(engine)
    assert seen.get_schema_names() == ["main"]
    assert seen.default_schema_name == "main"
    assert seen.get_table_names() == seen.get_table_names("main") == ["engagements"]
    assert seen.get_table_names("other") == []
    assert (seen.has_table("Engagements"), seen.has_table("x")) == (True, False)
    assert seen.get_view_names() == []
    types = {column["name"]: type(column["type"]) for column in seen.get_columns("engagements")}
    assert types == {
        "article": sa.String,
        "region": sa.String,
        "day": sa.Date,
        "at": sa.DateTime,
        "n": sa.BigInteger,
        "score": sa.Double,
        "paid": sa.Boolean,
        "member_id": sa.types.NullType,
        "members": sa.BigInteger,
    }
    assert seen.get_pk_constraint("engagements")["constrained_columns"] == []
    for nothing in (seen.get_foreign_keys, seen.get_indexes, seen.get_unique_constraints, seen.get_check_constraints):
        assert nothing("engagements") == []
    with pytest.raises(sa.exc.NoSuchTableError):
        seen.get_columns("x")


@pytest.mark.parametrize("schema", [None, "main"])
def test_constructs_become_sql_that_the_service_reads(engine, service, schema):
    table = sa.Table("engagements", sa.MetaData(), autoload_with=engine, schema=schema)
    people = sa.func.count(table.c.member_id.distinct()).label("people")
    question = (
        sa.select(table.c.day, people, table.c.region.label("where"))
        .where(
            table.c.region.in_(["emea", "amer"]),
            table.c.region.not_in(["x", "y"]),
            table.c.day.between(date(2026, 11, 1), date(2026, 11, 30)),
            table.c.at < datetime(2026, 12, 1),
            sa.or_(table.c.n > -3, table.c.score != 0.5, ~(table.c.article == "o'clock ?")),
            table.c.paid,
        )
        .group_by(table.c.day, table.c.region)
        .order_by(people.desc())
        .limit(2)
    )
    with engine.connect() as connection:
        rows = connection.execute(question).all()
    assert rows == [(date(2026, 11, 1), 900, "emea"), (date(2026, 11, 2), 700, "amer")]
    assert (rows[0].people, rows[0].where) == (900, "emea")
    assert "main" not in service.asked[0]
    assert "?" not in service.asked[0].replace("o''clock ?", "")


def test_measures_totals_and_lists_without_counts(engine, table):
    listed = sa.select(table.c.article, table.c.members).group_by(table.c.article).limit(1)
    total = sa.select(sa.func.count(sa.distinct(table.c.member_id)))
    bare = sa.select(table.c.article).group_by(table.c.article).order_by(table.c.members.desc()).limit(1)
    with engine.connect() as connection:
        assert connection.execute(listed).all() == [("gdpr-guide", 900)]
        assert connection.scalar(total) == 900
        assert connection.execute(bare).all() == [("gdpr-guide",)]


def test_refusals_keep_the_services_words(engine, table):
    with engine.connect() as connection:
        for question in (sa.select(table), sa.select(table.c.article).offset(1), sa.text("SELECT * FROM engagements")):
            with pytest.raises(sa.exc.ProgrammingError, match=r"count|OFFSET"):
                connection.execute(question)
        with pytest.raises(sa.exc.ProgrammingError, match="cannot be asked"):
            connection.execute(table.delete())


def test_pings_and_transactions(service):
    transport = httpx2.MockTransport(service)
    engine = sa.create_engine(ADDRESS, connect_args={"transport": transport}, pool_pre_ping=True)
    for _ in range(2):
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT members FROM engagements"))
    assert "/v1/budget" in service.calls
    engine.dispose()


def test_pandas_reads_from_an_engine(engine):
    text = "SELECT members AS people, region, at FROM engagements WHERE n < :n GROUP BY region, at"
    frame = pandas.read_sql(sa.text(text), engine, params={"n": 4}, parse_dates=["at"])
    assert [*frame.columns] == ["people", "region", "at"]
    assert frame["people"].tolist() == [900, 700, 500]
    assert frame["at"][0] == pandas.Timestamp("2026-11-01 08:30")
    assert pandas.read_sql("SELECT n, members FROM engagements GROUP BY n LIMIT 1", engine).to_dict("records") == [
        {"n": 1, "members": 900}
    ]
