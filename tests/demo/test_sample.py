"""The data set to try things on: it never changes, and has the shape that the questions rest on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from sfumato.demo import sample
from sfumato.errors import InvalidArgument

MEMBERS = 5000
Connection = duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def data() -> Iterator[Connection]:
    with duckdb.connect() as connection:
        sample.generate(connection, MEMBERS)
        yield connection


def one(connection: Connection, sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0] if len(row) == 1 else row


def fingerprint(**arguments: int) -> str:
    with duckdb.connect() as connection:
        sample.generate(connection, **arguments)
        rows = connection.execute("SELECT * FROM engagements ORDER BY ALL").fetchall()
    return hashlib.sha256("\n".join(map(str, rows)).encode()).hexdigest()


def test_it_has_the_stated_sizes(data: Connection) -> None:
    events, members, titles, regions, days = one(
        data,
        "SELECT COUNT(*), COUNT(DISTINCT member_id), COUNT(DISTINCT job_title), COUNT(DISTINCT region), "
        "COUNT(DISTINCT day) FROM engagements",
    )
    assert (members, titles, regions, days) == (MEMBERS, 40, 3, 30)
    assert 8 * MEMBERS < events < 12 * MEMBERS  # 200,000 members have about two million
    assert one(data, "SELECT COUNT(DISTINCT article) FROM engagements") > 2000


def test_its_columns_are_the_ones_the_questions_use(data: Connection) -> None:
    columns = {name: kind for name, kind, *_ in data.execute("DESCRIBE engagements").fetchall()}
    text = dict.fromkeys(("article", "job_title", "region"), "VARCHAR")
    assert columns == {"member_id": "BIGINT", **text, "day": "DATE"}
    assert one(data, "SELECT COUNT(*) FROM engagements WHERE COLUMNS(*) IS NULL") == 0


def test_every_article_is_below_one_topic_of_one_desk() -> None:
    places = sample.article_places()
    assert [name for _, _, name in places] == sample.article_names()
    assert len({desk for desk, _, _ in places}) == 8
    assert len({(desk, topic) for desk, topic, _ in places}) == len({topic for _, topic, _ in places}) == 24
    assert all(name.rpartition("-")[0] == topic for _, topic, name in places)


def test_names_are_readable_and_distinct() -> None:
    slugs = sample.article_names()
    assert len(set(slugs)) == len(slugs) == 3000
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*-\d+", slug) for slug in slugs)
    assert len(set(sample.JOB_TITLES)) == 40


def test_a_member_has_one_title_and_one_region(data: Connection) -> None:
    """max_groups = 1 in the questions rests on this."""
    most = one(
        data,
        "SELECT MAX(titles), MAX(regions) FROM (SELECT COUNT(DISTINCT job_title) AS titles, "
        "COUNT(DISTINCT region) AS regions FROM engagements GROUP BY member_id)",
    )
    assert most == (1, 1)


@pytest.mark.parametrize("column", ["member_id", "article"])
def test_the_top_hundredth_takes_ten_times_its_share(data: Connection, column: str) -> None:
    sizes = [n for (n,) in data.execute(f"SELECT COUNT(*) FROM engagements GROUP BY {column}").fetchall()]
    top = sorted(sizes, reverse=True)[: len(sizes) // 100]
    assert sum(top) > sum(sizes) / 10


def test_titles_have_uneven_shares(data: Connection) -> None:
    shares = data.execute("SELECT COUNT(DISTINCT member_id) FROM engagements GROUP BY job_title ORDER BY 1").fetchall()
    assert shares[-1][0] > 5 * shares[0][0]


def test_it_is_the_same_everywhere() -> None:
    assert fingerprint(members=100, seed=1) == "e1eeac076148b277729bf168863001e4020ad4a44d18c8ef411e2a313803663c"


def test_another_seed_is_another_data_set() -> None:
    assert fingerprint(members=100, seed=1) != fingerprint(members=100, seed=2)


@pytest.mark.parametrize("members", [0, -1, sample.MAX_MEMBERS + 1, 2.5])
def test_a_senseless_size_is_refused(members: Any) -> None:
    with duckdb.connect() as connection, pytest.raises(InvalidArgument, match="members"):
        sample.generate(connection, members)
