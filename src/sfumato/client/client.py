"""`Client`: the calls of `Session` over HTTP, for the analyst whose key it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from sfumato.client import calls
from sfumato.client.base import ClientBase
from sfumato.client.exchange import MAX_REPLY_BYTES, Call, Lost, ServiceReply, exchange

if TYPE_CHECKING:
    import httpx2

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(call: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that makes a call and waits for its record."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(call(*args, **kwargs))

    return calls.describe(method, call)


class Client(ClientBase):
    """A service, and one analyst's key to it. Thread-safe; a context manager.

        with sf.Client("http://127.0.0.1:8080", key="sfumato_...") as client:
            answer = client.ask("SELECT article, members FROM engagements GROUP BY article LIMIT 10")
            answer.rows, answer.receipt.left

    The calls, their records and their exceptions are those of `Session`, without `analyst`. Without `key` it is the
    one in the environment, as SFUMATO_KEY. A call that is lost, or that the service cannot answer at the moment, is
    sent again up to `retries` times. Every question has an idempotency key, so it is never charged twice.
    A key is sent over TLS (https://) or to this machine only, unless `allow_plain_http` is set. `timeout_s` is how long
    a connection, and then each part of the reply, may take. `transport` is one of httpx2.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60,
        retries: int = 3,
        allow_plain_http: bool = False,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(url, key, timeout_s, retries, allow_plain_http)
        self._sleep = sleep
        self._client = self._http.Client(transport=transport, **self._options())

    ask = _blocking(calls.ask)
    report = _blocking(calls.report)
    describe_report = _blocking(calls.describe_report)
    entities = _blocking(calls.entities)
    estimate = _blocking(calls.estimate)
    recall = _blocking(calls.recall)
    budget = _blocking(calls.budget)
    charges = _blocking(calls.charges)
    questions = _blocking(calls.questions)
    tables = _blocking(calls.tables)
    me = _blocking(calls.me)
    guarantee = _blocking(calls.guarantee)
    total_guarantee = _blocking(calls.total_guarantee)
    usage = _blocking(calls.usage)
    all_questions = _blocking(calls.all_questions)
    accounts = _blocking(calls.accounts)
    policy = _blocking(calls.policy)
    ledger_state = _blocking(calls.ledger_state)
    verify_ledger = _blocking(calls.verify_ledger)
    releases = _blocking(calls.releases)
    release = _blocking(calls.release)
    keys = _blocking(calls.keys)
    create_key = _blocking(calls.create_key)
    revoke_key = _blocking(calls.revoke_key)
    grant = _blocking(calls.grant)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, call: Call[T]) -> T:
        steps, outcome = exchange(call, self.url, self._retries), None
        try:
            while True:
                step = steps.send(outcome)
                outcome = self._send(step) if isinstance(step, Call) else self._sleep(step)
        except StopIteration as done:
            record: T = done.value
            return record

    def _send(self, call: Call[Any]) -> ServiceReply | Lost:
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
            return self._describe_loss(error)
        return ServiceReply(response.status_code, response.headers, bytes(content))
