"""The contract of sealed cells, over any store. The test of a store inherits it and says where its ledger is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import Conflict, InvalidArgument, LedgerFailed, NotSupported
from sfumato.ledger import Ledger
from sfumato.ledger.cells import CellCounts, Place, ResealedCells, Seal, Seals
from sfumato.ledger.fence import Mark
from sfumato.ledger.file_fence import FileFence
from sfumato.ledger.migrations import LATEST, migrate
from sfumato.ledger.usage import usage
from tests.contracts.ledger import ANNA, NOW, Books_, LedgerPlace, answer, refusal, spent, top

DAY = timedelta(days=1)
A, B, C = '"a"', '"b"', '"c"'
DEFINITION, OTHER = "epsilon 1", "epsilon 2"


def day(ago: int = 1, **fields: str) -> Place:
    """The day that ended so many days, less one, before today; a breakdown by title."""
    start = NOW.replace(hour=0) - ago * DAY
    named = {"report": "ads", "statistic": "clicks", "entity": '["acme"]', "attribute": "title", "level": "day"}
    return Place(**{**named, "start": start.isoformat(), "end": (start + DAY).isoformat(), **fields})


def days(number: int, **fields: str) -> list[Place]:
    return [day(ago, **fields) for ago in range(1, number + 1)]


def at(place: Place | datetime) -> str:
    return place.start if isinstance(place, Place) else place.isoformat()


def open_seals(
    seals: Seals, places: Iterable[Place], definition: str = DEFINITION, *, most: int = 1, now: datetime = NOW
) -> dict[Place, Seal]:
    return seals.open(dict.fromkeys(places, definition), most=most, now=now)


def part(first: int = 10, values: tuple[str, ...] = (A, B)) -> CellCounts:
    return CellCounts(values, tuple(range(first, first + len(values))))


def store_part(seals: Seals, pending: Mapping[Place, Seal], drawn: CellCounts | None = None) -> dict[Place, Seal]:
    """Draw open seals: the same for all of them."""
    some = {place: (seal.number, drawn or part()) for place, seal in pending.items()}
    return seals.store("ads", some, NOW)


def draw(seals: Seals, places: Iterable[Place], definition: str = DEFINITION, **terms: Any) -> dict[Place, Seal]:
    """The whole path."""
    return store_part(seals, open_seals(seals, places, definition, **terms))


def read(seals: Seals, places: Iterable[Place], definition: str = DEFINITION) -> dict[Place, Seal]:
    return seals.read(dict.fromkeys(places, definition))


def reseal(seals: Seals, *, most: int = 2, dry: bool = False, **terms: Any) -> ResealedCells:
    whole = {"start": at(NOW - 1000 * DAY), "end": at(NOW + 1000 * DAY)}
    whole |= {"entities": None, "definition": lambda _: DEFINITION}
    return seals.reseal("ads", **{**whole, **terms}, most=most, now=NOW, dry=dry)


def cells(seal: Seal) -> dict[str, int]:
    return {value: count for each in seal.parts for value, count in zip(each.values, each.counts, strict=True)}


def refusal_text(call: Callable[[], object]) -> str:
    with pytest.raises(NotSupported) as told:
        call()
    return str(told.value)


# One for each column of each table, and for rows that come and go.
TAMPERINGS = {
    **{
        f"a place's {column}": f"UPDATE places SET {column} = 'x' WHERE attribute = 'title'"
        for column in ("report", "statistic", "entity", "attribute", "level", "since", "until")
    },
    "a place's key": "UPDATE places SET place = 'x' WHERE attribute = 'title'",
    "a place added": "INSERT INTO places VALUES ('x', 'ads', 's', 'e', 'a', 'day', 's', 'u')",
    "a place deleted": "DELETE FROM places WHERE attribute = 'title'",
    "a seal's place": "UPDATE seals SET place = 'x' WHERE number = 2",
    "a seal's number": "UPDATE seals SET number = 3 WHERE number = 2",
    "a seal's version": "UPDATE seals SET version = 1 WHERE number = 2",
    "a seal's definition": "UPDATE seals SET definition = 'x' WHERE number = 1",
    "a seal's nonce": "UPDATE seals SET nonce = '00' WHERE number = 1",
    "a pending seal's nonce": "UPDATE seals SET nonce = '00' WHERE number = 2",
    "a seal's journal row": "UPDATE seals SET opened = opened + 1 WHERE number = 1",
    "a seal's journal row that is not there": "UPDATE seals SET opened = 1000 WHERE number = 1",
    "a pending seal deleted": "DELETE FROM seals WHERE number = 2",
    "a drawn seal deleted": "DELETE FROM seals WHERE number = 1",
    "a seal added": "INSERT INTO seals SELECT place, 9, 9, definition, nonce, opened FROM seals WHERE number = 2",
    "a cell's place": "UPDATE cells SET place = 'x' WHERE counts = '[12]'",
    "a cell's number": "UPDATE cells SET number = 2",
    "a cell's journal row": "UPDATE cells SET stored = 1000 WHERE counts = '[12]'",
    "a cell's domain": "UPDATE cells SET domain = 'x' WHERE counts = '[12]'",
    "a cell's counts": "UPDATE cells SET counts = '[0]' WHERE counts = '[12]'",
    "a cell deleted": "DELETE FROM cells WHERE counts = '[12]'",
    "a cell added": "INSERT INTO cells SELECT place, 2, stored, domain, counts FROM cells WHERE counts = '[12]'",
    "all cells deleted": "DELETE FROM cells",
    "a domain's digest": """UPDATE domains SET digest = 'x' WHERE listed = '["\\"c\\""]'""",
    "a domain's values": """UPDATE domains SET listed = '["\\"d\\""]' WHERE listed = '["\\"c\\""]'""",
    "a domain added": "INSERT INTO domains VALUES ('x', '[]')",
    "a domain deleted": """DELETE FROM domains WHERE listed = '["\\"c\\""]'""",
    "the journal's hash of cells": "UPDATE journal SET note = '{}' WHERE kind = 'seal'",
}

OPENS_AND_DIES = """
import os, signal, sys
from datetime import datetime
from pathlib import Path
from sfumato.ledger import open_ledger
from sfumato.ledger.cells import Place, Seals
from sfumato.config import LedgerSettings

url, fence, folder, now, definition, *fields = sys.argv[1:]
with open_ledger(LedgerSettings(url, Path(fence)), Path(folder)) as ledger:
    place = Place(*fields)
    [seal] = Seals(ledger).open({place: definition}, most=1, now=datetime.fromisoformat(now)).values()
    os.write(1, seal.nonce)
    os.kill(os.getpid(), signal.SIGKILL)
"""


class SealsContract(LedgerPlace):
    """What every store of sealed cells keeps."""

    def seals(self) -> Seals:
        """As another process would see them: nothing in memory is shared."""
        return Seals(self.make())

    def journal(self, kind: str = "seal") -> list[tuple[str, str, str]]:
        found = self.raw(f"SELECT account, analyst, note FROM journal WHERE kind = '{kind}' ORDER BY sequence")
        return [(account, analyst, json.loads(note)) for account, analyst, note in found]

    def busy(self) -> Ledger:
        """Books with some of everything: a total, a breakdown that has grown, a seal that is pending."""
        ledger = self.make()
        seals = Seals(ledger)
        store_part(seals, open_seals(seals, [day(2, attribute="")]), CellCounts(("",), (7,)))
        first = open_seals(seals, [day(1)], most=2)
        store_part(seals, first)
        store_part(seals, first, CellCounts((C,), (12,)))
        reseal(seals, start=at(day(1)), end=at(NOW), entities=['["acme"]'])
        return ledger

    # -- places --

    def test_every_field_makes_another_place(self):
        place = day()
        assert re.fullmatch("[0-9a-f]{64}", place.key)
        others = [replace(place, **{name: "x"}) for name in Place.__slots__]
        assert len({place.key, *(other.key for other in others)}) == len(Place.__slots__) + 1
        assert replace(place, level="da", start="y" + place.start).key != place.key

    # -- the path --

    def test_what_was_never_sealed_is_not_there(self):
        seals = self.seals()
        assert read(seals, days(3)) == {}
        assert seals.read({}) == {}
        assert seals.standing("ads") == (0, 0)

    def test_opening_gives_every_place_a_seal_with_a_nonce_of_its_own(self):
        seals = open_seals(self.seals(), days(3))
        assert [*seals] == days(3)
        assert {(seal.number, seal.parts, len(seal.nonce)) for seal in seals.values()} == {(1, (), 16)}
        assert len({seal.nonce for seal in seals.values()}) == 3
        assert all(seal.place == place for place, seal in seals.items())

    def test_a_pending_seal_keeps_its_nonce(self):
        before = open_seals(self.seals(), days(2))
        seals = self.seals()
        assert open_seals(seals, days(2)) == before
        assert read(seals, days(2)) == {}

    def test_opening_again_changes_nothing(self):
        draw(self.seals(), days(1))
        open_seals(self.seals(), days(2))
        before = self.books()
        open_seals(self.seals(), days(2))
        assert self.books() == before

    def test_opening_nothing_changes_nothing(self):
        seals = self.seals()
        before = self.books()
        assert seals.open({}, most=1, now=NOW) == {}
        assert seals.store("ads", {}, NOW) == {}
        assert self.books() == before

    def test_a_process_that_is_killed_before_it_stores_leaves_its_nonce(self):
        place = day()
        fields = [getattr(place, name) for name in Place.__slots__]
        command = [sys.executable, "-c", OPENS_AND_DIES, self.settings.url, self.fence, self.folder]
        ran = subprocess.run([*command, NOW.isoformat(), DEFINITION, *fields], capture_output=True, timeout=60)
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        seals = self.seals()
        [seal] = open_seals(seals, [place]).values()
        assert (seal.nonce, seal.number, seal.parts) == (ran.stdout, 1, ())
        assert cells(store_part(seals, {place: seal})[place]) == {A: 10, B: 11}

    def test_what_was_stored_is_what_every_process_reads(self):
        seals = self.seals()
        kept = draw(seals, days(3))
        assert {seal.parts for seal in kept.values()} == {(part(),)}
        for other in (seals, self.seals()):
            assert read(other, days(3)) == open_seals(other, days(3)) == kept
        assert read(seals, days(4)) == kept
        assert seals.standing("ads") == (3, 1)
        assert seals.standing("another") == (0, 0)

    def test_counts_below_zero_and_beyond_64_bits_come_back(self):
        seals, drawn_part = self.seals(), CellCounts((A, '"ü\\u0000\\ud800"', "null", "3"), (-5, 2**70, -(2**70), 0))
        store_part(seals, open_seals(seals, [day()]), drawn_part)
        assert read(self.seals(), [day()])[day()].parts == (drawn_part,)

    def test_thousands_of_places_in_one_call(self, monkeypatch):
        seals, places = self.seals(), days(2500)
        kept = draw(seals, places)
        assert read(seals, places) == kept
        statements = self.counted(seals, lambda: read(seals, places), monkeypatch)
        assert statements < 20
        assert seals._ledger.verify() == []

    def test_a_domain_of_thousands_is_stored_once_and_read_in_few_statements(self, monkeypatch):
        seals, values = self.seals(), tuple(f'"value {i}"' for i in range(3000))
        first = open_seals(seals, days(90))
        writing = self.counted(seals, lambda: store_part(seals, first, part(0, values)), monkeypatch)
        assert self.raw("SELECT COUNT(*) FROM domains") == [(1,)]
        assert self.counted(seals, lambda: read(seals, days(90)), monkeypatch) + writing < 25

    def counted(self, seals: Seals, call: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
        """How many statements a call takes."""
        from sfumato.ledger.tables import Books

        statements, made = [], Books.__init__

        def counting(books: Books, run: Any, *needs: Any) -> None:
            made(books, lambda sql, *values: statements.append(sql) or run(sql, *values), *needs)

        with monkeypatch.context() as patched:
            patched.setattr(Books, "__init__", counting)
            call()
        return len(statements)

    # -- first stored wins --

    def test_the_first_that_is_stored_wins(self):
        seals, late = self.seals(), self.seals()
        first, second = open_seals(seals, days(2)), open_seals(late, days(2))
        kept = store_part(seals, first, part(10))
        before = self.books()
        assert store_part(late, second, part(50)) == kept
        assert self.books() == before

    def test_values_that_a_domain_gains_are_added_and_the_others_stay(self):
        seals = self.seals()
        first = draw(seals, [day()])[day()]
        grown = seals.store("ads", {day(): (1, part(50, (C, B)))}, NOW)[day()]
        assert (grown.number, grown.nonce) == (first.number, first.nonce)
        assert grown.parts == (part(), CellCounts((C,), (50,)))
        assert cells(grown) == {A: 10, B: 11, C: 50}
        assert read(self.seals(), [day()]) == open_seals(self.seals(), [day()]) == {day(): grown}

    def test_threads_that_draw_at_once_return_the_same_numbers(self):
        together, makers = threading.Barrier(6), [self.seals() for _ in range(3)]

        def run(i: int) -> tuple[dict[Place, bytes], dict[Place, Seal]]:
            seals = makers[i % 3]
            together.wait()
            first = open_seals(seals, days(20))
            values = (A, B) if i % 2 else (B, C)
            store_part(seals, first, part(100 * i, values))
            return {place: seal.nonce for place, seal in first.items()}, read(seals, days(20))

        with ThreadPoolExecutor(6) as pool:
            ran = list(pool.map(run, range(6)))
        assert all(nonces == ran[0][0] for nonces, _ in ran)
        final = read(self.seals(), days(20))
        assert {frozenset(cells(seal)) for seal in final.values()} == {frozenset((A, B, C))}
        for _, seen in ran:
            assert all(cells(seal).items() <= cells(final[place]).items() for place, seal in seen.items())
        assert makers[0]._ledger.verify() == []
        assert len(self.journal()) <= 3  # one opening, and two that had something to store

    # -- all or nothing --

    def test_a_number_that_is_not_current_stores_nothing(self):
        seals = self.seals()
        first = open_seals(seals, days(2))
        before = self.books()
        for wrong in (0, 2):
            some = {day(1): (1, part()), day(2): (wrong, part())}
            with pytest.raises(Conflict):
                seals.store("ads", some, NOW)
        with pytest.raises(Conflict):
            store_part(seals, {**first, day(3): first[day(1)]})
        assert self.books() == before

    def test_one_place_that_may_not_be_opened_opens_none(self):
        seals = self.seals()
        draw(seals, [day(2)])
        before = self.books()
        refusal_text(lambda: seals.open({day(1): OTHER, day(2): OTHER, day(3): OTHER}, most=1, now=NOW))
        assert self.books() == before

    @pytest.mark.parametrize(
        "wrong",
        [
            CellCounts((A, B), (1,)),
            CellCounts((A, A), (1, 2)),
            CellCounts((A,), (1.0,)),  # type: ignore[arg-type]
            CellCounts((A,), (True,)),
        ],
        ids=["a count missing", "a value twice", "a float", "a truth"],
    )
    def test_what_is_no_part_is_refused_in_words_without_values(self, wrong):
        seals = self.seals()
        first = open_seals(seals, days(1))
        before = self.books()
        with pytest.raises(InvalidArgument) as told:
            store_part(seals, first, wrong)
        assert told.value.argument == "drawn"
        assert not re.search(r'"a"|\d', str(told.value))
        assert self.books() == before

    def test_places_of_two_reports_do_not_mix(self):
        seals = self.seals()
        with pytest.raises(InvalidArgument):
            open_seals(seals, [day(), day(report="other")])
        open_seals(seals, [day()])
        with pytest.raises(InvalidArgument):
            seals.store("other", {day(): (1, part())}, NOW)
        draw(seals, [day()])
        other = open_seals(seals, [day(report="other")])
        seals.store("other", {place: (seal.number, part(90)) for place, seal in other.items()}, NOW)
        assert len(read(seals, [day(), day(report="other")])) == 2
        assert (seals.standing("ads"), seals.standing("other")) == ((1, 1), (1, 1))

    @pytest.mark.parametrize("wrong", [{"start": "x"}, {"end": "2026-11-15T00:00:00"}, {"end": day(9).start}])
    def test_a_place_has_a_range_in_utc(self, wrong):
        with pytest.raises(InvalidArgument):
            open_seals(self.seals(), [day(**wrong)])

    # -- definitions and versions --

    def test_what_was_drawn_under_another_definition_is_not_served(self):
        seals = self.seals()
        draw(seals, days(2))
        assert read(seals, days(2), OTHER) == {}
        assert [*seals.read({day(1): DEFINITION, day(2): OTHER})] == [day(1)]

    def test_another_definition_is_another_version_if_there_may_be_one(self):
        seals = self.seals()
        before = draw(seals, days(2), most=2)
        again = open_seals(seals, days(2), OTHER, most=2)
        assert {(seal.number, seal.parts) for seal in again.values()} == {(2, ())}
        assert all(seal.nonce != before[place].nonce for place, seal in again.items())
        assert open_seals(seals, days(2), OTHER, most=2) == again
        kept = store_part(seals, again, part(70))
        assert read(seals, days(2), OTHER) == kept
        assert read(seals, days(2)) == before  # put back as it was: these have been seen, and cost nothing
        assert open_seals(seals, days(2), most=2) == before
        assert seals.standing("ads") == (2, 2)
        refusal_text(lambda: open_seals(seals, days(2), "a third", most=2))

    def test_a_definition_that_is_put_back_can_be_sealed_again(self):
        seals = self.seals()
        draw(seals, [day()], most=4)
        draw(seals, [day()], OTHER, most=4)
        assert reseal(seals, most=4) == ResealedCells(1, 2, 3)
        assert read(seals, [day()]) == {}
        assert open_seals(seals, [day()], most=4)[day()].number == 3
        assert reseal(seals, most=4, definition=lambda _: None) == ResealedCells(0, 0, 0)

    def test_a_definition_that_is_put_back_goes_on_as_it_was(self):
        seals = self.seals()
        first = draw(seals, [day()], most=3)
        draw(seals, [day()], OTHER, most=3)
        grown = store_part(seals, first, CellCounts(('"new"',), (9,)))[day()]
        assert grown.number == first[day()].number
        assert cells(grown) == {**cells(first[day()]), '"new"': 9}
        assert read(seals, [day()])[day()] == grown
        assert not seals._ledger.verify()

    def test_a_version_too_many_is_refused_with_the_ways_out(self):
        seals = self.seals()
        draw(seals, [day()])
        told = refusal_text(lambda: open_seals(seals, [day()], OTHER))
        for words in ("ads", "another definition", "epsilon, noise, filter", "Put the policy back", "max_versions"):
            assert words in told
        for secret in ("acme", "title", day().key, DEFINITION, OTHER):
            assert secret not in told
        assert open_seals(seals, [day()])[day()].parts == (part(),)

    def test_a_seal_that_was_given_up_undrawn_takes_no_version(self):
        seals = self.seals()
        first = open_seals(seals, [day()])
        second = open_seals(seals, [day()], OTHER)
        assert second[day()].nonce != first[day()].nonce
        with pytest.raises(Conflict):
            store_part(seals, first)
        store_part(seals, second)
        assert seals.standing("ads") == (1, 1)
        refusal_text(lambda: open_seals(seals, [day()]))
        assert seals._ledger.verify() == []

    def test_a_pending_version_that_may_no_longer_be_is_not_drawn(self):
        seals = self.seals()
        draw(seals, [day()], most=2)
        reseal(seals)
        pending = open_seals(seals, [day()], most=2)
        assert "max_versions" in refusal_text(lambda: open_seals(seals, [day()], most=1))
        kept = store_part(seals, pending)
        assert open_seals(seals, [day()], most=1) == kept

    # -- sealing again --

    def test_sealing_again_tells_and_then_does_it(self):
        seals = self.seals()
        before = draw(seals, days(3), most=2)
        books = self.books()
        assert reseal(seals, dry=True) == ResealedCells(3, 6, 2)
        assert self.books() == books
        assert reseal(seals) == ResealedCells(3, 6, 2)
        assert read(seals, days(3)) == {}
        again = open_seals(seals, days(3), most=2)
        assert {(seal.number, seal.parts) for seal in again.values()} == {(2, ())}
        assert all(seal.nonce != before[place].nonce for place, seal in again.items())
        with pytest.raises(Conflict):
            store_part(seals, before)
        kept = store_part(seals, again, part(40))
        assert read(seals, days(3)) == kept
        assert {frozenset(cells(seal).values()) for seal in kept.values()} == {frozenset((40, 41))}

    def test_sealing_again_counts_the_cells_of_all_parts(self):
        assert reseal(Seals(self.busy()), dry=True) == ResealedCells(1, 1, 2)  # the total; the breakdown is pending
        seals = self.seals()
        store_part(seals, open_seals(seals, [day(1)], most=2), part(1, (A, B, C)))
        assert reseal(seals, most=3, dry=True) == ResealedCells(2, 4, 3)

    def test_what_is_pending_is_not_sealed_again(self):
        seals = self.seals()
        open_seals(seals, [day(1)], most=2)
        draw(seals, [day(2)], most=2)
        assert reseal(seals).places == 1
        assert reseal(seals) == ResealedCells(0, 0, 0)
        assert open_seals(seals, [day(1)])[day(1)].number == 1

    def test_sealing_again_is_bounded_for_all_or_none(self):
        seals = self.seals()
        draw(seals, days(2), most=2)
        reseal(seals, start=at(day(1)), end=at(NOW))
        draw(seals, [day(1)], most=2)
        before = self.books()
        for dry in (True, False):
            told = refusal_text(lambda dry=dry: reseal(seals, dry=dry))
            assert "ads" in told
            assert "max_versions" in told
            assert self.books() == before
        assert reseal(seals, start=at(day(2)), end=at(day(1))) == ResealedCells(1, 2, 2)

    @pytest.mark.parametrize(
        ("start", "end", "met"),
        [
            (day(2).start, day(2).end, {2}),
            (day(3).start, day(2).end, {2, 3}),
            ((NOW - 2 * DAY).isoformat(), (NOW - 2 * DAY + timedelta(seconds=1)).isoformat(), {2}),
            ((NOW - 2 * DAY).isoformat(timespec="microseconds"), at(NOW - DAY), {1, 2}),
            (day(2).start.replace("T00:00:00+00:00", "T02:00:00+02:00"), day(2).end, {2}),
            (day(99).start, day(98).start, set()),
        ],
    )
    def test_ranges_that_meet_are_sealed_again_and_those_that_touch_are_not(self, start, end, met):
        seals = self.seals()
        draw(seals, days(4), most=2)
        assert reseal(seals, start=start, end=end).places == len(met)
        assert {place for place in days(4) if place not in read(seals, days(4))} == {day(ago) for ago in met}

    def test_one_entity_can_be_sealed_again(self):
        seals, other = self.seals(), day(entity='["acme", "spring"]')
        draw(seals, [day(), other], most=2)
        assert reseal(seals, entities={other.entity}) == ResealedCells(1, 2, 2)
        assert [*read(seals, [day(), other])] == [day()]
        assert reseal(seals, entities=['["nobody"]']) == ResealedCells(0, 0, 0)

    @pytest.mark.parametrize("terms", [{"end": at(NOW - 1000 * DAY)}, {"start": "yesterday"}, {"end": "2026-11-15"}])
    def test_a_range_to_seal_again_makes_sense(self, terms):
        with pytest.raises(InvalidArgument):
            reseal(self.seals(), **terms)

    # -- the journal and those who read it --

    def test_the_journal_says_what_was_stored_and_charges_no_account(self):
        ledger = self.make()
        answer(ledger, top())
        before = (
            ledger.history(None),
            ledger.history("anna"),
            ledger.standings([ANNA], NOW),
            self.raw("SELECT * FROM balances"),
        )
        seals = Seals(ledger)
        draw(seals, days(2), most=2)
        reseal(seals)
        rows = self.journal()
        assert {(account, analyst) for account, analyst, _ in rows} == {("report:ads", "")}
        assert [{name: value for name, value in note.items() if name != "sha256"} for *_, note in rows] == [
            {"seals": 2},
            {"cells": 4},
            {"seals": 2},
        ]
        amounts = self.raw("SELECT DISTINCT reserved, spent, granted FROM journal WHERE kind = 'seal'")
        assert amounts == [("0 0", "0 0", "0 0")]
        after = (
            ledger.history(None),
            ledger.history("anna"),
            ledger.standings([ANNA], NOW),
            self.raw("SELECT * FROM balances"),
        )
        assert after == before
        assert {row.account for row in usage(ledger, NOW.date(), NOW.date()).rows} == {ANNA.name}
        assert ledger.verify() == []

    def test_pages_of_history_pass_over_seals(self):
        ledger = self.make()
        seals = Seals(ledger)
        for i in range(4):
            answer(ledger, top(1, f"list {i}"))
            draw(seals, [day(i + 1)])
        page, listed = ledger.history("anna", rows=3), []
        listed += page.rows
        listed += ledger.history("anna", before=int(page.next), rows=3).rows
        assert [row.digest for row in listed] == [f"list {i} 1 True" for i in (3, 2, 1, 0)]

    # -- verify --

    def test_clean_books_have_no_problems(self):
        assert self.busy().verify() == []

    @pytest.mark.parametrize("what", TAMPERINGS)
    def test_a_change_behind_the_ledgers_back_is_named(self, what):
        ledger = self.busy()
        self.raw(TAMPERINGS[what])
        problems = ledger.verify()
        assert problems
        assert all(isinstance(problem, str) and "acme" not in problem for problem in problems)

    @pytest.mark.parametrize("table", ["seals", "domains", "journal"])
    def test_spoilt_books_serve_nothing(self, table):
        seals = self.seals()
        draw(seals, days(2))
        answer(seals._ledger, top())
        self.raw(f"DELETE FROM {table}" + (" WHERE kind = 'seal'" if table == "journal" else ""))
        refusal(lambda: read(seals, days(2)))

    # -- the fence --

    def restored(self, forget: Callable[[Seals], object], keep: Callable[[Seals], object] = lambda _: None) -> Seals:
        """A copy was restored that has what `keep` did, and not what `forget` did."""
        seals = self.seals()
        keep(seals)
        copy: Books_ = self.books()
        forget(seals)
        self.restore(copy)
        return self.seals()

    def test_the_fence_has_seen_what_leaves(self):
        seals = self.seals()
        draw(seals, days(2))
        mark = FileFence(self.fence).mark()
        assert (mark.ledger, mark.sequence, mark.head) == self.raw("SELECT id, sequence, head FROM ledger")[0]
        assert mark.totals["report:ads"].spent == Charge(mark.sequence, 1)

    def test_a_restored_copy_is_refused(self):
        seals = self.restored(lambda seals: draw(seals, days(2)), lambda seals: open_seals(seals, days(1)))
        before = self.books()
        for call in (
            lambda: read(seals, days(1)),
            lambda: open_seals(seals, days(1)),
            lambda: store_part(seals, {day(1): Seal(day(1), 1, bytes(16))}),
            lambda: reseal(seals),
            lambda: seals.standing("ads"),
        ):
            assert "sfumato budget recover" in str(refusal(call))
        assert self.books() == before

    @pytest.mark.parametrize("path", [read, open_seals])
    def test_cells_of_a_process_that_was_killed_before_the_fence_leave_after_it(self, path):
        seals = self.seals()
        behind = self.fence.read_bytes()
        draw(seals, days(2))
        self.fence.write_bytes(behind)
        other = self.seals()
        assert len(path(other, days(2))) == 2
        head = self.raw("SELECT sequence FROM ledger")[0][0]
        assert FileFence(self.fence).mark().sequence == head

    def test_without_a_fence_that_can_be_written_no_cell_leaves(self):
        seals = self.seals()
        first = open_seals(seals, days(1))
        lock = self.fence.with_name(self.fence.name + ".lock")
        lock.unlink()
        lock.mkdir()
        for call in (
            lambda: store_part(seals, first),
            lambda: read(seals, days(1)),
            lambda: open_seals(seals, days(1)),
        ):
            assert "fence" in str(refusal(call))
        lock.rmdir()
        assert read(seals, days(1))[day()].parts == (part(),)

    # -- recovery --

    def test_a_recovery_marks_its_moment_even_where_nothing_was_spent(self):
        seals = self.restored(lambda seals: draw(seals, days(1)))
        assert self.recover(seals._ledger) == []
        assert self.journal("restore") == [("", "", {"versions": {"ads": 1}})]
        assert seals._ledger.history(None).rows == []
        assert seals._ledger.verify() == []
        assert self.recover(self.make()) == []
        assert len(self.journal("restore")) == 1
        assert spent(seals._ledger) == NOTHING

    def test_after_a_recovery_what_was_over_counts_as_sealed(self):
        seals = self.restored(lambda seals: draw(seals, days(2)))
        self.recover(seals._ledger)
        for place in (day(1), day(7), day(0, end=at(NOW))):
            told = refusal_text(lambda place=place: open_seals(seals, [place]))
            assert "ads" in told
            assert "restored" in told
            assert "max_versions" in told
            assert "acme" not in told
        assert {seal.number for seal in open_seals(seals, days(7), most=2).values()} == {2}
        refusal_text(lambda: open_seals(seals, days(7), most=1))

    def test_after_a_recovery_what_was_not_over_is_sealed_as_ever(self):
        seals = self.restored(lambda seals: draw(seals, days(2)))
        self.recover(seals._ledger)
        later = NOW + 2 * DAY
        assert open_seals(seals, [day(0)], now=later)[day(0)].number == 1
        store_part(seals, open_seals(seals, [day(0)], now=later))
        assert seals._ledger.verify() == []

    def test_after_a_recovery_what_the_copy_has_is_served(self):
        seals = self.restored(lambda seals: draw(seals, [day(2)]), lambda seals: draw(seals, [day(1)]))
        self.recover(seals._ledger)
        assert read(seals, days(2))[day(1)].parts == open_seals(seals, [day(1)])[day(1)].parts == (part(),)
        assert day(2) not in read(seals, days(2))

    def test_after_a_recovery_no_pending_nonce_is_drawn_with(self):
        kept: dict[Place, Seal] = {}
        seals = self.restored(
            lambda seals: store_part(seals, kept), lambda seals: kept.update(open_seals(seals, [day(1)]))
        )
        self.recover(seals._ledger)
        with pytest.raises(Conflict):
            store_part(seals, kept)
        assert "restored" in refusal_text(lambda: open_seals(seals, [day(1)]))
        again = open_seals(seals, [day(1)], most=2)[day(1)]
        assert again.number == 2
        assert again.nonce != kept[day(1)].nonce
        store_part(seals, {day(1): again})
        refusal_text(lambda: open_seals(seals, [day(1)], OTHER, most=2))

    def test_after_a_recovery_no_value_is_added_to_what_was_sealed_before(self):
        """Its cell may have left, with the same noise on other rows."""
        seals = self.restored(lambda seals: draw(seals, [day(2)]), lambda seals: draw(seals, [day(1)]))
        self.recover(seals._ledger)
        before = self.books()
        told = refusal_text(lambda: seals.store("ads", {day(1): (1, part(50, (A, C)))}, NOW))
        assert "reseal" in told
        assert "ads" in told
        assert self.books() == before
        assert seals.store("ads", {day(1): (1, part(50))}, NOW)[day(1)].parts == (part(),)
        reseal(seals)
        grown = store_part(seals, open_seals(seals, [day(1)], most=2), part(50, (A, C)))[day(1)]
        assert cells(grown) == {A: 50, C: 51}

    def test_after_a_recovery_lost_versions_count_as_the_fence_saw_them(self):
        def lost(seals: Seals) -> None:
            reseal(seals, most=3)
            draw(seals, [day(1)], most=3)

        seals = self.restored(lost, lambda seals: draw(seals, [day(1)], most=3))
        self.recover(seals._ledger)
        assert self.journal("restore")[0][2] == {"versions": {"ads": 2}}
        refusal_text(lambda: reseal(seals, most=2))
        assert reseal(seals, most=3).highest == 3
        refusal_text(lambda: open_seals(seals, [day(5)], most=2))
        again = open_seals(seals, days(1), most=3)
        assert again[day(1)].number == 3
        store_part(seals, again)
        refusal_text(lambda: reseal(seals, most=3))

    def test_a_second_recovery_counts_on_from_the_first(self):
        seals = self.restored(lambda seals: draw(seals, days(1)))
        self.recover(seals._ledger)
        copy = self.books()
        draw(seals, days(1), most=2)
        self.restore(copy)
        self.recover(self.make())
        seals = self.seals()
        assert [note["versions"] for *_, note in self.journal("restore")] == [{"ads": 1}, {"ads": 2}]
        refusal_text(lambda: open_seals(seals, days(1), most=2))
        assert open_seals(seals, days(1), most=3)[day(1)].number == 3

    def test_without_the_fence_any_number_of_versions_may_have_left(self):
        seals = self.seals()
        draw(seals, days(1))
        self.fence.unlink()
        assert "recover" in str(refusal(lambda: read(seals, days(1))))
        self.recover(seals._ledger)
        assert read(seals, days(1))[day()].parts == (part(),)
        for most in (1, 2, 1000):
            refusal_text(lambda most=most: open_seals(seals, [day(2)], most=most))
        assert open_seals(seals, [day(-2)])[day(-2)].number == 1  # which was not over then

    def test_a_recovery_raises_spending_and_nothing_for_reports(self):
        ledger = self.make()
        copy = self.books()
        answer(ledger, top())
        draw(Seals(ledger), days(1))
        self.restore(copy)
        rows = self.recover(self.make())
        assert {(row.kind, row.account) for row in rows} == {("recover", ANNA.name)}
        assert {row.account for row in usage(self.make(), NOW.date(), NOW.date()).rows} == {ANNA.name}

    # -- versions of the books --

    def test_books_without_reports_are_migrated(self):
        store = self.store()
        with store.writing() as run:
            migrate(run, 0, to=3)
        store.close()
        FileFence(self.fence).restart(Mark(*self.raw("SELECT id, sequence, head FROM ledger")[0]))
        ledger = self.make()
        seals = Seals(ledger)
        for call in (lambda: read(seals, days(1)), lambda: open_seals(seals, days(1)), lambda: reseal(seals)):
            assert "sfumato budget migrate" in str(refusal(call))
        assert ledger.migrate() == LATEST - 3
        assert draw(seals, days(2)) == read(seals, days(2))
        answer(ledger, top())
        assert ledger.verify() == []

    def test_a_failure_in_the_store_tells_nothing_of_it(self):
        seals = self.seals()
        first = open_seals(seals, days(1))
        self.raw("ALTER TABLE cells RENAME TO secret")
        for call in (lambda: read(seals, days(1)), lambda: store_part(seals, first)):
            with pytest.raises(LedgerFailed) as told:
                call()
            assert "cells" not in str(told.value)
        self.raw("ALTER TABLE secret RENAME TO cells")
        assert len(store_part(seals, first)) == 1
