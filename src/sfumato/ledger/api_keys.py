"""Keys of the HTTP service: made and shown once, kept as hashes, ended by a day or by a word.

A key is `sfumato_` and 256 random bits, so that a plain hash is enough to keep it by: nobody can try them all, and
whoever reads the ledger learns no key. It is valid from the moment it is made until it expires or is revoked, and every
call looks it up: a key that was revoked in one process is refused in the next call of any other.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, TypeAlias, get_args

from sfumato.config import Role
from sfumato.errors import InvalidArgument, NotFound, nearest
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.store import Run
from sfumato.ledger.tables import Books

State: TypeAlias = Literal["valid", "expired", "revoked"]

START = "sfumato_"
SHAPE = re.compile(START + "[A-Za-z0-9_-]{43}")

_SHOWN = len(START) + 4
_COLUMNS = "id, prefix, analyst, role, created, expires, revoked"
_BY_HASH = f"SELECT {_COLUMNS} FROM keys WHERE hash = ?"  # noqa: S608
_BY_ID = f"SELECT {_COLUMNS} FROM keys WHERE id = ?"  # noqa: S608
_ALL = f"SELECT {_COLUMNS} FROM keys ORDER BY created, id"  # noqa: S608


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known of a key, which is not the key: its `prefix` only tells it from others."""

    id: str
    prefix: str
    analyst: str
    role: Role
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None

    def state(self, now: datetime) -> State:
        """A key is valid before the moment at which it expires, and no longer at it."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.expires is None or now < self.expires else "expired"

    def to_dict(self) -> dict[str, Any]:
        named = {"id": self.id, "prefix": self.prefix, "analyst": self.analyst, "role": self.role}
        return named | {name: _written(getattr(self, name)) for name in ("created", "expires", "revoked")}


class ApiKeys:
    """The keys in a ledger. Thread-safe; any number of processes may use them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def create(self, analyst: str, role: Role, expires: date | datetime | None, now: datetime) -> tuple[str, ApiKey]:
        """A new key, and what is known of it from now on. A day that it expires on is valid to its end (UTC)."""
        if not analyst:
            raise InvalidArgument("analyst", "must not be empty")
        if role not in get_args(Role):
            raise InvalidArgument("role", f"must be one of {', '.join(get_args(Role))}")
        text = START + secrets.token_urlsafe(32)
        end = None if expires is None else _end(expires, now)
        key = ApiKey(secrets.token_hex(6), text[:_SHOWN], analyst, role, now.astimezone(UTC), end)
        with self._books(writing=True) as books:
            books.run(
                "INSERT INTO keys (id, hash, prefix, analyst, role, created, expires) VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(key.id, _hash(text), key.prefix, analyst, role, _written(key.created), _written(end)),
            )
        return text, key

    def find(self, text: str, now: datetime) -> ApiKey | None:
        """The key that is written like this, if it is valid now. What has not the shape of a key costs no look."""
        if not SHAPE.fullmatch(text):
            return None
        with self._books() as books:
            found = books.run(_BY_HASH, _hash(text))
        key = _key(found[0]) if found else None
        return key if key is not None and key.state(now) == "valid" else None

    def list(self, analyst: str | None = None) -> tuple[ApiKey, ...]:
        """All keys ever made (of one analyst), the oldest first."""
        with self._books() as books:
            found = books.run(_ALL)
        keys = map(_key, found)
        return tuple(key for key in keys if analyst in (None, key.analyst))

    def revoke(self, id: str, now: datetime) -> ApiKey:  # noqa: A002
        """End a key at once, for good. Revoking it again changes nothing."""
        with self._books(writing=True) as books:
            books.run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", _written(now), id)
            found = books.run(_BY_ID, id)
            known = [] if found else [row[0] for row in books.run("SELECT id FROM keys")]
        if not found:
            raise NotFound(_unknown(id, known))
        return _key(found[0])

    def _books(self, *, writing: bool = False) -> AbstractContextManager[Books]:
        """The ledger's own books: of an old copy, in which revoked keys would be valid again, there are none."""
        store = self._ledger._store
        transaction: Callable[[], AbstractContextManager[Run]] = store.writing if writing else store.reading
        return self._ledger._books(transaction)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _key(row: tuple[Any, ...]) -> ApiKey:
    name, prefix, analyst, role, created, expires, revoked = row
    return ApiKey(name, prefix, analyst, role, datetime.fromisoformat(created), _read(expires), _read(revoked))


def _end(expires: date | datetime, now: datetime) -> datetime:
    try:
        if not isinstance(expires, datetime):
            expires = datetime.combine(expires + timedelta(days=1), time(), UTC)
        if expires.tzinfo is None:
            raise InvalidArgument("expires", "must carry a time zone")
        end = expires.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument("expires", "is too far away; leave it out for a key that does not expire") from None
    if end <= now:
        raise InvalidArgument("expires", "is in the past: the key would never be valid")
    return end


def _unknown(id: str, known: list[str]) -> str:  # noqa: A002
    # Whoever writes the key itself here must not find it in a message, or in a log of messages.
    if id.startswith(START):
        return "a key is revoked by its id, which `sfumato keys list` shows; keep the key itself out of commands"
    return f"there is no key with the id {id[:60]!r}{nearest(id, known)}"


def _written(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")


def _read(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
