"""Bars, and tables that end in bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal.tables import ENDLESS, GAP
from sfumato.cli.terminal.text import Words

_LEAST_BARS, _READABLE = 6, 20


@dataclass(frozen=True, slots=True)
class Bar:
    """A number in proportion to `longest`: solid up to `low`, shaded from there to `high`."""

    low: float | Fraction
    high: float | Fraction
    longest: float | Fraction

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        low, high = (max(int(8 * options.max_width * end // self.longest), 0) for end in (self.low, self.high))
        if options.ascii_only:
            solid, shade = "#" * (low // 8), "-"
        else:
            solid, shade = "█" * (low // 8) + " ▏▎▍▌▋▊▉"[low % 8].strip(), "░"
        yield Text.assemble((solid, "cyan"), (shade * (high // 8 - len(solid)), "dim cyan"))


@dataclass(frozen=True, slots=True)
class BarTable:
    """A table that ends in bars: `build` makes it with bars of at least this width, or without any for 0.

    `labels` are its columns of names, header and cells. In a narrow terminal the bars shrink and then disappear, so
    names and numbers stay whole. Only names that are long, and still differ when cropped, give up room for bars.
    """

    build: Callable[[int], Table]
    labels: Sequence[Sequence[Words]]
    bars: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        whole = Measurement.get(console, options.update(max_width=ENDLESS), self.build(0)).maximum + GAP
        room = options.max_width - whole
        if room >= _LEAST_BARS:
            yield self.build(min(room, self.bars))
        else:
            yield self.build(self.bars if self._crops_well(room - self.bars, options) else 0)

    def _crops_well(self, room: int, options: ConsoleOptions) -> bool:
        """Whether the names stay distinct and readable when their columns give up -`room` characters."""
        columns = [[words.plain(options) for words in column] for column in self.labels]
        widths = [max(map(cell_len, column)) for column in columns]
        most = max(widths, default=0)
        while most > 0 and sum(min(width, most) for width in widths) > sum(widths) + room:
            most -= 1
        whole = [*zip(*(column[1:] for column in columns), strict=True)]
        kept = {tuple(text if cell_len(text) <= most else text[: most - 3] for text in key) for key in whole}
        return most >= _READABLE and len(kept) == len({*whole})


def add_bars(grid: Table, width: int) -> None:
    """A last column of bars, which takes the rest of the line. Without it the table is as wide as its text."""
    if width:
        grid.add_column("", ratio=1, width=width, no_wrap=True)
    grid.expand = bool(width)
