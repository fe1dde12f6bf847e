"""What is made of released rows: the same as plain DuckDB makes of them, and of nothing else."""

from __future__ import annotations

import random
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfumato import postprocess
from sfumato.errors import EngineFailed, NotSupported
from sfumato.postprocess import find_shape, read_cell, run
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.query.sql import read_statement
from sfumato.types import Type
from sfumato.wire import ReceiptCore, StoredAnswer

COLUMNS = {
    "article": Column("article"),
    "day": Column("day", type="date"),
    "moment": Column("moment", type="timestamp"),
    "score": Column("score", type="number"),
    "paid": Column("paid", type="boolean"),
}
POLICY = Policy({"clicks": TablePolicy("clicks", "member", COLUMNS, {"people": Measure("people")})})
SCHEMA = "article VARCHAR, day DATE, moment TIMESTAMP, score DOUBLE, paid BOOLEAN, member BIGINT"
KINDS: dict[str, Type] = {name: column.type for name, column in COLUMNS.items()}

ROW = [{"article": "a", "people": 5}]
CORE = "SELECT article, COUNT(DISTINCT member) AS c FROM clicks GROUP BY article"
WITH = f"WITH t AS ({CORE}) "
STATEMENTS = [
    f"{CORE} ORDER BY c DESC, article",
    f"{CORE} ORDER BY article DESC",
    f"{CORE} ORDER BY 2, 1 LIMIT 3",
    f"{CORE} ORDER BY c DESC, article DESC LIMIT 3 OFFSET 2",
    f"{CORE} ORDER BY lower(article) FETCH FIRST 2 ROWS ONLY",
    f"{CORE} HAVING c > 4 ORDER BY article",
    f"{CORE} HAVING COUNT(DISTINCT member) BETWEEN 2 AND 6 AND article <> 'b' ORDER BY 1",
    "SELECT COUNT(DISTINCT member) * 2 + 1 AS x, article FROM clicks GROUP BY article ORDER BY x DESC, article",
    "SELECT article, ROUND(100.0 * COUNT(DISTINCT member) / SUM(COUNT(DISTINCT member)) OVER (), 1) AS share, "
    "RANK() OVER (ORDER BY COUNT(DISTINCT member) DESC) AS place FROM clicks GROUP BY 1 ORDER BY 1",
    "SELECT upper(article) || '!' AS x, length(article), substr(article, 1, 1), COUNT(DISTINCT member) / 7 AS y "
    "FROM clicks GROUP BY article ORDER BY article",
    "SELECT CASE WHEN COUNT(DISTINCT member) > 4 THEN 'many' WHEN article = 'a' THEN NULL ELSE 'few' END AS x "
    "FROM clicks GROUP BY article ORDER BY article",
    WITH
    + "SELECT article, c, c - AVG(c) OVER () AS above FROM t WHERE c <> 3 ORDER BY above DESC NULLS FIRST, article",
    WITH + "SELECT SUM(c), AVG(c), MIN(article), MAX(c), COUNT(*), MEDIAN(c), STDDEV(c) FROM t",
    WITH + "SELECT c, COUNT(*) AS n FROM t GROUP BY c HAVING COUNT(*) > 1 ORDER BY c",
    WITH + "SELECT c > 4 AS large, COUNT(*) FILTER (WHERE article <> 'a') AS n FROM t GROUP BY 1 ORDER BY 1",
    WITH + "SELECT a.article, b.article AS other FROM t a JOIN t b ON a.c < b.c ORDER BY 1, 2",
    WITH + "SELECT a.article, b.c FROM t a LEFT JOIN t b ON a.c = b.c + 1 AND a.article < b.article ORDER BY 1, 2",
    WITH + "SELECT article FROM t WHERE c > (SELECT AVG(c) FROM t) ORDER BY article",
    WITH + "SELECT article FROM t WHERE c IN (SELECT MAX(c) FROM t) ORDER BY article",
    WITH + "SELECT article, c FROM t UNION ALL SELECT 'all', SUM(c) FROM t ORDER BY 2, 1",
    WITH + "SELECT ROW_NUMBER() OVER (ORDER BY c, article) AS place, LAG(c) OVER (ORDER BY c, article) AS before, "
    "SUM(c) OVER (ORDER BY c, article ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM t ORDER BY 1",
    WITH + "SELECT article, NULLIF(c, 3) AS x, COALESCE(NULLIF(c, 3), 0) AS y, c % 3 AS z, ABS(c - 5), SIGN(c - 5), "
    "FLOOR(c / 2), CEIL(c / 2), GREATEST(c, 4), LEAST(c, 4), CAST(c AS VARCHAR), c::DOUBLE FROM t ORDER BY article",
    WITH
    + "SELECT article FROM t WHERE article LIKE 'a%' OR article ILIKE 'B_' OR starts_with(article, 'c') ORDER BY 1",
    f"SELECT * FROM ({CORE}) AS t (name, number) WHERE number > 2 ORDER BY name",
    f"SELECT article, c + 1 AS d FROM ({CORE}) t ORDER BY c DESC, article LIMIT 3",
    f"SELECT * FROM (SELECT c AS n, article FROM ({CORE}) t) u ORDER BY n, article DESC LIMIT 4",
    f"SELECT t.* FROM ({CORE} ORDER BY c DESC, article LIMIT 3) t ORDER BY article",
    "SELECT DISTINCT COUNT(DISTINCT member) AS c FROM clicks GROUP BY article ORDER BY 1",
    "SELECT COUNT(DISTINCT member) > 3 AS enough FROM clicks",
]


def stored(statement: Any, rows: list[dict[str, Any]], error: int = 26) -> StoredAnswer:
    measure = "people" if "people" in statement.columns else None
    receipt = ReceiptCore(
        mechanism="m", unit="member", error95={measure: error} if measure else {}, data_version="", digest="sha256:00"
    )
    shown = [{name: row[name] for name in statement.columns} for row in rows]
    return StoredAnswer(columns=dict(statement.columns), rows=shown, stopped=False, receipt=receipt, notes=[])


def apply(sql: str, rows: list[dict[str, Any]]) -> StoredAnswer:
    statement = read_statement(sql, POLICY)
    shape, answer = find_shape(statement), stored(statement, rows)
    return answer if shape is None else shape.apply(answer, lambda _, shown, released: 26 * released // max(shown, 1))


def cells(answer: StoredAnswer) -> list[tuple[Any, ...]]:
    assert all(tuple(row) == tuple(answer.columns) for row in answer.rows)
    return [tuple(row.values()) for row in answer.rows]


def released_and_exact(coin: random.Random) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    """Released rows, and a table whose exact counts they are."""
    articles = coin.sample(["a", "ab", "b", "B", "bé", "c", "", "d'x", "z z"], coin.randint(1, 9))
    counts = sorted((coin.randint(1, 8) for _ in articles), reverse=True)
    rows = [{"article": article, "people": count} for article, count in zip(articles, counts, strict=True)]
    exact, member = [], 0
    for row in rows:
        for _ in range(row["people"]):
            member += 1
            exact.append((row["article"], None, None, None, None, member))
    return rows, exact


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sql", STATEMENTS)
def test_it_is_what_plain_duckdb_makes_of_the_same_rows(sql: str, seed: int) -> None:
    rows, exact = released_and_exact(random.Random(seed))
    with duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE clicks ({SCHEMA})")
        plain.executemany("INSERT INTO clicks VALUES (?, ?, ?, ?, ?, ?)", exact)
        expected = plain.execute(sql).fetchall()
    if not read_statement(sql, POLICY).columns.keys() & {"article"}:
        rows = [{"people": len(exact)}]
    found = cells(apply(sql, rows))
    if "ORDER BY" not in sql:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert our == (pytest.approx(float(their)) if isinstance(our, float) else their)


def test_cells_keep_their_types() -> None:
    sql = "SELECT day, moment, score, paid, members FROM clicks GROUP BY day, moment, score, paid".replace(
        "members", "people"
    )
    row = {"moment": "2026-03-01T12:30:00", "day": "2026-03-01", "paid": True, "people": 5, "score": 0.5}
    for more in (" ORDER BY day DESC", " HAVING people > 1"):
        answer = apply(sql + more, [row])
        assert answer.columns == {
            **{name: KINDS[name] for name in ("day", "moment", "score", "paid")},
            "people": "integer",
        }
    assert cells(answer) == [(date(2026, 3, 1), datetime(2026, 3, 1, 12, 30), 0.5, True, 5)]
    wide = apply(
        "SELECT people / 2 AS a, people > 3 AS b, year(day) AS c, date_trunc('month', day) AS d, NULL AS e, "
        "CAST(people AS DECIMAL(9, 2)) AS f FROM clicks GROUP BY day",
        [row],
    )
    assert [*wide.columns.values()] == ["number", "boolean", "integer", "timestamp", "text", "number"]
    assert cells(wide) == [(2.5, True, 2026, datetime(2026, 3, 1), None, 5.0)]


NULLS = [
    "people / (people - people)",
    "people % 0",
    "1 / 0",
    "SUM(people) OVER () / 0",
    "people * 9223372036854775807",
    "people + 9223372036854775807",
    "SUM(people) OVER () * 99999999999999999999999999999999999999",
    "COUNT(*) OVER () + 9223372036854775807",
    "-(people - 9223372036854775807 - 2 - people)",
    "ln(people - 5)",
    "sqrt(people - 99)",
    "exp(people * 1000)",
    "power(people, 1000)",
    "power(-people, 0.5)",
    "CAST(article AS INTEGER)",
    "CAST('x' AS DATE)",
    "CAST(people * 1000000000000 AS INTEGER)",
    "date_trunc('month', TRY_CAST(article AS DATE))",
    "CASE WHEN people > 3 THEN 1 / 0 END",
    "1e308 * people * people",
]


@pytest.mark.parametrize("item", NULLS)
def test_what_fails_on_a_row_is_null(item: str) -> None:
    answer = apply(f"SELECT article, {item} AS x, people FROM clicks GROUP BY article", [{"article": "a", "people": 5}])
    assert cells(answer) == [("a", None, 5)]


def test_a_failure_takes_no_other_cell_with_it() -> None:
    rows = [{"article": "a", "people": 5}, {"article": "b", "people": 3}]
    sql = "SELECT article, 10 / (people - 5) AS x, COUNT(*) OVER () + people * {} AS y FROM clicks GROUP BY 1"
    assert cells(apply(sql.format(1), rows)) == [("a", None, 7), ("b", -5.0, 5)]
    overflowing = sql.replace("COUNT(*) OVER ()", "COUNT(*) OVER () * 4611686018427387904").format(1)
    assert cells(apply(overflowing, rows)) == [("a", None, None), ("b", -5.0, None)]


def test_what_cannot_be_bound_is_refused_without_rows() -> None:
    for sql, words in {
        f"{WITH} SELECT article + 1 FROM t": "cannot be computed",
        f"{WITH} SELECT article, SUM(c) FROM t": "cannot be computed",
        f"{WITH} SELECT c FROM t ORDER BY 9": "cannot be computed",
        f"{WITH} SELECT article FROM t a JOIN t b ON a.c = b.c": "cannot be computed",
    }.items():
        with pytest.raises(NotSupported, match=words):
            find_shape(read_statement(sql, POLICY))


def test_intervals_are_wider_where_rows_are_left_out_by_their_counts() -> None:
    rows = [{"article": f"a{place}", "people": 10 + place} for place in range(8)]
    for more, error in {
        "": 26,
        " HAVING c > 13": 52,
        " HAVING c > 99": 208,
        " ORDER BY c DESC LIMIT 2 OFFSET 1": 104,
        " ORDER BY c LIMIT 2": 104,
        " ORDER BY article LIMIT 2": 26,
    }.items():
        assert apply(CORE + more, rows).receipt.error95 == {"c": error}, more


def test_texts_do_not_grow_without_end() -> None:
    doubled = "".join(f", t{n} AS (SELECT x || x AS x FROM t{n - 1})" for n in range(1, 40))
    answer = apply(f"WITH t0 AS (SELECT article AS x, people FROM clicks GROUP BY 1){doubled} SELECT x FROM t39", ROW)
    assert [len(cell) for [cell] in cells(answer)] == [10_000]


def test_time_and_room_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"article": f"a{place}", "people": place} for place in range(100)]
    monkeypatch.setattr(postprocess, "MAX_SECONDS", 0.2)
    joined = ", ".join(f"t t{place}" for place in range(6))
    with pytest.raises(EngineFailed, match="too long or too much room"):
        apply(f"{WITH} SELECT COUNT(*) FROM {joined} WHERE t0.c + t1.c + t2.c + t3.c + t4.c + t5.c = 1", rows)
    with pytest.raises(EngineFailed, match="too long or too much room"):
        apply(f"{WITH} SELECT t0.article FROM t t0, t t1, t t2", rows)
    assert cells(apply(f"{WITH} SELECT COUNT(*) FROM t", rows)) == [(100,)]


FORBIDDEN = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/written'",
    "ATTACH '{folder}/new.duckdb'",
    "SET threads = 4",
    "SET enable_external_access = true",
    "PRAGMA enable_external_access",
    "RESET lock_configuration",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SELECT getenv('HOME')",
    "EXPORT DATABASE '{folder}/export'",
    "SELECT * FROM secret_frame",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_the_engine_itself_can_read_and_write_nothing(text: str, tmp_path: Path) -> None:
    """Behind the closed list: what would happen to a query that got through it."""
    secret_frame = {"sentinel": [1]}
    file = tmp_path / "sentinel.csv"
    file.write_text("sentinel\n424242\n")
    with pytest.raises(duckdb.Error) as refusal:
        run(text.format(file=file, folder=tmp_path), [])
    assert "424242" not in str(refusal.value)
    assert [path.name for path in tmp_path.iterdir()] == ["sentinel.csv"]
    assert secret_frame


def test_a_query_leaves_nothing_behind_for_the_next() -> None:
    run("CREATE TEMP TABLE sentinel AS SELECT 424242 AS x", [])
    with pytest.raises(duckdb.Error, match="sentinel"):
        run("SELECT * FROM sentinel", [])


def test_intervals_and_notes_follow_the_outputs() -> None:
    items = "people * 2 AS twice, people - 100 AS below, article, people / 3 AS third, RANK() OVER (ORDER BY 1) AS r"
    answer = apply(f"SELECT {items} FROM clicks GROUP BY article", [{"article": "a", "people": 50}])
    assert answer.receipt.error95 == {"twice": 52, "below": 26, "third": float(Fraction(26, 3))}
    assert answer.receipt.signed == ["below"]
    assert [(note.code, note.text.partition(":")[0]) for note in answer.notes] == [
        ("no-interval", "no interval is known for r")
    ]


def test_rows_of_another_policy_stay_as_they_are() -> None:
    statement = read_statement(f"{CORE} HAVING c > 3", POLICY)
    other = StoredAnswer(
        columns={"title": "text", "people": "integer"},
        rows=[{"title": "x", "people": 1}],
        stopped=False,
        receipt=ReceiptCore(mechanism="m", unit="u", error95={"people": 3}, data_version="", digest="sha256:00"),
        notes=[],
    )
    shape = find_shape(statement)
    assert shape is not None
    assert shape.apply(other, lambda *_: 0) is other


def test_cells_that_no_answer_can_hold_are_null() -> None:
    assert [read_cell("number", value) for value in (float("inf"), float("nan"), -0.0, None)] == [None, None, 0.0, None]
    assert [read_cell("integer", value) for value in (2**63, -(2**63), 2**63 - 1)] == [None, -(2**63), 2**63 - 1]
