"""The values and the rules of sealed report cells. No SQL: that is in `sfumato.ledger.cell_tables`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from sfumato.errors import Conflict, InvalidArgument, NotSupported
from sfumato.ledger.tables import place_key

RESEALED = "this range was sealed again while its numbers were drawn; none of them was shown. Ask again"

_MAX_KEYS = 1 << 14  # keys of places that are kept: the same years are read every day
_ANY = 10**9  # versions: more than any policy allows


@dataclass(frozen=True, slots=True)
class Place:
    """What is sealed: a total, or a breakdown by one attribute, of one entity in one atomic range.

    `entity` is the JSON text of its path; `attribute` is empty for a total; `start` and `end` are ISO 8601 in UTC.
    """

    report: str
    statistic: str
    entity: str
    attribute: str
    level: str
    start: str
    end: str

    @property
    def key(self) -> str:
        return _key(self)

    def fields(self) -> tuple[str, str, str, str, str, str, str]:
        """In the order of the table `places` and of `place_key`."""
        return self.report, self.statistic, self.entity, self.attribute, self.level, self.start, self.end


@lru_cache(_MAX_KEYS)
def _key(place: Place) -> str:
    return place_key(*place.fields())


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Noisy counts of some values of a domain. Values are JSON texts; the one value of a total is the empty text."""

    values: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """One drawing of a place. Without parts it is pending: draw with its nonce, then store under its number."""

    place: Place
    number: int
    nonce: bytes
    parts: tuple[CellCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class ResealedCells:
    """How many places and cells are to be drawn again, and the highest version among them."""

    places: int
    cells: int
    highest: int


@dataclass(slots=True)
class StoredSeal:
    """A seal as it is stored. Each of its cells: the journal row, the domain's digest, and the counts as text."""

    number: int
    version: int
    definition: str
    nonce: str
    opened: int
    cells: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Restore:
    """A recovery. Cells that the restored copy does not hold may have left before it.

    `versions` are the highest that the fence saw, per report. Without a fence (None) any version may have left.
    """

    sequence: int
    at: datetime
    versions: Mapping[str, int] | None

    def lost_versions(self, report: str) -> int:
        return _ANY if self.versions is None else max(1, self.versions.get(report, 0))


Domains: TypeAlias = Mapping[str, tuple[str, ...]]
"""The lists of values behind cells, by their digests."""


# -- which seal is served, which comes next --


def seal_under(history: Sequence[StoredSeal], definition: str) -> StoredSeal | None:
    """The latest seal of a place under a definition, unless it was given up before it was drawn.

    What was drawn under a definition is served under it again, even if other definitions were drawn in between: it has
    been seen already, and costs nothing.
    """
    own = [stored for stored in history if stored.definition == definition]
    return own[-1] if own and (own[-1].cells or own[-1] is history[-1]) else None


def seal_numbered(history: Sequence[StoredSeal], number: int) -> StoredSeal:
    """The seal with this number, if it is still the one of its definition."""
    for stored in history:
        if stored.number == number and seal_under(history, stored.definition) is stored:
            return stored
    raise Conflict(RESEALED)


def is_usable(stored: StoredSeal, most: int, restores: Sequence[Restore]) -> bool:
    """Whether a seal may be served, or drawn. What was drawn is served even if fewer versions are allowed now."""
    return bool(stored.cells) or (stored.version <= most and not is_outdated(stored, restores))


def is_outdated(stored: StoredSeal, restores: Sequence[Restore]) -> bool:
    """Whether a copy was restored since the seal was opened: its nonce may have been used for cells that are lost."""
    return bool(restores) and stored.opened < restores[-1].sequence


def next_seal(
    place: Place, history: Sequence[StoredSeal], definition: str, most: int, restores: Sequence[Restore]
) -> StoredSeal:
    """A pending seal after all seals of a place. Raises `NotSupported` if that is a version too many.

    `used` is how often the place was drawn, or may have been drawn with a nonce that is stored. `lost` is how often it
    counts as drawn because of cells that restored copies do not hold.
    """
    last, end = history[-1] if history else None, read_moment("end", place.end)
    used = 0 if last is None else last.version if last.cells or is_outdated(last, restores) else last.version - 1
    since = [restore for restore in restores if (end <= restore.at if last is None else last.opened < restore.sequence)]
    lost = max((restore.lost_versions(place.report) for restore in since), default=0)
    if max(used, lost) >= most:
        changed = last is not None and last.definition != definition
        unknown = lost > (0 if last is None or not last.cells else last.version)
        raise NotSupported(_too_many(place.report, most, changed=changed, lost=unknown))
    number = max(lost, 0 if last is None else last.number) + 1
    return StoredSeal(number, max(used, lost) + 1, definition, os.urandom(16).hex(), 0)


def _too_many(report: str, most: int, *, changed: bool, lost: bool) -> str:
    way = f"raise max_versions of reports.{report} above {most}: each version multiplies the guarantee"
    if changed:
        return (
            f"report {report}: this range was sealed under another definition (its epsilon, noise, filter, columns, "
            f"...), and may not be drawn again. Put the policy back as it was, or {way}"
        )
    if lost:
        return (
            f"report {report}: the ledger was restored from a copy that does not hold all that has left, and this "
            "range had ended by then. Ask for a range that began later; or, if the ledger's fence was there, "
            f"{way}"
        )
    return f"report {report}: this range has been sealed as often as it may be; {way}"


def check_addable(place: Place, stored: StoredSeal, restores: Sequence[Restore]) -> None:
    """Raise if a copy was restored since the seal was opened: then no cells may be added to it."""
    if not is_outdated(stored, restores):
        return
    if not stored.cells:
        raise Conflict(RESEALED)
    raise NotSupported(
        f"report {place.report}: values were added to a domain, and the ledger was restored from a copy since this "
        "range was sealed: their numbers may have left before. Take them out again, or run: sfumato report reseal"
    )


def new_counts(part: CellCounts, stored: StoredSeal, domains: Domains) -> CellCounts:
    """The counts of those values that are not stored yet."""
    if not stored.cells:
        return part
    known = {value for _, domain, _ in stored.cells for value in domains[domain]}
    pairs = [pair for pair in zip(part.values, part.counts, strict=True) if pair[0] not in known]
    return CellCounts(tuple(value for value, _ in pairs), tuple(count for _, count in pairs))


# -- arguments --


def check_places(places: Iterable[Place]) -> str:
    """The one report of these places; empty if there are none."""
    reports = {place.report for place in places}
    if len(reports) > 1:
        raise InvalidArgument("places", "must be of one report")
    for place in places:
        if read_moment("start", place.start) >= read_moment("end", place.end):
            raise InvalidArgument("end", "must be after start")
    return reports.pop() if reports else ""


def check_counts(report: str, drawn: Mapping[Place, tuple[int, CellCounts]]) -> None:
    if any(place.report != report for place in drawn):
        raise InvalidArgument("drawn", f"must be of the report {report}")
    for _, part in drawn.values():
        if len(part.values) != len(part.counts) or len(set(part.values)) != len(part.values):
            raise InvalidArgument("drawn", "must have one count per value, and every value once")
        if not set(map(type, part.counts)) <= {int}:
            raise InvalidArgument("drawn", "must have integer counts")


def read_moment(argument: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidArgument(argument, "must be a moment in UTC, such as 2026-11-15T00:00:00+00:00")
    return moment
