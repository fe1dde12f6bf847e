"""Reserving and settling: the acts that move a budget. Only `sfumato.spending` imports this module (a contract).

reserve ──► Reserved ──► settle      the answer leaves; its revealed steps are spent, the rest is given back
                    └──► keep        it can no longer be answered; the worst case is spent
reserve ──► Settled                  the atom was stored already: no row is read

`reserve_together` reserves several at once, all or none; then each is continued by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sfumato.errors import LedgerFailed, LedgerSetBack
from sfumato.ledger import rules
from sfumato.ledger.fence import Mark
from sfumato.ledger.ledger import SUPERSEDED, Ledger
from sfumato.ledger.tables import Books
from sfumato.ledger.types import Debit, Reservation, Reserved, Reveal, Settled

MAX_REPEATS = 100_000  # settled requests that a process remembers


def reserve(
    ledger: Ledger,
    debit: Debit,
    reveal: Reveal,
    now: datetime,
    *,
    resume: bool = False,
    same: Callable[[Mapping[str, Any]], None] | None = None,
) -> Reserved | Settled:
    """Reserve the worst case on every account, or raise `BudgetExhausted` and change nothing.

    The same request again continues its reservation; with `resume`, no new reservation is made. If the atom is
    stored already, it is settled at once. `same` gets every request with this digest, and may refuse.
    """
    if same is None and (debit.own.name, debit.digest) in ledger.settled:  # then it is a repeat, most likely
        repeat = _read_repeat(ledger, debit, now)
        if repeat is not None:
            return repeat
    with ledger.writing() as books:
        if same is not None:
            for request in rules.requests(books, debit.digest):
                same(request)
        new_call = debit.call and rules.new_call(books, debit, debit.call)
        settled = rules.repeat(books, debit, now)
        if settled is None:
            if resume and books.reservation(debit.own.name, debit.digest) is None:
                raise LedgerFailed(SUPERSEDED)
            held, atom = rules.reserve(books, debit, now), books.atom(debit.atom)
            if atom is None:
                raise LedgerSetBack(rules.LOST_DRAW)
            begun = Reserved(bytes.fromhex(atom[0]), atom[1], _read_draws(books, debit) if debit.draws else ())
            payloads = [atom[1], *(text for _, text in begun.draws)]
            if None not in payloads:
                settled = rules.settle(books, debit, held, [text or "" for text in payloads], reveal, now)
        if new_call is not None:
            free = settled is not None and settled.repeat and not settled.charge
            books.store_call(debit.own.name, new_call.key, new_call.body, debit.digest, free=free)
        if settled is None:
            return begun
        mark = rules.mark(books, debit.accounts, now)
    return _release(ledger, debit, settled, mark)


def reserve_together(ledger: Ledger, debits: Sequence[Debit], now: datetime) -> None:
    """Reserve the worst cases of several requests on every account, or raise `BudgetExhausted` and change nothing.

    What is stored or reserved already stays as it is. `reserve` with `resume` continues each.
    """
    with ledger.reading() as books:
        if all(rules.repeat(books, debit, now) and not debit.call for debit in debits):
            return
    with ledger.writing() as books:
        rules.reserve_together(books, debits, now)


def _read_draws(books: Books, debit: Debit) -> tuple[tuple[bytes, str | None], ...]:
    """The nonces of further draws, with their payloads where they are stored."""
    draws = [books.atom(drawn) for _, drawn in debit.draws]
    if None in draws:
        raise LedgerSetBack(rules.LOST_DRAW)
    return tuple((bytes.fromhex(each[0]), each[1]) for each in draws if each is not None)


def _read_repeat(ledger: Ledger, debit: Debit, now: datetime) -> Settled | None:
    """A repeat changes nothing, so it does not wait for writers."""
    with ledger.reading() as books:
        new = debit.call and rules.new_call(books, debit, debit.call)
        settled = None if new else rules.repeat(books, debit, now)
        if settled is None:
            return None
        mark = rules.mark(books, debit.accounts, now)
    ledger.fence.advance(mark)
    return settled


def _release(ledger: Ledger, debit: Debit, settled: Settled, mark: Mark) -> Settled:
    """Advance the fence, then let the answer leave."""
    ledger.fence.advance(mark)
    if len(ledger.settled) >= MAX_REPEATS:
        ledger.settled.clear()
    ledger.settled.add((debit.own.name, debit.digest))
    return settled


def settle(
    ledger: Ledger,
    debit: Debit,
    reserved: Reserved,
    payload: str,
    reveal: Reveal,
    now: datetime,
    drawn: Sequence[str] = (),
) -> Settled | Reserved:
    """Store the atom and its further draws, unless they are stored already; charge and store the answer.

    `payload` and those of further draws, `drawn`, were made with the nonces of `reserved`. If a recovery has renewed a
    nonce since, the draw is void. So are further draws over other rows than those that another process has stored by
    now: where one of them is not stored, nothing is settled, and it has to be computed over what is: `Reserved`.
    """
    with ledger.writing() as books:
        settled = rules.repeat(books, debit, now)
        if settled is None:
            held, atom = books.reservation(debit.own.name, debit.digest), books.atom(debit.atom)
            if held is None or atom is None:
                raise LedgerFailed(SUPERSEDED)
            now_stored = [(bytes.fromhex(atom[0]), atom[1]), *(_read_draws(books, debit) if debit.draws else ())]
            if debit.draws and atom[1] not in (None, payload) and None in [stored for _, stored in now_stored]:
                return Reserved(*now_stored[0], tuple(now_stored[1:]))
            names = (debit.atom, *(drawn for _, drawn in debit.draws))
            nonces = (reserved.nonce, *(nonce for nonce, _ in reserved.draws))
            payloads = payload, *drawn
            for name, drawn_with, (nonce, stored), text in zip(names, nonces, now_stored, payloads, strict=True):
                if stored is None:
                    if nonce != drawn_with:
                        raise LedgerFailed(SUPERSEDED)
                    books.store_atom(name, text)
            final = [stored or text for (_, stored), text in zip(now_stored, payloads, strict=True)]
            settled = rules.settle(books, debit, held, final, reveal, now)
        mark = rules.mark(books, debit.accounts, now)
    return _release(ledger, debit, settled, mark)


def keep(ledger: Ledger, held: Reservation, now: datetime) -> None:
    """Close a reservation that can no longer be answered: its worst case is spent."""
    with ledger.writing() as books:
        if books.reservation(held.account, held.digest) == held:
            rules.keep(books, held, now)
