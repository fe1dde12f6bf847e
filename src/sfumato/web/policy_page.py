"""The policy in force: table by table, with what a check finds beside what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from sfumato.web.frame import PageCall
from sfumato.web.owner_pages import MAX_LISTED, moment, owner_page
from sfumato.wire.oversight import CheckRow

KINDS: Mapping[str, str] = {
    "tables": "Tables",
    "reports": "Reports",
    "budgets": "Budgets",
    "organisations": "Organisations",
    "analysts": "Analysts",
}
PARTS: Mapping[str, str] = {
    "columns": "Columns",
    "measures": "What can be counted",
    "statistics": "Statistics",
    "attributes": "Attributes",
}


@dataclass(slots=True)
class PolicySection:
    """What the file says of one table, budget or the like: its settings, those of its parts, and the checks of it."""

    kind: str
    name: str
    settings: dict[str, str] = field(default_factory=dict)
    parts: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    checks: list[CheckRow] = field(default_factory=list)

    @property
    def place(self) -> str:
        """Where it is in the file; "" for what is of no table, budget or the like."""
        return f"{self.kind}.{self.name}" if self.kind else ""

    @property
    def verdict(self) -> str:
        verdicts = {each.verdict for each in self.checks}
        return "wrong" if "wrong" in verdicts else "doubtful" if verdicts else "ok"

    def add(self, setting: str, text: str) -> None:
        """A setting by its place below this section. Parts have names of their own, with settings below them."""
        part, _, rest = setting.partition(".")
        name, _, below = rest.rpartition(".")
        if part in PARTS and name:
            self.parts.setdefault(part, {}).setdefault(name, {})[below] = text
        else:
            self.settings[setting] = text

    def tables(self) -> list[dict[str, Any]]:
        """The parts as tables: a row for each, a column for each setting that one of them has."""
        return [
            {
                "title": PARTS[part],
                "heads": heads,
                "rows": [(name, [row.get(head, "") for head in heads]) for name, row in rows.items()],
            }
            for part, rows in self.parts.items()
            if (heads := list(dict.fromkeys(head for row in rows.values() for head in row)))
        ]


def show_policy(call: PageCall) -> Response:
    policy, config = call.session.policy(), call.session.config
    names = {
        "tables": [*config.tables, *config.public],
        "reports": [*config.reports],
        "budgets": [*config.budgets],
        "organisations": [*config.organisations],
        "analysts": [*config.analysts],
    }
    *sections, general = sort_settings(names, policy.settings, policy.checks)
    return owner_page(
        call,
        "policy.html",
        "Policy",
        here="/policy",
        policy=policy,
        listed=MAX_LISTED,
        groups=[(title, *_listed([each for each in sections if each.kind == kind])) for kind, title in KINDS.items()],
        general=general,
        wrong=sum(each.verdict == "wrong" for each in policy.checks),
        doubtful=sum(each.verdict == "doubtful" for each in policy.checks),
        changed=None if policy.changed is None else moment(policy.changed.at),
    )


def _listed(sections: list[PolicySection]) -> tuple[list[PolicySection], int]:
    """The sections to show, and how many more there are: where they are many, those that are ok are left out."""
    shown = sections if len(sections) <= MAX_LISTED else [each for each in sections if each.checks]
    return shown, len(sections) - len(shown)


def sort_settings(
    names: Mapping[str, Sequence[str]], settings: Mapping[str, str], checks: Iterable[CheckRow]
) -> list[PolicySection]:
    """The settings and checks by what they are about; the last section has the others.

    Names may hold dots, so the longest that fits is meant.
    """
    sections = [*(PolicySection(kind, name) for kind, known in names.items() for name in known), PolicySection("", "")]
    by_place = {each.place: each for each in sections}

    def find(setting: str) -> PolicySection:
        parts = setting.split(".")
        places = (".".join(parts[:size]) for size in range(len(parts), 1, -1))
        return next((by_place[place] for place in places if place in by_place), sections[-1])

    for setting, text in settings.items():
        section = find(setting)
        section.add(setting.removeprefix(f"{section.place}."), text)
    for check in checks:
        find(check.setting).checks.append(check)
    return sections
