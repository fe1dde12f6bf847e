"""Pages of `sfumato ask` and `sfumato estimate`."""

from __future__ import annotations

from functools import partial

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal.bars import Bar, BarTable, add_bars
from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, indent, labelled_lines
from sfumato.show.figures import Figures
from sfumato.show.text import figure, heading, key_label
from sfumato.wire import Answer, Estimate


def render_answer(answer: Answer, *, title: str = "") -> RenderableType:
    """The rows with bars, and below them the receipt and the notes."""
    head: list[RenderableType] = [Words(title, "bold", cropped=False), ""] if title else []
    return Group(*head, indent(render_figures(answer.figures())), "", indent(labelled_lines(answer.lines())))


def render_figures(figures: Figures) -> RenderableType:
    """Keys, counts, their error, and bars. Long keys are cropped before numbers and bars."""
    if not figures.keys:
        return Text(figures.nothing)
    keys = [[Words(key_label(part)) for part in key] for key in figures.keys]
    if figures.measure is not None:
        labels = [[Words(heading(name)), *(key[place] for key in keys)] for place, name in enumerate(figures.by)]
        return BarTable(partial(_counts_table, figures, keys), labels, bars=20)
    grid = plain_table(*map(heading, figures.by))
    for key in keys:
        grid.add_row(*key)
    return grid


def _counts_table(figures: Figures, keys: list[list[Words]], bars: int) -> Table:
    number = len(figures.by)
    names = map(heading, (*figures.by, figures.measure or "", figures.within_heading))
    grid = plain_table(*names, numbers=(number,), whole=(number + 1,))
    add_bars(grid, bars)
    longest = max(figures.interval(row)[1] for row in range(len(figures.counts)))
    for row, (key, count) in enumerate(zip(keys, figures.counts, strict=True)):
        bar = [Bar(*figures.interval(row), longest if longest > 0 else 1)] if bars else []
        grid.add_row(*key, Words(figure(count)), Words(figures.within(row), "dim"), *bar)
    return grid


def render_estimate(estimate: Estimate) -> RenderableType:
    """What a question would cost and how accurate it would be."""
    return labelled_lines(estimate.lines())
