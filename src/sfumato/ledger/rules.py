"""The rules of reserving and settling, over the tables of one transaction.

What a request costs follows from its steps and from the steps that its accounts have paid for. Nothing here opens a
transaction, reads a clock or moves the fence: `sfumato.ledger.ledger` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any

from sfumato.accounting import NOTHING, Charge, total_charge
from sfumato.errors import BudgetExhausted, ConfigError, Conflict, LedgerFailed, LedgerSetBack
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.tables import CREDENTIALS, Books, sha256
from sfumato.ledger.types import (
    KEYS,
    OWN,
    REPORT,
    SIGN_INS,
    Account,
    Balance,
    Debit,
    EarlierCall,
    IdempotentCall,
    Reservation,
    ReservationPart,
    Reveal,
    Row,
    Settled,
    Standing,
    moment_text,
)
from sfumato.mechanisms import Step

KEY_REUSED = "this Idempotency-Key was sent before with another body; use a new key for every new call"
NO_BALANCE = "a reservation has no balance; run: sfumato budget verify"
LOST_DRAW = (
    "the ledger has lost a draw that was paid for: a table was put back from an older copy. Put the newest copy in "
    "place; `sfumato budget verify` says what is wrong"
)
LOST_END = {
    kind: f"the ledger has lost that {what}: a table was put back from an older copy. Put the newest copy in place, or "
    f"run: sfumato budget recover, which {way_out}"
    for kind, what, way_out in (
        (KEYS, "API keys were revoked", "revokes them again"),
        (SIGN_INS, "sign-ins were ended", "ends them again"),
    )
}
CLOSED_AGAIN = (
    "the ledger has a request open that was closed before: a table was put back from an older copy. Put the newest "
    "copy in place; `sfumato budget verify` says what is wrong"
)
IN_FLIGHT = "a call with this Idempotency-Key is being answered at this moment; send it again"


# -- steps: each is paid for once per account and atom --


def step_charges(steps: Iterable[Step]) -> dict[str, Charge]:
    """What each step costs, by its name within its atom: `paid` and the journal store these names."""
    return {" ".join(filter(None, (step.kind, str(step.place or ""), step.noise))): step.charge for step in steps}


def unpaid(charges: Mapping[str, Charge], paid: Collection[str]) -> dict[str, Charge]:
    """The steps that are not paid for. After a paid stop nothing more can be shown, so nothing more costs."""
    end = min([_place(name) for name in paid if name.startswith("stop ")], default=None)
    return {
        name: charge for name, charge in charges.items() if name not in paid and (end is None or _place(name) < end)
    }


def _place(name: str) -> int:
    """The place of a step in its list; 0 for a step of no list."""
    number = name.partition(" ")[2].partition(" ")[0]
    return int(number) if number.isdigit() else 0


def costs(books: Books, debit: Debit) -> list[tuple[Account, Charge]]:
    """What each account has to reserve: its unpaid steps. Shared accounts without any are left out."""
    worst, amounts = step_charges(debit.worst), []
    for account in debit.accounts:
        charge = total_charge(unpaid(worst, books.paid_steps(account.payer or account.name, debit.atom)).values())
        if charge != NOTHING or account is debit.own:
            amounts.append((account, charge))
    return amounts


def may_leave_again(books: Books, accounts: Iterable[Account], steps: Mapping[str, Charge], atom: str) -> bool:
    """Whether an answer that left before is paid for on all accounts that have to pay for it now.

    Before schema 5 a cap was paid for once, by all together, under its own name. That still counts here, and nowhere
    else: the one who asks has this answer already.
    """
    for account in accounts:
        paid = books.paid_steps(account.payer or account.name, atom)
        if account.payer and unpaid(steps, paid):
            paid |= books.paid_steps(account.name, atom)
        if unpaid(steps, paid):
            return False
    return True


def recallable(
    books: Books,
    own: str,
    digest: str,
    accounts_of: Callable[[str], Sequence[Account]],
    allowed: Callable[[str, str], bool],
) -> tuple[str, Mapping[str, Any], Sequence[Account]] | None:
    """A stored answer, the receipt with which it first left, and the accounts of its table, if it may leave again."""
    body, written = books.answer(own, digest), books.receipt(own, digest)
    if body is None or not written:
        return None
    receipt = json.loads(written)
    if not allowed(receipt["table"], receipt.get("row_filter", "")):
        return None
    accounts = accounts_of(receipt["table"])
    steps = dict.fromkeys(receipt["worst"], NOTHING)
    shared = [account for account in accounts if account.name != own]  # the own account has paid
    return (body, receipt, accounts) if may_leave_again(books, shared, steps, receipt["atom"]) else None


# -- accounts --


prices_text = "epsilon_per {0.epsilon_per}, delta_per {0.delta_per}".format
"""What a unit and a call mean. Amounts with different prices cannot be added."""


def current_balance(books: Books, account: Account, now: datetime) -> Balance:
    """The balance of the period at `now`, or of a later period that has begun already."""
    start, _ = account.budget.period(now)
    period = "" if start is None else start.isoformat()
    balance, prices = books.balance(account.name), prices_text(account.budget.prices)
    if balance is None or balance.period < period:
        return Balance(account.name, period, prices)
    if balance.prices not in ("", prices):
        raise ConfigError(
            account.name,
            f"has spent units of {balance.prices} in this period, and its budget now says {prices}; "
            "put it back until the period ends, or give the account another name",
        )
    return balance


def check_floors(books: Books) -> None:
    """Raise if the fence has seen more of any account, of the cells of any report, or of the keys than is stored."""
    books.read_balances()
    for name in books.floor:
        if name in CREDENTIALS:
            check_credentials(books)
        elif name.startswith(REPORT):
            check_cells(books, name)
        else:
            books.balance(name)


def check_cells(books: Books, report: str) -> None:
    """Raise if the latest cells of a report that the fence has seen are gone: they would be drawn a second time.

    The fence holds the number of their journal row; an older copy of the cells has none of that row.
    """
    seen = books.floor.get(report)
    if seen is not None and seen.spent.information and not books.has_cells(int(seen.spent.information)):
        raise LedgerSetBack(LOST_DRAW)


def check_credentials(books: Books) -> None:
    """Raise if fewer API keys are revoked, or sign-ins ended, than the fence has seen: one would be valid again."""
    for kind, words in LOST_END.items():
        seen = books.floor.get(kind)
        if seen is not None and books.count_ended(kind) < seen.spent.calls:
            raise LedgerSetBack(words)


def credentials_mark(books: Books) -> Mark:
    """What the fence has to hold once a key or a sign-in has ended: how many have, as a number of calls."""
    ended = {kind: SpentTotal("", Charge(0, books.count_ended(kind))) for kind in CREDENTIALS}
    return Mark(books.head.id, books.head.sequence, books.head.hash, ended)


def check_open(books: Books, held: Reservation) -> None:
    """Raise if the journal closed a reservation that is there again."""
    if books.last_kind(held) != "reserve":
        raise LedgerSetBack(CLOSED_AGAIN)


def standing(account: Account, balance: Balance, now: datetime) -> Standing:
    began = datetime.combine(date.fromisoformat(balance.period), time(), UTC) if balance.period else now
    _, resets = account.budget.period(max(now, began))
    amounts = account.budget.cap, balance.granted, balance.spent, balance.reserved
    return Standing(account.name, *amounts, resets)


def fits(account: Account, balance: Balance, charge: Charge, now: datetime) -> bool:
    """Whether an account may pay a charge. A part of the charge that is zero fits even where less than zero is left."""
    left = standing(account, balance, now).left
    return account.budget.mode == "track" or (
        (not charge.information or charge.information <= left.information)
        and (not charge.calls or charge.calls <= left.calls)
    )


def mark(books: Books, accounts: Iterable[Account], now: datetime) -> Mark:
    """What the fence has to hold before an answer that these accounts pay for leaves."""
    totals = {}
    for account in accounts:
        balance = current_balance(books, account, now)
        totals[account.name] = SpentTotal(balance.period, balance.spent)
    return Mark(books.head.id, books.head.sequence, books.head.hash, totals)


def analyst_of(account: str) -> str:
    """The analyst of an own account; empty for other accounts."""
    return account.removeprefix(OWN) if account.startswith(OWN) else ""


# -- reserve, settle, keep --


def reserve(books: Books, debit: Debit, now: datetime) -> Reservation:
    """Reserve the worst case on every account that has not reserved yet, or raise `BudgetExhausted`.

    A reservation that exists is continued; accounts that must pay only since then are added to it. All accounts are
    checked before the first row is written.
    """
    own, at = debit.own.name, moment_text(now)
    begun = books.reservation(own, debit.digest)
    names = own, debit.digest, at, debit.analyst, debit.atom, debit.epoch, debit.version
    held = begun or Reservation(*names, dict(debit.request), ())
    paying = {part.account for part in held.parts}
    charges = costs(books, debit)
    late = [
        (account, current_balance(books, account, now), charge)
        for account, charge in charges
        if account.name not in paying
    ]
    if begun is not None:
        check_open(books, begun)
    if not late:
        return held
    for account, balance, charge in late:
        if not fits(account, balance, charge, now):
            left = standing(account, balance, now)
            raise BudgetExhausted(charge, left.left, account.name, left.resets)
    new = [ReservationPart(account.name, balance.period, charge, account.payer) for account, balance, charge in late]
    joined = replace(held, parts=(*held.parts, *new))
    if begun is not None:
        books.delete_reservation(begun)
    note = {"own": own, "hold": books.store_reservation(joined)}
    atom = books.atom(debit.atom)
    if atom is None:
        note |= {"atom": debit.atom, "nonce": sha256(books.begin_atom(debit.atom))}
    begun_draws = {drawn: sha256(books.begin_atom(drawn)) for _, drawn in debit.draws if books.atom(drawn) is None}
    if begun_draws:
        note["draws"] = json.dumps(begun_draws)
    if question := books.store_question(own, debit.digest, debit.request, debit.write_sql()):
        note["question"] = question
    # Who has paid for a part of an atom has less than the whole of it to pay; and only what is stored was paid for.
    whole = total_charge(step_charges(debit.worst).values())
    if (atom is None or atom[1] is None) and [charge for _, charge in charges] != [whole] * len(debit.accounts):
        raise LedgerSetBack(LOST_DRAW)
    for tag, drawn in debit.draws:
        is_lost = any(
            name.endswith(f" {tag}")
            for account in debit.accounts
            for name in books.paid_steps(account.payer or account.name, debit.atom)
        )
        if is_lost and (books.atom(drawn) or ("", None))[1] is None:
            raise LedgerSetBack(LOST_DRAW)
    for part, (_, balance, charge) in zip(new, late, strict=True):
        text = json.dumps(note) if part is new[0] else ""
        row = Row(at, "reserve", part.account, balance.period, held.analyst, held.digest, charge, note=text)
        books.move(balance, row)
    return joined


def check_together(books: Books, debits: Sequence[Debit], now: datetime) -> None:
    """Raise `BudgetExhausted` unless each account can pay what all of several requests cost it."""
    open_debits = [debit for debit in {debit.digest: debit for debit in debits}.values() if not _is_held(books, debit)]
    sums: dict[str, tuple[Account, Charge]] = {}
    for account, charge in (pair for debit in open_debits for pair in costs(books, debit)):
        sums[account.name] = account, charge + (sums[account.name][1] if account.name in sums else NOTHING)
    for account, charge in sums.values():
        balance = current_balance(books, account, now)
        if not fits(account, balance, charge, now):
            left = standing(account, balance, now)
            raise BudgetExhausted(charge, left.left, account.name, left.resets)


def reserve_together(books: Books, debits: Sequence[Debit], now: datetime) -> None:
    """Reserve all of several requests, or raise `BudgetExhausted`: an account is checked with what it pays for all."""
    check_together(books, debits, now)
    for debit in debits:
        new = debit.call and new_call(books, debit, debit.call)
        is_repeat = repeat(books, debit, now) is not None
        if not is_repeat:
            reserve(books, debit, now)
        if new:
            books.store_call(debit.own.name, new.key, new.body, debit.digest, free=is_repeat)


def _is_held(books: Books, debit: Debit) -> bool:
    """Whether a request was reserved before: then it is continued."""
    return books.reservation(debit.own.name, debit.digest) is not None


def settle(
    books: Books, debit: Debit, held: Reservation, payloads: Sequence[str], reveal: Reveal, now: datetime
) -> Settled:
    """Charge what the answer reveals, store the answer, and end the reservation.

    `payloads` are that of the atom and those of its further draws.
    """
    revealed, before = reveal(*payloads), books.answer(held.account, held.digest)
    body = revealed.body if before is None else before
    note = {"atom": held.atom, "answer": sha256(body), "payload": sha256(payloads[0])}
    if debit.draws:
        draws = {drawn: sha256(text) for (_, drawn), text in zip(debit.draws, payloads[1:], strict=True)}
        note["draws"] = json.dumps(draws)
    worst, at = step_charges(debit.worst), moment_text(now)
    for part in held.parts:
        own = part.account == held.account
        paid = books.paid_steps(part.payer or part.account, held.atom)
        # Only the analyst's own account gets anything back: a refund would show others the length of the list.
        steps = unpaid(step_charges(revealed.steps) if own else worst, paid)
        charge = total_charge(steps.values())
        if not charge <= part.charge:
            raise LedgerFailed("this answer costs more than was reserved for it, so it does not leave")
        names = part.account, part.period, held.analyst, held.digest
        row = Row(at, "settle", *names, NOTHING - part.charge, charge)
        balance = books.balance(part.account, part.period)
        if balance is None:
            raise LedgerFailed(NO_BALANCE)
        if own:
            current = current_balance(books, debit.own, now)  # of a later period, if one began since it was reserved
            left = standing(debit.own, balance + row if balance.period == current.period else current, now)
            settled = Settled(body, charge, left.left, left.resets, repeat=before is not None)
            # What the first answer said of its cost, and the steps that must be paid before it is shown again.
            first = {
                "charge": settled.charge.to_dict(),
                "left": settled.left.to_dict(),
                "resets": None if settled.resets is None else settled.resets.isoformat(),
                "table": debit.request.get("table", ""),
                "atom": debit.atom,
                "worst": list(worst),
                **({"row_filter": debit.row_filter} if debit.row_filter else {}),
            }
            written = json.dumps(first, separators=(",", ":"))
            receipt = written if before is None else books.receipt(held.account, held.digest)
        full_note = note | {"steps": sorted(steps)} | ({"receipt": sha256(receipt)} if own else {})
        if part.payer:
            full_note["payer"] = part.payer
        books.move(balance, replace(row, note=json.dumps(full_note)))
        books.store_paid_steps(part.payer or part.account, held.atom, paid.union(steps))
    if before is None:
        books.charge_one_call(held.account, held.digest, None if debit.call is None else debit.call.key)
    books.store_answer(held.account, held.digest, body, receipt)
    books.delete_reservation(held)
    return settled


def keep(books: Books, held: Reservation, now: datetime) -> None:
    """Spend the worst case of a reservation and end it."""
    check_open(books, held)
    for part in held.parts:
        balance = books.balance(part.account, part.period)
        if balance is None:
            raise LedgerFailed(NO_BALANCE)
        names = part.account, part.period, held.analyst, held.digest
        books.move(balance, Row(moment_text(now), "keep", *names, NOTHING - part.charge, part.charge))
    books.delete_reservation(held)


# -- repeats --


def repeat(books: Books, debit: Debit, now: datetime) -> Settled | None:
    """The stored answer, if every account that has to pay for it now has paid.

    A table may have got a cap since it was stored, or the analyst an organisation.
    """
    body = books.answer(debit.own.name, debit.digest)
    if body is None or not may_leave_again(books, debit.accounts, step_charges(debit.worst), debit.atom):
        return None
    left = standing(debit.own, current_balance(books, debit.own, now), now)
    return Settled(body, NOTHING, left.left, left.resets, repeat=True)


def earlier_call(books: Books, own: str, call: IdempotentCall) -> EarlierCall | None:
    """The earlier call with the same key. Raises `Conflict` if its body was another."""
    row = books.call(own, call.key)
    if row is None:
        return None
    body, digest, free = row
    if body != call.body:
        raise Conflict(KEY_REUSED, reused=True)
    return EarlierCall(digest, free)


def new_call(books: Books, debit: Debit, call: IdempotentCall) -> IdempotentCall | None:
    """The call of a debit, if its key was not used before."""
    earlier = earlier_call(books, debit.own.name, call)
    if earlier is not None and earlier.digest != debit.digest:
        raise Conflict(IN_FLIGHT)  # the data version has changed between two attempts of this call
    return call if earlier is None else None


def requests(books: Books, digest: str) -> list[Mapping[str, Any]]:
    """The requests with a digest: those that are reserved, then the bodies of those that are answered."""
    held = [each.request for each in books.reservations() if each.digest == digest]
    return [*held, *map(json.loads, books.answers(digest))]
