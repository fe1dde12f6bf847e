"""The noisy cells of reports: drawn once, and served from then on.

    open ──► pending ──► store      the cells are drawn with the seal's nonce; the first that are stored stay
                  └──► (killed)     the seal keeps its nonce; the next reader draws it
    reseal, or another definition ──► the next seal of the place, pending

Guarantees. `verify` checks them, and the contract tests hold every store to them:

1. A cell is drawn once per version. If it is drawn twice, at the same time or later, the first stored counts are
   returned. Values that a domain gains later are drawn with the same seal, and the other values keep their counts.
2. A place has at most as many versions as its policy allows. A seal that was given up before it was drawn is none.
3. A nonce is drawn with its seal, before a row is read, and stays with it. No nonce outlives a recovery: cells that the
   restored copy does not hold may have left. So every seal that was open then, and every place whose range had ended
   then, counts as drawn: as often as the fence saw it, and at least once.
4. No cell leaves before the fence holds the journal row that it was stored with (`sfumato.ledger.fence`).

No exact number is stored here, and no message carries a value, a count or an entity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from sfumato.errors import InvalidArgument
from sfumato.ledger.cell_tables import (
    as_seals,
    count_by_definition,
    count_drawn,
    fence_mark,
    read_domains,
    read_history,
    read_places,
    read_restores,
    store_cells,
    store_seals,
)
from sfumato.ledger.fence import Mark
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.seals import (
    CellCounts,
    Place,
    ResealedCells,
    Seal,
    check_addable,
    check_counts,
    check_places,
    is_usable,
    new_counts,
    next_seal,
    read_moment,
    seal_numbered,
    seal_under,
)

__all__ = ["CellCounts", "Place", "ResealedCells", "Seal", "Seals"]


class Seals:
    """The cells of reports in a ledger. Thread-safe; any number of processes may use them.

    All calls go through the ledger's checked transactions: an old copy, in which cells could be drawn again, is
    refused.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def read(self, places: Mapping[Place, str]) -> dict[Place, Seal]:
        """The stored cells of these places, each under the definition by which it is served now.

        Places that are not drawn, or only under other definitions, are left out.
        """
        with self._ledger.reading() as books:
            latest = {place: seal_under(seals, places[place]) for place, seals in read_history(books, places).items()}
            current = {place: stored for place, stored in latest.items() if stored is not None and stored.cells}
            domains, mark = read_domains(books, current.values()), fence_mark(books, current)
            seals = as_seals(current, domains)
        self._advance(mark)
        return seals

    def open(self, places: Mapping[Place, str], *, most: int, now: datetime) -> dict[Place, Seal]:
        """The current seal of each place under its definition; new ones where there is none, for all places or none.

        Raises `NotSupported` if a place would have more than `most` versions. All cells of a seal share its nonce: to
        draw only the missing values, use other words of its random stream than the stored values used.
        """
        report = check_places(places)
        with self._ledger.writing() as books:
            history, restores = read_history(books, places), read_restores(books)
            latest = {place: seal_under(seals, places[place]) for place, seals in history.items()}
            current = {
                place: stored
                for place, stored in latest.items()
                if stored is not None and is_usable(stored, most, restores)
            }
            new = {
                place: next_seal(place, history[place], definition, most, restores)
                for place, definition in places.items()
                if place not in current
            }
            store_seals(books, report, new, now)
            current |= new
            domains, mark = read_domains(books, current.values()), fence_mark(books, current)
            seals = as_seals({place: current[place] for place in places}, domains)
        self._advance(mark)
        return seals

    def store(self, report: str, drawn: Mapping[Place, tuple[int, CellCounts]], now: datetime) -> dict[Place, Seal]:
        """Store what was drawn under the numbers of open seals, and return what is stored: per value, the first wins.

        Raises `Conflict`, and stores nothing, if a number is no longer the current one.
        """
        check_counts(report, drawn)
        with self._ledger.writing() as books:
            history, restores = read_history(books, drawn), read_restores(books)
            current = {place: seal_numbered(history[place], number) for place, (number, _) in drawn.items()}
            domains = read_domains(books, current.values())
            parts = {place: new_counts(part, current[place], domains) for place, (_, part) in drawn.items()}
            new = {place: part for place, part in parts.items() if part.values}
            for place in new:
                check_addable(place, current[place], restores)
            store_cells(books, report, current, new, domains, now)
            mark, seals = fence_mark(books, current), as_seals(current, domains)
        self._advance(mark)
        return seals

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

        `definition` returns the definition by which a place is served now, or None: then the place stays as it is.
        Pending places stay pending. All others get a new seal, or none does: raises `NotSupported` if one would have
        more than `most` versions. With `dry` nothing is changed.
        """
        first, last = read_moment("start", start), read_moment("end", end)
        if first >= last:
            raise InvalidArgument("end", "must be after start")
        with self._ledger.reading("upkeep") if dry else self._ledger.writing("upkeep") as books:
            served = {
                place: defined
                for place in read_places(books, report)
                if read_moment("start", place.start) < last and first < read_moment("end", place.end)
                if (entities is None or place.entity in entities) and (defined := definition(place)) is not None
            }
            history, restores = read_history(books, served), read_restores(books)
            latest = {place: seal_under(seals, served[place]) for place, seals in history.items()}
            current = {place: stored for place, stored in latest.items() if stored is not None and stored.cells}
            new = {place: next_seal(place, history[place], served[place], most, restores) for place in current}
            if not dry:
                store_seals(books, report, new, now)
            domains = read_domains(books, current.values())
        cells = sum(len(domains[domain]) for stored in current.values() for _, domain, _ in stored.cells)
        return ResealedCells(len(new), cells, max((stored.version for stored in new.values()), default=0))

    def standing(self, report: str) -> tuple[int, int]:
        """How many places of a report are sealed, and the highest version among them."""
        with self._ledger.reading() as books:
            return count_drawn(books, report)

    def others(self, report: str, definitions: Collection[str]) -> int:
        """How many places of a report were drawn under other definitions than these."""
        with self._ledger.reading() as books:
            counts = count_by_definition(books, report)
        return sum(places for definition, places in counts.items() if definition not in definitions)

    def _advance(self, mark: Mark | None) -> None:
        if mark is not None:
            self._ledger.fence.advance(mark)
