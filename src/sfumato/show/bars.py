"""Bars with whiskers, drawn: the largest on top, one panel for each statistic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sfumato.show.drawing import MARGIN, WIDTH, Drawing, crop, round_steps, short, text_width
from sfumato.show.figures import Figures
from sfumato.show.text import figure, heading

_ROW, _BAR, _CAP, _GAP = 24, 14, 4, 8
_MAX_LABEL = 240
_AXIS, _BETWEEN = 34, 18


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above a picture."""

    titles: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        return ", ".join(self.titles)


@dataclass(frozen=True, slots=True)
class BarPanel:
    """Bars of one statistic: the rows of its figures, from the top; where one is None, its number is not shown."""

    figures: Figures
    rows: tuple[int | None, ...]


def draw_bars(
    head: Heading,
    by: str,
    labels: Sequence[str],
    panels: Sequence[BarPanel],
    width: float = WIDTH,
    *,
    headed: bool = True,
) -> Drawing:
    """Panels side by side with the labels on the left, or one below the other where the paper is narrow."""
    drawing = Drawing(head.name, width)
    drawing.head(head.titles if headed else (), head.notes if headed or not labels else ())
    if not labels:
        return drawing
    across = width - 2 * MARGIN
    left = min(max(text_width(label, 12) for label in (*labels, by)), _MAX_LABEL, across * 0.42) + _GAP
    beside = len(panels) if (across - left) / len(panels) >= 150 else 1
    size = (across - left - _BETWEEN * (beside - 1)) / beside
    top = drawing.height
    for place, panel in enumerate(panels):
        column = place % beside
        x = MARGIN + left + column * (size + _BETWEEN)
        bottom = _draw_panel(drawing, panel, labels, (x, top, size), by if column == 0 else "")
        if column == 0:
            for row, label in enumerate(labels):
                y = top + _AXIS / 2 + (row + 0.5) * _ROW + 4
                drawing.text("label-end", x - _GAP, y, crop(label, 12, left - _GAP))
        if column == beside - 1:
            top = bottom
        drawing.height = bottom
    return drawing


def _draw_panel(
    drawing: Drawing, panel: BarPanel, labels: Sequence[str], place: tuple[float, float, float], by: str
) -> float:
    """One panel; its lower end. `place` is its left, its top and its width."""
    figures, (left, top, width) = panel.figures, place
    numbers = max((text_width(figure(count), 11) for count in figures.counts), default=0) + 8
    first, last = figures.span()
    inner = width - numbers

    def x(value: float) -> float:
        return left + (value - first) / (last - first) * inner

    head, upper = top + 4, top + _AXIS / 2
    lower = upper + len(labels) * _ROW
    if by:
        drawing.text("note-end", left - _GAP, head + 8, crop(by, 12, left - MARGIN - _GAP))
    drawing.text("note", left, head + 8, crop(heading(figures.measure or ""), 12, width))
    for tick in round_steps(first, last, 4 if width > 240 else 2):
        if tick:
            drawing.line("grid", x(tick), upper, x(tick), lower)
        drawing.text("note-middle", x(tick), lower + 15, figure(tick))
    drawing.line("axis", x(0), upper, x(0), lower)
    for at, (row, label) in enumerate(zip(panel.rows, labels, strict=True)):
        if row is None:
            drawing.text("note", x(0) + 6, upper + (at + 0.5) * _ROW + 4, "not shown")
        else:
            _draw_bar(drawing, figures, row, label, x, upper + (at + 0.5) * _ROW)
    return lower + 18


def _draw_bar(drawing: Drawing, figures: Figures, row: int, label: str, x: Callable[[float], float], y: float) -> None:
    count, (low, high) = figures.counts[row], figures.interval(row)
    drawing.box("bar", x(min(count, 0)), y - _BAR / 2, abs(x(count) - x(0)), _BAR, describe_bar(figures, row, label))
    if figures.bounded:
        ends = "".join(f"M{short(x(end))} {short(y - _CAP)}V{short(y + _CAP)}" for end in (low, high))
        drawing.path("whisker", f"M{short(x(low))} {short(y)}H{short(x(high))}{ends}")
    drawing.text("number", x(max(high, count, 0)) + 6, y + 4, figure(count))


def describe_bar(figures: Figures, row: int, label: str) -> str:
    """A bar in words: its label, its number and its interval."""
    return f"{label}: {figure(figures.counts[row])}{', ' if figures.intervals else ' '}{figures.within(row)}".rstrip()
