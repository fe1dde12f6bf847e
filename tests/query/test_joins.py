"""JOIN of a table of people with public tables: what it means, what it costs, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import ConfigError, NotSupported, SfumatoError
from sfumato.query.expressions.functions import FUNCTIONS, LOOKUPS
from sfumato.query.plan import Plan, plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.public import MAX_PUBLIC_ROWS, PublicTable, read_public_rows
from sfumato.query.serial import read_question, read_request
from sfumato.query.sql import read_sql, write_sql
from tests.helpers.repeats import repeats

PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
ITEM_ROWS = [("a", "food", "x", 5), ("b", "food", "y", 9), ("c", "toys", None, 2), ("d", None, "x", None)]
ITEMS = read_public_rows(
    "items", "item", {"item": "text", "category": "text", "brand": "text", "price": "integer"}, ITEM_ROWS
)
BRANDS = read_public_rows("brands", "brand", {"brand": "text", "country": "text"}, [("x", "de"), ("y", "fr")])
ABLE = TablePolicy("t", "u", {}, {}).abilities


def policy(items: PublicTable = ITEMS, *, brands: PublicTable = BRANDS, **item: Any) -> Policy:
    columns = (Column("item", **item), Column("gift"), Column("n", type="integer"), Column("day", type="date"))
    public = {"items": items, "brands": brands}
    sales = TablePolicy(
        "sales",
        "person",
        {column.name: column for column in columns},
        {"people": Measure("people"), "visits": Measure("visits", "rows", max_per_unit=2)},
        abilities=replace(ABLE, every_group=True, functions=FUNCTIONS | LOOKUPS),
        public=public,
    )
    return Policy({"sales": sales}, public=public)


def planned(sql: str, at: Policy | None = None) -> Plan:
    at = at or policy()
    return plan(read_question(sql, at).core, at, PRICES)


def grouped(keys: str, source: str, more: str = "") -> str:
    return f"SELECT {keys}, COUNT(DISTINCT person) AS people FROM {source} {more} GROUP BY {keys}"


ONE_MEANING = [
    [
        grouped("items.category", "sales JOIN items USING (item)"),
        grouped("category", "sales JOIN items USING (item)"),
        grouped("category", "sales INNER JOIN items ON sales.item = items.item"),
        grouped("i.category", "main.sales AS s JOIN main.items AS i ON (i.item = s.item)"),
        grouped("category", "items JOIN sales USING (item)"),
        grouped("category", "items i JOIN sales s ON i.item = s.item"),
        grouped("CATEGORY", "Sales JOIN ITEMS USING (ITEM)"),
        grouped("category", "sales LEFT JOIN items USING (item)"),  # no row has a category without one there
        grouped("lookup(item, items.category)", "sales"),
    ],
    [
        "SELECT people FROM sales JOIN items USING (item)",
        "SELECT people FROM sales LEFT JOIN items i USING (item) WHERE i.item >= '' OR i.item < ''",
        "SELECT people FROM sales s JOIN items i ON s.item = i.item WHERE 1 = 1",
    ],
    [
        grouped("item", "sales JOIN items USING (item)"),
        grouped("items.item", "sales JOIN items USING (item)"),
        grouped("sales.item", "sales JOIN items ON sales.item = items.item"),
        grouped("items.item", "sales LEFT JOIN items USING (item)"),
    ],
    [
        grouped("brand", "sales JOIN items USING (item) LEFT JOIN brands USING (brand)"),
        grouped("items.brand", "sales JOIN items USING (item)"),
    ],
    [
        grouped("country", "sales JOIN items USING (item) JOIN brands USING (brand)"),
        grouped("b.country", "sales s LEFT JOIN items i ON s.item = i.item LEFT JOIN brands b ON i.brand = b.brand"),
        grouped("lookup(lookup(item, items.brand), brands.country)", "sales"),
    ],
    [
        "SELECT people FROM sales LEFT JOIN items USING (item) WHERE price > 4",
        "SELECT people FROM sales JOIN items USING (item) WHERE items.price >= 5",
    ],
]


@pytest.mark.parametrize("spellings", ONE_MEANING)
def test_spellings_of_one_meaning_have_one_digest_and_others_have_others(spellings: list[str]):
    digests = {planned(each).digest for each in spellings}
    assert len(digests) == 1
    assert not digests & {planned(other[0]).digest for other in ONE_MEANING if other is not spellings}


def test_what_a_look_up_depends_on_is_in_its_digest():
    sql = grouped("category", "sales JOIN items USING (item)")
    changed = [
        replace(ITEMS, version="2026-11"),
        replace(ITEMS, source="elsewhere"),
        replace(ITEMS, key="category", columns={**ITEMS.columns}),
        read_public_rows("items", "item", {**ITEMS.columns}, [*ITEM_ROWS[:2], ("c", "tools", None, 2)]),
    ]
    asked = [
        planned(sql),
        *(planned(grouped("lookup(item, items.category)", "sales"), policy(each)) for each in changed),
    ]
    others = [
        "SELECT people FROM sales",
        "SELECT people FROM sales LEFT JOIN items USING (item)",  # keeps every row, so it is the same as the one above
        "SELECT people FROM sales JOIN items USING (item)",
        "SELECT people FROM sales JOIN items ON gift = items.item",
        grouped("category", "sales JOIN items ON sales.gift = items.item"),
        grouped("brand", "sales JOIN items USING (item)"),
    ]
    assert planned(others[0]).digest == planned(others[1]).digest
    digests = [each.digest for each in asked] + [planned(each).digest for each in others]
    assert len({*digests}) == len(digests) - 1


def test_a_request_is_read_back_from_its_sql_and_from_its_json():
    for spellings in ONE_MEANING:
        for sql in spellings:
            at, found = policy(), planned(sql)
            assert plan(read_request(found.request, at), at, PRICES).digest == found.digest
            written = write_sql(read_request(found.request, at), at)
            assert plan(read_sql(written, at), at, PRICES).digest == found.digest


def test_the_domain_is_public_and_a_person_has_no_more_groups_than_of_the_column_joined_by():
    found = planned(grouped("category", "sales JOIN items USING (item)"), policy(max_groups=1))
    assert (found.domain, found.counting.max_groups) == ((("food",), ("toys",)), 1)
    assert found.full.name == "known_gaussian"
    assert planned(grouped("upper(category)", "sales JOIN items USING (item)")).domain == (("FOOD",), ("TOYS",))
    of_two = planned(grouped("category", "sales JOIN items USING (item)", "WHERE item IN ('a', 'b')"))
    assert of_two.domain == (("food",),)
    of_items = planned(grouped("item", "sales JOIN items USING (item)"))
    assert of_items.domain == (("a",), ("b",), ("c",), ("d",))
    bounded = planned(grouped("category", "sales JOIN items USING (item)"), policy(max_groups=1, guaranteed=True))
    assert bounded.counting.max_groups == 1  # the key may not be unique any more, so the query enforces it


REFUSED = {
    "FROM sales JOIN sales s2 USING (item)": "between tables of people",
    "FROM sales JOIN other USING (item)": "between tables of people",
    "FROM sales, items": "joined by its key, item",
    "FROM sales CROSS JOIN items": "CROSS JOIN is not supported yet",
    "FROM sales FULL JOIN items USING (item)": "FULL JOIN is not supported yet",
    "FROM sales RIGHT JOIN items USING (item)": "RIGHT JOIN is not supported yet",
    "FROM items LEFT JOIN sales USING (item)": "begin with the table of people",
    "FROM sales JOIN items ON sales.item = items.category": "joined by its key, item",
    "FROM sales JOIN items ON sales.item > items.item": "joined by its key, item",
    "FROM sales JOIN items ON sales.item = items.item AND price > 3": "belong into WHERE",
    "FROM sales JOIN items ON lower(sales.item) = items.item": "joined by its key, item",
    "FROM sales JOIN items USING (brand)": "joined by its key, item",
    "FROM sales JOIN items ON n = items.item": "holds a whole number, and items.item holds text",
    "FROM sales JOIN items ON items.item = person": "people are counted, not named",
    "FROM sales JOIN items USING (item) JOIN items USING (item)": "one name",
    "FROM sales JOIN (SELECT item FROM items) AS i USING (item)": "JOIN has no private form",
    "FROM sales JOIN items USING (item) WHERE colour = 'red'": "no column 'colour'",
    "FROM sales JOIN items USING (item) WHERE items.colour = 'red'": "items has no column 'colour'",
    "FROM sales JOIN items USING (item) WHERE t.item = 'a'": "there is no table 't'",
    "FROM sales JOIN items ON sales.gift = items.item WHERE item = 'a'": "is a column of sales, items",
    "FROM sales JOIN items USING (item) JOIN brands b ON items.brand = b.brand WHERE brand = 'x'": "of items, b",
}


@pytest.mark.parametrize(("source", "reason"), REFUSED.items(), ids=REFUSED)
def test_all_else_about_joins_is_refused_with_its_reason(source: str, reason: str):
    with pytest.raises(NotSupported) as refused:
        planned(f"SELECT people {source}")
    assert reason in str(refused.value)


@pytest.mark.parametrize("item", ["SUM(items.price)", "COUNT(DISTINCT items.brand)", "AVG(price)"])
def test_measures_are_of_the_table_of_people(item: str):
    with pytest.raises(NotSupported):
        planned(f"SELECT {item} FROM sales JOIN items USING (item)")


def test_an_engine_without_look_ups_refuses_before_anything_is_charged():
    at = policy()
    sales = replace(at.tables["sales"], abilities=replace(ABLE, name="Abacus"))
    with pytest.raises(NotSupported, match="Abacus is not known to compute lookup"):
        planned(grouped("category", "sales JOIN items USING (item)"), replace(at, tables={"sales": sales}))


def test_a_public_table_has_a_unique_key_and_few_rows():
    with pytest.raises(ConfigError, match="item is not unique: two rows have 'a'"):
        read_public_rows("items", "item", {"item": "text"}, [("a",), (None,), (None,), ("a",)])
    with pytest.raises(ConfigError, match=f"more than {MAX_PUBLIC_ROWS} rows"):
        read_public_rows("items", "item", {"item": "integer"}, ((n,) for n in range(MAX_PUBLIC_ROWS + 1)))


rows = st.tuples(
    st.integers(1, 4), *2 * [st.none() | st.sampled_from(["a", "b", "c", "d", "e"])], st.none() | st.integers(-2, 5)
)
ENGINE = duckdb.connect(config={"threads": 1})  # one for all examples: opening it takes longer than they do


def fill(data: list[tuple[Any, ...]], items: list[tuple[Any, ...]] = ITEM_ROWS) -> None:
    ENGINE.execute("CREATE OR REPLACE TABLE sales (person INTEGER, item VARCHAR, gift VARCHAR, n BIGINT, day DATE)")
    ENGINE.execute("CREATE OR REPLACE TABLE items (item VARCHAR, category VARCHAR, brand VARCHAR, price BIGINT)")
    ENGINE.execute("CREATE OR REPLACE TABLE brands (brand VARCHAR, country VARCHAR)")
    ENGINE.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, NULL)", data or [(None,) * 4])
    ENGINE.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", items)
    ENGINE.executemany("INSERT INTO brands VALUES (?, ?)", [("x", "de"), ("y", "fr")])


SAME_AS_DUCKDB = [
    grouped("category", "sales JOIN items USING (item)"),
    grouped("category", "sales LEFT JOIN items USING (item)", "WHERE price > 3 OR n = 1"),
    grouped("country", "sales JOIN items USING (item) JOIN brands USING (brand)"),
    grouped("country", "sales LEFT JOIN items USING (item) LEFT JOIN brands USING (brand)", "WHERE category = 'food'"),
    grouped("item", "sales JOIN items USING (item)", "WHERE n > 0"),
    grouped("gift", "sales JOIN items USING (item)"),
    grouped("gift", "sales JOIN items USING (item) LEFT JOIN brands USING (brand)", "WHERE country IS NULL"),
    grouped(
        "g.category", "sales s JOIN items i ON s.item = i.item JOIN items g ON s.gift = g.item", "WHERE i.price > 4"
    ),
    grouped("gift", "sales LEFT JOIN items USING (item)", "WHERE category IS NULL"),
    grouped("gift", "sales LEFT JOIN items USING (item)", "WHERE NOT (category = 'food')"),
    grouped("gift", "sales JOIN items USING (item)", "WHERE coalesce(category, 'none') <> 'food'"),
    grouped("CASE WHEN price > 4 THEN 'dear' ELSE 'cheap' END", "sales LEFT JOIN items USING (item)"),
    "SELECT COUNT(DISTINCT person) AS people FROM sales JOIN items USING (item)",
    "SELECT COUNT(DISTINCT person) AS people FROM sales LEFT JOIN items USING (item)",
    "SELECT COUNT(DISTINCT person) AS people FROM sales JOIN items i ON i.item = gift WHERE lower(i.brand) = 'x'",
]


@pytest.mark.parametrize("sql", SAME_AS_DUCKDB)
@settings(max_examples=repeats(8, 200))
@given(data=st.lists(rows, max_size=12))
def test_the_counts_without_noise_are_those_of_the_statement(sql: str, data: list[tuple[Any, ...]]):
    fill(data)
    found = ENGINE.execute(planned(sql).query.sql("duckdb")).fetchall()
    own = [row for row in ENGINE.execute(sql).fetchall() if None not in row[:-1]]
    assert sorted(row for row in found if row[-1]) == sorted(row for row in own if row[-1])


@pytest.mark.parametrize("measure", ["people", "visits"])
@settings(max_examples=repeats(10, 200))
@given(data=st.lists(rows, max_size=10), own=st.lists(rows, max_size=6), copies=st.integers(0, 2))
def test_one_person_moves_few_counts_by_tau_also_where_the_key_is_not_unique_any_more(
    measure: str, data: list[tuple[Any, ...]], own: list[tuple[Any, ...]], copies: int
):
    sql = f"SELECT category, {measure} FROM sales JOIN items USING (item) GROUP BY category"
    query = planned(sql, policy(max_groups=1, guaranteed=True)).query.sql("duckdb")
    counts = []
    for people in (data, data + [(99, *row[1:]) for row in own]):
        fill(people, [*ITEM_ROWS, *[("a", "toys", "y", 1)] * copies])
        counts.append(dict(ENGINE.execute(query).fetchall()))
    before, after = counts
    moved = [after.get(key, 0) - before.get(key, 0) for key in {*before, *after}]
    assert all(0 <= change <= {"people": 1, "visits": 2}[measure] for change in moved)
    assert sum(change > 0 for change in moved) <= 1


@settings(max_examples=repeats(50, 1000))
@given(st.text(max_size=6), st.text(max_size=6))
def test_no_name_breaks_a_look_up(table: str, column: str):
    items = read_public_rows(table, "item", {"item": "text"} | {column: "text"}, [("a", "b")[: 2 - (column == "item")]])
    sales = replace(policy().tables["sales"], public={table: items})
    at = Policy({"sales": sales}, public={table: items})
    try:
        found = planned(grouped(f"lookup(item, {_quoted(table)}.{_quoted(column)})", "sales"), at)
    except SfumatoError:
        return
    assert plan(read_request(found.request, at), at, PRICES).digest == found.digest


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
