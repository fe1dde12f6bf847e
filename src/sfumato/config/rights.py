"""What each role may do. Every door asks this table: the session, the service and the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from sfumato.config.settings import Config, Role
from sfumato.errors import ConfigError

Right: TypeAlias = Literal["ask", "report", "estimate", "recall", "read", "usage"]

RIGHTS: Mapping[Right, frozenset[Role]] = {
    "ask": frozenset({"analyst", "owner"}),
    "report": frozenset({"analyst", "reader", "owner"}),
    "estimate": frozenset({"analyst", "owner", "auditor"}),
    "recall": frozenset({"analyst", "owner", "auditor"}),
    "read": frozenset({"analyst", "reader", "owner", "auditor"}),
    "usage": frozenset({"owner", "auditor"}),
}
"""The roles that have each right: spend, query reports, estimate, get one's own stored answers, read what may be asked
and one's own budget and charges, read the spending of all analysts."""


def sort_roles(*roles: Role) -> list[Role]:
    """The roles, the one with the fewest rights first."""
    return sorted(roles, key=lambda role: sum(role in having for having in RIGHTS.values()))


def right_warnings(config: Config) -> Iterator[ConfigError]:
    """Limits of one kind that leave the other kind open: `entities` bind reports only, `where` binds questions only."""
    for name, who in config.analysts.items():
        here, tables = f"analysts.{name}", config.tables_of(name)
        reports = {key: each for key, each in config.reports.items() if tables is None or each.table in tables}
        asked = dict.fromkeys(each.table for each in reports.values() if config.tables[each.table].measures)
        if who.entities is not None and who.where is None and who.role in RIGHTS["ask"] and asked:
            yield ConfigError(
                f"{here}.entities",
                f"binds reports and not questions: {name} can count the rows of all entities in {', '.join(asked)}; "
                f'leave them out of {here}.tables, write {here}.where, or set {here}.role = "reader"',
            )
        if who.where is not None and who.entities is None and who.role in RIGHTS["report"] and reports:
            yield ConfigError(
                f"{here}.where",
                f"binds questions and not reports: {name} can read every entity of {', '.join(reports)}; "
                f"write {here}.entities, or leave their tables out of {here}.tables",
            )
