"""`AsyncClient`: `Client` for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from sfumato.client import calls
from sfumato.client.base import ClientBase
from sfumato.client.exchange import MAX_REPLY_BYTES, Call, Lost, ServiceReply, exchange

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
T = TypeVar("T")


def _awaiting(call: Callable[P, Call[T]]) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """The coroutine that makes a call and awaits its record."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(call(*args, **kwargs))

    return calls.describe(method, call)


class AsyncClient(ClientBase):
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
        allow_plain_http: bool = False,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(url, key, timeout_s, retries, allow_plain_http)
        self._sleep: Callable[[float], Awaitable[object]] = sleep or _sleep
        self._client = self._http.AsyncClient(transport=transport, **self._options())

    ask = _awaiting(calls.ask)
    report = _awaiting(calls.report)
    describe_report = _awaiting(calls.describe_report)
    entities = _awaiting(calls.entities)
    estimate = _awaiting(calls.estimate)
    recall = _awaiting(calls.recall)
    budget = _awaiting(calls.budget)
    charges = _awaiting(calls.charges)
    questions = _awaiting(calls.questions)
    tables = _awaiting(calls.tables)
    me = _awaiting(calls.me)
    guarantee = _awaiting(calls.guarantee)
    total_guarantee = _awaiting(calls.total_guarantee)
    usage = _awaiting(calls.usage)
    all_questions = _awaiting(calls.all_questions)
    accounts = _awaiting(calls.accounts)
    policy = _awaiting(calls.policy)
    ledger_state = _awaiting(calls.ledger_state)
    verify_ledger = _awaiting(calls.verify_ledger)
    releases = _awaiting(calls.releases)
    release = _awaiting(calls.release)
    keys = _awaiting(calls.keys)
    create_key = _awaiting(calls.create_key)
    revoke_key = _awaiting(calls.revoke_key)
    grant = _awaiting(calls.grant)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        steps, outcome = exchange(call, self.url, self._retries), None
        try:
            while True:
                step = steps.send(outcome)
                outcome = await (self._send(step) if isinstance(step, Call) else self._sleep(step))
        except StopIteration as done:
            record: T = done.value
            return record

    async def _send(self, call: Call[Any]) -> ServiceReply | Lost:
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
            return self._describe_loss(error)
        return ServiceReply(response.status_code, response.headers, bytes(content))


async def _sleep(seconds: float) -> None:
    from asyncio import sleep  # takes longer to import than all of the client

    await sleep(seconds)
