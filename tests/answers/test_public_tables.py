"""Public tables in a configuration: how they are read, who may join them, and where they are told of."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from sfumato.errors import ConfigError, NotSupported
from sfumato.ledger.policy_trail import settings_in_force
from sfumato.query.versions import next_version
from sfumato.session import Session
from tests.helpers.worlds import NOW, World, new_world

PUBLIC = """
[tables.articles]
public = true
engine = "local"
source = "articles"
key = "article"
{more}
"""
JOINED = "FROM engagements JOIN articles USING (article)"


def change(world: World, *statements: str) -> None:
    with duckdb.connect(str(world.folder / "rows.duckdb")) as connection:
        for statement in statements:
            connection.execute(statement)


def new_public_world(folder: Path, *, more: str = "", text: str = "") -> World:
    world = new_world(folder)
    change(
        world,
        "CREATE TABLE articles AS SELECT 'article-' || i AS article, "
        "CASE i % 3 WHEN 0 THEN 'pets' WHEN 1 THEN 'tax' END AS topic, i AS length FROM range(30) AS rows (i)",
    )
    path = world.folder / "sfumato.toml"
    path.write_text(path.read_text() + PUBLIC.format(more=more) + text)
    return world


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Session]:
    with new_public_world(tmp_path / "world").open() as session:
        yield session


def test_an_answer_has_the_names_of_the_statement_and_its_repeat_is_free(public: Session):
    first = public.ask(f"SELECT topic, members {JOINED} GROUP BY topic", analyst="anna")
    assert [*first.columns] == ["topic", "members"]
    assert {row["topic"] for row in first.rows} == {"pets", "tax"}
    again = public.ask(
        f"SELECT a.topic AS t, members AS people {JOINED.replace('articles', 'articles a')} GROUP BY t", analyst="anna"
    )
    assert again.receipt.repeat
    assert {row["t"]: row["people"] for row in again.rows} == {row["topic"]: row["members"] for row in first.rows}
    [question] = public.questions("anna").rows
    assert "lookup(article, articles.topic)" in question.sql
    assert public.ask(question.request, analyst="anna").receipt.repeat
    assert public.ask(question.sql, analyst="anna").receipt.repeat


def test_measures_of_values_of_joined_rows(tmp_path: Path):
    """By what is looked up, filtered by that, and by a private key: close to the truth, and paid for once."""
    world = new_public_world(tmp_path / "world")
    text = world.path.read_text().replace('n = { type = "integer" }', "n = { min = 0, max = 8, max_per_unit = 3 }")
    world.path.write_text(text.replace('visits = { sum = "n", max_per_unit = 20 }', ""))
    measures = (
        "COUNT(DISTINCT member_id) AS people, AVG(n) AS mean, SUM(n) AS total, STDDEV(n) AS spread, COUNT(n) AS seen"
    )
    statements = [
        (f"SELECT topic, {measures} {JOINED} GROUP BY topic", 2),
        (f"SELECT topic, {measures} FROM engagements LEFT JOIN articles USING (article) GROUP BY topic", 2),
        (f"SELECT region, {measures} {JOINED} WHERE length < 9 GROUP BY region", 3),
        (f"SELECT {measures} {JOINED} WHERE topic = 'pets'", 1),
        (f"SELECT article, {measures} {JOINED} WHERE topic = 'tax' GROUP BY article ORDER BY people DESC LIMIT 3", 3),
    ]
    with world.open() as session, duckdb.connect(str(world.database), read_only=True) as connection:
        for sql, rows in statements:
            answer = session.ask(sql, analyst="anna")
            keys = [name for name in answer.columns if name in ("topic", "region", "article")]
            found = connection.execute(
                f"SELECT {', '.join(answer.columns)} FROM ({sql.replace('LIMIT 3', '')}) AS t"
            ).fetchall()
            true = {row[: len(keys)]: dict(zip(answer.columns, row, strict=True)) for row in found}
            assert len(answer.rows) == rows
            for row in answer.rows:
                exact = true[tuple(row[key] for key in keys)]
                for name, error in answer.receipt.error95.items():
                    assert abs(row[name] - float(exact[name])) <= 4 * error, (sql, name)
            assert session.ask(sql, analyst="anna").receipt.repeat
        for question in session.questions("anna").rows:
            assert session.ask(question.sql, analyst="anna").receipt.repeat
            assert session.ask(question.request, analyst="anna").receipt.repeat


def test_public_tables_are_told_of_and_do_not_count_people(public: Session):
    [told] = public.tables("anna").public
    assert (told.table, told.key, [each["name"] for each in told.columns]) == (
        "articles",
        "article",
        ["article", "topic", "length"],
    )
    assert "public, the key" in str(public.tables())
    described = public.ask("DESCRIBE articles", analyst="anna").rows
    assert [row["column_name"] for row in described] == ["article", "topic", "length"]
    assert {"name": "articles"} in public.ask("SHOW TABLES", analyst="anna").rows
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'articles'"
    assert len(public.ask(columns, analyst="anna").rows) == 3
    empty = public.ask(f"SELECT topic, members {JOINED} GROUP BY topic LIMIT 0", analyst="anna")
    assert (empty.columns, empty.rows) == ({"topic": "text", "members": "integer"}, [])
    with pytest.raises(NotSupported, match="is a public table"):
        public.ask({"type": "total", "table": "articles", "measure": "members"}, analyst="anna")


@pytest.mark.parametrize(
    ("more", "statement", "problem"),
    [
        ("", "INSERT INTO articles VALUES ('article-3', 'more', 1)", "tables.articles.key: article is not unique"),
        ("", "ALTER TABLE articles RENAME article TO item", "tables.articles.key: article is not in the table"),
        ("", "ALTER TABLE articles ALTER article TYPE BLOB", "tables.articles.key: must hold"),
        ("privacy_unit = 'article'", "SELECT 1", "tables.articles.privacy_unit"),
        ("measures = { n = { count = 'rows' } }", "SELECT 1", "tables.articles.measures"),
        ("columns = { size = { type = 'integer' } }", "SELECT 1", "tables.articles.columns.size"),
    ],
)
def test_a_public_table_that_does_not_fit_is_refused_at_the_start(
    tmp_path: Path, more: str, statement: str, problem: str
):
    world = new_public_world(tmp_path / "world", more=more)
    change(world, statement)
    with pytest.raises(ConfigError) as refused:
        world.open()
    assert problem in str(refused.value)


@pytest.mark.parametrize("source", ["engagements", "ENGAGEMENTS"])
def test_a_table_of_people_cannot_be_public(tmp_path: Path, source: str):
    world = new_public_world(tmp_path / "world")
    path = world.folder / "sfumato.toml"
    path.write_text(
        path.read_text().replace('source = "articles"\nkey = "article"', f'source = "{source}"\nkey = "article"')
    )
    with pytest.raises(ConfigError, match="table about people"):
        world.open()


def test_rights_are_about_tables_of_people(tmp_path: Path):
    text = """
[analysts.rita]
budget = "partner"
tables = ["engagements"]
where = "region = 'emea'"
"""
    world = new_public_world(tmp_path / "world", text=text)
    with world.open() as session:
        counted = session.ask(f"SELECT members {JOINED}", analyst="rita")
        assert counted.has_note("own-rows")
        assert (
            session.ask(f"SELECT members {JOINED} WHERE region = 'emea'", analyst="anna").receipt.digest
            == counted.receipt.digest
        )
    path = world.folder / "sfumato.toml"
    path.write_text(path.read_text().replace('tables = ["engagements"]', 'tables = ["engagements", "articles"]'))
    with pytest.raises(ConfigError, match="articles is public, and needs no right"):
        world.open()


def test_a_new_version_of_a_public_table_is_read_and_makes_another_question(tmp_path: Path):
    world = new_public_world(tmp_path / "world", more='version = "daily"')
    sql, digests = f"SELECT topic, members {JOINED} GROUP BY topic", []
    for days in (0, 0, 1):
        if days:
            change(world, "UPDATE articles SET topic = 'cars' WHERE topic = 'tax'")
        with world.open(NOW + timedelta(days=days)) as session:
            answer = session.ask(sql, analyst="anna")
            digests.append(answer.receipt.digest)
    assert digests[0] == digests[1] != digests[2]
    assert {row["topic"] for row in answer.rows} == {"pets", "cars"}


@pytest.mark.parametrize(
    ("own", "public", "day"),
    [
        ("fixed", 'version = "daily"', date(2026, 11, 16)),
        ("monthly", 'version = "weekly"', date(2026, 11, 16)),
        ("daily", 'version = "monthly"', date(2026, 11, 16)),
        ("fixed", 'version = { value = "1" }', None),
    ],
)
def test_it_costs_again_when_the_first_version_behind_it_ends(
    tmp_path: Path, own: str, public: str, day: date | None
) -> None:
    world = new_public_world(tmp_path / "world", more=public)
    world.path.write_text(world.path.read_text().replace('version = { value = "v1" }', f'version = "{own}"'))
    joined = f"SELECT topic, members {JOINED} GROUP BY topic"
    with world.open() as session:
        first = session.ask(joined, analyst="anna")
        assert first.receipt.pays_again == day
        assert [*first.receipt.public_versions] == ["articles"]
        assert f"articles {first.receipt.public_versions['articles']}" in first.lines()["data"]
        assert session.recall(first.receipt.digest, analyst="anna").receipt == first.receipt
        assert type(first).from_dict(first.to_dict()) == first
        alone = session.ask("SELECT members FROM engagements", analyst="anna").receipt
        assert alone.pays_again == next_version(alone.data_version)
        assert not alone.public_versions
        both = session.ask(f"{joined} UNION ALL SELECT region, members FROM engagements GROUP BY 1", analyst="anna")
        assert both.receipt.pays_again == day
    if day is None:
        return
    midnight = datetime.combine(day, datetime.min.time(), UTC)
    for moment, costs in ((midnight - timedelta(microseconds=1), False), (midnight, True)):
        with world.open(moment) as session:
            assert bool(session.ask(joined, analyst="anna").receipt.charge) == costs


def test_what_is_public_is_part_of_the_policy_trail(public: Session):
    settings = settings_in_force(public.config)
    assert settings["tables.articles.public"] == "true"
    assert settings["tables.articles.key"] == "article"
