"""What an asker may have drawn for nothing: reports debit no budget, but the ledger that keeps their cells can fill."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, time, timedelta

from sfumato.errors import NotSupported, RateLimited

MAX_NEW = 20_000  # places of one question that are not sealed yet
MAX_A_DAY = 200_000  # of one asker and day (UTC), in one process


class Quota:
    """Counts the new places of each asker by day. What is sealed already is never counted."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._day, self._taken = date.min, dict[str, int]()

    def take(self, asker: str, places: int, now: datetime) -> None:
        """Let so many new places be drawn, or refuse."""
        if places > MAX_NEW:
            raise NotSupported(
                f"this needs {places:,} ranges that nobody has asked for yet, of at most {MAX_NEW:,} at once; shorten "
                "the range, or take fewer statistics or options"
            )
        today = now.astimezone(UTC).date()
        with self._mutex:
            if today != self._day:
                self._day, self._taken = today, {}
            taken = self._taken.get(asker, 0) + places
            if taken > MAX_A_DAY:
                tomorrow = datetime.combine(today + timedelta(days=1), time(), UTC)
                words = f"more than {MAX_A_DAY:,} new ranges in one day; what was shown before can be asked for still"
                raise RateLimited(words, max(1, int((tomorrow - now).total_seconds())))
            self._taken[asker] = taken
