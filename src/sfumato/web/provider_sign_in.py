"""Signing in with the identity provider: the way there, and the way back.

    /sign-in/provider -> a cookie, and on to the provider -> /sign-in/return -> code, token, analyst -> signed in

Nothing is kept for those who have not come back: everything that has to be checked follows from their cookie.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from sfumato.errors import Failed
from sfumato.service import pools
from sfumato.service.app import MAX_UNAUTHENTICATED, Parts
from sfumato.service.authorization_code import AWAY, CodeFlow
from sfumato.service.middleware import RECORD
from sfumato.service.oidc import MIN_INTERVAL_S
from sfumato.service.pools import STRANGER, Pool
from sfumato.service.telemetry import CallRecord
from sfumato.web.rendering import HEADERS
from sfumato.web.sign_in_page import Wrong, local_path, show_sign_in
from sfumato.web.signing import Address, Doorkeeper, read_cookie

RETURN = "/sign-in/return"
LASTS_S = 600
MAX_CODE, MAX_THEN = 4096, 1500

STRAY = "no sign-in of this browser is going on at the identity provider, or it took too long"
INVALID = "the identity provider sent no code or no token that is valid"
UNKNOWN = "the name in the token is no analyst of the configuration, or the sign-in was finished before"

_SHAPE = re.compile(r"[A-Za-z0-9_-]{43}\.([0-9]{1,12})\.([A-Za-z0-9%._~-]{1,4500})")


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that goes on at the provider. Its cookie holds 256 random bits, when it began, and where it leads.

    State, nonce, verifier and the name of the sign-in are hashes of the cookie. So every worker can check what comes
    back, a stranger who begins sign-ins fills no memory and no table, and what the provider and the browser's history
    get to see (state, nonce, a hash of the verifier) says nothing about the rest. It can be used once, because the
    ledger has a name once.
    """

    cookie: str
    began_s: int
    then: str

    @classmethod
    def begin(cls, then: str, now: datetime) -> Attempt:
        then, began_s = then if len(then) <= MAX_THEN else "/", int(now.timestamp())
        return cls(f"{secrets.token_urlsafe(32)}.{began_s}.{quote(then, safe='')}", began_s, then)

    @classmethod
    def read(cls, cookie: str | None, now: datetime) -> Attempt | None:
        """The attempt of a cookie, if it began within the last ten minutes."""
        match = _SHAPE.fullmatch(cookie or "")
        if match is None or now.timestamp() - int(match[1]) >= LASTS_S:
            return None
        return cls(match[0], int(match[1]), local_path(unquote(match[2])))

    @property
    def state(self) -> str:
        return self._derive(b"state")

    @property
    def nonce(self) -> str:
        return self._derive(b"nonce")

    @property
    def verifier(self) -> str:
        return self._derive(b"verifier")

    @property
    def challenge(self) -> str:
        return _encode(sha256(self.verifier.encode()).digest())

    @property
    def name(self) -> str:
        """The id of the sign-in that it becomes."""
        return hmac.digest(self.cookie.encode(), b"sign-in", "sha256").hex()[:12]

    def _derive(self, purpose: bytes) -> str:
        return _encode(hmac.digest(self.cookie.encode(), purpose, "sha256"))


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


class ProviderSignIn:
    """The two routes of signing in with the provider. For use from one event loop."""

    def __init__(self, parts: Parts, door: Doorkeeper, entrance: Pool, flow: CodeFlow) -> None:
        self._calls, self._door, self._entrance, self._flow = parts.calls, door, entrance, flow
        self._settings = parts.calls.session.config.service
        # Of its own: those with a cookie must not wait behind a provider that is slow.
        self._pool = Pool(*pools.AUTHENTICATE, parts.activity, max_queued=MAX_UNAUTHENTICATED, is_short=True)

    async def begin(self, request: Request, address: Address) -> Response:
        """On to the provider, from our own page or from a bookmark. A page of another site cannot begin it."""
        then = local_path(request.query_params.get("next"))
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return RedirectResponse(f"/sign-in?next={quote(then, safe='')}", 303, HEADERS)
        if not address.is_safe:
            return show_sign_in(self._settings, address, then)
        attempt = Attempt.begin(then, self._calls.session.now())
        find = partial(self._flow.find_location, attempt.state, attempt.nonce, attempt.challenge)
        try:
            location = await self._pool.run(STRANGER, find)
        except Failed:
            return self._refuse(request, address, then, "away", AWAY)
        cookie = address.set_cookie(address.attempt_cookie, attempt.cookie, LASTS_S)
        return RedirectResponse(location, 303, HEADERS | {"set-cookie": cookie})

    async def finish(self, request: Request, address: Address) -> Response:
        """Back from the provider. Whatever is wrong, the words are the same."""
        session = self._calls.session
        attempt = Attempt.read(read_cookie(request, address.attempt_cookie), session.now())
        if attempt is None or not hmac.compare_digest(_only(request, "state").encode(), attempt.state.encode()):
            return self._refuse(request, address, "/", "provider", STRAY)
        try:
            analyst = await self._find_analyst(request, attempt)
        except Failed:
            return _forget(self._refuse(request, address, attempt.then, "away", AWAY), address)
        if analyst is None:
            return _forget(self._refuse(request, address, attempt.then, "provider", INVALID), address)
        begin = partial(self._door.begin_once, attempt.name, analyst, session.config, session.now())
        begun = await self._entrance.run(STRANGER, begin)
        if begun is None:
            return _forget(self._refuse(request, address, attempt.then, "provider", UNKNOWN), address)
        reply = _forget(RedirectResponse(attempt.then, 303, HEADERS), address)
        reply.headers.append("set-cookie", address.set_cookie(address.cookie, begun[0]))
        return reply

    async def _find_analyst(self, request: Request, attempt: Attempt) -> str | None:
        code = _only(request, "code")
        is_ours = self._flow.is_issuer(request.query_params.get("iss")) and "error" not in request.query_params
        if not (is_ours and 0 < len(code) <= MAX_CODE):
            return None
        now = self._calls.session.now()
        find = partial(self._flow.find_analyst, code, attempt.verifier, attempt.nonce, now)
        return await self._pool.run(STRANGER, find)

    def _refuse(self, request: Request, address: Address, then: str, wrong: Wrong, why: str) -> Response:
        """The page for signing in again. `why` is for the log."""
        record: CallRecord = request.scope[RECORD]
        record.problem, record.why = "failed" if wrong == "away" else "unauthorized", why
        reply = show_sign_in(self._settings, address, then, wrong=wrong)
        if wrong == "away":
            reply.headers["retry-after"] = str(MIN_INTERVAL_S)
        return reply


def open_provider(parts: Parts, door: Doorkeeper, entrance: Pool) -> ProviderSignIn | None:
    """Signing in with the provider of the configuration, if it has one."""
    settings = parts.calls.session.config.service
    if settings.oidc is None or not settings.has_provider:
        return None
    return ProviderSignIn(parts, door, entrance, CodeFlow(settings.oidc, f"{settings.origin}{RETURN}"))


def _forget(reply: Response, address: Address) -> Response:
    """An attempt ends with its use."""
    reply.headers.append("set-cookie", address.set_cookie(address.attempt_cookie, ""))
    return reply


def _only(request: Request, name: str) -> str:
    """A parameter that was sent once; otherwise empty."""
    found = request.query_params.getlist(name)
    return found[0] if len(found) == 1 else ""
