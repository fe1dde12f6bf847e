"""Line charts of the benchmarks, as small multiples, written to plots/ beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.show import Chart

PLOTS = Path(__file__).with_name("plots")
Point = dict[str, Any]
BLUE, SKY, ORANGE, SAND, GREEN, LIME = "#1f5f9e", "#8db8df", "#c8591a", "#e9b188", "#3c8031", "#a3cf93"
_INK, _QUIET = "#1f2933", "#66727f"


@dataclass(frozen=True, slots=True)
class Line:
    """How the points of one method are drawn."""

    method: str
    color: str
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A field of the points as an axis. Where `values` are given, only these have labels."""

    field: str
    title: str
    scale: dict[str, Any] = field(default_factory=dict)
    values: Sequence[float] = ()
    format: str = "~g"

    def encoding(self) -> dict[str, Any]:
        labels: dict[str, Any] = {"title": self.title, "format": self.format}
        if self.values:
            labels["values"] = list(self.values)
        return {"field": self.field, "type": "quantitative", "scale": self.scale, "axis": labels}


@dataclass(frozen=True, slots=True)
class Panels:
    """One square panel for every value of `column` and, if there is one, of `row`, in the order given."""

    column: str
    columns: Sequence[str]
    row: str | None = None
    rows: Sequence[str] = ()
    side: int = 150

    def facet(self) -> dict[str, Any]:
        header = {"title": None, "labelFontSize": 12, "labelFontWeight": 600, "labelColor": _INK}
        facet: dict[str, Any] = {
            "column": {"field": self.column, "type": "nominal", "sort": list(self.columns), "header": header}
        }
        if self.row:
            facet["row"] = {"field": self.row, "type": "nominal", "sort": list(self.rows), "header": header}
        return facet


def lines(points: Sequence[Point], x: Axis, y: Axis, panels: Panels, methods: Sequence[Line]) -> Chart:
    """A line of dots for every method in every panel; `points` name theirs in the field "method"."""
    names = [line.method for line in methods]
    color = {"domain": names, "range": [line.color for line in methods]}
    dash = {"domain": names, "range": [[5, 3] if line.dashed else [1, 0] for line in methods]}
    legend = {"columns": -(-len(methods) // 2)}
    drawn = {"field": "method", "type": "nominal", "scale": color, "title": None, "legend": legend}
    dashed = {"field": "method", "type": "nominal", "scale": dash, "title": None, "legend": legend}
    layers = [
        {"mark": {"type": "line", "strokeWidth": 1.8}, "encoding": {"color": drawn, "strokeDash": dashed}},
        {"mark": {"type": "circle", "size": 24, "opacity": 1}, "encoding": {"color": drawn}},
    ]
    return Chart(
        {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "data": {"values": list(points)},
            "facet": panels.facet(),
            "spec": {
                "width": panels.side,
                "height": panels.side,
                "encoding": {"x": x.encoding(), "y": y.encoding()},
                "layer": layers,
            },
            "config": _LOOK,
        }
    )


def save(chart: Chart, name: str, about: str) -> str:
    """Write the chart as plots/`name`.svg; the Markdown that shows it beside RESULTS.md."""
    PLOTS.mkdir(exist_ok=True)
    chart.save(PLOTS / f"{name}.svg")
    return f"![{about}](plots/{name}.svg)\n"


_LOOK: dict[str, Any] = {
    "background": "white",
    "padding": 12,
    "font": "Helvetica Neue, Helvetica, Arial, sans-serif",
    "view": {"stroke": None},
    "facet": {"spacing": 22},
    "legend": {
        "orient": "top",
        "columnPadding": 24,
        "labelFontSize": 12,
        "labelLimit": 300,
        "symbolType": "stroke",
        "symbolSize": 500,
        "symbolStrokeWidth": 2.2,
    },
    "axis": {
        "domain": False,
        "ticks": False,
        "gridColor": "#e4e8ec",
        "labelColor": _QUIET,
        "labelFlush": False,
        "labelFontSize": 11,
        "titleColor": _QUIET,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
}
