"""The SQL of one transaction: the journal, and the tables that follow from it.

Every change of an amount goes through `Books.move`. It appends a row to the journal and adds it to the balance, so a
balance is always the sum of its rows. Rows that move no amount are appended too: sealed cells and recoveries.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import LedgerFailed, LedgerSetBack
from sfumato.ledger.fence import SpentTotal
from sfumato.ledger.store import Run
from sfumato.ledger.types import (
    KEYS,
    OWN,
    SIGN_INS,
    SPOILT,
    Actor,
    Balance,
    Head,
    KeptRequest,
    Movement,
    Movements,
    Reservation,
    ReservationPart,
    Row,
    charge_text,
    read_charge,
)
from sfumato.mechanisms import context

BELOW_FENCE = (
    "the ledger says that {} has spent less than its fence has seen: a table was put back from an older copy. "
    "Put the newest copy in place; `sfumato budget verify` says what is wrong"
)

MAX_CALLS = 100_000  # calls with an idempotency key that are kept per account

_ROW = "at, kind, account, period, analyst, digest, reserved, spent, granted, note, prices"
NO_TOTALS: Mapping[str, SpentTotal] = {}

_CALL = "account, key, number, body, digest, free"
_MODULUS = 1 << 256
_BALANCE = "account, period, prices, reserved, spent, granted"
_MOVED = ", ".join(f"page.{name}" for name in _ROW.split(", "))
_HOLD = "account, digest, at, analyst, atom, epoch, version, request, parts"
_RESERVATIONS = f"SELECT {_HOLD} FROM holds"  # noqa: S608

CREDENTIALS = {
    KEYS: ("keys", "revoked", "id, hash, prefix, analyst, role, created, expires, revoked"),
    SIGN_INS: ("sign_ins", "ended", "id, hash, key, analyst, role, began, ends, ended"),
}
"""By what a fence calls them: the table, the column that says when one was ended, and all columns."""

_MOVEMENTS: Mapping[str, Movement] = {KEYS: "key", SIGN_INS: "sign-in"}


class Books:
    """The tables, inside one transaction. Balances are read once: nothing else can change them in the meantime.

    `floor` is what the fence has seen of each account. `sfumato.ledger.rules` compares balances with it.
    """

    def __init__(self, run: Run, needs: int | None = None, floor: Mapping[str, SpentTotal] = NO_TOTALS) -> None:
        """Raise `LedgerFailed` if the schema is not the one that the caller `needs`; None takes any."""
        self.run, self.floor = run, floor
        heads = run("SELECT id, version, sequence, head FROM ledger")
        if len(heads) != 1:
            raise LedgerFailed(SPOILT)
        self.head = Head(*heads[0])
        version = self.head.version
        if needs is not None and version < needs:
            raise LedgerFailed(
                f"the ledger has schema {version} and this Sfumato needs {needs}; run: sfumato budget migrate"
            )
        if needs is not None and version > needs:
            raise LedgerFailed(f"the ledger has schema {version}, newer than this Sfumato's {needs}; upgrade Sfumato")
        self._balances: dict[tuple[str, str | None], Balance | None] = {}

    # -- the journal and its sums --

    def move(self, balance: Balance, row: Row) -> Balance:
        """Append a row and add it to its balance. No other method changes an amount."""
        self.append(replace(row, prices=balance.prices))
        balance += row
        amounts = map(charge_text, (balance.reserved, balance.spent, balance.granted))
        self.run(
            f"INSERT INTO balances ({_BALANCE}) VALUES (?, ?, ?, ?, ?, ?) "  # noqa: S608
            "ON CONFLICT (account, period) DO UPDATE SET "
            "reserved = excluded.reserved, spent = excluded.spent, granted = excluded.granted",
            *(balance.account, balance.period, balance.prices, *amounts),
        )
        latest = self.balance(row.account)
        if latest is None or latest.period <= row.period:
            self._balances[row.account, None] = balance
        self._balances[row.account, row.period] = balance
        return balance

    def append(self, row: Row) -> None:
        """Add the next row to the journal."""
        sequence = self.head.sequence + 1
        hashed = next_hash(self.head.hash, sequence, row)
        marks = ", ".join("?" * 13)
        self.run(f"INSERT INTO journal (sequence, {_ROW}, hash) VALUES ({marks})", sequence, *row.texts(), hashed)  # noqa: S608
        self.run("UPDATE ledger SET sequence = ?, head = ?", sequence, hashed)
        self.head = replace(self.head, sequence=sequence, hash=hashed)

    def balance(self, account: str, period: str | None = None) -> Balance | None:
        """The balance of an account in a period; without one, in its latest period.

        Raises `LedgerSetBack` if the latest one is below what the fence has seen.
        """
        if (account, period) not in self._balances:
            which = "ORDER BY period DESC LIMIT 1" if period is None else "AND period = ?"
            values = (account,) if period is None else (account, period)
            rows = self.run(f"SELECT {_BALANCE} FROM balances WHERE account = ? {which}", *values)  # noqa: S608
            read = [Balance(*row[:3], *map(read_charge, row[3:])) for row in rows]
            self._balances[account, period] = read[0] if read else None
        balance = self._balances[account, period]
        seen = self.floor.get(account) if period is None else None
        if seen is not None and seen.spent != NOTHING:
            begun = "" if balance is None else balance.period
            if balance is None or begun < seen.period or (begun == seen.period and not seen.spent <= balance.spent):
                raise LedgerSetBack(BELOW_FENCE.format(account))
        return balance

    def read_balances(self) -> None:
        """Read the latest balances of all accounts at once, for `balance`."""
        self._balances |= {(each.account, None): each for each in self.balances()}  # the latest period comes last

    def balances(self) -> list[Balance]:
        rows = self.run(f"SELECT {_BALANCE} FROM balances ORDER BY 1, 2")  # noqa: S608
        return [Balance(*row[:3], *map(read_charge, row[3:])) for row in rows]

    def journal(self, after: int = 0, rows: int | None = None) -> list[Row]:
        """The rows after a sequence number, in their order."""
        texts = self.run(
            f"SELECT {_ROW} FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?",  # noqa: S608
            *(after, rows or self.head.sequence),
        )
        return list(map(Row.of, texts))

    def movements(self, which: Movements, *, before: int | None, rows: int) -> list[tuple[int, Row, KeptRequest]]:
        """The latest charges and grants, with what was asked; each has its number among these rows only.

        A number in the whole journal would show an analyst how much the others ask.
        """
        conditions, values = _conditions(which)
        of = f"FROM journal WHERE {conditions}"
        end = before if before is not None else self.run(f"SELECT COUNT(*) {of}", *values)[0][0] + 1
        first = max(end - rows, 1)
        page = f"SELECT sequence, {_ROW} {of} ORDER BY sequence LIMIT ? OFFSET ?"
        found = self.run(
            f"SELECT {_MOVED}, request, sql FROM ({page}) AS page "  # noqa: S608
            "LEFT JOIN questions ON questions.digest = page.digest "
            f"AND questions.account = CASE page.analyst WHEN '' THEN page.account ELSE '{OWN}' || page.analyst END "
            "ORDER BY page.sequence",
            *(*values, max(end - first, 0), first - 1),
        )
        return [(first + at, Row.of(row[:-2]), _question(*row[-2:])) for at, row in enumerate(found)][::-1]

    def policies(self) -> list[tuple[str, dict[str, Any]]]:
        """When the policy was seen to have changed, and how: the oldest entry first."""
        rows = self.run("SELECT at, note FROM journal WHERE kind = 'policy' ORDER BY sequence")
        return [(at, json.loads(note)) for at, note in rows]

    def hash_at(self, sequence: int) -> str | None:
        """The hash of a journal row; None where the journal has no such row."""
        if sequence == self.head.sequence:
            return self.head.hash
        rows = self.run("SELECT hash FROM journal WHERE sequence = ?", sequence)
        return rows[0][0] if rows else first_hash(self.head.id) if sequence == 0 else None

    def last_kind(self, held: Reservation) -> str | None:
        """What the journal did last with a request, on the account that asked for it."""
        rows = self.run(
            "SELECT kind FROM journal WHERE analyst = ? AND account = ? AND digest = ? ORDER BY sequence DESC LIMIT 1",
            *(held.analyst, held.account, held.digest),
        )
        return rows[0][0] if rows else None

    def check_writable(self) -> None:
        """Write what is there already: the commit goes to disk and fails where it cannot."""
        # Two changes: SQLite would not write a page that one statement leaves as it is.
        self.run("UPDATE ledger SET version = version + 1")
        self.run("UPDATE ledger SET version = version - 1")

    # -- atoms, paid steps, answers --

    def atom(self, atom: str) -> tuple[str, str | None] | None:
        """The nonce of an atom, and its payload once it is computed."""
        rows = self.run("SELECT nonce, payload FROM atoms WHERE atom = ?", atom)
        return (rows[0][0], rows[0][1]) if rows else None

    def begin_atom(self, atom: str) -> str:
        """Draw the nonce of an atom, before a row is read."""
        nonce = os.urandom(16).hex()
        self.run("INSERT INTO atoms (atom, nonce) VALUES (?, ?)", atom, nonce)
        return nonce

    def store_atom(self, atom: str, payload: str) -> None:
        self.run("UPDATE atoms SET payload = ? WHERE atom = ?", payload, atom)

    def drop_nonces(self) -> None:
        """Forget all atoms that are not computed yet: the next reservation draws another nonce."""
        self.run("DELETE FROM atoms WHERE payload IS NULL")

    def paid_steps(self, payer: str, atom: str) -> frozenset[str]:
        """The names of the steps of an atom that a payer has paid for."""
        rows = self.run("SELECT steps FROM paid WHERE account = ? AND atom = ?", payer, atom)
        return frozenset(filter(None, rows[0][0].split("\n"))) if rows else frozenset()

    def store_paid_steps(self, payer: str, atom: str, steps: Iterable[str]) -> None:
        self.run(
            "INSERT INTO paid (account, atom, steps) VALUES (?, ?, ?) "
            "ON CONFLICT (account, atom) DO UPDATE SET steps = excluded.steps",
            *(payer, atom, "\n".join(sorted(steps))),
        )

    def answer(self, account: str, digest: str) -> str | None:
        rows = self.run("SELECT body FROM answers WHERE account = ? AND digest = ?", account, digest)
        return rows[0][0] if rows else None

    def answers(self, digest: str) -> list[str]:
        """The answers with this digest, one per account."""
        return [body for (body,) in self.run("SELECT body FROM answers WHERE digest = ? ORDER BY account", digest)]

    def receipt(self, account: str, digest: str) -> str:
        """The receipt with which an answer first left; empty where there is none."""
        rows = self.run("SELECT receipt FROM answers WHERE account = ? AND digest = ?", account, digest)
        return rows[0][0] if rows else ""

    def question(self, account: str, digest: str) -> KeptRequest:
        """What an account asked under this digest."""
        rows = self.run("SELECT request, sql FROM questions WHERE account = ? AND digest = ?", account, digest)
        return _question(*rows[0]) if rows else KeptRequest()

    def store_question(self, account: str, digest: str, request: Mapping[str, Any], sql: str) -> str | None:
        """Store what an account asks, once. Returns the hash of its row, for the journal; None if it was stored."""
        row = account, digest, json.dumps(request), sql
        new = self.run(
            "INSERT INTO questions (account, digest, request, sql) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (account, digest) DO NOTHING RETURNING digest",
            *row,
        )
        return sha256(json.dumps(row)) if new else None

    def question_hashes(self) -> dict[tuple[str, str], str]:
        """The hash of each stored question, by its account and digest."""
        rows = self.run("SELECT account, digest, request, sql FROM questions")
        return {(row[0], row[1]): sha256(json.dumps(row)) for row in rows}

    def store_answer(self, account: str, digest: str, body: str, receipt: str) -> None:
        self.run(
            "INSERT INTO answers (account, digest, body, receipt) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (account, digest) DO NOTHING",
            *(account, digest, body, receipt),
        )

    def has_cells(self, sequence: int) -> bool:
        """Whether there are cells of reports that were stored with this journal row."""
        return bool(self.run("SELECT 1 FROM cells WHERE stored = ? LIMIT 1", sequence))

    # -- idempotent calls --

    def call(self, account: str, key: str) -> tuple[str, str, bool] | None:
        """The call with this idempotency key: hash of its body, digest of its request, whether it was free."""
        rows = self.run("SELECT body, digest, free FROM calls WHERE account = ? AND key = ?", account, key)
        return (rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None

    def store_call(self, account: str, key: str, body: str, digest: str, *, free: bool) -> None:
        """Store a call, and delete the oldest beyond `MAX_CALLS`: repeats are free and must not fill the disk."""
        [(latest,)] = self.run("SELECT COALESCE(MAX(number), 0) FROM calls WHERE account = ?", account)
        new = account, key, latest + 1, body, digest, int(free)
        self.run(f"INSERT INTO calls ({_CALL}) VALUES (?, ?, ?, ?, ?, ?)", *new)  # noqa: S608
        oldest = account, latest + 1 - MAX_CALLS
        gone = self.run(f"SELECT {_CALL} FROM calls WHERE account = ? AND number <= ?", *oldest)  # noqa: S608
        if gone:
            self.run("DELETE FROM calls WHERE account = ? AND number <= ?", *oldest)
        self._change_calls_sum(gone, [new])

    def charge_one_call(self, account: str, digest: str, payer: str | None) -> None:
        """Mark all calls that wait for one answer as free, except the `payer`; without one, except the first."""
        select = f"SELECT {_CALL} FROM calls WHERE account = ? AND digest = ? ORDER BY number"  # noqa: S608
        waiting = self.run(select, account, digest)
        if not waiting:
            return
        paying = waiting[0][1] if payer is None else payer
        before = [call for call in waiting if call[1] != paying and not call[5]]
        for _, key, *_ in before:
            self.run("UPDATE calls SET free = 1 WHERE account = ? AND key = ?", account, key)
        self._change_calls_sum(before, [(*call[:5], 1) for call in before])

    def calls_sum(self) -> str:
        """The stored sum of the hashes of all calls."""
        [(stored,)] = self.run("SELECT calls FROM ledger")
        return str(stored)

    def calls(self) -> list[tuple[Any, ...]]:
        return self.run(f"SELECT {_CALL} FROM calls")  # noqa: S608

    def _change_calls_sum(self, old: Iterable[Sequence[Any]], new: Iterable[Sequence[Any]]) -> None:
        change = calls_sum(new) - calls_sum(old)
        if change:
            self.run("UPDATE ledger SET calls = ?", f"{(int(self.calls_sum(), 16) + change) % _MODULUS:x}")

    # -- API keys and sign-ins --

    def end_credential(self, kind: str, name: str, at: str, by: Actor | None = None) -> None:
        """End a key or a sign-in, and note it in the journal. One that is not there stays away."""
        table, column, _ = CREDENTIALS[kind]
        self.run(f"UPDATE {table} SET {column} = ? WHERE id = ?", at, name)  # noqa: S608
        self.note_credential(kind, name, at, by)

    def count_ended(self, kind: str) -> int:
        """How many keys are revoked, or sign-ins ended before their time. It never falls."""
        table, column, _ = CREDENTIALS[kind]
        [(ended,)] = self.run(f"SELECT COUNT({column}) FROM {table}")  # noqa: S608
        return int(ended)

    def noted_credentials(self, kind: str) -> dict[str, str | None]:
        """The hash of each row as the journal noted it last, by the id of the key or the sign-in."""
        rows = self.run("SELECT note FROM journal WHERE kind = ? ORDER BY sequence", _MOVEMENTS[kind])
        return {note["id"]: note["sha256"] for note in (json.loads(text) for (text,) in rows)}

    def key_actors(self) -> dict[str, list[Actor | None]]:
        """Who created each key, and who revoked it, by its id; None where the journal does not say."""
        actors: dict[str, list[Actor | None]] = {}
        for (text,) in self.run("SELECT note FROM journal WHERE kind = 'key' ORDER BY sequence"):
            note = json.loads(text)
            actors.setdefault(note["id"], []).append(Actor(**note["by"]) if "by" in note else None)
        return actors

    def note_credential(self, kind: str, name: str, at: str, by: Actor | None = None) -> None:
        """Write one that was created or changed to the journal, and who did it; no hash, if its row is gone."""
        note: dict[str, Any] = {"id": name, "sha256": self.credential_hashes(kind, name).get(name)}
        if by is not None:
            note["by"] = by.to_dict()
        self.append(Row(at, _MOVEMENTS[kind], "", "", note=json.dumps(note)))

    def credential_hashes(self, kind: str, name: str | None = None) -> dict[str, str]:
        """The hash of the row of each, or of one, by its id."""
        table, _, columns = CREDENTIALS[kind]
        which, values = ("", ()) if name is None else ("WHERE id = ?", (name,))
        return {row[0]: rows_hash([row]) for row in self.run(f"SELECT {columns} FROM {table} {which}", *values)}  # noqa: S608

    # -- reservations --

    def reservation(self, account: str, digest: str) -> Reservation | None:
        rows = self.run(f"{_RESERVATIONS} WHERE account = ? AND digest = ?", account, digest)
        return _reservation(rows[0]) if rows else None

    def reservations(self) -> list[Reservation]:
        """All reservations, the oldest first."""
        return list(map(_reservation, self.run(f"{_RESERVATIONS} ORDER BY at, account, digest")))

    def store_reservation(self, held: Reservation) -> str:
        """Store a reservation. Returns the hash of its row, for the journal."""
        parts = [
            [part.account, part.period, part.charge.to_dict(), *([part.payer] if part.payer else [])]
            for part in held.parts
        ]
        names = held.account, held.digest, held.at, held.analyst, held.atom, held.epoch, held.version
        row = (*names, json.dumps(held.request), json.dumps(parts))
        self.run(f"INSERT INTO holds ({_HOLD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)  # noqa: S608
        return sha256(json.dumps(row))

    def hold_hashes(self) -> dict[tuple[str, str], str]:
        """The hash of each row of reservations, by its account and digest."""
        return {(row[0], row[1]): sha256(json.dumps(row)) for row in self.run(f"SELECT {_HOLD} FROM holds")}  # noqa: S608

    def delete_reservation(self, held: Reservation) -> None:
        self.run("DELETE FROM holds WHERE account = ? AND digest = ?", held.account, held.digest)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def first_hash(identity: str) -> str:
    """The hash before the first row of the journal. It differs between ledgers."""
    return hashlib.sha256(context(ledger=identity)).hexdigest()


def next_hash(previous: str, sequence: int, row: Row) -> str:
    """The hash of a journal row. It covers all rows before it."""
    texts = row.texts() if row.prices else row.texts()[:-1]  # rows of earlier schemas have no prices
    return hashlib.sha256(context(previous=previous, sequence=sequence, row=list(texts))).hexdigest()


def place_key(report: str, statistic: str, entity: str, attribute: str, level: str, start: str, end: str) -> str:
    """The key under which a place of a report is stored. The names below are hashed."""
    fields = context(
        report=report, statistic=statistic, entity=entity, attribute=attribute, level=level, start=start, end=end
    )
    return hashlib.sha256(fields).hexdigest()


def calls_sum(calls: Iterable[Sequence[Any]]) -> int:
    """The sum of the hashes of rows of `calls`: it changes with every row, in any order."""
    return sum(int(sha256(json.dumps(list(call))), 16) for call in calls) % _MODULUS


def rows_hash(rows: Iterable[Sequence[str | int | None]]) -> str:
    """The hash of rows of a table, in any order, as the journal notes it."""
    hashed = hashlib.sha256()
    for row in sorted(map(json.dumps, rows)):
        hashed.update(row.encode() + b"\n")
    return hashed.hexdigest()


def _conditions(which: Movements) -> tuple[str, list[str]]:
    """The condition that journal rows must meet to be listed, and its values."""
    kinds = ", ".join("?" * len(which.kinds))
    conditions, values = [f"kind IN ({kinds})"], [*map(str, which.kinds)]
    for condition, value in (("analyst = ?", which.analyst), ("at >= ?", which.since), ("at < ?", which.until)):
        if value:
            conditions.append(condition)
            values.append(value)
    if which.own:
        conditions.append(f"analyst <> '' AND account = '{OWN}' || analyst")
    return " AND ".join(conditions), values


def _question(request: str | None, sql: str | None) -> KeptRequest:
    return KeptRequest(None if request is None else json.loads(request), sql or None)


def _reservation(texts: tuple[Any, ...]) -> Reservation:
    account, digest, at, analyst, atom, epoch, version, request, parts = texts
    held = []
    for name, period, amount, *payer in json.loads(parts):
        held.append(ReservationPart(name, period, Charge.from_dict(amount), *payer))
    return Reservation(account, digest, at, analyst, atom, epoch, version, json.loads(request), tuple(held))
