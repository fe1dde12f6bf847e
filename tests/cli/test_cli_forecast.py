"""`sfumato budget usage` and `sfumato budget forecast`, as somebody types them."""

from __future__ import annotations

import importlib
import io
import json
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from sfumato.accounting import Charge
from sfumato.cli import main, output
from sfumato.cli.options import CHARTS
from sfumato.cli.terminal.budget import render_shares
from sfumato.config import load_config
from sfumato.ledger import Ledger, open_ledger
from sfumato.ledger.usage import Forecast, Overview, Spent, Usage, forecast
from sfumato.show import Panel, steps
from sfumato.wire import UsageReport
from tests.contracts.ledger import answer, histogram, own, top

CONFIG = """
[ledger]
url = "sqlite:books/ledger.db"
[budgets.partner]
epsilon_per = 0.15
delta_per = 1e-10
information = 10
calls = 1
resets = "monthly"
mode = "track"
[analysts.anna]
budget = "partner"
[analysts.bob]
budget = "partner"
"""
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(importlib.import_module("sfumato.cli.budget"), "now", lambda: NOW)
    folder = tmp_path / "shop"
    (folder / "books").mkdir(parents=True)
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def spent(shop: Path) -> None:
    """anna exceeds 10 units on her third day, bob never; both ask for one list."""
    settings = load_config("sfumato.toml")
    with open_ledger(settings.ledger, settings.folder) as ledger:
        _ask(ledger)


def _ask(ledger: Ledger) -> None:
    anna, bob = (own(name, mode="track", information=10, calls=1) for name in ("anna", "bob"))
    answer(ledger, top(2, "list", anna), now=NOW - timedelta(days=9))
    answer(ledger, histogram("h", anna, units=6), now=NOW - timedelta(days=7))
    answer(ledger, top(2, "list", bob), now=NOW)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["budget", *arguments])


def run_page(*arguments: str) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    return result.stdout


def run_json(*arguments: str) -> Any:
    return json.loads(invoke(*arguments, "--json").stdout)


@pytest.mark.usefixtures("spent")
class TestForecast:
    def test_the_table_has_shares_by_day(self) -> None:
        page = run_page("forecast", "--budget", "10,1", "--budget", "3000,0")
        lines = [line.split() for line in page.splitlines() if "%" in line]
        assert lines[0] == ["10", "units", "0%", "0%", *["50.0%"] * 5]
        assert lines[1][:3] == ["3,000", "units", "0%"]
        assert lines[3] == ["0", "calls", *["100%"] * 7]
        assert "day 31" in page
        assert "2 periods of 2 analysts" in page
        assert "enforced" not in page

    def test_json_is_the_owners_view(self) -> None:
        found = run_json("forecast", "--since", "2026-11-01")
        assert (found["since"], found["until"]) == ("2026-11-01", "2026-11-15")
        assert len(found["rows"]) == 3
        [own_budget] = found["forecast"]
        assert own_budget["budget"] == {"information": "10", "calls": "1"}
        assert own_budget["days"][2] == {"day": 3, "dry": {"information": 1, "calls": 0, "either": 1}, "of": 2}

    def test_an_enforced_budget_is_told_to_hide(self, shop: Path) -> None:
        (shop / "sfumato.toml").write_text(CONFIG.replace('"track"', '"enforce"'), "utf-8")
        assert 'Set mode = "track"' in " ".join(run_page("forecast").split())

    @pytest.mark.parametrize("ending", CHARTS)
    def test_a_picture_is_saved(self, shop: Path, ending: str) -> None:
        run_page("forecast", "--budget", "3000,30", "--plot", f"dry{ending}")
        content = (shop / f"dry{ending}").read_bytes()
        assert content.startswith({".png": b"\x89PNG", ".svg": b"<svg", ".json": b"{", ".html": b"<!doctype"}[ending])
        if ending != ".png":
            assert b"3,000 units" in content
            assert b"2 periods of 2 analysts" in content

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--budget", "3000"), "--budget: write units and calls, such as 3000,30"),
            (("--since", "monday"), "--since: write a day"),
            (("--until", "2026-13-01"), "--until: write a day"),
            (("--since", "2026-11-16"), "--since: 2026-11-16 is after 2026-11-15"),
            (("--since", "2020-01-01"), "--since: at most 366 days"),
            (("--plot", "dry.gif"), "--plot: must end in one of .svg"),
            (("--plot", "nowhere/dry.svg"), "--plot: there is no folder"),
            (("--budget", "1,1") * 11, "--budget: at most 10"),
        ],
    )
    def test_what_cannot_be_is_told_of_its_option(self, arguments: tuple[str, ...], words: str) -> None:
        result = invoke("forecast", *arguments)
        assert (result.exit_code, result.stdout) == (output.USAGE, "")
        assert words in result.stderr

    def test_a_picture_that_cannot_be_written_is_told(self, shop: Path) -> None:
        (shop / "dry.json").mkdir()
        assert "--plot: 'dry.json' cannot be written" in invoke("forecast", "--plot", "dry.json").stderr


def test_numbers_stay_whole_where_the_terminal_is_narrow() -> None:
    panel = Panel("information", {"3,000 units": tuple(day / 93 for day in range(1, 32))})
    for width in (50, 60, 80):
        console = Console(width=width, file=io.StringIO())
        console.print(render_shares([panel]))
        page = console.file.getvalue()  # type: ignore[attr-defined]
        assert page.count("day") == page.count("%") == 7
        assert all(len(line) <= width for line in page.splitlines())


@pytest.mark.usefixtures("shop")
def test_an_empty_ledger_is_told_so_and_can_be_drawn() -> None:
    assert "No analyst has spent anything" in run_page("forecast", "--plot", "dry.svg")
    assert "No analyst has spent anything" in Path("dry.svg").read_text("utf-8")
    assert run_json("forecast")["rows"] == []
    assert "Nothing was charged." in run_page("usage")


@pytest.mark.usefixtures("spent")
def test_usage_is_what_each_account_paid_for_whom() -> None:
    page = run_page("usage")
    assert "Spent from 2026-10-16 to 2026-11-15" in page
    assert ["analyst:anna", "anna", "11", "1"] in [line.split() for line in page.splitlines()]
    found = run_json("usage", "--since", "2026-11-15")
    assert found == {
        "since": "2026-11-15",
        "until": "2026-11-15",
        "rows": [
            {
                "day": "2026-11-15",
                "analyst": "bob",
                "account": "analyst:bob",
                "period": "2026-11-01",
                "charge": {"information": "5", "calls": "1"},
            }
        ],
    }


# -- pictures --


def panels_of(found: Forecast) -> list[Panel]:
    day = date(2026, 11, 15)
    return UsageReport.of_overview(Overview(Usage(day, day, []), found)).panels()


def test_a_panel_is_a_part_and_a_line_is_a_budget() -> None:
    spent = Spent(date(2026, 11, 3), "anna", "analyst:anna", date(2026, 11, 1), Charge(5, 2))
    found = forecast([spent], [Charge(4, 1), Charge(4, 3), Charge(Fraction(1, 2), 1)])
    information, calls, either = panels_of(found)
    assert [*information.lines] == ["4 units", "1/2 units"]
    assert [*calls.lines] == ["1 call", "3 calls"]
    assert [*either.lines] == ["4 units, 1 call", "4 units, 3 calls", "1/2 units, 1 call"]
    assert calls.lines["1 call"] == (1.0,) * 31
    assert calls.lines["3 calls"] == (0.0,) * 31


def test_the_picture_has_steps_from_nothing_a_percent_axis_and_a_legend() -> None:
    drawn = [
        Panel("information", {"10 units": (0.25, 0.5), "20 units": (0.0, 0.13)}),
        Panel("calls", {"1 call": (0, 0)}),
    ]
    picture = steps(drawn, title="Dry", about=["of 8 periods"])
    left, right = picture.spec["hconcat"]
    assert [point["share"] for point in left["data"]["values"]] == [0, 0.25, 0.5, 0, 0, 0.13]
    assert [point["day"] for point in left["data"]["values"]] == [0, 1, 2, 0, 1, 2]
    assert left["mark"]["interpolate"] == "step-before"
    assert left["encoding"]["y"]["scale"]["domain"] == right["encoding"]["y"]["scale"]["domain"] == [0, 0.5]
    image = ET.fromstring(picture.to_svg())  # noqa: S314
    said = ["".join(node.itertext()) for node in image.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Dry", "of 8 periods", "information", "calls", "10 units", "20 units", "1 call", "0%", "50%"} <= {*said}
    assert said.count("1 call") == 1


def test_nothing_to_draw_is_still_a_picture() -> None:
    assert "<svg" in steps([Panel("information", {})], title="Dry", about=["nobody"]).to_svg()


def test_without_a_period_no_panel_has_a_line() -> None:
    assert all(not panel.lines for panel in panels_of(forecast([], [Charge(4, 1)])))
