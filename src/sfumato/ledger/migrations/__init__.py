"""The migrations of the ledger's schema: one numbered file each, run once, in order, in one transaction."""

from __future__ import annotations

import os
from importlib import resources

from sfumato.ledger.store import Run
from sfumato.ledger.tables import first_hash

_FILES = sorted(file.name for file in resources.files(__name__).iterdir() if file.name.endswith(".sql"))

LATEST = len(_FILES)


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
