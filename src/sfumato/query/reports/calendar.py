"""The time grid of a report. Any range on it is made of one smallest set of atomic ranges.

Boundaries are wall times in a zone (every three hours, midnights, firsts of a month) mapped to instants. A wall time
that comes twice means its first instant. One that a clock jumps over means the moment of the jump. As instants they
never run backwards, in any zone. A range of no length (the hour or the day that was jumped over) does not exist.
Each level nests in the next, so an event lies in one range of each level. Only these ranges are ever counted.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise, product
from typing import TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from sfumato.errors import InvalidArgument, find_nearest

Range: TypeAlias = tuple[datetime, datetime]

ALL = "all"
FIRST_YEAR, LAST_YEAR = 1900, 9998

_HOURS = {"1h": 1, "2h": 2, "3h": 3, "4h": 4, "6h": 6, "8h": 8, "12h": 12, "day": 24, "week": 7 * 24}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
ALIASES = {"hour": "1h"}
LEVELS = (*_HOURS, *_MONTHS)
_YEARS = f"must lie in the years {FIRST_YEAR} to {LAST_YEAR}"
LAST_CLOCK = datetime(LAST_YEAR, 12, 31, tzinfo=UTC)
"""A clock that is later completes no more ranges that can be asked for."""

_ISO = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(:?[0-9]{2}(:[0-9]{2})?)?)?)?"
)
_LOCAL_ZONES = re.compile(r"(right|posix)/.*|localtime|posixrules")  # leap seconds, or another zone on each computer


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """An atomic range [start, end) of a level, as instants in UTC."""

    level: str
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Calendar:
    """The levels of a report's time, finest first, and the zone whose clocks they follow."""

    levels: tuple[str, ...]
    zone: str
    _clock: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _check_levels(self.levels))
        object.__setattr__(self, "_clock", _read_zone(self.zone))

    @property
    def days(self) -> bool:
        """Whether the finest level is a day or longer. Then dates are enough."""
        return _HOURS.get(self.levels[0], 24) >= 24

    def instant(self, argument: str, value: str | date | datetime) -> datetime:
        """The instant that a date or date-time means, in UTC. Without an offset it is wall time in the zone."""
        moment = _read_moment(argument, value)
        if moment.utcoffset() is not None:
            return self._utc(argument, moment)
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise InvalidArgument(argument, _YEARS)
        return self._utc(argument, _at(self._clock, moment))

    def wall(self, moment: datetime) -> datetime:
        """The time that the zone's clocks show, without a zone. No two boundaries show the same."""
        return _wall(self._clock, moment)

    def floor(self, moment: datetime, level: str | None = None) -> datetime:
        """The last boundary of the level (the finest, if none is named) that is not after `moment`."""
        return self._around(self._utc("moment", moment), self._level_or_finest(level))[0]

    def ceil(self, moment: datetime, level: str | None = None) -> datetime:
        """The first boundary of the level (the finest, if none is named) that is not before `moment`."""
        instant = self._utc("moment", moment)
        start, end = self._around(instant, self._level_or_finest(level))
        return start if start == instant else end

    def span(self, moment: datetime, level: str) -> Span:
        """The range of a level that holds `moment`."""
        return Span(level, *self._around(self._utc("moment", moment), self._level_or_finest(level)))

    def fits(self, moment: datetime) -> bool:
        """Whether `moment` is a boundary of the finest level."""
        return self.floor(moment) == moment

    def complete_until(self, now: datetime, lag: timedelta) -> datetime:
        """The last boundary of the finest level that lies `lag` or more before `now`: the end of what is complete."""
        try:
            return self.floor(self._utc("now", now) - lag)
        except OverflowError:
            raise InvalidArgument("lag", _YEARS) from None

    def nearest_ranges(self, start: datetime, end: datetime) -> tuple[Range, ...]:
        """The two ranges on the finest grid that are nearest to [start, end), the nearest first; none is empty."""
        start, end = self._check_order(start, end)
        ranges = [(low, high) for low, high in product(self._near(start), self._near(end)) if low < high]
        return tuple(sorted(ranges, key=lambda one: (abs(one[0] - start) + abs(one[1] - end), one))[:2])

    def partition(self, start: datetime, end: datetime) -> tuple[Span, ...]:
        """The smallest set of atomic ranges that make up [start, end), in order. Both ends must be on the grid.

        There is one such set. Where two levels have the same range, it is the coarser level's. Where one of its ranges
        begins, at p, the set for [start, p) is the part before p: a longer question repeats a shorter one's ranges.
        """
        start, end = self._check_order(start, end)
        for argument, moment in (("start", start), ("end", end)):
            low, high = self._around(moment, self.levels[0])
            if low != moment:
                place = f"must be where a range of {self.levels[0]} begins in {self.zone}"
                near = " or ".join(self.wall(edge).isoformat(" ", "minutes") for edge in (low, high))
                raise InvalidArgument(argument, f"{place}: {near}")
        spans: list[Span] = []
        while start < end:
            spans.append(self._longest(start, end))
            start = spans[-1].end
        return tuple(spans)

    def last(self, start: datetime, end: datetime) -> Span:
        """The last range of the partition of [start, end), without making the partition."""
        for level in reversed(self.levels):
            low, high = self._around(end - timedelta.resolution, level)
            if low >= start and high == end:
                return Span(level, low, high)
        raise InvalidArgument("end", "must lie after start, and on the grid")

    def rough_count(self, start: datetime, end: datetime, level: str) -> int:
        """About how many ranges of a level there are between two moments, to refuse a long list before it is made."""
        hours = _HOURS.get(level) or _MONTHS[level] * 730
        return int((end - start) / timedelta(hours=hours)) + 1

    def steps(self, start: datetime, end: datetime, granularity: str) -> tuple[Range, ...]:
        """[start, end) cut at the boundaries of a level, or whole where `granularity` is "all"; () if it is empty."""
        start, end = self._check_order(start, end)
        if granularity == ALL:
            return ((start, end),) if start < end else ()
        level = self._level("granularity", granularity, (ALL, *self.levels))
        cuts = [cut for cut in self._boundaries(start, end, level) if cut < end]
        return tuple(pairwise([start, *cuts, end])) if start < end else ()

    def ends(self, start: datetime, end: datetime) -> tuple[datetime, ...]:
        """Every boundary of the finest level in (start, end]."""
        start, end = self._check_order(start, end)
        return tuple(self._boundaries(start, end, self.levels[0]))

    def _level_or_finest(self, level: str | None) -> str:
        return self.levels[0] if level is None else self._level("level", level, self.levels)

    def _level(self, argument: str, level: str, known: tuple[str, ...]) -> str:
        """A level of this calendar by its name."""
        name = ALIASES.get(level, level) if isinstance(level, str) else ""
        if name not in self.levels:
            raise InvalidArgument(
                argument, f"must be one of {', '.join(known)}", nearest=find_nearest(str(level), known)
            )
        return name

    def _utc(self, argument: str, moment: datetime) -> datetime:
        """An aware date-time in UTC, if it lies in years that can be computed with."""
        if not isinstance(moment, datetime) or moment.tzinfo is None or moment.utcoffset() is None:
            raise InvalidArgument(argument, "must be a date-time that carries a time zone")
        try:
            year = self.wall(moment).year
        except (OverflowError, ValueError):
            raise InvalidArgument(argument, _YEARS) from None
        if not FIRST_YEAR <= year <= LAST_YEAR:
            raise InvalidArgument(argument, _YEARS)
        return moment.astimezone(UTC)

    def _check_order(self, start: datetime, end: datetime) -> Range:
        start, end = self._utc("start", start), self._utc("end", end)
        if end < start:
            raise InvalidArgument("end", "must not lie before start")
        return start, end

    def _longest(self, start: datetime, end: datetime) -> Span:
        """The range of the coarsest level that begins at `start`, a boundary, and ends by `end`, another one."""
        for level in reversed(self.levels[1:]):
            low, high = self._around(start, level)
            if low == start and high <= end:
                return Span(level, low, high)
        return Span(self.levels[0], *self._around(start, self.levels[0]))

    def _boundaries(self, start: datetime, end: datetime, level: str) -> list[datetime]:
        """The boundaries of a level in (start, end]."""
        cuts: list[datetime] = []
        while (start := self._around(start, level)[1]) <= end:
            cuts.append(start)
        return cuts

    def _near(self, moment: datetime) -> list[datetime]:
        """The boundaries of the finest level around `moment`, two on each side, as far as there are years."""
        low, high = self._around(moment, self.levels[0])
        near = [low, high]
        if self.wall(low - timedelta.resolution).year >= FIRST_YEAR:
            near.append(self._around(low - timedelta.resolution, self.levels[0])[0])
        if self.wall(high).year <= LAST_YEAR:
            near.append(self._around(high, self.levels[0])[1])
        return near

    def _around(self, moment: datetime, level: str) -> Range:
        return _around(self._clock, moment, level)


def regular_hours(level: str) -> int:
    """The length of a level in a regular year, of 12 months of 30 days."""
    return _HOURS.get(level) or _MONTHS[level] * 30 * 24


def _check_levels(levels: Sequence[str]) -> tuple[str, ...]:
    """The levels by their own names. Each must be made of whole ranges of the one before."""
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not levels:
        raise InvalidArgument("levels", f"must be a list of levels, finest first: {', '.join(LEVELS)}")
    names = tuple(ALIASES.get(level, level) if isinstance(level, str) else level for level in levels)
    for name in names:
        if name not in LEVELS:
            problem, near = f"there is no level {name!r}; there are {', '.join(LEVELS)}", find_nearest(name, LEVELS)
            raise InvalidArgument("levels", problem, nearest=near)
    for fine, coarse in pairwise(names):
        if fine == coarse:
            raise InvalidArgument("levels", f"must not hold {fine} twice")
        if fine in _MONTHS:
            nests = coarse in _MONTHS and _MONTHS[coarse] % _MONTHS[fine] == 0
        else:
            nests = _HOURS.get(coarse, 24) % _HOURS[fine] == 0
        if not nests:
            raise InvalidArgument(
                "levels", f"a {coarse} is not made of whole {fine} ranges; write the finest first, or leave one out"
            )
    return names


def _read_zone(zone: str) -> ZoneInfo:
    try:
        if isinstance(zone, str) and not _LOCAL_ZONES.fullmatch(zone):
            return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        pass  # not found, not a name of a zone, or a folder of zones
    known = sorted(name for name in available_timezones() if not _LOCAL_ZONES.fullmatch(name))
    problem = "must be the name of a time zone such as 'UTC' or 'Europe/Berlin'"
    raise InvalidArgument("zone", problem, nearest=find_nearest(zone, known))


def _read_moment(argument: str, value: str | date | datetime) -> datetime:
    """A date-time as it was written: with an offset or without."""
    try:
        if isinstance(value, datetime):
            return datetime.combine(value.date(), value.timetz())
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day)
        if isinstance(value, str) and _ISO.fullmatch(value):
            return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        if isinstance(value, str):  # of the right form: the thirtieth of February, or 25 o'clock
            what = "time" if _is_day(value[:10]) else "day"
            raise InvalidArgument(argument, f"there is no such {what}: {value}") from None
        # else it was pandas' NaT
    raise InvalidArgument(
        argument, "must be a date such as '2026-11-15' or a date-time such as '2026-11-15T09:00', in the report's zone"
    )


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _floor_wall(wall: datetime, level: str) -> datetime:
    if level in _MONTHS:
        return datetime(wall.year, wall.month - (wall.month - 1) % _MONTHS[level], 1)
    return wall - (wall - datetime.min) % timedelta(hours=_HOURS[level])  # the first day of year 1 was a Monday


def _next_wall(wall: datetime, level: str) -> datetime:
    if level in _HOURS:
        return wall + timedelta(hours=_HOURS[level])
    years, month = divmod(wall.month - 1 + _MONTHS[level], 12)
    return datetime(wall.year + years, month + 1, 1)


@lru_cache(maxsize=2**14)  # a report looks at the same boundaries again and again
def _around(clock: ZoneInfo, moment: datetime, level: str) -> Range:
    """The range of the level that holds `moment`."""
    wall = _floor_wall(_wall(clock, moment), level)
    start = _at(clock, wall)
    while True:
        wall = _next_wall(wall, level)
        end = _at(clock, wall)
        if end > moment:
            return start, end
        start = end  # of no length, or the clock was put back over a boundary, which stays passed


def _wall(clock: ZoneInfo, moment: datetime) -> datetime:
    return moment.astimezone(clock).replace(tzinfo=None, fold=0)


def _at(clock: ZoneInfo, wall: datetime) -> datetime:
    """The first instant at which the clock shows `wall` or later."""
    first, second = (wall.replace(tzinfo=clock, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first <= second:
        return first
    # The clock jumps over `wall` at a whole second between the two.
    before = second.replace(microsecond=0)
    seconds = range(int((first - before).total_seconds()))
    passed = bisect_left(seconds, True, key=lambda n: _wall(clock, before + timedelta(seconds=n)) >= wall)
    return before + timedelta(seconds=passed)
