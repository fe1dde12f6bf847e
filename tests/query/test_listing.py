"""SELECT DISTINCT of a public domain is a listing; everything else is another question, or refused."""

from __future__ import annotations

import random
import re
import time
from fractions import Fraction

import pytest

from sfumato.errors import NotSupported, TableNotFound
from sfumato.query import listing
from sfumato.query.listing import Listing, read_listing
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.query.sql import read_sql
from sfumato.query.sql.refusals import FORM, example, identifier

REGIONS = ("amer", "apac", "emea")

LISTED = {
    "SELECT DISTINCT region FROM engagements": REGIONS,
    "SELECT DISTINCT region FROM engagements LIMIT 1000": REGIONS,
    "SELECT DISTINCT region AS region FROM engagements LIMIT 1000": REGIONS,
    "SELECT DISTINCT region AS r FROM engagements ORDER BY r": REGIONS,
    'SELECT DISTINCT "region" AS "region" FROM "engagements" ORDER BY "region" ASC LIMIT 10000': REGIONS,
    'SELECT DISTINCT "engagements"."region" AS "region" FROM "engagements"': REGIONS,
    "SELECT DISTINCT e.region FROM engagements AS e ORDER BY e.region": REGIONS,
    "SELECT DISTINCT region FROM engagements ORDER BY region ASC": REGIONS,
    "SELECT DISTINCT region FROM engagements ORDER BY 1": REGIONS,
    "SELECT DISTINCT region FROM engagements ORDER BY 1 DESC": REGIONS[::-1],
    "SELECT DISTINCT region FROM engagements ORDER BY region DESC LIMIT 2": REGIONS[:0:-1],
    "SELECT DISTINCT region FROM engagements ORDER BY region ASC NULLS LAST": REGIONS,
    "SELECT DISTINCT region FROM engagements LIMIT 2": REGIONS[:2],
    "SELECT DISTINCT region FROM engagements LIMIT 002": REGIONS[:2],
    "SELECT DISTINCT region FROM engagements LIMIT 0": (),
    f"SELECT DISTINCT region FROM engagements LIMIT {'9' * 5000}": REGIONS,
    "select distinct REGION from ENGAGEMENTS limit 1;": REGIONS[:1],
    "  \n-- a tool's own words\n/* SELECT 1 */ SELECT /**/ DISTINCT\nregion\nFROM engagements\n": REGIONS,
    "SELECT/**/DISTINCT region FROM engagements": REGIONS,
    "SELECT DISTINCT region FROM (SELECT * FROM engagements) t": REGIONS,
    "SELECT DISTINCT region AS topic FROM engagements": REGIONS,
    # as tools fill their filter boxes
    "SELECT region FROM engagements GROUP BY region": REGIONS,
    'SELECT "engagements"."region" AS "region" FROM "engagements" GROUP BY 1': REGIONS,
    "select e.region as place from main.engagements e group by place order by place desc limit 2": REGIONS[:0:-1],
}


@pytest.mark.parametrize(("text", "values"), LISTED.items(), ids=[text[:70] for text in LISTED])
def test_a_public_domain_is_listed_in_its_order(text, values, policy):
    found = read_listing(text, policy)
    assert (found.table, found.column, found.values) == ("engagements", "region", values)


def test_an_alias_is_the_name_of_the_values(policy):
    found = read_listing("SELECT DISTINCT region AS place FROM engagements", policy)
    assert found == Listing("engagements", "region", REGIONS, name="place")


def test_values_keep_their_types():
    columns = [
        Column("n", "integer", domain=(10, 9, "8")),
        Column("day", "date", domain=("2026-11-16", "2026-11-15")),
        Column("share", "number", domain=(0.5, Fraction(1, 4))),
        Column("job title", domain=("nurse",)),
    ]
    table = TablePolicy("t", "who", {column.name: column for column in columns}, {"people": Measure("people")})

    def values(column: str) -> list[str]:
        found = read_listing(f'SELECT DISTINCT "{column}" FROM t', Policy({"t": table}))
        assert found is not None
        return [str(value) for value in found.values]

    assert values("n") == ["8", "9", "10"]
    assert values("day") == ["2026-11-15", "2026-11-16"]
    assert values("share") == ["1/4", "1/2"]
    assert values("job title") == ["nurse"]


def test_a_listing_is_not_bound_to_the_longest_list_of_counts():
    words = tuple(f"w{i:05d}" for i in range(5000))
    table = TablePolicy("t", "who", {"word": Column("word", domain=words)}, {"people": Measure("people")}, max_k=10)
    found = read_listing("SELECT DISTINCT word FROM t LIMIT 4000", Policy({"t": table}))
    assert found == Listing("t", "word", words[:4000])


OTHERS = [
    "SELECT region, COUNT(DISTINCT member_id) FROM engagements GROUP BY region",
    "SELECT COUNT(DISTINCT member_id) FROM engagements",
    "SELECT region, members FROM engagements GROUP BY region",
    "SELECT * FROM engagements",
    "SELECT 'SELECT DISTINCT region FROM engagements'",
    "-- SELECT DISTINCT region FROM engagements\nSELECT members FROM engagements",
    "/* SELECT DISTINCT region FROM engagements */ SELECT members FROM engagements",
    "SELECT distinctive FROM engagements",
    'SELECT "DISTINCT" FROM engagements',
    "SELECTDISTINCT region FROM engagements",
    "EXPLAIN SELECT DISTINCT region FROM engagements",
    "/* not /* closed */ */ SELECT DISTINCT region FROM engagements",
    "/* not closed SELECT DISTINCT region FROM engagements",
    "",
    "hello",
    "SELECT DISTINCT region FROM engagements" + " " * 30_000,
    5,
    None,
]


@pytest.mark.parametrize("text", OTHERS, ids=lambda text: str(text)[:70])
def test_another_question_is_none_and_not_parsed(text, policy, monkeypatch):
    monkeypatch.setattr(listing, "parse_select", lambda _: pytest.fail("parsed"))
    assert read_listing(text, policy) is None


COUNTED = [
    "SELECT article FROM engagements GROUP BY article",
    "SELECT region FROM engagements GROUP BY region ORDER BY members DESC",
    "SELECT region FROM engagements WHERE paid GROUP BY region",
    "SELECT region FROM engagements GROUP BY article",
    "SELECT region, topic FROM engagements GROUP BY region, topic",
    "SELECT region FROM engagements GROUP BY region HAVING members > 5",
    "SELECT members FROM engagements GROUP BY region",
]


@pytest.mark.parametrize("text", COUNTED)
def test_groups_that_depend_on_rows_are_no_listing(text, policy):
    assert read_listing(text, policy) is None


def test_what_hides_from_it_is_refused_as_a_question(policy):
    with pytest.raises(NotSupported, match="SELECT DISTINCT is not supported yet, but for one column"):
        read_sql("/* not /* closed */ */ SELECT DISTINCT region FROM engagements", policy)


REFUSED = {
    "SELECT DISTINCT article FROM engagements": "its values exist only in the data",
    "SELECT DISTINCT article FROM engagements LIMIT 10": "ask for the most frequent: SELECT article, COUNT(DISTINCT",
    'SELECT DISTINCT "job title" FROM engagements': 'most frequent: SELECT "job title", COUNT(DISTINCT member_id)',
    "SELECT DISTINCT paid FROM engagements": "its values exist only in the data",
    "SELECT DISTINCT region, topic FROM engagements": "one column at a time",
    "SELECT DISTINCT region, region FROM engagements": "one column at a time",
    "SELECT DISTINCT FROM engagements": "one column at a time",
    "SELECT DISTINCT region FROM engagements WHERE topic = 'a'": "leave WHERE out; to see which there are",
    "SELECT DISTINCT region FROM engagements WHERE region = 'emea'": "WHERE ... GROUP BY region ORDER BY 2 DESC",
    "SELECT DISTINCT region FROM engagements GROUP BY region": "leave GROUP BY out",
    "SELECT DISTINCT region FROM engagements HAVING COUNT(*) > 5": "HAVING filters released counts",
    "SELECT DISTINCT region FROM engagements JOIN other USING (x)": "JOIN has no private form",
    "SELECT DISTINCT region FROM engagements, engagements b": "JOIN has no private form",
    "SELECT DISTINCT region FROM engagements UNION SELECT DISTINCT region FROM engagements": "one SELECT at a time",
    "SELECT DISTINCT region FROM engagements LIMIT 5 OFFSET 5": "OFFSET is not supported yet",
    "SELECT DISTINCT region, COUNT(*) FROM engagements GROUP BY region": "leave DISTINCT out, and GROUP BY",
    "SELECT DISTINCT region, members FROM engagements": "leave DISTINCT out",
    "SELECT DISTINCT COUNT(*) FROM engagements": "leave DISTINCT out",
    "SELECT DISTINCT members FROM engagements": "leave DISTINCT out",
    "SELECT DISTINCT MAX(n) FROM engagements": "MAX of n needs bounds",
    "SELECT DISTINCT ON (region) region FROM engagements": "DISTINCT ON is not supported yet",
    "SELECT DISTINCT member_id FROM engagements": "people are counted, not named",
    "SELECT DISTINCT * FROM engagements": "would list people",
    "SELECT DISTINCT e.* FROM engagements e": "would list people",
    "SELECT DISTINCT lower(article) FROM engagements": "no public domain",
    "SELECT DISTINCT 1 + 1 FROM engagements": "the same for every row",
    "SELECT DISTINCT regon FROM engagements": "did you mean region",
    "SELECT DISTINCT region FROM engagement": "did you mean engagements",
    "SELECT DISTINCT region FROM other.engagements": "no schema 'other'",
    "SELECT DISTINCT region": "nothing is asked without FROM",
    "SELECT DISTINCT x.region FROM engagements": "no table 'x'",
    "SELECT DISTINCT region FROM engagements ORDER BY topic": "ORDER BY region, ASC or DESC",
    "SELECT DISTINCT region FROM engagements ORDER BY COUNT(*)": "no counts to be ordered by",
    "SELECT DISTINCT region FROM engagements ORDER BY members DESC": "no counts to be ordered by",
    "SELECT DISTINCT region FROM engagements ORDER BY region, region": "ORDER BY region, ASC or DESC",
    "SELECT DISTINCT region FROM engagements ORDER BY 2": "no column number 2",
    "SELECT DISTINCT region FROM engagements LIMIT 1.5": "whole number",
    "SELECT DISTINCT region FROM engagements LIMIT -1": "whole number",
    "SELECT DISTINCT region FROM engagements LIMIT ALL": "LIMIT takes a whole number",
    "SELECT DISTINCT region FROM engagements; DROP TABLE engagements": "one SELECT",
    "SELECT DISTINCT region FROM 'secret.parquet'": "",
    "SELECT DISTINCT region FROM read_parquet('/etc/passwd')": "one table by its name",
}


@pytest.mark.parametrize(("text", "words"), REFUSED.items(), ids=list(REFUSED))
def test_refusals_name_the_way_out(text, words, policy):
    with pytest.raises((NotSupported, TableNotFound)) as refusal:
        read_listing(text, policy)
    assert words in str(refusal.value)
    assert 20 < len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "rest",
    [
        "(" * 3000 + "region",
        "- " * 3000 + "region FROM engagements",
        "a, " * 4000 + "region FROM engagements",
        "region FROM engagements " + "JOIN n " * 200,
        "region FROM engagements ORDER BY " + "region, " * 2000 + "region",
        "[" * 3000,
    ],
    ids=lambda text: text[:30],
)
def test_huge_listings_are_refused_before_anything_recurses(rest, policy):
    with pytest.raises(NotSupported):
        read_listing(f"SELECT DISTINCT {rest}", policy)


@pytest.mark.parametrize("piece", ["/*", "/**/", "--\n", "-- ", " ", "/* -- ", "SELECT ", "/**/SELECT "])
def test_looking_at_a_text_takes_no_time(piece, policy):
    text = (piece * 20_000)[:20_000]
    begun = time.thread_time()  # of work, not of the clock: others may use the machine
    assert read_listing(text, policy) is None
    assert time.thread_time() - begun < 1  # a millisecond; looking at all pairs of characters takes many seconds


WORDS = ["region", "article", "member_id", "members", "DISTINCT", ",", "(", ")", "*", "=", "'a'", "5"]
WORDS += ["FROM engagements", "FROM engagements", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "SELECT"]


def test_whatever_it_is_it_is_a_listing_none_or_a_refusal(policy):
    coin = random.Random(0)
    for _ in range(3000):
        text = "SELECT DISTINCT " + " ".join(coin.choices(WORDS, k=coin.randint(1, 12)))
        try:
            found = read_listing(text, policy)
        except NotSupported:
            continue
        assert found is None or set(found.values) <= {*policy.table("engagements").column(found.column).domain}


# -- the way out of a preview leads somewhere --


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM engagements LIMIT 100",
        "SELECT article, n FROM engagements LIMIT 10",
        'SELECT "job title" FROM engagements LIMIT 10',
        "SELECT region FROM engagements",
        "SELECT 1",
    ],
)
def test_the_question_in_a_refusal_can_be_asked(text, policy, prices):
    with pytest.raises(NotSupported) as refusal:
        read_sql(text, policy)
    [question] = re.findall("SELECT (?!DISTINCT).+? LIMIT [0-9]+", str(refusal.value).removeprefix("SELECT *"))
    assert plan(read_sql(question, policy), policy, prices)


@pytest.mark.parametrize(
    "name", ["plain", "job title", "index", "order", 'a"b', "it's", "día", "9lives", "date", "Case"]
)
def test_examples_are_read_whatever_things_are_called(name, prices):
    table = TablePolicy(name, f"{name} id", {name: Column(name)}, {"rows of": Measure("rows of", "rows")}, max_k=3)
    policy = Policy({name: table})
    assert plan(read_sql(example(table), policy), policy, prices).request["k"] == 3
    with pytest.raises(NotSupported, match="only in the data"):
        read_listing(f"SELECT DISTINCT {identifier(name)} FROM {identifier(name)}", policy)


def test_a_table_without_measures_or_columns_gets_the_form():
    assert example(TablePolicy("t", "who", {}, {})) == FORM
