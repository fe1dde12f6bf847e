"""Charts: rendered for real, with every label, whiskers where the error is, and an axis that starts at 0."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sfumato.charts import Chart, Figures, chart, figure, table_html, visible
from sfumato.errors import InvalidArgument

SVG = "{http://www.w3.org/2000/svg}"


def figures(*rows: tuple[str, int], error: int = 26) -> Figures:
    return Figures(("article",), tuple((key,) for key, _ in rows), "members", tuple(n for _, n in rows), error)


def drawn(*rows: tuple[str, int], error: int = 26) -> Chart:
    return chart(figures(*rows, error=error), title="")


def texts(picture: Chart) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(picture.to_svg()).iter(f"{SVG}text")]  # noqa: S314


def marks(picture: Chart, kind: str) -> list[ET.Element]:
    """The elements of the marks of one kind, from the first layer to the last, without axes."""
    groups = ET.fromstring(picture.to_svg()).iter(f"{SVG}g")  # noqa: S314
    return [
        node for group in groups if re.search(rf"mark-{kind} role-mark layer", group.get("class", "")) for node in group
    ]


def test_every_label_and_count_is_in_the_picture() -> None:
    rows = [(f"article-{place}", 1000 - place) for place in range(100)]
    said = texts(drawn(*rows))
    for key, count in rows:
        assert key in said
        assert f"{count:,}" in said
    assert {"members by article", "members", "article", "± 26 with 95 % confidence"} <= {*said}


def test_the_largest_is_on_top() -> None:
    said = texts(drawn(("few", 50), ("most", 900), ("many", 300)))
    assert [text for text in said if text in ("few", "most", "many")] == ["most", "many", "few"]


def test_bars_start_at_zero_and_whiskers_span_the_error() -> None:
    """The axis goes from 0 to 100 on 480 pixels."""
    picture = drawn(("a", 80), ("b", 40), error=20)
    bars = [re.match(r"M([\d.]+),.*?h([\d.]+)v", node.get("d", "")) for node in marks(picture, "rect")]
    ends = [tuple(map(float, bar.groups())) for bar in bars if bar]
    assert ends[:2] == [pytest.approx((0, 384)), pytest.approx((0, 192))]
    whiskers = [abs(float(node.get("x2", 0))) for node in marks(picture, "rule")]
    assert whiskers.count(pytest.approx(192)) == 2  # 40 of 100 on 480 pixels, for each of the two


@pytest.mark.parametrize(
    ("count", "interval"), [(100, (74, 126)), (10, (0, 36)), (0, (-26, 26)), (-10, (-36, 16)), (-40, (-66, -14))]
)
def test_an_interval_stops_at_zero_below_a_positive_count(count: int, interval: tuple[int, int]) -> None:
    (row,) = drawn(("a", count)).spec["data"]["values"]
    assert (row["low"], row["high"]) == interval


def test_the_axis_holds_zero_and_every_interval() -> None:
    def domain(picture: Chart) -> Any:
        return picture.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]

    assert domain(drawn(("a", 900), ("b", 880))) == [0, 926]
    assert domain(drawn(("a", -40))) == [-66, 10]


def test_several_keys_are_joined_and_a_total_is_one_bar() -> None:
    two = Figures(("region", "job_title"), (("emea", "nurse"),), "members", (120,), 26)
    assert {"emea · nurse", "region · job title"} <= {*texts(chart(two, title=""))}
    total = chart(Figures((), ((),), "members", (48211,), 20), title="")
    assert {"total", "48,211", "members"} <= {*texts(total)}


def test_a_key_that_is_empty_is_not_a_total() -> None:
    labels = [row["label"] for row in drawn(("", 90), ("total", 80), ("(empty)", 70)).spec["data"]["values"]]
    assert labels == ["(empty)", "total", "(empty) (2)"]
    assert ">(empty)</span>" in table_html(figures(("", 90)), {"rows": "1"})


def test_absent_groups_are_told() -> None:
    thinned = replace(figures(("a", 90)), thinned=True)
    assert "± 26 with 95 % confidence · small groups are absent" in texts(chart(thinned, title=""))


def test_keys_that_read_alike_stay_apart() -> None:
    alike = Figures(("a", "b"), (("x · y", "z"), ("x", "y · z"), ("x · y", "z (2)")), "n", (100, 90, 80), 1)
    labels = [row["label"] for row in chart(alike, title="").spec["data"]["values"]]
    assert labels == ["x · y · z", "x · y · z (2)", "x · y · z (2) (2)"]


@pytest.mark.parametrize(
    "hostile", ["</svg><script>alert(1)</script>", "\x1b[31m", "\u202eabc", "a\x00b", "\ufffe", '\' + "x" + 1/0 \\']
)
def test_hostile_labels_are_only_text(hostile: str) -> None:
    """Among them are characters that no XML can hold, on which the converter would end the process."""
    picture = chart(Figures((hostile,), ((hostile,),), hostile, (90,), 26), title=hostile)
    assert texts(picture).count(visible(hostile)) == 4  # title, key and both axes
    assert not list(ET.fromstring(picture.to_svg()).iter(f"{SVG}script"))  # noqa: S314
    assert "<script" not in picture.to_html()


def test_long_labels_are_cropped_with_an_ellipsis() -> None:
    (label,) = [text for text in texts(drawn(("wide " * 50, 90))) if text.startswith("wide")]
    assert label.endswith("…")
    assert len(label) < 80


def test_a_title_replaces_the_made_one() -> None:
    said = texts(chart(figures(("a", 90)), title="Most read in EMEA"))
    assert "Most read in EMEA" in said
    assert "members by article" not in said


def test_an_empty_answer_says_so() -> None:
    said = texts(drawn())
    assert any(text.endswith("No group stands out of the noise, so that none can be shown.") for text in said)
    assert not any(text.isdigit() for text in said)


def test_a_list_without_counts_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ask with counts"):
        chart(Figures(("article",), (("a",),)), title="")


class TestIntervals:
    """A row's own interval, as released tables have them, also around numbers that are not whole."""

    mean = Figures(("team",), (("a",), ("b",)), "mean_hours", (3.25, 0.125), intervals=((3.0, 4.0), (-0.5, 0.25)))

    def test_they_take_the_place_of_the_error(self) -> None:
        first, second = chart(replace(self.mean, error=99), title="").spec["data"]["values"]
        assert (first["low"], first["high"], second["low"], second["high"]) == (3.0, 4.0, -0.5, 0.25)
        assert [first["said"], second["said"]] == ["a: 3.25, 3 to 4", "b: 0.125, -0.5 to 0.25"]

    def test_parts_of_one_are_told_in_the_picture_and_on_its_axis(self) -> None:
        small = replace(self.mean, counts=(0.25, 0.125), intervals=((0.2, 0.3), (0.1, 0.15)))
        said = texts(chart(small, title=""))
        assert {"0.25", "0.125", "0.05", "0.3", "with 95 % confidence intervals"} <= {*said}
        assert small.span() == (0, 0.3)

    def test_the_largest_of_many_are_told(self) -> None:
        some = replace(self.mean, total=1_234_567, thinned=True)
        said = "with 95 % confidence intervals · the 2 largest of 1,234,567 · small groups are absent"
        assert said in texts(chart(some, title=""))
        assert "largest" not in replace(some, total=2).about()

    def test_the_table_has_them(self) -> None:
        page = table_html(self.mean, {"rows": "2"})
        assert "3.25" in page
        assert "-0.5 to 0.25" in page
        spans = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", page)
        # The axis goes from -0.5 to 4.
        assert [(float(left), float(width)) for left, width in spans[1:2]] == [pytest.approx((77.78, 22.22))]

    @pytest.mark.parametrize("counts", [(0.0, 0.0), (-1.5, -2.5)])
    def test_an_axis_is_never_without_length(self, counts: tuple[float, float]) -> None:
        low, high = replace(self.mean, counts=counts, intervals=tuple((count, count) for count in counts)).span()
        assert low < high


@pytest.mark.parametrize(
    ("number", "said"),
    [
        *((0, "0"), (1234567, "1,234,567"), (-5, "-5"), (0.0, "0"), (999.96, "1,000"), (12345.6, "12,346")),
        *((-1234.5, "-1,234"), (0.000123456, "0.0001235"), (1e20, "1e+20"), (-1.25e300, "-1.25e+300")),
    ],
)
def test_numbers_are_short(number: float, said: str) -> None:
    assert figure(number) == said


class TestFiles:
    picture = drawn(("a", 90))

    @pytest.mark.parametrize(
        ("name", "begins"),
        [("c.json", b"{"), ("c.svg", b"<svg"), ("c.png", b"\x89PNG"), ("c.HTML", b"<!doctype html>")],
    )
    def test_the_ending_says_how(self, tmp_path: Path, name: str, begins: bytes) -> None:
        self.picture.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begins)

    def test_json_is_the_specification(self) -> None:
        assert json.loads(self.picture.to_json()) == self.picture.spec

    def test_another_ending_is_refused_and_leaves_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument, match=r"\.json, \.svg, \.png, \.html"):
            self.picture.save(str(tmp_path / "c.pdf"))
        assert not list(tmp_path.iterdir())

    def test_a_larger_scale_is_a_larger_picture(self) -> None:
        def width(png: bytes) -> int:
            return int.from_bytes(png[16:20], "big")

        assert width(self.picture.to_png(scale=4)) == pytest.approx(2 * width(self.picture.to_png()), abs=2)

    def test_a_notebook_gets_the_specification_and_a_picture(self) -> None:
        bundle = self.picture._repr_mimebundle_()
        assert bundle["application/vnd.vegalite.v5+json"] == self.picture.spec
        assert bundle["image/png"].startswith(b"\x89PNG")

    def test_without_the_converter_a_notebook_still_gets_the_specification(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        assert self.picture._repr_mimebundle_().keys() == {"application/vnd.vegalite.v5+json", "text/plain"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Größe 日本 🙂", "plain Größe 日本 🙂"),
        ("a\x1b[2J\r\n\x9b", "a\\x1b[2J\\r\\n\\x9b"),
        ("\u202eright to left\u2028", "\\u202eright to left\\u2028"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_does_not_show_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
