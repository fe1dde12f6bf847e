"""Recovery: a restored copy of the ledger is made safe to serve.

A copy does not know what left after it was made. So spending is raised to what the fence saw, reservations are closed
at their worst case, and nonces that may have been used are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sfumato.accounting import NOTHING, Charge
from sfumato.ledger import rules
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.tables import CREDENTIALS, Books
from sfumato.ledger.types import REPORT, SIGN_INS, Account, Balance, Row, moment_text


def recover(books: Books, mark: Mark | None, accounts: Sequence[Account], now: datetime) -> Mark | None:
    """Make a copy safe to serve, and return the mark that its fence has to hold; None if nothing is wrong.

    With a fence, spending is raised to its totals. Without one, nothing is left until the next reset. Reservations are
    closed at their worst case. Atoms that are not stored lose their nonces: a first draw may have left, and the rows
    may have changed since. For the same reason the journal notes the moment of the recovery, for reports.
    Sign-ins are ended: some may have been before. If the journal is whole and only the API keys or the sign-ins are an
    older copy, those that have changed are ended.
    """
    known = mark if mark is not None and mark.ledger == books.head.id else None
    if known is not None and books.hash_at(known.sequence) == known.head:
        return _end_changed_credentials(books, known, now)
    copied = books.head.sequence
    for held in books.reservations():
        if books.last_kind(held) == "reserve":
            rules.keep(books, held, now)
        else:  # the journal has closed it: its table alone is an older copy
            books.delete_reservation(held)
    books.drop_nonces()
    for (name,) in books.run("SELECT id FROM sign_ins WHERE ended IS NULL ORDER BY id"):
        books.end_credential(SIGN_INS, name, moment_text(now))
    prices = {account.name: rules.prices_text(account.budget.prices) for account in accounts}
    for name, target in targets(books, known, accounts, copied, now).items():
        balance = books.balance(name, target.period) or Balance(name, target.period, prices.get(name, ""))
        missing = (SpentTotal(target.period, balance.spent) | target).spent - balance.spent
        if missing:
            analyst = rules.analyst_of(name)
            row = Row(moment_text(now), "recover", name, target.period, analyst, spent=missing, note="restored copy")
            books.move(balance, row)
    note = {"versions": None if known is None else _report_versions(known)}
    books.append(Row(moment_text(now), "restore", "", "", note=json.dumps(note)))
    totals = rules.mark(books, accounts, now)
    if known is None:
        return totals
    kept = {**_without_rows(known.totals), **rules.credentials_mark(books).totals}
    return replace(known, sequence=0, totals=kept) | totals


def _end_changed_credentials(books: Books, known: Mark, now: datetime) -> Mark | None:
    """End the API keys and sign-ins that are not as the journal noted them; None if the fence has seen nothing else."""
    changed = [(kind, name) for kind in CREDENTIALS for name in _changed_credentials(books, kind)]
    for kind, name in changed:
        books.end_credential(kind, name, moment_text(now))
    after = rules.credentials_mark(books)
    is_known = all(
        kind not in known.totals or known.totals[kind].spent <= after.totals[kind].spent for kind in CREDENTIALS
    )
    return None if is_known and not changed else replace(after, totals={**known.totals, **after.totals})


def _changed_credentials(books: Books, kind: str) -> list[str]:
    stored, noted = books.credential_hashes(kind), books.noted_credentials(kind)
    return sorted(name for name in stored.keys() | noted.keys() if stored.get(name) != noted.get(name))


def targets(
    books: Books, known: Mark | None, accounts: Sequence[Account], copied: int, now: datetime
) -> Mapping[str, SpentTotal]:
    """What each account must have spent after a recovery; `copied` is the length of the copy's journal."""
    if known is None:
        balances = {account: rules.current_balance(books, account, now) for account in accounts}
        return {
            account.name: SpentTotal(balance.period, account.budget.cap + balance.granted)
            for account, balance in balances.items()
        }
    totals = {
        name: total for name, total in known.totals.items() if name not in CREDENTIALS and not name.startswith(REPORT)
    }
    if known.sequence > copied:
        return totals
    # The copy was used after it was restored: what it spent comes on top of what the fence saw.
    by_name = {name: books.balance(name, total.period) for name, total in totals.items()}
    return {
        name: SpentTotal(total.period, total.spent + (balance.spent if (balance := by_name[name]) else NOTHING))
        for name, total in totals.items()
    }


def _without_rows(totals: Mapping[str, SpentTotal]) -> dict[str, SpentTotal]:
    """The totals of a fence whose ledger is lost: for reports, the numbers of journal rows mean nothing any more."""
    return {
        name: SpentTotal(total.period, Charge(0, total.spent.calls)) if name.startswith(REPORT) else total
        for name, total in totals.items()
    }


def _report_versions(known: Mark) -> dict[str, int]:
    """The highest version of each report that the fence saw. Without a fence any version may have left."""
    return {
        name.removeprefix(REPORT): int(total.spent.calls)
        for name, total in known.totals.items()
        if name.startswith(REPORT)
    }
