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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


def noise_within(error: int) -> str:
    """How far off a number may be, in words: the half-width that the noise keeps with 95 %.

    >>> noise_within(1026)
    'the noise is within ± 1,026, 19 times in 20'
    """
    return f"the noise is within ± {error:,}, 19 times in 20"


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is to draw: keys in the columns `by` and, unless `measure` is None, a count or a number for each.

    Each is right within `error` with 95 % confidence or, where there are `intervals`, the truth lies in the row's own.
    Where `error` is None no interval is drawn. `thinned` says that small groups are absent, `total` of how many rows
    these are the largest.
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    measure: str | None = None
    counts: tuple[float, ...] = ()
    error: int | None = 0
    thinned: bool = False
    intervals: tuple[tuple[float, float], ...] = ()
    total: int | None = None

    def interval(self, row: int) -> tuple[float, float]:
        """Where the truth of a row lies.

        One made of `error` stops at 0 below a positive count, as nothing is counted less than never.
        """
        if self.intervals:
            return self.intervals[row]
        count, error = self.counts[row], self.error or 0
        low = count - error
        return (max(low, 0) if count > 0 else low), count + error

    def within(self, row: int) -> str:
        """The interval of a row in words."""
        if self.intervals:
            return " to ".join(map(figure, self.intervals[row]))
        return "" if self.error is None else f"± {self.error:,}"

    @property
    def bounded(self) -> bool:
        """Whether it is known where the truth lies."""
        return bool(self.intervals) or self.error is not None

    def span(self) -> tuple[float, float]:
        """The ends of an axis that holds 0 and every interval."""
        ends = [end for row in range(len(self.counts)) for end in self.interval(row)]
        return min([0, *ends]), max([0 if self._parts and any(ends) else 10, *ends])

    def about(self) -> str:
        """What a reader of the picture must know."""
        error = "with 95 % confidence intervals" if self.intervals else f"± {self.error or 0:,} with 95 % confidence"
        count, total = len(self.keys), self.total or 0
        largest = [f"the {count:,} largest of {total:,}"] if count < total else []
        absent = ["small groups are absent"] if self.thinned else []
        return " · ".join([*([error] if self.bounded else []), *largest, *absent])

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

    @property
    def title(self) -> str:
        text = self.spec["title"]["text"]
        return text if isinstance(text, str) else ", ".join(text)

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
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
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
        bundle: dict[str, Any] = {_MIME: self.spec, "text/plain": f"Chart: {self.title}"}
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
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure)
    about = figures.about()
    head: dict[str, Any] = {
        "text": visible(title) or (f"{measure} by {by}" if by else measure),
        "subtitle": about if figures.keys else [about, NOTHING_SHOWN],
    }
    return _bars(figures, head)


def _bars(figures: Figures, head: dict[str, Any]) -> Chart:
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure or "")
    axes: dict[str, Any] = {} if figures.keys else {"axis": None}
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "title": head,
            "data": {"values": _values(figures)},
            "width": 480,
            "height": {"step": 22},
            "encoding": {
                "x": {"type": "quantitative", "title": measure, **axes},
                "y": {"field": "label", "type": "nominal", "sort": None, "title": by or None, **axes},
            },
            "layer": _layers(figures),
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
    said = f"{label}: {figure(count)}{', ' if figures.intervals else ' '}{figures.within(row)}".rstrip()
    return {"count": count, "low": low, "high": high, "end": max(high, 0), "figure": figure(count), "said": said}


def _layers(figures: Figures) -> list[dict[str, Any]]:
    """Bars, the line they start from, whiskers with their ends where there are intervals, and the counts in figures.

    Without a `description` of our own, Vega-Lite would write the titles of the axes into an expression, unescaped.
    """
    x = {"field": "count", "stack": None, "scale": {"domain": list(figures.span()), "nice": True, "zero": True}}
    said = {"field": "said", "type": "nominal"}
    line = {"type": "rule", "color": _INK, "strokeWidth": 1.2, "aria": False}
    cap = {"type": "tick", "color": _INK, "thickness": 1.2, "size": 8, "aria": False}
    words = {"type": "text", "align": "left", "dx": 6, "color": _INK, "fontSize": 11, "aria": False}
    whiskers: list[dict[str, Any]] = [
        {"mark": line, "encoding": {"x": {"field": "low"}, "x2": {"field": "high"}}},
        {"mark": cap, "encoding": {"x": {"field": "low"}}},
        {"mark": cap, "encoding": {"x": {"field": "high"}}},
    ]
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
        *(whiskers if figures.bounded else []),
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
    are totals. `errors` have for each measure the half-width that holds with 95 %; None where no such interval is
    known, and then `accuracy` says in words what is.

    The question is that of an `entity`, by level from the top, in the range `asked`, of which all before `until` is
    complete. The places of steps that are shorter than their `level` are in `cut`; `hides` says that small counts are
    not shown.
    """

    by: str | None
    steps: tuple[tuple[date, date], ...]
    errors: Mapping[str, int | None]
    rows: tuple[tuple[int, str, tuple[int | None, ...]], ...]
    zone: str
    entity: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[date, date] | None = None
    until: date | None = None
    level: str = "all"
    cut: tuple[int, ...] = ()
    accuracy: str = ""
    hides: bool = False

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

    @property
    def shows(self) -> bool:
        """Whether any count is shown."""
        return any(count is not None for _, _, counts in self.rows for count in counts)

    @property
    def whose(self) -> str:
        return ", ".join(f"{heading(level)} {visible(name)}" for level, name in self.entity.items())

    @property
    def range(self) -> str:
        """The range that was asked for, in words."""
        if self.asked is None:
            return ""
        timed = any(map(_timed, self.asked))
        start, end = (_written(moment, timed=timed) for moment in self.asked)
        return f"from {start} to before {end}"

    @property
    def titles(self) -> tuple[str, str]:
        """What is counted; and of whom and when."""
        names = " and ".join(map(heading, self.measures))
        counted = names if self.by is None else f"{names} by {heading(self.by)}"
        return counted, ", ".join(part for part in (self.whose, self.range) if part)

    def start(self, step: int) -> str:
        """The start of a step, without the time of day where all are midnights; marked where the step is cut short."""
        timed = any(_timed(start) for start, _ in self.steps)
        return f"{_written(self.steps[step][0], timed=timed)}{' (part)' if step in self.cut else ''}"

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
        when = [self.start(step)] if self.over_time else []
        return (*when, *([] if self.by is None else [key]))

    def within(self, measure: str) -> str:
        """How far off a count may be, in few words; none where that is not known."""
        error = self.errors[measure]
        return "" if error is None else f"± {error:,}"

    @property
    def bounded(self) -> bool:
        """Whether it is known how far off the counts may be."""
        return None not in self.errors.values()

    def about(self, total: int = 0) -> str:
        """What a reader of the picture must know; `total` is of how many keys those in it are the largest."""
        alike = len(set(self.errors.values())) == 1
        each = self.measures[:1] if alike else self.measures
        errors = ", ".join(self.within(name) if alike else f"{heading(name)} {self.within(name)}" for name in each)
        error = f"{errors} with 95 % confidence" if self.bounded else visible(self.accuracy)
        largest = [f"the {len(_LINES)} largest of {total:,}"] if total > len(_LINES) else []
        gaps = ["small counts are not shown"] if self.shows and (self.hides or self.thinned) else []
        zone = [visible(self.zone)] if self.over_time else []
        parts = error, *largest, *gaps, *self._clipped(), cut_short(self.cut, len(self.steps), self.level), *zone
        return " · ".join(part for part in parts if part)

    @property
    def thinned(self) -> bool:
        """Whether counts are missing: none where it was too small, and no row where all of a key's were."""
        every = len(self.rows) == len(self.steps) * len(self.keys)
        return not every or any(count is None for _, _, counts in self.rows for count in counts)

    def _clipped(self) -> list[str]:
        """Where the numbers end, if that is before the end that was asked for."""
        if self.asked is None or self.until is None or self.until >= self.asked[1]:
            return []
        return [f"complete until {_written(self.until, timed=_timed(self.until))}"]


def _timed(moment: date) -> bool:
    return isinstance(moment, datetime) and moment.time() != time()


def _written(moment: date, *, timed: bool) -> str:
    whole = moment.isoformat(" ", "minutes") if isinstance(moment, datetime) else moment.isoformat()
    return whole if timed else whole[:10]


def cut_short(places: Iterable[int], steps: int, level: str) -> str:
    """Which of so many steps are shorter than their level of time, in words; none for no places.

    >>> cut_short([0], 5, "week")
    'the first step is shorter than a week'
    """
    names = ["the only" if steps == 1 else "the last" if place else "the first" for place in sorted({*places})]
    verb = "step is" if len(names) == 1 else "steps are"
    length = f"{level[:-1]} hours" if level[:1].isdigit() else f"a {level}"
    return f"{' and '.join(names)} {verb} shorter than {length}" if names else ""


def report_chart(sheet: Sheet, *, title: str) -> Chart:
    """Bars with whiskers for one range of time; for several, lines in a band as wide as their error."""
    about = sheet.about(len(sheet.keys) if sheet.over_time else 0)
    head = {
        "text": visible(title) or _wrapped(*sheet.titles),
        "subtitle": [*_folded(about), *([] if sheet.shows else [NONE_SHOWN])],
    }
    if not sheet.over_time and len(sheet.measures) == 1:
        return _bars(sheet.figures(sheet.measures[0]), head)
    if not sheet.over_time and (sheet.by is None or not sheet.shows):
        return _bars(_totals(sheet), head)
    panels = _curves(sheet) if sheet.over_time else _columns(sheet)
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "title": head,
            "vconcat" if sheet.over_time else "hconcat": panels,
            "resolve": {"scale": {"color": "shared"}, "legend": {"color": "shared"}},
            "config": copy.deepcopy(_LOOK | (_STEPS_LOOK if sheet.over_time else {"concat": {"spacing": 28}})),
        }
    )


def _folded(about: str) -> list[str]:
    """A long line as several, none of which breaks a part."""
    first, *parts = about.split(" · ")
    lines = [first]
    for part in parts:
        longer = f"{lines[-1]} · {part}"
        lines = [*lines[:-1], longer] if len(longer) <= _WIDE else [*lines, part]
    return lines


def _wrapped(counted: str, asked: str) -> str | list[str]:
    """A title, in two lines where it is long."""
    whole = f"{counted}, {asked}" if asked else counted
    return whole if len(whole) <= _TITLE else [counted, asked]


_WIDE, _TITLE = 80, 56
NONE_SHOWN = "Small counts are not shown, and all of these are small."


def _totals(sheet: Sheet) -> Figures:
    """The totals of one range, a bar for each statistic."""
    (counts,) = [counts for _, _, counts in sheet.rows] or [()]
    told = [(name, count) for name, count in zip(sheet.measures, counts, strict=False) if count is not None]
    errors = [(count, error) for name, count in told if (error := sheet.errors[name]) is not None]
    intervals = tuple((max(count - error, 0), count + error) for count, error in errors)
    keys, numbers = tuple((heading(name),) for name, _ in told), tuple(count for _, count in told)
    return Figures(("statistic",), keys, "count", numbers, error=None, intervals=intervals)


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
            "layer": _layers(figures),
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
    band: dict[str, Any] = {"y": {"field": "low", **y}, "y2": {"field": "high"}}
    bands: list[dict[str, Any]] = [
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
        "encoding": {"x": _time_axis(sheet), "color": _color([*lines]), "description": said, "tooltip": said},
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


def _points(sheet: Sheet, label: str, measure: str, key: str) -> list[dict[str, Any]]:
    """The shown counts of one line. `run` tells stretches without a gap apart; what stands alone is a dot."""
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
        ends = {"low": max(count - error, 0), "high": count + error}
        said = f"{label}, {sheet.start(step)}: {figure(count)} {sheet.within(measure)}".rstrip()
        names = {"label": label, "at": f"{start.isoformat()[:10]}T{_clock(start)}Z", "run": f"{label} {run}"}
        points.append({**names, "count": count, **ends, "said": said})
    sizes, few = Counter(point["run"] for point in points), len(sheet.steps) <= _DOTTED
    return [{**point, "alone": sizes[point["run"]] == 1, "dot": few or sizes[point["run"]] == 1} for point in points]


_DOTTED, _TICKS = 31, 8


def _clock(moment: date) -> str:
    return moment.time().isoformat("seconds") if isinstance(moment, datetime) else "00:00:00"


def _time_axis(sheet: Sheet) -> dict[str, Any]:
    """From the first step to the last, shown or not, with ticks at starts of steps.

    The clock is the report's own, whatever the zone of who draws.
    """
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
        "scale": {"type": "utc", "domain": [_tick(starts[0]), _tick(starts[-1])]},
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
        "legend": legend if len(labels) > 1 else None,
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
    drawn = bar + (whisker if figures.bounded else "")
    return _cell_html("td", "width:45%", f'<div style="position:relative;height:1.3em">{drawn}</div>')


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%"


MAX_HTML = 200


def report_html(sheet: Sheet, lines: Mapping[str, str]) -> str:
    """The numbers of a report as a table, with bars for the first statistic, and `lines` below it."""
    body = _sheet_html(sheet) if sheet.shows else f'<p style="margin:.3em 0">{NONE_SHOWN}</p>'
    rest = len(sheet.rows) - MAX_HTML if sheet.shows else 0
    more = f'<p style="margin:.3em 0">and {rest:,} more rows; see to_pandas()</p>' if rest > 0 else ""
    asked = sheet.titles[1]
    head = f'<p style="margin:.3em 0"><b>{html.escape(asked)}</b></p>' if asked else ""
    return _page_html(head + body + more, lines)


def _sheet_html(sheet: Sheet) -> str:
    named = [*(["start"] if sheet.over_time else []), *([] if sheet.by is None else [sheet.by])]
    heads = [_cell_html("th", "text-align:left", _escaped(heading(name))) for name in named]
    for name in sheet.measures:
        within = f' <span style="font-weight:normal;opacity:.75">{sheet.within(name)}</span>'
        heads.append(_cell_html("th", "text-align:right", _escaped(heading(name)) + within))
    heads.append(_cell_html("th", "width:45%", ""))
    some = replace(sheet, rows=sheet.rows[:MAX_HTML])
    figures = some.figures(sheet.measures[0])
    bars = iter([_bar_html(figures, row) for row in range(len(figures.counts))])
    rows = []
    for step, key, counts in some.rows:
        cells = [_key_html(part) for part in some._key(step, key)]
        cells += [_number_html("-" if count is None else figure(count)) for count in counts]
        cells.append(_cell_html("td", "width:45%", "") if counts[0] is None else next(bars))
        rows.append("".join(cells))
    return _table_html(["".join(heads), *rows])
