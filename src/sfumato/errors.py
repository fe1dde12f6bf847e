"""Every exception Sfumato raises, in one tree.

    SfumatoError
    ├── InvalidArgument      a call that makes no sense; the message names the argument   (also a ValueError)
    ├── ConfigError          a configuration that makes no sense; the message names the setting
    ├── Refused              we will not answer; nothing was read and nothing was charged
    │   ├── NotSupported     the question has no private form here; the message names the nearest that has
    │   ├── BudgetExhausted  the charge does not fit what is left
    │   ├── Conflict         the same request is being answered, or its key was used for another
    │   ├── RateLimited      too many calls a minute; the message says how long to wait
    │   ├── Unauthorized     we do not know who asks
    │   └── NotFound         there is no such thing, or it is not the asker's
    │       └── TableNotFound    the question names a table that is not one of the asker's; the message names those
    └── Failed               we could not answer
        ├── EngineFailed     the engine did not deliver; where a charge was made, it stands
        └── LedgerFailed     the ledger cannot be trusted or written; nothing was answered
            ├── LedgerBusy       another process holds it; the same call can be made again
            └── LedgerSetBack    it does not continue what its fence saw: a copy was restored, or the fence is lost

Messages speak the caller's words and name the way out. They never carry a count, a key or any other
value that came from the data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

DAMAGED = (
    "the ledger is damaged: it holds what Sfumato does not write, so nothing was answered. Put the newest copy in "
    "place; `sfumato budget verify` says what is wrong with this one"
)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a refusal: the known name that was probably meant, if there is one."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class SfumatoError(Exception):
    """The root of the tree: `except SfumatoError` catches everything below."""


class InvalidArgument(SfumatoError, ValueError):
    """An argument the guarantee does not cover. `argument` is its name."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument, self.problem = argument, problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.argument, self.problem)


class ConfigError(SfumatoError):
    """A setting that makes no sense. `setting` is its place in the file, such as "tables.clicks.max_k"."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting, self.problem = setting, problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.setting, self.problem)


class Refused(SfumatoError):
    """We will not answer. Nothing was read and nothing was charged."""


class NotSupported(Refused):
    """The question has no private form here. The message names the nearest one that has.

    `field` is the part of the question that is refused, "" where it is no single one; `problem` is the message without
    it.
    """

    def __init__(self, problem: str, field: str = "") -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field, self.problem = field, problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.problem, self.field)


class BudgetExhausted(Refused):
    """The charge `asked` does not fit into what is `left` on `account` until it `resets`.

    `longest` is the length of the longest list that would fit, and `instead` are requests that would. `words` are
    those of a service's refusal.
    """

    def __init__(
        self,
        asked: object,
        left: object,
        account: str = "",
        resets: date | None = None,
        longest: int | None = None,
        instead: Sequence[Mapping[str, Any]] = (),
        words: str = "",
    ) -> None:
        self.asked, self.left, self.account, self.resets, self.longest = asked, left, account, resets, longest
        self.instead = tuple(instead)
        whose = f" of {account}" if account else ""
        ways = [f"a list of {longest} would fit"] if longest else []
        ways += [] if resets is None else [f"the next period begins on {resets.isoformat()}"]
        way_out = "; ".join(ways) or "the owner can grant more"
        super().__init__(words or f"this needs {asked}, and only {left}{whose} are left: {way_out}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        parts = self.asked, self.left, self.account, self.resets, self.longest, self.instead, str(self)
        return type(self), parts


class Conflict(Refused):
    """The same call is being answered at this moment, or its key was `reused` for another one."""

    def __init__(self, words: str, *, reused: bool = False) -> None:
        super().__init__(words)
        self.reused = reused

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),), {"reused": self.reused}


class RateLimited(Refused):
    """Too many calls: the next one is let in after `wait_s` seconds."""

    def __init__(self, words: str, wait_s: int = 1) -> None:
        super().__init__(words)
        self.wait_s = wait_s

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.wait_s)


class Unauthorized(Refused):
    """We do not know who asks."""


class NotFound(Refused):
    """There is no such thing, or it is not the asker's: the two look alike."""


class TableNotFound(NotFound):
    """The question names a `table` that does not exist, or that the asker may not use: the words are the same.

    The message names those that she may use.
    """

    def __init__(self, words: str, table: str = "") -> None:
        super().__init__(words)
        self.table = table

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.table)


class Failed(SfumatoError):
    """We could not answer, for a reason that is not the asker's. Where a charge was made, it stands."""


class EngineFailed(Failed):
    """The engine did not deliver. Where it could not be opened, `table` or `setting` names what is wrong."""

    def __init__(self, problem: str, *, table: str | None = None, setting: str | None = None) -> None:
        super().__init__(problem if table is None else f"table {table!r}: {problem}")
        self.problem, self.table, self.setting = problem, table, setting

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), table=self.table, setting=self.setting), (self.problem,)


class LedgerFailed(Failed):
    """The ledger cannot be trusted or written. Nothing was answered."""


class LedgerBusy(LedgerFailed):
    """Another process holds the ledger. The same call can be made again after `retry_after_s` seconds."""

    def __init__(self, words: str, retry_after_s: int = 5) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.retry_after_s)


class LedgerSetBack(LedgerFailed):
    """The ledger does not continue what its fence saw: a copy was restored, or the fence is lost."""
