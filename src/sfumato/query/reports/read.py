"""Questions to a report, read under its policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any, TypeVar

from sfumato.errors import InvalidArgument, NotSupported, find_nearest
from sfumato.mechanisms import context
from sfumato.query.reports.calendar import ALIASES, ALL, Calendar
from sfumato.query.reports.policy import OPTIONS, Option, ReportPolicy, options_conflict
from sfumato.query.reports.request import FIELDS

T = TypeVar("T", bound=str)


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A question that makes sense under its policy. `entity` is as it was asked."""

    policy: ReportPolicy
    statistics: tuple[str, ...]
    entity: Mapping[str, Any]
    attribute: str | None
    start: datetime
    end: datetime
    granularity: str
    top: int | None
    options: tuple[Option, ...]

    @property
    def exact(self) -> bool:
        """Whether its numbers have no noise: totals that the reader knows anyway."""
        return self.attribute is None and self.policy.exact_totals

    @property
    def weighs_time(self) -> bool:
        """Whether ranges of all levels of time are weighed against one another."""
        return "calendar" in self.options and not self.exact

    def encode(self, path: Sequence[str]) -> bytes:
        """The question about the entity at `path` as bytes, for its digest: one form per meaning."""
        calendar = self.policy.calendar
        return context(
            report=self.policy.name,
            statistics=list(self.statistics),
            entity=list(path),
            attribute=self.attribute,
            range=[calendar.wall(self.start).isoformat(), calendar.wall(self.end).isoformat()],
            granularity=self.granularity,
            top=self.top,
            options=list(self.options),
        )


def read_report(serial: Mapping[str, Any], reports: Mapping[str, ReportPolicy]) -> ReportRequest:
    """The question that a JSON object asks; a refusal names the field."""
    if not isinstance(serial, Mapping) or not all(isinstance(name, str) for name in serial):
        raise NotSupported("a question to a report is an object: {'statistics': ['clicks'], 'start': ..., 'end': ...}")
    for field in sorted(serial.keys() - set(FIELDS)):
        near = find_nearest(field, FIELDS)
        raise NotSupported("is not a field of a report", field=field[:60], nearest=near, unknown=field)
    policy = find_report(serial.get("report"), reports)
    start, end = _range(serial, policy.calendar)
    statistics, entity, attribute = (serial.get(name) for name in ("statistics", "entity", "attribute"))
    level, top, options = (serial.get(name) for name in ("granularity", "top", "options"))
    if statistics is None or (isinstance(statistics, list | tuple) and not statistics):
        raise NotSupported(f"is missing; it lists one or more of {', '.join(policy.statistics)}", field="statistics")
    if entity is not None and not isinstance(entity, Mapping):
        problem = "must be an object that names an entity by its level, such as {'campaign': '7'}"
        raise NotSupported(problem, field="entity")
    if top is not None and (not isinstance(top, int) or isinstance(top, bool) or top < 1):
        raise NotSupported("must be a whole number, at least 1", field="top")
    if top is not None and attribute is None:
        raise NotSupported("needs an attribute, whose values it ranks; leave it out for a total", field="top")
    level = ALIASES.get(level, level) if isinstance(level, str) else level
    return ReportRequest(
        policy=policy,
        statistics=_choices("statistics", statistics, policy.statistics, f"{policy.name} has no statistic"),
        entity=entity or {},
        attribute=_choice("attribute", attribute, policy.attributes, f"{policy.name} has no attribute"),
        start=start,
        end=end,
        granularity=_choice("granularity", level, (ALL, *policy.calendar.levels), "there is no level") or ALL,
        top=top,
        options=policy.options if options is None else _options(options),
    )


def find_report(name: Any, reports: Mapping[str, ReportPolicy]) -> ReportPolicy:
    """The report of this name; without one, the only one that there is."""
    if not reports:
        problem = "there is none in the configuration; the owner writes a section [reports.<name>]"
        raise NotSupported(problem, field="report")
    if name is None and len(reports) == 1:
        return next(iter(reports.values()))
    if name is None:
        raise NotSupported(f"is missing; it is one of {', '.join(reports)}", field="report")
    return reports[_choice("report", name, reports, "there is no report") or ""]


def _choice(field: str, name: Any, among: Iterable[str], complaint: str) -> str | None:
    """`name`, if it is one of the known names or None."""
    names = list(among)
    if name is None or (isinstance(name, str) and name in names):
        return name
    shown = repr(name[:60]) if isinstance(name, str) else f"that is {type(name).__name__} and not text"
    near = find_nearest(name, names)
    there = "" if near else f"; there is {', '.join(names) or 'none'}"
    unknown = name if isinstance(name, str) else ""
    raise NotSupported(f"{complaint} {shown}{there}", field=field, nearest=near, unknown=unknown)


def _choices(field: str, raw: Any, among: Iterable[T], complaint: str) -> tuple[T, ...]:
    """One known name or several, in their own order."""
    names, known = [raw] if isinstance(raw, str) else raw, list(among)
    if not isinstance(names, list | tuple):
        raise NotSupported(f"must be a list of some of {', '.join(known)}", field=field)
    for name in names:
        if isinstance(name, str) and "," in name and name not in known:
            problem = f"give each once, and not several in one text; there is {', '.join(known)}"
            raise NotSupported(problem, field=field)
        _choice(field, name if name is not None else "", known, complaint)
    return tuple(name for name in known if name in names)


def _options(raw: Any) -> tuple[Option, ...]:
    options = _choices("options", raw, OPTIONS, "there is no option")
    if problem := options_conflict(options):
        raise NotSupported(problem, field="options")
    return options


def _range(serial: Mapping[str, Any], calendar: Calendar) -> tuple[datetime, datetime]:
    """[start, end) as instants, if both lie on the finest grid and it is not empty."""
    for field in ("start", "end"):
        if serial.get(field) is None:
            raise NotSupported("is missing; it is a day or a moment, such as '2026-10-01'", field=field)
    try:
        start, end = (calendar.instant(field, serial[field]) for field in ("start", "end"))
    except InvalidArgument as error:
        raise NotSupported(error.problem, field=error.argument, nearest=error.nearest) from None
    if start > end:
        raise NotSupported("comes before start; the range begins with start and ends before end", field="end")
    if start == end:
        raise NotSupported(
            f"is the same as start, so the range is empty; {_shortest_range(calendar, start)}", field="end"
        )
    if not (calendar.fits(start) and calendar.fits(end)):
        ranges = [tuple(map(calendar.wall, each)) for each in calendar.nearest_ranges(start, end)]
        near = " or ".join(f"{_minutes(low)} to {_minutes(high)}" for low, high in ranges)
        borders = f"must lie on the borders of a {calendar.levels[0]} in {calendar.zone}"
        instead = [{"start": low.isoformat(), "end": high.isoformat()} for low, high in ranges]
        raise NotSupported(f"{borders}; the nearest are {near}", field="start and end", instead=instead)
    return start, end


def _shortest_range(calendar: Calendar, start: datetime) -> str:
    """The way out of an empty range: the end of that day, or of the shortest range."""
    wall = calendar.wall(start)
    if wall.time() == time.min and (calendar.levels[0] == "day" or not calendar.days):
        return f"for that one day, end is {(wall + timedelta(days=1)).date()}"
    return f"the earliest end is {_minutes(calendar.wall(calendar.ceil(start + timedelta.resolution)))}"


def _minutes(wall: datetime) -> str:
    return wall.isoformat(sep=" ", timespec="minutes")
