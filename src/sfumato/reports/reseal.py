"""Resealing: late rows come in, at the price of another version.

An entity is resealed with all that its rows count for. A late row of a creative is missing in its campaign and in its
account too, and a late row of an account may belong to any creative. So everything above an entity and everything below
it is resealed with it; its siblings have other rows and stay as they are. Of time it is every range that meets
[start, end).
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
from sfumato.ledger.cells import Seals
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import ReportPolicy, guarantee
from sfumato.reports.cells import current_definition


@dataclass(frozen=True, slots=True)
class Reseal:
    """What resealing a range costs, and whether it was `done`.

    `before` and `after` are the epsilons of one `unit` in this range, now and once it is drawn again. `promised` is
    what the report promises with all of its versions. All are at `delta`, which is 0 with Laplace noise.
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
    delta: Fraction
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
                **({"delta": float(self.delta)} if self.delta else {}),
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
    """Open the next version of what is sealed in a range; with `dry` only compute what that costs.

    Raises `NotSupported`, and changes nothing, where that would be more versions than the policy allows. What is open
    already stays open, so an interrupted call can be made again and is paid once.
    """
    calendar, promise = policy.calendar, guarantee(policy)
    first, last = calendar.instant("start", start), calendar.instant("end", end)
    if first >= last:
        raise NotSupported("must come after start; the range begins with start and ends before end", field="end")
    path = entities.find(entity, None) if entity else ()
    outcome = seals.reseal(
        policy.name,
        policy.border_name(first),
        policy.border_name(last),
        definition=partial(current_definition, policy),
        entities={json.dumps(each) for each in relatives(entities, path)} if path else None,
        most=policy.max_versions,
        now=now,
        dry=dry,
    )
    return Reseal(
        report=policy.name,
        start=calendar.wall(first),
        end=calendar.wall(last),
        zone=calendar.zone,
        entity=path,
        places=outcome.places,
        cells=outcome.cells,
        version=outcome.highest,
        versions=policy.max_versions,
        unit=promise.unit,
        before=promise.after(outcome.highest - 1) if outcome.highest > 1 else Fraction(0),
        after=promise.after(outcome.highest) if outcome.highest else Fraction(0),
        promised=promise.epsilon,
        delta=promise.delta,
        done=bool(outcome.places) and not dry,
    )


def relatives(entities: Entities, path: Path) -> Iterator[Path]:
    """The entities whose counts a row of one may be in: those above it, itself, and those below it."""
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
