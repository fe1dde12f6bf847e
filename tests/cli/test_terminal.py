"""The terminal: bars in proportion, lines that fit, and values that stay values."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import date
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace as replace_fields
from rich.cells import cell_len
from rich.console import Console, RenderableType

from sfumato.accounting import NOTHING, Charge
from sfumato.cli.terminal.answer import render_answer, render_estimate, render_figures
from sfumato.cli.terminal.bars import Bar
from sfumato.cli.terminal.budget import render_budget, render_charges
from sfumato.cli.terminal.release import render_release
from sfumato.ledger import Standing
from sfumato.show import Figures
from sfumato.wire import Answer, BudgetReport, ChargeRange, ChargeRow, Charges, Estimate, Note, Receipt, Visible

HOSTILE = "[red]x[/red]\x1b[2J\r\u202eZürich"


def answer(rows: list[tuple[str, int]], **changes: Any) -> Answer:
    receipt = {
        "mechanism": "unknown_gumbel",
        "unit": "member_id",
        "charge": Charge(21, 1),
        "left": Charge(2979, 29),
        "resets": date(2026, 12, 1),
        "error95": {"members": 26},
        "data_version": "2026-11-15",
        "digest": "sha256:00",
        "repeat": False,
    }
    columns = {"article": "text", "members": "integer"}
    found = [{"article": key, "members": count} for key, count in rows]
    return Answer(
        columns=columns,
        rows=found,
        stopped=False,
        receipt=Receipt(**receipt | changes),
        notes=[Note("small-groups-absent", "groups are absent")],
    )


def render_text(block: RenderableType, width: int = 80, encoding: str = "utf-8", color: bool = False) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, newline="\n") as file:
        Console(file=file, width=width, force_terminal=color, legacy_windows=False).print(block)
        file.flush()
        return raw.getvalue().decode(encoding)


def accounts(*standings: Standing, resets: date | None = date(2026, 12, 1)) -> BudgetReport:
    return BudgetReport.of_standings("anna", "enforce", [replace(each, resets=resets) for each in standings])


class Release:
    """What `render_release` needs of a released table."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys

    def figures(self, top: int, statistic: str | None = None) -> Figures:
        keys, counts = tuple((key,) for key in self.keys[:top]), (12.5, 6.25, -0.5)
        intervals = ((10.0, 13.0), (5.0, 7.5), (-2.0, -0.25))
        shown = len(keys)
        return Figures(("article",), keys, "mean_hours", counts[:shown], intervals=intervals[:shown], total=3)

    def lines(self) -> dict[str, str]:
        return {"guarantee": "rho 1/2", "unit": HOSTILE, "rows": "3"}


ANNA = Standing("analyst:anna", Charge(3000, 30), Charge(0, 10), Charge(1500, 10), Charge(750, 10))
LONG = Standing("organisation:" + HOSTILE * 9, Charge(3000, 30), NOTHING, Charge(Fraction(1, 3)), NOTHING)
MOVED = ChargeRow(
    at="2026-11-15T22:00:00Z", digest="sha256:" + "ab" * 32, account=HOSTILE * 9, charge=Charge(21, 1), state="settled"
)
BLOCKS = {
    "answer": render_answer(answer([(HOSTILE * 9, 1240), ("b", -31)]), title=HOSTILE),
    "list": render_answer(
        Answer(columns={"article": "text"}, rows=[{"article": HOSTILE * 9}], stopped=True, receipt=answer([]).receipt)
    ),
    "estimate": render_estimate(
        Estimate(
            mechanism=HOSTILE,
            charge=ChargeRange(Charge(2, 1), Charge(21, 1)),
            error95={HOSTILE: 26},
            left=Charge(2979, 29),
            answers_left=29,
        )
    ),
    "budget": render_budget(accounts(ANNA, LONG)),
    "charges": render_charges(Charges([replace_fields(MOVED, sql=HOSTILE * 9), MOVED], HOSTILE)),
    "release": render_release(Release(HOSTILE * 9, "b")),
}


class TestEveryBlock:
    @pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
    @pytest.mark.parametrize("width", [50, 80, 120])
    @pytest.mark.parametrize("name", BLOCKS)
    def test_it_fits_and_values_stay_values(self, name: str, width: int, encoding: str) -> None:
        text = render_text(BLOCKS[name], width, encoding)
        assert all(cell_len(line) <= width for line in text.splitlines())
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "[red]" in text or name in ("budget", "charges")
        assert text.isascii() or encoding == "utf-8"

    @pytest.mark.parametrize("name", BLOCKS)
    def test_no_value_colours_the_terminal(self, name: str) -> None:
        codes = {*re.findall(r"\x1b\[([\d;]*)[A-Za-z]", render_text(BLOCKS[name], color=True))}
        assert not any("31" in code.split(";") for code in codes)  # red
        assert "\x1b[2J" not in render_text(BLOCKS[name], color=True)


class TestAnAnswer:
    def test_it_tells_rows_and_receipt(self) -> None:
        text = render_text(render_answer(answer([("gdpr-guide", 1240), ("ai-act", 300)]), title="Which articles?"))
        assert text.startswith("Which articles?\n\n  article     members  noise")
        assert re.search(r"^  gdpr-guide    1,240  ± 26   █+[▏▎▍▌▋▊▉]?░+ *$", text, re.MULTILINE)
        for label, said in answer([("", 0), ("", 0)]).lines().items():
            assert re.search(rf"^  {label} +{re.escape(said)} *$", text, re.MULTILINE)

    def test_it_tells_how_large_a_group_must_be(self) -> None:
        text = render_text(render_answer(answer([("a", 90)], visible=Visible(87, 109, "zero"))))
        assert re.search(r"^  shown +half of the groups of 87, 19 in 20 of the groups of 109 *$", text, re.MULTILINE)
        text = " ".join(render_text(render_answer(answer([("a", 90)], visible=Visible(201, 221, "cutoff")))).split())
        assert "that are 201 above the first group out of sight, 19 in 20 of those 221 above it" in text

    @pytest.mark.parametrize(("encoding", "dots"), [("utf-8", "…"), ("ascii", "...")])
    def test_a_long_key_is_cropped_and_numbers_stay_whole(self, encoding: str, dots: str) -> None:
        text = render_text(render_answer(answer([("wide " * 50, 1240), ("b", 1000)])), 80, encoding)
        (row,) = [line for line in text.splitlines() if "wide" in line]
        error = "±" if encoding == "utf-8" else r"\+/-"
        assert re.fullmatch(rf"  (wide )+w?i?d?e?{re.escape(dots)} +1,240  {error} 26 +\S{{19,}} *", row)

    MARRIED = (("Married-civ-spouse", 14976), ("Married-spouse-absent", 418), ("", 30))

    def test_a_narrow_terminal_gives_up_bars_before_keys_and_counts(self) -> None:
        wide, narrow, tiny = (render_text(render_answer(answer([*self.MARRIED])), width) for width in (60, 45, 30))
        assert re.search(r"^  Married-civ-spouse +14,976  ± 26   █+", wide, re.MULTILINE)
        assert "█" in render_text(render_answer(answer([*self.MARRIED])), 50)  # shorter bars
        assert re.search(r"^  Married-spouse-absent +418  ± 26 *$", narrow, re.MULTILINE)
        assert re.search(r"^  Married-civ…   14,976  ± 26 $", tiny, re.MULTILINE)
        assert "█" not in narrow + tiny

    @pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
    @pytest.mark.parametrize("width", [*range(20, 130, 3)])
    def test_keys_beside_bars_stay_apart(self, width: int, encoding: str) -> None:
        keys = [f"{'a long beginning of a key ' * 3}{end}" for end in ("one", "two")]
        text = render_text(render_figures(answer([(keys[0], 900), (keys[1], 900)]).figures()), width, encoding)
        first, second = text.splitlines()[1:]
        assert first != second or not re.search("[█#]", text)

    def test_an_empty_key_and_a_large_error_are_told(self) -> None:
        text = render_text(render_answer(answer([*self.MARRIED], error95={"members": 261_329})))
        assert re.search(r"^  \(empty\) +30  ± 261,329", text, re.MULTILINE)

    def test_an_empty_one_says_so(self) -> None:
        text = render_text(render_answer(answer([])))
        assert "No group stands out of the noise, so none is shown." in text
        assert "21 units and 1 call" in text

    def test_counts_far_below_zero_have_no_bar(self) -> None:
        text = render_text(render_answer(answer([("a", -100), ("b", -200)])))
        assert "-100" in text
        assert "░" not in text


class TestAReleasedTable:
    def test_it_tells_the_largest_rows_and_the_guarantee(self) -> None:
        text = render_text(render_release(Release("gdpr-guide", "b", "gone"), top=2))
        assert re.search(r"^  gdpr-guide +12.5  10 to 13  █+[▏▎▍▌▋▊▉]?░+ *$", text, re.MULTILINE)
        assert re.search(r"^  with 95 % intervals; the 2 largest of 3 *$", text, re.MULTILINE)
        assert re.search(r"^  guarantee +rho 1/2 *$", text, re.MULTILINE)
        assert "gone" not in text

    def test_bars_are_solid_to_the_low_end_and_shaded_to_the_high_one(self) -> None:
        text = render_text(render_figures(Release("a", "b", "c").figures(3)), 100, "ascii")
        bars = [re.search(r"(#*)(-*) *$", line) for line in text.splitlines()[1:]]
        solid, shaded = zip(*((len(bar[1]), len(bar[2])) for bar in bars if bar), strict=True)
        longest = solid[0] + shaded[0]
        assert solid == tuple(pytest.approx(longest * low / 13, abs=1) for low in (10, 5, 0))
        assert shaded == tuple(pytest.approx(longest * width / 13, abs=1) for width in (3, 2.5, 0))


class TestBars:
    def test_they_are_in_proportion(self) -> None:
        assert [len(render_text(Bar(count, count, 200), 40).strip()) for count in (0, 100, 200)] == [0, 20, 40]

    def test_they_are_shaded_across_the_error(self) -> None:
        assert render_text(Bar(50, 150, 200), 40).strip() == "█" * 10 + "░" * 20
        assert render_text(Bar(50, 150, 200), 40, "ascii").strip() == "#" * 10 + "-" * 20


class TestEstimates:
    def estimate(self, **changes: Any) -> str:
        charge = ChargeRange(changes.pop("least", Charge(2, 1)), changes.pop("worst", Charge(21, 1)))
        usual: dict[str, Any] = {"charge": charge, "left": Charge(2979, 29)}
        usual |= {"mechanism": "unknown_gumbel", "error95": {"members": 26}, "answers_left": 29}
        return render_text(render_estimate(Estimate(**usual | changes)))

    def test_it_tells_charge_error_and_what_is_left(self) -> None:
        text = self.estimate()
        assert "2 units and 1 call at least, 21 units and 1 call at most" in text
        assert "the noise is within ± 26, 19 times in 20" in text
        assert "2979 units and 29 calls, enough for at least 29 such answers" in text

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"least": Charge(21, 1)}, r"charge +21 units and 1 call *\n"),
            ({"answers_left": 1}, "at least 1 such answer *\n"),
            ({"answers_left": 0}, "not enough for this question"),
            ({"answers_left": None}, "29 calls *\n"),
            ({"error95": {}}, "a list without counts"),
            (
                {"visible": Visible(87, 1109, "zero")},
                "shown +half of the groups of 87, 19 in 20 of the groups of 1,109 *\n",
            ),
            ({"visible": Visible(201, 221, "cutoff")}, "shown +half of the groups that are 201 above the first group"),
            ({"visible": None}, r"^(?![\s\S]*shown)"),
        ],
    )
    def test_edges(self, changes: dict[str, Any], said: str) -> None:
        assert re.search(said, self.estimate(**changes))


class TestBudgets:
    def test_an_account_is_told_in_units_and_calls(self) -> None:
        text = render_text(render_budget(accounts(ANNA)))
        assert "anna: enforce, resets on 2026-12-01" in text
        units, calls = text.splitlines()[3:]
        assert units.split()[:6] == ["analyst:anna", "units", "3,000", "1,500", "750", "750"]
        assert calls.split()[:5] == ["calls", "40", "10", "10", "20"]  # 10 of the 40 were granted
        assert (calls.count("█"), calls.count("░")) == (calls.count("░"), calls.count("█"))

    def test_an_overspent_account_keeps_its_bar_in_the_line(self) -> None:
        over = Standing("analyst:anna", Charge(10), NOTHING, Charge(25), NOTHING)
        text = render_text(render_budget(accounts(over, resets=None)))
        assert "never resets" in text
        assert "-15" in text
        assert "…" not in text
        assert max(map(cell_len, text.splitlines())) <= 80

    def test_a_long_fraction_is_marked_as_rounded(self) -> None:
        spent = Charge(Fraction(10**9 + 1, 3 * 10**6))
        assert "~333.333" in render_text(render_budget(accounts(Standing("a", Charge(9), NOTHING, spent, NOTHING))))


class TestCharges:
    def test_time_state_and_amounts_stay_whole(self) -> None:
        text = render_text(render_charges(Charges([MOVED])))
        assert re.search(r"^2026-11-15 22:00:00  settled     21      1  .*…  sha256:.*…", text, re.MULTILINE)
        assert "There are more" not in text

    def test_what_was_asked_stands_once_above_the_accounts_that_paid_for_it_and_whole(self) -> None:
        sql = f"SELECT members FROM engagements WHERE region IN ({', '.join(map(repr, 'abcdefghijklmnopqrstuvwxyz'))})"
        asked = replace_fields(MOVED, sql=sql)
        text = render_text(render_charges(Charges([asked, replace_fields(asked, account="organisation:b"), MOVED])))
        assert " ".join(text.split()).count(sql) == 1
        assert text.count("settled") == 3
        assert max(map(cell_len, text.splitlines())) <= 80

    def test_the_next_page_is_named(self) -> None:
        assert "There are more, from cursor-7 on." in render_text(render_charges(Charges([MOVED], "cursor-7")))

    def test_none_is_said(self) -> None:
        assert render_text(render_charges(Charges([]))) == "Nothing was charged.\n"
