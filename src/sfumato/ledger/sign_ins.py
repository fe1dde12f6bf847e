"""Sign-ins to the pages: 256 random bits in a cookie, of which the ledger keeps a hash, with a fixed end.

A sign-in is begun with an API key and ends with it at the latest. Every page looks it up, so one that has ended in one
process has ended in all others from the next page on. Looking up writes nothing.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sfumato.config import Role
from sfumato.ledger import rules
from sfumato.ledger.api_keys import ApiKey, read_key
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import Books, sha256
from sfumato.ledger.types import SIGN_INS, moment_text

SHAPE = re.compile("[A-Za-z0-9_-]{43}")

_SELECT = "SELECT id, key, analyst, role, began, ends, ended FROM sign_ins"


@dataclass(frozen=True, slots=True)
class SignIn:
    """What is known of a sign-in, without its secret. `key` is the API key that it was begun with."""

    id: str
    key: ApiKey
    analyst: str
    role: Role
    began: datetime
    ends: datetime
    ended: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether neither it nor its key has ended."""
        return self.ended is None and self.began <= now < self.ends and self.key.state(now) == "valid"


class SignIns:
    """The sign-ins in a ledger. Thread-safe; any number of processes may use them.

    All calls go through the ledger's checked transactions, as for API keys: an old copy, in which a sign-in that has
    ended would be valid again, is refused.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def begin(self, key: ApiKey, hours: int, now: datetime) -> tuple[str, SignIn]:
        """A new secret, and what is known of the sign-in: it ends after `hours`, or with its key."""
        text, now = secrets.token_urlsafe(32), now.astimezone(UTC)
        ends = min([now + timedelta(hours=hours), *([key.expires] if key.expires else [])])
        begun = SignIn(secrets.token_hex(6), key, key.analyst, key.role, now, ends)
        row = begun.id, sha256(text), key.id, key.analyst, key.role, moment_text(now), moment_text(ends)
        with self._ledger.writing() as books:
            books.run(
                "INSERT INTO sign_ins (id, hash, key, analyst, role, began, ends) VALUES (?, ?, ?, ?, ?, ?, ?)", *row
            )
            books.note_credential(SIGN_INS, begun.id, moment_text(now))
        return text, begun

    def find(self, text: str, now: datetime) -> SignIn | None:
        """The sign-in with this secret, if it is valid now. Text without its shape is not looked up."""
        if not SHAPE.fullmatch(text):
            return None
        with self._ledger.reading() as books:
            found = _find(books, text)
            if found is not None:
                rules.check_credentials(books)
        return found if found is not None and found.is_valid(now) else None

    def end(self, text: str, now: datetime) -> None:
        """End a sign-in at once and for good. Ending it again changes nothing."""
        if not SHAPE.fullmatch(text):
            return
        with self._ledger.writing() as books:
            rules.check_credentials(books)
            found = _find(books, text)
            if found is not None and found.ended is None:
                books.end_credential(SIGN_INS, found.id, moment_text(now))
            mark = rules.credentials_mark(books)
        if found is not None:
            self._ledger.fence.advance(mark)  # no older copy may bring it back


def _find(books: Books, text: str) -> SignIn | None:
    rows: list[tuple[Any, ...]] = books.run(f"{_SELECT} WHERE hash = ?", sha256(text))
    key = read_key(books, rows[0][1]) if rows else None
    if key is None:
        return None
    name, _, analyst, role, *moments = rows[0]
    began, ends, ended = (None if text is None else datetime.fromisoformat(text) for text in moments)
    assert began is not None and ends is not None  # noqa: S101, PT018  (the columns are NOT NULL)
    return SignIn(name, key, analyst, role, began, ends, ended)
