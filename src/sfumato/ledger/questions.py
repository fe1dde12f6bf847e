"""What was asked, question by question, with what it cost and what became of it. Never an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec

from sfumato.accounting import total_charge
from sfumato.errors import DAMAGED, LedgerFailed
from sfumato.ledger.ledger import STATES, Ledger
from sfumato.ledger.rules import recallable
from sfumato.ledger.tables import Books
from sfumato.ledger.types import OWN, Account, Movements, PastRequest, PastRequests


class _ReceiptError(msgspec.Struct):
    error95: dict[str, int | float]


class _AnswerError(msgspec.Struct):
    """Of a stored answer, what its receipt says about the error. The rows are skipped."""

    receipt: _ReceiptError


@dataclass(frozen=True, slots=True)
class Sight:
    """What of her answers an analyst may see: as the arguments of `Ledger.recall`."""

    accounts_of: Callable[[str], Sequence[Account]]
    allowed: Callable[[str, str], bool]


_ANSWER_ERROR = msgspec.json.Decoder(_AnswerError)


def list_questions(
    ledger: Ledger,
    which: Movements,
    sight_of: Callable[[str], Sight | None],
    *,
    before: int | None = None,
    rows: int = 100,
) -> PastRequests:
    """A page of what was asked: first what is not answered yet, then what is, each with the latest first.

    `sight_of` says what an analyst may still see; None for one who may see nothing. A cursor counts the rows of `which`
    only, so it does not show how much others ask.
    """
    which = replace(which, kinds=("settle", "keep"), own=True)
    with ledger.reading() as books:
        held = books.reservations() if before is None else []
        page = books.movements(which, before=before, rows=rows + 1)
        waiting = [
            PastRequest(each.at, each.analyst, each.digest, "reserved", charge, each.request, sql)
            for each in reversed(held)
            if each.account == f"{OWN}{each.analyst}"
            if which.analyst in (None, each.analyst)
            if which.since <= each.at and (not which.until or each.at < which.until)
            for charge in [total_charge(part.charge for part in each.parts if part.account == each.account)]
            for sql in [books.question(each.account, each.digest).sql]
        ]
        ended = [
            PastRequest(
                *(row.at, row.analyst, row.digest, STATES[row.kind], row.spent, asked.request, asked.sql),
                error95=_error(books, row.account, row.digest),
                recallable=_is_recallable(books, row.account, row.digest, sight_of(row.analyst)),
            )
            for _, row, asked in page[:rows]
        ]
    return PastRequests([*waiting, *ended], str(page[rows - 1][0]) if len(page) > rows else None)


def _is_recallable(books: Books, account: str, digest: str, sight: Sight | None) -> bool:
    return sight is not None and recallable(books, account, digest, sight.accounts_of, sight.allowed) is not None


def _error(books: Books, account: str, digest: str) -> dict[str, int | float] | None:
    """The error of the answer with this digest; None if there is none."""
    body = books.answer(account, digest)
    if body is None:
        return None
    try:
        return _ANSWER_ERROR.decode(body).receipt.error95
    except msgspec.DecodeError:
        raise LedgerFailed(DAMAGED) from None
