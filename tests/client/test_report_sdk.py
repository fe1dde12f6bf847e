"""Reports through both clients: what is sent, what comes back, what is sent again, and which exception is raised."""

from __future__ import annotations

import json
from collections import UserDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

import httpx2
import pytest

import sfumato as sf
from sfumato.errors import (
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    LedgerFailed,
    NotFound,
    NotSupported,
    RateLimited,
    SfumatoError,
    Unauthorized,
)
from tests.helpers.fake_service import DIGEST, KEY, REPORT, Scripted, async_call, ok, page, refused, sync_call

pytestmark = pytest.mark.slow  # a service for each

both = pytest.mark.parametrize("call", [sync_call, async_call])

RANGE = {"statistics": "clicks", "start": "2026-10-01", "end": "2026-11-01"}


class Name(StrEnum):
    CLICKS = "clicks"


@both
def test_a_report_is_sent_and_read(call):
    named = {
        "statistics": ("impressions", "clicks"),
        "entity": {"campaign": "7"},
        "attribute": "job_title",
        "start": "2026-10-01",
        "end": "2026-11-01",
        "granularity": "day",
        "top": 5,
        "options": ["actions"],
    }
    service = Scripted([ok(REPORT)])
    found = call(service, "report", "ads", named=named)
    assert (type(found), found) == (sf.Report, REPORT)
    [request] = service.requests
    assert (request.method, request.url.path) == ("POST", "/v1/reports")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"
    assert "idempotency-key" not in request.headers
    assert service.bodies() == [{"report": "ads", **named, "statistics": ["impressions", "clicks"]}]


@both
def test_what_is_not_given_is_not_sent(call):
    service = Scripted([ok(REPORT)])
    call(service, "report", named=RANGE)
    call(service, "report", {"report": "ads", "top": None})
    call(service, "report", UserDict({"report": "ads", "options": []}))
    assert service.bodies() == [
        {"report": None, **RANGE},
        {"report": "ads", "top": None},
        {"report": "ads", "options": []},
    ]


MOMENTS = [
    ("2026-10-01", "2026-10-01"),
    (date(2026, 10, 1), "2026-10-01"),
    (datetime(2026, 10, 1, 3), "2026-10-01T03:00:00"),
    (datetime(2026, 10, 1, 3, tzinfo=UTC), "2026-10-01T03:00:00+00:00"),
    (datetime(2026, 10, 25, 2, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), "2026-10-25T02:00:00+01:00"),
    (datetime(2026, 10, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))), "2026-10-01T00:00:00-03:30"),
]


@both
@pytest.mark.parametrize(("moment", "text"), MOMENTS, ids=[text for _, text in MOMENTS])
def test_days_and_moments(call, moment, text):
    service = Scripted([ok(REPORT)])
    call(service, "report", "ads", named={**RANGE, "start": moment})
    call(service, "report", {**RANGE, "end": moment})
    first, second = service.bodies()
    assert (first["start"], second["end"]) == (text, text)


@pytest.mark.parametrize(("moment", "text"), MOMENTS, ids=[text for _, text in MOMENTS])
def test_they_mean_what_they_mean_in_embedded_use(moment, text):
    from sfumato.query.reports.calendar import Calendar

    calendar = Calendar(("1h", "day"), "Europe/Berlin")
    assert calendar.instant("start", moment) == calendar.instant("start", text)


def test_a_timestamp_of_pandas_is_a_moment():
    pandas = pytest.importorskip("pandas")
    service = Scripted([ok(REPORT)])
    sync_call(service, "report", {**RANGE, "start": pandas.Timestamp("2026-10-01 03:00"), "end": pandas.NaT})
    assert service.bodies()[0]["start"] == "2026-10-01T03:00:00"
    assert service.bodies()[0]["end"] == "NaT"  # which the service refuses by name


def test_an_enum_of_text_counts_by_its_value():
    service = Scripted([ok(REPORT)])
    sync_call(service, "report", named={**RANGE, "statistics": [Name.CLICKS], "entity": {"campaign": Name.CLICKS}})
    assert service.bodies()[0]["statistics"] == ["clicks"]
    assert service.bodies()[0]["entity"] == {"campaign": "clicks"}


UNSENT = [
    ({"entity": {7: "x"}}, "entity: must have names that are text"),
    ({"entity": {"campaign": object()}}, "campaign: must be text, a number, a list or a day"),
    ({"entity": {"campaign": b"7"}}, "campaign: must be text, a number, a list or a day"),
    ({"statistics": {"clicks"}}, "statistics: must be text, a number, a list or a day"),
    ({"start": 0.5, "top": Decimal(5)}, "top: must be text, a number, a list or a day"),
    ({"start": timedelta(1)}, "start: must be text, a number, a list or a day"),
    ({"start": float("nan")}, "what JSON does not"),
    ({"top": 10**5000}, "what JSON does not"),
    ({"attribute": "\ud800"}, "half a character"),
]


@both
@pytest.mark.parametrize(("change", "words"), UNSENT, ids=[words for _, words in UNSENT])
def test_what_cannot_be_carried_is_refused_here(call, change, words):
    service = Scripted([ok(REPORT)])
    for given, named in (({**RANGE, **change}, None), ("ads", {**RANGE, **change})):
        with pytest.raises(NotSupported, match=words):
            call(service, "report", given, named=named)
    assert not service.requests


@both
def test_a_question_that_holds_itself_is_refused(call):
    endless = {}
    endless["entity"] = endless
    with pytest.raises(NotSupported, match="or itself"):
        call(Scripted([ok(REPORT)]), "report", endless)


@both
def test_a_whole_question_stands_alone(call):
    service = Scripted([ok(REPORT)])
    with pytest.raises(NotSupported, match=r"^top: stands beside a whole question; put it inside$"):
        call(service, "report", RANGE, named={"top": 3})
    assert not service.requests


RAISED = [
    (NotSupported("top: needs an attribute"), NotSupported, 1),
    (Unauthorized("who?"), Unauthorized, 1),
    (NotFound("gone"), NotFound, 1),
    (InvalidArgument("body", "must be one JSON object"), InvalidArgument, 1),
    (Conflict("sealed anew"), Conflict, 4),
    (RateLimited("slower", 7), RateLimited, 4),
    (EngineFailed("the engine could not answer"), EngineFailed, 4),
    (LedgerFailed("secret words"), LedgerFailed, 4),
    (Failed("secret words"), Failed, 4),
]


@both
@pytest.mark.parametrize(("error", "kind", "attempts"), RAISED)
def test_a_problem_becomes_the_exception_of_embedded_use(call, error, kind, attempts):
    service = Scripted([refused(error)])
    with pytest.raises(SfumatoError) as raised:
        call(service, "report", named=RANGE)
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)
    assert len(service.requests) == attempts


LOST = [
    httpx2.ConnectError("refused"),
    httpx2.ReadTimeout("late"),
    httpx2.RemoteProtocolError("gone"),
    page(502),
    page(503, **{"retry-after": "2"}),
    refused(EngineFailed("not now"), **{"retry-after": "1"}),
    refused(Conflict("sealed anew"), **{"retry-after": "1"}),
    refused(RateLimited("slower"), **{"retry-after": "1"}),
]


@both
@pytest.mark.parametrize("outcome", LOST, ids=repr)
def test_a_lost_call_is_sent_again_as_it_was(call, outcome):
    service = Scripted([outcome, outcome, ok(REPORT)])
    assert call(service, "report", "ads", named=RANGE) == REPORT
    assert len(service.waits) == 2
    assert len({request.content for request in service.requests}) == 1
    assert service.keys() == [None] * 3


@both
@pytest.mark.parametrize("outcome", [httpx2.ReadTimeout("late"), page(502), page(200)], ids=repr)
def test_a_failure_never_speaks_of_a_charge(call, outcome):
    with pytest.raises(Failed, match=r"nothing was charged$") as raised:
        call(Scripted([outcome]), "report", named=RANGE)
    assert type(raised.value) is Failed
    assert KEY not in str(raised.value)


SERIAL = REPORT.to_dict()


@both
@pytest.mark.parametrize(
    "reply",
    [
        {name: value for name, value in SERIAL.items() if name != "zone"},
        SERIAL | {"options": None},
        SERIAL | {"rows": [{"start": "x"}]},
        SERIAL | {"rows": [{"other": 1}]},
        SERIAL | {"receipt": {}},
        {"answer": json.dumps(SERIAL)},
    ],
    ids=range(6),
)
def test_what_is_no_report_is_a_failure(call, reply):
    with pytest.raises(Failed, match="not how Sfumato replies"):
        call(Scripted([httpx2.Response(200, json=reply)]), "report", named=RANGE)


def test_the_record_is_public_and_read_back():
    assert "Report" in sf.__all__
    assert sf.Report.from_dict(json.loads(json.dumps(SERIAL))) == REPORT
    assert (REPORT.statistics, REPORT.attribute) == (("impressions", "clicks"), "job_title")
    assert REPORT.receipt.digest == DIGEST
