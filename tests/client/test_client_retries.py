"""What is sent again, what is not, and what a failure says about the charge."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
import pytest

import sfumato as sf
from sfumato.accounting import Charge
from sfumato.errors import BudgetExhausted, Conflict, EngineFailed, Failed, LedgerFailed, NotSupported, RateLimited
from tests.helpers.fake_service import (
    ANSWER,
    BUDGET,
    ESTIMATE,
    KEY,
    SQL,
    Scripted,
    async_call,
    ok,
    page,
    refused,
    sync_call,
)

both = pytest.mark.parametrize("call", [sync_call, async_call])

MAYBE = "the question may have been charged, and asking the same question again costs nothing more"


class Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A connection that is dropped in the middle of the body."""

    def __iter__(self):
        yield b'{"columns": {'
        raise httpx2.RemoteProtocolError("peer closed connection")

    async def __aiter__(self):
        for part in self:
            yield part


def dropped():
    return httpx2.Response(200, stream=Broken())


PASSING = {
    "connect error": httpx2.ConnectError("refused"),
    "connect timeout": httpx2.ConnectTimeout("slow"),
    "read timeout": httpx2.ReadTimeout("slow"),
    "reset": httpx2.ReadError("reset"),
    "no reply": httpx2.RemoteProtocolError("Server disconnected without sending a response."),
    "dropped in the body": dropped,
    "502": page(502),
    "503": page(503),
    "504": page(504),
    "engine": refused(EngineFailed("not delivered")),
    "ledger": refused(LedgerFailed("busy")),
    "in flight": refused(Conflict("in flight"), **{"retry-after": "1"}),
    "rate": refused(RateLimited("slower"), **{"retry-after": "2"}),
}


@both
@pytest.mark.parametrize("trouble", PASSING.values(), ids=[*PASSING])
@pytest.mark.parametrize(("method", "record"), [("ask", ANSWER), ("estimate", ESTIMATE)])
def test_what_passes_is_tried_again_with_the_same_key_and_body(call, trouble, method, record):
    service = Scripted([trouble, trouble, ok(record)])
    assert call(service, method, SQL) == record
    assert len(service.requests) == 3
    assert len(set(service.keys())) == 1
    assert (service.keys()[0] is None) == (method == "estimate")
    assert service.bodies() == [{"sql": SQL}] * 3
    assert len(service.waits) == 2


@both
@pytest.mark.parametrize("trouble", PASSING.values(), ids=[*PASSING])
def test_reading_is_tried_again(call, trouble):
    service = Scripted([trouble, ok(BUDGET)])
    assert call(service, "budget") == BUDGET
    assert len(service.requests) == 2


LASTING = {
    "not supported": refused(NotSupported("no")),
    "key reused": refused(Conflict("used", reused=True)),
    "exhausted": refused(BudgetExhausted(Charge(1), Charge(0))),
    "unauthorized": refused(sf.Unauthorized("who")),
    "proxy forbids": page(403),
    "crash": page(500),
    "bad json": httpx2.Response(200, text="{"),
}


@both
@pytest.mark.parametrize("trouble", LASTING.values(), ids=[*LASTING])
def test_what_lasts_is_not_tried_again(call, trouble):
    service = Scripted([trouble])
    with pytest.raises(sf.SfumatoError):
        call(service, "ask", SQL)
    assert (len(service.requests), service.waits) == (1, [])


@both
def test_every_question_has_a_key_of_its_own(call):
    service = Scripted([ok(ANSWER)])
    call(service, "ask", SQL)
    call(service, "ask", SQL)
    first, second = service.keys()
    assert first != second
    assert all(len(key) == 36 and key.isascii() for key in (first, second))


@both
def test_waits_grow_and_honour_the_service(call):
    service = Scripted([page(503)])
    with pytest.raises(Failed):
        call(service, "ask", SQL, retries=9)
    assert len(service.waits) == 9
    for attempt, wait in enumerate(service.waits):
        assert min(0.25 * 2**attempt / 2, 30) <= wait <= min(0.25 * 2**attempt, 30)


@both
@pytest.mark.parametrize(
    ("told", "low", "high"), [("5", 5, 5), ("86400", 30, 30), ("soon", 0.1, 0.25), ("-1", 0.1, 0.25)]
)
def test_retry_after_is_honoured_up_to_half_a_minute(call, told, low, high):
    service = Scripted([refused(RateLimited("slower"), **{"retry-after": told}), ok(ANSWER)])
    call(service, "ask", SQL)
    assert low <= service.waits[0] <= high


@both
@pytest.mark.parametrize(
    ("outcomes", "kind", "words"),
    [
        ([httpx2.ConnectError("refused")], Failed, r"no connection \(refused\); nothing was charged$"),
        ([httpx2.ReadTimeout("slow")], Failed, f"nothing came within 60 s; {MAYBE}$"),
        ([dropped], Failed, f"the connection broke off; {MAYBE}$"),
        ([page(502)], Failed, f"status 502.*; {MAYBE}$"),
        ([httpx2.ReadError(""), httpx2.ConnectError("refused")], Failed, f"{MAYBE}$"),
        ([httpx2.ReadTimeout(""), refused(Conflict("it is being answered"))], Failed, f"being answered; {MAYBE}$"),
        ([httpx2.ReadTimeout(""), refused(RateLimited("slower"))], Failed, f"slower; {MAYBE}$"),
        ([refused(Conflict("it is being answered"))], Conflict, "^it is being answered$"),
        ([refused(RateLimited("slower"))], RateLimited, "^slower$"),
        ([refused(EngineFailed("not delivered; the charge stands"))], EngineFailed, "^not delivered"),
        ([refused(LedgerFailed(""))], LedgerFailed, "not charged twice$"),
    ],
)
def test_the_end_says_what_may_have_been_charged(call, outcomes, kind, words):
    service = Scripted(outcomes)
    with pytest.raises(kind, match=words) as raised:
        call(service, "ask", SQL)
    assert type(raised.value) is kind
    assert len(service.requests) == 4


@both
def test_calls_that_cost_nothing_say_so(call):
    with pytest.raises(Failed, match=r"nothing was charged$"):
        call(Scripted([httpx2.ReadTimeout("slow")]), "estimate", SQL)


@both
def test_without_retries_there_is_one_try(call):
    service = Scripted([page(503)])
    with pytest.raises(Failed):
        call(service, "ask", SQL, retries=0)
    assert (len(service.requests), service.waits) == (1, [])


def test_a_socket_that_is_closed_half_way_is_tried_again():
    """Over real sockets: a promise of more bytes than come, then nothing at all, then an answer."""
    seen = []
    body = b'{"analyst": "anna", "mode": "track", "resets": null, "accounts": [' + (
        b'{"account": "a", "limit": C, "granted": C, "spent": C, "reserved": C, "left": C, "resets": null}]}'.replace(
            b"C", b'{"information": "1", "calls": "0"}'
        )
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["authorization"])
            if len(seen) == 2:
                return  # closes without a word
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if len(seen) > 2 else body[:20])

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with sf.Client(f"http://127.0.0.1:{server.server_port}", KEY, sleep=lambda _: None) as client:
                assert client.budget().analyst == "anna"
        finally:
            server.shutdown()
            thread.join()
    assert seen == [f"Bearer {KEY}"] * 3


def test_nobody_listening_is_said():
    with (
        sf.Client("http://127.0.0.1:9", KEY, sleep=lambda _: None) as client,
        pytest.raises(Failed, match="no connection"),
    ):
        client.ask(SQL)
