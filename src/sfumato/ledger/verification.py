"""Checks of the whole ledger as jobs: one at a time, seen by every process that uses the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sfumato.errors import LedgerFailed
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.types import Actor, moment_text

LOST_AFTER = timedelta(minutes=10)
"""Without a sign of life for this time, a check has ended with its process."""

SIGN_S = 1.0  # between two signs of life
MAX_PROBLEMS = 1000  # that are kept of one check

_SELECT = "SELECT number, at, actor, seen, done, total, ended, problems FROM verifications"


@dataclass(frozen=True, slots=True)
class Verification:
    """A check: who began it and when, its last sign of life, how many journal rows are checked, and what was found."""

    number: int
    at: str
    by: Actor
    seen: str
    done: int
    total: int
    ended: str | None
    problems: tuple[str, ...]

    def state(self, now: datetime) -> Literal["running", "ended", "lost"]:
        if self.ended is not None:
            return "ended"
        return "lost" if now - datetime.fromisoformat(self.seen) > LOST_AFTER else "running"


class Verifications:
    """The checks of a ledger. Thread-safe; any number of processes may use them."""

    def __init__(self, ledger: Ledger, clock: Callable[[], datetime]) -> None:
        self._ledger, self._clock = ledger, clock

    def latest(self) -> Verification | None:
        """The check that was begun last."""
        with self._ledger.reading() as books:
            rows = books.run(f"{_SELECT} ORDER BY number DESC LIMIT 1")
        return None if not rows else _verification(rows[0])

    def begin(self, by: Actor) -> tuple[Verification, bool]:
        """A new check, or the one that is running; and whether it is new, and has to be run."""
        now = self._clock()
        with self._ledger.writing() as books:
            rows = books.run(f"{_SELECT} ORDER BY number DESC LIMIT 1")
            latest = None if not rows else _verification(rows[0])
            if latest is not None and latest.state(now) == "running":
                return latest, False
            number, at = 1 if latest is None else latest.number + 1, moment_text(now)
            new = Verification(number, at, by, at, 0, books.head.sequence, None, ())
            books.run(
                "INSERT INTO verifications (number, at, actor, seen, done, total, ended, problems) "
                "VALUES (?, ?, ?, ?, ?, ?, NULL, ?)",
                *(number, at, json.dumps(by.to_dict()), at, 0, new.total, "[]"),
            )
        return new, True

    def run(self, job: Verification) -> None:
        """Check the whole ledger, with signs of life, and store what was found."""
        checked, signed = (0, job.total), time.monotonic()

        def sign(done: int, total: int) -> None:
            nonlocal checked, signed
            checked = done, total
            if time.monotonic() - signed >= SIGN_S:
                signed = time.monotonic()
                with suppress(LedgerFailed):
                    self.note(job.number, checked)

        try:
            problems = self._ledger.verify(sign)
        except LedgerFailed as failed:
            problems = [str(failed)]
        place = self._ledger.fence.place
        found = [each.replace(place, "[ledger] fence") for each in problems[:MAX_PROBLEMS]]
        with suppress(LedgerFailed):  # then it is lost, and can be begun again
            self.note(job.number, checked, found)

    def note(self, number: int, checked: tuple[int, int], found: Sequence[str] | None = None) -> None:
        """Store how many journal rows of all are checked; and what was found, once it has ended."""
        with self._ledger.writing() as books:
            seen = moment_text(self._clock())
            ended = None if found is None else seen
            books.run(
                "UPDATE verifications SET seen = ?, done = ?, total = ?, ended = ?, problems = ? WHERE number = ?",
                *(seen, *checked, ended, json.dumps([*(found or ())]), number),
            )


def _verification(row: tuple[int, str, str, str, int, int, str | None, str]) -> Verification:
    number, at, actor, seen, done, total, ended, problems = row
    by = Actor(**json.loads(actor))
    return Verification(number, at, by, seen, done, total, ended, tuple(json.loads(problems)))
