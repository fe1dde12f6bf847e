"""The one paid path: reserve, compute, settle. Nothing else spends.

    Purchase ──► reserve ──► Settled            stored before: no row is read
                     └─────► compute ──► settle ──► Settled
                                 └─────► EngineFailed: the reservation stands, and a repeat costs no more

The ledger advances its fence before a settled answer leaves it. After `reserve`, nothing that depends on the data
refuses, refunds or shows in an error. A failure is raised without a traceback, because frames hold exact counts.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from sfumato.engines.base import COULD_NOT_ANSWER, Engine
from sfumato.errors import EngineFailed, LedgerBusy
from sfumato.ledger import Debit, Ledger, Reservation, Reserved, Settled, payments
from sfumato.ledger.types import Reveal

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Flight:
    """One computation: how many threads have or want it, and with which words the ledger was stuck."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    stuck: str = ""


class SingleFlight:
    """One computation per atom at a time; after two failures in a row the atom backs off.

    Without the pause, a request that never ends in time could keep the engine busy for ever, on one charge.

    If the ledger is stuck for one thread, those behind it fail likewise: each would wait as long, one after the other.
    """

    MAX_PAUSE_S, MAX_FAILURES = 300.0, 10_000

    def __init__(self, clock: Callable[[], float] = time.monotonic, failure: str = COULD_NOT_ANSWER) -> None:
        self._mutex, self._clock, self._failure = threading.Lock(), clock, failure
        self._used: dict[str, _Flight] = {}
        self._failed: dict[str, tuple[float, int]] = {}  # until when an atom backs off, and how often it failed

    @contextmanager
    def lock(self, atom: str) -> Iterator[bool]:
        """Lock `atom`. Yields True if another thread was computing it. Raises EngineFailed while it is backing off.

        Raises LedgerBusy if the ledger was stuck for the thread before.
        """
        with self._mutex:
            flight = self._used.get(atom, _Flight())
            if not flight.users and self._clock() < self._failed.get(atom, (0.0, 0))[0]:
                raise EngineFailed(self._failure)
            self._used[atom] = flight
            waits = flight.users > 0
            flight.users += 1
        try:
            with flight.lock:
                if flight.stuck:
                    raise LedgerBusy(flight.stuck)
                yield waits
        except LedgerBusy as busy:
            if busy.is_stuck:
                flight.stuck = str(busy)
            raise
        finally:
            with self._mutex:
                flight.users -= 1
                if not flight.users:
                    del self._used[atom]

    def record(self, atom: str, *, succeeded: bool) -> None:
        """Record how a computation ended. The second failure in a row pauses the atom for 1 s, the next for 2 s, ..."""
        with self._mutex:
            _, failures = self._failed.pop(atom, (0.0, 0))
            if not succeeded:
                if len(self._failed) >= self.MAX_FAILURES:
                    self._failed.clear()
                pause_s = min(2.0 ** min(failures - 1, 20), self.MAX_PAUSE_S) if failures else 0.0
                self._failed[atom] = self._clock() + pause_s, failures + 1


@dataclass(frozen=True, slots=True)
class Runtime:
    """What answers are made with: the engine of each table, the ledger, and the noise key with its epoch."""

    engines: Mapping[str, Engine]
    ledger: Ledger
    key: bytes = field(repr=False)
    epoch: str
    flights: SingleFlight = field(default_factory=SingleFlight)


@dataclass(frozen=True, slots=True)
class Purchase:
    """What is bought: what the ledger debits, how the stored payload is computed, and what of it is shown.

    `compute` gets the nonce of the atom and returns the payload; each of `draws` gets the nonce of a further draw and
    the payload of the atom, and returns its own. Exact counts live inside them and nowhere else.
    `check_same` gets each request and answer that the ledger has for the digest, and may refuse. `failure` is what the
    caller reads when `compute` fails.
    """

    debit: Debit
    compute: Callable[[bytes], str]
    reveal: Reveal
    failure: str = COULD_NOT_ANSWER
    check_same: Callable[[Mapping[str, Any]], None] | None = None
    draws: tuple[Callable[[bytes, str], str], ...] = ()

    def payloads(self, reserved: Reserved) -> list[str]:
        """The payload of the atom and those of further draws; what is stored is not computed again."""
        first = reserved.payload or self.compute(reserved.nonce)
        further = zip(self.draws, reserved.draws, strict=True)
        return [first, *(payload or compute(nonce, first) for compute, (nonce, payload) in further)]


def without_frames(function: Callable[P, T]) -> Callable[P, T]:
    """Let errors leave `function` without traceback, cause and context: these hold exact counts, or unpaid rows."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failure = error.with_traceback(None)
            failure.__cause__ = failure.__context__ = None
        raise failure

    return wrapper


@without_frames
def spend(purchase: Purchase, ledger: Ledger, flights: SingleFlight, now: datetime, *, resume: bool = False) -> Settled:
    """Buy an answer or a release, once. `Refused` changes nothing; `Failed` keeps what was reserved.

    With `resume`, only what is reserved already is bought.

    Guarantee: over all calls with one ledger, everything that leaves satisfies the (epsilon, delta) of each account's
    cap for each period (proofs/answers.md), whatever is asked, whatever fails and whatever the rows become.
    """
    debit, reveal = purchase.debit, purchase.reveal
    reserved = payments.reserve(ledger, debit, reveal, now, resume=resume, same=purchase.check_same)
    if not isinstance(reserved, Reserved):
        return reserved
    with flights.lock(debit.atom) as waited:
        if waited:  # another thread has stored the atom, or has failed
            again = payments.reserve(ledger, debit, reveal, now, resume=True)
            if not isinstance(again, Reserved):
                return again
            if not debit.draws:
                raise EngineFailed(purchase.failure)
            reserved = again  # the other thread may have bought less
        while True:
            try:
                payloads = purchase.payloads(reserved) if debit.draws else [purchase.compute(reserved.nonce)]
            except Exception:
                payloads = []
            flights.record(debit.atom, succeeded=bool(payloads))
            if not payloads:
                raise EngineFailed(purchase.failure)
            settled = payments.settle(ledger, debit, reserved, payloads[0], reveal, now, payloads[1:])
            if isinstance(settled, Settled):
                return settled
            reserved = settled  # another process has stored the atom over other rows, so only its draws are computed


@without_frames
def reserve_together(debits: Sequence[Debit], ledger: Ledger, now: datetime) -> None:
    """Reserve several requests before a row is read for any of them: all, or `Refused` and nothing is changed.

    Each is bought by `spend` with `resume` then. Where that fails, or the process ends, the others stay reserved.
    """
    payments.reserve_together(ledger, debits, now)


def forfeit(reservation: Reservation, ledger: Ledger, now: datetime) -> None:
    """Close a reservation that can no longer be answered: its worst case is spent."""
    payments.keep(ledger, reservation, now)
