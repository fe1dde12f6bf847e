"""What routes do, without routing and event loop: read the arguments, call the session, write the reply."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict

from msgspec.structs import replace as replace_fields
from starlette.requests import Request
from starlette.responses import Response

from sfumato.config import Right, Role
from sfumato.errors import SfumatoError
from sfumato.ledger import IdempotentCall
from sfumato.ledger.api_keys import ApiKeys
from sfumato.query.request import RequestLike
from sfumato.service.auth import Authenticator, Principal, check_right
from sfumato.service.bodies import AsgiScope, Body, Disconnected, header
from sfumato.service.limits import Rates, read_idempotency_key, read_object, read_page_rows
from sfumato.service.media import accepted, answer_reply, etag, negotiate
from sfumato.service.pools import STRANGER, LoopTurns
from sfumato.service.reply import Readiness, budget_headers, json_reply, retry_after
from sfumato.service.reply_cache import CachedReply, ReplyCache
from sfumato.service.telemetry import CallRecord, Telemetry
from sfumato.session import Session, SessionPart
from sfumato.wire import Answer, KeyInfo, Me, Record, Report

ANSWERS = "/v1/answers"
REPORT_EXAMPLE = '{"statistics": ["clicks"], "start": "2026-10-01", "end": "2026-11-01"}'
MAX_PRINCIPALS = 2048


@dataclass(frozen=True, slots=True)
class Authenticated:
    """An authenticated caller. `stamp` was taken before the key was checked: a later change of the key changes it."""

    principal: Principal
    stamp: Hashable | None
    authorization: str

    @property
    def analyst(self) -> str:
        return self.principal.analyst


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A request of an authenticated caller, and its body."""

    caller: Authenticated
    request: Request
    body: bytes = b""

    @property
    def analyst(self) -> str:
        return self.caller.analyst

    @property
    def key(self) -> str | None:
        """The `Idempotency-Key`."""
        return self.request.headers.get("idempotency-key")

    @property
    def media(self) -> str:
        """The media type of the reply, as `Accept` wants it."""
        return negotiate(accepted(self.request.scope))

    @property
    def role(self) -> Role:
        return self.caller.principal.role

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, *names: str) -> dict[str, str | None]:
        """Query parameters by their names; None for one that was not sent."""
        return {name: self.request.query_params.get(name) for name in names}

    def page(self) -> Page:
        """The page of a list that is asked for."""
        return {"cursor": self.query("cursor")["cursor"], "rows": read_page_rows(self.query("rows")["rows"])}


class Page(TypedDict):
    """A page of a list."""

    cursor: str | None
    rows: int


Work: TypeAlias = "Callable[[Calls, ApiCall], Record | Response]"
"""What a route does: in a worker thread. A record becomes JSON."""


class Calls:
    """The work of routes that is more than a call of the session. Thread-safe.

    The methods block, so they belong in worker threads.
    """

    def __init__(self, session: Session, telemetry: Telemetry, turns: LoopTurns) -> None:
        self.session, self._telemetry, self._turns = session, telemetry, turns
        self._authenticator = Authenticator(session.config, ApiKeys(session.ledger), session.now)
        self._rates = Rates(session.config.service.rate_per_minute)
        self._replies = ReplyCache(session.ledger, session.now)
        self._lock = threading.Lock()
        self._callers: OrderedDict[str, Authenticated] = OrderedDict()

    def take(self, session: Session) -> None:
        """Answer later calls by this session, which is under another policy. Calls that have begun keep theirs."""
        self.session = session
        self._authenticator.take(session.config)
        self._replies.forget()

    def recognise(self, authorization: str | None) -> Authenticated | None:
        """The caller, if this authorization was checked at the present stamp: then it is still valid. Cheap."""
        known = self._callers.get(authorization or "")
        return known if known is not None and known.stamp is not None and known.stamp == self._replies.stamp() else None

    def recall_analyst(self, authorization: str | None) -> str:
        """Whose authorization this was when it was checked last, or `STRANGER`. It proves nothing."""
        known = self._callers.get(authorization or "")
        return STRANGER if known is None else known.analyst

    def authenticate(self, authorization: str | None) -> Authenticated:
        stamp = self._replies.stamp()
        principal = self._authenticator.authenticate(authorization)
        caller = Authenticated(principal, stamp, authorization or "")
        lasting = self._replies.is_lasting(caller.authorization, principal.until)
        with self._lock:
            self._callers[caller.authorization] = caller if lasting else replace(caller, stamp=None)
            self._callers.move_to_end(caller.authorization)
            while len(self._callers) > MAX_PRINCIPALS:
                self._callers.popitem(last=False)
        return caller

    def admit(self, caller: Authenticated, right: Right, record: CallRecord) -> None:
        """Count the call and check the right. Raises `RateLimited` or `NotFound`."""
        record.analyst = caller.analyst
        self._rates.take(caller.analyst)
        check_right(caller.principal, right)

    def answer(self, caller: Authenticated, request: RequestLike, key: str | None, body: bytes) -> Answer:
        """Answer a request. With an idempotency key, `body` is what may not be another one under this key."""
        once = read_idempotency_key(key)
        idempotent = None if once is None else IdempotentCall.of(once, body)
        answer = self.session.ask(request, analyst=caller.analyst, call=idempotent)
        self._telemetry.count_answer(repeat=answer.receipt.repeat)
        return answer

    def ask(self, call: ApiCall) -> Response:
        media, caller = call.media, call.caller
        answer = self.answer(caller, read_object(call.body), call.key, call.body)
        reply = answer_reply(answer, media)
        cached = CachedReply(caller.analyst, reply)
        key = caller.authorization, call.body, call.key, media
        self._replies.put(key, caller.stamp, cached, caller.principal.until)
        return reply

    async def find_cached(self, scope: AsgiScope, body: Body, record: CallRecord) -> Response | None:
        """The cached reply to the same call of `ask`, if it is still right. Reads the body of a known caller only."""
        if scope["path"] != ANSWERS or scope["method"] != "POST" or scope["query_string"]:
            return None
        authorization = header(scope, b"authorization")
        await self._turns.wait(self.recall_analyst(authorization))
        caller = self.recognise(authorization)
        if caller is None:
            return None
        try:
            media = negotiate(accepted(scope))
            content = await body.read(caller.analyst)
        except (SfumatoError, Disconnected):
            return None  # the route reports it
        stamp = self._replies.stamp() if body.is_late else caller.stamp
        cached = self._replies.get((caller.authorization, content, header(scope, b"idempotency-key"), media), stamp)
        if cached is None or not self._rates.try_take(cached.analyst):
            return None
        record.route, record.analyst = ANSWERS, cached.analyst
        self._telemetry.count_answer(repeat=True)
        return cached.reply

    def report(self, call: ApiCall) -> Response:
        """Query a report. It is idempotent without a key; the key is only checked."""
        media = call.media
        request = read_object(call.body, REPORT_EXAMPLE)
        read_idempotency_key(call.key)
        return answer_reply(self.query_report(call.caller, request), media)

    def query_report(self, caller: Authenticated, question: Mapping[str, Any]) -> Report:
        report = self.session.report(question, analyst=caller.analyst)
        self._telemetry.count_report(repeat=report.receipt.repeat)
        return report

    def recall(self, call: ApiCall) -> Response:
        media, session, digest = call.media, self.session, call.part("digest")
        now = session.now()
        answer = session.recall(digest, analyst=call.analyst, now=now)
        standing = session.budget(call.analyst, now=now).accounts[0]
        headers = budget_headers(standing.left, standing.resets) | {
            "etag": (tag := etag(digest, media)),
            "cache-control": "private, no-cache",
        }
        tags = [each.strip() for each in ",".join(call.request.headers.getlist("if-none-match")).split(",")]
        # A weak tag matches too (RFC 9110, 13.1.2).
        if tags == ["*"] or tag in (each.removeprefix("W/") for each in tags):
            return Response(status_code=304, headers=headers | {"vary": "Accept"})
        return answer_reply(answer, media, headers)

    def me(self, call: ApiCall) -> Me:
        """The caller's record, with the rights and the end of the key that she calls with."""
        principal = call.caller.principal
        me = self.session.me(call.analyst, role=principal.role)
        ends = None if principal.until is None else principal.until.isoformat(timespec="microseconds")
        key = None if principal.prefix is None else KeyInfo(prefix=principal.prefix, expires=ends)
        return replace_fields(me, rights=principal.rights, key=key)

    def check(self, part: SessionPart) -> None:
        """Raise unless this part can be used. Blocks for as long as the part does."""
        self.session.check_part(part)


def readiness_reply(are_ready: Mapping[str, bool]) -> Response:
    """The reply to a check of the parts."""
    is_ready = all(are_ready.values())
    checks = {part: "ok" if ready else "not ok" for part, ready in are_ready.items()}
    readiness = Readiness.from_dict({"status": "ready" if is_ready else "not ready", "checks": checks})
    return json_reply(readiness) if is_ready else json_reply(readiness, retry_after(), status=503)
