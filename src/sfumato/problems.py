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
    GoverningOff,
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
        "charged. The detail names what is wrong, and the nearest question that can be asked. Each request in `try` "
        "can be sent as it is. For SQL that cannot be read, `line` and `column` say where.",
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
        "nothing was charged. The detail names the tables that you may use. Each request in `try` can be sent as it "
        "is.",
    ),
    ProblemType(
        *("rate-limited", "Rate limited", 429, RateLimited),
        "More calls per minute than an analyst may make, too many calls in a queue, or more bytes of bodies than the "
        "service holds at a time. Nothing was charged; wait for `Retry-After` seconds.",
    ),
    ProblemType(
        *("invalid-argument", "Invalid argument", 400, InvalidArgument),
        "The call makes no sense: a body that is not JSON, or a parameter that is unknown or out of range. The detail "
        "names it.",
    ),
    ProblemType(
        *("not-acceptable", "Not acceptable", 406, InvalidArgument),
        "`Accept` allows none of the media types that an answer has. The detail lists them. Nothing was read and "
        "nothing was charged.",
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
        *("governing-off", "Governing over HTTP is off", 403, GoverningOff),
        "Keys and grants are made with the command line, `sfumato keys create` and `sfumato budget grant`. The owner "
        "can allow it over HTTP: `[console] govern = true`. Revoking a key always works.",
        "keys and grants are made with the command line: [console] govern is not true",
    ),
    ProblemType(
        *("misdirected", "Misdirected request", 421, InvalidArgument),
        "The request is for another host than this service has. Use the address that the owner gave. For the owner: "
        "`[service] origin` is how people reach the service behind its proxy, and the proxy must pass on `Host`.",
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
    has_own_words = to_owner or not kind.detail
    detail = str(error) if has_own_words else kind.detail
    record = Problem(type=PLACE + kind.name, title=kind.title, status=kind.status, detail=detail)
    if has_own_words:
        record = replace(record, **_handles(error))
    if isinstance(error, NotSupported) and error.at is not None:
        record = replace(record, line=error.at[0], column=error.at[1])
    if isinstance(error, NotSupported | TableNotFound) and error.instead:
        record = replace(record, instead=[dict(request) for request in error.instead])
    if not isinstance(error, BudgetExhausted):
        return record
    charges = {"asked": error.asked, "left": error.left}
    known = {name: charge for name, charge in charges.items() if isinstance(charge, Charge)}
    return replace(record, **known, resets=error.resets, instead=[dict(request) for request in error.instead])


def _handles(error: Exception) -> dict[str, str]:
    """What the words of an error name, as fields."""
    refused = (getattr(error, name, None) for name in ("argument", "field", "setting"))
    handles = {"argument": next(filter(None, refused), None), "nearest": getattr(error, "nearest", None)}
    return {name: value for name, value in handles.items() if value}


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
    argument, near = serial.get("argument"), serial.get("nearest")
    problem = detail.removeprefix(f"{argument}: ").removesuffix(f"; did you mean {near}?")
    if error is InvalidArgument:
        return InvalidArgument(argument or "call", problem, nearest=near)
    if error is NotSupported:
        at = (int(serial["line"]), int(serial["column"])) if {"line", "column"} <= serial.keys() else None
        return NotSupported(problem, argument or "", nearest=near, at=at, instead=serial.get("try", ()))
    found = error(detail)
    found.nearest = near
    if isinstance(found, TableNotFound):
        found.instead = tuple(serial.get("try", ()))
    return found
