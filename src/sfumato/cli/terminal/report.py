"""Pages of `sfumato report`: the numbers, and what sealing a range again costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal.bars import Bar, BarTable, add_bars
from sfumato.cli.terminal.tables import ENDLESS, plain_table
from sfumato.cli.terminal.text import Words, indent, labelled_lines, paragraphs
from sfumato.show.figures import Sheet
from sfumato.show.text import NO_COUNTS, at_delta, figure, heading, key_label
from sfumato.wire import Report

if TYPE_CHECKING:
    from sfumato.reports.reseal import Reseal

MAX_ROWS = 1000


def render_report(report: Report) -> RenderableType:
    """What was asked, the numbers with bars, and below them the receipt and the notes."""
    sheet = report.sheet()
    head = Words(f"{sheet.whose or 'everything'}, {sheet.range}", "bold", cropped=False)
    return Group(head, "", indent(_render_sheet(sheet)), "", indent(labelled_lines(report.lines())))


def _render_sheet(sheet: Sheet) -> RenderableType:
    if not sheet.shows:
        return Text(NO_COUNTS)
    if not sheet.over_time and sheet.by is None:
        return _totals_table(sheet)
    some = replace(sheet, rows=sheet.rows[:MAX_ROWS])
    labels = _label_columns(some)
    rows: RenderableType = BarTable(partial(_rows_table, some, labels), labels, bars=20)
    if rest := len(sheet.rows) - len(some.rows):
        rows = Group(rows, "", Words(f"and {rest:,} more rows; --json has them all", "dim", cropped=False))
    return CrossTable(sheet, rows) if sheet.over_time and sheet.by is not None else rows


def _totals_table(sheet: Sheet) -> Table:
    grid = plain_table("statistic", "count", *(["noise"] if sheet.bounded else []), numbers=(1,))
    for measure, count in zip(sheet.measures, sheet.rows[0][2], strict=True):
        within = [Words(sheet.within(measure), "dim")] if sheet.bounded else []
        grid.add_row(Words(heading(measure)), _count(count), *within)
    return grid


def _label_columns(sheet: Sheet) -> list[list[Words]]:
    """The columns of starts and keys, each with its heading. A start that repeats is left out."""
    columns = []
    if sheet.over_time:
        steps = [step for step, _, _ in sheet.rows]
        starts = [
            "" if step == before else sheet.start(step) for before, step in zip([-1, *steps], steps, strict=False)
        ]
        columns.append([Words(text) for text in ("start", *starts)])
    if sheet.by is not None:
        columns.append([Words(heading(sheet.by)), *(Words(key_label(key)) for _, key, _ in sheet.rows)])
    return columns


def _rows_table(sheet: Sheet, labels: list[list[Words]], bars: int) -> Table:
    """One row per step and key, with a bar for the first statistic."""
    grid = plain_table(*(column[0].text for column in labels))
    for measure in sheet.measures:
        grid.add_column(_measure_heading(sheet, measure), justify="right", no_wrap=True)
    add_bars(grid, bars)
    error = sheet.errors[sheet.measures[0]] or 0
    longest = max([1, *(counts[0] + error for _, _, counts in sheet.rows if counts[0] is not None)])
    for row, (_, _, counts) in enumerate(sheet.rows):
        first = counts[0]
        bar = "" if first is None else Bar(max(first - error, 0), first + error, longest)
        grid.add_row(*(column[row + 1] for column in labels), *map(_count, counts), *([bar] if bars else []))
    return grid


def _measure_heading(sheet: Sheet, measure: str) -> Words:
    return Words(f"{heading(measure)} {sheet.within(measure)}".rstrip(), "dim")


def _count(count: int | None) -> Words:
    return Words("-", "dim") if count is None else Words(figure(count))


@dataclass(frozen=True, slots=True)
class CrossTable:
    """Keys down and steps across, one table per statistic; where the terminal is too narrow for that, `rows`."""

    sheet: Sheet
    rows: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        tables = [self._table(measure) for measure in self.sheet.measures]
        endless = options.update(max_width=ENDLESS)
        if max(Measurement.get(console, endless, table).maximum for table in tables) > options.max_width:
            yield self.rows
            return
        for place, (measure, table) in enumerate(zip(self.sheet.measures, tables, strict=True)):
            if place:
                yield ""
            yield _measure_heading(self.sheet, measure)
            yield table

    def _table(self, measure: str) -> Table:
        counts, steps = self.sheet.counts(measure), range(len(self.sheet.steps))
        names = heading(self.sheet.by or ""), *map(self.sheet.start, steps)
        grid = plain_table(*names, numbers=range(1, len(names)))
        for key in self.sheet.keys[:MAX_ROWS]:
            grid.add_row(Words(key_label(key)), *(_count(counts.get((step, key))) for step in steps))
        return grid


def render_reseal_cost(reseal: Reseal) -> RenderableType:
    """What sealing a range again adds to the guarantee."""
    from sfumato.reports.explain import amount

    ends = (moment.isoformat(sep=" ", timespec="minutes") for moment in (reseal.start, reseal.end))
    whose = f", {' / '.join(reseal.entity)} with all above and below it" if reseal.entity else ""
    before, after, promised = map(amount, (reseal.before, reseal.after, reseal.promised))
    delta = at_delta(reseal.delta)
    lines = {
        "report": f"{reseal.report}{whose}",
        "range": f"{' to '.join(ends)} ({reseal.zone}), with every longer range that overlaps it",
        "sealed": f"{reseal.places:,} place{'' if reseal.places == 1 else 's'} with {reseal.cells:,} cells",
        "version": f"{reseal.version} of at most {reseal.versions}",
        "guarantee": f"epsilon {before} before, {after} after{delta}, for one {reseal.unit} of this range",
        "promised": f"epsilon {promised}{delta}, with all {reseal.versions:,} versions",
    }
    return Group(paragraphs("What sealing again costs:"), "", indent(labelled_lines(lines)))


def render_reseal(reseal: Reseal, *, asked: bool) -> RenderableType:
    """What was done. If the owner was `asked`, the cost is on the screen already."""
    if not reseal.places:
        return paragraphs("There is nothing to seal again: nothing of this range is sealed, or it is open already.")
    if reseal.done:
        done = "Sealed again: the numbers are drawn when they are next asked for, and then stay."
    else:
        done = "Nothing was changed." if asked else "Nothing was changed. To do it, run the same with --yes."
    return paragraphs(done) if asked else Group(render_reseal_cost(reseal), "", paragraphs(done))
