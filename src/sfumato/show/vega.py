"""Charts of bars and of steps: their drawings, their Vega-Lite specifications, and the look that all of these share."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from sfumato.errors import InvalidArgument
from sfumato.show.bars import BarPanel, Heading, describe_bar, draw_bars
from sfumato.show.drawing import round_steps
from sfumato.show.figures import CurvePanel, Figures, Panel
from sfumato.show.lines import Axis, Line, LinePanel, Point, draw_lines
from sfumato.show.palette import BAR, COLOURS, LIGHT
from sfumato.show.pictures import Chart, Draw
from sfumato.show.text import distinct, figure, heading, key_label, visible

Spec = dict[str, Any]

_SCHEMA = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json"}
_INK, _QUIET, _GRID = LIGHT["ink"], LIGHT["quiet"], LIGHT["rule"]

_ABOUT_DAYS = "days since the first charge"
_CURVE_TICKS = (0.03, 0.05, 0.1, 0.2, 0.5)

BARS_LOOK: Spec = {
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
        "gridColor": _GRID,
        "gridDash": [1, 4],
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

LINES_LOOK: Spec = {
    **BARS_LOOK,
    "axisY": {"gridColor": _GRID, "gridDash": [1, 4], "labelColor": _QUIET, "labelPadding": 8, "tickCount": 5},
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


def make_chart(head: Heading, look: Spec, draw: Draw, **parts: Any) -> Chart:
    """A chart of these parts. The look is copied: the specification belongs to the caller."""
    title: Spec = {"text": one_or_list(head.titles)} | ({"subtitle": one_or_list(head.notes)} if head.notes else {})
    return Chart({**_SCHEMA, "title": title, **parts, "config": copy.deepcopy(look)}, draw)


def one_or_list(texts: tuple[str, ...]) -> str | list[str]:
    """Lines in the form of Vega-Lite: a text, or a list of several."""
    return texts[0] if len(texts) == 1 else [*texts]


def chart(figures: Figures, *, title: str) -> Chart:
    """Horizontal bars with error whiskers, the largest on top."""
    if figures.measure is None:
        raise InvalidArgument("chart", "this list has no counts to draw; ask with counts")
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure)
    about = figures.about()
    name = visible(title) or (f"{measure} by {by}" if by else measure)
    return bar_chart(figures, Heading((name,), (about,) if figures.keys else (about, figures.nothing)))


def bar_chart(figures: Figures, head: Heading) -> Chart:
    """Bars below a head, the largest on top."""
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure or "")
    axes: Spec = {} if figures.keys else {"axis": None}
    order = tuple(sorted(range(len(figures.keys)), key=lambda row: -figures.counts[row]))
    labels = distinct([" · ".join(map(key_label, figures.keys[row])) if figures.by else "total" for row in order])
    return make_chart(
        head,
        BARS_LOOK | {"axisX": BARS_LOOK["axisX"] | {"format": figures.ticks}},
        partial(draw_bars, head, by, labels, [BarPanel(figures, order)]),
        data={"values": [bar(figures, row, label) for row, label in zip(order, labels, strict=True)]},
        width=480,
        height={"step": 22},
        encoding={
            "x": {"type": "quantitative", "title": measure, **axes},
            "y": {"field": "label", "type": "nominal", "sort": None, "title": by or None, **axes},
        },
        layer=bar_layers(figures),
    )


def bar(figures: Figures, row: int, label: str) -> Spec:
    """The data of one bar. `said` is its description for screen readers and its tooltip."""
    count, (low, high) = figures.counts[row], figures.interval(row)
    ends = {"low": low, "high": high, "end": max(high, 0)}
    said = describe_bar(figures, row, label)
    return {"label": label, "count": count, **ends, "figure": figure(count), "said": said}


def bar_layers(figures: Figures) -> list[Spec]:
    """Bars, the line they start from, whiskers where there are intervals, and the counts in figures.

    Without a `description` of our own, Vega-Lite would write the titles of the axes into an expression, unescaped.
    """
    x = {"field": "count", "stack": None, "scale": {"domain": list(figures.span()), "nice": True, "zero": True}}
    said = {"field": "said", "type": "nominal"}
    line = {"type": "rule", "color": _INK, "strokeWidth": 1.2, "aria": False}
    cap = {"type": "tick", "color": _INK, "thickness": 1.2, "size": 8, "aria": False}
    words = {"type": "text", "align": "left", "dx": 6, "color": _INK, "fontSize": 11, "aria": False}
    whiskers: list[Spec] = [
        {"mark": line, "encoding": {"x": {"field": "low"}, "x2": {"field": "high"}}},
        {"mark": cap, "encoding": {"x": {"field": "low"}}},
        {"mark": cap, "encoding": {"x": {"field": "high"}}},
    ]
    return [
        {
            "mark": {"type": "bar", "color": BAR, "height": {"band": 0.7}},
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


def steps(panels: Sequence[Panel], *, title: str, about: Sequence[str]) -> Chart:
    """Panels side by side with one axis in percent. A line jumps where a share rises, also on the first day."""
    most = max((share for panel in panels for line in panel.lines.values() for share in line), default=0.0)
    top = max(math.ceil(10 * most) / 10, 0.1)
    head = Heading((visible(title),), tuple(map(visible, about)))
    return make_chart(
        head,
        LINES_LOOK,
        partial(draw_lines, head, [_draw_steps_panel(panel, top) for panel in panels], columns=len(panels)),
        hconcat=[_steps_panel(panel, top) for panel in panels],
        resolve={"scale": {"color": "independent"}, "legend": {"color": "independent"}},
    )


def _draw_steps_panel(panel: Panel, top: float) -> LinePanel:
    days = max(map(len, panel.lines.values()), default=31)
    lines = [
        Line(visible(label), place, (tuple(Point(day, share, share, share) for day, share in enumerate([0.0, *line])),))
        for place, (label, line) in enumerate(panel.lines.items())
    ]
    x = Axis(0, days, tuple((day, f"{day}") for day in _day_ticks(days)))
    y = Axis(0, top, tuple((share, f"{100 * share:.3g}%") for share in round_steps(0, top, 5)))
    return LinePanel(panel.title, tuple(lines), x, y, _ABOUT_DAYS, steps=True, named=True, height=180)


def _day_ticks(days: int) -> range:
    return range(0, days + 1, 7 if days > 7 else 1)


def _steps_panel(panel: Panel, top: float) -> Spec:
    """A line begins at 0 before day 1, and is level across each day."""
    labels = [visible(label) for label in panel.lines]
    days = max(map(len, panel.lines.values()), default=31)
    points = [
        {"budget": visible(label), "day": day, "share": share}
        for label, line in panel.lines.items()
        for day, share in enumerate([0.0, *line])
    ]
    x_axis = {"grid": False, "domain": True, "domainColor": _QUIET}
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
                "title": _ABOUT_DAYS,
                "scale": {"domain": [0, days], "nice": False},
                "axis": {"values": [*_day_ticks(days)], **x_axis},
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
                "scale": {"domain": labels, "range": COLOURS[: len(labels)]},
            },
            "description": {"field": "budget", "type": "nominal"},
        },
    }


def curves(panels: Sequence[CurvePanel], *, title: str, across: str) -> Chart:
    """Panels side by side, each with axes of its own. Numbers grow by factors, so both axes are logarithmic."""
    head = Heading((visible(title),), ())
    return make_chart(
        head,
        LINES_LOOK,
        partial(draw_lines, head, [_draw_curve_panel(panel, visible(across)) for panel in panels], columns=len(panels)),
        hconcat=[_curve_panel(panel, across) for panel in panels],
        resolve={"scale": {"color": "independent"}, "legend": {"color": "independent"}},
    )


def _draw_curve_panel(panel: CurvePanel, across: str) -> LinePanel:
    """Places are powers of ten."""
    lines = [
        Line(visible(label), place, (points,) if points else ())
        for place, (label, line) in enumerate(panel.lines.items())
        for points in [tuple(_log_point(x, y) for x, y in zip(panel.across, line, strict=True) if y > 0)]
    ]
    points = [point for line in lines for run in line.runs for point in run]
    left, right = (end((point.x for point in points), default=0.0) for end in (min, max))
    low, high = min([0.0, *(point.y for point in points)]), max([1.0, *(point.y for point in points)])
    x = Axis(left, right, tuple((math.log10(at), f"{at:g}") for at in _CURVE_TICKS if left <= math.log10(at) <= right))
    y = Axis(low, high, tuple((power, f"{10**power:,}") for power in range(int(high) + 1)))
    return LinePanel(visible(panel.title), tuple(lines), x, y, across, named=True)


def _log_point(x: float, y: float) -> Point:
    height = math.log10(y)
    return Point(math.log10(x), height, height, height)


def _curve_panel(panel: CurvePanel, across: str) -> Spec:
    labels = [visible(label) for label in panel.lines]
    points = [
        {"line": visible(label), "x": x, "y": y}
        for label, line in panel.lines.items()
        for x, y in zip(panel.across, line, strict=True)
        if y > 0
    ]
    scale = {"type": "log", "nice": False}
    x_axis = {
        "grid": False,
        "domain": True,
        "domainColor": _QUIET,
        "format": "~g",
        "values": [*_CURVE_TICKS],
    }
    return {
        "title": {"text": visible(panel.title), "fontSize": 13, "offset": 8},
        "data": {"values": points},
        "width": 300,
        "height": 240,
        "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": visible(across), "scale": scale, "axis": x_axis},
            "y": {
                "field": "y",
                "type": "quantitative",
                "title": None,
                "scale": {"type": "log", "domainMin": 1},
                "axis": {"format": ",d", "values": [10**power for power in range(7)]},
            },
            "color": {
                "field": "line",
                "type": "nominal",
                "sort": None,
                "scale": {"domain": labels, "range": COLOURS[: len(labels)]},
            },
            "description": {"field": "line", "type": "nominal"},
        },
    }
