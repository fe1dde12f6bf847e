"""API keys of the HTTP service: shown once, stored as hashes, valid until they expire or are revoked.

A key is `sfumato_` and 256 random bits. They cannot be guessed, so a plain hash is enough: the ledger reveals no key.
Every call looks its key up, so a key that is revoked in one process is refused by all others from the next call on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, TypeAlias, get_args

from sfumato.config import Role
from sfumato.errors import InvalidArgument, NotFound, find_nearest
from sfumato.ledger import rules
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import Books, sha256
from sfumato.ledger.types import KEYS, Actor, IdempotentCall, moment_text

State: TypeAlias = Literal["valid", "expired", "revoked"]

START = "sfumato_"
SHAPE = re.compile(START + "[A-Za-z0-9_-]{43}")

TOO_FAR = "is too far away; leave it out for a key that does not expire"

_CREATED = "key:"  # before the id of a key, where an idempotent call names what it made
_PREFIX = len(START) + 4  # characters of a key that are shown
_SELECT = "SELECT id, prefix, analyst, role, created, expires, revoked FROM keys"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key, without the key. `prefix` only helps to tell keys apart.

    `created_by` and `revoked_by` are looked up by `ApiKeys.list` alone.
    """

    id: str
    prefix: str
    analyst: str
    role: Role
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    created_by: Actor | None = field(default=None, compare=False)
    revoked_by: Actor | None = field(default=None, compare=False)

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

    def create(
        self,
        analyst: str,
        role: Role,
        expires: date | datetime | None,
        now: datetime,
        *,
        by: Actor | None = None,
        call: tuple[str, IdempotentCall] | None = None,
    ) -> tuple[str, ApiKey]:
        """A new key as text, and what is known of it. A key that expires on a day is valid to its end (UTC).

        A `call` of an account that was made before makes no other key: its text is empty then, because it is not kept.
        """
        if not analyst:
            raise InvalidArgument("analyst", "must not be empty")
        if role not in get_args(Role):
            raise InvalidArgument("role", f"must be one of {', '.join(get_args(Role))}")
        text = START + secrets.token_urlsafe(32)
        end = None if expires is None else _end(expires, now)
        key = ApiKey(secrets.token_hex(6), text[:_PREFIX], analyst, role, now.astimezone(UTC), end)
        with self._ledger.writing() as books:
            made = None if call is None else rules.earlier_call(books, *call)
            if made is not None:
                return "", _key(books.run(f"{_SELECT} WHERE id = ?", made.digest.removeprefix(_CREATED))[0])
            books.run(
                "INSERT INTO keys (id, hash, prefix, analyst, role, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(key.id, sha256(text), key.prefix, analyst, role, moment_text(key.created), _text(end)),
            )
            books.note_credential(KEYS, key.id, moment_text(now), by)
            if call is not None:
                own, once = call
                books.store_call(own, once.key, once.body, _CREATED + key.id, free=True)
        return text, key

    def find(self, text: str, now: datetime) -> ApiKey | None:
        """The key with this text, if it is valid now. Text without the shape of a key is not looked up."""
        if not SHAPE.fullmatch(text):
            return None
        with self._ledger.reading() as books:
            rows = books.run(f"{_SELECT} WHERE hash = ?", sha256(text))
            if rows:
                rules.check_credentials(books)
            key = _key(rows[0]) if rows else None
        return key if key is not None and key.state(now) == "valid" else None

    def list(self, analyst: str | None = None) -> tuple[ApiKey, ...]:
        """All keys ever made (of one analyst), the oldest first."""
        with self._ledger.reading() as books:
            keys = [_key(row) for row in books.run(f"{_SELECT} ORDER BY created, id")]
            actors = books.key_actors()
        return tuple(_with_actors(key, actors.get(key.id, [])) for key in keys if analyst in (None, key.analyst))

    def revoke(self, id: str, now: datetime, *, by: Actor | None = None) -> ApiKey:  # noqa: A002
        """End a key at once and for good. Revoking it again changes nothing."""
        with self._ledger.writing() as books:
            rules.check_credentials(books)
            rows = (
                books.run(f"{_SELECT} WHERE id = ?", id) if id.isprintable() else []
            )  # not every store takes any text
            if rows and _key(rows[0]).revoked is None:
                books.end_credential(KEYS, id, moment_text(now), by)
                rows = books.run(f"{_SELECT} WHERE id = ?", id)
            known = [] if rows else [row[0] for row in books.run("SELECT id FROM keys")]
            mark = rules.credentials_mark(books)
        if rows:
            self._ledger.fence.advance(mark)  # no older copy may bring it back
            return _key(rows[0])
        if id.startswith(START):  # a key, or a part of one, which must not be in a message or a log
            raise NotFound(
                "a key is revoked by its id, which `sfumato keys list` shows; keep the key itself out of commands"
            )
        raise NotFound(f"there is no key with the id {id[:60]!r}", nearest=find_nearest(id, known))


def read_key(books: Books, name: str) -> ApiKey | None:
    """The key with this id, whatever its state."""
    rows = books.run(f"{_SELECT} WHERE id = ?", name)
    return _key(rows[0]) if rows else None


def _key(row: tuple[Any, ...]) -> ApiKey:
    name, prefix, analyst, role, created, expires, revoked = row
    return ApiKey(name, prefix, analyst, role, datetime.fromisoformat(created), _moment(expires), _moment(revoked))


def _with_actors(key: ApiKey, actors: Sequence[Actor | None]) -> ApiKey:
    """A key with who created and who revoked it: the first and the last entry about it in the journal."""
    revoked_by = actors[-1] if len(actors) > 1 else None
    return replace(key, created_by=actors[0] if actors else None, revoked_by=revoked_by)


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
