"""One digest a meaning: twenty-four questions in many spellings each, and near misses that must differ."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest

from sfumato.accounting import Charge
from sfumato.query.plan import plan
from sfumato.query.policy import Policy
from sfumato.query.request import TopK, Total
from sfumato.query.sql import read_sql
from tests.helpers.repeats import repeats

SPELLINGS = repeats(60, 1000)

# A filter is a list of conjuncts; a conjunct is a list of equal spellings, each a function of a coin.
EMEA = [
    "region = 'emea'",
    "region IN ('emea')",
    "'emea' = region",
    "NOT region <> 'emea'",
    "NOT (NOT (region = 'emea'))",
]
TWO = [
    "region IN ('emea', 'apac')",
    "region IN ('apac', 'emea', 'apac')",
    "(region = 'emea' OR region = 'apac')",
    "(region = 'apac' OR region IN ('emea'))",
    "NOT (region <> 'emea' AND region <> 'apac')",
    "NOT region NOT IN ('apac', 'emea')",
]
NOT_ART = [
    "article <> 'x'",
    "NOT article = 'x'",
    "article != 'x'",
    "article NOT IN ('x')",
    "(article < 'x' OR article > 'x')",
]
RANGE = [
    "n BETWEEN 1 AND 5",
    "(n >= 1 AND n <= 5)",
    "n IN (1, 2, 3, 4, 5)",
    "(n > 0 AND n < 6)",
    "(5 >= n AND 1 <= n)",
    "NOT (n < 1 OR n > 5)",
    "(n = 1 OR n BETWEEN 2 AND 5)",
    "n BETWEEN 1.0 AND '5'",
]
MARCH = [
    "day BETWEEN '2026-03-01' AND '2026-03-31'",
    "(day >= DATE '2026-03-01' AND day < '2026-04-01')",
    "(day > '2026-02-28' AND day <= CAST('2026-03-31' AS DATE))",
    "NOT (day < '2026-03-01' OR '2026-03-31' < day)",
    "(day >= '2026-03-01 00:00:00' AND day < TIMESTAMP '2026-04-01 00:00:00')",
    "day BETWEEN '2026-03-01T00:00:00' AND '2026-03-31 23:59:59.999999'",
    "(day > '2026-02-28 12:00:00' AND day < '2026-03-31 00:00:01')",
    "(1 = 1 AND day BETWEEN '2026-03-01 00:00:00Z' AND '2026-03-31' AND 'a' = 'a')",
    "(`day` BETWEEN '2026-03-01' AND '2026-03-31' OR 1 = 0 OR 2 < 1)",
]
PAID = ["paid", "paid = TRUE", "NOT paid = FALSE", "paid <> false", "paid IN (TRUE)", "NOT NOT paid"]
HALF = ["score > 0.5", "score > .5", "score > 5e-1", "0.50 < score", "NOT score <= 0.5", "score > '0.5'"]
EITHER = [
    "(region = 'emea' OR n > 3)",
    "(n > 3 OR region = 'emea')",
    "(n >= 4 OR region IN ('emea') OR n > 3)",
    "NOT (NOT region = 'emea' AND n <= 3)",
]
NOON = ["at >= '2026-03-01 12:00:00'", "at >= TIMESTAMP '2026-03-01 12:00'", "NOT at < '2026-03-01T12:00:00'"]

PEOPLE = ["COUNT(DISTINCT member_id)", "members", "count( distinct e.member_id )", "Count(DISTINCT MEMBER_ID)"]
ROWS = ["COUNT(*)", "shares", "count ( * )"]
SUMS = ["SUM(n)", "visits", "sum(e.n)"]

QUESTIONS = [
    (["article"], PEOPLE, [], 10),
    (["article"], PEOPLE, [EMEA], 10),
    (["article"], PEOPLE, [TWO, RANGE], None),
    (["article"], ROWS, [NOT_ART], 5),
    (["article"], SUMS, [MARCH, PAID, HALF], 100),
    (["region"], PEOPLE, [RANGE], None),
    (["region"], ROWS, [EITHER], None),
    (["topic"], PEOPLE, [NOON], 3),
    (['"job title"'], PEOPLE, [EMEA, MARCH], 7),
    (["article", "region"], PEOPLE, [PAID], 20),
    (['"job title"', "country"], ROWS, [TWO], None),
    (["topic", "region"], SUMS, [EITHER, NOT_ART], 9),
    ([], PEOPLE, [], None),
    ([], PEOPLE, [EMEA, RANGE, MARCH], None),
    ([], ROWS, [PAID, TWO], None),
    ([], SUMS, [HALF, NOT_ART], None),
    (["country"], PEOPLE, [EITHER, NOON], 2),
    (["article"], PEOPLE, [EITHER, MARCH, PAID, HALF, NOT_ART], 50),
    (["day"], PEOPLE, [RANGE, NOON], 31),
    (["paid"], SUMS, [TWO, HALF], None),
]

# Lists without their counts: the measure is in ORDER BY alone.
BARE = [
    (["article"], PEOPLE, [], 10),
    (["article"], ROWS, [EMEA, RANGE], None),
    (["topic"], SUMS, [NOON], 2),
    (["article", "region"], PEOPLE, [PAID], 20),
]
ALL = [(question, True) for question in QUESTIONS] + [(question, False) for question in BARE]


def spelled(question, coin: random.Random, counts: bool = True) -> str:
    keys, measure, conjuncts, limit = question
    keys = coin.sample(keys, len(keys))
    alias = coin.choice(["", " e", " AS e"])
    counted = coin.choice([m for m in measure if alias or "e." not in m])
    items = [key + coin.choice(["", f" AS k{i}"]) for i, key in enumerate(keys)]
    items += [counted + coin.choice(["", " AS c"])] if counts else []
    parts = [coin.choice(spellings) for spellings in conjuncts]
    parts += coin.sample(parts, coin.randint(0, len(parts)))
    coin.shuffle(parts)
    where = " AND ".join(parts) or coin.choice(["", "TRUE"])
    sql = f"SELECT {', '.join(items)} FROM engagements{alias}" + (f" WHERE {where}" if where else "")
    if keys:
        by = [coin.choice([key, str(1 + i)]) for i, key in enumerate(keys)]
        sql += f" GROUP BY {', '.join(coin.sample(by, len(by)))}"
        orders = [f" ORDER BY {counted} DESC", f" ORDER BY {counted} DESC, 1"]
        sql += coin.choice(orders + (["", f" ORDER BY {len(items)} DESC"] if counts else []))
        sql += f" LIMIT {limit}" if limit else coin.choice(["", " LIMIT 100"])
    return mangled(sql, coin)


def mangled(sql: str, coin: random.Random) -> str:
    """Other case and white space outside of quotes, and a comment."""
    parts = sql.split("'")
    for i in range(0, len(parts), 2):
        pieces = parts[i].split('"')
        pieces[::2] = [
            coin.choice([str.upper, str.lower, str])(piece).replace(" ", coin.choice([" ", "\n ", "\t"]))
            for piece in pieces[::2]
        ]
        parts[i] = '"'.join(pieces)
    return "'".join(parts) + coin.choice(["", ";", " -- please", " /* thank you */"])


@pytest.mark.parametrize(
    "number", [*range(4), *(pytest.param(number, marks=pytest.mark.slow) for number in range(4, len(ALL)))]
)
def test_many_spellings_have_one_digest(number, policy, prices):
    coin = random.Random(number)
    question, counts = ALL[number]
    spellings = {spelled(question, coin, counts) for _ in range(SPELLINGS)}
    plans = [plan(read_sql(sql, policy), policy, prices) for sql in spellings]
    assert len({found.digest for found in plans}) == 1
    assert len({found.query.sql("duckdb") for found in plans}) == 1
    assert len({found.reserve for found in plans}) == 1
    assert len({json.dumps(found.request) for found in plans}) == 1
    assert {found.counts for found in plans} == {counts}


def test_different_questions_have_different_digests(policy, prices):
    coin = random.Random(0)
    digests = [plan(read_sql(spelled(q, coin, counts), policy), policy, prices).digest for q, counts in ALL]
    assert len(set(digests)) == len(ALL)


NEAR_MISSES = [
    "n > 1",
    "n >= 1",
    "n < 1",
    "n <> 1",
    "n = 1",
    "n IN (1, 2)",
    "n = 1 OR region = 'emea'",
    "n = 1 AND region = 'emea'",
    "region = 'emea'",
    "region <> 'emea'",
    "region = 'EMEA'",
    "article = 'emea'",
    "article = '1'",
    "article = ' 1'",
    "score = 1",
    "score > 1",
    "score >= 1",
    "n = 1 AND n = 2",
    "NOT (n = 1 AND n = 2)",
    "NOT (n = 1 AND n = 2) AND region = 'emea'",
    "paid",
    "NOT paid",
    "paid OR NOT paid",
    "TRUE",
    "day = '2026-01-01'",
    "at = '2026-01-01'",
]


def test_near_misses_have_different_digests(policy, prices):
    digests = {}
    for where in NEAR_MISSES:
        sql = f"SELECT article, members FROM engagements WHERE {where} GROUP BY 1"
        digests[where] = plan(read_sql(sql, policy), policy, prices).digest
    for one, other in combinations(NEAR_MISSES, 2):
        assert digests[one] != digests[other], (one, other)


def test_k_is_in_the_digest_but_not_in_the_atom(policy, prices):
    sql = "SELECT article, members FROM engagements GROUP BY 1 LIMIT {}"
    five, ten = (plan(read_sql(sql.format(k), policy), policy, prices) for k in (5, 10))
    assert five.atom == ten.atom
    assert five.digest != ten.digest
    assert five.mechanism.limit == ten.mechanism.limit == 1000
    assert five.mechanism.max_k == ten.mechanism.max_k == 100


def test_a_list_without_counts_is_another_answer_from_the_same_atom(policy, prices):
    full, bare = (
        plan(TopK("engagements", "article", "members", k=10, counts=counts), policy, prices) for counts in (True, False)
    )
    assert full.atom == bare.atom
    assert full.full == bare.full
    assert full.digest != bare.digest
    assert (full.reserve, bare.reserve) == (Charge(21, 1), Charge(11, 1))
    assert bare.full.with_counts
    assert set(bare.mechanism.worst) <= set(full.mechanism.worst) <= set(full.full.worst)


@pytest.mark.parametrize("by", ["region", "job title"])
def test_counts_that_order_a_histogram_are_paid_for_all_the_same(by, policy, prices):
    full, bare = (plan(TopK("engagements", by, "members", counts=counts), policy, prices) for counts in (True, False))
    assert full.mechanism == bare.mechanism
    assert full.atom == bare.atom
    assert full.digest != bare.digest


@pytest.mark.parametrize(("by", "size"), [("region", 3), ("topic", 3), (["country", "region"], 6), ([], 1)])
def test_no_list_is_longer_than_a_public_domain(by, size, policy, prices):
    def asked(k):
        request = TopK("engagements", by, "members", k=k) if by else Total("engagements", "members")
        return plan(request, policy, prices)

    assert asked(50) == asked(100) == asked(None)
    assert asked(50).k == asked(50).mechanism.k == asked(50).full.k == size
    assert asked(2).atom == asked(50).atom  # one row of several is cheaper by a pick, which is another atom


def test_the_key_epoch_and_the_data_version_are_in_the_atom(policy, prices):
    table = policy.table("engagements")
    later = Policy({"engagements": replace(table, version="2026-11-16")})
    request = TopK("engagements", "article", "members")
    plans = [plan(request, at, prices, epoch) for at in (policy, later) for epoch in ("", "00000000", "0000000a")]
    assert len({found.atom for found in plans}) == len({found.digest for found in plans}) == 6
    assert {found.data_version for found in plans} == {"2026-11-15", "2026-11-16"}


def test_everything_that_a_ranking_depends_on_is_in_its_atom(policy, prices):
    """Two policies under which one question means two things. A shared atom would show one draw for both."""
    table = policy.table("engagements")
    region, members = table.columns["region"], table.measures["members"]
    columns = [
        replace(region, domain=("emea", "apac")),
        replace(region, domain=("emea", "apac", "Amer")),
        replace(region, max_groups=2),
        replace(region, max_groups=None),
        replace(region, guaranteed=True),
        replace(region, type="date", domain=("2026-01-01",)),
    ]
    measures = [
        replace(members, counts="rows"),
        replace(members, counts="sum", column="n"),
        replace(members, counts="sum", column="score"),
        replace(members, max_per_unit=2),
    ]
    changed = [
        *(replace(table, columns={**table.columns, "region": column}) for column in columns),
        *(replace(table, measures={**table.measures, "members": measure}) for measure in measures),
        replace(table, privacy_unit="company_id"),
        replace(table, source="elsewhere.parquet"),
        replace(table, version="another"),
        replace(table, max_k=2),
    ]
    request = TopK("engagements", "region", "members", k=1)
    tables = [table, *changed]
    plans = [plan(request, Policy({"engagements": each}), prices) for each in tables]
    other_prices = [replace(prices, epsilon_per=Fraction(1, 10)), replace(prices, count_noise="laplace")]
    plans += [plan(request, policy, each) for each in other_prices]
    assert len({found.atom for found in plans}) == len(tables) + len(other_prices)


def test_a_plan_says_whom_it_protects_and_what_its_columns_are(policy, prices):
    found = plan(TopK("engagements", ["day", "article"], "members", k=7), policy, prices)
    assert (found.unit, found.columns, found.types, found.counts) == (
        "member_id",
        ("article", "day"),
        ("text", "date"),
        True,
    )
    assert (found.k, found.mechanism.k, found.full.k) == (7, 7, 100)
    assert found.mechanism.at(100) == found.full
    assert hash(found) == hash(plan(TopK("engagements", ["article", "day"], "members", k=7), policy, prices))
