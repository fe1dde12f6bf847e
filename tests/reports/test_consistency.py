"""What numbers of a report owe one another (C1 to C6), over random data and random hierarchies, in all options."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations, count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.ledger.cells import Seals
from sfumato.session import Session
from sfumato.wire import Report
from tests.helpers.adverts import NOW, Adverts, added, ask, cells, events, hierarchy, lasting, new_adverts, tree
from tests.helpers.children import alone
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # a ledger for each example

ALL_OPTIONS = ("monotone", "totals", "tree", "actions")
EVERY = [chosen for size in range(5) for chosen in combinations(ALL_OPTIONS, size)]
WEIGHED = [(*chosen, "calendar") for chosen in EVERY if "monotone" not in chosen]
STATISTICS = ("impressions", "clicks", "conversions")
SINGLE, ATTRIBUTES = ("title", "size"), ("title", "size", "skills")
WORLDS = 5
LEVELS = ("account", "campaign", "creative")
FIRST = date(2026, 1, 5)  # a Monday

TURNS = range(repeats(1, 10))  # of each option, every time with another case
some = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """One database with the rows and the hierarchies of all worlds."""
    folder = tmp_path_factory.mktemp("consistency")
    world = Adverts(folder)
    statements = []
    for seed in range(WORLDS):
        statements += hierarchy(seed, f"creatives{seed}", accounts=2, most=2 + seed % 2)
        statements += events(seed, f"ads{seed}", 40 * (seed + 1), f"creatives{seed}", FIRST.isoformat())
    world.write_rows(*statements)
    world.write_key()
    return folder


NUMBERS = count()


@dataclass
class Case:
    """A world, a range and an account in it."""

    seed: int
    fanout: int
    least: int
    days: tuple[int, int]
    account: str
    gaussian: bool = False

    @property
    def range(self) -> dict[str, date]:
        return {"start": FIRST + timedelta(days=self.days[0]), "end": FIRST + timedelta(days=self.days[1])}

    @property
    def paths(self) -> list[tuple[str, ...]]:
        paths = [path for path in self.creatives if path[0] == self.account]
        return list(dict.fromkeys(path[:depth] for path in paths for depth in (1, 2, 3)))

    @property
    def creatives(self) -> list[tuple[str, ...]]:
        return list(tree(self.seed, accounts=2, most=2 + self.seed % 2))

    def children(self, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [one for one in self.paths if one[:-1] == path]

    def world(self, place: Path) -> Adverts:
        """A world with a new ledger, over the shared database."""
        world = Adverts(place / f"world{next(NUMBERS)}")
        world.database = place / "rows.duckdb"
        world.write_key()
        noise = 'noise = "gaussian"\ndelta = 1e-6\n' if self.gaussian else ""
        world.write_config(
            report=f"{noise}entity_fanout = {self.fanout}\nmin_count = {self.least}",
            entities=f'{{ levels = ["account", "campaign", "creative"], table = "creatives{self.seed}" }}',
            levels='["day", "week"]',
            source=f"ads{self.seed}",
            epsilon="{ total = 5 }" if self.gaussian else "0.4",
        )
        return world


def case_of(dice: random.Random, least: Sequence[int] = (0,)) -> Case:
    start = dice.choice([0, 0, 1, 4])
    return Case(
        seed=dice.randrange(WORLDS),
        fanout=dice.randrange(4),
        least=dice.choice(least),
        days=(start, start + dice.randint(1, 10)),
        account=dice.choice(["a0", "a1"]),
        gaussian=dice.random() < 0.5,
    )


cases = st.integers(0, 10**6).map(lambda number: case_of(random.Random(number)))


def entity(path: Sequence[str]) -> dict[str, str]:
    return dict(zip(LEVELS, path, strict=False))


def asked(session: Session, path: Sequence[str], case: Case, options: Sequence[str], **question: Any) -> Report:
    terms = {"statistics": STATISTICS, **case.range, **question}
    return session.report("ads", analyst="own", entity=entity(path), options=list(options), **terms)


def numbers(report: Report) -> dict[tuple[Any, Any, str], int | None]:
    """(start, value, statistic) -> count."""
    return {
        (row["start"], row.get(report.attribute), name): row[name] for row in report.rows for name in report.statistics
    }


# -- C1 --


def test_a_repeat_is_the_same_in_other_sessions_with_other_rows_and_another_key(tmp_path):
    world = new_adverts(tmp_path, report="entity_fanout = 2")
    questions: list[dict[str, Any]] = [
        {"attribute": attribute, "granularity": granularity, "options": list(options), "statistics": STATISTICS}
        for attribute in (None, "title", "skills")
        for granularity in ("all", "day")
        for options in repeats(EVERY[::5], EVERY)
    ]

    def told(session: Session) -> list[str]:
        return [lasting(ask(session, entity={"account": "a0"}, **question)) for question in questions]

    with world.open() as session, world.open() as beside:
        first = told(session)
        assert told(session) == told(beside) == first
        assert ask(beside, entity={"account": "a0"}, **questions[-1]).receipt.repeat
        sealed = Seals(session.ledger).standing("ads")
    late = "INSERT INTO ads SELECT * FROM ads", "UPDATE ads SET title = 'nurse', creative = 'n0', kind = 'click'"
    world.write_rows(*hierarchy(1), *events(1), *late)
    world.write_key(9)
    with world.open() as session:
        assert told(session) == first
        assert Seals(session.ledger).standing("ads") == sealed
        assert session.ledger.verify() == []


def told_of(folder: Path) -> str:
    case = Case(1, 1, 0, (0, 8), "a1")
    with Adverts(folder).open() as session:
        return lasting(asked(session, ["a1"], case, ("tree", "monotone"), attribute="title", granularity="day"))


def test_a_repeat_is_the_same_in_another_process(place):
    world = Case(1, 1, 0, (0, 8), "a1").world(place)
    first = told_of(world.folder)
    assert json.loads(alone(told_of, world.folder)) == json.loads(first)


@some
@given(case=cases, others=st.lists(st.tuples(st.integers(0, 10), st.integers(1, 11)), min_size=1, max_size=4))
def test_overlapping_questions_share_their_cells(place, case, others):
    """However a day is asked for, alone or as a part, the day has the one number that is stored."""
    with case.world(place).open() as session:
        asked(session, [case.account], case, ())
        for start, length in others:
            asked(session, [case.account], Case(case.seed, case.fanout, 0, (start, start + length), case.account), ())
        for options in ((), ("calendar",)):
            first = numbers(asked(session, [case.account], case, options, granularity="day"))
            again = numbers(asked(session, [case.account], case, options, granularity="day"))
            assert first == again
            for at in range(*case.days):
                day = Case(case.seed, case.fanout, 0, (at, at + 1), case.account)
                alone = numbers(asked(session, [case.account], day, options))
                assert alone == {key: first[key] for key in alone}


# -- C2 --


@pytest.mark.parametrize("options", [chosen for chosen in EVERY if "monotone" in chosen], ids="+".join)
@pytest.mark.parametrize("turn", TURNS)
def test_cumulative_counts_never_fall(place, turn, options):
    dice = random.Random(f"{turn} {options}")
    case, attribute = case_of(dice, least=(0, 3)), dice.choice([None, "title", "skills"])
    with case.world(place).open() as session:
        path = case.paths[-1] if case.seed % 2 else case.paths[0]
        before: dict[Any, int] = {}
        for end in range(case.days[0] + 1, case.days[1] + 1):
            upto = Case(case.seed, case.fanout, case.least, (case.days[0], end), case.account)
            now = {
                key[1:]: number
                for key, number in numbers(asked(session, path, upto, options, attribute=attribute)).items()
            }
            for key, number in before.items():
                assert now.get(key) is not None and now[key] >= number, (end, key)  # noqa: PT018
            before = {key: number for key, number in now.items() if number is not None}
        if case.least == 0:
            for granularity in ("day", "week"):
                series = numbers(asked(session, path, case, options, attribute=attribute, granularity=granularity))
                sums: dict[Any, int] = {}
                for (_, value, name), number in series.items():
                    sums[value, name] = sums.get((value, name), 0) + (number or 0)
                assert sums == before


# -- C3, C4, C5, C6 in all options --


def told(session: Session, case: Case, options: Sequence[str], granularity: str) -> Iterator[tuple[Any, Any, Any]]:
    for path in case.paths:
        for attribute in (None, *ATTRIBUTES):
            report = asked(session, path, case, options, attribute=attribute, granularity=granularity)
            assert report.options == list(options)
            yield path, attribute, numbers(report)


@pytest.mark.parametrize(
    "options", [*EVERY, *WEIGHED][:: repeats(2, 1)], ids=lambda options: "+".join(options) or "none"
)
@pytest.mark.parametrize("turn", TURNS)
def test_numbers_agree_with_one_another(place, turn, options):
    dice = random.Random(f"{turn} {options}")
    case, granularity = case_of(dice, least=(0, 4)), dice.choice(["all", "week", "day"])
    if granularity == "day":
        case.days = case.days[0], min(case.days[1], case.days[0] + 3)
    with case.world(place).open() as session:
        found = {(path, attribute): made for path, attribute, made in told(session, case, options, granularity)}
        for made in found.values():
            assert all(number is None or number >= case.least for number in made.values())
        if "totals" in options:
            totals_hold(case, found)
        if case.least == 0:
            families_hold(case, found, whole="tree" in options)
        if "actions" in options:
            actions_hold(found)
        alone_or_together(session, case, options, granularity, found)
        heads_hold(session, case, options)


def totals_hold(case: Case, found: Mapping[Any, Mapping[Any, int | None]]) -> None:
    for (path, attribute), made in found.items():
        if attribute not in SINGLE:
            continue
        parts: dict[Any, int] = {}
        for (start, _, name), number in made.items():
            parts[start, name] = parts.get((start, name), 0) + (number or 0)
        for (start, name), sum_of_parts in parts.items():
            total = found[path, None][start, None, name]
            assert sum_of_parts == 0 or (total is not None and total >= sum_of_parts), (path, attribute, start, name)


def families_hold(case: Case, found: Mapping[Any, Mapping[Any, int | None]], *, whole: bool) -> None:
    for (path, attribute), made in found.items():
        children = case.children(path)
        if children and (whole or len(children) <= case.fanout):
            for key, number in made.items():
                assert number == sum(found[child, attribute].get(key) or 0 for child in children), (
                    path,
                    attribute,
                    key,
                )


def actions_hold(found: Mapping[Any, Mapping[Any, int | None]]) -> None:
    for made in found.values():
        for (start, value, name), number in made.items():
            above = {"clicks": "impressions", "conversions": "clicks"}.get(name)
            if above and number is not None:
                assert (made[start, value, above] or 0) >= number


def alone_or_together(
    session: Session, case: Case, options: Sequence[str], granularity: str, found: Mapping[Any, Any]
) -> None:
    path = case.paths[0]
    for name in STATISTICS:
        for attribute in (None, "title"):
            report = asked(session, path, case, options, attribute=attribute, granularity=granularity, statistics=name)
            for key, number in numbers(report).items():
                assert found[path, attribute].get(key) == number


def heads_hold(session: Session, case: Case, options: Sequence[str]) -> None:
    for attribute in ATTRIBUTES:
        tops = [asked(session, case.paths[0], case, options, attribute=attribute, top=top).rows for top in (1, 2, 3, 9)]
        whole = asked(session, case.paths[0], case, options, attribute=attribute).rows
        for shorter in tops:
            assert shorter == whole[: len(shorter)]
        if case.least == 0:
            assert [len(rows) for rows in tops[:2]] == [1, 2]


# -- plain sums --


@some
@given(case=cases, attribute=st.sampled_from([None, *ATTRIBUTES]))
def test_without_options_numbers_are_sums_of_stored_cells(place, case, attribute):
    """Clamped once, at the end; and the cells themselves are not clamped."""
    case.fanout = 0
    with case.world(place).open() as session:
        for path in case.paths:
            made = numbers(asked(session, path, case, (), attribute=attribute))
            for name in STATISTICS:
                stored = cells(
                    session,
                    path,
                    attribute=attribute,
                    statistic=name,
                    **{k: d.isoformat() for k, d in case.range.items()},
                )
                for value, number in added(stored.values()).items():
                    key = FIRST + timedelta(days=case.days[0]), json.loads(value) if value else None, name
                    assert made[key] == max(number, 0)


def test_cells_are_not_clamped_and_noise_has_no_bias(place):
    """Of 888 empty cells four in ten are below zero, and as many above.

    False alarm: 6e-7 by Hoeffding's bound for the signs, 3e-7 by Bernstein's for the sum, which holds six deviations.
    """
    case = Case(0, 0, 0, (0, 1), "a0")
    with case.world(place).open(NOW) as session:
        stored = []
        for year in (2021, 2022):
            question = {"start": f"{year}-01-04", "end": f"{year}-06-01", "granularity": "day", "attribute": "title"}
            session.report("ads", analyst="own", entity={"account": "a0"}, statistics="clicks", **question)
            policy = session._reports.policies["ads"]
            calendar = policy.calendar
            steps = calendar.steps(*(calendar.instant("m", question[end]) for end in ("start", "end")), "day")
            for low, high in steps:
                ends = {"start": calendar.wall(low).isoformat(), "end": calendar.wall(high).isoformat()}
                stored += added(cells(session, ["a0"], attribute="title", **ends).values()).values()
        below, above = sum(one < 0 for one in stored), sum(one > 0 for one in stored)
        assert len(stored) == 3 * 296
        assert min(below, above) > 260
        assert abs(below - above) < 164
        assert abs(sum(stored)) < 6 * (len(stored) * 2 / 0.4**2) ** 0.5


@pytest.mark.parametrize("options", [(), ("tree",), ("monotone",), ("actions",), ("tree", "monotone", "actions")])
def test_totals_that_are_said_to_be_exact_are(tmp_path, options):
    """Also where some events are of no campaign, so that the campaigns do not add up to the account."""
    clicks = (
        "SELECT i AS member, TIMESTAMP '2026-01-10' AS at, 'a0' AS account, 'x' AS title, "
        "CASE WHEN i >= 10 THEN 'c' || i % 3 END"
    )
    world = new_adverts(
        tmp_path,
        "CREATE TABLE creatives AS SELECT 'a0' AS account, unnest(['c0', 'c1', 'c2']) AS campaign",
        f"CREATE TABLE ads AS {clicks} AS campaign FROM range(100) AS numbers (i)",
        attributes='\ntitle = { domain = ["x"] }',
        statistics='\nclicks = { count = "rows" }',
        entities='{ levels = ["account", "campaign"], table = "creatives" }',
        report='exact_totals = "known to the advertiser"',
    )
    with world.open() as session:
        found = ask(session, entity={"account": "a0"}, options=list(options))
        assert found.receipt.error95 == {"clicks": 0}
        assert [row["clicks"] for row in found.rows] == [100]
        below = [
            ask(session, entity={"campaign": f"c{at}"}, options=list(options)).rows[0]["clicks"] for at in range(3)
        ]
        assert below == [30, 30, 30]


@pytest.mark.parametrize(("report", "options"), [("", ("tree",)), ("entity_fanout = 40", ())])
def test_what_siblings_move_is_in_the_stated_error(tmp_path, report, options):
    """Forty creatives without events: half of them are below zero, and the one with events gives up as much."""
    world = new_adverts(
        tmp_path,
        "CREATE TABLE creatives AS SELECT 'a0' AS account, 'c' || i AS campaign FROM range(40) AS numbers (i)",
        "CREATE TABLE ads AS SELECT i AS member, TIMESTAMP '2026-01-10' AS at, 'a0' AS account, 'x' AS title, "
        "'c0' AS campaign FROM range(300) AS numbers (i)",
        attributes='\ntitle = { domain = ["x"] }',
        statistics='\nclicks = { count = "rows" }',
        entities='{ levels = ["account", "campaign"], table = "creatives" }',
        report=report,
        epsilon="0.3",
    )
    with world.open() as session:
        child, parent = ({"campaign": "c0"}, {"account": "a0"})
        moved, plain = (ask(session, entity=child, options=list(options)) for options in (options, ()))
        alone = ask(session, entity=parent, options=list(options))
        [note] = [each.text for each in moved.notes if each.code == "moved"]
        assert "moved" not in [each.code for each in alone.notes]
        if options:
            extra = moved.receipt.error95["clicks"] - plain.receipt.error95["clicks"]
            assert extra > 0
            assert f"by up to {extra}: error95 includes it" in note
        assert moved.sheet().bounded
