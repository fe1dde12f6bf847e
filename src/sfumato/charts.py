"""Pictures of an answer: bars that start at 0, with their error, as a Vega-Lite chart and as a table in HTML.

Of a report: bars, or lines over time in a band of their error. And of shares that rise by day: steps in panels, a line
for each budget.

What is drawn has been released. Its text is still data that strangers wrote, so it is escaped, and control characters
in it are made visible.
"""

from __future__ import annotations

import copy
import html
import importlib.util
import itertools
import json
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.errors import InvalidArgument

NOTHING_SHOWN = "No group stands out of the noise, so that none can be shown."

_MIME = "application/vnd.vegalite.v5+json"
_BAR, _INK, _QUIET = "#8fafcf", "#1f2933", "#66727f"


def visible(text: str) -> str:
    """`text` with control, format and unassigned characters and line breaks written as escapes.

    >>> visible("green\\x1b[2J")
    'green\\\\x1b[2J'
    """
    return "".join(char if _shows(char) else char.encode("unicode_escape").decode() for char in text)


def _shows(char: str) -> bool:
    category = unicodedata.category(char)
    return not category.startswith("C") and category not in ("Zl", "Zp")


def shown(key: str) -> str:
    """A key as it is shown, also the one that is the empty text.

    >>> shown("")
    '(empty)'
    """
    return visible(key) or "(empty)"


def heading(name: str) -> str:
    """The name of a column as people write it."""
    return visible(name.replace("_", " "))


def cell(value: object) -> str:
    """A value of a key as people read it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def figure(number: float) -> str:
    """A number as people read it: a whole one in full, others to four digits or to the unit.

    >>> [figure(number) for number in (1234567, 1234567.8, 12.3456, 0.00123456)]
    ['1,234,567', '1,234,568', '12.35', '0.001235']
    """
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:,.0f}" if 999.95 <= abs(number) < 1e15 else f"{number:.4g}"


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is to draw: keys in the columns `by` and, unless `measure` is None, a count or a number for each.

    Each is right within `error` with 95 % confidence or, where there are `intervals`, the truth lies in the row's own.
    `thinned` says that small groups are absent, `total` of how many rows these are the largest.
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    measure: str | None = None
    counts: tuple[float, ...] = ()
    error: int = 0
    thinned: bool = False
    intervals: tuple[tuple[float, float], ...] = ()
    total: int | None = None

    def interval(self, row: int) -> tuple[float, float]:
        """Where the truth of a row lies.

        One made of `error` stops at 0 below a positive count, as nothing is counted less than never.
        """
        if self.intervals:
            return self.intervals[row]
        count = self.counts[row]
        low = count - self.error
        return (max(low, 0) if count > 0 else low), count + self.error

    def within(self, row: int) -> str:
        """The interval of a row in words."""
        if self.intervals:
            return " to ".join(map(figure, self.intervals[row]))
        return f"± {self.error:,}"

    def span(self) -> tuple[float, float]:
        """The ends of an axis that holds 0 and every interval."""
        ends = [end for row in range(len(self.counts)) for end in self.interval(row)]
        return min([0, *ends]), max([0 if self._parts and any(ends) else 10, *ends])

    def about(self) -> str:
        """What a reader of the picture must know."""
        error = "with 95 % confidence intervals" if self.intervals else f"± {self.error:,} with 95 % confidence"
        count, total = len(self.keys), self.total or 0
        largest = [f"the {count:,} largest of {total:,}"] if count < total else []
        return " · ".join([error, *largest, *(["small groups are absent"] if self.thinned else [])])

    @property
    def _parts(self) -> bool:
        """Whether there are parts of 1, as in means."""
        return any(isinstance(count, float) for count in self.counts)

    @property
    def ticks(self) -> str:
        """How the numbers on an axis are written, in the words of Vega."""
        return ",.4~r" if self._parts else ",d"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture as a Vega-Lite specification that carries its own data."""

    spec: dict[str, Any]

    def to_json(self) -> str:
        return json.dumps(self.spec, indent=2, ensure_ascii=False)

    def to_svg(self) -> str:
        svg: str = _converter().vegalite_to_svg(self.spec, allowed_base_urls=[])
        return svg

    def to_png(self, scale: float = 2) -> bytes:
        png: bytes = _converter().vegalite_to_png(self.spec, scale=scale, allowed_base_urls=[])
        return png

    def to_html(self) -> str:
        """A page that holds the picture and nothing else: no script, nothing to fetch."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.spec["title"]["text"])}</title>'
        return f"<!doctype html>\n<html><head>{head}</head>\n<body>{self.to_svg()}</body></html>\n"

    def save(self, path: str | Path) -> None:
        """Write the chart; the ending of `path` says how: .json, .svg, .png or .html."""
        writers: dict[str, Callable[[], str | bytes]] = {
            ".json": self.to_json,
            ".svg": self.to_svg,
            ".png": self.to_png,
            ".html": self.to_html,
        }
        path = Path(path)
        write = writers.get(path.suffix.lower())
        if write is None:
            raise InvalidArgument("path", f"must end in one of {', '.join(writers)}")
        content = write()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {_MIME: self.spec, "text/plain": f"Chart: {self.spec['title']['text']}"}
        if importlib.util.find_spec("vl_convert"):
            bundle["image/png"] = self.to_png()
        return bundle


def _converter() -> ModuleType:
    try:
        import vl_convert
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("drawing a chart needs: pip install 'sfumato[plots]'") from missing
    return vl_convert


def chart(figures: Figures, *, title: str) -> Chart:
    """Horizontal bars with error whiskers, the largest on top."""
    if figures.measure is None:
        raise InvalidArgument("chart", "this list has no counts to draw; ask with counts")
    about = figures.about()
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure)
    axes: dict[str, Any] = {} if figures.keys else {"axis": None}
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "title": {
                "text": visible(title) or (f"{measure} by {by}" if by else measure),
                "subtitle": about if figures.keys else [about, NOTHING_SHOWN],
            },
            "data": {"values": _values(figures)},
            "width": 480,
            "height": {"step": 22},
            "encoding": {
                "x": {"type": "quantitative", "title": measure, **axes},
                "y": {"field": "label", "type": "nominal", "sort": None, "title": by or None, **axes},
            },
            "layer": _layers(figures.span()),
            "config": copy.deepcopy(_LOOK | {"axisX": _LOOK["axisX"] | {"format": figures.ticks}}),
        }
    )


def _values(figures: Figures) -> list[dict[str, Any]]:
    """A row for each bar, the largest first."""
    order = sorted(range(len(figures.keys)), key=lambda row: -figures.counts[row])
    labels = _apart([" · ".join(map(shown, figures.keys[row])) if figures.by else "total" for row in order])
    return [{"label": label, **_bar(figures, row, label)} for row, label in zip(order, labels, strict=True)]


def _apart(labels: Sequence[str]) -> list[str]:
    """Keys that read alike are told apart, or they would be drawn as one."""
    taken: dict[str, None] = {}
    for plain in labels:
        numbered = (f"{plain} ({number})" for number in itertools.count(2))
        taken[next(name for name in itertools.chain([plain], numbered) if name not in taken)] = None
    return [*taken]


def _bar(figures: Figures, row: int, label: str) -> dict[str, Any]:
    count, (low, high) = figures.counts[row], figures.interval(row)
    said = f"{label}: {figure(count)}{', ' if figures.intervals else ' '}{figures.within(row)}"
    return {"count": count, "low": low, "high": high, "end": max(high, 0), "figure": figure(count), "said": said}


def _layers(span: tuple[float, float]) -> list[dict[str, Any]]:
    """Bars, the line they start from, whiskers with their ends, and the counts in figures.

    Without a `description` of our own, Vega-Lite would write the titles of the axes into an expression, unescaped.
    """
    x = {"field": "count", "stack": None, "scale": {"domain": list(span), "nice": True, "zero": True}}
    said = {"field": "said", "type": "nominal"}
    line = {"type": "rule", "color": _INK, "strokeWidth": 1.2, "aria": False}
    cap = {"type": "tick", "color": _INK, "thickness": 1.2, "size": 8, "aria": False}
    words = {"type": "text", "align": "left", "dx": 6, "color": _INK, "fontSize": 11, "aria": False}
    return [
        {
            "mark": {"type": "bar", "color": _BAR, "height": {"band": 0.7}},
            "encoding": {"x": x, "description": said, "tooltip": said},
        },
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "color": _QUIET, "aria": False},
            "encoding": {"x": {"datum": 0}, "y": None},
        },
        {"mark": line, "encoding": {"x": {"field": "low"}, "x2": {"field": "high"}}},
        {"mark": cap, "encoding": {"x": {"field": "low"}}},
        {"mark": cap, "encoding": {"x": {"field": "high"}}},
        {"mark": words, "encoding": {"x": {"field": "end"}, "text": {"field": "figure", "type": "nominal"}}},
    ]


@dataclass(frozen=True, slots=True)
class Panel:
    """Shares of a whole that rise by day, from day 1 on: a line for each label."""

    title: str
    lines: Mapping[str, tuple[float, ...]]


def steps(panels: Sequence[Panel], *, title: str, about: Sequence[str]) -> Chart:
    """Panels side by side with one axis in percent: a line jumps where a share rises, also on the first day."""
    most = max((share for panel in panels for line in panel.lines.values() for share in line), default=0.0)
    top = max(math.ceil(10 * most) / 10, 0.1)
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "title": {"text": visible(title), "subtitle": [visible(line) for line in about]},
            "hconcat": [_panel(panel, top) for panel in panels],
            "resolve": {"scale": {"color": "independent"}, "legend": {"color": "independent"}},
            "config": copy.deepcopy(_LOOK | _STEPS_LOOK),
        }
    )


def _panel(panel: Panel, top: float) -> dict[str, Any]:
    """A line begins at nothing before day 1, and is level across each day."""
    labels = [visible(label) for label in panel.lines]
    days = max(map(len, panel.lines.values()), default=31)
    points = [
        {"budget": visible(label), "day": day, "share": share}
        for label, line in panel.lines.items()
        for day, share in enumerate([0.0, *line])
    ]
    return {
        "title": {"text": panel.title, "fontSize": 13, "offset": 8},
        "data": {"values": points},
        "width": 300,
        "height": 240,
        "mark": {"type": "line", "interpolate": "step-before", "strokeWidth": 2, "strokeJoin": "round", "clip": True},
        "encoding": {
            "x": {
                "field": "day",
                "type": "quantitative",
                "title": "days since the first charge",
                "scale": {"domain": [0, days], "nice": False},
                "axis": {
                    "values": [*range(0, days + 1, 7 if days > 7 else 1)],
                    "grid": False,
                    "domain": True,
                    "domainColor": _QUIET,
                },
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "title": None,
                "scale": {"domain": [0, top]},
                "axis": {"format": ".2~%"},
            },
            "color": {
                "field": "budget",
                "type": "nominal",
                "sort": None,
                "scale": {"domain": labels, "range": _LINES[: len(labels)]},
            },
            "description": {"field": "budget", "type": "nominal"},
        },
    }


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of a report: for each step of time and each key of the column `by`, a count of every measure.

    A row is (the place of its step, its key, its counts); a count that is None is not shown. Without `by` the counts
    are totals. `errors` have for each measure the half-width that holds with 95 %.
    """

    by: str | None
    steps: tuple[tuple[date, date], ...]
    errors: Mapping[str, int]
    rows: tuple[tuple[int, str, tuple[int | None, ...]], ...]
    zone: str

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(self.errors)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, those with the largest counts of the first measure first."""
        sums: dict[str, int] = {}
        for _, key, counts in self.rows:
            sums[key] = sums.get(key, 0) + (counts[0] or 0)
        return tuple(sorted(sums, key=lambda key: -sums[key]))

    @property
    def over_time(self) -> bool:
        return len(self.steps) > 1

    def moment(self, moment: date) -> str:
        """A border of a step, without the time of day where all of them are midnights."""
        timed = isinstance(moment, datetime) and any(map(_timed, itertools.chain(*self.steps)))
        return moment.isoformat(sep=" ", timespec="minutes") if timed else moment.isoformat()[:10]  # type: ignore[call-arg]

    def counts(self, measure: str) -> dict[tuple[int, str], int | None]:
        """The counts of one measure, by step and key."""
        place = self.measures.index(measure)
        return {(step, key): counts[place] for step, key, counts in self.rows}

    def figures(self, measure: str) -> Figures:
        """The rows of which a count is shown, as bars."""
        counts = self.counts(measure)
        named = (*(["start"] if self.over_time else []), *([] if self.by is None else [self.by]))
        shown_rows = [place for place, count in counts.items() if count is not None]
        return Figures(
            by=named,
            keys=tuple(self._key(*place) for place in shown_rows),
            measure=measure,
            counts=tuple(counts[place] or 0 for place in shown_rows),
            error=self.errors[measure],
            thinned=len(shown_rows) < len(counts),
        )

    def _key(self, step: int, key: str) -> tuple[str, ...]:
        when = [self.moment(self.steps[step][0])] if self.over_time else []
        return (*when, *([] if self.by is None else [key]))

    def within(self, measure: str) -> str:
        """How far off a count may be, in few words."""
        return f"± {self.errors[measure]:,}"

    def about(self, total: int = 0) -> str:
        """What a reader of the picture must know; `total` is of how many keys those in it are the largest."""
        alike = len(set(self.errors.values())) == 1
        each = self.measures[:1] if alike else self.measures
        errors = ", ".join(self.within(name) if alike else f"{heading(name)} {self.within(name)}" for name in each)
        largest = [f"the {len(_LINES)} largest of {total:,}"] if total > len(_LINES) else []
        gaps = ["small counts are not shown"] if self.thinned else []
        zone = [visible(self.zone)] if self.over_time else []
        return " · ".join([f"{errors} with 95 % confidence", *largest, *gaps, *self._clipped(), *zone])

    @property
    def thinned(self) -> bool:
        """Whether counts are missing: none where it was too small, and no row where all of a key's were."""
        every = len(self.rows) == len(self.steps) * len(self.keys)
        return not every or any(count is None for _, _, counts in self.rows for count in counts)

    def _clipped(self) -> list[str]:
        """Whether a range cuts its first or its last step short, so that their counts are smaller."""
        if not self.over_time:
            return []
        lengths = [end - start for start, end in self.steps]
        most = max(lengths)
        short = [name for name, each in (("first", lengths[0]), ("last", lengths[-1])) if each < most * 0.85]
        return [f"the {' and the '.join(short)} step{' is' if len(short) == 1 else 's are'} shorter"] if short else []


def _timed(moment: date) -> bool:
    return isinstance(moment, datetime) and moment.time() != time()


def report_chart(sheet: Sheet, *, title: str) -> Chart:
    """Bars with whiskers for one range of time; for several, lines in a band as wide as their error."""
    if not sheet.over_time and len(sheet.measures) == 1:
        return chart(sheet.figures(sheet.measures[0]), title=title)
    if not sheet.over_time and sheet.by is None:
        return chart(_totals(sheet), title=title or " and ".join(map(heading, sheet.measures)))
    panels = _curves(sheet) if sheet.over_time else _columns(sheet)
    names = " and ".join(map(heading, sheet.measures))
    about = sheet.about(len(sheet.keys) if sheet.over_time else 0)
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "title": {
                "text": visible(title) or (names if sheet.by is None else f"{names} by {heading(sheet.by)}"),
                "subtitle": [*_halves(about), *([] if sheet.rows else [NONE_SHOWN])],
            },
            "vconcat" if sheet.over_time else "hconcat": panels,
            "resolve": {"scale": {"color": "shared"}, "legend": {"color": "shared"}},
            "config": copy.deepcopy(_LOOK | (_STEPS_LOOK if sheet.over_time else {"concat": {"spacing": 28}})),
        }
    )


def _halves(about: str) -> list[str]:
    """A long line as two."""
    first, _, rest = about.partition(" · ")
    return [first, rest] if len(about) > _WIDE else [about]


_WIDE = 80
NONE_SHOWN = "No count is large enough to be shown."


def _totals(sheet: Sheet) -> Figures:
    """The totals of one range, a bar for each statistic."""
    (counts,) = [counts for _, _, counts in sheet.rows] or [()]
    told = [(name, count) for name, count in zip(sheet.measures, counts, strict=False) if count is not None]
    intervals = tuple((max(count - sheet.errors[name], 0), count + sheet.errors[name]) for name, count in told)
    keys, numbers = tuple((heading(name),) for name, _ in told), tuple(count for _, count in told)
    return Figures(("statistic",), keys, "count", numbers, intervals=intervals)


def _columns(sheet: Sheet) -> list[dict[str, Any]]:
    """Bars of several statistics side by side, the keys of all in the order of the first."""
    labels = dict(zip(sheet.keys, _apart(list(map(shown, sheet.keys))), strict=True))
    y: dict[str, Any] = {"field": "label", "type": "nominal", "sort": None, "title": heading(sheet.by or "")}
    y["scale"] = {"domain": [*labels.values()]}
    return [
        {
            "data": {
                "values": [
                    {"label": labels[key], **_bar(figures, row, labels[key])} for row, (key,) in enumerate(figures.keys)
                ]
            },
            "width": max(480 // len(sheet.measures), 160),
            "height": {"step": 22},
            "encoding": {
                "x": {"type": "quantitative", "title": heading(figures.measure or ""), "axis": {"tickCount": 3}},
                "y": y | ({"axis": None} if place else {}),
            },
            "layer": _layers(figures.span()),
        }
        for place, figures in enumerate(map(sheet.figures, sheet.measures))
    ]


def _curves(sheet: Sheet) -> list[dict[str, Any]]:
    """Totals share one panel, a line for each statistic; otherwise each has its own, with a line for each key."""
    if sheet.by is None:
        labels = _apart(list(map(heading, sheet.measures)))
        return [_curve_panel(sheet, {label: (name, "") for label, name in zip(labels, sheet.measures, strict=True)})]
    largest = sheet.keys[: len(_LINES)]
    labels = _apart(list(map(shown, largest)))
    return [
        _curve_panel(
            sheet,
            {label: (name, key) for label, key in zip(labels, largest, strict=True)},
            heading(name) if len(sheet.measures) > 1 else "",
        )
        for name in sheet.measures
    ]


def _curve_panel(sheet: Sheet, lines: Mapping[str, tuple[str, str]], title: str = "") -> dict[str, Any]:
    """Lines by label, each of a measure and a key."""
    points = [point for label, line in lines.items() for point in _points(sheet, label, *line)]
    most = max([10, *(point["high"] for point in points)])
    said = {"field": "said", "type": "nominal"}
    y = {"type": "quantitative", "title": None, "scale": {"domain": [0, most], "nice": True}}
    detail = {"field": "run", "type": "nominal"}
    return {
        **({"title": {"text": title, "fontSize": 13, "offset": 8}} if title else {}),
        "data": {"values": points},
        "width": 600,
        "height": 240,
        "encoding": {"x": _time_axis(sheet), "color": _color([*lines]), "description": said, "tooltip": said},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.16, "strokeWidth": 0, "aria": False},
                "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}, "detail": detail},
            },
            {
                "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round", "aria": False},
                "encoding": {"y": {"field": "count", **y}, "detail": detail},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 4, "opacity": 0.2, "aria": False},
                "transform": [{"filter": "datum.alone"}],
                "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 26, "opacity": 1},
                "transform": [{"filter": "datum.dot"}],
                "encoding": {"y": {"field": "count", **y}},
            },
        ],
    }


def _points(sheet: Sheet, label: str, measure: str, key: str) -> list[dict[str, Any]]:
    """The shown counts of one line. `run` tells stretches without a gap apart; what stands alone is a dot."""
    counts, error = sheet.counts(measure), sheet.errors[measure]
    points: list[dict[str, Any]] = []
    run, before = 0, -1
    for step, (start, _) in enumerate(sheet.steps):
        count = counts.get((step, key))
        if count is None:
            continue
        if before != step - 1 or sheet.steps[before][1] != start:
            run += 1
        before = step
        ends = {"low": max(count - error, 0), "high": count + error}
        said = f"{label}, {sheet.moment(start)}: {figure(count)} {sheet.within(measure)}"
        names = {"label": label, "at": f"{start.isoformat()[:10]}T{_clock(start)}Z", "run": f"{label} {run}"}
        points.append({**names, "count": count, **ends, "said": said})
    sizes, few = Counter(point["run"] for point in points), len(sheet.steps) <= _DOTTED
    return [{**point, "alone": sizes[point["run"]] == 1, "dot": few or sizes[point["run"]] == 1} for point in points]


_DOTTED, _TICKS = 31, 8


def _clock(moment: date) -> str:
    return moment.time().isoformat("seconds") if isinstance(moment, datetime) else "00:00:00"


def _time_axis(sheet: Sheet) -> dict[str, Any]:
    """Ticks stand at the starts of steps. The clock is the report's own, whatever the zone of who draws."""
    starts = [start for start, _ in sheet.steps]
    ticks = starts[:: math.ceil(len(starts) / _TICKS)]
    timed, years = any(map(_timed, ticks)), len({start.year for start in ticks}) > 1
    pattern = f"%d %b{' %Y' if years else ''}{' %H:%M' if timed else ''}"
    if all(start.day == 1 for start in ticks) and not timed:
        pattern = "%b %Y"
    return {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc"},
        "axis": {"values": [_tick(start) for start in ticks], "format": pattern, "grid": False, "labelFlush": True},
    }


def _tick(moment: date) -> dict[str, Any]:
    clock = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    day = {"year": clock.year, "month": clock.month, "date": clock.day}
    return {**day, "hours": clock.hour, "minutes": clock.minute, "utc": True}


def _color(labels: Sequence[str]) -> dict[str, Any]:
    legend = {"columns": 4, "direction": "horizontal", "symbolOpacity": 1}
    return {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "scale": {"domain": [*labels], "range": [*_LINES[: len(labels)]]},
        "legend": None if len(labels) == 1 else legend,
    }


# Dark enough on white, and told apart also by those who do not see red and green.
_LINES = (
    *("#1f4e79", "#d1662c", "#2f8f83", "#8a5aa8", "#b08a1e"),
    *("#6f9fd0", "#a8384f", "#5b6770", "#7fb069", "#d88fb0"),
)

_LOOK: dict[str, Any] = {
    "background": "white",
    "padding": 12,
    "font": "Helvetica Neue, Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "frame": "group",
        "offset": 16,
        "color": _INK,
        "fontSize": 15,
        "fontWeight": 600,
        "subtitleColor": _QUIET,
        "subtitleFontSize": 12,
        "subtitlePadding": 5,
    },
    "axis": {
        "domain": False,
        "ticks": False,
        "labelFontSize": 12,
        "titleColor": _QUIET,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "axisX": {
        "format": ",d",
        "gridColor": "#e4e8ec",
        "labelColor": _QUIET,
        "labelFlush": False,
        "tickCount": 6,
        "titlePadding": 8,
    },
    # The name of the keys stands above them, where no long key can run into it.
    "axisY": {
        "labelColor": _INK,
        "labelLimit": 280,
        "labelPadding": 8,
        "titleAlign": "right",
        "titleAnchor": "end",
        "titleAngle": 0,
        "titleBaseline": "bottom",
        "titleX": -8,
        "titleY": -4,
    },
}

_STEPS_LOOK: dict[str, Any] = {
    "axisY": {"gridColor": "#e4e8ec", "labelColor": _QUIET, "labelPadding": 8, "tickCount": 5},
    "legend": {
        "orient": "bottom",
        "direction": "vertical",
        "columns": 2,
        "title": None,
        "labelFontSize": 12,
        "labelColor": _INK,
        "labelLimit": 280,
        "symbolType": "stroke",
        "symbolStrokeWidth": 3,
        "symbolSize": 220,
        "offset": 10,
    },
    "concat": {"spacing": 28},
}


def table_html(figures: Figures, lines: Mapping[str, str]) -> str:
    """A table with bars and, below it, `lines`: plain HTML that takes its ink from the page, light or dark."""
    body = _rows_html(figures) if figures.keys else f'<p style="margin:.3em 0">{NOTHING_SHOWN}</p>'
    return _page_html(body, lines)


def _page_html(body: str, lines: Mapping[str, str]) -> str:
    *receipt, last = (f"<b>{_escaped(label)}</b> {_escaped(text)}" for label, text in lines.items())
    below = f"{' · '.join(receipt)}<br>{last}"
    return f'<div style="max-width:56em">{body}<div style="{_BELOW}">{below}</div></div>'


_BELOW = "margin:.6em 0;font-size:.85em;line-height:1.5;opacity:.75"
_LABEL = "text-align:left;max-width:22em;overflow:hidden;text-overflow:ellipsis"


def _rows_html(figures: Figures) -> str:
    heads = [_cell_html("th", "text-align:left", _escaped(heading(name))) for name in figures.by]
    rows = ["".join(map(_key_html, key)) for key in figures.keys]
    if figures.measure is not None:
        heads.append(_cell_html("th", "text-align:right", _escaped(heading(figures.measure))))
        heads.append(_cell_html("th", "text-align:left", "95 %") + _cell_html("th", "width:45%", ""))
        rows = [row + _count_html(figures, place) for place, row in enumerate(rows)]
    return _table_html(["".join(heads), *rows])


def _table_html(rows: Sequence[str]) -> str:
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="width:100%;border-collapse:collapse;background:none">{body}</table>'


def _escaped(text: str) -> str:
    return html.escape(visible(text))


def _key_html(key: str) -> str:
    told = html.escape(shown(key))
    return _cell_html("td", _LABEL, f'<span title="{told}">{told}</span>')


def _cell_html(tag: str, style: str, content: str) -> str:
    return f'<{tag} style="padding:.15em .7em .15em 0;white-space:nowrap;background:none;{style}">{content}</{tag}>'


def _number_html(number: str) -> str:
    return _cell_html("td", "text-align:right;font-variant-numeric:tabular-nums", number)


def _count_html(figures: Figures, row: int) -> str:
    """The count, its error, and a bar."""
    within = _cell_html("td", "text-align:left;opacity:.75", figures.within(row))
    return _number_html(figure(figures.counts[row])) + within + _bar_html(figures, row)


def _bar_html(figures: Figures, row: int) -> str:
    """A bar from 0 with a whisker across the interval."""
    start, end = figures.span()
    count, (low, high) = figures.counts[row], figures.interval(row)

    def across(left: float, right: float) -> str:
        return (
            f"position:absolute;left:{_percent(left - start, end - start)};width:{_percent(right - left, end - start)}"
        )

    bar = f'<div style="{across(min(0, count), max(0, count))};top:15%;bottom:15%;background:#5b85b0"></div>'
    whisker = (
        f'<div style="{across(low, high)};top:30%;bottom:30%;box-sizing:border-box;'
        'border:solid currentColor;border-width:0 1px"></div>'
        f'<div style="{across(low, high)};top:50%;border-top:1px solid currentColor"></div>'
    )
    return _cell_html("td", "width:45%", f'<div style="position:relative;height:1.3em">{bar}{whisker}</div>')


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%"


MOST_HTML = 200


def report_html(sheet: Sheet, lines: Mapping[str, str]) -> str:
    """The numbers of a report as a table, with bars for the first statistic, and `lines` below it."""
    body = _sheet_html(sheet) if sheet.rows else f'<p style="margin:.3em 0">{NONE_SHOWN}</p>'
    rest = len(sheet.rows) - MOST_HTML
    more = f'<p style="margin:.3em 0">and {rest:,} more rows; see to_pandas()</p>' if rest > 0 else ""
    return _page_html(body + more, lines)


def _sheet_html(sheet: Sheet) -> str:
    named = [*(["start"] if sheet.over_time else []), *([] if sheet.by is None else [sheet.by])]
    heads = [_cell_html("th", "text-align:left", _escaped(heading(name))) for name in named]
    for name in sheet.measures:
        within = f' <span style="font-weight:normal;opacity:.75">{sheet.within(name)}</span>'
        heads.append(_cell_html("th", "text-align:right", _escaped(heading(name)) + within))
    heads.append(_cell_html("th", "width:45%", ""))
    first = sheet.measures[0]
    some = replace(sheet, rows=sheet.rows[:MOST_HTML])
    bars = iter([_bar_html(some.figures(first), row) for row in range(len(some.figures(first).counts))])
    rows = []
    for step, key, counts in some.rows:
        cells = [_key_html(part) for part in some._key(step, key)]
        cells += [_number_html("-" if count is None else figure(count)) for count in counts]
        cells.append(_cell_html("td", "width:45%", "") if counts[0] is None else next(bars))
        rows.append("".join(cells))
    return _table_html(["".join(heads), *rows])
