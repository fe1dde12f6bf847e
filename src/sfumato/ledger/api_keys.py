"""API keys of the HTTP service: shown once, stored as hashes, valid until they expire or are revoked.

A key is `sfumato_` and 256 random bits. They cannot be guessed, so a plain hash is enough: the ledger reveals no key.
Every call looks its key up, so a key that is revoked in one process is refused by all others from the next call on.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, TypeAlias, get_args

from sfumato.config import Role
from sfumato.errors import InvalidArgument, NotFound, nearest
from sfumato.ledger import rules
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import sha256
from sfumato.ledger.types import moment_text

State: TypeAlias = Literal["valid", "expired", "revoked"]

START = "sfumato_"
SHAPE = re.compile(START + "[A-Za-z0-9_-]{43}")

TOO_FAR = "is too far away; leave it out for a key that does not expire"

_PREFIX = len(START) + 4  # characters of a key that are shown
_SELECT = "SELECT id, prefix, analyst, role, created, expires, revoked FROM keys"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key, without the key. `prefix` only helps to tell keys apart."""

    id: str
    prefix: str
    analyst: str
    role: Role
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> State:
        """A key is valid before the moment at which it expires, not at it."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.expires is None or now < self.expires else "expired"


class ApiKeys:
    """The keys in a ledger. Thread-safe; any number of processes may use them.

    All calls go through the ledger's checked transactions: an old copy, in which a revoked key would be valid again, is
    refused.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def create(self, analyst: str, role: Role, expires: date | datetime | None, now: datetime) -> tuple[str, ApiKey]:
        """A new key as text, and what is known of it. A key that expires on a day is valid to its end (UTC)."""
        if not analyst:
            raise InvalidArgument("analyst", "must not be empty")
        if role not in get_args(Role):
            raise InvalidArgument("role", f"must be one of {', '.join(get_args(Role))}")
        text = START + secrets.token_urlsafe(32)
        end = None if expires is None else _end(expires, now)
        key = ApiKey(secrets.token_hex(6), text[:_PREFIX], analyst, role, now.astimezone(UTC), end)
        with self._ledger.writing() as books:
            books.run(
                "INSERT INTO keys (id, hash, prefix, analyst, role, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(key.id, sha256(text), key.prefix, analyst, role, moment_text(key.created), _text(end)),
            )
            books.note_key(key.id, moment_text(now))
        return text, key

    def find(self, text: str, now: datetime) -> ApiKey | None:
        """The key with this text, if it is valid now. Text without the shape of a key is not looked up."""
        if not SHAPE.fullmatch(text):
            return None
        with self._ledger.reading() as books:
            rows = books.run(f"{_SELECT} WHERE hash = ?", sha256(text))
            if rows:
                rules.check_keys(books)
            key = _key(rows[0]) if rows else None
        return key if key is not None and key.state(now) == "valid" else None

    def list(self, analyst: str | None = None) -> tuple[ApiKey, ...]:
        """All keys ever made (of one analyst), the oldest first."""
        with self._ledger.reading() as books:
            keys = [_key(row) for row in books.run(f"{_SELECT} ORDER BY created, id")]
        return tuple(key for key in keys if analyst in (None, key.analyst))

    def revoke(self, id: str, now: datetime) -> ApiKey:  # noqa: A002
        """End a key at once and for good. Revoking it again changes nothing."""
        with self._ledger.writing() as books:
            rules.check_keys(books)
            rows = books.run(f"{_SELECT} WHERE id = ?", id)
            if rows and _key(rows[0]).revoked is None:
                books.revoke_key(id, moment_text(now))
                rows = books.run(f"{_SELECT} WHERE id = ?", id)
            known = [] if rows else [row[0] for row in books.run("SELECT id FROM keys")]
            mark = rules.keys_mark(books)
        if rows:
            self._ledger.fence.advance(mark)  # no older copy may bring it back
            return _key(rows[0])
        if id.startswith(START):  # a key, or a part of one, which must not be in a message or a log
            raise NotFound(
                "a key is revoked by its id, which `sfumato keys list` shows; keep the key itself out of commands"
            )
        raise NotFound(f"there is no key with the id {id[:60]!r}{nearest(id, known)}")


def _key(row: tuple[Any, ...]) -> ApiKey:
    name, prefix, analyst, role, created, expires, revoked = row
    return ApiKey(name, prefix, analyst, role, datetime.fromisoformat(created), _moment(expires), _moment(revoked))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _end(expires: date | datetime, now: datetime) -> datetime:
    """The moment at which a key ends that expires on a day, or at a moment."""
    try:
        if not isinstance(expires, datetime):
            expires = datetime.combine(expires + timedelta(days=1), time(), UTC)
        if expires.tzinfo is None:
            raise InvalidArgument("expires", "must carry a time zone")
        end = expires.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("expires", TOO_FAR) from None
    if end <= now:
        raise InvalidArgument("expires", "is in the past: the key would never be valid")
    return end


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment_text(moment)
