"""Every exception Sfumato raises, in one tree.

    SfumatoError
    ├── InvalidArgument      a call that makes no sense; the message names the argument   (also a ValueError)
    ├── ConfigError          a configuration that makes no sense; the message names the setting
    │   └── NeedsRestart     a setting has changed that is read only when the service starts
    ├── Refused              we will not answer; nothing was read and nothing was charged
    │   ├── NotSupported     the question has no private form here; the message names the nearest that has
    │   ├── BudgetExhausted  the charge does not fit what is left
    │   ├── Conflict         the same request is being answered, or its key was used for another
    │   ├── RateLimited      too many calls per minute; the message says how long to wait
    │   ├── Unauthorized     we do not know who asks
    │   ├── GoverningOff     the configuration does not allow to make keys and grants over HTTP
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
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

DAMAGED = (
    "the ledger is damaged: it holds what Sfumato does not write, so nothing was answered. Put the newest copy in "
    "place; `sfumato budget verify` says what is wrong with this one"
)


def find_nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if there is one; where none is near, in any case."""
    if not isinstance(name, str):
        return None
    names = list(known)
    folded = {each.casefold(): each for each in names}
    near = difflib.get_close_matches(name, names, n=1)
    near += [folded[each] for each in difflib.get_close_matches(name.casefold(), folded, n=1)]
    return near[0] if near else None


class SfumatoError(Exception):
    """The root of the tree: `except SfumatoError` catches everything below.

    `nearest` is the name that was probably meant, where a name is unknown: the message ends with it.
    """

    def __init__(self, words: str = "", *, nearest: str | None = None) -> None:
        super().__init__(f"{words}; did you mean {nearest}?" if nearest else words)
        self.nearest = nearest

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the way through the caller's own code, and the message. IPython calls it."""
        frames = [
            (frame, line)
            for frame, line in traceback.walk_tb(self.__traceback__)
            if str(frame.f_globals.get("__name__")).partition(".")[0] != "IPython"
        ]
        ours = (str(frame.f_globals.get("__name__")).partition(".")[0] == "sfumato" for frame, _ in frames)
        caller = frames[: next((place for place, is_ours in enumerate(ours) if is_ours), None)]
        way = traceback.StackSummary.extract(iter(caller), capture_locals=False).format()
        return [*(line.rstrip("\n") for line in way), f"{type(self).__name__}: {self}"]


class InvalidArgument(SfumatoError, ValueError):
    """An argument the guarantee does not cover. `argument` is its name."""

    def __init__(self, argument: str, problem: str, *, nearest: str | None = None) -> None:
        super().__init__(f"{argument}: {problem}", nearest=nearest)
        self.argument, self.problem = argument, problem

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), nearest=self.nearest), (self.argument, self.problem)


class ConfigError(SfumatoError):
    """A setting that makes no sense. `setting` is its place in the file, such as "tables.clicks.max_k".

    `at` is the line and the column where a file stops being TOML.
    """

    def __init__(
        self, setting: str, problem: str, *, nearest: str | None = None, at: tuple[int, int] | None = None
    ) -> None:
        super().__init__(f"{setting}: {problem}", nearest=nearest)
        self.setting, self.problem, self.at = setting, problem, at

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), nearest=self.nearest, at=self.at), (self.setting, self.problem)


class NeedsRestart(ConfigError):
    """A setting that has changed while the service runs, and that is read only when it starts."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting, "has changed, and is read only when the service starts: restart it")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.setting,)


class Refused(SfumatoError):
    """We will not answer. Nothing was read and nothing was charged."""


class NotSupported(Refused):
    """The question has no private form here. The message names the nearest one that has.

    `field` is the part of the question that is refused, "" where it is no single one; `problem` is the message without
    it. `unknown` is the name that `nearest` may stand for, `longest` the longest list where a longer one was asked for,
    `group_by` columns by which SQL has to group, and `at` the line and the column of SQL that cannot be read, each from
    1 on. `instead` are requests to send.
    """

    def __init__(
        self,
        problem: str,
        field: str = "",
        *,
        nearest: str | None = None,
        unknown: str = "",
        longest: int | None = None,
        group_by: Sequence[str] = (),
        at: tuple[int, int] | None = None,
        instead: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(f"{field}: {problem}" if field else problem, nearest=nearest)
        self.field, self.problem = field, problem
        self.unknown, self.longest, self.group_by, self.at = unknown, longest, tuple(group_by), at
        self.instead = tuple(instead)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in ("unknown", "longest", "group_by", "at", "instead")}
        return partial(type(self), nearest=self.nearest), (self.problem, self.field), state


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


class GoverningOff(Refused):
    """Keys and grants are made by the command line: the configuration does not allow it over HTTP."""


class NotFound(Refused):
    """There is no such thing, or it is not the asker's: the two look alike."""


class TableNotFound(NotFound):
    """The question names a `table` that does not exist, or that the asker may not use: the words are the same.

    The message names those that she may use. `instead` are requests to send.
    """

    def __init__(
        self,
        words: str,
        table: str = "",
        *,
        nearest: str | None = None,
        instead: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(words, nearest=nearest)
        self.table, self.instead = table, tuple(instead)


class Failed(SfumatoError):
    """We could not answer, for a reason that is not the asker's. Where a charge was made, it stands."""


class EngineFailed(Failed):
    """The engine did not deliver. Where it could not be opened, `table` or `setting` names what is wrong."""

    def __init__(
        self, problem: str, *, table: str | None = None, setting: str | None = None, nearest: str | None = None
    ) -> None:
        super().__init__(problem if table is None else f"table {table!r}: {problem}", nearest=nearest)
        self.problem, self.table, self.setting = problem, table, setting

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), table=self.table, setting=self.setting, nearest=self.nearest), (self.problem,)


class LedgerFailed(Failed):
    """The ledger cannot be trusted or written. Nothing was answered."""


class LedgerBusy(LedgerFailed):
    """Another process holds the ledger. The same call can be made again after `retry_after_s` seconds.

    `is_stuck` is False if other calls of this process went on meanwhile: the ledger is then in heavy use, not stuck.
    """

    is_stuck = True

    def __init__(self, words: str, retry_after_s: int = 5) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.retry_after_s)


class LedgerSetBack(LedgerFailed):
    """The ledger does not continue what its fence saw: a copy was restored, or the fence is lost."""
