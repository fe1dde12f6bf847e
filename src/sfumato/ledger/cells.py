"""Where the noisy cells of reports are kept: drawn once, and served from then on.

    open ──► pending ──► store      the cells are drawn with the seal's nonce; the first that are stored stay
                  └──► (killed)     the seal keeps its nonce, and is drawn by whoever asks next
    reseal, or another definition ──► the next seal of the place, pending

Guarantees, which `verify` checks and the contract tests hold every store to:

1. A cell is drawn once in a version. Whoever draws it at the same time, or later, returns what was stored first; values
   that a domain gains later are drawn with the same seal, and those that it had stay as they are.
2. A place has at most as many versions as its policy allows. A seal that was given up before anything was drawn under
   it takes none.
3. A nonce is drawn with its seal, before a row is read, and stays with it. No nonce outlives a recovery: cells that the
   restored copy does not know may have left, so that everything that was open then, and every place whose range was
   over then, counts as drawn; as often as the fence has seen it, and once at least.
4. No cell leaves before the fence has seen the journal row that it was stored with (`sfumato.ledger.fence`).

Nothing exact is kept here, and no message carries a value, a count or an entity.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeAlias

from sfumato.accounting import Charge
from sfumato.errors import Conflict, InvalidArgument, LedgerFailed, NotSupported
from sfumato.ledger.audit import sha256
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.ledger import Ledger, text_of
from sfumato.ledger.tables import REPORT, SPOILT, Books, Row, digest_of, place_key

SEALED_ANEW = "this range was sealed anew while its numbers were drawn; nothing of them was shown. Ask again"

_REMEMBERED = 1 << 14  # keys of places: a range of years is looked at every morning
_ANY = 10**9  # versions: more than any policy allows
_VARIABLES = 900  # of one statement: SQLite has room for 999 in its smallest builds


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


@lru_cache(_REMEMBERED)
def _key(place: Place) -> str:
    return place_key(*_fields(place))


def _fields(place: Place) -> tuple[str, ...]:
    """In the order of the table `places` and of `place_key`."""
    return place.report, place.statistic, place.entity, place.attribute, place.level, place.start, place.end


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Noisy counts of some values of a domain, which are JSON texts; of a total, the one value is the empty text."""

    values: tuple[str, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seal:
    """One drawing of a place. Until it has parts, it is pending: draw with its nonce, then store under its number."""

    place: Place
    number: int
    nonce: bytes
    parts: tuple[CellCounts, ...] = ()


@dataclass(frozen=True, slots=True)
class ResealedCells:
    """How many places and cells are to be drawn anew, and the highest version that any of them comes to."""

    places: int
    cells: int
    highest: int


@dataclass(slots=True)
class _StoredSeal:
    """A seal as the books have it; of its cells the journal row, the domain's digest and the counts as text."""

    number: int
    version: int
    definition: str
    nonce: str
    opened: int
    cells: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Restore:
    """A recovery: what is not in the books may have left before it. `versions` are those that the fence had seen.

    Without a fence (None) all versions that a policy can have may have left.
    """

    sequence: int
    at: datetime
    versions: Mapping[str, int] | None

    def lost(self, report: str) -> int:
        return _ANY if self.versions is None else max(1, self.versions.get(report, 0))


Domains: TypeAlias = Mapping[str, tuple[str, ...]]


class Seals:
    """The cells of reports in a ledger. Thread-safe; any number of processes may use them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def read(self, places: Mapping[Place, str]) -> dict[Place, Seal]:
        """What is stored of these places, each with the definition under which it is to be served now.

        Places that are not drawn, or were drawn under other definitions alone, are left out.
        """
        with self._books() as books:
            found = {place: _own(stored, places[place]) for place, stored in _history(books, places).items()}
            current = {place: stored for place, stored in found.items() if stored is not None and stored.cells}
            domains, mark = _domains(books, current.values()), _mark(books, current)
        self._let_leave(mark)
        return _sealed(current, domains)

    def open(self, places: Mapping[Place, str], *, most: int, now: datetime) -> dict[Place, Seal]:
        """The current seal of each place, under this definition: a new one where there is none, for all or for none.

        `NotSupported` where a place would have more than `most` versions. Cells of one seal share its nonce: whoever
        draws only the values that are missing must not use the words of the stream that the others were drawn with.
        """
        report = _one_report(places)
        with self._books(writing=True) as books:
            history, restores = _history(books, places), _restores(books)
            found = {place: _own(stored, places[place]) for place, stored in history.items()}
            current = {place: stored for place, stored in found.items() if stored is not None}
            new = {
                place: _next(place, history[place], definition, most, restores)
                for place, definition in places.items()
                if not _stands(current.get(place), definition, most, restores)
            }
            _begin(books, report, new, now)
            current |= new
            domains, mark = _domains(books, current.values()), _mark(books, current)
        self._let_leave(mark)
        return _sealed({place: current[place] for place in places}, domains)

    def store(self, report: str, drawn: Mapping[Place, tuple[int, CellCounts]], now: datetime) -> dict[Place, Seal]:
        """Store what was drawn under the numbers of open seals, and return what is stored: first stored wins.

        That holds value by value. Where a number is no longer the current one, `Conflict`, and nothing is stored.
        """
        _check(report, drawn)
        with self._books(writing=True) as books:
            history, restores = _history(books, drawn), _restores(books)
            current = {place: _numbered(history[place], number) for place, (number, _) in drawn.items()}
            domains = _domains(books, current.values())
            parts = {place: _unknown(part, current[place], domains) for place, (_, part) in drawn.items()}
            new = {place: part for place, part in parts.items() if part.values}
            for place in new:
                _check_open(place, current[place], restores)
            _add(books, report, current, new, domains, now)
            mark = _mark(books, current)
        self._let_leave(mark)
        return _sealed(current, domains)

    def reseal(
        self,
        report: str,
        start: str,
        end: str,
        *,
        entities: Collection[str] | None,
        definition: Callable[[Place], str | None],
        most: int,
        now: datetime,
        dry: bool,
    ) -> ResealedCells:
        """Open the next seal of every drawn place of a report (of these entities) whose range meets [start, end).

        `definition` is that under which a place is served now, None where it is not any more: such places stay as they
        are. All of the others or none: `NotSupported` where one would have more than `most` versions. Places that are
        pending stay so. With `dry` nothing is changed.
        """
        first, last = _moment("start", start), _moment("end", end)
        if first >= last:
            raise InvalidArgument("end", "must be after start")
        with self._books(writing=not dry) as books:
            served = {
                place: defined
                for place in _places(books, report)
                if _moment("start", place.start) < last and first < _moment("end", place.end)
                if (entities is None or place.entity in entities) and (defined := definition(place)) is not None
            }
            history, restores = _history(books, served), _restores(books)
            found = {place: _own(stored, served[place]) for place, stored in history.items()}
            current = {place: stored for place, stored in found.items() if stored is not None and stored.cells}
            new = {place: _next(place, history[place], served[place], most, restores) for place in current}
            if not dry:
                _begin(books, report, new, now)
            domains = _domains(books, current.values())
        cells = sum(len(domains[domain]) for stored in current.values() for _, domain, _ in stored.cells)
        return ResealedCells(len(new), cells, max((stored.version for stored in new.values()), default=0))

    def standing(self, report: str) -> tuple[int, int]:
        """How many places of a report are sealed, and the highest version that was drawn of any."""
        with self._books() as books:
            [(places, highest)] = books.run(
                "SELECT COUNT(DISTINCT seals.place), COALESCE(MAX(seals.version), 0) FROM places "
                "JOIN seals ON seals.place = places.place "
                "JOIN cells ON cells.place = seals.place AND cells.number = seals.number WHERE places.report = ?",
                report,
            )
        return places, highest

    def others(self, report: str, definitions: Collection[str]) -> int:
        """How many places of a report were drawn under other definitions than these."""
        with self._books() as books:
            found = books.run(
                "SELECT seals.definition, COUNT(DISTINCT seals.place) FROM places "
                "JOIN seals ON seals.place = places.place "
                "JOIN cells ON cells.place = seals.place AND cells.number = seals.number "
                "WHERE places.report = ? GROUP BY seals.definition",
                report,
            )
        return sum(places for definition, places in found if definition not in definitions)

    def _books(self, *, writing: bool = False) -> AbstractContextManager[Books]:
        """The ledger's own books: of an old copy, in which cells could be drawn again, there are none."""
        store = self._ledger._store
        return self._ledger._books(store.writing if writing else store.reading)

    def _let_leave(self, mark: Mark | None) -> None:
        if mark is not None:
            self._ledger.fence.advance(mark)


# -- rules --


def _own(history: Sequence[_StoredSeal], definition: str) -> _StoredSeal | None:
    """The seal of a definition: the last of its own. One that was given up before it was drawn is none.

    What was drawn under a definition is served under it again, whatever was drawn under others in between: it has been
    seen, and costs nothing.
    """
    own = [stored for stored in history if stored.definition == definition]
    return own[-1] if own and (own[-1].cells or own[-1] is history[-1]) else None


def _numbered(history: Sequence[_StoredSeal], number: int) -> _StoredSeal:
    for stored in history:
        if stored.number == number and _own(history, stored.definition) is stored:
            return stored
    raise Conflict(SEALED_ANEW)


def _stands(stored: _StoredSeal | None, definition: str, most: int, restores: Sequence[_Restore]) -> bool:
    """Whether a seal is to be served, or drawn, now. What was drawn is served, however few versions may be drawn."""
    if stored is None or stored.definition != definition:
        return False
    return bool(stored.cells) or (stored.version <= most and not _outlived(stored, restores))


def _outlived(stored: _StoredSeal, restores: Sequence[_Restore]) -> bool:
    """Whether a copy was restored since a seal was opened: its nonce may have been used for cells that are lost."""
    return bool(restores) and stored.opened < restores[-1].sequence


def _next(
    place: Place, history: Sequence[_StoredSeal], definition: str, most: int, restores: Sequence[_Restore]
) -> _StoredSeal:
    """The seal after all that a place has, pending; refused, where that would be a version too many."""
    last = history[-1] if history else None
    used, lost = _used(last, restores), _lost(place, last, restores)
    if max(used, lost) >= most:
        changed = last is not None and last.definition != definition
        unknown = lost > (0 if last is None or not last.cells else last.version)
        raise NotSupported(_too_many(place.report, most, changed=changed, lost=unknown))
    number = max(lost, 0 if last is None else last.number) + 1
    return _StoredSeal(number, max(used, lost) + 1, definition, os.urandom(16).hex(), 0)


def _used(last: _StoredSeal | None, restores: Sequence[_Restore]) -> int:
    """How often a place was drawn, as the books know it, or may have been with a nonce that they know."""
    if last is None:
        return 0
    return last.version if last.cells or _outlived(last, restores) else last.version - 1


def _lost(place: Place, last: _StoredSeal | None, restores: Sequence[_Restore]) -> int:
    """How often a place counts as drawn because of what restored copies do not know."""
    end = _moment("end", place.end)
    since = [restore for restore in restores if (end <= restore.at if last is None else last.opened < restore.sequence)]
    return max((restore.lost(place.report) for restore in since), default=0)


def _too_many(report: str, most: int, *, changed: bool, lost: bool) -> str:
    way = f"raise max_versions of reports.{report} above {most}: each version multiplies the guarantee"
    if changed:
        return (
            f"report {report}: this range was sealed under another definition (its epsilon, filter, columns, ...), and "
            f"may not be drawn again. Put the policy back as it was, or {way}"
        )
    if lost:
        return (
            f"report {report}: the ledger was restored from a copy that does not know all that has left, and this "
            "range was over by then. Ask for a range that began later; or, if the ledger's fence was there, "
            f"{way}"
        )
    return f"report {report}: this range has been sealed as often as it may be; {way}"


def _check_open(place: Place, stored: _StoredSeal, restores: Sequence[_Restore]) -> None:
    """Cells may be added to a seal only in books that were not restored since it was opened."""
    if not _outlived(stored, restores):
        return
    if not stored.cells:
        raise Conflict(SEALED_ANEW)
    raise NotSupported(
        f"report {place.report}: values were added to a domain, and the ledger was restored from a copy since this "
        "range was sealed: their numbers may have left before. Take them out again, or run: sfumato report reseal"
    )


def _unknown(part: CellCounts, stored: _StoredSeal, domains: Domains) -> CellCounts:
    """What of a part is not stored yet."""
    if not stored.cells:
        return part
    known = {value for _, domain, _ in stored.cells for value in domains[domain]}
    pairs = [pair for pair in zip(part.values, part.counts, strict=True) if pair[0] not in known]
    return CellCounts(tuple(value for value, _ in pairs), tuple(count for _, count in pairs))


def _one_report(places: Iterable[Place]) -> str:
    reports = {place.report for place in places}
    if len(reports) > 1:
        raise InvalidArgument("places", "must be of one report")
    for place in places:
        if _moment("start", place.start) >= _moment("end", place.end):
            raise InvalidArgument("end", "must be after start")
    return reports.pop() if reports else ""


def _check(report: str, drawn: Mapping[Place, tuple[int, CellCounts]]) -> None:
    if any(place.report != report for place in drawn):
        raise InvalidArgument("drawn", f"must be of the report {report}")
    for _, part in drawn.values():
        if len(part.values) != len(part.counts) or len(set(part.values)) != len(part.values):
            raise InvalidArgument("drawn", "must have one count for each value, and every value once")
        if not set(map(type, part.counts)) <= {int}:
            raise InvalidArgument("drawn", "must have integer counts")


def _moment(argument: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidArgument(argument, "must be a moment in UTC, such as 2026-11-15T00:00:00+00:00")
    return moment


# -- the tables --


def _history(books: Books, places: Collection[Place]) -> dict[Place, list[_StoredSeal]]:
    """All seals of each place, the current one last."""
    found: dict[str, dict[int, _StoredSeal]] = {place.key: {} for place in places}
    for some in _chunks([*found]):
        among = f"WHERE place IN ({', '.join('?' * len(some))})"
        select = f"SELECT place, number, version, definition, nonce, opened FROM seals {among} ORDER BY place, number"  # noqa: S608
        for key, *columns in books.run(select, *some):
            found[key][columns[0]] = _StoredSeal(*columns)
        select = f"SELECT place, number, stored, domain, counts FROM cells {among} ORDER BY place, number, stored"  # noqa: S608
        for key, number, *cells in books.run(select, *some):
            if number not in found[key]:
                raise LedgerFailed(SPOILT)
            found[key][number].cells.append(tuple(cells))
    return {place: [*seals.values()] for place, seals in zip(places, found.values(), strict=True)}


def _domains(books: Books, seals: Iterable[_StoredSeal]) -> dict[str, tuple[str, ...]]:
    """The lists of values behind the cells of these seals, by their digests."""
    digests = {domain for stored in seals for _, domain, _ in stored.cells}
    found: dict[str, tuple[str, ...]] = {}
    for some in _chunks([*digests]):
        select = f"SELECT digest, listed FROM domains WHERE digest IN ({', '.join('?' * len(some))})"  # noqa: S608
        found |= {digest: tuple(json.loads(listed)) for digest, listed in books.run(select, *some)}
    if len(found) < len(digests):
        raise LedgerFailed(SPOILT)
    return found


def _sealed(current: Mapping[Place, _StoredSeal], domains: Domains) -> dict[Place, Seal]:
    return {
        place: Seal(
            place,
            stored.number,
            bytes.fromhex(stored.nonce),
            tuple(CellCounts(domains[domain], tuple(json.loads(counts))) for _, domain, counts in stored.cells),
        )
        for place, stored in current.items()
    }


def _places(books: Books, report: str) -> list[Place]:
    columns = "report, statistic, entity, attribute, level, since, until"
    found = books.run(f"SELECT {columns} FROM places WHERE report = ? ORDER BY place", report)  # noqa: S608
    return [Place(*texts) for texts in found]


def _restores(books: Books) -> list[_Restore]:
    """The recoveries so far, in their order."""
    found = books.run("SELECT sequence, at, note FROM journal WHERE kind = 'restore' ORDER BY sequence")
    return [
        _Restore(sequence, datetime.fromisoformat(at), json.loads(note)["versions"]) for sequence, at, note in found
    ]


def _begin(books: Books, report: str, new: Mapping[Place, _StoredSeal], now: datetime) -> None:
    """Write pending seals down, with the journal row that says so."""
    if not new:
        return
    sequence = books.head.sequence + 1
    for stored in new.values():
        stored.opened = sequence
    keys = {place: place.key for place in new}
    names = [(keys[place], *_fields(place)) for place in new]
    rows = [(keys[place], s.number, s.version, s.definition, s.nonce) for place, s in new.items()]
    _insert(books, "places (place, report, statistic, entity, attribute, level, since, until)", names, known="place")
    _insert(books, "seals (place, number, version, definition, nonce, opened)", [(*row, sequence) for row in rows])
    _journal(books, report, {"seals": len(rows), "sha256": digest_of(rows)}, now)


def _add(
    books: Books,
    report: str,
    current: Mapping[Place, _StoredSeal],
    new: Mapping[Place, CellCounts],
    domains: dict[str, tuple[str, ...]],
    now: datetime,
) -> None:
    """Write cells down, with the journal row that says so; `current` and `domains` then have them too."""
    if not new:
        return
    sequence = books.head.sequence + 1
    listed = {values: json.dumps(values, separators=(",", ":")) for values in {part.values for part in new.values()}}
    digests = {values: sha256(text) for values, text in listed.items()}
    for place, part in new.items():
        counts = json.dumps(part.counts, separators=(",", ":"))
        current[place].cells.append((sequence, digests[part.values], counts))
    rows = [(place.key, current[place].number, *current[place].cells[-1][1:]) for place in new]
    _insert(books, "domains (digest, listed)", [(digests[values], listed[values]) for values in listed], known="digest")
    _insert(books, "cells (place, number, domain, counts, stored)", [(*row, sequence) for row in rows])
    cells = sum(len(part.values) for part in new.values())
    _journal(books, report, {"cells": cells, "sha256": digest_of(rows)}, now)
    domains |= {digest: values for values, digest in digests.items()}


def _journal(books: Books, report: str, note: Mapping[str, Any], now: datetime) -> None:
    books.append(Row(text_of(now), "seal", REPORT + report, "", note=json.dumps(note)))


def _insert(books: Books, into: str, rows: Sequence[tuple[Any, ...]], known: str = "") -> None:
    """Many rows in few statements; with `known`, rows whose column of this name is there already stay as they are."""
    width = len(rows[0])
    one = f"({', '.join('?' * width)})"
    ending = f" ON CONFLICT ({known}) DO NOTHING" if known else ""
    for some in _chunks(rows, _VARIABLES // width):
        values = [value for row in some for value in row]
        books.run(f"INSERT INTO {into} VALUES {', '.join([one] * len(some))}{ending}", *values)  # noqa: S608


def _mark(books: Books, current: Mapping[Place, _StoredSeal]) -> Mark | None:
    """What the fence has to see before these cells leave: the latest of their journal rows, and their versions."""
    drawn = {place: stored for place, stored in current.items() if stored.cells}
    if not drawn:
        return None
    sequence = max(cells[0] for stored in drawn.values() for cells in stored.cells)
    head = books.hash_at(sequence)
    if head is None:
        raise LedgerFailed(SPOILT)
    totals: dict[str, SpentTotal] = {}
    for report in {place.report for place in drawn}:
        versions = [stored.version for place, stored in drawn.items() if place.report == report]
        totals[REPORT + report] = SpentTotal("", Charge(0, max(versions)))
    return Mark(books.head.id, sequence, head, totals)


def _chunks(items: Sequence[Any], size: int = _VARIABLES) -> Iterator[Sequence[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))
