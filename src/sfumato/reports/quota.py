"""A limit on new cells: reports debit no budget, but their cells fill the ledger."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, time, timedelta

from sfumato.errors import NotSupported, RateLimited

MAX_NEW = 20_000  # places per question that are not sealed yet
MAX_PER_DAY = 200_000  # per account and day (UTC), in one process


class Quota:
    """Counts the new places of each account by day. Places that are sealed already do not count."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._day, self._taken = date.min, dict[str, int]()

    def take(self, account: str, places: int, now: datetime) -> None:
        """Count new places, or refuse them."""
        if places > MAX_NEW:
            raise NotSupported(
                f"this needs {places:,} ranges that were never asked for, of at most {MAX_NEW:,} at once; shorten the "
                "range, or take fewer statistics or options"
            )
        today = now.astimezone(UTC).date()
        with self._mutex:
            if today != self._day:
                self._day, self._taken = today, {}
            total = self._taken.get(account, 0) + places
            if total > MAX_PER_DAY:
                since_midnight = now - datetime.combine(today, time(), UTC)
                words = f"more than {MAX_PER_DAY:,} new ranges in one day; ranges that were shown before are still free"
                raise RateLimited(words, max(1, int((timedelta(days=1) - since_midnight).total_seconds())))
            self._taken[account] = total
