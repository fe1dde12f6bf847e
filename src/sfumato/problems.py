"""Errors as problems (RFC 9457): one table from an error to its type, its status and its words.

The service and the command line write problems by it, the SDK reads them by it, and docs/reference/problems.md is
written from it. A problem says nothing that its error does not say, and of failures less: what went wrong inside is
for the operator's log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sfumato.accounting import Charge
from sfumato.errors import (
    BudgetExhausted,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    LedgerFailed,
    NotFound,
    NotSupported,
    RateLimited,
    Refused,
    SfumatoError,
    Unauthorized,
)

PLACE = "/problems/"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem: its name, which is the end of its `type`, what it means and what to do about it.

    With `detail`, every problem of the kind says just that, whatever the error says.
    """

    name: str
    title: str
    status: int
    error: type[SfumatoError]
    meaning: str
    detail: str = ""


PROBLEM_TYPES = (
    ProblemType(
        *("not-supported", "Not supported", 422, NotSupported),
        "The question has no private form here, or it breaks the table's policy. Nothing was read and nothing was "
        "charged. The detail names what is wrong, and the nearest question that can be asked.",
    ),
    ProblemType(
        *("budget-exhausted", "Budget exhausted", 403, BudgetExhausted),
        "The question costs more than is left on one of the accounts that pay for it. Nothing was read and nothing "
        "was charged. `asked` and `left` are exact; `resets` is when the next period begins; each request in `try` "
        "would fit now. Waiting a moment does not help, so this is no 429.",
    ),
    ProblemType(
        *("in-flight", "In flight", 409, Conflict),
        "A call with this Idempotency-Key began at the same moment, and the data got a new version in between; or the "
        "range of a report was sealed anew while its numbers were drawn. Send it again, with the same key, after "
        "`Retry-After` seconds: it will not be charged twice.",
    ),
    ProblemType(
        *("key-reused", "Key reused", 422, Conflict),
        "This Idempotency-Key was sent before, with another body. Use a new key for every new call.",
    ),
    ProblemType(
        *("unauthorized", "Unauthorized", 401, Unauthorized),
        "The call has no key that is valid now: it is missing, misspelt, expired, revoked, or of an analyst who is "
        "not in the configuration. Send `Authorization: Bearer <key>`.",
        "this needs a valid key: Authorization: Bearer <key>",
    ),
    ProblemType(
        *("not-found", "Not found", 404, NotFound),
        "There is no such thing, or it is not yours: the two look alike.",
        "there is no such thing, or it is not yours",
    ),
    ProblemType(
        *("rate-limited", "Rate limited", 429, RateLimited),
        "More calls a minute than an analyst may make. Nothing was charged; wait for `Retry-After` seconds.",
    ),
    ProblemType(
        *("invalid-argument", "Invalid argument", 400, InvalidArgument),
        "The call itself makes no sense: a body that is not JSON, a parameter out of range. The detail names it.",
    ),
    ProblemType(
        *("too-large", "Too large", 413, InvalidArgument),
        "The body is longer than a question can be. Ask for ranges instead of lists.",
    ),
    ProblemType(
        *("method-not-allowed", "Method not allowed", 405, InvalidArgument),
        "There is such a path, but not for this method. `Allow` lists those that there are.",
    ),
    ProblemType(
        *("engine-failed", "Engine failed", 503, EngineFailed),
        "The engine did not deliver. The charge stands, and the reservation with it: send the same question again, "
        "and it costs no more; a report costs nothing. The reason is never told, because it could depend on the rows.",
    ),
    ProblemType(
        *("ledger-failed", "Ledger failed", 503, LedgerFailed),
        "The ledger cannot be read, written or trusted, so that nothing may leave. The operator's log and "
        "`sfumato budget verify` say why. Sending the same question again is not charged twice.",
        "the ledger cannot be used at this moment; nothing was answered, and asking again is not charged twice",
    ),
    ProblemType(
        *("failed", "Failed", 503, Failed),
        "The service could not answer. Sending the same question again is not charged twice.",
        "the service could not answer; asking again is not charged twice",
    ),
)

_BY_NAME = {kind.name: kind for kind in PROBLEM_TYPES}


def named(name: str) -> ProblemType:
    return _BY_NAME[name]


def problem_type(error: SfumatoError) -> ProblemType:
    """The kind of an error; the most special one, where several fit."""
    if isinstance(error, Conflict):
        return named("key-reused" if error.reused else "in-flight")
    fitting = (kind for above in type(error).__mro__ for kind in PROBLEM_TYPES if kind.error is above)
    return next(fitting, named("failed"))


def problem(error: SfumatoError, kind: ProblemType | None = None) -> dict[str, Any]:
    """An error as an object for outsiders."""
    kind = kind or problem_type(error)
    told = {"type": PLACE + kind.name, "title": kind.title, "status": kind.status, "detail": kind.detail or str(error)}
    return told | amounts(error) if isinstance(error, BudgetExhausted) else told


def amounts(error: BudgetExhausted) -> dict[str, Any]:
    """What was asked, what is left until when, and which smaller questions would fit."""
    charges = {"asked": error.asked, "left": error.left}
    told: dict[str, Any] = {name: amount.to_dict() for name, amount in charges.items() if isinstance(amount, Charge)}
    told["resets"] = None if error.resets is None else error.resets.isoformat()
    return told | {"try": [dict(request) for request in error.instead]}


def error_of(serial: Mapping[str, Any]) -> SfumatoError:
    """The exception that a problem tells of, as embedded use would raise it."""
    name = str(serial.get("type", "")).removeprefix(PLACE)
    detail = str(serial.get("detail", "") or serial.get("title", "") or "the service could not answer")
    kind = _BY_NAME.get(name)
    if kind is None:
        return (Refused if 400 <= int(serial.get("status", 500)) < 500 else Failed)(detail)
    if kind.error is BudgetExhausted:
        return _exhausted(serial, detail)
    if kind.error is Conflict:
        return Conflict(detail, reused=kind.name == "key-reused")
    if kind.error is InvalidArgument:
        argument, _, words = detail.partition(": ")
        return InvalidArgument(argument, words) if words else InvalidArgument("call", detail)
    return kind.error(detail)


def _exhausted(serial: Mapping[str, Any], detail: str) -> BudgetExhausted:
    instead: Sequence[Mapping[str, Any]] = serial.get("try", ())
    resets = serial.get("resets")
    return BudgetExhausted(
        Charge.from_dict(serial["asked"]),
        Charge.from_dict(serial["left"]),
        resets=None if resets is None else date.fromisoformat(resets),
        instead=instead,
        words=detail,
    )
