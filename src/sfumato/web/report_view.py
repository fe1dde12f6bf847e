"""The view of a report, which is all in its address, and the ranges that are usually looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams

from sfumato.query.reports.calendar import ALL, Calendar
from sfumato.query.reports.shares import LAST_DAYS
from sfumato.show import heading
from sfumato.show.text import day_name, has_clock_time, join_words
from sfumato.wire import ReportInfo

RANKED_LEVELS = ("week", "month", "quarter", "year")


@dataclass(frozen=True, slots=True)
class ReportView:
    """What is looked at. Nothing of it is checked: texts are as they were typed.

    `entity` is a path from the top down. `options` are None where none were chosen; then those of the report apply.
    """

    report: str
    entity: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    step: str = ALL
    by: str = ""
    top: str = ""
    options: tuple[str, ...] | None = None

    @property
    def path(self) -> str:
        return f"/reports/{quote(self.report, safe='')}"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The view as fields of a form, or of an address. Names of entities are public, so they may stand there."""
        pairs = [("entity", name) for name in self.entity] + [("statistic", name) for name in self.statistics]
        pairs += [(name, getattr(self, name)) for name in ("start", "end", "step", "by", "top") if getattr(self, name)]
        # An empty option says that none was chosen.
        return pairs + [("option", name) for name in (() if self.options is None else self.options or ("",))]

    @property
    def query(self) -> str:
        return urlencode(self.pairs)

    @property
    def address(self) -> str:
        return f"{self.path}?{self.query}"

    @property
    def is_whole(self) -> bool:
        """Whether it will mean the same tomorrow."""
        return bool(self.statistics and self.start and self.end) and self.options is not None

    def question(self, info: ReportInfo) -> dict[str, Any]:
        """The question to the report. What cannot be asked is refused where questions are read."""
        ranked: dict[str, Any] = {"attribute": self.by} if self.by else {}
        if self.by and self.top:
            is_number = self.top.isascii() and self.top.isdecimal() and len(self.top) < 10
            ranked["top"] = int(self.top) if is_number else self.top
        entity = {"entity": dict(zip(info.entities, self.entity, strict=False))} if self.entity else {}
        return {
            "report": self.report,
            "statistics": [*self.statistics],
            **entity,
            **ranked,
            "start": self.start,
            "end": self.end,
            "granularity": self.step,
            "options": [*(self.options or ())],
        }

    def changed(self, question: Mapping[str, Any]) -> ReportView:
        """The view of another question, which a refusal has proposed for the one of this view."""
        options = question.get("options")
        return replace(
            self,
            statistics=tuple(question["statistics"]),
            start=_short(str(question["start"])),
            end=_short(str(question["end"])),
            step=question.get("granularity") or ALL,
            by=question.get("attribute") or "",
            top=str(question.get("top") or ""),
            options=None if options is None else tuple(options),
        )


def read_view(report: str, query: QueryParams) -> ReportView:
    """The view in the query of an address."""
    texts = {name: query.get(name, "").strip() for name in ("start", "end", "step", "by", "top")}
    options = query.getlist("option")
    return ReportView(
        report,
        entity=tuple(name for name in query.getlist("entity") if name),
        statistics=tuple(name for name in query.getlist("statistic") if name),
        **texts | {"start": _short(texts["start"]), "end": _short(texts["end"]), "step": texts["step"] or ALL},
        options=tuple(name for name in options if name) if options else None,
    )


def complete_view(view: ReportView, info: ReportInfo) -> ReportView:
    """The view with what is usual in the places that are empty: all statistics, and the last complete days."""
    usual = list_ranges(info)[0]
    start, end = (view.start, view.end) if view.start and view.end else (usual.start, usual.end)
    options = tuple(name for name in info.usual_options if name in info.options)
    return replace(
        view,
        statistics=view.statistics or tuple(info.statistics),
        start=start,
        end=end,
        options=options if view.options is None else view.options,
    )


# -- ranges --


@dataclass(frozen=True, slots=True)
class NamedRange:
    """A range that is on the grid of a report, and complete."""

    name: str
    start: str
    end: str


def list_ranges(info: ReportInfo) -> list[NamedRange]:
    """The ranges that are usually looked at, each once; the first is the one to begin with."""
    grid = Calendar(tuple(info.levels), info.zone)
    ranges: dict[tuple[str, str], str] = {}
    for name, start, end in _usual_ranges(grid, info):
        if start < end and grid.fits(start) and grid.fits(end):
            pair = write_moment(grid.wall(start)), write_moment(grid.wall(end))
            ranges.setdefault(pair, name)
    return [NamedRange(name, start, end) for (start, end), name in ranges.items()]


def _usual_ranges(grid: Calendar, info: ReportInfo) -> Iterator[tuple[str, datetime, datetime]]:
    complete = grid.instant("complete_until", info.complete_until)
    today = _floor(info.zone, "day", complete)
    last = grid.wall(today).date()
    for days in LAST_DAYS:
        yield f"last {days} complete days", grid.instant("start", last - timedelta(days=days)), today
    for level in RANKED_LEVELS:
        if level == "week" and "week" not in info.levels:
            continue
        begins = _floor(info.zone, level, complete)
        yield f"last complete {level}", _floor(info.zone, level, begins - timedelta.resolution), begins
        yield f"this {level} so far", begins, complete
    yield "the latest complete numbers", grid.floor(complete - timedelta.resolution), complete


def _floor(zone: str, level: str, moment: datetime) -> datetime:
    """The last beginning of a day, a month or another level in a zone that is not after a moment."""
    return Calendar((level,), zone).floor(moment)


def _short(moment: str) -> str:
    """A moment as addresses have it: a day where it is its midnight, and no seconds where they are 0.

    >>> _short("2026-10-01T00:00:00"), _short("2026-10-01T03:00:00"), _short("soon")
    ('2026-10-01', '2026-10-01T03:00', 'soon')
    """
    day, _, clock = moment.partition("T")
    if clock in ("00:00", "00:00:00"):
        return day
    return moment[:16] if len(clock) == 8 and clock.endswith(":00") else moment


def write_moment(wall: date) -> str:
    """A moment on the clock of the report: a day, or a day with hours where it is no midnight."""
    if isinstance(wall, datetime):
        return wall.isoformat(timespec="minutes") if wall.time() != time() else wall.date().isoformat()
    return wall.isoformat()


def fill_input(moment: str, *, with_time: bool) -> str:
    """A moment as the field of a form takes it: a day, or a day with a time.

    >>> fill_input("2026-10-01", with_time=True), fill_input("2026-10-01T03:00", with_time=False)
    ('2026-10-01T00:00', '2026-10-01')
    """
    return f"{moment}T00:00" if with_time and len(moment) == 10 else moment if with_time else moment[:10]


# -- words --


def describe_step(level: str) -> str:
    """How fine numbers are.

    >>> [describe_step(level) for level in ("all", "1h", "3h", "month")]
    ['one number', 'every hour', 'every 3 hours', 'every month']
    """
    if level == ALL:
        return "one number"
    return f"every {level_name(level)}"


def level_name(level: str) -> str:
    return "hour" if level == "1h" else f"{level[:-1]} hours" if level[:1].isdigit() else level


def describe_moment(moment: date) -> str:
    """A moment in words.

    >>> describe_moment(datetime(2026, 11, 14, 18)), describe_moment(date(2026, 11, 14))
    ('14 November 2026, 18:00', '14 November 2026')
    """
    clock = f", {moment:%H:%M}" if has_clock_time(moment) else ""
    return f"{day_name(moment)} {moment.year}{clock}"


def describe_complete(info: ReportInfo) -> str:
    """How far the data goes, on whose clocks."""
    text = info.complete_until
    moment = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
    return f"complete until {describe_moment(moment)}, in {place_name(info.zone)}"


def place_name(zone: str) -> str:
    """A time zone as people call it.

    >>> place_name("America/New_York"), place_name("UTC")
    ('New York', 'UTC')
    """
    return heading(zone.rpartition("/")[2])


def describe_change(view: ReportView, other: ReportView) -> str:
    """What another view has instead, in words."""
    parts = []
    if (view.start, view.end) != (other.start, other.end):
        parts.append(f"from {other.start.replace('T', ' ')} to before {other.end.replace('T', ' ')}")
    if view.statistics != other.statistics:
        parts.append(join_words([heading(name) for name in other.statistics]))
    if view.step != other.step:
        parts.append(describe_step(other.step))
    if view.by != other.by:
        parts.append(f"by {heading(other.by)}" if other.by else "without a breakdown")
    if view.top != other.top:
        parts.append(f"the {other.top} largest" if other.top else "all values")
    if view.options != other.options:
        parts.append(f"with {join_words([*other.options])}" if other.options else "without options")
    return ", ".join(parts) or "the same"
