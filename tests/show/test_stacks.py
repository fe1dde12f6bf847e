"""Columns of boxes that stand on one another."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from sfumato.show.bars import Heading
from sfumato.show.stacks import StackPanel, draw_stacks

SVG = "{http://www.w3.org/2000/svg}"
HEAD = Heading(("Spent",), ())


def boxes(svg: str, look: str) -> list[dict[str, float]]:
    root = ET.fromstring(svg)  # noqa: S314
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") == look]
    return [
        {name: float(box.attrib[name]) for name in ("x", "y", "width", "height")}
        for group in groups
        for box in group.iter(f"{SVG}rect")
    ]


def test_layers_stand_on_one_another_and_share_a_scale() -> None:
    panel = StackPanel("units", {"anna": [10, 0], "ben": [30, 20]})
    svg = draw_stacks(HEAD, ["1 May", "2 May"], [panel]).with_classes("wide")
    anna, (ben_first, ben_second, _) = boxes(svg, "dot0"), boxes(svg, "dot1")
    assert len(anna) == 2  # and the sample of the legend
    assert abs(ben_first["height"] - 3 * anna[0]["height"]) < 0.5
    assert abs(ben_first["y"] + ben_first["height"] - anna[0]["y"]) < 0.2
    assert ben_second["x"] > ben_first["x"] + ben_first["width"]
    assert "anna, 1 May: 10" in svg
    assert "anna, 2 May" not in svg


def test_words_below_have_room_and_names_are_cropped_to_the_paper() -> None:
    steps = [f"{day} November" for day in range(1, 32)]
    panel = StackPanel("units", {"x" * 500: [1] * 31})
    svg = draw_stacks(HEAD, steps, [panel], 300).with_classes("narrow")
    root = ET.fromstring(svg)  # noqa: S314
    texts = list(root.iter(f"{SVG}text"))
    assert all(0 <= float(node.attrib["x"]) <= 300 for node in texts)
    shown = [node.text for node in texts if node.text in steps]
    assert 2 <= len(shown) <= 4
    assert "…" in svg


def test_nothing_is_a_picture_too() -> None:
    assert "<svg" in draw_stacks(HEAD, [], []).with_classes("wide")
    assert "<svg" in draw_stacks(HEAD, ["1 May"], [StackPanel("units", {"anna": [0]})]).with_attributes()
