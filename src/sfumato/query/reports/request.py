"""Questions to a report, in Python or as JSON, and what they mean.

    {"report": "ads", "statistics": ["impressions", "clicks"], "entity": {"campaign": "7"}, "attribute": "job_title",
     "start": "2026-10-01", "end": "2026-11-01", "granularity": "day", "top": 10, "options": ["actions"]}

The range is [start, end), in the report's zone. `granularity` is "all", one number for the whole range, or a level of
time. `attribute`, `granularity`, `top` and `options` may be left out; `report` too, where there is only one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from sfumato.errors import InvalidArgument, NotSupported, nearest
from sfumato.mechanisms import context
from sfumato.query.reports.calendar import ALIASES, ALL, Calendar
from sfumato.query.reports.policy import OPTIONS, Option, ReportPolicy

FIELDS = ("report", "statistics", "entity", "attribute", "start", "end", "granularity", "top", "options")


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A question that makes sense, with everything by its own name. `entity` is as it was asked."""

    policy: ReportPolicy
    statistics: tuple[str, ...]
    entity: Mapping[str, Any]
    attribute: str | None
    start: datetime
    end: datetime
    granularity: str
    top: int | None
    options: tuple[Option, ...]

    def encoded(self, path: Sequence[str]) -> bytes:
        """The question as bytes, for its digest: one form however it was written."""
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
        raise NotSupported(f"{field[:60]}: is not a field of a report{nearest(field, FIELDS)}")
    policy = find_report(serial.get("report"), reports)
    start, end = _range(serial, policy)
    return ReportRequest(
        policy=policy,
        statistics=_statistics(serial.get("statistics"), policy),
        entity=_entity(serial.get("entity")),
        attribute=_one("attribute", serial.get("attribute"), policy.attributes, f"{policy.name} has no attribute"),
        start=start,
        end=end,
        granularity=_granularity(serial.get("granularity"), policy),
        top=_top(serial.get("top"), serial.get("attribute")),
        options=_options(serial.get("options"), policy),
    )


def find_report(name: Any, reports: Mapping[str, ReportPolicy]) -> ReportPolicy:
    """The report of this name; without one, the only one that there is."""
    if not reports:
        raise NotSupported("report: there is none in the configuration; the owner writes a section [reports.<name>]")
    if name is None and len(reports) == 1:
        return next(iter(reports.values()))
    if name is None:
        raise NotSupported(f"report: is missing; it is one of {', '.join(reports)}")
    return reports[_one("report", name, reports, "there is no report") or ""]


def _one(field: str, name: Any, among: Iterable[str], complaint: str) -> str | None:
    names = list(among)
    if name is None or (isinstance(name, str) and name in names):
        return name
    shown = repr(name[:60]) if isinstance(name, str) else f"that is {type(name).__name__} and not text"
    hint = nearest(name, names) if isinstance(name, str) else ""
    known = f"; there is {', '.join(names) or 'none'}"
    raise NotSupported(f"{field}: {complaint} {shown}{hint or known}")


def _statistics(raw: Any, policy: ReportPolicy) -> tuple[str, ...]:
    names = [raw] if isinstance(raw, str) else raw
    known = ", ".join(policy.statistics)
    if not isinstance(names, list | tuple) or not names:
        raise NotSupported(f"statistics: is missing; it lists one or more of {known}")
    for name in names:
        if isinstance(name, str) and "," in name and name not in policy.statistics:
            raise NotSupported(f"statistics: give each once, and not several in one text; there is {known}")
        _one("statistics", name if name is not None else "", policy.statistics, f"{policy.name} has no statistic")
    return tuple(name for name in policy.statistics if name in names)


def _entity(raw: Any) -> Mapping[str, Any]:
    if raw is not None and not isinstance(raw, Mapping):
        raise NotSupported("entity: must be an object that names an entity by its level, such as {'campaign': '7'}")
    return raw or {}


def _range(serial: Mapping[str, Any], policy: ReportPolicy) -> tuple[datetime, datetime]:
    calendar = policy.calendar
    for field in ("start", "end"):
        if serial.get(field) is None:
            raise NotSupported(f"{field}: is missing; it is a day or a moment, such as '2026-10-01'")
    start, end = (_instant(field, serial[field], calendar.instant) for field in ("start", "end"))
    if start > end:
        raise NotSupported("end: comes before start; the range begins with start and ends before end")
    if start == end:
        raise NotSupported(f"end: is start, so that the range is empty; {_next(calendar, start)}")
    if not (calendar.fits(start) and calendar.fits(end)):
        near = " or ".join(
            f"{_shown(calendar.wall(low))} to {_shown(calendar.wall(high))}"
            for low, high in calendar.fitting(start, end)
        )
        raise NotSupported(
            f"start and end: must lie on the borders of a {calendar.levels[0]} in {calendar.zone}; "
            f"the nearest are {near}"
        )
    return start, end


def _next(calendar: Calendar, start: datetime) -> str:
    """The way out of an empty range: what the end of one day, or of the shortest range, would be."""
    wall = calendar.wall(start)
    if wall.time() == time.min and (calendar.levels[0] == "day" or not calendar.days):
        return f"for that one day, end is {(wall + timedelta(days=1)).date()}"
    return f"it ends before end, which is {_shown(calendar.wall(calendar.ceil(start + timedelta.resolution)))} or later"


def _instant(field: str, raw: Any, read: Callable[[str, Any], datetime]) -> datetime:
    try:
        return read(field, raw)
    except InvalidArgument as error:
        raise NotSupported(str(error)) from None


def _shown(wall: datetime) -> str:
    return wall.isoformat(sep=" ", timespec="minutes")


def _granularity(raw: Any, policy: ReportPolicy) -> str:
    known = (ALL, *policy.calendar.levels)
    name = ALIASES.get(raw, raw) if isinstance(raw, str) else raw
    return _one("granularity", name, known, "there is no level") or ALL


def _top(raw: Any, attribute: Any) -> int | None:
    if raw is None:
        return None
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < 1:
        raise NotSupported("top: must be a whole number, at least 1")
    if attribute is None:
        raise NotSupported("top: needs an attribute, whose values it ranks; leave it out for a total")
    return raw


def _options(raw: Any, policy: ReportPolicy) -> tuple[Option, ...]:
    if raw is None:
        return policy.options
    names = [raw] if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple):
        raise NotSupported(f"options: must be a list of some of {', '.join(OPTIONS)}")
    for name in names:
        if isinstance(name, str) and "," in name:
            raise NotSupported(f"options: give each once, and not several in one text; there is {', '.join(OPTIONS)}")
        _one("options", name if name is not None else "", OPTIONS, "there is no option")
    return tuple(option for option in OPTIONS if option in names)
