"""Errors as problems (RFC 9457): one table from an error to its type, its status and its words.

The service and the command line write problems from this table, the SDK reads them with it, and
docs/reference/problems.md is generated from it. Over HTTP a problem says no more than its error, and about failures
less: the reason is in the operator's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from msgspec.structs import replace

from sfumato.accounting import Charge
from sfumato.errors import (
    BudgetExhausted,
    ConfigError,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    LedgerBusy,
    LedgerFailed,
    NotFound,
    NotSupported,
    RateLimited,
    Refused,
    SfumatoError,
    TableNotFound,
    Unauthorized,
)
from sfumato.wire.problem import Problem

PLACE = "/problems/"


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of problem: its name, which is the end of its `type`, what it means and what to do about it.

    With `detail`, every problem of this kind says only that over HTTP, whatever the error says.
    """

    name: str
    title: str
    status: int
    error: type[Exception]
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
        "range of a report was sealed again while its numbers were drawn. Send it again, with the same key, after "
        "`Retry-After` seconds: it is not charged twice.",
    ),
    ProblemType(
        *("key-reused", "Key reused", 422, Conflict),
        "This Idempotency-Key was sent before, with another body; or the job of a release was run before, with other "
        "parameters. Use a new key for every new call, and a new name for every new release.",
    ),
    ProblemType(
        *("unauthorized", "Unauthorized", 401, Unauthorized),
        "The call has no key that is valid now: it is missing, misspelt, expired, revoked, or of an analyst who is "
        "not in the configuration. Send `Authorization: Bearer <key>`.",
        "this needs a valid key: Authorization: Bearer <key>",
    ),
    ProblemType(
        *("not-found", "Not found", 404, NotFound),
        "There is no such thing, or it is not yours: the two get the same problem.",
        "there is no such thing, or it is not yours",
    ),
    ProblemType(
        *("table-not-found", "Table not found", 404, TableNotFound),
        "There is no table of this name, or you may not use it: the two get the same problem. Nothing was read and "
        "nothing was charged. The detail names the tables that you may use.",
    ),
    ProblemType(
        *("rate-limited", "Rate limited", 429, RateLimited),
        "More calls per minute than an analyst may make, too many calls in a queue, or more bytes of bodies than the "
        "service holds at a time. Nothing was charged; wait for `Retry-After` seconds.",
    ),
    ProblemType(
        *("invalid-argument", "Invalid argument", 400, InvalidArgument),
        "The call makes no sense: a body that is not JSON, or a parameter out of range. The detail names it.",
    ),
    ProblemType(
        *("too-large", "Too large", 413, InvalidArgument),
        "The body is longer than a question may be. Ask for ranges instead of lists.",
    ),
    ProblemType(
        *("method-not-allowed", "Method not allowed", 405, InvalidArgument),
        "The path exists, but not for this method. `Allow` lists the methods that it has.",
    ),
    ProblemType(
        *("engine-failed", "Engine failed", 503, EngineFailed),
        "The engine failed. The charge stays reserved: the same question, sent again, costs no more; a report costs "
        "nothing. The reason is never given, because it could depend on the rows.",
    ),
    ProblemType(
        *("ledger-busy", "Ledger busy", 503, LedgerBusy),
        "Another process has held the ledger or its fence for too long, or does not move. Nothing was answered. Send "
        "the same call again after `Retry-After` seconds: it is not charged twice.",
        "another process holds the ledger or its fence; nothing was answered. Send the same call again: it is not "
        "charged twice",
    ),
    ProblemType(
        *("ledger-failed", "Ledger failed", 503, LedgerFailed),
        "The ledger cannot be read, written or trusted, so nothing may be answered. The operator's log and "
        "`sfumato budget verify` say why. The same question, sent again, is not charged twice.",
        "the ledger cannot be used at this moment; nothing was answered, and asking again is not charged twice",
    ),
    ProblemType(
        *("failed", "Failed", 503, Failed),
        "The service could not answer. The same question, sent again, is not charged twice.",
        "the service could not answer; asking again is not charged twice",
    ),
)

COMMAND_LINE_TYPES = (
    ProblemType(
        *("configuration", "Configuration", 500, ConfigError),
        "A setting of `sfumato.toml`, or a `SFUMATO_*` variable, makes no sense. The detail names the setting and says "
        "what it must be. Exit code 2.",
    ),
    ProblemType(
        *("usage", "Usage", 400, InvalidArgument),
        "The command line makes no sense: an unknown command or option, or one that is missing. The detail names it; "
        "`--help` lists what there is. Exit code 2.",
    ),
    ProblemType(
        *("not-installed", "Not installed", 501, ModuleNotFoundError),
        "This command needs an extra that is not installed. The detail has the `pip install` to run. Exit code 2.",
    ),
)
"""Kinds that only the command line writes; they never travel over HTTP."""

_BY_NAME = {kind.name: kind for kind in (*PROBLEM_TYPES, *COMMAND_LINE_TYPES)}


def find_problem_type(name: str) -> ProblemType:
    """The kind of this name."""
    return _BY_NAME[name]


def problem_type(error: Exception, *, to_owner: bool = False) -> ProblemType:
    """The kind of an error; the most special one where several fit."""
    if isinstance(error, Conflict):
        return _BY_NAME["key-reused" if error.reused else "in-flight"]
    kinds = (*PROBLEM_TYPES, *COMMAND_LINE_TYPES) if to_owner else PROBLEM_TYPES
    fitting = (kind for above in type(error).__mro__ for kind in kinds if kind.error is above)
    return next(fitting, _BY_NAME["failed"])


def problem(error: Exception, kind: ProblemType | None = None, *, to_owner: bool = False) -> Problem:
    """An error as a problem.

    The owner, at the command line, gets the words of every error; callers over HTTP get the `detail` of its kind.
    """
    kind = kind or problem_type(error, to_owner=to_owner)
    detail = str(error) if to_owner else kind.detail or str(error)
    record = Problem(type=PLACE + kind.name, title=kind.title, status=kind.status, detail=detail)
    if not isinstance(error, BudgetExhausted):
        return record
    charges = {"asked": error.asked, "left": error.left}
    known = {name: charge for name, charge in charges.items() if isinstance(charge, Charge)}
    return replace(record, **known, resets=error.resets, instead=[dict(request) for request in error.instead])


def read_problem(serial: Mapping[str, Any]) -> SfumatoError:
    """The exception that a problem object from the service stands for: the one that embedded use raises."""
    name = str(serial.get("type", "")).removeprefix(PLACE)
    detail = str(serial.get("detail", "") or serial.get("title", "") or "the service could not answer")
    error = next((kind.error for kind in PROBLEM_TYPES if kind.name == name), None)
    if error is None or not issubclass(error, SfumatoError):
        return (Refused if 400 <= int(serial.get("status", 500)) < 500 else Failed)(detail)
    if error is BudgetExhausted:
        resets = serial.get("resets")
        return BudgetExhausted(
            Charge.from_dict(serial["asked"]),
            Charge.from_dict(serial["left"]),
            resets=None if resets is None else date.fromisoformat(resets),
            instead=serial.get("try", ()),
            words=detail,
        )
    if error is Conflict:
        return Conflict(detail, reused=name == "key-reused")
    if error is InvalidArgument:
        argument, _, words = detail.partition(": ")
        return InvalidArgument(argument, words) if words else InvalidArgument("call", detail)
    return error(detail)
