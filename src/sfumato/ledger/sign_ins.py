"""Sign-ins to the pages: 256 random bits in a cookie, of which the ledger keeps a hash, with a fixed end.

A sign-in is begun with an API key, and ends with it at the latest, or with an identity provider. Every page looks it
up, so one that has ended in one process has ended in all others from the next page on. Looking up writes nothing.
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
    """What is known of a sign-in, without its secret. `key` is the API key that it was begun with.

    It is None if the analyst came from the identity provider.
    """

    id: str
    key: ApiKey | None
    analyst: str
    role: Role
    began: datetime
    ends: datetime
    ended: datetime | None = None

    def is_valid(self, now: datetime) -> bool:
        """Whether neither it nor its key has ended."""
        return self.ended is None and self.began <= now < self.ends and self.has_valid_key(now)

    def has_valid_key(self, now: datetime) -> bool:
        """Whether its key, if it was begun with one, is valid."""
        return self.key is None or self.key.state(now) == "valid"


class SignIns:
    """The sign-ins in a ledger. Thread-safe; any number of processes may use them.

    All calls go through the ledger's checked transactions, as for API keys: an old copy, in which a sign-in that has
    ended would be valid again, is refused.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def begin(self, key: ApiKey, hours: int, now: datetime) -> tuple[str, SignIn]:
        """A new secret, and what is known of the sign-in: it ends after `hours`, or with its key."""
        now = now.astimezone(UTC)
        ends = min([now + timedelta(hours=hours), *([key.expires] if key.expires else [])])
        begun = SignIn(secrets.token_hex(6), key, key.analyst, key.role, now, ends)
        with self._ledger.writing() as books:
            return _store(books, begun), begun

    def begin_once(self, name: str, analyst: str, role: Role, hours: int, now: datetime) -> tuple[str, SignIn] | None:
        """The same for an analyst of the identity provider; None if there is or was a sign-in of this name."""
        now = now.astimezone(UTC)
        begun = SignIn(name, None, analyst, role, now, now + timedelta(hours=hours))
        with self._ledger.writing() as books:
            if books.run("SELECT id FROM sign_ins WHERE id = ?", name):
                return None
            return _store(books, begun), begun

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


def _store(books: Books, begun: SignIn) -> str:
    """Store a sign-in, and return its secret."""
    text, key = secrets.token_urlsafe(32), "" if begun.key is None else begun.key.id
    books.run(
        "INSERT INTO sign_ins (id, hash, key, analyst, role, began, ends) VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(begun.id, sha256(text), key, begun.analyst, begun.role, moment_text(begun.began), moment_text(begun.ends)),
    )
    books.note_credential(SIGN_INS, begun.id, moment_text(begun.began))
    return text


def _find(books: Books, text: str) -> SignIn | None:
    rows: list[tuple[Any, ...]] = books.run(f"{_SELECT} WHERE hash = ?", sha256(text))
    if not rows:
        return None
    name, key_id, analyst, role, *moments = rows[0]
    key = read_key(books, key_id) if key_id else None
    if key_id and key is None:
        return None
    began, ends, ended = (None if text is None else datetime.fromisoformat(text) for text in moments)
    assert began is not None and ends is not None  # noqa: S101, PT018  (the columns are NOT NULL)
    return SignIn(name, key, analyst, role, began, ends, ended)
