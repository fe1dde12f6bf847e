"""Who calls, and what may be asked with this name."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from sfumato.wire.base import Record
from sfumato.wire.budget import Role

Right: TypeAlias = Literal["ask", "report", "estimate", "recall", "read", "oversee", "govern"]


class KeyInfo(Record, frozen=True, kw_only=True):
    """The API key of a call, which is not the key."""

    prefix: Annotated[str, Meta(description="Its first characters, which only tell it from others.")]
    expires: Annotated[str | None, Meta(description="When it ends; null: not before it is revoked.")]


class Me(Record, frozen=True, kw_only=True):
    """The caller's own record: role, budget, and what the caller may ask about."""

    analyst: str
    role: Role
    organisation: str | None
    budget: Annotated[str, Meta(description="The name of the budget that pays.")]
    tables: Annotated[list[str], Meta(description="The tables that questions may be about.")]
    reports: Annotated[list[str], Meta(description="The reports that may be queried.")]
    entities: Annotated[
        dict[str, list[str | list[str]]] | None,
        Meta(description="The entities that reports show, by level: names or paths. Null: all."),
    ]
    where: Annotated[str | None, Meta(description="A condition that every question gets in addition.")]
    rights: Annotated[list[Right], Meta(description="What this role may do.")]
    key: Annotated[KeyInfo | None, Meta(description="Null where the caller has a token, or is in this process.")] = None
    zone: Annotated[str, Meta(description="The time zone in which days and periods of budgets begin.")] = "UTC"
