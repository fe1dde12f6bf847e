"""The SQL of sealed report cells, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sfumato.accounting import Charge
from sfumato.errors import LedgerFailed
from sfumato.ledger import rules
from sfumato.ledger.fence import Mark, SpentTotal
from sfumato.ledger.seals import CellCounts, Domains, Place, Restore, Seal, StoredSeal
from sfumato.ledger.tables import Books, rows_hash, sha256
from sfumato.ledger.types import REPORT, SPOILT, Row, moment_text

_MAX_VARIABLES = 900  # per statement: the smallest builds of SQLite take 999

_PLACE = "report, statistic, entity, attribute, level, since, until"
_DRAWN = (
    "FROM places JOIN seals ON seals.place = places.place "
    "JOIN cells ON cells.place = seals.place AND cells.number = seals.number WHERE places.report = ?"
)


# -- reading --


def read_history(books: Books, places: Collection[Place]) -> dict[Place, list[StoredSeal]]:
    """All seals of each place, the latest last."""
    for report in {place.report for place in places}:
        rules.check_cells(books, REPORT + report)
    by_place: dict[str, dict[int, StoredSeal]] = {place.key: {} for place in places}
    for some in _chunks([*by_place]):
        among = f"WHERE place IN ({', '.join('?' * len(some))})"
        select = f"SELECT place, number, version, definition, nonce, opened FROM seals {among} ORDER BY place, number"  # noqa: S608
        for key, *columns in books.run(select, *some):
            by_place[key][columns[0]] = StoredSeal(*columns)
        select = f"SELECT place, number, stored, domain, counts FROM cells {among} ORDER BY place, number, stored"  # noqa: S608
        for key, number, *cells in books.run(select, *some):
            if number not in by_place[key]:
                raise LedgerFailed(SPOILT)
            by_place[key][number].cells.append(tuple(cells))
    return {place: [*seals.values()] for place, seals in zip(places, by_place.values(), strict=True)}


def read_domains(books: Books, seals: Iterable[StoredSeal]) -> dict[str, tuple[str, ...]]:
    """The lists of values behind the cells of these seals, by their digests."""
    digests = {domain for stored in seals for _, domain, _ in stored.cells}
    domains: dict[str, tuple[str, ...]] = {}
    for some in _chunks([*digests]):
        select = f"SELECT digest, listed FROM domains WHERE digest IN ({', '.join('?' * len(some))})"  # noqa: S608
        domains |= {digest: tuple(json.loads(text)) for digest, text in books.run(select, *some)}
    if len(domains) < len(digests):
        raise LedgerFailed(SPOILT)
    return domains


def read_places(books: Books, report: str) -> list[Place]:
    rows = books.run(f"SELECT {_PLACE} FROM places WHERE report = ? ORDER BY place", report)  # noqa: S608
    return [Place(*texts) for texts in rows]


def read_restores(books: Books) -> list[Restore]:
    """The recoveries so far, in their order."""
    rows = books.run("SELECT sequence, at, note FROM journal WHERE kind = 'restore' ORDER BY sequence")
    return [Restore(sequence, datetime.fromisoformat(at), json.loads(note)["versions"]) for sequence, at, note in rows]


def count_drawn(books: Books, report: str) -> tuple[int, int]:
    """How many places of a report have cells, and their highest version."""
    [(places, highest)] = books.run(
        f"SELECT COUNT(DISTINCT seals.place), COALESCE(MAX(seals.version), 0) {_DRAWN}", report
    )
    return places, int(highest)  # SQLite keeps a damaged version as text


def count_by_definition(books: Books, report: str) -> dict[str, int]:
    """How many places of a report have cells, per definition."""
    return dict(
        books.run(f"SELECT seals.definition, COUNT(DISTINCT seals.place) {_DRAWN} GROUP BY seals.definition", report)
    )


def as_seals(current: Mapping[Place, StoredSeal], domains: Domains) -> dict[Place, Seal]:
    return {
        place: Seal(
            place,
            stored.number,
            bytes.fromhex(stored.nonce),
            tuple(CellCounts(domains[domain], tuple(json.loads(counts))) for _, domain, counts in stored.cells),
        )
        for place, stored in current.items()
    }


def fence_mark(books: Books, current: Mapping[Place, StoredSeal]) -> Mark | None:
    """What the fence has to hold before these cells leave: the latest of their journal rows, and their versions."""
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
        rows = [cells[0] for place, stored in drawn.items() if place.report == report for cells in stored.cells]
        totals[REPORT + report] = SpentTotal("", Charge(max(rows), max(versions)))
    return Mark(books.head.id, sequence, head, totals)


# -- writing --


def store_seals(books: Books, report: str, new: Mapping[Place, StoredSeal], now: datetime) -> None:
    """Store pending seals, with their journal row."""
    if not new:
        return
    sequence = books.head.sequence + 1
    for stored in new.values():
        stored.opened = sequence
    keys = {place: place.key for place in new}
    names = [(keys[place], *place.fields()) for place in new]
    rows = [(keys[place], s.number, s.version, s.definition, s.nonce) for place, s in new.items()]
    _insert(books, f"places (place, {_PLACE})", names, known="place")
    _insert(books, "seals (place, number, version, definition, nonce, opened)", [(*row, sequence) for row in rows])
    _append(books, report, {"seals": len(rows), "sha256": rows_hash(rows)}, now)


def store_cells(
    books: Books,
    report: str,
    current: Mapping[Place, StoredSeal],
    new: Mapping[Place, CellCounts],
    domains: dict[str, tuple[str, ...]],
    now: datetime,
) -> None:
    """Store cells, with their journal row. They are added to `current` and `domains` too."""
    if not new:
        return
    sequence = books.head.sequence + 1
    texts = {values: json.dumps(values, separators=(",", ":")) for values in {part.values for part in new.values()}}
    digests = {values: sha256(text) for values, text in texts.items()}
    for place, part in new.items():
        counts = json.dumps(part.counts, separators=(",", ":"))
        current[place].cells.append((sequence, digests[part.values], counts))
    rows = [(place.key, current[place].number, *current[place].cells[-1][1:]) for place in new]
    _insert(books, "domains (digest, listed)", [(digests[values], texts[values]) for values in texts], known="digest")
    _insert(books, "cells (place, number, domain, counts, stored)", [(*row, sequence) for row in rows])
    cells = sum(len(part.values) for part in new.values())
    _append(books, report, {"cells": cells, "sha256": rows_hash(rows)}, now)
    domains |= {digest: values for values, digest in digests.items()}


def _append(books: Books, report: str, note: Mapping[str, Any], now: datetime) -> None:
    books.append(Row(moment_text(now), "seal", REPORT + report, "", note=json.dumps(note)))


def _insert(books: Books, into: str, rows: Sequence[tuple[Any, ...]], known: str = "") -> None:
    """Insert many rows in few statements. With `known`, rows with a value that this column has already are skipped."""
    width = len(rows[0])
    one = f"({', '.join('?' * width)})"
    ending = f" ON CONFLICT ({known}) DO NOTHING" if known else ""
    for some in _chunks(rows, _MAX_VARIABLES // width):
        values = [value for row in some for value in row]
        books.run(f"INSERT INTO {into} VALUES {', '.join([one] * len(some))}{ending}", *values)  # noqa: S608


def _chunks(items: Sequence[Any], size: int = _MAX_VARIABLES) -> Iterator[Sequence[Any]]:
    return (items[first : first + size] for first in range(0, len(items), size))
