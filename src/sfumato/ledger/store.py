"""The port of every store: transactions that exclude one another and are on disk when they end."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self, TypeAlias

from sfumato.errors import LedgerFailed, SfumatoError

Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]
"""run(sql, *values): the rows of one statement, with the values in place of its question marks."""

FAILED = "the ledger could not be read or written; nothing was answered. Asking again is not charged twice"
CLOSED = "the ledger is closed"
FORKED = "this ledger was opened before the process was forked; open it in the child"

NO_WORDS: Mapping[str, str] = {}


class Store(ABC):
    """The place of the books. It is made without touching disk or network; `open` does. Thread-safe.

    Guarantees: `writing` transactions happen one after the other, and each sees all before it. When the block ends they
    are on disk; if it raises, nothing of them is. `reading` sees one state. Failures are `LedgerFailed`, without the
    text of the database.
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
    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that may change the books."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Run]:
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

    def keep_service_lock(self) -> None:  # noqa: B027
        """Take the lock of a service again if it was lost. Raises `LedgerFailed` if that cannot be."""

    @abstractmethod
    def close(self) -> None:
        """Close all connections. A closed store refuses every call; closing twice is fine."""


@contextmanager
def translate_errors(
    kind: type[Exception], words: Mapping[str, str] = NO_WORDS, *, otherwise: str = ""
) -> Iterator[None]:
    """Raise `LedgerFailed` for errors of this kind, with their code and without their text.

    An operator can look the code up. `words` are better messages for some codes, `otherwise` is one for all others.
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
    if code:
        raise_bare(LedgerFailed(words.get(code) or otherwise or f"{FAILED} ({code})"))


def raise_bare(failure: Exception) -> NoReturn:
    """Raise without the error that a caller's `with` is handling: even `from None` would leave it in __context__."""
    try:
        raise failure
    finally:
        failure.__context__ = None
