"""`Client` and `AsyncClient`: the calls of `Session` over HTTP, for the analyst whose key it is."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import date
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from sfumato.accounting import Charge
from sfumato.accounting.numbers import Number, whole
from sfumato.client.bodies import body_of, report_body
from sfumato.client.exchange import MAX_REPLY_BYTES, Call, Lost, ServiceReply, exchange
from sfumato.errors import Failed, InvalidArgument, NotFound
from sfumato.problems import find_problem_type
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Report, Tables

if TYPE_CHECKING:
    import httpx2

    from sfumato.client.bodies import RequestLike

T = TypeVar("T")
Budget: TypeAlias = "Charge | tuple[Number, Number] | str"

KEY_VARIABLE = "SFUMATO_KEY"
_EXAMPLE = "such as http://127.0.0.1:8080"


class _ClientBase:
    """What both clients share: where the service is, who asks, and how each method is a call."""

    def __init__(self, url: str, key: str | None, timeout_s: float, retries: int) -> None:
        self._http = _httpx2()
        self.url = _address(url)
        try:
            self._http.URL(self.url)
        except self._http.InvalidURL:
            raise InvalidArgument("url", f"must be an address, {_EXAMPLE}") from None
        self._retries = whole("retries", retries, at_most=100)
        self._timeout_s = _seconds(timeout_s)
        self._headers = {
            "Authorization": f"Bearer {_key(key)}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # answers are short, and what is not packed cannot be a bomb
            "User-Agent": "sfumato-python",
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds a key and open connections: make one where it is used")

    def _options(self) -> dict[str, Any]:
        """How the HTTP client is made: a redirect is told, never followed, as the key would go with it."""
        return {"headers": self._headers, "timeout": self._timeout_s, "follow_redirects": False}

    def _request(self, http: httpx2.Client | httpx2.AsyncClient, call: Call[Any]) -> httpx2.Request:
        url = self._http.URL(self.url + call.path)
        typed = {} if call.body is None else {"Content-Type": "application/json"}
        made: httpx2.Request = http.build_request(
            *(call.method, url.copy_with(params=call.params) if call.params else url),
            content=call.body,
            headers={**call.headers, **typed},
        )
        return made

    def _lost(self, error: Exception) -> Lost:
        """Why there is no reply, in words that hold nothing of what was sent."""
        late = f"within {self._timeout_s:g} s"
        if isinstance(error, self._http.ConnectTimeout | self._http.PoolTimeout):
            return Lost(f"no connection {late}", arrived=False)
        if isinstance(error, self._http.ConnectError | self._http.ProxyError):
            return Lost(f"no connection ({str(error)[:200] or 'refused'})", arrived=False)
        if isinstance(error, self._http.TimeoutException):
            return Lost(f"nothing came {late}", arrived=True)
        return Lost("the connection broke off", arrived=True)


class Client(_ClientBase):
    """A service, and one analyst's key to it. Thread-safe; a context manager.

        with sf.Client("http://127.0.0.1:8080", key="sfumato_...") as client:
            answer = client.ask("SELECT article, members FROM engagements GROUP BY article LIMIT 10")
            answer.rows, answer.receipt.left

    The calls, their records and their exceptions are those of `Session`, without `analyst`. Without `key` it is the
    one in the environment, as SFUMATO_KEY. A call that is lost, or that the service cannot answer at the moment, is
    sent again up to `retries` times: every question has a key of its own, so that it is never charged twice.
    `timeout_s` is how long a connection, and then each part of the reply, may take. `transport` is one of httpx2.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60,
        retries: int = 3,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(url, key, timeout_s, retries)
        self._sleep = sleep
        self._client: httpx2.Client = self._http.Client(transport=transport, **self._options())

    def ask(self, request: RequestLike) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON."""
        return self._run(_ask(request))

    def report(
        self,
        report: str | Mapping[str, Any] | None = None,
        *,
        statistics: str | Sequence[str] | None = None,
        entity: Mapping[str, str] | None = None,
        attribute: str | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
        granularity: str | None = None,
        top: int | None = None,
        options: Sequence[str] | None = None,
    ) -> Report:
        """Numbers of an entity over time, which stay what they are. Free; the receipt carries the report's guarantee.

        The range is [start, end), as clocks show it in the report's zone. Or hand over the whole question as a
        dictionary.
        """
        return self._run(
            _report(
                report,
                statistics=statistics,
                entity=entity,
                attribute=attribute,
                start=start,
                end=end,
                granularity=granularity,
                top=top,
                options=options,
            )
        )

    def estimate(self, request: RequestLike) -> Estimate:
        """What a request would cost and how accurate it would be. Free; no row is read."""
        return self._run(_estimate(request))

    def recall(self, digest: str) -> Answer:
        """An answer that was given before, by the `digest` on its receipt. Free; it is the very same one."""
        return self._run(_answer(digest))

    def budget(self) -> BudgetReport:
        """What may still be spent: the analyst's own account, her organisation's, and those of capped tables."""
        return self._run(_budget())

    def charges(self, cursor: str | None = None, rows: int = 100) -> Charges:
        """What requests have cost, the latest first. `cursor` is the `next` of the page before."""
        return self._run(_charges(cursor, rows))

    def tables(self) -> Tables:
        """What may be asked about."""
        return self._run(_tables())

    def usage(
        self,
        since: date | str | None = None,
        until: date | str | None = None,
        budgets: Iterable[Budget] = (),
    ) -> dict[str, Any]:
        """For owners and auditors: spending by day, and who would run dry under `budgets` of (information, calls)."""
        return self._run(_usage(since, until, budgets))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        _check_open(self._client)
        steps = exchange(call, self.url, self._retries)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Call):
                    step = steps.send(self._sent(step))
                else:
                    self._sleep(step)
                    step = next(steps)
        except StopIteration as done:
            read: T = done.value
            return read

    def _sent(self, call: Call[Any]) -> ServiceReply | Lost:
        try:
            response = self._client.send(self._request(self._client, call), stream=True)
            try:
                content = bytearray()
                for part in response.iter_bytes():
                    content += part
                    if len(content) > MAX_REPLY_BYTES:
                        break
            finally:
                response.close()
        except self._http.RequestError as error:
            return self._lost(error)
        return ServiceReply(response.status_code, response.headers, bytes(content))


class AsyncClient(_ClientBase):
    """`Client` for asyncio: the same calls, to be awaited.

    async with sf.AsyncClient("http://127.0.0.1:8080", key="sfumato_...") as client:
        answer, budget = await asyncio.gather(client.ask("SELECT ..."), client.budget())
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60,
        retries: int = 3,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(url, key, timeout_s, retries)
        self._sleep = sleep
        self._client: httpx2.AsyncClient = self._http.AsyncClient(transport=transport, **self._options())

    async def ask(self, request: RequestLike) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON."""
        return await self._run(_ask(request))

    async def report(
        self,
        report: str | Mapping[str, Any] | None = None,
        *,
        statistics: str | Sequence[str] | None = None,
        entity: Mapping[str, str] | None = None,
        attribute: str | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
        granularity: str | None = None,
        top: int | None = None,
        options: Sequence[str] | None = None,
    ) -> Report:
        """Numbers of an entity over time, which stay what they are. Free; the receipt carries the report's guarantee.

        The range is [start, end), as clocks show it in the report's zone. Or hand over the whole question as a
        dictionary.
        """
        return await self._run(
            _report(
                report,
                statistics=statistics,
                entity=entity,
                attribute=attribute,
                start=start,
                end=end,
                granularity=granularity,
                top=top,
                options=options,
            )
        )

    async def estimate(self, request: RequestLike) -> Estimate:
        """What a request would cost and how accurate it would be. Free; no row is read."""
        return await self._run(_estimate(request))

    async def recall(self, digest: str) -> Answer:
        """An answer that was given before, by the `digest` on its receipt. Free; it is the very same one."""
        return await self._run(_answer(digest))

    async def budget(self) -> BudgetReport:
        """What may still be spent: the analyst's own account, her organisation's, and those of capped tables."""
        return await self._run(_budget())

    async def charges(self, cursor: str | None = None, rows: int = 100) -> Charges:
        """What requests have cost, the latest first. `cursor` is the `next` of the page before."""
        return await self._run(_charges(cursor, rows))

    async def tables(self) -> Tables:
        """What may be asked about."""
        return await self._run(_tables())

    async def usage(
        self,
        since: date | str | None = None,
        until: date | str | None = None,
        budgets: Iterable[Budget] = (),
    ) -> dict[str, Any]:
        """For owners and auditors: spending by day, and who would run dry under `budgets` of (information, calls)."""
        return await self._run(_usage(since, until, budgets))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        _check_open(self._client)
        steps = exchange(call, self.url, self._retries)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Call):
                    step = steps.send(await self._sent(step))
                else:
                    await self._sleep(step)
                    step = next(steps)
        except StopIteration as done:
            read: T = done.value
            return read

    async def _sent(self, call: Call[Any]) -> ServiceReply | Lost:
        try:
            response = await self._client.send(self._request(self._client, call), stream=True)
            try:
                content = bytearray()
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > MAX_REPLY_BYTES:
                        break
            finally:
                await response.aclose()
        except self._http.RequestError as error:
            return self._lost(error)
        return ServiceReply(response.status_code, response.headers, bytes(content))


# -- the calls --


def _ask(request: RequestLike) -> Call[Answer]:
    # One key a call, the same on all its retries: the service answers, and charges, once.
    headers = {"Idempotency-Key": str(uuid4())}
    return Call("POST", "/v1/answers", Answer.from_dict, body=body_of(request), headers=headers, spends=True)


def _report(report: str | Mapping[str, Any] | None, **named: Any) -> Call[Report]:
    # Without a key: nothing is charged, and what is asked again is the same.
    return Call("POST", "/v1/reports", Report.from_dict, body=report_body(report, named))


def _estimate(request: RequestLike) -> Call[Estimate]:
    return Call("POST", "/v1/estimates", Estimate.from_dict, body=body_of(request))


def _answer(digest: str) -> Call[Answer]:
    if not isinstance(digest, str) or not re.fullmatch(r"[A-Za-z0-9:_-]{1,200}", digest):
        raise NotFound(find_problem_type("not-found").detail)
    return Call("GET", f"/v1/answers/{digest}", Answer.from_dict)


def _budget() -> Call[BudgetReport]:
    return Call("GET", "/v1/budget", BudgetReport.from_dict)


def _charges(cursor: str | None, rows: int) -> Call[Charges]:
    if not isinstance(cursor, str | None):
        raise InvalidArgument("cursor", "must be the `next` of the page before")
    page = {"cursor": cursor, "rows": str(whole("rows", rows, at_least=1, at_most=10_000))}
    return Call("GET", "/v1/budget/charges", Charges.from_dict, params=_given(page))


def _tables() -> Call[Tables]:
    return Call("GET", "/v1/tables", Tables.from_dict)


def _usage(since: date | str | None, until: date | str | None, budgets: Iterable[Budget]) -> Call[dict[str, Any]]:
    days = {"since": _day("since", since), "until": _day("until", until)}
    asked = tuple(("budget", _amounts(budget)) for budget in budgets)
    return Call("GET", "/v1/admin/usage", dict[str, Any], params=_given(days) + asked)


def _given(params: Mapping[str, str | None]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in params.items() if value is not None)


def _day(name: str, day: date | str | None) -> str | None:
    if day is None or isinstance(day, str):
        return day
    if not isinstance(day, date):
        raise InvalidArgument(name, "must be a date, such as 2026-11-15")
    return date(day.year, day.month, day.day).isoformat()


def _amounts(budget: Budget) -> str:
    """A budget as the service reads it: information,calls."""
    if isinstance(budget, str):
        return budget
    try:
        charge = budget if isinstance(budget, Charge) else Charge(*budget)
    except TypeError:
        raise InvalidArgument("budgets", "each is a pair of information and calls, such as (3000, 30)") from None
    return f"{charge.information},{charge.calls}"


# -- what a client is made of --


def _check_open(client: httpx2.Client | httpx2.AsyncClient) -> None:
    if client.is_closed:
        raise Failed("the client is closed; make a new one")


def _httpx2() -> ModuleType:
    try:
        import httpx2
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("the client needs: pip install 'sfumato[client]'") from missing
    return httpx2


def _address(url: str) -> str:
    """Where the service is, without a slash at the end."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except (AttributeError, TypeError, ValueError):
        raise InvalidArgument("url", f"must be an address, {_EXAMPLE}") from None
    if not isinstance(url, str) or not re.fullmatch(r"[!-~]+", url) or parts.scheme not in ("http", "https"):
        raise InvalidArgument("url", f"must begin with http:// or https://, {_EXAMPLE}")
    if not host:
        raise InvalidArgument("url", f"must name a host, {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise InvalidArgument("url", "must not hold a key; pass it as key=")
    if parts.path.rstrip("/").endswith("/v1"):
        raise InvalidArgument("url", f"must be the service's own address, without /v1, {_EXAMPLE}")
    if parts.query or parts.fragment:
        raise InvalidArgument("url", f"must end with the host or a path, {_EXAMPLE}")
    return url.rstrip("/?#")


def _key(key: str | None) -> str:
    """The key, which no message repeats."""
    found = os.environ.get(KEY_VARIABLE) if key is None else key
    if not found:
        raise InvalidArgument("key", f"is missing; pass key=, or set {KEY_VARIABLE}")
    if not isinstance(found, str) or not re.fullmatch(r"[!-~]{1,8192}", found):
        raise InvalidArgument("key", "must be visible characters, without spaces and line ends")
    return found


def _seconds(timeout_s: float) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < 1e6:
        raise InvalidArgument("timeout_s", "must be a number of seconds greater than zero")
    return float(timeout_s)
