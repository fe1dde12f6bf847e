"""Text on a page of the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfumato.show.text import visible


@dataclass(frozen=True, slots=True)
class Words:
    """Text from anywhere, printed safely; escaped where the terminal has only ASCII.

    A `cropped` text stays on its line and ends in an ellipsis where the line is too short. Others wrap.
    """

    text: str
    style: str = ""
    cropped: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        text, width = self.plain(options), options.max_width
        if self.cropped and options.ascii_only and len(text) > width:
            text = text[: max(width - 3, 0)] + "..."[:width]
        yield Text(text, self.style, no_wrap=self.cropped, overflow="ellipsis" if self.cropped else "fold")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        whole = Measurement.get(console, options, Text(self.plain(options)))
        return Measurement(1, whole.maximum) if self.cropped else whole

    def plain(self, options: ConsoleOptions) -> str:
        """The text in characters that this terminal has."""
        text = visible(self.text)
        return text.replace("±", "+/-").encode("ascii", "backslashreplace").decode() if options.ascii_only else text


def indent(block: RenderableType) -> RenderableType:
    """A block, two columns to the right."""
    return Padding(block, (0, 0, 0, 2))


def paragraphs(*texts: str) -> RenderableType:
    """Text that wraps, with an empty line between two."""
    return stack(Words(text, cropped=False) for text in texts)


def stack(blocks: Iterable[RenderableType]) -> RenderableType:
    """Blocks with an empty line between two."""
    parts: list[RenderableType] = [part for block in blocks for part in ("", block)]
    return Group(*parts[1:])


def bullets(texts: Iterable[str]) -> RenderableType:
    """A list with dashes."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for text in texts:
        grid.add_row("-", Words(text, cropped=False))
    return grid


def labelled_lines(lines: Mapping[str, str]) -> RenderableType:
    """Dim lines, each with its label, such as those of a receipt."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for label, text in lines.items():
        grid.add_row(Words(label), Words(text, cropped=False), style="dim")
    return grid


def copy_line(text: str) -> RenderableType:
    """Text to copy, on one line of output: only the terminal itself may break it."""
    encoding = sys.stdout.encoding or "utf-8"
    safe = visible(text).encode(encoding, "backslashreplace").decode(encoding)
    return Text(f"  {safe}", "bold", no_wrap=True, overflow="ignore")


def command_line(*words: str) -> RenderableType:
    """A command to copy."""
    return copy_line(shlex.join(words))
