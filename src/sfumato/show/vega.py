"""Vega-Lite specifications of bars and of steps, and the look that all charts share."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

from sfumato.errors import InvalidArgument
from sfumato.show.figures import MAX_LINES, Figures, Panel
from sfumato.show.pictures import Chart
from sfumato.show.text import NO_GROUPS, distinct, figure, heading, key_label, visible

Spec = dict[str, Any]

_SCHEMA = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json"}
_BAR, _INK, _QUIET, _GRID = "#8fafcf", "#1f2933", "#66727f", "#e4e8ec"

# Dark enough on white, and distinct also for readers who cannot tell red from green.
COLOURS = (
    *("#1f4e79", "#d1662c", "#2f8f83", "#8a5aa8", "#b08a1e"),
    *("#6f9fd0", "#a8384f", "#5b6770", "#7fb069", "#d88fb0"),
)[:MAX_LINES]

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
    "axisY": {"gridColor": _GRID, "labelColor": _QUIET, "labelPadding": 8, "tickCount": 5},
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


def make_chart(title: Spec, look: Spec, **parts: Any) -> Chart:
    """A chart of these parts. The look is copied: the specification belongs to the caller."""
    return Chart({**_SCHEMA, "title": title, **parts, "config": copy.deepcopy(look)})


def chart(figures: Figures, *, title: str) -> Chart:
    """Horizontal bars with error whiskers, the largest on top."""
    if figures.measure is None:
        raise InvalidArgument("chart", "this list has no counts to draw; ask with counts")
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure)
    about = figures.about()
    head: Spec = {
        "text": visible(title) or (f"{measure} by {by}" if by else measure),
        "subtitle": about if figures.keys else [about, NO_GROUPS],
    }
    return bar_chart(figures, head)


def bar_chart(figures: Figures, head: Spec) -> Chart:
    """Bars below the title `head`, the largest on top."""
    by, measure = " · ".join(map(heading, figures.by)), heading(figures.measure or "")
    axes: Spec = {} if figures.keys else {"axis": None}
    order = sorted(range(len(figures.keys)), key=lambda row: -figures.counts[row])
    labels = distinct([" · ".join(map(key_label, figures.keys[row])) if figures.by else "total" for row in order])
    return make_chart(
        head,
        BARS_LOOK | {"axisX": BARS_LOOK["axisX"] | {"format": figures.ticks}},
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
    said = f"{label}: {figure(count)}{', ' if figures.intervals else ' '}{figures.within(row)}".rstrip()
    ends = {"low": low, "high": high, "end": max(high, 0)}
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


def steps(panels: Sequence[Panel], *, title: str, about: Sequence[str]) -> Chart:
    """Panels side by side with one axis in percent. A line jumps where a share rises, also on the first day."""
    most = max((share for panel in panels for line in panel.lines.values() for share in line), default=0.0)
    top = max(math.ceil(10 * most) / 10, 0.1)
    return make_chart(
        {"text": visible(title), "subtitle": [visible(line) for line in about]},
        LINES_LOOK,
        hconcat=[_steps_panel(panel, top) for panel in panels],
        resolve={"scale": {"color": "independent"}, "legend": {"color": "independent"}},
    )


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
                "title": "days since the first charge",
                "scale": {"domain": [0, days], "nice": False},
                "axis": {"values": [*range(0, days + 1, 7 if days > 7 else 1)], **x_axis},
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
