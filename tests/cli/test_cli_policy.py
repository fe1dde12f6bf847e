"""`sfumato policy`: limits that leave something open, and what reports on the same rows promise together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.config import load_config
from tests.helpers.rights import new_rights
from tests.helpers.worlds import World

pytestmark = pytest.mark.slow  # many configurations

REPORT = """
[reports.{name}]
table = "{table}"
time = "at"
zone = "{zone}"
levels = ["day", "month"]
epsilon = 0.5
{more}
[reports.{name}.statistics]
rows = {{ count = "rows" }}
"""
ANALYST = '\n[analysts.mallory]\nbudget = "partner"\n'


def run(world: World, *command: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, [*command, "--config", str(world.path)], env={"COLUMNS": "400"})
    assert result.exit_code == code, result.output
    return re.sub(r"\s+", " ", result.output)


def run_json(world: World, *command: str, code: int = 0) -> Any:
    result = CliRunner().invoke(main, [*command, "--config", str(world.path), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def report(name: str, zone: str = "UTC", table: str = "ads", more: str = "") -> str:
    return REPORT.format(name=name, zone=zone, table=table, more=more)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two reports, each on a table of its own, which can also be asked about."""
    made = new_rights(tmp_path / "world", analysts=ANALYST)
    text = made.path.read_text().partition("[reports.salaries]")[0]
    text = text.replace(
        '[tables.ads]\nengine = "local"\nsource = "ads"\nprivacy_unit = "member_id"\n',
        '[tables.ads]\nengine = "local"\nsource = "ads"\nprivacy_unit = "member_id"\n'
        '[tables.ads.columns]\njob_title = {}\n[tables.ads.measures]\npeople = { count = "units" }\n',
    )
    made.path.write_text(text + ANALYST)
    return made


def warnings(world: World, section: str) -> dict[str, str]:
    """The warnings of `policy check` about analysts, with these lines in mallory's section."""
    text = world.path.read_text()
    world.path.write_text(text + section)
    found = run_json(world, "policy", "check")["warnings"]
    page = run(world, "policy", "check")
    assert ("Warnings:" in page) == bool(found)
    assert all(each["problem"] in page for each in found)
    world.path.write_text(text)
    return {each["setting"]: each["problem"] for each in found if each["setting"].startswith("analysts.")}


class TestWarnings:
    ENTITIES = 'entities = { account = ["acme"] }\n'

    def test_entities_do_not_bind_questions(self, world: World) -> None:
        found = warnings(world, self.ENTITIES)
        assert found.keys() == {"analysts.mallory.entities"}
        [words] = found.values()
        assert "can count the rows of all entities in ads" in words
        for way_out in ("analysts.mallory.tables", "analysts.mallory.where", 'analysts.mallory.role = "reader"'):
            assert way_out in words

    @pytest.mark.parametrize(
        "section",
        [
            "",
            ENTITIES + 'role = "reader"\n',
            ENTITIES + 'role = "auditor"\n',
            ENTITIES + 'tables = ["engagements", "clicks"]\n',
            'tables = ["engagements"]\nwhere = "region = \'emea\'"\n',
        ],
    )
    def test_every_way_out_ends_the_warning(self, world: World, section: str) -> None:
        assert warnings(world, section) == {}

    ASKED = """
[tables.clicks.columns]
account = {}
campaign = {}
seniority = {}
[tables.clicks.measures]
people = { count = "units" }
"""

    @pytest.mark.parametrize(
        ("entities", "where", "is_silent"),
        [
            ('account = ["acme"]', "account = 'acme'", True),
            ('account = ["acme"]', "ACCOUNT IN ('acme') AND (campaign = 'a' OR campaign = 'b')", True),
            ('account = ["acme", "globex"]', "account IN ('globex', 'acme')", True),
            ('account = ["acme"], campaign = ["a"]', "campaign = 'a' OR account = 'acme' AND seniority = 'x'", True),
            ('account = ["acme"]', "(account = 'acme' OR campaign = 'a') AND account = 'acme'", True),
            ('campaign = [["acme", "launch"]]', "account = 'acme' AND campaign = 'launch'", True),
            ('account = ["acme"]', "seniority = 'entry'", False),
            ('account = ["acme"]', "account <> 'acme'", False),
            ('account = ["acme"]', "NOT account IN ('globex')", False),
            ('account = ["acme"]', "account IN ('acme', 'globex')", False),
            ('account = ["acme"]', "account BETWEEN 'acme' AND 'acmf'", False),
            ('account = ["acme"]', "account = 'ACME'", False),
            ('account = ["acme"]', "account = 'acme' OR seniority = 'entry'", False),
            ('account = ["acme"]', "campaign = 'acme'", False),
            ('campaign = [["acme", "launch"]]', "campaign = 'launch'", False),  # of any account
            ('campaign = [["acme", "launch"]]', "account = 'acme'", False),
            ('campaign = [["acme", "launch"]]', "account IN ('acme', 'globex') AND campaign = 'launch'", False),
        ],
    )
    def test_a_condition_has_to_list_the_same_entities(
        self, world: World, entities: str, where: str, is_silent: bool
    ) -> None:
        text = world.path.read_text().replace('privacy_unit = "account"\n', 'privacy_unit = "n"\n' + self.ASKED)
        world.path.write_text(text.replace('{ sum = "n" }', '{ count = "rows" }'))
        found = warnings(world, f'entities = {{ {entities} }}\ntables = ["clicks"]\nwhere = "{where}"\n')
        assert found.keys() == (set() if is_silent else {"analysts.mallory.entities"})

    SECOND = """
[tables.adverts]
engine = "local"
source = "ads"
privacy_unit = "member_id"
[tables.adverts.measures]
people = { count = "units" }
"""

    @pytest.mark.parametrize("tables", ["", 'tables = ["adverts"]\n', 'tables = ["ads", "adverts"]\n'])
    def test_another_table_over_the_rows_of_the_report_counts(self, world: World, tables: str) -> None:
        text = world.path.read_text().replace('people = { count = "units" }\n', "", 1)
        world.path.write_text(text.replace("[analysts.mallory]", f"{self.SECOND}[analysts.mallory]"))
        found = warnings(world, self.ENTITIES + tables)
        assert "of all entities in adverts;" in found.get("analysts.mallory.entities", "")

    def test_a_report_on_a_table_of_its_own_without_measures_is_silent(self, world: World) -> None:
        text = world.path.read_text().replace('people = { count = "units" }\n', "", 1)
        world.path.write_text(text.replace("[analysts.mallory]", f"{self.SECOND}[analysts.mallory]"))
        assert warnings(world, self.ENTITIES + 'tables = ["ads"]\n') == {}

    def test_a_condition_does_not_bind_reports(self, world: World) -> None:
        found = warnings(world, 'tables = ["ads"]\nwhere = "job_title = \'nurse\'"\n')
        assert found.keys() == {"analysts.mallory.where"}
        [words] = found.values()
        assert "can read every entity of ads" in words
        assert "analysts.mallory.entities" in words

    def test_a_condition_that_fits_no_table_is_a_difference(self, world: World) -> None:
        world.path.write_text(world.path.read_text() + "where = \"account = '7'\"\n")
        [problem] = run_json(world, "policy", "check", code=1)["problems"]
        assert problem["setting"] == "analysts.mallory.where"
        assert "analysts.mallory.tables" in problem["problem"]


class TestNoiseKey:
    @pytest.mark.parametrize("command", [["policy", "check"], ["estimate", "SELECT 1", "--analyst", "mallory"]])
    @pytest.mark.parametrize("key", [bytes(32), b"\xff" * 32, b"ab" * 16, b"short"])
    def test_a_key_that_can_be_guessed_is_refused(self, world: World, key: bytes, command: list[str]) -> None:
        load_config(world.path).key_file.write_bytes(key)
        problem = run_json(world, *command, code=2)
        assert problem["argument"] == "noise.key_file"
        assert key.hex() not in problem["detail"]

    def test_a_key_that_others_can_read_is_refused(self, world: World) -> None:
        load_config(world.path).key_file.chmod(0o644)
        assert "chmod 600" in run_json(world, "policy", "check", code=2)["detail"]

    def test_a_machine_without_the_key_may_check(self, world: World) -> None:
        load_config(world.path).key_file.unlink()
        run_json(world, "policy", "check")


class TestOneSource:
    """The world has the table payroll over the rows of engagements, and a report on ads, which can be asked about."""

    def test_second_names_and_reports_beside_questions_are_warned_of(self, world: World) -> None:
        found = {each["setting"]: each["problem"] for each in run_json(world, "policy", "check")["warnings"]}
        assert found.keys() == {"tables.payroll.source", "reports.ads.table"}
        assert found["tables.payroll.source"].startswith("has rows of tables.engagements too: ")
        assert found["reports.ads.table"].endswith("write tables.ads.cap")

    def test_a_total_is_told_of_each(self, world: World) -> None:
        found = run_json(world, "policy", "check")["totals"]
        assert [each["tables"] for each in found] == [["engagements", "payroll"], ["ads"], ["clicks"]]
        assert found == run_json(world, "policy", "explain")["sources"]
        page = run(world, "policy", "check")
        assert "engagements and payroll are 2 names for one source. All results about" in page
        assert "all results about the rows of ads: a report has no cap on the events" in page

    def test_views_are_named(self, world: World) -> None:
        with duckdb.connect(str(world.database)) as connection:
            connection.execute("CREATE VIEW seen AS SELECT * FROM engagements")
        text = world.path.read_text().replace('source = "engagements"', 'source = "seen"', 1)
        world.path.write_text(text)
        assert [each["views"] for each in run_json(world, "policy", "explain")["sources"]] == [
            ["engagements"],
            [],
            [],
            [],
        ]
        assert "engagements is a view: results about the tables beneath" in run(world, "policy", "explain")


class TestPlan:
    """`sfumato policy plan` reads and writes nothing."""

    def plan(self, *options: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["policy", "plan", *options], env={"COLUMNS": "120"})
        assert result.exit_code == code, result.output
        return result.output

    def test_it_says_what_an_epsilon_buys(self) -> None:
        page = self.plan("--epsilon", "3")
        assert re.sub(r"\s+", " ", page).startswith(
            "55 units and 55 calls per month, which promise epsilon 2.98 at delta 1e-07 to one person; a year of it: "
        )
        assert re.search(r"one list of ten +21 units and 1 call +± 26 +1.78 +2\b", page)
        assert "  [budgets.NAME]\n  epsilon_per = 0.15" in re.sub(r" +\n", "\n", page)

    def test_as_json(self) -> None:
        found = json.loads(self.plan("--epsilon", "1", "--epsilon-per", "0.1", "--resets", "never", "--json"))
        assert found["budget"]["epsilon_per"] == "1/10"
        assert found["year"] is None
        assert [each["times"] for each in found["buys"]] == [16, 16, 0]

    def test_it_compares_settings_and_says_what_attacks_achieve(self) -> None:
        page = re.sub(r" +", " ", self.plan("--epsilon", "3", "--people", "20000", "--questions", "100"))
        assert "0.15 * 55 2 ± 26 0.13 % 87 109 201 221" in page
        assert "list of ten 0.023 ± 170 1,303 1,432" in page
        assert "all of it 2.98 1e-07 95.17 %" in page
        assert "averaging the average of 30 answers to one count, rounded, is the count 15.74 %" in page
        assert "reconstruction share of 55 secrets guessed right from 55 counts 55.63 % 50.00 %" in page
        assert page.index("[budgets.NAME]") > page.index("averaging")

    def test_a_narrow_page_is_not_wider_than_the_terminal(self) -> None:
        result = CliRunner().invoke(main, ["policy", "plan", "--epsilon", "8"], env={"COLUMNS": "80"})
        assert max(map(len, result.output.splitlines())) <= 80

    def test_all_of_it_is_in_the_json(self) -> None:
        found = json.loads(self.plan("--epsilon", "3", "--resets", "weekly", "--questions", "5", "--json"))
        assert [each["what"] for each in found["odds"]] == [
            *("total", "histogram", "top_ten", "tenth", "period", "month", "year")
        ]
        assert found["attacks"][0]["attack"] == "averaging"
        assert found["enough"].keys() == {"total", "histogram", "top_ten"}
        assert len(found["settings"]) == 5
        assert found["section"].startswith("[budgets.NAME]\nepsilon_per = 0.15\n")
        assert found["buys"][1]["visible"] == {"half": 87, "most": 109, "above": "zero"}

    def test_it_draws_itself(self, tmp_path: Path) -> None:
        for name in ("plan.svg", "plan.json"):
            self.plan("--epsilon", "3", "--plot", str(tmp_path / name))
        assert (tmp_path / "plan.svg").read_text().startswith("<svg")
        spec = json.loads((tmp_path / "plan.json").read_text())
        assert spec["title"]["text"] == "What epsilon 3 buys per month"
        lines = [{point["line"] for point in panel["data"]["values"]} for panel in spec["hconcat"]]
        assert [len(each) for each in lines] == [2, 3]
        totals = {p["x"]: p["y"] for p in spec["hconcat"][0]["data"]["values"] if p["line"] == "totals"}
        assert totals[0.15] == 55
        assert "--plot: must end in" in self.plan("--epsilon", "3", "--plot", "plan.gif", code=2)

    def test_a_refusal_names_the_option(self) -> None:
        assert "--epsilon: buys nothing at epsilon_per 0.15" in self.plan("--epsilon", "0.1", code=2)
        assert "--delta-per: must be at most 5e-08" in self.plan("--epsilon", "3", "--delta-per", "1e-3", code=2)
        assert "--epsilon-per: must be greater than zero" in self.plan("--epsilon", "3", "--epsilon-per", "0", code=2)


class TestExplain:
    def test_it_says_who_may_see_what(self, world: World) -> None:
        world.path.write_text(world.path.read_text() + 'tables = ["engagements"]\nwhere = "region = \'emea\'"\n')
        page = run(world, "policy", "explain")
        assert "mallory (analyst): questions about engagements, of rows where region = 'emea'; no reports." in page
        assert "olga (analyst): questions about engagements, ads, payroll; the reports ads, clicks." in page
        found = run_json(world, "policy", "explain", "--analyst", "mallory")
        assert found["rights"]["mallory"]["tables"] == ["engagements"]
        assert [each["account"] for each in found["accounts"]] == ["analyst:mallory"]
        assert found["read_every_entity"] == []


class TestSums:
    ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland")

    def write(self, world: World, reports: str) -> None:
        text = world.path.read_text().partition("[tables.clicks]")[0]
        world.path.write_text(text + reports + ANALYST)

    def test_one_report_has_no_sum(self, world: World) -> None:
        self.write(world, report("one"))
        assert run_json(world, "policy", "check")["sums"] == []
        assert run_json(world, "report", "explain", "--report", "one")["together"] is None

    def test_the_same_report_under_six_names_is_six_draws(self, world: World) -> None:
        self.write(world, "".join(report(f"name{number}", zone) for number, zone in enumerate(self.ZONES)))
        [found] = run_json(world, "policy", "check")["sums"]
        assert (found["tables"], found["unit"], found["epsilon"]) == (["ads"], "event", 6.0)
        assert found["parts"] == {f"report name{number}": 1.0 for number in range(6)}
        assert "epsilon 6 for one event, over all of them" in run(world, "policy", "check")
        assert run_json(world, "report", "explain", "--report", "name3")["together"] == found
        page = run(world, "report", "explain", "--report", "name3")
        assert "name3: epsilon 1 for one event" in page
        assert "epsilon 6 for one event, over all of them" in page

    def test_another_name_of_the_table_is_the_same_source(self, world: World) -> None:
        alias = '[tables.adverts]\nengine = "local"\nsource = "ads"\nprivacy_unit = "member_id"\n'
        self.write(world, alias + report("one") + report("two", table="adverts"))
        [found] = run_json(world, "policy", "check")["sums"]
        assert (found["tables"], found["epsilon"]) == (["ads", "adverts"], 2.0)

    def test_events_and_people_are_apart(self, world: World) -> None:
        cap = "max_events_per_unit = 10"
        self.write(world, report("a") + report("b") + report("c", more=cap) + report("d", more=cap))
        events, people = run_json(world, "policy", "check")["sums"]
        assert (events["unit"], events["epsilon"], [*events["parts"]]) == ("event", 2.0, ["report a", "report b"])
        assert (people["unit"], people["epsilon"], [*people["parts"]]) == ("person", 20.0, ["report c", "report d"])

    def test_reports_on_other_rows_are_not_added(self, world: World) -> None:
        found = run_json(world, "policy", "check")
        assert [each["report"] for each in found["reports"]] == ["ads", "clicks"]
        assert found["sums"] == []
