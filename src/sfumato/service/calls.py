"""What each route does, without routing and event loop: read the arguments, call the session, write the reply."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from sfumato.config import Right
from sfumato.errors import SfumatoError
from sfumato.ledger import IdempotentCall
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.usage import overview, read_budget, read_range
from sfumato.service.auth import Authenticator, Principal, check_right
from sfumato.service.bodies import Body, Disconnected, Scope, header
from sfumato.service.limits import Rates, read_idempotency_key, read_object, read_page_rows
from sfumato.service.pools import STRANGER
from sfumato.service.reply import Readiness, budget_headers, json_reply, retry_after
from sfumato.service.reply_cache import CachedReply, ReplyCache
from sfumato.service.telemetry import CallRecord, Telemetry
from sfumato.session import Part, Session
from sfumato.wire import UsageReport

ANSWERS = "/v1/answers"
REPORT_EXAMPLE = '{"statistics": ["clicks"], "start": "2026-10-01", "end": "2026-11-01"}'
MAX_PRINCIPALS = 2048


@dataclass(frozen=True, slots=True)
class Authenticated:
    """An authenticated call. `stamp` was taken before the key was checked: a later change of the key changes it.

    The body is read later; it is empty until then.
    """

    principal: Principal
    stamp: Hashable | None
    authorization: str
    body: bytes = b""

    @property
    def analyst(self) -> str:
        return self.principal.analyst


class Calls:
    """One method per route. Thread-safe; the methods block, so they belong in worker threads."""

    def __init__(self, session: Session, telemetry: Telemetry) -> None:
        self._session, self._telemetry = session, telemetry
        self._authenticator = Authenticator(session.config, ApiKeys(session.ledger), session.now)
        self._rates = Rates(session.config.service.rate_per_minute)
        self._replies = ReplyCache(session.ledger, session.now)
        self._lock = threading.Lock()
        self._callers: OrderedDict[str, Authenticated] = OrderedDict()

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

    def ask(self, caller: Authenticated, key: str | None) -> Response:
        request, once = read_object(caller.body), read_idempotency_key(key)
        call = None if once is None else IdempotentCall.of(once, caller.body)
        answer = self._session.ask(request, analyst=caller.analyst, call=call)
        self._telemetry.count_answer(repeat=answer.receipt.repeat)
        reply = json_reply(answer, budget_headers(answer.receipt.left, answer.receipt.resets))
        cached = CachedReply(caller.analyst, reply)
        self._replies.put((caller.authorization, caller.body, key), caller.stamp, cached, caller.principal.until)
        return reply

    async def find_cached(self, scope: Scope, body: Body, record: CallRecord) -> Response | None:
        """The cached reply to the same call of `ask`, if it is still right. Reads the body of a known caller only."""
        if scope["path"] != ANSWERS or scope["method"] != "POST":
            return None
        authorization = header(scope, b"authorization")
        caller = self.recognise(authorization)
        if caller is None:
            return None
        try:
            content = await body.read(caller.analyst)
        except (SfumatoError, Disconnected):
            return None  # the route reports it
        stamp = self._replies.stamp() if body.is_late else caller.stamp
        cached = self._replies.get((caller.authorization, content, header(scope, b"idempotency-key")), stamp)
        if cached is None or not self._rates.try_take(cached.analyst):
            return None
        record.route, record.analyst = ANSWERS, cached.analyst
        self._telemetry.count_answer(repeat=True)
        return cached.reply

    def report(self, caller: Authenticated, key: str | None) -> Response:
        """Query a report. It is idempotent without a key; the key is only checked."""
        request = read_object(caller.body, REPORT_EXAMPLE)
        read_idempotency_key(key)
        report = self._session.report(request, analyst=caller.analyst)
        self._telemetry.count_report(repeat=report.receipt.repeat)
        return json_reply(report, budget_headers(report.receipt.left, report.receipt.resets))

    def estimate(self, caller: Authenticated) -> Response:
        return json_reply(self._session.estimate(read_object(caller.body), analyst=caller.analyst))

    def recall(self, caller: Authenticated, digest: str, if_none_match: str) -> Response:
        answer = self._session.recall(digest, analyst=caller.analyst)
        standing = self._session.budget(caller.analyst).accounts[0]
        etag = f'"{digest}"'
        headers = budget_headers(standing.left, standing.resets) | {
            "etag": etag,
            "cache-control": "private, no-cache",
        }
        tags = [tag.strip() for tag in if_none_match.split(",")]
        # A weak tag matches too (RFC 9110, 13.1.2).
        if tags == ["*"] or etag in (tag.removeprefix("W/") for tag in tags):
            return Response(status_code=304, headers=headers)
        return json_reply(answer, headers)

    def budget(self, caller: Authenticated) -> Response:
        return json_reply(self._session.budget(caller.analyst))

    def charges(self, caller: Authenticated, cursor: str | None, rows: str | None) -> Response:
        page = self._session.charges(caller.analyst, cursor=cursor, rows=read_page_rows(rows))
        return json_reply(page)

    def tables(self, caller: Authenticated) -> Response:
        return json_reply(self._session.tables(caller.analyst, role=caller.principal.role))

    def me(self, caller: Authenticated) -> Response:
        return json_reply(self._session.me(caller.analyst, role=caller.principal.role))

    def guarantee(self, caller: Authenticated) -> Response:
        return json_reply(self._session.guarantee(caller.analyst, role=caller.principal.role))

    def total_guarantee(self, _: Authenticated) -> Response:
        return json_reply(self._session.guarantee())

    def usage(self, _: Authenticated, since: str | None, until: str | None, budgets: Sequence[str]) -> Response:
        first, last = read_range(since, until, self._session.now())
        charges = [read_budget(text) for text in budgets]
        result = overview(self._session.ledger, self._session.config, first, last, budgets=charges)
        return json_reply(UsageReport.of_overview(result))

    def check(self, part: Part) -> None:
        """Raise unless this part can be used. Blocks for as long as the part does."""
        self._session.check_part(part)


def readiness_reply(are_ready: Mapping[str, bool]) -> Response:
    """The reply to a check of the parts."""
    is_ready = all(are_ready.values())
    checks = {part: "ok" if ready else "not ok" for part, ready in are_ready.items()}
    readiness = Readiness.from_dict({"status": "ready" if is_ready else "not ready", "checks": checks})
    return json_reply(readiness) if is_ready else json_reply(readiness, retry_after(), status=503)
