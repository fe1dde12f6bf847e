"""Reports: how far one event, or one person, moves all cells together, through the code that counts them.

The cells are those of every level of time and of entities, of every attribute and of the totals, counted by
`exact_counts` in DuckDB. What is expected of them is written here by hand. A cell is drawn once in a version with
discrete Laplace noise of scale 1 / epsilon, so that two neighbours are told apart by the sum of epsilon times the
distance of their counts, and by no more.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import ConfigError, SfumatoError
from sfumato.ledger.cells import Place, Seal
from sfumato.mechanisms import DiscreteLaplace, Rng
from sfumato.mechanisms.consistency import Tree
from sfumato.mechanisms.report_noise import canonical_laplace
from sfumato.query.predicate import EVERYTHING, In, Predicate, Values
from sfumato.query.reports.calendar import Calendar, Span
from sfumato.query.reports.entities import Entities, Family
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic, guarantee
from sfumato.reports.cells import Block, Cells
from sfumato.reports.exact import exact_counts
from sfumato.reports.numbers import Numbers
from sfumato.session import Session
from tests.helpers.laws import TOLERANCE, NoiseLaw, exact_delta, paired, renyi, shift_pair
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # all small neighbours, through the engine

Row = Mapping[str, Any]
Counts = dict[tuple[Any, ...], int]

COLUMNS = {
    "who": "INTEGER",
    "at": "TIMESTAMP",
    "day": "DATE",
    "account": "VARCHAR",
    "campaign": "INTEGER",
    "title": "VARCHAR",
    "level": "VARCHAR",
    "skills": "VARCHAR[]",
    "tags": "VARCHAR",
    "kind": "VARCHAR",
    "n": "BIGINT",
    "m": "BIGINT",
}
TYPES: dict[str, Any] = {
    "who": "integer",
    "at": "timestamp",
    "day": "date",
    "account": "text",
    "campaign": "integer",
    "title": "text",
    "level": "text",
    "tags": "text",
    "kind": "text",
    "n": "integer",
    "m": "integer",
}
EVENT: Row = {
    "who": 1,
    "at": "2026-01-31 03:00",
    "day": "2026-01-31",
    "account": "a",
    "campaign": 1,
    "title": "x",
    "level": "u",
    "skills": ["x"],
    "tags": "x",
    "kind": "view",
    "n": 1,
    "m": 0,
}
LEAVES = Entities(("account", "campaign"), [("a", "1"), ("a", "2"), ("b", "3")])
PATHS = (("a",), ("b",), ("a", "1"), ("a", "2"), ("b", "3"))

VIEWS, CLICKS = (In("kind", Values.of(kind)) for kind in ("view", "click"))


def by_level(*epsilons: str, levels: Sequence[str] = ("12h", "day", "month")) -> dict[str, Fraction]:
    return dict(zip(levels, map(Fraction, epsilons), strict=True))


def statistic(name: str, epsilon: Mapping[str, Fraction], where: Predicate = EVERYTHING, column: Any = None) -> Any:
    return ReportStatistic(name, epsilon, column, where)


TITLE = Attribute("title", "text", ("x", "y"))
LEVEL = Attribute("level", "text", ("u", "v"))
SKILLS = Attribute("skills", "text", ("x", "z"), 2, several=True)
TAGS = Attribute("tags", "text", ("x", "z"), 2, several=True, separator=",")
UNEVEN = {
    "views": statistic("views", by_level("1/2", "1", "2"), VIEWS),
    "clicks": statistic("clicks", by_level("1/3", "1/5", "1/7"), CLICKS),
}
SUMS = {
    "views": statistic("views", by_level("1/2", "1", "2"), column="n"),
    "seen": statistic("seen", by_level("1", "1", "1"), VIEWS, column="n"),
    "clicks": statistic("clicks", by_level("2", "2", "2"), column="m"),
}


def policy(
    statistics: Mapping[str, Any] = UNEVEN, attributes: Sequence[Attribute] = (TITLE, LEVEL), **more: Any
) -> Any:
    given = {
        "name": "ads",
        "table": "events",
        "time": "at",
        "calendar": Calendar(("12h", "day", "month"), "UTC"),
        "levels": ("account", "campaign"),
        "types": TYPES,
        "unit": "who",
    }
    named = {attribute.name: attribute for attribute in attributes}
    return ReportPolicy(**{**given, **more}, statistics=statistics, attributes=named)


def row(**changed: Any) -> Row:
    return {**EVENT, **changed}


class Live:
    """One DuckDB table, whose rows are replaced again and again."""

    abilities = DuckDBEngine.abilities

    def __init__(self, path: Path | str = ":memory:") -> None:
        self._connection = duckdb.connect(str(path), config={"threads": 1})
        columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
        self._connection.execute(f"CREATE TABLE events ({columns})")

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def put(self, rows: Iterable[Row]) -> None:
        self._connection.execute("DELETE FROM events")
        listed = [[each[name] for name in COLUMNS] for each in rows]
        if listed:
            one = f"({', '.join('?' * len(COLUMNS))})"
            values = list(itertools.chain.from_iterable(listed))
            self._connection.execute(f"INSERT INTO events VALUES {', '.join([one] * len(listed))}", values)

    def run(self, query: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.sql(dialect=DuckDBEngine.dialect)).fetchall()


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live() as opened:
        yield opened


def spans(over: ReportPolicy) -> list[Span]:
    """Every range of every level around the turn of a month."""
    calendar = over.calendar
    first, last = calendar.instant("start", "2026-01-31"), calendar.instant("end", "2026-02-03")
    found = []
    for level in calendar.levels:
        low, high = calendar.floor(first, level), calendar.ceil(last, level)
        found += [Span(level, *step) for step in calendar.steps(low, high, level)]
    return found


def cells(
    engine: Any,
    over: ReportPolicy,
    rows: Iterable[Row] | None = None,
    entities: Entities | None = None,
    paths: Sequence[tuple[str, ...]] = PATHS,
) -> Counts:
    """The exact count of every cell, by (statistic, attribute, value, path, span)."""
    if rows is not None:
        engine.put(rows)
    among = entities or Entities(over.levels)
    found: Counts = {}
    for attribute in (None, *over.attributes):
        values = ("",) if attribute is None else over.attributes[attribute].domain
        times, names = spans(over), tuple(over.statistics)
        counts = exact_counts(engine, over, attribute, names, paths, times, among)
        for (s, name), (p, path), (t, span), (v, value) in itertools.product(
            enumerate(names), enumerate(paths), enumerate(times), enumerate(values)
        ):
            found[name, attribute, value, path, span] = int(counts[s, p, t, v])
    return found


def loss(over: ReportPolicy, before: Counts, after: Counts) -> Fraction:
    """How well two states of the rows can be told apart by one version of all cells."""
    moved = ((cell, abs(after[cell] - before[cell])) for cell in before)
    return sum((over.epsilon(cell[0], cell[4].level) * by for cell, by in moved if by), Fraction(0))


def universe(**choices: Sequence[Any]) -> list[Row]:
    return [row(**dict(zip(choices, picked, strict=True))) for picked in itertools.product(*choices.values())]


TIMES = ("2026-01-31 03:00", "2026-01-31 15:00", "2026-02-01 00:00")
OWNERS = (("a", 1), ("a", 2), ("b", 3), ("a", None), (None, 1))
BASES: list[list[Row]] = [[], [row(), row(), row(at=TIMES[2], title="y", kind="click", account="b", campaign=3)]]


def owned(rows: Iterable[Row]) -> list[Row]:
    return [{**each, "account": account, "campaign": campaign} for each in rows for account, campaign in OWNERS]


def worst(live: Live, over: ReportPolicy, events: Sequence[Row], entities: Entities | None = None) -> Fraction:
    """The largest loss over all events that may come to these tables; no event may exceed the claim."""
    found = Fraction(0)
    for base in BASES:
        before = cells(live, over, base, entities)
        for event in events:
            after = cells(live, over, [*base, event], entities)
            found = max(found, loss(over, before, after))
    return found


class TestOneEvent:
    """The claim holds for every event, and some event needs all of it."""

    def test_filters_that_exclude_each_other(self, live: Live) -> None:
        over = policy()
        assert guarantee(over).seal == (2 + 1) * 2 * Fraction("3.5")  # attributes and total, entities, views over time
        events = universe(at=TIMES[::2], title=("x", "o", None), kind=("view", "click", None))
        assert worst(live, over, [*events, *owned(universe(level=("v", "o")))]) == guarantee(over).seal

    @pytest.mark.slow
    def test_every_event_there_is(self, live: Live) -> None:
        over = policy()
        events = universe(at=TIMES[1:], title=("x", "y", "o"), level=("u", None), kind=("view", "click", "other"))
        # Every seventh of them has each choice together with each of every other one.
        assert worst(live, over, owned(events)[:: repeats(7, 1)]) == guarantee(over).seal

    def test_filters_that_can_hold_at_once(self, live: Live) -> None:
        both = In("kind", Values.of("view", "click"))
        over = policy({**UNEVEN, "any": statistic("any", by_level("1", "1", "1"), both)})
        assert guarantee(over).seal == 3 * 2 * (Fraction("3.5") + 3)
        assert guarantee(over).statistics == ("views", "any")
        events = universe(title=("x", None), level=("u", None), kind=("view", "click", "other", None))
        assert worst(live, over, events) == guarantee(over).seal

    def test_without_a_filter_every_event_counts(self, live: Live) -> None:
        over = policy({**UNEVEN, "rows": statistic("rows", by_level("1", "1", "1"))}, [])
        assert guarantee(over).seal == 2 * (Fraction("3.5") + 3)
        assert worst(live, over, universe(kind=("view", "click", None))) == guarantee(over).seal

    def test_days(self, live: Live) -> None:
        levels = ("day", "month", "year")
        one = {"views": statistic("views", by_level("1/2", "1", "2", levels=levels))}
        over = policy(one, time="day", calendar=Calendar(levels, "Asia/Tokyo"))
        days = ("2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02", None)
        assert worst(live, over, universe(day=days, title=("x", "o"))) == guarantee(over).seal == 6 * Fraction("3.5")

    @pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Pacific/Kiritimati"])
    def test_zones(self, live: Live, zone: str) -> None:
        over = policy(attributes=[TITLE], calendar=Calendar(("12h", "day", "month"), zone))
        times = [f"2026-01-31 {hour:02}:{minute}" for hour in range(2, 24, 5) for minute in ("00", "59:59.999999")]
        assert worst(live, over, universe(at=times)) == guarantee(over).seal

    def test_entities_that_only_the_lowest_name_tells(self, live: Live) -> None:
        over = policy(reach="leaf")
        events = universe(campaign=(1, 2, 3, 4, None), title=("x", "o"), account=("a", "b", None))
        assert worst(live, over, events, LEAVES) == guarantee(over).seal == 6 * Fraction("3.5")

    def test_no_entities(self, live: Live) -> None:
        over = policy(levels=())
        live.put([])
        before = cells(live, over, [], paths=[()])
        found = [loss(over, before, cells(live, over, [event], paths=[()])) for event in universe(title=("x", "o"))]
        assert max(found) == guarantee(over).seal == 3 * Fraction("3.5")

    def test_the_engine_of_a_session_counts_the_same(self, live: Live, tmp_path: Path) -> None:
        over, rows = policy(attributes=[TITLE, SKILLS, TAGS]), [row(), row(kind="click", skills=["z", "x"], title="y")]
        live.put(rows)
        with Live(tmp_path / "rows.duckdb") as file:
            file.put(rows)
        with DuckDBEngine({"events": "events"}, database=tmp_path / "rows.duckdb") as engine:
            assert cells(engine, over) == cells(live, over)


class TestSeveralValues:
    """An event with several values counts for its first ones, whichever are shown."""

    LISTS = (None, (), *itertools.product("xz"), *itertools.product("axz", repeat=2), ("x", None, "z"), tuple("xyz"))

    @pytest.mark.parametrize(
        ("attribute", "event"),
        [
            (SKILLS, lambda values: row(skills=None if values is None else list(values))),
            (TAGS, lambda values: row(tags=None if values is None else ", ".join(each or "" for each in values))),
        ],
        ids=["list", "separator"],
    )
    def test_all_lists(self, live: Live, attribute: Attribute, event: Callable[..., Row]) -> None:
        over = policy(attributes=[TITLE, attribute])
        assert guarantee(over).seal == (1 + 2 + 1) * 2 * Fraction("3.5")
        assert worst(live, over, [event(values) for values in self.LISTS]) == guarantee(over).seal

    def test_values_that_are_added_later_do_not_change_which_count(self, live: Live) -> None:
        """However a domain grows: two values of an event are counted, in all of it."""
        rows = [row(skills=list("wxyz")), row(skills=list("zx")), row(skills=["z"])]
        whole = cells(live, policy(attributes=[dataclasses.replace(SKILLS, domain=("w", "x", "y", "z"))]), rows)
        for domain in (("z",), ("x", "z"), ("y", "z"), ("w", "y")):
            part = cells(live, policy(attributes=[dataclasses.replace(SKILLS, domain=domain)]))
            assert part == {cell: whole[cell] for cell in part}
        counted = {cell[2]: count for cell, count in whole.items() if cell[1] and count and cell[3] == ("a",)}
        assert counted == {"w": 1, "x": 2, "z": 2}

    def test_as_printed(self, live: Live) -> None:
        """PriPeARL 3.3: one value an attribute, whatever the events have."""
        over = policy(attributes=[TITLE, SKILLS])
        printed = guarantee(policy(attributes=[TITLE, dataclasses.replace(SKILLS, max_values=1)])).seal
        found = worst(live, over, [row(skills=["x", "z"])])
        assert found == guarantee(over).seal > printed


class TestColumnsOfCounts:
    """A row stands for many events: one more in a column moves the statistics of that column."""

    @staticmethod
    def neighbours() -> Iterator[tuple[list[Row], list[Row]]]:
        for n, m, kind in itertools.product((None, 2), (0, 5), ("view", "click")):
            one = row(n=n, m=m, kind=kind)
            for base in ([one], [one, row(n=7, m=3)]):
                yield base, [{**one, "n": (n or 0) + 1}, *base[1:]]
                yield base, [{**one, "m": m + 1}, *base[1:]]
                yield base, [*base, {**one, "n": 1, "m": 0}]

    def test_one_more(self, live: Live) -> None:
        over = policy(SUMS, [TITLE])
        assert guarantee(over).seal == 2 * 2 * (Fraction("3.5") + 3)
        assert guarantee(over).statistics == ("views", "seen")
        found = [loss(over, cells(live, over, a), cells(live, over, b)) for a, b in self.neighbours()]
        assert max(found) == guarantee(over).seal

    def test_rows_that_are_too_large_or_negative(self, live: Live) -> None:
        over = policy(SUMS, [])
        for n in (-5, -1, 2**40 - 1, 2**40, 2**62):
            before, after = (cells(live, over, [row(n=count)]) for count in (n, n + 1))
            assert loss(over, before, after) <= guarantee(over).seal


class TestOnePerson:
    """With a cap, a whole person comes or goes: her first events count, whatever is asked."""

    EVENTS = (
        row(who=9),
        row(who=9, title="y"),
        row(who=9, at=TIMES[2], kind="click", account="b", campaign=3),
        row(who=9, at=TIMES[1], kind="other"),
        row(who=9, at=TIMES[1], title=None),
    )
    OTHERS = (row(who=1), row(who=2, at=TIMES[2]), row(who=None))

    @classmethod
    def persons(cls, most: int) -> Iterator[list[Row]]:
        for size in range(1, most + 1):
            yield from map(list, itertools.combinations_with_replacement(cls.EVENTS, size))

    @pytest.mark.parametrize("cap", [1, 2])
    def test_rows(self, live: Live, cap: int) -> None:
        over = policy(attributes=[TITLE], cap=cap)
        claim = guarantee(over)
        assert (claim.unit, claim.epsilon) == ("person", cap * 2 * 2 * Fraction("3.5"))
        before = cells(live, over, self.OTHERS)
        found = [loss(over, before, cells(live, over, [*self.OTHERS, *hers])) for hers in self.persons(cap + 1)]
        assert max(found) == claim.epsilon
        without = dataclasses.replace(over, cap=None)
        uncapped = cells(live, without, self.OTHERS), cells(live, without, [*self.OTHERS, *self.EVENTS, *self.EVENTS])
        assert loss(without, *uncapped) > claim.epsilon

    @pytest.mark.parametrize("cap", [1, 3])
    def test_sums(self, live: Live, cap: int) -> None:
        over = policy(SUMS, [TITLE], cap=cap)
        claim = guarantee(over)
        assert claim.epsilon == cap * 2 * 2 * (Fraction("3.5") + 3)
        before = cells(live, over, self.OTHERS)
        found = []
        for (n, m), (other, more) in itertools.product([(0, 2), (1, None), (4, 2)], [(0, None), (1, 1), (4, 0)]):
            hers = [row(who=9, n=n, m=m), row(who=9, at=TIMES[1], n=other, m=more, kind="click")]
            found.append(loss(over, before, cells(live, over, [*self.OTHERS, *hers])))
        assert max(found) == claim.epsilon

    @pytest.mark.parametrize("statistics", [UNEVEN, SUMS], ids=["rows", "sums"])
    def test_which_events_count_does_not_depend_on_the_question(self, live: Live, statistics: Any) -> None:
        """Cells that are counted one by one, as they are when each is first asked for, are those of one table."""
        over = policy(statistics, [TITLE, SKILLS], cap=2)
        hers = [*self.EVENTS, row(who=9, skills=["z"], n=0, m=1), row(who=9, skills=["x", "z"], n=3)]
        live.put([*self.OTHERS, *hers])
        together = cells(live, over)
        alone = {}
        for attribute, name, path, span in itertools.product(
            (None, *over.attributes), over.statistics, (("a",), ("b", "3")), spans(over)[::2]
        ):
            [[[counts]]] = exact_counts(live, over, attribute, [name], [path], [span], Entities(over.levels))
            values = ("",) if attribute is None else over.attributes[attribute].domain
            alone |= {(name, attribute, value, path, span): int(n) for value, n in zip(values, counts, strict=True)}
        assert alone == {cell: together[cell] for cell in alone}

    def test_rows_that_come_late_are_counted_beside_those_that_took_their_place(self, live: Live) -> None:
        """Why rows must be there before any later range is sealed, and stay: or a person counts more than her cap."""
        over = policy(attributes=[], cap=1)
        later, earlier = row(who=9, at=TIMES[2]), row(who=9, at=TIMES[0])
        nobody, sealed_early, sealed_late = (cells(live, over, rows) for rows in ([], [later], [earlier, later]))
        february = {
            cell: count for cell, count in sealed_early.items() if cell[4].start >= datetime(2026, 2, 1, tzinfo=UTC)
        }
        assert loss(over, nobody, sealed_late) == guarantee(over).epsilon
        assert loss(over, nobody, {**sealed_late, **february}) == 2 * guarantee(over).epsilon


class TestSealedAtDifferentTimes:
    """Every cell at its own time, on whatever the rows are then: one event still moves no more."""

    def test_states_of_the_rows(self, live: Live) -> None:
        """The worst that an asker can do: of each cell she takes the state in which the event moves it most."""
        over, event = policy(attributes=[TITLE, SKILLS]), row(skills=["x", "z"])
        others = [[], [row()], [row(title="y"), row(kind="click")], [row(at=TIMES[2])] * 3]
        furthest: Counts = {}
        for state, present in itertools.product(others, (True, False)):
            before, after = cells(live, over, state), cells(live, over, [*state, *([event] if present else [])])
            furthest = {cell: max(furthest.get(cell, 0), abs(after[cell] - before[cell])) for cell in before}
        assert loss(over, dict.fromkeys(furthest, 0), furthest) == guarantee(over).seal

    def test_a_row_that_is_changed_is_another_event(self, live: Live) -> None:
        """Moved from one campaign to another between two seals, it is in the cells of both."""
        over = policy(attributes=[])
        nobody, first, second = (cells(live, over, rows) for rows in ([], [row()], [row(campaign=2)]))
        seen = {cell: max(first[cell], second[cell]) for cell in first}
        assert guarantee(over).seal < loss(over, nobody, seen) <= 2 * guarantee(over).seal


# --- The noise --------------------------------------------------------------------------------------------------


class TestNoise:
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)], ids=str)
    def test_a_count_that_moves_by_one(self, epsilon: Fraction) -> None:
        """The ratio of the two probabilities is e^epsilon or e^-epsilon at every outcome, and nothing between."""
        law = NoiseLaw.of(DiscreteLaplace(1 / epsilon))
        shown = np.arange(-40, 41)
        ratios = np.log(law.mass(shown - 7) / law.mass(shown - 8))
        assert np.abs(ratios) == pytest.approx(float(epsilon), rel=1e-9)
        a = math.exp(-epsilon)
        assert law.mass(shown) == pytest.approx((1 - a) / (1 + a) * a ** np.abs(shown), rel=1e-9)

    def test_all_cells_of_an_event(self, live: Live) -> None:
        """The exact delta of everything that is sealed, at the claim and a little below it."""
        even = {"views": statistic("views", by_level("1", "1", levels=("day", "month")))}
        over = policy(even, [TITLE], calendar=Calendar(("day", "month"), "UTC"), max_versions=2)
        before, after = (cells(live, over, rows) for rows in ([], [row()]))
        moved = sum(abs(after[cell] - before[cell]) for cell in before)
        claim = guarantee(over)
        noise = NoiseLaw.of(DiscreteLaplace(1))
        assert exact_delta(shift_pair(noise, (1,) * moved), float(claim.seal)) <= TOLERANCE
        assert exact_delta(shift_pair(noise, (1,) * moved), float(claim.seal) - 1) > 1e-4
        assert exact_delta(shift_pair(noise, (1,) * moved * 2), float(claim.epsilon)) <= TOLERANCE


# --- What the paper has otherwise -------------------------------------------------------------------------------


class TestErrata:
    """Kenthapadi and Tran (2018) as printed: each fails the check that ours passes."""

    EPSILON = Fraction(1)
    NOISE = NoiseLaw.of(DiscreteLaplace(1))

    @pytest.mark.parametrize("versions", [2, 3])
    def test_guarantee_without_versions(self, versions: int) -> None:
        """Sealing anew is another release."""
        one = policy(
            {"views": statistic("views", by_level("1", levels=("day",)))}, [], levels=(), max_versions=versions
        )
        one = dataclasses.replace(one, calendar=Calendar(("day",), "UTC"))
        drawn = shift_pair(self.NOISE, (1,) * versions)
        assert exact_delta(drawn, float(guarantee(one).seal)) > 0.1
        assert exact_delta(drawn, float(guarantee(one).epsilon)) <= TOLERANCE

    def test_only_combinations_that_are_there(self) -> None:
        """A cell without an event that is left out: one event makes it appear."""
        noisy = {x: float(self.NOISE.mass(np.array([x - 1]))[0]) for x in range(-30, 30)}
        shown = paired({"no row": 1.0}, noisy)
        assert exact_delta(shown, 100.0) == pytest.approx(1)
        assert renyi(shown, 2.0) == math.inf
        zero = {x: float(self.NOISE.mass(np.array([x]))[0]) for x in range(-30, 31)}
        assert exact_delta(paired(zero, noisy), 1.0) <= 1e-9

    def test_cells_without_events_are_drawn(self, world: World) -> None:
        world.put("SELECT 1 AS who, TIMESTAMP '2026-01-05 10:00' AS at, 'x' AS title")
        world.write(
            'levels = ["month"]\n[reports.r.statistics]\nk = { count = "rows" }\n[reports.r.attributes]\n'
            'title = { domain = ["x", "y", "z"] }\n'
        )
        world.ask(statistics="k", attribute="title")
        assert [json.loads(listed) for (listed,) in world.stored("SELECT listed FROM domains")] == [
            ['"x"', '"y"', '"z"']
        ]

    def test_exact_totals(self) -> None:
        """Told outright: nothing holds, at any epsilon. The claim leaves them out, and says so."""
        assert exact_delta(paired({7: 1.0}, {8: 1.0}), 100.0) == 1
        kept, given = guarantee(policy()), guarantee(policy(exact_totals=True))
        assert given.seal == kept.seal * 2 / 3
        assert given.exact_totals

    def test_exact_totals_and_an_event_of_another_value(self, live: Live) -> None:
        """Beside exact totals, two tables of the same totals: one event is of another title. That costs twice."""
        over = policy(exact_totals=True)
        before, after = (
            cells(live, over, [row(title=title, level=level)]) for title, level in (("x", "u"), ("y", "v"))
        )
        assert all(before[cell] == after[cell] for cell in before if cell[1] is None)
        assert loss(over, before, after) == 2 * guarantee(over).seal

    def test_clamping_each_cell(self) -> None:
        """The mean of max(noise, 0), exactly: for the rounded Laplace of the paper, and for the discrete one."""
        a = math.exp(-1)
        rounded = sum(math.exp(-(m - 0.5)) / 2 for m in range(1, 200))  # P[X >= m], added up
        discrete = sum(a**m / (1 + a) for m in range(1, 200))
        assert (rounded, discrete) == (pytest.approx(0.4797, abs=1e-4), pytest.approx(0.4255, abs=1e-4))
        assert 90 * rounded == pytest.approx(43.2, abs=0.1)
        ninety = self._sum_of(90)
        once = float((ninety * np.maximum(np.arange(len(ninety)) - len(ninety) // 2, 0)).sum())
        assert once == pytest.approx(5.1, abs=0.1)

    def _sum_of(self, draws: int) -> np.ndarray:
        one = self.NOISE.mass(np.arange(-40, 41))
        law = np.ones(1)
        for _ in range(draws):
            law = np.convolve(law, one)
        return law

    def test_ours_clamps_once(self) -> None:
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        over = policy(levels=())
        alone = Family(((),), Tree((-1,)), (True,))
        numbers = Numbers(over, alone, (Span("day", moment, moment),) * 3, options=(), steps=((0, 1, 2),))
        for noisy in ([3, -3, 0], [5, -2, -1], [-4, 1, 1]):
            [[[shown]]] = numbers.compute({("views", None): np.array(noisy).reshape(1, 3, 1)})["views", None]
            assert shown == max(sum(noisy), 0)

    def test_rounded_laplace_is_wasteful(self) -> None:
        """Private, but of more variance than it needs."""
        rounded = sum(m**2 * (math.exp(-(m - 0.5)) - math.exp(-(m + 0.5))) for m in range(1, 200))
        assert rounded == pytest.approx(2.076, abs=1e-3)
        assert DiscreteLaplace(1).deviation ** 2 == pytest.approx(1.841, abs=1e-3)

    def test_top_by_true_counts(self) -> None:
        """The first of two values, with a noisy count: which one it is tells who is ahead. Ours ranks noisy counts."""

        def printed(counts: tuple[int, int]) -> dict[Any, float]:
            first = max((0, 1), key=lambda value: (counts[value], -value))
            return {(first, x): float(self.NOISE.mass(np.array([x - counts[first]]))[0]) for x in range(-40, 60)}

        def ours(counts: tuple[int, int]) -> dict[Any, float]:
            law: dict[Any, float] = {}
            masses = [{x: float(self.NOISE.mass(np.array([x - c]))[0]) for x in range(-20, 41)} for c in counts]
            for (x, p), (y, q) in itertools.product(masses[0].items(), masses[1].items()):
                shown = (0, x) if x >= y else (1, y)
                law[shown] = law.get(shown, 0.0) + p * q
            return law

        assert exact_delta(paired(printed((7, 7)), printed((7, 8))), 100.0) == pytest.approx(1)
        assert exact_delta(paired(ours((7, 7)), ours((7, 8))), 1.0) <= 1e-9

    def test_keys_by_plain_concatenation(self) -> None:
        """("ab", "c") and ("a", "bc") are one text and one noise there; here they are cells of their own."""
        texts = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")]
        fields = [field.name for field in dataclasses.fields(Place)]
        for left, right in itertools.combinations(fields, 2):
            places = [Place(**{**dict.fromkeys(fields, ""), left: x, right: y}) for x, y in texts]
            assert len({place.key for place in places}) == len(texts)
        paths = [("ab", "c"), ("a", "bc"), ("abc",), ('a", "bc',), ("a", "b", "c")]
        assert len({"".join(path) for path in paths}) < len({json.dumps(path) for path in paths}) == len(paths)

    def test_epsilon_left_out_of_the_seed(self) -> None:
        """One uniform at two scales: both noises are one number, rounded. Who sees both sees the count."""
        count, uniform = 1000, np.random.default_rng(7).random(500)

        def noise(scale: int) -> np.ndarray:
            return np.floor(scale * (math.log(2 / (1 + math.exp(-1 / scale))) - np.log(uniform))).astype(int)

        seen = count + noise(1), count + noise(2)
        assert np.abs(2 * seen[0] - seen[1] - count).max() <= 2
        keyed = [
            canonical_laplace(np.full(500, count), epsilon=Fraction(1, scale), rng=Rng.keyed(b"secret", b"cell"))
            for scale in (1, 2)
        ]
        assert np.abs(2 * keyed[0] - keyed[1] - count).max() > 8

    def test_everything_that_makes_a_cell_is_in_its_seed(self) -> None:
        """Another place, seal, nonce, definition, epsilon or set of values: another noise."""
        domain = tuple(f"v{n:03}" for n in range(200))
        over = policy(attributes=[dataclasses.replace(TITLE, domain=domain)])
        place = Place("ads", "views", '["a"]', "title", "day", "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")

        def noise(definition: str = "d", number: int = 1, nonce: bytes = bytes(16), key: bytes = b"k", **changed: str):
            at = dataclasses.replace(place, **changed)
            block = Block(over, "title", ("views", "clicks"), (("a",),), ())
            seal = Seal(at, number, nonce)
            return (
                Cells(over, None, None, key)
                ._draw_vector(at, definition, seal, np.zeros(200, np.int64), block)[1]
                .counts
            )

        others = [
            noise(definition="e"),
            noise(number=2),
            noise(nonce=bytes(15) + b"1"),
            noise(key=b"l"),
            *(noise(**{field: "x"}) for field in ("report", "entity", "attribute", "start", "end")),
            noise(statistic="clicks"),
            noise(level="month"),
        ]
        assert noise() == noise()
        assert len({noise(), *others}) == len(others) + 1


# --- Attacks through a session ----------------------------------------------------------------------------------


class TestOneEventIsCountedOnce:
    """One event, hardly any noise: how many cells of one level, one statistic and one attribute hold it, all told.

    What is refused holds nothing.
    """

    ROWS = """SELECT 1 AS who, TIMESTAMP '2026-01-05 10:00' AS at, 7 AS account, 'c' AS creative, '' AS blank, 3 AS n,
              'i' AS kind, 0.1::DOUBLE AS x"""
    ONE = '[reports.r.statistics]\nk = { count = "rows" }\n'

    def test_a_number_that_is_spelled_in_other_ways(self, world: World) -> None:
        world.put(self.ROWS)
        world.write('levels = ["month"]\nentities = ["account"]\n' + self.ONE)
        for name in ("7", "07", "007", 7, "+7", " 7", "7.0"):
            world.ask(statistics="k", entity={"account": name})
        assert world.holding() <= 1

    def test_a_number_that_is_listed_in_two_ways(self, world: World) -> None:
        world.put(self.ROWS, entities="SELECT unnest(['7', '07']) AS account")
        world.write('levels = ["month"]\nentities = { levels = ["account"], table = "entities" }\n' + self.ONE)
        for name in ("7", "07"):
            world.ask(statistics="k", entity={"account": name})
        assert world.holding() <= 1

    def test_entities_without_children(self, world: World) -> None:
        world.put(self.ROWS, entities="SELECT unnest(['p', 'q']) AS campaign, NULL::VARCHAR AS blank")
        world.write(
            'levels = ["month"]\nentities = { levels = ["campaign", "blank"], table = "entities" }\n' + self.ONE
        )
        for name in ("p", "q"):
            world.ask(statistics="k", entity={"campaign": name})
        assert world.holding() <= 1

    def test_a_child_that_gets_another_parent(self, world: World) -> None:
        """Why children keep their parents: it is counted once under each that it had."""
        listed = "SELECT '{}' AS campaign, 'c' AS creative"
        world.write(
            'levels = ["month"]\nentities = { levels = ["campaign", "creative"], table = "entities" }\n' + self.ONE
        )
        for name in ("p", "q"):
            world.put(self.ROWS, entities=listed.format(name))
            world.ask(statistics="k", entity={"campaign": name})
        assert world.holding() <= 2

    @pytest.mark.parametrize(
        "rest",
        [
            "k = { sum = 'n', where = { n = { ge = 3 } } }\n",
            "k = { sum = 'n' }\n[reports.r.attributes]\nn = { domain = [3] }\n",
        ],
        ids=["filter", "attribute"],
    )
    def test_a_column_of_counts_that_decides_what_is_counted(self, world: World, rest: str) -> None:
        """From 2 to 3, one event more, the statistic would move by three: such a policy is refused."""
        world.put(self.ROWS)
        world.write('levels = ["month"]\n[reports.r.statistics]\n' + rest)
        with pytest.raises(ConfigError, match=r"statistics: n is added up, and cannot be filtered or grouped by"):
            world.opened()

    def test_filters_that_the_engine_cannot_tell_apart(self, world: World) -> None:
        """Two decimals that are one double: both filters hold, so that the claim must add both."""
        world.put(self.ROWS)
        world.write(
            'levels = ["month"]\n[reports.r.statistics]\na = { count = "rows", where = { x = 0.1 } }\n'
            'b = { count = "rows", where = { x = 0.10000000000000000001 } }\n'
        )
        claimed = world.claimed()
        world.ask(statistics=["a", "b"])
        assert world.holding() <= len(claimed)

    def test_ranges_that_are_weighed_against_one_another(self, world: World) -> None:
        """However ranges around the event are asked for, with least squares or without: one cell for each level."""
        world.put(self.ROWS)
        world.write('levels = ["12h", "day", "month"]\n' + self.ONE)
        for start, end in (("01-05", "01-06"), ("01-02", "01-09"), ("01-01", "02-01"), ("01-03", "03-20")):
            for options in (["calendar"], []):
                for granularity in ("all", "day"):
                    asked = {"start": f"2026-{start}", "end": f"2026-{end}", "granularity": granularity}
                    world.ask(statistics="k", options=options, **asked)
        assert world.holding() == 3

    def test_a_cap_and_a_statistic_that_is_added(self, world: World) -> None:
        """Why policies add up: which event is her first by the cap changes with the filters. One for each policy."""
        world.put(
            "SELECT 1 AS who, TIMESTAMP '2026-01-05 09:00' AS at, 'c' AS kind UNION ALL "
            "SELECT 1, TIMESTAMP '2026-01-05 10:00', 'i'"
        )
        rest = 'levels = ["month"]\nmax_events_per_unit = 1\n[reports.r.statistics]\n'
        rest += 'i = { count = "rows", where = { kind = "i" } }\n'
        world.write(rest)
        world.ask(statistics="i")
        world.write(rest + 'c = { count = "rows", where = { kind = "c" } }\n')
        world.ask(statistics="c")
        assert world.holding() <= 2


class World:
    """A session over one event table, at a fixed moment, whose noise is almost surely zero."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "noise.key").write_bytes(bytes(range(32)))
        (folder / "noise.key").chmod(0o600)

    def put(self, rows: str, entities: str = "SELECT 1 AS nothing") -> None:
        (self._folder / "rows.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(self._folder / "rows.duckdb")) as connection:
            connection.execute(f"CREATE TABLE events AS {rows}")
            connection.execute(f"CREATE TABLE entities AS {entities}")

    def write(self, report: str) -> None:
        (self._folder / "sfumato.toml").write_text(
            '[ledger]\nurl = "sqlite:ledger.db"\n'
            '[engines.local]\ntype = "duckdb"\ndatabase = "rows.duckdb"\n'
            '[tables.events]\nengine = "local"\nsource = "events"\nprivacy_unit = "who"\n'
            "[budgets.b]\nepsilon_per = 0.1\ndelta_per = 1e-9\ninformation = 100\ncalls = 10\n"
            '[analysts.anna]\nbudget = "b"\n'
            f'[reports.r]\ntable = "events"\ntime = "at"\nepsilon = 1000\n{report}'
        )

    def ask(self, **question: Any) -> None:
        try:
            with self.opened() as session:
                session.report("r", analyst="anna", **{"start": "2026-01-01", "end": "2026-02-01", **question})
        except SfumatoError:
            pass

    def claimed(self) -> tuple[str, ...]:
        try:
            with self.opened() as session:
                return guarantee(session._reports.policies["r"]).statistics
        except SfumatoError:
            return ()

    def opened(self) -> Session:
        return Session(self._folder / "sfumato.toml", clock=lambda: datetime(2026, 11, 15, tzinfo=UTC))

    def stored(self, select: str) -> list[tuple[Any, ...]]:
        if not (self._folder / "ledger.db").exists():
            return []
        connection = sqlite3.connect(self._folder / "ledger.db")
        try:
            return connection.execute(select).fetchall()
        finally:
            connection.close()

    def holding(self) -> int:
        """What all stored cells add up to."""
        return sum(sum(json.loads(counts)) for (counts,) in self.stored("SELECT counts FROM cells"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
