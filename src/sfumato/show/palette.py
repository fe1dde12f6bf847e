"""Colours and looks of everything that is drawn.

A contrast of 3 : 1 on white and on dark paper for what is drawn, of 4.5 : 1 for text: a test computes both.
"""

from __future__ import annotations

from collections.abc import Mapping

MAX_LINES = 10
"""The most lines in one panel: as many as there are colours."""

# Distinct also for readers who cannot tell red from green; neighbours differ in lightness.
COLOURS = (
    *("#2f72b3", "#cf6a1f", "#1a8f7a", "#9a5fc0", "#a57c00"),
    *("#d1578c", "#4a94d8", "#c9404a", "#76808b", "#5f9a2f"),
)[:MAX_LINES]

LIGHT: Mapping[str, str] = {"paper": "#ffffff", "ink": "#1f2933", "quiet": "#5b6672", "rule": "#878f98"}
DARK: Mapping[str, str] = {"paper": "#12161b", "ink": "#e6eaee", "quiet": "#a3aebb", "rule": "#6b7580"}
"""The colours that differ between papers, by name."""

BAR = "#4f86bd"
FONT = "Helvetica Neue, Helvetica, Arial, sans-serif"
DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""What tells lines apart without colours."""


def _line(place: int) -> dict[str, str]:
    dash = DASHES[place % len(DASHES)]
    whole = {"fill": "none", "stroke": COLOURS[place], "stroke-width": "2", "stroke-linejoin": "round"}
    return whole | ({"stroke-dasharray": dash} if dash else {})


# From the lowest to the highest: in this order they are painted. `$name` is a colour of the paper.
LOOKS: Mapping[str, Mapping[str, str]] = {
    "grid": {"stroke": "$rule", "stroke-width": "1", "stroke-dasharray": "1 4"},
    "later": {"fill": "none", "stroke": "$rule", "stroke-width": "1"},
    **{f"band{place}": {"fill": colour, "fill-opacity": "0.15"} for place, colour in enumerate(COLOURS)},
    "bar": {"fill": BAR},
    "axis": {"stroke": "$rule", "stroke-width": "1"},
    "whisker": {"fill": "none", "stroke": "$ink", "stroke-width": "1.3"},
    **{
        f"edge{place}": {"fill": "none", "stroke": colour, "stroke-width": "0.6"}
        for place, colour in enumerate(COLOURS)
    },
    **{f"line{place}": _line(place) for place in range(MAX_LINES)},
    **{f"dot{place}": {"fill": colour} for place, colour in enumerate(COLOURS)},
    "gap": {"fill": "none", "stroke": "$quiet", "stroke-width": "1.5"},
    "title": {"fill": "$ink", "font-size": "15", "font-weight": "600"},
    "panel": {"fill": "$ink", "font-size": "13", "font-weight": "600"},
    "label": {"fill": "$ink", "font-size": "12"},
    "label-end": {"fill": "$ink", "font-size": "12", "text-anchor": "end"},
    "number": {"fill": "$ink", "font-size": "11"},
    "note": {"fill": "$quiet", "font-size": "12"},
    "note-middle": {"fill": "$quiet", "font-size": "12", "text-anchor": "middle"},
    "note-end": {"fill": "$quiet", "font-size": "12", "text-anchor": "end"},
}


def attributes(look: str) -> dict[str, str]:
    """The attributes of a look on white paper."""
    return {name: LIGHT[value[1:]] if value[:1] == "$" else value for name, value in LOOKS[look].items()}


def stylesheet() -> str:
    """The looks as rules for classes. The colours of the paper are variables of the page: `--ink` and the like."""
    rules = [f".picture{{font-family:{FONT}}}"]
    for look, values in LOOKS.items():
        pairs = (
            f"{name}:{f'var(--{value[1:]})' if value[:1] == '$' else value}{'px' if name == 'font-size' else ''}"
            for name, value in values.items()
        )
        rules.append(f".picture .{look}{{{';'.join(pairs)}}}")
    return "\n".join(rules) + "\n"
