"""Colours: everything that is drawn has a contrast of 3 : 1 on both papers, and text 4.5 : 1."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from sfumato.show import Figures, chart
from sfumato.show.drawing import crop, fold, round_steps, text_width
from sfumato.show.palette import COLOURS, DARK, LIGHT, LOOKS, attributes, stylesheet
from tests.helpers.contrast import contrast


def colours_of(look: str, paper: dict[str, str]) -> set[str]:
    values = LOOKS[look].values()
    return {paper[value[1:]] if value.startswith("$") else value for value in values if value[:1] in "$#"}


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("paper", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("look", LOOKS)
def test_everything_drawn_can_be_seen(look: str, paper: dict[str, str]) -> None:
    """The fill of a band is light: its edges, which are drawn too, are what must be seen."""
    least = 4.5 if "font-size" in LOOKS[look] else 3.0
    drawn = colours_of(look, paper)
    assert drawn
    for colour in drawn:
        assert contrast(colour, paper["paper"]) >= least, colour


@pytest.mark.parametrize("paper", [LIGHT, DARK], ids=["light", "dark"])
def test_whiskers_are_seen_on_their_bars(paper: dict[str, str]) -> None:
    (whisker,), (bar,) = colours_of("whisker", paper), colours_of("bar", paper)
    assert contrast(whisker, bar) >= 3


def test_no_two_lines_have_one_colour() -> None:
    assert len({*COLOURS}) == len(COLOURS)


def test_a_picture_says_the_same_with_classes_and_with_attributes() -> None:
    drawn = chart(Figures(("a",), (("x",), ("y",)), "n", (9, 8), 2), title="")
    drawing = drawn.draw(width=640, headed=True)
    alone, on_page = (ET.fromstring(text) for text in (drawing.with_attributes(), drawing.with_classes()))  # noqa: S314
    assert drawn.to_svg() == drawing.with_attributes()
    group = "{http://www.w3.org/2000/svg}g"
    looks = [node.get("class", "") for node in on_page.iter(group)]
    assert [dict(node.attrib) for node in alone.iter(group)] == [attributes(look) for look in looks]
    assert all(f".picture .{look}{{" in stylesheet() for look in looks)


def test_the_stylesheet_takes_the_colours_of_the_paper_from_the_page() -> None:
    assert {*re.findall(r"var\(--(\w+)\)", stylesheet())} == {*LIGHT} - {"paper"}


@pytest.mark.parametrize(
    ("ends", "numbers"),
    [((0, 10), [0, 5, 10]), ((-40, 10), [-40, -20, 0]), ((0, 0.3), [0, 0.1, 0.2, 0.3]), ((0, 7e9), [0, 5e9])],
)
def test_numbers_on_an_axis_are_round(ends: tuple[float, float], numbers: list[float]) -> None:
    assert round_steps(*ends, 3) == numbers


def test_text_is_cropped_and_folded_to_a_width() -> None:
    text = "the noise is within 26, 19 times in 20"
    assert crop(text, 12, 1000) == text
    assert text_width(crop(text, 12, 100), 12) <= 100
    lines = fold(text, 12, 100)
    assert " ".join(lines) == text
    assert all(text_width(line, 12) <= 100 for line in lines)
    assert crop("日本語の長い名前", 12, 40).endswith("…")
