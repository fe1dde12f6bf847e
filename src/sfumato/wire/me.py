"""Who calls, and what may be asked with this name."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from sfumato.wire.base import Record
from sfumato.wire.budget import Role


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
