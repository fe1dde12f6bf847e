"""Every call of both clients: what is sent, what comes back, and which exception a problem becomes."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from datetime import date, datetime
from fractions import Fraction

import httpx2
import pytest

import sfumato as sf
from sfumato.accounting import Charge
from sfumato.client import calls
from sfumato.client.exchange import MAX_REPLY_BYTES
from sfumato.errors import (
    BudgetExhausted,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    LedgerFailed,
    NotFound,
    NotSupported,
    RateLimited,
    Unauthorized,
)
from sfumato.problems import PLACE, PROBLEM_TYPES
from sfumato.service.examples import REPLIES
from sfumato.service.openapi import ROUTES
from sfumato.wire import (
    Accounts,
    AccountStanding,
    Answer,
    BudgetReport,
    Charges,
    EntityPage,
    Estimate,
    Guarantee,
    Keys,
    KeyState,
    LedgerState,
    Me,
    NewKey,
    PolicyReport,
    Questions,
    ReleaseInfo,
    Releases,
    ReportInfo,
    TableRow,
    Tables,
    UsageReport,
    VerificationInfo,
)
from tests.helpers.fake_service import (
    ANSWER,
    BUDGET,
    CHARGES,
    DIGEST,
    ESTIMATE,
    GUARANTEE,
    KEY,
    ME,
    QUESTIONS,
    REPORT,
    SQL,
    TABLES,
    URL,
    USAGE,
    Scripted,
    async_call,
    ok,
    page,
    refused,
    sync_call,
)

both = pytest.mark.parametrize("call", [sync_call, async_call])


@pytest.mark.parametrize(
    "record",
    [ANSWER, REPORT, ESTIMATE, BUDGET, CHARGES, QUESTIONS, TABLES, ME, GUARANTEE, USAGE],
    ids=lambda each: type(each).__name__,
)
def test_records_are_read_back_from_their_serial_form(record):
    assert type(record).from_dict(record.to_dict()) == record


def test_parts_of_records_are_read_back_too():
    own, shared = BUDGET.accounts
    assert AccountStanding.from_dict(own.to_dict()) == own
    assert AccountStanding.from_dict(shared.to_dict()) == shared
    assert TableRow.from_dict(TABLES.rows[0].to_dict()) == TABLES.rows[0]


CALLS = [
    ("ask", (SQL,), ANSWER, "POST", "/v1/answers"),
    ("estimate", (SQL,), ESTIMATE, "POST", "/v1/estimates"),
    ("recall", (DIGEST,), ANSWER, "GET", f"/v1/answers/{DIGEST}"),
    ("budget", (), BUDGET, "GET", "/v1/budget"),
    ("charges", (), CHARGES, "GET", "/v1/budget/charges"),
    ("questions", (), QUESTIONS, "GET", "/v1/questions"),
    ("all_questions", (), QUESTIONS, "GET", "/v1/admin/questions"),
    ("tables", (), TABLES, "GET", "/v1/tables"),
    ("me", (), ME, "GET", "/v1/me"),
    ("guarantee", (), GUARANTEE, "GET", "/v1/guarantee"),
    ("total_guarantee", (), GUARANTEE, "GET", "/v1/admin/guarantee"),
    ("usage", (), USAGE, "GET", "/v1/admin/usage"),
    ("describe_report", ("ads",), ReportInfo, "GET", "/v1/reports/ads"),
    ("entities", ("ads",), EntityPage, "GET", "/v1/reports/ads/entities"),
    ("accounts", (), Accounts, "GET", "/v1/admin/accounts"),
    ("policy", (), PolicyReport, "GET", "/v1/admin/policy"),
    ("ledger_state", (), LedgerState, "GET", "/v1/admin/ledger"),
    ("verify_ledger", (), VerificationInfo, "POST", "/v1/admin/ledger/verify"),
    ("releases", (), Releases, "GET", "/v1/admin/releases"),
    ("release", (DIGEST,), ReleaseInfo, "GET", f"/v1/admin/releases/{DIGEST}"),
    ("keys", ("anna",), Keys, "GET", "/v1/admin/keys"),
    ("create_key", ("anna", "reader", date(2026, 12, 31)), NewKey, "POST", "/v1/admin/keys"),
    ("revoke_key", ("5f0c2a9be471",), KeyState, "POST", "/v1/admin/keys/5f0c2a9be471/revoke"),
    ("grant", ("anna", (Fraction(1, 2), 3), "why"), AccountStanding, "POST", "/v1/admin/grants"),
]
BODIES = {
    "ask": {"sql": SQL},
    "estimate": {"sql": SQL},
    "create_key": {"analyst": "anna", "role": "reader", "expires": "2026-12-31"},
    "grant": {"account": "anna", "information": "1/2", "calls": "3", "reason": "why"},
}


@both
@pytest.mark.parametrize(("method", "given", "record", "verb", "path"), CALLS, ids=[each[0] for each in CALLS])
def test_a_call_sends_and_reads(call, method, given, record, verb, path):
    record = record.from_dict(REPLIES[record.__name__]) if isinstance(record, type) else record
    service = Scripted([ok(record)])
    assert call(service, method, *given) == record
    [request] = service.requests
    assert (request.method, request.url.path, request.url.host) == (verb, path, "sfumato.test")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert ("idempotency-key" in request.headers) == (method in ("ask", "create_key", "grant"))
    if method in BODIES:
        assert service.bodies() == [BODIES[method]]
        assert request.headers["content-type"] == "application/json"


@both
def test_pages_days_and_budgets_are_parameters(call):
    service = Scripted([ok(CHARGES)])
    call(service, "charges", "17", 5)
    assert dict(service.requests[-1].url.params) == {"cursor": "17", "rows": "5"}
    service = Scripted([ok(QUESTIONS), ok(QUESTIONS), ok(USAGE)])
    call(service, "questions", "17", 5)
    assert dict(service.requests[-1].url.params) == {"cursor": "17", "rows": "5"}
    call(service, "all_questions", "anna", date(2026, 11, 1), "2026-11-15", "17")
    asked = {"analyst": "anna", "since": "2026-11-01", "until": "2026-11-15", "cursor": "17", "rows": "100"}
    assert dict(service.requests[-1].url.params) == asked
    budgets = [(3000, 30), Charge(Fraction(1, 2), 1), "7,1"]
    call(service, "usage", date(2026, 11, 1), datetime(2026, 11, 15, 8), budgets)
    assert service.requests[-1].url.params.multi_items() == [
        *(("since", "2026-11-01"), ("until", "2026-11-15")),
        *(("budget", "3000,30"), ("budget", "1/2,1"), ("budget", "7,1")),
    ]


@both
def test_names_and_paths_of_a_report_are_encoded(call):
    service = Scripted(
        [ok(ReportInfo.from_dict(REPLIES["ReportInfo"])), ok(EntityPage.from_dict(REPLIES["EntityPage"]))]
    )
    call(service, "describe_report", "a/b ?é")
    assert service.requests[-1].url.raw_path == b"/v1/reports/a%2Fb%20%3F%C3%A9"
    call(service, "entities", "ads", ["acme", "a&b"], "s", "17", 5)
    asked = [("under", "acme"), ("under", "a&b"), ("find", "s"), ("cursor", "17"), ("rows", "5")]
    assert service.requests[-1].url.params.multi_items() == asked
    for report, under in (("..", ()), ("", ()), (None, ()), ("ads", "acme"), ("ads", [7])):
        with pytest.raises(InvalidArgument):
            call(service, "entities", report, under)


def test_there_is_a_call_for_every_route():
    routes = {name for name, route in ROUTES.items() if route.work is not None}
    assert routes <= {*vars(calls)}
    assert routes <= {*vars(sf.Client)} & {*vars(sf.AsyncClient)}


def test_both_clients_have_the_same_calls_and_those_of_a_session():
    def public(cls):
        return {
            name: [*inspect.signature(value).parameters]
            for name, value in vars(cls).items()
            if inspect.isfunction(value) and not name.startswith("_")
        }

    assert public(sf.Client) == public(sf.AsyncClient)
    for name in ("ask", "report", "estimate", "budget", "charges", "questions", "tables", "me", "guarantee"):
        asked = [*inspect.signature(getattr(sf.Session, name)).parameters]
        assert [each for each in asked if each not in ("analyst", "call", "now", "role")] == public(sf.Client)[name]
    assert [*inspect.signature(sf.Session.all_questions).parameters] == public(sf.Client)["all_questions"]
    for name in ("describe_report", "entities"):
        asked = [*inspect.signature(getattr(sf.Session, name)).parameters]
        assert [each for each in asked if each != "analyst"] == public(sf.Client)[name]
    for name in (
        "usage",
        "accounts",
        "ledger_state",
        "releases",
        "release",
        "keys",
        "create_key",
        "revoke_key",
        "grant",
    ):
        asked = [*inspect.signature(getattr(sf.Session, name)).parameters]
        assert [each for each in asked if each not in ("by", "call")] == public(sf.Client)[name]


def test_a_path_before_the_interface_is_kept():
    service = Scripted([ok(BUDGET)])
    with sf.Client(URL + "/private/", KEY, transport=httpx2.MockTransport(service)) as client:
        client.budget()
    assert service.requests[0].url == URL + "/private/v1/budget"


# -- problems --

RAISED = [
    (NotSupported("HAVING has no private form"), NotSupported),
    (Unauthorized("who?"), Unauthorized),
    (NotFound("gone"), NotFound),
    (InvalidArgument("rows", "must be at least 1"), InvalidArgument),
    (Conflict("in flight"), Conflict),
    (Conflict("used before", reused=True), Conflict),
    (RateLimited("slower", 7), RateLimited),
    (EngineFailed("the engine did not deliver"), EngineFailed),
    (LedgerFailed("secret words"), LedgerFailed),
    (Failed("secret words"), Failed),
    (BudgetExhausted(Charge(21, 1), Charge(3), "anna", date(2026, 12, 1), 4, [{"sql": "..."}]), BudgetExhausted),
]


@both
@pytest.mark.parametrize(("error", "kind"), RAISED)
def test_a_problem_becomes_the_exception_of_embedded_use(call, error, kind):
    with pytest.raises(kind) as raised:
        call(Scripted([refused(error)]), "ask", SQL)
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)
    if kind is BudgetExhausted:
        assert (raised.value.asked, raised.value.left) == (Charge(21, 1), Charge(3))
        assert (raised.value.resets, raised.value.instead) == (date(2026, 12, 1), ({"sql": "..."},))
        assert str(raised.value) == str(error)
    if kind is Conflict:
        assert raised.value.reused == error.reused
    if kind is InvalidArgument:
        assert (raised.value.argument, raised.value.problem) == ("rows", "must be at least 1")


@pytest.mark.parametrize("kind", PROBLEM_TYPES, ids=lambda kind: kind.name)
def test_every_kind_of_problem_has_a_class(kind):
    amounts = {"asked": {"information": "1", "calls": "0"}, "left": {"information": "0", "calls": "0"}}
    told = {"type": PLACE + kind.name, "title": kind.title, "status": kind.status, "detail": "a: b", **amounts}
    with pytest.raises(kind.error) as raised:
        sync_call(Scripted([httpx2.Response(kind.status, json=told)]), "estimate", SQL)
    assert type(raised.value) is kind.error


@both
def test_the_wait_of_a_rate_limit_is_the_one_that_was_told(call):
    with pytest.raises(RateLimited) as raised:
        call(Scripted([refused(RateLimited("slower"), **{"retry-after": "7"})]), "ask", SQL, retries=0)
    assert raised.value.wait_s == 7


# -- replies that are not ours --

DEEP = b"[" * 100_000 + b"]" * 100_000
FOREIGN = [
    page(200),
    page(404),
    page(502),
    httpx2.Response(200, content=b'{"columns": '),
    httpx2.Response(200, content=DEEP),
    httpx2.Response(200, content=b"\xff\xfe\x00"),
    httpx2.Response(200, json=[1, 2]),
    httpx2.Response(200, json={"columns": {}}),
    httpx2.Response(200, json=ANSWER.to_dict() | {"receipt": {"charge": "none"}}),
    httpx2.Response(200, json=ANSWER.to_dict() | {"rows": [{"other": 1}]}),
    httpx2.Response(200, json=ANSWER.to_dict() | {"rows": 7}),
    httpx2.Response(403, json={"type": PLACE + "budget-exhausted", "status": 403}),
    httpx2.Response(403, json={"message": "Forbidden"}),
    httpx2.Response(500, text="Internal Server Error"),
    httpx2.Response(204),
]


@both
@pytest.mark.parametrize("response", FOREIGN, ids=lambda each: f"{each.status_code}-{each.content[:12]!r}")
def test_a_foreign_reply_is_a_failure_in_one_sentence(call, response):
    with pytest.raises(
        Failed, match=r"not how Sfumato replies.*asking the same question again costs nothing more"
    ) as it:
        call(Scripted([response]), "ask", SQL)
    assert type(it.value) is Failed
    assert it.value.__cause__ is None


@both
def test_an_endless_reply_is_not_read_to_its_end(call):
    read = []

    class Endless(httpx2.SyncByteStream, httpx2.AsyncByteStream):
        def __iter__(self):
            while True:
                read.append(1 << 20)
                yield b" " * (1 << 20)

        async def __aiter__(self):
            for part in self:
                yield part

    with pytest.raises(Failed, match="64 MB"):
        call(Scripted([lambda: httpx2.Response(200, stream=Endless())]), "budget")
    assert sum(read) <= MAX_REPLY_BYTES + (2 << 20)


@both
def test_a_redirect_is_told_and_the_key_stays_here(call):
    service = Scripted([httpx2.Response(307, headers={"location": "https://elsewhere.test/"})])
    with pytest.raises(Failed, match=r"redirects to 'https://elsewhere.test/'"):
        call(service, "ask", SQL)
    assert len(service.requests) == 1


# -- what a client is made of --


@pytest.mark.parametrize("cls", [sf.Client, sf.AsyncClient])
@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:8080", "http://", "http://x?y=1", "http://a b", "http://x:port", "", None, 7]
)
def test_an_address_that_is_none_is_refused(cls, url):
    with pytest.raises(InvalidArgument, match=r"^url: "):
        cls(url, KEY)


def test_a_key_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(InvalidArgument, match="key=") as refusal:
        sf.Client(f"http://:{KEY}@sfumato.test", KEY)
    assert KEY not in str(refusal.value)


@pytest.mark.parametrize("key", ["two words", "line\n", "schlüssel", "x" * 9000, 7])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key):
    with pytest.raises(InvalidArgument, match=r"^key: must be visible") as refusal:
        sf.Client(URL, key)
    assert str(key) not in str(refusal.value)


def test_the_key_may_come_from_the_environment(monkeypatch):
    monkeypatch.delenv("SFUMATO_KEY", raising=False)
    with pytest.raises(InvalidArgument, match="SFUMATO_KEY"):
        sf.Client(URL)
    monkeypatch.setenv("SFUMATO_KEY", KEY)
    service = Scripted([ok(BUDGET)])
    with sf.Client(URL, transport=httpx2.MockTransport(service)) as client:
        client.budget()
    assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": True}, {"retries": -1}, {"retries": 1.5}])
def test_other_options_are_checked(options):
    with pytest.raises(InvalidArgument):
        sf.Client(URL, KEY, **options)


def test_the_key_is_not_shown():
    client = sf.Client(URL, KEY)
    assert repr(client) == f"Client({URL!r})"
    with pytest.raises(TypeError, match="holds a key"):
        pickle.dumps(client)
    client.close()


@both
@pytest.mark.parametrize(
    "outcome", [httpx2.ConnectError("refused"), httpx2.ReadError("gone"), page(502), refused(Unauthorized("no"))]
)
def test_no_exception_shows_the_key(call, outcome):
    with pytest.raises(sf.SfumatoError) as raised:
        call(Scripted([outcome]), "ask", SQL)
    chain, error = "", raised.value
    while error is not None:
        chain, error = chain + repr(error) + repr(vars(error)), error.__cause__ or error.__context__
    assert KEY not in chain


@both
def test_what_cannot_be_a_digest_is_not_found(call):
    service = Scripted([ok(ANSWER)])
    for digest in ("", "../budget", "a/b", "a?b", None):
        with pytest.raises(NotFound):
            call(service, "recall", digest)
    assert not service.requests


@both
def test_arguments_are_checked_as_in_embedded_use(call):
    for given in ((None, 0), (None, 10_001), (None, True), (7, 100)):
        with pytest.raises(InvalidArgument):
            call(Scripted([ok(CHARGES)]), "charges", *given)
    for given in ((7, None, ()), (None, None, [7]), (None, None, [("x", 1)])):
        with pytest.raises(InvalidArgument):
            call(Scripted([ok({})]), "usage", *given)


def test_the_client_carries_no_engine():
    code = f"""
import sys, httpx2
import sfumato, sfumato.client, sfumato.client.dbapi
answer = {REPORT.to_dict()!r}
transport = httpx2.MockTransport(lambda request: httpx2.Response(200, json=answer))
with sfumato.Client({URL!r}, "k", transport=transport) as client:
    client.report("ads", statistics="clicks", start="2026-10-01", end="2026-11-01")
    client.ask({SQL!r}), client.ask({{"type": "top_k", "where": {{"region": {{"emea"}}}}}})
    try:
        client.ask(7)
    except sfumato.NotSupported:
        pass
cursor = sfumato.client.dbapi.connect({URL!r}, "k", transport=transport).cursor()
cursor.execute("SELECT article FROM t WHERE a = ?", ["x"])
print([name for name in ("duckdb", "numpy", "sfumato.session", "sfumato.mechanisms") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_importing_the_client_imports_nothing_heavy():
    heavy = {"click", "cryptography", "duckdb", "httpx2", "numpy", "pandas", "rich", "sqlglot", "sfumato.mechanisms"}
    code = f"""
import sys
import sfumato.client, sfumato.client.dbapi
sfumato.TopK("engagements", "article", "members", {{"region": "emea"}})
print(sorted({heavy!r} & {{*sys.modules}}))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_both_clients_have_the_calls_of_the_interface():
    for name in (
        "ask",
        "report",
        "estimate",
        "recall",
        "budget",
        "charges",
        "questions",
        "all_questions",
        "tables",
        "usage",
    ):
        call, methods = getattr(calls, name), (getattr(sf.Client, name), getattr(sf.AsyncClient, name))
        for method in methods:
            assert (method.__name__, method.__doc__) == (name, call.__doc__)
            own = [*inspect.signature(method).parameters.values()][1:]
            assert own == [*inspect.signature(call).parameters.values()]
        assert [inspect.iscoroutinefunction(method) for method in methods] == [False, True]


@both
def test_an_unknown_keyword_of_a_report_is_a_type_error(call):
    service = Scripted([ok(REPORT)])
    with pytest.raises(TypeError, match="unexpected keyword argument 'tops'; did you mean top"):
        call(service, "report", "ads", named={"tops": 3})
    assert not service.requests


def test_a_missing_httpx2_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ModuleNotFoundError, match=r"the client needs: pip install 'sfumato\[client\]'"):
        sf.Client(URL, KEY)


def test_the_records_that_come_back_are_those_of_a_session():
    kinds = {
        "ask": Answer,
        "estimate": Estimate,
        "recall": Answer,
        "budget": BudgetReport,
        "charges": Charges,
        "questions": Questions,
        "all_questions": Questions,
        "tables": Tables,
        "me": Me,
        "guarantee": Guarantee,
        "total_guarantee": Guarantee,
        "usage": UsageReport,
    }
    for method, given, record, _, _ in CALLS[: len(kinds)]:
        assert isinstance(sync_call(Scripted([ok(record)]), method, *given), kinds[method])


def test_a_closed_client_says_so():
    client = sf.Client("http://127.0.0.1:8080", key="sfumato_x")
    client.close()
    with pytest.raises(sf.Failed, match="the client is closed"):
        client.budget()


def test_an_address_ends_before_the_version():
    with pytest.raises(InvalidArgument, match="without /v1"):
        sf.Client("http://127.0.0.1:8080/v1/", key="sfumato_x")
