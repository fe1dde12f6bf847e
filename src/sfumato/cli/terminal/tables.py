"""Tables without lines."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import JustifyMethod
from rich.table import Table

from sfumato.cli.terminal.text import Words

GAP, ENDLESS = 2, 100_000


def plain_table(*names: str, numbers: Collection[int] = (), whole: Collection[int] = ()) -> Table:
    """A table with these headings.

    Where the terminal is narrow its columns shrink, the widest first; those at the places `numbers`, which are
    right-aligned, and `whole` do not.
    """
    grid = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
    for place, name in enumerate(names):
        justify: JustifyMethod = "right" if place in numbers else "left"
        grid.add_column(Words(name), justify=justify, no_wrap=place in (*numbers, *whole))
    return grid
