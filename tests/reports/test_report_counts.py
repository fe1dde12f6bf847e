"""Exact counts behind cells, against counting row by row: every type, every way to name an entity, every clock."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.catalog import Catalog
from sfumato.config import load_config
from sfumato.errors import NotFound, Refused
from sfumato.ledger.cells import Seals
from sfumato.query.reports.calendar import Calendar, Span
from sfumato.query.reports.counting import MAX_ROW_VALUE
from sfumato.query.reports.entities import Entities
from sfumato.query.reports.policy import ReportPolicy
from sfumato.reports.exact import exact_counts
from sfumato.reports.policies import read_entities, report_policies
from tests.helpers.adverts import Adverts, ask, new_adverts
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # many small tables

Row = Mapping[str, Any]

COLUMNS = {
    "member": "INTEGER",
    "moment": "TIMESTAMP",
    "aware": "TIMESTAMP WITH TIME ZONE",
    "day": "DATE",
    "account": "INTEGER",
    "campaign": "VARCHAR",
    "creative": "VARCHAR",
    "banner": "BIGINT",
    "kind": "VARCHAR",
    "n": "BIGINT",
    "m": "HUGEINT",
    "title": "VARCHAR",
    "score": "TINYINT",
    "price": "DOUBLE",
    "cost": "DECIMAL(9, 2)",
    "paid": "BOOLEAN",
    "born": "DATE",
    "seen": "TIMESTAMP",
    "skills": "VARCHAR[]",
    "codes": "INTEGER[]",
    "tags": "VARCHAR",
}
DOMAINS: Mapping[str, tuple[str, list[Any]]] = {
    "title": ("""['dentist', "O'Brien", 'größer', '']""", ["", "O'Brien", "dentist", "größer"]),
    "score": ("[3, -1, 0]", [-1, 0, 3]),
    "price": ("[0.5, 2.0]", [0.5, 2.0]),
    "cost": ("[0.50, 19.99]", [0.5, 19.99]),
    "paid": ("[true, false]", [False, True]),
    "born": ("[2026-01-02, 2026-01-01]", [date(2026, 1, 1), date(2026, 1, 2)]),
    "seen": ("[2026-01-01T10:00:00]", [datetime(2026, 1, 1, 10)]),
    "skills": ("['rust', 'sql', 'cobol']", ["cobol", "rust", "sql"]),
    "codes": ("[3, 1, 2]", [1, 2, 3]),
    "tags": ("['rust', 'sql', 'cobol']", ["cobol", "rust", "sql"]),
}
SEVERAL = {"skills": ", max_values = 2", "codes": ", max_values = 1", "tags": ", max_values = 2, separator = ';'"}
FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("{}", lambda row: True),
    ("{ kind = 'click' }", lambda row: row["kind"] == "click"),
    ("{ not = { kind = 'click' } }", lambda row: row["kind"] not in ("click", None)),
    ("{ score = { ge = 0 } }", lambda row: row["score"] is not None and row["score"] >= 0),
    ("{ paid = true, kind = ['click', 'view'] }", lambda row: row["paid"] is True and row["kind"] in ("click", "view")),
]
# Days around which clocks change, or do not.
CLOCKS = {
    "UTC": "2026-01-10",
    "Europe/Berlin": "2026-03-28",
    "America/New_York": "2026-10-31",
    "Australia/Lord_Howe": "2026-04-04",
    "America/Havana": "2026-03-07",
    "Asia/Kathmandu": "2026-05-01",
}
ENTITIES = {
    "none": "[]",
    "columns": "['account', 'campaign', 'creative']",
    "listed": "{ levels = ['account', 'campaign', 'creative'], table = 'tree' }",
    "leaf": "{ levels = ['agency', 'campaign', 'banner'], table = 'banners' }",
    "names": "{ levels = ['agency', 'creative'], table = 'names' }",
}
TREE = [(1, "c1", "n1"), (1, "c1", "n2"), (1, "c2", "n1"), (2, "c1", "n1"), (2, "c3", None), (3, None, None)]
BANNERS = [("x", "c1", 7), ("x", "c1", -8), ("x", "c2", 9), ("y", "c1", 10), ("z", None, None)]
NAMES = [("x", "n1"), ("x", "n2"), ("y", "n3"), ("z", None)]


# -- the rows --


def rows(dice: random.Random, zone: str, number: int = 250) -> list[Row]:
    first = Calendar(("1h",), zone).instant("start", CLOCKS[zone])
    return [row(dice, first) for _ in range(number)]


def row(dice: random.Random, first: datetime) -> Row:
    moment = first + timedelta(minutes=30 * dice.randrange(-10, 48 * 4))  # on the borders, often, or beside them
    moment += timedelta(microseconds=dice.choice([0, 0, -1, 1, 999_999, -500_000]))
    drawn = {
        "member": dice.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, None]),
        "moment": moment.replace(tzinfo=None),
        "aware": moment,
        "day": moment.date(),
        "account": dice.choice([1, 1, 2, 3, 99, None]),
        "campaign": dice.choice(["c1", "c1", "c2", "c3", "C1", None]),
        "creative": dice.choice(["n1", "n2", "n3", "?", None]),
        "banner": dice.choice([7, -8, 9, 10, 11, None]),
        "kind": dice.choice(["click", "click", "view", "like", None]),
        "n": dice.choice([0, 1, 2, 7, -4, None, 2**62]),
        "m": dice.choice([0, 3, -(2**90), 2**100, None]),
        "title": dice.choice(["dentist", "O'Brien", "größer", "", "Dentist", None]),
        "score": dice.choice([3, -1, 0, 5, None]),
        "price": dice.choice([0.5, 2.0, 0.1 + 0.2, float("nan"), float("inf"), None]),
        "cost": dice.choice(["0.5", "19.99", "20", None]),
        "paid": dice.choice([True, False, None]),
        "born": dice.choice([date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3), None]),
        "seen": dice.choice([datetime(2026, 1, 1, 10), datetime(2026, 1, 1, 11), None]),
        "skills": dice.choice(
            [None, [], ["sql"], ["sql", "sql"], ["rust", "sql", "cobol"], ["aaa", "rust", "sql"], [None]]
        ),
        "codes": dice.choice([None, [], [2], [3, 2], [0, 1], [None, 3]]),
        "tags": dice.choice([None, "", ";", "sql", " sql ;rust", "sql;sql;cobol", "aaa; bbb; sql", "rust,sql"]),
    }
    if dice.random() < 0.05:
        drawn |= {"moment": None, "aware": None, "day": None}
    return drawn


def filled(database: Path, data: Sequence[Row]) -> None:
    with duckdb.connect(str(database)) as connection:
        connection.begin()
        connection.execute("SET TimeZone = 'Asia/Tokyo'")  # what a column holds does not depend on who looks
        connection.execute(f"CREATE TABLE ads ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
        places = ", ".join("?" for _ in COLUMNS)
        connection.executemany(
            f"INSERT INTO ads VALUES ({places})", [[each[name] for name in COLUMNS] for each in data]
        )
        for table, columns, listed in (
            ("tree", "account INTEGER, campaign VARCHAR, creative VARCHAR", TREE),
            ("banners", "agency VARCHAR, campaign VARCHAR, banner BIGINT", BANNERS),
            ("names", "agency VARCHAR, creative VARCHAR", NAMES),
        ):
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(listed[0]))})", listed)
        connection.commit()


# -- counting row by row --


def counted(
    data: Sequence[Row],
    reach: str,
    time: str,
    statistics: Sequence[tuple[str | None, Callable[[Row], bool]]],
    attribute: str | None,
    paths: Sequence[tuple[str, ...]],
    spans: Sequence[Span],
    calendar: Calendar,
    cap: int | None,
    every: Sequence[tuple[str | None, Callable[[Row], bool]]],
) -> np.ndarray:
    domain: Sequence[Any] = [None] if attribute is None else DOMAINS[attribute][1]
    found = np.zeros((len(statistics), len(paths), len(spans), len(domain)), object)
    kept = list(allowed(data, time, every, cap, reach))
    for (s, (column, passes)), (each, amounts) in product(enumerate(statistics), kept):
        if not passes(each) or each[time] is None:
            continue
        amount = amounts[column]
        own = owner(each, reach)
        for (p, path), (t, span) in product(enumerate(paths), enumerate(spans)):
            if own[: len(path)] == path and inside(each[time], span, calendar):
                for place in places(each, attribute, domain):
                    found[s, p, t, place] += amount
    return found


def inside(moment: Any, span: Span, calendar: Calendar) -> bool:
    if not isinstance(moment, datetime):
        return calendar.wall(span.start).date() <= moment < calendar.wall(span.end).date()
    return span.start <= (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < span.end


def owner(each: Row, reach: str) -> tuple[str, ...]:
    if reach in ("columns", "listed"):
        names = [each[level] for level in ("account", "campaign", "creative")]
        return tuple(map(str, names[: names.index(None) if None in names else 3]))
    if reach == "none":
        return ()
    leaves = {leaf: path for path in (BANNERS if reach == "leaf" else NAMES) if (leaf := path[-1]) is not None}
    return tuple(map(str, leaves.get(each["banner" if reach == "leaf" else "creative"], ())))


def places(each: Row, attribute: str | None, domain: Sequence[Any]) -> list[int]:
    if attribute is None:
        return [0]
    value = each[attribute]
    if attribute not in SEVERAL:
        if attribute == "cost" and value is not None:
            value = float(value)
        return [domain.index(value)] if value in domain else []
    if attribute == "tags" and value is not None:
        value = [text.strip() for text in value.split(";")]
    shown = sorted({one for one in value or () if one not in (None, "")})[: 1 if attribute == "codes" else 2]
    return [domain.index(one) for one in shown if one in domain]


def amount_of(each: Row, column: str) -> int:
    return min(max(each[column] or 0, 0), MAX_ROW_VALUE)


def allowed(
    data: Sequence[Row],
    time: str,
    every: Sequence[tuple[str | None, Callable[[Row], bool]]],
    cap: int | None,
    reach: str,
) -> Iterator[tuple[Row, Mapping[str | None, int]]]:
    """Rows with what they add to a column of counts (None: rows), a person's first events only."""
    columns = list(dict.fromkeys(column for column, _ in every))
    if cap is None:
        for each in data:
            yield each, {column: 1 if column is None else amount_of(each, column) for column in columns}
        return
    left: dict[Any, int] = {}
    present = [each for each in data if each["member"] is not None and each[time] is not None]
    for each in sorted(present, key=lambda one: order(one, time, columns, reach)):
        if not any(passes(each) for _, passes in every):
            continue
        amounts = {}
        for column in columns:
            before = left.setdefault(each["member"], cap)
            amounts[column] = min(1 if column is None else amount_of(each, column), before)
            left[each["member"]] = before - amounts[column]
        yield each, amounts


def order(each: Row, time: str, columns: Sequence[str | None], reach: str) -> list[Any]:
    """In the order of time, then of what tells rows apart: it names entities, attributes, counts and filters."""
    named = {"none": [], "leaf": ["banner"], "names": ["creative"]}.get(reach, ["account", "campaign", "creative"])
    names = [time, *named, *DOMAINS, *(column for column in columns if column), *sorted(["kind", "paid", "score"])]
    return [_comparable(each[name]) for name in dict.fromkeys(names)]


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return (
            value is not None,
            [(one is None, one or 0) if not isinstance(one, str) else (False, one) for one in value],
        )
    if isinstance(value, float) and value != value:
        return (True, float("inf"), 1)  # DuckDB has it after everything
    return (value is not None, *(() if value is None else (value,)))


# -- the tests --


def spans_of(dice: random.Random, calendar: Calendar, zone: str) -> list[Span]:
    """Atomic ranges of all levels: some overlap, some leave gaps."""
    first = calendar.floor(calendar.instant("start", CLOCKS[zone]))
    found = []
    for _ in range(dice.randint(1, 9)):
        level = dice.choice(calendar.levels)
        start = calendar.floor(first + timedelta(hours=dice.randrange(-5, 90)), level)
        found.append(Span(level, start, calendar.ceil(start + timedelta(microseconds=1), level)))
    return list(dict.fromkeys(found))


def paths_of(dice: random.Random, reach: str, entities: Entities) -> list[tuple[str, ...]]:
    if reach == "none":
        return [()]
    if reach == "columns":
        known = [
            ("1",),
            ("2",),
            ("3",),
            ("1", "c1"),
            ("1", "C1"),
            ("2", "c1"),
            ("1", "c1", "n1"),
            ("404",),
            ("2", "no"),
        ]
    else:
        tops = entities.children(())
        known = [*tops, *(child for top in tops for child in entities.children(top))]
        known += [leaf for top in tops for leaf in entities.leaves(top)]
    return dice.sample(list(dict.fromkeys(known)), dice.randint(1, 4))


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, repeats(10, 100)))]
)
def test_counts_are_those_of_counting_row_by_row(tmp_path, seed):
    dice = random.Random(seed)
    zone, reach = dice.choice([*CLOCKS]), dice.choice([*ENTITIES])
    time = dice.choice(["moment", "aware", "day"])
    levels = ("day", "month") if time == "day" else dice.choice([("3h", "day"), ("1h", "6h", "day", "week")])
    columns = dice.choice([[None], ["n"], ["n", "m"]])
    cap = dice.choice([None, None, 1, 4, 20])
    data = rows(dice, zone)
    every = [(dice.choice(columns), dice.choice(FILTERS)) for _ in range(dice.randint(1, 3))]
    kinds = ['count = "rows"' if column is None else f'sum = "{column}"' for column, _ in every]
    world = new_adverts(
        tmp_path / "world",
        "SELECT 1",
        entities=ENTITIES[reach],
        levels=json.dumps(levels),
        zone=zone,
        attributes="\n" + "\n".join(
            f"{name} = {{ domain = {listed}{SEVERAL.get(name, '')} }}"
            for name, (listed, _) in DOMAINS.items()
        ),
        statistics="\n"
        + "\n".join(f"s{at} = {{ {kind}, where = {every[at][1][0]} }}" for at, kind in enumerate(kinds)),
        report="" if cap is None else f"max_events_per_unit = {cap}",
    )  # fmt: skip
    world.path.write_text(world.path.read_text().replace('time = "at"', f'time = "{time}"'))
    filled(world.database, data)
    config = load_config(world.path)
    catalog = Catalog(config)
    try:
        policy = report_policies(config, catalog)["ads"]
        entities = read_entities(policy, catalog)
        for _ in range(6):
            attribute = dice.choice([None, *DOMAINS])
            paths, spans = paths_of(dice, reach, entities), spans_of(dice, policy.calendar, zone)
            asked = sorted(dice.sample(range(len(every)), dice.randint(1, len(every))))
            found = exact_counts(
                catalog.engine("ads"), policy, attribute, [f"s{at}" for at in asked], paths, spans, entities
            )
            passing = [(column, passes) for column, (_, passes) in every]
            told = counted(
                data, reach, time, [passing[at] for at in asked], attribute, paths, spans, policy.calendar, cap, passing
            )
            assert found.tolist() == told.tolist(), (reach, time, zone, attribute, paths, cap)
    finally:
        catalog.close()


# -- entities at their edges --


def opened(world: Adverts, name: str = "ads") -> tuple[Catalog, ReportPolicy, Entities]:
    config = load_config(world.path)
    catalog = Catalog(config)
    policy = report_policies(config, catalog)[name]
    return catalog, policy, read_entities(policy, catalog)


def alone_and_together(world: Adverts, paths: Sequence[tuple[str, ...]]) -> tuple[list[int], list[int]]:
    """The counts of one day, each entity counted by itself, and all in one query."""
    catalog, policy, entities = opened(world)
    start = policy.calendar.instant("start", "2026-01-10")
    spans = [Span("day", start, start + timedelta(days=1))]

    def count(some: Sequence[tuple[str, ...]]) -> list[int]:
        return exact_counts(catalog.engine("ads"), policy, None, ["clicks"], some, spans, entities).ravel().tolist()

    try:
        return [count([path])[0] for path in paths], count(paths)
    finally:
        catalog.close()


CLICKS: dict[str, str] = {"attributes": "", "statistics": '\nclicks = { count = "rows" }'}


def clicked(**columns: str) -> str:
    """A table of 100 clicks, whose columns are these expressions of `i`."""
    made = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    moment = "TIMESTAMP '2026-01-10' + to_minutes(i::INTEGER)"
    return f"CREATE TABLE ads AS SELECT i AS member, {moment} AS at, {made} FROM range(100) AS numbers (i)"


def listed(*paths: tuple[str | None, ...]) -> str:
    values = ", ".join(str(path) for path in paths).replace("None", "NULL")
    return f"CREATE TABLE creatives AS SELECT * FROM (VALUES {values}) AS rows (account, campaign, creative)"


def test_numbers_name_entities_as_text_does(tmp_path):
    world = new_adverts(tmp_path, clicked(account="i % 3 - 1"), entities='["account"]', **CLICKS)
    alone, together = alone_and_together(world, [("-1",), ("0",), ("1",), ("2",), ("404",)])
    assert alone == together == [34, 33, 33, 0, 0]


@pytest.mark.parametrize("name", ["01", "0001", "-01"])
def test_an_entity_has_one_spelling(tmp_path, name):
    """Otherwise whoever spells it in many ways has many noises of the same rows, and averages them."""
    world = new_adverts(tmp_path, clicked(account="i % 3 - 1"), entities='["account"]', **CLICKS)
    with world.open() as session:
        plain = ask(session, entity={"account": str(int(name))}, end="2026-01-11")
        try:
            other = ask(session, entity={"account": name}, end="2026-01-11")
        except Refused:
            return
        assert other.rows == plain.rows
        assert other.receipt.repeat
        assert Seals(session.ledger).standing("ads")[0] == 1


def test_an_entity_without_leaves_has_no_events(tmp_path):
    """An event of a creative that is not listed is nobody's: otherwise it would count for all of these."""
    paths = ("a0", "c0", "n0"), ("a1", None, None), ("a2", "c2", None)
    world = new_adverts(tmp_path, listed(*paths), clicked(creative="CASE WHEN i < 90 THEN '' ELSE 'n0' END"), **CLICKS)
    alone, _ = alone_and_together(world, [("a0",), ("a1",), ("a2",), ("a2", "c2")])
    assert alone == [10, 0, 0, 0]


def test_an_empty_name_names_nothing(tmp_path):
    """As NULL does: the events without a campaign are those of the account alone."""
    world = new_adverts(
        tmp_path,
        listed(("a0", "", "-"), ("a0", "c1", "-")),
        clicked(account="'a0'", campaign="CASE WHEN i < 40 THEN '' ELSE 'c1' END"),
        entities='{ levels = ["account", "campaign"], table = "creatives" }',
        **CLICKS,
    )
    alone, together = alone_and_together(world, [("a0",), ("a0", "c1")])
    assert alone == together == [100, 60]
    with world.open() as session, pytest.raises(NotFound, match="there is no campaign '' that you may ask about"):
        ask(session, entity={"account": "a0", "campaign": ""})


def test_rows_of_any_size_add_up_exactly_up_to_a_limit_for_each(tmp_path):
    world = new_adverts(
        tmp_path,
        listed(("a0", "c0", "n0")),
        clicked(creative="'n0'", n=f"CASE i WHEN 0 THEN -5 WHEN 1 THEN NULL WHEN 2 THEN {2**100}::HUGEINT ELSE i END"),
        attributes="",
        statistics='\nclicks = { sum = "n" }',
    )
    assert alone_and_together(world, [("a0",), ("a0", "c0")])[0] == [MAX_ROW_VALUE + sum(range(3, 100))] * 2
