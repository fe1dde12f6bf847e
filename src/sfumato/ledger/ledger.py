"""The ledger: what every account has spent, and the only place that allows or refuses a charge.

    reserve ──► reserved ──► settle      the answer leaves; its revealed steps are spent, the rest is given back
                        └──► keep        it can no longer be answered; the worst case is spent
    reserve ──► settled                  the atom was stored already: no row is read

Invariants. `verify` checks them, and the contract tests hold every store to them:

1. The balance of an account is the sum of its journal rows. In `enforce` mode spent + reserved <= limit + granted, at
   every moment and in every period.
2. The worst case is reserved before a row is read, on all accounts of a request or on none. It is a function of the
   request and of what its accounts have paid for, never of the data.
3. An account pays for a step of an atom once. An analyst's own account gets back what was not revealed. A shared
   account keeps the worst case, so it does not show the length of another analyst's list.
4. An atom has one nonce, drawn before a row is read, and one payload, the first that was stored. Every answer that
   leaves is a part of the stored payload.
5. A period that has begun does not begin again, even if the clock goes back.
6. No answer leaves before the fence holds its charge (`sfumato.ledger.fence`).
7. A call with an idempotency key makes one request, once. With another body the key is refused.
8. A cell of a report is drawn once per version and served from then on. No place has more versions than its policy
   allows, also after a copy was restored (`sfumato.ledger.cells`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import Any, Self

from sfumato.accounting import NOTHING, Charge, total_charge
from sfumato.errors import BudgetExhausted, ConfigError, InvalidArgument, LedgerFailed, LedgerSetBack
from sfumato.ledger import rules
from sfumato.ledger.audit import differences
from sfumato.ledger.fence import Fence, Mark
from sfumato.ledger.migrations import LATEST, migrate
from sfumato.ledger.recovery import recover
from sfumato.ledger.store import Progress, Store, Work, deadline, hold_lock
from sfumato.ledger.tables import NO_TOTALS, Books
from sfumato.ledger.types import (
    Account,
    Actor,
    ChargeEntry,
    Debit,
    EarlierCall,
    Head,
    History,
    IdempotentCall,
    LedgerStatus,
    Movements,
    Reservation,
    Row,
    Settled,
    Standing,
    grant_note,
    grant_reason,
    moment_text,
)
from sfumato.mechanisms import Step

OLD_COPY = (
    "the ledger is older than its fence: a copy was restored, and spent budget would come back with it. "
    "Put the newest copy in place, or run: sfumato budget recover"
)
NO_FENCE = (
    "the ledger's fence is missing or belongs to another ledger, so this may not be the newest copy. Put the ledger or "
    "its fence back, or take over the fence of another machine: sfumato budget join. Only if there is none, run: "
    "sfumato budget recover"
)
SUPERSEDED = "this request was closed or started again while it was computed; what was charged stays charged. Ask again"

CHECK_EVERY_S = 1.0

STATES = {"settle": "settled", "keep": "kept", "grant": "granted", "recover": "recovered"}


class Ledger:
    """The ledger over a store. Thread-safe; any number of processes may open one ledger."""

    def __init__(self, store: Store, fence: Callable[[str], Fence]) -> None:
        """`store` is open. `fence` returns the fence of the ledger with this identity."""
        self._store = store
        self._seen: Mark | None = None  # the latest mark that the journal was compared with
        self.settled: set[tuple[str, str]] = set()  # account and digest of requests that this process saw settled
        self._reads, self._writes = Progress(), Progress()
        self._checking = threading.Lock()
        self._checked: tuple[float, LedgerFailed | None] = (-CHECK_EVERY_S, None)  # when, and how it ended
        head = self._read_head() or self._create()
        self.fence = fence(head.id)
        self.fence.check_followed = self._check_followed
        if head.sequence == 0:
            try:
                self.fence.start(Mark(head.id, 0, head.hash))
            except BaseException:
                self.fence.close()
                raise

    def _read_head(self) -> Head | None:
        """The head of the journal; None if there are no books. It waits for no writer."""
        with self._store.reading() as run:
            return Books(run).head if self._store.has_books(run) else None

    def _create(self) -> Head:
        with self._store.writing() as run:
            if not self._store.has_books(run):  # another process may have created them since
                migrate(run, 0)
            return Books(run).head

    @property
    def shared(self) -> bool:
        """Whether several services may use this ledger at the same time."""
        return self._store.shared

    # -- transactions --

    @contextmanager
    def reading(self, work: Work = "question") -> Iterator[Books]:
        """One state of the books. Raises `LedgerFailed` if they are of another version or do not follow the fence."""
        mark = self.fence.mark()  # before the transaction: a later mark could be ahead of what it sees
        with self._reads.enter(self._store.reading(work)) as run:
            books = Books(run, LATEST, NO_TOTALS if mark is None else mark.totals)
            self._check_continues(books, mark)
            yield books

    @contextmanager
    def writing(self, work: Work = "question") -> Iterator[Books]:
        """The same, to change them. On disk when the block ends; nothing is changed if it raises."""
        mark = self.fence.mark()
        with self._writes.enter(self._store.writing(work)) as run:
            books = Books(run, LATEST, NO_TOTALS if mark is None else mark.totals)
            self._check_continues(books, mark)
            yield books

    def _check_followed(self, mark: Mark) -> None:
        """Raise unless the journal, as it is now, continues this mark."""
        if mark is not self._seen:
            with self._store.reading() as run:
                self._check_continues(Books(run, LATEST), mark)

    def _check_continues(self, books: Books, mark: Mark | None) -> None:
        if mark is None or mark.ledger != books.head.id:
            raise LedgerSetBack(f"{NO_FENCE} ({self.fence.place})")
        if mark.sequence > books.head.sequence:
            raise LedgerSetBack(OLD_COPY)
        if mark is not self._seen and books.hash_at(mark.sequence) != mark.head:
            raise LedgerSetBack(OLD_COPY)
        if self._seen is None:  # the first transaction of this process; later ones check the accounts that they use
            rules.check_floors(books)
        self._seen = mark

    # -- answers and reservations --

    def recall(
        self,
        own: str,
        digest: str,
        accounts_of: Callable[[str], Sequence[Account]],
        now: datetime,
        *,
        allowed: Callable[[str, str], bool] = lambda *_: True,
    ) -> Settled | None:
        """An answer as it first left to this account, if every account that has to pay for its table now has paid.

        `accounts_of` returns the accounts that pay for a table, this one first. `allowed` gets the answer's table and
        row filter, and says whether it may still be shown.
        """
        with self.reading() as books:
            stored = rules.recallable(books, own, digest, accounts_of, allowed)
            if stored is None:
                return None
            body, receipt, accounts = stored
            mark = rules.mark(books, accounts, now)
            charge, left = Charge.from_dict(receipt["charge"]), Charge.from_dict(receipt["left"])
            resets = None if receipt["resets"] is None else date.fromisoformat(receipt["resets"])
        self.fence.advance(mark)
        return Settled(body, charge, left, resets, repeat=False)

    def earlier_call(self, own: str, call: IdempotentCall) -> EarlierCall | None:
        """The earlier call with the same key. Raises `Conflict` if its body was another."""
        with self.reading() as books:
            return rules.earlier_call(books, own, call)

    def earlier_parts(self, own: str, call: IdempotentCall) -> list[EarlierCall]:
        """The questions of the earlier call with the same key: several where a statement had several; none if new."""
        with self.reading() as books:
            found: list[EarlierCall] = []
            while (each := rules.earlier_call(books, own, call.part(len(found)))) is not None:
                found.append(each)
            return found

    def reservation(self, own: str, digest: str) -> Reservation | None:
        """The reservation of a request that is not answered yet."""
        with self.reading() as books:
            return books.reservation(own, digest)

    def reservations(self) -> list[Reservation]:
        """All reservations without an answer, the oldest first."""
        with self.reading() as books:
            return books.reservations()

    def requests(self, digest: str) -> list[Mapping[str, Any]]:
        """The requests with a digest, of all accounts: those that are reserved, and those that are answered."""
        with self.reading() as books:
            return rules.requests(books, digest)

    def payload(self, atom: str) -> str:
        """The stored payload of an atom that is settled."""
        with self.reading() as books:
            row = books.atom(atom)
        if row is None or row[1] is None:
            raise LedgerFailed(SUPERSEDED)
        return row[1]

    # -- standings and grants --

    def standings(self, accounts: Iterable[Account], now: datetime) -> list[Standing]:
        """Each account in its current period."""
        with self.reading() as books:
            return [rules.standing(each, rules.current_balance(books, each, now), now) for each in accounts]

    def has_paid(self, debit: Debit) -> bool:
        """Whether every account has paid for all steps of a request."""
        with self.reading() as books:
            return all(not charge for _, charge in rules.costs(books, debit))

    def prices(self, debit: Debit, outcomes: Callable[[int], Iterable[Sequence[Step]]]) -> list[Charge]:
        """What each outcome would cost the own account now. `outcomes` gets the number of rows that it has paid for."""
        with self.reading() as books:
            free = books.answer(debit.own.name, debit.digest) or books.reservation(debit.own.name, debit.digest)
            paid = books.paid_steps(debit.own.name, debit.atom)
        seen = sum(name.startswith("pick ") for name in paid)
        unpaid = [rules.unpaid(rules.step_charges(steps), paid) for steps in outcomes(seen)]
        return [NOTHING if free else total_charge(charges.values()) for charges in unpaid]

    def longest_fitting(self, most: int, debit_of: Callable[[int], Debit], now: datetime) -> int | None:
        """The longest list, of at most `most` rows, that every account could pay for now. A longer one costs more."""
        with self.reading() as books:
            longest, most = 0, most + 1
            while most - longest > 1:
                middle = (longest + most) // 2
                charges = rules.costs(books, debit_of(middle))
                each = [(account, rules.current_balance(books, account, now), charge) for account, charge in charges]
                fits = all(rules.fits(*terms, now) for terms in each)
                longest, most = (middle, most) if fits else (longest, middle)
        return longest or None

    def fit_together(self, debits: Sequence[Debit], now: datetime) -> bool:
        """Whether every account could pay for all of these requests now."""
        with self.reading() as books:
            try:
                rules.check_together(books, debits, now)
            except BudgetExhausted:
                return False
        return True

    def history(self, analyst: str | None, *, before: int | None = None, rows: int = 100) -> History:
        """What the requests of an analyst (None: of all) did to the accounts, the latest first."""
        with self.reading() as books:
            held = books.reservations() if before is None else []
            page = books.movements(Movements(analyst), before=before, rows=rows + 1)
            entries = [
                ChargeEntry(each.at, each.digest, part.account, part.charge, "reserved", each.request, sql)
                for each in reversed(held)
                if analyst in (None, each.analyst)
                for sql in [books.question(each.account, each.digest).sql]
                for part in each.parts
            ]
            for _, row, asked in page[:rows]:
                amount = row.granted if row.kind == "grant" else row.spent
                names = row.at, row.digest, row.account, amount, STATES[row.kind]
                reason = grant_reason(row.note) if row.kind == "grant" else None
                entries.append(ChargeEntry(*names, asked.request, asked.sql, reason))
        return History(entries, str(page[rows - 1][0]) if len(page) > rows else None)

    def grant(
        self,
        account: Account,
        amount: Charge,
        reason: str,
        now: datetime,
        *,
        by: Actor | None = None,
        call: tuple[str, IdempotentCall] | None = None,
    ) -> Standing:
        """Add to what an account may spend in its current period.

        A `call` of an account that was made before grants nothing more. The journal holds the reason, and `by` whom.
        """
        if not amount > NOTHING:
            raise InvalidArgument("amount", "must be above zero: a grant adds to a budget")
        name = account.name
        with self.writing() as books:
            balance = rules.current_balance(books, account, now)
            if call is not None:
                own, once = call
                if rules.earlier_call(books, own, once) is not None:
                    return rules.standing(account, balance, now)
                books.store_call(own, once.key, once.body, f"grant:{name}", free=True)
            analyst = rules.analyst_of(name)
            names = name, balance.period, analyst
            row = Row(moment_text(now), "grant", *names, granted=amount, note=grant_note(reason, by))
            return rules.standing(account, books.move(balance, row), now)

    # -- trust --

    def status(self) -> LedgerStatus:
        """What the ledger is, how long it is, and what is open. Raises where it does not follow its fence."""
        with self.reading() as books:
            opened = [held.at for held in books.reservations()]
            head = books.head
        mark = self.fence.mark()
        return LedgerStatus(head, len(opened), min(opened, default=None), 0 if mark is None else mark.sequence)

    def stamp(self) -> Hashable | None:
        """A value that stays the same while the books and their fence do; None if that would be costly to know."""
        books, fence = self._store.stamp(), self.fence.stamp()
        return None if books is None or fence is None else (books, fence)

    def check(self) -> None:
        """Raise unless the books and the fence can be written to disk, as an answer would, and belong together.

        What they say is not changed. They are written at most once per `CHECK_EVERY_S`, however often this is called;
        other calls end as the latest of these did.
        """
        with hold_lock(self._checking, deadline("probe")):
            at, failure = self._checked
            if time.monotonic() - at >= CHECK_EVERY_S:
                failure = self._write_nothing()
                self._checked = time.monotonic(), failure
        if failure is not None:
            raise type(failure)(*failure.args)

    def _write_nothing(self) -> LedgerFailed | None:
        """Commit a change that changes nothing. Returns why it failed, without its frames."""
        try:
            with self.writing("probe") as books:
                rules.check_floors(books)
                books.check_writable()
            self.fence.check()
        except LedgerFailed as failed:
            return failed.with_traceback(None)
        return None

    def verify(self, progress: Callable[[int, int], None] = lambda *_: None) -> list[str]:
        """Everything that is wrong with the books, in words; empty if they are right.

        `progress` gets the number of journal rows that are checked, and of all.
        """
        mark = self.fence.mark()
        with self._store.reading("upkeep") as run:
            books = Books(run, LATEST, NO_TOTALS if mark is None else mark.totals)
            problems: list[str] = []
            try:
                problems += differences(books, progress)
                self._seen = None
                self._check_continues(books, mark)
            except LedgerFailed as error:
                problems.append(str(error))
        return problems

    def recover(self, accounts: Sequence[Account], now: datetime) -> list[Row]:
        """Make a restored copy safe to serve (`sfumato.ledger.recovery`). Returns what accounts were charged for it."""
        mark = self.fence.mark()
        with self._store.writing("upkeep") as run:
            books = Books(run, LATEST)
            before = books.head.sequence
            after = recover(books, mark, accounts, now)
            if after is None:
                return []
            # Inside the transaction: if it fails after this, the fence is ahead and the ledger stays refused.
            self.fence.restart(after)
            return [row for row in books.journal(after=before) if row.kind != "restore"]

    def join(self, mark: Mark | None) -> None:
        """Bring this fence to the mark of another fence of the same ledger. Nothing is spent."""
        own = self.fence.mark()
        with self._store.reading() as run:
            identity = Books(run, LATEST).head.id
        if mark is None or mark.ledger != identity:
            raise InvalidArgument("mark", "is not of this ledger; name a fence of a machine that uses this ledger")
        if own is not None and own.ledger != identity:
            problem = f"holds the mark of another ledger ({self.fence.place}); move it away, or name another place"
            raise ConfigError("ledger.fence", problem)
        with self._store.reading() as run:
            for each in (mark, own or mark):
                self._check_continues(Books(run, LATEST), each)
        self.fence.start(mark)
        self.fence.advance(mark)

    def lock_service(self) -> None:
        """Be a service of this ledger until it is closed. Raises `ConfigError` if another service excludes this one."""
        self._store.lock_service(self.fence.identity)

    def migrate(self) -> int:
        """Bring an older ledger to this schema. Returns the number of migrations."""
        with self._store.writing("upkeep") as run:
            version = Books(run).head.version
            if version > LATEST:
                Books(run, LATEST)  # raises: it is newer
            migrate(run, version)
            return LATEST - version

    def close(self) -> None:
        self._store.close()
        self.fence.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
