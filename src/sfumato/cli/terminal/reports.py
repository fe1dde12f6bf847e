"""How the numbers of a report look in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal import Bar, Barred, Interval, Words, indented, lines
from sfumato.show import NONE_SHOWN, Sheet, figure, heading, shown
from sfumato.wire import Report

MAX_ROWS = 1000
_GAP, _ENDLESS = 2, 100_000
_SMALL = "-"  # a count that is not shown


def render_report(report: Report) -> RenderableType:
    """What was asked, the numbers with bars, below them the receipt and the notes."""
    sheet = report.sheet()
    head = Words(f"{sheet.whose or 'everything'}, {sheet.range}", "bold", cropped=False)
    return Group(head, "", indented(_numbers(sheet)), "", indented(lines(report.lines())))


def _numbers(sheet: Sheet) -> RenderableType:
    if not sheet.shows:
        return Text(NONE_SHOWN)
    if not sheet.over_time and sheet.by is None:
        return _totals(sheet)
    rows = _rows(sheet)
    return Crossed(sheet, rows) if sheet.over_time and sheet.by is not None else rows


def _totals(sheet: Sheet) -> Table:
    grid = listing("statistic", "count", *(["95%"] if sheet.bounded else []), numbers=(1,))
    for measure, count in zip(sheet.measures, sheet.rows[0][2], strict=True):
        within = [Interval(sheet.within(measure))] if sheet.bounded else []
        grid.add_row(Words(heading(measure)), _count(count), *within)
    return grid


def _rows(sheet: Sheet) -> RenderableType:
    """A row for each step and key, with a bar for the first statistic. What is said once is not said again."""
    some = replace(sheet, rows=sheet.rows[:MAX_ROWS])
    table = Barred(partial(_listed, some), [*_labels(some)], bars=20)
    rest = len(sheet.rows) - MAX_ROWS
    if rest <= 0:
        return table
    return Group(table, "", Words(f"and {rest:,} more rows; --json has them all", "dim", cropped=False))


def _labels(sheet: Sheet) -> Iterator[list[Words]]:
    if sheet.over_time:
        yield [Words("start"), *(Words(text) for text in _starts(sheet))]
    if sheet.by is not None:
        yield [Words(heading(sheet.by)), *(Words(shown(key)) for _, key, _ in sheet.rows)]


def _starts(sheet: Sheet) -> list[str]:
    steps = [step for step, _, _ in sheet.rows]
    before = [-1, *steps]
    told = list(map(sheet.start, steps))
    return ["" if step == last else text for step, last, text in zip(steps, before, told, strict=False)]


def _listed(sheet: Sheet, bars: int) -> Table:
    grid = Table(box=None, expand=bool(bars), padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    labels = [*_labels(sheet)]
    for head, *_ in labels:
        grid.add_column(head)
    for measure in sheet.measures:
        grid.add_column(_head(sheet, measure), justify="right", no_wrap=True)
    if bars:
        grid.add_column("", ratio=1, width=bars, no_wrap=True)
    error = sheet.errors[sheet.measures[0]] or 0
    longest = max([1, *(counts[0] + error for _, _, counts in sheet.rows if counts[0] is not None)])
    for row, (_, _, counts) in enumerate(sheet.rows):
        bar = [_bar(counts[0], error, longest)] if bars else []
        grid.add_row(*(column[row + 1] for column in labels), *map(_count, counts), *bar)
    return grid


def _head(sheet: Sheet, measure: str) -> Interval:
    return Interval(f"{heading(measure)} {sheet.within(measure)}".rstrip())


def _count(count: int | None) -> Words:
    return Words(_SMALL, "dim") if count is None else Words(figure(count))


def _bar(count: int | None, error: int, longest: int) -> RenderableType:
    if count is None:
        return ""
    low = max(count - error, 0)
    return Bar((low + count + error) / 2, (count + error - low) / 2, longest)


@dataclass(frozen=True, slots=True)
class Crossed:
    """Keys down and steps across, a table for each statistic; where the terminal is too narrow for that, `rows`."""

    sheet: Sheet
    rows: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        tables = [_crossed(self.sheet, measure) for measure in self.sheet.measures]
        endless = options.update(max_width=_ENDLESS)
        if max(Measurement.get(console, endless, table).maximum for table in tables) > options.max_width:
            yield self.rows
            return
        for place, (measure, table) in enumerate(zip(self.sheet.measures, tables, strict=True)):
            if place:
                yield ""
            yield _head(self.sheet, measure)
            yield table


def _crossed(sheet: Sheet, measure: str) -> Table:
    grid = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column(Words(heading(sheet.by or "")))
    counts = sheet.counts(measure)
    for step in range(len(sheet.steps)):
        grid.add_column(Words(sheet.start(step)), justify="right", no_wrap=True)
    for key in sheet.keys[:MAX_ROWS]:
        grid.add_row(Words(shown(key)), *(_count(counts.get((step, key))) for step in range(len(sheet.steps))))
    return grid


def listing(*names: str, numbers: Sequence[int] = ()) -> Table:
    """A table without lines; the columns of numbers are to the right."""
    grid = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        grid.add_column(Words(name), justify="right" if place in numbers else "left")
    return grid
