"""What tools ask beside their questions is answered from the policy; all else is a question, or refused."""

from __future__ import annotations

import pytest

from sfumato.accounting import Charge
from sfumato.answer import answer_metadata
from sfumato.errors import NotSupported, SfumatoError, TableNotFound
from sfumato.query.metadata import read_explained, read_metadata
from sfumato.query.policy import Policy
from sfumato.wire import AccountStanding, Answer

NONE = Charge(0, 0)
STANDING = AccountStanding(account="anna", limit=NONE, granted=NONE, spent=NONE, reserved=NONE, left=NONE, resets=None)
COLUMNS = ["article", "job title", "region", "country", "topic", "day", "at", "n", "score", "paid"]
MEASURES = ["members", "shares", "visits"]


def answer_of(text, policy) -> Answer:
    found = read_metadata(text, policy, "anna")
    assert found is not None
    return answer_metadata(found, STANDING)


CONSTANTS = {
    "SELECT 1": {"1": 1},
    " select /* ping */ 1 ;": {"1": 1},
    "SELECT 1 AS one, 'a' AS a, -1.5 AS n, TRUE AS t, NULL AS x": {"one": 1, "a": "a", "n": -1.5, "t": True, "x": None},
    "SELECT 1 + 1 AS two": {"two": 2},
    "SELECT 1, 1": {"1": 1, "1 (2)": 1},
    "SELECT CAST('plain' AS VARCHAR(60)) AS anon_1": {"anon_1": "plain"},
    "SELECT version()": {"version": "Sfumato 0.1.0"},
    "SELECT current_schema()": {"current_schema": "main"},
    "SELECT current_schema, current_database() AS db": {"current_schema": "main", "db": "sfumato"},
    "SELECT current_user": {"current_user": "anna"},
}


@pytest.mark.parametrize(("text", "row"), CONSTANTS.items(), ids=CONSTANTS)
def test_literals_and_facts_about_the_connection(text, row, policy):
    answer = answer_of(text, policy)
    assert answer.rows == [row]
    assert [*answer.columns] == [*row]
    assert answer.receipt.charge == NONE
    assert Answer.from_json(answer.to_json()) == answer


def test_types_are_those_of_the_literals(policy):
    answer = answer_of("SELECT 1 AS a, 1.5 AS b, 'x' AS c, TRUE AS d, DATE '2026-11-01' AS e", policy)
    assert [*answer.columns.values()] == ["integer", "number", "text", "boolean", "date"]


def test_show_and_describe(policy):
    assert answer_of("SHOW TABLES;", policy).rows == [{"name": "engagements"}]
    assert answer_of("show schemas", policy).rows == [{"name": "main"}]
    described = answer_of("DESCRIBE engagements", policy)
    for other in ("desc public.engagements", "DESC TABLE `engagements`", 'SHOW COLUMNS FROM "sfumato"."Engagements"'):
        assert answer_of(other, policy) == described
    assert [row["column_name"] for row in described.rows] == [*COLUMNS, "member_id", *MEASURES]
    assert described.rows[2] == {"column_name": "region", "column_type": "text", "description": "one of 3 values"}


NAMES = {
    "SELECT table_name FROM information_schema.tables": [("engagements",)],
    "SELECT TABLE_NAME AS t FROM INFORMATION_SCHEMA.TABLES WHERE table_schema = 'main'": [("engagements",)],
    'SELECT t.table_name FROM "information_schema"."tables" AS t WHERE t.table_type LIKE \'BASE%\'': [("engagements",)],
    "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()": [("engagements",)],
    "SELECT table_name FROM information_schema.tables WHERE table_schema NOT IN ('main', 'pg_catalog')": [],
    "SELECT schema_name FROM information_schema.schemata ORDER BY 1": [("main",)],
    "SELECT count(*) AS n FROM information_schema.columns": [(14,)],
    "SELECT DISTINCT data_type FROM information_schema.columns WHERE column_name IN ('n', 'members')": [("bigint",)],
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'engagements' "
    "AND lower(column_name) IN ('day', 'at') ORDER BY ordinal_position DESC": [("at", "timestamp"), ("day", "date")],
    "SELECT column_name FROM information_schema.columns WHERE column_default IS NULL LIMIT 2 OFFSET 1": [
        ("job title",),
        ("region",),
    ],
}


@pytest.mark.parametrize(("text", "rows"), NAMES.items(), ids=NAMES)
def test_information_schema_has_what_the_policy_has(text, rows, policy):
    assert [tuple(row.values()) for row in answer_of(text, policy).rows] == rows


def test_information_schema_of_nothing_has_its_columns(policy):
    empty = answer_of("SELECT * FROM information_schema.columns", Policy())
    assert (empty.rows, empty.columns) == ([], answer_of("SELECT * FROM information_schema.columns", policy).columns)


SHAPES = {
    "SELECT * FROM engagements LIMIT 0": [*COLUMNS, *MEASURES],
    "SELECT e.* FROM public.engagements e LIMIT 0;": [*COLUMNS, *MEASURES],
    "SELECT * FROM engagements WHERE FALSE": [*COLUMNS, *MEASURES],
    "SELECT region AS r, COUNT(DISTINCT member_id) AS people FROM engagements GROUP BY 1 LIMIT 0": ["r", "people"],
    "SELECT article, n FROM engagements LIMIT 0": ["article", "n"],
    "SELECT * FROM (SELECT region, day FROM engagements WHERE paid) t LIMIT 0;": ["region", "day"],
    "SELECT * FROM (SELECT region, COUNT(*) AS c FROM engagements GROUP BY 1) t LIMIT 0 -- a tool": ["region", "c"],
    "WITH t AS (SELECT region, members FROM engagements GROUP BY 1) SELECT members / 2 AS half FROM t LIMIT 0": [
        "half"
    ],
}


@pytest.mark.parametrize(("text", "columns"), SHAPES.items(), ids=SHAPES)
def test_names_and_types_without_rows(text, columns, policy):
    answer = answer_of(text, policy)
    assert (answer.rows, [*answer.columns]) == ([], columns)
    assert "There are no rows." in answer._repr_html_()


QUESTIONS = (
    "SELECT region, members FROM engagements GROUP BY region",
    "SELECT region, members FROM engagements GROUP BY region LIMIT 10",
    "SELECT members FROM engagements WHERE article = 'FROM information_schema.tables'",
    "SELECT members FROM engagements WHERE article = 'LIMIT 0'",
    "SELECT members FROM engagements -- LIMIT 0",
    "SELECT members FROM engagements WHERE NOT paid = FALSE",
    "SELECT members FROM engagements WHERE FALSE",
    "SELECT * FROM engagements",
    "SELECT COUNT(*)",
    "SELECT region",
    "WITH q AS (SELECT 1) SELECT 1",
    "EXPLAIN SELECT 1",
)


@pytest.mark.parametrize("text", QUESTIONS)
def test_everything_else_is_a_question(text, policy):
    assert read_metadata(text, policy, "anna") is None
    assert read_metadata({"sql": text}, policy, "anna") is None


REFUSED = {
    "SHOW CREATE TABLE engagements": "SHOW TABLES, SHOW SCHEMAS, or SHOW COLUMNS FROM",
    "DESCRIBE engagements WHERE 1 = 1": "WHERE",
    "DESCRIBE engagements, engagements": "JOIN",
    "DESCRIBE other.engagements": "no schema 'other'",
    "SELECT nme FROM information_schema.tables": "has no column 'nme'",
    "SELECT * FROM information_schema.views": "information_schema has schemata, tables, columns",
    "SELECT * FROM information_schema.tables, duckdb_settings": "not understood",
    "SELECT getenv('HOME') FROM information_schema.tables": "not understood",
    "SELECT read_text('/etc/passwd')": "not understood",
    "SELECT repeat('x', 1000000000)": "not understood",
    "SELECT CAST('x' AS INT)": "cannot be computed",
    "SELECT regon, members FROM engagements LIMIT 0": "no column 'regon'",
    "SELECT member_id FROM engagements LIMIT 0": "people are counted, not named",
    "SELECT * FROM engagements WHERE nope = 1 LIMIT 0": "no column 'nope'",
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items(), ids=REFUSED)
def test_the_refusal_names_what_can_be_asked(text, words, policy):
    with pytest.raises(NotSupported, match=words.replace("(", r"\(")):
        answer_of(text, policy)


def test_a_table_that_is_not_in_the_policy_is_not_described(policy):
    for text in ("DESCRIBE secret", "SHOW COLUMNS FROM secret", "SELECT * FROM secret LIMIT 0"):
        with pytest.raises(TableNotFound):
            read_metadata(text, policy, "anna")
    for table in ("tables", "columns"):
        rows = answer_of(f"SELECT table_name FROM information_schema.{table}", Policy()).rows
        assert rows == []


@pytest.mark.parametrize("text", ["SELECT 1 FROM", "DESCRIBE", "DESC 'x", "SHOW", "SELECT 'a", "SELECT " + "(" * 500])
def test_what_cannot_be_read_raises_nothing_else(text, policy):
    with pytest.raises(SfumatoError):
        answer_of(text, policy) if read_metadata(text, policy, "anna") else answer_of("SHOW", policy)


def test_the_question_behind_explain():
    assert read_explained("explain  SELECT 1") == {"sql": "SELECT 1"}
    assert read_explained({"sql": "/* a tool */ EXPLAIN\nSELECT 1"}) == {"sql": "SELECT 1"}
    for other in ("SELECT 1", "EXPLAIN ANALYZE SELECT 1", "EXPLAINSELECT 1", {"type": "total"}):
        assert read_explained(other) is None
