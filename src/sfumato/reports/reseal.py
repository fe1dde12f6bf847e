"""Sealing anew: late rows come in, at the price of another version.

An entity is sealed anew with all that its rows count for: a late row of a creative is missing in its campaign and in
its account too, and one of an account may be any creative's. So everything above an entity and everything below it
goes with it; its neighbours, whose rows are others, stay as they are. Of time, every range that meets [start, end).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.errors import NotSupported
from sfumato.ledger.cells import ResealedCells, Seals
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import ReportPolicy, guarantee
from sfumato.reports.cells import definition_of


@dataclass(frozen=True, slots=True)
class Reseal:
    """What sealing a range anew comes to, and whether it was `done`.

    `before` and `after` are the epsilons of one `unit` in this range, now and once it is drawn anew; `promised` is
    what the report has promised all along, with all of its versions.
    """

    report: str
    start: datetime
    end: datetime
    zone: str
    entity: Path
    places: int
    cells: int
    version: int
    versions: int
    unit: str
    before: Fraction
    after: Fraction
    promised: Fraction
    done: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "report": self.report,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "zone": self.zone,
            "entity": list(self.entity),
            "places": self.places,
            "cells": self.cells,
            "version": self.version,
            "max_versions": self.versions,
            "guarantee": {
                "unit": self.unit,
                "before": float(self.before),
                "after": float(self.after),
                "promised": float(self.promised),
            },
            "done": self.done,
        }


def reseal(
    policy: ReportPolicy,
    seals: Seals,
    entities: Entities,
    *,
    start: Any,
    end: Any,
    entity: Mapping[str, str] | None,
    now: datetime,
    dry: bool,
) -> Reseal:
    """Open the next version of what is sealed in a range; with `dry` only say what that comes to.

    `NotSupported`, and nothing is changed, where it would be more versions than the policy allows. What is open already
    stays so: whoever was interrupted does it again, and pays once.
    """
    first, last = _range(policy, start, end)
    path = entities.find(entity, None) if entity else ()
    names = {json.dumps(each) for each in related(entities, path)} if path else None
    borders = policy.named(first), policy.named(last)
    terms: dict[str, Any] = {"entities": names, "most": policy.max_versions, "now": now, "dry": dry}
    found = seals.reseal(policy.name, *borders, definition=partial(definition_of, policy), **terms)
    return _told(policy, (first, last), path, found, done=bool(found.places) and not dry)


def _told(
    policy: ReportPolicy, borders: tuple[datetime, datetime], path: Path, found: ResealedCells, *, done: bool
) -> Reseal:
    calendar, promise = policy.calendar, guarantee(policy)
    one = promise.seal * promise.events
    return Reseal(
        report=policy.name,
        start=calendar.wall(borders[0]),
        end=calendar.wall(borders[1]),
        zone=calendar.zone,
        entity=path,
        places=found.places,
        cells=found.cells,
        version=found.highest,
        versions=policy.max_versions,
        unit=promise.unit,
        before=one * max(found.highest - 1, 0),
        after=one * found.highest,
        promised=promise.epsilon,
        done=done,
    )


def _range(policy: ReportPolicy, start: Any, end: Any) -> tuple[datetime, datetime]:
    first, last = policy.calendar.instant("start", start), policy.calendar.instant("end", end)
    if first >= last:
        raise NotSupported("must come after start; the range begins with start and ends before end", field="end")
    return first, last


def related(entities: Entities, path: Path) -> Iterator[Path]:
    """All whose counts a row of an entity may be in: those above it, itself, and those below it."""
    if not entities.listed and len(path) < len(entities.levels):
        level, lowest = entities.levels[len(path) - 1], entities.levels[-1]
        raise NotSupported(
            f"no table of entities lists what is below {level} {path[-1][:60]}; name its {lowest} too, or leave it out "
            "to seal all of them again",
            field="entity",
        )
    yield from (path[:depth] for depth in range(1, len(path) + 1))
    below = list(entities.children(path))
    while below:
        yield from below
        below = [child for parent in below for child in entities.children(parent)]
