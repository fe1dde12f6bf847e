"""What is sent, what a reply means and when to send again, without any input or output.

`exchange` is a generator: it yields a `Call` to be sent or a number of seconds to be waited, and is sent what came of
it. `sdk` drives it, once with threads and once with asyncio, so that both behave alike.
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

FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 30.0
MAX_REPLY_BYTES = 1 << 26
_TEMPORARY = {429, 502, 503, 504}
_RANDOM = SystemRandom()


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call of the interface. One that `spends` may be charged; its headers hold the key that makes repeats safe.

    `read` makes the record of a reply.
    """

    method: str
    path: str
    read: Callable[[Any], T]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    spends: bool = False


@dataclass(frozen=True, slots=True)
class ServiceReply:
    """A response, as much of it as was read: one byte more than the longest at most."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No response. `arrived` is false where the call cannot have reached the service."""

    why: str
    arrived: bool


Step: TypeAlias = "Call[Any] | float"
Outcome: TypeAlias = "ServiceReply | Lost | None"


def exchange(call: Call[T], url: str, retries: int) -> Generator[Step, Outcome, T]:
    """Send `call` until there is an answer or a refusal, `retries` times more at most."""
    arrived, error = False, SfumatoError()
    for attempt in range(retries + 1):
        outcome = yield call
        if isinstance(outcome, ServiceReply) and outcome.status == 200:
            return _read(call, url, outcome)
        if not isinstance(outcome, ServiceReply | Lost):
            raise TypeError("a call is followed by what came of it")
        error = _lost(outcome, url) if isinstance(outcome, Lost) else _told(outcome, url)
        arrived = arrived or _may_be_charged(outcome, error)
        if not _temporary(outcome, error):
            break
        if attempt < retries:
            yield _wait_s(attempt, outcome)
    raise _ending(call, error, arrived)


def _read(call: Call[T], url: str, reply: ServiceReply) -> T:
    try:
        return call.read(_object(reply))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise _ending(call, _foreign(reply, url), True) from None


def _object(reply: ServiceReply) -> dict[str, Any]:
    """The JSON object that a reply is; a ValueError, if it is none."""
    if len(reply.content) > MAX_REPLY_BYTES:
        raise ValueError
    try:
        read = json.loads(reply.content)
    except RecursionError:
        raise ValueError from None
    if not isinstance(read, dict):
        raise ValueError
    return read


def _told(reply: ServiceReply, url: str) -> SfumatoError:
    """The exception that a response other than an answer tells of."""
    if 300 <= reply.status < 400:
        place = reply.headers.get("location", "")[:200]
        return _Foreign(f"{url} redirects to {place!r}, where the key is not sent: use the service's own address")
    try:
        problem = _object(reply)
        if not str(problem["type"]).startswith(PLACE):
            return _foreign(reply, url)
        error = read_problem(problem)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return _foreign(reply, url)
    if isinstance(error, RateLimited):
        error.wait_s = int(_retry_after(reply) or 1)
    return error


class _Foreign(Failed):
    """Only between these functions: a reply that does not come from Sfumato."""


def _foreign(reply: ServiceReply, url: str) -> SfumatoError:
    if len(reply.content) > MAX_REPLY_BYTES:
        return _Foreign(f"{url} sent more than {MAX_REPLY_BYTES >> 20} MB, which no answer of Sfumato has")
    kind = reply.headers.get("content-type", "no type")[:60]
    return _Foreign(
        f"{url} replied with status {reply.status} and {kind!r}, which is not how Sfumato replies: "
        "is the address right, and is a proxy in between?"
    )


def _lost(lost: Lost, url: str) -> SfumatoError:
    return _Foreign(f"no reply from {url}: {lost.why}")


def _temporary(outcome: ServiceReply | Lost, error: SfumatoError) -> bool:
    """Worth another try. BudgetExhausted is not: waiting a moment does not help."""
    return isinstance(outcome, Lost) or outcome.status in _TEMPORARY or _busy(error)


def _busy(error: SfumatoError) -> bool:
    return isinstance(error, RateLimited) or (isinstance(error, Conflict) and not error.reused)


def _may_be_charged(outcome: ServiceReply | Lost, error: SfumatoError) -> bool:
    """Whether an attempt that came to nothing may have reached the ledger."""
    return outcome.arrived if isinstance(outcome, Lost) else not _busy(error)


def _ending(call: Call[T], error: SfumatoError, arrived: bool) -> SfumatoError:
    """The exception that the caller sees: a failure says whether the question may have been charged.

    "Too many calls" or "in flight" at the end, after an attempt that was lost, is no refusal: the first may have paid.
    """
    unsure = call.spends and arrived
    if not isinstance(error, _Foreign) and not (unsure and _busy(error)):
        return error
    if not unsure:
        return Failed(f"{error}; nothing was charged")
    return Failed(f"{error}; the question may have been charged, and asking the same question again costs nothing more")


def _wait_s(attempt: int, outcome: ServiceReply | Lost) -> float:
    """Twice as long every time, and not for everybody at once; at least what the service asks for."""
    backoff: float = FIRST_WAIT_S * 2**attempt * _RANDOM.uniform(0.5, 1)
    asked = _retry_after(outcome) if isinstance(outcome, ServiceReply) else None
    return min(max(backoff, asked or 0.0), LONGEST_WAIT_S)


def _retry_after(reply: ServiceReply) -> float | None:
    """Seconds, as the service writes them; a date, as a proxy may, is left to the backoff."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
