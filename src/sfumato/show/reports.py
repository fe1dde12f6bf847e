"""Charts of a report: bars for one range of time; for a series, lines in a band as wide as the error."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, TypeAlias

from sfumato.show.bars import BarPanel, Heading, draw_bars
from sfumato.show.drawing import round_steps
from sfumato.show.figures import Figures, Sheet, count_interval
from sfumato.show.lines import SMALL_HEIGHT, Axis, Line, LinePanel, Point, draw_lines
from sfumato.show.palette import COLOURS, MAX_LINES
from sfumato.show.pictures import Chart
from sfumato.show.text import NO_COUNTS, distinct, figure, has_clock_time, heading, key_label, month_name, visible
from sfumato.show.vega import BARS_LOOK, LINES_LOOK, Spec, bar, bar_chart, bar_layers, make_chart

_LINE_LENGTH, _TITLE_LENGTH = 80, 56
_MAX_DOTS, _MAX_SMALL_DOTS, _MAX_TICKS = 31, 8, 8
_MAX_TOGETHER = 4  # lines in one panel, when they are drawn: the bands of more hide each other

_Panel: TypeAlias = tuple[Mapping[str, tuple[str, str]], str]
"""By label, the measure and the key of each line; and the title."""


def report_chart(sheet: Sheet, *, title: str) -> Chart:
    """Bars with whiskers for one range of time; for several, lines in a band."""
    about = sheet.about(len(sheet.keys) if sheet.over_time else 0)
    whole = ", ".join(part for part in sheet.titles if part)
    titles = (visible(title),) if visible(title) else (whole,) if len(whole) <= _TITLE_LENGTH else sheet.titles
    head = Heading(titles, (*_fold(about), *([] if sheet.shows else [NO_COUNTS])))
    if not sheet.over_time and len(sheet.measures) == 1:
        return bar_chart(sheet.figures(sheet.measures[0]), head)
    if not sheet.over_time and (sheet.by is None or not sheet.shows):
        return bar_chart(_totals(sheet), head)
    if sheet.over_time:
        shared = {"scale": {"color": "shared"}, "legend": {"color": "shared"}}
        panels = _panels_of(sheet)
        drawn, columns = _draw_line_panels(sheet, panels)
        draw = partial(draw_lines, head, drawn, columns=columns)
        specs = [_line_panel(sheet, *panel) for panel in panels]
        return make_chart(head, LINES_LOOK, draw, vconcat=specs, resolve=shared)
    return _bars_side_by_side(sheet, head)


def _fold(about: str) -> list[str]:
    """A long line as several; breaks only between its parts."""
    first, *parts = about.split(" · ")
    lines = [first]
    for part in parts:
        longer = f"{lines[-1]} · {part}"
        lines = [*lines[:-1], longer] if len(longer) <= _LINE_LENGTH else [*lines, part]
    return lines


def _totals(sheet: Sheet) -> Figures:
    """The totals of one range, one bar per statistic."""
    (counts,) = [counts for _, _, counts in sheet.rows] or [()]
    known = [(name, count) for name, count in zip(sheet.measures, counts, strict=False) if count is not None]
    errors = [(count, error) for name, count in known if (error := sheet.errors[name]) is not None]
    intervals = tuple(count_interval(count, error) for count, error in errors)
    keys, numbers = tuple((heading(name),) for name, _ in known), tuple(count for _, count in known)
    return Figures(("statistic",), keys, "count", numbers, error=None, intervals=intervals)


def _bars_side_by_side(sheet: Sheet, head: Heading) -> Chart:
    """Bars of several statistics, with the keys of all in the order of the first."""
    labels = dict(zip(sheet.keys, distinct(list(map(key_label, sheet.keys))), strict=True))
    by, statistics = heading(sheet.by or ""), [sheet.figures(name) for name in sheet.measures]
    y: Spec = {"field": "label", "type": "nominal", "sort": None, "title": by, "scale": {"domain": [*labels.values()]}}
    specs = [
        {
            "data": {"values": [bar(figures, row, labels[key]) for row, (key,) in enumerate(figures.keys)]},
            "width": max(480 // len(sheet.measures), 160),
            "height": {"step": 22},
            "encoding": {
                "x": {"type": "quantitative", "title": heading(figures.measure or ""), "axis": {"tickCount": 3}},
                "y": y | ({"axis": None} if place else {}),
            },
            "layer": bar_layers(figures),
        }
        for place, figures in enumerate(statistics)
    ]
    rows = [{key: row for row, (key,) in enumerate(figures.keys)} for figures in statistics]
    drawn = [BarPanel(figures, tuple(map(row.get, labels))) for figures, row in zip(statistics, rows, strict=True)]
    look = BARS_LOOK | {"concat": {"spacing": 28}}
    shared = {"scale": {"color": "shared"}, "legend": {"color": "shared"}}
    return make_chart(
        head, look, partial(draw_bars, head, by, [*labels.values()], drawn), hconcat=specs, resolve=shared
    )


def _panels_of(sheet: Sheet) -> list[_Panel]:
    """Totals share one panel, one line per statistic. Otherwise each statistic has a panel, one line per key."""
    if sheet.by is None:
        labels = distinct(list(map(heading, sheet.measures)))
        return [({label: (name, "") for label, name in zip(labels, sheet.measures, strict=True)}, "")]
    largest = sheet.keys[:MAX_LINES]
    labels = distinct(list(map(key_label, largest)))
    return [
        (
            {label: (name, key) for label, key in zip(labels, largest, strict=True)},
            heading(name) if len(sheet.measures) > 1 else "",
        )
        for name in sheet.measures
    ]


def _draw_line_panels(sheet: Sheet, panels: Sequence[_Panel]) -> tuple[list[LinePanel], int]:
    """The panels, and in how many columns they are. Many lines are small multiples on one scale per statistic."""
    later = None if sheet.until is None or not sheet.is_open else _timestamp(sheet.until)
    x = _draw_time_axis(sheet, later)
    drawn: list[LinePanel] = []
    for lines, title in panels:
        made = [_draw_line(sheet, place, label, *line) for place, (label, line) in enumerate(lines.items())]
        most = max([10.0, *(point.high for line in made for run in line.runs for point in run)])
        small = len(made) > _MAX_TOGETHER
        y = Axis(0, most, tuple((tick, figure(tick)) for tick in round_steps(0, most, 2 if small else 4)))
        dots = len(sheet.steps) <= (_MAX_SMALL_DOTS if small else _MAX_DOTS)
        panel = LinePanel(title, tuple(made), x, y, bands=sheet.bounded, dots=dots, named=len(made) > 1, later=later)
        if small:
            name = f"{title} · " if title else ""
            drawn += [
                replace(
                    panel, title=f"{name}{line.label}", lines=(replace(line, look=0),), named=False, height=SMALL_HEIGHT
                )
                for line in made
            ]
        else:
            drawn.append(panel)
    return drawn, 3 if any(len(lines) > _MAX_TOGETHER for lines, _ in panels) else 1


def _draw_line(sheet: Sheet, place: int, label: str, measure: str, key: str) -> Line:
    runs: dict[str, list[Point]] = {}
    starts = [_timestamp(start) for start, _ in sheet.steps]
    parts, shown = {starts[step] for step in sheet.cut}, set[float]()
    for point in _points(sheet, label, measure, key):
        at = datetime.fromisoformat(point["at"]).timestamp()
        shown.add(at)
        count, low, high, said = (point[name] for name in ("count", "low", "high", "said"))
        runs.setdefault(point["run"], []).append(Point(at, count, low, high, said, is_part=at in parts))
    gaps = tuple(at for at in starts if at not in shown)
    return Line(label, place % MAX_LINES, tuple(map(tuple, runs.values())), gaps)


def _line_panel(sheet: Sheet, lines: Mapping[str, tuple[str, str]], title: str = "") -> Spec:
    """A panel of lines: by label, the measure and the key of each."""
    points = [point for label, line in lines.items() for point in _points(sheet, label, *line)]
    most = max([10, *(point["high"] for point in points)])
    said = {"field": "said", "type": "nominal"}
    y = {"type": "quantitative", "title": None, "scale": {"domain": [0, most], "nice": True}}
    detail = {"field": "run", "type": "nominal"}
    band: Spec = {"y": {"field": "low", **y}, "y2": {"field": "high"}}
    color: Spec = {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": [*lines], "range": [*COLOURS[: len(lines)]]},
        "legend": {"columns": 4, "direction": "horizontal", "symbolOpacity": 1} if len(lines) > 1 else None,
    }
    bands: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 0.16, "strokeWidth": 0, "aria": False},
            "encoding": {**band, "detail": detail},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.2, "aria": False},
            "transform": [{"filter": "datum.alone"}],
            "encoding": band,
        },
    ]
    return {
        **({"title": {"text": title, "fontSize": 13, "offset": 8}} if title else {}),
        "data": {"values": points},
        "width": 600,
        "height": 240,
        "encoding": {"x": _time_axis(sheet), "color": color, "description": said, "tooltip": said},
        "layer": [
            *(bands if sheet.bounded else []),
            {
                "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round", "aria": False},
                "encoding": {"y": {"field": "count", **y}, "detail": detail},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 26, "opacity": 1},
                "transform": [{"filter": "datum.dot"}],
                "encoding": {"y": {"field": "count", **y}},
            },
        ],
    }


def _points(sheet: Sheet, label: str, measure: str, key: str) -> list[Spec]:
    """The counts of one line. `run` names a stretch without a gap; a point that is a run of its own is a dot."""
    counts, error = sheet.counts(measure), sheet.errors[measure] or 0
    points: list[dict[str, Any]] = []
    run, before = 0, -1
    for step, (start, _) in enumerate(sheet.steps):
        count = counts.get((step, key))
        if count is None:
            continue
        if before != step - 1 or sheet.steps[before][1] != start:
            run += 1
        before = step
        clock = start.time().isoformat("seconds") if isinstance(start, datetime) else "00:00:00"
        ends = dict(zip(("low", "high"), count_interval(count, error), strict=True))
        said = f"{label}, {sheet.start(step)}: {figure(count)} {sheet.within(measure)}".rstrip()
        names = {"label": label, "at": f"{start.isoformat()[:10]}T{clock}Z", "run": f"{label} {run}"}
        points.append({**names, "count": count, **ends, "said": said})
    sizes, few = Counter(point["run"] for point in points), len(sheet.steps) <= _MAX_DOTS
    return [{**point, "alone": sizes[point["run"]] == 1, "dot": few or sizes[point["run"]] == 1} for point in points]


def _time_axis(sheet: Sheet) -> Spec:
    """From the first step to the last, also where nothing is shown, with ticks at starts of steps.

    Times are those of the report's zone, on any machine: the axis is in UTC, and so are the points.
    """
    starts, ticks, pattern = _time_ticks(sheet)
    return {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc", "domain": [_utc(starts[0]), _utc(starts[-1])]},
        "axis": {"values": [_utc(start) for start in ticks], "format": pattern, "grid": False, "labelFlush": True},
    }


def _time_ticks(sheet: Sheet) -> tuple[list[date], list[date], str]:
    """The starts of all steps, those that are named, and the pattern of the names."""
    starts = [start for start, _ in sheet.steps]
    ticks = starts[:: math.ceil(len(starts) / _MAX_TICKS)]
    with_time, years = any(map(has_clock_time, ticks)), len({start.year for start in ticks}) > 1
    if all(start.day == 1 for start in ticks) and not with_time:
        return starts, ticks, "%b %Y"
    return starts, ticks, f"%d %b{' %Y' if years else ''}{' %H:%M' if with_time else ''}"


def _draw_time_axis(sheet: Sheet, later: float | None) -> Axis:
    """From the first step to the last, and a seventh more where the rest of the range is `later`."""
    starts, ticks, pattern = _time_ticks(sheet)
    named = tuple((_timestamp(tick), tick.strftime(pattern.replace("%b", month_name(tick)[:3]))) for tick in ticks)
    first, last = _timestamp(starts[0]), _timestamp(starts[-1])
    return Axis(first, last if later is None else later + (later - first) / 7, named)


def _timestamp(moment: date) -> float:
    """Seconds on the clock of the report, as if it were UTC."""
    clock = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    return clock.replace(tzinfo=UTC).timestamp()


def _utc(moment: date) -> Spec:
    """A moment in the form of Vega-Lite."""
    clock = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    day = {"year": clock.year, "month": clock.month, "date": clock.day}
    return {**day, "hours": clock.hour, "minutes": clock.minute, "utc": True}
