"""Drawings: shapes with a look each, and the SVG that they become. No scripts, no ids, no style attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape

from sfumato.show.palette import FONT, LIGHT, LOOKS, attributes

WIDTH, MARGIN = 640, 12
TITLE_LINE, NOTE_LINE = 20, 16
MAX_TITLE_LINES = 3

# The widths of the characters from the space to the tilde in Helvetica, in thousandths of the font's size.
_WIDTHS = [
    *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
    *(*[556] * 10, 278, 278, 584, 584, 584, 556),
    *(1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778),
    *(667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556),
    *(333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556),
    *(556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
]
_OTHER, _WIDE = 600, 1050


def text_width(text: str, size: float) -> float:
    """About how wide a text is; exact for ASCII in Helvetica and Arial."""
    places = (ord(char) - 32 for char in text)
    return sum(_WIDTHS[at] if at < len(_WIDTHS) else _OTHER if at < 0x1000 else _WIDE for at in places) * size / 1000


def crop(text: str, size: float, width: float) -> str:
    """The beginning of a text that fits into `width`, with an ellipsis if it is not the whole."""
    if text_width(text, size) <= width + 0.01:
        return text
    end, used = 0, text_width("…", size)
    while end < len(text) and used + text_width(text[end], size) <= width:
        used += text_width(text[end], size)
        end += 1
    return f"{text[:end].rstrip()}…"


def fold(text: str, size: float, width: float, between: str = " ") -> list[str]:
    """A text as lines that fit into `width`, broken at `between` alone; a part that is longer is cropped."""
    lines: list[str] = []
    for part in text.split(between):
        longer = f"{lines[-1]}{between}{part}" if lines else part
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return [crop(line, size, width) for line in lines]


def round_steps(low: float, high: float, count: int) -> list[float]:
    """Round numbers from `low` to `high` at equal distances, about `count`.

    >>> round_steps(0, 926, 5)
    [0, 200, 400, 600, 800]
    """
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    places = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    numbers = [float(f"{place * step:.12g}") for place in places]
    return [int(number) if number.is_integer() and abs(number) < 1e15 else number for number in numbers]


@dataclass(frozen=True, slots=True)
class Element:
    """An element, where it is, and how it looks. `said` is shown when one points at it."""

    tag: str
    look: str
    at: tuple[tuple[str, float | str], ...]
    text: str = ""
    said: str = ""


@dataclass(slots=True)
class Drawing:
    """Shapes on paper of a width; the height grows with what is drawn. `name` is for those who do not see it."""

    name: str
    width: float = WIDTH
    height: float = 0
    shapes: list[Element] = field(default_factory=list)

    def text(self, look: str, x: float, y: float, text: str) -> None:
        self.shapes.append(Element("text", look, (("x", x), ("y", y)), text))

    def line(self, look: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self.path(look, f"M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}")

    def box(self, look: str, x: float, y: float, width: float, height: float, said: str = "") -> None:
        self.shapes.append(
            Element("rect", look, (("x", x), ("y", y), ("width", width), ("height", height), ("rx", 1.5)), said=said)
        )

    def dot(self, look: str, x: float, y: float, said: str = "", radius: float = 2.6) -> None:
        self.shapes.append(Element("circle", look, (("cx", x), ("cy", y), ("r", radius)), said=said))

    def path(self, look: str, steps: str, said: str = "") -> None:
        self.shapes.append(Element("path", look, (("d", steps),), said=said))

    def head(self, titles: Iterable[str], notes: Iterable[str]) -> None:
        """Titles and notes at the top, folded to the width."""
        across, y = self.width - 2 * MARGIN, float(MARGIN)
        for title in titles:
            for line in fold(title, 15, across)[:MAX_TITLE_LINES]:
                self.text("title", MARGIN, y + 14, line)
                y += TITLE_LINE
        for note in notes:
            for line in _fold_note(note, across):
                self.text("note", MARGIN, y + 12, line)
                y += NOTE_LINE
        self.height = y + 6 if y > MARGIN else y

    def with_attributes(self) -> str:
        """SVG on white paper that needs no stylesheet."""
        paper = f'<rect width="100%" height="100%" fill="{LIGHT["paper"]}"/>'
        return self._svg(f'font-family="{FONT}" font-size="12"', paper, _describe)

    def with_classes(self, *names: str) -> str:
        """SVG for a page whose stylesheet has the looks as classes."""
        return self._svg(f'class="{" ".join(("picture", *names))}"', "", lambda look: f'class="{look}"')

    def _svg(self, own: str, paper: str, describe: Callable[[str], str]) -> str:
        width, height, label = short(self.width), short(self.height + MARGIN), escape(self.name)
        groups = [
            f"<g {describe(look)}>{''.join(map(_element, shapes))}</g>"
            for look in LOOKS
            if (shapes := [shape for shape in self.shapes if shape.look == look])
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{label}" {own}>{paper}{"".join(groups)}</svg>'
        )


def short(number: float) -> str:
    """A coordinate with at most one decimal.

    >>> short(12.04), short(0.25)
    ('12', '0.2')
    """
    return f"{number:.1f}".removesuffix(".0")


def _describe(look: str) -> str:
    return " ".join(f'{name}="{value}"' for name, value in attributes(look).items())


def _element(shape: Element) -> str:
    at = " ".join(f'{name}="{short(value) if isinstance(value, float | int) else value}"' for name, value in shape.at)
    said = f"<title>{escape(shape.said)}</title>" if shape.said else ""
    content = escape(shape.text, quote=False) + said
    return f"<{shape.tag} {at}>{content}</{shape.tag}>" if content else f"<{shape.tag} {at}/>"


def _fold_note(note: str, width: float) -> list[str]:
    """The lines of a note. It breaks between its parts, and within a part only where one is longer than a line."""
    lines: list[str] = []
    for part in note.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines else part
        if text_width(longer, 12) <= width:
            lines[max(len(lines) - 1, 0) :] = [longer]
        else:
            lines += fold(part, 12, width)
    return lines
