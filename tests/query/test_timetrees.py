"""Ranges of time as trees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.query.reports.calendar import Calendar, Span
from sfumato.query.reports.timetrees import TimeTree, time_trees

LEVELS = [
    ("day", "month"),
    ("day", "week"),
    ("12h", "day", "month", "quarter", "year"),
    ("day", "month", "year"),
    ("week",),
    ("3h", "month"),
]
ZONES = ["UTC", "America/New_York", "Pacific/Apia", "Africa/Monrovia"]


def day(text: str, calendar: Calendar) -> datetime:
    return calendar.instant("day", text)


def roots(trees: tuple[TimeTree, ...], calendar: Calendar) -> list[str]:
    return [f"{tree.spans[0].level} {calendar.wall(tree.spans[0].start).date()}" for tree in trees]


def test_a_month_that_is_over_has_its_days_and_an_open_one_has_none():
    calendar = Calendar(("day", "month"), "Europe/Berlin")
    found = time_trees(calendar, *(day(text, calendar) for text in ("2026-10-28", "2026-11-03", "2026-11-05")))
    assert roots(found, calendar) == ["month 2026-10-01", "day 2026-11-01", "day 2026-11-02"]
    assert [len(tree.tree) for tree in found] == [32, 1, 1]
    assert found[0].tree.parents == (-1, *[0] * 31)


@pytest.mark.parametrize(
    ("complete", "found"),
    [
        ("2026-05-20", ["quarter 2026-01-01", "month 2026-04-01"]),
        ("2026-07-01", ["quarter 2026-01-01", "quarter 2026-04-01"]),
        ("2027-01-01", ["year 2026-01-01"]),
    ],
)
def test_the_longest_range_that_is_over_is_the_root(complete, found):
    calendar = Calendar(("day", "month", "quarter", "year"), "UTC")
    trees = time_trees(calendar, *(day(text, calendar) for text in ("2026-03-30", "2026-05-01", complete)))
    assert roots(trees, calendar) == found


def test_a_range_of_two_levels_is_one_node():
    """On Samoa's calendar 30 December 2011 does not exist, so two days make up no more than one 2-day stretch of it."""
    calendar = Calendar(("12h", "day"), "Africa/Monrovia")  # its clock jumped 44 minutes on 7 January 1972
    start = day("1972-01-07", calendar)
    [tree] = time_trees(calendar, start, start + timedelta(hours=12), calendar.ceil(start + timedelta(hours=30)))[:1]
    ranges = [(span.start, span.end) for span in tree.spans]
    assert len(set(ranges)) == len(ranges)


@given(
    st.sampled_from(LEVELS),
    st.sampled_from(ZONES),
    st.datetimes(datetime(2010, 1, 1), datetime(2027, 1, 1)),
    st.tuples(*[st.integers(0, 400)] * 2),
)
def test_trees_hold_the_partition_and_only_what_is_over(levels, zone, moment, days):
    calendar = Calendar(levels, zone)
    start = calendar.floor(moment.replace(tzinfo=UTC))
    end = calendar.ceil(start + timedelta(days=1 + days[0]))
    complete = calendar.ceil(end + timedelta(days=days[1]))
    trees = time_trees(calendar, start, end, complete)
    nodes = {span for tree in trees for span in tree.spans}
    assert nodes >= {*calendar.partition(start, end)}
    assert trees[0].spans[0].start <= start
    assert trees[-1].spans[0].end >= end
    assert all(first.spans[0].end == then.spans[0].start for first, then in pairwise(trees))
    for tree in trees:
        assert all(span.end <= complete for span in tree.spans)
        tiles(tree)
        coarser = [calendar.span(tree.spans[0].start, level) for level in levels]
        assert max((span for span in coarser if span.end <= complete), key=length) == tree.spans[0]


def length(span: Span) -> tuple[timedelta, str]:
    return span.end - span.start, ""


def tiles(tree: TimeTree) -> None:
    """Children follow on one another, from where their parent begins to where it ends."""
    for place, span in enumerate(tree.spans):
        below = [tree.spans[at] for at, parent in enumerate(tree.tree.parents) if parent == place]
        if below:
            assert len(below) > 1
            assert (below[0].start, below[-1].end) == (span.start, span.end)
            assert all(first.end == then.start for first, then in pairwise(below))
