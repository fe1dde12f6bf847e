"""One call of the HTTP interface: when to send it again, and what a reply means. Without input or output.

`exchange` is a generator. It yields a `Call` to be sent, and is sent its outcome; or it yields a number of seconds to
wait. `Client` drives it with threads and `AsyncClient` with asyncio, so both behave alike. Why there is no library for
retries here: docs/adr/0011-retries.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from secrets import SystemRandom
from typing import Any, Generic, TypeAlias, TypeVar

from sfumato.errors import Conflict, Failed, RateLimited, SfumatoError
from sfumato.problems import PLACE, read_problem

T = TypeVar("T")

FIRST_WAIT_S, MAX_WAIT_S = 0.25, 30.0
MAX_REPLY_BYTES = 1 << 26
_DONE = {200, 202}
_TEMPORARY = {429, 502, 503, 504}
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_RANDOM = SystemRandom()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of the interface. `read` makes the record of a reply.

    A call that `spends` may be charged, and one that `changes` changes keys or accounts; the headers of both hold the
    idempotency key that makes repeats safe.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    spends: bool = False
    changes: bool = False


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """A response. Of its content at most one byte more than `MAX_REPLY_BYTES` was read."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No response. `arrived` is false where the call cannot have reached the service."""

    why: str
    arrived: bool


class _NotSfumato(Failed):
    """No reply, or one that Sfumato does not send. Leaves this module as a plain `Failed`."""


ExchangeStep: TypeAlias = "Call[Any] | float"


def exchange(call: Call[T], url: str, retries: int) -> Generator[ExchangeStep, Any, T]:
    """Send `call` until there is an answer or a refusal, at most `retries` times more."""
    arrived, error = False, SfumatoError()
    for attempt in range(retries + 1):
        outcome: ServiceReply | Lost = yield call
        if isinstance(outcome, Lost):
            error, temporary = _NotSfumato(f"no reply from {url}: {outcome.why}"), True
            arrived = arrived or outcome.arrived
        elif outcome.status in _DONE:
            try:
                return call.read(_json_object(outcome))
            except _UNREADABLE:
                raise _final(call, _not_sfumato(outcome, url), arrived=True) from None
        else:
            error = _error(outcome, url)
            # BudgetExhausted (403) is not temporary: a moment later it is the same.
            temporary = outcome.status in _TEMPORARY or _is_busy(error)
            arrived = arrived or not _is_busy(error)
        if not temporary:
            break
        if attempt < retries:
            yield _wait_s(attempt, outcome)
    raise _final(call, error, arrived)


def _json_object(reply: ServiceReply) -> dict[str, Any]:
    """The JSON object in a reply; a ValueError where there is none."""
    if len(reply.content) > MAX_REPLY_BYTES:
        raise ValueError
    try:
        read = json.loads(reply.content)
    except RecursionError:
        raise ValueError from None
    if not isinstance(read, dict):
        raise ValueError
    return read


def _error(reply: ServiceReply, url: str) -> SfumatoError:
    """The exception for a response that is no success."""
    if 300 <= reply.status < 400:
        place = reply.headers.get("location", "")[:200]
        return _NotSfumato(f"{url} redirects to {place!r}, where the key is not sent: use the service's own address")
    try:
        problem = _json_object(reply)
        if not str(problem["type"]).startswith(PLACE):
            return _not_sfumato(reply, url)
        error = read_problem(problem)
    except _UNREADABLE:
        return _not_sfumato(reply, url)
    if isinstance(error, RateLimited):
        error.wait_s = int(_retry_after_s(reply) or 1)
    return error


def _not_sfumato(reply: ServiceReply, url: str) -> SfumatoError:
    if len(reply.content) > MAX_REPLY_BYTES:
        return _NotSfumato(f"{url} sent more than {MAX_REPLY_BYTES >> 20} MB, which no answer of Sfumato has")
    kind = reply.headers.get("content-type", "no type")[:60]
    return _NotSfumato(
        f"{url} replied with status {reply.status} and {kind!r}, which is not how Sfumato replies: "
        "is the address right, and is a proxy in between?"
    )


def _is_busy(error: SfumatoError) -> bool:
    """Whether the service refused the attempt before it reached the ledger, and asks to send it again."""
    return isinstance(error, RateLimited) or (isinstance(error, Conflict) and not error.reused)


def _final(call: Call[T], error: SfumatoError, arrived: bool) -> SfumatoError:
    """The exception that the caller gets. A failure says whether the question may have been charged.

    Where an earlier attempt was lost, "too many calls" at the end is no refusal: the lost one may have been charged.
    """
    unsure = (call.spends or call.changes) and arrived
    if not isinstance(error, _NotSfumato) and not (unsure and _is_busy(error)):
        return error
    if not unsure:
        return Failed(f"{error}; nothing was {'changed' if call.changes else 'charged'}")
    if call.changes:
        return Failed(f"{error}; it may have been done: look before you do it again")
    return Failed(f"{error}; the question may have been charged, and asking the same question again costs nothing more")


def _wait_s(attempt: int, outcome: ServiceReply | Lost) -> float:
    """Exponential backoff with jitter; at least what the service asks for."""
    backoff: float = FIRST_WAIT_S * 2**attempt * _RANDOM.uniform(0.5, 1)
    asked = _retry_after_s(outcome) if isinstance(outcome, ServiceReply) else None
    return min(max(backoff, asked or 0.0), MAX_WAIT_S)


def _retry_after_s(reply: ServiceReply) -> float | None:
    """Retry-After in seconds, as the service writes it. A date, as a proxy may write it, is left to the backoff."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
