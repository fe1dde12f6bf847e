"""Every kind of query that questions and reports make, over rows that are chosen to hurt.

An engine keeps the port if it gives DuckDB's rows for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

from sqlglot import exp

from sfumato.errors import NotSupported
from sfumato.query.abilities import Abilities
from sfumato.query.counting import count_query
from sfumato.query.measuring import measure_query
from sfumato.query.plan import plan
from sfumato.query.policy import Bounds, Column, Measure, Policy, Prices, TablePolicy, ValueMeasure
from sfumato.query.predicate import AllOf, AnyOf, Cut, In, Predicate, Values
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.counting import ReportCounting, segment_query
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic
from sfumato.query.request import Histogram, Request, TopK, Total
from tests.helpers.repeats import EXHAUSTIVE, repeats

TABLE = "events"
PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
LIMIT = 4
"""Rows that a list looks at. More groups than this have the same size, so ties are decided by the key."""

HURTFUL: Mapping[str, str] = {
    "unit": "integer",
    "word": "text",
    "region": "text",
    "n": "integer",
    "x": "number",
    "flag": "boolean",
    "day": "date",
    "at": "timestamp",
}

WORDS = (
    *("a", "A", "b", "B", "ä", "e\u0301", "é", "ß", "ss", "日本", "\ue000", "\uffff", "😀", "it's", '"', "a\\", "\\"),
    *("two\nlines", "%", "_", "'; DROP TABLE events; --", "NULL", "", " a", "a ", "a\0b"),
)
REGIONS = ("emea", "apac", "amer")
DAYS = (
    date(1930, 1, 1),
    date(1969, 12, 31),
    date(1970, 1, 1),
    date(2024, 2, 29),
    date(2026, 3, 29),
    date(9998, 12, 31),
    date(9999, 12, 31),
)
FINITE = (0.0, -0.0, 1.5, -2.25, 0.1, 1e15)
NUMBERS = (*FINITE, math.nan, math.inf, -math.inf)
WIDE = (0, 1, -1, 2**62, -(2**62), 2**53 + 1, 7)
EDGE = datetime(2026, 3, 29)  # on this day clocks in Berlin go forward, at 1:00 in UTC
MOMENTS = tuple(
    EDGE + timedelta(hours=hour, microseconds=shift)
    for hour in (-25, -1, 0, 1, 2, 23, 24)
    for shift in (-500_000, -1, 0, 1)
)


def hurtful_rows(words: tuple[str, ...] = WORDS, numbers: tuple[float, ...] = NUMBERS) -> list[tuple[Any, ...]]:
    """A person has up to thirteen rows; every column has NULLs; a person has 1,100 rows of the largest number."""
    rows: list[tuple[Any, ...]] = []
    for i in range(420):
        values = (
            i % 37,
            words[(i * 5 + i // 37) % len(words)],
            REGIONS[i % 3],
            WIDE[i % len(WIDE)],
            numbers[i % len(numbers)],
            i % 5 == 0,
            DAYS[i % len(DAYS)],
            MOMENTS[i % len(MOMENTS)],
        )
        rows.append(tuple(None if (i + 3 * place) % 29 == 0 else value for place, value in enumerate(values)))
    rows += [(1000, "heavy", "emea", 2**62, 1.0, True, DAYS[3], MOMENTS[9])] * 1100
    return rows


COLUMNS = {
    "word": Column("word", max_groups=2),
    "region": Column("region", domain=REGIONS, max_groups=2),
    "n": Column("n", type="integer"),
    "x": Column("x", type="number"),
    "flag": Column("flag", type="boolean", max_groups=1, guaranteed=True),
    "day": Column("day", type="date"),
    "at": Column("at", type="timestamp"),
}
MEASURES = {
    "people": Measure("people"),
    "rows": Measure("rows", "rows", max_per_unit=3),
    "total": Measure("total", "sum", "n", max_per_unit=50),
}

NUMBERS_OF_GROUPS = {
    name: ValueMeasure(name, function, column, bounds, Fraction(1, 3))
    for column, bounds in (
        ("x", Bounds(Fraction(-2), Fraction(3), Fraction(1, 4), 2)),
        ("n", Bounds(Fraction(-3), Fraction(1000), Fraction(1), 1)),
    )
    for function in ("mean", "variance", "quantile")
    for name in [f"{function} of {column}"]
}
BOUNDED_SUM = Measure("SUM(x)", "sum", "x", 24, Bounds(Fraction(-2), Fraction(3), Fraction(1, 4), 2))

FILTERS: dict[str, Any] = {
    "nothing": {"and": [{"region": "emea"}, {"region": "apac"}]},
    "text": {"word": "a\\"},
    "text in": {"word": ["it's", "😀", "'; DROP TABLE events; --", ""]},
    "text not in": {"not": {"word": ["a", "B"]}},
    "text range": {"word": {"between": ["A", "ss"]}},
    "text above": {"word": {"gt": "\ue000"}},
    "text not": {"word": {"ne": "a"}},
    "integer": {"n": {"ge": 2**53 + 1}},
    "integer below": {"n": {"lt": 0}},
    "number": {"x": {"le": 0}},
    "number above": {"x": {"gt": 0}},
    "number in": {"x": [0, Fraction(1, 10)]},
    "number not": {"x": {"ne": Fraction(3, 2)}},
    "number not in": {"not": {"x": [0, Fraction(1, 10)]}},
    "number not above": {"not": {"x": {"gt": Fraction(1, 10)}}},
    "number between": {"x": {"between": [-3, 10**16]}},
    "flag": {"flag": True},
    "flag not": {"flag": {"ne": True}},
    "day": {"day": {"between": ["1930-01-01", "1970-01-01"]}},
    "day last": {"day": "9998-12-31"},
    "moment": {"at": {"lt": (EDGE - timedelta(microseconds=1)).isoformat(sep=" ")}},
    "moment in": {"at": [MOMENTS[0].isoformat(sep=" "), MOMENTS[5].isoformat(sep=" ")]},
    "both": {"and": [{"word": {"ne": "a"}}, {"or": [{"n": {"gt": 5}}, {"flag": False}]}]},
    "either": {"or": [{"x": {"gt": 0}}, {"at": {"ge": EDGE.isoformat(sep=" ")}}]},
}


def question_trees(abilities: Abilities) -> Iterator[tuple[str, exp.Query]]:
    """Queries of questions, each once, by name, as far as an engine with these abilities is asked them.

    What is written of a filter does not depend on what is counted: each filter is in one query, in turn of each kind,
    and in all three in an exhaustive run.
    """
    seen = set[exp.Query]()
    requests: dict[str, Request] = {}
    for measure in MEASURES:
        requests[f"total {measure}"] = Total(TABLE, measure)
        requests[f"groups {measure}"] = Histogram(TABLE, "word", measure)
        requests[f"domain {measure}"] = Histogram(TABLE, "region", measure)
        requests[f"two columns {measure}"] = TopK(TABLE, ["word", "day"], measure, k=3)
    for column in COLUMNS:
        requests[f"top {column}"] = TopK(TABLE, column, "people", k=3)
        requests[f"top rows {column}"] = TopK(TABLE, column, "rows", k=3)
    for place, (name, where) in enumerate(FILTERS.items()):
        kinds: dict[str, Request] = {
            f"where {name}": Total(TABLE, "people", where=where),
            f"people where {name}": Histogram(TABLE, "word", "people", where=where),
            f"rows where {name}": Histogram(TABLE, "region", "rows", where=where),
        }
        requests |= repeats(dict([[*kinds.items()][place % 3]]), kinds)
    columns = {
        name: replace(each, guaranteed=each.guaranteed or not abilities.nested) for name, each in COLUMNS.items()
    }
    table = TablePolicy(TABLE, "unit", columns, MEASURES, max_k=3, limit=LIMIT, abilities=abilities)
    for name, request in requests.items():
        try:
            query = plan(request, Policy({TABLE: table}), PRICES).query
        except NotSupported:
            continue
        if query not in seen:
            seen.add(query)
            yield name, query
    yield from measure_trees(abilities)


def measure_trees(abilities: Abilities) -> Iterator[tuple[str, exp.Query]]:
    """Queries of measures of values, by name, if an engine with these abilities is asked them."""
    if not abilities.values:
        return
    table = TablePolicy(TABLE, "unit", COLUMNS, MEASURES, abilities=abilities)
    for by in (None, "word", "region", "flag"):
        request: Request = Total(TABLE, "rows") if by is None else Histogram(TABLE, by, "rows")
        counting = replace(plan(request, Policy({TABLE: table}), PRICES).counting, limit=None)
        for name, measure in NUMBERS_OF_GROUPS.items():
            yield f"{name} by {by}", measure_query(counting, measure)
        yield f"sum by {by}", count_query(replace(counting, measure=BOUNDED_SUM))


CLICKS = In("flag", Values.of(True))
EARLY = AllOf((In("word", Values.of("a", "b", "heavy", "é")), In("n", Values.between(Cut(-5, -1), Cut(2**62, 1)))))


def report(time: str, calendar: Calendar, statistics: Mapping[str, ReportStatistic], cap: int | None) -> ReportPolicy:
    return ReportPolicy(
        name="ads",
        table=TABLE,
        time=time,
        calendar=calendar,
        statistics=statistics,
        attributes={"region": Attribute("region", "text", REGIONS)},
        levels=("word",),
        types={"at": "timestamp", "day": "date", "word": "text", "region": "text"},
        unit="unit",
        cap=cap,
    )


def report_trees(abilities: Abilities) -> Iterator[tuple[str, exp.Query]]:
    """Queries of reports, by name: hours of a day on which clocks change, months, days; caps and sums."""
    epsilon = {"hour": Fraction(1), "day": Fraction(1), "month": Fraction(1)}
    events: dict[str, Predicate] = {"all": AllOf(()), "clicks": CLICKS, "early": AnyOf((CLICKS, EARLY))}
    counted = {name: ReportStatistic(name, epsilon, where=where) for name, where in events.items()}
    summed = {"spent": ReportStatistic("spent", epsilon, "n"), "some": ReportStatistic("some", epsilon, "n", CLICKS)}
    berlin, utc = Calendar(("hour", "day", "month"), "Europe/Berlin"), Calendar(("hour", "day"), "UTC")
    start = datetime(2026, 3, 27, 23, tzinfo=UTC)
    hours = [start + timedelta(hours=hour) for hour in range(60)]
    days = [datetime(2026, 3, day, 23 if day < 29 else 22, tzinfo=UTC) for day in range(26, 32)]
    months = [datetime(2026, month, 1, tzinfo=UTC) for month in (2, 3, 4, 5)]
    for cap in (None, 3):
        if cap is not None and abilities.cap_problem():
            continue
        for name, statistics in (("events", counted), ("sums", summed)):
            for zone, calendar, edges in (("hours", utc, hours), ("days", berlin, days), ("months", utc, months)):
                policy = report("at", calendar, statistics, cap)
                yield from _segments(f"{name} by {zone}, cap {cap}", policy, tuple(edges), abilities)
            edges = (*(datetime(1930, 1, day, tzinfo=UTC) for day in (1, 2, 3)), datetime(2026, 3, 30, tzinfo=UTC))
            policy = report("day", Calendar(("day", "month"), "UTC"), statistics, cap)
            yield from _segments(f"{name} by date, cap {cap}", policy, edges, abilities)


def _segments(
    name: str, policy: ReportPolicy, edges: tuple[datetime, ...], abilities: Abilities
) -> Iterator[tuple[str, exp.Query]]:
    every = tuple(policy.statistics.values())
    together = [every] if abilities.conditional_sums else [(each,) for each in every]
    for place, statistics in enumerate((*together, every[-1:])):
        label = f"{name}: {', '.join(each.name for each in statistics)}"
        yield f"{label} by region", segment_query(ReportCounting(policy, statistics, "region", edges, by=("word",)))
        if EXHAUSTIVE or (policy.cap is None and place < len(together)):
            # What is written after these does not depend on a cap, or on how many statistics there are.
            yield label, segment_query(ReportCounting(policy, statistics, None, edges))
            yield (
                f"{label} of a",
                segment_query(ReportCounting(policy, statistics, "region", edges, In("word", Values.of("a")))),
            )
