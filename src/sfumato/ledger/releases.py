"""The releases that a ledger has paid for: their statements, and what each account paid. Never a table."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.accounting import Charge
from sfumato.errors import DAMAGED, LedgerFailed
from sfumato.ledger.accounts import RELEASE
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import Books
from sfumato.ledger.types import read_charge


@dataclass(frozen=True, slots=True)
class PaidRelease:
    """A release: when it was paid for, by which accounts, and its statement without the facts of a file."""

    digest: str
    at: str
    budget: str
    charges: Mapping[str, Charge]
    statement: Mapping[str, Any]

    @property
    def job(self) -> str | None:
        return self.statement.get("job")


def list_releases(ledger: Ledger) -> list[PaidRelease]:
    """All releases, the latest first."""
    with ledger.reading("upkeep") as books:
        paid = _payments(books)
        rows = books.run("SELECT account, digest, body FROM answers WHERE account LIKE ?", f"{RELEASE}%")
    found = [_release(account, digest, body, paid.get(digest, ())) for account, digest, body in rows]
    return sorted(found, key=lambda release: (release.at, release.digest), reverse=True)


def _payments(books: Books) -> dict[str, list[tuple[str, str, Charge]]]:
    """When each release was paid for, by account: rows of the journal without an analyst."""
    paid: dict[str, list[tuple[str, str, Charge]]] = defaultdict(list)
    for at, account, digest, spent in books.run(
        "SELECT at, account, digest, spent FROM journal WHERE analyst = '' AND kind = 'settle' ORDER BY sequence"
    ):
        paid[digest].append((at, account, read_charge(spent)))
    return paid


def _release(account: str, digest: str, body: str, paid: Sequence[tuple[str, str, Charge]]) -> PaidRelease:
    try:
        statement = json.loads(body)
    except ValueError:
        raise LedgerFailed(DAMAGED) from None
    if not isinstance(statement, dict):
        raise LedgerFailed(DAMAGED)
    charges: dict[str, Charge] = defaultdict(Charge)
    for _, payer, spent in paid:
        charges[payer] += spent
    return PaidRelease(digest, paid[0][0] if paid else "", account.removeprefix(RELEASE), dict(charges), statement)
