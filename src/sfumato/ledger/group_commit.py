"""Group commit: several threads share one disk sync."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sfumato.errors import LedgerFailed

LOST = "the ledger could not write what this request changed; nothing was answered. Asking again is not charged twice"


@dataclass(eq=False)
class Batch:
    """What goes to disk together. It counts as failed until it is known to be on disk."""

    done: bool = field(init=False, default=False)
    _failure: LedgerFailed | None = field(init=False, default=None)
    _over: threading.Event = field(init=False, default_factory=threading.Event)

    def end(self, failure: LedgerFailed | None = None) -> None:
        """The batch is on disk; with a `failure`, nothing of it is."""
        self._failure = failure and failure.with_traceback(None)  # its frames are not kept alive
        self.done = True
        self._over.set()

    def wait(self, patience_s: float) -> None:
        """Wait until the batch ends, at most `patience_s` seconds."""
        self._over.wait(patience_s)

    def check(self) -> None:
        """Raise the failure, if there is one: a new exception per thread, because each gets its own traceback."""
        if not self.done:
            raise LedgerFailed(LOST)
        if self._failure is not None:
            raise type(self._failure)(*self._failure.args)
