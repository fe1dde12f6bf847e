"""Requests that a dead process left behind are finished by the living, beside what they do."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta

from sfumato.ledger import Reservation
from sfumato.service.telemetry import where
from sfumato.session import Session

EVERY_S = 60.0

_LOG = logging.getLogger("sfumato.service")


class Sweeper:
    """A thread that finishes what nobody is at work on: what there is at the start, then what has become old.

    Each is tried once: a question that the engine cannot answer in time would keep it busy for ever. With PostgreSQL
    others may be at work, so that from the start on only what is old is taken: twice an engine's time limit, and a
    minute for the ledger.
    """

    def __init__(self, session: Session, every_s: float = EVERY_S) -> None:
        self._session, self._every_s = session, every_s
        slowest = max((engine.timeout_s for engine in session.config.engines.values()), default=0)
        self._old = timedelta(seconds=2 * slowest + 60)
        self._alone = not session.ledger.shared
        self._began: datetime | None = None
        self._tried: set[tuple[str, str, str]] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        self._began = self._session.now()
        self._thread.start()

    def stop(self) -> None:
        """Begin nothing more. What is being finished ends with the session."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.sweep()
            self._stopped.wait(self._every_s)

    def sweep(self) -> None:
        try:
            finished = self._session.finish(self._is_left)
        except Exception as error:
            # Whatever it is: the next sweep tries the rest, and no traceback with its words gets into the log.
            _LOG.warning("sweep failed", extra={"fields": {"error": where(error)}})
            return
        if finished:
            _LOG.info("swept", extra={"fields": {"finished": finished}})

    def _is_left(self, hold: Reservation) -> bool:
        name = hold.account, hold.digest, hold.at
        at = datetime.fromisoformat(hold.at)
        left = at < self._session.now() - self._old
        left = left or (self._alone and self._began is not None and at < self._began)
        if self._stopped.is_set() or not left or name in self._tried:
            return False
        self._tried.add(name)
        return True
