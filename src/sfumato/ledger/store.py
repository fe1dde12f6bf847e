"""The port of every store: transactions, one after the other, that are on disk when they end."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn, TypeAlias, TypeVar

from sfumato.errors import LedgerFailed, SfumatoError

T = TypeVar("T")

Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""run(sql, *values): the rows of one statement, its values in place of question marks."""

COULD_NOT_WRITE = "the ledger could not be read or written; nothing was answered. Asking again is not charged twice"
BUSY = (
    "another process has held the ledger for a minute; nothing was answered or changed. End it, or try again "
    "(SQLITE_BUSY)"
)

CLOSED = "the ledger is closed"
FORKED = "this ledger was opened before the process was forked; open it in the child"


class Store(ABC):
    """Where the books are kept. Any number of threads and processes may use one store.

    Guarantees: `writing` transactions happen one after the other, each seeing all of those before it; when the block
    ends they are on disk, and if it raises, nothing of them is. `reading` sees one state of the books.
    Failures are `LedgerFailed`, without the store's own text. `place` says where the books are, without any secret.
    """

    place: str

    @abstractmethod
    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that may change the books."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Run]:
        """A transaction that looks at one state of the books."""

    def stamp(self) -> Hashable | None:
        """What every commit of any process changes, for next to nothing; None where a store cannot tell."""
        return None

    @abstractmethod
    def has_books(self, run: Run) -> bool:
        """Whether the first migration has been run."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every connection. A closed store refuses; closing twice is fine."""


@contextmanager
def told(kind: type[Exception]) -> Iterator[None]:
    """A store's own failures of this kind, told in our words."""
    failed = ""
    try:
        yield
    except SfumatoError:
        raise
    except kind as error:
        failed = _class_of(error)
    if failed:
        raise_bare(LedgerFailed(BUSY if failed == "SQLITE_BUSY" else f"{COULD_NOT_WRITE} ({failed})"))


def _class_of(error: Exception) -> str:
    """What an operator looks up: the code of a failure, without its text."""
    code = getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None)
    name = errno.errorcode.get(getattr(error, "errno", None) or 0)
    return str(code or name or type(error).__name__)


def raise_bare(failure: Exception) -> NoReturn:
    """Raise without the error that a caller's `with` is handling: even `from None` would leave it in __context__."""
    try:
        raise failure
    finally:
        failure.__context__ = None
