"""Columns of boxes that stand on one another, drawn: what each part adds to the whole, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfumato.show.bars import Heading
from sfumato.show.drawing import MARGIN, WIDTH, Drawing, crop, round_steps, text_width
from sfumato.show.palette import MAX_LINES
from sfumato.show.text import figure

MAX_LAYERS = MAX_LINES

_HEIGHT, _TITLE, _AXIS, _LEGEND_LINE, _SAMPLE = 130, 30, 26, 18, 10


@dataclass(frozen=True, slots=True)
class StackPanel:
    """Numbers that are not negative: per layer one for each step."""

    title: str
    layers: Mapping[str, Sequence[float]]


def draw_stacks(head: Heading, steps: Sequence[str], panels: Sequence[StackPanel], width: float = WIDTH) -> Drawing:
    """Panels below one another, with the same layers and steps, and a legend of the layers at the end."""
    drawing = Drawing(head.name, width)
    for panel in panels:
        drawing.height = _draw_panel(drawing, panel, steps, drawing.height + _TITLE)
    _draw_legend(drawing, [*panels[0].layers] if panels else [])
    return drawing


def _draw_panel(drawing: Drawing, panel: StackPanel, steps: Sequence[str], top: float) -> float:
    """One panel; its lower end."""
    high = max([1.0, *map(sum, zip(*panel.layers.values(), strict=True))])
    ticks = round_steps(0, high, 4)
    left = MARGIN + max(text_width(figure(tick), 12) for tick in ticks) + 8
    size = drawing.width - MARGIN - left
    across = size / max(len(steps), 1)

    def y(value: float) -> float:
        return top + (1 - value / high) * _HEIGHT

    drawing.text("panel", MARGIN, top - 12, panel.title)
    for tick in ticks:
        drawing.line("grid" if tick else "axis", left, y(tick), left + size, y(tick))
        drawing.text("note-end", left - 8, y(tick) + 4, figure(tick))
    for place, step in enumerate(steps):
        below = 0.0
        for look, (label, values) in enumerate(panel.layers.items()):
            value = values[place]
            if value > 0:
                box = left + (place + 0.1) * across, y(below + value), 0.8 * across, y(below) - y(below + value)
                drawing.box(f"dot{look}", *box, f"{label}, {step}: {figure(value)}")
                below += value
    widest = max((text_width(step, 12) for step in steps), default=0) + 14
    every = max(1, -(-int(widest) // max(int(across), 1)))
    for place in range(0, len(steps), every):
        middle = left + (place + 0.5) * across
        if middle + widest / 2 <= drawing.width:
            drawing.text("note-middle", max(middle, widest / 2), top + _HEIGHT + 17, steps[place])
    return top + _HEIGHT + _AXIS


def _draw_legend(drawing: Drawing, labels: Sequence[str]) -> None:
    x, y = float(MARGIN), drawing.height + 8
    for look, label in enumerate(labels):
        shown = crop(label, 12, drawing.width - 2 * MARGIN - _SAMPLE - 6)
        size = _SAMPLE + 6 + text_width(shown, 12)
        if x > MARGIN and x + size > drawing.width - MARGIN:
            x, y = float(MARGIN), y + _LEGEND_LINE
        drawing.box(f"dot{look}", x, y, _SAMPLE, _SAMPLE)
        drawing.text("label", x + _SAMPLE + 6, y + 9, shown)
        x += size + 16
    drawing.height = y + _LEGEND_LINE
