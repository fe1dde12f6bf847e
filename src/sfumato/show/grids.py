"""Tables of text: as plain text for a terminal, and as HTML for a notebook."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sfumato.show.figures import Figures, Sheet
from sfumato.show.text import NO_COUNTS, figure, heading, key_label, visible

BARS = 20
"""The width of the longest bar, in characters."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with a title. `numbers` are the places of columns that are right-aligned; `lines` stand below it."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    title: str = ""
    lines: Mapping[str, str] | None = None

    def text(self) -> str:
        """The table as plain text, without lines and without spaces at the ends."""
        rows = [[visible(cell) for cell in row] for row in (self.heads, *self.rows)]
        widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
        table = [
            "  ".join(
                _pad(cell, width, at in self.numbers) for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        labels = max(map(len, self.lines or ()), default=0)
        below = [f"{label:<{labels}}  {visible(text)}" for label, text in (self.lines or {}).items()]
        blocks = [[visible(self.title)] if self.title else [], table if self.rows else [], below]
        return "\n\n".join("\n".join(line.rstrip() for line in block) for block in blocks if block)

    def html(self) -> str:
        """The table for a notebook."""
        rows = [_html_row("th", self.heads, self.numbers), *(_html_row("td", row, self.numbers) for row in self.rows)]
        title = f'<p style="margin:.3em 0"><b>{html.escape(visible(self.title))}</b></p>' if self.title else ""
        table = f'<table style="border-collapse:collapse;background:none">{"".join(rows)}</table>'
        return f'<div style="max-width:56em">{title}{table}</div>'


def _html_row(tag: str, cells: Sequence[str], numbers: Collection[int]) -> str:
    style = "padding:.15em .7em .15em 0;vertical-align:top;background:none;text-align:"
    written = (
        f'<{tag} style="{style}{"right" if place in numbers else "left"}">{html.escape(visible(cell))}</{tag}>'
        for place, cell in enumerate(cells)
    )
    return f"<tr>{''.join(written)}</tr>"


def _width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _pad(cell: str, width: int, is_number: bool) -> str:
    gap = " " * (width - _width(cell))
    return gap + cell if is_number else cell + gap


def figures_text(figures: Figures, lines: Mapping[str, str]) -> str:
    """Keys, counts, their error and bars, and `lines` below them."""
    if not figures.keys:
        return TextTable((), (), title=figures.nothing, lines=lines).text()
    heads, rows = [*map(heading, figures.by)], [[*map(key_label, key)] for key in figures.keys]
    if figures.measure is None:
        return TextTable(heads, rows, lines=lines).text()
    longest = max([*figures.counts, 1])
    for place, (row, count) in enumerate(zip(rows, figures.counts, strict=True)):
        row += [figure(count), figures.within(place), "█" * round(BARS * max(count, 0) / longest)]
    heads += [heading(figures.measure), figures.within_heading, ""]
    return TextTable(heads, rows, (len(figures.by),), lines=lines).text()


def sheet_text(sheet: Sheet, lines: Mapping[str, str]) -> str:
    """The numbers of a report, a column for each statistic, and `lines` below them."""
    title = " ".join(filter(None, [sheet.titles[1], "" if sheet.shows else NO_COUNTS]))
    heads = [*map(heading, sheet.columns)]
    numbers = range(len(heads), len(heads) + len(sheet.measures))
    heads += [f"{heading(name)} {sheet.within(name)}".rstrip() for name in sheet.measures]
    rows = [
        [*map(key_label, sheet.row_key(step, key)), *("-" if count is None else figure(count) for count in counts)]
        for step, key, counts in (sheet.rows if sheet.shows else ())
    ]
    return TextTable(heads, rows, numbers, title=title, lines=lines).text()
