"""The port of every store: transactions that exclude one another and are on disk when they end."""

from __future__ import annotations

import errno
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

from sfumato.errors import DAMAGED, LedgerBusy, LedgerFailed, SfumatoError

Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""run(sql, *values): the rows of one statement, with the values in place of its question marks."""

FAILED = "the ledger could not be read or written; nothing was answered. Asking again is not charged twice"
CLOSED = "the ledger is closed"
FORKED = "this ledger was opened before the process was forked; open it in the child"

BUSY = (
    "another process holds the ledger; nothing was answered. What was reserved stays reserved and is not charged "
    "twice: try again in a few seconds"
)

Work: TypeAlias = Literal["question", "probe", "upkeep", "fence"]
"""What is done. Upkeep is what owners run, such as `verify`: it may take long. The fence has no transaction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a transaction waits for others in all, how long a statement runs, how long it may stand still.

    A server ends a writing transaction that stands still: its process may be frozen, and all others wait for it.
    """

    wait_s: float
    run_s: float
    pause_s: float


LIMITS: dict[Work, Limits] = {
    "question": Limits(wait_s=8, run_s=8, pause_s=6),
    "probe": Limits(wait_s=2, run_s=2, pause_s=6),
    "upkeep": Limits(wait_s=8, run_s=1800, pause_s=10),
    "fence": Limits(wait_s=5, run_s=5, pause_s=5),
}


UNREADABLE: tuple[type[Exception], ...] = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError),
)
"""What code raises when it reads a stored value that Sfumato does not write.

A fault in our own code raises the same. So tests empty this tuple (tests/conftest.py), and the message names the line.
"""

_SOURCE = Path(__file__).parents[1]
# Of SQLite, with all that begin like them (SQLITE_ERROR: a table or a column is missing; words that are not UTF-8 name
# a part of the schema). Then those of PostgreSQL: a damaged page or index, a missing table or column; a lock not given
# in time, a statement that ran for too long.
_DAMAGED_CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "Unicode", "XX001", "XX002", "42P01", "42703")
NO_REPLY = "ConnectionTimeout"  # psycopg's, without a code: a server that stands still
_BUSY_CODES = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL", "55P03", "57014")


class Store(ABC):
    """The place of the books. It is made without touching disk or network; `open` does. Thread-safe.

    Guarantees: `writing` transactions happen one after the other, and each sees all before it. When the block ends they
    are on disk; if it raises, nothing of them is. `reading` sees one state. Failures are `LedgerFailed`, without the
    text of the database. No wait for others is longer than the `LIMITS` of the work: then it is `LedgerBusy`.
    """

    name: ClassVar[str]  # of the database, for messages
    shared: ClassVar[bool]  # whether several services may use one store at the same time
    folder: Path | None = None  # the folder that a backup of the books would copy, if they are in a file

    @classmethod
    @abstractmethod
    def at(cls, url: str, folder: Path) -> Self:
        """The store that a `ledger.url` names. Relative paths start at `folder`."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the books are, without any secret. Two stores with the same books have the same place."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there are books already. Creates nothing."""

    @abstractmethod
    def open(self) -> None:
        """Connect. Create the place of the books, if there is none."""

    @abstractmethod
    def writing(self, work: Work = "question") -> AbstractContextManager[Run]:
        """A transaction that may change the books."""

    @abstractmethod
    def reading(self, work: Work = "question") -> AbstractContextManager[Run]:
        """A transaction that sees one state of the books."""

    def stamp(self) -> Hashable | None:
        """A value that every commit of any process changes; None if the store cannot tell cheaply."""
        return None

    @abstractmethod
    def has_books(self, run: Run) -> bool:
        """Whether the first migration has been run."""

    def lock_service(self, fence: Callable[[], str]) -> None:  # noqa: B027  without a service there is no lock
        """Be a service of this store until it is closed. Raises `ConfigError` if another service excludes this one.

        Where the store is not `shared`, any other does; otherwise one whose fence has another identity.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections. A closed store refuses every call; closing twice is fine."""


class Progress:
    """Tells a stuck ledger from one in heavy use: counts the transactions of this process that began."""

    def __init__(self) -> None:
        self._count = 0

    @contextmanager
    def enter(self, transaction: AbstractContextManager[Run]) -> Iterator[Run]:
        """Enter a transaction. `LedgerBusy` that leaves it is no sign of a stuck ledger if another began meanwhile."""
        before = self._count
        try:
            with transaction as run:
                before = self._count = self._count + 1
                yield run
        except LedgerBusy as busy:
            busy.is_stuck = self._count == before
            raise


def deadline(work: Work) -> float:
    """The moment of the monotonic clock until which a transaction that begins now may wait."""
    return time.monotonic() + LIMITS[work].wait_s


@contextmanager
def hold_lock(lock: threading.Lock | threading.Semaphore, end: float, words: str = BUSY) -> Iterator[None]:
    """Hold a lock. Raises `LedgerBusy` if it is not free at the moment `end`."""
    if not lock.acquire(timeout=max(0.0, end - time.monotonic())):
        raise LedgerBusy(words)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def translate_errors(kind: type[Exception], words: str = FAILED) -> Iterator[None]:
    """Raise `LedgerFailed` for errors of this kind, with their code and without their text.

    An operator can look the code up, such as ENOSPC for a full disk.
    """
    code = ""
    try:
        yield
    except SfumatoError:
        raise
    except kind as error:
        given = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
        name = errno.errorcode.get(getattr(error, "errno", None) or 0)
        code = str(given or name or type(error).__name__)
    if code.startswith(_BUSY_CODES):
        raise_bare(LedgerBusy(f"{BUSY} ({code})"))
    if code == NO_REPLY:
        raise_bare(LedgerBusy(f"{words} ({code})"))
    if code.startswith(_DAMAGED_CODES):
        raise_bare(LedgerFailed(f"{DAMAGED} ({code})"))
    if code:
        raise_bare(LedgerFailed(f"{words} ({code})"))


@contextmanager
def translate_damage() -> Iterator[None]:
    """Raise `LedgerFailed` for a stored value that cannot be read. It names the line that read it, not the value."""
    where = ""
    try:
        yield
    except UNREADABLE as error:
        lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        own = [(Path(file), line) for file, line in lines if Path(file).is_relative_to(_SOURCE)]
        where = " ".join([type(error).__name__, *[f"{file.name}:{line}" for file, line in own[-1:]]])
    if where:
        raise_bare(LedgerFailed(f"{DAMAGED} ({where})"))


def raise_bare(failure: Exception) -> NoReturn:
    """Raise without the error that a caller's `with` is handling: even `from None` would leave it in __context__."""
    try:
        raise failure
    finally:
        failure.__context__ = None
