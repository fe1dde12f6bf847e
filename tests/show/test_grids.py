"""Records as tables of text: printed, and in notebooks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_fields

from sfumato.service.examples import REPLIES
from sfumato.show import TextTable
from sfumato.show.text import NO_GROUPS
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Report, Tables
from tests.helpers.fake_service import ANSWER, REPORT

RECORDS = [kind.from_dict(REPLIES[kind.__name__]) for kind in (BudgetReport, Estimate, Charges, Tables)]


def test_columns_are_aligned_and_no_line_has_spaces_at_its_end():
    grid = TextTable(
        ("name", "n"),
        [("a", "1"), ("日本", "1,000"), ("é", "20")],
        numbers=(1,),
        title="three",
        lines={"left": "1 unit"},
    )
    assert grid.text().splitlines() == [
        "three",
        "",
        "name      n",
        "a         1",
        "日本  1,000",
        "é        20",
        "",
        "left  1 unit",
    ]


def test_no_text_is_code():
    grid = TextTable(("<b>", "\x1b[2J"), [("<script>", "a\nb")], title="<i>", lines={})
    assert "<script>" not in grid.html()
    assert "&lt;script&gt;" in grid.html()
    assert "\x1b" not in grid.text() + grid.html()
    assert len(grid.text().splitlines()) == 4


def test_an_answer_prints_its_rows_its_bars_and_its_receipt():
    page = str(ANSWER)
    assert "ai-act" in page
    assert "90" in page
    assert "± 27" in page
    assert "█" * 20 in page
    for label, text in ANSWER.lines().items():
        assert label in page
        assert text in page
    assert f"{ANSWER}" == page


def test_an_answer_without_rows_or_counts_prints_too():
    assert NO_GROUPS in str(with_fields(ANSWER, rows=[]))
    receipt = with_fields(ANSWER.receipt, error95={})
    bare = Answer(columns={"article": "text"}, rows=[{"article": "a"}], stopped=False, receipt=receipt, notes=[])
    assert "█" not in str(bare)
    low = with_fields(ANSWER, rows=[{**ANSWER.rows[0], "members": -3}])
    assert "-3" in str(low)


def test_a_report_prints_a_column_for_each_statistic():
    page = str(REPORT)
    assert "nurse" in page
    assert "impressions" in page
    assert "41" in page
    assert isinstance(Report.from_dict(REPLIES["Report"]).__str__(), str)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_budgets_estimates_charges_and_tables_draw_themselves(record):
    grid = record.grid()
    assert grid.rows
    assert record._repr_html_() == grid.html()
    assert str(record) == grid.text()
    for row in grid.rows:
        assert len(row) == len(grid.heads)
    assert type(record).from_json(record.to_json()) == record


def test_nothing_is_drawn_as_nothing():
    assert "Nothing was charged." in str(Charges([]))
    assert "There is nothing to ask about." in str(Tables([]))
    assert replace(TextTable(("a",), []), title="").text() == ""
