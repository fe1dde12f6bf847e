"""The trail of the policy, written to the journal when it has changed: limits, prices, modes, rights, what reports
promise, and what bounds a person in tables.

A user who can edit `sfumato.toml` can raise a budget. The journal cannot prevent that. It shows when it was done, and
its chain keeps the entry. The first entry lists everything; each later one lists what differs. Where a version of
Sfumato records more kinds of settings than the one before, its first entry lists them apart: whether they have changed
is not known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

from sfumato.config import Config
from sfumato.config.settings import ReportSettings, Version
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.tables import Books
from sfumato.ledger.types import Row, current_user, moment_text

_REPORT_NAMES = {
    "cap": "max_events_per_unit",
    "fanout": "entity_fanout",
    "levels": "entities.levels",
    "entities": "entities.table",
}


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting before and after; None where it was not there."""

    setting: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What changed at once: when it was first seen, the user of that process if known, and the file's SHA-256.

    `first_recorded` are settings of kinds that no entry before has: they may have been the same for long.
    """

    at: str
    user: str
    file: str
    changes: tuple[SettingChange, ...]
    first_recorded: Mapping[str, str] = field(default_factory=dict)


def settings_in_force(config: Config) -> dict[str, str]:
    """The settings that decide who may spend how much on what, and what that promises; each as text."""
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
        settings |= _settings(f"tables.{name}", _others(table, "name", "columns", "measures"))
        for key, measure in table.measures.items():
            settings |= _settings(f"tables.{name}.measures.{key}", _others(measure, "name"))
        for key, column in table.columns.items():
            settings |= _settings(f"tables.{name}.columns.{key}", _others(column, "domain"))
    for name, public in config.public.items():
        settings |= _settings(f"tables.{name}", {"public": True} | _others(public, "name", "types"))
    for name, report in config.reports.items():
        settings |= _report_settings(f"reports.{name}", report)
    return settings | ({"console.govern": "true"} if config.console.govern else {})


def _report_settings(here: str, report: ReportSettings) -> dict[str, str]:
    """The settings of a report by their names in the file."""
    given = {
        _REPORT_NAMES.get(name, name): value
        for name, value in _others(report, "name", "calendar", "statistics", "attributes", "gaussian").items()
    }
    given |= {"levels": report.calendar.levels, "zone": report.calendar.zone}
    if report.gaussian is not None:
        given |= {"noise": "gaussian", "epsilon.total": report.gaussian.epsilon, "delta": report.gaussian.delta}
    settings = _settings(here, given)
    for name, statistic in report.statistics.items():
        settings |= _settings(f"{here}.statistics.{name}", _others(statistic))
    for name, attribute in report.attributes.items():
        settings |= _settings(f"{here}.attributes.{name}", _others(attribute, "domain"))
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
        different = {name: text for name, text in current.items() if before.get(name) != text}
        is_first = bool(before) and all(map(_is_in_first_scope, before))
        note = {
            "user": current_user().user,
            "file": config.digest,
            "set": {name: text for name, text in different.items() if not is_first or _is_in_first_scope(name)},
            "unset": sorted(before.keys() - current.keys()),
        }
        if is_first:
            note["first"] = {name: text for name, text in different.items() if not _is_in_first_scope(name)}
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
        history.append(PolicyChange(at, note["user"], note["file"], tuple(changes), note.get("first", {})))
        _apply(known, note)
    return history[::-1]


def _latest(books: Books) -> dict[str, str]:
    known: dict[str, str] = {}
    for _, note in books.policies():
        _apply(known, note)
    return known


def _apply(known: dict[str, str], note: Mapping[str, Any]) -> None:
    known |= note["set"] | note.get("first", {})
    for name in note["unset"]:
        known.pop(name, None)


def _is_in_first_scope(name: str) -> bool:
    """Whether the earliest version recorded settings of this kind: no reports, and of tables the cap and its parts."""
    return not name.startswith(("tables.", "reports.")) or (name.count(".") == 2 and name.endswith((".cap", ".parts")))


def _others(record: Any, *known: str) -> dict[str, Any]:
    """The fields of a record but for `known`: a right that is added later is part of the trail."""
    return {each.name: getattr(record, each.name) for each in fields(record) if each.name not in known}


def _settings(section: str, values: Mapping[str, Any]) -> dict[str, str]:
    return {f"{section}.{name}": _text(value) for name, value in values.items() if value is not None and value != {}}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return json.dumps({name: _text(each) for name, each in sorted(value.items())})
    if isinstance(value, Version):
        return value.rhythm or f"value {value.value}"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps([*value]) if isinstance(value, tuple) else str(value)
