"""Requests as JSON: read strictly, and written in one form that reads back as the same question."""

from __future__ import annotations

import json
from datetime import date, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.query.plan import plan
from sfumato.query.predicate import ABOVE, BELOW, Cut, In, Values, all_of, any_of, negate
from sfumato.query.request import Histogram, TopK, Total
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql
from sfumato.query.values import json_value, read_value
from sfumato.types import MAX_INTEGER

EDGES = {
    "text": ["", "a", "b", "A", "é", "\U0001f600", "it's", '"', "or", "2026-01-01", " ", "x" * 1000],
    "integer": [0, 1, 2, 3, 5, -1, 2**53, 2**53 + 1, MAX_INTEGER - 1, MAX_INTEGER, -MAX_INTEGER],
    "number": [
        *(Fraction(n) for n in ("0", "1", "-1/2", "1/1000000000000000", "999999999999999.9999999999999999999999999")),
        *(Fraction(n) for n in ("0.0033333333333333335", f"1/{10**25}")),
    ],
    "boolean": [False, True],
    "date": [date.min, date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1), date.max],
    "timestamp": [datetime.min, datetime(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4), datetime.max],
}
COLUMNS = {"article": "text", "n": "integer", "score": "number", "paid": "boolean", "day": "date", "at": "timestamp"}
WIDE = {
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5),
    "integer": st.integers(-MAX_INTEGER, MAX_INTEGER),
    "number": st.integers(1 - 10**40, 10**40 - 1).map(lambda n: Fraction(n, 10**25)),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
}
values = {kind: st.sampled_from(EDGES[kind]) | WIDE[kind] for kind in EDGES}


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(sorted(COLUMNS)))
    value = values[COLUMNS[column]]
    cuts = st.builds(Cut, value, st.sampled_from([-1, 1])) | st.sampled_from([BELOW, ABOVE])
    points = Values.of(*draw(st.lists(value, max_size=4)))
    return In(column, points | Values.union(draw(st.lists(st.tuples(cuts, cuts), max_size=3))))


def branches(inner):
    parts = st.lists(inner, max_size=4)
    return st.builds(all_of, parts) | st.builds(any_of, parts) | st.builds(negate, inner)


filters = st.recursive(leaves(), branches, max_leaves=10)


def check_that_it_reads_back(found, policy, prices):
    again = plan(read_request(json.loads(json.dumps(found.request)), policy), policy, prices)
    assert (again.atom, again.digest, again.request) == (found.atom, found.digest, found.request)
    assert again == found


@given(where=filters)
def test_what_is_written_reads_back_as_the_same_question(where, policy, prices):
    check_that_it_reads_back(plan(Total("engagements", "members", where), policy, prices), policy, prices)


@given(
    where=st.none() | leaves(),
    by=st.lists(st.sampled_from(["article", "job title", "region", "topic", "day"]), min_size=1, unique=True),
    measure=st.sampled_from(["members", "shares", "visits"]),
    k=st.none() | st.integers(1, 100),
    counts=st.booleans(),
)
def test_lists_read_back_too(where, by, measure, k, counts, policy, prices):
    request = TopK("engagements", by, measure, where, k, counts)
    check_that_it_reads_back(plan(request, policy, prices), policy, prices)


@pytest.mark.parametrize("kind", EDGES)
@given(data=st.data())
def test_values_survive_json(kind, data):
    value = data.draw(values[kind])
    again = read_value("c", kind, json.loads(json.dumps(json_value(value))))
    assert again == value
    assert type(again) is type(value)


WRITTEN = [
    ("TRUE", {}),
    ("FALSE", {"or": []}),
    ("n = 1 AND n = 2", {"or": []}),
    ("n = 1 AND (n = 2 OR topic = 'a' AND topic = 'b')", {"or": []}),
    ("region = 'emea'", {"region": ["emea"]}),
    ("region IN ('emea', 'apac') AND n > 1", {"n": {"ge": 2}, "region": ["apac", "emea"]}),
    ("region <> 'emea'", {"not": {"region": ["emea"]}}),
    ("NOT (n = 1 AND n = 2)", {"not": {"n": []}}),
    ("NOT (n = 1 AND n = 2) AND region <> 'emea'", {"and": [{"not": {"n": []}}, {"not": {"region": ["emea"]}}]}),
    ("n BETWEEN 1 AND 5 OR n > 9 OR n = 7", {"or": [{"n": [7]}, {"n": {"ge": 1, "lt": 6}}, {"n": {"ge": 10}}]}),
    ("region = 'emea' OR n > 3", {"or": [{"n": {"ge": 4}}, {"region": ["emea"]}]}),
    ("paid", {"paid": [True]}),
    ("NOT paid", {"not": {"paid": [True]}}),
    ("score > 0.5 AND score <= 2", {"score": {"gt": "0.5", "le": 2}}),
    (f"n >= {2**62}", {"n": {"ge": str(2**62)}}),
    ("day < '2026-01-01'", {"day": {"lt": "2026-01-01"}}),
    ("at >= '2026-01-01'", {"at": {"ge": "2026-01-01T00:00:00"}}),
]


@pytest.mark.parametrize(("sql", "where"), WRITTEN, ids=[sql for sql, _ in WRITTEN])
def test_a_filter_has_one_written_form(sql, where, policy, prices):
    found = plan(read_sql(f"SELECT members FROM engagements WHERE {sql}", policy), policy, prices)
    assert found.request == {"type": "total", "table": "engagements", "measure": "members", "where": where}


def test_a_histogram_is_written_as_the_longest_list(policy, prices):
    found = plan(Histogram("ENGAGEMENTS", ["topic", "Region"], "Members"), policy, prices)
    assert found.request == {
        "type": "top_k",
        "table": "engagements",
        "by": ["region", "topic"],
        "measure": "members",
        "where": {},
        "k": 9,
        "counts": True,
    }


@pytest.mark.parametrize(
    "where",
    [
        {"or": [{"article": [f"{i}" for i in range(1000)]}, {"article": [f"a{i}" for i in range(998)]}]},
        {"and": [{"not": {"article": [f"{i}" for i in range(1000)]}}, {"article": {"lt": "b"}}]},
        {"or": [{"n": {"between": [10 * i, 10 * i + 5]}} for i in range(1998)]},
    ],
    ids=["values", "holes", "ranges"],
)
def test_large_filters_read_back(where, policy, prices):
    check_that_it_reads_back(plan(Total("engagements", "members", where), policy, prices), policy, prices)


TOP = {"type": "top_k", "table": "engagements", "by": "article", "measure": "members"}

READ = [
    (TOP, TopK("engagements", "article", "members")),
    (TOP | {"where": None, "k": None}, TopK("engagements", "article", "members")),
    (
        TOP | {"by": ["article", "day"], "where": {"n": 1}, "k": 5, "counts": False},
        TopK("engagements", ["article", "day"], "members", {"n": 1}, 5, counts=False),
    ),
    (TOP | {"type": "histogram"}, Histogram("engagements", "article", "members")),
    ({"type": "total", "table": "engagements", "measure": "members"}, Total("engagements", "members")),
]


@pytest.mark.parametrize(("serial", "request_"), READ)
def test_requests_are_read(serial, request_, policy):
    assert read_request(serial, policy) == request_


def test_sql_is_read_through_the_front_door(policy):
    sql = "SELECT article, members FROM engagements GROUP BY 1 LIMIT 5"
    assert read_request({"sql": sql}, policy) == read_sql(sql, policy)
    with pytest.raises(NotSupported, match="would list people"):
        read_request({"sql": "SELECT * FROM engagements"}, policy)


REFUSED = [
    (None, "a request is an object"),
    ([TOP], "a request is an object"),
    ("SELECT 1", "a request is an object"),
    ({5: 1}, "a request is an object"),
    ({}, r"^type: is missing, and so is sql; .*top_k, histogram, total"),
    ({"typ": "top_k"}, r"^type: is missing.* did you mean typ"),
    (TOP | {"type": "topk"}, r"^type: must be one of .*did you mean top_k"),
    (TOP | {"type": 5}, r"^type: must be one of"),
    (TOP | {"type": ["top_k"]}, r"^type: must be one of"),
    (TOP | {"mesure": "members"}, r"^mesure: is not a field of a top_k; did you mean measure"),
    (TOP | {"epsilon": 5}, r"^epsilon: is not a field of a top_k; there is type, table, by, measure, where, k, counts"),
    (TOP | {"type": "histogram", "k": 5}, r"^k: is not a field of a histogram"),
    (TOP | {"type": "total"}, r"^by: is not a field of a total"),
    ({"type": "top_k", "table": "engagements", "measure": "members"}, r"^by: is missing; a top_k needs a column"),
    ({"type": "total", "measure": "members"}, r"^table: is missing"),
    ({"type": "total", "table": "engagements"}, r"^measure: is missing"),
    (TOP | {"table": 5}, r"^table: must be text"),
    (TOP | {"table": None}, r"^table: must be text"),
    (TOP | {"by": 5}, r"^by: must be a column, or a list"),
    (TOP | {"by": ["article", 5]}, r"^by: must be a column, or a list"),
    (TOP | {"by": {"article": 1}}, r"^by: must be a column, or a list"),
    (TOP | {"measure": ["members"]}, r"^measure: must be text"),
    (TOP | {"where": "n = 1"}, r"^where: must be a filter"),
    (TOP | {"where": []}, r"^where: must be a filter"),
    (TOP | {"k": "10"}, r"^k: must be a whole number"),
    (TOP | {"k": 10.0}, r"^k: must be a whole number"),
    (TOP | {"k": True}, r"^k: must be a whole number"),
    (TOP | {"counts": 1}, r"^counts: must be true or false"),
    (TOP | {"counts": None}, r"^counts: must be true or false"),
    ({"sql": 5}, r"^sql: must be text"),
    ({"sql": "SELECT members FROM engagements", "k": 5}, r"^k: cannot stand beside sql"),
    (TOP | {"x" * 5000: 1}, r"^x{60}: is not a field"),
]


@pytest.mark.parametrize(("serial", "words"), REFUSED)
def test_other_requests_are_refused_by_field(serial, words, policy):
    with pytest.raises(NotSupported, match=words) as refusal:
        read_request(serial, policy)
    assert len(str(refusal.value)) < 300
