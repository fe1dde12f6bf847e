"""How answers, estimates, budgets and charges look in a terminal.

Text that came from outside is data: it is never read as markup, its control characters are made visible, and a
terminal that knows only ASCII gets the rest as escapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.show import NOTHING_SHOWN, Figures, Panel, figure, heading, shown, visible
from sfumato.wire import AccountStanding, Answer, BudgetReport, Charges, Estimate


@dataclass(frozen=True, slots=True)
class Words:
    """Text from anywhere, told safely. A `cropped` one keeps to its line and ends in an ellipsis where it must."""

    text: str
    style: str = ""
    cropped: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        told, width = self.told(options), options.max_width
        if self.cropped and options.ascii_only and len(told) > width:
            told = told[: max(width - 3, 0)] + "..."[:width]
        yield Text(told, self.style, no_wrap=self.cropped, overflow="ellipsis" if self.cropped else "fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = Measurement.get(console, options, Text(self.told(options)))
        return Measurement(1, whole.maximum) if self.cropped else whole

    def told(self, options: ConsoleOptions) -> str:
        told = visible(self.text)
        return told.encode("ascii", "backslashreplace").decode() if options.ascii_only else told


@dataclass(frozen=True, slots=True)
class Interval:
    """± error, also where the terminal knows only ASCII, or the ends of an interval."""

    within: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Words]:
        yield Words(self.within.replace("±", "+/-") if options.ascii_only else self.within, "dim")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, next(self.__rich_console__(console, options)))


@dataclass(frozen=True, slots=True)
class Bar:
    """A count in proportion to `longest`: solid as far as the count surely reaches, shaded across its error."""

    count: float | Fraction
    error: float | Fraction
    longest: float | Fraction

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        sure = self._eighths(self.count - self.error, options.max_width)
        reach = self._eighths(self.count + self.error, options.max_width)
        if options.ascii_only:
            solid, shade = "#" * (sure // 8), "-"
        else:
            solid, shade = "█" * (sure // 8) + " ▏▎▍▌▋▊▉"[sure % 8].strip(), "░"
        yield Text.assemble((solid, "cyan"), (shade * (reach // 8 - len(solid)), "dim cyan"))

    def _eighths(self, count: float | Fraction, width: int) -> int:
        return max(int(8 * width * count // self.longest), 0)


@dataclass(frozen=True, slots=True)
class Barred:
    """A table that ends in bars: `build` makes it, with bars of a least width, or without any for 0.

    `labels` are its columns of names, header and cells. Where the terminal is narrow the bars shrink and go, so that
    names and numbers stay whole. Only names that are long, and still differ when they are cropped, make room for bars.
    """

    build: Callable[[int], Table]
    labels: Sequence[Sequence[Words]]
    bars: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        whole = Measurement.get(console, options.update(max_width=_ENDLESS), self.build(0)).maximum + _GAP
        room = options.max_width - whole
        if room >= _LEAST_BARS:
            yield self.build(min(room, self.bars))
        else:
            yield self.build(self.bars if self._crops_well(room - self.bars, options) else 0)

    def _crops_well(self, room: int, options: ConsoleOptions) -> bool:
        """Whether columns that give up what is missing (`room` is negative) keep their names apart and readable."""
        columns = [[words.told(options) for words in column] for column in self.labels]
        widths = [max(map(cell_len, column)) for column in columns]
        most = max(widths, default=0)
        while most > 0 and sum(min(width, most) for width in widths) > sum(widths) + room:
            most -= 1
        whole = [*zip(*(column[1:] for column in columns), strict=True)]
        kept = {tuple(text if cell_len(text) <= most else text[: most - 3] for text in key) for key in whole}
        return most >= _READABLE and len(kept) == len({*whole})


_ENDLESS, _GAP, _LEAST_BARS, _READABLE = 100_000, 2, 6, 20


def render(answer: Answer, *, title: str = "") -> RenderableType:
    """An answer: its rows with bars, below them the receipt and the notes."""
    head: list[RenderableType] = [Words(title, "bold", cropped=False), ""] if title else []
    return Group(*head, indented(table(answer.figures())), "", indented(lines(answer.lines())))


class Published(Protocol):
    """A table that was released: the largest rows of a statistic, and the guarantee in words."""

    def figures(self, top: int, statistic: str | None) -> Figures: ...

    def lines(self) -> Mapping[str, str]: ...


def render_release(released: Published, *, top: int = 20, statistic: str | None = None) -> RenderableType:
    """A released table: the `top` rows of a statistic with bars and intervals, below them the guarantee."""
    figures = released.figures(top, statistic)
    about = [indented(Words(figures.about().replace(" · ", "; "), "dim", cropped=False)), ""] if figures.keys else []
    return Group(indented(table(figures)), "", *about, indented(lines(released.lines())))


def table(figures: Figures) -> RenderableType:
    """Keys, counts, their error, and bars. Long keys are cropped, so that numbers and bars stay whole."""
    if not figures.keys:
        return Text(NOTHING_SHOWN)
    if figures.measure is not None:
        labels = [_labels(name, [key[place] for key in figures.keys]) for place, name in enumerate(figures.by)]
        return Barred(partial(_counted, figures), labels, bars=20)
    grid = _grid(figures.by)
    for key in figures.keys:
        grid.add_row(*map(_key, key))
    return grid


def _counted(figures: Figures, bars: int) -> Table:
    grid = _grid(figures.by)
    _add_number(grid, figures.measure or "")
    grid.add_column(Words("95%"), no_wrap=True)
    _add_bars(grid, at_least=bars)
    longest = max(figures.interval(row)[1] for row in range(len(figures.counts)))
    for row, (key, count) in enumerate(zip(figures.keys, figures.counts, strict=True)):
        low, high = figures.interval(row)
        bar = [Bar((low + high) / 2, (high - low) / 2, longest if longest > 0 else 1)] if bars else []
        grid.add_row(*map(_key, key), Words(figure(count)), Interval(figures.within(row)), *bar)
    return grid


def _key(part: str) -> Words:
    return Words(shown(part))


def _labels(name: str, parts: Sequence[str]) -> list[Words]:
    return [Words(heading(name)), *map(_key, parts)]


def render_estimate(estimate: Estimate) -> RenderableType:
    """What a question would cost and how accurate it would be."""
    least, worst = estimate.least, estimate.worst
    errors = ", ".join(f"{heading(name)} within {error:,}" for name, error in estimate.error95.items())
    return lines(
        {
            "mechanism": estimate.mechanism,
            "charge": f"{worst}" if least == worst else f"{least} at least, {worst} at most",
            "error": f"{errors} with 95 % confidence" if errors else "a list without counts",
            "left": f"{estimate.left}{_enough(estimate.answers_left)}",
        }
    )


def _enough(answers: int | None) -> str:
    if answers is None:
        return ""
    if answers < 1:
        return ", not enough for this question"
    return f", enough for at least {answers:,} such answer{'' if answers == 1 else 's'}"


def render_budget(report: BudgetReport) -> RenderableType:
    """What may still be spent: a bar is solid as far as is spent, shaded across what is reserved."""
    resets = "never resets" if report.resets is None else f"resets on {report.resets}"
    head = Words(f"{report.analyst}: {report.mode}, {resets}", "bold", cropped=False)
    labels = [_labels("account", [standing.account for standing in report.accounts])]
    return Group(head, "", indented(Barred(partial(_accounts, report), labels, bars=8)))


def _accounts(report: BudgetReport, bars: int) -> Table:
    grid = _grid(("account",))
    grid.add_column("", no_wrap=True)
    for name in ("limit", "spent", "reserved", "left"):
        _add_number(grid, name)
    _add_bars(grid, at_least=bars)
    for standing in report.accounts:
        for *cells, bar in _standing(standing):
            grid.add_row(*cells, *([bar] if bars else []))
    return grid


def _standing(standing: AccountStanding) -> Iterator[Sequence[RenderableType]]:
    """An account as two rows: its information and its calls. The limit includes what was granted."""
    parts = standing.limit + standing.granted, standing.spent, standing.reserved, standing.left
    for name, noun, amounts in (
        (standing.account, "units", [part.information for part in parts]),
        ("", "calls", [part.calls for part in parts]),
    ):
        limit, spent, reserved, _ = amounts
        bar = Bar(spent + reserved / 2, reserved / 2, max(limit, spent + reserved, Fraction(1)))
        yield Words(name), Words(noun), *map(_amount, amounts), bar


def render_charges(charges: Charges) -> RenderableType:
    """Movements, the latest first."""
    if not charges.rows:
        return Text("Nothing was charged.")
    grid = _grid(())
    grid.add_column(Words("at"), no_wrap=True)
    grid.add_column(Words("state"), no_wrap=True)
    _add_number(grid, "units")
    _add_number(grid, "calls")
    grid.add_column(Words("account"))
    grid.add_column(Words("digest"))
    for row in charges.rows:
        units, calls = _amount(row.charge.information), _amount(row.charge.calls)
        grid.add_row(
            Words(row.at[:19].replace("T", " ")), Words(row.state), units, calls, Words(row.account), Words(row.digest)
        )
    if charges.next is None:
        return grid
    return Group(grid, "", Words(f"There are more, from {charges.next} on.", "dim", cropped=False))


_DAYS = (1, 2, 3, 7, 14, 21, 31)


def render_shares(panels: Sequence[Panel]) -> RenderableType:
    """Shares that rise by day, a table for each panel: its lines below one another, some days across."""
    tables = [part for panel in panels if panel.lines for part in ("", indented(_shares(panel)))]
    return Group(*tables[1:])


def _shares(panel: Panel) -> Table:
    days = [day for day in _DAYS if day <= max(map(len, panel.lines.values()))]
    grid = _grid(())
    grid.expand = False
    grid.add_column(Words(f"{heading(panel.title):<24}"))  # so that the days of all panels are below one another
    for day in days:
        grid.add_column(Words(f"day {day}", cropped=False), justify="right", no_wrap=True)
    for label, line in panel.lines.items():
        grid.add_row(Words(label), *(Words(share_of(line[day - 1]), cropped=False) for day in days))
    return grid


def share_of(share: float) -> str:
    """A share in percent, of which a little is never nothing and nearly all never all.

    >>> [share_of(share) for share in (0, 0.0004, 0.066, 0.25, 0.9996, 1)]
    ['0%', '<0.1%', '6.6%', '25.0%', '>99.9%', '100%']
    """
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{100 * share:.1f}%" if 0 < share < 1 else f"{share:.0%}"


def render_spending(rows: Sequence[tuple[str, str, Fraction, Fraction]]) -> RenderableType:
    """What accounts have paid for whose questions: (account, analyst, units, calls)."""
    if not rows:
        return Text("Nothing was charged.")
    grid = _grid(("account", "analyst"))
    _add_number(grid, "units")
    _add_number(grid, "calls")
    grid.expand = False
    for account, analyst, units, calls in rows:
        grid.add_row(Words(account), Words(analyst), _amount(units), _amount(calls))
    return grid


def lines(told: Mapping[str, str]) -> RenderableType:
    """Labelled lines in a quiet voice."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for label, text in told.items():
        grid.add_row(Words(label), Words(text, cropped=False), style="dim")
    return grid


def indented(block: RenderableType) -> RenderableType:
    return Padding(block, (0, 0, 0, 2))


def _grid(names: Sequence[str]) -> Table:
    """A table without lines. Columns of names shrink where the terminal is narrow, the widest first."""
    grid = Table(box=None, expand=True, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        grid.add_column(Words(heading(name)))
    return grid


def _add_number(grid: Table, name: str) -> None:
    grid.add_column(Words(heading(name)), justify="right", no_wrap=True)


def _add_bars(grid: Table, *, at_least: int) -> None:
    """A column that takes what is left of the line. A table without it is as wide as its words."""
    if at_least:
        grid.add_column("", ratio=1, width=at_least, no_wrap=True)
    grid.expand = bool(at_least)


def _amount(amount: Fraction) -> Words:
    """Exact where that is short, and marked as rounded where it is not."""
    exact = f"{amount.numerator:,}" if amount.denominator == 1 else str(amount)
    return Words(exact if len(exact) <= 12 else f"~{float(amount):,.6g}")
