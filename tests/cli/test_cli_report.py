"""`sfumato report`: what it shows, what it promises, and what sealing a range again costs before it is done."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from sfumato.accounting import zcdp_epsilon
from sfumato.cli import main, output
from sfumato.config import load_config
from sfumato.session import Session
from tests.helpers.worlds import key_bytes

pytestmark = pytest.mark.slow  # a session for each

CONFIG = """
[ledger]
url = "sqlite:books/ledger.db"
[engines.local]
type = "duckdb"
database = "ads.duckdb"
[tables.ads]
engine = "local"
source = "ads"
privacy_unit = "member_id"
[reports.ads]
table = "ads"
time = "at"
zone = "Europe/Berlin"
levels = ["3h", "day", "month"]
entities = { levels = ["account", "campaign"], table = "campaigns" }
epsilon = 1
max_versions = 2
[reports.ads.attributes]
job_title = { domain = ["nurse", "pilot", "clown"] }
seniority = { domain = ["entry", "senior"] }
function = { domain = ["a", "b"] }
industry = { domain = ["a", "b"] }
region = { domain = ["a", "b"] }
company_size = { domain = ["a", "b"] }
[reports.ads.statistics]
impressions = { count = "rows", where = { kind = "impression" } }
clicks = { count = "rows", where = { kind = "click" }, of = "impressions" }
[budgets.b]
epsilon_per = 0.1
delta_per = 1e-9
information = 100
calls = 10
[analysts.anna]
budget = "b"
entities = { account = ["a0"] }
[analysts.ben]
budget = "b"
"""

ASK = ("--analyst", "anna", "--statistic", "clicks", "--entity", "account=a0")
MARCH = ("--start", "2024-03-01", "--end", "2024-04-01")
DAYS = ("--start", "2024-03-04", "--end", "2024-03-07")
RESEAL = ("report", "reseal", *DAYS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "ads.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE ads AS SELECT i % 500 AS member_id, TIMESTAMP '2024-03-01' + to_minutes(11 * i) AS at, "
            "CASE WHEN i % 5 < 3 THEN 'impression' ELSE 'click' END AS kind, 'c' || (i % 4) AS campaign, "
            "CASE i % 7 WHEN 0 THEN 'pilot' WHEN 1 THEN 'clown' ELSE 'nurse' END AS job_title, "
            "CASE i % 2 WHEN 0 THEN 'entry' ELSE 'senior' END AS seniority, 'a' AS \"function\", 'a' AS industry, "
            "'a' AS region, 'a' AS company_size FROM range(4000) t(i)"
        )
        connection.execute(
            "CREATE TABLE campaigns AS SELECT 'a' || (i % 2) AS account, 'c' || i AS campaign FROM range(4) t(i)"
        )
    return path


@pytest.fixture
def shop(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, which is the working one."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    (folder / "books").mkdir(parents=True)
    shutil.copy(data, folder)
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    key = folder / "noise.key"
    key.write_bytes(key_bytes())
    key.chmod(0o600)
    monkeypatch.chdir(folder)
    return folder


def invoke(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, arguments, **options)


def run_page(*arguments: str, **options: Any) -> str:
    result = invoke(*arguments, **options)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    result = invoke(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def words(page: str) -> str:
    return " ".join(page.split())


def rewrite(folder: Path, changes: Mapping[str, str]) -> None:
    text = (folder / "sfumato.toml").read_text("utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "sfumato.toml").write_text(text, "utf-8")


@pytest.mark.usefixtures("shop")
class TestAsking:
    def test_a_row_for_each_value_with_its_receipt(self) -> None:
        page = run_page("report", *ASK, *MARCH, "--attribute", "job_title")
        head, _, titles, *rows = page.splitlines()
        assert head == "account a0, from 2024-03-01 to before 2024-04-01"
        assert titles.split()[:4] == ["job", "title", "clicks", "±"]
        assert rows[0].split()[0] == "nurse"
        assert {row.split()[0] for row in rows[1:3]} == {"pilot", "clown"}
        assert "█" in rows[0]
        assert "epsilon 84 for one event, over all that is asked under this policy" in page
        assert "a report debits no account" in page

    def test_json_is_the_answer_and_a_repeat_is_the_same(self) -> None:
        first, again = (run_json("report", *ASK, *MARCH, "--attribute", "job_title", "--top", "2") for _ in range(2))
        assert first["rows"] == again["rows"]
        assert len(first["rows"]) == 2
        assert [first["receipt"]["repeat"], again["receipt"]["repeat"]] == [False, True]
        assert first["receipt"]["guarantee"] == {"epsilon": 84.0, "unit": "event"}

    def test_totals_are_a_row_for_each_statistic(self) -> None:
        rows = run_page("report", *ASK, "--statistic", "impressions", *MARCH).splitlines()[3:5]
        assert [row.split()[0] for row in rows] == ["impressions", "clicks"]

    def test_a_short_series_has_its_steps_across(self) -> None:
        page = run_page("report", *ASK, *DAYS, "--attribute", "seniority", "--granularity", "day")
        assert page.splitlines()[3].split() == ["seniority", "2024-03-04", "2024-03-05", "2024-03-06"]

    def test_a_long_series_has_a_row_for_each_step_and_value(self) -> None:
        page = run_page("report", *ASK, *MARCH, "--attribute", "seniority", "--granularity", "day")
        lines = page.splitlines()
        assert lines[2].split()[:2] == ["start", "seniority"]
        assert lines[3].split()[0] == "2024-03-01"
        assert lines[4].split()[0] in ("entry", "senior")

    def test_a_series_of_totals(self) -> None:
        page = run_page("report", *ASK, "--statistic", "impressions", *DAYS, "--granularity", "3h")
        assert page.splitlines()[3].startswith("  2024-03-04 00:00 ")

    def test_options_of_the_report_can_be_left_out(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": 'max_versions = 2\noptions = ["actions"]'})
        asked = ("report", *ASK, *DAYS)
        assert run_json(*asked)["options"] == ["actions"]
        assert run_json(*asked, "--no-options")["options"] == []
        assert run_json(*asked, "--option", "tree", "--option", "totals")["options"] == ["totals", "tree"]

    def test_the_heading_is_of_what_was_asked_also_when_all_is_hidden(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": "max_versions = 2\nmin_count = 5000"})
        for more in (("--attribute", "job_title"), ("--granularity", "day"), ("--attribute", "region", "--top", "1")):
            page = run_page(
                "report", "--analyst", "anna", "--statistic", "clicks", "--entity", "campaign=c0", *MARCH, *more
            )
            assert page.splitlines()[0] == "account a0, campaign c0, from 2024-03-01 to before 2024-04-01"
            assert "Small counts are not shown, and all of these are small." in page

    def test_the_answer_knows_its_question(self) -> None:
        found = run_json("report", *ASK, *MARCH)
        asked = {name: found[name] for name in ("report", "entity", "start", "end")}
        assert asked == {
            "report": "ads",
            "entity": {"account": "a0"},
            "start": "2024-03-01T00:00:00",
            "end": "2024-04-01T00:00:00",
        }

    def test_numbers_that_were_raised_have_no_interval(self) -> None:
        for more in ((), ("--granularity", "day"), ("--granularity", "day", "--attribute", "seniority")):
            page = run_page("report", *ASK, *DAYS, *more, "--option", "monotone")
            numbers, _, receipt = page.partition("  receipt ")
            assert "±" not in numbers
            assert "noise" not in numbers
            assert ", 19 times in 20, before monotone raises the numbers" in words(receipt)
            assert "error95 is of the noise alone: monotone raises the numbers" in words(page)

    def test_actions_are_among_the_options_that_raise_numbers(self) -> None:
        asked = ("report", *ASK, "--statistic", "impressions", *MARCH, "--option", "actions")
        assert "raised" in [note["code"] for note in run_json(*asked)["notes"]]
        numbers, _, receipt = run_page(*asked).partition("  receipt ")
        assert "±" not in numbers
        assert ", 19 times in 20, before actions raises the numbers" in words(receipt)

    def test_exact_totals(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": 'exact_totals = "known to the advertiser"'})
        totals, parts = run_json("report", *ASK, *MARCH), run_json("report", *ASK, *MARCH, "--attribute", "job_title")
        promise = {"epsilon": 36.0, "unit": "event", "totals": "exact"}
        assert [found["receipt"]["guarantee"] for found in (totals, parts)] == [promise, promise]
        assert [found["receipt"]["mechanism"] for found in (totals, parts)] == ["exact", "canonical_laplace"]
        page = words(run_page("report", *ASK, *MARCH, "--option", "totals"))
        assert "exact, without noise" in page
        assert "policy; totals are exact and not covered" in page
        assert "95" not in page

    def test_steps_that_are_cut_short_are_marked(self) -> None:
        ends = ("--start", "2024-03-04 12:00", "--end", "2024-03-06 03:00", "--granularity", "day")
        page = run_page("report", *ASK, *ends)
        starts = [line.split()[:3] for line in page.splitlines()[3:6]]
        assert [start[0] for start in starts] == ["2024-03-04", "2024-03-05", "2024-03-06"]
        assert ["(part)" in start for start in starts] == [True, False, True]
        assert "the first and the last steps are shorter than a day" in words(page)
        across = run_page("report", *ASK, *ends, "--attribute", "seniority", env={"COLUMNS": "120"})
        assert across.splitlines()[3].count("(part)") == 2
        assert "shorter than" not in words(run_page("report", *ASK, *DAYS, "--granularity", "day"))

    @pytest.mark.parametrize("name", ["c.svg", "c.png", "c.html", "c.json"])
    def test_a_chart_is_saved(self, shop: Path, name: str) -> None:
        run_page("report", *ASK, *MARCH, "--granularity", "day", "--chart", name)
        assert (shop / name).stat().st_size > 1000

    def test_a_terminal_that_knows_only_ascii(self) -> None:
        page = run_page("report", *ASK, *MARCH, "--attribute", "job_title", env={"PYTHONIOENCODING": "ascii"})
        assert "nurse" in page


@pytest.mark.usefixtures("shop")
class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "code", "problem"),
        [
            ((*MARCH, "--statistic", "clik"), 3, "--statistic: ads has no statistic 'clik'; did you mean clicks?"),
            ((*MARCH, "--entity", "campaign"), 2, "--entity: write a level and a name, such as campaign=7"),
            ((*MARCH, "--entity", "account=a1"), 2, "--entity: names two of level account"),
            ((*MARCH, "--attribute", "title"), 3, "--attribute: ads has no attribute 'title'"),
            ((*MARCH, "--option", "x"), 3, "--option: there is no option 'x'; there is monotone"),
            ((*MARCH, "--option", "tree", "--no-options"), 2, "--no-options: stands beside --option"),
            ((*MARCH, "--top", "3"), 3, "--top: needs an attribute"),
            ((*MARCH, "--granularity", "week"), 3, "--granularity: there is no level 'week'"),
            ((*MARCH, "--report", "adz"), 3, "--report: there is no report 'adz'; did you mean ads?"),
            ((*MARCH, "--chart", "c.pdf"), 2, "--chart: must end in one of"),
            (("--start", "2024-03-01 01:00", "--end", "2024-04-01"), 3, "--start and --end: must lie on the borders"),
            (("--start", "soon", "--end", "2024-04-01"), 3, "--start: must be a date"),
            ((*MARCH, "--statistic", "\udcff"), 2, "must be text in UTF-8"),
        ],
    )
    def test_each_names_the_option(self, arguments: tuple[str, ...], code: int, problem: str) -> None:
        result = invoke("report", *ASK, *arguments)
        assert (result.exit_code, result.stdout) == (code, "")
        assert problem in result.stderr
        assert problem in run_json("report", *ASK, *arguments, code=code)["detail"]

    def test_an_entity_of_others_is_one_that_is_not_there(self) -> None:
        asked = ("report", "--analyst", "anna", "--statistic", "clicks", *MARCH, "--entity")
        foreign, unknown = (invoke(*asked, f"account={name}") for name in ("a1", "zz"))
        assert (foreign.exit_code, unknown.exit_code) == (3, 3)
        assert foreign.stderr == unknown.stderr.replace("zz", "a1")

    def test_an_entity_is_asked_for_as_it_is_typed(self) -> None:
        result = invoke("report", "--analyst", "anna", "--statistic", "clicks", *MARCH)
        assert "--entity: must name one of account, campaign, such as account '7'" in result.stderr

    @pytest.mark.parametrize("missing", ["--analyst", "--statistic", "--start", "--end"])
    def test_what_is_missing_is_a_usage_error(self, missing: str) -> None:
        arguments = [*ASK, *MARCH]
        place = arguments.index(missing)
        result = invoke("report", *arguments[:place], *arguments[place + 2 :])
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"Missing option '{missing}'" in result.stderr

    def test_nothing_at_all_shows_the_help(self) -> None:
        result = invoke("report")
        assert result.exit_code == 2
        assert "explain" in result.stderr

    @pytest.mark.parametrize("option", [("--config", "sfumato.toml"), ("--json",), ("--report", "ads")])
    def test_an_option_before_a_command_is_not_lost_silently(self, option: tuple[str, ...]) -> None:
        result = invoke("report", *option, "explain")
        assert result.exit_code == 2
        assert f"{option[0]}: write it behind explain" in result.output


class TestExplain:
    def test_the_sum_of_the_paper_with_exact_totals(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": 'exact_totals = "known to the advertiser"'})
        page = words(run_page("report", "explain"))
        assert "6 attributes x 3 levels of time x 2 levels of entities x epsilon 1 = 36" in page
        assert "With noise they would be: epsilon 42" in page
        assert "needs max_versions = 2, and epsilon 72" in page

    def test_the_sum_of_the_paper_with_noised_totals(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": ""})
        page = words(run_page("report", "explain", "--report", "ads"))
        assert "(6 attributes + 1 total) x 3 levels of time x 2 levels of entities x epsilon 1 = 42" in page
        assert "it would be n times 42" in page
        assert "One event counts in at most one of impressions and clicks" in page

    def test_versions_multiply(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": "max_versions = 40"})
        found = run_json("report", "explain", "--report", "ads")
        assert found["versions"][:2] == [{"versions": 1, "epsilon": 42.0}, {"versions": 2, "epsilon": 84.0}]
        assert found["versions"][-1] == {"versions": 40, "epsilon": 1680.0}
        assert found["guarantee"] == {"epsilon": 1680.0, "unit": "event"}

    def test_it_tells_the_error_of_the_usual_ranges(self, shop: Path) -> None:
        """From the laws alone: of sums, with calendar on the day that a range ends, and later."""
        rewrite(
            shop, {'levels = ["3h", "day", "month"]': 'levels = ["day", "month"]', "epsilon = 1\n": "epsilon = 0.5\n"}
        )
        found = run_json("report", "explain", "--report", "ads")
        assert [each["range"] for each in found["errors"]] == [
            "last 7 days",
            "last 28 days",
            "last 90 days",
            "last month",
            "year to date",
        ]
        assert found["errors"][2] == {
            "range": "last 90 days",
            "statistics": ["impressions", "clicks"],
            "error95": {
                "sums": {"typical": 31, "largest": 43},
                "calendar": {"typical": 27, "largest": 32},
                "final": {"typical": 21, "largest": 23},
            },
        }
        page = words(run_page("report", "explain", "--report", "ads"))
        assert "last 90 days ± 31 to 43 ± 27 to 32 ± 21 to 23" in page

    @pytest.mark.parametrize(("epsilon", "words_of_it"), [("0.1", "less error"), ("3", "more error")])
    def test_it_says_whether_gaussian_noise_would_be_better(self, shop: Path, epsilon: str, words_of_it: str) -> None:
        rewrite(shop, {"epsilon = 1\n": f"epsilon = {epsilon}\n"})
        found = run_json("report", "explain", "--report", "ads")["gaussian"]
        assert (found["delta"], found["cells"]) == (1e-6, 42)
        assert (found["error_ratio"] < 1) == (words_of_it == "less error")
        page = words(run_page("report", "explain", "--report", "ads"))
        assert f"{words_of_it}: one event is counted in 42 cells." in page

    def test_gaussian_noise_adds_up_in_rho(self, shop: Path) -> None:
        gaussian = 'noise = "gaussian"\nepsilon = { total = 4.2 }\ndelta = 1e-6\n'
        rewrite(shop, {"epsilon = 1\n": gaussian, "max_versions = 2": "max_events_per_unit = 3\nmax_versions = 2"})
        found = run_json("report", "explain", "--report", "ads")
        assert "(6 attributes + 1 total) x 2 levels of entities x rho (" in found["formula"]
        assert "x 2 versions x 3^2 for the events of a person = " in found["formula"]
        rho = math.prod(factor["number"] for factor in found["factors"])
        told = found["guarantee"]
        assert (told["delta"], told["unit"], found["person"]) == (1e-6, "person", told["epsilon"])
        assert 3 * 4.2 < told["epsilon"] <= zcdp_epsilon(rho, 1e-6) + 1e-4
        assert "epsilon" not in found
        deviations = found["deviation"]["clicks"]
        assert deviations == found["deviation"]["impressions"]
        assert rho == pytest.approx(14 * 2 * 9 * sum(1 / (2 * each**2) for each in deviations.values()))
        assert [each["versions"] for each in found["versions"]] == [1, 2]
        assert found["laplace"]["cells"] == 42
        page = words(run_page("report", "explain"))
        assert f"epsilon {told['epsilon']:,} at delta 1e-06 for one person" in page
        assert "3^2 times the rho of one, which has epsilon 4.2 for one version" in page
        assert "a household of n has n^2 times the rho" in page
        assert f"{found['deviation']['clicks']['day']:g}" in page
        assert "deviation of a cell" in page
        assert "Laplace noise at the same epsilon and no delta would have" in page

    def test_gaussian_noise_is_told_wherever_a_promise_is(self, shop: Path) -> None:
        rewrite(shop, {"epsilon = 1\n": 'noise = "gaussian"\nepsilon = { total = 4.2 }\ndelta = 1e-6\n'})
        run_page("report", *ASK, *DAYS)
        for page in (run_page("policy", "check"), run_page("policy", "explain"), run_page(*RESEAL)):
            assert "at delta 1e-06" in words(page)
        assert run_json("policy", "check")["reports"][0]["guarantee"]["delta"] == 1e-6
        assert run_json("policy", "explain")["sources"][0]["event_delta"] == 1e-6

    def test_a_cap_makes_it_one_for_a_person(self, shop: Path) -> None:
        rewrite(shop, {"max_versions = 2": 'max_events_per_unit = 10\nlag = "90m"'})
        found = run_json("report", "explain", "--report", "ads")
        assert (found["person"], found["guarantee"]["unit"]) == (420.0, "person")
        page = words(run_page("report", "explain"))
        assert "x 10 events of a person = 420" in page
        assert "arrive within the lag, 90 minutes after" in page

    @pytest.mark.parametrize(
        ("changes", "formula", "why"),
        [
            (
                {'count = "rows", where = { kind = "impression" }': 'count = "rows"'},
                "(6 attributes + 1 total) x 3 levels of time x 2 statistics x 2 levels of entities x epsilon 1",
                "One event may count in all of impressions and clicks",
            ),
            (
                {"epsilon = 1\n": 'epsilon = { "3h" = 0.5, day = 1, month = 0.25 }\n'},
                "(6 attributes + 1 total) x 2 levels of entities x epsilon (0.5 in 3h + 1 in day + 0.25 in month)",
                "at most one of impressions and clicks",
            ),
            (
                {'count = "rows", where = { kind = "impression" }': 'count = "rows", epsilon = 0.5'},
                "x epsilon (0.5 + 0.5 + 0.5 of impressions + 1 + 1 + 1 of clicks)",
                "One event may count in all of impressions and clicks",
            ),
            (
                {'where = { kind = "click" }': 'where = { kind = "click" }, epsilon = 3'},
                "x epsilon 3 x 2 versions = 252",
                "clicks has the largest epsilon",
            ),
            (
                {'of = "impressions" }': 'of = "impressions" }\nseen = { count = "rows" }'},
                "x 2 statistics x",
                "clicks cannot count the same event: its filter and that of impressions cannot hold at once",
            ),
        ],
    )
    def test_the_product_is_the_guarantee(self, shop: Path, changes: dict[str, str], formula: str, why: str) -> None:
        rewrite(shop, changes)
        found = run_json("report", "explain", "--report", "ads")
        assert formula in found["formula"]
        assert why in " ".join(found["statistics"]["why"])
        product = 1.0
        for factor in found["factors"]:
            product *= factor["number"]
        assert product == pytest.approx(found["guarantee"]["epsilon"])
        run_page("report", "explain")

    def test_looking_begins_no_ledger(self, shop: Path) -> None:
        assert "There is no ledger yet" in run_page("report", "explain")
        assert run_json("report", "explain")["rows"][0]["sealed"] is None
        assert not list((shop / "books").iterdir())

    @pytest.mark.usefixtures("shop")
    def test_what_is_sealed_is_told(self) -> None:
        run_page("report", *ASK, *DAYS, "--granularity", "day")
        assert run_json("report", "explain", "--report", "ads")["sealed"] == {"places": 3, "highest": 1}
        assert "3 places are sealed, the highest in version 1." in run_page("report", "explain")

    def test_a_ledger_that_cannot_be_trusted_does_not_stop_it(self, shop: Path) -> None:
        (shop / "books" / "ledger.db").write_bytes(b"not a ledger" * 100)
        assert "What is sealed is not known" in run_page("report", "explain")

    def test_without_reports(self, shop: Path) -> None:
        text = (shop / "sfumato.toml").read_text("utf-8")
        before, _, rest = text.partition("[reports.ads]")
        rest = rest[rest.index("[budgets.b]") :].replace('entities = { account = ["a0"] }\n', "")
        measured = before + '[tables.ads.columns]\nregion = { domain = ["a"] }\n'
        (shop / "sfumato.toml").write_text(
            measured + '[tables.ads.measures]\nn = { count = "units" }\n' + rest, "utf-8"
        )
        result = invoke("report", "explain")
        assert result.exit_code == 3
        assert "[reports.<name>]" in result.stderr


class TestReseal:
    @pytest.fixture(autouse=True)
    def seal_days(self, shop: Path) -> None:
        """Days of the account a0 and of the campaign c1, which is the other's."""
        run_page("report", *ASK, *DAYS, "--granularity", "day")
        asked = ("--analyst", "ben", "--statistic", "clicks", "--entity", "campaign=c1")
        run_page("report", *asked, *DAYS, "--granularity", "day", "--attribute", "job_title")

    def seal_state(self) -> dict[str, Any]:
        found: dict[str, Any] = run_json("report", "explain", "--report", "ads")["sealed"]
        return found

    def numbers(self) -> list[int]:
        return [row["clicks"] for row in run_json("report", *ASK, *DAYS, "--granularity", "day")["rows"]]

    def test_where_nobody_can_be_asked_it_only_says_what_it_costs(self) -> None:
        before = self.numbers()
        page = words(run_page(*RESEAL))
        assert "sealed 6 places with 12 cells" in page
        assert "version 2 of at most 2" in page
        assert "epsilon 42 before, 84 after, for one event of this range" in page
        assert "Nothing was changed. To do it, run the same with --yes." in page
        found = run_json(*RESEAL)
        assert (found["done"], found["places"], found["cells"]) == (False, 6, 12)
        assert found["guarantee"] == {"unit": "event", "before": 42.0, "after": 84.0, "promised": 84.0}
        assert self.numbers() == before

    def test_it_lets_late_rows_in_once_and_is_then_refused(self, shop: Path) -> None:
        with duckdb.connect(str(shop / "ads.duckdb")) as connection:
            connection.execute("INSERT INTO ads SELECT * FROM ads WHERE kind = 'click' AND campaign = 'c0'")
            connection.execute("INSERT INTO ads SELECT * FROM ads WHERE kind = 'click' AND campaign = 'c0'")
        before = self.numbers()
        found = run_json(*RESEAL, "--entity", "campaign=c0", "--yes")
        assert (found["done"], found["places"]) == (True, 3)  # those of its account; nothing below is sealed
        after = self.numbers()
        assert sum(after) > 1.5 * sum(before)
        assert self.numbers() == after
        result = invoke(*RESEAL, "--yes")
        assert (result.exit_code, result.stdout) == (3, "")
        assert "raise max_versions of reports.ads above 2" in result.stderr
        assert self.numbers() == after

    def test_an_entity_takes_those_above_and_below_and_not_its_neighbours(self) -> None:
        assert run_json(*RESEAL, "--entity", "account=a0")["places"] == 3
        assert run_json(*RESEAL, "--entity", "account=a1")["places"] == 3  # its campaign c1
        assert run_json(*RESEAL, "--entity", "campaign=c0")["places"] == 3  # its account a0
        assert run_json(*RESEAL, "--entity", "campaign=c3")["places"] == 0  # a neighbour of c1

    def test_longer_ranges_that_meet_it_go_with_it(self) -> None:
        run_page("report", *ASK, *MARCH)
        found = run_json("report", "reseal", "--start", "2024-03-05 03:00", "--end", "2024-03-05 04:00")
        assert found["places"] == 3  # the day of each entity, and the month of one

    def test_done_twice_it_costs_once(self) -> None:
        assert "Sealed again" in run_page(*RESEAL, "--yes")
        assert "There is nothing to seal again" in run_page(*RESEAL, "--yes")
        assert self.seal_state()["highest"] == 1  # nothing is drawn yet
        self.numbers()
        assert self.seal_state()["highest"] == 2

    @pytest.mark.parametrize(("answer", "ends"), [("y\n", "Sealed again"), ("n\n", "Nothing was changed.")])
    def test_on_a_terminal_it_asks(self, monkeypatch: pytest.MonkeyPatch, answer: str, ends: str) -> None:
        monkeypatch.setattr(output, "is_interactive", lambda: True)
        result = invoke(*RESEAL, input=answer)
        assert result.exit_code == 0
        assert "Seal this range again?" in result.stderr
        assert result.stdout.index("What sealing again costs") < result.stdout.index(ends)

    def test_json_never_asks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(output, "is_interactive", lambda: True)
        assert run_json(*RESEAL)["done"] is False

    @pytest.mark.parametrize(
        ("arguments", "code", "problem"),
        [
            (("--start", "2024-03-05", "--end", "2024-03-05"), 3, "--end: must come after start"),
            (("--start", "soon", "--end", "2024-03-05"), 2, "--start: must be a date"),
            ((*DAYS, "--entity", "account=zz"), 3, "there is no account 'zz'"),
            ((*DAYS, "--entity", "creative=1"), 3, "--entity: must name one of account, campaign"),
            ((*DAYS, "--report", "adz"), 3, "there is no report 'adz'; did you mean ads?"),
        ],
    )
    def test_bad_input(self, arguments: tuple[str, ...], code: int, problem: str) -> None:
        result = invoke("report", "reseal", *arguments, "--yes")
        assert (result.exit_code, result.stdout) == (code, "")
        assert problem in result.stderr

    def test_in_python(self) -> None:
        with Session(load_config("sfumato.toml")) as session:
            dry = session.reseal("ads", start="2024-03-04", end="2024-03-07", dry=True)
            assert (dry.places, dry.version, dry.before, dry.after, dry.done) == (6, 2, 42, 84, False)
            assert session.reseal(start="2024-03-04", end="2024-03-07").done
            assert session.ledger.verify() == []


class TestWithoutATableOfEntities:
    def test_only_the_lowest_can_be_sealed_alone(self, shop: Path) -> None:
        with duckdb.connect(str(shop / "ads.duckdb")) as connection:
            connection.execute("ALTER TABLE ads ADD COLUMN account VARCHAR DEFAULT 'a0'")
        rewrite(shop, {'{ levels = ["account", "campaign"], table = "campaigns" }': '["account", "campaign"]'})
        run_page("report", *ASK, *DAYS, "--granularity", "day")
        result = invoke(*RESEAL, "--entity", "account=a0")
        assert result.exit_code == 3
        assert "--entity: no table of entities lists what is below account a0; name its campaign too" in result.stderr
        assert run_json(*RESEAL, "--entity", "account=a0", "--entity", "campaign=c0")["places"] == 3


class TestPolicy:
    @pytest.mark.usefixtures("shop")
    def test_check_tells_what_a_report_has(self) -> None:
        page = words(run_page("policy", "check"))
        assert "report ads" in page
        assert "job_title (3 public)" in page
        assert "epsilon 84 for one event; see: sfumato report explain" in page
        (report,) = run_json("policy", "check")["reports"]
        assert report["guarantee"] == {"epsilon": 84.0, "unit": "event"}

    def test_check_tells_what_is_wrong_with_a_report(self, shop: Path) -> None:
        rewrite(shop, {'time = "at"': 'time = "kind"'})
        result = invoke("policy", "check")
        assert result.exit_code == 1
        assert "reports.ads.time: must be a column of moments or of days" in words(result.stdout)

    def test_explain_points_to_the_guarantee_of_reports(self, shop: Path) -> None:
        page = words(run_page("policy", "explain"))
        assert "epsilon 84 for one event" in page
        assert "sfumato report explain --report ads" in page
        assert "May read every entity of the reports, as no `entities` limit them: ben." in page
        assert "every entity" not in run_page("policy", "explain", "--analyst", "anna")
        (shop / "ads.duckdb").unlink()
        found = run_json("policy", "explain")
        assert (found["reports"], found["read_every_entity"]) == ({"ads": None}, ["ben"])
