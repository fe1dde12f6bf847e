"""The trail of the policy: limits, prices, modes and rights, written to the journal when they have changed.

A user who can edit `sfumato.toml` can raise a budget. The journal cannot prevent that. It shows when it was done, and
its chain keeps the entry. The first entry lists everything; each later one lists what differs.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from sfumato.config import Config
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import Books
from sfumato.ledger.types import Row, moment_text


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting before and after; None where it was not there."""

    setting: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What changed at once: when it was first seen, the user of that process if known, and the file's SHA-256."""

    at: str
    user: str
    file: str
    changes: tuple[SettingChange, ...]


def settings_in_force(config: Config) -> dict[str, str]:
    """The settings that decide who may spend how much on what, each as text."""
    settings: dict[str, str] = {}
    for name, budget in config.budgets.items():
        prices = {each.name: getattr(budget.prices, each.name) for each in fields(budget.prices)}
        amounts = {"information": budget.cap.information, "calls": budget.cap.calls}
        settings |= _settings(f"budgets.{name}", amounts | prices | _others(budget, "prices", "cap"))
    for name, analyst in config.analysts.items():
        settings |= _settings(f"analysts.{name}", _others(analyst))
    for name, organisation in config.organisations.items():
        settings |= _settings(f"organisations.{name}", {"budget": organisation})
    for name, table in config.tables.items():
        settings |= _settings(f"tables.{name}", {"cap": table.cap, "parts": table.parts})
    return settings


def record_policy(ledger: Ledger, config: Config, now: datetime) -> None:
    """Write what is in force to the journal, unless its last entry says the same."""
    current = settings_in_force(config)
    with ledger.reading() as books:
        if _latest(books) == current:
            return
    with ledger.writing() as books:
        before = _latest(books)
        if before == current:
            return  # another process has written it meanwhile
        note = {
            "user": _user(),
            "file": config.digest,
            "set": {name: text for name, text in current.items() if before.get(name) != text},
            "unset": sorted(before.keys() - current.keys()),
        }
        books.append(Row(moment_text(now), "policy", "", "", note=json.dumps(note)))


def policy_changes(ledger: Ledger) -> list[PolicyChange]:
    """All entries, the latest first."""
    with ledger.reading() as books:
        entries = books.policies()
    known: dict[str, str] = {}
    history: list[PolicyChange] = []
    for at, note in entries:
        names = sorted([*note["set"], *note["unset"]])
        changes = [SettingChange(name, known.get(name), note["set"].get(name)) for name in names]
        history.append(PolicyChange(at, note["user"], note["file"], tuple(changes)))
        _apply(known, note)
    return history[::-1]


def _latest(books: Books) -> dict[str, str]:
    known: dict[str, str] = {}
    for _, note in books.policies():
        _apply(known, note)
    return known


def _apply(known: dict[str, str], note: Mapping[str, Any]) -> None:
    known |= note["set"]
    for name in note["unset"]:
        known.pop(name, None)


def _others(record: Any, *known: str) -> dict[str, Any]:
    """The fields of a record but for `known`: a right that is added later is part of the trail."""
    return {each.name: getattr(record, each.name) for each in fields(record) if each.name not in known}


def _settings(section: str, values: Mapping[str, Any]) -> dict[str, str]:
    return {f"{section}.{name}": _text(value) for name, value in values.items() if value is not None and value != {}}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps({name: _text(each) for name, each in sorted(value.items())})
    return json.dumps([*value]) if isinstance(value, tuple) else str(value)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return ""
