"""Lines, drawn: in bands as wide as the error, broken where nothing is shown; small multiples; steps; curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sfumato.show.bars import Heading
from sfumato.show.drawing import MARGIN, WIDTH, Drawing, crop, short, text_width

ToPaper: TypeAlias = Callable[[float], float]
"""Where a value stands on the paper."""

HEIGHT, SMALL_HEIGHT = 220, 110

_MIN_WIDTH, _MIN_NAMED_WIDTH = 150, 240
_TITLE, _AXIS, _BETWEEN = 26, 24, 22
_MAX_LABEL, _LABEL_LINE, _SAMPLE = 150, 15, 18
_GAP, _RING, _HATCH = 7, 4.5, 7


@dataclass(frozen=True, slots=True)
class Point:
    """A place on a line, the ends of its interval, and what it says. One of a `part` of a step has a ring."""

    x: float
    y: float
    low: float
    high: float
    said: str = ""
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Stretches of points without a gap. `look` is the number of its colour. At `gaps`, numbers are not shown."""

    label: str
    look: int
    runs: tuple[tuple[Point, ...], ...]
    gaps: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """From where to where, and what stands at which places."""

    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        return (value - self.start) / ((self.end - self.start) or 1)


@dataclass(frozen=True, slots=True)
class LinePanel:
    """Lines on two axes. `bands`: with their intervals; `dots`: with every point; `steps`: level between points.

    Lines that are `named` have their names beside their ends. From `later` on, nothing is complete.
    """

    title: str
    lines: tuple[Line, ...]
    x: Axis
    y: Axis
    about_x: str = ""
    bands: bool = False
    dots: bool = False
    steps: bool = False
    named: bool = False
    height: float = HEIGHT
    later: float | None = None


def draw_lines(
    head: Heading,
    panels: Sequence[LinePanel],
    width: float = WIDTH,
    *,
    columns: int = 1,
    headed: bool = True,
) -> Drawing:
    """Panels in columns, fewer where the paper is narrow."""
    drawing = Drawing(head.name, width)
    drawing.head(head.titles if headed else (), head.notes if headed else ())
    across = width - 2 * MARGIN
    least = _MIN_NAMED_WIDTH if any(panel.named for panel in panels) else _MIN_WIDTH
    columns = max(1, min(columns, len(panels), int((across + _BETWEEN) / (least + _BETWEEN))))
    size = (across - _BETWEEN * (columns - 1)) / columns
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        titled = any(panel.title for panel in row)
        top = drawing.height + (_TITLE if titled else 8)
        ends = [
            _draw_panel(drawing, panel, MARGIN + place * (size + _BETWEEN), top, size)
            for place, panel in enumerate(row)
        ]
        drawing.height = max(ends) + 6
    return drawing


def _draw_panel(drawing: Drawing, panel: LinePanel, left: float, top: float, width: float) -> float:
    """One panel; its lower end."""
    named = panel.lines if panel.named else ()
    names = max((text_width(line.label, 12) for line in named), default=0)
    right = min(names, _MAX_LABEL, width * 0.4) + _SAMPLE + 9 if named else 0
    start = left + max((text_width(text, 12) for _, text in panel.y.ticks), default=0) + 8
    size = width - (start - left) - right
    height = max(panel.height, _LABEL_LINE * len(named))

    def x(value: float) -> float:
        return start + panel.x.share(value) * size

    def y(value: float) -> float:
        return top + (1 - panel.y.share(value)) * height

    if panel.title:
        drawing.text("panel", left, top - 9, crop(panel.title, 13, width))
    for value, text in panel.y.ticks:
        drawing.line("axis" if value == panel.y.start else "grid", start, y(value), start + size, y(value))
        drawing.text("note-end", start - 8, y(value) + 4, text)
    _draw_ticks(drawing, panel.x, x, (left, left + width), top + height + 17, size)
    if panel.later is not None:
        _hatch(drawing, (x(panel.later), start + size), (top, top + height))
    for line in panel.lines:
        _draw_line(drawing, panel, line, x, y)
    _name_lines(drawing, named, y, start + size + 8, (top, top + height), right - _SAMPLE - 8.5)
    lower = top + height + _AXIS
    if panel.about_x:
        drawing.text("note", start, lower + 12, crop(panel.about_x, 12, size + right))
        lower += 16
    return lower


def _draw_ticks(drawing: Drawing, axis: Axis, x: ToPaper, ends: tuple[float, float], y: float, size: float) -> None:
    """The words below a panel: as many as have room, none beyond its ends."""
    widest = max((text_width(text, 12) for _, text in axis.ticks), default=0) + 14
    every = max(1, -(-len(axis.ticks) * int(widest) // max(int(size), 1)))
    for value, text in axis.ticks[::every]:
        half = text_width(text, 12) / 2
        if x(value) + half > ends[1]:
            drawing.text("note-end", ends[1], y, text)
        else:
            drawing.text("note-middle", max(x(value), ends[0] + half), y, text)


def _draw_line(drawing: Drawing, panel: LinePanel, line: Line, x: ToPaper, y: ToPaper) -> None:
    """A point that has no neighbour is a dot, with its interval as a line. A gap is a mark on the axis."""
    if line.gaps:
        marks = "".join(f"M{short(x(gap))} {short(y(panel.y.start))}v-{_GAP}" for gap in line.gaps)
        drawing.path("gap", marks, f"{line.label}: {len(line.gaps):,} not shown")
    for run in line.runs:
        if panel.bands:
            upper = [f"{short(x(point.x))} {short(y(point.high))}" for point in run]
            lower = [f"{short(x(point.x))} {short(y(point.low))}" for point in run]
            if len(run) > 1:
                drawing.path(f"band{line.look}", f"M{'L'.join([*upper, *reversed(lower)])}Z")
                drawing.path(f"edge{line.look}", f"M{'L'.join(upper)}M{'L'.join(lower)}")
            else:
                drawing.path(f"edge{line.look}", f"M{upper[0]}L{lower[0]}")
        if len(run) > 1:
            steps = [f"{short(x(point.x))} {short(y(point.y))}" for point in run]
            drawing.path(f"line{line.look}", _stairs(run, x, y) if panel.steps else f"M{'L'.join(steps)}", line.label)
        for point in run if panel.dots or len(run) == 1 else ():
            drawing.dot(f"dot{line.look}", x(point.x), y(point.y), point.said)
        for point in run:
            if point.is_part:
                drawing.dot(f"edge{line.look}", x(point.x), y(point.y), radius=_RING)


def _hatch(drawing: Drawing, across: tuple[float, float], down: tuple[float, float]) -> None:
    """Parallel lines from the lower left to the upper right, within a box."""
    (left, right), (top, bottom) = across, down
    strokes = []
    for place in range(1, int((right - left + bottom - top) / _HATCH) + 1):
        low, high = max(left, left + place * _HATCH - (bottom - top)), min(right, left + place * _HATCH)
        ends = ((each, top + left + place * _HATCH - each) for each in (low, high))
        strokes.append("L".join(f"{short(each)} {short(y)}" for each, y in ends))
    drawing.path("later", f"M{short(left)} {short(top)}V{short(bottom)}M{'M'.join(strokes)}", "not complete yet")


def _stairs(run: Sequence[Point], x: ToPaper, y: ToPaper) -> str:
    """A line that jumps where a value begins and is level up to the next point."""
    first, *rest = run
    return f"M{short(x(first.x))} {short(y(first.y))}" + "".join(
        f"V{short(y(point.y))}H{short(x(point.x))}" for point in rest
    )


def _name_lines(
    drawing: Drawing, lines: Sequence[Line], y: ToPaper, left: float, ends: tuple[float, float], width: float
) -> None:
    """The names of lines beside their right ends, each with a piece of its line, and none above another."""
    wanted = sorted((y(line.runs[-1][-1].y) if line.runs else ends[1], place) for place, line in enumerate(lines))
    places: list[float] = []
    for at, _ in wanted:
        places.append(max(at, places[-1] + _LABEL_LINE if places else ends[0] + 4))
    limit = ends[1] + _LABEL_LINE / 2
    for place in reversed(range(len(places))):
        places[place] = min(places[place], limit)
        limit = places[place] - _LABEL_LINE
    for at, (_, place) in zip(places, wanted, strict=True):
        line = lines[place]
        drawing.line(f"line{line.look}", left, at, left + _SAMPLE - 4, at)
        drawing.text("label", left + _SAMPLE, at + 4, crop(line.label, 12, width))
