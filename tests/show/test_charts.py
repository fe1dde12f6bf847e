"""Charts: rendered for real, with every label, whiskers where the error is, and an axis that starts at 0."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import InvalidArgument
from sfumato.show import (
    Chart,
    Figures,
    Sheet,
    chart,
    figure,
    noise_within,
    partial_steps,
    report_chart,
    report_html,
    table_html,
    visible,
)
from sfumato.show.text import NO_COUNTS, NO_GROUPS

SVG = "{http://www.w3.org/2000/svg}"


def figures(*rows: tuple[str, int], error: int = 26) -> Figures:
    return Figures(("article",), tuple((key,) for key, _ in rows), "members", tuple(n for _, n in rows), error)


def bars_of(*rows: tuple[str, int], error: int = 26) -> Chart:
    return chart(figures(*rows, error=error), title="")


def texts(picture: Chart) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(picture.to_svg()).iter(f"{SVG}text")]  # noqa: S314


def marks(picture: Chart, look: str) -> list[ET.Element]:
    """The elements of one look, in the order in which they were drawn."""
    groups = ET.fromstring(picture.to_page_svg()).iter(f"{SVG}g")  # noqa: S314
    return [node for group in groups if group.get("class") == look for node in group]


def whiskers(picture: Chart) -> list[tuple[float, float]]:
    """The ends of every whisker."""
    found = [re.match(r"M([\d.]+) [\d.]+H([\d.]+)", node.get("d", "")) for node in marks(picture, "whisker")]
    return [(float(each[1]), float(each[2])) for each in found if each]


def test_every_label_and_count_is_in_the_picture() -> None:
    rows = [(f"article-{place}", 1000 - place) for place in range(100)]
    said = texts(bars_of(*rows))
    for key, count in rows:
        assert key in said
        assert f"{count:,}" in said
    assert {"members by article", "members", "article", "the noise is within ± 26, 19 times in 20"} <= {*said}


def test_the_largest_is_on_top() -> None:
    said = texts(bars_of(("few", 50), ("most", 900), ("many", 300)))
    assert [text for text in said if text in ("few", "most", "many")] == ["most", "many", "few"]


def test_bars_start_at_zero_and_whiskers_span_the_error() -> None:
    """The axis goes from 0 to 100."""
    picture = bars_of(("a", 80), ("b", 40), error=20)
    (first, one), (second, two) = [
        (float(node.get("x", 0)), float(node.get("width", 0))) for node in marks(picture, "bar")
    ]
    assert first == second
    assert one == pytest.approx(2 * two, abs=0.2)
    unit = one / 80
    assert whiskers(picture) == [
        pytest.approx((first + 60 * unit, first + 100 * unit), abs=0.2),
        pytest.approx((first + 20 * unit, first + 60 * unit), abs=0.2),
    ]


@pytest.mark.parametrize(
    ("count", "interval"), [(100, (74, 126)), (10, (0, 36)), (0, (0, 26)), (-10, (0, 16)), (-40, (0, 0))]
)
def test_both_ends_of_an_interval_are_at_least_zero(count: int, interval: tuple[int, int]) -> None:
    (row,) = bars_of(("a", count)).spec["data"]["values"]
    assert (row["low"], row["high"]) == interval


def test_the_axis_holds_zero_and_every_interval() -> None:
    def domain(picture: Chart) -> Any:
        return picture.spec["layer"][0]["encoding"]["x"]["scale"]["domain"]

    assert domain(bars_of(("a", 900), ("b", 880))) == [0, 926]
    assert domain(bars_of(("a", -40))) == [-40, 10]


def test_several_keys_are_joined_and_a_total_is_one_bar() -> None:
    two = Figures(("region", "job_title"), (("emea", "nurse"),), "members", (120,), 26)
    assert {"emea · nurse", "region · job title"} <= {*texts(chart(two, title=""))}
    total = chart(Figures((), ((),), "members", (48211,), 20), title="")
    assert {"total", "48,211", "members"} <= {*texts(total)}


def test_a_key_that_is_empty_is_not_a_total() -> None:
    labels = [row["label"] for row in bars_of(("", 90), ("total", 80), ("(empty)", 70)).spec["data"]["values"]]
    assert labels == ["(empty)", "total", "(empty) (2)"]
    assert ">(empty)</span>" in table_html(figures(("", 90)), {"rows": "1"})


def test_absent_groups_are_told() -> None:
    thinned = replace(figures(("a", 90)), thinned=True)
    assert "the noise is within ± 26, 19 times in 20 · small groups are absent" in texts(chart(thinned, title=""))
    sized = replace(thinned, whole_from=1109)
    assert "the noise is within ± 26, 19 times in 20 · groups below 1,109 can be absent" in texts(
        chart(sized, title="")
    )
    assert "absent" not in "".join(texts(chart(replace(sized, thinned=False), title="")))


def test_keys_that_read_alike_stay_apart() -> None:
    alike = Figures(("a", "b"), (("x · y", "z"), ("x", "y · z"), ("x · y", "z (2)")), "n", (100, 90, 80), 1)
    labels = [row["label"] for row in chart(alike, title="").spec["data"]["values"]]
    assert labels == ["x · y · z", "x · y · z (2)", "x · y · z (2) (2)"]


@pytest.mark.parametrize(
    "hostile", ["</svg><script>alert(1)</script>", "\x1b[31m", "\u202eabc", "a\x00b", "\ufffe", '\' + "x" + 1/0 \\']
)
def test_hostile_labels_are_only_text(hostile: str) -> None:
    """Among them are characters that no XML can hold."""
    picture = chart(Figures((hostile,), ((hostile,),), hostile, (90,), 26), title=hostile)
    assert texts(picture).count(visible(hostile)) == 4  # title, key and both axes
    for svg in (picture.to_svg(), picture.to_page_svg()):
        nodes = [*ET.fromstring(svg).iter()]  # noqa: S314
        assert {node.tag.removeprefix(SVG) for node in nodes} <= {"svg", "g", "rect", "path", "text", "title"}
        assert not {name for node in nodes for name in node.keys()} & {"id", "style", "onload", "href"}  # noqa: SIM118
    assert "<script" not in picture.to_html()
    assert picture.to_png().startswith(b"\x89PNG")


def test_long_labels_are_cropped_with_an_ellipsis() -> None:
    (label,) = [text for text in texts(bars_of(("wide " * 50, 90))) if text.startswith("wide")]
    assert label.endswith("…")
    assert len(label) < 80


def test_a_title_replaces_the_made_one() -> None:
    said = texts(chart(figures(("a", 90)), title="Most read in EMEA"))
    assert "Most read in EMEA" in said
    assert "members by article" not in said


def test_an_empty_answer_says_so() -> None:
    said = texts(bars_of())
    assert "No group stands out of the noise, so none is shown." in said
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
        assert {"0.25", "0.125", "0.1", "0.3", "with 95 % intervals"} <= {*said}
        assert small.span() == (0, 0.3)

    def test_the_largest_of_many_are_told(self) -> None:
        some = replace(self.mean, total=1_234_567, thinned=True)
        said = "with 95 % intervals · the 2 largest of 1,234,567 · small groups are absent"
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


def day(number: int) -> tuple[date, date]:
    return date(2026, 10, number), date(2026, 10, number + 1)


OCTOBER = (date(2026, 10, 1), date(2026, 11, 1))


def sheet(*rows: tuple[int, str, tuple[int | None, ...]], days: int = 0, by: str | None = "job_title") -> Sheet:
    steps = tuple(day(number) for number in range(1, days + 1)) or (OCTOBER,)
    errors = dict(list({"impressions": 9, "clicks": 4}.items())[: len(rows[0][2]) if rows else 1])
    return Sheet(by, steps, errors, rows, "Europe/Berlin")


class TestReports:
    """Bars for one range; for a series, lines in a band of their error, which are broken where nothing is shown."""

    def points(self, picture: Chart, panel: int = 0) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = picture.spec["vconcat"][panel]["data"]["values"]
        return found

    def paths(self, picture: Chart, look: str) -> int:
        """How many shapes of the looks whose names begin with `look` are drawn."""
        groups = ET.fromstring(picture.to_page_svg()).iter(f"{SVG}g")  # noqa: S314
        return sum(len(group) for group in groups if group.get("class", "").startswith(look))

    def test_one_range_is_bars(self) -> None:
        picture = report_chart(sheet((0, "nurse", (90,)), (0, "pilot", (40,))), title="")
        assert {"impressions by job title", "nurse", "90", "the noise is within ± 9, 19 times in 20"} <= {
            *texts(picture)
        }

    def test_statistics_stand_side_by_side_in_the_order_of_the_first(self) -> None:
        picture = report_chart(sheet((0, "nurse", (90, 3)), (0, "pilot", (40, 30)), (0, "clown", (20, None))), title="")
        first, second = picture.spec["hconcat"]
        assert first["encoding"]["y"]["scale"] == second["encoding"]["y"]["scale"]
        assert [row["label"] for row in second["data"]["values"]] == ["nurse", "pilot"]
        said = texts(picture)
        error = "the noise of impressions is within ± 9, of clicks within ± 4, 19 times in 20"
        assert {error, "small counts are not shown"} <= {*said}  # two lines of one note
        assert [text for text in said if text in ("nurse", "pilot", "clown")] == ["nurse", "pilot", "clown"]

    def test_totals_of_one_range_are_a_bar_for_each_statistic(self) -> None:
        picture = report_chart(sheet((0, "", (90, 2)), by=None), title="")
        rows = picture.spec["data"]["values"]
        assert [(row["label"], row["low"], row["high"]) for row in rows] == [("impressions", 81, 99), ("clicks", 0, 6)]

    def test_a_series_is_a_line_for_each_value_in_a_band(self) -> None:
        rows = [(step, key, (count + step,)) for step in range(3) for key, count in (("nurse", 50), ("pilot", 2))]
        picture = report_chart(sheet(*rows, days=3), title="")
        first = self.points(picture)[0]
        assert (first["label"], first["at"], first["low"], first["high"]) == ("nurse", "2026-10-01T00:00:00Z", 41, 59)
        assert self.points(picture)[3]["low"] == 0
        assert self.paths(picture, "line") == 4  # two of them beside their names
        assert self.paths(picture, "band") == 2
        assert {"01 Oct", "03 Oct", "nurse", "pilot", "0"} <= {*texts(picture)}

    def test_a_series_of_totals_is_a_line_for_each_statistic(self) -> None:
        picture = report_chart(sheet(*((step, "", (50, 5)) for step in range(4)), days=4, by=None), title="")
        (panel,) = picture.spec["vconcat"]
        assert panel["encoding"]["color"]["scale"]["domain"] == ["impressions", "clicks"]
        assert "impressions and clicks" in texts(picture)

    def test_statistics_by_value_have_a_panel_each(self) -> None:
        rows = [(step, key, (50, 5)) for step in range(3) for key in ("nurse", "pilot")]
        picture = report_chart(sheet(*rows, days=3), title="")
        assert [panel["title"]["text"] for panel in picture.spec["vconcat"]] == ["impressions", "clicks"]
        assert picture.to_svg()

    def test_a_line_is_broken_where_nothing_is_shown(self) -> None:
        counts = {0: 50, 1: 51, 3: 52, 5: 53, 6: 54}
        picture = report_chart(sheet(*((step, "nurse", (count,)) for step, count in counts.items()), days=7), title="")
        points = self.points(picture)
        assert [point["run"] for point in points] == ["nurse 1", "nurse 1", "nurse 2", "nurse 3", "nurse 3"]
        assert [point["alone"] for point in points] == [False, False, True, False, False]
        assert self.paths(picture, "line") == 2
        assert len(marks(picture, "dot0")) == 5
        assert any("small counts are not shown" in text for text in texts(picture))

    def test_a_step_that_is_missing_breaks_it_too(self) -> None:
        whole = sheet(*((step, "nurse", (50,)) for step in range(2)), days=2)
        picture = report_chart(replace(whole, steps=(day(1), day(5))), title="")
        assert [point["run"] for point in self.points(picture)] == ["nurse 1", "nurse 2"]

    def test_what_is_not_shown_is_marked_on_the_axis(self) -> None:
        rows = [(step, "a", (None if step == 2 else 50,)) for step in range(4)]
        picture = report_chart(sheet(*rows, days=5), title="")
        assert self.paths(picture, "gap") == 1
        assert "a: 2 not shown" in picture.to_svg()
        assert self.paths(report_chart(sheet(*((step, "a", (50,)) for step in range(4)), days=4), title=""), "gap") == 0

    def test_what_comes_later_is_hatched(self) -> None:
        made = replace(
            sheet(*((step, "a", (50,)) for step in range(4)), days=4), asked=OCTOBER, until=date(2026, 10, 5)
        )
        assert self.paths(report_chart(made, title=""), "later") == 1
        assert "not complete yet" in report_chart(made, title="").to_svg()
        assert self.paths(report_chart(replace(made, until=OCTOBER[1]), title=""), "later") == 0

    def test_a_part_of_a_step_has_a_ring(self) -> None:
        made = sheet(*((step, "a", (50,)) for step in range(4)), days=4)
        rings = [self.paths(report_chart(replace(made, cut=cut), title=""), "edge") for cut in ((), (0,), (0, 3))]
        assert [each - rings[0] for each in rings] == [0, 1, 2]

    def test_a_bar_that_is_not_shown_says_so(self) -> None:
        picture = report_chart(sheet((0, "nurse", (90, None)), (0, "pilot", (40, 20))), title="")
        assert texts(picture).count("not shown") == 1

    def test_only_so_many_lines_are_drawn_and_that_is_told(self) -> None:
        rows = [(step, f"title {key}", (100 - key,)) for step in range(2) for key in range(30)]
        picture = report_chart(sheet(*rows, days=2), title="")
        assert len({point["label"] for point in self.points(picture)}) == 10
        assert any("the 10 largest of 30" in text for text in texts(picture))

    def test_a_step_that_is_cut_short_is_told(self) -> None:
        start = datetime(2026, 10, 1)
        steps = tuple(
            (start + timedelta(days=n), start + timedelta(days=n + (0.25 if n == 3 else 1))) for n in range(4)
        )
        rows = tuple((step, "", (50,)) for step in range(4))
        whole = Sheet(None, steps, {"clicks": 4}, rows, "UTC", level="day")
        cut = replace(whole, cut=(3,))
        assert cut.about() == "the noise is within ± 4, 19 times in 20 · the last step is shorter than a day · UTC"
        assert whole.about() == "the noise is within ± 4, 19 times in 20 · UTC"
        assert [cut.start(step) for step in (0, 3)] == ["2026-10-01", "2026-10-04 (part)"]
        assert "2026-10-04 (part)" in report_html(cut, {"rows": "4"})

    @pytest.mark.parametrize(
        ("places", "steps", "level", "said"),
        [
            ((), 5, "week", ""),
            ((0,), 5, "week", "the first step is shorter than a week"),
            ((4,), 5, "3h", "the last step is shorter than 3 hours"),
            ((4, 0), 5, "month", "the first and the last steps are shorter than a month"),
            ((0, 0), 1, "day", "the only step is shorter than a day"),
        ],
    )
    def test_steps_that_are_cut_short_in_words(
        self, places: tuple[int, ...], steps: int, level: str, said: str
    ) -> None:
        assert partial_steps(places, steps, level) == said

    @pytest.mark.parametrize("days", [0, 3])
    @pytest.mark.parametrize("by", [None, "job_title"])
    @pytest.mark.parametrize("measures", [1, 2])
    def test_what_is_not_bounded_has_no_interval(self, days: int, by: str | None, measures: int) -> None:
        rows = [(step, "nurse" if by else "", (50, 5)[:measures]) for step in range(days or 1)]
        bounded = sheet(*rows, days=days, by=by)
        bare = replace(bounded, errors=dict.fromkeys(bounded.errors), accuracy="without noise")
        kinds = ("band", "edge", "whisker")
        first, second = ([self.paths(report_chart(each, title=""), kind) for kind in kinds] for each in (bounded, bare))
        assert sum(first) > sum(second) == 0
        said = texts(report_chart(bare, title=""))
        assert any("without noise" in text for text in said)
        assert not any("±" in text or "19 times" in text for text in said)
        assert "±" not in report_chart(bare, title="").to_json()
        page = report_html(bare, {"rows": "1"})
        assert "±" not in page
        assert "currentColor" not in page

    def test_the_title_says_what_was_asked(self) -> None:
        made = replace(sheet((0, "nurse", (90, 3))), entity={"account": "acme", "campaign": "7"}, asked=OCTOBER)
        picture = report_chart(made, title="")
        said = "account acme, campaign 7, from 2026-10-01 to before 2026-11-01"
        assert picture.spec["title"]["text"] == ["impressions and clicks by job title", said]
        assert picture.title == f"impressions and clicks by job title, {said}"
        assert f"<title>{picture.title}</title>" in picture.to_html()
        assert "Mine" in texts(report_chart(made, title="Mine"))
        assert said in report_html(made, {"rows": "1"})
        cut = replace(made, until=date(2026, 10, 9))
        assert any("complete until 2026-10-09" in text for text in texts(report_chart(cut, title="")))

    @pytest.mark.parametrize("rows", [(), ((2, "nurse", (5, None)),), ((1, "a", (5, 5)), (4, "b", (None, 6)))])
    def test_all_steps_stay_on_the_axis(self, rows: tuple[tuple[int, str, tuple[int | None, ...]], ...]) -> None:
        made = replace(sheet(*rows, days=8), errors={"impressions": 9, "clicks": 4})
        first, second = report_chart(made, title="").spec["vconcat"]
        domains = [panel["encoding"]["x"]["scale"]["domain"] for panel in (first, second)]
        assert domains[0] == domains[1]
        assert [(end["month"], end["date"]) for end in domains[0]] == [(10, 1), (10, 8)]
        assert report_chart(made, title="").to_png()

    def test_the_axis_is_the_reports_own_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever draws may live in another zone."""
        start = datetime(2026, 10, 25)
        steps = tuple((start + timedelta(hours=3 * n), start + timedelta(hours=3 * n + 3)) for n in range(4))
        drawn = Sheet(None, steps, {"clicks": 4}, tuple((step, "", (50,)) for step in range(4)), "Europe/Berlin")
        monkeypatch.setenv("TZ", "America/Los_Angeles")
        assert {"25 Oct 00:00", "25 Oct 06:00"} <= {*texts(report_chart(drawn, title=""))}

    @pytest.mark.parametrize("hostile", ["</svg><script>alert(1)</script>", "\x1b[31m", '\' + "x" + 1/0 \\'])
    @pytest.mark.parametrize("days", [0, 3])
    def test_hostile_values_are_only_text(self, hostile: str, days: int) -> None:
        rows = [(step, key, (50, 5)) for step in range(max(days, 1)) for key in (hostile, "nurse")]
        made = replace(sheet(*rows, days=days), by=hostile, zone=hostile)
        picture = report_chart(made, title="")
        assert visible(hostile) in texts(picture)
        assert not list(ET.fromstring(picture.to_svg()).iter(f"{SVG}script"))  # noqa: S314
        assert "<script" not in report_html(made, {"rows": hostile})

    def test_values_that_read_alike_stay_apart(self) -> None:
        rows = [(step, key, (50,)) for step in range(2) for key in ("", "(empty)")]
        points = self.points(report_chart(sheet(*rows, days=2), title=""))
        assert {point["label"] for point in points} == {"(empty)", "(empty) (2)"}

    @pytest.mark.parametrize("by", [None, "job_title"])
    @pytest.mark.parametrize("errors", [{"clicks": 4}, {"clicks": 4, "views": 5}])
    @pytest.mark.parametrize("days", [0, 1, 4])
    def test_where_nothing_is_shown_there_is_still_a_picture(
        self, by: str | None, errors: dict[str, int], days: int
    ) -> None:
        hidden = [] if by else [(step, "", (None,) * len(errors)) for step in range(days)]
        empty = Sheet(by, tuple(day(number + 1) for number in range(days)), errors, tuple(hidden), "UTC")
        picture = report_chart(empty, title="")
        assert picture.to_png()
        said = " ".join(texts(picture))
        assert NO_COUNTS in said
        assert NO_GROUPS not in said
        assert NO_COUNTS in report_html(empty, {"rows": "0"})

    def test_the_table_has_every_statistic_and_bars_of_the_first(self) -> None:
        page = report_html(sheet((0, "nurse", (90, None)), (0, "pilot", (None, 30))), {"rows": "2"})
        assert page.count("<tr>") == 3
        assert page.count("background:#5b85b0") == 1
        assert "± 9" in page
        assert "± 4" in page

    def test_a_long_table_says_what_is_left_out(self) -> None:
        rows = [(0, f"title {key}", (50,)) for key in range(250)]
        assert "and 50 more rows" in report_html(sheet(*rows), {"rows": "250"})


class TestFiles:
    picture = bars_of(("a", 90))

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
        assert bundle["image/svg+xml"] == self.picture.to_svg()

    def test_without_the_converter_all_but_png_works(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        kinds = {"application/vnd.vegalite.v5+json", "image/svg+xml", "text/plain"}
        assert self.picture._repr_mimebundle_().keys() == kinds
        for name in ("c.svg", "c.html", "c.json"):
            self.picture.save(tmp_path / name)
        with pytest.raises(ModuleNotFoundError, match=r"sfumato\[plots\]"):
            self.picture.save(tmp_path / "c.png")


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


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (26, "the noise is within ± 26, 19 times in 20"),
        ({"clicks": 1200}, "the noise is within ± 1,200, 19 times in 20"),
        ({"clicks": 3, "views": 3}, "the noise is within ± 3, 19 times in 20"),
        (
            {"clicks": 12, "job_views": 1200, "x\x1b": 3},
            "the noise of clicks is within ± 12, of job views within ± 1,200, of x\\x1b within ± 3, 19 times in 20",
        ),
    ],
)
def test_the_noise_in_words(errors: int | dict[str, int], said: str) -> None:
    assert noise_within(errors) == said
