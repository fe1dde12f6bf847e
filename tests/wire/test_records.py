"""Answers: the serial form, data frames and Arrow with the right types, and a page that no value can write on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date, datetime, timedelta
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import duckdb
import pandas
import polars
import pytest
from msgspec.structs import replace

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import InvalidArgument
from sfumato.ledger import Settled
from sfumato.wire import Answer, Note, Receipt, ReceiptCore, Report, StoredAnswer, Visible

RECEIPT = Receipt(
    mechanism="unknown_gumbel",
    unit="member_id",
    charge=Charge(21, 1),
    left=Charge(Fraction(5957, 2), 29),
    resets=date(2026, 12, 1),
    error95={"members": 26},
    data_version="2026-11-15",
    digest="sha256:00",
    repeat=False,
)
TYPES_OF_COLUMNS = {
    'a "quoted" name': "text",
    "order": "integer",
    "share": "number",
    "known": "boolean",
    "day": "date",
    "at": "timestamp",
    "members": "integer",
}
ROWS: list[tuple[Any, ...]] = [
    ("it's; DROP TABLE x --", -(2**63), 0.5, True, date(2026, 11, 15), datetime(2026, 11, 15, 8, 30, 0, 7), 1240),
    ("Zürich \x00\x1b 🙂", 2**63 - 1, -3.0, False, date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), -4),
]
INTERVALS = [(1214, 1266), (0, 22)]
FULL = Answer(
    columns=TYPES_OF_COLUMNS,
    rows=[dict(zip(TYPES_OF_COLUMNS, row, strict=True)) for row in ROWS],
    stopped=True,
    receipt=RECEIPT,
    notes=[Note("other", "a note")],
)
EMPTY = replace(FULL, rows=[])


def counted(*rows: tuple[str, int], **changes: Any) -> Answer:
    columns = {"article": "text", "members": "integer"}
    return Answer(
        columns=columns,
        rows=[{"article": key, "members": n} for key, n in rows],
        stopped=False,
        receipt=replace(RECEIPT, **changes),
    )


LIST = Answer(
    columns={"article": "text"}, rows=[{"article": "gdpr-guide"}], stopped=False, receipt=replace(RECEIPT, error95={})
)
TOTAL = Answer(columns={"members": "integer"}, rows=[{"members": 48211}], stopped=False, receipt=RECEIPT)


class TestTheSerialForm:
    @pytest.mark.parametrize("answer", [FULL, EMPTY, LIST, TOTAL, counted(("a", 1), resets=None, repeat=True)])
    def test_it_is_read_back_as_it_was(self, answer: Answer) -> None:
        assert Answer.from_dict(answer.to_dict()) == answer

    @pytest.mark.parametrize("above", ["zero", "cutoff"])
    def test_how_large_a_group_must_be_travels_and_is_stored(self, above: Any) -> None:
        answer = counted(("a", 1), visible=Visible(87, 109, above))
        assert Answer.from_json(answer.to_json()) == answer
        assert answer.to_dict()["receipt"]["visible"] == {"half": 87, "most": 109, "above": above}
        core = {name: getattr(answer.receipt, name) for name in ReceiptCore.__struct_fields__}
        stored = StoredAnswer(
            columns=answer.columns, rows=answer.rows, stopped=False, receipt=ReceiptCore(**core), notes=[]
        )
        settled = Settled("", RECEIPT.charge, RECEIPT.left, RECEIPT.resets, repeat=False)
        assert StoredAnswer.from_json(stored.to_json()).complete(settled) == answer

    def test_an_answer_that_withholds_nothing_says_nothing_about_sizes(self) -> None:
        assert "visible" not in FULL.to_dict()["receipt"]
        assert "shown" not in FULL.lines()
        assert Answer.from_dict(FULL.to_dict()).receipt.visible is None

    @pytest.mark.parametrize("wrong", [{"half": 1}, {"half": 1, "most": 2, "above": "sea"}, {"half": 1.5}, []])
    def test_sizes_of_another_form_are_refused(self, wrong: Any) -> None:
        serial = FULL.to_dict()
        serial["receipt"]["visible"] = wrong
        with pytest.raises(ValueError, match="visible"):
            Answer.from_dict(serial)

    def test_a_measure_is_a_column_with_an_error(self) -> None:
        assert [answer.measure for answer in (FULL, EMPTY, TOTAL, LIST)] == ["members", "members", "members", None]


class TestPandas:
    @pytest.mark.parametrize("answer", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_columns_are_typed(self, answer: Answer) -> None:
        frame = answer.to_pandas()
        assert list(frame.columns) == [*TYPES_OF_COLUMNS, "members_low", "members_high"]
        assert pandas.api.types.is_string_dtype(frame.dtypes.iloc[0])
        assert [str(kind) for kind in frame.dtypes[1:]] == [
            *("int64", "float64", "bool", "datetime64[s]", "datetime64[us]", "int64", "int64", "int64")
        ]
        assert len(frame) == len(answer.rows)

    def test_values_are_the_rows(self) -> None:
        frame = FULL.to_pandas()
        for place, row in enumerate(ROWS):
            *_, day, at, _, low, high = seen = list(frame.iloc[place])
            assert (day.to_pydatetime().date(), at.to_pydatetime()) == (row[4], row[5])
            assert [*seen[:4], seen[6]] == [*row[:4], row[6]]
            assert (low, high) == INTERVALS[place]


class TestIntervals:
    def test_a_list_without_counts_has_none(self) -> None:
        assert LIST.to_polars().columns == ["article"]

    def test_a_column_that_has_the_name_already_keeps_it(self) -> None:
        answer = Answer(
            columns={"n_low": "text", "n": "integer"},
            rows=[{"n_low": "x", "n": 30}],
            stopped=False,
            receipt=replace(RECEIPT, error95={"n": 26}),
        )
        assert answer.to_polars().to_dicts() == [{"n_low": "x", "n": 30, "n_low (2)": 4, "n_high": 56}]
        assert [*answer.to_pandas().columns] == ["n_low", "n", "n_low (2)", "n_high"]

    def test_reports_have_them_for_each_statistic(self) -> None:
        added = ["clicks_low", "clicks_high", "views_low", "views_high"]
        assert SERIES.to_polars().select(added).row(0) == (7, 13, 87, 93)
        assert [*SERIES.to_pandas().columns] == [*SERIES.columns, *added]
        empty = replace(BY_TITLE, rows=[])
        assert {str(kind) for kind in empty.to_pandas()[added].dtypes} == {"int64"}
        assert {*empty.to_polars().select(added).dtypes} == {polars.Int64}

    def test_a_count_that_is_not_shown_has_none(self) -> None:
        frame = BY_TITLE.to_pandas()
        assert [str(frame.dtypes[f"views{ending}"]) for ending in ("", "_low", "_high")] == ["Int64"] * 3
        assert frame[["views", "views_low", "views_high"]].isna().all(axis=None)
        assert BY_TITLE.to_polars().select("clicks_low", "clicks_high", "views_low").row(0) == (4, 10, None)

    def test_numbers_that_were_raised_have_none_and_exact_ones_are_their_own(self) -> None:
        raised = replace(SERIES, options=["monotone"]).to_polars()
        assert raised["clicks"].to_list() == [10, 11, 12, 13]
        assert {*raised["clicks_low"], *raised["clicks_high"]} == {None}
        assert raised["clicks_low"].dtype == polars.Int64
        exact = replace(SERIES.receipt, mechanism="exact", error95={"clicks": 0, "views": 0})
        frame = replace(SERIES, receipt=exact, options=["monotone"]).to_polars()
        assert frame["clicks_low"].to_list() == frame["clicks_high"].to_list() == [10, 11, 12, 13]


class TestPolarsAndArrow:
    TYPES = (
        *(polars.String, polars.Int64, polars.Float64, polars.Boolean),
        *(polars.Date, polars.Datetime("us"), polars.Int64, polars.Int64, polars.Int64),
    )
    NAMES = (*TYPES_OF_COLUMNS, "members_low", "members_high")
    VALUES = tuple(row + ends for row, ends in zip(ROWS, INTERVALS, strict=True))

    @pytest.mark.parametrize("answer", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_polars_columns_are_typed_and_hold_the_rows(self, answer: Answer) -> None:
        frame = answer.to_polars()
        assert frame.schema == dict(zip(self.NAMES, self.TYPES, strict=True))
        assert frame.rows() == [*self.VALUES[: len(answer.rows)]]

    @pytest.mark.parametrize("answer", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_a_table_of_pyarrow_has_the_same_columns_and_rows(self, answer: Answer) -> None:
        table = answer.to_arrow()
        assert polars.from_arrow(table).schema == answer.to_polars().schema  # type: ignore[union-attr]
        assert [tuple(row.values()) for row in table.to_pylist()] == [*self.VALUES[: len(answer.rows)]]

    def test_polars_reads_the_arrow_stream_again_and_again(self) -> None:
        assert polars.DataFrame(FULL).equals(polars.DataFrame(FULL))

    @pytest.mark.parametrize("answer", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_duckdb_reads_the_arrow_stream(self, answer: Answer) -> None:
        with duckdb.connect() as connection:
            connection.register("answer", answer)
            assert connection.execute("SELECT * FROM answer").fetchall() == [*self.VALUES[: len(answer.rows)]]
            kinds = [kind for _, kind, *_ in connection.execute("DESCRIBE answer").fetchall()]
        assert kinds == ["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "BIGINT", "BIGINT", "BIGINT"]

    def test_a_stream_nobody_reads_is_let_go(self) -> None:
        assert "arrow_array_stream" in repr(FULL.__arrow_c_stream__())


class TestImports:
    def test_records_bring_no_engine_and_no_data_frames(self) -> None:
        heavy = {"duckdb", "pandas", "polars", "pyarrow", "sqlglot", "rich", "vl_convert"}
        code = f"import sys, sfumato.wire; print({heavy} & {{*sys.modules}} or 'none')"
        found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert found.stdout == "none\n"

    @pytest.mark.parametrize(
        ("package", "call", "extra"),
        [
            ("pandas", "a.to_pandas()", "pandas"),
            ("polars", "a.to_polars()", "polars"),
            ("pyarrow", "a.to_arrow()", "arrow"),
            ("vl_convert", "a.chart().to_png()", "plots"),
        ],
    )
    def test_a_missing_package_is_explained(
        self, package: str, call: str, extra: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, package, None)  # what an import of it finds
        with pytest.raises(ModuleNotFoundError, match=re.escape(f"needs: pip install 'sfumato[{extra}]'")):
            eval(call, {"a": counted(("x", 100))})  # noqa: S307


class Page(HTMLParser):
    """The tags, the attributes and the text a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class TestTheNotebook:
    HOSTILE = "<script>alert('1')</script>\" onload=\"x&amp;\x1b[31m"

    def test_no_value_becomes_markup(self) -> None:
        hostile = self.HOSTILE
        answer = Answer(
            columns={hostile: "text", "members": "integer"},
            rows=[{hostile: hostile, "members": 90}],
            stopped=False,
            receipt=replace(RECEIPT, mechanism=hostile, data_version=hostile),
            notes=[Note("other", hostile)],
        )
        page = Page(answer._repr_html_())
        assert page.tags == {"div", "table", "tr", "th", "td", "span", "b", "br"}
        assert page.attributes == {"style", "title"}
        shown = hostile.replace("\x1b", "\\x1b")
        assert "".join(page.words).count(shown) == 5
        assert "\x1b" not in answer._repr_html_()

    def test_it_tells_rows_and_receipt(self) -> None:
        answer = replace(
            counted(("gdpr-guide", 1240), ("ai-act", 300)), notes=[Note("small-groups-absent", "groups are absent")]
        )
        text = " ".join(Page(answer._repr_html_()).words)
        for said in (
            *("gdpr-guide", "1,240", "± 26", "ai-act", "unknown_gumbel", "21 units and 1 call", "2026-12-01"),
            *("5957/2 units and 29 calls", "version 2026-11-15", "groups are absent"),
        ):
            assert said in text

    def test_bars_start_at_zero_and_whiskers_span_the_error(self) -> None:
        page = counted(("a", 74), ("b", -26))._repr_html_()
        spans = re.findall(r"left:([\d.]+)%;width:([\d.]+)%", page)
        # The axis goes from -26 to 100. Each row has a bar, and a whisker of two parts, from 0 on.
        assert [(float(left), float(width)) for left, width in spans] == [
            pytest.approx((100 * (left + 26) / 126, 100 * (right - left) / 126), abs=0.01)
            for left, right in [(0, 74), (48, 100), (48, 100), (-26, 0), (0, 0), (0, 0)]
        ]

    def test_lists_totals_and_empty_answers_have_a_page(self) -> None:
        assert "gdpr-guide" in LIST._repr_html_()
        assert "48,211" in TOTAL._repr_html_()
        assert "No group stands out of the noise" in EMPTY._repr_html_()


class TestTheReceiptInWords:
    def test_a_repeat_costs_nothing(self) -> None:
        again = counted(("a", 90), repeat=True, charge=NOTHING)
        assert again.lines()["charge"] == "nothing, as this was answered before"
        assert counted(("a", 90)).lines()["charge"] == "21 units and 1 call"

    def test_it_says_what_is_left_and_until_when(self) -> None:
        assert FULL.lines()["left"] == "5957/2 units and 29 calls until 2026-12-01"
        assert counted(("a", 90), resets=None).lines()["left"] == "5957/2 units and 29 calls"

    def test_it_says_what_ended_the_list(self) -> None:
        assert FULL.lines()["rows"] == "2; noise ended the list; a note"
        assert TOTAL.lines()["rows"] == "1"

    def test_a_list_without_counts_has_no_error_and_no_chart(self) -> None:
        assert LIST.lines()["receipt"] == "unknown_gumbel, without counts"
        with pytest.raises(InvalidArgument, match="ask with counts"):
            LIST.chart()


def week(number: int) -> date:
    return date(2026, 9, 28) + 7 * number * timedelta(days=1)


SERIES = Report(
    columns={"start": "date", "end": "date", "clicks": "integer", "views": "integer"},
    rows=[{"start": week(at), "end": week(at + 1), "clicks": 10 + at, "views": 90} for at in range(4)],
    stopped=False,
    receipt=replace(
        RECEIPT,
        mechanism="canonical_laplace",
        error95={"clicks": 3, "views": 3},
        guarantee={"epsilon": 45.0, "unit": "event"},
    ),
    report="ads",
    entity={"account": "acme", "campaign": "7"},
    start=week(0),
    end=week(9),
    complete_until=week(4),
    granularity="week",
    options=[],
    zone="UTC",
)
BY_TITLE = replace(
    SERIES,
    columns={"start": "date", "end": "date", "title": "text", "clicks": "integer", "views": "integer"},
    rows=[{"start": week(2), "end": week(3), "title": "nurse", "clicks": 7, "views": None}],
    notes=[Note("small-counts-hidden", "counts below 5 are not shown")],
)


class TestReports:
    @pytest.mark.parametrize("moments", ["date", "timestamp"])
    def test_the_serial_form_holds_the_question(self, moments: str) -> None:
        clock = (lambda day: day) if moments == "date" else (lambda day: datetime(day.year, day.month, day.day, 3))
        ends = {name: clock(getattr(SERIES, name)) for name in ("start", "end", "complete_until")}
        report = replace(SERIES, columns=SERIES.columns | {"start": moments, "end": moments}, rows=[], **ends)
        serial = json.loads(json.dumps(report.to_dict()))
        assert (serial["report"], serial["entity"]) == ("ads", {"account": "acme", "campaign": "7"})
        assert (serial["start"], serial["end"]) == (ends["start"].isoformat(), ends["end"].isoformat())
        assert Report.from_dict(serial) == report

    def test_steps_of_which_nothing_is_shown_are_still_there(self) -> None:
        for report in (SERIES, BY_TITLE, replace(BY_TITLE, rows=[])):
            assert report.sheet().steps == tuple((week(at), week(at + 1)) for at in range(4))
            assert "vconcat" in report.chart().spec
        assert BY_TITLE.sheet().rows == ((2, "nurse", (7, None)),)
        assert replace(BY_TITLE, granularity="all").sheet().steps == ((week(2), week(3)),)

    def test_steps_are_those_of_the_zone(self) -> None:
        """The hour from two to three is not there."""
        columns = BY_TITLE.columns | {"start": "timestamp", "end": "timestamp"}
        ends = [datetime(2026, 3, 29), datetime(2026, 3, 29, 4)]
        times = {"start": ends[0], "end": ends[1], "complete_until": ends[1], "granularity": "1h"}
        night = replace(BY_TITLE, columns=columns, rows=[], zone="Europe/Berlin", **times)
        assert [start.hour for start, _ in night.sheet().steps if isinstance(start, datetime)] == [0, 1, 3]

    def test_steps_that_are_cut_short_are_known(self) -> None:
        days = timedelta(days=2)
        assert SERIES.sheet().cut == ()
        assert replace(BY_TITLE, start=week(0) + days).sheet().cut == (0,)
        assert replace(BY_TITLE, complete_until=week(4) - days).sheet().cut == (3,)

    @pytest.mark.parametrize(
        ("options", "attribute", "said"),
        [
            ((), False, "the noise is within ± 3, 19 times in 20"),
            (("tree",), False, "the noise is within ± 3, 19 times in 20"),
            (("tree", "actions"), False, "the noise is within ± 3, 19 times in 20, before actions raises the numbers"),
            (("actions",), True, "the noise is within ± 3, 19 times in 20, before actions raises the numbers"),
            (("totals",), True, "the noise is within ± 3, 19 times in 20"),
            (("totals",), False, "the noise is within ± 3, 19 times in 20, before totals raises the numbers"),
            (("monotone",), True, "the noise is within ± 3, 19 times in 20, before monotone raises the numbers"),
            (
                ("monotone", "totals", "tree", "actions"),
                False,
                "the noise is within ± 3, 19 times in 20, before monotone, totals and actions raise the numbers",
            ),
        ],
    )
    def test_a_number_that_was_raised_has_no_interval(
        self, options: tuple[str, ...], attribute: bool, said: str
    ) -> None:
        report = replace(BY_TITLE if attribute else SERIES, options=[*options])
        assert report.lines()["receipt"] == f"canonical_laplace, {said}"
        raised = "before" in said
        assert report.sheet().bounded is not raised
        assert (">± 3</span>" in report._repr_html_()) is not raised
        assert bool(re.search(r": [0-9]+ ± 3\"", report.chart().to_json())) is not raised

    def test_noise_that_differs_is_told_of_each(self) -> None:
        receipt = replace(SERIES.receipt, error95={"clicks": 3, "views": 1200})
        told = replace(SERIES, options=("monotone",), receipt=receipt).lines()["receipt"]
        assert "the noise of clicks is within ± 3, of views within ± 1,200, 19 times in 20, before" in told

    def test_exact_numbers_have_neither_noise_nor_intervals(self) -> None:
        guarantee = {"epsilon": 12.0, "unit": "event", "totals": "exact"}
        receipt = replace(SERIES.receipt, mechanism="exact", error95={"clicks": 0, "views": 0}, guarantee=guarantee)
        report = replace(SERIES, receipt=receipt, options=("totals", "monotone"))
        lines = report.lines()
        assert lines["receipt"] == "exact, without noise"
        assert lines["guarantee"] == (
            "epsilon 12 for one event, over all that is asked under this policy; totals are exact and not covered"
        )
        assert "19 times" not in " ".join(lines.values()) + report.chart().to_json()
        assert "±" not in report._repr_html_() + report.chart().to_json()
        assert report.raised == ()

    def test_the_guarantee_is_of_the_policy(self) -> None:
        assert SERIES.lines()["guarantee"] == "epsilon 45 for one event, over all that is asked under this policy"
