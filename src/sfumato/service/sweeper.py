"""A background thread that finishes the reservations of processes that died."""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta

from sfumato.ledger import Reservation
from sfumato.service.telemetry import locate
from sfumato.session import Session

INTERVAL_S = 60.0

_LOG = logging.getLogger("sfumato.service")


class Sweeper:
    """Finishes abandoned reservations: at the start all of them, later those that have become old.

    If processes share the ledger, others may be computing, so only old ones are abandoned, also at the start. Old is
    twice the longest time limit of an engine, plus a minute for the ledger. Each reservation is tried once: one that
    always exceeds the engine's time limit would otherwise occupy the engine for ever.
    """

    def __init__(self, session: Session, interval_s: float = INTERVAL_S) -> None:
        self._session, self._interval_s = session, interval_s
        timeout_s = max((engine.timeout_s for engine in session.config.engines.values()), default=0)
        self._max_age = timedelta(seconds=2 * timeout_s + 60)
        self._is_only_process = not session.ledger.shared
        self._started_at: datetime | None = None
        self._tried: set[tuple[str, str, str]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        self._started_at = self._session.now()
        self._thread.start()

    def take(self, session: Session) -> None:
        """Finish reservations under the policy of this session from now on."""
        self._session = session

    def stop(self) -> None:
        """Begin no further reservation. Closing the session ends the one that is being finished."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.sweep()
            self._stop.wait(self._interval_s)

    def sweep(self) -> None:
        try:
            finished = self._session.finish(self._is_abandoned)
        except Exception as error:
            # The next sweep tries the rest. No traceback is logged: its text may quote the data.
            _LOG.warning("sweep failed", extra={"fields": {"error": locate(error)}})
            return
        if finished:
            _LOG.info("reservations finished", extra={"fields": {"finished": finished}})

    def _is_abandoned(self, hold: Reservation) -> bool:
        name = hold.account, hold.digest, hold.at
        at = datetime.fromisoformat(hold.at)
        abandoned = at < self._session.now() - self._max_age
        abandoned = abandoned or (self._is_only_process and self._started_at is not None and at < self._started_at)
        if self._stop.is_set() or not abandoned or name in self._tried:
            return False
        self._tried.add(name)
        return True
