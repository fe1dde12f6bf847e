"""`sfumato budget verify`: compare every table with what the journal says it holds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from sfumato.accounting import NOTHING, Charge
from sfumato.ledger.tables import Books, calls_sum, first_hash, next_hash, place_key, rows_hash, sha256
from sfumato.ledger.types import KEYS, SIGN_INS, Balance, Row

_PAGE = 10_000  # journal rows per query
_SEALS_PAGE = 100  # journal rows whose seals or cells are read together


def differences(books: Books, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Every difference between the tables and the journal, in words.

    `progress` gets the number of journal rows that are checked, and of all, after each page and each table.
    """
    walk = _JournalWalk(books.head.id)
    while rows := books.journal(after=walk.sequence, rows=_PAGE):
        hashes = books.run(
            "SELECT hash FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?", walk.sequence, _PAGE
        )
        for row, (stored,) in zip(rows, hashes, strict=True):
            if not walk.step(row, stored):
                yield f"journal row {walk.sequence} is not what was written, or one before it is missing"
                return
        progress(walk.sequence, books.head.sequence)
    if (walk.sequence, walk.hash) != (books.head.sequence, books.head.hash):
        yield f"the journal ends at row {walk.sequence}; the ledger says {books.head.sequence}"
    for wrong in (
        _wrong_balances(books, walk),
        _wrong_reservations(books, walk),
        _wrong_questions(books, walk),
        _wrong_answers(books, walk),
        _wrong_seals(books, "seals", "opened", "place, number, version, definition, nonce", walk.opened),
        _wrong_seals(books, "cells", "stored", "place, number, domain, counts", walk.stored),
        _wrong_names(books),
        _wrong_credentials(books, walk),
    ):
        yield from wrong
        progress(walk.sequence, books.head.sequence)
    if f"{calls_sum(books.calls()):x}" != books.calls_sum():
        yield "the calls with idempotency keys are not those that were made"


class _JournalWalk:
    """Reads the journal row by row: the hash chain, and what every table should hold at its end."""

    def __init__(self, identity: str) -> None:
        self.sequence, self.hash = 0, first_hash(identity)
        self.balances: dict[tuple[str, str], Balance] = {}
        self.paid: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.payloads: dict[str, str] = {}
        self.answers: dict[tuple[str, str], tuple[str, str]] = {}
        self.own: set[tuple[str, str]] = set()  # those of `answers` that are stored
        self.prices: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.nonces: dict[str, str] = {}
        self.holds: dict[tuple[str, str], str] = {}
        self.questions: dict[tuple[str, str], str] = {}
        self.unhashed: set[tuple[str, str]] = (
            set()
        )  # open requests without a hash: of shared accounts, or of old schemas
        self.credentials: dict[str, dict[str, str | None]] = {"key": {}, "sign-in": {}}
        self.opened: dict[int, str] = {}
        self.stored: dict[int, str] = {}

    def step(self, row: Row, stored: str) -> bool:
        """Add the next row. False if its hash is wrong; such a row is not read, because it may hold anything."""
        self.sequence += 1
        self.hash = next_hash(self.hash, self.sequence, row)
        if self.hash != stored:
            return False
        key = row.account, row.period
        self.balances[key] = self.balances.get(key, Balance(*key, "")) + row
        self.prices[key].add(row.prices)
        if row.kind in ("settle", "keep"):
            self.holds.pop((row.account, row.digest), None)
            self.unhashed.discard((row.account, row.digest))
        if row.kind == "reserve" and not row.note:
            self.unhashed.add((row.account, row.digest))
        if row.kind == "reserve" and row.note:
            note = json.loads(row.note)
            self.holds[note["own"], row.digest] = note["hold"]
            if "nonce" in note:
                self.nonces[note["atom"]] = note["nonce"]
            self.nonces |= json.loads(note.get("draws", "{}"))
            if "question" in note:
                self.questions[note["own"], row.digest] = note["question"]
        if row.kind == "nonce":
            note = json.loads(row.note)
            self.nonces[note["atom"]] = note["nonce"]
        if row.kind in self.credentials:
            note = json.loads(row.note)
            self.credentials[row.kind][note["id"]] = note["sha256"]
        if row.kind == "settle":
            note = json.loads(row.note)
            if "receipt" in note:
                self.own.add((row.account, row.digest))
            self.paid[note.get("payer", row.account), note["atom"]].update(note["steps"])
            self.payloads = {note["atom"]: note["payload"], **json.loads(note.get("draws", "{}")), **self.payloads}
            self.answers.setdefault((row.account, row.digest), (note["answer"], note.get("receipt", sha256(""))))
        if row.kind == "seal":
            note = json.loads(row.note)
            (self.stored if "cells" in note else self.opened)[self.sequence] = note["sha256"]
        return True


def _wrong_balances(books: Books, walk: _JournalWalk) -> Iterator[str]:
    stored = {(balance.account, balance.period): balance for balance in books.balances()}
    for key in sorted(stored.keys() | walk.balances.keys()):
        if _amounts(stored.get(key)) != _amounts(walk.balances.get(key)):
            yield f"the balance of {key[0]} in {key[1] or 'its only period'} is not the sum of its rows"
        elif key in stored and stored[key].prices not in walk.prices[key] and walk.prices[key] != {""}:
            yield f"the balance of {key[0]} in {key[1] or 'its only period'} has other prices than its rows"


def _amounts(balance: Balance | None) -> tuple[Charge, ...]:
    return (NOTHING,) * 3 if balance is None else (balance.reserved, balance.spent, balance.granted)


def _wrong_reservations(books: Books, walk: _JournalWalk) -> Iterator[str]:
    stored = books.hold_hashes()
    for account, digest in sorted(stored.keys() | walk.holds.keys()):
        expected = walk.holds.get((account, digest))
        # A reservation of an earlier schema has no hash in the journal: its amounts are compared below.
        if stored.get((account, digest)) != expected and not (expected is None and (account, digest) in walk.unhashed):
            yield f"the open request {digest} of {account} is not the one that was reserved"
    held: dict[tuple[str, str], Charge] = defaultdict(Charge)
    for each in books.reservations():
        for part in each.parts:
            held[part.account, part.period] += part.charge
    for balance in books.balances():
        if balance.reserved != held[balance.account, balance.period]:
            yield f"what {balance.account} has reserved is not the sum of its open requests"


def _wrong_questions(books: Books, walk: _JournalWalk) -> Iterator[str]:
    stored = books.question_hashes()
    for account, digest in sorted(stored.keys() | walk.questions.keys()):
        if stored.get((account, digest)) != walk.questions.get((account, digest)):
            yield f"the stored question {digest} of {account} is not the one that was asked"


def _wrong_answers(books: Books, walk: _JournalWalk) -> Iterator[str]:
    payloads: dict[str, str] = dict(books.run("SELECT atom, payload FROM atoms WHERE payload IS NOT NULL"))
    for atom in sorted(payloads.keys() | walk.payloads.keys()):
        if sha256(payloads.get(atom, "")) != walk.payloads.get(atom):
            yield f"the stored ranking {atom} is not the one that was paid for"
    nonces: dict[str, str] = dict(books.run("SELECT atom, nonce FROM atoms ORDER BY atom"))
    for atom in sorted({each.atom for each in books.reservations()} - nonces.keys()):
        yield f"the nonce of {atom} is missing, and a request waits for it"
    for atom, nonce in nonces.items():
        if atom in walk.nonces and sha256(nonce) != walk.nonces[atom]:
            yield f"the nonce of {atom} is not the one that was drawn"
        elif atom not in walk.nonces and atom not in walk.payloads:
            yield f"no request has begun the draw {atom}"
    rows = books.run("SELECT account, digest, body, receipt FROM answers")
    answers = {(account, digest): (sha256(body), sha256(receipt)) for account, digest, body, receipt in rows}
    for account, digest in sorted(answers.keys() | walk.own):
        if answers.get((account, digest)) != walk.answers.get((account, digest)):
            yield f"the stored answer {digest} of {account} is not the one that left"
    stored = {(account, atom): steps for account, atom, steps in books.run("SELECT account, atom, steps FROM paid")}
    for account, atom in sorted(stored.keys() | walk.paid.keys()):
        if set(filter(None, stored.get((account, atom), "").split("\n"))) != walk.paid[account, atom]:
            yield f"what {account} has paid for {atom} is not what its rows say"


def _wrong_seals(books: Books, table: str, written: str, columns: str, expected: Mapping[int, str]) -> Iterator[str]:
    """Journal rows whose seals or cells have changed. The column `written` holds the number of the journal row."""
    sequences = {sequence for (sequence,) in books.run(f"SELECT DISTINCT {written} FROM {table}")}  # noqa: S608
    select = f"SELECT {written}, {columns} FROM {table} WHERE {written} BETWEEN ? AND ?"  # noqa: S608
    ordered = sorted(sequences | expected.keys())
    for first in range(0, len(ordered), _SEALS_PAGE):
        page = ordered[first : first + _SEALS_PAGE]
        rows: dict[int, list[tuple[str | int, ...]]] = {sequence: [] for sequence in page}
        for sequence, *row in books.run(select, page[0], page[-1]):
            rows[sequence].append(tuple(row))
        for sequence in page:
            if rows_hash(rows[sequence]) != expected.get(sequence):
                yield f"the {table} of journal row {sequence} are not those that were written"


def _wrong_names(books: Books) -> Iterator[str]:
    """Places and domains that do not match their key, that are missing, or that no seal or cell uses."""
    fields = "report, statistic, entity, attribute, level, since, until"
    places = books.run(f"SELECT place, {fields} FROM places")  # noqa: S608
    domains = books.run("SELECT digest, listed FROM domains")
    wrong = {place for place, *texts in places if place_key(*texts) != place}
    wrong |= {digest for digest, text in domains if sha256(text) != digest}
    for table, kept, used in (
        ("place", places, "SELECT DISTINCT place FROM seals"),
        ("domain", domains, "SELECT DISTINCT domain FROM cells"),
    ):
        stored, needed = {name for name, *_ in kept}, {name for (name,) in books.run(used)}
        for name in sorted((stored ^ needed) | (stored & wrong)):
            yield f"the {table} {name} of a report is not what was sealed"


def _wrong_credentials(books: Books, walk: _JournalWalk) -> Iterator[str]:
    for kind, movement, name, made in (
        (KEYS, "key", "API key", "created or revoked"),
        (SIGN_INS, "sign-in", "sign-in", "begun or ended"),
    ):
        stored, noted = books.credential_hashes(kind), walk.credentials[movement]
        for each in sorted(stored.keys() | noted.keys()):
            if stored.get(each) != noted.get(each):
                yield f"the {name} {each} is not as it was {made}"
