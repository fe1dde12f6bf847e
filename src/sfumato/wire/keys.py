"""API keys: what is known of each, which is not the key."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from sfumato.wire.base import Record
from sfumato.wire.budget import Role


class KeyRow(Record, frozen=True, kw_only=True):
    """What is known of an API key, which is not the key: its `prefix` only tells it from others."""

    id: str
    prefix: str
    analyst: str
    role: Role
    created: str
    expires: str | None
    revoked: str | None

    @classmethod
    def of_key(cls, key: Any) -> KeyRow:
        """The record of a key whose moments are date-times."""
        values = {name: getattr(key, name) for name in cls.__struct_fields__}
        moments = {name: each for name, each in values.items() if isinstance(each, datetime)}
        return cls(**values | {name: each.isoformat(timespec="microseconds") for name, each in moments.items()})


class ActorInfo(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Who did it: the user of a process, or an analyst over HTTP and the id of her key, if she has one."""

    user: str = ""
    analyst: str = ""
    key: str = ""


_Actor = Annotated[ActorInfo | None, Meta(description="Null where the journal does not say.")]


class KeyState(KeyRow, frozen=True, kw_only=True):
    """What is known of an API key, whether it is valid, and who made and who revoked it."""

    state: Literal["valid", "expired", "revoked"]
    created_by: _Actor = None
    revoked_by: _Actor = None

    @classmethod
    def at(cls, key: Any, now: datetime) -> KeyState:
        """The record of a key at a moment."""
        created, revoked = (
            None if each is None else ActorInfo.from_attributes(each) for each in (key.created_by, key.revoked_by)
        )
        known = KeyRow.of_key(key).to_dict()
        return cls(**known, state=key.state(now), created_by=created, revoked_by=revoked)


class Keys(Record, frozen=True):
    """The API keys that were made, the oldest first."""

    rows: list[KeyState]


class NewKey(KeyState, frozen=True, kw_only=True):
    """A key that was just made."""

    key: Annotated[
        str | None,
        Meta(
            description="The key itself, in this reply and nowhere else. Null if the call was made before: the key was "
            "in its first reply. If that is lost, revoke the key and make another."
        ),
    ]

    @classmethod
    def of_state(cls, state: KeyState, key: str | None) -> NewKey:
        """The record of a key that was just made, or of one that the same call made before."""
        return cls(**{name: getattr(state, name) for name in KeyState.__struct_fields__}, key=key)
