"""Questions on their way: what the service reads is what embedded use would have read, or both refuse."""

from __future__ import annotations

import enum
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.client.bodies import request_body
from sfumato.errors import InvalidArgument, NotSupported
from sfumato.query.filters import canonical_filter
from sfumato.query.predicate import AllOf, AnyOf, In, Values
from sfumato.query.request import MAX_NODES, NOT_A_REQUEST, Histogram, TopK, Total
from sfumato.query.serial import read_request
from tests.helpers.fake_service import ANSWER, ESTIMATE, Scripted, async_call, ok, policy, sync_call

TABLE = policy().tables["engagements"]


class Region(enum.StrEnum):
    EMEA = "emea"


def arrived(question):
    return json.loads(request_body(question))


def refusal(work):
    try:
        work()
    except NotSupported as error:
        return str(error)
    return None


WHERES = [
    None,
    {},
    {"region": "emea"},
    {"region": Region.EMEA},
    {"region": {"emea", "amer"}},
    {"region": ("emea", "amer")},
    {"region": frozenset({"o'clock", "ü", "\U0001f600"})},
    {"day": date(2026, 11, 1)},
    {"day": {"ge": date(2026, 11, 1), "lt": "2026-12-01"}},
    {"day": {date(2026, 11, 1), date(2026, 11, 2)}},
    {"at": datetime(2026, 11, 1, 8, 30, 0, 123456)},
    {"at": {"gt": datetime(2026, 11, 1, 8, tzinfo=timezone(timedelta(hours=2)))}},
    {"at": date(2026, 11, 1)},
    {"at": pandas.Timestamp("2026-11-01T08:30:00.123456789")},
    {"n": 7},
    {"n": numpy.int64(7)},
    {"n": 2**60},
    {"n": Decimal(7)},
    {"n": Decimal(2**60)},
    {"n": 7.0},
    {"n": 1e17},
    {"n": {"between": [numpy.uint8(1), Fraction(9)]}},
    {"score": 0.1},
    {"score": numpy.float64(0.1)},
    {"score": Decimal("0.1")},
    {"score": Decimal("-12.50")},
    {"score": Fraction(1, 8)},
    {"score": Fraction(1, 10)},
    {"paid": True},
    {"or": [{"region": "emea"}, {"not": {"n": {"in": {1, 2}}}}]},
    In("region", Values.of("emea")),
    In("n", ~Values.of(3, 4)),
    In("score", Values.of(Fraction(1, 10))),
    In("day", Values.of(date(2026, 11, 1), date(2026, 11, 2), date(2026, 11, 9))),
    In("region", Values(())),
    AllOf((In("region", Values.of("emea")), AnyOf((In("paid", Values.of(True)), In("n", Values.of(1)))))),
    AllOf(()),
    AnyOf(()),
]


DICTIONARIES = [where for where in WHERES if isinstance(where, dict)]


@pytest.mark.parametrize("where", WHERES, ids=range(len(WHERES)))
@pytest.mark.parametrize("make", [lambda w: TopK("t", ("article", "day"), "members", w, 5, counts=False), TopK, Total])
def test_a_filter_means_the_same_on_the_other_side(where, make):
    question = make("engagements", "article", "members", where) if make is TopK else None
    question = question or (Total("engagements", "members", where) if make is Total else make(where))
    read = read_request(arrived(question), policy())
    assert type(read) is type(question)
    assert canonical_filter(read.where, TABLE) == canonical_filter(question.where, TABLE)
    for name in ("measure", "k", "counts"):
        assert getattr(read, name, None) == getattr(question, name, None)
    assert tuple(getattr(read, "by", ())) == tuple(getattr(question, "by", ()))


@pytest.mark.parametrize("where", DICTIONARIES, ids=range(len(DICTIONARIES)))
def test_dictionaries_carry_the_same_values(where):
    read = read_request(
        arrived({"type": "total", "table": "engagements", "measure": "members", "where": where}), policy()
    )
    assert canonical_filter(read.where, TABLE) == canonical_filter(where, TABLE)


@given(st.one_of(st.integers(-(2**62), 2**62), st.floats(-1e14, 1e14).filter(lambda x: x == 0 or abs(x) > 1e-9)))
def test_numbers_arrive_exactly(number):
    sent = arrived({"where": {"n": number}})["where"]["n"]
    assert sent == number
    assert repr(sent) == repr(number)


REFUSED_WHERES = [
    {"score": float("nan")},
    {"score": float("inf")},
    {"score": Decimal("NaN")},
    {"score": Fraction(1, 3)},
    {"score": Decimal("1e1000000")},
    {"score": Decimal("1e-1000000")},
    {"n": 10**5000},
    {"score": numpy.float32(0.5)},
    {"paid": numpy.bool_(True)},
    {"region": b"emea"},
    {"region": object()},
    {"region": "\ud800"},
    {"at": pandas.NaT},
    {"day": numpy.datetime64("2026-11-01")},
    {7: "emea"},
    {"day": {7: "x"}},
    {"region": range(3)},
]


@pytest.mark.parametrize("where", REFUSED_WHERES, ids=range(len(REFUSED_WHERES)))
def test_what_embedded_use_refuses_is_refused_here(where):
    assert refusal(lambda: canonical_filter(where, TABLE))
    assert refusal(lambda: request_body(TopK("engagements", "article", "members", where)))
    assert refusal(lambda: request_body({"type": "top_k", "where": where}))


def test_a_number_that_json_does_not_keep_says_the_way_out():
    with pytest.raises(NotSupported, match=r"score is compared with a number of more digits .* write it as text"):
        request_body({"where": {"score": {"ge": Decimal("0.12345678901234567890")}}})


def nested(depth):
    return {"region": "emea"} if depth == 0 else {"not": nested(depth - 1)}


def test_size_and_depth_are_refused_in_the_same_words():
    endless = {}
    endless["not"] = endless
    for where in (nested(70), {"n": [*range(MAX_NODES + 1)]}, endless):
        words = refusal(lambda where=where: canonical_filter(where, TABLE))
        assert words
        assert refusal(lambda where=where: request_body({"type": "total", "where": where})) == words


@pytest.mark.parametrize("call", [sync_call, async_call])
@pytest.mark.parametrize("question", [7, None, b"SELECT 1", ["SELECT 1"], object()])
def test_what_is_no_question_is_refused_in_the_words_of_a_session(call, question):
    service = Scripted([ok(ANSWER)])
    with pytest.raises(NotSupported, match=r"^a question is SQL, a TopK, a Histogram or a Total, or one of these as a"):
        call(service, "ask", question)
    assert not service.requests


def test_the_words_are_those_of_a_session():
    assert refusal(lambda: request_body(7)) == NOT_A_REQUEST
    assert refusal(lambda: read_request({7: 1}, policy())) == refusal(lambda: request_body({7: 1}))


def test_sql_goes_as_it_is():
    text = "SELECT 'ü\\' -- \U0001f600"
    assert arrived(text) == {"sql": text}
    with pytest.raises(NotSupported, match="surrogate"):
        request_body("SELECT '\ud800'")


@pytest.mark.parametrize("call", [sync_call, async_call])
@pytest.mark.parametrize("method", ["ask", "estimate"])
def test_parameters_go_with_their_types(call, method):
    service, sql = Scripted([ok(ANSWER if method == "ask" else ESTIMATE)]), "SELECT ... WHERE a = :a"
    values = {"a": date(2026, 11, 1), "b": Decimal("0.10"), "c": "emea", "d": 7, "e": True}
    sent = {"a": {"date": "2026-11-01"}, "b": {"number": "0.1"}, "c": "emea", "d": 7, "e": True}
    call(service, method, sql, named={"params": values})
    call(service, method, {"sql": sql, "params": [0.5, datetime(2026, 11, 1, 7)]})
    assert service.bodies() == [
        {"sql": sql, "params": sent},
        {"sql": sql, "params": [{"number": "0.5"}, {"timestamp": "2026-11-01T07:00:00"}]},
    ]
    for question, params in ((sql, {"a": None}), ({"sql": sql, "params": [1]}, [1])):
        with pytest.raises(InvalidArgument, match=r"^params: "):
            call(service, method, question, named={"params": params})
    assert len(service.requests) == 2


def test_defaults_are_left_out():
    assert arrived(TopK("t", "a", "m")) == {"type": "top_k", "table": "t", "by": "a", "measure": "m"}
    assert arrived(Histogram("t", ["a", "b"], "m"))["by"] == ["a", "b"]
    assert arrived(sf.TopK("t", "a", "m", {"x": 1}, 3, counts=False)) == {
        "type": "top_k",
        "table": "t",
        "by": "a",
        "measure": "m",
        "where": {"x": 1},
        "k": 3,
        "counts": False,
    }
    assert arrived({"where": {"at": datetime(2026, 11, 1, tzinfo=UTC)}}) == {"where": {"at": "2026-11-01T00:00:00"}}
