"""The one path every answer takes.

    request -> canonical form -> plan -> reserve -> engine -> mechanism -> settle + store -> answer

After `reserve`, nothing that depends on the data refuses, refunds or shows in an error. Exact counts live between the
engine and the mechanism, inside `_tried`, and nowhere else: not in the ledger, not in an exception, not in a log.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.engines.base import COULD_NOT_ANSWER, Engine
from sfumato.errors import BudgetExhausted, EngineFailed, NotSupported
from sfumato.ledger import Account, Debit, IdempotentCall, Ledger, Reserved, Revealed, Settled
from sfumato.mechanisms import Release, Rng, context
from sfumato.query.plan import Key, Plan
from sfumato.query.values import read_value
from sfumato.wire import Answer


class SingleFlight:
    """One run of the engine at a time for each atom; and a pause, from the second failure in a row on.

    Without it, a question that never ends in time could keep the engine busy for ever, on one charge.
    """

    MAX_PAUSE_S, MAX_FAILURES = 300.0, 10_000

    def __init__(self, clock: Callable[[], float] = time.monotonic, words: str = COULD_NOT_ANSWER) -> None:
        self._mutex, self._clock, self._words = threading.Lock(), clock, words
        self._used: dict[str, tuple[threading.Lock, int]] = {}
        self._failed: dict[str, tuple[float, int]] = {}  # until when it pauses, and how often it failed

    @contextmanager
    def of(self, atom: str) -> Iterator[bool]:
        """Alone with an atom; whether that took waiting for somebody else. `EngineFailed` in a pause."""
        with self._mutex:
            lock, users = self._used.get(atom, (threading.Lock(), 0))
            if not users and self._clock() < self._failed.get(atom, (0.0, 0))[0]:
                raise EngineFailed(self._words)
            self._used[atom] = lock, users + 1
        try:
            with lock:
                yield users > 0
        finally:
            with self._mutex:
                lock, users = self._used.pop(atom)
                if users > 1:
                    self._used[atom] = lock, users - 1

    def ended(self, atom: str, *, well: bool) -> None:
        """How a run went: after the second failure in a row a pause of a second, then each time twice as long."""
        with self._mutex:
            _, failures = self._failed.pop(atom, (0.0, 0))
            if not well:
                if len(self._failed) >= self.MAX_FAILURES:
                    self._failed.clear()
                pause_s = min(2.0 ** min(failures - 1, 20), self.MAX_PAUSE_S) if failures else 0.0
                self._failed[atom] = self._clock() + pause_s, failures + 1


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where answers are made: the engine of each table, the ledger, the noise key with its epoch, and a clock."""

    engines: Mapping[str, Engine]
    ledger: Ledger
    key: bytes = field(repr=False)
    epoch: str
    clock: Callable[[], datetime]
    turns: SingleFlight = field(default_factory=SingleFlight)


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """Who asks what, and who pays: the asker's own account first."""

    analyst: str
    accounts: tuple[Account, ...]
    plan: Plan
    call: IdempotentCall | None = None

    def ask(self, epoch: str) -> Debit:
        plan = self.plan
        return Debit(
            analyst=self.analyst,
            accounts=self.accounts,
            digest=plan.digest,
            atom=plan.atom,
            epoch=epoch,
            version=plan.data_version,
            request=plan.request,
            worst=plan.mechanism.worst,
            call=self.call,
        )


def answer(inquiry: PlannedRequest, desk: Runtime, *, resume: bool = False) -> Answer:
    """Answer, or raise: `Refused` changes nothing, `Failed` keeps what was reserved.

    With `resume`, only what is reserved already is answered: nothing new is.

    Guarantee: over all calls with one ledger, everything that leaves satisfies the (epsilon, delta) of each account's
    cap for each period (proofs/answers.md), whatever is asked, whatever fails and whatever the rows become.
    """
    # What goes wrong leaves without the frames it came through: they hold counts, or rows that are not paid for.
    try:
        return _walked(inquiry, desk, resume=resume)
    except BaseException as error:
        failure = error.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    raise failure


def _walked(inquiry: PlannedRequest, desk: Runtime, *, resume: bool) -> Answer:
    ask, reveal = inquiry.ask(desk.epoch), partial(_revealed, inquiry)
    try:
        found = desk.ledger.reserve(ask, reveal, desk.clock(), resume=resume)
    except BudgetExhausted as refusal:
        raise _with_a_way_out(refusal, ask, inquiry.plan, desk) from None
    if isinstance(found, Reserved):
        found = _settled(ask, found, inquiry, desk)
    return answered(found)


def _settled(ask: Debit, held: Reserved, inquiry: PlannedRequest, desk: Runtime) -> Settled:
    """Compute the atom and settle. Whoever waited for the same atom finds it stored, or has failed with it."""
    reveal = partial(_revealed, inquiry)
    with desk.turns.of(ask.atom) as waited:
        if waited:
            found = desk.ledger.reserve(ask, reveal, desk.clock(), resume=True)
            if isinstance(found, Reserved):
                raise EngineFailed(COULD_NOT_ANSWER)
            return found
        payload = _tried(inquiry.plan, held.nonce, desk)
        desk.turns.ended(ask.atom, well=payload is not None)
        if payload is None:
            raise EngineFailed(COULD_NOT_ANSWER)
        return desk.ledger.settle(ask, held, payload, reveal, desk.clock())


def _tried(plan: Plan, nonce: bytes, desk: Runtime) -> str | None:
    """Exact counts from the engine go in, noisy ones come out; None where that failed."""
    try:
        rows = desk.engines[plan.table].run(plan.query)
        source = Rng.keyed(desk.key, context(atom=plan.atom, nonce=nonce))
        return _payload(plan.full.release(_exact(plan, rows), source))
    except Exception:
        return None


def _exact(plan: Plan, rows: list[tuple[Any, ...]]) -> Any:
    """Counts by key: of the whole public domain, or the largest of a private one in their order."""
    if plan.domain is None:
        return [(row[0] if len(row) == 2 else row[:-1], row[-1]) for row in rows]
    found = {key: row[-1] for row in rows if (key := _key(plan, row[:-1])) is not None}
    return {key: found.get(key, 0) for key in plan.domain}


def _key(plan: Plan, cells: tuple[Any, ...]) -> Key | None:
    """None for what no domain holds: a number of too many digits, which the engine took for one of the domain."""
    described = zip(plan.columns, plan.types, cells, strict=True)
    try:
        return tuple(read_value(name, kind, cell) for name, kind, cell in described)
    except NotSupported:
        if "number" in plan.types:
            return None
        raise


def _payload(release: Release[Any]) -> str:
    rows = [[_cells(key), count] for key, count in release.rows]
    ending = {"stopped": release.stopped, "complete": release.complete}
    return json.dumps({"rows": rows, **ending}, separators=(",", ":"))


def _cells(key: Any) -> list[Any]:
    return [cell(value) for value in (key if isinstance(key, tuple) else (key,))]


def cell(value: Any) -> Any:
    """A value as answers are stored and sent."""
    if isinstance(value, date):
        return value.isoformat()
    # + 0.0, because the engine groups -0.0 with 0.0 and shows the one it met first: one person's row.
    return float(value) + 0.0 if isinstance(value, Fraction | Decimal | float) else value


def _revealed(inquiry: PlannedRequest, payload: str) -> Revealed:
    """What this request shows of a stored atom: a prefix of its rows, with their counts or without."""
    plan, stored = inquiry.plan, json.loads(payload)
    release: Release[tuple[Any, ...]] = Release(
        mechanism=plan.full.name,
        rows=tuple((tuple(cells), count) for cells, count in stored["rows"]),
        steps=plan.full.steps(len(stored["rows"]), stopped=stored["stopped"]),
        reserve=plan.full.reserve,
        stopped=stored["stopped"],
        complete=stored["complete"],
        error95=plan.full.error95,
    )
    shown = release.prefix(plan.k)
    if not plan.counts:
        shown = shown.without_counts()
    return Revealed(json.dumps(_body(inquiry, shown), separators=(",", ":")), shown.steps)


def _body(inquiry: PlannedRequest, shown: Release[tuple[Any, ...]]) -> dict[str, Any]:
    """Everything in an answer but what the moment adds: charge, left, resets and repeat."""
    plan = inquiry.plan
    columns: dict[str, str] = dict(zip(plan.columns, plan.types, strict=True))
    rows = [dict(zip(columns, cells, strict=True)) for cells, _ in shown.rows]
    if plan.counts:
        columns[plan.measure] = "integer"
        rows = [{**row, plan.measure: count} for row, (_, count) in zip(rows, shown.rows, strict=True)]
    return {
        "columns": columns,
        "rows": rows,
        "stopped": shown.stopped,
        "receipt": {
            "mechanism": shown.mechanism,
            "unit": plan.unit,
            "error95": {plan.measure: shown.error95} if plan.counts else {},
            "data_version": plan.data_version,
            "digest": plan.digest,
        },
        "notes": list(_notes(inquiry, shown)),
    }


def _notes(inquiry: PlannedRequest, shown: Release[Any]) -> list[str]:
    plan, notes = inquiry.plan, []
    if plan.domain is None:
        notes.append("groups below a noisy threshold are absent")
    if plan.domain is None and plan.counts and plan.mechanism.name != "unknown_gumbel":
        notes.append("groups close to the threshold are there because their noise was high, and so are their counts")
    if plan.domain is not None and not shown.complete:
        notes.append(f"the first {len(shown.rows)} of {len(plan.domain)} groups")
    if plan.mechanism.tau > 1:
        notes.append(f"at most {plan.mechanism.tau} a person and group are counted")
    if inquiry.accounts[0].budget.mode == "track":
        notes.append("this budget is tracked and not enforced: what is left may be below zero")
    return notes


def answered(settled: Settled) -> Answer:
    """An answer that may leave, with what the moment adds to its receipt."""
    serial = json.loads(settled.body)
    serial["receipt"] |= {
        "charge": settled.charge.to_dict(),
        "left": settled.left.to_dict(),
        "resets": None if settled.resets is None else settled.resets.isoformat(),
        "repeat": settled.repeat,
    }
    return Answer.from_dict(serial)


def _with_a_way_out(refusal: BudgetExhausted, ask: Debit, plan: Plan, desk: Runtime) -> BudgetExhausted:
    """The refusal, with the longest list that would still fit, and as a request."""
    longest = desk.ledger.longest_fitting(
        plan.k - 1, lambda k: replace(ask, worst=plan.mechanism.at(k).worst), desk.clock()
    )
    instead = [] if longest is None else [{**plan.request, "k": longest}]
    return BudgetExhausted(refusal.asked, refusal.left, refusal.account, refusal.resets, longest, instead)
