"""The values that the ledger takes and returns, and the rows of its tables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Budget
from sfumato.errors import LedgerFailed
from sfumato.mechanisms import Step

SPOILT = "the ledger's tables hold a value that Sfumato does not write; put the newest copy in place"

OWN = "analyst:"  # before an analyst's name, in the name of the analyst's own account
REPORT = "report:"  # before a report's name, where other rows name an account
KEYS = "keys"  # what a fence calls the API keys: no account has this name

Movement: TypeAlias = Literal[
    "reserve", "settle", "keep", "grant", "recover", "seal", "restore", "key", "nonce", "policy"
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


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """The request that an earlier call with the same key made. `free`: it was a repeat and cost nothing."""

    digest: str
    free: bool


@dataclass(frozen=True, slots=True)
class Debit:
    """What a request asks of the ledger. The analyst's own account comes first; `worst` are the costliest steps.

    `row_filter` is the condition that the analyst's rights added to it; "" for none.
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

    @property
    def own(self) -> Account:
        return self.accounts[0]


@dataclass(frozen=True, slots=True)
class Revealed:
    """What an answer shows of a stored payload: its body, and the steps behind it."""

    body: str
    steps: tuple[Step, ...]


Reveal: TypeAlias = Callable[[str], Revealed]


# -- what the ledger replies --


@dataclass(frozen=True, slots=True)
class Reserved:
    """The worst case is reserved. Compute the atom with this nonce, then settle."""

    nonce: bytes


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
class ChargeEntry:
    """One movement of one account. `state` is reserved, settled, kept, granted or recovered."""

    at: str
    digest: str
    account: str
    charge: Charge
    state: str


@dataclass(frozen=True, slots=True)
class History:
    """A page of movements, the latest first. `next` is the cursor of the next page."""

    rows: Sequence[ChargeEntry]
    next: str | None = None


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


# -- how values are stored --


def moment_text(moment: datetime) -> str:
    """A moment as the tables store it. All are equally long, so text order is time order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


charge_text = "{0.information} {0.calls}".format
"""A charge as the tables store it."""


def read_charge(text: str) -> Charge:
    if not re.fullmatch(r"-?\d+(/[1-9]\d*)? -?\d+(/[1-9]\d*)?", text):
        raise LedgerFailed(SPOILT)
    information, calls = text.split(" ")
    charge = Charge(Fraction(information), Fraction(calls))
    if charge_text(charge) != text:  # the hash of a row is that of its values
        raise LedgerFailed(SPOILT)
    return charge
