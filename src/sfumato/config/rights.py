"""What each role may do. Every door asks this table: the session, the service and the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from sfumato.config.settings import Role

Right: TypeAlias = Literal["ask", "report", "estimate", "recall", "read", "oversee", "govern"]

RIGHTS: Mapping[Right, frozenset[Role]] = {
    "ask": frozenset({"analyst", "owner"}),
    "report": frozenset({"analyst", "reader", "owner"}),
    "estimate": frozenset({"analyst", "owner", "auditor"}),
    "recall": frozenset({"analyst", "owner", "auditor"}),
    "read": frozenset({"analyst", "reader", "owner", "auditor"}),
    "oversee": frozenset({"owner", "auditor"}),
    "govern": frozenset({"owner"}),
}
"""The roles that have each right: spend, query reports, estimate, get one's own stored answers, read what may be asked
and one's own budget and charges, see what all analysts do and what policy and ledger say, make keys and grants."""


def sort_roles(*roles: Role) -> list[Role]:
    """The roles, the one with the fewest rights first."""
    return sorted(roles, key=lambda role: sum(role in having for having in RIGHTS.values()))
