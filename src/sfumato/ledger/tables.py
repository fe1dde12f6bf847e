"""The books inside one transaction: the journal, and the tables that follow from it.

Every change of an amount goes through `Books.move`, which appends to the journal and adds to the balance: the sum of
an account's rows is its balance, always. Rows that move no amount are appended: what reports have sealed, and where a
restored copy was made safe.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import LedgerFailed
from sfumato.ledger.store import Run
from sfumato.mechanisms import context

SPOILT = "the books hold something that no ledger has written; put the newest copy in place"

MAX_CALLS = 100_000  # of an account, with an idempotency key, that are remembered

REPORT = "report:"  # before a report's name, where an account's would be

Movement: TypeAlias = Literal["reserve", "settle", "keep", "grant", "recover", "seal", "restore"]


@dataclass(frozen=True, slots=True)
class Row:
    """One movement of one account: what it adds to what is reserved, spent and granted in a period.

    A "seal" and a "restore" move nothing; their account is a report's, or nobody's.
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

    def texts(self) -> tuple[str, ...]:
        amounts = (written(amount) for amount in (self.reserved, self.spent, self.granted))
        return self.at, self.kind, self.account, self.period, self.analyst, self.digest, *amounts, self.note

    @classmethod
    def of(cls, texts: Iterable[str]) -> Row:
        at, kind, account, period, analyst, digest, reserved, spent, granted, note = texts
        amounts = charge(reserved), charge(spent), charge(granted)
        return cls(at, kind, account, period, analyst, digest, *amounts, note)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Balance:
    """The sum of an account's rows in a period, and what its units meant there."""

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
    """What one account holds in reserve for a request."""

    account: str
    period: str
    charge: Charge


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reserved request that is not settled yet, with all that is needed to run it again."""

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
    """How far the journal has come."""

    id: str
    version: int
    sequence: int
    hash: str


_ROW = "at, kind, account, period, analyst, digest, reserved, spent, granted, note"


class Books:
    """The tables, through one transaction. Balances are read once: nobody else can change them meanwhile."""

    def __init__(self, run: Run) -> None:
        self.run = run
        heads = run("SELECT id, version, sequence, head FROM ledger")
        if len(heads) != 1:
            raise LedgerFailed(SPOILT)
        self.head = Head(*heads[0])
        self._periods: dict[str, str] = {}
        self._balances: dict[tuple[str, str], Balance | None] = {}

    def move(self, balance: Balance, row: Row) -> Balance:
        """Append a row and add it to its balance: the one way an amount changes."""
        self.append(row)
        balance += row
        self._save(balance)
        self._periods[row.account] = max(row.period, self.latest_period(row.account))
        self._balances[row.account, row.period] = balance
        return balance

    def append(self, row: Row) -> None:
        """The next row of the journal."""
        sequence = self.head.sequence + 1
        chained = chain(self.head.hash, sequence, row)
        marks = ", ".join("?" * 12)
        self.run(f"INSERT INTO journal (sequence, {_ROW}, hash) VALUES ({marks})", sequence, *row.texts(), chained)  # noqa: S608
        self.run("UPDATE ledger SET sequence = ?, head = ?", sequence, chained)
        self.head = replace(self.head, sequence=sequence, hash=chained)

    def _save(self, balance: Balance) -> None:
        amounts = [written(amount) for amount in (balance.reserved, balance.spent, balance.granted)]
        self.run(
            "INSERT INTO balances (account, period, prices, reserved, spent, granted) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (account, period) DO UPDATE SET "
            "reserved = excluded.reserved, spent = excluded.spent, granted = excluded.granted",
            *(balance.account, balance.period, balance.prices, *amounts),
        )

    def latest_period(self, account: str) -> str:
        if account not in self._periods:
            [(period,)] = self.run("SELECT MAX(period) FROM balances WHERE account = ?", account)
            self._periods[account] = period or ""
        return self._periods[account]

    def balance(self, account: str, period: str) -> Balance | None:
        if (account, period) not in self._balances:
            found = self.run(
                "SELECT account, period, prices, reserved, spent, granted FROM balances "
                "WHERE account = ? AND period = ?",
                *(account, period),
            )
            self._balances[account, period] = _balance(found[0]) if found else None
        return self._balances[account, period]

    def balances(self) -> list[Balance]:
        found = self.run("SELECT account, period, prices, reserved, spent, granted FROM balances ORDER BY 1, 2")
        return list(map(_balance, found))

    def journal(self, after: int = 0, rows: int | None = None) -> list[Row]:
        """The rows after a place in the journal, in their order."""
        found = self.run(
            f"SELECT {_ROW} FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
            *(after, rows or self.head.sequence),
        )
        return list(map(Row.of, found))

    def movements(self, analyst: str | None, *, before: int | None, rows: int) -> list[tuple[int, Row]]:
        """The latest that were charged or granted, to one analyst or to all, each with its number among just these.

        A place in the whole journal would tell an analyst how busy the others are.
        """
        which, whose = ("", ()) if analyst is None else ("AND analyst = ?", (analyst,))
        of = f"FROM journal WHERE kind NOT IN ('reserve', 'seal', 'restore') {which}"
        end = before if before is not None else self.run(f"SELECT COUNT(*) {of}", *whose)[0][0] + 1
        first = max(end - rows, 1)
        page = f"SELECT {_ROW} {of} ORDER BY sequence LIMIT ? OFFSET ?"
        found = self.run(page, *whose, max(end - first, 0), first - 1)
        return [(first + place, Row.of(texts)) for place, texts in enumerate(found)][::-1]

    def hash_at(self, sequence: int) -> str | None:
        if sequence == self.head.sequence:
            return self.head.hash
        found = self.run("SELECT hash FROM journal WHERE sequence = ?", sequence)
        return found[0][0] if found else beginning(self.head.id) if sequence == 0 else None

    # -- atoms, paid steps, answers --

    def atom(self, atom: str) -> tuple[str, str | None] | None:
        """Its nonce, and its rows if they are computed."""
        found = self.run("SELECT nonce, payload FROM atoms WHERE atom = ?", atom)
        return (found[0][0], found[0][1]) if found else None

    def begin_atom(self, atom: str, nonce: str) -> None:
        self.run("INSERT INTO atoms (atom, nonce) VALUES (?, ?)", atom, nonce)

    def store_atom(self, atom: str, payload: str) -> None:
        self.run("UPDATE atoms SET payload = ? WHERE atom = ?", payload, atom)

    def renew_nonces(self) -> None:
        """New nonces for all atoms that are not computed yet."""
        for (atom,) in self.run("SELECT atom FROM atoms WHERE payload IS NULL"):
            self.run("UPDATE atoms SET nonce = ? WHERE atom = ?", os.urandom(16).hex(), atom)

    def paid(self, account: str, atom: str) -> frozenset[str]:
        found = self.run("SELECT steps FROM paid WHERE account = ? AND atom = ?", account, atom)
        return frozenset(filter(None, found[0][0].split("\n"))) if found else frozenset()

    def pay(self, account: str, atom: str, steps: Iterable[str]) -> None:
        self.run(
            "INSERT INTO paid (account, atom, steps) VALUES (?, ?, ?) "
            "ON CONFLICT (account, atom) DO UPDATE SET steps = excluded.steps",
            *(account, atom, "\n".join(sorted(steps))),
        )

    def answer(self, account: str, digest: str) -> str | None:
        found = self.run("SELECT body FROM answers WHERE account = ? AND digest = ?", account, digest)
        return found[0][0] if found else None

    def answers(self, digest: str) -> list[str]:
        """The answer of this digest, as each account has it."""
        return [body for (body,) in self.run("SELECT body FROM answers WHERE digest = ? ORDER BY account", digest)]

    def receipt(self, account: str, digest: str) -> str:
        """The receipt with which an answer first left; empty, where there is none."""
        found = self.run("SELECT receipt FROM answers WHERE account = ? AND digest = ?", account, digest)
        return found[0][0] if found else ""

    def store_answer(self, account: str, digest: str, body: str, receipt: str) -> None:
        self.run(
            "INSERT INTO answers (account, digest, body, receipt) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (account, digest) DO NOTHING",
            *(account, digest, body, receipt),
        )

    def call(self, account: str, key: str) -> tuple[str, str, bool] | None:
        """The body of the call that carried this idempotency key, as a hash; what it began; whether that was free."""
        found = self.run("SELECT body, digest, free FROM calls WHERE account = ? AND key = ?", account, key)
        return (found[0][0], found[0][1], bool(found[0][2])) if found else None

    def begin_call(self, account: str, key: str, body: str, digest: str, *, free: bool) -> None:
        """Write a call down, and forget one that is long past: repeats are free, and must not fill the disk."""
        [(latest,)] = self.run("SELECT COALESCE(MAX(number), 0) FROM calls WHERE account = ?", account)
        self.run(
            "INSERT INTO calls (account, key, number, body, digest, free) VALUES (?, ?, ?, ?, ?, ?)",
            *(account, key, latest + 1, body, digest, int(free)),
        )
        self.run("DELETE FROM calls WHERE account = ? AND number <= ?", account, latest + 1 - MAX_CALLS)

    def pay_for_calls(self, account: str, digest: str, payer: str | None) -> None:
        """Of all calls that wait for one answer, one has paid for it: this one, or else the first that came."""
        if payer is None:
            [(first,)] = self.run("SELECT MIN(number) FROM calls WHERE account = ? AND digest = ?", account, digest)
            others, which = "number <> ?", first
        else:
            others, which = "key <> ?", payer
        if which is not None:
            self.run(f"UPDATE calls SET free = 1 WHERE account = ? AND digest = ? AND {others}", account, digest, which)  # noqa: S608

    def touch(self) -> None:
        """A change that changes nothing, which only books that can be written let happen."""
        self.run("UPDATE ledger SET version = version")

    # -- holds --

    def hold(self, account: str, digest: str) -> Reservation | None:
        found = self.run(f"{_HOLDS} WHERE account = ? AND digest = ?", account, digest)
        return _hold(found[0]) if found else None

    def holds(self) -> list[Reservation]:
        return list(map(_hold, self.run(f"{_HOLDS} ORDER BY at, account, digest")))

    def begin_hold(self, hold: Reservation) -> None:
        parts = [[part.account, part.period, part.charge.to_dict()] for part in hold.parts]
        self.run(
            "INSERT INTO holds (account, digest, at, analyst, atom, epoch, version, request, parts) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(hold.account, hold.digest, hold.at, hold.analyst, hold.atom, hold.epoch, hold.version),
            *(json.dumps(hold.request), json.dumps(parts)),
        )

    def end_hold(self, hold: Reservation) -> None:
        self.run("DELETE FROM holds WHERE account = ? AND digest = ?", hold.account, hold.digest)


_HOLDS = "SELECT account, digest, at, analyst, atom, epoch, version, request, parts FROM holds"


def beginning(identity: str) -> str:
    """The hash before the first row: every ledger has its own."""
    return hashlib.sha256(context(ledger=identity)).hexdigest()


def chain(previous: str, sequence: int, row: Row) -> str:
    """The hash of a row, which covers all rows before it."""
    return hashlib.sha256(context(previous=previous, sequence=sequence, row=list(row.texts()))).hexdigest()


def place_key(report: str, statistic: str, entity: str, attribute: str, level: str, start: str, end: str) -> str:
    """What a place of a report is stored under. The names below are hashed."""
    fields = context(
        report=report, statistic=statistic, entity=entity, attribute=attribute, level=level, start=start, end=end
    )
    return hashlib.sha256(fields).hexdigest()


def digest_of(rows: Iterable[Sequence[str | int]]) -> str:
    """The hash of rows of a table, in whichever order they come: what the journal says of them."""
    hashed = hashlib.sha256()
    for row in sorted(map(json.dumps, rows)):
        hashed.update(row.encode() + b"\n")
    return hashed.hexdigest()


def written(amount: Charge) -> str:
    return f"{amount.information} {amount.calls}"


def charge(text: str) -> Charge:
    if not re.fullmatch(r"-?\d+(/[1-9]\d*)? -?\d+(/[1-9]\d*)?", text):
        raise LedgerFailed(SPOILT)
    information, calls = text.split(" ")
    return Charge(Fraction(information), Fraction(calls))


def _balance(texts: tuple[Any, ...]) -> Balance:
    account, period, prices, *amounts = texts
    return Balance(account, period, prices, *map(charge, amounts))


def _hold(texts: tuple[Any, ...]) -> Reservation:
    account, digest, at, analyst, atom, epoch, version, request, parts = texts
    held = tuple(ReservationPart(name, period, Charge.from_dict(amount)) for name, period, amount in json.loads(parts))
    return Reservation(account, digest, at, analyst, atom, epoch, version, json.loads(request), held)
