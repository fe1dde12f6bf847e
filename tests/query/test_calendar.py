"""The time grid of reports: what a range is made of, on every clock."""

from __future__ import annotations

import math
import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from functools import cache
from itertools import pairwise, product
from zoneinfo import ZoneInfo, available_timezones

import numpy
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.query.reports.calendar import LEVELS, Calendar, Span
from tests.helpers.repeats import repeats

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
PAPER = ("3h", "day", "month", "quarter", "year")

# Where clocks were put forward or back, and by how much: (zone, a day before the change).
CHANGES = [
    ("Europe/Berlin", "2026-03-28"),
    ("Europe/Berlin", "2026-10-24"),
    ("America/New_York", "2026-03-07"),
    ("America/New_York", "2026-10-31"),
    ("Australia/Lord_Howe", "2026-04-04"),  # half an hour
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Pacific/Apia", "2011-12-28"),  # a day that was left out
    ("America/Havana", "2026-03-07"),  # at midnight
    ("America/Havana", "2026-10-31"),
    ("Asia/Beirut", "2026-03-28"),
    ("Asia/Beirut", "2026-10-24"),
    ("America/St_Johns", "2010-11-06"),  # a minute after midnight
    ("Pacific/Kwajalein", "1969-09-29"),  # 23 hours back
    ("Pacific/Kwajalein", "1993-08-20"),
    ("Asia/Kolkata", "2026-03-28"),  # none, but half an hour off the others
    ("Asia/Kathmandu", "2026-03-28"),
]
HIERARCHIES = [PAPER, ("1h", "2h", "6h", "12h", "day", "week"), ("4h", "8h", "day", "year"), ("12h",), ("day", "month")]


def at(calendar: Calendar, text: str) -> datetime:
    return calendar.instant("moment", text)


def walls(calendar: Calendar, moments) -> list[str]:
    return [calendar.wall(moment).isoformat(" ", "minutes") for moment in moments]


def levels(calendar: Calendar, start: str, end: str) -> list[str]:
    return [span.level for span in calendar.partition(at(calendar, start), at(calendar, end))]


# The partition


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata"])
@pytest.mark.parametrize("year", [2018, 2024])
def test_the_example_of_the_paper(zone, year):
    calendar = Calendar(PAPER, zone)
    spans = calendar.partition(at(calendar, f"{year}-03-31T21:00"), at(calendar, f"{year}-08-02T03:00"))
    assert [span.level for span in spans] == ["3h", "quarter", "month", "day", "3h"]
    assert walls(calendar, [span.start for span in spans]) == [
        f"{year}-03-31 21:00",
        f"{year}-04-01 00:00",
        f"{year}-07-01 00:00",
        f"{year}-08-01 00:00",
        f"{year}-08-02 00:00",
    ]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ("2024-02-28", "2024-03-01", ["day"] * 2),
        ("2023-02-28", "2023-03-01", ["day"]),
        ("2024-02-01", "2024-03-01", ["month"]),
        ("2024-02-02", "2024-03-01", ["day"] * 28),
        ("2024-02-01", "2024-02-29", ["day"] * 28),
        ("2000-02-29", "2000-03-01", ["day"]),
        ("2100-02-28", "2100-03-01", ["day"]),
        ("2024-01-01", "2025-01-01", ["year"]),
        ("2023-12-01", "2025-02-01", ["month", "year", "month"]),
        ("2024-02-01", "2025-01-01", ["month", "month", "quarter", "quarter", "quarter"]),
        ("2024-03-31", "2024-07-02", ["day", "quarter", "day"]),
        ("2024-12-31T21:00", "2025-01-01T03:00", ["3h", "3h"]),
        ("2024-05-05", "2024-05-05", []),
    ],
)
def test_days_months_quarters_and_years(start, end, found):
    assert levels(Calendar(PAPER, "Europe/Berlin"), start, end) == found


def test_weeks_begin_on_monday():
    calendar = Calendar(("day", "week"), "Europe/Berlin")
    assert at(calendar, "2026-11-16").astimezone(ZoneInfo("Europe/Berlin")).weekday() == 0
    assert levels(calendar, "2026-11-15", "2026-12-01") == ["day", "week", "week", "day"]
    assert levels(calendar, "2026-03-23", "2026-03-30") == ["week"]  # an hour short
    for day in range(15, 30):
        assert calendar.wall(calendar.floor(at(calendar, f"2026-11-{day}T12:00"), "week")).weekday() == 0
    assert levels(calendar, "2024-12-30", "2025-01-06") == ["week"]  # over the end of a year


def test_a_span_is_a_plain_value():
    calendar = Calendar(("day",), "UTC")
    [span] = calendar.partition(at(calendar, "2026-01-01"), at(calendar, "2026-01-02"))
    assert span == Span("day", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))
    assert span.start.tzinfo is UTC
    assert span < Span("day", span.end, span.end + DAY)
    assert pickle.loads(pickle.dumps(span)) == span  # noqa: S301


def test_ranges_off_the_grid_have_no_partition():
    calendar = Calendar(("3h", "day"), "Europe/Berlin")
    with pytest.raises(InvalidArgument, match=r"^start: .*3h begins in Europe/Berlin: 2026-11-15 00:00 or .* 03:00$"):
        calendar.partition(at(calendar, "2026-11-15T01:00"), at(calendar, "2026-11-16"))
    with pytest.raises(InvalidArgument, match=r"^end: .*: 2026-11-16 21:00 or 2026-11-17 00:00$"):
        calendar.partition(at(calendar, "2026-11-15"), at(calendar, "2026-11-16T23:59:59.999999"))
    for method in (calendar.partition, calendar.nearest_ranges, calendar.ends):
        with pytest.raises(InvalidArgument, match=r"^end: must not lie before start$"):
            method(at(calendar, "2026-11-16"), at(calendar, "2026-11-15"))


# Clocks that change


def hours(calendar: Calendar, day: str, level: str) -> list[float]:
    """How long the ranges of a day are."""
    start, end = at(calendar, day), calendar.ceil(at(calendar, day) + timedelta.resolution, "day")
    return [(high - low) / HOUR for low, high in calendar.steps(start, end, level)]


@pytest.mark.parametrize(
    ("zone", "day", "length", "begins"),
    [
        ("Europe/Berlin", "2026-03-29", 23, "00:00"),
        ("Europe/Berlin", "2026-10-25", 25, "00:00"),
        ("America/New_York", "2026-03-08", 23, "00:00"),
        ("America/New_York", "2026-11-01", 25, "00:00"),
        ("Australia/Lord_Howe", "2026-10-04", 23.5, "00:00"),
        ("Australia/Lord_Howe", "2026-04-05", 24.5, "00:00"),
        ("America/Havana", "2026-03-08", 23, "01:00"),
        ("America/Havana", "2026-11-01", 25, "00:00"),
        ("Asia/Beirut", "2026-03-29", 23, "01:00"),
        ("Asia/Beirut", "2026-10-24", 25, "00:00"),
        ("America/St_Johns", "2010-11-07", 25, "00:00"),
        ("Pacific/Kwajalein", "1969-09-30", 47, "00:00"),
        ("Asia/Kolkata", "2026-03-29", 24, "00:00"),
    ],
)
def test_days_on_which_a_clock_changes(zone, day, length, begins):
    calendar = Calendar(("1h", "day"), zone)
    assert hours(calendar, day, "day") == [length]
    assert walls(calendar, [at(calendar, day)]) == [f"{day} {begins}"]
    assert math.isclose(sum(hours(calendar, day, "1h")), length)


def test_hours_on_which_a_clock_changes():
    berlin, lord_howe = Calendar(("1h", "3h", "day"), "Europe/Berlin"), Calendar(("1h", "day"), "Australia/Lord_Howe")
    assert hours(berlin, "2026-03-29", "1h") == [1] * 23
    assert hours(berlin, "2026-03-29", "3h") == [2] + [3] * 7
    assert hours(berlin, "2026-10-25", "1h") == [1, 1, 2] + [1] * 21
    assert hours(berlin, "2026-10-25", "3h") == [4] + [3] * 7
    assert hours(lord_howe, "2026-10-04", "1h") == [1, 1, 0.5] + [1] * 21
    assert hours(lord_howe, "2026-04-05", "1h") == [1, 1.5] + [1] * 22


def test_a_day_that_was_left_out_does_not_exist():
    calendar = Calendar(("day", "month", "year"), "Pacific/Apia")
    ends = calendar.ends(at(calendar, "2011-12-28"), at(calendar, "2012-01-02"))
    assert walls(calendar, ends) == ["2011-12-29 00:00", "2011-12-31 00:00", "2012-01-01 00:00", "2012-01-02 00:00"]
    assert at(calendar, "2011-12-30") == at(calendar, "2011-12-30T15:00") == at(calendar, "2011-12-31")
    assert calendar.partition(at(calendar, "2011-12-30"), at(calendar, "2011-12-31")) == ()
    assert levels(calendar, "2011-12-01", "2012-01-01") == ["month"]
    assert levels(calendar, "2011-12-02", "2012-01-01") == ["day"] * 29


def test_wall_times_that_come_twice_or_never():
    calendar = Calendar(("1h",), "Europe/Berlin")
    assert at(calendar, "2026-10-25T02:30") == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert calendar.instant("start", datetime(2026, 10, 25, 2, 30, fold=1)) == at(calendar, "2026-10-25T02:30")
    assert at(calendar, "2026-10-25T02:30+01:00") == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    moment_of_change = datetime(2026, 3, 29, 1, tzinfo=UTC)
    for text in ("2026-03-29T02:00", "2026-03-29T02:59:59.999999", "2026-03-29 02:00:00.000001", "2026-03-29T03:00"):
        assert at(calendar, text) == moment_of_change


def test_a_boundary_that_passed_is_not_undone():
    """One minute into 7 November St. John's went back to 23:01: that hour belongs to the 7th, which had begun."""
    calendar = Calendar(("1h", "day"), "America/St_Johns")
    again = datetime(2010, 11, 7, 3, 0, tzinfo=UTC)
    assert calendar.wall(again) == datetime(2010, 11, 6, 23, 30)
    assert calendar.floor(again, "day") == at(calendar, "2010-11-07")
    assert calendar.floor(again) == at(calendar, "2010-11-07T00:00")
    assert calendar.ceil(again) == at(calendar, "2010-11-07T01:00")


def test_one_range_of_two_levels_is_the_coarser_one():
    """On 29 March the range from 02:00 to 04:00 is the hour from 03:00 to 04:00."""
    calendar = Calendar(("1h", "2h"), "Europe/Berlin")
    assert levels(calendar, "2026-03-29T03:00", "2026-03-29T04:00") == ["2h"]
    assert levels(calendar, "2026-03-29T01:00", "2026-03-29T05:00") == ["1h", "2h", "1h"]


def scanned(calendar: Calendar, start: datetime, end: datetime, length: timedelta) -> list[datetime]:
    """The boundaries in (start, end] by definition: when the highest clock so far enters another range of a length."""
    found, moment, before = [], start - 2 * DAY, None
    highest = calendar.wall(moment)
    while moment <= end:
        highest = max(highest, calendar.wall(moment))
        cell = (highest - datetime.min) // length
        if moment > start and cell != before:
            found.append(moment)
        moment, before = moment + MINUTE, cell
    return found


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize(("level", "length"), [("1h", HOUR), ("3h", 3 * HOUR), ("day", DAY)])
def test_boundaries_are_where_the_clock_first_shows_them(zone, day, level, length):
    calendar = Calendar((level,), zone)
    start = at(calendar, day)
    assert list(calendar.ends(start, start + 3 * DAY)) == scanned(calendar, start, start + 3 * DAY, length)


def transitions(zone: str) -> list[datetime]:
    """Where the zone's offset changes, from 1900 to 2040, but for changes of a few days."""
    clock, found = ZoneInfo(zone), []
    moments = [datetime(1900, 1, 5, tzinfo=UTC) + 7 * DAY * n for n in range(7300)]
    for low, high in pairwise(moments):
        before = low.astimezone(clock).utcoffset()
        if high.astimezone(clock).utcoffset() == before:
            continue
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) // 2
            low, high = (middle, high) if middle.astimezone(clock).utcoffset() == before else (low, middle)
        found.append(high)
    return found


def zones() -> list[str]:
    some = sorted(available_timezones() - {"localtime"})[:: repeats(24, 3)]
    return sorted({*some, *(zone for zone, _ in CHANGES), "Europe/Dublin", "Africa/Casablanca", "America/Caracas"})


@pytest.mark.slow
@pytest.mark.parametrize("zone", zones())
def test_boundaries_never_run_backwards(zone):
    calendar = Calendar(("1h", "day"), zone)
    for change in transitions(zone):
        moments = [change + HOUR * n / 2 for n in range(-3, 4)]
        for level in calendar.levels:
            low, high = ([one(moment, level) for moment in moments] for one in (calendar.floor, calendar.ceil))
            assert low == sorted(low)
            assert high == sorted(high)
            assert all(a <= moment <= b for a, moment, b in zip(low, moments, high, strict=True))
        ends = calendar.ends(moments[0], moments[-1])
        assert all(a < b for a, b in pairwise(ends))
        assert all(calendar.wall(a) < calendar.wall(b) for a, b in pairwise(ends))
        assert all(calendar.instant("wall", calendar.wall(end)) == end for end in ends)


# Properties


@st.composite
def ranges(draw, most: int = 40):
    """A calendar and a range on its grid, where clocks change or years end as often as not."""
    zone, day = draw(st.sampled_from([*CHANGES, ("UTC", "2023-12-30"), ("Europe/Berlin", "2024-02-27")]))
    calendar = Calendar(draw(st.sampled_from(HIERARCHIES)), zone)
    start = calendar.floor(at(calendar, day) + HOUR * draw(st.integers(-24 * 40, 24 * 40)))
    longest = 20 * most if calendar.days else most  # days
    end = calendar.floor(start + HOUR * draw(st.integers(0, 24 * draw(st.sampled_from([2, longest])))))
    return calendar, start, end


@cache
def grid(calendar: Calendar, start: datetime, end: datetime) -> tuple[Span, ...]:
    """Every atomic range inside [start, end)."""
    cells = []
    for level in calendar.levels:
        edges = [calendar.ceil(start, level)]
        while edges[-1] < end:
            edges.append(calendar.ceil(edges[-1] + timedelta.resolution, level))
        cells += [Span(level, low, high) for low, high in pairwise(edges) if high <= end]
    return tuple(cells)


def fewest(calendar: Calendar, start: datetime, end: datetime) -> int:
    """The size of the smallest of all tilings, one boundary after another."""
    sizes = {start: 0}
    for cell in sorted(grid(calendar, start, end), key=lambda cell: (cell.end, cell.start)):
        if cell.start in sizes:
            sizes[cell.end] = min(sizes.get(cell.end, math.inf), sizes[cell.start] + 1)
    return sizes[end]


@given(ranges())
def test_a_partition_tiles_its_range_with_atomic_ranges(drawn):
    calendar, start, end = drawn
    spans = calendar.partition(start, end)
    assert [span.start for span in spans] + [end] == [start] + [span.end for span in spans]
    for span in spans:
        assert span.start < span.end
        assert calendar.floor(span.start, span.level) == span.start
        assert calendar.ceil(span.start + timedelta.resolution, span.level) == span.end


@given(ranges(most=12))
def test_no_tiling_has_fewer_ranges(drawn):
    calendar, start, end = drawn
    assert len(calendar.partition(start, end)) == fewest(calendar, start, end)


@given(ranges(most=2))
def test_a_partition_is_the_largest_atomic_ranges_inside(drawn):
    calendar, start, end = drawn
    cells = {(cell.start, cell.end): cell for cell in grid(calendar, start, end)}  # the coarsest level comes last
    largest = [
        cell
        for (low, high), cell in sorted(cells.items())
        if not any(a <= low and high <= b for a, b in cells if (a, b) != (low, high))
    ]
    assert list(calendar.partition(start, end)) == largest


@given(ranges(), st.data())
def test_every_split_is_a_union_of_grid_cells(drawn, data):
    calendar, start, end = drawn
    middle = data.draw(st.sampled_from([start, *calendar.ends(start, end)]))
    parts = calendar.partition(start, middle) + calendar.partition(middle, end)
    assert set(parts) <= set(grid(calendar, start, end))
    assert sum((span.end - span.start for span in parts), timedelta()) == end - start
    assert len(parts) >= len(calendar.partition(start, end))


@given(ranges())
def test_a_longer_range_repeats_the_ranges_of_a_shorter_one(drawn):
    calendar, start, end = drawn
    spans = calendar.partition(start, end)
    while spans:
        assert calendar.partition(start, spans[-1].start) == spans[:-1]
        spans = spans[:-1] if len(spans) < 5 else spans[: len(spans) // 2]


@given(ranges(), st.data())
def test_steps_cut_a_range_at_the_boundaries_of_a_level(drawn, data):
    calendar, start, end = drawn
    level = data.draw(st.sampled_from(calendar.levels))
    steps = calendar.steps(start, end, level)
    assert [low for low, _ in steps] + [end] == [start] + [high for _, high in steps]
    assert all(calendar.floor(low, level) == low for low, _ in steps[1:])
    assert all(calendar.ceil(low + timedelta.resolution, level) >= high for low, high in steps)
    assert calendar.steps(start, end, "all") == (((start, end),) if start < end else ())
    finest = calendar.steps(start, end, calendar.levels[0])
    assert tuple(high for _, high in finest) == calendar.ends(start, end)


@given(ranges(most=3), st.integers(0, 10**11), st.integers(0, 10**11))
@settings(max_examples=60)
def test_the_two_nearest_ranges(drawn, later, longer):
    calendar, start, end = drawn
    start += timedelta(microseconds=later)
    end = max(start, end + timedelta(microseconds=longer))
    edges = calendar.ends(start - 3 * DAY, end + 3 * DAY)
    all_ranges = [(low, high) for low, high in product(edges, edges) if low < high] if len(edges) < 120 else []
    found = calendar.nearest_ranges(start, end)
    far = [abs(low - start) + abs(high - end) for low, high in found]
    assert len(found) == 2
    assert all(low < high and calendar.fits(low) and calendar.fits(high) for low, high in found)
    assert far == sorted(far)
    if all_ranges:
        assert far == sorted(abs(low - start) + abs(high - end) for low, high in all_ranges)[:2]


def test_the_nearest_ranges_by_example():
    calendar = Calendar(("day", "month"), "Europe/Berlin")

    def fitting(start, end):
        return [
            tuple(walls(calendar, pair)) for pair in calendar.nearest_ranges(at(calendar, start), at(calendar, end))
        ]

    def days(*pairs):
        return [(f"2026-11-{a:02} 00:00", f"2026-11-{b:02} 00:00") for a, b in pairs]

    assert fitting("2026-11-02", "2026-11-10T15:00") == days((2, 11), (2, 10))
    assert fitting("2026-11-02T01:00", "2026-11-10T15:00") == days((2, 11), (2, 10))
    assert fitting("2026-11-02T08:00", "2026-11-02T09:00") == days((2, 3), (1, 2))
    assert fitting("2026-11-02", "2026-11-02") == days((1, 2), (2, 3))
    assert fitting("2026-11-02", "2026-11-04")[0] == days((2, 4))[0]


# Up to now


@pytest.mark.parametrize(
    ("now", "lag", "found"),
    [
        ("2026-11-15T09:00", timedelta(0), "2026-11-15 09:00"),
        ("2026-11-15T08:59:59", timedelta(0), "2026-11-15 06:00"),
        ("2026-11-15T09:00", HOUR, "2026-11-15 06:00"),
        ("2026-11-15T10:00", HOUR, "2026-11-15 09:00"),
        ("2026-11-15T09:30", 2 * DAY, "2026-11-13 09:00"),
        ("2026-10-25T02:30+01:00", HOUR, "2026-10-25 00:00"),  # 02:30 for the second time
        ("2026-03-29T03:00", timedelta(0), "2026-03-29 03:00"),
        ("2026-03-29T02:59", MINUTE, "2026-03-29 00:00"),
    ],
)
def test_what_is_complete_by_now(now, lag, found):
    calendar = Calendar(("3h", "day"), "Europe/Berlin")
    assert walls(calendar, [calendar.complete_until(at(calendar, now), lag)]) == [found]


@given(ranges(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_complete_is_the_last_boundary_that_is_old_enough(drawn, seconds, lag_seconds):
    calendar, start, _ = drawn
    now, lag = start + timedelta(seconds=seconds), timedelta(seconds=lag_seconds)
    last = calendar.complete_until(now, lag)
    assert calendar.fits(last)
    assert last + lag <= now < calendar.ceil(last + timedelta.resolution) + lag
    assert calendar.partition(last, last) == ()


# What can be said, and what cannot


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-15",
        "2026-11-15T00:00",
        "2026-11-15 00:00:00",
        "2026-11-15T00:00:00.000",
        "2026-11-15T00:00+01:00",
        "2026-11-15T00:00+01",
        "2026-11-14T23:00Z",
        "2026-11-14T18:00:00-0500",
        date(2026, 11, 15),
        datetime(2026, 11, 15),
        datetime(2026, 11, 14, 23, tzinfo=UTC),
        datetime(2026, 11, 15, 0, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(2026, 11, 15, 8, tzinfo=timezone(9 * HOUR)),
        pandas.Timestamp("2026-11-15"),
        pandas.Timestamp("2026-11-14 23:00", tz="UTC"),
    ],
)
def test_one_moment_in_many_spellings(value):
    found = Calendar(("day",), "Europe/Berlin").instant("start", value)
    assert found == datetime(2026, 11, 14, 23, tzinfo=UTC)
    assert type(found) is datetime
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "now",
        "2026",
        "2026-11",
        "2026-11-15T09",
        "2026-11-15x09:00",
        "2026-11-15T09:00 01:00",  # a plus sign that a URL lost
        "2026-11-15T09:00:00.0000001",
        " 2026-11-15",
        "2026-11-15\n",
        "\u0662\u0660\u0662\u0666-11-15",
        "20261115",
        "2026-W46-7",
        "15/11/2026",
        "nan",
        "NaT",
        "2026-11-15" * 1000,
        None,
        True,
        0,
        1763164800,
        1.5,
        math.nan,
        math.inf,
        b"2026-11-15",
        ["2026-11-15"],
        {"year": 2026},
        timedelta(days=1),
        pandas.NaT,
        numpy.datetime64("2026-11-15"),
    ],
)
def test_what_is_no_date(value):
    with pytest.raises(InvalidArgument, match=r"^start: must be a date such as '2026-11-15' or a date-time such as"):
        Calendar(("day",), "Europe/Berlin").instant("start", value)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("2026-02-30", "day"),
        ("2023-02-29", "day"),
        ("2026-13-01", "day"),
        ("0000-01-01", "day"),
        ("2026-02-30T25:00", "day"),
        ("2026-11-15T25:00", "time"),
        ("2026-11-15T09:61", "time"),
        ("2026-11-15T09:00+99:00", "time"),
    ],
)
def test_a_date_that_no_calendar_has(value, what):
    with pytest.raises(InvalidArgument) as error:
        Calendar(("day",), "Europe/Berlin").instant("start", value)
    assert str(error.value) == f"start: there is no such {what}: {value}"


EXTREMES = [
    "0001-01-01",
    "1899-12-31T23:59",
    "9999-01-01",
    "9999-12-31T23:59:59.999999",
    "0001-01-01T00:00+14:00",
    "9999-12-31T23:59-14:00",
    date.min,
    date.max,
    datetime.min,
    datetime.max,
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(14 * HOUR)),
    datetime.max.replace(tzinfo=timezone(-14 * HOUR)),
]


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("value", EXTREMES)
def test_years_that_are_too_far(zone, value):
    calendar = Calendar(("day",), zone)
    with pytest.raises(InvalidArgument, match=r"^end: must lie in the years 1900 to 9998$"):
        calendar.instant("end", value)
    if isinstance(value, datetime) and value.tzinfo:
        for method in (calendar.floor, calendar.ceil, calendar.fits):
            with pytest.raises(InvalidArgument, match=r"^moment: must lie in the years"):
                method(value)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Amsterdam"])
@pytest.mark.parametrize("level", LEVELS)
def test_the_first_and_the_last_year(zone, level):
    calendar = Calendar((level,), zone)
    for text in ("1900-01-01", "1900-01-01T00:00:01", "9998-12-31T23:59:59.999999"):
        moment = at(calendar, text)
        assert calendar.floor(moment) <= moment <= calendar.ceil(moment)
        assert calendar.nearest_ranges(moment, moment)
        assert calendar.partition(*calendar.nearest_ranges(at(calendar, "1900-01-02"), at(calendar, "1900-01-02"))[0])


def test_a_lag_that_is_too_long():
    calendar = Calendar(("day",), "UTC")
    now = at(calendar, "2026-11-15")
    with pytest.raises(InvalidArgument, match=r"^lag: must lie"):
        calendar.complete_until(now, timedelta.max)


@pytest.mark.parametrize("moment", [datetime(2026, 11, 15), date(2026, 11, 15), "2026-11-15", None, 0, pandas.NaT])
def test_a_moment_carries_a_zone(moment):
    calendar = Calendar(("day",), "UTC")
    with pytest.raises(InvalidArgument, match=r"^moment: must be a date-time that carries a time zone$"):
        calendar.floor(moment)
    with pytest.raises(InvalidArgument, match=r"^start: must be a date-time that carries"):
        calendar.partition(moment, moment)
    with pytest.raises(InvalidArgument, match=r"^now: must be a date-time that carries"):
        calendar.complete_until(moment, DAY)


@pytest.mark.parametrize("granularity", ["", "hour", "week", "All", None, 1, ["day"]])
def test_a_granularity_that_is_no_level(granularity):
    calendar = Calendar(("day", "month"), "UTC")
    now = at(calendar, "2026-11-15")
    with pytest.raises(InvalidArgument, match=r"^granularity: must be one of all, day, month"):
        calendar.steps(now, now, granularity)


def test_a_level_that_the_calendar_has_not():
    calendar = Calendar(("hour", "month"), "UTC")
    now = at(calendar, "2026-11-15T08:30")
    assert calendar.floor(now, "hour") == calendar.floor(now, "1h") == calendar.floor(now)
    with pytest.raises(InvalidArgument, match=r"^level: must be one of 1h, month; did you mean month"):
        calendar.ceil(now, "months")


# Calendars


def test_a_calendar_is_a_plain_value():
    calendar = Calendar(["hour", "day"], "Europe/Berlin")
    assert calendar == Calendar(("1h", "day"), "Europe/Berlin")
    assert calendar.levels == ("1h", "day")
    assert hash(calendar) == hash(Calendar(("1h", "day"), "Europe/Berlin"))
    assert calendar != Calendar(("1h", "day"), "Europe/Paris")
    assert repr(calendar) == "Calendar(levels=('1h', 'day'), zone='Europe/Berlin')"
    copy = pickle.loads(pickle.dumps(calendar))  # noqa: S301
    assert copy == calendar
    assert copy.wall(at(copy, "2026-11-15")) == datetime(2026, 11, 15)
    with pytest.raises(AttributeError):
        calendar.zone = "UTC"


@pytest.mark.parametrize("level", LEVELS)
def test_whether_dates_say_it_all(level):
    assert Calendar((level,), "UTC").days == (not level[0].isdigit())


@pytest.mark.parametrize(
    "known",
    [("day",), ("year",), PAPER, ("1h", "2h", "4h", "8h", "day", "week"), ("3h", "12h", "month"), ("6h", "week")],
)
def test_levels_that_nest(known):
    assert Calendar(known, "UTC").levels == known


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((), "must be a list of levels, finest first: 1h, 2h"),
        ("day", "must be a list of levels"),
        (None, "must be a list of levels"),
        ({"day"}, "must be a list of levels"),
        (("days",), "there is no level 'days'; .*; did you mean day?"),
        (("5h", "day"), "there is no level '5h'"),
        ((None,), "there is no level None"),
        ((3, "day"), "there is no level 3"),
        (([],), "there is no level"),
        (("day", "day"), "must not hold day twice"),
        (("1h", "hour"), "must not hold 1h twice"),
        (("month", "day"), "a day is not made of whole month ranges; write the finest first, or leave one out"),
        (("day", "week", "month"), "a month is not made of whole week ranges"),
        (("week", "quarter"), "a quarter is not"),
        (("week", "year"), "a year is not"),
        (("month", "week"), "a week is not"),
        (("2h", "3h"), "a 3h is not"),
        (("8h", "12h"), "a 12h is not"),
        (("day", "month", "day"), "a day is not"),
        (("quarter", "month"), "a month is not"),
    ],
)
def test_levels_that_do_not_nest(wrong, words):
    with pytest.raises(InvalidArgument, match=f"^levels: {words}"):
        Calendar(wrong, "UTC")


@pytest.mark.parametrize(
    "zone",
    [
        *("", "Europe", "Europe/Berln", "berlin", "../Europe/Berlin", "/etc/passwd", "\x00", "é", "\ud800", "x" * 5000),
        *("localtime", "posixrules", "right/Europe/Berlin", "posix/UTC", "+01:00", None, 1, b"UTC", UTC),
    ],
)
def test_what_is_no_zone(zone):
    with pytest.raises(InvalidArgument, match=r"^zone: must be the name of a time zone such as 'UTC' or 'Europe/Berli"):
        Calendar(("day",), zone)


def test_a_zone_that_was_probably_meant():
    with pytest.raises(InvalidArgument, match=r"did you mean America/New_York?"):
        Calendar(("day",), "America/NewYork")
