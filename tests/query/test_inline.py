"""SELECTs that only pick rows of a table: the statement around them is the question that it is without them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from sfumato.errors import NotSupported, TableNotFound
from sfumato.query.abilities import USUAL
from sfumato.query.expressions.functions import FUNCTIONS
from sfumato.query.plan import plan
from sfumato.query.policy import Policy
from sfumato.query.sql import read_statement
from tests.helpers.engagements import ENGAGEMENTS
from tests.helpers.repeats import repeats
from tests.query import test_spellings as spellings

POLICY = Policy({"engagements": replace(ENGAGEMENTS, abilities=replace(USUAL, functions=FUNCTIONS))})

SAME = {
    "SELECT region, members FROM engagements WHERE paid GROUP BY region": (
        "SELECT region, COUNT(DISTINCT member_id) FROM (SELECT * FROM engagements WHERE paid) t GROUP BY region",
        "SELECT t.region, COUNT(DISTINCT t.member_id) FROM (SELECT member_id, region FROM main.engagements e "
        "WHERE e.paid) AS t GROUP BY 1",
        "SELECT place, COUNT(DISTINCT x) FROM (SELECT member_id AS x, region AS place FROM engagements WHERE paid) t "
        "GROUP BY place",
        "WITH payers AS (SELECT * FROM engagements WHERE paid) SELECT region, members FROM payers GROUP BY region",
        "WITH source AS (SELECT * FROM engagements), payers AS (SELECT member_id, region FROM source WHERE paid) "
        "SELECT p.region, COUNT(DISTINCT p.member_id) FROM payers p GROUP BY p.region",
        "WITH a AS (SELECT * FROM engagements) SELECT * FROM (SELECT region, members FROM "
        "(SELECT * FROM a WHERE paid) b GROUP BY 1) c",
        "WITH engagements AS (SELECT * FROM engagements WHERE paid) SELECT region, members FROM engagements GROUP BY 1",
        "SELECT region, members FROM (SELECT *, paid AS p FROM engagements ORDER BY day) t WHERE p GROUP BY region",
    ),
    "SELECT year(day) AS year, shares FROM engagements WHERE n > 1 AND year(day) < 2026 GROUP BY year(day)": (
        "SELECT year, COUNT(*) FROM (SELECT year(day) AS year FROM engagements WHERE n > 1) t WHERE year < 2026 "
        "GROUP BY 1",
        "SELECT y, COUNT(*) FROM (SELECT year(d) AS y, m FROM (SELECT day AS d, n AS m FROM engagements) a) b "
        "WHERE m > 1 AND y < 2026 GROUP BY y ORDER BY y",
    ),
    "SELECT shares FROM engagements": (
        "SELECT COUNT(*) FROM (SELECT region FROM engagements) t",
        "SELECT COUNT(1) AS rows_there FROM (SELECT * FROM (SELECT * FROM engagements) a) b",
    ),
    "SELECT upper(region), members FROM engagements GROUP BY upper(region)": (
        "SELECT region, COUNT(DISTINCT member_id) FROM (SELECT upper(region) AS region, member_id FROM engagements) t "
        "GROUP BY region",
        "SELECT t.region AS region, COUNT(DISTINCT who) FROM (SELECT member_id who, upper(region) AS region "
        "FROM engagements) t GROUP BY t.region",
    ),
}


@pytest.mark.parametrize("sql", [each for spellings in SAME.values() for each in spellings])
def test_it_is_the_question_without_them(sql, prices):
    plain = next(plain for plain, spellings in SAME.items() if sql in spellings)
    expected, found = (plan(read_statement(each, POLICY).core, POLICY, prices) for each in (plain, sql))
    assert (found.digest, found.reserve) == (expected.digest, expected.reserve)


def test_columns_keep_the_names_that_they_had():
    def names(sql):
        return [output.name for output in read_statement(sql, POLICY).outputs]

    inner = "(SELECT region AS place, year(day) AS y FROM engagements) t"
    assert names(f"SELECT place, y, COUNT(*) AS c FROM {inner} GROUP BY 1, 2") == ["place", "y", "c"]
    assert names(f"SELECT t.place AS p, COUNT(*) FROM {inner} GROUP BY place") == ["p", "shares"]


def wrapped(question, coin: random.Random) -> tuple[str, str]:
    """A question plainly, and with its conditions spread over SELECTs around one another, in FROM and in WITH."""
    keys, measure, conjuncts, limit = question
    counted = coin.choice([each for each in measure if "e." not in each and "(" in each])
    conditions = [coin.choice([each for each in spellings if "e." not in each]) for spellings in conjuncts]
    tail = f" GROUP BY {', '.join(keys)}" if keys else ""
    tail += f" ORDER BY {counted} DESC LIMIT {limit}" if keys and limit else ""
    items = ", ".join([*keys, f"{counted} AS c"])
    where = f" WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""
    plain = f"SELECT {items} FROM engagements{where}{tail}"
    levels = [[each for each in conditions if coin.randrange(3) == level] for level in range(3)]
    left = [each for each in conditions if not any(each in level for level in levels)]
    source, named = "engagements", list[str]()
    for place, level in enumerate(levels):
        extra = coin.choice(["", ", n + 1 AS more"]) if place == 0 else ""
        inner = f"SELECT *{extra} FROM {source}" + (
            f" WHERE {' AND '.join(f'({each})' for each in level)}" if level else ""
        )
        if coin.random() < 0.5:
            named.append(f"w{place} AS ({inner})")
            source = f"w{place}"
        else:
            source = f"({inner}) s{place}"
    rest = f" WHERE {' AND '.join(f'({each})' for each in left)}" if left else ""
    clause = f"WITH {', '.join(named)} " if named else ""
    return plain, f"{clause}SELECT {items} FROM {source}{rest}{tail}"


@pytest.mark.parametrize("number", range(len(spellings.QUESTIONS)))
def test_conditions_may_stand_in_any_of_the_selects(number, prices):
    coin = random.Random(number)
    for _ in range(repeats(8, 200)):
        plain, around = wrapped(spellings.QUESTIONS[number], coin)
        one, other = (plan(read_statement(each, POLICY).core, POLICY, prices) for each in (plain, around))
        assert (one.digest, one.atom, one.reserve) == (other.digest, other.atom, other.reserve), around


REFUSED = {
    "SELECT * FROM (SELECT * FROM engagements) t": "would list people",
    "SELECT * FROM (SELECT region, day FROM engagements) t": "no preview of them",
    "SELECT member_id FROM (SELECT * FROM engagements) t": "people are counted, not named",
    "SELECT m, COUNT(*) FROM (SELECT member_id AS m FROM engagements) t GROUP BY m": "people are counted, not named",
    "SELECT COUNT(*) FROM (SELECT region FROM engagements) t WHERE day = '2026-01-01'": "no column 'day'",
    "SELECT COUNT(*) FROM (SELECT region FROM engagements) t WHERE regoin = 'x'": "did you mean region",
    "SELECT COUNT(*) FROM (SELECT region FROM engagements e) t WHERE e.region = 'x'": "no table 'e'",
    "SELECT COUNT(*) FROM (SELECT region FROM engagements LIMIT 9) t": "no preview",
    "SELECT COUNT(*) FROM (SELECT DISTINCT member_id FROM engagements) t": "",
    "SELECT COUNT(*) FROM (SELECT region AS a, topic AS a FROM engagements) t WHERE a = 'x'": "are called a",
    "SELECT COUNT(*) FROM (SELECT nope FROM engagements) t WHERE nope = 1": "no column 'nope'",
    "SELECT COUNT(*) FROM (SELECT * FROM nowhere) t": "no table 'nowhere'",
    "WITH p AS (SELECT * FROM engagements) SELECT members FROM p, p q": "JOIN has no private form",
    "WITH RECURSIVE p AS (SELECT * FROM engagements) SELECT members FROM p": "RECURSIVE is not supported yet",
    "SELECT a, COUNT(*) FROM (SELECT upper(region) AS a, topic FROM engagements) t GROUP BY topic": "GROUP BY",
}


@pytest.mark.parametrize(("sql", "words"), REFUSED.items(), ids=list(REFUSED))
def test_what_is_refused_without_them_is_refused_with_them(sql, words):
    with pytest.raises((NotSupported, TableNotFound)) as refusal:
        read_statement(sql, POLICY)
    assert words in str(refusal.value)


def test_texts_that_double_with_every_step_are_refused():
    sql = "SELECT n AS x FROM engagements"
    for _ in range(16):
        sql = f"SELECT x + x AS x FROM ({sql}) t"
    with pytest.raises(NotSupported, match="too long together"):
        read_statement(f"SELECT COUNT(*) FROM ({sql}) t WHERE x > 5", POLICY)
