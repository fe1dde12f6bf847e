"""Who has spent what: the only place that says yes or no.

    reserve ──► held ──► settle      the answer leaves; its revealed steps are spent, the rest is given back
                    └──► keep        no answer can come of it any more; the worst case is spent
    reserve ──► settled              the ranking was stored already: no row is read

Invariants, which `verify` checks and the contract tests hold every store to:

1. An account's balance is the sum of its journal rows. In `enforce` mode spent + reserved <= limit + granted, at every
   moment and in every period.
2. The worst case is reserved before a row is read, on all accounts of a request or on none. What is reserved for a
   request is a function of the request and of what its accounts have paid for, never of the data.
3. An account pays for a step of an atom once. An account of one person gets back what was not revealed; a shared one
   keeps the worst case, which tells nobody how long somebody else's list is.
4. An atom has one nonce, drawn before a row is read, and one payload, the first that was stored. No answer leaves that
   is not a part of the stored payload.
5. A period, once begun, does not come again: the clock may go back, the books do not.
6. No answer leaves before the fence has seen its charge (`sfumato.ledger.fence`).
7. A call that carried an idempotency key begins one request, once: with another body the key is refused.
8. A cell of a report is drawn once in a version and served from then on; no place has more versions than its policy
   allows, also when a copy was restored (`sfumato.ledger.cells`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any, Self, TypeAlias

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Budget
from sfumato.errors import BudgetExhausted, ConfigError, Conflict, InvalidArgument, LedgerFailed, LedgerSetBack
from sfumato.ledger.audit import differences, sha256
from sfumato.ledger.fence import UNWRITABLE, Fence, Mark, SpentTotal
from sfumato.ledger.migrations import LATEST, migrate
from sfumato.ledger.store import Run, Store
from sfumato.ledger.tables import REPORT, Balance, Books, Movement, Reservation, ReservationPart, Row
from sfumato.mechanisms import Step

OWN = "analyst:"
_REMEMBERED = 100_000

OLD_COPY = (
    "the ledger is older than its fence: a copy was restored, and spent budget would come back with it. "
    "Put the newest copy in place, or run: sfumato budget recover"
)
NO_FENCE = (
    "the ledger's fence is missing or belongs to another ledger, so nobody can tell whether this is the newest copy. "
    "Put the ledger or its fence back, or run: sfumato budget recover"
)
LEFT_BEHIND = "this request was closed or begun anew while it was being answered; what was charged stands"
KEY_REUSED = "this Idempotency-Key was sent before with another body; use a new key for every new call"
IN_FLIGHT = "a call with this Idempotency-Key is being answered at this moment; send it again"


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its terms. A `shared` one keeps what it reserved."""

    name: str
    budget: Budget
    shared: bool = False


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """One call of a client, by its idempotency key: hashes of the key and of the body that it came with."""

    key: str
    body: str

    @classmethod
    def of(cls, key: str, body: bytes) -> IdempotentCall:
        return cls(sha256(key), hashlib.sha256(body).hexdigest())


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """What a call has begun: a request, by its digest. `free`: it was answered already, and cost nothing."""

    digest: str
    free: bool


@dataclass(frozen=True, slots=True)
class Debit:
    """What a request wants of the ledger. The asker's own account comes first; `worst` are the costliest steps."""

    analyst: str
    accounts: tuple[Account, ...]
    digest: str
    atom: str
    epoch: str
    version: str
    request: Mapping[str, Any]
    worst: tuple[Step, ...]
    call: IdempotentCall | None = None

    @property
    def own(self) -> Account:
        return self.accounts[0]


@dataclass(frozen=True, slots=True)
class Revealed:
    """What an answer shows of a stored payload: its body, and the steps behind it."""

    body: str
    steps: tuple[Step, ...]


Reveal: TypeAlias = Callable[[str], Revealed]


@dataclass(frozen=True, slots=True)
class Reserved:
    """The worst case is reserved. Compute the atom with this nonce, then settle."""

    nonce: bytes


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer may leave. `charge` is what the asker's own account paid for it now, and `left` what it has left."""

    body: str
    charge: Charge
    left: Charge
    resets: date | None
    repeat: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """One account in its current period: left = limit + granted - spent - reserved."""

    account: str
    limit: Charge
    granted: Charge
    spent: Charge
    reserved: Charge
    resets: date | None = None

    @property
    def left(self) -> Charge:
        return self.limit + self.granted - self.spent - self.reserved


@dataclass(frozen=True, slots=True)
class ChargeEntry:
    """One movement on one account. `state` is reserved, settled, kept, granted or recovered."""

    at: str
    digest: str
    account: str
    charge: Charge
    state: str


@dataclass(frozen=True, slots=True)
class ChargePage:
    """A page of movements, the latest first; `next` asks for the page after it."""

    rows: list[ChargeEntry]
    next: str | None = None


class _Undone(Exception):
    """Ends a transaction that was only to be tried."""


class Ledger:
    """The books over a store. Thread-safe; any number of processes may open one ledger."""

    def __init__(self, store: Store, fence: Callable[[str], Fence]) -> None:
        """`fence` gives the fence of the ledger with this identity."""
        self._store = store
        self._seen: Mark | None = None
        self._settled: set[tuple[str, str]] = set()  # requests that this process has seen answered
        with store.writing() as run:
            if not store.has_books(run):
                migrate(run, 0)
            head = Books(run).head
        self.fence = fence(head.id)
        if head.sequence == 0:
            self.fence.start(Mark(head.id, 0, head.hash))

    # -- the path of an answer --

    def reserve(
        self,
        ask: Debit,
        reveal: Reveal,
        now: datetime,
        *,
        resume: bool = False,
        same: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> Reserved | Settled:
        """Reserve the worst case on every account, or raise `BudgetExhausted` and change nothing.

        The same request again continues its reservation; with `resume`, nothing else happens. Where the atom is stored
        already, it is settled at once. `same` sees what stands behind the digest already, and may refuse.
        """
        if (ask.own.name, ask.digest) in self._settled and same is None:
            seen = self._seen_before(ask, now)
            if seen is not None:
                return seen
        with self._books(self._store.writing) as books:
            if same is not None:
                for begun in _begun_by(books, ask.digest):
                    same(begun)
            new_call = _is_new(books, ask)
            settled = _repeated(books, ask, now)
            if settled is None:
                if resume and books.hold(ask.own.name, ask.digest) is None:
                    raise LedgerFailed(LEFT_BEHIND)
                hold = _held(books, ask, now)
                nonce, payload = books.atom(ask.atom) or _begun(books, ask.atom)
                if payload is not None:
                    settled = _settle(books, ask, hold, payload, reveal, now)
            if new_call is not None:
                free = settled is not None and settled.repeat and not settled.charge
                books.begin_call(ask.own.name, new_call.key, new_call.body, ask.digest, free=free)
            if settled is None:
                return Reserved(bytes.fromhex(nonce))
            mark = _mark(books, ask.accounts, now)
        return self._left(ask, settled, mark)

    def _left(self, ask: Debit, settled: Settled, mark: Mark) -> Settled:
        """What may leave, once the fence has seen it. Asked again, it will likely be a repeat."""
        self.fence.advance(mark)
        if len(self._settled) >= _REMEMBERED:
            self._settled.clear()
        self._settled.add((ask.own.name, ask.digest))
        return settled

    def _seen_before(self, ask: Debit, now: datetime) -> Settled | None:
        """A repeat changes nothing, so that it need not wait for those who write."""
        with self._books(self._store.reading) as books:
            settled = None if _is_new(books, ask) else _repeated(books, ask, now)
            if settled is None:
                return None
            mark = _mark(books, ask.accounts, now)
        self.fence.advance(mark)
        return settled

    def settle(self, ask: Debit, held: Reserved, payload: str, reveal: Reveal, now: datetime) -> Settled:
        """Store the atom, unless somebody was first; charge what the answer reveals, and store the answer.

        `payload` was drawn with the nonce of `held`. A recovery may have renewed it since; then the draw is void.
        """
        with self._books(self._store.writing) as books:
            settled = _repeated(books, ask, now)
            if settled is None:
                hold, atom = books.hold(ask.own.name, ask.digest), books.atom(ask.atom)
                if hold is None or atom is None:
                    raise LedgerFailed(LEFT_BEHIND)
                nonce, stored = atom
                if stored is None:
                    if nonce != held.nonce.hex():
                        raise LedgerFailed(LEFT_BEHIND)
                    books.store_atom(ask.atom, payload)
                settled = _settle(books, ask, hold, stored or payload, reveal, now)
            mark = _mark(books, ask.accounts, now)
        return self._left(ask, settled, mark)

    def keep(self, hold: Reservation, now: datetime) -> None:
        """Close a reservation that no answer can come of any more: its worst case is spent."""
        with self._books(self._store.writing) as books:
            if books.hold(hold.account, hold.digest) == hold:
                _keep(books, hold, now)

    def recall(
        self, own: str, digest: str, accounts_of: Callable[[str], Sequence[Account]], now: datetime
    ) -> Settled | None:
        """An answer as it first left to this account, if all that pay for its table now have paid for it.

        The accounts begin with this one.
        """
        with self._books(self._store.reading) as books:
            body, written = books.answer(own, digest), books.receipt(own, digest)
            if body is None or not written:
                return None
            receipt = json.loads(written)
            accounts = accounts_of(receipt["table"])
            shared = (account.name for account in accounts if account.name != own)  # her own has paid: it is her answer
            if any(_unpaid(receipt["worst"], books.paid(name, receipt["atom"])) for name in shared):
                return None
            mark = _mark(books, accounts, now)
        self.fence.advance(mark)
        charge, left = Charge.from_dict(receipt["charge"]), Charge.from_dict(receipt["left"])
        resets = None if receipt["resets"] is None else date.fromisoformat(receipt["resets"])
        return Settled(body, charge, left, resets, repeat=False)

    def called(self, own: str, call: IdempotentCall) -> EarlierCall | None:
        """What this call has begun already; `Conflict` where its body was another."""
        with self._books(self._store.reading) as books:
            return _called(books, own, call)

    def hold(self, own: str, digest: str) -> Reservation | None:
        """The reservation of a request that is not answered yet."""
        with self._books(self._store.reading) as books:
            return books.hold(own, digest)

    def holds(self) -> list[Reservation]:
        """Reservations without an answer, the oldest first."""
        with self._books(self._store.reading) as books:
            return books.holds()

    def begun(self, digest: str) -> list[Mapping[str, Any]]:
        """What stands behind a digest, whoever pays for it: requests that are reserved, and answers that have left."""
        with self._books(self._store.reading) as books:
            return _begun_by(books, digest)

    def stored(self, atom: str) -> str:
        """What was stored for an atom that is settled."""
        with self._books(self._store.reading) as books:
            found = books.atom(atom)
        if found is None or found[1] is None:
            raise LedgerFailed(LEFT_BEHIND)
        return found[1]

    # -- looking and granting --

    def left(self, accounts: Iterable[Account], now: datetime) -> list[Standing]:
        """Each account in its current period."""
        with self._books(self._store.reading) as books:
            return [_standing(books, account, now) for account in accounts]

    def prices(self, ask: Debit, outcomes: Callable[[int], Iterable[Sequence[Step]]]) -> list[Charge]:
        """What each outcome would cost the asker's own account now, given how many rows of the list she has seen."""
        with self._books(self._store.reading) as books:
            free = books.answer(ask.own.name, ask.digest) or books.hold(ask.own.name, ask.digest)
            paid = books.paid(ask.own.name, ask.atom)
        seen = sum(name.startswith("pick ") for name in paid)
        return [NOTHING if free else _cost(_new(steps, paid)) for steps in outcomes(seen)]

    def longest_fitting(self, most: int, asking: Callable[[int], Debit], now: datetime) -> int | None:
        """The longest list, of at most `most` rows, that every account could pay for now. A longer one costs more."""
        with self._books(self._store.reading) as books:
            longest, most = 0, most + 1
            while most - longest > 1:
                middle = (longest + most) // 2
                fits = _all_fit(books, asking(middle), now)
                longest, most = (middle, most) if fits else (longest, middle)
        return longest or None

    def history(self, analyst: str | None, *, before: int | None = None, rows: int = 100) -> ChargePage:
        """What an analyst's requests (everybody's: None) did to the accounts, the latest first."""
        with self._books(self._store.reading) as books:
            open_holds = [] if before is not None else [h for h in books.holds() if analyst in (None, h.analyst)]
            found = books.movements(analyst, before=before, rows=rows + 1)
        listed = [
            ChargeEntry(hold.at, hold.digest, part.account, part.charge, "reserved")
            for hold in reversed(open_holds)
            for part in hold.parts
        ]
        listed += [_listed(row) for _, row in found[:rows]]
        return ChargePage(listed, str(found[rows - 1][0]) if len(found) > rows else None)

    def grant(self, account: Account, amount: Charge, reason: str, now: datetime) -> Standing:
        """Add to what an account may spend in its current period."""
        if not amount > NOTHING:
            raise InvalidArgument("amount", "must be above zero: a grant adds to a budget")
        with self._books(self._store.writing) as books:
            balance = _balance(books, account, now)
            name = account.name
            row = Row(text_of(now), "grant", name, balance.period, _whose(name), granted=amount, note=reason)
            books.move(balance, row)
            return _standing(books, account, now)

    # -- trust --

    def stamp(self) -> Hashable | None:
        """While it stays the same, so do the books and their fence; None where that cannot be told cheaply."""
        books = self._store.stamp()
        return None if books is None else (books, self.fence.stamp())

    def check(self) -> None:
        """Raise unless the books can be read and written and continue what the fence saw. Nothing is changed."""
        with suppress(_Undone), self._books(self._store.writing) as books:
            books.touch()
            raise _Undone
        if not os.access(self.fence.path, os.W_OK):
            raise LedgerFailed(UNWRITABLE)

    @contextmanager
    def _books(self, transaction: Callable[[], AbstractContextManager[Run]]) -> Iterator[Books]:
        """The books in a transaction, if they are of the right version and continue what the fence saw."""
        mark = self.fence.mark()  # before the transaction: a later mark could be ahead of what it sees
        with transaction() as run:
            books = Books(run)
            _check_version(books)
            self._check_continues(books, mark)
            yield books

    def _check_continues(self, books: Books, mark: Mark | None) -> None:
        if mark is None or mark.ledger != books.head.id:
            raise LedgerSetBack(f"{NO_FENCE} ({self.fence.path})")
        if mark.sequence > books.head.sequence:
            raise LedgerSetBack(OLD_COPY)
        if mark is not self._seen and books.hash_at(mark.sequence) != mark.head:
            raise LedgerSetBack(OLD_COPY)
        self._seen = mark

    def verify(self) -> list[str]:
        """Everything that is wrong with the books, in words; nothing where they are right."""
        mark = self.fence.mark()
        with self._store.reading() as run:
            books = Books(run)
            _check_version(books)
            problems: list[str] = []
            try:
                problems += differences(books)
                self._check_continues(books, mark)
            except LedgerFailed as error:
                problems.append(str(error))
        return problems

    def recover(self, accounts: Sequence[Account], now: datetime) -> list[Row]:
        """Make a restored copy safe to serve; what accounts had to pay for it, nothing where nothing is wrong.

        Spending is raised to the fence's totals; without a fence nothing is left until the next reset. Reservations
        are closed at their worst case, and atoms that are not stored get new nonces: their first draw may have been
        seen by somebody, on rows that have changed since. For the same reason the moment is written down for reports.
        """
        mark = self.fence.mark()
        with self._store.writing() as run:
            books = Books(run)
            _check_version(books)
            known = mark if mark is not None and mark.ledger == books.head.id else None
            if known is not None and books.hash_at(known.sequence) == known.head:
                return []
            began = books.head.sequence
            for hold in books.holds():
                _keep(books, hold, now)
            books.renew_nonces()
            prices = {account.name: _prices(account) for account in accounts}
            for name, target in _targets(books, known, accounts, now, began).items():
                _raise(books, name, target, prices.get(name, ""), now)
            books.append(_restored(known, now))
            totals = _mark(books, accounts, now)
            # Inside the transaction: if it fails after this, the fence is ahead and the ledger stays refused.
            self.fence.begin(totals if known is None else replace(known, sequence=0) | totals)
            return [row for row in books.journal(after=began) if row.kind != "restore"]

    def migrate(self) -> int:
        """Bring an older ledger to this version; how many steps that took."""
        with self._store.writing() as run:
            books = Books(run)
            steps = LATEST - books.head.version
            if steps < 0:
                _check_version(books)
            migrate(run, books.head.version)
            return steps

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def token(step: Step) -> str:
    """A step's name within its atom: what is paid for once."""
    return " ".join(filter(None, (step.kind, str(step.place or ""), step.noise)))


def _new(steps: Iterable[Step], paid: Collection[str]) -> tuple[Step, ...]:
    """The steps that are not paid for. After a stop that was shown there is nothing more to show."""
    end = _end(paid)
    return tuple(step for step in steps if token(step) not in paid and (end is None or step.place < end))


def _unpaid(steps: Iterable[str], paid: Collection[str]) -> list[str]:
    """The same of steps by their names."""
    end = _end(paid)
    return [name for name in steps if name not in paid and (end is None or _place(name) < end)]


def _end(paid: Iterable[str]) -> int | None:
    return min((_place(name) for name in paid if name.startswith("stop ")), default=None)


def _place(name: str) -> int:
    """Where a step is in its list; 0 for what is no step of a list."""
    _, _, rest = name.partition(" ")
    number = rest.partition(" ")[0]
    return int(number) if number.isdigit() else 0


def _cost(steps: Iterable[Step]) -> Charge:
    return sum((step.charge for step in steps), NOTHING)


def _held(books: Books, ask: Debit, now: datetime) -> Reservation:
    """The request's reservation: begun, or joined by accounts that have come to pay for it since.

    All accounts are checked before the first is written.
    """
    names = ask.own.name, ask.digest, text_of(now), ask.analyst, ask.atom, ask.epoch, ask.version
    begun = books.hold(ask.own.name, ask.digest)
    hold = begun or Reservation(*names, dict(ask.request), ())
    paying = {part.account for part in hold.parts}
    late = [(account, cost) for account, cost in _costs(books, ask) if account.name not in paying]
    if not late:
        return hold
    balances = [_balance(books, account, now) for account, _ in late]
    for (account, cost), balance in zip(late, balances, strict=True):
        _check_fits(account, balance, cost, now)
    parts = [
        ReservationPart(balance.account, balance.period, cost)
        for (_, cost), balance in zip(late, balances, strict=True)
    ]
    for part, balance in zip(parts, balances, strict=True):
        books.move(balance, _row("reserve", hold, part, now, reserved=part.charge))
    if begun is not None:
        books.end_hold(begun)
    joined = replace(hold, parts=(*hold.parts, *parts))
    books.begin_hold(joined)
    return joined


def _costs(books: Books, ask: Debit) -> list[tuple[Account, Charge]]:
    """What each account has to reserve: her own for what she has not seen, shared ones for what nobody has asked."""
    costs = [(account, _cost(_new(ask.worst, books.paid(account.name, ask.atom)))) for account in ask.accounts]
    return [(account, cost) for account, cost in costs if cost or account is ask.own]


def _fits(account: Account, balance: Balance, cost: Charge, now: datetime) -> bool:
    left = _stands(account, balance, now).left
    pairs = (cost.information, left.information), (cost.calls, left.calls)
    return account.budget.mode == "track" or all(not amount or amount <= most for amount, most in pairs)


def _all_fit(books: Books, ask: Debit, now: datetime) -> bool:
    costs = [(account, _balance(books, account, now), cost) for account, cost in _costs(books, ask)]
    return all(_fits(account, balance, cost, now) for account, balance, cost in costs)


def _check_fits(account: Account, balance: Balance, cost: Charge, now: datetime) -> None:
    if not _fits(account, balance, cost, now):
        standing = _stands(account, balance, now)
        raise BudgetExhausted(cost, standing.left, account.name, standing.resets)


def _settle(books: Books, ask: Debit, hold: Reservation, payload: str, reveal: Reveal, now: datetime) -> Settled:
    revealed, before = reveal(payload), books.answer(hold.account, hold.digest)
    body = revealed.body if before is None else before
    note = {"atom": hold.atom, "answer": sha256(body), "payload": sha256(payload)}
    for part in hold.parts:
        own = part.account == hold.account
        paid = books.paid(part.account, hold.atom)
        # Only the asker's own account gets anything back: a refund would show others the length of her list.
        steps = _new(revealed.steps if own else ask.worst, paid)
        cost = _cost(steps)
        if not cost <= part.charge:
            raise LedgerFailed("an answer would cost more than was reserved for it; it does not leave")
        tokens = sorted(map(token, steps))
        row = _row("settle", hold, part, now, reserved=NOTHING - part.charge, spent=cost)
        if own:
            standing = _standing_after(books, ask.own, _found(books, part) + row, now)
            settled = Settled(body, cost, standing.left, standing.resets, repeat=before is not None)
            receipt = _receipt(settled, ask) if before is None else books.receipt(hold.account, hold.digest)
        told = note | {"steps": tokens} | ({"receipt": sha256(receipt)} if own else {})
        books.move(_found(books, part), replace(row, note=json.dumps(told)))
        books.pay(part.account, hold.atom, paid.union(tokens))
    if before is None:
        books.pay_for_calls(hold.account, hold.digest, None if ask.call is None else ask.call.key)
    books.store_answer(hold.account, hold.digest, body, receipt)
    books.end_hold(hold)
    return settled


def _standing_after(books: Books, account: Account, moved: Balance, now: datetime) -> Standing:
    """An account with one balance as it will be: the current one, unless a period has begun since it was reserved."""
    current = _balance(books, account, now)
    return _stands(account, moved if moved.period == current.period else current, now)


def _receipt(settled: Settled, ask: Debit) -> str:
    """What the moment adds to an answer, and who must have paid for what before it is shown again."""
    receipt = {
        "charge": settled.charge.to_dict(),
        "left": settled.left.to_dict(),
        "resets": None if settled.resets is None else settled.resets.isoformat(),
        "table": ask.request.get("table", ""),
        "atom": ask.atom,
        "worst": [token(step) for step in ask.worst],
    }
    return json.dumps(receipt, separators=(",", ":"))


def _repeated(books: Books, ask: Debit, now: datetime) -> Settled | None:
    """The answer as it left before, if everybody who pays for it now has paid: a cap may be new, or an organisation."""
    body = books.answer(ask.own.name, ask.digest)
    if body is None or any(cost for _, cost in _costs(books, ask)):
        return None
    standing = _standing(books, ask.own, now)
    return Settled(body, NOTHING, standing.left, standing.resets, repeat=True)


def _is_new(books: Books, ask: Debit) -> IdempotentCall | None:
    """The ask's call, if its idempotency key has not been seen before."""
    begun = None if ask.call is None else _called(books, ask.own.name, ask.call)
    if begun is not None and begun.digest != ask.digest:
        raise Conflict(IN_FLIGHT)  # the data version has changed between two of its attempts
    return ask.call if begun is None else None


def _called(books: Books, own: str, call: IdempotentCall) -> EarlierCall | None:
    found = books.call(own, call.key)
    if found is None:
        return None
    body, digest, free = found
    if body != call.body:
        raise Conflict(KEY_REUSED, reused=True)
    return EarlierCall(digest, free)


def _begun_by(books: Books, digest: str) -> list[Mapping[str, Any]]:
    held = [hold.request for hold in books.holds() if hold.digest == digest]
    return [*held, *map(json.loads, books.answers(digest))]


def _begun(books: Books, atom: str) -> tuple[str, None]:
    nonce = os.urandom(16).hex()
    books.begin_atom(atom, nonce)
    return nonce, None


def _keep(books: Books, hold: Reservation, now: datetime) -> None:
    for part in hold.parts:
        row = _row("keep", hold, part, now, reserved=NOTHING - part.charge, spent=part.charge)
        books.move(_found(books, part), row)
    books.end_hold(hold)


def _targets(
    books: Books, known: Mark | None, accounts: Iterable[Account], now: datetime, began: int
) -> Mapping[str, SpentTotal]:
    """What every account must have spent after a recovery: what the fence saw; without one, all there is."""
    if known is not None:
        totals = {name: total for name, total in known.totals.items() if not name.startswith(REPORT)}
        if known.sequence > began:
            return totals
        # The copy has gone on by itself: what it spent comes on top of what the fence saw.
        found = {name: books.balance(name, total.period) for name, total in totals.items()}
        return {
            name: SpentTotal(total.period, total.spent + (balance.spent if (balance := found[name]) else NOTHING))
            for name, total in totals.items()
        }
    balances = {account: _balance(books, account, now) for account in accounts}
    return {
        account.name: SpentTotal(balance.period, account.budget.cap + balance.granted)
        for account, balance in balances.items()
    }


def _raise(books: Books, name: str, target: SpentTotal, prices: str, now: datetime) -> None:
    balance = books.balance(name, target.period) or Balance(name, target.period, prices)
    missing = (SpentTotal(target.period, balance.spent) | target).spent - balance.spent
    if missing:
        row = Row(text_of(now), "recover", name, target.period, _whose(name), spent=missing, note="restored copy")
        books.move(balance, row)


def _restored(known: Mark | None, now: datetime) -> Row:
    """The mark of a recovery: from here on, what is not in the books may have left; and each report's versions.

    Without a fence nobody knows those, and there may have been any number.
    """
    versions = known and {
        name.removeprefix(REPORT): int(total.spent.calls)
        for name, total in known.totals.items()
        if name.startswith(REPORT)
    }
    return Row(text_of(now), "restore", "", "", note=json.dumps({"versions": versions}))


def _row(
    kind: Movement,
    hold: Reservation,
    part: ReservationPart,
    now: datetime,
    *,
    reserved: Charge,
    spent: Charge = NOTHING,
    note: str = "",
) -> Row:
    return Row(text_of(now), kind, part.account, part.period, hold.analyst, hold.digest, reserved, spent, NOTHING, note)


def _found(books: Books, part: ReservationPart) -> Balance:
    balance = books.balance(part.account, part.period)
    if balance is None:
        raise LedgerFailed("a reservation has no balance; run: sfumato budget verify")
    return balance


def _balance(books: Books, account: Account, now: datetime) -> Balance:
    """The balance of the period at `now`, or of a later one that has begun already."""
    start, _ = account.budget.period(now)
    period = max("" if start is None else start.isoformat(), books.latest_period(account.name))
    balance = books.balance(account.name, period) or Balance(account.name, period, _prices(account))
    if balance.prices not in ("", _prices(account)):
        raise ConfigError(
            account.name,
            f"has spent units of {balance.prices} in this period, and its budget now says {_prices(account)}; "
            "put it back until the period ends, or give the account another name",
        )
    return balance


def _prices(account: Account) -> str:
    """What a unit and a call mean: amounts in different ones cannot be added."""
    return f"epsilon_per {account.budget.prices.epsilon_per}, delta_per {account.budget.prices.delta_per}"


def _standing(books: Books, account: Account, now: datetime) -> Standing:
    return _stands(account, _balance(books, account, now), now)


def _stands(account: Account, balance: Balance, now: datetime) -> Standing:
    begun = datetime.combine(date.fromisoformat(balance.period), time(), UTC) if balance.period else now
    _, resets = account.budget.period(max(now, begun))
    amounts = account.budget.cap, balance.granted, balance.spent, balance.reserved
    return Standing(account.name, *amounts, resets)


def _mark(books: Books, accounts: Iterable[Account], now: datetime) -> Mark:
    balances = [_balance(books, account, now) for account in accounts]
    totals = {balance.account: SpentTotal(balance.period, balance.spent) for balance in balances}
    return Mark(books.head.id, books.head.sequence, books.head.hash, totals)


def _listed(row: Row) -> ChargeEntry:
    states = {"settle": "settled", "keep": "kept", "grant": "granted", "recover": "recovered"}
    amount = row.granted if row.kind == "grant" else row.spent
    return ChargeEntry(row.at, row.digest, row.account, amount, states[row.kind])


def _check_version(books: Books) -> None:
    version = books.head.version
    if version < LATEST:
        raise LedgerFailed(
            f"the ledger has schema {version} and this Sfumato needs {LATEST}; run: sfumato budget migrate"
        )
    if version > LATEST:
        raise LedgerFailed(f"the ledger has schema {version}, newer than this Sfumato's {LATEST}; upgrade Sfumato")


def _whose(account: str) -> str:
    """The analyst whose own account it is; nobody's, where it is shared."""
    return account.removeprefix(OWN) if account.startswith(OWN) else ""


def text_of(now: datetime) -> str:
    return now.astimezone(UTC).isoformat(timespec="microseconds")
