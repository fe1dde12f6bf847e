"""One disk sync for everybody who waits for one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sfumato.errors import LedgerFailed

LOST = "the ledger could not write what this request changed; nothing was answered. Asking again is not charged twice"


class Batch:
    """What goes to disk together. Until it is known to be there it has failed, whatever stops the one who writes."""

    def __init__(self) -> None:
        self.done = False
        self._failure = LOST
        self._turn = threading.Lock()
        self._over = threading.Event()

    def end(self, failure: str = "") -> None:
        """It is on disk, or nothing of it will ever be."""
        self._failure, self.done = failure, True
        self._over.set()

    def wait(self, patience_s: float) -> None:
        """Until somebody ends it, but not for ever."""
        if not self.done:
            self._over.wait(patience_s)

    def once(self, work: Callable[[], None]) -> None:
        """Do the work that ends it; whoever comes first does it for all."""
        with self._turn:
            if not self.done:
                work()

    def check(self) -> None:
        """The same failure for everybody, each in an exception of its own."""
        if self._failure:
            raise LedgerFailed(self._failure)
