"""The routes of the pages, and what all of them have in common.

host -> form of ours -> cookie -> rate, right -> form -> queue -> page
         └─ any refusal or failure -> a page that says so
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from sfumato.config import Right, ServiceSettings
from sfumato.errors import Failed, InvalidArgument, LedgerFailed, NotFound, RateLimited, SfumatoError
from sfumato.problems import find_problem_type, problem, problem_type
from sfumato.service import pools
from sfumato.service.app import CLOSED_REQUEST, MAX_UNAUTHENTICATED, Parts, reply_to_error
from sfumato.service.bodies import BODY, Disconnected
from sfumato.service.calls import Authenticated
from sfumato.service.middleware import RECORD, Middleware
from sfumato.service.origin import Origin
from sfumato.service.pools import STRANGER, Pool
from sfumato.service.reply import retry_after
from sfumato.service.server import create_worker as create_service_worker
from sfumato.service.telemetry import CallRecord, locate
from sfumato.web import (
    answer_pages,
    guarantee_page,
    key_pages,
    owner_pages,
    pages,
    policy_page,
    question_pages,
    report_pages,
    spending_pages,
)
from sfumato.web.asking import Fields
from sfumato.web.frame import PageCall
from sfumato.web.provider_sign_in import RETURN, open_provider
from sfumato.web.rendering import HEADERS, SCRIPT, STYLE, render
from sfumato.web.sign_in_page import local_path, show_sign_in
from sfumato.web.signing import Address, Doorkeeper, find_address, is_own_form, read_cookie

Show: TypeAlias = Callable[[PageCall], Response]

MAX_FIELDS = 4000
QUESTIONS = ("/ask", "/answers")
"""Where the form of a question is sent to. What was typed there is never lost."""

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page: where it is, who may see it, and what shows it in a thread of its pool."""

    path: str
    show: Show
    right: Right = "read"
    pool: str = "read"
    method: str = "GET"


PAGES = (
    PageRoute("/", pages.show_start),
    PageRoute("/tables", pages.show_tables),
    PageRoute("/ask", question_pages.show_ask, "estimate", "estimate"),
    PageRoute("/ask", question_pages.change_question, "estimate", "estimate", "POST"),
    PageRoute("/ask/price", question_pages.show_price, "estimate", "estimate", "POST"),
    PageRoute("/ask/words", question_pages.list_words, "estimate"),
    PageRoute("/answers", question_pages.ask, "ask", "ask", "POST"),
    PageRoute("/answers/{digest}", answer_pages.show_answer, "recall"),
    PageRoute("/answers/{digest}/{file}", answer_pages.save_answer, "recall"),
    PageRoute("/history", pages.show_history),
    PageRoute("/history", pages.show_history, method="POST"),
    PageRoute("/history.csv", pages.save_history),
    PageRoute("/budget", pages.show_budget),
    PageRoute("/reports", report_pages.show_reports, "report"),
    PageRoute("/reports/{name}", report_pages.show_report, "report", "report"),
    PageRoute("/reports/{name}/entities", report_pages.find_entities, "report"),
    PageRoute("/reports/{name}/{file}", report_pages.save_report, "report", "report"),
    PageRoute("/overview", spending_pages.show_overview, "oversee", "estimate"),
    PageRoute("/dry", spending_pages.show_dry, "oversee", "estimate"),
    PageRoute("/questions", owner_pages.show_questions, "oversee"),
    PageRoute("/keys", key_pages.show_keys, "oversee"),
    PageRoute("/keys", key_pages.make_key, "govern", method="POST"),
    PageRoute("/keys/{id}/revoke", key_pages.show_revoke, "govern"),
    PageRoute("/keys/{id}/revoke", key_pages.revoke_key, "govern", method="POST"),
    PageRoute("/grants", key_pages.show_grant, "govern"),
    PageRoute("/grants", key_pages.grant, "govern", method="POST"),
    PageRoute("/policy", policy_page.show_policy, "oversee", "estimate"),
    PageRoute("/guarantee", guarantee_page.show_guarantee, "oversee", "estimate"),
    PageRoute("/ledger", owner_pages.show_ledger, "oversee"),
    PageRoute("/ledger", owner_pages.verify_ledger, "govern", method="POST"),
    PageRoute("/ledger/progress", owner_pages.show_progress, "oversee"),
    PageRoute("/releases", owner_pages.show_releases, "oversee", "estimate"),
    PageRoute("/releases/{digest}", owner_pages.show_release, "oversee", "estimate"),
    PageRoute("/releases/{digest}/statement.json", owner_pages.save_statement, "oversee", "estimate"),
)


class Console:
    """The pages over the calls of a service. For use from one event loop."""

    def __init__(self, parts: Parts) -> None:
        self._calls, self._pools = parts.calls, parts.pools
        self._door = Doorkeeper(parts.calls.session.ledger)
        self._origin = Origin(parts.calls.session.config.service)
        self._settings = parts.calls.session.config.service
        size = pools.AUTHENTICATE
        self._entrance = Pool(
            *size, parts.activity, max_queued=MAX_UNAUTHENTICATED, max_wait_s=pools.MAX_WAIT_S, is_short=True
        )
        self._provider = open_provider(parts, self._door, self._entrance)

    def add_to(self, app: FastAPI) -> None:
        for page in PAGES:
            app.add_api_route(page.path, self._endpoint(page), methods=[page.method], include_in_schema=False)
        doors = [("/sign-in", "GET", self._show_sign_in), ("/sign-in", "POST", self._sign_in)]
        doors.append(("/sign-out", "POST", self._sign_out))
        if self._provider is not None:
            doors += [("/sign-in/provider", "GET", self._provider.begin), (RETURN, "GET", self._provider.finish)]
        for path, method, respond in doors:
            app.add_api_route(path, self._guarded(respond), methods=[method], include_in_schema=False)
        for asset in (STYLE, SCRIPT):
            app.add_api_route(asset.path, _deliver(asset.reply), methods=["GET"], include_in_schema=False)
        app.add_exception_handler(HTTPException, _show_missing)

    def _endpoint(self, page: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request, address: Address) -> Response:
            return await self._respond(page, request, address)

        return self._guarded(respond)

    def _guarded(
        self, respond: Callable[[Request, Address], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A page, whose forms must come from a page of ours. Whatever goes wrong is a page, too."""

        async def endpoint(request: Request) -> Response:
            record = request.scope[RECORD]
            address = find_address(request, self._origin)
            if request.method not in ("GET", "HEAD") and not is_own_form(request, address):
                record.problem = "foreign-form"
                return render("message.html", 403, title="Not from here", words=_FOREIGN)
            try:
                return await respond(request, address)
            except SfumatoError as error:
                return show_error(record, error)
            except Disconnected:
                return Response(status_code=CLOSED_REQUEST)
            except Exception as error:  # of which only the place in the code is logged
                record.error = locate(error)
                return show_error(record, Failed(""))

        return endpoint

    async def _respond(self, page: PageRoute, request: Request, address: Address) -> Response:
        record: CallRecord = request.scope[RECORD]
        secret, session = read_cookie(request, address.cookie), self._calls.session
        found = None
        if secret is not None:
            look = partial(self._door.find, secret, session.config, session.now())
            found = await self._entrance.run(STRANGER, look)
        if found is None:
            fields = await _read_fields(request, STRANGER) if request.method == "POST" else {}
            return _ask_to_sign_in(self._settings, request, address, fields)
        sign_in, principal = found
        caller = Authenticated(principal, None, "")
        try:
            self._calls.admit(caller, page.right, record)
        except RateLimited as error:
            if page.path not in QUESTIONS or request.method != "POST":
                raise
            return show_error(record, error, page.path, await _read_fields(request, caller.analyst))
        fields = await _read_fields(request, caller.analyst) if request.method == "POST" else {}
        call = PageCall(self._calls, caller, sign_in, request, address, fields, record)
        return await self._pools[page.pool].run(caller.analyst, partial(page.show, call))

    async def _show_sign_in(self, request: Request, address: Address) -> Response:
        return show_sign_in(self._settings, address, local_path(request.query_params.get("next")))

    async def _sign_in(self, request: Request, address: Address) -> Response:
        """Begin a sign-in, and forget the key. Whatever is wrong, the words are the same."""
        session = self._calls.session
        fields = await _read_fields(request, STRANGER)
        key, then = (next(iter(fields.get(name, ())), "") for name in ("key", "next"))
        typed = {name.removeprefix("typed."): values for name, values in fields.items() if name.startswith("typed.")}
        if not address.is_safe:
            return show_sign_in(self._settings, address, local_path(then), typed=typed)
        begin = partial(self._door.begin, key, session.config, session.now())
        begun = await self._entrance.run(STRANGER, begin)
        if begun is None:
            return show_sign_in(self._settings, address, local_path(then), typed=typed, wrong="key")
        secret, sign_in = begun
        reply: Response = RedirectResponse(local_path(then), 303, HEADERS)
        if typed:
            caller = Authenticated(self._door.principal(sign_in, session.config), None, "")
            record = request.scope[RECORD]
            self._calls.admit(caller, "estimate", record)
            call = PageCall(self._calls, caller, sign_in, request, address, typed, record)
            reply = await self._pools["estimate"].run(sign_in.analyst, partial(question_pages.change_question, call))
        reply.headers["set-cookie"] = address.set_cookie(address.cookie, secret)
        return reply

    async def _sign_out(self, request: Request, address: Address) -> Response:
        secret = read_cookie(request, address.cookie)
        if secret is not None:
            await self._entrance.run(STRANGER, partial(self._door.end, secret, self._calls.session.now()))
        forget = address.set_cookie(address.cookie, "")
        headers = HEADERS | {"clear-site-data": '"cache", "storage"', "set-cookie": forget}
        return RedirectResponse("/sign-in", 303, headers)


def add_console(app: FastAPI, parts: Parts) -> None:
    """Add the pages to the application of a service."""
    Console(parts).add_to(app)


WORKER = "sfumato.web.console:create_worker"
"""What creates the application of each of several workers, with its pages."""


def create_worker() -> Middleware:
    return create_service_worker(add_console)


# -- pages for those who are not signed in, and refusals --

_FOREIGN = (
    "This form was sent from somewhere else than the pages of this service, so nothing was done. "
    "Open the page here, and send it again."
)


def _ask_to_sign_in(settings: ServiceSettings, request: Request, address: Address, fields: Fields) -> Response:
    """Back to sign-in, and then to where one was; what was typed comes along."""
    path = request.url.path
    if request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/sign-in?next={quote(path + query, safe='')}", 303, HEADERS)
    if path == "/ask/price":
        return render("message.html", 401, title="Signed out", words="Sign in again.")
    is_question = path in QUESTIONS
    typed = {name: values for name, values in fields.items() if name != "once"} if is_question else {}
    return show_sign_in(settings, address, "/ask" if is_question else path, typed=typed)


def show_error(record: CallRecord, error: SfumatoError, path: str = "", fields: Fields | None = None) -> Response:
    """A refusal or a failure that no page has shown in its frame. A form of `fields` can be sent to `path` again."""
    if isinstance(error, NotFound):
        record.problem = "not-found"
        return show_missing()
    kind = problem_type(error)
    found = problem(error)
    record.problem = kind.name
    wait_s = error.wait_s if isinstance(error, RateLimited) else None
    if isinstance(error, LedgerFailed):
        record.why = str(error)
    headers = {} if wait_s is None else retry_after(wait_s)
    page = render(
        "message.html",
        kind.status,
        title=kind.title,
        words=found.detail,
        wait_s=wait_s,
        path=path,
        again=[(name, value) for name, values in (fields or {}).items() for value in values],
        request_id=record.request_id if kind.status >= 500 else "",
    )
    page.headers.update(headers)
    return page


def show_missing() -> Response:
    """The page for what does not exist, and for what its reader may not see: the same bytes."""
    return render("message.html", 404, title="Not found", words=find_problem_type("not-found").detail)


async def _show_missing(request: Request, error: Exception) -> Response:
    """The 404 of a browser is a page; all other errors stay as they are."""
    is_page = not request.scope["path"].startswith("/v1/") and "text/html" in request.headers.get("accept", "")
    if getattr(error, "status_code", None) == 404 and is_page:
        request.scope[RECORD].problem = "not-found"
        return show_missing()
    return await reply_to_error(request, error)


def _deliver(reply: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return reply(request)

    return endpoint


async def _read_fields(request: Request, analyst: str) -> dict[str, list[str]]:
    """The fields of a form."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != FORM:
        raise InvalidArgument("body", "must be a form")
    body = await request.scope[BODY].read(analyst)
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
            strict_parsing=bool(body),
        )
    except ValueError:
        raise InvalidArgument("body", "must be a form in UTF-8") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields
