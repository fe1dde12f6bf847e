"""A service that says what it is told to, and one that reads SQL as the real one does and answers from a list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import httpx2

from sfumato.accounting import Charge
from sfumato.client import AsyncClient, Client
from sfumato.errors import SfumatoError
from sfumato.ledger import Standing
from sfumato.postprocess import find_shape
from sfumato.problems import problem, problem_type
from sfumato.query.policy import Column, Measure, Policy, TablePolicy
from sfumato.query.request import Total
from sfumato.query.sql import bind_request, read_statement
from sfumato.service import examples
from sfumato.wire import (
    Answer,
    BudgetReport,
    ChargeRange,
    ChargeRow,
    Charges,
    Estimate,
    Guarantee,
    KeyInfo,
    Me,
    Note,
    Questions,
    Receipt,
    ReceiptCore,
    Report,
    StoredAnswer,
    TableRow,
    Tables,
    UsageReport,
    Visible,
)

URL = "https://sfumato.test:8080"
KEY = "sfumato_" + "Zk3-" * 10 + "abc"
SQL = "SELECT article, members FROM engagements GROUP BY article LIMIT 2"
DIGEST = "sha256:" + "0f" * 32

RECEIPT = Receipt(
    mechanism="unknown_gumbel",
    unit="member_id",
    charge=Charge(21, 1),
    left=Charge(2979, 29),
    resets=date(2026, 12, 1),
    error95={"members": 27},
    data_version="2026-11-15",
    digest=DIGEST,
    visible=Visible(201, 221, "cutoff"),
    repeat=False,
)
ANSWER = Answer(
    columns={"article": "text", "day": "date", "at": "timestamp", "members": "integer"},
    rows=[{"article": "ai-act", "day": date(2026, 11, 1), "at": datetime(2026, 11, 1, 8, 30), "members": 90}],
    stopped=True,
    receipt=RECEIPT,
    notes=[Note("small-groups-absent", "groups below a noisy threshold are absent")],
)
REPORT = Report(
    columns={
        "start": "timestamp",
        "end": "timestamp",
        "job_title": "text",
        "impressions": "integer",
        "clicks": "integer",
    },
    rows=[
        {
            "start": datetime(2026, 10, 25, 0),
            "end": datetime(2026, 10, 25, 3),
            "job_title": "nurse",
            "impressions": 41,
            "clicks": None,
        }
    ],
    stopped=False,
    receipt=Receipt(
        mechanism="canonical_laplace",
        unit="event",
        charge=Charge(),
        left=Charge(2979, 29),
        resets=date(2026, 12, 1),
        error95={"impressions": 6, "clicks": 6},
        data_version="seal 1",
        digest=DIGEST,
        repeat=True,
        guarantee={"epsilon": 45.0, "unit": "event"},
    ),
    notes=[Note("small-counts-hidden", "counts below 3 are not shown")],
    report="ads",
    entity={"account": "acme", "campaign": "spring"},
    start=datetime(2026, 10, 25),
    end=datetime(2026, 10, 26),
    complete_until=datetime(2026, 10, 25, 6),
    granularity="3h",
    options=["actions"],
    zone="Europe/Berlin",
)
ESTIMATE = Estimate(
    mechanism="threshold_gaussian",
    charge=ChargeRange(Charge(1), Charge(Fraction(3, 2), 1)),
    error95={"members": 27},
    visible=Visible(87, 109, "zero"),
    left=Charge(10, 1),
    answers_left=4,
)
BUDGET = BudgetReport.of_standings(
    "anna",
    "enforce",
    [
        Standing("analyst:anna", Charge(30, 3), Charge(), Charge(1), Charge(2), date(2026, 12, 1)),
        Standing("organisation:acme", Charge(300, 3), Charge(5), Charge(1), Charge(2)),
    ],
)
CHARGES = Charges(
    [
        ChargeRow(
            at="2026-11-15T12:00:00Z", digest=DIGEST, account="analyst:anna", charge=Charge(21, 1), state="settled"
        )
    ],
    "17",
)
QUESTIONS = Questions.from_dict(examples.REPLIES["Questions"])
ME = Me(
    analyst="anna",
    role="analyst",
    organisation="acme",
    budget="partner",
    tables=["engagements"],
    reports=[],
    entities={"account": ["7"], "campaign": [["7", "spring"]]},
    where="region = 'emea'",
    rights=["ask", "report"],
    key=KeyInfo(prefix="sfumato_Zk3x", expires=None),
)
GUARANTEE = Guarantee.from_dict(examples.GUARANTEE)
USAGE = UsageReport.from_dict(examples.REPLIES["UsageReport"])
TABLES = Tables(
    [
        TableRow(
            "engagements",
            "member_id",
            [
                {"name": "article", "type": "text", "domain": "unknown", "max_groups": None},
                {"name": "region", "type": "text", "domain": ["amer", "emea"], "max_groups": 1},
                {"name": "day", "type": "date", "domain": "unknown", "max_groups": None},
                {"name": "at", "type": "timestamp", "domain": "unknown", "max_groups": None},
                {"name": "n", "type": "integer", "domain": "unknown", "max_groups": None},
                {"name": "score", "type": "number", "domain": "unknown", "max_groups": None},
                {"name": "paid", "type": "boolean", "domain": [False, True], "max_groups": 1},
            ],
            [{"name": "members", "counts": "units", "max_per_unit": 1}],
        )
    ]
)


def ok(record: Any) -> httpx2.Response:
    return httpx2.Response(200, json=record if isinstance(record, dict) else record.to_dict())


def refused(error: SfumatoError, **headers: str) -> httpx2.Response:
    told = {"content-type": "application/problem+json", **headers}
    return httpx2.Response(problem_type(error).status, content=problem(error).to_json(), headers=told)


def page(status: int, **headers: str) -> httpx2.Response:
    """What a proxy says by itself."""
    return httpx2.Response(status, html="<html><h1>Bad gateway</h1></html>", headers=headers)


@dataclass
class Scripted:
    """Gives its outcomes one after another, the last one for ever; an exception is raised. Keeps what it was sent."""

    outcomes: Iterable[Any]
    requests: list[httpx2.Request] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = list(self.outcomes)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        outcome = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        if isinstance(outcome, Exception):
            raise outcome
        if callable(outcome):
            return outcome()
        return httpx2.Response(outcome.status_code, headers=outcome.headers, content=outcome.content)

    def bodies(self) -> list[Any]:
        return [json.loads(request.content) for request in self.requests]

    def keys(self) -> list[str | None]:
        return [request.headers.get("idempotency-key") for request in self.requests]


def sync_call(service: Scripted, method: str, *given: Any, named: Any = None, **options: Any) -> Any:
    """`named` are the keywords of the method, `options` those of the client."""
    with Client(URL, KEY, transport=httpx2.MockTransport(service), sleep=service.waits.append, **options) as client:
        return getattr(client, method)(*given, **(named or {}))


def async_call(service: Scripted, method: str, *given: Any, named: Any = None, **options: Any) -> Any:
    async def slept(seconds: float) -> None:
        service.waits.append(seconds)

    async def called() -> Any:
        transport = httpx2.MockTransport(service)
        async with AsyncClient(URL, KEY, transport=transport, sleep=slept, **options) as client:
            return await getattr(client, method)(*given, **(named or {}))

    return asyncio.run(called())


CallHeaders = Callable[..., Any]


# -- a service that reads SQL --


def policy() -> Policy:
    described = TABLES.rows[0]
    columns = {
        column["name"]: Column(column["name"], column["type"], domain=None, max_groups=column["max_groups"])
        for column in described.columns
    }
    return Policy({"engagements": TablePolicy("engagements", "member_id", columns, {"members": Measure("members")})})


CELLS = {
    "article": ["gdpr-guide", "ai-act", "nis-2"],
    "region": ["emea", "amer", "emea"],
    "day": ["2026-11-01", "2026-11-02", "2026-11-03"],
    "at": ["2026-11-01T08:30:00", "2026-11-02T08:30:00", "2026-11-03T08:30:00"],
    "n": [1, 2, 3],
    "score": [0.5, 1.5, 2.5],
    "paid": [True, False, True],
    "members": [900, 700, 500],
}


@dataclass
class Reading:
    """Refuses what the real service would, and answers the rest from `CELLS`, in the columns of the statement."""

    asked: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.calls.append(request.url.path)
        if request.headers["authorization"] != f"Bearer {KEY}":
            return httpx2.Response(401, json={"type": "/problems/unauthorized", "detail": "this needs a valid key"})
        if request.url.path == "/v1/tables":
            return ok(TABLES)
        if request.url.path == "/v1/budget":
            return ok(BUDGET)
        try:
            self.asked.append(bind_request(json.loads(request.content))["sql"])
            return ok(self._answer(self.asked[-1]))
        except SfumatoError as error:
            return refused(error)

    def _answer(self, sql: str) -> dict[str, Any]:
        statement = read_statement(sql, policy())
        asked, shape = statement.core, find_shape(statement)
        keys = [] if isinstance(asked, Total) else sorted(asked.by)
        shown = [*keys, *(["members"] if getattr(asked, "counts", True) else [])]
        types = {column["name"]: column["type"] for column in TABLES.rows[0].columns} | {"members": "integer"}
        length = 1 if not keys else min(getattr(asked, "k", None) or 3, 3)
        rows = [{name: CELLS[name][place] for name in shown} for place in range(length)]
        core = ReceiptCore(
            mechanism=RECEIPT.mechanism,
            unit=RECEIPT.unit,
            error95={"members": 27} if "members" in shown else {},
            data_version=RECEIPT.data_version,
            digest=RECEIPT.digest,
        )
        columns = {name: types[name] for name in shown}
        stored = StoredAnswer(columns=columns, rows=rows, stopped=False, receipt=core, notes=[])
        stored = stored if shape is None else shape.apply(stored, lambda shown, released: 27)
        added = {name: getattr(RECEIPT, name) for name in ("charge", "left", "resets", "repeat")}
        return stored.complete(SimpleNamespace(**added)).to_dict()
