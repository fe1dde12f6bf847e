"""The migrations of the ledger's schema: one numbered file each, run once, in order, in one transaction."""

from __future__ import annotations

import json
import os
from importlib import resources

from sfumato.ledger.store import Run
from sfumato.ledger.tables import Books, calls_sum, first_hash, sha256
from sfumato.ledger.types import KEYS, Row

_FILES = sorted(file.name for file in resources.files(__name__).iterdir() if file.name.endswith(".sql"))

LATEST = len(_FILES)
COVERED = 5  # the first schema in which the journal covers API keys and calls


def migrate(run: Run, version: int, *, to: int = LATEST) -> None:
    """Run the migrations after `version`. The first one also gives the ledger its identity."""
    for name in _FILES[version:to]:
        text = (resources.files(__name__) / name).read_text("utf-8")
        statements = "\n".join(line for line in text.splitlines() if not line.startswith("--")).split(";")
        for statement in filter(None, map(str.strip, statements)):
            run(statement)
    if version == 0:
        identity = os.urandom(16).hex()
        run("INSERT INTO ledger (id, version, sequence, head) VALUES (?, 0, 0, ?)", identity, first_hash(identity))
    run("UPDATE ledger SET version = ?", to)
    if version < COVERED <= to:
        _cover(Books(run))


def _cover(books: Books) -> None:
    """Write what older schemas kept outside of the journal into it: API keys, nonces that wait, the sum of calls."""
    for atom, nonce in books.run("SELECT atom, nonce FROM atoms WHERE payload IS NULL ORDER BY atom"):
        books.append(Row("", "nonce", "", "", note=json.dumps({"atom": atom, "nonce": sha256(nonce)})))
    for name, created in books.run("SELECT id, created FROM keys ORDER BY created, id"):
        books.note_credential(KEYS, name, created)
    books.run("UPDATE ledger SET calls = ?", f"{calls_sum(books.calls()):x}")
