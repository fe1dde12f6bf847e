"""The values that the ledger takes and returns, and the rows of its tables."""

from __future__ import annotations

import getpass
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Budget
from sfumato.errors import LedgerFailed
from sfumato.mechanisms import Step

SPOILT = "the ledger's tables hold a value that Sfumato does not write; put the newest copy in place"

OWN = "analyst:"  # before an analyst's name, in the name of the analyst's own account
REPORT = "report:"  # before a report's name, where other rows name an account
KEYS, SIGN_INS = "keys", "sign-ins"  # what a fence calls API keys and sign-ins: no account has these names

Movement: TypeAlias = Literal[
    "reserve", "settle", "keep", "grant", "recover", "seal", "restore", "key", "sign-in", "nonce", "policy"
]


# -- what a request asks of the ledger --


@dataclass(frozen=True, slots=True)
class Account:
    """An account and its budget. A `shared` account keeps what it reserved.

    Steps that were paid for are stored under the account's name, or under `payer` where it is not empty: where
    strangers share an account, each of them pays for each step.
    """

    name: str
    budget: Budget
    shared: bool = False
    payer: str = ""


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """One call with an idempotency key: the hashes of the key and of the body."""

    key: str
    body: str

    @classmethod
    def of(cls, key: str, body: bytes) -> IdempotentCall:
        return cls(hashlib.sha256(key.encode()).hexdigest(), hashlib.sha256(body).hexdigest())

    def part(self, place: int) -> IdempotentCall:
        """The call of one question of a statement with several. The first has the key of the call itself."""
        return replace(self, key=hashlib.sha256(f"{self.key} {place}".encode()).hexdigest()) if place else self


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """The request that an earlier call with the same key made. `free`: it was a repeat and cost nothing."""

    digest: str
    free: bool


@dataclass(frozen=True, slots=True)
class Debit:
    """What a request asks of the ledger. The analyst's own account comes first; `worst` are the costliest steps.

    `row_filter` is the condition that the analyst's rights added to it; "" for none. `write_sql` gives the request as
    SQL, which is stored with a charge. `draws` are further atoms over the rows of `atom`, each with its tag: the steps
    of such a draw, which are among those of `atom`, end with it.
    """

    analyst: str
    accounts: tuple[Account, ...]
    digest: str
    atom: str
    epoch: str
    version: str
    request: Mapping[str, Any]
    worst: tuple[Step, ...]
    call: IdempotentCall | None = None
    row_filter: str = ""
    write_sql: Callable[[], str] = str
    draws: tuple[tuple[str, str], ...] = ()

    @property
    def own(self) -> Account:
        return self.accounts[0]


@dataclass(frozen=True, slots=True)
class Revealed:
    """What an answer shows of a stored payload: its body, and the steps behind it."""

    body: str
    steps: tuple[Step, ...]


Reveal: TypeAlias = Callable[..., Revealed]
"""It gets the payload of the atom, and those of further draws in their order."""


# -- what the ledger replies --


@dataclass(frozen=True, slots=True)
class Reserved:
    """The worst case is reserved. Compute the atom with this nonce, then settle.

    `payload` is there if the atom is stored already; `draws` has the same of further draws, in their order.
    """

    nonce: bytes
    payload: str | None = None
    draws: tuple[tuple[bytes, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """An answer that may leave. `charge` is what the analyst's own account paid now, and `left` what it has left."""

    body: str
    charge: Charge
    left: Charge
    resets: date | None
    repeat: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """One account in its current period."""

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
class KeptRequest:
    """What was asked, in its one form per meaning, and the same as SQL where it has such a form.

    Both are None for what is no question, and for charges of earlier schemas.
    """

    request: Mapping[str, Any] | None = None
    sql: str | None = None


@dataclass(frozen=True, slots=True)
class ChargeEntry:
    """One movement of one account. `state` is reserved, settled, kept, granted or recovered; a grant has a `reason`."""

    at: str
    digest: str
    account: str
    charge: Charge
    state: str
    request: Mapping[str, Any] | None = None
    sql: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PastRequest:
    """A question that an analyst's own account paid for, or has reserved for. `state` is settled, reserved or kept.

    `error95` is that of the answer; None where there is no answer. `recallable`: the analyst can still get it.
    """

    at: str
    analyst: str
    digest: str
    state: str
    charge: Charge
    request: Mapping[str, Any] | None = None
    sql: str | None = None
    error95: Mapping[str, int | float] | None = None
    recallable: bool = False


@dataclass(frozen=True, slots=True)
class PastRequests:
    """A page of questions, the latest first. `next` is the cursor of the next page."""

    rows: Sequence[PastRequest]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A page of movements, the latest first. `next` is the cursor of the next page."""

    rows: Sequence[ChargeEntry]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changed keys or grants: the user of a process, or an analyst over HTTP and the id of her key, if she has one.

    What is not known is empty.
    """

    user: str = ""
    analyst: str = ""
    key: str = ""

    def to_dict(self) -> dict[str, str]:
        return {name: text for name, text in asdict(self).items() if text}


def current_user() -> Actor:
    """The user of this process."""
    try:
        return Actor(user=getpass.getuser())
    except (OSError, KeyError):  # a container may have no name for its user
        return Actor()


# -- rows of the tables --


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the journal: what it adds to the reserved, spent and granted amounts of an account in a period.

    `prices` is what a unit and a call meant. The last kinds, from "seal" on, add nothing; their account is a report, or
    empty.
    """

    at: str
    kind: Movement
    account: str
    period: str
    analyst: str = ""
    digest: str = ""
    reserved: Charge = NOTHING
    spent: Charge = NOTHING
    granted: Charge = NOTHING
    note: str = ""
    prices: str = ""

    def texts(self) -> tuple[str, ...]:
        amounts = map(charge_text, (self.reserved, self.spent, self.granted))
        names = self.at, self.kind, self.account, self.period, self.analyst, self.digest
        return *names, *amounts, self.note, self.prices

    @classmethod
    def of(cls, texts: Iterable[str]) -> Row:
        at, kind, account, period, analyst, digest, reserved, spent, granted, *rest = texts
        amounts = read_charge(reserved), read_charge(spent), read_charge(granted)
        return cls(at, kind, account, period, analyst, digest, *amounts, *rest)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Movements:
    """Which movements are listed: of one analyst or of all, of some kinds, in [since, until), of own accounts only."""

    analyst: str | None = None
    kinds: tuple[Movement, ...] = ("settle", "keep", "grant", "recover")
    own: bool = False
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Balance:
    """The sum of an account's rows in a period. `prices` is what its units meant then."""

    account: str
    period: str
    prices: str
    reserved: Charge = NOTHING
    spent: Charge = NOTHING
    granted: Charge = NOTHING

    def __add__(self, row: Row) -> Balance:
        return replace(
            self,
            reserved=self.reserved + row.reserved,
            spent=self.spent + row.spent,
            granted=self.granted + row.granted,
        )


@dataclass(frozen=True, slots=True)
class ReservationPart:
    """What one account has reserved for a request, and the payer of its steps, if that is not the account."""

    account: str
    period: str
    charge: Charge
    payer: str = ""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved request that is not settled, with all that is needed to run it again."""

    account: str
    digest: str
    at: str
    analyst: str
    atom: str
    epoch: str
    version: str
    request: dict[str, Any]
    parts: tuple[ReservationPart, ...]


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the journal, and the version of the schema."""

    id: str
    version: int
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """The end of the journal, the reservations that are open, since when the oldest is, and what the fence has seen."""

    head: Head
    reservations: int
    oldest: str | None
    fenced: int


# -- how values are stored --


def grant_note(reason: str, by: Actor | None) -> str:
    """The note of a grant in the journal: why, and who granted it if that is known."""
    return reason if by is None else json.dumps({"reason": reason, "by": by.to_dict()})


def grant_reason(note: str) -> str:
    """The reason in the note of a grant. Earlier versions wrote it alone."""
    try:
        read = json.loads(note)
    except ValueError:
        return note
    return str(read["reason"]) if isinstance(read, dict) and read.keys() == {"reason", "by"} else note


def moment_text(moment: datetime) -> str:
    """A moment as the tables store it. All are equally long, so text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


charge_text = "{0.information} {0.calls}".format
"""A charge as the tables store it."""


@lru_cache(1024)  # every question reads its balances four times, and most are the ones before
def read_charge(text: str) -> Charge:
    """A charge from its stored text, in the one spelling that `charge_text` writes."""
    if not re.fullmatch(r"-?\d+(/[1-9]\d*)? -?\d+(/[1-9]\d*)?", text):
        raise LedgerFailed(SPOILT)
    information, calls = text.split(" ")
    charge = Charge(Fraction(information), Fraction(calls))
    if charge_text(charge) != text:  # the hash of a row is that of its values
        raise LedgerFailed(SPOILT)
    return charge
